/* For the hugetlb_*.c programs: the pool of 2 MiB pages and its counters. Every program leaves them as it found them. */
#ifndef HUGETLB_TEST_H
#define HUGETLB_TEST_H

#include "mm_test.h"

#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/statfs.h>

#define HUGE			(2ul << 20)
#define GIB			(1ul << 30)
#define HUGE_2M			(21 << 26)	/* MAP_HUGE_*, MFD_HUGE_*, SHM_HUGE_* */
#define HUGE_1G			(30 << 26)
#define HUGE_ANON		(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_2M)
#define HUGE_SHARED		(MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_2M)
#ifndef FALLOC_FL_ZERO_RANGE
#define FALLOC_FL_COLLAPSE_RANGE 8
#define FALLOC_FL_ZERO_RANGE	16
#endif
#ifndef MFD_HUGETLB
#define MFD_HUGETLB		4u
#endif
#ifndef SHM_HUGETLB
#define SHM_HUGETLB		04000
#endif
#ifndef SHM_NORESERVE
#define SHM_NORESERVE		010000
#endif
#define POOL			"/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define POOL_1G			"/sys/kernel/mm/hugepages/hugepages-1048576kB/"

struct pool { long total, free, rsvd, surplus; };

__attribute__((unused))
static long read_number(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY);

	MUST(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return atol(text);
}

__attribute__((unused))
static struct pool pool_now(void)
{
	return (struct pool){ read_number(POOL "nr_hugepages"), read_number(POOL "free_hugepages"), read_number(POOL "resv_hugepages"),
			      read_number(POOL "surplus_hugepages") };
}

/* Free and reserved pages; the rest is told only when these are wrong. */
#define CHECK_POOL(want_free, want_rsvd)						\
	do {										\
		struct pool p_ = pool_now();						\
		if (p_.free != (want_free) || p_.rsvd != (want_rsvd)) {			\
			printf("%s:%d: expected Free %ld Rsvd %ld, got Total %ld Free %ld Rsvd %ld Surp %ld\n", __FILE__, __LINE__, \
			       (long)(want_free), (long)(want_rsvd), p_.total, p_.free, p_.rsvd, p_.surplus); \
			__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);	\
		}									\
	} while (0)

__attribute__((unused))
static int try_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), error = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

__attribute__((unused))
static void set_number(const char *path, long n)
{
	char text[32];

	sprintf(text, "%ld", n);
	write_file(path, text);
}

/* The pool has @n pages, none in use. Pages beyond what memory can give would make every number below wrong. */
__attribute__((unused))
static void pool_begin(long n)
{
	set_number(POOL "nr_overcommit_hugepages", 0);
	set_number(POOL "nr_hugepages", n);
	struct pool p = pool_now();
	if (p.total != n || p.free != n || p.rsvd || p.surplus) {
		printf("cannot go on: asked for %ld huge pages, have Total %ld Free %ld Rsvd %ld Surp %ld\n", n, p.total, p.free, p.rsvd, p.surplus);
		fflush(stdout);
		_exit(1);
	}
}

/* As it began; then the pages go back. */
__attribute__((unused, noreturn))
static void pool_end(long n)
{
	struct pool p = pool_now();

	CHECK_EQUAL(n, p.total);
	CHECK_EQUAL(n, p.free);
	CHECK_EQUAL(0, p.rsvd);
	CHECK_EQUAL(0, p.surplus);
	set_number(POOL "nr_overcommit_hugepages", 0);
	set_number(POOL "nr_hugepages", 0);
	p = pool_now();
	CHECK_EQUAL(0, p.total);
	test_end();
}

__attribute__((unused))
static char *map_huge(size_t pages, int prot, int flags)
{
	char *p = mmap(NULL, pages * HUGE, prot, flags, -1, 0);

	MUST(p != MAP_FAILED);
	return p;
}

__attribute__((unused))
static int huge_memfd(unsigned int flags)
{
	int fd = (int)syscall(SYS_memfd_create, "huge", MFD_HUGETLB | HUGE_2M | flags);

	MUST(fd >= 0);
	return fd;
}

__attribute__((unused))
static char *map_fd(int fd, size_t pages, int prot, int flags, off_t page)
{
	char *p = mmap(NULL, pages * HUGE, prot, flags, fd, page * (off_t)HUGE);

	MUST(p != MAP_FAILED);
	return p;
}

__attribute__((unused))
static void unmap_huge(void *p, size_t pages)
{
	MUST(munmap(p, pages * HUGE) == 0);
}

/* mount -t hugetlbfs; 0 or errno. */
__attribute__((unused))
static int mount_huge(const char *dir, const char *options)
{
	mkdir(dir, 0755);
	return mount("none", dir, "hugetlbfs", 0, options) ? errno : 0;
}

#endif
