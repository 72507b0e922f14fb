/*
 * System calls: natural argument types, result or -errno. The table by number is kernel/syscall_table.h; the entry
 * code is kernel/x86/entry.S. User pointers carry __user and are only followed through mm/uaccess.h.
 */
#ifndef KERNEL_SYSCALL_H
#define KERNEL_SYSCALL_H

#include "kernel/types.h"

/* Declares and opens the definition, so that every call has a prototype: SYSCALL_DEFINE(close, int fd) { ... } */
#define SYSCALL_DEFINE(name, ...)			\
	long sys_##name(__VA_ARGS__);			\
	long sys_##name(__VA_ARGS__)

struct trap_frame;
/* Called by the entry code with interrupts on; stores the result in frame->rax. */
void do_syscall(struct trap_frame *frame);

#endif
