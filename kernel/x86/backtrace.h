/* Backtraces, and the part of a panic that each CPU does for itself. */
#ifndef KERNEL_X86_BACKTRACE_H
#define KERNEL_X86_BACKTRACE_H

#include "kernel/types.h"

struct task;
struct trap_frame;

/* Prints the call chain that starts at frame pointer @rbp, by names. Reads only kernel stacks of this or task @t. */
void show_backtrace(uintptr_t rip, uintptr_t rbp);
void show_backtrace_here(void);
/* Of a task that does not run. Best effort. */
void show_backtrace_task(const struct task *t);

/* The next panic of this CPU is about @addr: it shows the page walk too. */
void panic_note_address(uintptr_t addr);
void panic_at(struct trap_frame *frame, const char *fmt, ...) __noreturn __printf(2, 3);
/* NMI handler of the other CPUs: waits for its turn, shows itself, stops. */
void panic_stop_this_cpu(struct trap_frame *frame) __noreturn;

#endif
