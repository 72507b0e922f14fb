/* Other CPUs: starting them, interrupting them, running functions on them. kernel/x86/smp.c. */
#ifndef KERNEL_SMP_H
#define KERNEL_SMP_H

#include "kernel/percpu.h"

void smp_count_cpus(void);		/* boot CPU, before smp_init(), with ACPI read: sets nr_cpus_found */
/* Starts every CPU that ACPI lists, up to maxcpus=; returns when they are online or given up. Boot CPU, once. */
void smp_init(void);

/* Makes @cpu look at its run queue (sched_ipi). Any context. */
void smp_send_reschedule(unsigned int cpu);
/* Makes each CPU of @mask run tlb_flush_ipi(). Any context; does not wait. */
void smp_send_tlb_flush(cpumask_t mask);

/*
 * Runs fn(arg) with interrupts off on every online CPU of @mask; on this one too if it is in the mask. With @wait
 * returns after the last has finished, else as soon as all have been told. Interrupts must be on when @mask names
 * another CPU (two CPUs that call each other must both be able to answer). Spin locks that the handlers or other
 * callers take with interrupts off must not be held.
 */
void smp_call_function(cpumask_t mask, void (*fn)(void *arg), void *arg, bool wait);

static inline cpumask_t cpumask_of(unsigned int cpu) { return 1ul << cpu; }
static inline bool cpu_online(unsigned int cpu) { return READ_ONCE(cpu_online_mask) >> cpu & 1; }

#endif
