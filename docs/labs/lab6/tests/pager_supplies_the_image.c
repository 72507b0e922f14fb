/*
 * Three threads work in memory that a pager supplies: all find the image's bytes, and zeros behind its end; threads that miss the same page at the same
 * moment all get it; and the pager knows in the end who was written to.
 * program: pager
 * budget: 12000
 */
#include "pager.h"

#define PAGES	48ul
#define THREADS	3

static pthread_barrier_t line;

/* All of them touch each page at the same time, in three ways; page 3k + 2 is written to by the last. */
static void *work(void *arg)
{
	long me = (long)arg;

	for (size_t page = 0; page < PAGES; page++) {
		volatile char *p = area + page * PAGE;

		pthread_barrier_wait(&line);
		if (me == THREADS - 1 && page % 3 == 2)
			p[3] = 'W';
		else
			(void)p[me];
	}
	return NULL;
}

int main(void)
{
	static char dirty[PAGES];
	const char written = 'W';
	pthread_t thread[THREADS];

	pager_start(PAGES);
	pthread_barrier_init(&line, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		MUST(pthread_create(&thread[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (size_t page = 0; page < PAGES && test_failures < 5; page++)
		check_page(page, page % 3 == 2 ? &written : NULL);
	*(volatile char *)area = area[0];			/* writes: the first of this page, and not the first */
	*(volatile char *)(area + 2 * PAGE) = area[2 * PAGE];
	pager_end(dirty);
	for (size_t page = 0; page < PAGES; page++)
		check_dirty(dirty, page, page % 3 == 2 || page == 0);
	test_end();
}
