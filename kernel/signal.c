/*
 * Signals: sending, queueing, masks. send_signal_*: prepare (SIGCONT and stop signals cancel each other), queue, pick a thread,
 * wake it. What is done with a signal on the way to user mode is in kernel/signal_deliver.c, the frames that handlers run on in
 * kernel/x86/signal_frame.c, the system calls in kernel/signal_calls.c.
 *
 * Everything here is guarded by process->sighand->lock (G), which interrupts take too. Rules that are easy to break:
 *
 *   sigpending	says "look": it may be set for nothing, but never clear while something is deliverable. Whoever makes
 *		something deliverable sets it (signal_wake_up) or recomputes it. Only the task itself clears it.
 *   thread choice	a process-wide signal is pending for all and announced to one thread. When that thread blocks it, or
 *		exits, it must announce it to another (retarget_shared_pending), or the signal would sleep.
 *   fatal signals	once it is certain that a signal kills the process, every thread gets SIGKILL on its own queue, so
 *		that killable sleeps end: fatal_signal_pending() is a look at that queue.
 */
#include "kernel/signal.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/process.h"
#include "kernel/signal_internal.h"
#include "kernel/smp.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define CORE_SIGNALS		(sigmask(SIGQUIT) | sigmask(SIGILL) | sigmask(SIGTRAP) | sigmask(SIGABRT) | sigmask(SIGFPE) |	\
				 sigmask(SIGSEGV) | sigmask(SIGBUS) | sigmask(SIGSYS) | sigmask(SIGXCPU) | sigmask(SIGXFSZ))
#define SYNCHRONOUS		(sigmask(SIGSEGV) | sigmask(SIGBUS) | sigmask(SIGILL) | sigmask(SIGTRAP) | sigmask(SIGFPE) | sigmask(SIGSYS))

struct sigqueue {		/* one queued signal with its siginfo; G of the queue it is on */
	struct list_head node;
	struct user	*user;	/* counted; whose RLIMIT_SIGPENDING it is */
	struct siginfo	 info;
};
static struct kmem_cache *sigqueue_cache;

void signal_init(void) { sigqueue_cache = kmem_cache_create("sigqueue", sizeof(struct sigqueue), 8); }

/* -- pending queues -- */

void sigpending_init(struct sigpending *pending)
{
	INIT_LIST_HEAD(&pending->queue);
	pending->set = 0;
}

static void sigqueue_free(struct sigqueue *q)
{
	__atomic_fetch_sub(&q->user->nr_sigqueue, 1, __ATOMIC_RELAXED);
	user_put(q->user);
	kmem_cache_free(sigqueue_cache, q);
}

/* Charged to the user @p runs for. NULL: no memory, or over the limit and @override is not set. G of @p held. */
static struct sigqueue *sigqueue_alloc(struct process *p, bool override)
{
	struct user *user = p->user;
	u32 used = __atomic_add_fetch(&user->nr_sigqueue, 1, __ATOMIC_RELAXED);
	struct sigqueue *q = NULL;

	if (override || used <= p->rlim[RLIMIT_SIGPENDING].cur)
		q = kmem_cache_alloc(sigqueue_cache, GFP_ATOMIC | GFP_NOWARN);
	if (!q) {
		__atomic_fetch_sub(&user->nr_sigqueue, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	user_get(user);
	q->user = user;
	return q;
}

/* Drops every queued signal of @mask. */
static void flush_mask(struct sigpending *pending, sigset_t mask)
{
	struct sigqueue *q, *tmp;

	if (!(pending->set & mask))
		return;
	pending->set &= ~mask;
	list_for_each_entry_safe(q, tmp, &pending->queue, node) {
		if (!sig_in(q->info.si_signo, mask))
			continue;
		list_del(&q->node);
		sigqueue_free(q);
	}
}

void flush_sigpending(struct sigpending *pending) { flush_mask(pending, ~0ul); }

void flush_mask_everywhere(struct process *p, sigset_t mask)
{
	struct task *t;

	flush_mask(&p->pending, mask);
	list_for_each_entry(t, &p->threads, thread_node)
		flush_mask(&t->pending, mask);
}

/* Takes the first @sig out of the queue. Stays in the set if there is another one. */
static void collect_signal(int sig, struct sigpending *pending, struct siginfo *info)
{
	struct sigqueue *q, *first = NULL;
	bool more = false;

	list_for_each_entry(q, &pending->queue, node) {
		if (q->info.si_signo != sig)
			continue;
		if (first) {
			more = true;
			break;
		}
		first = q;
	}
	if (!more)
		pending->set &= ~sigmask(sig);
	if (first) {
		list_del(&first->node);
		*info = first->info;
		sigqueue_free(first);
	} else {
		/* It was sent when there was no memory for details. */
		*info = (struct siginfo){ .si_signo = sig, .si_code = SI_USER };
	}
}

/* Faults before anything else: their handler must see the registers of the fault. Then by number. */
static int next_signal(const struct sigpending *pending, sigset_t mask)
{
	sigset_t set = pending->set & mask;

	if (!set)
		return 0;
	if (set & SYNCHRONOUS)
		set &= SYNCHRONOUS;
	return __builtin_ctzll(set) + 1;
}

int dequeue_signal_locked(struct task *t, sigset_t mask, struct siginfo *info)
{
	struct sigpending *from = &t->pending;
	int sig = next_signal(from, mask);

	assert_spin_held(&t->process->sighand->lock);
	if (!sig) {
		from = &t->process->pending;
		sig = next_signal(from, mask);
	}
	if (!sig)
		return 0;
	collect_signal(sig, from, info);
	if (sig_in(sig, STOP_SIGNALS))
		t->jobctl |= JOBCTL_STOP_DEQUEUED;
	recalc_sigpending_locked(t);
	return sig;
}

/* -- sigpending -- */

static bool has_work(const struct task *t)
{
	return (t->pending.set | t->process->pending.set) & ~t->blocked || t->jobctl & JOBCTL_STOP_PENDING;
}

/* Only the task itself may find that there is nothing: another's look could be stale before it is stored. */
void recalc_sigpending_locked(struct task *t)
{
	if (has_work(t))
		t->sigpending = true;
	else if (t == current)
		t->sigpending = false;
}

void recalc_sigpending(void)
{
	unsigned long flags;
	struct sighand *sh = lock_sighand(current->process, &flags);

	recalc_sigpending_locked(current);
	unlock_sighand(sh, flags);
}

bool signal_pending(void) { return READ_ONCE(current->sigpending); }
bool fatal_signal_pending(void) { return signal_pending() && READ_ONCE(current->pending.set) & sigmask(SIGKILL); }
bool task_is_dying(const struct task *t) { return READ_ONCE(t->pending.set) & sigmask(SIGKILL) || READ_ONCE(t->flags) & PF_EXITING; }

/* The order matters: the flag first, then the wake-up; a sleeper sets its state first, then tests the flag. */
void signal_wake_up(struct task *t, bool fatal)
{
	t->sigpending = true;
	/* wake_up_state() is a full barrier and finds the task either asleep or about to test the flag. */
	if (!wake_up_state(t, fatal ? TASK_INTERRUPTIBLE | TASK_WAKEKILL | TASK_STOPPED : TASK_INTERRUPTIBLE) && t != current) {
		/* It may be running in user mode: make it enter the kernel. */
		if (READ_ONCE(t->on_cpu) && READ_ONCE(t->cpu) != smp_processor_id())
			smp_send_reschedule(READ_ONCE(t->cpu));
	}
}

/* -- sending -- */

bool action_ignores(const struct process *p, int sig)
{
	uintptr_t handler = p->sighand->action[sig - 1].handler;

	return handler == SIG_IGN || (handler == SIG_DFL && sig_in(sig, DEFAULT_IGNORED));
}

/* @t stands for the process: what it blocks may be looked at later, with another action. */
static bool signal_is_ignored(const struct task *t, int sig, bool forced)
{
	const struct process *p = t->process;

	if (sig_in(sig, t->blocked | t->real_blocked))
		return false;
	if (p->unkillable && !forced && p->sighand->action[sig - 1].handler == SIG_DFL)
		return true;
	return action_ignores(p, sig);
}

/* A stop signal cancels pending SIGCONTs, and SIGCONT cancels stop signals and wakes, whether it will be delivered or not. */
static bool prepare_signal(struct task *t, int sig, bool forced)
{
	struct process *p = t->process;

	if (p->group_exit)
		return false;
	if (sig_in(sig, STOP_SIGNALS)) {
		flush_mask_everywhere(p, sigmask(SIGCONT));
	} else if (sig == SIGCONT) {
		struct task *each;

		flush_mask_everywhere(p, STOP_SIGNALS);
		list_for_each_entry(each, &p->threads, thread_node) {
			each->jobctl &= ~(JOBCTL_STOP_PENDING | JOBCTL_STOP_CONSUME | JOBCTL_STOP_DEQUEUED);
			wake_up_state(each, TASK_STOPPED);
		}
		/* The first thread to come through get_signal() tells the parent; we may hold too many locks here. */
		u32 why = 0;

		if (p->stop_flags & SIGNAL_STOPPED)
			why = SIGNAL_CLD_CONTINUED | SIGNAL_CONTINUED;
		else if (p->group_stop_count)
			why = SIGNAL_CLD_STOPPED | SIGNAL_CONTINUED;
		if (why) {
			p->stop_flags = why;
			p->group_stop_count = 0;
		}
	}
	return !signal_is_ignored(t, sig, forced);
}

static bool wants_signal(const struct task *t, int sig)
{
	if (sig_in(sig, t->blocked) || t->exiting)
		return false;
	if (sig == SIGKILL)
		return true;
	return !(READ_ONCE(t->state) & TASK_STOPPED) && !t->sigpending;
}

static bool signal_is_fatal(const struct process *p, int sig)
{
	return p->sighand->action[sig - 1].handler == SIG_DFL && !sig_in(sig, DEFAULT_IGNORED | STOP_SIGNALS);
}

/* The signal is queued; wakes a thread that takes it. @t first; @any: else any other of the process. */
static void complete_signal(struct task *t, int sig, bool any)
{
	struct process *p = t->process;
	struct task *taker = NULL, *each;

	if (wants_signal(t, sig)) {
		taker = t;
	} else if (any) {
		list_for_each_entry(each, &p->threads, thread_node) {
			if (wants_signal(each, sig)) {
				taker = each;
				break;
			}
		}
	}
	if (!taker)
		return;		/* they are all busy or block it: found when they look again */

	/*
	 * Certain death: tell all threads now, so that none keeps working, or keeps the others waiting. Signals that may
	 * have another end (pid 1, which ignores them; sigtimedwait, which may take it) are looked at in get_signal().
	 */
	if (signal_is_fatal(p, sig) && !p->unkillable && !p->group_exit && !sig_in(sig, taker->real_blocked) &&
	    !sig_in(sig, CORE_SIGNALS)) {
		p->group_exit = 1;
		p->group_exit_code = sig;
		p->group_stop_count = 0;
		list_for_each_entry(each, &p->threads, thread_node) {
			each->jobctl = 0;
			each->pending.set |= sigmask(SIGKILL);
			signal_wake_up(each, true);
		}
		return;
	}
	signal_wake_up(taker, sig == SIGKILL);
}

/* G held. 0, or -EAGAIN when a queued (real-time) signal finds no room. info NULL: from the kernel. */
static int send_signal_locked(struct task *t, int sig, const struct siginfo *info, bool to_process, bool forced)
{
	struct process *p = t->process;
	struct sigpending *pending = to_process ? &p->pending : &t->pending;

	assert_spin_held(&p->sighand->lock);
	if (!prepare_signal(t, sig, forced || (!info && sig_in(sig, UNBLOCKABLE))))
		return 0;
	if (sig < SIGRTMIN && sig_in(sig, pending->set))
		return 0;	/* one instance of each of the old signals is enough */

	if (sig != SIGKILL) {
		struct sigqueue *q = sigqueue_alloc(p, sig < SIGRTMIN && (!info || info->si_code >= 0));

		if (q) {
			q->info = info ? *info : (struct siginfo){ .si_code = SI_KERNEL };
			q->info.si_signo = sig;
			list_add_tail(&q->node, &pending->queue);
		} else if (info && sig >= SIGRTMIN && info->si_code != SI_USER) {
			return -EAGAIN;
		}
	}
	pending->set |= sigmask(sig);
	if (wait_queue_active(&p->sighand->signalfd_wait))
		__wake_up(&p->sighand->signalfd_wait, TASK_NORMAL, 0, POLLIN | POLLRDNORM);
	complete_signal(t, sig, to_process);
	return 0;
}

/* The thread that stands for the process: its leader, or another one when the leader has exited. NULL: all are gone. */
static struct task *process_any_thread(struct process *p)
{
	if (p->leader && !p->leader->exiting)
		return p->leader;
	return list_first_entry_or_null(&p->threads, struct task, thread_node);
}

int send_signal_process_locked(struct process *p, int sig, const struct siginfo *info)
{
	struct task *t = process_any_thread(p);

	return t ? send_signal_locked(t, sig, info, true, false) : 0;
}

int send_signal_task_locked(struct task *t, int sig, const struct siginfo *info)
{
	return t->exiting ? 0 : send_signal_locked(t, sig, info, false, false);
}

int send_signal_task(struct task *t, int sig, const struct siginfo *info)
{
	unsigned long flags;

	if (task_is_kthread(t))
		return -EPERM;
	struct sighand *sh = lock_sighand(t->process, &flags);
	int ret = send_signal_task_locked(t, sig, info);

	unlock_sighand(sh, flags);
	return ret;
}

int send_signal_process(struct process *p, int sig, const struct siginfo *info)
{
	unsigned long flags;

	if (p == &kernel_process)
		return -EPERM;
	struct sighand *sh = lock_sighand(p, &flags);
	int ret = send_signal_process_locked(p, sig, info);

	unlock_sighand(sh, flags);
	return ret;
}

/* A signal for many: fork() looks at the count, lest a child that is just being made escapes. */
int send_signal_member(struct process *p, int sig, const struct siginfo *info)
{
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);
	int ret = send_signal_process_locked(p, sig, info);

	p->group_signal_seq++;
	unlock_sighand(sh, flags);
	return ret;
}

int send_signal_pgrp(int pgid, int sig, const struct siginfo *info)
{
	struct process *p;
	bool found = false;
	unsigned long flags = spin_lock_irqsave(&process_tree_lock);
	struct pid *pgrp = pid_find(pgid);

	if (pgrp) {
		list_for_each_entry(p, &pgrp->members, pg_node) {
			found = true;
			send_signal_member(p, sig, info);
		}
	}
	spin_unlock_irqrestore(&process_tree_lock, flags);
	return found ? 0 : -ESRCH;
}

/* Cannot be blocked or ignored: the faulting instruction would only fault again. */
void force_sig_info(int sig, const struct siginfo *info, bool to_default)
{
	unsigned long flags;
	struct process *p = current->process;
	struct sighand *sh = lock_sighand(p, &flags);
	struct sigaction *sa = &sh->action[sig - 1];
	bool blocked = sig_in(sig, current->blocked);

	if (to_default || blocked || sa->handler == SIG_IGN) {
		sa->handler = SIG_DFL;
		current->blocked &= ~sigmask(sig);
	}
	if (sa->handler == SIG_DFL)
		p->unkillable = false;
	send_signal_locked(current, sig, info, false, true);
	recalc_sigpending_locked(current);
	unlock_sighand(sh, flags);
}

void force_sig_fault(int sig, int code, uintptr_t addr, int addr_lsb)
{
	struct siginfo info = { .si_signo = sig, .si_code = code };

	info.fault.addr = addr;
	info.fault.addr_lsb = (s16)addr_lsb;
	force_sig_info(sig, &info, false);
}

void force_sig(int sig) { force_sig_info(sig, NULL, false); }
void force_fatal_sig(int sig) { force_sig_info(sig, NULL, true); }

/* -- telling the parent -- */

static s64 clock_ticks(u64 ns) { return (s64)(ns / (NSEC_PER_SEC / 100)); }

static void fill_sigchld(struct siginfo *info, const struct process *child, int sig, int code, int status, const struct rusage_sum *used)
{
	*info = (struct siginfo){ .si_signo = sig, .si_code = code };
	info->chld.pid = child->tgid;
	info->chld.uid = child->creds.uid;
	info->chld.status = status;
	info->chld.utime = clock_ticks(used->utime_ns);
	info->chld.stime = clock_ticks(used->stime_ns);
}

bool notify_parent_locked(struct process *child, int sig)
{
	assert_spin_held(&process_tree_lock);
	struct process *parent = child->parent;
	unsigned long flags;
	struct sighand *sh = lock_sighand(parent, &flags);
	struct sigaction *sa = &sh->action[SIGCHLD - 1];
	bool autoreap = false;

	if (sig == SIGCHLD && (sa->handler == SIG_IGN || sa->flags & SA_NOCLDWAIT)) {
		autoreap = true;
		if (sa->handler == SIG_IGN)
			sig = 0;
	}
	/* The usual parent sleeps in wait4 and has no handler: then there is nothing to fill in. */
	struct task *t = process_any_thread(parent);

	if (sig && t && !signal_is_ignored(t, sig, false)) {
		struct siginfo info;
		int code = child->exit_code;
		bool killed = code & 0x7f;

		fill_sigchld(&info, child, sig, killed ? code & 0x80 ? CLD_DUMPED : CLD_KILLED : CLD_EXITED,
			     killed ? code & 0x7f : code >> 8, &child->dead_threads);	/* all of them are: no lock needed */
		send_signal_process_locked(parent, sig, &info);
	}
	unlock_sighand(sh, flags);
	if (wait_queue_active(&parent->child_wait))
		__wake_up(&parent->child_wait, TASK_INTERRUPTIBLE, 0, 0);
	return autoreap;
}

void notify_parent_stopped_locked(struct task *t, int why)
{
	assert_spin_held(&process_tree_lock);
	struct process *child = t->process, *parent = child->parent;
	unsigned long flags;
	struct siginfo info;
	struct rusage_sum used;

	if (!parent || parent == &kernel_process)
		return;
	task_rusage(child, &used);
	fill_sigchld(&info, child, SIGCHLD, why, why == CLD_CONTINUED ? SIGCONT : (int)child->group_stop_code, &used);
	struct sighand *sh = lock_sighand(parent, &flags);
	struct sigaction *sa = &sh->action[SIGCHLD - 1];

	if (sa->handler != SIG_IGN && !(sa->flags & SA_NOCLDSTOP))
		send_signal_process_locked(parent, SIGCHLD, &info);
	unlock_sighand(sh, flags);
	if (wait_queue_active(&parent->child_wait))
		__wake_up(&parent->child_wait, TASK_INTERRUPTIBLE, 0, 0);
}

void notify_parent_stopped(int why)
{
	unsigned long flags = spin_lock_irqsave(&process_tree_lock);

	notify_parent_stopped_locked(current, why);
	spin_unlock_irqrestore(&process_tree_lock, flags);
}

/* -- masks -- */

/* Signals of the process that current will not take (any more): announce them to somebody who does. G held. */
void retarget_shared_pending(sigset_t which)
{
	struct process *p = current->process;
	struct task *t;

	which &= p->pending.set;
	if (!which)
		return;
	list_for_each_entry(t, &p->threads, thread_node) {
		if (t == current || t->exiting || !(which & ~t->blocked))
			continue;
		which &= t->blocked;
		if (!t->sigpending)
			signal_wake_up(t, false);
		if (!which)
			break;
	}
}

void set_blocked_locked(sigset_t set)
{
	struct task *t = current;

	if (t->sigpending && t->process->nr_threads > 1)
		retarget_shared_pending(set & ~t->blocked);
	t->blocked = set;
	recalc_sigpending_locked(t);
}

void set_current_blocked(sigset_t set)
{
	unsigned long flags;

	set &= ~UNBLOCKABLE;
	if (set == current->blocked)
		return;		/* only current changes it */
	struct sighand *sh = lock_sighand(current->process, &flags);

	set_blocked_locked(set);
	unlock_sighand(sh, flags);
}

int set_user_sigmask(const sigset_t __user *umask, size_t sigsetsize)
{
	sigset_t set;

	if (!umask)
		return 0;
	if (sigsetsize != sizeof(sigset_t))
		return -EINVAL;
	if (copy_in(&set, umask, sizeof(set)))
		return -EFAULT;
	current->saved_sigmask = current->blocked;
	current->restore_sigmask = true;
	set_current_blocked(set);
	return 0;
}

/* @interrupted: leave the temporary mask in place, delivery has to happen under it; do_signal() puts the old one back. */
void restore_saved_sigmask_unless(bool interrupted)
{
	if (interrupted || !current->restore_sigmask)
		return;
	current->restore_sigmask = false;
	set_current_blocked(current->saved_sigmask);
}
