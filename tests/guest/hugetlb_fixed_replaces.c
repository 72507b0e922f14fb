/*
 * Rules A8, D12, D13: a huge mapping put over another with MAP_FIXED. What a private mapping holds, pages and promises, is there for
 * the new one, also when the pool has no more; of its small pages no table is left where a huge page is to stand.
 */
#include "hugetlb_test.h"

static char *const place = (char *)0x200000000000ul;	/* 1 GiB-aligned, nothing near */

static void put(size_t pages, int flags)
{
	CHECK_EQUAL((long)place, sys_mmap(place, pages * HUGE, RW, flags | MAP_FIXED, -1, 0));
}

/* Four pages in the pool, four in the old mapping, no more to be had. (A shared one's are its file's, which goes later.) */
static void over_huge(int new)
{
	put(4, HUGE_ANON);
	CHECK_POOL(4, 4);
	put(4, new);			/* promised, not touched */
	CHECK_POOL(4, 4);
	unmap_huge(place, 4);
	CHECK_POOL(4, 0);
	put(4, HUGE_ANON);
	memset(place, 1, 4 * HUGE);
	CHECK_POOL(0, 0);
	put(4, new);			/* all touched */
	CHECK_POOL(4, 4);
	CHECK_EQUAL(0, place[3 * HUGE]);
	CHECK_POOL(3, 3);
	unmap_huge(place, 4);
	CHECK_POOL(4, 0);
}

/* No surplus pages are made for what the old mapping gives back. */
static void makes_no_surplus(void)
{
	set_number(POOL "nr_overcommit_hugepages", 4);
	put(4, HUGE_ANON);
	put(4, HUGE_ANON);
	CHECK_EQUAL(0, pool_now().surplus);
	CHECK_POOL(4, 4);
	unmap_huge(place, 4);
	set_number(POOL "nr_overcommit_hugepages", 0);
}

/* Small pages that fill just one table, and more or less than one. */
static void over_small(size_t start, size_t len, int flags)
{
	char *small = place + start;

	MUST(mmap(small, len, RW, ANON | MAP_FIXED, -1, 0) == small);
	small[0] = 1;
	small[len - 1] = 2;
	put(2, flags);
	CHECK_POOL(4, 2);
	CHECK_EQUAL(0, small[0]);
	CHECK_EQUAL(0, small[len - 1]);
	memset(place, 3, 2 * HUGE);
	CHECK_EQUAL(3, small[0]);
	CHECK_POOL(2, 0);
	MUST(mmap(small, len, RW, ANON | MAP_FIXED, -1, 0) == small || (start | len) % HUGE);
	munmap(place, 2 * HUGE);
	CHECK_POOL(4, 0);
}

/* The edges of the old mapping must be where huge pages end: nothing is changed otherwise. */
static void edges_stay(void)
{
	put(2, HUGE_ANON);
	place[0] = place[HUGE] = 9;
	CHECK_ERRNO(EINVAL, sys_mmap(place + HUGE / 2, HUGE, RW, HUGE_ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(EEXIST, sys_mmap(place, HUGE, RW, HUGE_ANON | MAP_FIXED_NOREPLACE, -1, 0));
	CHECK_EQUAL(9, place[0]);
	CHECK_EQUAL(9, place[HUGE]);
	unmap_huge(place, 2);
}

/* More than there is: ENOMEM, and nothing is promised to anybody. */
static void too_much(void)
{
	put(4, HUGE_ANON);
	place[0] = 1;
	CHECK_ERRNO(ENOMEM, sys_mmap(place, 5 * HUGE, RW, HUGE_ANON | MAP_FIXED, -1, 0));
	munmap(place, 5 * HUGE);
	CHECK_POOL(4, 0);
}

int main(void)
{
	pool_begin(4);
	over_huge(HUGE_ANON);
	over_huge(HUGE_SHARED);
	makes_no_surplus();
	over_small(0, HUGE, HUGE_ANON);
	over_small(HUGE, HUGE, HUGE_SHARED);
	over_small(0, 2 * HUGE, HUGE_ANON);
	over_small(4096, 4096, HUGE_ANON);
	over_small(HUGE / 2, HUGE, HUGE_SHARED);
	edges_stay();
	too_much();
	pool_end(4);
}
