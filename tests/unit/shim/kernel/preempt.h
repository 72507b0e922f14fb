/* Host tests: threads are preempted as the host likes. */
#ifndef KERNEL_PREEMPT_H
#define KERNEL_PREEMPT_H

#include "kernel/percpu.h"

#ifndef cpu_local_read
#define cpu_local_read(field)	0
#endif
static inline void preempt_schedule(void) { }
static inline u32 preempt_count(void) { return 0; }
static inline void preempt_disable(void) { }
static inline void preempt_enable_no_resched(void) { }
static inline void preempt_enable(void) { }
#define might_sleep()	do { } while (0)

#endif
