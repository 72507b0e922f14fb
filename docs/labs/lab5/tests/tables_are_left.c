/*
 * Who wants to change something for itself leaves the shared table: the others keep all they had, the table knows how many users it
 * has left, and no processor knows anything of it any more, in the whole gigabyte.
 * append: hugepages=40 hugetlb.sync=i_mmap
 * build: debug
 */
#include "lab5.h"

#define PAGES	6ul

static void by_mprotect(void)
{
	long value = 0;

	MUST(mprotect(WINDOW(0) + HUGE, HUGE, PROT_READ) == 0);
	CHECK_EQUAL((long)PAGES, faults_reading(WINDOW(0), PAGES));	/* no part of it covers the GiB any more */
	CHECK_EQUAL(SIGSEGV, touch(word_of(WINDOW(0), 1), true, &value));
	CHECK_EQUAL(0, touch(word_of(WINDOW(0), 2) + 8, true, &value));
}

static void by_dontneed(void)
{
	MUST(madvise(WINDOW(0) + HUGE, HUGE, MADV_DONTNEED) == 0);
	CHECK_EQUAL(1, faults_reading(WINDOW(0), PAGES));		/* and shares again */
}

static void by_munmap(void)
{
	long value = 0;

	MUST(munmap(WINDOW(0) + 2 * HUGE, HUGE) == 0);
	CHECK_EQUAL(2, faults_reading(WINDOW(0), 2));
	CHECK_EQUAL(SIGSEGV, touch(word_of(WINDOW(0), 2), false, &value));
}

static void by_mremap(void)
{
	MUST(mremap(WINDOW(0), GIB, GIB, MREMAP_MAYMOVE | MREMAP_FIXED, WINDOW(7)) == WINDOW(7));
	CHECK_EQUAL(1, faults_reading(WINDOW(7), PAGES));
}

static void by_all_rights(void)
{
	long value = 1;

	MUST(mprotect(WINDOW(0), GIB, PROT_READ) == 0);
	CHECK_EQUAL(SIGSEGV, touch(word_of(WINDOW(0), 0), true, &value));
	CHECK_EQUAL((long)PAGES, faults_reading(WINDOW(0), PAGES));	/* the refused write has brought nothing */
}

static void leave(void *how)
{
	CHECK_EQUAL(1, faults_reading(WINDOW(0), PAGES));
	check_tables();
	((void (*)(void))how)();
	check_tables();
}

/* -- a processor has a page in its TLB; the table is left for the sake of another page; then the page leaves the file -- */

static volatile int is_hot, stop;
static volatile long last_seen;

static void stay_hot(void *unused)
{
	(void)unused;
	run_on(1);
	last_seen = *word_of(WINDOW(0), 5);
	is_hot = 1;
	while (!stop) {
		last_seen = *word_of(WINDOW(0), 5);
		relax();
	}
}

static void protect_0(void) { MUST(mprotect(WINDOW(0), HUGE, PROT_READ) == 0); }
static void drop_0(void) { MUST(madvise(WINDOW(0), HUGE, MADV_DONTNEED) == 0); }

static void leave_while_hot(void *how)
{
	struct actor hot;

	run_on(0);
	CHECK_EQUAL(1, faults_reading(WINDOW(0), PAGES));
	actor_create(&hot, stay_hot, NULL);
	hot.start = 1;
	while (!is_hot)
		race_relax();
	((void (*)(void))how)();
	punch(huge_fd, 5);
	sleep_ms(2);			/* some looks later */
	long seen = last_seen;
	stop = 1;
	actor_join(&hot);
	if (seen) {
		printf("page 5 still reads %lx, after it was punched out of the file\n", seen);
		test_failures++;
	}
}

int main(void)
{
	void (*ways[])(void) = { by_mprotect, by_dontneed, by_munmap, by_mremap, by_all_rights };

	catch_touch_faults();
	clear_windows();
	pool_begin();
	make_huge_file(PAGES);
	map_window(0, GIB, RW);
	CHECK_EQUAL((long)PAGES, faults_reading(WINDOW(0), PAGES));
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		CHECK_EQUAL(0, in_child(leave, (void *)ways[i]));
		CHECK_EQUAL(0, faults_reading(WINDOW(0), PAGES));
		check_tables();
	}
	CHECK_EQUAL(0, in_child(leave_while_hot, (void *)protect_0));
	write_canary(WINDOW(0) + 5 * HUGE, canary(1, 5));
	CHECK_EQUAL(0, in_child(leave_while_hot, (void *)drop_0));
	MUST(munmap(WINDOW(0), GIB) == 0 && close(huge_fd) == 0);
	check_pool_is_back("tables that were left");
	test_end();
}
