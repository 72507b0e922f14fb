/* 64 x 64 bit products kept whole until they are divided or shifted: no libgcc in the kernel. */
#ifndef KERNEL_X86_MULDIV_H
#define KERNEL_X86_MULDIV_H

#include "kernel/types.h"

/* a * b / c, rounded down; UINT64_MAX if that does not fit. c must not be 0. */
static inline u64 mul_div_u64(u64 a, u64 b, u64 c)
{
	u64 lo, hi, rest;

	__asm__("mulq %3" : "=a"(lo), "=d"(hi) : "0"(a), "r"(b) : "cc");
	if (hi >= c)			/* DIV would fault */
		return UINT64_MAX;
	__asm__("divq %4" : "=a"(lo), "=d"(rest) : "0"(lo), "1"(hi), "r"(c) : "cc");
	return lo;
}

/* a * b >> 32, the low 64 bits. */
static inline u64 mul_shift32_u64(u64 a, u64 b)
{
	return (u64)(((unsigned __int128)a * b) >> 32);
}

#endif
