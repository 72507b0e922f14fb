/* Limits and accounts: what a process may use, and what it has used. */
#include "kernel/process.h"

#include "kernel/errno.h"
#include "kernel/syscall.h"
#include "mm/mm.h"
#include "mm/uaccess.h"

#define NR_OPEN_MAX	(1024ul * 1024)		/* nobody's RLIMIT_NOFILE goes beyond */

/* -- limits -- */

u64 process_rlimit(const struct process *p, unsigned int which) { return READ_ONCE(p->rlim[which].cur); }
u64 rlimit_cur(unsigned int which) { return process_rlimit(current->process, which); }

static int set_rlimit(struct process *p, unsigned int which, const struct rlimit *new, struct rlimit *old)
{
	unsigned long flags;
	int err = 0;

	if (new && new->cur > new->max)
		return -EINVAL;
	if (new && which == RLIMIT_NOFILE && new->max > NR_OPEN_MAX)
		return -EPERM;
	struct sighand *sh = lock_sighand(p, &flags);

	if (old)
		*old = p->rlim[which];
	if (new && new->max > p->rlim[which].max && !capable(CAP_SYS_RESOURCE))
		err = -EPERM;
	else if (new)
		p->rlim[which] = *new;
	unlock_sighand(sh, flags);
	return err;
}

static bool may_prlimit(const struct process *p)
{
	const struct creds *mine = &current->process->creds, *theirs = &p->creds;

	if (p == current->process || capable(CAP_SYS_RESOURCE))
		return true;
	return mine->uid == theirs->euid && mine->uid == theirs->suid && mine->uid == theirs->uid &&
	       mine->gid == theirs->egid && mine->gid == theirs->sgid && mine->gid == theirs->gid;
}

SYSCALL_DEFINE(prlimit64, int pid, unsigned int which, const struct rlimit __user *unew, struct rlimit __user *uold)
{
	struct rlimit new, old;

	if (which >= RLIM_NLIMITS)
		return -EINVAL;
	if (unew && copy_in(&new, unew, sizeof(new)))
		return -EFAULT;
	struct process *p = current->process;

	if (pid) {
		struct task *t = find_task_get(pid);

		if (!t)
			return -ESRCH;
		p = t->process;
		process_get(p);
		task_put(t);
	}
	int err = may_prlimit(p) ? set_rlimit(p, which, unew ? &new : NULL, &old) : -EPERM;

	if (pid)
		process_put(p);
	if (!err && uold && copy_out(uold, &old, sizeof(old)))
		err = -EFAULT;
	return err;
}

SYSCALL_DEFINE(getrlimit, unsigned int which, struct rlimit __user *ulim)
{
	struct rlimit lim;

	if (which >= RLIM_NLIMITS)
		return -EINVAL;
	set_rlimit(current->process, which, NULL, &lim);
	return copy_out(ulim, &lim, sizeof(lim));
}

SYSCALL_DEFINE(setrlimit, unsigned int which, const struct rlimit __user *ulim)
{
	struct rlimit lim;

	if (copy_in(&lim, ulim, sizeof(lim)))
		return -EFAULT;
	if (which >= RLIM_NLIMITS)
		return -EINVAL;
	return set_rlimit(current->process, which, &lim, NULL);
}

/* -- use -- */

void rusage_add(struct rusage_sum *sum, const struct rusage_sum *more)
{
	sum->utime_ns += more->utime_ns;
	sum->stime_ns += more->stime_ns;
	sum->min_flt += more->min_flt;
	sum->maj_flt += more->maj_flt;
	sum->nvcsw += more->nvcsw;
	sum->nivcsw += more->nivcsw;
	sum->maxrss_pages = max(sum->maxrss_pages, more->maxrss_pages);
}

void thread_rusage(const struct task *t, struct rusage_sum *sum)
{
	struct rusage_sum one = {
		.min_flt = READ_ONCE(t->min_flt), .maj_flt = READ_ONCE(t->maj_flt),
		.nvcsw = READ_ONCE(t->nvcsw), .nivcsw = READ_ONCE(t->nivcsw),
	};

	task_cputime(t, &one.utime_ns, &one.stime_ns);
	rusage_add(sum, &one);
}

void task_rusage(struct process *p, struct rusage_sum *sum)
{
	struct task *t;
	unsigned long flags;

	if (p == &kernel_process) {
		*sum = (struct rusage_sum){ 0 };
		return;
	}
	struct sighand *sh = lock_sighand(p, &flags);

	*sum = p->dead_threads;
	list_for_each_entry(t, &p->threads, thread_node)
		thread_rusage(t, sum);
	unlock_sighand(sh, flags);
}

void rusage_to_user(const struct rusage_sum *sum, struct rusage_user *out)
{
	*out = (struct rusage_user){
		.utime_sec = (s64)(sum->utime_ns / NSEC_PER_SEC), .utime_usec = (s64)(sum->utime_ns % NSEC_PER_SEC / NSEC_PER_USEC),
		.stime_sec = (s64)(sum->stime_ns / NSEC_PER_SEC), .stime_usec = (s64)(sum->stime_ns % NSEC_PER_SEC / NSEC_PER_USEC),
		.maxrss = (s64)(sum->maxrss_pages * (PAGE_SIZE / 1024)),
		.minflt = (s64)sum->min_flt, .majflt = (s64)sum->maj_flt,
		.nvcsw = (s64)sum->nvcsw, .nivcsw = (s64)sum->nivcsw,
	};
}

SYSCALL_DEFINE(getrusage, int who, struct rusage_user __user *uru)
{
	struct process *p = current->process;
	struct rusage_sum sum = { 0 };
	struct rusage_user ru;
	unsigned long flags;

	switch (who) {
	case 0:		/* RUSAGE_SELF */
		task_rusage(p, &sum);
		break;
	case 1:		/* RUSAGE_THREAD */
		thread_rusage(current, &sum);
		break;
	case -1: {	/* RUSAGE_CHILDREN */
		struct sighand *sh = lock_sighand(p, &flags);

		sum = p->dead_children;
		unlock_sighand(sh, flags);
		break;
	}
	default:
		return -EINVAL;
	}
	if (who >= 0)
		sum.maxrss_pages = max(sum.maxrss_pages, mm_hiwater_rss(current->mm));
	rusage_to_user(&sum, &ru);
	return copy_out(uru, &ru, sizeof(ru));
}
