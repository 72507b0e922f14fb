/* Reference counts that saturate instead of wrapping, so that a leak can never become a use after free. */
#ifndef KERNEL_REFCOUNT_H
#define KERNEL_REFCOUNT_H

#include "kernel/panic.h"

struct refcount { u32 n; };
#define REFCOUNT_INIT(v) { .n = (v) }
#define REFCOUNT_SATURATED 0xc0000000u

static inline void refcount_set(struct refcount *r, u32 v) { __atomic_store_n(&r->n, v, __ATOMIC_RELAXED); }
static inline u32 refcount_read(const struct refcount *r) { return __atomic_load_n(&r->n, __ATOMIC_RELAXED); }

static inline void refcount_inc(struct refcount *r)
{
	u32 old = __atomic_fetch_add(&r->n, 1, __ATOMIC_RELAXED);
	if (unlikely(old == 0))
		panic("reference taken on a dead object");
	if (unlikely(old >= REFCOUNT_SATURATED))
		refcount_set(r, REFCOUNT_SATURATED);
}

/* For lookups without a lock: fails if the object is already on its way out. */
static inline bool refcount_inc_not_zero(struct refcount *r)
{
	u32 old = refcount_read(r);
	do {
		if (!old)
			return false;
	} while (!__atomic_compare_exchange_n(&r->n, &old, old + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

/* True: that was the last one, the caller frees. Orders all earlier use before the free. */
static inline bool __must_check refcount_dec_and_test(struct refcount *r)
{
	u32 old = __atomic_fetch_sub(&r->n, 1, __ATOMIC_ACQ_REL);
	if (unlikely(old == 0))
		panic("reference dropped twice");
	return old == 1;
}

#endif
