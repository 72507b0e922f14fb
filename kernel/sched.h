/* Scheduler interface: per-CPU run queues, stealing, affinity, preemption, tickless idle. */
#ifndef KERNEL_SCHED_H
#define KERNEL_SCHED_H

#include "kernel/errno.h"
#include "kernel/preempt.h"
#include "kernel/time.h"
#include "kernel/types.h"

struct task;

#define TASK_RUNNING		0x00
#define TASK_INTERRUPTIBLE	0x01	/* any signal wakes */
#define TASK_UNINTERRUPTIBLE	0x02	/* only the event */
#define TASK_WAKEKILL		0x04	/* with UNINTERRUPTIBLE: a fatal signal wakes too */
#define TASK_STOPPED		0x08	/* job control; SIGCONT or SIGKILL wake */
#define TASK_DEAD		0x10	/* will never run again */
#define TASK_NEW		0x20
#define TASK_KILLABLE		(TASK_UNINTERRUPTIBLE | TASK_WAKEKILL)
#define TASK_STATE_MASK		0x0fff
/* In a wake-up mode, not states: the waker will sleep at once; the waker and the woken work on the same thing. */
#define WAKE_SYNC		0x1000
#define WAKE_LOCAL		0x2000
#define TASK_NORMAL		(TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)

void sched_init(void);				/* boot CPU; makes the idle task of CPU 0 out of the boot context */
void sched_init_cpu(unsigned int cpu);		/* before an AP starts: its run queue and idle task */
void sched_start_ap(void) __noreturn;		/* end of the AP's bring-up: becomes its idle loop */
void cpu_idle_loop(void) __noreturn;

/* Give up the CPU. If current's state is not RUNNING it sleeps until woken. Preemption on, no spin lock held. */
void schedule(void);
/*
 * As schedule(), and @t, which waits for current in one of @mode's states, gets the CPU with what is left of the slice. Preemption is off on
 * entry (it keeps @t, which the caller need not count) and on when it returns.
 */
void schedule_to(struct task *t, unsigned int mode);
/* As schedule(), woken at the latest at @deadline (ktime ns). Returns false if the deadline has passed. */
bool schedule_until(u64 deadline);
void yield(void);
static inline void cond_resched(void) { if (unlikely(cpu_local_read(need_resched)) && !preempt_count()) preempt_schedule(); }

/* Make @t runnable if its state intersects @mode. True if this call woke it. Any context. */
bool wake_up_state(struct task *t, unsigned int mode);
bool wake_up_process(struct task *t);		/* TASK_NORMAL | TASK_WAKEKILL */
/*
 * A new task: sched_fork() sets all scheduler fields (policy, nice and affinity as current's) before anybody can find
 * it; wake_up_new_task() lets it run, once.
 */
void sched_fork(struct task *t);
void wake_up_new_task(struct task *t);

/*
 * For kernel/x86. schedule_tail(prev): first C code of a new task, still with the run-queue lock of the switch held
 * and interrupts off; returns with both released. preempt_schedule_irq(): interrupts off on entry and exit, on the way
 * out of an interrupt when need_resched is set and preempt_count() is 0.
 */
void schedule_tail(struct task *prev);
void preempt_schedule_irq(void);
struct task *sched_idle_task(unsigned int cpu);	/* valid after sched_init_cpu(cpu): the AP starts on its stack */
void kthread_exit(int result) __noreturn;	/* where a kernel thread's function returns to */

void set_current_state(unsigned int state);	/* full barrier: the condition is tested after it */

/* Kernel threads: share no mm, never take signals. NULL when out of memory. Runs until fn returns. */
struct task *kthread_run(int (*fn)(void *arg), void *arg, const char *name);

/* Timer interrupt (kernel/x86/apic.c calls it with interrupts off): time slice, expired timers, RCU. */
void sched_timer_interrupt(bool user_mode);
void sched_ipi(void);				/* reschedule IPI arrived */

int sched_set_affinity(struct task *t, cpumask_t mask);	/* 0 or -EINVAL when no online CPU is left */
void sched_set_nice(struct task *t, int nice);
unsigned long sched_nr_running(void);
void sched_loadavg(u64 avg[3]);			/* fixed point, 11 fraction bits, as in Linux */
u64 sched_idle_ns(unsigned int cpu);		/* for /proc/stat and /proc/uptime */
u64 sched_nr_switches(void);

/* CPU time of a task so far, what it is using right now included; never goes back. Any context. utime + stime is exact, the split is sampled. */
void task_cputime(const struct task *t, u64 *utime_ns, u64 *stime_ns);
/* Sums of one CPU for /proc/stat. */
void sched_cpu_times(unsigned int cpu, u64 *user_ns, u64 *nice_ns, u64 *system_ns, u64 *idle_ns);

#define SCHED_OTHER	0
#define SCHED_FIFO	1
#define SCHED_RR	2
#define SCHED_BATCH	3
#define SCHED_IDLE	5
/* @rt_priority 1-99 for FIFO and RR, 0 for the others; both checked by the caller. */
void sched_set_policy(struct task *t, int policy, unsigned int rt_priority);
#define SCHED_SLICE_NS	(4 * NSEC_PER_MSEC)

#endif
