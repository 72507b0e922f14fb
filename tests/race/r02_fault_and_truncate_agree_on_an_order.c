/*
 * R2. A fault holds what keeps its table in place, and wants the file's list of mappings, to find a table that it can share.
 * Truncation holds the list, and wants what keeps a table in place. One of them has to give way.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: hugetlb.sync=vma race.reopen=2
 * shows: PANIC: lock order|hang:
 */
#include "hugetlb.h"

#define PAGES 3

/* A new window each time: so its first fault looks for a table to share. */
static void fault_in_new_window(struct racer *r)
{
	map_window((int)r->id, GIB, RW);
	for (int i = 0; i < PAGES; i++) {
		long value;

		if (!touch((volatile long *)(WINDOW(r->id) + (size_t)i * HUGE), false, &value))
			CHECK(value == 0 || value == canary(1, i));
		value = canary(1, i);
		touch((volatile long *)(WINDOW(r->id) + (size_t)i * HUGE), true, &value);
	}
	MUST(munmap(WINDOW(r->id), GIB) == 0);
}

static void other_faults(void)
{
	struct racer r = { .id = 9 };

	fault_in_new_window(&r);
}

static void cut(struct racer *r)
{
	(void)r;
	CHECK(ftruncate(huge_fd, 0) == 0);
	CHECK(ftruncate(huge_fd, 2 * GIB) == 0);
	sched_yield();
}

static void punch(struct racer *r)
{
	(void)r;
	CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, rnd(PAGES) * HUGE, HUGE) == 0);
	sched_yield();
}

static void racing(void)
{
	struct racer racers[] = { { .round = fault_in_new_window }, { .round = fault_in_new_window }, { .round = cut }, { .round = punch } };

	make_huge_file(PAGES);
	peer_start(other_faults);
	race(RACE_SECONDS, racers, 4);
	peers_end();
}

/* -- forced: the fault is held before it takes the list, truncation comes meanwhile -- */

static void first_fault(void *arg)
{
	long value;

	(void)arg;
	touch((volatile long *)WINDOW(0), false, &value);
}

static void truncate_all(void *arg)
{
	(void)arg;
	CHECK(ftruncate(huge_fd, 0) == 0);
}

static void forced(void)
{
	struct actor faulter, cutter;

	make_huge_file(PAGES);
	map_window(1, GIB, RW);
	(void)*(volatile long *)WINDOW(1);
	map_window(0, GIB, RW);
	actor_create(&faulter, first_fault, NULL);
	actor_create(&cutter, truncate_all, NULL);
	start_and_hold(&faulter, "hugetlb_before_share", "vma recheck");
	actor_try(&cutter);
	go();
	actor_join(&faulter);
	actor_join(&cutter);
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
