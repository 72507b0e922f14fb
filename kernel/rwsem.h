/*
 * Fair reader/writer semaphore: spin while the holder runs, then sleep; queued in arrival order, so neither side
 * starves. A writer may downgrade. Not recursive, in either mode.
 */
#ifndef KERNEL_RWSEM_H
#define KERNEL_RWSEM_H

#include "kernel/list.h"
#include "kernel/spinlock.h"

struct rwsem {
	/*
	 * Readers << 2, plus bit 0 = a writer holds it, bit 1 = waiters queued (readers must queue too).
	 * An uncontended reader is one atomic add and one atomic sub.
	 */
	u64		 count;
	struct task	*owner;		/* writer, for spinning, asserts and messages */
	struct spinlock	 wait_lock;	/* guards waiters */
	struct list_head waiters;
	u8		 class;
};

void rwsem_init(struct rwsem *sem, enum lock_class class);
void down_read(struct rwsem *sem);
int __must_check down_read_killable(struct rwsem *sem);	/* 0 or -EINTR */
bool down_read_trylock(struct rwsem *sem);
void up_read(struct rwsem *sem);
void down_write(struct rwsem *sem);
void down_write_nested(struct rwsem *sem);
int __must_check down_write_killable(struct rwsem *sem);
int __must_check down_write_nested_killable(struct rwsem *sem);
bool down_write_trylock(struct rwsem *sem);
void up_write(struct rwsem *sem);
void downgrade_write(struct rwsem *sem);

static inline bool rwsem_is_write_held(const struct rwsem *sem) { return READ_ONCE(sem->owner) == current && (READ_ONCE(sem->count) & 1); }
static inline bool rwsem_is_locked(const struct rwsem *sem) { return (READ_ONCE(sem->count) & ~2ul) != 0; }
static inline bool rwsem_blocks_readers(const struct rwsem *sem) { return READ_ONCE(sem->count) & 3; }	/* a writer has it, or somebody is queued */
static inline bool rwsem_is_contended(const struct rwsem *sem) { return READ_ONCE(sem->count) & 2; }

#endif
