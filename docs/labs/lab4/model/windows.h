/*
 * Two threads in a chosen order. The debug kernel stops a thread at a window (kernel/race.h) until the program says "pass go"; a
 * thread that has to wait for another one is seen asleep. Nothing here depends on how fast anything is.
 */
#ifndef WINDOWS_H
#define WINDOWS_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE	4096l
#define RW	(PROT_READ | PROT_WRITE)
#define ANON	(MAP_PRIVATE | MAP_ANONYMOUS)

static void die(const char *why)
{
	puts(why);
	fflush(stdout);
	_exit(1);
}

static void command(const char *format, ...)
{
	char text[96];
	int fd = open("/sys/kernel/faultline/race", O_WRONLY), n;
	va_list ap;

	va_start(ap, format);
	n = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		die("no windows here: this test needs the debug kernel");
	close(fd);
}

static void pass_time(void)
{
	struct timespec ts = { 0, 1000000 };

	nanosleep(&ts, NULL);
}

static bool is_held(const char *window)
{
	char text[2048], want[64], *line;
	int fd = open("/sys/kernel/faultline/race", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	snprintf(want, sizeof(want), "hold %s:", window);
	line = strstr(text, want);
	return line && strstr(line, " holding");
}

/* -- accesses that may be refused -- */

static __thread sigjmp_buf back;

static void on_fault(int sig)
{
	siglongjmp(back, sig);
}

static void catch_faults(void)
{
	struct sigaction sa = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}

/* 0 or the signal. */
static int write_long(volatile long *p, long value)
{
	int sig = sigsetjmp(back, 0);

	if (!sig)
		*p = value;
	return sig;
}

/* -- threads; each on a CPU of its own choice, for one that is held with preemption off keeps its CPU -- */

struct actor {
	void		(*fn)(void *arg);
	void		*arg;
	int		cpu;
	pthread_t	thread;
	volatile pid_t	tid;
	volatile int	ready, done;
};

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *actor_main(void *arg)
{
	struct actor *a = arg;

	long here;

	run_on(a->cpu);
	write_long(&here, 0);		/* all that this needs is there from now on: the next fault is the one that is meant */
	a->tid = (pid_t)syscall(SYS_gettid);
	while (!a->ready)
		__builtin_ia32_pause();
	a->fn(a->arg);
	a->done = 1;
	return NULL;
}

/* It waits for `ready` on its CPU. */
static void create(struct actor *a, int cpu, void (*fn)(void *), void *arg)
{
	*a = (struct actor){ .fn = fn, .arg = arg, .cpu = cpu };
	if (pthread_create(&a->thread, NULL, actor_main, a))
		die("pthread_create");
	while (!a->tid)
		pass_time();
}

__attribute__((unused))
static void start_and_hold(struct actor *a, const char *window)
{
	command("hold %s:%d until go", window, a->tid);
	a->ready = 1;
	while (!is_held(window)) {
		if (a->done)
			die("the thread went past its window");
		pass_time();
	}
}

/* Starts it. False: it is through. True: it sleeps in the kernel, and still does some milliseconds later. */
__attribute__((unused))
static bool start_and_see_it_wait(struct actor *a)
{
	char path[64], text[256], *state;

	a->ready = 1;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", a->tid);
	for (int asleep = 0; asleep < 5; pass_time()) {
		int fd = open(path, O_RDONLY);
		ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

		close(fd);
		if (a->done)
			return false;
		text[n > 0 ? n : 0] = '\0';
		state = strrchr(text, ')');
		asleep = state && state[1] && state[2] == 'D' ? asleep + 1 : 0;
	}
	return true;
}

static void join(struct actor *a)
{
	pthread_join(a->thread, NULL);
}

#endif
