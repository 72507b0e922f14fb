/*
 * Signal frames: calling a handler as if the program had called it, and undoing that at rt_sigreturn.
 *
 * On the user's stack, from high to low addresses:
 *
 *	interrupted rsp
 *	128 bytes red zone, never touched
 *	FPU state, 64-byte aligned	(fpu_sigframe_size)
 *	struct rt_sigframe		siginfo, ucontext, return address; rsp points here, rsp + 8 is 16-byte aligned
 *
 * The rule: everything that rt_sigreturn reads was written by the user, whatever we once put there. It is copied once, and
 * only the bits of rflags that user mode may change anyway, and no segment, are taken from it.
 */
#include "kernel/x86/sigcontext.h"
#include "kernel/errno.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/trap_frame.h"
#include "mm/uaccess.h"

#define RED_ZONE		128ul
#define SS_ONSTACK		1u
#define SS_DISABLE		2u
#define SS_AUTODISARM		(1u << 31)
#define MINSIGSTKSZ		2048

/* CF PF AF ZF SF TF DF OF RF AC */
#define RFLAGS_USER_MAY_SET	(0x1ul | 0x4 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | 0x800 | 0x10000 | 0x40000)

static bool on_altstack(const struct task *t, uintptr_t sp)
{
	if (t->sas_ss_flags & SS_AUTODISARM)
		return false;
	return t->sas_ss_size && sp > t->sas_ss_sp && sp - t->sas_ss_sp <= t->sas_ss_size;
}

/*
 * Where the frame goes; 0 if it does not fit on the alternate stack (the program dies of SIGSEGV rather than of silent
 * damage below its stack).
 */
static uintptr_t place_frame(const struct task *t, const struct sigaction *sa, uintptr_t sp, uintptr_t *fpstate)
{
	bool nested = on_altstack(t, sp);
	bool entering = (sa->flags & SA_ONSTACK) && t->sas_ss_size && !nested;

	sp -= RED_ZONE;
	if (entering)
		sp = t->sas_ss_sp + t->sas_ss_size;
	*fpstate = ALIGN_DOWN(sp - fpu_sigframe_size(), 64ul);
	uintptr_t frame = ALIGN_DOWN(*fpstate - sizeof(struct rt_sigframe), 16ul) - 8;

	if ((entering || nested) && (frame < t->sas_ss_sp || frame >= t->sas_ss_sp + t->sas_ss_size))
		return 0;
	return frame;
}

static void save_registers(struct user_sigcontext *sc, const struct trap_frame *f, const struct task *t, sigset_t oldmask)
{
	*sc = (struct user_sigcontext){
		.r8 = f->r8, .r9 = f->r9, .r10 = f->r10, .r11 = f->r11, .r12 = f->r12, .r13 = f->r13, .r14 = f->r14, .r15 = f->r15,
		.rdi = f->rdi, .rsi = f->rsi, .rbp = f->rbp, .rbx = f->rbx, .rdx = f->rdx, .rax = f->rax, .rcx = f->rcx,
		.rsp = f->rsp, .rip = f->rip, .rflags = f->rflags, .cs = (u16)f->cs, .ss = (u16)f->ss,
		.err = t->thread.error_code, .trapno = t->thread.trap_nr, .cr2 = t->thread.cr2, .oldmask = oldmask,
	};
}

int setup_signal_frame(int sig, const struct sigaction *sa, const struct siginfo *info, sigset_t oldmask, struct trap_frame *frame)
{
	struct task *t = current;
	uintptr_t fpstate;
	uintptr_t sp = place_frame(t, sa, frame->rsp, &fpstate);

	if (!sp || !(sa->flags & SA_RESTORER))
		return -EFAULT;
	if (!access_ok((void *)sp, sizeof(struct rt_sigframe)) || fpu_save_to_user((void *)fpstate))
		return -EFAULT;

	struct rt_sigframe sf = {
		.pretcode = sa->restorer,
		.uc = {
			.flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS | (fpu_sigframe_size() > 512 ? UC_FP_XSTATE : 0),
			.stack = { .sp = t->sas_ss_sp, .flags = t->sas_ss_flags, .size = t->sas_ss_size },
			.sigmask = oldmask,
		},
		.info = *info,
	};
	save_registers(&sf.uc.mcontext, frame, t, oldmask);
	sf.uc.mcontext.fpstate = fpstate;
	if (copy_out((void *)sp, &sf, sizeof(sf)))
		return -EFAULT;

	/* Nothing below this line can fail. */
	if (t->sas_ss_flags & SS_AUTODISARM) {
		t->sas_ss_sp = 0;
		t->sas_ss_size = 0;
		t->sas_ss_flags = SS_DISABLE;
	}
	frame->rdi = (u64)sig;
	frame->rsi = sp + offsetof(struct rt_sigframe, info);
	frame->rdx = sp + offsetof(struct rt_sigframe, uc);
	frame->rax = 0;				/* a handler without prototype may be variadic: no vector arguments */
	frame->rip = sa->handler;
	frame->rsp = sp;
	frame->cs = USER_CS;
	frame->ss = USER_DS;
	frame->rflags &= ~(RFLAGS_DF | RFLAGS_RF | RFLAGS_TF);
	frame->orig_rax = (u64)-1;
	(void)fpu_restore_from_user(NULL);	/* the handler starts with a clean FPU; NULL cannot fail */
	return 0;
}

/* As sigaltstack(2), but errors are ignored: the program may have changed its mind about the stack meanwhile. */
static void restore_altstack(struct task *t, const struct user_stack *st, uintptr_t sp)
{
	u32 mode = st->flags & ~SS_AUTODISARM;

	if (mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE)
		return;
	if (on_altstack(t, sp))
		return;
	if (mode == SS_DISABLE) {
		t->sas_ss_sp = 0;
		t->sas_ss_size = 0;
	} else {
		if (st->size < MINSIGSTKSZ)
			return;
		t->sas_ss_sp = st->sp;
		t->sas_ss_size = st->size;
	}
	t->sas_ss_flags = st->flags;
}

static void restore_registers(struct trap_frame *f, const struct user_sigcontext *sc)
{
	f->r8 = sc->r8; f->r9 = sc->r9; f->r10 = sc->r10; f->r11 = sc->r11;
	f->r12 = sc->r12; f->r13 = sc->r13; f->r14 = sc->r14; f->r15 = sc->r15;
	f->rdi = sc->rdi; f->rsi = sc->rsi; f->rbp = sc->rbp; f->rbx = sc->rbx;
	f->rdx = sc->rdx; f->rax = sc->rax; f->rcx = sc->rcx; f->rsp = sc->rsp;
	f->rip = sc->rip;			/* if it is not canonical, the way out notices */
	f->rflags = (f->rflags & ~RFLAGS_USER_MAY_SET) | (sc->rflags & RFLAGS_USER_MAY_SET);
	f->cs = USER_CS;
	f->ss = USER_DS;
	f->orig_rax = (u64)-1;			/* this was no system call to restart */
}

/* There is one code and one stack segment. Linux would take any others to IRET, which faults: the same SIGSEGV. */
static bool segments_ok(const struct user_ucontext *uc)
{
	return (uc->mcontext.cs | 3) == USER_CS &&
	       (!(uc->flags & UC_STRICT_RESTORE_SS) || (uc->mcontext.ss | 3) == USER_DS);
}

SYSCALL_DEFINE(rt_sigreturn, void)
{
	struct trap_frame *frame = task_trap_frame(current);
	struct rt_sigframe sf;

	/* The handler's RET has taken pretcode off the stack. */
	if (copy_in(&sf, (void *)(frame->rsp - 8), sizeof(sf)))
		goto bad_frame;
	set_current_blocked(sf.uc.sigmask & ~(sigmask(SIGKILL) | sigmask(SIGSTOP)));
	restore_registers(frame, &sf.uc.mcontext);
	if (!segments_ok(&sf.uc) || fpu_restore_from_user((void *)sf.uc.mcontext.fpstate))
		goto bad_frame;
	restore_altstack(current, &sf.uc.stack, frame->rsp);
	return (long)frame->rax;

bad_frame:
	frame->orig_rax = (u64)-1;
	force_sig(SIGSEGV);
	return 0;
}
