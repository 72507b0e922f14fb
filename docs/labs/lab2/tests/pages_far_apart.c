/*
 * One page each in tables of their own at every level: next to each other, at the borders of what a PTE table, a PMD table and a
 * PUD table cover, and near both ends of user space.
 */
#include "tests/labs/lab_test.h"

#define BASE	0x100000000000ul
static const unsigned long where[] = {
	0x10000, 0x7f0000000000ul - PAGE, BASE, BASE + PAGE,
	BASE + (1ul << 21) - PAGE, BASE + (1ul << 21), BASE + (1ul << 30) - PAGE, BASE + (1ul << 30),
	BASE + (1ul << 39) - PAGE, BASE + (1ul << 39), BASE + (5ul << 39) + (7ul << 30) + (9ul << 21) + (11ul << 12),
};
#define N	(sizeof(where) / sizeof(where[0]))

int main(void)
{
	volatile unsigned long *p[N];

	for (size_t i = 0; i < N; i++) {
		p[i] = mmap((void *)where[i], PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
		MUST(p[i] == (void *)where[i]);
	}
	for (size_t i = 0; i < N; i++)
		CHECK_EQUAL(0, p[i][1]);
	for (size_t i = 0; i < N; i++)
		p[i][1] = where[i] ^ 0x5a5a;
	for (size_t i = 0; i < N; i++)
		CHECK_EQUAL(where[i] ^ 0x5a5a, p[i][1]);
	for (size_t i = 0; i < N; i++)
		for (size_t k = 0; k < i; k++)
			CHECK(frame_of(p[i]) != frame_of(p[k]));
	for (size_t i = 0; i < N; i++)
		CHECK(munmap((void *)where[i], PAGE) == 0);
	test_end();
}
