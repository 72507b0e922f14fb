/*
 * The grader reads the page tables in the guest's memory: who shares has the same table frame, who has left has not, and the huge
 * pages behind them are the same.
 * append: hugepages=40 hugetlb.sync=i_mmap
 * build: debug
 * view
 */
#include "lab5.h"

static void child(void *unused)
{
	(void)unused;
	view_none(WINDOW(0));			/* fork copies nothing of a shared mapping */
	CHECK_EQUAL(canary(1, 0), *word_of(WINDOW(0), 0));
	view_table_is("parent", WINDOW(0), 2);
	view_page(WINDOW(0), "rw");
	view_page(WINDOW(0) + HUGE, "rw");	/* by the table, without a fault */
	view_is("page_1", WINDOW(0) + HUGE);
	MUST(mprotect(WINDOW(0), HUGE, PROT_READ) == 0);
	view_none(WINDOW(0) + HUGE);
	CHECK_EQUAL(canary(1, 0), *word_of(WINDOW(0), 0));
	CHECK_EQUAL(canary(1, 1), *word_of(WINDOW(0), 1));
	view_table_is_not("parent", WINDOW(0), 2);
	view_page(WINDOW(0), "r-");
	view_page(WINDOW(0) + HUGE, "rw");
	view_is("page_1", WINDOW(0) + HUGE);
}

static void reader(void *unused)
{
	(void)unused;
	MUST(munmap(WINDOW(0), GIB) == 0);
	map_window(3, GIB, PROT_READ);
	CHECK_EQUAL(canary(1, 0), *word_of(WINDOW(3), 0));
	view_table_is_not("parent", WINDOW(3), 2);
	view_page(WINDOW(3), "r-");
	view_none(WINDOW(3) + HUGE);
}

int main(void)
{
	pool_begin();
	make_huge_file(2);
	map_window(0, GIB, RW);
	view_none(WINDOW(0));
	CHECK_EQUAL(canary(1, 0), *word_of(WINDOW(0), 0));
	CHECK_EQUAL(canary(1, 1), *word_of(WINDOW(0), 1));
	view_page(WINDOW(0), "rw");
	view_table_remember("parent", WINDOW(0), 2);
	view_remember("page_1", WINDOW(0) + HUGE);
	CHECK_EQUAL(0, in_child(child, NULL));
	CHECK_EQUAL(0, in_child(reader, NULL));
	view_table_is("parent", WINDOW(0), 2);
	view_page(WINDOW(0) + HUGE, "rw");
	test_end();
}
