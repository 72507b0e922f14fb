/*
 * One thread changes the rights of a range for ever, from read-write to read-write-execute and back; others write to it. No access is
 * refused, none waits for ever, and the faults leave mmap_lock to the writer. In the debug kernel with its race windows.
 * build: debug
 * seeds: 2
 * budget: 4000
 */
#include "tests/labs/lab_test.h"

#define PAGES	16ul
#define ROUNDS	120

static char *area;
static volatile int stop;
static volatile long rounds[2];

static void *writer(void *unused)
{
	(void)unused;
	for (int i = 0; !stop; i++) {
		MUST(mprotect(area, PAGES * PAGE, i % 2 ? RW : RW | PROT_EXEC) == 0);
		relax();
	}
	return NULL;
}

static void *faulter(void *arg)
{
	long me = (long)arg, value;

	for (long i = 1; i <= ROUNDS && !test_failures; i++) {
		volatile long *p = (volatile long *)(area + (size_t)(i % (long)PAGES) * PAGE) + me;

		value = i;
		if (touch(p, true, &value)) {
			printf("thread %ld, round %ld: a write to writable memory is refused\n", me, i);
			test_failures++;
		}
		if (i % 8 == 0)
			madvise(area + (size_t)(i % (long)PAGES) * PAGE, PAGE, MADV_DONTNEED);
		rounds[me] = i;
		relax();
	}
	return NULL;
}

int main(void)
{
	pthread_t w, f[2];

	must_use_vma_locks();
	catch_touch_faults();
	if (have_windows())
		race_command("seed 77");
	area = map_alone(PAGES, RW);
	MUST(pthread_create(&w, NULL, writer, NULL) == 0);
	for (long i = 0; i < 2; i++)
		MUST(pthread_create(&f[i], NULL, faulter, (void *)i) == 0);
	for (int i = 0; i < 2; i++)
		pthread_join(f[i], NULL);
	stop = 1;
	pthread_join(w, NULL);
	if (have_windows())
		race_command("seed 0");
	CHECK_EQUAL(ROUNDS, rounds[0]);
	CHECK_EQUAL(ROUNDS, rounds[1]);
	test_end();
}
