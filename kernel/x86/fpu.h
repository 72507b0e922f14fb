/* Floating-point and vector state. */
#ifndef KERNEL_X86_FPU_H
#define KERNEL_X86_FPU_H

#include "kernel/x86/features.h"
#include "kernel/x86/thread.h"

#define FXSAVE_SIZE	512
extern u64 fpu_xcr0;				/* the components in use; 0: FXSAVE only */

void fpu_init_boot(void);			/* boot CPU, once: sizes and the initial state */
void fpu_init_cpu(void);			/* each CPU: XCR0, initial registers */
void fpu_init_area(void *area);			/* the state of a fresh program */
/* After #XM (@simd) or #MF: the si_code; 0 if nothing is wrong any more. */
int fpu_exception_code(bool simd);

/* -- between registers and an area; preemption off. Inline: each switch does both -- */

/* All components, also those in their initial state: for others to read. */
static inline void fpu_save_whole(void *area)
{
	if (!fpu_xcr0)
		__asm__ volatile("fxsave64 %0" : "=m"(*(u8 (*)[FXSAVE_SIZE])area) : : "memory");
	else
		__asm__ volatile("xsave64 (%0)" : : "r"(area), "a"((u32)fpu_xcr0), "d"((u32)(fpu_xcr0 >> 32)) : "memory");
}

/* For fpu_restore() alone: may leave out what has not changed since, or is in its initial state. */
static inline void fpu_save(void *area)
{
	if (cpu_features.xsaveopt)
		__asm__ volatile("xsaveopt64 (%0)" : : "r"(area), "a"((u32)fpu_xcr0), "d"((u32)(fpu_xcr0 >> 32)) : "memory");
	else
		fpu_save_whole(area);
}

static inline void fpu_restore(const void *area)
{
	if (!fpu_xcr0)
		__asm__ volatile("fxrstor64 %0" : : "m"(*(const u8 (*)[FXSAVE_SIZE])area));
	else
		__asm__ volatile("xrstor64 (%0)" : : "r"(area), "a"((u32)fpu_xcr0), "d"((u32)(fpu_xcr0 >> 32)) : "memory");
}

#endif
