/* Interval timers and POSIX timers of a process: kernel/itimer.c, kernel/posix_timer.c. Clocks: kernel/clock.c. */
#ifndef KERNEL_ITIMER_H
#define KERNEL_ITIMER_H

#include "kernel/time.h"

struct process;
struct task;

/* The last thread exits: everything goes. Waits for functions that run; no lock held. */
void itimers_exit(struct process *p);
/* execve: POSIX timers go, interval timers stay. */
void posix_timers_exec(struct process *p);
/* CPU-time timers among the POSIX timers of the running task's process; timer interrupt, sighand locked. */
void posix_cpu_timers_tick_locked(struct task *t);

#define CLOCK_REALTIME			0
#define CLOCK_MONOTONIC			1
#define CLOCK_PROCESS_CPUTIME_ID	2
#define CLOCK_THREAD_CPUTIME_ID		3
#define CLOCK_MONOTONIC_RAW		4
#define CLOCK_REALTIME_COARSE		5
#define CLOCK_MONOTONIC_COARSE		6
#define CLOCK_BOOTTIME			7
#define CLOCK_REALTIME_ALARM		8
#define CLOCK_BOOTTIME_ALARM		9
#define CLOCK_TAI			11
#define TIMER_ABSTIME			1

/* Negative clock ids name the CPU clock of a task or process: ~pid << 3 | per-thread << 2 | which. */
#define CPUCLOCK_PROF		0
#define CPUCLOCK_VIRT		1
#define CPUCLOCK_SCHED		2
#define CPUCLOCK_PERTHREAD	4
static inline int cpuclock_pid(int clock) { return ~(clock >> 3); }
static inline int cpuclock_which(int clock) { return clock & 3; }

/* Now on any clock. 0 or -EINVAL (no such clock, or no such task, or not one we may look at). */
int clock_now(int clock, u64 *ns);
/* The ktime at which a wall clock or monotonic clock shows @ns; in the past gives a past ktime, far away saturates. */
u64 clock_to_ktime(int clock, u64 ns);
static inline bool clock_is_realtime(int clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_ALARM || clock == CLOCK_TAI;
}
static inline bool clock_is_cpu(int clock)
{
	return clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
}
/* All threads, past and present. LOCK_SIGHAND held or not taken: process_cputime() takes it. */
void process_cputime(struct process *p, u64 *utime_ns, u64 *stime_ns);
void process_cputime_locked(struct process *p, u64 *utime_ns, u64 *stime_ns);

#endif
