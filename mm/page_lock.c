/*
 * The folio lock, one bit of page->flags, and waiting for it or for the end of writeback.
 *
 * There are millions of pages and few waiters, so waiters share 256 queues by hash. PG_waiters says that somebody may
 * sleep for this page; without it unlocking is one atomic instruction. No wake-up is lost:
 *
 *	waiter						unlocker
 *	1 queue itself, set its state			a clear PG_locked; the same instruction reads PG_waiters
 *	2 set PG_waiters				b if it was set: lock the queue, wake
 *	3 try the lock; if it is taken, sleep
 *
 * If 2 comes before a, b finds the waiter, for 1 came before 2. If a comes before 2, then 3 sees the lock free, or taken
 * by somebody whose own a is still to come. PG_waiters is cleared under the queue's lock by a waker that leaves no
 * waiter of this page behind.
 *
 * Who locks or waits holds a reference of the page, so the page is still itself when the waker looks at it after a.
 */
#include "mm/page.h"

#include "kernel/errno.h"
#include "kernel/lock_stat.h"
#include "kernel/signal.h"
#include "kernel/time.h"
#include "kernel/wait.h"

#define QUEUE_BITS	8

static struct page_queue { struct wait_queue wq; } __aligned(64) queues[1 << QUEUE_BITS];

void page_lock_init(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(queues); i++)
		wait_queue_init(&queues[i].wq);
}

static struct wait_queue *page_queue(const struct page *p)
{
	return &queues[page_to_pfn(p) * 0x9e3779b97f4a7c15ul >> (64 - QUEUE_BITS)].wq;
}

/* Wakes all who wait for writeback, and the first who wants the lock. Any context. */
static void wake_page(struct page *p)
{
	struct wait_queue *wq = page_queue(p);
	struct wait_entry *e, *next;
	bool one_woken = false, more = false;
	unsigned long flags = spin_lock_irqsave(&wq->lock);

	list_for_each_entry_safe(e, next, &wq->entries, node) {
		bool exclusive = e->exclusive;		/* e may be gone once func has run */

		if (e->private != p)
			continue;
		if (!(exclusive && one_woken) && e->func(e, TASK_NORMAL, 0))
			one_woken |= exclusive;
		else
			more = true;			/* not its turn, or awake already and about to try */
	}
	if (!more)
		page_clear(p, PG_waiters);
	spin_unlock_irqrestore(&wq->lock, flags);
}

/* -- the lock -------------------------------------------------------------------------------------------------- */

static void count_acquired(u64 wait_start)
{
	if (unlikely(lock_stat_enabled))
		lock_stat_record(LOCK_FOLIO, LOCK_MODE_WRITE, wait_start != 0, wait_start ? ktime_get_ns() - wait_start : 0);
}

/* 0 with the lock, or -EINTR without it (only if @state lets signals in). */
static int lock_page_slow(struct page *p, unsigned int state)
{
	struct wait_queue *wq = page_queue(p);
	u64 start = lock_stat_enabled ? ktime_get_ns() : 1;
	struct wait_entry e;
	int err = 0;

	wait_entry_init(&e);
	e.private = p;
	for (;;) {
		int signal = prepare_to_wait_exclusive(wq, &e, state);

		page_set(p, PG_waiters);
		if (!page_test_and_set(p, PG_locked))
			break;
		if (signal) {
			err = -EINTR;
			break;
		}
		schedule();
	}
	finish_wait(wq, &e);
	if (!err)
		count_acquired(start);
	else if (!page_test(p, PG_locked))
		wake_page(p);		/* the wake-up that we were given and do not use */
	return err;
}

bool trylock_page(struct page *p)
{
	if (page_test_and_set(p, PG_locked))
		return false;
	lock_rank_acquire_sleeping(p, LOCK_FOLIO, true, false, true, (uintptr_t)__builtin_return_address(0));
	count_acquired(0);
	return true;
}

void lock_page(struct page *p)
{
	might_sleep();
	lock_rank_acquire_sleeping(p, LOCK_FOLIO, true, false, false, (uintptr_t)__builtin_return_address(0));
	if (likely(!page_test_and_set(p, PG_locked))) {
		count_acquired(0);
		return;
	}
	int err = lock_page_slow(p, TASK_UNINTERRUPTIBLE);
	BUG_ON(err);
}

int lock_page_killable(struct page *p)
{
	int err = 0;

	might_sleep();
	lock_rank_acquire_sleeping(p, LOCK_FOLIO, true, false, false, (uintptr_t)__builtin_return_address(0));
	if (likely(!page_test_and_set(p, PG_locked)))
		count_acquired(0);
	else
		err = lock_page_slow(p, TASK_KILLABLE);
	if (err)
		lock_rank_release_sleeping(p, LOCK_FOLIO);
	return err;
}

void unlock_page(struct page *p)
{
	lock_rank_release_sleeping(p, LOCK_FOLIO);
	u32 old = __atomic_fetch_and(&p->flags, ~(1u << PG_locked), __ATOMIC_RELEASE);

	BUG_ON(!(old & 1u << PG_locked));
	if (unlikely(old & 1u << PG_waiters))
		wake_page(p);
}

/* -- writeback ------------------------------------------------------------------------------------------------- */

static int wait_writeback(struct page *p, unsigned int state)
{
	struct wait_queue *wq = page_queue(p);
	struct wait_entry e;
	int err = 0;

	if (!page_test(p, PG_writeback))
		return 0;
	might_sleep();
	wait_entry_init(&e);
	e.private = p;
	for (;;) {
		int signal = prepare_to_wait(wq, &e, state);

		page_set(p, PG_waiters);
		if (!page_test(p, PG_writeback))
			break;
		if (signal) {
			err = -EINTR;
			break;
		}
		schedule();
	}
	finish_wait(wq, &e);
	return err;
}

void wait_on_page_writeback(struct page *p)
{
	int err = wait_writeback(p, TASK_UNINTERRUPTIBLE);

	BUG_ON(err);
}

int wait_on_page_writeback_killable(struct page *p)
{
	return wait_writeback(p, TASK_KILLABLE);
}

/* The caller still holds the reference that kept the page during the write. */
void end_page_writeback(struct page *p)
{
	u32 old = __atomic_fetch_and(&p->flags, ~(1u << PG_writeback), __ATOMIC_ACQ_REL);

	BUG_ON(!(old & 1u << PG_writeback));
	if (unlikely(old & 1u << PG_waiters))
		wake_page(p);
}
