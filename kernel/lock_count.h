/*
 * The counters behind /proc/lock_stat, for kernel/lock_stat.c and for the locks, which count an acquire that did not wait
 * without a call: it happens several times in each system call and page fault.
 */
#ifndef KERNEL_LOCK_COUNT_H
#define KERNEL_LOCK_COUNT_H

#include "kernel/lock_stat.h"
#include "kernel/percpu.h"
#include "kernel/task.h"
#include "mm/layout.h"

struct lock_counter {
	u64 acquired, contended, wait_total, wait_max;
};

struct lock_table {
	struct lock_counter of[NR_LOCK_CLASSES][NR_LOCK_CALLERS][NR_LOCK_MODES];
} __aligned(64);
DECLARE_PER_CPU(struct lock_table, lock_table);

/* Where the counter lies relative to GS, the same on every CPU. */
static inline uintptr_t lock_counter_offset(enum lock_class class, unsigned int caller, enum lock_mode mode)
{
	return (uintptr_t)&lock_table.of[class][caller][mode] - (uintptr_t)__percpu_start;
}

/* Before the scheduler there is no task. */
static inline unsigned int lock_stat_caller(void)
{
	return likely(current != NULL) ? current->lock_caller : LOCK_CALLER_OTHER;
}

static inline void lock_counter_add(uintptr_t offset, u64 n)
{
	__asm__ volatile("addq %1, %%gs:(%0)" : : "r"(offset), "er"(n) : "memory", "cc");
}

/* lock_stat_record() for a lock that was free. */
static inline void lock_stat_acquired(enum lock_class class, enum lock_mode mode)
{
	lock_counter_add(lock_counter_offset(class, lock_stat_caller(), mode), 1);
}

#endif
