/*
 * setitimer, getitimer, alarm: one timer of each kind per process. ITIMER_REAL is a kernel timer; VIRTUAL and PROF count
 * CPU time and are looked at by the timer tick of a running thread, as is RLIMIT_CPU.
 *
 * Easy to break: a timer function may be waiting for the sighand lock while setitimer changes everything. It acts only if
 * its timer is still due, by the deadline in the process, not merely because it was called.
 */
#include "kernel/itimer.h"
#include "kernel/errno.h"
#include "kernel/percpu.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/timer.h"
#include "mm/uaccess.h"

#define ITIMER_REAL	0
#define ITIMER_VIRTUAL	1
#define ITIMER_PROF	2

/* The shortest period with which a timer interrupts us again; shorter ones lose expiries, which SIGALRM cannot count anyway. */
#define MIN_PERIOD_NS	(20 * NSEC_PER_USEC)

struct itimerval { struct timeval64 interval, value; };
struct setting { u64 interval, value; };	/* nanoseconds; value 0 = off */

static void send_kernel_signal_locked(struct process *p, int sig)
{
	struct siginfo info = { .si_signo = sig, .si_code = SI_KERNEL };

	send_signal_process_locked(p, sig, &info);
}

static void real_timer_fired(struct timer *timer)
{
	struct process *p = container_of(timer, struct process, real_timer);
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);
	u64 now = ktime_get_ns();

	if (p->real_expires && p->real_expires <= now) {
		send_kernel_signal_locked(p, SIGALRM);
		if (p->real_interval) {
			u64 missed = (now - p->real_expires) / p->real_interval;

			p->real_expires += (missed + 1) * p->real_interval;
			timer_arm(timer, max(p->real_expires, now + MIN_PERIOD_NS));
		} else {
			p->real_expires = 0;
		}
	}
	unlock_sighand(sh, flags);
}

static u64 cpu_value_locked(struct process *p, int which)
{
	u64 utime, stime;

	process_cputime_locked(p, &utime, &stime);
	return which == ITIMER_VIRTUAL ? utime : utime + stime;
}

/* Sighand locked. A timer that is due but has not been seen to has 1 us left, never 0, which would mean off. */
static struct setting current_setting_locked(struct process *p, int which)
{
	struct setting s = { 0 };
	u64 expires, now;

	if (which == ITIMER_REAL) {
		s.interval = p->real_interval;
		expires = p->real_expires;
		now = ktime_get_ns();
	} else {
		s.interval = p->cpu_itimer[which - 1].interval;
		expires = p->cpu_itimer[which - 1].expires;
		now = expires ? cpu_value_locked(p, which) : 0;
	}
	if (expires)
		s.value = expires > now ? expires - now : NSEC_PER_USEC;
	return s;
}

static u64 later(u64 now, u64 ns)
{
	return ns > INT64_MAX - now ? INT64_MAX : now + ns;
}

static struct setting change_itimer(int which, struct setting new)
{
	struct process *p = current->process;
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);
	struct setting old = current_setting_locked(p, which);

	if (which == ITIMER_REAL) {
		p->real_interval = new.interval;
		p->real_expires = new.value ? later(ktime_get_ns(), new.value) : 0;
		p->real_timer.func = real_timer_fired;
		if (p->real_expires)
			timer_arm(&p->real_timer, p->real_expires);
		else
			timer_cancel(&p->real_timer);
	} else {
		p->cpu_itimer[which - 1].interval = new.interval;
		p->cpu_itimer[which - 1].expires = new.value ? later(cpu_value_locked(p, which), new.value) : 0;
		if (new.value)
			WRITE_ONCE(p->cpu_timers_active, true);
	}
	unlock_sighand(sh, flags);
	return old;
}

static struct itimerval to_user(const struct setting *s)
{
	return (struct itimerval){
		{ (s64)(s->interval / NSEC_PER_SEC), (s64)(s->interval % NSEC_PER_SEC / NSEC_PER_USEC) },
		{ (s64)(s->value / NSEC_PER_SEC), (s64)(s->value % NSEC_PER_SEC / NSEC_PER_USEC) },
	};
}

static bool timeval_to_ns(const struct timeval64 *tv, u64 *ns)
{
	struct timespec64 ts = { tv->tv_sec, tv->tv_usec * 1000 };

	if (tv->tv_usec < 0 || tv->tv_usec >= 1000000 || !timespec_valid(&ts))
		return false;
	*ns = timespec_to_ns(&ts);
	return true;
}

SYSCALL_DEFINE(getitimer, int which, struct itimerval __user *ucur)
{
	unsigned long flags;

	if (which < ITIMER_REAL || which > ITIMER_PROF)
		return -EINVAL;
	struct sighand *sh = lock_sighand(current->process, &flags);
	struct setting s = current_setting_locked(current->process, which);
	unlock_sighand(sh, flags);
	struct itimerval cur = to_user(&s);
	return copy_out(ucur, &cur, sizeof(cur));
}

SYSCALL_DEFINE(setitimer, int which, const struct itimerval __user *unew, struct itimerval __user *uold)
{
	struct itimerval new = { 0 };
	struct setting s;

	if (unew && copy_in(&new, unew, sizeof(new)))
		return -EFAULT;
	if (!timeval_to_ns(&new.interval, &s.interval) || !timeval_to_ns(&new.value, &s.value))
		return -EINVAL;
	if (which < ITIMER_REAL || which > ITIMER_PROF)
		return -EINVAL;

	struct setting old = change_itimer(which, s);
	struct itimerval told = to_user(&old);
	return uold ? copy_out(uold, &told, sizeof(told)) : 0;
}

/* Seconds left of the old one: rounded, but never down to 0, which would mean that there was none. */
SYSCALL_DEFINE(alarm, unsigned int seconds)
{
	struct setting old = change_itimer(ITIMER_REAL, (struct setting){ 0, seconds * NSEC_PER_SEC });
	u64 whole = old.value / NSEC_PER_SEC, rest = old.value % NSEC_PER_SEC;

	return (long)(whole + ((!whole && rest) || rest >= NSEC_PER_SEC / 2));
}

/* -- CPU time -------------------------------------------------------------------------------------------------------- */

static void check_cpu_itimer_locked(struct process *p, int which, u64 now, int sig)
{
	struct cpu_itimer *it = &p->cpu_itimer[which - 1];

	if (!it->expires || now < it->expires)
		return;
	send_kernel_signal_locked(p, sig);
	it->expires = it->interval ? it->expires + ((now - it->expires) / it->interval + 1) * it->interval : 0;
}

/* Soft limit: SIGXCPU, once a second from then on. Hard limit: SIGKILL. */
static void check_cpu_limit_locked(struct process *p, u64 now)
{
	struct rlimit *limit = &p->rlim[RLIMIT_CPU];
	u64 seconds = now / NSEC_PER_SEC;

	if (limit->cur == RLIM_INFINITY || seconds < limit->cur)
		return;
	if (limit->max != RLIM_INFINITY && seconds >= limit->max) {
		send_kernel_signal_locked(p, SIGKILL);
	} else {
		send_kernel_signal_locked(p, SIGXCPU);
		limit->cur = seconds + 1;
	}
}

void cpu_timers_tick(struct task *t)
{
	struct process *p = t->process;
	unsigned long flags;

	if (likely(!READ_ONCE(p->cpu_timers_active) && READ_ONCE(p->rlim[RLIMIT_CPU].cur) == RLIM_INFINITY))
		return;
	if (!p->sighand || (t->flags & PF_EXITING))
		return;

	struct sighand *sh = lock_sighand(p, &flags);
	u64 utime, stime;
	process_cputime_locked(p, &utime, &stime);
	check_cpu_itimer_locked(p, ITIMER_VIRTUAL, utime, SIGVTALRM);
	check_cpu_itimer_locked(p, ITIMER_PROF, utime + stime, SIGPROF);
	check_cpu_limit_locked(p, utime + stime);
	posix_cpu_timers_tick_locked(t);
	if (!p->cpu_itimer[0].expires && !p->cpu_itimer[1].expires && !p->nr_posix_cpu_timers)
		p->cpu_timers_active = false;
	unlock_sighand(sh, flags);
}
