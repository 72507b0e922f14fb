/*
 * Mutex: one compare-and-swap when nobody contends. Under contention a waiter first spins while the owner runs, then
 * queues; from the first queued waiter on, the lock is handed over in order of arrival and newcomers queue behind.
 *
 * Easy to break: a mutex with queued waiters is never free. unlock gives it to the first waiter by writing the new
 * owner itself, so there is no moment at which a newcomer could steal it and no wake-up that could find it taken.
 *
 *	owner			meaning
 *	0			free, queue empty
 *	task			held, queue empty
 *	task | WAITERS		held, queue not empty
 *
 * WAITERS and the queue change only under wait_lock. The unlocker touches the mutex after handing it over (it drops
 * wait_lock), so memory that holds a mutex is freed by RCU or by somebody who excludes a late unlocker in another way.
 */
#include "kernel/mutex.h"
#include "kernel/lock_count.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "kernel/task.h"

#define WAITERS		1ul
#define MAX_SPINS	2000		/* some 10 us: longer than a short section, shorter than two switches under load */

struct mutex_waiter {
	struct list_head node;		/* wait_lock */
	struct task	*task;
	bool		 granted;	/* set by the unlocker, last; the waiter's stack may be gone right after */
};

void mutex_init(struct mutex *m, enum lock_class class)
{
	m->owner = 0;
	spin_lock_init(&m->wait_lock, LOCK_RWSEM_WAIT);
	INIT_LIST_HEAD(&m->waiters);
	m->class = (u8)class;
}

static inline bool try_acquire(struct mutex *m)
{
	uintptr_t free = 0;

	return __atomic_compare_exchange_n(&m->owner, &free, (uintptr_t)current, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* The owner may exit while we look at it; preemption off is an RCU read section, so its memory stays. */
static bool spin_on_owner(struct mutex *m)
{
	bool acquired = false;

	preempt_disable();
	for (int i = 0; i < MAX_SPINS && !cpu_local_read(need_resched); i++) {
		uintptr_t owner = READ_ONCE(m->owner);

		if (!owner) {
			acquired = try_acquire(m);
			if (acquired)
				break;
		} else if ((owner & WAITERS) || !READ_ONCE(((struct task *)owner)->on_cpu)) {
			break;
		}
		cpu_relax();
	}
	preempt_enable();
	return acquired;
}

/* wait_lock held. True: it was free after all and is ours now. */
static bool acquire_or_mark_waiters(struct mutex *m)
{
	uintptr_t owner = READ_ONCE(m->owner);

	for (;;) {
		if (owner & WAITERS)
			return false;
		uintptr_t new = owner ? owner | WAITERS : (uintptr_t)current;
		if (__atomic_compare_exchange_n(&m->owner, &owner, new, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return !owner;
	}
}

/* Takes a waiter that gives up off the queue. False: too late, the lock was already handed to it. */
static bool cancel_wait(struct mutex *m, struct mutex_waiter *w)
{
	unsigned long flags = spin_lock_irqsave(&m->wait_lock);
	bool cancelled = !w->granted;

	if (cancelled) {
		list_del(&w->node);
		if (list_empty(&m->waiters))
			__atomic_fetch_and(&m->owner, ~WAITERS, __ATOMIC_RELAXED);
	}
	spin_unlock_irqrestore(&m->wait_lock, flags);
	return cancelled;
}

/* Short waits end without a switch also for those who queue: each spins on its own flag. */
static bool spin_until_granted(struct mutex *m, struct mutex_waiter *w)
{
	bool granted = false;

	preempt_disable();
	for (int i = 0; i < MAX_SPINS && !cpu_local_read(need_resched); i++) {
		granted = __atomic_load_n(&w->granted, __ATOMIC_ACQUIRE);
		uintptr_t owner = READ_ONCE(m->owner) & ~WAITERS;
		if (granted || !owner || !READ_ONCE(((struct task *)owner)->on_cpu))
			break;
		cpu_relax();
	}
	preempt_enable();
	return granted;
}

/* 0 with the mutex held; -ERESTARTSYS or -EINTR without. */
static int queue_and_wait(struct mutex *m, unsigned int state)
{
	struct mutex_waiter w = { .task = current };
	unsigned long flags = spin_lock_irqsave(&m->wait_lock);

	if (acquire_or_mark_waiters(m)) {
		spin_unlock_irqrestore(&m->wait_lock, flags);
		return 0;
	}
	list_add_tail(&w.node, &m->waiters);
	spin_unlock_irqrestore(&m->wait_lock, flags);
	race_window("mutex_queued");

	if (spin_until_granted(m, &w))
		return 0;
	for (;;) {
		int error = 0;

		/* State first, then the test: an unlocker that sets granted in between finds us asleep and wakes us. */
		set_current_state(state);
		if (__atomic_load_n(&w.granted, __ATOMIC_ACQUIRE))
			break;
		if (state == TASK_INTERRUPTIBLE && signal_pending())
			error = -ERESTARTSYS;
		else if (state == TASK_KILLABLE && fatal_signal_pending())
			error = -EINTR;
		if (error) {
			set_current_state(TASK_RUNNING);
			return cancel_wait(m, &w) ? error : 0;
		}
		schedule();
	}
	set_current_state(TASK_RUNNING);
	return 0;
}

static int lock_contended(struct mutex *m, unsigned int state)
{
	u64 start = ktime_get_ns();
	int error = spin_on_owner(m) ? 0 : queue_and_wait(m, state);

	if (!error)
		lock_stat_record(m->class, LOCK_MODE_WRITE, true, ktime_get_ns() - start);
	return error;
}

static inline __attribute__((always_inline)) int lock_common(struct mutex *m, unsigned int state, bool nested)
{
	(void)nested;			/* only the debug checker asks */
	might_sleep();
	lock_rank_acquire_sleeping(m, m->class, true, nested, false, (uintptr_t)__builtin_return_address(0));
	if (likely(try_acquire(m))) {
		lock_stat_acquired(m->class, LOCK_MODE_WRITE);
		return 0;
	}

	int error = lock_contended(m, state);
	if (error)
		lock_rank_release_sleeping(m, m->class);
	return error;
}

void mutex_lock(struct mutex *m)
{
	lock_common(m, TASK_UNINTERRUPTIBLE, false);
}

void mutex_lock_nested(struct mutex *m)
{
	lock_common(m, TASK_UNINTERRUPTIBLE, true);
}

int mutex_lock_interruptible(struct mutex *m)
{
	return lock_common(m, TASK_INTERRUPTIBLE, false);
}

int mutex_lock_killable(struct mutex *m)
{
	return lock_common(m, TASK_KILLABLE, false);
}

bool mutex_trylock(struct mutex *m)
{
	if (!try_acquire(m))
		return false;
	lock_rank_acquire_sleeping(m, m->class, true, true, true, (uintptr_t)__builtin_return_address(0));
	lock_stat_acquired(m->class, LOCK_MODE_WRITE);
	return true;
}

static void hand_over(struct mutex *m)
{
	unsigned long flags = spin_lock_irqsave(&m->wait_lock);
	struct mutex_waiter *w = list_first_entry_or_null(&m->waiters, struct mutex_waiter, node);

	if (!w) {			/* the last waiter gave up after we saw its mark */
		__atomic_store_n(&m->owner, 0, __ATOMIC_RELEASE);
	} else {
		struct task *task = w->task;

		list_del(&w->node);
		__atomic_store_n(&m->owner, (uintptr_t)task | (list_empty(&m->waiters) ? 0 : WAITERS), __ATOMIC_RELEASE);
		/* From here on w may vanish. The task itself stays: wait_lock is an RCU read section. */
		__atomic_store_n(&w->granted, true, __ATOMIC_RELEASE);
		wake_up_process(task);
	}
	spin_unlock_irqrestore(&m->wait_lock, flags);
}

void mutex_unlock(struct mutex *m)
{
	uintptr_t self = (uintptr_t)current;

	assert(mutex_is_held(m));
	lock_rank_release_sleeping(m, m->class);
	if (unlikely(!__atomic_compare_exchange_n(&m->owner, &self, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)))
		hand_over(m);
}
