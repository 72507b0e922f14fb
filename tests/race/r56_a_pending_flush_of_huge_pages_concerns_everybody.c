/*
 * R56 with huge pages. Two threads drop the same page. The first has emptied the entry and not flushed yet; the second finds nothing
 * to do. When it returns, its caller relies on the page being gone, on every CPU.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 */
#include "hugetlb.h"

static volatile long *page;

static void drop(struct racer *r)
{
	(void)r;
	MUST(madvise((void *)page, HUGE, MADV_DONTNEED) == 0);
	sched_yield();
}

/* The only one who writes. */
static void write_and_drop(struct racer *r)
{
	long v;

	*page = (long)r->rounds + 1;
	MUST(madvise((void *)page, HUGE, MADV_DONTNEED) == 0);
	v = *page;
	if (v) {
		printf("after MADV_DONTNEED the page still reads %ld\n", v);
		test_failures++;
	}
}

static void keep_hot(struct racer *r)
{
	(void)r;
	for (int i = 0; i < 100; i++)
		(void)*page;
}

static void racing(void)
{
	struct racer racers[] = { { .round = drop }, { .round = write_and_drop }, { .round = keep_hot } };

	page = (volatile long *)map_huge(1, RW, HUGE_ANON, -1);
	race(RACE_SECONDS, racers, 3);
}

int main(void)
{
	run_huge_race(racing, NULL, 32);
}
