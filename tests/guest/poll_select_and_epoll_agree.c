/*
 * poll, select and epoll tell the same about pipes, eventfds, timerfds and signalfds; epoll's level, edge and one-shot
 * modes; its errors; what happens when a watched descriptor is closed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>

#include "test.h"

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static short poll_now(int fd, short events)
{
	struct pollfd p = { fd, events, 0 };

	CHECK(poll(&p, 1, 0) >= 0);
	return p.revents;
}

static void pipes(void)
{
	int p[2];
	fd_set r, w;
	struct timeval zero = { 0, 0 };

	MUST(pipe(p) == 0);
	CHECK_EQUAL(0, poll_now(p[0], POLLIN));
	CHECK_EQUAL(POLLOUT, poll_now(p[1], POLLOUT));
	MUST(write(p[1], "x", 1) == 1);
	CHECK_EQUAL(POLLIN, poll_now(p[0], POLLIN));
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(p[0], &r);
	FD_SET(p[1], &w);
	CHECK_EQUAL(2, select(p[1] + 1, &r, &w, NULL, &zero));
	CHECK(FD_ISSET(p[0], &r) && FD_ISSET(p[1], &w));
	close(p[1]);
	CHECK_EQUAL(POLLIN | POLLHUP, poll_now(p[0], POLLIN));
	close(p[0]);

	MUST(pipe(p) == 0);
	close(p[0]);
	CHECK_EQUAL(POLLOUT | POLLERR, poll_now(p[1], POLLOUT));
	close(p[1]);
	CHECK_EQUAL(POLLNVAL, poll_now(p[1], POLLIN));
	FD_ZERO(&r);
	FD_SET(p[1], &r);
	CHECK_ERRNO(EBADF, select(p[1] + 1, &r, NULL, NULL, &zero));
	CHECK_ERRNO(EINVAL, select(-1, NULL, NULL, NULL, &zero));
	CHECK_ERRNO(EFAULT, poll((void *)8, 1, 0));
}

static void *late_writer(void *arg)
{
	usleep(50000);
	MUST(write(*(int *)arg, "y", 1) == 1);
	return NULL;
}

static void waits_end_in_time(void)
{
	int p[2];
	pthread_t t;
	double start = now();

	MUST(pipe(p) == 0);
	struct pollfd pf = { p[0], POLLIN, 0 };
	CHECK_EQUAL(0, poll(&pf, 1, 60));
	CHECK(now() - start >= 0.059);
	struct timespec ts = { 0, 20000000 };
	start = now();
	CHECK_EQUAL(0, ppoll(NULL, 0, &ts, NULL));
	CHECK(now() - start >= 0.019);
	pthread_create(&t, NULL, late_writer, &p[1]);
	CHECK_EQUAL(1, poll(&pf, 1, 10000));
	CHECK_EQUAL(POLLIN, pf.revents);
	pthread_join(t, NULL);
	close(p[0]);
	close(p[1]);
}

static void eventfds(void)
{
	int e = eventfd(3, EFD_NONBLOCK), s = eventfd(2, EFD_NONBLOCK | EFD_SEMAPHORE);
	uint64_t v = 0;

	MUST(e >= 0 && s >= 0);
	CHECK_EQUAL(8, read(e, &v, 8));
	CHECK_EQUAL(3, v);
	CHECK_ERRNO(EAGAIN, read(e, &v, 8));
	CHECK_ERRNO(EINVAL, read(e, &v, 4));
	CHECK_EQUAL(POLLOUT, poll_now(e, POLLIN | POLLOUT));
	v = UINT64_MAX - 1;
	CHECK_EQUAL(8, write(e, &v, 8));
	CHECK_EQUAL(POLLIN, poll_now(e, POLLIN | POLLOUT));
	v = 1;
	CHECK_ERRNO(EAGAIN, write(e, &v, 8));
	v = UINT64_MAX;
	CHECK_ERRNO(EINVAL, write(e, &v, 8));
	CHECK_EQUAL(8, read(s, &v, 8));
	CHECK_EQUAL(1, v);
	CHECK_EQUAL(8, read(s, &v, 8));
	CHECK_ERRNO(EAGAIN, read(s, &v, 8));
	CHECK_ERRNO(EINVAL, eventfd(0, 0x100));
	close(e);
	close(s);
}

static void timerfds(void)
{
	int t = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	struct itimerspec its = { .it_value = { 0, 30000000 }, .it_interval = { 0, 10000000 } }, cur;
	uint64_t n = 0;

	MUST(t >= 0);
	CHECK_ERRNO(EAGAIN, read(t, &n, 8));
	CHECK_EQUAL(0, timerfd_settime(t, 0, &its, NULL));
	CHECK_EQUAL(0, timerfd_gettime(t, &cur));
	CHECK(cur.it_value.tv_nsec > 0 && cur.it_value.tv_nsec <= 30000000 && cur.it_interval.tv_nsec == 10000000);
	struct pollfd p = { t, POLLIN, 0 };
	CHECK_EQUAL(1, poll(&p, 1, 5000));
	usleep(50000);
	CHECK_EQUAL(8, read(t, &n, 8));
	CHECK(n >= 4);
	its = (struct itimerspec){ 0 };
	CHECK_EQUAL(0, timerfd_settime(t, 0, &its, NULL));
	CHECK_EQUAL(0, poll_now(t, POLLIN));
	its.it_value.tv_sec = 1;		/* long past */
	CHECK_EQUAL(0, timerfd_settime(t, TFD_TIMER_ABSTIME, &its, NULL));
	CHECK_EQUAL(1, poll(&p, 1, 2000));
	its.it_value.tv_nsec = 1000000000;
	CHECK_ERRNO(EINVAL, timerfd_settime(t, 0, &its, NULL));
	CHECK_ERRNO(EINVAL, timerfd_create(77, 0));
	CHECK_ERRNO(EINVAL, timerfd_gettime(0, &cur));
	close(t);
}

static void signalfds(void)
{
	sigset_t set;
	struct signalfd_siginfo si;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int f = signalfd(-1, &set, SFD_NONBLOCK);
	MUST(f >= 0);
	CHECK_ERRNO(EAGAIN, read(f, &si, sizeof(si)));
	CHECK_EQUAL(0, poll_now(f, POLLIN));
	kill(getpid(), SIGUSR1);
	CHECK_EQUAL(POLLIN, poll_now(f, POLLIN));
	CHECK_EQUAL(sizeof(si), read(f, &si, sizeof(si)));
	CHECK_EQUAL(SIGUSR1, si.ssi_signo);
	CHECK_EQUAL(getpid(), si.ssi_pid);
	CHECK_ERRNO(EINVAL, read(f, &si, 10));
	close(f);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int wait_events(int ep, struct epoll_event *ev, int timeout)
{
	return epoll_wait(ep, ev, 8, timeout);
}

static void epoll_modes(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), p[2];
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 42 }, out[8];

	MUST(ep >= 0 && pipe(p) == 0);
	CHECK_EQUAL(0, epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev));
	CHECK_ERRNO(EEXIST, epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev));
	CHECK_EQUAL(0, wait_events(ep, out, 0));
	MUST(write(p[1], "ab", 2) == 2);
	CHECK_EQUAL(1, wait_events(ep, out, 1000));
	CHECK_EQUAL(42, out[0].data.u64);
	CHECK_EQUAL(EPOLLIN, out[0].events);
	CHECK_EQUAL(1, wait_events(ep, out, 0));		/* level: still there */
	ev.events = EPOLLIN | EPOLLET;
	CHECK_EQUAL(0, epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &ev));
	CHECK_EQUAL(1, wait_events(ep, out, 0));
	CHECK_EQUAL(0, wait_events(ep, out, 0));		/* edge: once */
	MUST(write(p[1], "c", 1) == 1);
	CHECK_EQUAL(1, wait_events(ep, out, 0));
	ev.events = EPOLLIN | EPOLLONESHOT;
	CHECK_EQUAL(0, epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &ev));
	CHECK_EQUAL(1, wait_events(ep, out, 0));
	MUST(write(p[1], "d", 1) == 1);
	CHECK_EQUAL(0, wait_events(ep, out, 0));		/* disarmed */
	CHECK_EQUAL(0, epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &ev));
	CHECK_EQUAL(1, wait_events(ep, out, 0));
	CHECK_EQUAL(0, epoll_ctl(ep, EPOLL_CTL_DEL, p[0], NULL));
	CHECK_ERRNO(ENOENT, epoll_ctl(ep, EPOLL_CTL_DEL, p[0], NULL));
	CHECK_ERRNO(ENOENT, epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &ev));

	ev.events = EPOLLIN;
	CHECK_EQUAL(0, epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev));
	close(p[0]);						/* the last reference: it leaves the epoll */
	CHECK_EQUAL(0, wait_events(ep, out, 0));
	close(p[1]);
	close(ep);
}

static void epoll_errors_and_nesting(void)
{
	int ep = epoll_create1(0), inner = epoll_create1(0), e = eventfd(0, 0), file = open("/proc/self/exe", O_RDONLY);
	struct epoll_event ev = { .events = EPOLLIN }, out[8];
	uint64_t one = 1;

	MUST(ep >= 0 && inner >= 0 && e >= 0 && file >= 0);
	CHECK_ERRNO(EPERM, epoll_ctl(ep, EPOLL_CTL_ADD, file, &ev));
	CHECK_ERRNO(EINVAL, epoll_ctl(ep, EPOLL_CTL_ADD, ep, &ev));
	CHECK_ERRNO(EINVAL, epoll_ctl(e, EPOLL_CTL_ADD, inner, &ev));
	CHECK_ERRNO(EBADF, epoll_ctl(ep, EPOLL_CTL_ADD, 999, &ev));
	CHECK_ERRNO(EINVAL, epoll_wait(ep, out, 0, 0));
	CHECK_ERRNO(EINVAL, epoll_create1(77));
	CHECK_ERRNO(EINVAL, syscall(SYS_epoll_create, 0));
	CHECK_EQUAL(0, epoll_ctl(ep, EPOLL_CTL_ADD, inner, &ev));
	CHECK_ERRNO(ELOOP, epoll_ctl(inner, EPOLL_CTL_ADD, ep, &ev));
	CHECK_EQUAL(0, epoll_ctl(inner, EPOLL_CTL_ADD, e, &ev));
	CHECK_EQUAL(0, wait_events(ep, out, 0));
	CHECK_EQUAL(0, poll_now(ep, POLLIN));
	MUST(write(e, &one, 8) == 8);
	CHECK_EQUAL(POLLIN, poll_now(ep, POLLIN));
	CHECK_EQUAL(1, wait_events(ep, out, 1000));
	MUST(read(e, &one, 8) == 8);
	CHECK_EQUAL(0, wait_events(ep, out, 0));
	CHECK_EQUAL(0, poll_now(ep, POLLIN));
	close(inner);
	close(ep);
	close(e);
	close(file);
}

static int storm_ep, storm_p[2];

static void *storm_waiter(void *arg)
{
	long got = 0;
	struct epoll_event out[4];
	char c;

	(void)arg;
	while (got < 2000) {
		int n = epoll_wait(storm_ep, out, 4, 2000);

		if (n <= 0)
			break;
		while (read(storm_p[0], &c, 1) == 1)
			got++;
	}
	return (void *)got;
}

static void no_wakeup_is_lost(void)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	pthread_t t;
	void *got;

	storm_ep = epoll_create1(0);
	MUST(pipe2(storm_p, O_NONBLOCK) == 0);
	MUST(epoll_ctl(storm_ep, EPOLL_CTL_ADD, storm_p[0], &ev) == 0);
	MUST(pthread_create(&t, NULL, storm_waiter, NULL) == 0);
	for (int i = 0; i < 2000; i++)
		while (write(storm_p[1], "z", 1) != 1)
			usleep(100);
	pthread_join(t, &got);
	CHECK_EQUAL(2000, (long)got);
	close(storm_ep);
	close(storm_p[0]);
	close(storm_p[1]);
}

int main(void)
{
	pipes();
	waits_end_in_time();
	eventfds();
	timerfds();
	signalfds();
	epoll_modes();
	epoll_errors_and_nesting();
	no_wakeup_is_lost();
	test_end();
}
