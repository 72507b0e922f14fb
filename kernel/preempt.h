/*
 * The preemption counter of this CPU: bits 0-7 nested preempt_disable() and spin locks, bits 8-15 nested
 * interrupt handlers. Any non-zero value forbids a task switch; interrupt context also forbids sleeping
 * with a clear message from might_sleep().
 */
#ifndef KERNEL_PREEMPT_H
#define KERNEL_PREEMPT_H

#include "kernel/percpu.h"

#define PREEMPT_MASK		0x00ffu
#define HARDIRQ_OFFSET		0x0100u
#define HARDIRQ_MASK		0xff00u

void preempt_schedule(void);	/* kernel/sched.c: the out-of-line half of preempt_enable() */

static inline u32 preempt_count(void) { return cpu_local_read(preempt_count); }
static inline bool in_interrupt(void) { return preempt_count() & HARDIRQ_MASK; }

static inline void preempt_disable(void)
{
	__asm__ volatile("incl %%gs:%c0" : : "i"(CPU_LOCAL_PREEMPT) : "memory", "cc");
}

static inline void preempt_enable_no_resched(void)
{
	__asm__ volatile("decl %%gs:%c0" : : "i"(CPU_LOCAL_PREEMPT) : "memory", "cc");
}

static inline void preempt_enable(void)
{
	bool zero, resched;

	__asm__ volatile("decl %%gs:%c1" : "=@ccz"(zero) : "i"(CPU_LOCAL_PREEMPT) : "memory");
	if (!zero)
		return;
	__asm__ volatile("cmpl $0, %%gs:%c1" : "=@ccnz"(resched) : "i"(CPU_LOCAL_RESCHED) : "memory");
	if (unlikely(resched))
		preempt_schedule();
}

#ifdef DEBUG
void __might_sleep(const char *file, int line);	/* panics in atomic context or under a spin lock */
#define might_sleep()	__might_sleep(__FILE__, __LINE__)
#else
#define might_sleep()	do { } while (0)
#endif

#endif
