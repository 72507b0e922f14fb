/*
 * R4. mprotect or munmap of a part of a gigabyte splits the mapping. If the shared table is given back first and the bounds change
 * afterwards, a fault in between shares it again: then one table spans two mappings, and what one half changes, the other and other
 * processes feel (CVE-2025-38084).
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: hugetlb.sync=vma race.reopen=4
 * shows: a table spans two mappings
 */
#include "hugetlb.h"

#define PAGES 6

static volatile long *page(long i)
{
	return (volatile long *)(WINDOW(0) + (size_t)i * HUGE);
}

/* The only one that changes rights: so it knows what each page allows. */
static void split(struct racer *r)
{
	long i = rnd(PAGES), value = canary(1, i), next = (i + 1) % PAGES, next_value = canary(1, next);

	(void)r;
	MUST(mprotect((void *)page(i), HUGE, PROT_READ) == 0);
	CHECK_EQUAL(SIGSEGV, touch(page(i), true, &value));
	CHECK_EQUAL(0, touch(page(i), false, &value));
	CHECK_EQUAL(canary(1, i), value);
	CHECK_EQUAL(0, touch(page(next), true, &next_value));
	MUST(munmap((void *)page(i), HUGE) == 0);
	CHECK_EQUAL(SIGSEGV, touch(page(i), false, &value));
	CHECK_EQUAL(0, touch(page(next), false, &next_value));
	CHECK_EQUAL(canary(1, next), next_value);
	map_window(0, GIB, RW);			/* one mapping again, and its table shared again */
}

static void touch_all(struct racer *r)
{
	(void)r;
	for (int i = 0; i < PAGES; i++) {
		long value = canary(1, i);
		int sig = touch(page(i), rnd(2), &value);

		CHECK(sig == 0 || sig == SIGSEGV);
		CHECK_EQUAL(canary(1, i), value);
	}
}

/* Another process, with rights of its own, never feels any of it. */
static void write_all(void)
{
	for (int i = 0; i < PAGES; i++) {
		*page(i) = canary(1, i);
		CHECK_EQUAL(canary(1, i), *page(i));
	}
}

static void racing(void)
{
	struct racer racers[] = { { .round = split }, { .round = touch_all }, { .round = touch_all } };

	make_huge_file(PAGES);
	map_window(0, GIB, RW);
	peer_start(write_all);
	peer_start(write_all);
	race(RACE_SECONDS, racers, 3);
	peers_end();
}

/* -- forced: a fault comes between the splitting thread's step and the new bounds -- */

/* Splits, and touches no entry itself. */
static void split_off(void *arg)
{
	(void)arg;
	CHECK(madvise((void *)page(1), HUGE, MADV_DONTFORK) == 0);
}

static void fault(void *arg)
{
	long value;

	(void)arg;
	touch(page(0), false, &value);
}

static long read_pages(long pages)
{
	for (long i = 0; i < pages; i++)
		CHECK_EQUAL(canary(1, i), *page(i));
	return 0;
}

static void forced(void)
{
	struct peer *other;
	struct actor splitter, faulter;

	make_huge_file(PAGES);
	map_window(0, GIB, RW);
	other = peer_start(NULL);
	puppet(other, read_pages, PAGES);
	read_pages(1);
	actor_create(&splitter, split_off, NULL);
	actor_create(&faulter, fault, NULL);
	actor_start_and_hold(&splitter, "vma_split");
	actor_try(&faulter);
	go();
	actor_join(&faulter);
	actor_join(&splitter);
	/* Split: no window of ours is whole any more, so what we have is our own table. */
	CHECK_EQUAL(canary(1, 0), *page(0));
	if (entry_is_present((char *)page(2)) == 1) {
		puts("a table spans two mappings");
		test_failures++;
	}
	puppet(other, read_pages, PAGES);
	peers_end();
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
