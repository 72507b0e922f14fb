/*
 * R11. Two faults of one process find the same table to share for the same empty slot. Both count themselves as a sharer; one of
 * them has to take that back, or the table is never freed and never belongs to one process again.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: hugetlb.sync=vma race.reopen=11
 * shows: PANIC|the pool has
 */
#include "hugetlb.h"

#define FAULTERS 8

static long tables_before;

static void fault_all_at_once(struct racer *r)
{
	if (r->id == 0) {
		map_window(0, GIB, RW);
		common->word[0]++;
	}
	all_arrive(FAULTERS);
	if (!race_over)
		CHECK_EQUAL(canary(1, r->id), *(volatile long *)(WINDOW(0) + (size_t)r->id * HUGE));
	all_arrive(FAULTERS);
	if (r->id == 0 && !race_over)
		MUST(munmap(WINDOW(0), GIB) == 0);
}

static long keep_mapped(long pages)
{
	map_window(0, GIB, RW);
	for (long i = 0; i < pages; i++)
		(void)*(volatile long *)(WINDOW(0) + (size_t)i * HUGE);
	return 0;
}

/* VmPTE of another process, in kB. */
static long page_tables_of(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return proc_number(path, "VmPTE");
}

static void racing(void)
{
	struct racer racers[FAULTERS];
	struct peer *other;
	long rounds;

	make_huge_file(FAULTERS);
	other = peer_start(NULL);
	puppet(other, keep_mapped, FAULTERS);
	tables_before = page_tables_of(other->pid);
	for (int i = 0; i < FAULTERS; i++)
		racers[i] = (struct racer){ .round = fault_all_at_once };
	race(RACE_SECONDS, racers, FAULTERS);
	rounds = common->word[0];
	CHECK(rounds >= 2);
	munmap(WINDOW(0), GIB);
	CHECK_EQUAL(tables_before, page_tables_of(other->pid));
	peers_end();
}

/* -- forced: one thread has counted itself, and another fills the slot first -- */

static void fault_page(void *arg)
{
	long i = (long)arg, value;

	CHECK_EQUAL(0, touch((volatile long *)(WINDOW(0) + (size_t)i * HUGE), false, &value));
	CHECK_EQUAL(canary(1, i), value);
}

static void forced(void)
{
	struct peer *other;
	struct actor first, second;

	make_huge_file(4);
	other = peer_start(NULL);
	puppet(other, keep_mapped, 4);
	map_window(0, GIB, RW);
	actor_create(&first, fault_page, (void *)1);
	actor_create(&second, fault_page, (void *)2);
	start_and_hold(&first, "pmd_share_counted", "vma i_mmap recheck");
	actor_try(&second);
	go();
	actor_join(&first);
	actor_join(&second);
	MUST(munmap(WINDOW(0), GIB) == 0);
	peers_end();		/* the debug kernel checks each table's count when it is freed, and that all are */
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
