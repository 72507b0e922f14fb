/*
 * Threads that bind themselves to another processor again and again, in the debug kernel, whose checks watch the new code.
 * build: debug
 * cpus: 2
 * seeds: 2
 */
#include "lab0.h"

static void *mover(void *arg)
{
	unsigned int n = processors();

	for (unsigned int i = 0; i < 200; i++) {
		unsigned int want = (i + (unsigned int)(long)arg) % n, got = 77;

		run_on(want);
		CHECK_EQUAL(0, getcpu_call(&got, NULL));
		CHECK_EQUAL(want, got);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[3];

	for (long i = 0; i < 3; i++)
		MUST(pthread_create(&threads[i], NULL, mover, (void *)i) == 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	test_end();
}
