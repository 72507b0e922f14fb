/* The cost of files that a ring-3 server provides (docs/microkernel.md): a page-in, and a step of a path walk. Faultline only. */
#define _GNU_SOURCE
#include "cost.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../include/fl_fs.h"
#include "../include/port.h"

#define PAGE	4096ul
#define TREE	"/tmp/served"
#define SIZE	(64ul << 20)

/* One file of zeros, under whatever name, as fast as it can be answered: what is measured is the way there and back. */
static void serve(int fd)
{
	static char zeros[PAGE], buf[PAGE];
	struct fl_msg m = { .buf = (uintptr_t)buf, .room = sizeof(buf) };

	while (port_reply_receive(fd, &m, -1) == 0) {
		struct fl_fs_ans a = { .node = 2, .mode = S_IFREG | 0644, .size = SIZE, .nlink = 1 };
		struct fl_fs_req r;

		memcpy(&r, m.word, sizeof(r));
		if (r.op == FL_FS_READ)
			a.result = port_lent_write(fd, m.token, 0, zeros, r.size);
		memcpy(m.word, &a, sizeof(a));
		m.len = 0;
	}
	_exit(0);
}

/* 0: this kernel has no servers. */
static pid_t mount_served(void)
{
	char options[32];
	int p[2];

	if (port_create(p, 0) < 0)
		return 0;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0)
		serve(p[0]);
	snprintf(options, sizeof(options), "fd=%d", p[0]);
	mkdir(TREE, 0755);
	if (mount("cost", TREE, "server", 0, options))
		die("mount");
	close(p[0]);
	close(p[1]);
	return pid;
}

static void unmount_served(pid_t pid)
{
	if (umount(TREE))
		die("umount");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A read fault on a shared mapping: away to the server, back, and into the table. */
uint64_t run_served_page_in(unsigned long n)
{
	pid_t pid = mount_served();

	if (!pid)
		return 0;
	int fd = open(TREE "/f", O_RDONLY);
	volatile char *p = mmap(NULL, n * PAGE, PROT_READ, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED)
		die("served file");
	uint64_t start = ticks();

	for (unsigned long i = 0; i < n; i++)
		(void)p[i * PAGE];
	uint64_t end = ticks();

	munmap((void *)p, n * PAGE);
	close(fd);
	unmount_served(pid);
	return end - start;
}

uint64_t run_served_stat(unsigned long n)
{
	pid_t pid = mount_served();
	struct stat st;

	if (!pid)
		return 0;
	uint64_t start = ticks();

	for (unsigned long i = 0; i < n; i++)
		if (stat(TREE "/f", &st))
			die("stat");
	uint64_t end = ticks();

	unmount_served(pid);
	return end - start;
}
