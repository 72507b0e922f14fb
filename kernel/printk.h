/*
 * The kernel log: a ring buffer readable through /dev/kmsg and syslog(2), copied to every console.
 * Callable from any context but an NMI, with any lock held; never sleeps.
 */
#ifndef KERNEL_PRINTK_H
#define KERNEL_PRINTK_H

#include "kernel/types.h"

/* %d %i %u %x %X %o %c %s %p %%, with h hh l ll z, width, precision, flags; %pS symbol+offset. No floats. */
int vsnprintf(char *buf, size_t size, const char *fmt, va_list ap) __printf(3, 0);
int snprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);
int scnprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);	/* returns what was really written */

/* One line per call; the "\n" at the end may be left out. At most 500 bytes. */
void printk(const char *fmt, ...) __printf(1, 2);
void printk_bare(const char *fmt, ...) __printf(1, 2);	/* without the time; for panic() */
#define pr_info(fmt, ...)	printk(fmt, ##__VA_ARGS__)
#define pr_warn(fmt, ...)	printk("warning: " fmt, ##__VA_ARGS__)
#define pr_err(fmt, ...)	printk("error: " fmt, ##__VA_ARGS__)

/* The first call prints, later calls from the same place do not. */
#define pr_once(fmt, ...) do {								\
	static bool _done;								\
	if (!__atomic_exchange_n(&_done, true, __ATOMIC_RELAXED))			\
		printk(fmt, ##__VA_ARGS__);						\
} while (0)

/* Boot stages, numbered, on every console from the first line. */
void boot_stage(int number, const char *what);

#endif
