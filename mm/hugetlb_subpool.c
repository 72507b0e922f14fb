/*
 * Subpools: the size= and min_size= of a mount of hugetlbfs (D17), between the promises of its files and the pool.
 *
 * All promises to the mount's files and all their pages count as used. The minimum is promised to the subpool as a whole when it
 * is made; mappings draw on that before they ask the pool, and it fills up again as long as the mount uses less than its
 * minimum. The rule that is easy to break (R18): of what was charged together, some came from the minimum and some from the
 * pool, and on failure each goes back to where it came from.
 */
#include "mm/hugetlb_internal.h"

#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "mm/slab.h"

/*   I  constant   L  lock */
struct hugetlb_subpool {
	struct refcount	 refs;		/* the mount, and each page that is counted here */
	struct spinlock	 lock;		/* LOCK_HUGETLB_POOL */
	struct hstate	*h;		/* I */
	u64		 max;		/* I  SUBPOOL_NO_LIMIT: none */
	u64		 min;		/* I  0: none */
	u64		 used;		/* L  pages and promises; counted only where max limits them */
	u64		 kept;		/* L  of min: promised to the subpool and to no mapping yet; kept <= min */
};

struct hugetlb_subpool *hugetlb_subpool_create(struct hstate *h, u64 max, u64 min)
{
	struct hugetlb_subpool *sp = kmalloc(sizeof(*sp), GFP_KERNEL);

	if (!sp)
		return ERR_PTR(-ENOMEM);
	*sp = (struct hugetlb_subpool){ .refs = REFCOUNT_INIT(1), .h = h, .max = max, .min = min == SUBPOOL_NO_LIMIT ? 0 : min };
	spin_lock_init(&sp->lock, LOCK_HUGETLB_POOL);
	sp->kept = sp->min;
	if (hugetlb_pool_promise(h, sp->min)) {
		kfree(sp);
		return ERR_PTR(-ENOMEM);
	}
	return sp;
}

void hugetlb_subpool_get(struct hugetlb_subpool *sp)
{
	if (sp)
		refcount_inc(&sp->refs);
}

void hugetlb_subpool_put(struct hugetlb_subpool *sp)
{
	if (!sp || !refcount_dec_and_test(&sp->refs))
		return;
	BUG_ON(sp->used || sp->kept != sp->min);
	hugetlb_pool_unpromise(sp->h, sp->min);
	kfree(sp);
}

void hugetlb_subpool_limits(struct hugetlb_subpool *sp, u64 *max, u64 *used)
{
	spin_lock(&sp->lock);
	*max = sp->max;
	*used = sp->used;
	spin_unlock(&sp->lock);
}

/* @n more pages or promises. *kept: how many of them come out of the minimum. 0 or -ENOSPC. */
int hugetlb_subpool_charge(struct hugetlb_subpool *sp, u64 n, u64 *kept)
{
	*kept = 0;
	if (!sp)
		return 0;
	spin_lock(&sp->lock);
	if (sp->max != SUBPOOL_NO_LIMIT) {
		if (n > sp->max - sp->used) {
			spin_unlock(&sp->lock);
			return -ENOSPC;
		}
		sp->used += n;
	}
	*kept = min(n, sp->kept);
	sp->kept -= *kept;
	spin_unlock(&sp->lock);
	return 0;
}

/*
 * @n fewer. As long as the mount uses less than its minimum, what is given back stays promised to it; the rest, which is
 * returned, is the pool's. Without a maximum nobody counts what is used: then the minimum is filled up first, as on Linux.
 */
u64 hugetlb_subpool_uncharge(struct hugetlb_subpool *sp, u64 n)
{
	u64 keep = 0;

	if (!sp)
		return n;
	spin_lock(&sp->lock);
	if (sp->max != SUBPOOL_NO_LIMIT) {
		BUG_ON(n > sp->used);
		sp->used -= n;
	}
	if (sp->used < sp->min)
		keep = min(n, sp->min - sp->kept);
	sp->kept += keep;
	spin_unlock(&sp->lock);
	return n - keep;
}

/*
 * Undoes a charge of @n of which @kept came out of the minimum, exactly (R18). How much of that must be given to the pool
 * instead, because others have filled the minimum up meanwhile.
 */
u64 hugetlb_subpool_undo(struct hugetlb_subpool *sp, u64 n, u64 kept)
{
	u64 back;

	if (!sp)
		return 0;
	spin_lock(&sp->lock);
	if (sp->max != SUBPOOL_NO_LIMIT)
		sp->used -= n;
	back = min(kept, sp->min - sp->kept);
	sp->kept += back;
	spin_unlock(&sp->lock);
	return kept - back;
}

/* @n promises for a mapping. Sleeps. 0 or -ENOMEM, nothing changed then. */
int hugetlb_charge(struct hstate *h, struct hugetlb_subpool *sp, u64 n)
{
	u64 kept;

	if (!n)
		return 0;
	if (hugetlb_subpool_charge(sp, n, &kept))
		return -ENOMEM;
	race_window("hugetlb_subpool_charged");
	if (!hugetlb_pool_promise(h, n - kept))
		return 0;
	hugetlb_pool_unpromise(h, hugetlb_subpool_undo(sp, n, kept));
	return -ENOMEM;
}

void hugetlb_uncharge(struct hstate *h, struct hugetlb_subpool *sp, u64 n)
{
	if (n)
		hugetlb_pool_unpromise(h, hugetlb_subpool_uncharge(sp, n));
}
