/*
 * VmPTE counts the page tables of a process: in pages far apart each costs a known number of tables, and munmap gives all of
 * them back.
 */
#include "tests/labs/lab_test.h"

#define N	40ul
#define BASE	0x300000000000ul

/* Touches N pages @step apart from BASE on; they must cost @kb of tables and give them back. */
static void tables_for(unsigned long step, long kb)
{
	long before = table_kb(), during, after;

	for (unsigned long i = 0; i < N; i++) {
		volatile char *p = mmap((void *)(BASE + i * step), PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);

		MUST(p == (void *)(BASE + i * step));
		*p = 1;
	}
	during = table_kb();
	CHECK_EQUAL(kb, during - before);
	for (unsigned long i = 0; i < N; i++)
		CHECK(munmap((void *)(BASE + i * step), PAGE) == 0);
	after = table_kb();
	CHECK_EQUAL(before, after);
}

int main(void)
{
	(void)table_kb();
	(void)table_kb();
	for (int round = 0; round < 3; round++) {
		tables_for(PAGE, 4 * (1 + 1 + 1));		/* one table of each kind below the root */
		tables_for(1ul << 21, 4 * (N + 1 + 1));		/* a PTE table each */
		tables_for(1ul << 30, 4 * (N + N + 1));		/* and a PMD table each */
		tables_for(1ul << 39, 4 * (N + N + N));		/* and a PUD table each */
	}
	test_end();
}
