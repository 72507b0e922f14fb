/*
 * Truncation meets a fault, with a semaphore for each VMA: it takes the page from every mapping, also from one whose fault it has to
 * wait for; and while it waits, it holds nothing that the fault, or anybody else, may want (R2).
 * append: hugepages=64 hugetlb.sync=vma
 * build: debug
 * seeds: 2
 * budget: 2000
 */
#include "lab5.h"

#define PAGES	4ul

static void read_page(void *arg)
{
	long page = (long)arg, value = 0;

	touch(word_of(WINDOW(0), (size_t)page), false, &value);
	if (value && value != canary(1, page)) {
		printf("page %ld reads %lx\n", page, value);
		test_failures++;
	}
}

static void punch_0(void *unused)
{
	(void)unused;
	punch(huge_fd, 0);
}

static void cut(void *unused)
{
	(void)unused;
	CHECK(ftruncate(huge_fd, 0) == 0);
}

/* Needs the list of the file's mappings for itself. */
static void unmap_another(void *unused)
{
	(void)unused;
	MUST(munmap(WINDOW(5), GIB) == 0);
}

/* A fault for @page of window 0 is held; @remove needs its VMA, and must not be in the way of a third. */
static void meet(const char *window, long page, void (*remove)(void *))
{
	struct actor faulter, remover, third;

	map_window(5, GIB, RW);
	actor_create(&faulter, read_page, (void *)page);
	actor_create(&remover, remove, NULL);
	actor_create(&third, unmap_another, NULL);
	if (!start_and_hold(&faulter, window, "vma"))
		return;
	actor_try(&remover);
	if (remover.done) {
		printf("nobody waits for a fault that is held at %s\n", window);
		test_failures++;
	}
	actor_try(&third);
	if (!third.done) {
		puts("while truncation waits for a fault, a third task cannot unmap the file");
		test_failures++;
	}
	go();
	actor_join(&faulter);
	actor_join(&remover);
	actor_join(&third);
	clear_windows();
}

int main(void)
{
	long value = 0;

	catch_touch_faults();
	clear_windows();
	pool_begin();
	make_huge_file(PAGES);
	/* Page 0 is mapped here and in another window; the fault is for page 1. */
	map_window(1, GIB, RW);
	CHECK_EQUAL((long)PAGES, faults_reading(WINDOW(1), PAGES));
	map_window(0, GIB, RW);
	CHECK_EQUAL(1, faults_reading(WINDOW(0), 1));
	MUST(mprotect(WINDOW(0), 2 * HUGE, PROT_READ) == 0);	/* now with a table of its own, in which page 1 is missing */
	CHECK_EQUAL(1, faults_reading(WINDOW(0), 1));
	meet("hugetlb_fault_walked", 1, punch_0);
	CHECK_EQUAL(0, *word_of(WINDOW(0), 0));
	CHECK_EQUAL(0, *word_of(WINDOW(1), 0));
	CHECK_EQUAL(canary(1, 1), *word_of(WINDOW(0), 1));
	MUST(munmap(WINDOW(0), GIB) == 0);
	/* The fault is about to share a table, and all is cut off. */
	map_window(0, GIB, RW);
	meet("hugetlb_before_share", 2, cut);
	for (size_t i = 0; i < PAGES; i++) {
		CHECK_EQUAL(SIGBUS, touch(word_of(WINDOW(0), i), false, &value));
		CHECK_EQUAL(SIGBUS, touch(word_of(WINDOW(1), i), false, &value));
	}
	check_tables();
	MUST(munmap(WINDOW(0), GIB) == 0 && munmap(WINDOW(1), GIB) == 0 && close(huge_fd) == 0);
	check_pool_is_back("truncation");
	test_end();
}
