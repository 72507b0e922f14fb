/*
 * All of 64 processors at work: threads that fault, map, unmap, fork and wake each other, pinned all over the machine.
 * cpus: 64
 * mem: 2G
 * timeout: 240
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "stress.h"

static pthread_barrier_t start;
static volatile unsigned long sum;

static void *worker(void *arg)
{
	long cpu = (long)arg;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || sched_getcpu() != cpu)
		__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);
	pthread_barrier_wait(&start);
	for (int i = 0; i < 6; i++) {
		size_t len = 16 * 4096;
		char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED) {
			__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);
			break;
		}
		for (size_t off = 0; off < len; off += 4096)
			p[off] = (char)cpu;
		for (size_t off = 0; off < len; off += 4096)
			if (p[off] != (char)cpu)
				__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);
		munmap(p, len);
		__atomic_add_fetch(&sum, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

int main(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t t[64];

	CHECK_EQUAL(64, n);
	MUST(n >= 1 && n <= 64);
	pthread_barrier_init(&start, NULL, (unsigned int)n);
	for (long i = 0; i < n; i++)
		MUST(pthread_create(&t[i], NULL, worker, (void *)i) == 0);
	for (long i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	CHECK_EQUAL(6 * n, sum);
	test_end();
}
