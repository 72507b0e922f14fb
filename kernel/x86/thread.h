/* What a task needs to be switched on x86-64: stack pointer, TLS bases, floating-point state. */
#ifndef KERNEL_X86_THREAD_H
#define KERNEL_X86_THREAD_H

#include "kernel/types.h"

struct task;
struct trap_frame;

struct thread_context {
	u64	 rsp;		/* kernel stack pointer while switched out */
	u64	 fs_base;	/* user TLS; saved by the switch (a program may use WRFSBASE) */
	u64	 gs_base;	/* user GS; the kernel's own is swapped in at entry */
	void	*fpu;		/* XSAVE area, 64-byte aligned; NULL for kernel threads */
	u64	 cr2;		/* of the last exception in user mode, for signal frames */
	u64	 error_code;
	u64	 trap_nr;
};

void thread_init(void);		/* boot, once slab works */
/* For a kernel thread that has become a program (pid 1): leaves for user mode through task_trap_frame(current). Needs an FPU area. */
void thread_enter_user(void) __noreturn;

extern unsigned int fpu_state_size;	/* bytes of the XSAVE area for XCR0, constant after boot */

/* kernel/x86/switch.S and thread.c. switch_to: interrupts off, run-queue lock rules of kernel/sched.c. Returns the task switched from. */
struct task *switch_to(struct task *prev, struct task *next);

int thread_context_alloc(struct task *t);	/* FPU area; 0 or -ENOMEM */
void thread_context_free(struct task *t);
/* New user task: copies current's user frame and FPU state; child returns 0 from @entry on first run via ret_from_fork. */
void thread_context_fork(struct task *child, const struct trap_frame *frame, u64 user_sp, bool set_tls, u64 tls);
/* New kernel thread: first run calls fn(arg), then kthread_exit(result). */
void thread_context_kthread(struct task *t, int (*fn)(void *), void *arg);
/* After execve: clean registers and FPU, frame set to start at rip/rsp in user mode. */
void thread_context_exec(struct trap_frame *frame, u64 rip, u64 rsp);

long thread_arch_prctl(struct task *t, int code, unsigned long addr);

/* FPU state in and out of a signal frame (Linux layout: fxsave + xstate header + magic). current only. */
size_t fpu_sigframe_size(void);
int fpu_save_to_user(void *uaddr);			/* 0 or -EFAULT */
int fpu_restore_from_user(const void *uaddr);		/* 0 or -EFAULT/-EINVAL; NULL resets to the initial state */

#endif
