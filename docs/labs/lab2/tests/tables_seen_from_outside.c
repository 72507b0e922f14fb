/*
 * What the grader finds in the guest's memory, from CR3 on.
 * only: faultline
 * view
 * budget: 20000
 */
#include "tests/labs/lab_test.h"

#define BASE	0x600000000000ul

int main(void)
{
	volatile unsigned long *p, *q;

	view_level(BASE, 4, 0);
	p = mmap((void *)BASE, 2 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	MUST(p == (void *)BASE);
	q = p + PAGE / 8;
	view_level(BASE, 4, 0);			/* nothing is built before somebody needs it */
	*p = 0x1122334455667788;
	view_page(p, "rw");
	view_none(q);
	for (int level = 4; level >= 1; level--)
		view_level(p, level, 1);
	*q = 0x8877665544332211;
	view_page(q, "rw");
	view_differ(p, q);
	CHECK(mprotect((void *)p, PAGE, PROT_READ) == 0);
	view_page(p, "r-");
	CHECK(munmap((void *)p, PAGE) == 0);
	view_none(p);
	view_page(q, "rw");
	CHECK(munmap((void *)q, PAGE) == 0);
	park_kept_tables();
	for (int level = 4; level >= 1; level--)
		view_level(p, level, 0);
	test_end();
}
