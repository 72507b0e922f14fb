/* Sequence counts: readers never write shared memory, they notice a writer by the number and try again. */
#ifndef KERNEL_SEQCOUNT_H
#define KERNEL_SEQCOUNT_H

#include "kernel/types.h"

struct seqcount { u32 seq; };	/* odd while a writer is inside; writers are serialised by the user's own lock */

static inline u32 read_seqbegin(const struct seqcount *s)
{
	u32 v;
	while (unlikely((v = __atomic_load_n(&s->seq, __ATOMIC_ACQUIRE)) & 1))
		__asm__ volatile("pause");
	return v;
}

/* True: a writer was there, what was read is worthless. The fence orders the data reads before the re-read. */
static inline bool read_seqretry(const struct seqcount *s, u32 start)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return unlikely(__atomic_load_n(&s->seq, __ATOMIC_RELAXED) != start);
}

static inline void write_seqbegin(struct seqcount *s)
{
	__atomic_store_n(&s->seq, s->seq + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void write_seqend(struct seqcount *s)
{
	__atomic_store_n(&s->seq, s->seq + 1, __ATOMIC_RELEASE);
}

#endif
