/*
 * Mappings that agree use one table: the second to come has all pages with its first fault, and what one brings in, the others have.
 * Mappings that do not agree never do.
 * append: hugepages=40 hugetlb.sync=i_mmap
 * build: debug
 */
#include "lab5.h"

#define PAGES	6ul

/* In a child that has not the parent's mapping. */
struct try { char *at; size_t len; int prot, flags; size_t first; long faults; };

static void map_and_read(void *arg)
{
	const struct try *t = arg;

	MUST(munmap(WINDOW(0), GIB) == 0);
	MUST(mmap(t->at, t->len, t->prot, t->flags | MAP_FIXED | MAP_NORESERVE, huge_fd, (off_t)(t->first * HUGE)) == t->at);
	CHECK_EQUAL(t->faults, faults_reading(t->at, PAGES));
	check_tables();
}

static void try_all(void)
{
	static struct try tries[] = {
		/* The whole GiB with the same rights: here, elsewhere, and as the beginning of something longer. */
		{ WINDOW(0), GIB, RW, MAP_SHARED, 0, 1 },
		{ WINDOW(5), GIB, RW, MAP_SHARED, 0, 1 },
		{ WINDOW(5), 2 * GIB, RW, MAP_SHARED, 0, 1 },
		/* Not the whole GiB; not at the same place in the table; private; other rights. */
		{ WINDOW(0), GIB - HUGE, RW, MAP_SHARED, 0, PAGES },
		{ WINDOW(0) + HUGE, GIB, RW, MAP_SHARED, 0, PAGES },
		{ WINDOW(0), GIB, RW, MAP_PRIVATE, 0, PAGES },
		{ WINDOW(0), GIB, PROT_READ, MAP_SHARED, 0, PAGES },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		if (in_child(map_and_read, &tries[i])) {
			printf("... in mapping %zu of the list\n", i);
			test_failures++;
		}
}

/* Read-only memory stays so, although a writable table for the same pages is about. */
static void read_only(void *unused)
{
	long value = 1;

	(void)unused;
	MUST(munmap(WINDOW(0), GIB) == 0);
	map_window(3, GIB, PROT_READ);
	CHECK_EQUAL(0, touch(word_of(WINDOW(3), 0), false, &value));
	CHECK_EQUAL(SIGSEGV, touch(word_of(WINDOW(3), 0), true, &value));
}

static void brings_one_in(void *unused)
{
	(void)unused;
	CHECK_EQUAL(1, faults_reading(WINDOW(0), PAGES));
	write_canary(WINDOW(0) + PAGES * HUGE, canary(1, PAGES));
}

/* The same file twice in one process; then the one goes, and the other keeps everything. */
static void twice(void)
{
	map_window(9, GIB, RW);
	CHECK_EQUAL(1, faults_reading(WINDOW(9), PAGES));
	check_tables();
	MUST(munmap(WINDOW(0), GIB) == 0);
	CHECK_EQUAL(0, faults_reading(WINDOW(9), PAGES));
	map_window(0, GIB, RW);
	CHECK_EQUAL(1, faults_reading(WINDOW(0), PAGES));
	check_tables();
	MUST(munmap(WINDOW(9), GIB) == 0);
	CHECK_EQUAL(0, faults_reading(WINDOW(0), PAGES));
	check_tables();
}

/* Two threads fault in one fresh window, and both find the table to share: one of them counts it, once (R11). */
static void fault_at(void *page)
{
	long value = 0;

	CHECK_EQUAL(0, touch(word_of(WINDOW(9), (size_t)page), false, &value));
	CHECK_EQUAL(canary(1, (long)page), value);
}

static void both_at_once(void)
{
	struct actor first;

	map_window(9, GIB, RW);
	actor_create(&first, fault_at, (void *)1);
	hold("pmd_share_counted", first.tid);
	first.start = 1;
	while (!first.done && !is_held_now("pmd_share_counted"))
		race_relax();
	fault_at((void *)2);
	go();
	actor_join(&first);
	check_tables();
	MUST(munmap(WINDOW(9), GIB) == 0);
	check_tables();
}

int main(void)
{
	catch_touch_faults();
	clear_windows();
	pool_begin();
	make_huge_file(PAGES);
	map_window(0, GIB, RW);
	CHECK_EQUAL((long)PAGES, faults_reading(WINDOW(0), PAGES));
	try_all();
	CHECK_EQUAL(0, in_child(read_only, NULL));
	CHECK_EQUAL(0, in_child(brings_one_in, NULL));
	CHECK_EQUAL(0, faults_reading(WINDOW(0), PAGES + 1));	/* that one too */
	twice();
	both_at_once();
	MUST(munmap(WINDOW(0), GIB) == 0 && close(huge_fd) == 0);
	check_pool_is_back("shared tables");
	test_end();
}
