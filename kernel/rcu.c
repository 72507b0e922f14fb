/*
 * Read-copy-update by quiescent states. Readers only disable preemption, so a CPU that switches tasks, idles, or is
 * interrupted with preemption enabled holds no reference to anything it read before. A grace period is over when every
 * CPU has done one of these since it began.
 *
 *	updater				grace-period thread		reader's CPU
 *	unlink object
 *	call_rcu(push on stack)
 *					take all stacks
 *					gp++  ----------------------->	(reader started before may see the object)
 *									switch: seen = gp
 *					all seen == gp or idle
 *					run callbacks (free)
 *
 * Why it is correct: a reader that starts after its CPU set seen = gp has read the new gp, which was written after the
 * callbacks were taken, hence after the unlink: it cannot find the object. A reader that started earlier is over, as
 * the CPU could not switch inside. An idle CPU does not look at gp; its `watching` word is even while it idles, changed by
 * locked adds (full barriers) before the first and after the last read that anything on that CPU may do.
 *
 * One thread does it all: it sleeps a moment after the first callback so that one grace period serves many of them.
 */
#include "kernel/rcu.h"
#include "kernel/panic.h"
#include "kernel/sched.h"
#include "kernel/smp.h"
#include "kernel/spinlock.h"
#include "kernel/task.h"
#include "kernel/wait.h"
#include "mm/slab.h"

#define BATCH_DELAY_NS	(1 * NSEC_PER_MSEC)	/* gather callbacks; skipped when somebody waits */
#define POLL_NS		(NSEC_PER_MSEC / 2)	/* between looks at CPUs that are still busy */

struct rcu_cpu rcu_cpus[NR_CPUS] = { [0 ... NR_CPUS - 1] = { .watching = 1 } };

u64 rcu_gp;				/* read by every switch */

static struct {
	struct task	*thread;	/* constant once started */
	bool		 work;		/* callbacks may be queued, or somebody waits; cleared before looking */
	bool		 urgent;	/* somebody waits */
	u64		 batches_begun;	/* before the stacks are taken */
	u64		 batches_ripe;	/* after the grace period of the batch */
	u64		 batches_done;	/* after all its callbacks ran */
	struct wait_queue done;		/* ripe or done moved on */
} rcu = { .done = WAIT_QUEUE_INIT(rcu.done) };

/* -- the CPUs' side ------------------------------------------------------------------------------------------------ */

void rcu_kicked(void)
{
	if (!(preempt_count() & PREEMPT_MASK))
		rcu_quiescent();
	else if (rcu_cpus[smp_processor_id()].seen != READ_ONCE(rcu_gp))
		cpu_local_write(need_resched, 1);	/* the reader's preempt_enable() will switch, and that counts */
}

void rcu_idle_enter(void)
{
	struct rcu_cpu *rc = &rcu_cpus[smp_processor_id()];

	assert(rc->watching & 1);
	__atomic_fetch_add(&rc->watching, 1, __ATOMIC_SEQ_CST);
}

void rcu_idle_exit(void)
{
	struct rcu_cpu *rc = &rcu_cpus[smp_processor_id()];

	assert(!(rc->watching & 1));
	__atomic_fetch_add(&rc->watching, 1, __ATOMIC_SEQ_CST);
}

void rcu_irq_enter_idle(struct rcu_cpu *rc)
{
	if (!rc->irq_depth++)
		__atomic_fetch_add(&rc->watching, 1, __ATOMIC_SEQ_CST);
}

void rcu_irq_exit_idle(struct rcu_cpu *rc)
{
	if (!--rc->irq_depth)
		__atomic_fetch_add(&rc->watching, 1, __ATOMIC_SEQ_CST);
}

void rcu_init_cpu(unsigned int cpu)
{
	struct rcu_cpu *rc = &rcu_cpus[cpu];

	rc->watching = 1;
	rc->irq_depth = 0;
	rc->seen = READ_ONCE(rcu_gp);	/* it holds no reference from before its start */
}

/* -- callers ------------------------------------------------------------------------------------------------------- */

static void wake_thread(void)
{
	struct task *thread = __atomic_load_n(&rcu.thread, __ATOMIC_ACQUIRE);

	if (!READ_ONCE(rcu.work)) {
		WRITE_ONCE(rcu.work, true);
		if (thread)
			wake_up_process(thread);
	}
}

/*
 * Lost wake-up? The thread clears work, then takes the stacks (both with full barriers); we push, then test work. If
 * we see it still set, the thread has yet to clear it and will then find our callback.
 */
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	preempt_disable();
	struct rcu_cpu *rc = &rcu_cpus[smp_processor_id()];

	head->func = func;
	head->next = READ_ONCE(rc->callbacks);
	while (!__atomic_compare_exchange_n(&rc->callbacks, &head->next, head, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	wake_thread();
	preempt_enable();
}

/*
 * Waits until a batch that begins after now has got as far as @progress tells. Its grace period began after now, and all
 * callbacks queued so far are in it or in an earlier batch.
 */
static void wait_for_batch(const u64 *progress)
{
	might_sleep();
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	u64 target = READ_ONCE(rcu.batches_begun) + 1;

	WRITE_ONCE(rcu.urgent, true);
	WRITE_ONCE(rcu.work, true);
	if (rcu.thread)
		wake_up_process(rcu.thread);
	wait_event(&rcu.done, __atomic_load_n(progress, __ATOMIC_ACQUIRE) >= target);
}

void synchronize_rcu(void)
{
	wait_for_batch(&rcu.batches_ripe);
}

void rcu_barrier(void)
{
	wait_for_batch(&rcu.batches_done);
}

/*
 * kfree_rcu needs no function of its own: a small number cannot be a kernel function, so func holds the offset of the
 * rcu_head in the object instead.
 */
#define MAX_KFREE_OFFSET	4096ul

void kfree_rcu_cb(struct rcu_head *head, size_t offset)
{
	assert(offset < MAX_KFREE_OFFSET);
	call_rcu(head, (void (*)(struct rcu_head *))offset);
}

/* -- the grace-period thread --------------------------------------------------------------------------------------- */

static bool cpu_is_done(unsigned int cpu, u64 gp, u64 watching_at_start)
{
	struct rcu_cpu *rc = &rcu_cpus[cpu];
	u64 watching = __atomic_load_n(&rc->watching, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&rc->seen, __ATOMIC_ACQUIRE) >= gp || !(watching & 1) || watching != watching_at_start;
}

static void wait_for_grace_period(void)
{
	static u64 watching[NR_CPUS];		/* this thread only */
	unsigned int cpu;
	cpumask_t busy, left;
	u64 gp = rcu_gp + 1;

	__atomic_store_n(&rcu_gp, gp, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	preempt_disable();
	rcu_quiescent();			/* this thread reads nothing, so neither does its CPU */
	preempt_enable();
	busy = READ_ONCE(cpu_online_mask);
	for_each_cpu(cpu, busy)
		watching[cpu] = __atomic_load_n(&rcu_cpus[cpu].watching, __ATOMIC_SEQ_CST);

	for (unsigned int round = 0; ; round++) {
		left = busy;
		for_each_cpu(cpu, left)
			if (cpu_is_done(cpu, gp, watching[cpu]))
				busy &= ~BIT(cpu);
		if (!busy)
			return;
		/* Most CPUs switch or tick on their own in the first round; those that compute quietly are interrupted. */
		if (round)
			for_each_cpu(cpu, busy)
				smp_send_reschedule(cpu);
		set_current_state(TASK_INTERRUPTIBLE);
		schedule_until(ktime_get_ns() + POLL_NS);
	}
}

/* The callbacks of all CPUs, oldest first within each CPU. */
static struct rcu_head *take_callbacks(void)
{
	struct rcu_head *all = NULL;

	for (unsigned int cpu = 0; cpu < NR_CPUS; cpu++) {
		if (!READ_ONCE(rcu_cpus[cpu].callbacks))
			continue;
		struct rcu_head *h = __atomic_exchange_n(&rcu_cpus[cpu].callbacks, NULL, __ATOMIC_SEQ_CST);
		while (h) {
			struct rcu_head *next = h->next;
			h->next = all;
			all = h;
			h = next;
		}
	}
	return all;
}

static void run_callbacks(struct rcu_head *list)
{
	while (list) {
		struct rcu_head *h = list;

		list = h->next;
		if ((uintptr_t)h->func < MAX_KFREE_OFFSET)
			kfree((char *)h - (uintptr_t)h->func);
		else
			h->func(h);
		cond_resched();
	}
}

/* Sleeps as INTERRUPTIBLE, which no signal can disturb in a kernel thread and which does not count as load. */
static int rcu_thread(void *arg)
{
	(void)arg;
	for (;;) {
		for (;;) {
			set_current_state(TASK_INTERRUPTIBLE);
			if (READ_ONCE(rcu.work))
				break;
			schedule();
		}
		set_current_state(TASK_RUNNING);
		if (!READ_ONCE(rcu.urgent)) {
			/* rcu_barrier() wakes us early. */
			set_current_state(TASK_INTERRUPTIBLE);
			if (!READ_ONCE(rcu.urgent))
				schedule_until(ktime_get_ns() + BATCH_DELAY_NS);
			set_current_state(TASK_RUNNING);
		}

		WRITE_ONCE(rcu.urgent, false);
		__atomic_store_n(&rcu.work, false, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&rcu.batches_begun, 1, __ATOMIC_SEQ_CST);
		struct rcu_head *list = take_callbacks();
		wait_for_grace_period();
		__atomic_fetch_add(&rcu.batches_ripe, 1, __ATOMIC_SEQ_CST);
		wake_up_all(&rcu.done);
		run_callbacks(list);
		__atomic_fetch_add(&rcu.batches_done, 1, __ATOMIC_SEQ_CST);
		wake_up_all(&rcu.done);
	}
	return 0;
}

void rcu_init(void)
{
	struct task *t = kthread_run(rcu_thread, NULL, "rcu");

	if (!t)
		halt_with_message("Not enough memory to start the RCU thread.");
	__atomic_store_n(&rcu.thread, t, __ATOMIC_RELEASE);
	WRITE_ONCE(rcu.work, true);		/* what was queued before we came */
	wake_up_process(t);
}
