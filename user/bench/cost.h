/* Between the files of user/bench/cost. */
#ifndef COST_H
#define COST_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void die(const char *what)
{
	fprintf(stderr, "cost: %s: %s\n", what, strerror(errno));
	exit(1);
}

static inline uint64_t ticks(void)
{
	uint32_t lo, hi;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
}

/* Each measures one repetition of @n operations and returns ticks for all of them. */
uint64_t run_uffd_missing(unsigned long n);
uint64_t run_uffd_wp(unsigned long n);
uint64_t run_uffd_minor(unsigned long n);
uint64_t run_uffd_register(unsigned long n);
uint64_t run_huge_refault(unsigned long n);
uint64_t run_served_page_in(unsigned long n);
uint64_t run_served_stat(unsigned long n);
uint64_t run_huge_map_touch_unmap(unsigned long n);

#endif
