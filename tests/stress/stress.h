/*
 * For the programs of tests/stress: rounds of work with a look at free memory before and after. The first round warms the
 * caches of the kernel; RCU and kernel threads free a little later, so the check waits for the number to settle.
 */
#ifndef STRESS_H
#define STRESS_H

#include "tests/guest/test.h"

/* Each CPU keeps some free frames, empty page tables and kernel stacks for itself; how many depends on who ran where. */
#define STRESS_CPU_CACHE_KIB 96

__attribute__((unused))
static void stress_rounds(void (*round)(void), int rounds, long slack_kib)
{
	long before, after = 0;

	slack_kib += STRESS_CPU_CACHE_KIB * sysconf(_SC_NPROCESSORS_ONLN);

	round();
	usleep(300000);
	before = meminfo("MemFree");
	for (int i = 1; i < rounds; i++)
		round();
	for (int i = 0; i < 50; i++) {
		usleep(100000);
		after = meminfo("MemFree");
		if (before - after <= slack_kib)
			return;
	}
	printf("%ld KiB less free memory after %d rounds (allowed: %ld)\n", before - after, rounds, slack_kib);
	CHECK(before - after <= slack_kib);
}

#endif
