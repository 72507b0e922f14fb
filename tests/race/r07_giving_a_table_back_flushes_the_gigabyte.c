/*
 * R7. mprotect of two megabytes gives back the table of a gigabyte. All of the gigabyte must be flushed then: the pages behind the
 * other entries belong to others now, who may free them without asking us.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: hugetlb.sync=vma race.reopen=7
 * shows: expected|ends with status|PANIC
 */
#include "hugetlb.h"

#define PAGES 8
#define HOT 5

static volatile long *page(long i)
{
	return (volatile long *)(WINDOW(0) + (size_t)i * HUGE);
}

/* One CPU's TLB knows the page all the time. */
static void keep_hot(struct racer *r)
{
	(void)r;
	run_on(1);
	for (int i = 0; i < 1000; i++) {
		long value = canary(1, HOT);

		touch(page(HOT), true, &value);
	}
}

static void protect_another_page(struct racer *r)
{
	(void)r;
	MUST(mprotect((void *)page(0), HUGE, PROT_READ) == 0);
	sched_yield();
	map_window(0, GIB, RW);
}

/* The page leaves the file, and peers take it. */
static void punch(void)
{
	long value;

	touch(page(HOT), false, &value);	/* none may be left just now */
	CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HOT * (long)HUGE, HUGE) == 0);
	sched_yield();
}

static void racing(void)
{
	struct racer racers[] = { { .round = keep_hot }, { .round = protect_another_page } };
	size_t len;

	make_huge_file(PAGES);
	map_window(0, GIB, RW);
	leave_in_pool(3, &len);
	peer_start(punch);
	peer_start(take_free_pages);
	peer_start(take_free_pages);
	race(RACE_SECONDS, racers, 2);
	peers_end();
}

/* -- forced: a CPU has the page in its TLB, the table is given back for the sake of another page, the other process frees the page -- */

static volatile int is_hot, stop;

static void stay_hot(void *arg)
{
	(void)arg;
	run_on(1);
	*page(HOT) = canary(1, HOT);
	is_hot = 1;
	while (!stop) {
		long value = canary(1, HOT);

		touch(page(HOT), true, &value);	/* by the TLB, if nobody flushes it; else there may be no page */
	}
}

static long map_and_touch(long pages)
{
	map_window(0, GIB, RW);
	for (long i = 0; i < pages; i++)
		(void)*page(i);
	return 0;
}

/* Then all pages that are free are taken, must be zero and stay as they are written. */
static long punch_hot(long unused)
{
	int failures = test_failures;

	(void)unused;
	CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HOT * (long)HUGE, HUGE) == 0);
	for (int i = 0; i < 5; i++)
		take_free_pages();
	return test_failures - failures;
}

static void forced(void)
{
	struct peer *other;
	struct actor hot;
	size_t len;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;			/* the hot one would not keep its TLB */
	run_on(0);
	make_huge_file(PAGES);
	other = peer_start(NULL);
	puppet(other, map_and_touch, PAGES);
	map_and_touch(1);
	leave_in_pool(1, &len);
	actor_create(&hot, stay_hot, NULL);
	hot.start = 1;
	MUST(wait_flag(&is_hot, 5000));
	CHECK(mprotect((void *)page(0), HUGE, PROT_READ) == 0);
	CHECK_EQUAL(0, puppet(other, punch_hot, 0));
	stop = 1;
	actor_join(&hot);
	peers_end();
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
