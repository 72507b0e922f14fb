/*
 * R13. Punching a hole unmaps the range, then removes page by page. Between the two a fault may map a page again that is still in
 * the file. Who removes the page holds off faults for it and unmaps it once more; else a page that is free stays mapped.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: hugetlb.sync=none unsafe
 * shows: still reads|PANIC
 */
#include "hugetlb.h"

#define PAGES 3

static char *map;

static void write_pages(struct racer *r)
{
	(void)r;
	for (int i = 0; i < PAGES; i++) {
		long value = canary(1, i);
		int sig = touch((volatile long *)(map + (size_t)i * HUGE), true, &value);

		CHECK(sig == 0 || sig == SIGBUS);	/* others may have the last page: a hole has no reservation */
		if (!touch((volatile long *)(map + (size_t)i * HUGE), false, &value))
			CHECK(value == 0 || value == canary(1, i));
	}
}

static void punch(struct racer *r)
{
	double begin = now();

	(void)r;
	CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGES * HUGE) == 0);
	CHECK(now() - begin < HANG_SECONDS);		/* passes are bounded, whatever the others do */
	sched_yield();
}

static void map_file(void)
{
	make_huge_file(PAGES);
	map = map_window(0, PAGES * HUGE, RW);
}

static void racing(void)
{
	struct racer racers[] = { { .round = write_pages }, { .round = write_pages }, { .round = write_pages }, { .round = write_pages },
				  { .round = punch } };
	size_t len;

	map_file();
	leave_in_pool(4, &len);
	peer_start(take_free_pages);
	peer_start(take_free_pages);
	race(RACE_SECONDS, racers, 5);
	peers_end();
}

/* -- forced: the range is unmapped, the page is not yet removed, a fault maps it again -- */

static void punch_once(void *arg)
{
	(void)arg;
	CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HUGE) == 0);
}

static void read_first(void *arg)
{
	long value;

	(void)arg;
	CHECK_EQUAL(0, touch((volatile long *)map, false, &value));
	CHECK(value == canary(1, 0) || value == 0);
}

static void forced(void)
{
	struct actor puncher, reader;

	map_file();
	(void)*(volatile long *)map;
	actor_create(&puncher, punch_once, NULL);
	actor_create(&reader, read_first, NULL);
	actor_start_and_hold(&puncher, "hugetlb_truncate_unmapped");
	actor_try(&reader);
	go();
	actor_join(&puncher);
	actor_join(&reader);
	if (*(volatile long *)map) {
		printf("after the hole was punched the page still reads %lx\n", *(volatile long *)map);
		test_failures++;
	}
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
