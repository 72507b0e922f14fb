/*
 * A table serves everybody in the range that it covers. What is unmapped in the middle, at the beginning or at the end of that range
 * takes it along only if nobody is left. In the debug kernel, which looks at each table that is freed.
 * build: debug
 */
#include "tests/labs/lab_test.h"

#define BASE	0x400000000000ul

static volatile long *page_at(unsigned long addr)
{
	volatile long *p = mmap((void *)addr, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);

	MUST(p == (void *)addr);
	*p = (long)addr;
	return p;
}

/* Of three pages @step apart, each is unmapped in turn, the others being left; and all at the end. */
static void three(unsigned long base, unsigned long step)
{
	static const int orders[][3] = { { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 }, { 1, 2, 0 } };

	for (int o = 0; o < 4; o++) {
		long before = table_kb();
		volatile long *p[3];

		for (unsigned long i = 0; i < 3; i++)
			p[i] = page_at(base + i * step);
		for (int gone = 0; gone < 3; gone++) {
			CHECK(munmap((void *)p[orders[o][gone]], PAGE) == 0);
			for (int left = gone + 1; left < 3; left++) {
				CHECK_EQUAL((long)p[orders[o][left]], *p[orders[o][left]]);
				CHECK(frame_of(p[orders[o][left]]) != 0);
			}
		}
		CHECK_EQUAL(before, table_kb());
	}
}

int main(void)
{
	static const unsigned long steps[] = { PAGE, 100 * PAGE, 1ul << 21, 3ul << 21, 1ul << 30, 1ul << 39, (1ul << 30) - PAGE };

	(void)table_kb();
	(void)table_kb();
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		three(BASE, steps[i]);
		three(BASE + (1ul << 39) - PAGE, steps[i]);	/* across the border of all levels at once */
	}
	/* The last one of all: nothing lies above the stack. */
	char *all = mmap((void *)BASE, 64ul << 30, PROT_NONE, ANON | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	MUST(all == (void *)BASE);
	CHECK(munmap(all, 64ul << 30) == 0);
	test_end();
}
