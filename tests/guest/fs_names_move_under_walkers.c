/*
 * Directories are renamed, exchanged, removed and mounted over while other threads walk, list, and ask where they are. What
 * they may see: the name or its absence, never anything else; and at the end the tree is as it should be and no memory is
 * missing.
 * cpus: 1 4
 * timeout: 120
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "test.h"

static int stop;
static int stopped(void) { return __atomic_load_n(&stop, __ATOMIC_RELAXED); }

/* a/b/c/d/... moves between two places. */
static void *mover(void *arg)
{
	(void)arg;
	while (!stopped()) {
		MUST(rename("/tmp/w/one/x", "/tmp/w/two/y") == 0);
		MUST(rename("/tmp/w/two/y", "/tmp/w/one/x") == 0);
	}
	return NULL;
}

static void *exchanger(void *arg)
{
	(void)arg;
	while (!stopped())
		MUST(syscall(SYS_renameat2, AT_FDCWD, "/tmp/w/left/dir", AT_FDCWD, "/tmp/w/right/file", 2) == 0);
	return NULL;
}

static void *walker(void *arg)
{
	struct stat st;

	(void)arg;
	while (!stopped()) {
		int a = stat("/tmp/w/one/x/deep/deeper/file", &st);
		MUST(a == 0 || errno == ENOENT);
		a = stat("/tmp/w/two/y/deep/../deep/deeper/file", &st);
		MUST(a == 0 || errno == ENOENT);
		a = open("/tmp/w/left/dir", O_RDONLY);
		MUST(a >= 0);
		close(a);
	}
	return NULL;
}

/* Where am I? One of the two places, whole. */
static void *asker(void *arg)
{
	char path[PATH_MAX], proc[64];
	int fd = open("/tmp/w/one/x/deep/deeper", O_RDONLY | O_DIRECTORY);

	(void)arg;
	if (fd < 0)
		fd = open("/tmp/w/two/y/deep/deeper", O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return NULL;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	while (!stopped()) {
		ssize_t n = readlink(proc, path, sizeof(path) - 1);
		MUST(n > 0);
		path[n] = 0;
		MUST(!strcmp(path, "/tmp/w/one/x/deep/deeper") || !strcmp(path, "/tmp/w/two/y/deep/deeper"));
		struct stat st;
		MUST(fstatat(fd, "../deeper/../../deep/deeper/file", &st, 0) == 0);
	}
	close(fd);
	return NULL;
}

/* Two threads make and remove the same names; every result is one that some order explains. */
static void *maker(void *arg)
{
	char name[64];
	unsigned seed = (unsigned)(long)arg;

	while (!stopped()) {
		snprintf(name, sizeof(name), "/tmp/w/both/n%d", rand_r(&seed) % 8);
		switch (rand_r(&seed) % 4) {
		case 0:
			MUST(mkdir(name, 0755) == 0 || errno == EEXIST);
			break;
		case 1:
			MUST(rmdir(name) == 0 || errno == ENOENT || errno == ENOTDIR);
			break;
		case 2: {
			int fd = open(name, O_CREAT | O_RDWR, 0644);
			MUST(fd >= 0 || errno == EISDIR);
			if (fd >= 0)
				close(fd);
			break;
		}
		default:
			MUST(unlink(name) == 0 || errno == ENOENT || errno == EISDIR);
		}
	}
	return NULL;
}

static void *lister(void *arg)
{
	(void)arg;
	while (!stopped()) {
		DIR *d = opendir("/tmp/w/both");
		struct dirent *e;
		int n = 0;

		MUST(d);
		while ((e = readdir(d)))
			n++;
		MUST(n >= 2 && n <= 10);
		closedir(d);
	}
	return NULL;
}

static void *mounter(void *arg)
{
	(void)arg;
	while (!stopped()) {
		MUST(mount("none", "/tmp/w/mnt", "tmpfs", 0, NULL) == 0);
		int fd = open("/tmp/w/mnt/f", O_CREAT | O_RDWR, 0644);
		MUST(fd >= 0);
		close(fd);
		MUST(umount2("/tmp/w/mnt", MNT_DETACH) == 0);
	}
	return NULL;
}

static void *mount_walker(void *arg)
{
	struct stat st;

	(void)arg;
	while (!stopped()) {
		MUST(stat("/tmp/w/mnt/f", &st) == 0 || errno == ENOENT);
		/* Detached between "mnt" and "..", it has no way up: then there is no "both" in it. */
		MUST(stat("/tmp/w/mnt/../both", &st) == 0 || errno == ENOENT);
	}
	return NULL;
}

static void touch(const char *name) { int fd = open(name, O_CREAT | O_WRONLY, 0644); MUST(fd >= 0); close(fd); }

static void round_of(int milliseconds)
{
	static void *(*const work[])(void *) = { mover, exchanger, walker, asker, maker, maker, lister, mounter, mount_walker };
	enum { N = sizeof(work) / sizeof(work[0]) };
	pthread_t t[N];

	stop = 0;
	for (long i = 0; i < N; i++)
		MUST(!pthread_create(&t[i], NULL, work[i], (void *)(i + 1)));
	usleep((unsigned)milliseconds * 1000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
}

int main(void)
{
	static const char *const dirs[] = { "", "/one", "/one/x", "/one/x/deep", "/one/x/deep/deeper", "/two", "/left", "/left/dir", "/right", "/both", "/mnt" };
	char name[128];

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(name, sizeof(name), "/tmp/w%s", dirs[i]);
		MUST(mkdir(name, 0755) == 0);
	}
	touch("/tmp/w/one/x/deep/deeper/file");
	touch("/tmp/w/right/file");

	round_of(1000);
	usleep(300000);
	long before = meminfo("MemFree"), after = 0;
	for (int i = 0; i < 3; i++)
		round_of(1000);
	for (int i = 0; i < 50; i++) {
		usleep(100000);
		after = meminfo("MemFree");
		if (before - after < 2048)
			break;
	}
	printf("free before %ld, after %ld KiB\n", before, after);
	CHECK(before - after < 2048);

	MUST(system("rm -rf /tmp/w") == 0);
	test_end();
}
