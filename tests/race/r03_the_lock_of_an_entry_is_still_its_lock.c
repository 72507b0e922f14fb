/*
 * R3. A fault picks the lock that belongs to a page table, or has dropped all locks to wait for memory. When it has the lock, the
 * table may be another one, or nobody's: then it locks reused memory, or edits an entry under the wrong lock.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: hugetlb.sync=none unsafe
 * shows: PANIC
 */
#include "hugetlb.h"

#define PAGES 4

static char *private;

/* Private copies: these faults sleep, to allocate and to copy, and come back to their entry. */
static void copy_privately(struct racer *r)
{
	(void)r;
	for (int i = 0; i < PAGES; i++) {
		volatile long *p = (volatile long *)(private + (size_t)i * HUGE);
		long value;

		if (!touch(p, false, &value))
			CHECK(value == canary(1, i) || value == canary(2, i));
		value = canary(2, i);
		touch(p, true, &value);			/* no page left: SIGBUS */
	}
}

/* What they come back to is gone, or there anew. */
static void replace(struct racer *r)
{
	(void)r;
	if (rnd(2)) {
		MUST(madvise(private, PAGES * HUGE, MADV_DONTNEED) == 0);
	} else {
		MUST(munmap(private, PAGES * HUGE) == 0);
		MUST(mmap(private, PAGES * HUGE, RW, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, huge_fd, 0) == private);
	}
	sched_yield();
}

static void fault_shared(struct racer *r)
{
	(void)r;
	for (int i = 0; i < PAGES; i++) {
		long value;

		if (!touch((volatile long *)(WINDOW(0) + (size_t)i * HUGE), false, &value))
			CHECK_EQUAL(canary(1, i), value);
	}
}

static void replace_shared(struct racer *r)
{
	(void)r;
	MUST(munmap(WINDOW(0), GIB) == 0);
	map_window(0, GIB, RW);
	sched_yield();
}

static void racing(void)
{
	struct racer racers[] = { { .round = copy_privately }, { .round = copy_privately }, { .round = replace },
				  { .round = fault_shared }, { .round = replace_shared } };
	size_t len;

	make_huge_file(PAGES);
	private = WINDOW(8);
	MUST(mmap(private, PAGES * HUGE, RW, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, huge_fd, 0) == private);
	map_window(0, GIB, RW);
	leave_in_pool(PAGES + 2, &len);
	peer_start(build_a_table);
	peer_start(take_free_pages);
	race(RACE_SECONDS, racers, 5);
	peers_end();
}

/* -- forced: this process loses the table, and then the last one that had it does; the fault still has it in its hands -- */

static long map_and_touch(long n)
{
	map_window((int)n, GIB, RW);
	return *(volatile long *)WINDOW(n);
}

static long unmap(long n)
{
	return munmap(WINDOW(n), GIB);
}

static void read_new_page(void *arg)
{
	long value;

	(void)arg;
	touch((volatile long *)(WINDOW(0) + PAGES * HUGE), false, &value);
}

/* Unlike mprotect and munmap it runs beside the faults of this mapping. */
static void drop(void *arg)
{
	(void)arg;
	CHECK(madvise(WINDOW(0), HUGE, MADV_DONTNEED) == 0);
}

static void forced(void)
{
	struct peer *other;
	struct actor faulter, dropper;

	make_huge_file(2);
	other = peer_start(NULL);
	puppet(other, map_and_touch, 0);
	map_and_touch(0);
	actor_create(&faulter, read_new_page, NULL);
	actor_create(&dropper, drop, NULL);
	actor_start_and_hold(&faulter, "hugetlb_fault_walked");
	actor_try(&dropper);
	CHECK_EQUAL(0, puppet(other, unmap, 0));
	sleep_ms(300);				/* a grace period, if tables wait for one */
	go();
	actor_join(&faulter);
	actor_join(&dropper);
	peers_end();
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
