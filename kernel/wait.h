/*
 * Wait queues. The pattern that loses no wake-up: the waiter queues itself and sets its state, then tests the
 * condition, then sleeps; the waker makes the condition true, then wakes.
 */
#ifndef KERNEL_WAIT_H
#define KERNEL_WAIT_H

#include "kernel/list.h"
#include "kernel/sched.h"
#include "kernel/spinlock.h"

struct wait_queue {
	struct spinlock	 lock;		/* guards entries; LOCK_WAITQUEUE, interrupts off */
	struct list_head entries;
};

struct wait_entry;
/* Called by the waker with the queue locked. Returns true if it woke somebody (counts against "wake n"). */
typedef bool (*wait_func_t)(struct wait_entry *entry, unsigned int mode, u32 key);

struct wait_entry {
	struct list_head node;		/* queue lock */
	struct task	*task;
	wait_func_t	 func;		/* default_wake_function, autoremove_wake_function, or epoll's own */
	bool		 exclusive;	/* queued at the tail; a wake-up stops after n of these */
	void		*private;
};

#define WAIT_QUEUE_INIT(name) { .lock = SPINLOCK_INIT(LOCK_WAITQUEUE), .entries = LIST_HEAD_INIT((name).entries) }
void wait_queue_init(struct wait_queue *wq);
void wait_entry_init(struct wait_entry *e);	/* current, autoremove_wake_function */
bool default_wake_function(struct wait_entry *entry, unsigned int mode, u32 key);
bool autoremove_wake_function(struct wait_entry *entry, unsigned int mode, u32 key);

void add_wait_queue(struct wait_queue *wq, struct wait_entry *e);
void remove_wait_queue(struct wait_queue *wq, struct wait_entry *e);	/* harmless when already removed */

/* Queue (if not queued) and set the task state; -ERESTARTSYS if @state is interruptible and a signal is pending. */
int prepare_to_wait(struct wait_queue *wq, struct wait_entry *e, unsigned int state);
int prepare_to_wait_exclusive(struct wait_queue *wq, struct wait_entry *e, unsigned int state);
void finish_wait(struct wait_queue *wq, struct wait_entry *e);

/* Wake all non-exclusive waiters and up to @nr_exclusive exclusive ones (0 = all). @key: poll event mask or 0. */
void __wake_up(struct wait_queue *wq, unsigned int mode, unsigned int nr_exclusive, u32 key);
#define wake_up(wq)			__wake_up(wq, TASK_NORMAL, 1, 0)
#define wake_up_all(wq)			__wake_up(wq, TASK_NORMAL, 0, 0)
#define wake_up_interruptible(wq)	__wake_up(wq, TASK_INTERRUPTIBLE, 1, 0)
/* The waker is about to sleep itself (pipes, synchronous calls): the woken task may take over this CPU. */
#define wake_up_sync_poll(wq, events)	__wake_up(wq, TASK_NORMAL | WAKE_SYNC, 1, events)
#define wake_up_poll(wq, events)	__wake_up(wq, TASK_NORMAL, 1, events)
static inline bool wait_queue_active(const struct wait_queue *wq) { return !list_empty(&wq->entries); }

/* Tested before queueing and right after a wake-up too: then nothing has to be queued, or not again. */
#define __wait_event(wq, cond, state, excl, timeout_ns) ({				\
	int _ret = 0;									\
	if (!(cond)) {									\
		struct wait_entry _we;							\
		u64 _deadline = (timeout_ns) ? ktime_get_ns() + (timeout_ns) : 0;	\
		wait_entry_init(&_we);							\
		do {									\
			int _sig = (excl) ? prepare_to_wait_exclusive(wq, &_we, state)	\
					  : prepare_to_wait(wq, &_we, state);		\
			if (cond)							\
				break;							\
			if (_sig) {							\
				_ret = _sig;						\
				break;							\
			}								\
			if (!_deadline) {						\
				schedule();						\
			} else if (!schedule_until(_deadline)) {			\
				_ret = (cond) ? 0 : -ETIMEDOUT;				\
				break;							\
			}								\
		} while (!(cond));							\
		finish_wait(wq, &_we);							\
	}										\
	_ret; })

/* 0; the condition is evaluated several times, in TASK_* state, so it must not sleep. */
#define wait_event(wq, cond)			((void)__wait_event(wq, cond, TASK_UNINTERRUPTIBLE, false, 0ul))
#define wait_event_interruptible(wq, cond)	__wait_event(wq, cond, TASK_INTERRUPTIBLE, false, 0ul)
#define wait_event_interruptible_exclusive(wq, cond) __wait_event(wq, cond, TASK_INTERRUPTIBLE, true, 0ul)
#define wait_event_killable(wq, cond)		__wait_event(wq, cond, TASK_KILLABLE, false, 0ul)
/* 0, -ERESTARTSYS or -ETIMEDOUT; timeout in nanoseconds, must not be 0. */
#define wait_event_interruptible_timeout(wq, cond, ns) __wait_event(wq, cond, TASK_INTERRUPTIBLE, false, ns)

#endif
