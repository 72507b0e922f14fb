/*
 * Signals on the way to user mode, and at the end of a thread: get_signal() chooses; then a frame, a stop, or the end.
 * do_signal_stop(): all threads of a process stop; the last one tells the parent.
 *
 * The lock, and what is easy to break: kernel/signal.c.
 */
#include "kernel/signal.h"

#include "kernel/errno.h"
#include "kernel/process.h"
#include "kernel/signal_internal.h"
#include "kernel/syscall.h"
#include "kernel/x86/trap_frame.h"

/* -- job control -- */

/* current is about to stop (or to exit) as the group wants. True: it was the last, and the parent is to hear of it. */
static bool participate_group_stop(void)
{
	struct process *p = current->process;
	bool counted = current->jobctl & JOBCTL_STOP_CONSUME;

	current->jobctl &= ~(JOBCTL_STOP_PENDING | JOBCTL_STOP_CONSUME | JOBCTL_STOP_DEQUEUED);
	if (!counted)
		return false;
	if (p->group_stop_count > 0)
		p->group_stop_count--;
	if (p->group_stop_count == 0 && !(p->stop_flags & SIGNAL_STOPPED)) {
		p->stop_flags = SIGNAL_STOPPED;
		return true;
	}
	return false;
}

/*
 * Stops current: because it dequeued stop signal @sig, and then all other threads too; or (sig 0) because another
 * thread has begun that. G held on entry. False: not any more, G still held. True: was stopped and goes on, G released.
 */
static bool do_signal_stop(struct sighand *sh, unsigned long flags, int sig)
{
	struct process *p = current->process;

	if (!(current->jobctl & JOBCTL_STOP_PENDING)) {
		/* SIGCONT or SIGKILL may have come while the lock was dropped for the orphan test. */
		if (!(current->jobctl & JOBCTL_STOP_DEQUEUED) || p->group_exit || p->group_exec_task)
			return false;
		if (!(p->stop_flags & SIGNAL_STOPPED))
			p->group_stop_code = (u32)sig;
		p->group_stop_count = 0;
		struct task *t;

		list_for_each_entry(t, &p->threads, thread_node) {
			if (t->exiting || READ_ONCE(t->state) & TASK_STOPPED)
				continue;
			t->jobctl |= JOBCTL_STOP_PENDING | JOBCTL_STOP_CONSUME;
			p->group_stop_count++;
			if (t != current)
				signal_wake_up(t, false);
		}
	}
	bool last = participate_group_stop();

	/* Under the lock, so that SIGCONT, which takes it, finds us either before or in this state. */
	set_current_state(TASK_STOPPED);
	unlock_sighand(sh, flags);
	if (last)
		notify_parent_stopped(CLD_STOPPED);
	schedule();
	return true;
}

/* -- delivery -- */

struct ksignal {
	int		 sig;
	struct sigaction action;
	struct siginfo	 info;
};

/* Chooses the next signal with a handler. False: none. Does not return when a signal kills us. */
static bool get_signal(struct ksignal *ks)
{
	struct process *p = current->process;
	unsigned long flags;
	struct sighand *sh;

relock:
	sh = lock_sighand(p, &flags);
	if (p->stop_flags & (SIGNAL_CLD_STOPPED | SIGNAL_CLD_CONTINUED)) {
		int why = p->stop_flags & SIGNAL_CLD_CONTINUED ? CLD_CONTINUED : CLD_STOPPED;

		p->stop_flags &= ~(SIGNAL_CLD_STOPPED | SIGNAL_CLD_CONTINUED);
		unlock_sighand(sh, flags);
		notify_parent_stopped(why);
		goto relock;
	}
	for (;;) {
		int sig;

		if (p->group_exit || (p->group_exec_task && p->group_exec_task != current)) {
			sig = SIGKILL;
			break;
		}
		if (current->jobctl & JOBCTL_STOP_PENDING && do_signal_stop(sh, flags, 0))
			goto relock;
		sig = dequeue_signal_locked(current, ~current->blocked, &ks->info);
		if (!sig) {
			recalc_sigpending_locked(current);
			unlock_sighand(sh, flags);
			return false;
		}
		struct sigaction *sa = &sh->action[sig - 1];

		if (sa->handler == SIG_IGN)
			continue;
		if (sa->handler != SIG_DFL) {
			ks->sig = sig;
			ks->action = *sa;
			if (sa->flags & SA_RESETHAND)
				sa->handler = SIG_DFL;
			unlock_sighand(sh, flags);
			return true;
		}
		if (sig_in(sig, DEFAULT_IGNORED))
			continue;
		if (p->unkillable && !sig_in(sig, UNBLOCKABLE))
			continue;
		if (sig_in(sig, STOP_SIGNALS)) {
			if (sig != SIGSTOP) {
				/* Nobody could continue an orphaned group. The test needs a lock that comes before ours. */
				unlock_sighand(sh, flags);
				if (pgrp_is_orphaned(READ_ONCE(p->pgid)))
					goto relock;
				sh = lock_sighand(p, &flags);
			}
			if (do_signal_stop(sh, flags, sig))
				goto relock;
			continue;
		}
		ks->sig = sig;
		break;
	}
	int code = p->group_exit ? p->group_exit_code : p->group_exec_task ? SIGKILL : ks->sig;

	unlock_sighand(sh, flags);
	current->flags |= PF_SIGNALED;
	/* No core files are written, so the core flag (0x80) is never set: as Linux with a core limit of 0. */
	do_group_exit(code);
}

/* rax holds -ERESTART*: the call is made again with its number back in place and rip on the SYSCALL instruction. */
static void syscall_restart(struct trap_frame *frame, u64 nr)
{
	frame->rax = nr;
	frame->rip -= 2;
}

static bool frame_is_syscall(const struct trap_frame *frame) { return (s64)frame->orig_rax >= 0; }

static void handle_signal(struct ksignal *ks, struct trap_frame *frame)
{
	if (frame_is_syscall(frame)) {
		switch ((s64)frame->rax) {
		case -ERESTART_RESTARTBLOCK:
		case -ERESTARTNOHAND:
			frame->rax = (u64)-EINTR;
			break;
		case -ERESTARTSYS:
			if (!(ks->action.flags & SA_RESTART)) {
				frame->rax = (u64)-EINTR;
				break;
			}
			syscall_restart(frame, frame->orig_rax);
			break;
		case -ERESTARTNOINTR:
			syscall_restart(frame, frame->orig_rax);
			break;
		}
	}
	sigset_t oldmask = current->restore_sigmask ? current->saved_sigmask : current->blocked;

	if (setup_signal_frame(ks->sig, &ks->action, &ks->info, oldmask, frame)) {
		/* No stack to put it on. A SIGSEGV whose own frame does not fit must not come again. */
		force_sig_info(SIGSEGV, NULL, ks->sig == SIGSEGV);
		return;
	}
	current->restore_sigmask = false;
	current->restart.fn = NULL;		/* EINTR is final: restart_syscall() must not bring the old call back */
	sigset_t blocked = current->blocked | ks->action.mask;

	if (!(ks->action.flags & SA_NODEFER))
		blocked |= sigmask(ks->sig);
	set_current_blocked(blocked);
}

#define NR_restart_syscall 219

void do_signal(struct trap_frame *frame)
{
	struct ksignal ks;

	if (signal_pending() && get_signal(&ks)) {
		handle_signal(&ks, frame);
		return;
	}
	/* Nothing to run in user mode: an interrupted call goes on as if nothing had been. */
	if (frame_is_syscall(frame)) {
		switch ((s64)frame->rax) {
		case -ERESTARTNOHAND:
		case -ERESTARTSYS:
		case -ERESTARTNOINTR:
			syscall_restart(frame, frame->orig_rax);
			break;
		case -ERESTART_RESTARTBLOCK:
			syscall_restart(frame, NR_restart_syscall);
			break;
		}
	}
	restore_saved_sigmask_unless(false);
}

static long no_restart(struct restart_block *r)
{
	(void)r;
	return -EINTR;
}

SYSCALL_DEFINE(restart_syscall, void)
{
	struct restart_block *r = &current->restart;

	return r->fn ? r->fn(r) : no_restart(r);
}

/* -- exit and exec -- */

bool exit_signals(int code)
{
	struct process *p = current->process;
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);
	bool stopped = false, last = --p->nr_live == 0;

	current->exiting = true;
	current->flags |= PF_EXITING;
	if (last && !p->group_exit) {
		/* Since Linux 5.18 the last thread's code is the process's, not the leader's. */
		p->group_exit = 1;
		p->group_exit_code = code;
	}
	if (p->nr_threads > 1 && !p->group_exit) {
		retarget_shared_pending(~current->blocked);
		if (current->jobctl & JOBCTL_STOP_PENDING)
			stopped = participate_group_stop();
	}
	unlock_sighand(sh, flags);
	if (stopped)
		notify_parent_stopped(CLD_STOPPED);
	return last;
}

void zap_other_threads_locked(void)
{
	struct process *p = current->process;
	struct task *t;

	p->group_stop_count = 0;
	list_for_each_entry(t, &p->threads, thread_node) {
		t->jobctl &= ~(JOBCTL_STOP_PENDING | JOBCTL_STOP_CONSUME);
		if (t == current || t->exiting)
			continue;
		t->pending.set |= sigmask(SIGKILL);
		signal_wake_up(t, true);
	}
}

void flush_signal_handlers(struct sighand *sh, bool all)
{
	for (int i = 0; i < NSIG; i++) {
		struct sigaction *sa = &sh->action[i];

		if (all || sa->handler != SIG_IGN)
			sa->handler = SIG_DFL;
		sa->flags = 0;
		sa->restorer = 0;
		sa->mask = 0;
	}
}
