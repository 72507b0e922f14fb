/*
 * The scheduler: one run queue per CPU, fair by weighted CPU time (vruntime), with stealing by idle CPUs.
 *
 * A task on a CPU is rq->curr and in no heap; a runnable task that waits is in its CPU's heap, smallest vruntime first; a
 * sleeping task is in neither. on_rq means "runnable", on_cpu means "its registers or stack are still in use by a CPU".
 *
 * The three rules that are easy to break:
 *
 *  1. A switch holds the run-queue lock from before the choice until after the stack has changed; the task that comes out
 *     of switch_to() releases it (finish_switch), on whatever CPU it then is. So a task found in a heap under the
 *     lock has been switched out completely.
 *
 *  2. No wake-up is lost and none is done twice (wake_up_state). The sleeper sets its state, tests its condition, and
 *     goes; the waker makes the condition true, then looks at the state:
 *
 *	sleeper (schedule)			waker (wake_up_state, under pi_lock)
 *	state = INTERRUPTIBLE  (full barrier)	condition = true	(full barrier: pi_lock)
 *	condition? no				state & mode? no: it will see the condition. yes:
 *	lock rq; state still set? then		on_rq?  lock rq, still on_rq: state = RUNNING, done; it won't sleep
 *	    on_rq = false			!on_rq: wait until !on_cpu, then
 *	switch away; on_cpu = false; unlock	    choose a CPU, lock its rq, on_rq = true, enqueue
 *
 *  3. t->cpu of a runnable task changes only under the lock of the run queue it leaves, of a sleeping task only under its
 *     pi_lock. task_rq_lock() looks again after locking.
 *
 * Timer interrupts: an idle CPU has none but for its timers. A busy one has one at the end of the slice if others wait, and
 * otherwise a slow one (TICK_NS), for time accounting, CPU-time limits and RCU.
 */
#include "kernel/sched.h"
#include "kernel/heap.h"
#include "kernel/lock_stat.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/race.h"
#include "kernel/rcu.h"
#include "kernel/signal.h"
#include "kernel/smp.h"
#include "kernel/spinlock.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/timer.h"
#include "kernel/trace.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/thread.h"
#include "mm/mm.h"
#include "mm/tlb.h"

#define TICK_NS			(10 * NSEC_PER_MSEC)
#define BALANCE_NS		(16 * NSEC_PER_MSEC)
#define WAKEUP_GRANULARITY_NS	NSEC_PER_MSEC		/* lead a woken task needs over the running one to preempt it */
#define SLEEPER_BONUS_NS	(SCHED_SLICE_NS / 2)	/* how far before the others a sleeper may come back */
#define LOCAL_WAKE_NS		(NSEC_PER_MSEC / 2)	/* how long a task woken here waits before an idle CPU is told of it */
#define MAX_STEAL_WALK		256			/* tasks looked at for one that may come here */

/* Indexed by nice + 20; one step is about 10 % of CPU time between two tasks. 1024 = nice 0. As in Linux. */
static const u32 nice_to_weight[40] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
	1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
	110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
};

/* Guarded by lock unless stated; nr_running and min_vruntime are also read without, as hints. */
struct run_queue {
	struct spinlock	 lock;			/* LOCK_RUNQUEUE */
	u32		 nr_running;		/* heap + curr; the idle task does not count */
	struct heap	 ready;			/* runnable tasks that wait */
	struct task	*curr;
	struct task	*idle;			/* constant */
	u64		 min_vruntime;		/* never goes back; new and woken tasks start near it */

	/* From the choice to finish_switch(), for the task switched from. after_switch: one of the others is set. */
	bool		 after_switch;
	bool		 prev_dead;
	struct mm	*drop_mm;		/* borrowed page tables that nobody on this CPU uses any more */
	struct task	*migrate;		/* runnable, but no longer allowed here */

	bool		 polling;		/* idle, and looks at need_resched all the time: no interrupt needed */
	u64		 next_poll;		/* own CPU: see idle_poll() */
	s64		 nr_uninterruptible;	/* only the sum over all CPUs means anything */
	u64		 nr_switches;
	u64		 user_ns, nice_ns, system_ns, idle_ns;
	u64		 next_balance;
} __aligned(256);				/* a power of two: from number to queue and back by a shift */
_Static_assert(sizeof(struct run_queue) == 256, "see above");

static struct run_queue run_queues[NR_CPUS] = {
	[0 ... NR_CPUS - 1] = { .lock = SPINLOCK_INIT(LOCK_RUNQUEUE) },
};

/*
 * CPUs that sit in the idle loop and that nobody has picked yet. A waker that picks one takes its bit out, so two wakers do
 * not pick the same; the CPU puts it back when it finds nothing to do.
 */
static cpumask_t idle_mask __aligned(64);

static struct task boot_idle_task;		/* the boot context of CPU 0 becomes its idle task */

static inline struct run_queue *this_rq(void) { return &run_queues[smp_processor_id()]; }

static inline struct task *heap_task(struct heap_node *n) { return container_of(n, struct task, run_node); }

/* Who runs first: real-time priority, then least weighted CPU time. The difference is signed: vruntime may wrap. */
static inline bool runs_before(const struct heap_node *a, const struct heap_node *b)
{
	const struct task *s = container_of(a, struct task, run_node), *t = container_of(b, struct task, run_node);

	if (unlikely(s->rt_priority != t->rt_priority))
		return s->rt_priority > t->rt_priority;
	return (s64)(s->vruntime - t->vruntime) < 0;
}

static struct cpu_local *cpu_local_of(unsigned int cpu)
{
	return (struct cpu_local *)((uintptr_t)__percpu_start + percpu_offsets[cpu]);
}

/* @cpu must look at its queue. Its run-queue lock is held, or a look too many does no harm. */
static void resched_cpu(unsigned int cpu)
{
	if (cpu == smp_processor_id())
		cpu_local_write(need_resched, 1);
	else if (!__atomic_exchange_n(&cpu_local_of(cpu)->need_resched, 1, __ATOMIC_SEQ_CST) &&
		 !__atomic_load_n(&run_queues[cpu].polling, __ATOMIC_SEQ_CST))
		smp_send_reschedule(cpu);
}

static unsigned int rq_cpu(const struct run_queue *rq) { return (unsigned int)(rq - run_queues); }

/* -- CPU time -------------------------------------------------------------------------------------------------------- */

static inline u64 weighted(const struct task *t, u64 ns)
{
	if (likely(t->nice == 0 && t->policy != SCHED_IDLE))
		return ns;
	return ns * 1024 / (t->policy == SCHED_IDLE ? 3 : nice_to_weight[t->nice + 20]);
}

static void update_min_vruntime(struct run_queue *rq)
{
	struct heap_node *first = heap_first(&rq->ready);
	u64 v = rq->curr->vruntime;

	if (rq->curr->rt_priority || rq->curr == rq->idle) {
		if (!first)
			return;
		v = heap_task(first)->vruntime;
	} else if (first && !heap_task(first)->rt_priority && (s64)(heap_task(first)->vruntime - v) < 0) {
		v = heap_task(first)->vruntime;
	}
	if ((s64)(v - rq->min_vruntime) > 0)
		rq->min_vruntime = v;
}

/* Books the time since exec_start on the running task. Its rq locked. */
static void update_curr(struct run_queue *rq, u64 now)
{
	struct task *curr = rq->curr;
	u64 delta = now - curr->exec_start;

	if ((s64)delta <= 0)
		return;
	curr->exec_start = now;
	if (curr == rq->idle) {
		rq->idle_ns += delta;
		return;
	}
	curr->sum_exec_ns += delta;
	if (curr->acct_system) {
		curr->stime_ns += delta;
		rq->system_ns += delta;
	} else {
		curr->utime_ns += delta;
		if (unlikely(curr->nice > 0))
			rq->nice_ns += delta;
		else
			rq->user_ns += delta;
	}
	curr->vruntime += weighted(curr, delta);
	update_min_vruntime(rq);
}

/* Locks the queue of @t; interrupts are off. See rule 3 above. */
static struct run_queue *task_rq_lock(const struct task *t)
{
	for (;;) {
		struct run_queue *rq = &run_queues[READ_ONCE(t->cpu)];

		spin_lock(&rq->lock);
		if (likely(rq == &run_queues[READ_ONCE(t->cpu)]))
			return rq;
		spin_unlock(&rq->lock);
	}
}

/* Under the run-queue lock, so that a tick or switch elsewhere is counted once and the value never goes back. */
void task_cputime(const struct task *t, u64 *utime_ns, u64 *stime_ns)
{
	unsigned long flags = local_irq_save();
	struct run_queue *rq = task_rq_lock(t);
	u64 running = 0;

	if (rq->curr == t) {
		u64 now = ktime_get_ns();
		if (now > t->exec_start)
			running = now - t->exec_start;
	}
	*utime_ns = t->utime_ns + (t->acct_system ? 0 : running);
	*stime_ns = t->stime_ns + (t->acct_system ? running : 0);
	spin_unlock(&rq->lock);
	local_irq_restore(flags);
}

/* -- queues: rq locked ----------------------------------------------------------------------------------------------- */

static void put_ready(struct run_queue *rq, struct task *t)
{
	heap_insert(&rq->ready, &t->run_node, runs_before);
}

static void take_ready(struct run_queue *rq, struct task *t)
{
	heap_remove(&rq->ready, &t->run_node, runs_before);
}

/* The running task gets a slice of its own from now on, because somebody began to wait. */
static void start_slice(struct run_queue *rq, u64 now)
{
	rq->curr->slice_end = now + SCHED_SLICE_NS;
	if (rq == this_rq())
		clock_event_need(rq->curr->slice_end);
}

/* Does @t, just made ready, go before the running task? update_curr() was done. */
static bool preempts_curr(const struct run_queue *rq, const struct task *t)
{
	const struct task *curr = rq->curr;

	if (curr == rq->idle || t->rt_priority > curr->rt_priority)
		return true;
	if (t->rt_priority < curr->rt_priority || t->rt_priority)
		return false;
	return (s64)(curr->vruntime - t->vruntime) > (s64)WAKEUP_GRANULARITY_NS;
}

/*
 * A task that became runnable joins @rq. @bonus: how far before min_vruntime it may start; it keeps its own vruntime if
 * that is later, so nobody gains by sleeping shortly. @t->vruntime is already in the terms of this queue.
 */
static void place(struct run_queue *rq, struct task *t, s64 bonus)
{
	u64 earliest = rq->min_vruntime - (u64)bonus;

	if ((s64)(earliest - t->vruntime) > 0)
		t->vruntime = earliest;
	t->on_rq = true;
	put_ready(rq, t);
	rq->nr_running++;
}

static void enqueue_woken(struct run_queue *rq, struct task *t, s64 bonus)
{
	u64 now = ktime_get_ns();

	update_curr(rq, now);
	place(rq, t, bonus);
	if (preempts_curr(rq, t)) {
		resched_cpu(rq_cpu(rq));
	} else if (rq->nr_running == 2) {
		start_slice(rq, now);
		if (rq == this_rq() && (READ_ONCE(idle_mask) & t->affinity))
			clock_event_need(now + LOCAL_WAKE_NS);
		if (rq != this_rq())
			resched_cpu(rq_cpu(rq));	/* it must program its timer for the slice */
	}
}

/*
 * The same where the running task has promised to sleep at once (WAKE_SYNC) and this is its CPU: no question of
 * preemption, so no need to look at the clock. The timer is for a promise that is not kept.
 */
static void enqueue_sync(struct run_queue *rq, struct task *t)
{
	place(rq, t, SLEEPER_BONUS_NS);
	clock_event_need(rq->curr->slice_end);
}

/* From the terms of its old queue into those of @rq: what counts is the lead over the others. */
static void change_queue(struct task *t, struct run_queue *rq)
{
	struct run_queue *old = &run_queues[t->cpu];

	if (old != rq) {
		t->vruntime += READ_ONCE(rq->min_vruntime) - READ_ONCE(old->min_vruntime);
		WRITE_ONCE(t->cpu, rq_cpu(rq));
	}
}

/* -- choosing a CPU -------------------------------------------------------------------------------------------------- */

static cpumask_t allowed_cpus(const struct task *t)
{
	cpumask_t mask = READ_ONCE(t->affinity) & READ_ONCE(cpu_online_mask);

	return mask ? mask : READ_ONCE(cpu_online_mask);	/* never: affinities name an online CPU, and CPUs stay */
}

/* Takes @cpu out of the idle mask; true if we were the one. */
static bool claim_idle(unsigned int cpu)
{
	return (READ_ONCE(idle_mask) >> cpu & 1) && (__atomic_fetch_and(&idle_mask, ~BIT(cpu), __ATOMIC_RELAXED) >> cpu & 1);
}

/*
 * The CPU for a task that wakes or starts: where it was if that is idle, any other idle one, else the shorter of its own
 * queue and this one.
 *
 * WAKE_LOCAL and WAKE_SYNC: the two work on the same thing, and as a rule the waker will soon sleep. If it is alone here, its
 * CPU is as good as idle and has the data in its caches, and no idle CPU has to be woken. A waker that computes on
 * instead is found out by a timer (enqueue_woken), and an idle CPU is then asked to take the task.
 */
static unsigned int select_cpu(const struct task *t, unsigned int mode)
{
	cpumask_t allowed = allowed_cpus(t);
	unsigned int me = smp_processor_id(), prev = t->cpu;
	cpumask_t idle;

	if ((mode & (WAKE_SYNC | WAKE_LOCAL)) && (allowed >> me & 1) && READ_ONCE(run_queues[me].nr_running) <= 1 && !in_interrupt())
		return me;
	if (!(allowed >> prev & 1))
		prev = allowed >> me & 1 ? me : (unsigned int)__builtin_ctzll(allowed);
	while ((idle = READ_ONCE(idle_mask) & allowed)) {
		unsigned int cpu = prev;

		if (!(idle >> prev & 1)) {
			cpumask_t above = idle & ~(BIT(prev) | (BIT(prev) - 1));	/* not always the same ones */
			cpu = (unsigned int)__builtin_ctzll(above ? above : idle);
		}
		if (claim_idle(cpu))
			return cpu;
	}
	if ((allowed >> me & 1) && READ_ONCE(run_queues[prev].nr_running) > READ_ONCE(run_queues[me].nr_running) + 1)
		return me;
	return prev;
}

/* -- waking ---------------------------------------------------------------------------------------------------------- */

/* pi_lock held, interrupts off. True if @t was on a run queue and now stays there; then it was this wake-up that kept it. */
static bool wake_before_it_sleeps(struct task *t)
{
	struct run_queue *rq = task_rq_lock(t);
	bool runnable = t->on_rq;

	if (runnable)
		WRITE_ONCE(t->state, TASK_RUNNING);
	spin_unlock(&rq->lock);
	return runnable;
}

bool wake_up_state(struct task *t, unsigned int mode)
{
	unsigned long flags = spin_lock_irqsave(&t->pi_lock);	/* orders the caller's condition before the state */
	unsigned int state = READ_ONCE(t->state);
	bool woken = state & mode & TASK_STATE_MASK;

	if (!woken)
		goto unlock;
	/* From an interrupt on its own CPU: it is not inside schedule(), which has interrupts off. */
	if (t == current) {
		WRITE_ONCE(t->state, TASK_RUNNING);
		goto unlock;
	}
	/* on_rq is read after state: state was set by the task while on_rq was true, so false means it has left since. */
	if (__atomic_load_n(&t->on_rq, __ATOMIC_ACQUIRE) && wake_before_it_sleeps(t))
		goto unlock;

	/* It has left its queue, but its CPU may still be on its stack. That CPU holds its rq lock and waits for nobody. */
	while (__atomic_load_n(&t->on_cpu, __ATOMIC_ACQUIRE))
		cpu_relax();

	WRITE_ONCE(t->state, TASK_RUNNING);
	struct run_queue *rq = &run_queues[select_cpu(t, mode)];
	spin_lock(&rq->lock);
	if (state & TASK_UNINTERRUPTIBLE)
		rq->nr_uninterruptible--;
	change_queue(t, rq);
	if ((mode & WAKE_SYNC) && rq == this_rq() && !t->rt_priority && rq->curr != rq->idle)
		enqueue_sync(rq, t);
	else
		enqueue_woken(rq, t, SLEEPER_BONUS_NS);
	spin_unlock(&rq->lock);
unlock:
	spin_unlock_irqrestore(&t->pi_lock, flags);
	return woken;
}

bool wake_up_process(struct task *t)
{
	return wake_up_state(t, TASK_NORMAL | TASK_WAKEKILL);
}

static void sleep_timer_fired(struct timer *timer)
{
	wake_up_process(container_of(timer, struct task, sleep_timer));
}

void sched_fork(struct task *t)
{
	const struct task *parent = current;

	spin_lock_init(&t->pi_lock, LOCK_TASK_PI);
	t->state = TASK_NEW;
	t->on_cpu = t->on_rq = false;
	t->cpu = smp_processor_id();
	t->run_node = (struct heap_node){ 0 };
	t->nice = parent->nice;
	t->policy = parent->policy;
	t->rt_priority = parent->rt_priority;
	t->affinity = parent->affinity;
	t->vruntime = 0;
	t->sum_exec_ns = t->utime_ns = t->stime_ns = 0;
	t->nvcsw = t->nivcsw = 0;
	t->acct_system = false;
	timer_setup(&t->sleep_timer, sleep_timer_fired);
}

/* It starts a little behind the others, so a parent that forks all the time does not push them aside. */
void wake_up_new_task(struct task *t)
{
	if (!t->sleep_timer.func)
		sched_fork(t);

	unsigned long flags = spin_lock_irqsave(&t->pi_lock);
	assert(t->state == TASK_NEW);
	t->exec_start = ktime_get_ns();
	WRITE_ONCE(t->state, TASK_RUNNING);
	t->cpu = select_cpu(t, 0);
	struct run_queue *rq = &run_queues[t->cpu];
	spin_lock(&rq->lock);
	t->vruntime = rq->min_vruntime;
	enqueue_woken(rq, t, -(s64)SLEEPER_BONUS_NS);
	spin_unlock(&rq->lock);
	spin_unlock_irqrestore(&t->pi_lock, flags);
}

/* -- switching ------------------------------------------------------------------------------------------------------- */

/* A signal that came before the sleep ends it before it begins. */
static bool signal_forbids_sleep(const struct task *t, unsigned int state)
{
	if (likely(!t->sigpending))
		return false;
	return (state & TASK_INTERRUPTIBLE) || ((state & TASK_WAKEKILL) && fatal_signal_pending());
}

/* One ready task of another CPU that may run here, from the longest queue; NULL if none. Our rq locked, others by trylock. */
static struct task *steal_task(struct run_queue *rq)
{
	unsigned int me = rq_cpu(rq), cpu;
	cpumask_t others = READ_ONCE(cpu_online_mask) & ~BIT(me);

	while (others) {
		struct run_queue *busiest = NULL;

		for_each_cpu(cpu, others)
			if (READ_ONCE(run_queues[cpu].nr_running) > (busiest ? busiest->nr_running : 1))
				busiest = &run_queues[cpu];
		if (!busiest)
			return NULL;
		others &= ~BIT(rq_cpu(busiest));
		if (!spin_trylock(&busiest->lock))
			continue;

		int left = MAX_STEAL_WALK;
		struct task *t = NULL;
		for (struct heap_node *n = heap_first(&busiest->ready); n && left--; n = heap_walk_next(&busiest->ready, n)) {
			if (heap_task(n)->affinity & BIT(me)) {
				t = heap_task(n);
				take_ready(busiest, t);
				busiest->nr_running--;
				change_queue(t, rq);	/* both queues are locked */
				rq->nr_running++;
				break;
			}
		}
		spin_unlock(&busiest->lock);
		if (t)
			return t;
	}
	return NULL;
}

/* prev is not in the heap and, if it stays runnable, still counted. Returns the next task, not in the heap any more. */
static struct task *pick_next(struct run_queue *rq, struct task *prev, bool prev_stays)
{
	struct heap_node *first = heap_first(&rq->ready);

	if (prev_stays && (!first || !runs_before(first, &prev->run_node)))
		return prev;
	if (!first) {
		struct task *stolen = steal_task(rq);
		return stolen ? stolen : rq->idle;
	}
	take_ready(rq, heap_task(first));
	if (prev_stays)
		put_ready(rq, prev);
	return heap_task(first);
}

/*
 * Page tables for @next. A task without an mm borrows what is loaded and holds a reference, which goes from one such task
 * to the next and is dropped when a task with an mm of its own takes over (after the run queue is unlocked).
 */
static __attribute__((noinline)) void switch_borrowed_tables(struct run_queue *rq, struct task *prev, struct task *next)
{
	struct mm *loaded = prev->active_mm;

	if (next->mm) {
		switch_mm(loaded, next->mm);
		next->active_mm = next->mm;
		prev->active_mm = NULL;
		if (loaded != &init_mm) {	/* lives for ever, not counted */
			rq->drop_mm = loaded;
			rq->after_switch = true;
		}
		return;
	}
	next->active_mm = loaded;
	if (prev->mm) {
		if (loaded != &init_mm)
			mm_grab(loaded);
		enter_lazy_tlb(loaded);
	} else {
		prev->active_mm = NULL;
	}
}

static inline __attribute__((always_inline)) void switch_address_space(struct run_queue *rq, struct task *prev, struct task *next)
{
	if (unlikely(!prev->mm || !next->mm)) {
		switch_borrowed_tables(rq, prev, next);
		return;
	}
	next->active_mm = next->mm;
	if (next->mm != prev->active_mm)
		switch_mm(prev->active_mm, next->mm);
}

/* A task that may not stay here any more, now that it is off the CPU. Interrupts off, no lock held. */
static void push_away(struct task *t)
{
	spin_lock(&t->pi_lock);
	struct run_queue *rq = &run_queues[select_cpu(t, 0)];
	spin_lock(&rq->lock);
	change_queue(t, rq);
	enqueue_woken(rq, t, SLEEPER_BONUS_NS);
	spin_unlock(&rq->lock);
	spin_unlock(&t->pi_lock);
}

struct after_switch { struct mm *drop_mm; struct task *migrate; bool prev_dead; };

static struct after_switch take_after_switch(struct run_queue *rq)
{
	struct after_switch a = { rq->drop_mm, rq->migrate, rq->prev_dead };

	rq->drop_mm = NULL;
	rq->migrate = NULL;
	rq->prev_dead = rq->after_switch = false;
	return a;
}

static void release_switch(struct run_queue *rq, struct task *prev)
{
	__atomic_store_n(&prev->on_cpu, false, __ATOMIC_RELEASE);
	lock_rank_acquire(&rq->lock, LOCK_RUNQUEUE, true, true, (uintptr_t)__builtin_return_address(0));
	__spin_unlock(&rq->lock);
}

/* What some switches need when the lock is released: it may free, wake, and take other locks. */
static __attribute__((noinline)) void finish_special_switch(struct run_queue *rq, struct task *prev)
{
	struct after_switch a = take_after_switch(rq);

	release_switch(rq, prev);
	if (a.drop_mm)
		mm_drop(a.drop_mm);
	if (a.migrate)
		push_away(a.migrate);
	if (a.prev_dead)
		task_dead_switched_out(prev);
}

/*
 * What remains of a switch, run by the new task on its own stack: only now may others use @prev. The run-queue lock
 * was taken by @prev; for the checker, it changes hands here. Returns with interrupts still off.
 */
static inline __attribute__((always_inline)) void finish_switch(struct task *prev)
{
	struct run_queue *rq = this_rq();

	if (unlikely(rq->after_switch))
		finish_special_switch(rq, prev);
	else
		release_switch(rq, prev);
}

/* Interrupts off, preempt_count 1; returns so, perhaps on another CPU. @preempt: current goes on later whatever its state. */
static void __schedule(bool preempt)
{
	struct run_queue *rq = this_rq();
	struct task *prev = current, *next;
	bool stays = true;

	assert(irqs_disabled() && preempt_count() == 1);
	rcu_quiescent();
	__spin_lock(&rq->lock, false);		/* preemption is off already, and stays off when the lock is released */
	cpu_local_write(need_resched, 0);

	u64 now = ktime_get_ns();
	unsigned int state = READ_ONCE(prev->state);
	update_curr(rq, now);

	if (unlikely(prev == rq->idle)) {
		WRITE_ONCE(prev->state, TASK_RUNNING);	/* boot code that waits: it polls */
		stays = false;
	} else if (state != TASK_RUNNING && !preempt) {
		if (signal_forbids_sleep(prev, state)) {
			WRITE_ONCE(prev->state, TASK_RUNNING);
		} else {
			if (state & TASK_UNINTERRUPTIBLE)
				rq->nr_uninterruptible++;
			if (unlikely(state == TASK_DEAD))
				rq->prev_dead = rq->after_switch = true;
			rq->nr_running--;
			/* From here a waker may wait for on_cpu; it must not read on_rq as false before state was set. */
			__atomic_store_n(&prev->on_rq, false, __ATOMIC_RELEASE);
			stays = false;
		}
	}
	if (unlikely(stays && !(prev->affinity & BIT(rq_cpu(rq))))) {
		rq->migrate = prev;			/* stays on_rq: it is runnable, only not here */
		rq->after_switch = true;
		rq->nr_running--;
		stays = false;
	}

	next = pick_next(rq, prev, stays);
	next->exec_start = now;
	if (next != rq->idle) {
		next->slice_end = now + SCHED_SLICE_NS;
		clock_event_need(rq->nr_running > 1 ? next->slice_end : now + TICK_NS);
	}
	if (next == prev) {
		__spin_unlock(&rq->lock);
		return;
	}

	if (stays)
		prev->nivcsw++;
	else
		prev->nvcsw++;
	rq->nr_switches++;
	rq->curr = next;
	next->on_cpu = true;
	trace_event(TRACE_SWITCH, prev->tid, next->tid, state, 0);
	switch_address_space(rq, prev, next);
	lock_rank_release(&rq->lock, LOCK_RUNQUEUE);
	prev = switch_to(prev, next);
	finish_switch(prev);
}

/* May @t, asleep in one of @mode's states, run here and now, and will current really sleep? Both their locks held. */
static bool can_hand_over(struct run_queue *rq, struct task *t, unsigned int mode)
{
	const struct task *me = current;
	unsigned int state = READ_ONCE(me->state);

	if (!(READ_ONCE(t->state) & mode) || __atomic_load_n(&t->on_rq, __ATOMIC_ACQUIRE) || __atomic_load_n(&t->on_cpu, __ATOMIC_ACQUIRE))
		return false;
	if (!(t->affinity & me->affinity & BIT(rq_cpu(rq))) || t->rt_priority != me->rt_priority)
		return false;
	return state != TASK_RUNNING && !signal_forbids_sleep(me, state);
}

/*
 * The short way from one task to another: no clock, no choice, no heap. The CPU goes over with everything that belongs to the turn:
 * the slice, the vruntime and the time since it was last booked; one comes and one goes, so nr_running stays. The two work on one
 * thing, a call and its reply, and what the one uses counts for the other. Whoever runs when the clock is next looked at is
 * booked the whole, as with any sampling. Interrupts off, preempt_count 1. False: nothing has happened.
 */
static bool try_hand_over(struct task *t, unsigned int mode)
{
	struct run_queue *rq = this_rq();
	struct task *prev = current;

	if (cpu_local_read(need_resched))	/* the slice is over, or somebody more important waits */
		return false;
	__spin_lock(&t->pi_lock, false);	/* preemption is off already */
	__spin_lock(&rq->lock, false);
	if (unlikely(!can_hand_over(rq, t, mode))) {
		__spin_unlock(&rq->lock);
		__spin_unlock(&t->pi_lock);
		return false;
	}
	unsigned int state = READ_ONCE(prev->state);

	if (unlikely((state | t->state) & TASK_UNINTERRUPTIBLE))
		rq->nr_uninterruptible += !!(state & TASK_UNINTERRUPTIBLE) - !!(t->state & TASK_UNINTERRUPTIBLE);
	WRITE_ONCE(t->state, TASK_RUNNING);
	change_queue(t, rq);
	t->on_rq = true;
	t->on_cpu = true;
	t->vruntime = prev->vruntime;
	t->slice_end = prev->slice_end;
	t->exec_start = prev->exec_start;
	__atomic_store_n(&prev->on_rq, false, __ATOMIC_RELEASE);	/* as in __schedule() */
	rq->curr = t;
	rq->nr_switches++;
	prev->nvcsw++;
	__spin_unlock(&t->pi_lock);
	rcu_quiescent();		/* @t runs now, so it stays */
	trace_event(TRACE_SWITCH, prev->tid, t->tid, state, 0);
	switch_address_space(rq, prev, t);
	lock_rank_release(&rq->lock, LOCK_RUNQUEUE);
	finish_switch(switch_to(prev, t));
	return true;
}

void schedule_to(struct task *t, unsigned int mode)
{
	assert(!irqs_disabled() && preempt_count() == 1);
	local_irq_disable();
	if (likely(try_hand_over(t, mode))) {
		local_irq_enable();
		preempt_enable();
		return;
	}
	local_irq_enable();
	wake_up_state(t, mode | WAKE_SYNC);
	preempt_enable();
	schedule();
}

void schedule_tail(struct task *prev)
{
	finish_switch(prev);
	local_irq_enable();
	preempt_enable();
}

void schedule(void)
{
	assert(!irqs_disabled() && !preempt_count());
	do {
		preempt_disable();
		local_irq_disable();
		__schedule(false);
		local_irq_enable();
		preempt_enable_no_resched();
	} while (unlikely(cpu_local_read(need_resched)));
}

bool schedule_until(u64 deadline)
{
	struct task *t = current;

	if (deadline == UINT64_MAX) {
		schedule();
		return true;
	}
	if (ktime_get_ns() >= deadline) {
		WRITE_ONCE(t->state, TASK_RUNNING);
		return false;
	}
	timer_arm(&t->sleep_timer, deadline);
	schedule();
	/* If its function runs right now elsewhere, it wakes us once too often; sleepers look at their condition again. */
	timer_cancel(&t->sleep_timer);
	return ktime_get_ns() < deadline;
}

/* Behind the task that would run next, no further: a yielding loop among busy tasks still gets its share. */
void yield(void)
{
	preempt_disable();
	local_irq_disable();
	struct run_queue *rq = this_rq();
	spin_lock(&rq->lock);
	struct heap_node *first = heap_first(&rq->ready);
	update_curr(rq, ktime_get_ns());
	if (first && heap_task(first)->rt_priority == current->rt_priority && runs_before(&current->run_node, first))
		current->vruntime = heap_task(first)->vruntime + 1;
	spin_unlock(&rq->lock);
	WRITE_ONCE(current->state, TASK_RUNNING);
	__schedule(true);
	local_irq_enable();
	preempt_enable();
}

/* From preempt_enable(). Inside a section with interrupts off nothing may be switched: the interrupt exit will. */
void preempt_schedule(void)
{
	if (irqs_disabled() || preempt_count() || !current)
		return;
	do {
		preempt_disable();
		local_irq_disable();
		__schedule(true);
		local_irq_enable();
		preempt_enable_no_resched();
	} while (cpu_local_read(need_resched));
}

void preempt_schedule_irq(void)
{
	assert(irqs_disabled() && !preempt_count());
	do {
		preempt_disable();
		__schedule(true);
		preempt_enable_no_resched();
	} while (cpu_local_read(need_resched));
}

void set_current_state(unsigned int state)
{
	__atomic_exchange_n(&current->state, state, __ATOMIC_SEQ_CST);
}

/* -- interrupts ------------------------------------------------------------------------------------------------------ */

/* A queue that has been two longer than the shortest for a while gives one task away. Idle CPUs help themselves. */
static void balance(struct run_queue *rq, u64 now)
{
	unsigned int me = rq_cpu(rq), cpu;
	cpumask_t idle = READ_ONCE(idle_mask);

	for_each_cpu(cpu, idle & ~BIT(me))
		if (claim_idle(cpu)) {
			resched_cpu(cpu);	/* it finds us when it looks for something to steal */
			return;
		}
	if (now < rq->next_balance)
		return;
	rq->next_balance = now + BALANCE_NS;

	struct run_queue *least = rq;
	for_each_cpu(cpu, READ_ONCE(cpu_online_mask))
		if (READ_ONCE(run_queues[cpu].nr_running) < READ_ONCE(least->nr_running))
			least = &run_queues[cpu];
	if (least->nr_running + 2 > rq->nr_running || !spin_trylock(&least->lock))
		return;

	int left = MAX_STEAL_WALK;
	for (struct heap_node *n = heap_first(&rq->ready); n && left--; n = heap_walk_next(&rq->ready, n)) {
		struct task *t = heap_task(n);
		if (!(t->affinity & BIT(rq_cpu(least))))
			continue;
		take_ready(rq, t);
		rq->nr_running--;
		change_queue(t, least);
		enqueue_woken(least, t, SLEEPER_BONUS_NS);
		break;
	}
	spin_unlock(&least->lock);
}

static void calc_load(u64 now);

void sched_timer_interrupt(bool user_mode)
{
	struct run_queue *rq = this_rq();
	u64 now = ktime_get_ns();

	timers_run(now);
	rcu_kicked();
	calc_load(now);

	spin_lock(&rq->lock);
	struct task *curr = rq->curr;
	bool busy = curr != rq->idle;
	u64 next = UINT64_MAX;

	now = ktime_get_ns();
	if (busy) {
		/* The sample decides for the time to come, so what task_cputime() has told does not move to the other side. */
		update_curr(rq, now);
		curr->acct_system = !user_mode;
		next = now + TICK_NS;
		if (rq->nr_running > 1) {
			if (now >= curr->slice_end) {
				/* The same task may win again; a FIFO task does until it sleeps. */
				curr->slice_end = now + SCHED_SLICE_NS;
				if (curr->policy != SCHED_FIFO)
					cpu_local_write(need_resched, 1);
			}
			next = curr->slice_end;
			balance(rq, now);
		}
	}
	spin_unlock(&rq->lock);

	if (busy)
		cpu_timers_tick(curr);
	next = min(next, timers_next());
	if (next != UINT64_MAX)
		clock_event_need(next);
}

/* The sender has set need_resched; the way out of the interrupt looks at it. */
void sched_ipi(void)
{
	struct run_queue *rq = this_rq();

	rcu_kicked();
	if (rq->nr_running > 1)
		clock_event_need(READ_ONCE(rq->curr->slice_end));
}

/* -- idle ------------------------------------------------------------------------------------------------------------ */

/*
 * Two tasks on two CPUs that wait for each other are never idle for long. Halting and being interrupted costs more than such
 * a wait, under a hypervisor or emulator far more, so an idle CPU first looks for work a little while. A vain look is not
 * repeated at once: looking takes a CPU that stays idle at most 1 part in 20 of its time.
 */
#define POLL_NS		(50 * NSEC_PER_USEC)
#define POLL_PAUSE_NS	(20 * POLL_NS)

static void idle_poll(struct run_queue *rq)
{
	u64 now = ktime_get_ns(), end = now + POLL_NS;

	if (nr_cpus_found == 1 || now < rq->next_poll)
		return;
	__atomic_store_n(&rq->polling, true, __ATOMIC_SEQ_CST);
	rcu_idle_enter();
	local_irq_enable();
	while (!cpu_local_read(need_resched) && ktime_get_ns() < end)
		cpu_relax();
	local_irq_disable();
	rcu_idle_exit();
	/* Off before the last look: who sets need_resched after that sees it off and sends the interrupt. */
	__atomic_store_n(&rq->polling, false, __ATOMIC_SEQ_CST);
	if (!cpu_local_read(need_resched))
		rq->next_poll = end + POLL_PAUSE_NS;
}

/* Interrupts off. */
static void idle_halt(void)
{
	u64 next = timers_next();

	if (next != UINT64_MAX)
		clock_event_need(next);
	rcu_idle_enter();
	sti_hlt();			/* interrupts run between these two: rcu_irq_enter() */
	local_irq_disable();
	rcu_idle_exit();
}

/* Preemption stays off here; the only way out is __schedule(). */
void cpu_idle_loop(void)
{
	unsigned int cpu = smp_processor_id();
	struct run_queue *rq = &run_queues[cpu];

	preempt_disable();
	assert(current == rq->idle && preempt_count() == 1);
	for (;;) {
		local_irq_disable();
		/* Also the first thing: whoever has more than one runnable task is helped before we halt. */
		__schedule(false);
		__atomic_fetch_or(&idle_mask, BIT(cpu), __ATOMIC_SEQ_CST);
		if (!cpu_local_read(need_resched))
			idle_poll(rq);
		if (!cpu_local_read(need_resched))
			idle_halt();
		if (READ_ONCE(idle_mask) >> cpu & 1)
			__atomic_fetch_and(&idle_mask, ~BIT(cpu), __ATOMIC_RELAXED);
		local_irq_enable();
	}
}

static void init_idle(struct task *t, unsigned int cpu)
{
	struct run_queue *rq = &run_queues[cpu];

	t->flags = PF_KTHREAD | PF_IDLE;
	t->state = TASK_RUNNING;
	t->process = &kernel_process;
	t->cpu = cpu;
	t->affinity = BIT(cpu);
	t->on_cpu = t->on_rq = true;
	t->active_mm = &init_mm;
	t->exec_start = ktime_get_ns();
	spin_lock_init(&t->pi_lock, LOCK_TASK_PI);
	timer_setup(&t->sleep_timer, sleep_timer_fired);
	snprintf(t->comm, sizeof(t->comm), "idle/%u", cpu);
	rq->idle = rq->curr = t;
	timers_init_cpu(cpu);
	rcu_init_cpu(cpu);
}

void sched_init(void)
{
	struct task *t = &boot_idle_task;

	refcount_set(&t->refs, 1);
	INIT_LIST_HEAD(&t->thread_node);
	INIT_LIST_HEAD(&t->pending.queue);
	init_idle(t, 0);
	/* By offset: "current" is a macro. */
	__asm__ volatile("mov %0, %%gs:%c1" : : "r"(t), "i"(CPU_LOCAL_CURRENT) : "memory");
}

void sched_init_cpu(unsigned int cpu)
{
	struct task *t = task_alloc();

	if (!t)
		halt_with_message("Not enough memory for the idle task of CPU %u.", cpu);
	init_idle(t, cpu);
	lock_stat_init_cpu(cpu);
}

struct task *sched_idle_task(unsigned int cpu)
{
	return run_queues[cpu].idle;
}

void sched_start_ap(void)
{
	local_irq_enable();
	cpu_idle_loop();
}

/* -- kernel threads -------------------------------------------------------------------------------------------------- */

struct task *kthread_run(int (*fn)(void *arg), void *arg, const char *name)
{
	struct task *t = task_alloc();

	if (!t)
		return NULL;
	t->flags = PF_KTHREAD;
	strscpy(t->comm, name, sizeof(t->comm));
	sched_fork(t);
	t->affinity = ~0ul;			/* whoever starts it may be bound; it is not */
	t->nice = 0;
	t->policy = SCHED_OTHER;
	t->rt_priority = 0;
	thread_context_kthread(t, fn, arg);
	wake_up_new_task(t);
	return t;
}

void kthread_exit(int result)
{
	current->exit_code = result;
	set_current_state(TASK_DEAD);
	schedule();
	panic("a dead thread runs");
}

/* -- what system calls change ---------------------------------------------------------------------------------------- */

/* Locks @t against waking and running elsewhere, with its accounting up to date; out of the heap if it was in. */
struct task_change { struct run_queue *rq; unsigned long flags; bool was_ready; };

static struct task_change begin_change(struct task *t)
{
	struct task_change c;

	c.flags = spin_lock_irqsave(&t->pi_lock);
	c.rq = task_rq_lock(t);
	if (c.rq->curr == t)
		update_curr(c.rq, ktime_get_ns());
	c.was_ready = heap_linked(&t->run_node);
	if (c.was_ready)
		take_ready(c.rq, t);
	return c;
}

static void end_change(struct task *t, struct task_change c)
{
	if (c.was_ready)
		put_ready(c.rq, t);
	if (c.was_ready || c.rq->curr == t)
		resched_cpu(rq_cpu(c.rq));
	spin_unlock(&c.rq->lock);
	spin_unlock_irqrestore(&t->pi_lock, c.flags);
}

void sched_set_nice(struct task *t, int nice)
{
	struct task_change c = begin_change(t);

	t->nice = (s8)nice;
	end_change(t, c);
}

void sched_set_policy(struct task *t, int policy, unsigned int rt_priority)
{
	struct task_change c = begin_change(t);

	if (t->rt_priority && !rt_priority)	/* what it used as a real-time task is not held against it */
		t->vruntime = c.rq->min_vruntime;
	t->policy = (u8)policy;
	t->rt_priority = (u8)rt_priority;
	end_change(t, c);
}

/* On return @t does not run on a forbidden CPU any more. May sleep. */
int sched_set_affinity(struct task *t, cpumask_t mask)
{
	mask &= READ_ONCE(cpu_online_mask);
	if (!mask)
		return -EINVAL;

	struct task_change c = begin_change(t);
	bool move = c.was_ready && !(mask & BIT(t->cpu));
	WRITE_ONCE(t->affinity, mask);
	if (move) {
		/* Waiting in the wrong queue: treated like one that was pushed off its CPU. */
		c.rq->nr_running--;
		spin_unlock(&c.rq->lock);
		struct run_queue *rq = &run_queues[select_cpu(t, 0)];
		spin_lock(&rq->lock);
		change_queue(t, rq);
		enqueue_woken(rq, t, SLEEPER_BONUS_NS);
		spin_unlock(&rq->lock);
		spin_unlock_irqrestore(&t->pi_lock, c.flags);
		return 0;
	}
	end_change(t, c);

	if (t == current)
		schedule();			/* comes back on an allowed CPU */
	while (READ_ONCE(t->on_cpu) && !(READ_ONCE(t->affinity) & BIT(READ_ONCE(t->cpu))) && t != current)
		yield();
	return 0;
}

/* -- numbers --------------------------------------------------------------------------------------------------------- */

unsigned long sched_nr_running(void)
{
	unsigned long n = 0;
	unsigned int cpu;

	for_each_cpu(cpu, cpu_online_mask)
		n += READ_ONCE(run_queues[cpu].nr_running);
	return n;
}

u64 sched_nr_switches(void)
{
	u64 n = 0;
	unsigned int cpu;

	for_each_cpu(cpu, cpu_online_mask)
		n += READ_ONCE(run_queues[cpu].nr_switches);
	return n;
}

u64 sched_idle_ns(unsigned int cpu)
{
	const struct run_queue *rq = &run_queues[cpu];
	u64 idle = READ_ONCE(rq->idle_ns);

	if (READ_ONCE(rq->curr) == rq->idle) {
		u64 start = READ_ONCE(rq->idle->exec_start), now = ktime_get_ns();
		if (now > start)
			idle += now - start;
	}
	return idle;
}

void sched_cpu_times(unsigned int cpu, u64 *user_ns, u64 *nice_ns, u64 *system_ns, u64 *idle_ns)
{
	const struct run_queue *rq = &run_queues[cpu];

	*user_ns = READ_ONCE(rq->user_ns);
	*nice_ns = READ_ONCE(rq->nice_ns);
	*system_ns = READ_ONCE(rq->system_ns);
	*idle_ns = sched_idle_ns(cpu);
}

/*
 * Load averages: every LOAD_PERIOD the number of running and uninterruptible tasks goes into three decaying means. No timer:
 * whoever has a timer interrupt, or asks, catches up. In periods that nobody noticed all CPUs were idle.
 */
#define LOAD_PERIOD_NS	(5 * NSEC_PER_SEC)
#define FIXED_1		2048ul
static const u64 load_decay[3] = { 1884, 2014, 2037 };	/* FIXED_1 / exp(5 s / 1, 5, 15 min) */
static struct { u64 next; u64 avg[3]; u32 busy; } load = { .next = LOAD_PERIOD_NS };

static void calc_load(u64 now)
{
	if (likely(now < READ_ONCE(load.next)) || __atomic_exchange_n(&load.busy, 1, __ATOMIC_ACQUIRE))
		return;

	u64 periods = now < load.next ? 0 : (now - load.next) / LOAD_PERIOD_NS + 1;
	s64 active = 0;
	unsigned int cpu;

	for_each_cpu(cpu, cpu_online_mask)
		active += READ_ONCE(run_queues[cpu].nr_running) + READ_ONCE(run_queues[cpu].nr_uninterruptible);
	for (u64 p = 1; p <= periods && p < 4096; p++) {
		u64 n = p == periods && active > 0 ? (u64)active * FIXED_1 : 0;
		for (int i = 0; i < 3; i++) {
			u64 v = load.avg[i] * load_decay[i] + n * (FIXED_1 - load_decay[i]);
			load.avg[i] = (v + (n >= load.avg[i] ? FIXED_1 - 1 : 0)) / FIXED_1;
		}
	}
	WRITE_ONCE(load.next, load.next + periods * LOAD_PERIOD_NS);
	__atomic_store_n(&load.busy, 0, __ATOMIC_RELEASE);
}

void sched_loadavg(u64 avg[3])
{
	preempt_disable();
	calc_load(ktime_get_ns());
	preempt_enable();
	for (int i = 0; i < 3; i++)
		avg[i] = READ_ONCE(load.avg[i]);
}
