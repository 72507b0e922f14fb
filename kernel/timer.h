/* One-shot kernel timers, absolute ktime nanoseconds; the function runs in the timer interrupt of the arming CPU. */
#ifndef KERNEL_TIMER_H
#define KERNEL_TIMER_H

#include "kernel/heap.h"
#include "kernel/types.h"

struct timer {
	u64		 expires;		/* timer-base lock of the CPU it is queued on */
	void		(*func)(struct timer *t);	/* interrupt context: must not sleep; may re-arm */
	int		 cpu;			/* -1: not queued */
	u32		 base;			/* CPU whose base guards it, also while not queued */
	struct heap_node node;
};

void timer_setup(struct timer *t, void (*func)(struct timer *t));
void timer_arm(struct timer *t, u64 expires);		/* (re)arms; any context */
bool timer_cancel(struct timer *t);			/* true if it was pending; may still be running elsewhere */
bool timer_cancel_sync(struct timer *t);		/* also waits for a running function; not from the function itself */
static inline bool timer_pending(const struct timer *t) { return READ_ONCE(t->cpu) >= 0; }

/* For the scheduler: run what is due on this CPU; the earliest pending expiry (U64_MAX if none). Interrupts off. */
void timers_run(u64 now);
u64 timers_next(void);
void timers_init_cpu(unsigned int cpu);
/*
 * kernel/x86: the next timer interrupt of this CPU comes at ktime @expires (absolute ns; soon when already past).
 * Replaces what was programmed. Interrupts off. Far deadlines may come early: the handler looks at the clock.
 */
void clock_event_program(u64 expires);
/* This CPU needs a timer interrupt at @expires at the latest; programs only if none comes earlier. Interrupts off. */
void clock_event_need(u64 expires);

struct task;
/* Timer tick of the running task @t: timers and limits on CPU time (kernel/itimer.c). Interrupt, no lock held. */
void cpu_timers_tick(struct task *t);

/* Deferred work in process context (kernel threads); may sleep. */
struct work { struct work *next; void (*func)(struct work *w); u32 queued; };
void work_init(struct work *w, void (*func)(struct work *w));
void workqueue_init(void);				/* starts the threads; after process_init() */
bool schedule_work(struct work *w);			/* any context; false if already queued */

#endif
