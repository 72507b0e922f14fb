/*
 * R54 with huge pages. mremap takes a huge page away from its old address; before others can find it at the new one and free it, no
 * CPU may be able to write it by the old address.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=54
 * shows: PANIC: .*stale translation
 */
#include "hugetlb.h"

#define PAGES 4

static char *const here = WINDOW(0), *const there = WINDOW(2);
static size_t hog_len;

static void move(struct racer *r)
{
	(void)r;
	MUST(mremap(here, PAGES * HUGE, PAGES * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
	MUST(mremap(there, PAGES * HUGE, PAGES * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, here) == here);
}

static void write_old(struct racer *r)
{
	(void)r;
	for (int i = 0; i < PAGES; i++) {
		long value = canary(1, i);

		touch((volatile long *)(here + (size_t)i * HUGE), true, &value);
	}
}

static void cut(struct racer *r)
{
	(void)r;
	if (rnd(2))
		CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGES * HUGE) == 0);
	else
		CHECK(ftruncate(huge_fd, 0) == 0 && ftruncate(huge_fd, PAGES * HUGE) == 0);
	sched_yield();
}

static void map_file(void)
{
	make_huge_file(PAGES);
	map_window(0, PAGES * HUGE, RW);
	leave_in_pool(4, &hog_len);
}

static void racing(void)
{
	struct racer racers[] = { { .round = move }, { .round = write_old }, { .round = write_old }, { .round = cut } };

	map_file();
	peer_start(take_free_pages);
	race(RACE_SECONDS, racers, 4);
	peers_end();
}

/* -- forced: the file is cut while the entries have moved and nothing is flushed -- */

static void move_once(void *arg)
{
	(void)arg;
	run_on(1);
	MUST(mremap(here, PAGES * HUGE, PAGES * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
}

static void cut_once(void *arg)
{
	(void)arg;
	CHECK(ftruncate(huge_fd, 0) == 0);
}

static void forced(void)
{
	struct actor mover, cutter;
	long value;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;			/* as it should be, the mover is held with locks, and keeps its CPU */
	run_on(0);
	map_file();
	for (int i = 0; i < PAGES; i++)
		here[(size_t)i * HUGE] = 1;
	actor_create(&mover, move_once, NULL);
	actor_create(&cutter, cut_once, NULL);
	actor_start_and_hold(&mover, "hugetlb_move_before_flush");
	actor_try(&cutter);
	go();
	actor_join(&cutter);
	actor_join(&mover);
	CHECK_EQUAL(SIGBUS, touch((volatile long *)there, false, &value));
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
