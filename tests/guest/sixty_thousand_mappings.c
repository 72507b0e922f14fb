/*
 * 60,000 mappings in one process: made, split, found by faults, joined again, forked, and the limit on their number.
 * cpus: 1 2
 * mem: 1G
 * timeout: 120
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "test.h"

#define PAGE	4096ul
#define N	60000

static void child_counts(void *arg)
{
	char *p = arg;

	for (long i = 0; i < N; i += 997)
		CHECK_EQUAL(i % 100 + 1, p[i * PAGE]);
}

static int count(void)
{
	char line[256];
	int n = 0;
	FILE *f = fopen("/proc/self/maps", "r");

	MUST(f != NULL);
	while (fgets(line, sizeof(line), f))
		n++;
	fclose(f);
	return n;
}

int main(void)
{
	char *p = mmap(NULL, N * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int before = count();

	MUST(p != MAP_FAILED);
	for (long i = 0; i < N; i += 997)
		p[i * PAGE] = (char)(i % 100 + 1);
	/* Every second page loses a right: from both ends, so that splits come everywhere in the tree. */
	for (long i = 0; i < N / 4; i++) {
		MUST(!mprotect(p + (2 * i + 1) * PAGE, PAGE, PROT_READ));
		MUST(!mprotect(p + (N - 1 - 2 * i) * PAGE, PAGE, PROT_READ));
	}
	CHECK_EQUAL(before + N - 1, count());
	for (long i = 0; i < N; i += 997)
		CHECK_EQUAL(i % 100 + 1, p[i * PAGE]);
	CHECK_EQUAL(0, in_child(child_counts, p));

	/* A3: the limit. What was there stays. */
	char *q = mmap(NULL, 12000 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(q != MAP_FAILED);
	long i = 0;
	while (i < 6000 && !mprotect(q + (2 * i + 1) * PAGE, PAGE, PROT_READ))
		i++;
	CHECK(i < 6000 && errno == ENOMEM);
	CHECK_ERRNO(ENOMEM, munmap(q + (2 * i + 5) * PAGE, PAGE));	/* in the middle: one more */
	CHECK_EQUAL(0, munmap(q, PAGE));				/* a whole one: one less */
	CHECK_EQUAL(0, munmap(q, 12000 * PAGE));

	/* Joined again, from the middle outwards. */
	for (i = 0; i < N / 2; i++) {
		long k = i & 1 ? N / 2 + i : N / 2 - 1 - i;

		if (k & 1)
			MUST(!mprotect(p + k * PAGE, PAGE, PROT_READ | PROT_WRITE));
	}
	MUST(!mprotect(p, N * PAGE, PROT_READ | PROT_WRITE));
	CHECK_EQUAL(before, count());
	MUST(!munmap(p, N * PAGE));
	test_end();
}
