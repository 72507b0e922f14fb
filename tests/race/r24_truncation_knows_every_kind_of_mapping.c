/*
 * R24. Punching a hole meets every mapping of the file: shared ones, and private ones, which keep their faults apart in another way.
 * What it locks, or tries to lock, must be what this mapping has.
 * Linux 6.12 hangs in the racing part: it takes the promises of a private mapping for such a lock.
 *
 * append: hugepages=64
 * build: debug
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * only: faultline
 * fails: hugetlb.sync=vma race.reopen=24
 * shows: PANIC
 */
#include "hugetlb.h"

#define PAGES 4

static char *private, *shared;

static void fault_privately(struct racer *r)
{
	long i = rnd(PAGES), value = 0;
	volatile long *p = (volatile long *)(private + (size_t)i * HUGE);

	if (r->rounds % 16 == 0)
		MUST(madvise(private, PAGES * HUGE, MADV_DONTNEED) == 0);
	if (!touch(p, false, &value))
		CHECK(value == 0 || value == canary(1, i) || value == canary(2, i));
	if (i) {				/* the first page is only ever read here */
		value = canary(2, i);
		touch(p, true, &value);
	}
}

static void punch_and_refill(struct racer *r)
{
	long i = rnd(PAGES), value = canary(1, i);

	(void)r;
	if (rnd(4))
		CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, i * (long)HUGE, HUGE) == 0);
	else
		CHECK(ftruncate(huge_fd, i * (long)HUGE) == 0 && ftruncate(huge_fd, PAGES * HUGE) == 0);
	if (!touch((volatile long *)(shared + (size_t)i * HUGE), true, &value)) {
		long seen = 0;
		if (!touch((volatile long *)(private + (size_t)i * HUGE), false, &seen))
			CHECK(seen == 0 || seen == canary(1, i) || seen == canary(2, i));
	}
}

static void map_and_go(void)
{
	long value;
	char *p = map_huge(PAGES, RW, MAP_PRIVATE | MAP_NORESERVE, huge_fd);

	for (int i = 0; i < PAGES; i++)
		touch((volatile long *)(p + (size_t)i * HUGE), false, &value);
	MUST(munmap(p, PAGES * HUGE) == 0);
}

static void map_it(void)
{
	make_huge_file(PAGES);
	private = map_huge(PAGES, RW, MAP_PRIVATE, huge_fd);
	shared = map_huge(PAGES, RW, MAP_SHARED | MAP_NORESERVE, huge_fd);
}

static void racing(void)
{
	struct racer racers[] = { { .round = fault_privately }, { .round = fault_privately }, { .round = punch_and_refill } };

	map_it();
	peer_start(map_and_go);
	race(RACE_SECONDS, racers, 3);
	peers_end();
}

/* -- forced: a fault in the private mapping is on its way while another page, which this mapping has, is punched out -- */

static void write_second(void *arg)
{
	long value = canary(2, 1);

	(void)arg;
	CHECK_EQUAL(0, touch((volatile long *)(private + HUGE), true, &value));
}

static void punch_first(void *arg)
{
	(void)arg;
	CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HUGE) == 0);
}

static void forced(void)
{
	struct actor faulter, puncher;

	map_it();
	CHECK_EQUAL(canary(1, 0), *(volatile long *)private);
	actor_create(&faulter, write_second, NULL);
	actor_create(&puncher, punch_first, NULL);
	actor_start_and_hold(&faulter, "hugetlb_copied");
	actor_try(&puncher);
	go();
	actor_join(&faulter);
	actor_join(&puncher);
	CHECK_EQUAL(0, *(volatile long *)private);
	CHECK_EQUAL(canary(2, 1), *(volatile long *)(private + HUGE));
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
