/* Files of huge pages, and the pool. */
#ifndef HUGE_H
#define HUGE_H

#include "../../lab4/model/windows.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define HUGE	(2l << 20)
#define GIB	(1l << 30)
#define SLOT(n)	((char *)0x200000000000 + (n) * GIB)
#define PRIVATE	(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB)

static long number_in(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		die(path);
	close(fd);
	return atol(text);
}

#define POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/"
static long free_pages(void) { return number_in(POOL "free_hugepages"); }
static long promises(void) { return number_in(POOL "resv_hugepages"); }

/* What was given back may wait for the end of a grace period. */
__attribute__((unused))
static void pool_must_be(long free, long promised, const char *otherwise)
{
	for (int i = 0; i < 10 && (free_pages() != free || promises() != promised); i++)
		pass_time();
	if (free_pages() != free || promises() != promised)
		die(otherwise);
}

__attribute__((unused))
static int huge_file(long size)
{
	int fd = (int)syscall(SYS_memfd_create, "huge", 4u /* MFD_HUGETLB */ | 21u << 26);

	if (fd < 0 || ftruncate(fd, size))
		die("memfd");
	return fd;
}

/* In slot @n, promised nothing. */
__attribute__((unused))
static char *map_slot(int n, int fd, int prot)
{
	char *p = mmap(SLOT(n), GIB, prot, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);

	if (p != SLOT(n))
		die("mmap");
	return p;
}

__attribute__((unused))
static volatile long *word(char *map, long page)
{
	return (volatile long *)(map + page * HUGE);
}

__attribute__((unused))
static int read_long(volatile long *p, long *value)
{
	int sig = sigsetjmp(back, 0);

	if (!sig)
		*value = *p;
	return sig;
}

#endif
