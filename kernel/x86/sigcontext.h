/* The signal frame: Linux x86-64 user ABI (arch/x86/include/uapi/asm/sigcontext.h, ucontext.h describe the same bytes). */
#ifndef KERNEL_X86_SIGCONTEXT_H
#define KERNEL_X86_SIGCONTEXT_H

#include "kernel/signal.h"

#define FP_XSTATE_MAGIC1	0x46505853u
#define FP_XSTATE_MAGIC2	0x46505845u
#define FPX_SW_OFFSET		464	/* in the FXSAVE area: bytes that the CPU leaves to software */

struct fpx_sw_bytes {
	u32	magic1;
	u32	extended_size;		/* with magic2 */
	u64	xfeatures;
	u32	xstate_size;
	u32	padding[7];
};
_Static_assert(FPX_SW_OFFSET + sizeof(struct fpx_sw_bytes) == 512, "user ABI");

struct user_sigcontext {
	u64	r8, r9, r10, r11, r12, r13, r14, r15;
	u64	rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
	u64	rflags;
	u16	cs, gs, fs, ss;
	u64	err, trapno, oldmask, cr2;
	u64	fpstate;		/* user address, 0: none */
	u64	reserved[8];
};
_Static_assert(sizeof(struct user_sigcontext) == 256, "user ABI");

struct user_stack {			/* stack_t */
	u64	sp;
	u32	flags, _pad;
	u64	size;
};

#define UC_FP_XSTATE		1
#define UC_SIGCONTEXT_SS	2
#define UC_STRICT_RESTORE_SS	4

struct user_ucontext {
	u64			flags, link;
	struct user_stack	stack;
	struct user_sigcontext	mcontext;
	sigset_t		sigmask;
};
_Static_assert(sizeof(struct user_ucontext) == 304, "user ABI");

struct rt_sigframe {
	u64			pretcode;	/* where the handler returns to: sa_restorer */
	struct user_ucontext	uc;
	struct siginfo		info;
};
_Static_assert(sizeof(struct rt_sigframe) == 440, "user ABI");

#endif
