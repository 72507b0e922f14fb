/* Fatal kernel bugs, and the assertions that find them. User space must never be able to reach any of these. */
#ifndef KERNEL_PANIC_H
#define KERNEL_PANIC_H

#include "kernel/types.h"

/* Stops all CPUs, prints a symbolised backtrace of each and the locks it holds, halts for ever. Never reboots. */
void panic(const char *fmt, ...) __noreturn __printf(1, 2);

/* A sentence for a machine that cannot run us (too little memory, no initramfs): no backtrace, then halt. */
void halt_with_message(const char *fmt, ...) __noreturn __printf(1, 2);

/* Always checked: cheap tests whose failure means that memory is already damaged. */
#define BUG_ON(cond) do {								\
	if (unlikely(cond))								\
		panic("BUG_ON(%s) at %s:%d", #cond, __FILE__, __LINE__);		\
} while (0)

/* Preconditions written as code: checked in debug builds, an assumption for the reader in all. */
#ifdef DEBUG
#define assert(cond) do {								\
	if (unlikely(!(cond)))								\
		panic("assert(%s) at %s:%d", #cond, __FILE__, __LINE__);		\
} while (0)
#else
#define assert(cond)	((void)sizeof(!(cond)))
#endif

#define WARN_ON_ONCE(cond) ({								\
	static bool _warned;								\
	bool _c = (cond);								\
	if (unlikely(_c && !__atomic_exchange_n(&_warned, true, __ATOMIC_RELAXED)))	\
		warn_at(#cond, __FILE__, __LINE__);					\
	_c; })
void warn_at(const char *cond, const char *file, int line);

#endif
