/*
 * System calls about scheduling: affinity, policy, nice. What they ask for is done in kernel/sched.c; here is who may.
 */
#include "kernel/errno.h"
#include "kernel/percpu.h"
#include "kernel/process.h"
#include "kernel/sched.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/uaccess.h"

#define MIN_NICE		(-20)
#define MAX_NICE		19
#define MAX_RT_PRIORITY		99
#define SCHED_RESET_ON_FORK	0x40000000
#define PRIO_PROCESS		0
#define PRIO_PGRP		1
#define PRIO_USER		2

struct sched_param { int priority; };

/* Counted; 0 is the caller. NULL: no such thread. */
static struct task *sched_task_get(int tid)
{
	if (tid)
		return find_task_get(tid);
	task_get(current);
	return current;
}

static bool same_owner(const struct task *t)
{
	u32 euid = current->process->creds.euid;
	const struct creds *c = &t->process->creds;

	return euid == c->euid || euid == c->uid;
}

/* -- affinity -------------------------------------------------------------------------------------------------------- */

SYSCALL_DEFINE(sched_setaffinity, int tid, unsigned int len, const cpumask_t __user *umask)
{
	cpumask_t mask = 0;			/* a short mask is continued with zeros, of a long one the rest is ignored */
	struct task *t;
	int error = -EPERM;

	if (copy_in(&mask, umask, min(len, (unsigned int)sizeof(mask))))
		return -EFAULT;
	t = sched_task_get(tid);
	if (!t)
		return -ESRCH;
	if (same_owner(t) || capable(CAP_SYS_NICE))
		error = sched_set_affinity(t, mask);
	task_put(t);
	return error;
}

/* Bytes of the mask, as libc expects of the raw call. */
SYSCALL_DEFINE(sched_getaffinity, int tid, unsigned int len, cpumask_t __user *umask)
{
	struct task *t;
	cpumask_t mask;

	if (len * 8 < nr_cpus_found || !IS_ALIGNED(len, sizeof(mask)))
		return -EINVAL;
	t = sched_task_get(tid);
	if (!t)
		return -ESRCH;
	mask = READ_ONCE(t->affinity) & cpu_online_mask;
	task_put(t);
	return put_user(mask, umask) ? -EFAULT : (long)sizeof(mask);
}

SYSCALL_DEFINE(getcpu, u32 __user *ucpu, u32 __user *unode, void __user *unused)
{
	(void)unused;				/* a cache, ignored since Linux 2.6.24 */
	if (ucpu && put_user(smp_processor_id(), ucpu))
		return -EFAULT;
	return unode && put_user(0u, unode) ? -EFAULT : 0;
}

SYSCALL_DEFINE(sched_yield, void)
{
	yield();
	return 0;
}

/* -- policy ---------------------------------------------------------------------------------------------------------- */

static bool is_realtime(int policy)
{
	return policy == SCHED_FIFO || policy == SCHED_RR;
}

static bool policy_exists(int policy)
{
	return is_realtime(policy) || policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE;
}

/* May current give @t this policy? More than its resource limit allows takes CAP_SYS_NICE. */
static bool may_set_policy(const struct task *t, int policy, int priority)
{
	if (capable(CAP_SYS_NICE))
		return true;
	if (!same_owner(t))
		return false;
	return !is_realtime(policy) || (u64)priority <= max(process_rlimit(t->process, RLIMIT_RTPRIO), (u64)t->rt_priority);
}

/* @policy -1: keep it. */
static long set_scheduler(int tid, int policy, const struct sched_param __user *uparam)
{
	struct sched_param param;
	long error = 0;

	if (!uparam || tid < 0)
		return -EINVAL;
	if (copy_in(&param, uparam, sizeof(param)))
		return -EFAULT;
	struct task *t = sched_task_get(tid);
	if (!t)
		return -ESRCH;
	if (policy < 0)
		policy = t->policy;
	if (!policy_exists(policy))
		error = -EINVAL;
	else if (is_realtime(policy) ? param.priority < 1 || param.priority > MAX_RT_PRIORITY : param.priority != 0)
		error = -EINVAL;
	else if (!may_set_policy(t, policy, param.priority))
		error = -EPERM;
	else
		sched_set_policy(t, policy, (unsigned int)param.priority);
	task_put(t);
	return error;
}

SYSCALL_DEFINE(sched_setscheduler, int tid, int policy, const struct sched_param __user *uparam)
{
	if (policy < 0)
		return -EINVAL;
	return set_scheduler(tid, policy & ~SCHED_RESET_ON_FORK, uparam);
}

SYSCALL_DEFINE(sched_setparam, int tid, const struct sched_param __user *uparam)
{
	return set_scheduler(tid, -1, uparam);
}

SYSCALL_DEFINE(sched_getscheduler, int tid)
{
	if (tid < 0)
		return -EINVAL;
	struct task *t = sched_task_get(tid);
	if (!t)
		return -ESRCH;
	long policy = t->policy;
	task_put(t);
	return policy;
}

SYSCALL_DEFINE(sched_getparam, int tid, struct sched_param __user *uparam)
{
	if (!uparam || tid < 0)
		return -EINVAL;
	struct task *t = sched_task_get(tid);
	if (!t)
		return -ESRCH;
	struct sched_param param = { t->rt_priority };
	task_put(t);
	return copy_out(uparam, &param, sizeof(param));
}

SYSCALL_DEFINE(sched_get_priority_max, int policy)
{
	return !policy_exists(policy) ? -EINVAL : is_realtime(policy) ? MAX_RT_PRIORITY : 0;
}

SYSCALL_DEFINE(sched_get_priority_min, int policy)
{
	return !policy_exists(policy) ? -EINVAL : is_realtime(policy) ? 1 : 0;
}

SYSCALL_DEFINE(sched_rr_get_interval, int tid, struct timespec64 __user *uts)
{
	if (tid < 0)
		return -EINVAL;
	struct task *t = sched_task_get(tid);
	if (!t)
		return -ESRCH;
	struct timespec64 ts = ns_to_timespec(t->policy == SCHED_FIFO ? 0 : SCHED_SLICE_NS);
	task_put(t);
	return copy_out(uts, &ts, sizeof(ts));
}

/* -- nice ------------------------------------------------------------------------------------------------------------ */

/* One setpriority or getpriority over all threads it names. T held, so no copying to user space meanwhile. */
struct nice_walk {
	bool	set;
	int	nice;			/* to set */
	int	best;			/* found: 20 - nice, the largest */
	long	error;			/* -ESRCH until one thread was found */
};

static void nice_one(struct nice_walk *w, struct task *t)
{
	const struct process *p = t->process;
	u32 euid = current->process->creds.euid;

	if (!w->set) {
		w->best = max(w->best, 20 - t->nice);
		w->error = 0;
		return;
	}
	if (p->creds.uid != euid && p->creds.euid != euid && !capable(CAP_SYS_NICE)) {
		w->error = -EPERM;
		return;
	}
	/* RLIMIT_NICE counts the other way: 1 is nice 19, 40 is nice -20. */
	if (w->nice < t->nice && (u64)(20 - w->nice) > process_rlimit(p, RLIMIT_NICE) && !capable(CAP_SYS_NICE)) {
		w->error = -EACCES;
		return;
	}
	if (w->error == -ESRCH)
		w->error = 0;
	sched_set_nice(t, w->nice);
}

static bool nice_process(struct process *p, void *arg)
{
	struct task *t;

	list_for_each_entry(t, &p->threads, thread_node)
		nice_one(arg, t);
	return true;
}

static void walk(struct nice_walk *w, int which, int who)
{
	unsigned long flags;
	struct process *p;

	if (which == PRIO_PROCESS) {
		struct task *t = sched_task_get(who);
		if (t) {
			nice_one(w, t);
			task_put(t);
		}
		return;
	}
	flags = spin_lock_irqsave(&process_tree_lock);
	if (which == PRIO_PGRP) {
		struct pid *pgrp = pid_find(who ? who : current->process->pgid);
		if (pgrp)
			for_each_in_pgrp_locked(pgrp, nice_process, w);
	} else {
		u32 uid = who ? (u32)who : current->process->creds.uid;
		list_for_each_entry(p, &all_processes, all_node)
			if (p->creds.uid == uid)
				nice_process(p, w);
	}
	spin_unlock_irqrestore(&process_tree_lock, flags);
}

SYSCALL_DEFINE(setpriority, int which, int who, int nice)
{
	struct nice_walk w = { .set = true, .nice = clamp(nice, MIN_NICE, MAX_NICE), .error = -ESRCH };

	if (which < PRIO_PROCESS || which > PRIO_USER)
		return -EINVAL;
	walk(&w, which, who);
	return w.error;
}

/* 20 - nice, so that it is never negative: 40 is the best. */
SYSCALL_DEFINE(getpriority, int which, int who)
{
	struct nice_walk w = { .error = -ESRCH };

	if (which < PRIO_PROCESS || which > PRIO_USER)
		return -EINVAL;
	walk(&w, which, who);
	return w.error ? w.error : w.best;
}
