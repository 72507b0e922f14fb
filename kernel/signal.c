/*
 * Signals: sending, queueing, job control, and choosing what to deliver. Frames are pushed by kernel/x86/signal_frame.c.
 *
 *	send_signal_*		prepare (SIGCONT and stop signals cancel each other), queue, pick a thread, wake it
 *	do_signal		on the way to user mode: get_signal() chooses; then a frame, a stop, or the end
 *	do_signal_stop		all threads of a process stop; the last one tells the parent
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
#include "kernel/smp.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/x86/trap_frame.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define UNBLOCKABLE		(sigmask(SIGKILL) | sigmask(SIGSTOP))
#define STOP_SIGNALS		(sigmask(SIGSTOP) | sigmask(SIGTSTP) | sigmask(SIGTTIN) | sigmask(SIGTTOU))
#define DEFAULT_IGNORED		(sigmask(SIGCONT) | sigmask(SIGCHLD) | sigmask(SIGWINCH) | sigmask(SIGURG))
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

static bool sig_in(int sig, sigset_t set) { return sigmask(sig) & set; }
static bool signal_valid(int sig) { return sig >= 1 && sig <= NSIG; }

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

static void flush_mask_everywhere(struct process *p, sigset_t mask)
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
static void signal_wake_up(struct task *t, bool fatal)
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

static bool action_ignores(const struct process *p, int sig)
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
static int send_signal_member(struct process *p, int sig, const struct siginfo *info)
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
static void force_sig_info(int sig, const struct siginfo *info, bool to_default)
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

static void notify_parent_stopped(int why)
{
	unsigned long flags = spin_lock_irqsave(&process_tree_lock);

	notify_parent_stopped_locked(current, why);
	spin_unlock_irqrestore(&process_tree_lock, flags);
}

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

/* -- masks -- */

/* Signals of the process that current will not take (any more): announce them to somebody who does. G held. */
static void retarget_shared_pending(sigset_t which)
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

static void set_blocked_locked(sigset_t set)
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
