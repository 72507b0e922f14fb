/*
 * Wait queues. Who is woken, in which order, and why no wake-up is lost:
 *
 *	waiter					waker
 *	1 queue itself, set its state		a make the condition true
 *	2 test the condition			b lock the queue, walk it, wake
 *	3 sleep
 *
 * Both take the queue lock in 1 and b. If 1 comes first, b finds the waiter; its state is set, so 3 does not sleep. If b
 * comes first, the unlock in b and the lock in 1 order a before 2, and the waiter sees the condition.
 */
#include "kernel/wait.h"
#include "kernel/signal.h"
#include "kernel/task.h"

void wait_queue_init(struct wait_queue *wq)
{
	spin_lock_init(&wq->lock, LOCK_WAITQUEUE);
	INIT_LIST_HEAD(&wq->entries);
}

void wait_entry_init(struct wait_entry *e)
{
	INIT_LIST_HEAD(&e->node);
	e->task = current;
	e->func = autoremove_wake_function;
	e->exclusive = false;
	e->private = NULL;
}

bool default_wake_function(struct wait_entry *entry, unsigned int mode, u32 key)
{
	(void)key;
	return wake_up_state(entry->task, mode | WAKE_LOCAL);
}

/* A waiter that was woken is off the queue, so the next wake-up is not wasted on it. */
bool autoremove_wake_function(struct wait_entry *entry, unsigned int mode, u32 key)
{
	if (!default_wake_function(entry, mode, key))
		return false;
	list_del_init(&entry->node);	/* last access: finish_wait() may see it and return */
	return true;
}

static void enqueue(struct wait_queue *wq, struct wait_entry *e)
{
	if (e->exclusive)
		list_add_tail(&e->node, &wq->entries);
	else
		list_add(&e->node, &wq->entries);
}

void add_wait_queue(struct wait_queue *wq, struct wait_entry *e)
{
	unsigned long flags = spin_lock_irqsave(&wq->lock);

	enqueue(wq, e);
	spin_unlock_irqrestore(&wq->lock, flags);
}

/*
 * Both links point to itself only after list_del_init() is through with the entry, so nobody will touch it again and
 * the lock is not needed. Anything else is looked at under the lock.
 */
static bool entry_is_off_queue(const struct wait_entry *e)
{
	const struct list_head *n = __atomic_load_n(&e->node.next, __ATOMIC_ACQUIRE);

	return n == &e->node && __atomic_load_n(&e->node.prev, __ATOMIC_ACQUIRE) == n;
}

void remove_wait_queue(struct wait_queue *wq, struct wait_entry *e)
{
	if (entry_is_off_queue(e))
		return;
	unsigned long flags = spin_lock_irqsave(&wq->lock);
	list_del_init(&e->node);
	spin_unlock_irqrestore(&wq->lock, flags);
}

static bool signal_ends_sleep(unsigned int state)
{
	if (!current->sigpending)
		return false;
	if (state & TASK_INTERRUPTIBLE)
		return signal_pending();
	return (state & TASK_WAKEKILL) && fatal_signal_pending();
}

static int prepare(struct wait_queue *wq, struct wait_entry *e, unsigned int state, bool exclusive)
{
	int error = 0;
	unsigned long flags = spin_lock_irqsave(&wq->lock);

	/*
	 * With a signal pending the entry leaves the queue under the lock: an exclusive wake-up then goes to somebody
	 * who uses it. If one already came to us, the caller's test of the condition, made after this, sees it.
	 */
	if (unlikely(signal_ends_sleep(state))) {
		list_del_init(&e->node);
		error = -ERESTARTSYS;
	} else {
		e->exclusive = exclusive;
		if (list_empty(&e->node))
			enqueue(wq, e);
		__atomic_exchange_n(&current->state, state, __ATOMIC_SEQ_CST);	/* set_current_state() */
	}
	spin_unlock_irqrestore(&wq->lock, flags);
	return error;
}

int prepare_to_wait(struct wait_queue *wq, struct wait_entry *e, unsigned int state)
{
	return prepare(wq, e, state, false);
}

int prepare_to_wait_exclusive(struct wait_queue *wq, struct wait_entry *e, unsigned int state)
{
	return prepare(wq, e, state, true);
}

void finish_wait(struct wait_queue *wq, struct wait_entry *e)
{
	WRITE_ONCE(current->state, TASK_RUNNING);
	remove_wait_queue(wq, e);
}

void __wake_up(struct wait_queue *wq, unsigned int mode, unsigned int nr_exclusive, u32 key)
{
	struct wait_entry *e, *next;
	unsigned long flags = spin_lock_irqsave(&wq->lock);

	list_for_each_entry_safe(e, next, &wq->entries, node) {
		bool exclusive = e->exclusive;	/* e may be gone once func has run */

		if (e->func(e, mode, key) && exclusive && nr_exclusive && !--nr_exclusive)
			break;
	}
	spin_unlock_irqrestore(&wq->lock, flags);
}
