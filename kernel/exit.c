/*
 * The end of a thread and of a process, and waiting for it.
 *
 *	do_exit		one thread: gives its resources back, leaves the process, and as the last one makes it a zombie
 *	do_group_exit	the whole process: kills the other threads, then do_exit
 *	wait4, waitid	the parent takes the zombie away
 *
 * A process is a zombie when its last thread has gone, whichever that is. Its status is that of the group exit, if there
 * was one, else that of its last thread. Orphans go to the nearest ancestor that asked for them, or to pid 1.
 *
 * Zombies stand in a list of their own (process->zombies), so that a parent with thousands of children finds the dead
 * ones without looking at the living.
 */
#include "kernel/process.h"

#include "fs/tty.h"
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/futex.h"
#include "kernel/itimer.h"
#include "kernel/pidfd.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/mm.h"
#include "mm/uaccess.h"

/* -- giving things back -- */

void mm_release(void)
{
	struct task *t = current;

	if (t->robust_list)
		exit_robust_list(t);
	t->robust_list = NULL;
	if (t->clear_child_tid) {
		/* pthread_join waits for this word. If nobody shares our memory, nobody can. */
		if (t->mm && refcount_read(&t->mm->users) > 1 && !put_user(0, t->clear_child_tid))
			futex_wake_user((u32 __user *)t->clear_child_tid, 1);
		t->clear_child_tid = NULL;
	}
	vfork_complete(t);
}

/* The pointers are cleared under G, so that /proc finds either a live object or none. */
static void exit_files_and_fs(void)
{
	struct task *t = current;
	unsigned long flags;
	struct sighand *sh = lock_sighand(t->process, &flags);
	struct files *files = t->files;
	struct fs_context *fs = t->fs;

	t->files = NULL;
	t->fs = NULL;
	unlock_sighand(sh, flags);
	if (files)
		files_put(files);
	if (fs)
		fs_context_put(fs);
}

struct files *task_files_get(struct task *t)
{
	unsigned long flags;

	if (task_is_kthread(t))
		return NULL;
	struct sighand *sh = lock_sighand(t->process, &flags);
	struct files *files = t->files;

	if (files)
		files_get(files);
	unlock_sighand(sh, flags);
	return files;
}

struct fs_context *task_fs_get(struct task *t)
{
	unsigned long flags;

	if (task_is_kthread(t))
		return NULL;
	struct sighand *sh = lock_sighand(t->process, &flags);
	struct fs_context *fs = t->fs;

	if (fs)
		fs_context_get(fs);
	unlock_sighand(sh, flags);
	return fs;
}

/* What belongs to the process and may sleep to give up. The last live thread does it, before the process is a zombie. */
static void exit_process_resources(struct process *p)
{
	unsigned long flags;

	itimers_exit(p);
	if (p->sid == p->tgid)
		tty_disassociate(true);

	struct sighand *sh = lock_sighand(p, &flags);
	struct tty *tty = p->tty;

	p->tty = NULL;
	unlock_sighand(sh, flags);
	if (tty)
		tty_put(tty);

	mutex_lock(&p->exec_lock);		/* /proc/PID/exe looks at it */
	struct file *exe = p->exe;

	p->exe = NULL;
	mutex_unlock(&p->exec_lock);
	if (exe)
		file_put(exe);
}

/* -- orphans -- */

static bool group_has_stopped_locked(struct pid *pgrp)
{
	struct process *p;

	list_for_each_entry(p, &pgrp->members, pg_node) {
		if (READ_ONCE(p->stop_flags) & SIGNAL_STOPPED)
			return true;
	}
	return false;
}

/*
 * @p's link to @parent goes: @p exits (@exiting), or its parent does. If it was the one that kept @p's group from being
 * orphaned, stopped members would never be continued: POSIX wants SIGHUP and SIGCONT for them.
 */
static void kill_orphaned_pgrp_locked(struct process *p, const struct process *parent, bool exiting)
{
	struct pid *pgrp = pid_find(p->pgid);
	struct process *member;

	if (!parent || parent->pgid == p->pgid || parent->sid != p->sid)
		return;
	if (!pgrp_will_be_orphaned_locked(pgrp, exiting ? p : NULL) || !group_has_stopped_locked(pgrp))
		return;
	list_for_each_entry(member, &pgrp->members, pg_node) {
		send_signal_process(member, SIGHUP, NULL);
		send_signal_process(member, SIGCONT, NULL);
	}
}

static struct process *find_reaper_locked(const struct process *p)
{
	for (struct process *r = p->parent; r && r != &kernel_process; r = r->parent) {
		if (r->child_subreaper && r->nr_live)
			return r;
	}
	return init_task_ptr->process;
}

static void send_pdeath_signals_locked(struct process *child)
{
	struct task *t;

	list_for_each_entry(t, &child->threads, thread_node) {
		int sig = READ_ONCE(t->pdeath_signal);

		if (sig)
			send_signal_task(t, sig, NULL);
	}
}

/* T held. All children of @p, living and dead, get a new parent. Linear, however many there are. */
static void reparent_children_locked(struct process *p)
{
	struct process *child, *tmp;
	int checked_pgid = 0;

	if (list_empty(&p->children) && list_empty(&p->zombies))
		return;
	struct process *reaper = find_reaper_locked(p);

	list_for_each_entry(child, &p->children, sibling) {
		WRITE_ONCE(child->parent, reaper);
		child->leader->exit_signal = SIGCHLD;
		send_pdeath_signals_locked(child);
	}
	/* Groups are looked at when all links are cut, and each once: children of a shell's job stand together. */
	list_for_each_entry(child, &p->children, sibling) {
		if (child->pgid == checked_pgid)
			continue;
		checked_pgid = child->pgid;
		kill_orphaned_pgrp_locked(child, p, false);
	}
	list_splice_tail_init(&p->children, &reaper->children);

	list_for_each_entry_safe(child, tmp, &p->zombies, sibling) {
		WRITE_ONCE(child->parent, reaper);
		child->leader->exit_signal = SIGCHLD;
		list_move_tail(&child->sibling, &reaper->zombies);
		if (notify_parent_locked(child, SIGCHLD))
			process_reap_locked(child);
	}
}

/* -- the end of a task -- */

void uncharge_thread(struct process *p)
{
	__atomic_fetch_sub(&p->user->nr_threads, 1, __ATOMIC_RELAXED);
	task_count_dec();
}

void process_reap_locked(struct process *p)
{
	assert_spin_held(&process_tree_lock);
	assert(p->zombie);
	struct pid *pid = pid_find(p->tgid);
	struct task *leader = p->leader;

	list_del_init(&p->sibling);
	__list_unlink(&p->all_node);		/* RCU readers may stand on it: its own pointers stay */
	rcu_assign_pointer(pid->process, NULL);
	rcu_assign_pointer(pid->task, NULL);
	process_leave_groups_locked(p);
	pid_unuse_locked(pid);			/* as tgid */
	pid_unuse_locked(pid);			/* as the leader's tid */
	uncharge_thread(p);
	WRITE_ONCE(p->leader, NULL);
	task_put(leader);
	process_put(p);
}

/* T and G held. current leaves its process, and what it has used stays in the process's sums. */
static void leave_process_locked(struct task *t)
{
	struct process *p = t->process;

	flush_sigpending(&t->pending);
	thread_rusage(t, &p->dead_threads);
	list_del_init(&t->thread_node);
	p->nr_threads--;
	if (p->group_exec_task && p->nr_threads == 1)
		wake_up_state(p->group_exec_task, TASK_KILLABLE);
	if (t == p->leader)
		return;				/* its number is the process's: it goes with the process */

	struct pid *pid = pid_find(t->tid);

	rcu_assign_pointer(pid->task, NULL);
	pid_unuse_locked(pid);
	uncharge_thread(p);
}

static void become_zombie_locked(struct process *p)
{
	p->exit_code = p->group_exit_code;
	p->stop_flags = 0;
	list_move_tail(&p->sibling, &p->parent->zombies);
	WRITE_ONCE(p->zombie, true);
	if (wait_queue_active(&p->exit_wait))
		__wake_up(&p->exit_wait, TASK_NORMAL, 0, POLLIN | POLLRDNORM);
	if (notify_parent_locked(p, p->leader->exit_signal))
		process_reap_locked(p);
}

static void exit_notify(void)
{
	struct task *t = current;
	struct process *p = t->process;
	unsigned long irq = spin_lock_irqsave(&process_tree_lock), irq2;
	struct sighand *sh = lock_sighand(p, &irq2);

	leave_process_locked(t);
	bool last = p->nr_threads == 0;

	unlock_sighand(sh, irq2);
	if (last) {
		reparent_children_locked(p);
		kill_orphaned_pgrp_locked(p, p->parent, true);
		become_zombie_locked(p);
	}
	spin_unlock_irqrestore(&process_tree_lock, irq);
}

/* Peak memory use of the process, looked at while there is still something to see. */
static void note_maxrss(struct process *p, struct mm *mm)
{
	unsigned long flags;
	u64 pages = mm_hiwater_rss(mm);
	struct sighand *sh = lock_sighand(p, &flags);

	p->dead_threads.maxrss_pages = max(p->dead_threads.maxrss_pages, pages);
	unlock_sighand(sh, flags);
}

void do_exit(int code)
{
	struct task *t = current;
	struct process *p = t->process;

	if (task_is_kthread(t))
		kthread_exit(code);
	might_sleep();
	if (t->flags & PF_EXITING)
		panic("task %d (%s) faults while it exits", t->tid, t->comm);

	bool group_dead = exit_signals(code);

	t->exit_code = code;
	if (group_dead && p->tgid == 1) {
		int status = p->group_exit_code;

		if (status & 0x7f)
			halt_with_message("init was killed by signal %d. There is nobody left to take care of the system.", status & 0x7f);
		halt_with_message("init has exited with status %d. There is nobody left to take care of the system.", status >> 8);
	}
	mm_release();
	if (t->mm) {
		if (group_dead)
			note_maxrss(p, t->mm);
		exit_mm();
	}
	exit_files_and_fs();
	if (group_dead)
		exit_process_resources(p);
	exit_notify();

	/* Nobody needs us any more; the scheduler frees the stack when it has left it (task_dead_switched_out). */
	set_current_state(TASK_DEAD);
	schedule();
	panic("a dead task runs");
}

void do_group_exit(int code)
{
	struct process *p = current->process;
	unsigned long flags;

	if (task_is_kthread(current))
		kthread_exit(code);
	struct sighand *sh = lock_sighand(p, &flags);

	if (p->group_exit) {
		code = p->group_exit_code;	/* somebody was faster */
	} else if (p->group_exec_task && p->group_exec_task != current) {
		code = 0;			/* only this thread goes: another one is in execve */
	} else {
		p->group_exit = 1;
		p->group_exit_code = code;
		zap_other_threads_locked();
	}
	unlock_sighand(sh, flags);
	do_exit(code);
}

SYSCALL_DEFINE(exit, int status)
{
	do_exit((status & 0xff) << 8);
}

SYSCALL_DEFINE(exit_group, int status)
{
	do_group_exit((status & 0xff) << 8);
}

/* -- waiting -- */

#define WNOHANG		1
#define WUNTRACED	2
#define WSTOPPED	WUNTRACED
#define WEXITED		4
#define WCONTINUED	8
#define WNOWAIT		0x01000000
#define __WNOTHREAD	0x20000000	/* children belong to the process here, so it changes nothing */
#define __WALL		0x40000000
#define __WCLONE	0x80000000u

enum wait_type { P_ALL, P_PID, P_PGID, P_PIDFD };

struct wait_opts {
	enum wait_type	type;
	int		pid;		/* P_PID, P_PGID */
	u32		options;
	/* what was found: */
	int		status;		/* as wait4 gives it */
	int		code;		/* CLD_* */
	u32		uid;
	struct rusage_sum used;
	bool		want_rusage;
};

static bool child_is_eligible(const struct wait_opts *wo, const struct process *child)
{
	if (wo->type == P_PID && child->tgid != wo->pid)
		return false;
	if (wo->type == P_PGID && child->pgid != wo->pid)
		return false;
	/* "Clone" children, those that do not send SIGCHLD, are waited for only on demand. */
	return wo->options & __WALL || (child->leader->exit_signal != SIGCHLD) == !!(wo->options & __WCLONE);
}

/* T held. The zombie's status; it is taken away unless WNOWAIT. */
static int wait_zombie_locked(struct wait_opts *wo, struct process *child)
{
	struct process *me = current->process;
	int pid = child->tgid;

	wo->status = child->exit_code;
	wo->code = !(wo->status & 0x7f) ? CLD_EXITED : wo->status & 0x80 ? CLD_DUMPED : CLD_KILLED;
	wo->uid = child->creds.uid;
	wo->used = child->dead_threads;
	rusage_add(&wo->used, &child->dead_children);
	if (!(wo->options & WNOWAIT)) {
		unsigned long flags;
		struct sighand *sh = lock_sighand(me, &flags);

		rusage_add(&me->dead_children, &wo->used);
		unlock_sighand(sh, flags);
		process_reap_locked(child);
	}
	return pid;
}

/* T held. A child that has stopped or continued and was not reported yet; else 0. */
static int wait_job_control_locked(struct wait_opts *wo, struct process *child)
{
	unsigned long flags;
	int found = 0;

	if (!(READ_ONCE(child->stop_flags) & (SIGNAL_STOPPED | SIGNAL_CONTINUED)))
		return 0;
	struct sighand *sh = lock_sighand(child, &flags);
	u32 *state = &child->stop_flags;

	if (wo->options & WSTOPPED && (*state & (SIGNAL_STOPPED | SIGNAL_STOP_REPORTED)) == SIGNAL_STOPPED) {
		found = child->tgid;
		wo->code = CLD_STOPPED;
		wo->status = (int)child->group_stop_code << 8 | 0x7f;
		if (!(wo->options & WNOWAIT))
			*state |= SIGNAL_STOP_REPORTED;
	} else if (wo->options & WCONTINUED && *state & SIGNAL_CONTINUED) {
		found = child->tgid;
		wo->code = CLD_CONTINUED;
		wo->status = 0xffff;
		if (!(wo->options & WNOWAIT))
			*state &= ~SIGNAL_CONTINUED;
	}
	wo->uid = child->creds.uid;
	unlock_sighand(sh, flags);
	if (found && wo->want_rusage)
		task_rusage(child, &wo->used);
	return found;
}

/* T held. pid of a child with news; 0: there are children but no news; -ECHILD: none that could have any. */
static int wait_scan_locked(struct wait_opts *wo)
{
	struct process *me = current->process, *child;
	bool any = false;

	if (wo->type == P_PID) {
		struct pid *pid = pid_find(wo->pid);

		child = pid ? pid->process : NULL;
		if (!child || child->parent != me || !child_is_eligible(wo, child))
			return -ECHILD;
		if (child->zombie)
			return wo->options & WEXITED ? wait_zombie_locked(wo, child) : -ECHILD;
		return wait_job_control_locked(wo, child);
	}
	if (wo->options & WEXITED) {
		list_for_each_entry(child, &me->zombies, sibling) {
			if (child_is_eligible(wo, child))
				return wait_zombie_locked(wo, child);
		}
	}
	list_for_each_entry(child, &me->children, sibling) {
		if (!child_is_eligible(wo, child))
			continue;
		any = true;
		if (!(wo->options & (WSTOPPED | WCONTINUED)))
			break;			/* it lives, and nothing else is asked */
		int found = wait_job_control_locked(wo, child);

		if (found)
			return found;
	}
	return any ? 0 : -ECHILD;
}

static int wait_scan(struct wait_opts *wo)
{
	unsigned long irq = spin_lock_irqsave(&process_tree_lock);
	int ret = wait_scan_locked(wo);

	spin_unlock_irqrestore(&process_tree_lock, irq);
	return ret;
}

/* As wait_scan(), but sleeps until there is something to say. -ERESTARTSYS: interrupted. */
static int do_wait(struct wait_opts *wo)
{
	struct wait_queue *wq = &current->process->child_wait;
	struct wait_entry entry;
	int ret = wait_scan(wo);

	if (ret || wo->options & WNOHANG)
		return ret;
	wait_entry_init(&entry);
	for (;;) {
		int interrupted = prepare_to_wait(wq, &entry, TASK_INTERRUPTIBLE);

		ret = wait_scan(wo);
		if (ret)
			break;
		if (interrupted) {
			ret = interrupted;
			break;
		}
		schedule();
	}
	finish_wait(wq, &entry);
	return ret;
}

SYSCALL_DEFINE(wait4, int upid, int __user *ustatus, int options, struct rusage_user __user *urusage)
{
	struct wait_opts wo = { .options = (u32)options | WEXITED, .want_rusage = urusage };
	struct rusage_user ru;

	if ((u32)options & ~(WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD | __WCLONE | __WALL))
		return -EINVAL;
	if (upid == INT32_MIN)
		return -ESRCH;
	if (upid == -1) {
		wo.type = P_ALL;
	} else if (upid > 0) {
		wo.type = P_PID;
		wo.pid = upid;
	} else {
		wo.type = P_PGID;
		wo.pid = upid ? -upid : current->process->pgid;
	}
	int ret = do_wait(&wo);

	if (ret <= 0)
		return ret;
	if (ustatus && put_user(wo.status, ustatus))
		return -EFAULT;
	if (urusage) {
		rusage_to_user(&wo.used, &ru);
		if (copy_out(urusage, &ru, sizeof(ru)))
			return -EFAULT;
	}
	return ret;
}

static int waitid_status(const struct wait_opts *wo)
{
	switch (wo->code) {
	case CLD_EXITED:
	case CLD_STOPPED:
		return wo->status >> 8;
	case CLD_CONTINUED:
		return SIGCONT;
	default:
		return wo->status & 0x7f;
	}
}

SYSCALL_DEFINE(waitid, int which, int upid, struct siginfo __user *uinfo, int options, struct rusage_user __user *urusage)
{
	struct wait_opts wo = { .options = (u32)options, .type = (enum wait_type)which, .pid = upid, .want_rusage = urusage };
	struct siginfo info = { 0 };
	struct rusage_user ru;

	if ((u32)options & ~(WNOHANG | WNOWAIT | WEXITED | WSTOPPED | WCONTINUED | __WNOTHREAD | __WCLONE | __WALL))
		return -EINVAL;
	if (!(options & (WEXITED | WSTOPPED | WCONTINUED)))
		return -EINVAL;
	switch (which) {
	case P_ALL:
		break;
	case P_PID:
		if (upid <= 0)
			return -EINVAL;
		break;
	case P_PGID:
		if (upid < 0)
			return -EINVAL;
		if (!upid)
			wo.pid = current->process->pgid;
		break;
	case P_PIDFD: {
		if (upid < 0)
			return -EINVAL;
		struct process *p = pidfd_process_get(upid);

		if (IS_ERR(p))
			return PTR_ERR(p);
		wo.type = P_PID;
		wo.pid = p->tgid;
		process_put(p);
		break;
	}
	default:
		return -EINVAL;
	}
	int ret = do_wait(&wo);

	if (ret < 0)
		return ret;
	if (ret > 0) {
		info.si_signo = SIGCHLD;
		info.si_code = wo.code;
		info.chld.pid = ret;
		info.chld.uid = wo.uid;
		info.chld.status = waitid_status(&wo);
		if (urusage) {
			rusage_to_user(&wo.used, &ru);
			if (copy_out(urusage, &ru, sizeof(ru)))
				return -EFAULT;
		}
	}
	/* Only the fields that say something: the rest of the user's structure is left alone, as Linux does. */
	if (uinfo && copy_out(uinfo, &info, offsetof(struct siginfo, chld.status) + sizeof(info.chld.status)))
		return -EFAULT;
	return 0;
}
