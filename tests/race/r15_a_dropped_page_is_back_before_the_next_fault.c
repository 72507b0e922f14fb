/*
 * R15. MADV_DONTNEED drops the only free page that a mapping has a right to. If it is given back to the pool only after faults are
 * allowed again, a fault in between finds the pool empty and gets SIGBUS.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=15
 * shows: signal 7 in a mapping
 */
#include "hugetlb.h"

#define PAGES 2

static char *map;

static void drop(struct racer *r)
{
	(void)r;
	MUST(madvise(map, HUGE, MADV_DONTNEED) == 0);
	sched_yield();
}

static void must_have_it(struct racer *r)
{
	long value = canary(1, 0);
	int sig = touch((volatile long *)map, rnd(2), &value);

	(void)r;
	if (sig) {
		printf("signal %d in a mapping whose pages are reserved\n", sig);
		__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);
	}
}

static void map_it(void)
{
	size_t len;

	map = map_huge(PAGES, RW, HUGE_ANON, -1);
	for (int i = 0; i < PAGES; i++)
		map[(size_t)i * HUGE] = 1;
	leave_in_pool(0, &len);
}

static void racing(void)
{
	struct racer racers[] = { { .round = drop }, { .round = must_have_it }, { .round = must_have_it } };

	map_it();
	race(RACE_SECONDS, racers, 3);
}

/* -- forced: the entry is empty, the page is not back yet -- */

static void drop_once(void *arg)
{
	(void)arg;
	MUST(madvise(map, HUGE, MADV_DONTNEED) == 0);
}

static void touch_once(void *arg)
{
	(void)arg;
	must_have_it(NULL);
}

static void forced(void)
{
	struct actor dropper, toucher;

	map_it();
	actor_create(&dropper, drop_once, NULL);
	actor_create(&toucher, touch_once, NULL);
	actor_start_and_hold(&dropper, "hugetlb_zapped");
	actor_try(&toucher);
	go();
	actor_join(&dropper);
	actor_join(&toucher);
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
