/*
 * R22. mremap moves a private mapping; its promises go along. If the old mapping gave them back when it goes, others would be
 * promised the same pages, and the new one would give them back once more.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=22
 * shows: the pool has|PANIC
 */
#include "hugetlb.h"

#define PAGES 4

static char *const here = WINDOW(0), *const there = WINDOW(2);

static void expect(const char *when, struct pool at_start, long free, long rsvd)
{
	struct pool want = { at_start.total, at_start.free + free, at_start.rsvd + rsvd, at_start.surp };

	pool_must_be(when, want);
}

static void map_here(void)
{
	MUST(mmap(here, PAGES * HUGE, RW, HUGE_ANON | MAP_FIXED, -1, 0) == here);
}

static void move(char *from, char *to)
{
	MUST(mremap(from, PAGES * HUGE, PAGES * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
}

/* Step by step, with nobody beside. */
static void trace(void)
{
	struct pool start = pool_now();

	map_here();
	expect("with 4 pages mapped", start, 0, 4);
	here[0] = here[HUGE] = 1;
	expect("with 2 of them touched", start, -2, 2);
	move(here, there);
	expect("after mremap", start, -2, 2);
	there[2 * HUGE] = 1;
	expect("with the third touched", start, -3, 1);
	MUST(munmap(there, PAGES * HUGE) == 0);
	expect("after munmap", start, 0, 0);
}

/* Others take what they can: never a page that is promised. */
static void move_and_touch(struct racer *r)
{
	long value = canary(1, 0);

	(void)r;
	if (mmap(here, PAGES * HUGE, RW, HUGE_ANON | MAP_FIXED, -1, 0) != here) {
		CHECK_EQUAL(ENOMEM, errno);
		return;
	}
	CHECK_EQUAL(0, touch((volatile long *)here, true, &value));
	move(here, there);
	for (int i = 0; i < PAGES; i++)
		CHECK_EQUAL(0, touch((volatile long *)(there + (size_t)i * HUGE), true, &value));
	if (rnd(2)) {
		move(there, here);
		CHECK_EQUAL(0, touch((volatile long *)here, false, &value));
		MUST(munmap(here, PAGES * HUGE) == 0);
	} else {
		MUST(munmap(there, PAGES * HUGE) == 0);
	}
}

static void racing(void)
{
	struct racer racers[] = { { .round = move_and_touch } };
	size_t len;

	trace();
	leave_in_pool(PAGES, &len);
	peer_start(take_free_pages);
	race(RACE_SECONDS, racers, 1);
	peers_end();
}

int main(void)
{
	run_huge_race(racing, NULL, 32);
}
