/*
 * POSIX timers: timer_create and kin. A timer belongs to a process, expires on one clock, and sends one signal, to the process
 * or to one thread. While that signal has not been taken, further expiries are counted as overruns instead of queued.
 *
 * Easy to break: expiry runs in an interrupt and takes the sighand lock to look at its timer. So a timer leaves the process's
 * list under that lock, is marked dead, and only then, outside the lock, waits for a running expiry and is freed.
 */
#include "kernel/errno.h"
#include "kernel/itimer.h"
#include "kernel/percpu.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/timer.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define SIGEV_SIGNAL	0
#define SIGEV_NONE	1
#define SIGEV_THREAD	2
#define SIGEV_THREAD_ID	4
#define MIN_PERIOD_NS	(20 * NSEC_PER_USEC)
#define MAX_TIMERS	65536		/* per process, where RLIMIT_SIGPENDING says nothing */

struct sigevent { u64 value; int signo, notify, tid; int pad[11]; };
_Static_assert(sizeof(struct sigevent) == 64, "user ABI");
struct itimerspec { struct timespec64 interval, value; };

/* G unless stated: the sighand lock of the process. */
struct posix_timer {
	struct posix_timer *next;	/* process->posix_timers */
	struct timer	 timer;		/* not for CPU clocks */
	struct process	*process;	/* constant; it outlives its timers */
	struct task	*thread;	/* constant: counted, for SIGEV_THREAD_ID; the owner of a thread CPU clock otherwise; or NULL */
	int		 id, clock, signo, notify;	/* constant */
	u64		 value;		/* constant: for siginfo */
	u64		 interval;	/* ns */
	u64		 expires;	/* ktime, or the CPU clock's value; 0: not armed */
	u64		 overrun;	/* expiries since the last signal was queued, beyond the one it stands for */
	u64		 overrun_last;	/* those that the last delivered signal told of */
	bool		 dead;
};

/* -- expiry: sighand locked ------------------------------------------------------------------------------------------ */

static bool signal_still_queued(const struct posix_timer *pt)
{
	const struct sigpending *pending = pt->notify == SIGEV_THREAD_ID ? &pt->thread->pending : &pt->process->pending;

	return pending->set & sigmask(pt->signo);
}

/* @n expiries at once. */
static void expire_locked(struct posix_timer *pt, u64 n)
{
	if (pt->notify == SIGEV_NONE)
		return;
	if (signal_still_queued(pt)) {
		pt->overrun += n;
		return;
	}
	pt->overrun_last = min(pt->overrun + n - 1, (u64)INT32_MAX);
	pt->overrun = 0;

	struct siginfo info = { .si_signo = pt->signo, .si_code = SI_TIMER };
	info.timer.tid = pt->id;
	info.timer.overrun = (int)pt->overrun_last;
	info.timer.value = pt->value;
	if (pt->notify == SIGEV_THREAD_ID)
		send_signal_task_locked(pt->thread, pt->signo, &info);
	else
		send_signal_process_locked(pt->process, pt->signo, &info);
}

/* It is due: next expiry, and how many have passed. */
static u64 forward_locked(struct posix_timer *pt, u64 now)
{
	if (!pt->interval) {
		pt->expires = 0;
		return 1;
	}
	u64 n = (now - pt->expires) / pt->interval + 1;
	pt->expires += n * pt->interval;
	return n;
}

static void posix_timer_fired(struct timer *timer)
{
	struct posix_timer *pt = container_of(timer, struct posix_timer, timer);
	unsigned long flags;
	struct sighand *sh = lock_sighand(pt->process, &flags);
	u64 now = ktime_get_ns();

	if (!pt->dead && pt->expires && pt->expires <= now) {
		expire_locked(pt, forward_locked(pt, now));
		if (pt->expires)
			timer_arm(timer, max(pt->expires, now + MIN_PERIOD_NS));
	}
	unlock_sighand(sh, flags);
}

/* The value of its CPU clock. */
static u64 cpu_clock_locked(const struct posix_timer *pt)
{
	u64 utime, stime;
	bool thread = pt->clock == CLOCK_THREAD_CPUTIME_ID || (pt->clock < 0 && (pt->clock & CPUCLOCK_PERTHREAD));

	if (thread)
		task_cputime(pt->thread, &utime, &stime);
	else
		process_cputime_locked(pt->process, &utime, &stime);
	return pt->clock < 0 && cpuclock_which(pt->clock) == CPUCLOCK_VIRT ? utime : utime + stime;
}

void posix_cpu_timers_tick_locked(struct task *t)
{
	for (struct posix_timer *pt = t->process->posix_timers; pt; pt = pt->next) {
		if (!pt->expires || !clock_is_cpu(pt->clock))
			continue;
		u64 now = cpu_clock_locked(pt);
		if (pt->expires <= now)
			expire_locked(pt, forward_locked(pt, now));
	}
}

/* -- life ------------------------------------------------------------------------------------------------------------ */

static struct posix_timer *find_locked(int id)
{
	struct posix_timer *pt = current->process->posix_timers;

	while (pt && pt->id != id)
		pt = pt->next;
	return pt;
}

static void unlink_locked(struct posix_timer *pt)
{
	struct posix_timer **link = &pt->process->posix_timers;

	while (*link != pt)
		link = &(*link)->next;
	*link = pt->next;
	pt->process->nr_posix_timers--;
	if (clock_is_cpu(pt->clock))
		pt->process->nr_posix_cpu_timers--;
	pt->dead = true;
}

static void free_timer(struct posix_timer *pt)
{
	timer_cancel_sync(&pt->timer);
	if (pt->thread)
		task_put(pt->thread);
	kfree(pt);
}

void posix_timers_exec(struct process *p)
{
	for (;;) {
		unsigned long flags;
		struct sighand *sh = lock_sighand(p, &flags);
		struct posix_timer *pt = p->posix_timers;

		if (pt)
			unlink_locked(pt);
		unlock_sighand(sh, flags);
		if (!pt)
			return;
		free_timer(pt);
	}
}

void itimers_exit(struct process *p)
{
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);

	p->real_expires = 0;			/* an expiry that waits for the lock finds nothing due */
	p->cpu_itimer[0].expires = p->cpu_itimer[1].expires = 0;
	unlock_sighand(sh, flags);
	timer_cancel_sync(&p->real_timer);
	posix_timers_exec(p);
}

/* 0, -EINVAL: no such clock, -EOPNOTSUPP: it has no timers. */
static int check_timer_clock(int clock)
{
	int pid = cpuclock_pid(clock);
	u64 unused;

	if (clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_REALTIME_COARSE)
		return -EOPNOTSUPP;
	if (clock < 0 && pid && pid != current->process->tgid && pid != current->tid)
		return -EOPNOTSUPP;		/* CPU clocks of others: a known gap */
	return clock_now(clock, &unused);
}

/* 0 or -EINVAL; the thread that is to get the signal is counted. */
static int parse_sigevent(const struct sigevent *ev, struct posix_timer *pt)
{
	pt->notify = ev->notify;
	pt->signo = ev->signo;
	pt->value = ev->value;
	if (ev->notify == SIGEV_NONE)
		return 0;
	if (ev->notify != SIGEV_SIGNAL && ev->notify != SIGEV_THREAD && ev->notify != SIGEV_THREAD_ID)
		return -EINVAL;
	if (ev->signo < 1 || ev->signo > NSIG)
		return -EINVAL;
	if (ev->notify == SIGEV_THREAD_ID) {
		pt->thread = find_task_get(ev->tid);
		if (!pt->thread || pt->thread->process != current->process)
			return -EINVAL;
	}
	return 0;
}

/* A timer on this thread's own CPU clock keeps the thread, unless it already names one to signal. */
static int bind_cpu_clock(struct posix_timer *pt)
{
	bool thread = pt->clock == CLOCK_THREAD_CPUTIME_ID || (pt->clock < 0 && (pt->clock & CPUCLOCK_PERTHREAD));

	if (!thread)
		return 0;
	if (pt->thread)
		return pt->thread == current ? 0 : -EINVAL;
	pt->thread = current;
	task_get(current);
	return 0;
}

SYSCALL_DEFINE(timer_create, int clock, const struct sigevent __user *uev, int __user *uid)
{
	struct process *p = current->process;
	struct sigevent ev = { .signo = SIGALRM, .notify = SIGEV_SIGNAL };
	struct posix_timer *pt;
	unsigned long flags;
	int error;

	error = check_timer_clock(clock);
	if (error)
		return error;
	if (uev && copy_in(&ev, uev, sizeof(ev)))
		return -EFAULT;
	pt = kzalloc(sizeof(*pt), GFP_KERNEL);
	if (!pt)
		return -EAGAIN;
	pt->process = p;
	pt->clock = clock;
	timer_setup(&pt->timer, posix_timer_fired);
	error = parse_sigevent(&ev, pt);
	if (!error)
		error = bind_cpu_clock(pt);
	if (error)
		goto free;

	struct sighand *sh = lock_sighand(p, &flags);
	if (p->nr_posix_timers >= min(p->rlim[RLIMIT_SIGPENDING].cur, (u64)MAX_TIMERS)) {
		error = -EAGAIN;
	} else {
		do {
			pt->id = p->next_timer_id;
			p->next_timer_id = (p->next_timer_id + 1) & INT32_MAX;
		} while (find_locked(pt->id));
		if (!uev)
			pt->value = (u64)pt->id;
		pt->next = p->posix_timers;
		p->posix_timers = pt;
		p->nr_posix_timers++;
		if (clock_is_cpu(clock))
			p->nr_posix_cpu_timers++;
	}
	unlock_sighand(sh, flags);
	if (error)
		goto free;
	int id = pt->id;
	if (!put_user(id, uid))
		return 0;

	/* Nobody was told the number, but another thread may have guessed it and deleted the timer. */
	error = -EFAULT;
	sh = lock_sighand(p, &flags);
	pt = find_locked(id);
	if (pt)
		unlink_locked(pt);
	unlock_sighand(sh, flags);
	if (!pt)
		return error;
free:
	free_timer(pt);
	return error;
}

static struct itimerspec current_setting_locked(const struct posix_timer *pt)
{
	u64 now = clock_is_cpu(pt->clock) ? cpu_clock_locked(pt) : ktime_get_ns(), left = 0;

	if (pt->expires)
		left = pt->expires > now ? pt->expires - now : pt->notify == SIGEV_NONE && !pt->interval ? 0 : 1;
	return (struct itimerspec){ ns_to_timespec(pt->interval), ns_to_timespec(left) };
}

static void arm_locked(struct posix_timer *pt, u64 value, bool absolute)
{
	u64 now = clock_is_cpu(pt->clock) ? cpu_clock_locked(pt) : ktime_get_ns();

	if (!absolute)
		value = value > INT64_MAX - now ? INT64_MAX : now + value;
	else if (!clock_is_cpu(pt->clock))
		value = clock_to_ktime(pt->clock, value);
	pt->expires = max(value, 1ul);
	if (clock_is_cpu(pt->clock))
		WRITE_ONCE(pt->process->cpu_timers_active, true);
	else
		timer_arm(&pt->timer, pt->expires);
}

SYSCALL_DEFINE(timer_settime, int id, int flags, const struct itimerspec __user *unew, struct itimerspec __user *uold)
{
	struct itimerspec new, old = { { 0 }, { 0 } };
	unsigned long irq;
	int error = 0;

	if (!unew)
		return -EINVAL;
	if (copy_in(&new, unew, sizeof(new)))
		return -EFAULT;
	if (!timespec_valid(&new.interval) || !timespec_valid(&new.value))
		return -EINVAL;

	struct sighand *sh = lock_sighand(current->process, &irq);
	struct posix_timer *pt = find_locked(id);
	if (!pt) {
		error = -EINVAL;
	} else {
		u64 value = timespec_to_ns(&new.value);

		old = current_setting_locked(pt);
		timer_cancel(&pt->timer);	/* an expiry that waits for our lock will find nothing due */
		pt->interval = timespec_to_ns(&new.interval);
		pt->expires = 0;
		pt->overrun = pt->overrun_last = 0;
		if (value)
			arm_locked(pt, value, flags & TIMER_ABSTIME);
	}
	unlock_sighand(sh, irq);
	if (!error && uold)
		error = copy_out(uold, &old, sizeof(old));
	return error;
}

SYSCALL_DEFINE(timer_gettime, int id, struct itimerspec __user *ucur)
{
	struct itimerspec cur;
	unsigned long flags;
	struct sighand *sh = lock_sighand(current->process, &flags);
	struct posix_timer *pt = find_locked(id);

	if (pt)
		cur = current_setting_locked(pt);
	unlock_sighand(sh, flags);
	return pt ? copy_out(ucur, &cur, sizeof(cur)) : -EINVAL;
}

SYSCALL_DEFINE(timer_getoverrun, int id)
{
	unsigned long flags;
	struct sighand *sh = lock_sighand(current->process, &flags);
	struct posix_timer *pt = find_locked(id);
	long overrun = pt ? (long)pt->overrun_last : -EINVAL;

	unlock_sighand(sh, flags);
	return overrun;
}

SYSCALL_DEFINE(timer_delete, int id)
{
	unsigned long flags;
	struct sighand *sh = lock_sighand(current->process, &flags);
	struct posix_timer *pt = find_locked(id);

	if (pt)
		unlink_locked(pt);
	unlock_sighand(sh, flags);
	if (!pt)
		return -EINVAL;
	free_timer(pt);
	return 0;
}
