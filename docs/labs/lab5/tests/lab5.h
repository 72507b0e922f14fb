/* For the tests of lab 5: the pool, counted from the beginning of the test, and files whose pages are told from each other. */
#ifndef LAB5_H
#define LAB5_H

#include "tests/labs/lab_test.h"
#include "tests/race/hugetlb.h"

static struct pool at_first;

/* Pages taken from the pool and promises made, since pool_begin(). */
#define CHECK_POOL(want_taken, want_promised)						\
	do {										\
		struct pool p_ = pool_now();						\
		long taken_ = at_first.free - p_.free, promised_ = p_.rsvd - at_first.rsvd; \
		if (taken_ != (want_taken) || promised_ != (want_promised)) {		\
			printf("%s:%d: expected %ld pages taken and %ld promised, got %ld and %ld\n", __FILE__, __LINE__, \
			       (long)(want_taken), (long)(want_promised), taken_, promised_); \
			test_failures++;						\
		}									\
	} while (0)

/* At the end of a part: everything is back. Waits a little for what is freed after a grace period. */
__attribute__((unused))
static void check_pool_is_back(const char *when)
{
	struct pool p = pool_now();

	for (int i = 0; i < 20 && !pool_equal(p, at_first); i++) {
		sleep_ms(5);
		p = pool_now();
	}
	if (!pool_equal(p, at_first)) {
		printf("%s: %ld pages are taken and %ld promised that nobody uses\n", when, at_first.free - p.free, p.rsvd - at_first.rsvd);
		test_failures++;
	}
}

__attribute__((unused))
static void pool_begin(void)
{
	at_first = pool_now();
	for (int i = 0; i < 20 && (at_first.free < at_first.total || at_first.rsvd); i++) {	/* the test before was killed a moment ago */
		sleep_ms(5);
		at_first = pool_now();
	}
	if (at_first.free < 32)
		test_skip("no pool of huge pages");
}

__attribute__((unused))
static char *map_at(int fd, size_t first, size_t pages, int prot, int flags)
{
	return mmap(NULL, pages * HUGE, prot, flags, fd, (off_t)(first * HUGE));
}

__attribute__((unused))
static void punch(int fd, size_t page)
{
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(page * HUGE), HUGE) == 0);
}

__attribute__((unused))
static volatile long *word_of(const char *map, size_t page)
{
	return (volatile long *)(map + page * HUGE);
}

/* Minor faults that it takes to read the first word of each of @n pages, which must be their canaries of file 1. */
__attribute__((unused))
static long faults_reading(const char *map, size_t n)
{
	long before = faults(), got[16];

	MUST(n <= 16);
	for (size_t i = 0; i < n; i++)
		got[i] = *word_of(map, i);
	before = faults() - before;
	for (size_t i = 0; i < n; i++)
		CHECK_EQUAL(canary(1, (long)i), got[i]);
	return before;
}

/* Every table knows its users, says the debug kernel. */
__attribute__((unused))
static void check_tables(void)
{
	const char *check = "/sys/kernel/faultline/pmd_share_check";

	if (access(check, R_OK) == 0)
		CHECK_EQUAL(0, proc_number(check, "wrong"));
}

#endif
