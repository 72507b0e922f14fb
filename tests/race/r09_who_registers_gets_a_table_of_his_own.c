/*
 * R9. userfaultfd write-protects pages by a bit in their entries. In a table that other processes share, the bit would stop their
 * writes too, and events would come from the wrong process: so registration for write-protection gives shared tables back, and no
 * fault shares one again while it lasts.
 *
 * append: hugepages=64
 * build: debug
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: hugetlb.sync=vma race.reopen=9
 * shows: cannot go on: poll|stands still|PANIC
 */
#include "huge_uffd.h"

#define PAGES 4

static int uffd;

static volatile long *page(long i)
{
	return (volatile long *)(WINDOW(0) + (size_t)i * HUGE);
}

/* The other process: knows nothing of userfaultfd and must never stand still. */
static void write_all(void)
{
	for (int i = 0; i < PAGES; i++)
		*page(i) = canary(1, i);
}

/* Waits until the other process has written all pages twice more. */
static void other_goes_on(void)
{
	unsigned long rounds = common->peer[0].rounds;

	for (double end = now() + HANG_SECONDS / 2; common->peer[0].rounds < rounds + 2; sched_yield()) {
		if (now() >= end) {
			puts("a process without userfaultfd stands still");
			fflush(stdout);
			_exit(1);
		}
	}
}

static volatile long wanted = -1, writes, events;

static volatile int no_more_writes;

/* Writes the page that the manager has protected; it gets no further until the manager allows it. */
static void *write_protected(void *arg)
{
	for (; !no_more_writes; sched_yield()) {
		long i = wanted;

		if (i < 0)
			continue;
		*page(i) = canary(1, i);
		writes++;
		wanted = -1;
	}
	return arg;
}

static void manage(struct racer *r)
{
	struct pollfd p = { uffd, POLLIN, 0 };
	struct uffd_message m;
	long i = rnd(PAGES);

	(void)r;
	for (int k = 0; k < PAGES; k++)
		MUST(*page(k) == canary(1, k));
	MUST(uffd_register(uffd, WINDOW(0), GIB, UFFD_WP) == 0);
	for (int k = 0; k < PAGES; k++)
		MUST(*page(k) == canary(1, k));
	MUST(uffd_protect(uffd, WINDOW(0), PAGES * HUGE, true) == 0);
	other_goes_on();
	wanted = i;
	MUST(poll(&p, 1, 5000) == 1);		/* our own write gets its event */
	MUST(read(uffd, &m, sizeof(m)) == sizeof(m));
	CHECK_EQUAL(0x12, m.event);
	CHECK_EQUAL((uintptr_t)page(i), m.address);
	CHECK(m.flags & UFFD_PAGEFAULT_WP);
	events++;
	CHECK(wanted == i);
	MUST(uffd_protect(uffd, WINDOW(0), PAGES * HUGE, false) == 0);
	for (double end = now() + HANG_SECONDS / 2; wanted >= 0; sched_yield())
		MUST(now() < end);
	MUST(uffd_unregister(uffd, WINDOW(0), GIB) == 0);
	map_window(0, GIB, RW);
}

static void racing(void)
{
	struct racer racers[] = { { .round = manage } };
	pthread_t writer;

	make_huge_file(PAGES);
	map_window(0, GIB, RW);
	peer_start(write_all);
	uffd = uffd_open(UFFD_FEATURES_WP);
	MUST(pthread_create(&writer, NULL, write_protected, NULL) == 0);
	race(RACE_SECONDS, racers, 1);
	no_more_writes = 1;
	pthread_join(writer, NULL);
	CHECK(events >= 1 && writes == events);
	peers_end();
}

int main(void)
{
	close(uffd_open(UFFD_FEATURES_WP));		/* or skipped, while nothing has begun */
	run_huge_race(racing, NULL, 32);
}
