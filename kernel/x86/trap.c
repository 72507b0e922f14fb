/*
 * Exceptions: which signal a program gets, and what is a bug of ours.
 *
 *	user mode	the signal that Linux sends, with its si_code and address
 *	kernel mode	a fault at an instruction listed in the exception table goes on at its fix-up; else panic
 *	#PF		mm/fault_entry.c decides
 *
 * And the way back: interrupts may preempt the kernel, and nothing returns to user mode with work pending.
 */
#include "kernel/x86/traps.h"
#include "kernel/console.h"
#include "kernel/ksym.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "kernel/task.h"
#include "kernel/x86/backtrace.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/entry_offsets.h"
#include "kernel/x86/fpu.h"
#include "kernel/x86/gdt.h"
#include "kernel/x86/irq.h"
#include "mm/fault.h"
#include "mm/uaccess.h"

#define ILL_ILLOPN	2
#define FPE_INTDIV	1
#define TRAP_TRACE	2
#define DR6_SINGLE_STEP	BIT(14)
#define DR6_IDLE	0xffff0ff0ul

/* --- IDT -------------------------------------------------------------------------------------------------------------- */

struct idt_gate {
	u16	offset_lo;
	u16	selector;
	u8	ist;
	u8	type;
	u16	offset_mid;
	u32	offset_hi;
	u32	reserved;
};
_Static_assert(sizeof(struct idt_gate) == 16, "Intel SDM vol. 3, figure 6-8");

#define GATE_INTERRUPT	0x8e		/* present, DPL 0; the CPU clears IF */
#define GATE_USER	0xee		/* the same, user code may INT to it */
#define STUB_SIZE	16

extern char entry_stubs[];		/* 256 of them, STUB_SIZE apart */
static struct idt_gate idt[256] __aligned(4096);

static void set_gate(unsigned int vector, enum ist ist, u8 type)
{
	uintptr_t addr = (uintptr_t)entry_stubs + vector * STUB_SIZE;

	idt[vector] = (struct idt_gate){
		.offset_lo = (u16)addr, .offset_mid = (u16)(addr >> 16), .offset_hi = (u32)(addr >> 32),
		.selector = SEL_KERNEL_CS, .ist = (u8)ist, .type = type,
	};
}

static void report_nmi(void)
{
	pr_once("NMI of unknown origin on CPU %u", smp_processor_id());
}

void idt_init(void)
{
	irq_work_set(IRQ_WORK_NMI, report_nmi);
	for (unsigned int v = 0; v < 256; v++)
		set_gate(v, IST_NONE, GATE_INTERRUPT);
	set_gate(TRAP_BP, IST_NONE, GATE_USER);
	set_gate(TRAP_OF, IST_NONE, GATE_USER);
	set_gate(TRAP_DF, IST_DOUBLE_FAULT, GATE_INTERRUPT);
	set_gate(TRAP_NMI, IST_NMI, GATE_INTERRUPT);
	set_gate(TRAP_DB, IST_DEBUG, GATE_INTERRUPT);
	set_gate(TRAP_MC, IST_MACHINE_CHECK, GATE_INTERRUPT);
}

void idt_load(void)
{
	struct { u16 limit; u64 base; } __packed ptr = { sizeof(idt) - 1, (uintptr_t)idt };

	__asm__ volatile("lidt %0" : : "m"(ptr));
}

/* --- exceptions ------------------------------------------------------------------------------------------------------- */

static const char *const trap_names[] = {
	[TRAP_DE] = "divide error", [TRAP_DB] = "debug", [TRAP_NMI] = "NMI", [TRAP_BP] = "breakpoint", [TRAP_OF] = "overflow",
	[TRAP_BR] = "bound range", [TRAP_UD] = "invalid opcode", [TRAP_NM] = "device not available",
	[TRAP_DF] = "double fault", [TRAP_TS] = "invalid TSS", [TRAP_NP] = "segment not present", [TRAP_SS] = "stack segment fault",
	[TRAP_GP] = "general protection fault", [TRAP_PF] = "page fault", [TRAP_MF] = "x87 error",
	[TRAP_AC] = "alignment check", [TRAP_MC] = "machine check", [TRAP_XM] = "SIMD error",
};

const char *trap_name(unsigned int vector)
{
	return vector < ARRAY_SIZE(trap_names) && trap_names[vector] ? trap_names[vector] : "unknown exception";
}

static u64 clear_debug_status(void)
{
	u64 dr6;

	__asm__ volatile("mov %%dr6, %0" : "=r"(dr6));
	__asm__ volatile("mov %0, %%dr6" : : "r"(DR6_IDLE));	/* the CPU only ever sets bits */
	return dr6;
}

static void user_debug(struct trap_frame *frame)
{
	u64 dr6 = clear_debug_status();

	if (dr6 & DR6_SINGLE_STEP)
		force_sig_fault(SIGTRAP, TRAP_TRACE, frame->rip, 0);
}

static void user_fpu_error(struct trap_frame *frame, unsigned int vector)
{
	int code = fpu_exception_code(vector == TRAP_XM);

	if (code)
		force_sig_fault(SIGFPE, code, frame->rip, 0);
}

/* Interrupts on. */
static void user_exception(struct trap_frame *frame, unsigned int vector)
{
	switch (vector) {
	case TRAP_DE:
		force_sig_fault(SIGFPE, FPE_INTDIV, frame->rip, 0);
		break;
	case TRAP_DB:
		user_debug(frame);
		break;
	case TRAP_BP:
		force_sig(SIGTRAP);
		break;
	case TRAP_UD:
		force_sig_fault(SIGILL, ILL_ILLOPN, frame->rip, 0);
		break;
	case TRAP_NP:
	case TRAP_SS:
		force_sig(SIGBUS);
		break;
	case TRAP_MF:
	case TRAP_XM:
		user_fpu_error(frame, vector);
		break;
	case TRAP_AC:
		force_sig_fault(SIGBUS, BUS_ADRALN, 0, 0);
		break;
	default:		/* #GP and what cannot be told from it: SI_KERNEL, no address */
		force_sig(SIGSEGV);
	}
}

static void kernel_exception(struct trap_frame *frame, unsigned int vector, u64 error_code)
{
	uintptr_t fixup = search_exception_table(frame->rip);

	if (fixup) {
		frame->rip = fixup;
		return;
	}
	die(trap_name(vector), frame, error_code);
}

#define PF_ERROR_PROT	BIT(0)

static void exception(struct trap_frame *frame, unsigned int vector)
{
	u64 error_code = frame->orig_rax;
	bool user = user_mode(frame);
	/* Before interrupts are on: an interrupt may page-fault and overwrite it. */
	uintptr_t cr2 = vector == TRAP_PF ? read_cr2() : 0;

	frame->orig_rax = (u64)-1;		/* not a system call: nothing to restart */
	if (user) {
		current->thread.trap_nr = vector;
		current->thread.error_code = error_code;
		if (vector == TRAP_PF) {
			current->thread.cr2 = cr2;
			/* Whether a kernel page is mapped is nobody's business: always "protection", as on Linux. */
			if (cr2 >= TASK_SIZE)
				current->thread.error_code |= PF_ERROR_PROT;
		}
	}
	if (frame->rflags & RFLAGS_IF)
		local_irq_enable();

	if (vector == TRAP_PF)
		do_page_fault(frame, error_code, cr2);
	else if (user)
		user_exception(frame, vector);
	else
		kernel_exception(frame, vector, error_code);

	local_irq_disable();
}

void trap_dispatch(struct trap_frame *frame, u64 vector)
{
	if (vector < VECTOR_ISA_BASE) {
		exception(frame, (unsigned int)vector);
		return;
	}
	frame->orig_rax = (u64)-1;
	irq_dispatch((unsigned int)vector, user_mode(frame));
	/* The way back to user mode looks for itself; in the kernel an interrupt is a chance to preempt. */
	if (!user_mode(frame) && preempt_count() == 0 && cpu_local_read(need_resched))
		preempt_schedule_irq();
}

void trap_bad_user_rip(struct trap_frame *frame)
{
	frame->orig_rax = (u64)-1;
	current->thread.trap_nr = TRAP_GP;
	current->thread.error_code = 0;
	force_sig(SIGSEGV);
}

void exit_to_user_work(struct trap_frame *frame)
{
	while (cpu_local_read(need_resched) || READ_ONCE(current->work)) {
		local_irq_enable();
		if (cpu_local_read(need_resched))
			schedule();
		if (READ_ONCE(current->work))
			do_signal(frame);
		local_irq_disable();
	}
}

/* --- on interrupt stacks: nothing here may sleep, take locks that others hold, or return from a double fault --------------- */

static bool hit_stack_guard(const struct task *t, uintptr_t addr)
{
	uintptr_t bottom = t ? (uintptr_t)t->stack : 0;

	return bottom && addr < bottom && bottom - addr <= PAGE_SIZE;
}

void trap_paranoid(struct trap_frame *frame, u64 vector)
{
	switch (vector) {
	case TRAP_NMI:
		if (panic_in_progress)
			panic_stop_this_cpu(frame);
		irq_work_raise(IRQ_WORK_NMI);	/* printing here could wait for a lock that we interrupted */
		return;
	case TRAP_DB:
		/* Single step of a program, trapping one instruction late, in the first one of the system-call entry. */
		frame->rflags &= ~RFLAGS_TF;
		clear_debug_status();
		return;
	case TRAP_DF:
		if (hit_stack_guard(current, read_cr2()))
			die("kernel stack overflow", frame, 0);
		die(trap_name(TRAP_DF), frame, frame->orig_rax);
	default:
		die(trap_name((unsigned int)vector), frame, frame->orig_rax);
	}
}

void die(const char *what, struct trap_frame *frame, u64 error_code)
{
	panic_at(frame, "%s at %pS, error code 0x%lx, cr2 0x%lx", what, (void *)frame->rip, error_code, read_cr2());
}

void show_registers(const struct trap_frame *f)
{
	printk("rip %016lx %pS  rflags %08lx", f->rip, (void *)f->rip, f->rflags);
	printk("rsp %016lx  cs %04lx  ss %04lx  cr2 %016lx  cr3 %012lx", f->rsp, f->cs, f->ss, read_cr2(), read_cr3());
	printk("rax %016lx  rbx %016lx  rcx %016lx  rdx %016lx", f->rax, f->rbx, f->rcx, f->rdx);
	printk("rsi %016lx  rdi %016lx  rbp %016lx  r8  %016lx", f->rsi, f->rdi, f->rbp, f->r8);
	printk("r9  %016lx  r10 %016lx  r11 %016lx  r12 %016lx", f->r9, f->r10, f->r11, f->r12);
	printk("r13 %016lx  r14 %016lx  r15 %016lx", f->r13, f->r14, f->r15);
}
