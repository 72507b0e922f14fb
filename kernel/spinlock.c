/*
 * The waiting half of the spin lock.
 *
 * A waiter looks, pauses, and looks again, twice as long after as before up to a limit. There is no queue: in one, the next in
 * line gets the lock also while the host does not run its virtual CPU, and everybody behind waits for the host's scheduler. Here
 * whoever looks when the lock is free takes it. The price is that a waiter may be passed over. After STARVING_PAUSES it writes
 * its number into the lock's word; from then on the word is never 0, so newcomers fail at their first try and wait here, where only
 * the starving one may take the lock. One starves at a time; the next can say so when the first has been served.
 *
 * A holder is never preempted (kernel/preempt.h), so a wait ends unless there is a bug. Such a bug shows itself: an absurd wait
 * is reported once, with the lock and its holder. It is absurd when it is long by the clock and by the number of pauses: an
 * emulated CPU whose thread the host does not run makes the clock go on without looking.
 */
#include "kernel/spinlock.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/time.h"

#define ABSURD_WAIT_NS	(30 * NSEC_PER_SEC)
#define ABSURD_PAUSES	(1u << 22)
#define MAX_PAUSES	16u		/* between two looks: no longer than a short section takes */
#define STARVING_PAUSES	(1u << 14)	/* some hundred sections of others */

/*
 * One report per boot: the first stuck lock is the cause, the pile-up behind it is not. A stuck console lock stays
 * silent, printing would wait for it.
 */
static void report_stuck(const struct spinlock *lock)
{
	static bool reported;
	unsigned int holder = READ_ONCE(lock->holder);

	if (lock->class == LOCK_CONSOLE || __atomic_exchange_n(&reported, true, __ATOMIC_RELAXED))
		return;
#ifdef DEBUG
	panic("CPU %u waits %lu s for spin lock %s at %pS, held by CPU %d", smp_processor_id(),
	      ABSURD_WAIT_NS / NSEC_PER_SEC, lock_class_name(lock->class), lock, (int)holder - 1);
#else
	pr_err("CPU %u waits %lu s for spin lock %s at %pS, held by CPU %d\n", smp_processor_id(),
	       ABSURD_WAIT_NS / NSEC_PER_SEC, lock_class_name(lock->class), lock, (int)holder - 1);
	warn_at("spin lock stuck", __FILE__, __LINE__);
#endif
}

/* One look. True: taken. */
static bool try_take(struct spinlock *lock, bool starving)
{
	u16 word = READ_ONCE(lock->word), mine = (u16)((smp_processor_id() + 1) << 8);

	if (word == 0 || word == mine)
		return spin_take(lock, word);		/* clears our mark, if it was there */
	if (starving && !(word & 0xff00))
		(void)__atomic_compare_exchange_n(&lock->word, &word, word | mine, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return false;
}

/* Preemption off; the first try has failed. Returns with the lock held. */
void spin_lock_contended(struct spinlock *lock)
{
	u64 start = ktime_get_ns();
	unsigned int pauses = 0, between = 1;

	while (!try_take(lock, pauses >= STARVING_PAUSES)) {
		for (unsigned int i = 0; i < between; i++)
			cpu_relax();
		pauses += between;
		between = min(2 * between, MAX_PAUSES);
		if (pauses >= ABSURD_PAUSES && ktime_get_ns() - start > ABSURD_WAIT_NS)
			report_stuck(lock);
	}
	if (unlikely(lock_stat_enabled))
		lock_stat_spin_waited(lock, ktime_get_ns() - start);
}
