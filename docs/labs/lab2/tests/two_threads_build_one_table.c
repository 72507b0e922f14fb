/*
 * Threads on two processors touch neighbouring pages of a region where no table is, at the same moment. All see all pages, and
 * the tables that were made in vain are gone: exactly the needed ones count.
 * build: debug
 * seeds: 3
 * budget: 2500
 */
#include "tests/labs/lab_test.h"

#define THREADS	4
#define ROUNDS	30
#define BASE	0x500000000000ul

static pthread_barrier_t start, done;
static volatile int failed;

static void *toucher(void *arg)
{
	long me = (long)arg;

	for (long round = 0; round < ROUNDS; round++) {
		volatile long *p = (long *)(BASE + (unsigned long)round * (1ul << 39) + (unsigned long)me * PAGE);

		pthread_barrier_wait(&start);
		*p = round * 100 + me;
		if (*p != round * 100 + me)
			failed = 1;
		pthread_barrier_wait(&done);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&start, NULL, THREADS + 1);
	pthread_barrier_init(&done, NULL, THREADS + 1);
	for (long i = 0; i < THREADS; i++)
		MUST(pthread_create(&threads[i], NULL, toucher, (void *)i) == 0);
	(void)table_kb();
	for (unsigned long round = 0; round < ROUNDS; round++) {
		char *p = (char *)(BASE + round * (1ul << 39));
		long before;

		MUST(mmap(p, THREADS * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == p);
		before = table_kb();
		pthread_barrier_wait(&start);
		pthread_barrier_wait(&done);
		CHECK_EQUAL(12, table_kb() - before);
		for (long i = 0; i < THREADS; i++)
			CHECK_EQUAL((long)round * 100 + i, *(volatile long *)(p + i * (long)PAGE));
		CHECK(munmap(p, THREADS * PAGE) == 0);
		CHECK_EQUAL(before, table_kb());
	}
	CHECK(!failed);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	test_end();
}
