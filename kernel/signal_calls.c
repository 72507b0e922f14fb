/* System calls about signals: kill and its kin, actions, masks, waiting, the alternate stack. */
#include "kernel/signal.h"

#include "kernel/errno.h"
#include "kernel/process.h"
#include "kernel/signal_internal.h"
#include "kernel/syscall.h"
#include "kernel/x86/trap_frame.h"
#include "mm/uaccess.h"

/* -- system calls: kill and its kin -- */

static struct siginfo info_from_current(int sig, int code)
{
	struct siginfo info = { .si_signo = sig, .si_code = code };

	info.chld.pid = current->process->tgid;
	info.chld.uid = current->process->creds.uid;
	return info;
}

/* 0, -EPERM, or the result of sending. sig 0 only asks. */
static int signal_process_checked(struct process *p, int sig, const struct siginfo *info)
{
	if (!may_signal(p, sig))
		return -EPERM;
	return sig ? send_signal_process(p, sig, info) : 0;
}

/* The process of a tgid or, as Linux has it, of any of its threads; counted. */
static struct process *find_target_process(int pid)
{
	struct process *p = find_process_get(pid);

	if (p)
		return p;
	struct task *t = find_task_get(pid);

	if (!t)
		return NULL;
	p = t->process;
	process_get(p);
	task_put(t);
	return p;
}

static int kill_one(int pid, int sig, const struct siginfo *info)
{
	struct process *p = find_target_process(pid);

	if (!p)
		return -ESRCH;
	int ret = signal_process_checked(p, sig, info);

	process_put(p);
	return ret;
}

/* Results of several: success if any; else "not permitted" if any; else nobody. */
struct kill_many { int sig; const struct siginfo *info; bool any_ok; int error; };

static void kill_member(struct process *p, struct kill_many *km)
{
	int ret = may_signal(p, km->sig) ? km->sig ? send_signal_member(p, km->sig, km->info) : 0 : -EPERM;

	if (!ret)
		km->any_ok = true;
	else
		km->error = ret;
}

static bool kill_member_cb(struct process *p, void *arg)
{
	kill_member(p, arg);
	return true;
}

static int kill_pgrp_checked(int pgid, int sig, const struct siginfo *info)
{
	struct kill_many km = { .sig = sig, .info = info, .error = -ESRCH };
	unsigned long flags = spin_lock_irqsave(&process_tree_lock);
	struct pid *pgrp = pid_find(pgid);

	if (pgrp)
		for_each_in_pgrp_locked(pgrp, kill_member_cb, &km);
	spin_unlock_irqrestore(&process_tree_lock, flags);
	return km.any_ok ? 0 : km.error;
}

/* kill(-1): everybody but pid 1 and ourselves. */
static int kill_all(int sig, const struct siginfo *info)
{
	struct kill_many km = { .sig = sig, .info = info, .error = -ESRCH };
	struct process *p;
	unsigned long flags = spin_lock_irqsave(&process_tree_lock);

	list_for_each_entry(p, &all_processes, all_node) {
		if (p->tgid > 1 && p != current->process)
			kill_member(p, &km);
	}
	spin_unlock_irqrestore(&process_tree_lock, flags);
	return km.any_ok ? 0 : km.error;
}

SYSCALL_DEFINE(kill, int pid, int sig)
{
	struct siginfo info = info_from_current(sig, SI_USER);

	if (sig && !signal_valid(sig))
		return -EINVAL;
	if (pid > 0)
		return kill_one(pid, sig, &info);
	if (pid == INT32_MIN)
		return -ESRCH;
	if (pid == -1)
		return kill_all(sig, &info);
	return kill_pgrp_checked(pid ? -pid : current->process->pgid, sig, &info);
}

/* tgid 0: whatever process the thread belongs to. */
static int kill_thread(int tgid, int tid, int sig, const struct siginfo *info)
{
	if (sig && !signal_valid(sig))
		return -EINVAL;
	struct task *t = find_task_get(tid);

	if (!t)
		return -ESRCH;
	int ret = -ESRCH;

	if (!tgid || t->process->tgid == tgid) {
		if (!may_signal(t->process, sig))
			ret = -EPERM;
		else
			ret = sig ? send_signal_task(t, sig, info) : 0;
	}
	task_put(t);
	return ret;
}

SYSCALL_DEFINE(tgkill, int tgid, int tid, int sig)
{
	struct siginfo info = info_from_current(sig, SI_TKILL);

	if (tgid <= 0 || tid <= 0)
		return -EINVAL;
	return kill_thread(tgid, tid, sig, &info);
}

SYSCALL_DEFINE(tkill, int tid, int sig)
{
	struct siginfo info = info_from_current(sig, SI_TKILL);

	if (tid <= 0)
		return -EINVAL;
	return kill_thread(0, tid, sig, &info);
}

/* Only to ourselves may one pretend that the kernel or kill() sent it. */
static bool may_fake(const struct siginfo *info, int pid)
{
	return (info->si_code < 0 && info->si_code != SI_TKILL) || pid == current->process->tgid;
}

SYSCALL_DEFINE(rt_sigqueueinfo, int pid, int sig, const struct siginfo __user *uinfo)
{
	struct siginfo info;

	if (copy_in(&info, uinfo, sizeof(info)))
		return -EFAULT;
	info.si_signo = sig;
	if (!may_fake(&info, pid))
		return -EPERM;
	if (sig && !signal_valid(sig))
		return -EINVAL;
	return pid > 0 ? kill_one(pid, sig, &info) : -ESRCH;
}

SYSCALL_DEFINE(rt_tgsigqueueinfo, int tgid, int tid, int sig, const struct siginfo __user *uinfo)
{
	struct siginfo info;

	if (copy_in(&info, uinfo, sizeof(info)))
		return -EFAULT;
	info.si_signo = sig;
	if (tgid <= 0 || tid <= 0)
		return -EINVAL;
	if (!may_fake(&info, tgid))
		return -EPERM;
	return kill_thread(tgid, tid, sig, &info);
}

/* -- system calls: actions and masks -- */

#define SA_EXPOSE_TAGBITS 0x800u
#define SA_KNOWN (SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART | SA_NODEFER | SA_RESETHAND)

SYSCALL_DEFINE(rt_sigaction, int sig, const struct sigaction __user *act, struct sigaction __user *oact, size_t sigsetsize)
{
	struct sigaction new, old;
	struct process *p = current->process;
	unsigned long flags;

	if (sigsetsize != sizeof(sigset_t))
		return -EINVAL;
	if (act && copy_in(&new, act, sizeof(new)))
		return -EFAULT;
	if (!signal_valid(sig) || (act && sig_in(sig, UNBLOCKABLE)))
		return -EINVAL;

	struct sighand *sh = lock_sighand(p, &flags);
	struct sigaction *sa = &sh->action[sig - 1];

	old = *sa;
	if (act) {
		new.flags &= SA_KNOWN;
		new.mask &= ~UNBLOCKABLE;
		*sa = new;
		/* POSIX: making it ignored discards what is pending, blocked or not. */
		if (action_ignores(p, sig))
			flush_mask_everywhere(p, sigmask(sig));
		recalc_sigpending_locked(current);
	}
	unlock_sighand(sh, flags);
	return oact ? copy_out(oact, &old, sizeof(old)) : 0;
}

SYSCALL_DEFINE(rt_sigprocmask, int how, const sigset_t __user *uset, sigset_t __user *uoldset, size_t sigsetsize)
{
	sigset_t set, old = current->blocked;

	if (sigsetsize != sizeof(sigset_t))
		return -EINVAL;
	if (uset) {
		if (copy_in(&set, uset, sizeof(set)))
			return -EFAULT;
		switch (how) {
		case 0:		/* SIG_BLOCK */
			set |= old;
			break;
		case 1:		/* SIG_UNBLOCK */
			set = old & ~set;
			break;
		case 2:		/* SIG_SETMASK */
			break;
		default:
			return -EINVAL;
		}
		set_current_blocked(set);
	}
	return uoldset ? put_user(old, uoldset) : 0;
}

SYSCALL_DEFINE(rt_sigpending, sigset_t __user *uset, size_t sigsetsize)
{
	unsigned long flags;

	if (sigsetsize > sizeof(sigset_t))
		return -EINVAL;
	struct sighand *sh = lock_sighand(current->process, &flags);
	sigset_t set = (current->pending.set | current->process->pending.set) & current->blocked;

	unlock_sighand(sh, flags);
	return copy_out(uset, &set, sigsetsize);
}

static void sleep_until_signal(void)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (signal_pending())
			break;
		schedule();
	}
	set_current_state(TASK_RUNNING);
}

SYSCALL_DEFINE(pause, void)
{
	sleep_until_signal();
	return -ERESTARTNOHAND;
}

SYSCALL_DEFINE(rt_sigsuspend, const sigset_t __user *uset, size_t sigsetsize)
{
	sigset_t set;

	if (sigsetsize != sizeof(sigset_t))
		return -EINVAL;
	if (copy_in(&set, uset, sizeof(set)))
		return -EFAULT;
	current->saved_sigmask = current->blocked;
	set_current_blocked(set);
	sleep_until_signal();
	/* The handler runs under the new mask, then the old one comes back: do_signal() does both. */
	current->restore_sigmask = true;
	return -ERESTARTNOHAND;
}

/* One of @these, sleeping until @deadline (0: for ever, 1: not at all). Signal number, -EAGAIN or -EINTR. */
static int wait_for_signal(sigset_t these, u64 deadline, struct siginfo *info)
{
	struct process *p = current->process;
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);
	int sig = dequeue_signal_locked(current, these, info);
	bool timed_out = deadline == 1;

	if (!sig && deadline != 1) {
		/* Unblocked while we sleep, so that senders choose and wake us; real_blocked keeps "ignored" from applying. */
		current->real_blocked = current->blocked;
		current->blocked &= ~these;
		recalc_sigpending_locked(current);
		set_current_state(TASK_INTERRUPTIBLE);
		if (current->sigpending)
			set_current_state(TASK_RUNNING);
		unlock_sighand(sh, flags);
		if (!deadline)
			schedule();
		else
			timed_out = !schedule_until(deadline);
		sh = lock_sighand(p, &flags);
		set_blocked_locked(current->real_blocked);
		current->real_blocked = 0;
		sig = dequeue_signal_locked(current, these, info);
	}
	unlock_sighand(sh, flags);
	if (sig)
		return sig;
	return timed_out ? -EAGAIN : -EINTR;
}

SYSCALL_DEFINE(rt_sigtimedwait, const sigset_t __user *uthese, struct siginfo __user *uinfo,
	       const struct timespec64 __user *uts, size_t sigsetsize)
{
	sigset_t these;
	struct timespec64 ts;
	struct siginfo info;
	u64 deadline = 0;

	if (sigsetsize != sizeof(sigset_t))
		return -EINVAL;
	if (copy_in(&these, uthese, sizeof(these)))
		return -EFAULT;
	if (uts) {
		if (copy_in(&ts, uts, sizeof(ts)))
			return -EFAULT;
		if (!timespec_valid(&ts))
			return -EINVAL;
		u64 ns = timespec_to_ns(&ts);

		deadline = ns ? min(ktime_get_ns() + ns, (u64)INT64_MAX) : 1;
	}
	int sig = wait_for_signal(these & ~UNBLOCKABLE, deadline, &info);

	if (sig > 0 && uinfo && copy_out(uinfo, &info, sizeof(info)))
		return -EFAULT;
	return sig;
}

/* -- sigaltstack -- */

struct stack_user { u64 sp; s32 flags; u32 pad; u64 size; };	/* stack_t */
#define SS_ONSTACK	1u
#define SS_DISABLE	2u
#define SS_AUTODISARM	(1u << 31)
#define MINSIGSTKSZ	2048

static bool on_sigaltstack(u64 sp)
{
	/* With AUTODISARM the registration is gone while a handler runs, so it is never "in use". */
	return !(current->sas_ss_flags & SS_AUTODISARM) && sp > current->sas_ss_sp && sp - current->sas_ss_sp <= current->sas_ss_size;
}

SYSCALL_DEFINE(sigaltstack, const struct stack_user __user *uss, struct stack_user __user *uoss)
{
	struct task *t = current;
	u64 sp = task_trap_frame(t)->rsp;
	struct stack_user ss, old = { .sp = t->sas_ss_sp, .size = t->sas_ss_size };
	u32 state = !t->sas_ss_size ? SS_DISABLE : on_sigaltstack(sp) ? SS_ONSTACK : 0;

	old.flags = (s32)(state | (t->sas_ss_flags & SS_AUTODISARM));
	if (uss) {
		if (copy_in(&ss, uss, sizeof(ss)))
			return -EFAULT;
		u32 mode = (u32)ss.flags & ~SS_AUTODISARM;

		if (on_sigaltstack(sp))
			return -EPERM;
		if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0)
			return -EINVAL;
		if (mode == SS_DISABLE) {
			ss.sp = 0;
			ss.size = 0;
		} else if (ss.size < MINSIGSTKSZ) {
			return -ENOMEM;
		}
		t->sas_ss_sp = ss.sp;
		t->sas_ss_size = ss.size;
		t->sas_ss_flags = (u32)ss.flags;
	}
	return uoss ? copy_out(uoss, &old, sizeof(old)) : 0;
}
