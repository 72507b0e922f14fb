/*
 * For the pmd_share_*.c programs. Whether a PMD table is shared shows in the minor faults on both kernels: where it is, one fault
 * makes every page of the GiB accessible that somebody has faulted in already; where it is not, each page costs its own.
 */
#ifndef PMD_SHARE_TEST_H
#define PMD_SHARE_TEST_H

#include "mm_test.h"

#define HUGE		(2ul << 20)
#define GIB		(1ul << 30)
#define WINDOW		((char *)0x600000000000ul)	/* GiB-aligned, and far from everything else */
#define PAGES		8				/* touched in a window; the pool holds a few more */

#ifndef MFD_HUGETLB
#define MFD_HUGETLB	4u
#endif

/* A file of @gib GiB on huge pages, nothing of it allocated. */
__attribute__((unused))
static int huge_file(unsigned long gib)
{
	int fd = (int)syscall(SYS_memfd_create, "pmd_share", MFD_HUGETLB);

	MUST(fd >= 0);
	MUST(!ftruncate(fd, (off_t)(gib * GIB)));
	return fd;
}

__attribute__((unused))
static char *map_huge(char *at, unsigned long len, int prot, int flags, int fd, unsigned long off)
{
	char *p = mmap(at, len, prot, flags | MAP_FIXED | MAP_NORESERVE, fd, (off_t)off);

	MUST(p == at);
	return p;
}

__attribute__((unused))
static long minor_faults(void)
{
	struct rusage r;

	MUST(!getrusage(RUSAGE_SELF, &r));
	return r.ru_minflt;
}

/* Reads the first byte of @n huge pages from @p on; returns the minor faults that took, and checks the bytes: page i holds first + i. */
__attribute__((unused))
static long faults_reading(const volatile char *p, int n, int first)
{
	volatile char got[PAGES * 2];
	long before;

	for (int i = 0; i < n; i++)
		got[i] = 0;			/* no fault on our own stack is to count: it begins at a random place in its page */
	before = minor_faults();
	for (int i = 0; i < n; i++)
		got[i] = p[(unsigned long)i * HUGE];
	before = minor_faults() - before;
	for (int i = 0; i < n; i++)
		CHECK_EQUAL(first + i, got[i]);
	return before;
}

__attribute__((unused))
static void fill(volatile char *p, int n, int first)
{
	for (int i = 0; i < n; i++)
		p[(unsigned long)i * HUGE] = (char)(first + i);
}

/* Runs @f in a child; its failures count here. */
__attribute__((unused))
static void in_checked_child(void (*f)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		test_failures = 0;
		f();
		fflush(stdout);
		_exit(test_failures != 0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
}

#endif
