/*
 * From a system-call number to its function. The table is built from kernel/syscall_table.h; every function is a weak
 * reference, so the entry of a call that nobody wrote is NULL.
 */
#include "kernel/syscall.h"
#include "kernel/errno.h"
#include "kernel/percpu.h"
#include "kernel/printk.h"
#include "kernel/syscall_table.h"
#include "kernel/task.h"
#include "kernel/trace.h"
#include "kernel/x86/trap_frame.h"

typedef long (*syscall_fn)(u64, u64, u64, u64, u64, u64);

/*
 * Each function has its own argument types, declared where it is defined. Called with six registers, it looks at those it
 * has and at the width it gave them, which is what the x86-64 calling convention and the system-call ABI agree on.
 */
#define SYSCALL_WEAK(nr, name) extern long sys_##name(u64, u64, u64, u64, u64, u64) __attribute__((weak));
SYSCALLS(SYSCALL_WEAK)
NATIVE_CALLS(SYSCALL_WEAK)
#undef SYSCALL_WEAK

static const syscall_fn table[NR_SYSCALLS] = {
#define SYSCALL_ENTRY(nr, name) [nr] = sys_##name,
	SYSCALLS(SYSCALL_ENTRY)
#undef SYSCALL_ENTRY
};

static const syscall_fn native_table[NR_NATIVE_CALLS] = {
#define NATIVE_ENTRY(nr, name) [(nr) - FIRST_NATIVE_CALL] = sys_##name,
	NATIVE_CALLS(NATIVE_ENTRY)
#undef NATIVE_ENTRY
};

static const char *const names[NR_SYSCALLS] = {
#define SYSCALL_NAME(nr, name) [nr] = #name,
	SYSCALLS(SYSCALL_NAME)
#undef SYSCALL_NAME
};

static __attribute__((noinline, cold)) long missing_syscall(u32 nr)
{
	static u64 reported[NR_SYSCALLS / 64 + 1];

	/* Numbers beyond the table are probes or mistakes; all of them share one bit. */
	u32 bit = min(nr, (u32)NR_SYSCALLS);
	if (!(__atomic_fetch_or(&reported[bit / 64], BIT(bit % 64), __ATOMIC_RELAXED) & BIT(bit % 64)))
		printk("system call %u (%s) is not implemented; %s asked for it\n", nr,
		       nr < NR_SYSCALLS && names[nr] ? names[nr] : "no such number", current->comm);
	return -ENOSYS;
}

static __attribute__((noinline, cold)) void trace_syscall(const struct trap_frame *frame)
{
	trace_event(TRACE_SYSCALL, (u32)frame->orig_rax, frame->rax, frame->rdi, frame->rsi);
}

/* Interrupts on. As on Linux only the low half of rax is the number. */
void do_syscall(struct trap_frame *frame)
{
	u32 nr = (u32)frame->orig_rax;
	syscall_fn fn = NULL;

	if (likely(nr < NR_SYSCALLS))
		fn = table[nr];
	else if (nr - FIRST_NATIVE_CALL < NR_NATIVE_CALLS)
		fn = native_table[nr - FIRST_NATIVE_CALL];

	if (likely(fn))
		frame->rax = (u64)fn(frame->rdi, frame->rsi, frame->rdx, frame->r10, frame->r8, frame->r9);
	else
		frame->rax = (u64)missing_syscall(nr);
	if (unlikely(trace_on))
		trace_syscall(frame);
}
