/*
 * Clocks run, sleeps last, timers send what they should: clock_*, nanosleep, itimers, alarm, POSIX timers, CPU time.
 * cpus: 1 2
 * timeout: 60
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

#include "test.h"

static double now(int clock)
{
	struct timespec ts;

	CHECK(!syscall(SYS_clock_gettime, clock, &ts));
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void spin(double seconds)
{
	double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 100000; i++)
			;
}

static void clocks(void)
{
	static const int good[] = { 0, 1, 2, 3, 4, 5, 6, 7, 11 };
	struct timespec ts;

	for (unsigned i = 0; i < sizeof(good) / sizeof(*good); i++) {
		double last = now(good[i]);
		for (int n = 0; n < 100; n++) {
			double next = now(good[i]);
			CHECK(next >= last);
			last = next;
		}
		CHECK_EQUAL(0, syscall(SYS_clock_getres, good[i], &ts));
		CHECK(ts.tv_sec == 0 && ts.tv_nsec > 0 && ts.tv_nsec <= 10000000);
		CHECK_EQUAL(0, syscall(SYS_clock_getres, good[i], NULL));
	}
	CHECK_ERRNO(EINVAL, syscall(SYS_clock_gettime, 10, &ts));
	CHECK_ERRNO(EINVAL, syscall(SYS_clock_gettime, 99, &ts));
	CHECK_ERRNO(EFAULT, syscall(SYS_clock_gettime, 0, (void *)8));
	CHECK_ERRNO(EINVAL, syscall(SYS_clock_settime, CLOCK_MONOTONIC, &ts));
	ts = (struct timespec){ 100, 1000000000 };
	CHECK_ERRNO(EINVAL, syscall(SYS_clock_settime, CLOCK_REALTIME, &ts));
	CHECK(now(CLOCK_REALTIME) > 1500000000.0);
	double r = now(CLOCK_REALTIME), t = (double)time(NULL);
	struct timeval tv;
	CHECK(!gettimeofday(&tv, NULL));
	CHECK(t - r < 1.5 && r - t < 1.5 && (double)tv.tv_sec - r < 1.5 && r - (double)tv.tv_sec < 1.5);

	clockid_t id;
	CHECK_EQUAL(0, clock_getcpuclockid(0, &id));
	CHECK_EQUAL(0, clock_gettime(id, &ts));
	CHECK_EQUAL(0, pthread_getcpuclockid(pthread_self(), &id));
	CHECK_EQUAL(0, clock_gettime(id, &ts));
}

static volatile int signals;
static void on_signal(int sig) { (void)sig; signals++; }

static void sleeps(void)
{
	struct timespec ms30 = { 0, 30000000 }, bad = { 0, -1 }, left, at;
	double start = now(CLOCK_MONOTONIC);

	CHECK_EQUAL(0, nanosleep(&ms30, NULL));
	CHECK(now(CLOCK_MONOTONIC) - start >= 0.030);
	CHECK_ERRNO(EINVAL, nanosleep(&bad, NULL));
	CHECK_ERRNO(EOPNOTSUPP, syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &ms30, NULL));
	CHECK_ERRNO(EOPNOTSUPP, syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC_RAW, 0, &ms30, NULL));
	CHECK_ERRNO(EINVAL, syscall(SYS_clock_nanosleep, 77, 0, &ms30, NULL));
	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_sec -= 10;
	CHECK_EQUAL(0, syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL));
	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_nsec += 30000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_nsec -= 1000000000;
		at.tv_sec++;
	}
	CHECK_EQUAL(0, syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL));
	CHECK(now(CLOCK_MONOTONIC) >= (double)at.tv_sec + (double)at.tv_nsec / 1e9);

	/* A signal ends it and the rest is told. */
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct itimerval it = { { 0, 0 }, { 0, 50000 } };
	struct timespec s2 = { 2, 0 };
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	CHECK_ERRNO(EINTR, nanosleep(&s2, &left));
	CHECK(left.tv_sec == 1 && left.tv_nsec > 0);
	CHECK_EQUAL(1, signals);
}

static void interval_timers(void)
{
	struct itimerval it = { { 0, 20000 }, { 0, 20000 } }, cur, off = { { 0, 0 }, { 0, 0 } };

	signals = 0;
	CHECK_EQUAL(0, setitimer(ITIMER_REAL, &it, NULL));
	while (signals < 5)
		pause();
	CHECK_EQUAL(0, getitimer(ITIMER_REAL, &cur));
	CHECK(cur.it_interval.tv_usec == 20000 && cur.it_value.tv_usec > 0 && cur.it_value.tv_usec <= 20000);
	CHECK_EQUAL(0, setitimer(ITIMER_REAL, &off, &cur));
	CHECK(cur.it_interval.tv_usec == 20000);
	CHECK_EQUAL(0, getitimer(ITIMER_REAL, &cur));
	CHECK(!cur.it_value.tv_sec && !cur.it_value.tv_usec);
	CHECK_ERRNO(EINVAL, setitimer(3, &off, NULL));
	it.it_value.tv_usec = 1000000;
	CHECK_ERRNO(EINVAL, setitimer(ITIMER_REAL, &it, NULL));

	CHECK_EQUAL(0, alarm(100));
	CHECK_EQUAL(100, alarm(0));
	CHECK_EQUAL(0, alarm(0));

	/* CPU time: only while we compute. */
	signal(SIGVTALRM, on_signal);
	signal(SIGPROF, on_signal);
	signals = 0;
	it = (struct itimerval){ { 0, 0 }, { 0, 50000 } };
	CHECK_EQUAL(0, setitimer(ITIMER_VIRTUAL, &it, NULL));
	usleep(100000);
	CHECK_EQUAL(0, signals);
	spin(0.3);
	CHECK_EQUAL(1, signals);
	CHECK_EQUAL(0, setitimer(ITIMER_PROF, &it, NULL));
	spin(0.3);
	CHECK_EQUAL(2, signals);
}

static volatile int code, value, timer_signals;
static void on_info(int sig, siginfo_t *si, void *uc)
{
	(void)sig, (void)uc;
	timer_signals++;
	code = si->si_code;
	value = si->si_value.sival_int;
}

static void posix_timers(void)
{
	struct sigaction sa = { .sa_sigaction = on_info, .sa_flags = SA_SIGINFO };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 42 };
	struct itimerspec its = { { 0, 0 }, { 0, 20000000 } }, cur;
	timer_t id, none;

	sigaction(SIGRTMIN, &sa, NULL);
	MUST(!timer_create(CLOCK_MONOTONIC, &ev, &id));
	CHECK_EQUAL(0, timer_gettime(id, &cur));
	CHECK(!cur.it_value.tv_sec && !cur.it_value.tv_nsec);
	CHECK_EQUAL(0, timer_settime(id, 0, &its, NULL));
	while (!timer_signals)
		usleep(1000);
	CHECK_EQUAL(SI_TIMER, code);
	CHECK_EQUAL(42, value);
	CHECK_EQUAL(0, timer_getoverrun(id));

	/* Blocked for ten periods: one signal, nine or so overruns. */
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	its = (struct itimerspec){ { 0, 10000000 }, { 0, 10000000 } };
	CHECK_EQUAL(0, timer_settime(id, 0, &its, NULL));
	usleep(105000);
	its = (struct itimerspec){ { 0, 0 }, { 0, 0 } };
	timer_signals = 0;
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	CHECK(timer_signals >= 1);
	CHECK_EQUAL(0, timer_settime(id, 0, &its, &cur));
	CHECK(cur.it_interval.tv_nsec == 10000000);
	CHECK_EQUAL(0, timer_delete(id));
	CHECK_ERRNO(EINVAL, syscall(SYS_timer_delete, 99));
	CHECK_ERRNO(EINVAL, syscall(SYS_timer_gettime, 99, &cur));

	ev.sigev_notify = SIGEV_NONE;
	MUST(!timer_create(CLOCK_REALTIME, &ev, &none));
	its = (struct itimerspec){ { 0, 0 }, { 100, 0 } };
	CHECK_EQUAL(0, timer_settime(none, 0, &its, NULL));
	CHECK_EQUAL(0, timer_gettime(none, &cur));
	CHECK(cur.it_value.tv_sec >= 98 && cur.it_value.tv_sec <= 100);
	its.it_value.tv_nsec = 1000000000;
	CHECK_ERRNO(EINVAL, timer_settime(none, 0, &its, NULL));
	CHECK_EQUAL(0, timer_delete(none));
	ev.sigev_notify = 99;
	CHECK_ERRNO(EINVAL, timer_create(CLOCK_REALTIME, &ev, &none));
	ev.sigev_notify = SIGEV_SIGNAL;
	CHECK_ERRNO(EINVAL, timer_create(77, &ev, &none));
	CHECK_ERRNO(EOPNOTSUPP, syscall(SYS_timer_create, CLOCK_MONOTONIC_RAW, &ev, &none));

	timer_signals = 0;
	MUST(!timer_create(CLOCK_PROCESS_CPUTIME_ID, &ev, &id));
	its = (struct itimerspec){ { 0, 0 }, { 0, 50000000 } };
	CHECK_EQUAL(0, timer_settime(id, 0, &its, NULL));
	usleep(100000);
	CHECK_EQUAL(0, timer_signals);
	spin(0.3);
	CHECK_EQUAL(1, timer_signals);
	timer_delete(id);
}

static void cpu_time(void)
{
	struct rusage before, after;
	struct tms t1, t2;

	getrusage(RUSAGE_SELF, &before);
	times(&t1);
	spin(0.5);
	getrusage(RUSAGE_SELF, &after);
	times(&t2);
	double used = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) + (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
		(double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1e6 + (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
	CHECK(used >= 0.49 && used < 1.5);
	CHECK(t2.tms_utime + t2.tms_stime - t1.tms_utime - t1.tms_stime >= 48);
	double start = now(CLOCK_PROCESS_CPUTIME_ID);
	usleep(200000);
	CHECK(now(CLOCK_PROCESS_CPUTIME_ID) - start < 0.1);
}

/* RLIMIT_CPU: SIGXCPU at the soft limit. */
static void burn(void *unused)
{
	struct rlimit rl = { 1, 10 };

	(void)unused;
	setrlimit(RLIMIT_CPU, &rl);
	spin(5);
	_exit(1);
}

int main(void)
{
	clocks();
	sleeps();
	interval_timers();
	posix_timers();
	cpu_time();
	int status = in_child(burn, NULL);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU);
	test_end();
}
