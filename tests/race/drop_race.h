/* R56 for pages of any size: threads that drop the page which one of them writes. */
#ifndef DROP_RACE_H
#define DROP_RACE_H

static volatile long *page;
static size_t page_bytes;

static void drop(struct racer *r)
{
	(void)r;
	MUST(madvise((void *)page, page_bytes, MADV_DONTNEED) == 0);
	sched_yield();
}

/* The only one who writes. */
static void write_and_drop(struct racer *r)
{
	long v;

	*page = (long)r->rounds + 1;
	MUST(madvise((void *)page, page_bytes, MADV_DONTNEED) == 0);
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

static void race_drops(void *memory, size_t bytes)
{
	struct racer racers[] = { { .round = drop }, { .round = write_and_drop }, { .round = keep_hot } };

	page = memory;
	page_bytes = bytes;
	race(RACE_SECONDS, racers, 3);
}

#endif
