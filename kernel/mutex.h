/* Sleeping mutual exclusion: one owner, spins while the owner runs, then sleeps; FIFO hand-over under contention. */
#ifndef KERNEL_MUTEX_H
#define KERNEL_MUTEX_H

#include "kernel/list.h"
#include "kernel/spinlock.h"

struct task;

struct mutex {
	uintptr_t	 owner;		/* atomic; struct task *, plus bit 0 = waiters queued; 0 = free */
	struct spinlock	 wait_lock;	/* guards waiters */
	struct list_head waiters;
	u8		 class;
};

void mutex_init(struct mutex *m, enum lock_class class);
#define MUTEX_INIT(name, lock_class) { .wait_lock = SPINLOCK_INIT(LOCK_RWSEM_WAIT), \
	.waiters = LIST_HEAD_INIT((name).waiters), .class = (lock_class) }

void mutex_lock(struct mutex *m);			/* may sleep */
void mutex_lock_nested(struct mutex *m);		/* same class, second lock: see rank table */
int __must_check mutex_lock_interruptible(struct mutex *m);	/* 0 or -ERESTARTSYS */
int __must_check mutex_lock_killable(struct mutex *m);		/* 0 or -EINTR on a fatal signal */
bool mutex_trylock(struct mutex *m);			/* never waits */
void mutex_unlock(struct mutex *m);
static inline bool mutex_is_held(const struct mutex *m) { return (READ_ONCE(m->owner) & ~1ul) == (uintptr_t)current; }

#endif
