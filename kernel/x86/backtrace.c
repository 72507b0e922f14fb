/*
 * Panic, the machine's part: backtraces by frame pointers, and stopping the other CPUs.
 *
 * Everything here runs on a machine in an unknown state. So: no locks but those that printk can break, no memory is read
 * that is not known to be a kernel stack, and the other CPUs only copy their registers and stop; the panicking one prints
 * for them.
 */
#include "kernel/x86/backtrace.h"
#include "kernel/console.h"
#include "kernel/ksym.h"
#include "kernel/panic.h"
#include "kernel/preempt.h"
#include "kernel/printk.h"
#include "kernel/task.h"
#include "kernel/trace.h"
#include "kernel/x86/apic.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/entry_offsets.h"
#include "kernel/x86/gdt.h"
#include "kernel/x86/traps.h"
#include "mm/show_walk.h"

#define MAX_FRAMES		32
#define STOP_POLLS		20000000ul	/* for all CPUs together: a second or so */

extern char boot_stack[], boot_stack_top[], trap_return[], paranoid_return[];

/* What a stopped CPU left. */
struct stopped_cpu {
	struct trap_frame frame;
	bool		  stopped;
};
static struct stopped_cpu stopped_cpus[NR_CPUS];
static uintptr_t noted_address;			/* what the panic is about; valid if @address_noted */
static bool address_noted;
static u32 panic_owner = UINT32_MAX;		/* atomic: CPU that prints */

/* --- backtrace -------------------------------------------------------------------------------------------------------------- */

/* The kernel stack that holds @addr: true and its upper end. @t: a task whose stack counts, may be NULL. */
static bool stack_end(uintptr_t addr, const struct task *t, uintptr_t *end)
{
	if (addr >= (uintptr_t)boot_stack && addr < (uintptr_t)boot_stack_top) {
		*end = (uintptr_t)boot_stack_top;
		return true;
	}
	if (t && t->stack && addr >= (uintptr_t)t->stack && addr < (uintptr_t)t->stack + KERNEL_STACK_SIZE) {
		*end = (uintptr_t)t->stack + KERNEL_STACK_SIZE;
		return true;
	}
	for (unsigned int cpu = 0; cpu < nr_cpus_found; cpu++) {
		if ((cpu == 0 || percpu_offsets[cpu]) && ist_stack_contains(cpu, addr, end))
			return true;
	}
	return false;
}

static void show_address(uintptr_t addr)
{
	printk("  %016lx %pS", addr, (void *)addr);
}

/* A return address lies behind the call; after one that never returns that is already the next function. */
static void show_return_address(uintptr_t addr)
{
	printk("  %016lx %pS", addr, (void *)(addr - 1));
}

/* The callers above the frame at @rbp. */
static void walk(uintptr_t rbp, const struct task *t)
{
	uintptr_t end;

	for (int i = 0; i < MAX_FRAMES; i++) {
		if (!IS_ALIGNED(rbp, 8) || !stack_end(rbp, t, &end) || rbp + 16 > end)
			return;
		const u64 *fp = (const u64 *)rbp;
		if (fp[1] == (u64)trap_return || fp[1] == (u64)paranoid_return) {
			/* The entry code has no frame of its own; the registers lie above the return address. */
			const struct trap_frame *f = (const void *)(fp + 2);
			if ((uintptr_t)(f + 1) > end)
				return;
			printk("  --- %s ---", user_mode(f) ? "from user mode" : "interrupted here");
			if (user_mode(f)) {
				printk("  %016lx (user)", f->rip);
				return;
			}
			show_address(f->rip);
			rbp = f->rbp;
			continue;
		}
		if (!is_kernel_text(fp[1]))
			return;
		show_return_address(fp[1]);
		if (fp[0] <= rbp)		/* frames of one stack only go up */
			return;
		rbp = fp[0];
	}
	printk("  ... and more");
}

void show_backtrace(uintptr_t rip, uintptr_t rbp)
{
	show_address(rip);
	walk(rbp, current);
}

void show_backtrace_here(void)
{
	walk((uintptr_t)__builtin_frame_address(0), current);
}

void show_backtrace_task(const struct task *t)
{
	uintptr_t end;
	uintptr_t sp = t->thread.rsp;

	/* As __switch_to left it: r15 r14 r13 r12 rbx rbp return-address. */
	if (IS_ALIGNED(sp, 8) && stack_end(sp, t, &end) && sp + 56 <= end) {
		show_return_address(((const u64 *)sp)[6]);
		walk(((const u64 *)sp)[5], t);
	}
}

/* --- panic ------------------------------------------------------------------------------------------------------------------ */

static void show_locks(const struct task *t)
{
#ifdef DEBUG
	static const char *const names[] = {
#define LOCK_NAME(class, kind, irq, where) #class,
		LOCK_CLASSES(LOCK_NAME)
#undef LOCK_NAME
	};
	u32 n = t ? min(t->nr_held, (u32)MAX_HELD_LOCKS) : 0;

	printk("locks held: %u", n);
	for (u32 i = 0; i < n; i++) {
		const struct held_lock *h = &t->held[i];
		printk("  %s at %016lx, taken at %pS", h->class < NR_LOCK_CLASSES ? names[h->class] : "?", (u64)h->lock,
		       (void *)h->caller);
	}
#else
	(void)t;
#endif
}

static void show_cpu(unsigned int cpu, const struct trap_frame *f, const struct task *t)
{
	printk("CPU %u, task %d (%.16s), preempt count %x%s", cpu, t ? t->tid : -1, t ? t->comm : "none",
	       per_cpu_ptr(&cpu_local, cpu)->preempt_count, t && (t->flags & PF_IDLE) ? ", idle" : "");
	if (f && user_mode(f)) {
		printk("  %016lx (user)", f->rip);
	} else if (f) {
		show_address(f->rip);
		walk(f->rbp, t);
	}
	show_locks(t);
}

static void __noreturn stop(void)
{
	for (;;)
		__asm__ volatile("cli; hlt" ::: "memory");
}

void panic_stop_this_cpu(struct trap_frame *frame)
{
	struct stopped_cpu *s = &stopped_cpus[smp_processor_id()];

	s->frame = *frame;
	__atomic_store_n(&s->stopped, true, __ATOMIC_RELEASE);
	stop();
}

/* NMI to all the others; those that do not answer are named as such. */
static void stop_other_cpus(void)
{
	unsigned int cpu;
	cpumask_t waiting = cpu_online_mask & ~BIT(smp_processor_id());

	for_each_cpu(cpu, waiting)
		apic_send_nmi(cpu);
	for (u64 i = 0; waiting && i < STOP_POLLS; i++) {
		for_each_cpu(cpu, waiting) {
			if (__atomic_load_n(&stopped_cpus[cpu].stopped, __ATOMIC_ACQUIRE))
				waiting &= ~BIT(cpu);
		}
		cpu_relax();
	}
}

static void show_other_cpus(void)
{
	unsigned int cpu;

	for_each_cpu(cpu, cpu_online_mask & ~BIT(smp_processor_id())) {
		if (stopped_cpus[cpu].stopped)
			show_cpu(cpu, &stopped_cpus[cpu].frame, per_cpu_ptr(&cpu_local, cpu)->task);
		else
			printk("CPU %u does not answer", cpu);
	}
}

static void __noreturn panic_common(struct trap_frame *frame, uintptr_t rbp, const char *fmt, va_list ap)
{
	u32 me = smp_processor_id(), nobody = UINT32_MAX;
	char message[384];

	local_irq_disable();
	if (!__atomic_compare_exchange_n(&panic_owner, &nobody, me, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		if (nobody == me) {		/* while printing the first one */
			printk_bare("PANIC: another one on the way: %s. Giving up.", fmt);
			stop();
		}
		for (;;)			/* another CPU was first; its NMI will find us here */
			cpu_relax();
	}
	panic_in_progress = true;
	consoles_enable_all();
	vsnprintf(message, sizeof(message), fmt, ap);
	printk_bare("PANIC: %s", message);
	stop_other_cpus();
	if (frame)
		show_registers(frame);	/* with rip, where the trace begins */
	if (address_noted)
		show_page_walk(noted_address);

	const struct task *t = current;
	printk("CPU %u, task %d (%.16s), preempt count %x", me, t ? t->tid : -1, t ? t->comm : "none", preempt_count());
	walk(rbp, t);
	show_locks(t);
	show_other_cpus();
	trace_dump();
	printk_bare("--- halted after a panic; nothing is written any more, the machine may be switched off ---");
	stop();
}

void panic_note_address(uintptr_t addr)
{
	noted_address = addr;
	address_noted = true;
}

void panic_at(struct trap_frame *frame, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	panic_common(frame, frame->rbp, fmt, ap);
}

void panic(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	panic_common(NULL, (uintptr_t)__builtin_frame_address(0), fmt, ap);
}
