/*
 * Neighbours that agree become one VMA; those that differ in rights, in sharing or in their file do not, and each page keeps
 * the rights that it was mapped with.
 */
#include "tests/labs/lab_test.h"

#define BASE	((char *)0x300000000000)

static char *at(int page, int prot, int flags, int fd, int file_page)
{
	char *p = mmap(BASE + page * (long)PAGE, PAGE, prot, flags | MAP_FIXED, fd, file_page * (off_t)PAGE);

	MUST(p == BASE + page * (long)PAGE);
	return p;
}

int main(void)
{
	int fd = make_memfd(8, 0), other = make_memfd(8, 0);

	catch_faults();
	/* To the right, to the left, and into a gap. Not writable, so that nobody has a reverse map yet that could differ. */
	at(1, PROT_READ, ANON, -1, 0);
	at(2, PROT_READ, ANON, -1, 0);
	CHECK_EQUAL(1, count_vmas(BASE, 8 * PAGE));
	at(4, PROT_READ, ANON, -1, 0);
	CHECK_EQUAL(2, count_vmas(BASE, 8 * PAGE));
	at(3, PROT_READ, ANON, -1, 0);
	CHECK_EQUAL(1, count_vmas(BASE, 8 * PAGE));
	at(0, PROT_READ, ANON, -1, 0);
	CHECK_EQUAL(1, count_vmas(BASE, 8 * PAGE));
	CHECK(munmap(BASE, 8 * PAGE) == 0);
	/* Writable ones grow too; other rights do not join. */
	at(3, RW, ANON, -1, 0);
	at(4, RW, ANON, -1, 0);
	CHECK_EQUAL(1, count_vmas(BASE, 8 * PAGE));
	at(5, PROT_READ, ANON, -1, 0);
	CHECK_EQUAL(2, count_vmas(BASE, 8 * PAGE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, BASE + 5 * PAGE, access_byte((unsigned long)BASE + 5 * PAGE, WRITE));
	CHECK_NO_FAULT(access_byte((unsigned long)BASE + 4 * PAGE, WRITE));
	CHECK(munmap(BASE, 8 * PAGE) == 0);
	/* Files: the same one, and where it goes on. */
	at(0, RW, MAP_SHARED, fd, 0);
	at(1, RW, MAP_SHARED, fd, 1);
	CHECK_EQUAL(1, count_vmas(BASE, 8 * PAGE));
	at(2, RW, MAP_SHARED, fd, 5);
	CHECK_EQUAL(2, count_vmas(BASE, 8 * PAGE));
	at(3, RW, MAP_SHARED, other, 6);
	CHECK_EQUAL(3, count_vmas(BASE, 8 * PAGE));
	at(4, RW, MAP_PRIVATE, other, 7);
	CHECK_EQUAL(4, count_vmas(BASE, 8 * PAGE));
	for (int i = 0; i < 8; i++)
		MUST(pwrite(fd, &i, sizeof(i), i * (off_t)PAGE) == sizeof(i));
	CHECK_EQUAL(0, *(int *)BASE);
	CHECK_EQUAL(1, *(int *)(BASE + PAGE));
	CHECK_EQUAL(5, *(int *)(BASE + 2 * PAGE));
	/* A split, and its halves show what they did before. */
	CHECK(munmap(BASE, 8 * PAGE) == 0);
	MUST(mmap(BASE, 8 * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == BASE);
	CHECK(mprotect(BASE + 3 * PAGE, 2 * PAGE, RW) == 0);
	CHECK_EQUAL(3, count_vmas(BASE, 8 * PAGE));
	for (int i = 0; i < 8; i++)
		CHECK_EQUAL(i, *(volatile int *)(BASE + i * (long)PAGE));
	/* Rights that go are gone, also for a page that was just written; a hole is ENOMEM. */
	*(volatile int *)(BASE + 3 * PAGE) = 3;
	CHECK(mprotect(BASE + 3 * PAGE, PAGE, PROT_READ) == 0);
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, BASE + 3 * PAGE, access_byte((unsigned long)BASE + 3 * PAGE, WRITE));
	CHECK(munmap(BASE + 6 * PAGE, PAGE) == 0);
	CHECK_ERRNO(ENOMEM, mprotect(BASE + 5 * PAGE, 3 * PAGE, PROT_READ));
	test_end();
}
