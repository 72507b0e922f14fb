/*
 * Spin locks: whoever comes while the lock is free gets it. Taking one disables preemption; the _irqsave forms also disable
 * interrupts on this CPU, and are the only ones allowed for classes marked OFF in kernel/lock_rank.h.
 *
 * Not in the order of arrival, on purpose: "Spin locks and hosts" in docs/locking.md has the reason and the numbers. A waiter
 * that has been passed over for long says so in @starving, and then nobody else may take the lock (kernel/spinlock.c).
 */
#ifndef KERNEL_SPINLOCK_H
#define KERNEL_SPINLOCK_H

#include "kernel/lock_rank.h"
#include "kernel/preempt.h"
#include "kernel/x86/cpu.h"

struct spinlock {
	union {
		u16 word;			/* 0: free for everybody */
		struct {
			u8 holder;		/* CPU + 1 while held, 0 else; cleared by the holder alone */
			u8 starving;		/* CPU + 1 that is next, whoever else comes; 0: nobody */
		};
	};
	u8	class;				/* enum lock_class; constant after init */
	u8	reserved[5];
};
_Static_assert(sizeof(struct spinlock) == 8, "fits into struct page");
_Static_assert(NR_CPUS < 255, "struct spinlock has CPU + 1 in a byte");

#define SPINLOCK_INIT(lock_class)	{ .class = (lock_class) }
static inline void spin_lock_init(struct spinlock *lock, enum lock_class class)
{
	*lock = (struct spinlock)SPINLOCK_INIT(class);
}

void spin_lock_contended(struct spinlock *lock);	/* kernel/spinlock.c: waits, takes it, counts, reports absurd waits */
#ifdef DEBUG
void lock_rank_acquire(const void *lock, enum lock_class class, bool nested, bool try_lock, uintptr_t caller);
void lock_rank_release(const void *lock, enum lock_class class);
#else
static inline void lock_rank_acquire(const void *lock, enum lock_class class, bool nested, bool try_lock, uintptr_t caller)
{
	(void)lock, (void)class, (void)nested, (void)try_lock, (void)caller;
}
static inline void lock_rank_release(const void *lock, enum lock_class class) { (void)lock, (void)class; }
#endif

/* Counts per class, caller and mode for /proc/lock_stat; off until switched on (kernel/lock_stat.h). */
extern bool lock_stat_enabled;
void lock_stat_spin_acquired(const struct spinlock *lock);
void lock_stat_spin_waited(const struct spinlock *lock, u64 wait_ns);

/* Takes the lock if its word is @word: free, and nobody but perhaps this CPU starving. */
static inline __attribute__((always_inline)) bool spin_take(struct spinlock *lock, u16 word)
{
	return __atomic_compare_exchange_n(&lock->word, &word, (u16)(smp_processor_id() + 1), false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline __attribute__((always_inline)) void __spin_lock(struct spinlock *lock, bool nested)
{
	lock_rank_acquire(lock, lock->class, nested, false, (uintptr_t)__builtin_return_address(0));
	if (unlikely(!spin_take(lock, 0)))
		spin_lock_contended(lock);
	if (unlikely(lock_stat_enabled))
		lock_stat_spin_acquired(lock);
}

static inline void spin_lock(struct spinlock *lock)
{
	preempt_disable();
	__spin_lock(lock, false);
}

/* A second lock of the same class; the tie-break is stated in the rank table. */
static inline void spin_lock_nested(struct spinlock *lock)
{
	preempt_disable();
	__spin_lock(lock, true);
}

static inline bool spin_trylock(struct spinlock *lock)
{
	preempt_disable();
	if (!READ_ONCE(lock->word) && spin_take(lock, 0)) {
		lock_rank_acquire(lock, lock->class, true, true, (uintptr_t)__builtin_return_address(0));
		return true;
	}
	preempt_enable();
	return false;
}

static inline void __spin_unlock(struct spinlock *lock)
{
	lock_rank_release(lock, lock->class);
	__atomic_store_n(&lock->holder, 0, __ATOMIC_RELEASE);
}

static inline void spin_unlock(struct spinlock *lock)
{
	__spin_unlock(lock);
	preempt_enable();
}

static inline unsigned long spin_lock_irqsave(struct spinlock *lock)
{
	unsigned long flags = local_irq_save();
	preempt_disable();
	__spin_lock(lock, false);
	return flags;
}

static inline unsigned long spin_lock_irqsave_nested(struct spinlock *lock)
{
	unsigned long flags = local_irq_save();
	preempt_disable();
	__spin_lock(lock, true);
	return flags;
}

static inline void spin_unlock_irqrestore(struct spinlock *lock, unsigned long flags)
{
	__spin_unlock(lock);
	local_irq_restore(flags);
	preempt_enable();
}

static inline bool spin_is_locked(const struct spinlock *lock)
{
	return READ_ONCE(lock->holder) != 0;
}

/* True if this CPU holds the lock. Only meaningful with preemption disabled, as any holder has it. */
static inline bool spin_is_held(const struct spinlock *lock)
{
	return READ_ONCE(lock->holder) == smp_processor_id() + 1;
}
#define assert_spin_held(lock)	assert(spin_is_held(lock))

#endif
