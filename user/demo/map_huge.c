/*
 * Huge pages to look at with `make map`: two processes that share a PMD table, and a file of which some pages are there, some promised and
 * some neither.
 *
 *	musl-gcc -static -O2 -o build/map_huge user/demo/map_huge.c
 *	make map ADD=build/map_huge CMD=/t/map_huge APPEND=hugepages=24
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE	(2ul << 20)
#define GIB	(1ul << 30)
#define MFD_HUGE	4u

static void picture(const char *label)
{
	char command[128];

	snprintf(command, sizeof(command), "/t/map-point %s", label);
	if (system(command) != 0)
		exit(1);
}

static char *map(unsigned long at, size_t len, int prot, int flags, int fd)
{
	char *p = mmap((void *)at, len, prot, flags | MAP_FIXED_NOREPLACE, fd, 0);

	if (p == MAP_FAILED) {
		perror("mmap of huge pages (is there a pool? hugepages=24)");
		exit(1);
	}
	return p;
}

int main(void)
{
	int whole = (int)syscall(SYS_memfd_create, "whole-gib", MFD_HUGE), some = (int)syscall(SYS_memfd_create, "some-pages", MFD_HUGE);
	char *shared, *part, *own;

	if (whole < 0 || some < 0 || ftruncate(whole, (off_t)GIB) || ftruncate(some, 8 * (off_t)HUGE))
		return 1;
	/* A whole GiB, without promises: what two processes map like that has one PMD table. */
	shared = map(0x600000000000, GIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, whole);
	for (int i = 0; i < 5; i++)
		shared[(size_t)i * HUGE] = 1;
	/* Six pages with promises; the last two of the file have none. */
	part = map(0x610000000000, 6 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, some);
	own = map(0x620000000000, 4 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	part[0] = own[0] = 1;
	picture("1-before-fork");

	pid_t pid = fork();

	if (pid == 0) {
		shared[7 * HUGE] = 1;		/* into the shared table: there for both */
		part[3 * HUGE] = 1;		/* takes a promised page */
		own[0] = 2;			/* a copy, which nobody had promised */
		picture("2-child-wrote-three-pages");
		if (munmap(shared, GIB))
			_exit(1);
		picture("3-child-left-the-table");
		_exit(0);
	}
	int status;
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}
