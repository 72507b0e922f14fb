/* R56 for pages of any size: threads that drop the page which one of them writes. */
#ifndef DROP_RACE_H
#define DROP_RACE_H

static volatile long *page;
static size_t page_bytes;

static void must_be_zero(long value)
{
	if (!value)
		return;
	printf("after MADV_DONTNEED the page still reads %ld\n", value);
	test_failures++;
}

static void drop(struct racer *r)
{
	(void)r;
	MUST(madvise((void *)page, page_bytes, MADV_DONTNEED) == 0);
	sched_yield();
}

/* The only one who writes. */
static void write_and_drop(struct racer *r)
{
	*page = (long)r->rounds + 1;
	MUST(madvise((void *)page, page_bytes, MADV_DONTNEED) == 0);
	must_be_zero(*page);
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

/* -- forced: the second drops while the first is about to flush. The second never leaves its CPU, whose TLB knows the page -- */

static volatile int is_hot, may_drop;
static volatile long seen;

static void drop_once(void *arg)
{
	(void)arg;
	run_on(0);
	MUST(madvise((void *)page, page_bytes, MADV_DONTNEED) == 0);
}

static void second_drop(void *arg)
{
	(void)arg;
	run_on(1);
	*page = 77;
	is_hot = 1;
	while (!may_drop)
		__asm__ volatile("pause");
	MUST(madvise((void *)page, page_bytes, MADV_DONTNEED) == 0);
	seen = *page;
}

/* @window: where the first has emptied the entry, and the flush is still to come. */
static void force_drops(void *memory, size_t bytes, const char *window)
{
	struct actor one, two;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;			/* the second could not stay on its CPU */
	run_on(0);
	page = memory;
	page_bytes = bytes;
	for (int i = 0; i < 3; i++) {
		is_hot = may_drop = 0;
		actor_create(&one, drop_once, NULL);
		actor_create(&two, second_drop, NULL);
		two.start = 1;
		MUST(wait_flag(&is_hot, 5000));
		actor_start_and_hold(&one, window);
		may_drop = 1;
		actor_try(&two);	/* through, or waiting for the first */
		go();
		actor_join(&two);
		actor_join(&one);
		must_be_zero(seen);
	}
}

#endif
