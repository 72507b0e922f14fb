/*
 * Affinity is obeyed, nice and policies are kept, tasks that compute share the CPU, a task that sleeps gets it when it wakes,
 * and thousands of runnable tasks are no trouble.
 * cpus: 1 2 4
 * timeout: 90
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "test.h"

static long ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int nr_cpus;

static void affinity(void)
{
	unsigned long mask = 0, all;

	CHECK_EQUAL(8, syscall(SYS_sched_getaffinity, 0, 8, &all));
	nr_cpus = __builtin_popcountl(all);
	CHECK_ERRNO(EINVAL, syscall(SYS_sched_getaffinity, 0, 7, &all));
	CHECK_ERRNO(ESRCH, syscall(SYS_sched_getaffinity, 999999, 8, &all));
	CHECK_ERRNO(EINVAL, syscall(SYS_sched_setaffinity, 0, 8, &mask));
	CHECK_ERRNO(EFAULT, syscall(SYS_sched_setaffinity, 0, 8, (void *)8));
	for (int round = 0; round < 50; round++) {
		for (int cpu = 0; cpu < nr_cpus; cpu++) {
			unsigned where;
			mask = 1ul << cpu;
			CHECK_EQUAL(0, syscall(SYS_sched_setaffinity, 0, 8, &mask));
			CHECK_EQUAL(0, syscall(SYS_getcpu, &where, NULL, NULL));
			CHECK_EQUAL(cpu, where);
		}
	}
	CHECK_EQUAL(0, syscall(SYS_sched_setaffinity, 0, 8, &all));
}

static void policies(void)
{
	struct sched_param p = { .sched_priority = 0 };

	CHECK_EQUAL(0, syscall(SYS_sched_getscheduler, 0));
	CHECK_EQUAL(99, sched_get_priority_max(SCHED_FIFO));
	CHECK_EQUAL(1, sched_get_priority_min(SCHED_RR));
	CHECK_EQUAL(0, sched_get_priority_max(SCHED_OTHER));
	CHECK_ERRNO(EINVAL, sched_get_priority_max(77));
	CHECK_ERRNO(EINVAL, syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &p));
	p.sched_priority = 5;
	CHECK_ERRNO(EINVAL, syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &p));
	CHECK_EQUAL(0, syscall(SYS_sched_setscheduler, 0, SCHED_RR, &p));
	CHECK_EQUAL(SCHED_RR, syscall(SYS_sched_getscheduler, 0));
	p.sched_priority = 0;
	CHECK_EQUAL(0, syscall(SYS_sched_getparam, 0, &p));
	CHECK_EQUAL(5, p.sched_priority);
	p.sched_priority = 0;
	CHECK_EQUAL(0, syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &p));

	CHECK_EQUAL(0, getpriority(PRIO_PROCESS, 0));
	CHECK_EQUAL(0, setpriority(PRIO_PROCESS, 0, 100));
	CHECK_EQUAL(19, getpriority(PRIO_PROCESS, 0));
	CHECK_EQUAL(0, setpriority(PRIO_PROCESS, 0, 0));
	CHECK_ERRNO(EINVAL, setpriority(7, 0, 0));
	CHECK_ERRNO(ESRCH, setpriority(PRIO_PROCESS, 999999, 0));
}

/* Four processes on one CPU for a second; the nice one gets clearly less. */
struct shares { volatile long count[4]; volatile int stop; };

static void fairness(void)
{
	struct shares *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[4];
	unsigned long one = 1;

	MUST(s != MAP_FAILED);
	for (int i = 0; i < 4; i++) {
		pids[i] = fork();
		MUST(pids[i] >= 0);
		if (!pids[i]) {
			syscall(SYS_sched_setaffinity, 0, 8, &one);
			if (i == 3)
				setpriority(PRIO_PROCESS, 0, 10);
			while (!s->stop)
				s->count[i]++;
			_exit(0);
		}
	}
	usleep(200000);
	long begin[4];
	for (int i = 0; i < 4; i++)
		begin[i] = s->count[i];
	usleep(1500000);
	long got[4], sum = 0;
	for (int i = 0; i < 4; i++) {
		got[i] = s->count[i] - begin[i];
		if (i < 3)
			sum += got[i];
	}
	s->stop = 1;
	for (int i = 0; i < 4; i++)
		waitpid(pids[i], NULL, 0);
	for (int i = 0; i < 3; i++)
		CHECK(got[i] > sum / 3 / 2 && got[i] < sum / 3 * 2);
	CHECK(got[3] > 0 && got[3] < sum / 3 / 2);
}

/* While every CPU computes, somebody who sleeps 1 ms at a time is not kept waiting long. */
static void latency(void)
{
	pid_t pids[16];
	int n = nr_cpus * 2 < 16 ? nr_cpus * 2 : 16;
	long worst = 0;

	for (int i = 0; i < n; i++) {
		pids[i] = fork();
		MUST(pids[i] >= 0);
		if (!pids[i])
			for (;;)
				;
	}
	for (int i = 0; i < 200; i++) {
		long start = ms();
		usleep(1000);
		if (ms() - start > worst)
			worst = ms() - start;
	}
	for (int i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	CHECK(worst < 500);			/* a lost wake-up is for ever; a busy host may take its time */
}

static void *yielder(void *arg)
{
	for (int i = 0; i < 200; i++)
		sched_yield();
	__atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void many(void)
{
	enum { N = 500 };
	static pthread_t t[N];
	static int done;
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	for (int i = 0; i < N; i++)
		MUST(!pthread_create(&t[i], &attr, yielder, &done));
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	CHECK_EQUAL(N, done);
}

/* Tokens go round through pipes: a lost wake-up hangs. */
static void ping_pong(void)
{
	int to[2], from[2], status;
	char c = 0;

	MUST(!pipe(to) && !pipe(from));
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		close(to[1]);
		while (read(to[0], &c, 1) == 1)
			if (write(from[1], &c, 1) != 1)
				_exit(1);
		_exit(0);
	}
	close(to[0]);
	for (int i = 0; i < 20000; i++)
		MUST(write(to[1], &c, 1) == 1 && read(from[0], &c, 1) == 1);
	close(to[1]);
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
}

int main(void)
{
	affinity();
	policies();
	fairness();
	latency();
	many();
	ping_pong();
	test_end();
}
