/*
 * For the programs of tests/stress: rounds of work with a look at free memory before and after. The first round warms the
 * caches of the kernel; RCU and kernel threads free a little later, so the check waits for the number to settle.
 */
#ifndef STRESS_H
#define STRESS_H

#include "tests/guest/test.h"

/* Free memory with what each CPU keeps for itself given back, so that the bound need not grow with the CPUs. */
static long stress_free_kib(void)
{
	FILE *f = fopen("/proc/sys/vm/drop_caches", "w");

	MUST(f && fputs("3\n", f) >= 0 && fclose(f) == 0);
	return meminfo("MemFree");
}

__attribute__((unused))
static void stress_rounds(void (*round)(void), int rounds, long slack_kib)
{
	long before, after = 0;


	round();
	usleep(300000);
	before = stress_free_kib();
	for (int i = 1; i < rounds; i++)
		round();
	for (int i = 0; i < 50; i++) {
		usleep(100000);
		after = stress_free_kib();
		if (before - after <= slack_kib)
			return;
	}
	printf("%ld KiB less free memory after %d rounds (allowed: %ld)\n", before - after, rounds, slack_kib);
	CHECK(before - after <= slack_kib);
}

#endif
