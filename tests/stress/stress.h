/* For the programs of tests/stress: a time budget, and the check that the kernel gave all its memory back. */
#ifndef STRESS_H
#define STRESS_H

#include <sys/types.h>
#include <time.h>

#include "../guest/test.h"

#define STRESS_SECONDS 4

static double stress_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double stress_end;

static void stress_begin(void) { stress_end = stress_now() + STRESS_SECONDS; }
static int stress_goes_on(void) { return stress_now() < stress_end; }

/*
 * Runs @work once to warm the caches of the kernel, then again, and compares free memory around the second run. RCU and
 * kernel threads free a little later, so it waits for the number to settle. Caches of freed objects may keep some.
 */
__attribute__((unused))
static void stress_and_compare_memory(void (*work)(void), long slack_kib)
{
	long before, after = 0;

	allowed_kb += 256 * sysconf(_SC_NPROCESSORS_ONLN);

	stress_begin();
	work();
	usleep(300000);
	before = meminfo("MemFree");
	stress_begin();
	work();
	for (int i = 0; i < 30; i++) {
		usleep(100000);
		after = meminfo("MemFree");
		if (before - after <= slack_kib)
			break;
	}
	if (before - after > slack_kib)
		printf("%ld KiB less free memory than before (allowed: %ld)\n", before - after, slack_kib);
	CHECK(before - after <= slack_kib);
}

#endif
