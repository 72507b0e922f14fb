/*
 * Reader/writer semaphore, first come first served. Free or with readers only, an acquire is one compare-and-swap and
 * a reader's release one subtraction. Otherwise a task spins while a writer runs, then queues; as long as anybody is
 * queued, everybody else queues behind, so neither side starves.
 *
 *	count			meaning
 *	0			free
 *	n << 2			n readers
 *	WRITER			one writer
 *	... | WAITERS		as above, and the queue is not empty (with no holder: about to be granted)
 *
 * Easy to break: WAITERS is set exactly while the queue is not empty, and both change under wait_lock only. With WAITERS
 * set no fast path can acquire, so under wait_lock the only thing that can still happen to count is that
 * holders leave. Whoever leaves last, or queues, or gives up, calls grant(); grant() may be called once too often but
 * never once too rarely. As with the mutex, a releaser may still touch wait_lock after the next holder has been granted.
 */
#include "kernel/rwsem.h"
#include "kernel/lock_count.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "kernel/task.h"

#define WRITER		1ul
#define WAITERS		2ul
#define READER		4ul
#define MAX_SPINS	2000

struct rwsem_waiter {
	struct list_head node;		/* wait_lock */
	struct task	*task;
	bool		 write;
	bool		 granted;	/* set by the granter, last; the waiter's stack may be gone right after */
};

void rwsem_init(struct rwsem *sem, enum lock_class class)
{
	sem->count = 0;
	sem->owner = NULL;
	spin_lock_init(&sem->wait_lock, LOCK_RWSEM_WAIT);
	INIT_LIST_HEAD(&sem->waiters);
	sem->class = (u8)class;
}

static inline bool try_read(struct rwsem *sem)
{
	u64 c = READ_ONCE(sem->count);

	while (!(c & (WRITER | WAITERS)))
		if (__atomic_compare_exchange_n(&sem->count, &c, c + READER, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	return false;
}

static inline bool try_write(struct rwsem *sem)
{
	u64 c = 0;

	if (!__atomic_compare_exchange_n(&sem->count, &c, WRITER, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	WRITE_ONCE(sem->owner, current);
	return true;
}

/* The writer runs on some CPU right now. Its memory stays: the caller has preemption off, an RCU read section. */
static bool writer_is_running(const struct rwsem *sem)
{
	const struct task *owner = READ_ONCE(sem->owner);

	return owner && READ_ONCE(owner->on_cpu);
}

/* Only a running writer is worth spinning for: how long readers stay, and whether they run, nobody knows. */
static bool spin_on_writer(struct rwsem *sem, bool write)
{
	bool acquired = false;

	preempt_disable();
	for (int i = 0; i < MAX_SPINS && !cpu_local_read(need_resched); i++) {
		u64 c = READ_ONCE(sem->count);

		acquired = write ? try_write(sem) : try_read(sem);
		if (acquired || (c & WAITERS) || ((c & WRITER) && !writer_is_running(sem)) || (write && c >= READER))
			break;
		cpu_relax();
	}
	preempt_enable();
	return acquired;
}

/* Gives the lock to the head of the queue, and to all readers that directly follow a reader. wait_lock held. */
static void grant(struct rwsem *sem)
{
	struct rwsem_waiter *w;

	while ((w = list_first_entry_or_null(&sem->waiters, struct rwsem_waiter, node))) {
		u64 c = __atomic_load_n(&sem->count, __ATOMIC_ACQUIRE);
		bool last = w->node.next == &sem->waiters;
		bool write = w->write;
		struct task *task = w->task;

		if (write ? c != WAITERS : (c & WRITER) != 0)
			return;
		list_del(&w->node);
		if (write) {
			/* No holder and no fast path while WAITERS is set: nobody else can change count. */
			WRITE_ONCE(sem->owner, task);
			__atomic_store_n(&sem->count, WRITER | (last ? 0 : WAITERS), __ATOMIC_RELEASE);
		} else {
			__atomic_fetch_add(&sem->count, READER - (last ? WAITERS : 0), __ATOMIC_ACQ_REL);
		}
		/* From here on w may vanish. The task itself stays: wait_lock is an RCU read section. */
		__atomic_store_n(&w->granted, true, __ATOMIC_RELEASE);
		wake_up_process(task);
		if (write)
			return;
	}
}

static void lock_and_grant(struct rwsem *sem)
{
	unsigned long flags = spin_lock_irqsave(&sem->wait_lock);

	grant(sem);
	spin_unlock_irqrestore(&sem->wait_lock, flags);
}

/* Takes a waiter that gives up off the queue. False: too late, it was granted. */
static bool cancel_wait(struct rwsem *sem, struct rwsem_waiter *w)
{
	unsigned long flags = spin_lock_irqsave(&sem->wait_lock);
	bool cancelled = !w->granted;

	if (cancelled) {
		list_del(&w->node);
		if (list_empty(&sem->waiters))
			__atomic_fetch_and(&sem->count, ~WAITERS, __ATOMIC_RELAXED);
		else
			grant(sem);	/* a writer that leaves the head may let readers in */
	}
	spin_unlock_irqrestore(&sem->wait_lock, flags);
	return cancelled;
}

static bool spin_until_granted(struct rwsem *sem, struct rwsem_waiter *w)
{
	bool granted = false;

	preempt_disable();
	for (int i = 0; i < MAX_SPINS && !cpu_local_read(need_resched); i++) {
		granted = __atomic_load_n(&w->granted, __ATOMIC_ACQUIRE);
		if (granted || !writer_is_running(sem))
			break;
		cpu_relax();
	}
	preempt_enable();
	return granted;
}

/* 0 with the lock held, or -EINTR when killed. */
static int queue_and_wait(struct rwsem *sem, bool write, unsigned int state)
{
	struct rwsem_waiter w = { .task = current, .write = write };
	unsigned long flags = spin_lock_irqsave(&sem->wait_lock);

	list_add_tail(&w.node, &sem->waiters);
	__atomic_fetch_or(&sem->count, WAITERS, __ATOMIC_RELAXED);
	grant(sem);			/* the holder may have left before the mark was set */
	spin_unlock_irqrestore(&sem->wait_lock, flags);
	race_window("rwsem_queued");

	if (spin_until_granted(sem, &w))
		return 0;
	for (;;) {
		/* State first, then the test: a granter in between finds us asleep and wakes us. */
		set_current_state(state);
		if (__atomic_load_n(&w.granted, __ATOMIC_ACQUIRE))
			break;
		if (state == TASK_KILLABLE && fatal_signal_pending()) {
			set_current_state(TASK_RUNNING);
			return cancel_wait(sem, &w) ? -EINTR : 0;
		}
		schedule();
	}
	set_current_state(TASK_RUNNING);
	return 0;
}

static int lock_contended(struct rwsem *sem, bool write, unsigned int state)
{
	u64 start = ktime_get_ns();
	int error = spin_on_writer(sem, write) ? 0 : queue_and_wait(sem, write, state);

	if (!error)
		lock_stat_record(sem->class, write ? LOCK_MODE_WRITE : LOCK_MODE_READ, true, ktime_get_ns() - start);
	return error;
}

static inline __attribute__((always_inline)) int lock_common(struct rwsem *sem, bool write, unsigned int state, bool nested)
{
	(void)nested;			/* only the debug checker asks */
	might_sleep();
	lock_rank_acquire_sleeping(sem, sem->class, write, nested, false, (uintptr_t)__builtin_return_address(0));
	if (likely(write ? try_write(sem) : try_read(sem))) {
		lock_stat_acquired(sem->class, write ? LOCK_MODE_WRITE : LOCK_MODE_READ);
		return 0;
	}

	int error = lock_contended(sem, write, state);
	if (error)
		lock_rank_release_sleeping(sem, sem->class);
	return error;
}

void down_read(struct rwsem *sem)
{
	lock_common(sem, false, TASK_UNINTERRUPTIBLE, false);
}

int down_read_killable(struct rwsem *sem)
{
	return lock_common(sem, false, TASK_KILLABLE, false);
}

void down_write(struct rwsem *sem)
{
	lock_common(sem, true, TASK_UNINTERRUPTIBLE, false);
}

void down_write_nested(struct rwsem *sem)
{
	lock_common(sem, true, TASK_UNINTERRUPTIBLE, true);
}

int down_write_killable(struct rwsem *sem)
{
	return lock_common(sem, true, TASK_KILLABLE, false);
}

int down_write_nested_killable(struct rwsem *sem)
{
	return lock_common(sem, true, TASK_KILLABLE, true);
}

bool down_read_trylock(struct rwsem *sem)
{
	if (!try_read(sem))
		return false;
	lock_rank_acquire_sleeping(sem, sem->class, false, true, true, (uintptr_t)__builtin_return_address(0));
	lock_stat_acquired(sem->class, LOCK_MODE_READ);
	return true;
}

bool down_write_trylock(struct rwsem *sem)
{
	if (!try_write(sem))
		return false;
	lock_rank_acquire_sleeping(sem, sem->class, true, true, true, (uintptr_t)__builtin_return_address(0));
	lock_stat_acquired(sem->class, LOCK_MODE_WRITE);
	return true;
}

void up_read(struct rwsem *sem)
{
	assert(READ_ONCE(sem->count) >= READER);
	lock_rank_release_sleeping(sem, sem->class);
	if (unlikely(__atomic_sub_fetch(&sem->count, READER, __ATOMIC_RELEASE) == WAITERS))
		lock_and_grant(sem);
}

void up_write(struct rwsem *sem)
{
	assert(rwsem_is_write_held(sem));
	lock_rank_release_sleeping(sem, sem->class);
	WRITE_ONCE(sem->owner, NULL);
	if (unlikely(__atomic_sub_fetch(&sem->count, WRITER, __ATOMIC_RELEASE) & WAITERS))
		lock_and_grant(sem);
}

void downgrade_write(struct rwsem *sem)
{
	assert(rwsem_is_write_held(sem));
	WRITE_ONCE(sem->owner, NULL);
	if (unlikely(__atomic_add_fetch(&sem->count, READER - WRITER, __ATOMIC_RELEASE) & WAITERS))
		lock_and_grant(sem);
}
