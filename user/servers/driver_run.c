/*
 * driver-run: opens what a ring-3 server may use, gives up every right, and becomes the server.
 *
 *	driver-run [--pci VENDOR:DEVICE]... [--family N]... [--mount DIRECTORY] [--uid USER] [--own DIRECTORY]... -- PROGRAM [ARGUMENT]...
 *
 *	--pci		the first function with one of these ids: all its files, and a /dev/dma bound to it. Environment FL_PCI
 *			names their descriptors. No such function: the server runs without a device, FL_PCI unset
 *	--family	a port that serves this socket family; environment FL_PORT is its receiving end. One port for all of them
 *	--mount		the same port serves the tree of files at DIRECTORY: mounted if it is not yet, else handed over from the dead predecessor
 *	--own		a directory that belongs to USER, made if it is not there: where the server may leave files
 *	--uid		who the server is. Ids, groups and capabilities of root are gone, and no program that it executes gets them back
 *
 * What the server then holds is what it inherited, and nothing else: descriptors are this system's capabilities.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "user/include/fl_pci.h"
#include "user/include/port.h"

#define MAX_IDS		16
#define MAX_FAMILIES	8
#define SYSFS_PCI	"/sys/bus/pci/devices"
#define BUSY_SECONDS	5		/* the one before us may be dying just now */

static const char *ids[MAX_IDS];
static int families[MAX_FAMILIES];
static int nr_ids, nr_families;
static const char *tree;

__attribute__((format(printf, 1, 2), noreturn))
static void fail(const char *format, ...)
{
	int err = errno;
	va_list ap;

	fprintf(stderr, "driver-run: ");
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, err ? ": %s\n" : "\n", strerror(err));
	exit(1);
}

static void usage(void)
{
	errno = 0;
	fail("usage: driver-run [--pci VENDOR:DEVICE]... [--family N]... [--mount DIRECTORY] [--uid USER] [--own DIRECTORY]... -- PROGRAM [ARGUMENT]...");
}

/* -- the device -- */

/* "1af4:1041" of a function in sysfs; false: cannot be read. */
static bool read_id(const char *name, char id[10])
{
	char path[320], text[256];
	unsigned int vendor, device;
	int fd;

	snprintf(path, sizeof(path), SYSFS_PCI "/%s/uevent", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = 0;
	char *at = strstr(text, "PCI_ID=");

	if (!at || sscanf(at, "PCI_ID=%4x:%4x", &vendor, &device) != 2)
		return false;
	snprintf(id, 10, "%04x:%04x", vendor & 0xffff, device & 0xffff);
	return true;
}

static bool wanted(const char *id)
{
	for (int i = 0; i < nr_ids; i++)
		if (!strcasecmp(ids[i], id))
			return true;
	return false;
}

/* The lowest slot that fits; "" if none does. */
static void find_device(char slot[16], char id[10])
{
	DIR *d = opendir(SYSFS_PCI);
	struct dirent *e;
	char this[10];

	slot[0] = 0;
	while (d && (e = readdir(d))) {
		const char *name = e->d_name;		/* 0000:00:02.0; /dev/pci has it without the segment */

		if (strlen(name) != 12 || !read_id(name, this) || !wanted(this) || (slot[0] && strcmp(name + 5, slot) > 0))
			continue;
		snprintf(slot, 16, "%s", name + 5);
		memcpy(id, this, 10);
	}
	if (d)
		closedir(d);
}

/* Not close-on-exec: this is what we hand over. A file that is still held by a predecessor becomes free when that is dead. */
static int open_file(const char *slot, const char *name)
{
	struct timespec pause = { .tv_nsec = 20000000 };
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/pci/%s/%s", slot, name);
	for (int i = 0; (fd = open(path, O_RDWR)) < 0 && errno == EBUSY && i < BUSY_SECONDS * 50; i++)
		nanosleep(&pause, NULL);
	return fd;
}

static void open_device(void)
{
	char slot[16], id[10], text[256], name[8];
	int n, config, irq, dma;

	find_device(slot, id);
	if (!slot[0])
		return;
	config = open_file(slot, "config");
	irq = open_file(slot, "irq");
	dma = open("/dev/dma", O_RDWR);
	if (config < 0 || irq < 0 || dma < 0 || ioctl(dma, FL_DMA_BIND, config))
		fail("cannot open device %s", slot);
	n = snprintf(text, sizeof(text), "slot=%s id=%s config=%d irq=%d dma=%d", slot, id, config, irq, dma);
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "bar%d", i);
		int fd = open_file(slot, name);

		if (fd >= 0)
			n += snprintf(text + n, sizeof(text) - (size_t)n, " bar%d=%d", i, fd);
		else if (errno != ENOENT)
			fail("cannot open %s of device %s", name, slot);
	}
	setenv("FL_PCI", text, 1);
}

/* -- the port -- */

/* A mount outlives its servers: the next one takes it over. */
static void serve_tree(int receiver)
{
	struct timespec pause = { .tv_nsec = 20000000 };
	char options[32];
	int ret;

	if (mkdir(tree, 0755) && errno != EEXIST)
		fail("cannot make %s", tree);
	snprintf(options, sizeof(options), "fd=%d", receiver);
	for (int n = 0; (ret = mount(NULL, tree, NULL, MS_REMOUNT, options)) && errno == EBUSY && n < BUSY_SECONDS * 50; n++)
		nanosleep(&pause, NULL);
	if (ret && errno == EINVAL)			/* nothing of the kind is mounted there yet */
		ret = mount("server", tree, "server", 0, options);
	if (ret)
		fail("cannot serve %s", tree);
}

static void make_port(void)
{
	struct timespec pause = { .tv_nsec = 20000000 };
	char text[16];
	int fds[2];
	long ret;

	ret = port_create(fds, 0);
	if (ret < 0) {
		errno = (int)-ret;
		fail("cannot create a port");
	}
	for (int i = 0; i < nr_families; i++) {
		for (int n = 0; (ret = family_claim(fds[0], families[i])) == -EBUSY && n < BUSY_SECONDS * 50; n++)
			nanosleep(&pause, NULL);
		if (ret < 0) {
			errno = (int)-ret;
			fail("cannot claim family %d", families[i]);
		}
	}
	if (tree)
		serve_tree(fds[0]);
	close(fds[1]);
	snprintf(text, sizeof(text), "%d", fds[0]);
	setenv("FL_PORT", text, 1);
}

/* -- rights -- */

static void own_directory(const char *path, const struct passwd *who)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		fail("cannot make %s", path);
	if (who && chown(path, who->pw_uid, who->pw_gid))
		fail("cannot hand over %s", path);
}

/* With the ids go the capabilities: permitted and effective sets are emptied when no id is 0 any more. */
static void become(const struct passwd *who)
{
	if (setgroups(0, NULL) || setresgid(who->pw_gid, who->pw_gid, who->pw_gid) || setresuid(who->pw_uid, who->pw_uid, who->pw_uid))
		fail("cannot become %s", who->pw_name);
	if (who->pw_uid && setuid(0) == 0)
		fail("still root");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("cannot give up privileges for good");
}

int main(int argc, char **argv)
{
	const struct passwd *who = NULL;
	const char *own[MAX_IDS];
	int nr_own = 0, i;

	for (i = 1; i < argc && strcmp(argv[i], "--"); i += 2) {
		const char *value = argv[i + 1];

		if (!value)
			usage();
		if (!strcmp(argv[i], "--pci") && nr_ids < MAX_IDS)
			ids[nr_ids++] = value;
		else if (!strcmp(argv[i], "--family") && nr_families < MAX_FAMILIES)
			families[nr_families++] = atoi(value);
		else if (!strcmp(argv[i], "--mount") && !tree)
			tree = value;
		else if (!strcmp(argv[i], "--own") && nr_own < MAX_IDS)
			own[nr_own++] = value;
		else if (!strcmp(argv[i], "--uid"))
			who = getpwnam(value);
		else
			usage();
		if (!strcmp(argv[i], "--uid") && !who) {
			errno = 0;
			fail("no user '%s'", value);
		}
	}
	if (i + 1 >= argc)
		usage();
	for (int n = 0; n < nr_own; n++)
		own_directory(own[n], who);
	if (nr_ids)
		open_device();
	if (nr_families || tree)
		make_port();
	if (who)
		become(who);
	execv(argv[i + 1], argv + i + 1);
	fail("cannot run %s", argv[i + 1]);
}
