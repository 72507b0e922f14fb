/*
 * R5. Page pinning walks the tables without a lock. The table that it is in is taken away from this process, its last owner puts
 * other pages in it, and the walker pins a page of somebody else, or one that is free (CVE-2025-38085).
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=5
 * shows: a pin shows|CHECK|PANIC
 */
#include "hugetlb.h"

#define PAGES 3

static bool is_ours(long value, long i)
{
	return value == 0 || (value & ~0xff000000l) == canary(1, i);	/* of any generation */
}

/* By a pipe that holds the page itself, by a copy out of it, and by another way of pinning. */
static void pin(struct racer *r)
{
	long i = rnd(PAGES), got = 0;
	struct iovec page = { WINDOW(0) + (size_t)i * HUGE + 8000, sizeof(long) }, to = { &got, sizeof(got) };
	int pipes[2];

	if (r->rounds % 2) {
		if (process_vm_readv(getpid(), &to, 1, &page, 1, 0) == sizeof(got))
			CHECK(is_ours(got, i));
		return;
	}
	MUST(pipe(pipes) == 0);
	if (vmsplice(pipes[1], &page, 1, 0) == sizeof(long)) {
		sched_yield();
		CHECK(read(pipes[0], &got, sizeof(got)) == sizeof(got));
		if (!is_ours(got, i)) {
			printf("a pin shows what was never in the file: %lx\n", got);
			test_failures++;
		}
	}
	close(pipes[0]);
	close(pipes[1]);
}

static void take_table_away(struct racer *r)
{
	(void)r;
	MUST(mprotect(WINDOW(0), GIB, PROT_READ) == 0);
	MUST(mprotect(WINDOW(0), GIB, RW) == 0);
	if (rnd(4) == 0)
		map_window(0, GIB, RW);
	sched_yield();
}

/* The other owner of the table: throws pages out and puts new ones in. */
static void refill(void)
{
	long i = rnd(PAGES), value = canary(1, i) | (long)(rnd(250) + 1) << 24;

	if (rnd(2))
		CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, i * (long)HUGE, HUGE) == 0);
	else
		MUST(madvise(WINDOW(0) + (size_t)i * HUGE, HUGE, MADV_DONTNEED) == 0);
	write_canary(WINDOW(0) + (size_t)i * HUGE, value);
}

static void racing(void)
{
	struct racer racers[] = { { .round = pin }, { .round = pin }, { .round = take_table_away } };

	make_huge_file(PAGES);
	map_window(0, GIB, RW);
	peer_start(refill);
	peer_start(take_free_pages);
	race(RACE_SECONDS, racers, 3);
	peers_end();
}

/* -- forced: the page goes, and is somebody else's, between the look at the entry and the pin -- */

static long seen;

static void pin_once(void *arg)
{
	struct iovec page = { WINDOW(0) + 8000, sizeof(long) }, to = { &seen, sizeof(seen) };

	(void)arg;
	if (process_vm_readv(getpid(), &to, 1, &page, 1, 0) != sizeof(seen))
		seen = 0;
}

static void punch_once(void *arg)
{
	(void)arg;
	CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HUGE) == 0);
}

static long take_and_keep(long pages)
{
	char *p = map_huge((size_t)pages, RW, HUGE_ANON, -1);

	for (long i = 0; i < pages; i++)
		write_canary(p + (size_t)i * HUGE, canary(7, i));
	return 0;
}

static void forced(void)
{
	struct peer *other;
	struct actor pinner, puncher;
	size_t len;

	make_huge_file(1);
	map_window(0, GIB, RW);
	(void)*(volatile long *)WINDOW(0);
	other = peer_start(NULL);
	leave_in_pool(2, &len);
	actor_create(&pinner, pin_once, NULL);
	actor_create(&puncher, punch_once, NULL);
	actor_start_and_hold(&pinner, "hugetlb_gup_walked");
	actor_try(&puncher);
	if (puncher.done)
		puppet(other, take_and_keep, 3);
	go();
	actor_join(&pinner);
	actor_join(&puncher);
	if (!is_ours(seen, 0)) {
		printf("a pin shows what was never in the file: %lx\n", seen);
		test_failures++;
	}
	peers_end();
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
