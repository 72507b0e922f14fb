/*
 * The machine part of a task: its registers while it does not run, and how it gets to run for the first time.
 *
 * A kernel stack, from the top down:
 *
 *	struct trap_frame	registers of the user program (of kernel threads: unused, kept free for exec)
 *	frames of C functions
 *	seven words		where __switch_to left off, while switched out; thread.rsp points at them
 *	guard page		unmapped
 */
#include "kernel/x86/thread.h"
#include "kernel/errno.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/entry_offsets.h"
#include "kernel/x86/features.h"
#include "kernel/x86/fpu.h"
#include "kernel/x86/gdt.h"
#include "kernel/x86/syscall_setup.h"
#include "kernel/x86/trap_frame.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

/* entry_offsets.h against the structures. */
#define CHECK(a, b) _Static_assert((a) == (b), "kernel/x86/entry_offsets.h")
CHECK(CPUL_SELF, offsetof(struct cpu_local, self));
CHECK(CPUL_PERCPU_OFFSET, offsetof(struct cpu_local, percpu_offset));
CHECK(CPUL_CURRENT, offsetof(struct cpu_local, task));
CHECK(CPUL_KERNEL_RSP, offsetof(struct cpu_local, kernel_rsp));
CHECK(CPUL_USER_RSP, offsetof(struct cpu_local, user_rsp));
CHECK(CPUL_NEED_RESCHED, offsetof(struct cpu_local, need_resched));
CHECK(TASK_WORK_OFFSET, offsetof(struct task, work));
CHECK(FRAME_RBP, offsetof(struct trap_frame, rbp));
CHECK(FRAME_R11, offsetof(struct trap_frame, r11));
CHECK(FRAME_RCX, offsetof(struct trap_frame, rcx));
CHECK(FRAME_RDI, offsetof(struct trap_frame, rdi));
CHECK(FRAME_ORIG_RAX, offsetof(struct trap_frame, orig_rax));
CHECK(FRAME_RIP, offsetof(struct trap_frame, rip));
CHECK(FRAME_CS, offsetof(struct trap_frame, cs));
CHECK(FRAME_RFLAGS, offsetof(struct trap_frame, rflags));
CHECK(FRAME_RSP, offsetof(struct trap_frame, rsp));
CHECK(FRAME_SIZE, sizeof(struct trap_frame));
CHECK(SEL_USER_CS, USER_CS);
CHECK(SEL_USER_DS, USER_DS);
CHECK(SEL_KERNEL_CS, KERNEL_CS);
CHECK(SEL_KERNEL_DS, KERNEL_DS);
CHECK(BOOT_STACK_SIZE, KERNEL_STACK_SIZE);
CHECK(IST_STACK_SIZE, 8192);

#define ARCH_SET_GS	0x1001
#define ARCH_SET_FS	0x1002
#define ARCH_GET_FS	0x1003
#define ARCH_GET_GS	0x1004

struct switch_frame {			/* as __switch_to pops it */
	u64	r15, r14, r13, r12, rbx, rbp, ret;
};

struct task *__switch_to(u64 *save_rsp, u64 load_rsp, struct task *prev);
void ret_from_fork(void);
void kthread_start(void);
void enter_user_mode(struct trap_frame *frame) __noreturn;
extern char entry_syscall[];

static struct kmem_cache *fpu_cache;

void thread_init(void)
{
	fpu_cache = kmem_cache_create("fpu_state", fpu_state_size, 64);
}

static uintptr_t stack_top(const struct task *t)
{
	return (uintptr_t)t->stack + KERNEL_STACK_SIZE;
}

struct trap_frame *task_trap_frame(struct task *t)
{
	return (struct trap_frame *)stack_top(t) - 1;
}

/* --- switching -------------------------------------------------------------------------------------------------------------- */

static u64 read_fs_base(void)
{
	u64 v;

	if (!cpu_features.fsgsbase)
		return rdmsr(MSR_FS_BASE);
	__asm__ volatile("rdfsbase %0" : "=r"(v));
	return v;
}

static void write_fs_base(u64 v)
{
	if (cpu_features.fsgsbase)
		__asm__ volatile("wrfsbase %0" : : "r"(v));
	else
		wrmsr(MSR_FS_BASE, v);
}

/* In the kernel the user's GS base waits in KERNEL_GS_BASE for the next SWAPGS. Rarely used: written only if it differs. */
static void save_bases(struct thread_context *t)
{
	t->fs_base = read_fs_base();
	t->gs_base = rdmsr(MSR_KERNEL_GS_BASE);
}

/* @loaded: what KERNEL_GS_BASE holds; reading that register is slow. */
static void load_bases(const struct thread_context *t, u64 loaded)
{
	write_fs_base(t->fs_base);
	if (loaded != t->gs_base)
		wrmsr(MSR_KERNEL_GS_BASE, t->gs_base);
}

struct task *switch_to(struct task *prev, struct task *next)
{
	uintptr_t top = stack_top(next);

	if (likely(prev->thread.fpu)) {
		fpu_save(prev->thread.fpu);
		save_bases(&prev->thread);
	}
	if (likely(next->thread.fpu)) {
		fpu_restore(next->thread.fpu);
		load_bases(&next->thread, likely(prev->thread.fpu) ? prev->thread.gs_base : rdmsr(MSR_KERNEL_GS_BASE));
	}
	cpu_local_write(task, next);
	cpu_local_write(kernel_rsp, top);
	tss_set_rsp0(top);
	return __switch_to(&prev->thread.rsp, next->thread.rsp, prev);
}

/* --- birth and exec ----------------------------------------------------------------------------------------------------------- */

int thread_context_alloc(struct task *t)
{
	t->thread.fpu = kmem_cache_alloc(fpu_cache, GFP_KERNEL);
	if (!t->thread.fpu)
		return -ENOMEM;
	fpu_init_area(t->thread.fpu);
	return 0;
}

void thread_context_free(struct task *t)
{
	if (t->thread.fpu)
		kmem_cache_free(fpu_cache, t->thread.fpu);
	t->thread.fpu = NULL;
}

static void prepare_switch_frame(struct task *t, void (*start)(void), u64 rbx, u64 r12)
{
	struct switch_frame *sf = (struct switch_frame *)task_trap_frame(t) - 1;

	*sf = (struct switch_frame){ .ret = (u64)start, .rbx = rbx, .r12 = r12 };
	t->thread.rsp = (u64)sf;
}

void thread_context_fork(struct task *child, const struct trap_frame *frame, u64 user_sp, bool set_tls, u64 tls)
{
	struct trap_frame *f = task_trap_frame(child);

	*f = *frame;
	f->rax = 0;
	f->orig_rax = (u64)-1;
	if (user_sp)
		f->rsp = user_sp;

	preempt_disable();
	fpu_save(current->thread.fpu);
	save_bases(&current->thread);
	preempt_enable();
	memcpy(child->thread.fpu, current->thread.fpu, fpu_state_size);
	child->thread.fs_base = set_tls ? tls : current->thread.fs_base;
	child->thread.gs_base = current->thread.gs_base;
	prepare_switch_frame(child, ret_from_fork, 0, 0);
}

void thread_context_kthread(struct task *t, int (*fn)(void *), void *arg)
{
	t->thread.fpu = NULL;
	prepare_switch_frame(t, kthread_start, (u64)fn, (u64)arg);
}

void thread_context_exec(struct trap_frame *frame, u64 rip, u64 rsp)
{
	*frame = (struct trap_frame){
		.rip = rip, .rsp = rsp, .cs = USER_CS, .ss = USER_DS, .rflags = RFLAGS_IF | BIT(1), .orig_rax = (u64)-1,
	};
	(void)fpu_restore_from_user(NULL);	/* NULL cannot fail */

	preempt_disable();
	current->thread.fs_base = 0;
	current->thread.gs_base = 0;
	__asm__ volatile("mov %0, %%ds; mov %0, %%es; mov %0, %%fs" : : "r"(0));
	load_bases(&current->thread, rdmsr(MSR_KERNEL_GS_BASE));
	preempt_enable();
}

void thread_enter_user(void)
{
	local_irq_disable();
	enter_user_mode(task_trap_frame(current));
}

/* @t must be current: another task's bases may be in another CPU's registers. */
long thread_arch_prctl(struct task *t, int code, unsigned long addr)
{
	long ret = 0;

	switch (code) {
	case ARCH_SET_FS:
	case ARCH_SET_GS:
		if (addr >= TASK_SIZE)
			return -EPERM;
		preempt_disable();
		save_bases(&t->thread);
		if (code == ARCH_SET_FS)
			t->thread.fs_base = addr;
		else
			t->thread.gs_base = addr;
		load_bases(&t->thread, rdmsr(MSR_KERNEL_GS_BASE));
		preempt_enable();
		return ret;
	case ARCH_GET_FS:
	case ARCH_GET_GS: {
		preempt_disable();
		save_bases(&t->thread);
		preempt_enable();
		u64 base = code == ARCH_GET_FS ? t->thread.fs_base : t->thread.gs_base;
		return put_user(base, (u64 *)addr);
	}
	default:
		return -EINVAL;
	}
}

/* --- SYSCALL -------------------------------------------------------------------------------------------------------------------- */

void syscall_init_cpu(void)
{
	wrmsr(MSR_STAR, (u64)SEL_USER_BASE << 48 | (u64)SEL_KERNEL_CS << 32);
	wrmsr(MSR_LSTAR, (u64)entry_syscall);
	wrmsr(MSR_SFMASK, RFLAGS_CF | RFLAGS_TF | RFLAGS_IF | RFLAGS_DF | RFLAGS_NT | RFLAGS_RF | RFLAGS_AC | RFLAGS_ID |
			  0x3000 /* IOPL */ | 0x8d4 /* OF SF ZF AF PF */);
}
