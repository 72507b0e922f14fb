/*
 * R19. The owner of a private mapping drops a page with MADV_DONTNEED and will touch it again. The page goes back to the pool
 * together with its promise: nobody else may take it meanwhile.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=19
 * shows: a page that was promised is gone
 */
#include "hugetlb.h"

#define PAGES 4

static char *map;
static size_t hog_len;

static void drop_and_touch(struct racer *r)
{
	long i = rnd(PAGES), value = canary(1, i);

	(void)r;
	MUST(madvise(map + (size_t)i * HUGE, HUGE, MADV_DONTNEED) == 0);
	if (rnd(2))
		sched_yield();
	int sig = touch((volatile long *)(map + (size_t)i * HUGE), true, &value);
	if (sig) {
		printf("signal %d: a page that was promised is gone\n", sig);
		test_failures++;
	}
}

/* Peer: finds none, for those that are free are promised. */
static void steal(void)
{
	if (common->word[0])
		take_free_pages();
	else
		sleep_ms(1);
}

static void map_it(long left)
{
	map = map_huge(PAGES, RW, HUGE_ANON, -1);
	for (int i = 0; i < PAGES; i++)
		map[(size_t)i * HUGE] = 1;
	leave_in_pool(left, &hog_len);
}

static void racing(void)
{
	struct racer racers[] = { { .round = drop_and_touch } };

	/* Before the mapping is made: a page that a child has too does not come free. */
	peer_start(steal);
	peer_start(steal);
	map_it(0);
	common->word[0] = 1;
	race(RACE_SECONDS, racers, 1);
	peers_end();
}

/* -- between the two steps another process asks, and does not get the page -- */

static long take_one(long unused)
{
	char *p = map_huge(1, RW, HUGE_ANON | MAP_NORESERVE, -1);
	long value;

	(void)unused;
	return touch((volatile long *)p, false, &value);	/* keeps it */
}

static void in_steps(void)
{
	struct peer *thief;
	long value = 1;

	thief = peer_start(NULL);
	map_it(0);
	MUST(madvise(map, HUGE, MADV_DONTNEED) == 0);
	CHECK_EQUAL(SIGBUS, puppet(thief, take_one, 0));
	if (touch((volatile long *)map, true, &value)) {
		puts("a page that was promised is gone");
		test_failures++;
	}
	peers_end();
}

static void both(void)
{
	run_part(in_steps);
	racing();
}

int main(void)
{
	run_huge_race(both, NULL, 32);
}
