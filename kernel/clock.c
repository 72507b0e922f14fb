/*
 * Reading clocks and sleeping on them: the system calls of time that leave nothing behind. Timers are in kernel/itimer.c and
 * kernel/posix_timer.c; where the nanoseconds come from is kernel/x86/clock.c.
 *
 * All clocks that run on are one: MONOTONIC = MONOTONIC_RAW = BOOTTIME (nothing disciplines the clock, nothing suspends the
 * machine), REALTIME = TAI = MONOTONIC plus an offset that clock_settime changes.
 */
#include "kernel/errno.h"
#include "kernel/itimer.h"
#include "kernel/percpu.h"
#include "kernel/process.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/time.h"
#include "mm/uaccess.h"

#define COARSE_NS	(4 * NSEC_PER_MSEC)	/* what Linux's tick makes of the coarse clocks */
#define USER_HZ		100
#define NSEC_PER_TICK	(NSEC_PER_SEC / USER_HZ)

/* -- CPU time of processes ------------------------------------------------------------------------------------------- */

void process_cputime_locked(struct process *p, u64 *utime_ns, u64 *stime_ns)
{
	struct task *t;

	*utime_ns = p->dead_threads.utime_ns;
	*stime_ns = p->dead_threads.stime_ns;
	list_for_each_entry(t, &p->threads, thread_node) {
		u64 u, s;

		task_cputime(t, &u, &s);
		*utime_ns += u;
		*stime_ns += s;
	}
}

void process_cputime(struct process *p, u64 *utime_ns, u64 *stime_ns)
{
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);

	process_cputime_locked(p, utime_ns, stime_ns);
	unlock_sighand(sh, flags);
}

static u64 cpuclock_value(int which, u64 utime, u64 stime)
{
	return which == CPUCLOCK_VIRT ? utime : utime + stime;
}

static int cpuclock_now(int clock, u64 *ns)
{
	int pid = cpuclock_pid(clock), which = cpuclock_which(clock);
	u64 utime, stime;

	if (which > CPUCLOCK_SCHED)
		return -EINVAL;			/* clocks of descriptors: none here */
	if (clock & CPUCLOCK_PERTHREAD) {
		struct task *t = pid ? find_task_get(pid) : current;
		if (!t)
			return -EINVAL;
		bool mine = t->process == current->process;
		task_cputime(t, &utime, &stime);
		if (pid)
			task_put(t);
		if (!mine)
			return -EINVAL;
	} else {
		struct process *p = pid ? find_process_get(pid) : current->process;
		if (!p)
			return -EINVAL;
		process_cputime(p, &utime, &stime);
		if (pid)
			process_put(p);
	}
	*ns = cpuclock_value(which, utime, stime);
	return 0;
}

int clock_now(int clock, u64 *ns)
{
	switch (clock) {
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_BOOTTIME:
	case CLOCK_BOOTTIME_ALARM:
		*ns = ktime_get_ns();
		return 0;
	case CLOCK_MONOTONIC_COARSE:
		*ns = ktime_get_ns() / COARSE_NS * COARSE_NS;
		return 0;
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_ALARM:
	case CLOCK_TAI:
		*ns = ktime_get_real_ns();
		return 0;
	case CLOCK_REALTIME_COARSE:
		*ns = ktime_get_real_ns() / COARSE_NS * COARSE_NS;
		return 0;
	case CLOCK_PROCESS_CPUTIME_ID:
		return cpuclock_now(-8 | CPUCLOCK_SCHED, ns);	/* -8: pid 0, the caller */
	case CLOCK_THREAD_CPUTIME_ID:
		return cpuclock_now(-8 | CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED, ns);
	}
	return clock < 0 ? cpuclock_now(clock, ns) : -EINVAL;
}

u64 clock_to_ktime(int clock, u64 ns)
{
	if (!clock_is_realtime(clock))
		return ns;
	u64 real = ktime_get_real_ns();
	u64 offset = real - ktime_get_ns();	/* read in this order a sleep ends late by a few ns, not early */
	return ns > offset ? ns - offset : 0;
}

SYSCALL_DEFINE(clock_gettime, int clock, struct timespec64 __user *uts)
{
	u64 ns;
	int error = clock_now(clock, &ns);

	if (error)
		return error;
	struct timespec64 ts = ns_to_timespec(ns);
	return copy_out(uts, &ts, sizeof(ts));
}

SYSCALL_DEFINE(clock_getres, int clock, struct timespec64 __user *uts)
{
	u64 ns;
	int error = clock_now(clock, &ns);	/* also finds out whether there is such a clock */

	if (error)
		return error;
	bool coarse = clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_REALTIME_COARSE;
	struct timespec64 ts = { 0, coarse ? (s64)COARSE_NS : 1 };
	return uts ? copy_out(uts, &ts, sizeof(ts)) : 0;
}

static int set_real_time(const struct timespec64 *ts)
{
	if (!timespec_valid(ts) || ts->tv_sec >= 9223372036 || timespec_to_ns(ts) < ktime_get_ns())
		return -EINVAL;			/* as on Linux, boot was not before 1970 */
	if (!capable(CAP_SYS_TIME))
		return -EPERM;
	return ktime_set_real_ns(timespec_to_ns(ts));
}

SYSCALL_DEFINE(clock_settime, int clock, const struct timespec64 __user *uts)
{
	struct timespec64 ts;

	if (clock != CLOCK_REALTIME)
		return -EINVAL;
	if (copy_in(&ts, uts, sizeof(ts)))
		return -EFAULT;
	return set_real_time(&ts);
}

struct timezone { int minuteswest, dsttime; };

SYSCALL_DEFINE(gettimeofday, struct timeval64 __user *utv, struct timezone __user *utz)
{
	if (utv) {
		u64 ns = ktime_get_real_ns();
		struct timeval64 tv = { (s64)(ns / NSEC_PER_SEC), (s64)(ns % NSEC_PER_SEC / NSEC_PER_USEC) };
		if (copy_out(utv, &tv, sizeof(tv)))
			return -EFAULT;
	}
	if (utz) {
		struct timezone utc = { 0, 0 };
		return copy_out(utz, &utc, sizeof(utc));
	}
	return 0;
}

SYSCALL_DEFINE(settimeofday, const struct timeval64 __user *utv, const struct timezone __user *utz)
{
	struct timeval64 tv;
	struct timezone tz;

	if (utv && copy_in(&tv, utv, sizeof(tv)))
		return -EFAULT;
	if (utv && (tv.tv_usec < 0 || tv.tv_usec >= 1000000))
		return -EINVAL;
	if (utz && copy_in(&tz, utz, sizeof(tz)))
		return -EFAULT;
	if (!utv)				/* the time zone alone: accepted, the kernel has no use for it */
		return capable(CAP_SYS_TIME) ? 0 : -EPERM;
	struct timespec64 ts = { tv.tv_sec, tv.tv_usec * 1000 };
	return set_real_time(&ts);
}

SYSCALL_DEFINE(time, s64 __user *ut)
{
	s64 now = (s64)(ktime_get_real_ns() / NSEC_PER_SEC);

	return ut && put_user(now, ut) ? -EFAULT : now;
}

struct tms { s64 utime, stime, cutime, cstime; };

SYSCALL_DEFINE(times, struct tms __user *utms)
{
	if (utms) {
		unsigned long flags;
		struct process *p = current->process;
		struct sighand *sh = lock_sighand(p, &flags);
		u64 utime, stime;

		process_cputime_locked(p, &utime, &stime);
		struct tms tms = {
			(s64)(utime / NSEC_PER_TICK), (s64)(stime / NSEC_PER_TICK),
			(s64)(p->dead_children.utime_ns / NSEC_PER_TICK), (s64)(p->dead_children.stime_ns / NSEC_PER_TICK),
		};
		unlock_sighand(sh, flags);
		if (copy_out(utms, &tms, sizeof(tms)))
			return -EFAULT;
	}
	return (long)(ktime_get_ns() / NSEC_PER_TICK);
}

/* -- sleeping -------------------------------------------------------------------------------------------------------- */

/* Until ktime @deadline, or a signal: true. */
static bool sleep_until(u64 deadline)
{
	while (!signal_pending()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!schedule_until(deadline)) {
			set_current_state(TASK_RUNNING);
			return false;
		}
	}
	set_current_state(TASK_RUNNING);
	return ktime_get_ns() < deadline;
}

static long finish_interrupted_sleep(struct restart_block *r);

static long nanosleep_restart(struct restart_block *r)
{
	return sleep_until(r->nanosleep.expires) ? finish_interrupted_sleep(r) : 0;
}

/* r->nanosleep is filled in. Tells the program what is left and arranges for the rest. */
static long finish_interrupted_sleep(struct restart_block *r)
{
	struct timespec64 __user *urem = r->nanosleep.rmtp;

	if (urem) {
		u64 now = ktime_get_ns();
		u64 left = r->nanosleep.expires > now ? r->nanosleep.expires - now : 1;
		struct timespec64 ts = ns_to_timespec(left);

		if (copy_out(urem, &ts, sizeof(ts)))
			return -EFAULT;
	}
	r->fn = nanosleep_restart;
	return -ERESTART_RESTARTBLOCK;
}

static long sleep_relative(u64 ns, int clock, void __user *urem)
{
	u64 now = ktime_get_ns();
	u64 deadline = ns > INT64_MAX - now ? INT64_MAX : now + ns;

	if (!sleep_until(deadline))
		return 0;
	current->restart.nanosleep.expires = deadline;
	current->restart.nanosleep.clock = clock;
	current->restart.nanosleep.rmtp = urem;
	return finish_interrupted_sleep(&current->restart);
}

/*
 * On a process's CPU clock: it runs at most as fast as its threads have CPUs, so the time that surely is left is slept, until
 * little is. Then in steps of a tick, which is as exact as CPU time is accounted.
 */
static long sleep_on_cpu_clock(int clock, u64 until, bool absolute, u64 relative, void __user *urem)
{
	u64 now, left;
	int error = clock_now(clock, &now);

	if (error)
		return error;
	if (!absolute)
		until = now + relative;
	while (now < until) {
		left = (until - now) / nr_cpus_found;
		if (sleep_until(ktime_get_ns() + max(left, NSEC_PER_MSEC))) {
			if (absolute)
				return -ERESTARTNOHAND;
			if (clock_now(clock, &now))
				return -EINTR;
			struct timespec64 ts = ns_to_timespec(until > now ? until - now : 0);
			return urem && copy_out(urem, &ts, sizeof(ts)) ? -EFAULT : -EINTR;
		}
		if (clock_now(clock, &now))
			return 0;		/* the process has gone: its clock stands still */
	}
	return 0;
}

SYSCALL_DEFINE(nanosleep, const struct timespec64 __user *ureq, struct timespec64 __user *urem)
{
	struct timespec64 ts;

	if (copy_in(&ts, ureq, sizeof(ts)))
		return -EFAULT;
	if (!timespec_valid(&ts))
		return -EINVAL;
	return sleep_relative(timespec_to_ns(&ts), CLOCK_MONOTONIC, urem);
}

SYSCALL_DEFINE(clock_nanosleep, int clock, int flags, const struct timespec64 __user *ureq, struct timespec64 __user *urem)
{
	struct timespec64 ts;
	u64 unused;

	if (clock_now(clock, &unused))
		return -EINVAL;
	if (clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_REALTIME_COARSE ||
	    clock == CLOCK_THREAD_CPUTIME_ID)
		return -EOPNOTSUPP;
	if (copy_in(&ts, ureq, sizeof(ts)))
		return -EFAULT;
	if (!timespec_valid(&ts))
		return -EINVAL;

	u64 ns = timespec_to_ns(&ts);
	bool absolute = flags & TIMER_ABSTIME;
	if (clock_is_cpu(clock)) {
		if ((clock & CPUCLOCK_PERTHREAD) && clock < 0 && (!cpuclock_pid(clock) || cpuclock_pid(clock) == current->tid))
			return -EINVAL;		/* a sleeping thread's own clock stands still */
		return sleep_on_cpu_clock(clock, ns, absolute, ns, urem);
	}
	if (!absolute)
		return sleep_relative(ns, clock, urem);
	/* Wall time may be set while we sleep: look at it again before we believe that it has come. */
	do {
		if (sleep_until(clock_to_ktime(clock, ns)))
			return -ERESTARTNOHAND;
	} while (clock_to_ktime(clock, ns) > ktime_get_ns());
	return 0;
}
