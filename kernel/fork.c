/*
 * fork, vfork, clone and clone3: one function, copy_process(), makes a task that shares or copies each resource of
 * current as the flags say.
 *
 * It works in two halves. First everything that can fail is made, with nobody able to see it; each step has its undo in
 * the ladder at the end. Then, under process_tree_lock and the sighand lock, the child gets its number and enters the
 * lists: from there on it can be found and signalled, and nothing fails any more.
 */
#include "kernel/process.h"

#include "fs/tty.h"
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/futex.h"
#include "kernel/pidfd.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/x86/trap_frame.h"
#include "mm/mm.h"
#include "mm/uaccess.h"

/* On the stack of a parent that waits in vfork. T guards it: whoever finds it through task->vfork_done holds T. */
struct completion_vfork {
	struct task	*parent;
	bool		 done;
};

/* Combinations that make no sense; the same errors as Linux. */
static int check_clone_flags(const struct kernel_clone_args *args)
{
	u64 flags = args->flags;

	if (flags & (CLONE_NEW_ANY | CLONE_NEWTIME | CLONE_INTO_CGROUP | CLONE_PTRACE))
		return -EINVAL;			/* there are no name spaces, control groups, or tracing */
	if (flags & CLONE_THREAD && !(flags & CLONE_SIGHAND))
		return -EINVAL;			/* threads share signals */
	if (flags & CLONE_SIGHAND && !(flags & CLONE_VM))
		return -EINVAL;			/* handlers are addresses */
	if (flags & CLONE_CLEAR_SIGHAND && flags & CLONE_SIGHAND)
		return -EINVAL;
	if (flags & CLONE_PARENT && current->process->unkillable)
		return -EINVAL;			/* pid 1 has no siblings: nobody would reap them */
	if (flags & CLONE_PIDFD && flags & (CLONE_THREAD | CLONE_DETACHED))
		return -EINVAL;
	if (args->exit_signal < 0 || args->exit_signal > NSIG)
		return -EINVAL;
	return 0;
}

static bool over_nproc_limit(struct process *p)
{
	return __atomic_load_n(&p->user->nr_threads, __ATOMIC_RELAXED) >= rlimit_cur(RLIMIT_NPROC) && p->creds.uid != 0 &&
	       !capable(CAP_SYS_RESOURCE) && !capable(CAP_SYS_ADMIN);
}

/* Counts one more thread of current's user. 0 or -EAGAIN. */
static int charge_thread(struct user *user)
{
	if (over_nproc_limit(current->process))
		return -EAGAIN;
	if (!task_count_try_inc())
		return -EAGAIN;
	__atomic_fetch_add(&user->nr_threads, 1, __ATOMIC_RELAXED);
	return 0;
}

static int copy_mm(struct task *child, u64 flags)
{
	struct mm *mm = current->mm;

	if (flags & CLONE_VM) {
		mm_get(mm);
	} else {
		mm = mm_fork(mm);
		if (IS_ERR(mm))
			return (int)PTR_ERR(mm);
	}
	child->mm = child->active_mm = mm;
	return 0;
}

static int copy_files(struct task *child, u64 flags)
{
	if (flags & CLONE_FILES) {
		files_get(current->files);
		child->files = current->files;
	} else {
		child->files = files_copy(current->files);
	}
	return child->files ? 0 : -ENOMEM;
}

static int copy_fs(struct task *child, u64 flags)
{
	if (flags & CLONE_FS) {
		fs_context_get(current->fs);
		child->fs = current->fs;
	} else {
		child->fs = fs_context_copy(current->fs);
	}
	return child->fs ? 0 : -ENOMEM;
}

static struct sighand *copy_sighand(u64 flags)
{
	struct process *p = current->process;
	unsigned long irq;

	if (flags & CLONE_SIGHAND) {
		refcount_inc(&p->sighand->refs);
		return p->sighand;
	}
	struct sighand *new = sighand_alloc();

	if (!new)
		return NULL;
	struct sighand *sh = lock_sighand(p, &irq);

	memcpy(new->action, sh->action, sizeof(new->action));
	unlock_sighand(sh, irq);
	if (flags & CLONE_CLEAR_SIGHAND)
		flush_signal_handlers(new, false);
	return new;
}

/* A new process like current's: ids, limits, terminal. Not yet in the tree. NULL: no memory. */
static struct process *copy_process_struct(u64 flags)
{
	struct process *old = current->process, *p = process_alloc();
	unsigned long irq;

	if (!p)
		return NULL;
	p->sighand = copy_sighand(flags);
	if (!p->sighand) {
		process_put(p);
		return NULL;
	}
	struct sighand *sh = lock_sighand(old, &irq);

	p->creds = old->creds;
	memcpy(p->rlim, old->rlim, sizeof(p->rlim));
	p->user = old->user;
	user_get(p->user);
	p->tty = old->tty;
	if (p->tty)
		tty_get(p->tty);
	p->exe = old->exe;
	if (p->exe)
		file_get(p->exe);
	unlock_sighand(sh, irq);

	p->oom_score_adj = old->oom_score_adj;
	p->dumpable = old->dumpable;
	p->no_new_privs = old->no_new_privs;
	p->keep_caps = old->keep_caps;
	p->secure_exec = old->secure_exec;
	p->personality = old->personality;
	p->mm_flags = flags & CLONE_VM ? old->mm_flags : mm_flags_inherited(old->mm_flags);
	return p;
}

/* Undoes copy_process_struct() for a process that never lived. */
static void discard_process(struct process *p)
{
	if (p->tty)
		tty_put(p->tty);
	if (p->exe)
		file_put(p->exe);
	process_put(p);
}

/* The child's own state, which has no failure: what it inherits and what starts afresh. */
static void copy_task_fields(struct task *child, const struct kernel_clone_args *args)
{
	u64 flags = args->flags;

	memcpy(child->comm, current->comm, sizeof(child->comm));
	child->flags = PF_FORKNOEXEC;
	child->blocked = current->blocked;
	child->lock_caller = current->lock_caller;
	child->restart.fn = NULL;
	/* An alternate stack belongs to one thread; a child in its own memory has it at the same place, vfork's too. */
	if ((flags & (CLONE_VM | CLONE_VFORK)) != CLONE_VM) {
		child->sas_ss_sp = current->sas_ss_sp;
		child->sas_ss_size = current->sas_ss_size;
		child->sas_ss_flags = current->sas_ss_flags;
	}
	child->set_child_tid = flags & CLONE_CHILD_SETTID ? args->child_tid : NULL;
	child->clear_child_tid = flags & CLONE_CHILD_CLEARTID ? args->child_tid : NULL;
	child->exit_signal = flags & CLONE_THREAD ? 0 : flags & CLONE_PARENT ? current->process->leader->exit_signal : args->exit_signal;
}

/* T and G of the new process held. The first thread of a new process enters the tree. */
static void link_new_process_locked(struct task *child, struct pid *pid, u64 flags)
{
	struct process *p = child->process, *me = current->process;

	p->tgid = pid->nr;
	p->leader = child;
	task_get(child);
	p->parent = flags & CLONE_PARENT ? me->parent : me;
	list_add_tail(&p->sibling, &p->parent->children);
	list_add_tail(&p->all_node, &all_processes);
	pid_use_locked(pid);
	rcu_assign_pointer(pid->process, p);
	process_join_group_locked(p, pid_find(me->pgid));
	process_join_session_locked(p, pid_find(me->sid));
}

static void link_thread_locked(struct task *child, struct pid *pid)
{
	struct process *p = child->process;

	child->tid = pid->nr;
	pid_use_locked(pid);
	list_add_tail(&child->thread_node, &p->threads);
	p->nr_threads++;
	p->nr_live++;
	rcu_assign_pointer(pid->task, child);
}

/*
 * The point of no return of a fork. 0; -EAGAIN: no number left; -ERESTARTNOINTR: a signal to a whole group came while
 * we were copying, and the child would miss it; -EINTR: we are being killed.
 */
static int publish_child(struct task *child, struct pid *pid, u64 flags, u32 signal_seq, struct user *charged)
{
	struct process *me = current->process;
	unsigned long irq, irq2;
	int ret = 0;

	irq = spin_lock_irqsave(&process_tree_lock);
	struct sighand *sh = lock_sighand(me, &irq2);

	if (me->group_exit || (me->group_exec_task && me->group_exec_task != current) || current->pending.set & sigmask(SIGKILL))
		ret = -EINTR;
	else if (me->group_signal_seq != signal_seq && signal_pending())
		ret = -ERESTARTNOINTR;
	else if (!pid_assign_locked(pid))
		ret = -EAGAIN;
	if (!ret) {
		/* Nothing below this line can fail. */
		if (!(flags & CLONE_THREAD)) {
			/* Its own lock, if it is not ours, is not needed: nobody can find it before we drop T. */
			link_new_process_locked(child, pid, flags);
		} else if (me->group_stop_count || me->stop_flags & SIGNAL_STOPPED) {
			/* A stop is under way: the new thread must not run through it. */
			child->jobctl = JOBCTL_STOP_PENDING;
			child->sigpending = true;
		}
		link_thread_locked(child, pid);
		if (unlikely(child->process->user != charged)) {
			/* Another thread has changed the user id since: it is the new user's thread. */
			__atomic_fetch_sub(&charged->nr_threads, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&child->process->user->nr_threads, 1, __ATOMIC_RELAXED);
		}
		recalc_sigpending_locked(child);
	}
	unlock_sighand(sh, irq2);
	spin_unlock_irqrestore(&process_tree_lock, irq);
	return ret;
}

/* A child of current that will begin where current's last system call returns, with result 0. ERR_PTR. */
static struct task *copy_process(const struct kernel_clone_args *args, u32 signal_seq, struct file **pidfile, int *pidfd)
{
	u64 flags = args->flags;
	struct user *user = current->process->user;
	struct process *p = NULL;
	struct pid *pid;
	struct task *child;
	int err;

	user_get(user);
	err = charge_thread(user);
	if (err)
		goto put_user_ref;
	err = -ENOMEM;
	child = task_alloc();
	if (!child)
		goto uncharge;
	pid = pid_new();
	if (!pid)
		goto free_task;
	sched_fork(child);
	if (thread_context_alloc(child))
		goto free_pid;
	if (flags & CLONE_THREAD) {
		child->process = current->process;
		process_get(child->process);
	} else {
		p = copy_process_struct(flags);
		if (!p)
			goto free_pid;
		child->process = p;
		process_get(p);		/* the task's; the first is the tree's */
	}
	if (flags & CLONE_PIDFD) {
		*pidfd = pidfd_create(p, 0, pidfile);
		err = *pidfd;
		if (err < 0)
			goto free_process;
		err = put_user(*pidfd, args->pidfd) ? -EFAULT : 0;
		if (err)
			goto put_pidfd;
	}
	err = copy_files(child, flags);
	if (err)
		goto put_pidfd;
	err = copy_fs(child, flags);
	if (err)
		goto put_files;
	err = copy_mm(child, flags);
	if (err)
		goto put_fs;
	copy_task_fields(child, args);
	thread_context_fork(child, task_trap_frame(current), args->stack, flags & CLONE_SETTLS, args->tls);

	err = publish_child(child, pid, flags, signal_seq, user);
	if (!err) {
		user_put(user);		/* the process has its own */
		return child;
	}

	mm_put(child->mm);
	child->mm = child->active_mm = NULL;
put_fs:
	fs_context_put(child->fs);
put_files:
	files_put(child->files);
put_pidfd:
	if (flags & CLONE_PIDFD) {
		fd_release(*pidfd);
		file_put(*pidfile);
	}
free_process:
	if (p)
		discard_process(p);
free_pid:
	pid_discard(pid);
free_task:
	task_put(child);		/* and its reference to the process */
uncharge:
	task_count_dec();
	__atomic_fetch_sub(&user->nr_threads, 1, __ATOMIC_RELAXED);
put_user_ref:
	user_put(user);
	return ERR_PTR(err);
}

/* -- vfork -- */

void vfork_complete(struct task *t)
{
	if (!READ_ONCE(t->vfork_done))
		return;
	unsigned long irq = spin_lock_irqsave(&process_tree_lock);
	struct completion_vfork *vf = t->vfork_done;

	if (vf) {
		t->vfork_done = NULL;
		WRITE_ONCE(vf->done, true);
		wake_up_process(vf->parent);	/* under T: the parent takes T before its stack frame dies */
	}
	spin_unlock_irqrestore(&process_tree_lock, irq);
}

/* Until the child has exec'd or is gone. Only a fatal signal ends it sooner: the child still runs on our memory. */
static void wait_for_vfork(struct task *child, struct completion_vfork *vf)
{
	for (;;) {
		set_current_state(TASK_KILLABLE);
		if (READ_ONCE(vf->done) || fatal_signal_pending())
			break;
		schedule();
	}
	set_current_state(TASK_RUNNING);

	unsigned long irq = spin_lock_irqsave(&process_tree_lock);

	if (!vf->done)
		child->vfork_done = NULL;
	spin_unlock_irqrestore(&process_tree_lock, irq);
}

/* -- the calls -- */

long kernel_clone(const struct kernel_clone_args *args)
{
	struct process *me = current->process;
	struct completion_vfork vf = { .parent = current };
	struct file *pidfile = NULL;
	int pidfd = -1;
	u32 signal_seq = READ_ONCE(me->group_signal_seq);
	int err = check_clone_flags(args);

	if (err)
		return err;
	/* A pending signal is delivered first: it cannot be told whether it was meant for the child too. */
	recalc_sigpending();
	if (signal_pending())
		return -ERESTARTNOINTR;

	struct task *child = copy_process(args, signal_seq, &pidfile, &pidfd);

	if (IS_ERR(child))
		return PTR_ERR(child);
	int tid = child->tid;

	if (args->flags & CLONE_PARENT_SETTID) {
		/* The child exists, so a bad address can no longer be an error: Linux ignores it too. */
		int ignored = put_user(tid, args->parent_tid);

		(void)ignored;
	}
	if (args->flags & CLONE_PIDFD)
		fd_install(pidfd, pidfile);
	if (args->flags & CLONE_VFORK) {
		child->vfork_done = &vf;
		task_get(child);
	}
	wake_up_new_task(child);
	if (args->flags & CLONE_VFORK) {
		wait_for_vfork(child, &vf);
		task_put(child);
	}
	return tid;
}

/* First code of a child after its first switch, in its own context (kernel/x86/entry.S: ret_from_fork). */
void fork_child_start(void)
{
	struct task *t = current;

	if (t->set_child_tid) {
		/* In the child, because that is whose memory it is. */
		if (put_user(t->tid, t->set_child_tid))
			t->set_child_tid = NULL;
	}
}

SYSCALL_DEFINE(fork, void)
{
	struct kernel_clone_args args = { .exit_signal = SIGCHLD };

	return kernel_clone(&args);
}

SYSCALL_DEFINE(vfork, void)
{
	struct kernel_clone_args args = { .flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD };

	return kernel_clone(&args);
}

/* x86-64 order of arguments. The pid file descriptor, if wanted, goes where the parent's tid would. */
SYSCALL_DEFINE(clone, unsigned long flags, unsigned long stack, int __user *parent_tid, int __user *child_tid, unsigned long tls)
{
	struct kernel_clone_args args = {
		.flags = (u32)flags & ~CSIGNAL,
		.exit_signal = (int)(flags & CSIGNAL),
		.stack = stack,
		.parent_tid = parent_tid,
		.child_tid = child_tid,
		.pidfd = parent_tid,
		.tls = tls,
	};

	if (flags & CLONE_PIDFD && flags & CLONE_PARENT_SETTID)
		return -EINVAL;
	return kernel_clone(&args);
}

struct clone_args {		/* Linux struct clone_args, version 2 */
	u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};
#define CLONE_ARGS_SIZE_VER0 64

SYSCALL_DEFINE(clone3, const struct clone_args __user *uargs, size_t size)
{
	struct clone_args in = { 0 };

	if (size > PAGE_SIZE)
		return -E2BIG;
	if (size < CLONE_ARGS_SIZE_VER0)
		return -EINVAL;
	/* A longer struct of a newer program is fine as long as what we do not know is zero. */
	for (size_t i = sizeof(in); i < size; i++) {
		u8 extra;

		if (copy_in(&extra, (const u8 __user *)uargs + i, 1))
			return -EFAULT;
		if (extra)
			return -E2BIG;
	}
	if (copy_in(&in, uargs, min(size, sizeof(in))))
		return -EFAULT;
	if (in.flags >> 34 || in.flags & (CLONE_DETACHED | CSIGNAL))
		return -EINVAL;
	if (in.exit_signal > NSIG || (in.exit_signal && in.flags & (CLONE_THREAD | CLONE_PARENT)))
		return -EINVAL;
	if (in.set_tid || in.set_tid_size || in.cgroup)
		return -EINVAL;			/* needs name spaces */
	if (!in.stack != !in.stack_size)
		return -EINVAL;
	if (in.stack && !access_ok((void __user *)in.stack, in.stack_size))
		return -EINVAL;

	struct kernel_clone_args args = {
		.flags = in.flags,
		.pidfd = (int __user *)in.pidfd,
		.child_tid = (int __user *)in.child_tid,
		.parent_tid = (int __user *)in.parent_tid,
		.exit_signal = (int)in.exit_signal,
		.stack = in.stack ? in.stack + in.stack_size : 0,
		.tls = in.tls,
	};
	return kernel_clone(&args);
}

SYSCALL_DEFINE(set_tid_address, int __user *tidptr)
{
	current->clear_child_tid = tidptr;
	return current->tid;
}
