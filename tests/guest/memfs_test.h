/* For the memfs_*.c programs: a tree of files at TREE, from memfs in ring 3, or on Linux from tmpfs, which knows what is right. */
#ifndef MEMFS_TEST_H
#define MEMFS_TEST_H

#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "test.h"

#define TREE	"/tmp/tree"
#define PAGE	4096ul
#define IMAGE	"/tmp/memfs"

static pid_t memfs;		/* 0: tmpfs */

__attribute__((unused))
static int has_servers(void)
{
	char text[1024] = "";
	int fd = open("/proc/filesystems", O_RDONLY);

	MUST(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return !!strstr(text, "\tserver\n");
}

/* Until a server answers: then a name that does not exist is ENOENT, before EIO. */
__attribute__((unused))
static void wait_for_server(void)
{
	while (access(TREE "/no such name", F_OK) == 0 || errno != ENOENT || access(TREE "/.", F_OK))
		usleep(2000);
}

__attribute__((unused))
static void start_memfs(void)
{
	memfs = fork();
	MUST(memfs >= 0);
	if (memfs == 0) {
		execl("/sbin/driver-run", "driver-run", "--own", IMAGE, "--mount", TREE, "--", "/sbin/memfs", IMAGE "/image", (char *)NULL);
		perror("driver-run");
		_exit(127);
	}
	struct statfs st;

	while (statfs(TREE, &st) || st.f_type != 0x73727672) {
		int status;

		MUST(waitpid(memfs, &status, WNOHANG) == 0);
		usleep(2000);
	}
	wait_for_server();
}

__attribute__((unused))
static void kill_memfs(void)
{
	int status;

	MUST(kill(memfs, SIGKILL) == 0);
	MUST(waitpid(memfs, &status, 0) == memfs);
}

__attribute__((unused))
static void mount_tree(void)
{
	mkdir(TREE, 0755);
	if (has_servers())
		start_memfs();
	else
		MUST(mount("none", TREE, "tmpfs", 0, "mode=755") == 0);
}

__attribute__((unused))
static void unmount_tree(void)
{
	CHECK(umount(TREE) == 0);
	if (memfs) {
		int status = -1;

		MUST(waitpid(memfs, &status, 0) == memfs);	/* it is told, and goes */
		CHECK_EQUAL(0, status);
	}
	rmdir(TREE);
}

/* Clean pages that nobody maps leave the cache: what is read next comes from the server. (RAM files of Linux keep theirs.) */
__attribute__((unused))
static void drop_pages(int fd)
{
	CHECK_EQUAL(0, posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

/* Does this access bring a SIGBUS? */
static sigjmp_buf bus_jump;
static void on_bus(int sig) { (void)sig; siglongjmp(bus_jump, 1); }

__attribute__((unused))
static int is_bus_error(volatile char *at, int write)
{
	struct sigaction old, sa = { .sa_handler = on_bus };
	volatile int bus = 0;

	MUST(sigaction(SIGBUS, &sa, &old) == 0);
	if (sigsetjmp(bus_jump, 1))
		bus = 1;
	else if (write)
		*at = 'w';
	else
		(void)*at;
	sigaction(SIGBUS, &old, NULL);
	return bus;
}

#endif
