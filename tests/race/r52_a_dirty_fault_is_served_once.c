/*
 * R52. The first write to each of N pages of a shared file is one fault each: the handler runs about N times, not 2 N, although it
 * drops its lock to throttle the writer. With RETRY in place of COMPLETED (the switch) each runs twice.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: mm.fault_completed=off
 * shows: fault_entries
 */
#include "race.h"

#define PAGES 4096
#define LIMIT (PAGES + PAGES / 20 + 64)		/* what else runs in the machine has faults too */

static void count(const char *who, long got)
{
	if (got < PAGES || got > LIMIT) {
		printf("%d first writes: %s grew by %ld, expected %d to %d\n", PAGES, who, got, PAGES, LIMIT);
		test_failures++;
	}
}

static void first_writes(void)
{
	char *p = mmap(NULL, PAGES * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long faults, entries;
	struct rusage a, b;

	MUST(p != MAP_FAILED);
	faults = proc_number("/proc/vmstat", "pgfault");
	entries = proc_number("/proc/vmstat", "fault_entries");		/* ours; -1 on Linux */
	MUST(getrusage(RUSAGE_SELF, &a) == 0);
	for (size_t i = 0; i < PAGES; i++)
		p[i * PAGE] = 1;
	MUST(getrusage(RUSAGE_SELF, &b) == 0);
	count("ru_minflt", b.ru_minflt - a.ru_minflt);
	count("pgfault", proc_number("/proc/vmstat", "pgfault") - faults);
	if (entries >= 0)
		count("fault_entries", proc_number("/proc/vmstat", "fault_entries") - entries);
	CHECK_EQUAL(a.ru_majflt, b.ru_majflt);
	MUST(munmap(p, PAGES * PAGE) == 0);
}

/* Others map and unmap meanwhile: they may cost a writer a look at mmap_lock, not a second fault. */
static void map_elsewhere(struct racer *r)
{
	char *p = map_pages(4, RW, ANON);

	(void)r;
	MUST(munmap(p, 4 * PAGE) == 0);
}

static void write_shared(struct racer *r)
{
	char *p = mmap(NULL, 64 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)r;
	MUST(p != MAP_FAILED);
	for (size_t i = 0; i < 64; i++)
		p[i * PAGE] = 1;
	MUST(munmap(p, 64 * PAGE) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = map_elsewhere }, { .round = write_shared } };
	long retries = proc_number("/proc/vmstat", "fault_retry");

	first_writes();
	race(0.5, racers, 2);
	if (retries >= 0)
		CHECK(proc_number("/proc/vmstat", "fault_retry") - retries <= 64);
}

int main(void)
{
	run_race(racing, NULL, 32);
}
