/* Tunables of /proc/sys that have no better header; the owner defines them, fs/proc_sys.c shows them. */
#ifndef KERNEL_SYSCTL_H
#define KERNEL_SYSCTL_H

#include "kernel/types.h"

extern u64 sysctl_dirty_bytes;		/* mm/writeback.c: writers are throttled above this */
extern u64 sysctl_dirty_background_bytes;	/* mm/writeback.c: the flusher starts above this */
extern u32 sysctl_threads_max;		/* kernel/process.c */

#endif
