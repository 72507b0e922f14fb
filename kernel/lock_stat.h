/*
 * Lock statistics per class, caller and mode: acquired, contended, total and longest wait (/proc/lock_stat).
 * The caller is what the task is doing, set by the code that starts it (fault handler, uffd ioctl, page pinning).
 */
#ifndef KERNEL_LOCK_STAT_H
#define KERNEL_LOCK_STAT_H

#include "kernel/lock_rank.h"
#include "kernel/types.h"

enum lock_caller { LOCK_CALLER_OTHER, LOCK_CALLER_FAULT, LOCK_CALLER_UFFD, LOCK_CALLER_GUP, NR_LOCK_CALLERS };
enum lock_mode { LOCK_MODE_READ, LOCK_MODE_WRITE, NR_LOCK_MODES };	/* spin locks and mutexes: write */

/* Swaps the caller label of the current task; the caller restores what is returned. */
enum lock_caller lock_stat_enter(enum lock_caller caller);
void lock_stat_leave(enum lock_caller old);

/* Wait in nanoseconds, 0 = uncontended. Any context. */
void lock_stat_record(enum lock_class class, enum lock_mode mode, bool contended, u64 wait_ns);
void lock_stat_clear(void);
void lock_stat_init_cpu(unsigned int cpu);
/* Text of /proc/lock_stat, into @buf; returns bytes. */
size_t lock_stat_format(char *buf, size_t size);

#endif
