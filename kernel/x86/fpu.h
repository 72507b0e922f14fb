/* Floating-point and vector state. */
#ifndef KERNEL_X86_FPU_H
#define KERNEL_X86_FPU_H

#include "kernel/x86/thread.h"

void fpu_init_boot(void);			/* boot CPU, once: sizes and the initial state */
void fpu_init_cpu(void);			/* each CPU: XCR0, initial registers */
void fpu_save(void *area);			/* registers -> area; preemption off */
void fpu_restore(const void *area);		/* area -> registers; preemption off */
void fpu_init_area(void *area);			/* the state of a fresh program */
/* After #XM (@simd) or #MF: the si_code; 0 if nothing is wrong any more. */
int fpu_exception_code(bool simd);

#endif
