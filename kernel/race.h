/*
 * Race windows: places where the kernel's outcome depends on what another CPU does right there. In debug builds
 * race_window("name") may yield or sleep a little, chosen by race.seed=N, so that rare interleavings become common and a
 * failure can be repeated; and tests can order windows exactly:
 *
 *	echo 'hold A until B' > /sys/kernel/faultline/race
 *		the next task that comes to window A stops there until another task has come to window B after this
 *		command (or five seconds have passed: then the rule counts as expired, and race_format() says so).
 *	echo 'hold A:TID until B:TID2'	the same for certain threads only
 *	echo 'clear'			forget all rules; held tasks go on
 *	echo 'pass A'			the writer itself comes to window A: lets a program release what it has held
 *	echo 'seed N'			change the seed; 0 = no random delays
 *
 * In release builds all of this compiles to nothing. Names must be string literals, one word.
 */
#ifndef KERNEL_RACE_H
#define KERNEL_RACE_H

#include "kernel/types.h"

#ifdef DEBUG
void race_window(const char *name);		/* may sleep, unless the context is atomic: then only spins a little */
size_t race_format(char *buf, size_t size);	/* rules and their state, windows passed */
int race_command(const char *command);		/* 0, -EINVAL, -ENOSPC */
void race_init(void);				/* reads race.seed */
#else
#define race_window(name)	do { } while (0)
static inline size_t race_format(char *buf, size_t size) { (void)buf, (void)size; return 0; }
static inline int race_command(const char *command) { (void)command; return -38; /* ENOSYS */ }
static inline void race_init(void) { }
#endif

#endif
