/*
 * Host tests of kernel/mutex.c and kernel/rwsem.c: tasks are host threads, schedule() sleeps on a condition variable,
 * "on_cpu" means not asleep. Included before the file under test; stands in for the headers that would bring the CPU in.
 */
#ifndef SHIM_LOCK_HARNESS_H
#define SHIM_LOCK_HARNESS_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernel/types.h"
#include "kernel/percpu.h"
#include "kernel/lock_rank.h"
#include "kernel/lock_stat.h"

#define KERNEL_SPINLOCK_H
#define KERNEL_TASK_H
#define KERNEL_LOCK_COUNT_H
#define KERNEL_SIGNAL_H
#define KERNEL_RACE_H
#define KERNEL_PANIC_H

#define FAIL(...) do { fprintf(stderr, __VA_ARGS__); fputc('\n', stderr); abort(); } while (0)
#define assert(cond) do { if (!(cond)) FAIL("assert(%s) at %s:%d", #cond, __FILE__, __LINE__); } while (0)
#define race_window(name) do { if (random_below(8) == 0) sched_yield(); } while (0)

struct spinlock { u32 locked; };
#define SPINLOCK_INIT(class) { 0 }
static inline void cpu_relax(void) { sched_yield(); }
static inline void spin_lock_init(struct spinlock *l, enum lock_class class) { (void)class; l->locked = 0; }
static inline unsigned long spin_lock_irqsave(struct spinlock *l)
{
	while (__atomic_exchange_n(&l->locked, 1, __ATOMIC_ACQUIRE))
		sched_yield();
	return 0;
}
static inline void spin_unlock_irqrestore(struct spinlock *l, unsigned long flags)
{
	(void)flags;
	__atomic_store_n(&l->locked, 0, __ATOMIC_RELEASE);
}

struct task {
	u32 state;
	bool on_cpu, fatal;
	pthread_mutex_t m;
	pthread_cond_t c;
	unsigned seed;
};
static __thread struct task *this_task;
#undef current
#define current this_task

static inline unsigned random_below(unsigned n) { return (unsigned)rand_r(&current->seed) % n; }

#include "kernel/sched.h"

u64 ktime_get_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000ul + (u64)ts.tv_nsec;
}

void lock_stat_record(enum lock_class class, enum lock_mode mode, bool contended, u64 wait_ns)
{
	(void)class, (void)mode, (void)contended, (void)wait_ns;
}
static inline void lock_stat_acquired(enum lock_class class, enum lock_mode mode) { (void)class, (void)mode; }

void set_current_state(unsigned int state)
{
	__atomic_exchange_n(&current->state, state, __ATOMIC_SEQ_CST);
}

void schedule(void)
{
	pthread_mutex_lock(&current->m);
	__atomic_store_n(&current->on_cpu, false, __ATOMIC_RELEASE);
	while (__atomic_load_n(&current->state, __ATOMIC_SEQ_CST) != TASK_RUNNING)
		pthread_cond_wait(&current->c, &current->m);
	__atomic_store_n(&current->on_cpu, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&current->m);
}

bool wake_up_process(struct task *t)
{
	pthread_mutex_lock(&t->m);
	bool woken = t->state != TASK_RUNNING;
	__atomic_store_n(&t->state, TASK_RUNNING, __ATOMIC_SEQ_CST);
	pthread_cond_signal(&t->c);
	pthread_mutex_unlock(&t->m);
	return woken;
}

static bool fatal_signal_pending(void) { return __atomic_load_n(&current->fatal, __ATOMIC_ACQUIRE); }
static bool __unused signal_pending(void) { return fatal_signal_pending(); }
static void __unused kill_task(struct task *t)
{
	__atomic_store_n(&t->fatal, true, __ATOMIC_RELEASE);
	wake_up_process(t);
}
static void __unused task_setup(struct task *t, unsigned seed)
{
	t->on_cpu = true;
	t->seed = seed;
	pthread_mutex_init(&t->m, NULL);
	pthread_cond_init(&t->c, NULL);
}

#endif
