/*
 * R14. One huge page is left and two threads touch the same page of a file. The second must wait for what the first puts in; if it
 * asks the pool instead it gets SIGBUS, although the page is about to be there.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=14
 * shows: signal 7, although
 */
#include "hugetlb.h"

#define FAULTERS 8

static char *map;
static size_t hog_len;

static void must_get_it(volatile long *p, bool write)
{
	long value = canary(1, 0);
	int sig = touch(p, write, &value);

	if (sig) {
		printf("signal %d, although another thread has just put the page there\n", sig);
		__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);
	}
}

/* A shared page of a file, and a private one, in turn. */
static void touch_the_same(struct racer *r)
{
	if (r->id == 0) {
		if (r->rounds % 2)
			map = map_huge(1, RW, HUGE_ANON | MAP_NORESERVE, -1);
		else
			map = map_huge(1, RW, MAP_SHARED | MAP_NORESERVE, huge_fd);
	}
	all_arrive(FAULTERS);
	if (!race_over)
		must_get_it((volatile long *)map, r->id % 2);
	all_arrive(FAULTERS);
	if (r->id == 0 && !race_over) {
		MUST(munmap(map, HUGE) == 0);
		MUST(ftruncate(huge_fd, 0) == 0 && ftruncate(huge_fd, HUGE) == 0);
	}
}

static void racing(void)
{
	struct racer racers[FAULTERS];

	huge_fd = huge_memfd(HUGE);
	leave_in_pool(1, &hog_len);
	for (int i = 0; i < FAULTERS; i++)
		racers[i] = (struct racer){ .round = touch_the_same };
	race(RACE_SECONDS, racers, FAULTERS);
}

/* -- forced: one has the last page in its hands -- */

static void touch_once(void *arg)
{
	(void)arg;
	must_get_it((volatile long *)map, true);
}

static void forced(void)
{
	struct actor one, two;

	huge_fd = huge_memfd(HUGE);
	leave_in_pool(1, &hog_len);
	map = map_huge(1, RW, MAP_SHARED | MAP_NORESERVE, huge_fd);
	actor_create(&one, touch_once, NULL);
	actor_create(&two, touch_once, NULL);
	actor_start_and_hold(&one, "hugetlb_page_ready");
	actor_try(&two);
	go();
	actor_join(&one);
	actor_join(&two);
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
