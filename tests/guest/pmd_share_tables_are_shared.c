/*
 * Which mappings use one PMD table, and which operations make a process leave it. Rules E1, E2, E10, E11, E12, E14, E15, E19. The
 * sharing itself is seen by minor faults (pmd_share_test.h).
 *
 * append: hugepages=24 hugetlb.sync=vma
 */
#include "pmd_share_test.h"

#ifndef RIGHTS_MUST_AGREE
#define RIGHTS_MUST_AGREE	1	/* not with hugetlb.sync=file */
#endif

static int fd;

static int prot_now, flags_now;
static unsigned long len_now, off_now;
static char *at_now;
static long expected_now;

/* In a child without the parent's mapping: maps as told, reads what the parent has written. */
static void read_mapped(void)
{
	MUST(!munmap(WINDOW, GIB));
	char *p = map_huge(at_now, len_now, prot_now, flags_now, fd, off_now);

	CHECK_EQUAL(expected_now, faults_reading(p, PAGES, 1));
	MUST(!munmap(p, len_now));
}

static void expect_faults(long faults, char *at, unsigned long len, int prot, int flags, unsigned long off)
{
	at_now = at, len_now = len, prot_now = prot, flags_now = flags, off_now = off, expected_now = faults;
	in_checked_child(read_mapped);
}

static void what_may_share(void)
{
	/* The whole GiB, same rights: here, and at another address that is as far from a GiB boundary. */
	expect_faults(1, WINDOW, GIB, RW, MAP_SHARED, 0);
	expect_faults(1, WINDOW + 5 * GIB, GIB, RW, MAP_SHARED, 0);
	expect_faults(1, WINDOW + 5 * GIB, 2 * GIB, RW, MAP_SHARED, 0);
	/* Less than the window, another place in it, private. */
	expect_faults(PAGES, WINDOW, GIB - HUGE, RW, MAP_SHARED, 0);
	expect_faults(PAGES, WINDOW + HUGE, GIB, RW, MAP_SHARED, 0);
	expect_faults(PAGES, WINDOW, GIB, RW, MAP_PRIVATE, 0);
	/* Other rights. */
	expect_faults(RIGHTS_MUST_AGREE ? PAGES : 1, WINDOW, GIB, PROT_READ, MAP_SHARED, 0);
}

static void child_of_fork(void)
{
	CHECK_EQUAL(1, faults_reading(WINDOW, PAGES, 1));
	/* What the child brings in, the parent has without a fault, and the other way round. */
	WINDOW[PAGES * HUGE] = PAGES + 1;
}

static void fork_shares(void)
{
	in_checked_child(child_of_fork);
	long before = minor_faults();

	CHECK_EQUAL(PAGES + 1, *(volatile char *)(WINDOW + PAGES * HUGE));
	CHECK_EQUAL(0, minor_faults() - before);
}

/* Each leaves the parent's table alone: seen by the parent afterwards. */
static void leaves_by_mprotect(void)
{
	CHECK_EQUAL(1, faults_reading(WINDOW, PAGES, 1));
	MUST(!mprotect(WINDOW + HUGE, HUGE, PROT_READ));
	/* The VMA is split now: no part of it covers the GiB, so the table is a new one, of its own. */
	CHECK_EQUAL(PAGES, faults_reading(WINDOW, PAGES, 1));
	CHECK_FAULT(SIGSEGV, 2, WINDOW + HUGE, access_byte((unsigned long)WINDOW + HUGE, WRITE));
	CHECK_NO_FAULT(access_byte((unsigned long)WINDOW + 2 * HUGE + 8, WRITE));
}

static void leaves_by_dontneed(void)
{
	CHECK_EQUAL(1, faults_reading(WINDOW, PAGES, 1));
	MUST(!madvise(WINDOW + HUGE, HUGE, MADV_DONTNEED));
	CHECK_EQUAL(1, faults_reading(WINDOW, PAGES, 1));	/* and shares again */
}

static void leaves_by_munmap(void)
{
	CHECK_EQUAL(1, faults_reading(WINDOW, PAGES, 1));
	MUST(!munmap(WINDOW + 2 * HUGE, HUGE));
	CHECK_EQUAL(2, faults_reading(WINDOW, 2, 1));
	CHECK_FAULT(SIGSEGV, 1, WINDOW + 2 * HUGE, access_byte((unsigned long)WINDOW + 2 * HUGE, READ));
	MUST(!munmap(WINDOW, GIB));
}

static void leaves_by_mremap(void)
{
	CHECK_EQUAL(1, faults_reading(WINDOW, PAGES, 1));
	char *p = mremap(WINDOW, GIB, GIB, MREMAP_MAYMOVE | MREMAP_FIXED, WINDOW + 7 * GIB);
	MUST(p == WINDOW + 7 * GIB);
	CHECK_EQUAL(1, faults_reading(p, PAGES, 1));
	CHECK_FAULT(SIGSEGV, 1, WINDOW, access_byte((unsigned long)WINDOW, READ));
}

static void splits_by_advice(void)
{
	CHECK_EQUAL(1, faults_reading(WINDOW, PAGES, 1));
	MUST(!madvise(WINDOW, 4 * HUGE, MADV_DONTFORK));	/* changes no page, but splits */
	CHECK_EQUAL(PAGES, faults_reading(WINDOW, PAGES, 1));
}

static void parent_keeps_all(void)
{
	CHECK_EQUAL(0, faults_reading(WINDOW, PAGES, 1));
}

/* Two windows in one process share as two processes do; a write by one is there for the other. */
static void twice_in_one_process(void)
{
	char *p = map_huge(WINDOW + 9 * GIB, GIB, RW, MAP_SHARED, fd, 0);

	CHECK_EQUAL(1, faults_reading(p, PAGES, 1));
	p[3 * HUGE + 100] = 77;
	CHECK_EQUAL(77, *(volatile char *)(WINDOW + 3 * HUGE + 100));
	MUST(!munmap(p, GIB));
	parent_keeps_all();
}

/* A GiB in the middle of three, cut at its boundary: the others stay shared. */
static void aligned_split(void)
{
	int big = huge_file(3);
	char *a = map_huge(WINDOW + 16 * GIB, 3 * GIB, RW, MAP_SHARED, big, 0);
	char *b = map_huge(WINDOW + 24 * GIB, 3 * GIB, RW, MAP_SHARED, big, 0);

	for (int i = 0; i < 3; i++) {
		fill(a + (unsigned long)i * GIB, 2, 10 * i);
		CHECK_EQUAL(1, faults_reading(b + (unsigned long)i * GIB, 2, 10 * i));
	}
	MUST(!munmap(b + GIB, GIB));
	CHECK_EQUAL(0, faults_reading(b, 2, 0));
	CHECK_EQUAL(0, faults_reading(b + 2 * GIB, 2, 20));
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(0, faults_reading(a + (unsigned long)i * GIB, 2, 10 * i));
	MUST(!munmap(a, 3 * GIB) && !munmap(b, GIB) && !munmap(b + 2 * GIB, GIB) && !close(big));
}

/* Truncate and punch take the pages from everybody. */
static void removal_reaches_all(void)
{
	char *p = map_huge(WINDOW + 9 * GIB, GIB, RW, MAP_SHARED, fd, 0);

	CHECK_EQUAL(1, faults_reading(p, PAGES, 1));
	MUST(!fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, HUGE, HUGE));
	CHECK_EQUAL(0, *(volatile char *)(p + HUGE));
	CHECK_EQUAL(0, *(volatile char *)(WINDOW + HUGE));
	CHECK_EQUAL(1, *(volatile char *)WINDOW);
	MUST(!ftruncate(fd, 2 * HUGE));
	CHECK_FAULT(SIGBUS, 2, p + 2 * HUGE, access_byte((unsigned long)p + 2 * HUGE, READ));
	CHECK_FAULT(SIGBUS, 2, WINDOW + 2 * HUGE, access_byte((unsigned long)WINDOW + 2 * HUGE, READ));
	CHECK_EQUAL(1, *(volatile char *)p);
	MUST(!munmap(p, GIB));
}

int main(void)
{
	void (*leaving[])(void) = { leaves_by_mprotect, leaves_by_dontneed, leaves_by_munmap, leaves_by_mremap, splits_by_advice };

	catch_faults();
	fd = huge_file(1);
	map_huge(WINDOW, GIB, RW, MAP_SHARED, fd, 0);
	fill(WINDOW, PAGES, 1);
	what_may_share();
	fork_shares();
	for (size_t i = 0; i < sizeof(leaving) / sizeof(*leaving); i++) {
		in_checked_child(leaving[i]);
		parent_keeps_all();
	}
	twice_in_one_process();
	aligned_split();
	removal_reaches_all();
	test_end();
}
