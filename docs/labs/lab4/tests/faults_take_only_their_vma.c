/*
 * /proc/lock_stat counts: a thousand faults take mmap_lock once at most (to make the reverse map), and the lock of the VMA each time.
 * Alone, and beside a thread that maps and unmaps elsewhere.
 * only: faultline
 * budget: 1500
 */
#include "tests/labs/lab_test.h"

#define N	1000ul

static volatile int stop;

static void *mapper(void *unused)
{
	(void)unused;
	while (!stop) {
		char *p = mmap(NULL, 8 * PAGE, RW, ANON, -1, 0);

		MUST(p != MAP_FAILED && munmap(p, 8 * PAGE) == 0);
		relax();
	}
	return NULL;
}

static void fault_and_count(const char *how, unsigned long allowed)
{
	char *p = map_alone(N, RW);
	unsigned long mmap_before, vma_before, mmap_locks, vma_locks;

	(void)lock_count("MMAP", "fault");
	vma_before = lock_count("VMA", "fault");
	mmap_before = lock_count("MMAP", "fault");
	for (size_t i = 0; i < N; i++) {
		((volatile char *)p)[i * PAGE] = 1;
		if (i % 16 == 0)
			relax();
	}
	mmap_locks = lock_count("MMAP", "fault") - mmap_before;
	vma_locks = lock_count("VMA", "fault") - vma_before;
	if (mmap_locks > allowed || vma_locks < N) {
		printf("%s: %lu faults took mmap_lock %lu times (at most %lu allowed) and VMA locks %lu times\n", how, N, mmap_locks, allowed, vma_locks);
		test_failures++;
	}
}

int main(void)
{
	pthread_t t;

	fault_and_count("alone", 1);
	MUST(pthread_create(&t, NULL, mapper, NULL) == 0);
	fault_and_count("beside a mapper", 3);
	stop = 1;
	pthread_join(t, NULL);
	test_end();
}
