/*
 * Every way into the kernel and out of it.
 *
 * Each entry leaves the same picture on the stack, struct trap_frame (kernel/x86/trap_frame.h), lowest address first:
 *
 *	  0 r15   8 r14  16 r13  24 r12  32 rbp  40 rbx		callee-saved
 *	 48 r11  56 r10  64 r9   72 r8   80 rax  88 rcx  96 rdx  104 rsi  112 rdi
 *	120 orig_rax	system-call number, or the exception's error code
 *	128 rip 136 cs 144 rflags 152 rsp 160 ss		what IRETQ takes
 *	168		the top of the task's kernel stack, when we came from user mode
 *
 * The rules that are easy to break:
 *   - GS: in the kernel it is this CPU's cpu_local, in user mode the user's. SWAPGS exactly once on each crossing.
 *     NMI, machine check and double fault may hit on either side of that instruction, so they look instead of asking
 *     the saved CS: paranoid_entry.
 *   - No user register survives into the kernel unsaved, no kernel pointer leaks out: all are restored on the way out.
 *   - From user mode EFLAGS.AC and DF may be anything. SFMASK clears them for SYSCALL; exceptions do it here. With AC set,
 *     SMAP would not protect.
 *   - SYSRET with a non-canonical RIP faults in ring 0 on Intel's CPUs, with the user's stack: never do that.
 */
#include "kernel/x86/entry_offsets.h"

	.section .entry.text, "ax"
	.code64

/* The general registers below orig_rax; rdi is pushed by the caller of this macro. */
	.macro	PUSH_FROM_RSI
	push	%rsi
	push	%rdx
	push	%rcx
	push	%rax
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	.endm

	.macro	POP_TO_RBX
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	.endm

/*
 * SYSCALL.
 * Entry state: rax = number; rdi rsi rdx r10 r8 r9 = arguments; rcx = user rip; r11 = user rflags; rsp, GS still the
 * user's; interrupts off (SFMASK).
 * Exit state: rax = result, everything else as it was but rcx and r11; or whatever a signal put into the frame.
 */
	.globl	entry_syscall
	.type	entry_syscall, @function
	.balign 64
entry_syscall:
	swapgs
	mov	%rsp, %gs:CPUL_USER_RSP
	mov	%gs:CPUL_KERNEL_RSP, %rsp
	push	$SEL_USER_DS
	push	%gs:CPUL_USER_RSP
	push	%r11
	push	$SEL_USER_CS
	push	%rcx
	push	%rax				/* orig_rax */
	push	%rdi
	PUSH_FROM_RSI
	mov	%rsp, %rdi
	xor	%ebp, %ebp			/* backtraces end here */
	sti
	call	do_syscall

	cli
	mov	%gs:CPUL_CURRENT, %rax
	cmpl	$0, TASK_WORK_OFFSET(%rax)
	jne	syscall_work
	cmpl	$0, %gs:CPUL_NEED_RESCHED
	jne	syscall_work
syscall_exit:
	/* SYSRET takes rip from rcx and rflags from r11, and cannot do RF or TF. Otherwise IRETQ. */
	mov	FRAME_RCX(%rsp), %rcx
	mov	FRAME_R11(%rsp), %r11
	cmp	%rcx, FRAME_RIP(%rsp)
	jne	return_to_user
	cmp	%r11, FRAME_RFLAGS(%rsp)
	jne	return_to_user
	test	$(1 << 16 | 1 << 8), %r11d
	jnz	return_to_user
	mov	%rcx, %rax
	shr	$47, %rax			/* user half of the canonical addresses only */
	jnz	return_to_user

	POP_TO_RBX
	add	$8, %rsp			/* r11 is loaded */
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rax
	add	$8, %rsp			/* rcx too */
	pop	%rdx
	pop	%rsi
	pop	%rdi
	mov	(FRAME_RSP - FRAME_ORIG_RAX)(%rsp), %rsp
	swapgs
	sysretq

syscall_work:
	mov	%rsp, %rdi
	call	exit_to_user_work
	jmp	syscall_exit

/*
 * The 256 gates. Each pushes what makes the frame uniform: an error code if the CPU pushed none, then its number, which
 * lies where rdi will be saved. Eleven bytes at most; the IDT is filled by the fixed distance.
 */
	.globl	entry_stubs
	.balign 16
entry_stubs:
	.set	vector, 0
	.rept	256
	.balign 16
	.if	vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || vector == 29 || vector == 30
	.else
	push	$0
	.endif
	push	$vector
	.if	vector == 1
	jmp	debug_entry
	.elseif	vector == 2 || vector == 8 || vector == 18
	jmp	paranoid_entry
	.else
	jmp	entry_common
	.endif
	.set	vector, vector + 1
	.endr

/*
 * Exceptions and interrupts that use the task's kernel stack.
 * Entry state: [rsp] = vector, [rsp+8] = error code, then rip cs rflags rsp ss; interrupts off.
 */
	.type	entry_common, @function
	.balign 16
entry_common:
	PUSH_FROM_RSI
	mov	FRAME_RDI(%rsp), %rsi		/* the vector: second argument */
	mov	%rdi, FRAME_RDI(%rsp)
	cld
	cmpb	$0, cpu_has_smap(%rip)
	je	1f
	clac
1:	testb	$3, FRAME_CS(%rsp)
	jz	2f
	swapgs
	xor	%ebp, %ebp
2:	mov	%rsp, %rdi
	call	trap_dispatch			/* returns with interrupts off */
	.globl	trap_return			/* backtraces know a frame by this address */
trap_return:
	testb	$3, FRAME_CS(%rsp)
	jz	return_to_kernel

/*
 * Where a task that was interrupted in user mode goes on. A new one begins here too.
 * Entry state: rsp = its frame, at the top of the kernel stack; interrupts off.
 */
	.globl	user_return
user_return:
	mov	%gs:CPUL_CURRENT, %rax
	cmpl	$0, TASK_WORK_OFFSET(%rax)
	jne	1f
	cmpl	$0, %gs:CPUL_NEED_RESCHED
	je	return_to_user
1:	mov	%rsp, %rdi
	call	exit_to_user_work

/*
 * Interrupts off, nothing pending. The only thing in a frame that IRETQ could choke on is a rip that is not canonical
 * (segments and flags are ours, see sigreturn): user code that jumps there gets a signal instead.
 */
return_to_user:
	mov	FRAME_RIP(%rsp), %rax
	mov	%rax, %rcx
	shl	$16, %rcx
	sar	$16, %rcx
	cmp	%rcx, %rax
	jne	bad_user_rip
	swapgs
return_to_kernel:
	POP_TO_RBX
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rax
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	add	$8, %rsp			/* orig_rax */
	iretq

bad_user_rip:
	mov	%rsp, %rdi
	call	trap_bad_user_rip		/* raises SIGSEGV; the signal changes rip or kills */
	jmp	user_return

/*
 * Debug exception, on its own stack: a single step that a program asked for may trap in the first instruction of the
 * system-call entry, on the program's stack. From user mode it goes on like any other exception, on the task's stack.
 * Entry state: [rsp] = vector, +8 error code, +16 rip, +24 cs, +32 rflags, +40 rsp, +48 ss; interrupts off.
 */
	.type	debug_entry, @function
debug_entry:
	testb	$3, 24(%rsp)
	jz	paranoid_entry
	swapgs
	push	%rdi
	mov	%rsp, %rdi
	mov	%gs:CPUL_KERNEL_RSP, %rsp
	push	56(%rdi)			/* ss */
	push	48(%rdi)
	push	40(%rdi)
	push	32(%rdi)
	push	24(%rdi)			/* rip */
	push	16(%rdi)			/* error code */
	push	8(%rdi)				/* vector */
	mov	(%rdi), %rdi
	swapgs					/* once more in there */
	jmp	entry_common

/*
 * NMI, machine check, double fault: on their own stacks (IST), at any instruction.
 * The saved CS does not tell whether GS is the kernel's: the system-call entry runs a few instructions at ring 0 before
 * SWAPGS. Nor does the sign of the GS base, which a user may set (WRGSBASE). So the old base is saved and ours is taken
 * from the lowest word of the interrupt stack; each CPU has its own.
 * Callee-saved rbx holds the old base across the call.
 */
	.type	paranoid_entry, @function
paranoid_entry:
	PUSH_FROM_RSI
	mov	FRAME_RDI(%rsp), %rsi
	mov	%rdi, FRAME_RDI(%rsp)
	cld
	cmpb	$0, cpu_has_smap(%rip)
	je	1f
	clac
1:	mov	$0xc0000101, %ecx		/* MSR_GS_BASE */
	rdmsr
	mov	%eax, %ebx
	shl	$32, %rdx
	or	%rdx, %rbx
	mov	%rsp, %rdi
	and	$-8192, %rdi			/* IST_STACK_SIZE */
	mov	(%rdi), %rax
	mov	%rax, %rdx
	shr	$32, %rdx
	wrmsr
	mov	%rsp, %rdi
	call	trap_paranoid
	.globl	paranoid_return
paranoid_return:
	mov	%ebx, %eax
	mov	%rbx, %rdx
	shr	$32, %rdx
	mov	$0xc0000101, %ecx
	wrmsr
	jmp	return_to_kernel

/*
 * struct task *__switch_to(u64 *save_rsp, u64 load_rsp, struct task *prev)
 * Entry state: interrupts off, on prev's stack; rdi = &prev->thread.rsp, rsi = next->thread.rsp, rdx = prev.
 * Exit state: on next's stack, rax = prev, where next once called this, or at ret_from_fork / kthread_start.
 *
 * What a switched-out stack looks like, from thread.rsp up:	r15 r14 r13 r12 rbx rbp  return address
 */
	.globl	__switch_to
	.type	__switch_to, @function
__switch_to:
	push	%rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, (%rdi)
	mov	%rsi, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	mov	%rdx, %rax
	ret

/*
 * First run of a user task. Entry state: from __switch_to, rax = task switched from, rsp = the task's frame, interrupts
 * off.
 */
	.globl	ret_from_fork
	.type	ret_from_fork, @function
ret_from_fork:
	mov	%rax, %rdi
	call	schedule_tail
	sti
	call	fork_child_start
	cli
	jmp	user_return

/*
 * A kernel thread becomes a program. Entry state: rdi = its frame, at the top of the kernel stack; interrupts off. What
 * was on the stack is forgotten.
 */
	.globl	enter_user_mode
	.type	enter_user_mode, @function
enter_user_mode:
	mov	%rdi, %rsp
	xor	%ebp, %ebp
	jmp	user_return

/* First run of a kernel thread: as above, with rbx = function, r12 = argument; the stack is empty. */
	.globl	kthread_start
	.type	kthread_start, @function
kthread_start:
	mov	%rax, %rdi
	call	schedule_tail
	sti
	mov	%r12, %rdi
	call	*%rbx
	mov	%eax, %edi
	call	kthread_exit
	ud2

	.section .note.GNU-stack, "", @progbits
