/* mincore, pagemap, mprotect and madvise all find their pages by walking: pages with gaps between them, over several tables. */
#include "tests/labs/lab_test.h"

#define PAGES	(3 * 512ul)

int main(void)
{
	char *p = mmap((void *)0x200000000000ul, PAGES * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	int n = 0;

	MUST(p == (void *)0x200000000000ul);
	catch_faults();
	for (size_t i = 0; i < PAGES; i += 7)
		p[i * PAGE] = (char)i;
	for (size_t i = 0; i < PAGES; i++) {
		bool there = i % 7 == 0;

		CHECK_EQUAL(there, frame_of(p + i * PAGE) != 0);
		if (i % 64 == 0)
			CHECK_EQUAL(there, resident(p + i * PAGE, 1));
		n += there;
	}
	for (size_t i = 0; i < PAGES; i += 512)
		n -= resident(p + i * PAGE, 512);
	CHECK_EQUAL(0, n);
	/* A table's border in the middle of each range. */
	CHECK(madvise(p + 300 * PAGE, 400 * PAGE, MADV_DONTNEED) == 0);
	for (size_t i = 0; i < PAGES; i += 7)
		CHECK_EQUAL(i < 300 || i >= 700 ? (char)i : 0, p[i * PAGE]);
	CHECK(mprotect(p + 500 * PAGE, 24 * PAGE, PROT_READ) == 0);
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 504 * PAGE, access_byte((unsigned long)p + 504 * PAGE, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 518 * PAGE, access_byte((unsigned long)p + 518 * PAGE, WRITE));
	CHECK_NO_FAULT(access_byte((unsigned long)p + 525 * PAGE, WRITE));
	CHECK_NO_FAULT(access_byte((unsigned long)p + 497 * PAGE, WRITE));
	CHECK(munmap(p, PAGES * PAGE) == 0);
	CHECK_FAULT(SIGSEGV, SEGV_MAPERR, p + 511 * PAGE, access_byte((unsigned long)p + 511 * PAGE, READ));
	test_end();
}
