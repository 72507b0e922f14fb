/*
 * fault_entries counts how often the handler ran, pgfault how many faults there were. A first write to a shared file page is
 * both once, because COMPLETED ends it after its lock is gone; with RETRY instead it would be entered twice. Rules B5, B7, G2..G4.
 *
 * only: faultline
 */
#include "mm_test.h"

#define N	512

#ifdef COMPLETED_OFF
#define ENTRIES_OF_SHARED_WRITES	(2 * N)
#else
#define ENTRIES_OF_SHARED_WRITES	N
#endif

struct counts {
	long	faults, entries, retries, minor;
};

static struct counts counts(void)
{
	struct rusage r;
	struct counts c;

	c.faults = proc_number("/proc/vmstat", "pgfault");
	c.entries = proc_number("/proc/vmstat", "fault_entries");
	c.retries = proc_number("/proc/vmstat", "fault_retry");
	getrusage(RUSAGE_SELF, &r);
	c.minor = r.ru_minflt;
	return c;
}

/* Others may fault too while we look: a few more are fine. */
static bool near(long expected, long got)
{
	return got >= expected && got <= expected + 20;
}

static void check(const char *what, char *p, long faults, long entries)
{
	struct counts a, b;

	counts();
	a = counts();
	for (int i = 0; i < N; i++)
		p[i * PAGE] = 1;
	b = counts();
	if (!near(faults, b.faults - a.faults) || !near(entries, b.entries - a.entries) || !near(faults, b.minor - a.minor) ||
	    !near(entries - faults, b.retries - a.retries)) {
		printf("%s: expected %ld faults and %ld entries; got pgfault %ld, fault_entries %ld, fault_retry %ld, ru_minflt %ld\n", what, faults,
		       entries, b.faults - a.faults, b.entries - a.entries, b.retries - a.retries, b.minor - a.minor);
		test_failures++;
	}
}

int main(void)
{
	int fd = make_memfd(N, 0);
	char *p = map_pages(N, RW, ANON);

	check("anonymous memory", p, N, N);
	check("again", p, 0, 0);
	munmap(p, N * PAGE);

	p = mmap(NULL, N * PAGE, RW, MAP_SHARED, fd, 0);
	check("first writes to shared memory", p, N, ENTRIES_OF_SHARED_WRITES);
	check("second writes", p, 0, 0);
	munmap(p, N * PAGE);

	p = mmap(NULL, N * PAGE, RW, MAP_PRIVATE, fd, 0);
	check("private copies", p, N, N);
	munmap(p, N * PAGE);
	test_end();
}
