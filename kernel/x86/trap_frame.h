/* The registers saved at every entry into the kernel, in the order of Linux's struct pt_regs. */
#ifndef KERNEL_X86_TRAP_FRAME_H
#define KERNEL_X86_TRAP_FRAME_H

#include "kernel/percpu.h"

struct trap_frame {
	u64 r15, r14, r13, r12, rbp, rbx;
	u64 r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	u64 orig_rax;		/* system-call number; vector or error code at exceptions; -1 once no restart may happen */
	u64 rip, cs, rflags, rsp, ss;	/* pushed by the CPU */
};
_Static_assert(sizeof(struct trap_frame) == 21 * 8, "laid out by kernel/x86/entry.S");

#define USER_CS		0x33
#define USER_DS		0x2b
#define KERNEL_CS	0x10
#define KERNEL_DS	0x18

static inline bool user_mode(const struct trap_frame *f) { return f->cs & 3; }

/* The user registers of a task stand at the top of its kernel stack. */
struct task;
struct trap_frame *task_trap_frame(struct task *t);
/* The running task's; its stack does not move, so preemption may be on. */
static inline struct trap_frame *current_trap_frame(void) { return (struct trap_frame *)cpu_local_read(kernel_rsp) - 1; }

#endif
