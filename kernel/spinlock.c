/*
 * The waiting half of the ticket lock. Each waiter spins on its own number, so the lock is handed on in order of
 * arrival; a holder is never preempted (kernel/preempt.h), so a wait ends unless there is a bug. Such a bug shows
 * itself: an absurd wait is reported once, with the lock and its holder. It is absurd when it is long by the clock and by the
 * number of looks: an emulated CPU whose thread the host does not run makes the clock go on without looking.
 */
#include "kernel/spinlock.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/time.h"

#define ABSURD_WAIT_NS	(30 * NSEC_PER_SEC)
#define ABSURD_SPINS	(1u << 22)
#define SPINS_PER_LOOK	4096		/* between looks at the clock */

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

/* Preemption off; @ticket was drawn and is not served yet. Returns with the lock held. */
void spin_lock_contended(struct spinlock *lock, u16 ticket)
{
	u64 start = ktime_get_ns();
	unsigned int spins = 0;

	while (__atomic_load_n(&lock->owner, __ATOMIC_ACQUIRE) != ticket) {
		cpu_relax();
		if (++spins % SPINS_PER_LOOK == 0 && spins >= ABSURD_SPINS && ktime_get_ns() - start > ABSURD_WAIT_NS)
			report_stuck(lock);
	}
	if (unlikely(lock_stat_enabled))
		lock_stat_spin_waited(lock, ktime_get_ns() - start);
}
