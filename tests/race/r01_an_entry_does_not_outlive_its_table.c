/*
 * R1. A fault has walked to its entry in a page table that other processes share. Before it writes the entry, another thread takes
 * the table away from this process (MADV_DONTNEED, a hole punched in the file: "unshare"). The entry then belongs to somebody else,
 * or to nobody.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: hugetlb.sync=none unsafe
 * shows: a fault wrote into a table|PANIC
 */
#include "hugetlb.h"

#define PAGES 6

/* Reads or rewrites all pages: each holds its canary, whoever mapped it. The file has them all, so no access needs a page. */
static void look(struct racer *r)
{
	(void)r;
	for (int i = 0; i < PAGES; i++) {
		long value = canary(1, i);
		int sig = touch((volatile long *)(WINDOW(0) + (size_t)i * HUGE), rnd(2), &value);

		CHECK(sig == 0 || sig == SIGSEGV);
		if (!sig)
			CHECK_EQUAL(canary(1, i), value);
	}
}

/* Whole windows, so that afterwards the table can be shared again. */
static void take_table_away(struct racer *r)
{
	(void)r;
	switch (rnd(4)) {
	case 0:
		MUST(mprotect(WINDOW(0), GIB, PROT_READ) == 0);
		MUST(mprotect(WINDOW(0), GIB, RW) == 0);
		break;
	case 1:
		MUST(madvise(WINDOW(0), HUGE, MADV_DONTNEED) == 0);
		break;
	case 2:
		MUST(munmap(WINDOW(0), GIB) == 0);
		__attribute__((fallthrough));
	default:
		map_window(0, GIB, RW);
	}
	sched_yield();
}

static void read_all(void)
{
	for (int i = 0; i < PAGES; i++)
		CHECK_EQUAL(canary(1, i), *(volatile long *)(WINDOW(0) + (size_t)i * HUGE));
	if (rnd(4) == 0)
		MUST(madvise(WINDOW(0), HUGE, MADV_DONTNEED) == 0);
}

static void check_file(struct racer *r)
{
	long value;

	(void)r;
	for (int i = 0; i < PAGES; i++) {
		MUST(pread(huge_fd, &value, sizeof(value), (off_t)(i * HUGE + 8000)) == sizeof(value));
		CHECK_EQUAL(canary(1, i), value);
	}
	sched_yield();
}

static void racing(void)
{
	struct racer racers[] = { { .round = look }, { .round = look }, { .round = take_table_away }, { .round = check_file } };

	make_huge_file(PAGES);
	map_window(0, GIB, RW);
	peer_start(read_all);
	peer_start(build_a_table);
	race(RACE_SECONDS, racers, 4);
	peers_end();
}

/*
 * -- forced: the table is taken away while a fault for a page that nobody has yet stands before its entry. If that was possible, the
 * entry must not turn up in the table of the other process --
 */
static long map_and_touch(long pages)
{
	map_window(0, GIB, RW);
	for (long i = 0; i < pages; i++)
		(void)*(volatile long *)(WINDOW(0) + (size_t)i * HUGE);
	return 0;
}

static long is_present(long page)
{
	return entry_is_present(WINDOW(0) + (size_t)page * HUGE);
}

static long protect(long unused)
{
	(void)unused;
	return mprotect(WINDOW(0), GIB, PROT_READ);
}

static void read_new_page(void *arg)
{
	long value = 1;

	(void)arg;
	CHECK_EQUAL(0, touch((volatile long *)(WINDOW(0) + PAGES * HUGE), false, &value));
	CHECK_EQUAL(0, value);
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
	puppet(other, map_and_touch, 2);
	map_and_touch(1);
	CHECK_EQUAL(1, is_present(1));			/* of which we have touched nothing: the table is shared */
	actor_create(&faulter, read_new_page, NULL);
	actor_create(&dropper, drop, NULL);
	actor_start_and_hold(&faulter, "hugetlb_fault_walked");
	actor_try(&dropper);
	bool taken_away = dropper.done;
	if (taken_away)
		CHECK_EQUAL(0, puppet(other, protect, 0));	/* so that we do not share its table once more */
	go();
	actor_join(&faulter);
	actor_join(&dropper);
	/* Where the table belongs to the file, the page shows wherever the file is mapped. */
	if (taken_away && !sync_is("file") && puppet(other, is_present, PAGES)) {
		puts("a fault wrote into a table that was not its own any more");
		test_failures++;
	}
	peers_end();
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
