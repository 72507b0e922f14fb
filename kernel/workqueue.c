/*
 * Deferred work: functions that may sleep, asked for where nobody may. One queue, served by a few threads, first come
 * first served; several may run at once, each work only once at a time per queueing.
 *
 * Easy to break: `queued` is cleared before the function runs, so the function may free its work or queue it again, and a
 * schedule_work() that comes while it runs is not lost.
 */
#include "kernel/panic.h"
#include "kernel/percpu.h"
#include "kernel/printk.h"
#include "kernel/sched.h"
#include "kernel/spinlock.h"
#include "kernel/task.h"
#include "kernel/timer.h"
#include "kernel/wait.h"

#define MAX_WORKERS	4		/* one that sleeps long must not hold up the others */

static struct {
	struct spinlock	 lock;		/* LOCK_LEAF_IRQ: first, last */
	struct work	*first, **last;
	struct wait_queue idle;		/* workers without work */
} queue = {
	.lock = SPINLOCK_INIT(LOCK_LEAF_IRQ),
	.last = &queue.first,
	.idle = WAIT_QUEUE_INIT(queue.idle),
};

void work_init(struct work *w, void (*func)(struct work *w))
{
	*w = (struct work){ .func = func };
}

bool schedule_work(struct work *w)
{
	if (__atomic_exchange_n(&w->queued, 1, __ATOMIC_ACQ_REL))
		return false;

	unsigned long flags = spin_lock_irqsave(&queue.lock);
	w->next = NULL;
	*queue.last = w;
	queue.last = &w->next;
	spin_unlock_irqrestore(&queue.lock, flags);
	wake_up(&queue.idle);
	return true;
}

static struct work *take_work(void)
{
	unsigned long flags = spin_lock_irqsave(&queue.lock);
	struct work *w = queue.first;

	if (w) {
		queue.first = w->next;
		if (!queue.first)
			queue.last = &queue.first;
	}
	spin_unlock_irqrestore(&queue.lock, flags);
	return w;
}

static int worker(void *arg)
{
	(void)arg;
	for (;;) {
		struct work *w;

		wait_event_interruptible_exclusive(&queue.idle, READ_ONCE(queue.first) != NULL);
		while ((w = take_work())) {
			void (*func)(struct work *) = w->func;

			__atomic_store_n(&w->queued, 0, __ATOMIC_RELEASE);
			func(w);
			cond_resched();
		}
	}
	return 0;
}

void workqueue_init(void)
{
	for (unsigned int i = 0; i < MAX_WORKERS; i++) {
		char name[TASK_COMM_LEN];

		snprintf(name, sizeof(name), "worker/%u", i);
		if (!kthread_run(worker, NULL, name) && i == 0)
			halt_with_message("Not enough memory to start a worker thread.");
	}
}
