/* More ways to read kernel parameters than the two of kernel/boot_info.h. Any context; nothing is cached. */
#ifndef KERNEL_CMDLINE_H
#define KERNEL_CMDLINE_H

#include "kernel/boot_info.h"

/* name=NUMBER within [lo, hi]; anything else is reported and ignored. */
u64 cmdline_u64(const char *name, u64 def, u64 lo, u64 hi);

/*
 * For parameters that may be given several times (console=ttyS0,115200 console=tty1): which of them, counted from 1, is
 * the last that has @value, options after a comma aside. 0: none.
 */
int cmdline_rank(const char *name, const char *value);

/* Calls @fn for each word "name=value" or "name" (value ""), in the order of the command line; both are cut off at 63 bytes. */
void cmdline_for_each(void (*fn)(void *arg, const char *name, const char *value), void *arg);

#endif
