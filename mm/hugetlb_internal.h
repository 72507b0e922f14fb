/*
 * Between mm/hugetlb.c (pools), mm/hugetlb_reserve.c (promises) and fs/hugetlbfs.c (files) only.
 *
 * page->private of a huge page that is in use is theirs: the subpool that it counts against, and these bits. It changes only
 * while nobody but its owner knows the page, or under the lock of an entry that maps it.
 */
#ifndef MM_HUGETLB_INTERNAL_H
#define MM_HUGETLB_INTERNAL_H

#include "mm/hugetlb.h"

#define HP_PROMISED		1ul	/* taken by a promise that is not spent yet: allocated, but neither mapped nor in a file */
#define HP_RESTORE_FILE		2ul	/* it comes back with its promise: page[1] has the ticket, of a file */
#define HP_RESTORE_PRIVATE	4ul	/* of a private mapping */
#define HP_RESTORE	(HP_RESTORE_FILE | HP_RESTORE_PRIVATE)
#define HP_TEMPORARY	6ul	/* both: counted nowhere, goes back to the frame allocator */
#define HP_FLAGS	7ul	/* a subpool is 8-byte aligned */

static inline u64 huge_page_state(const struct page *page) { return page->private & HP_FLAGS; }
static inline struct hugetlb_subpool *huge_page_subpool(const struct page *page)
{
	return (struct hugetlb_subpool *)(page->private & ~HP_FLAGS);
}

/* -- mm/hugetlb.c -- */
/* Any context without pool locks; never sleeps. */
void hugetlb_pool_unpromise(struct hstate *h, u64 n);
/* Sleeps: may have to make surplus pages. 0 or -ENOMEM, nothing changed then. */
int __must_check hugetlb_pool_promise(struct hstate *h, u64 n);
/* @promised: one of the pages that somebody was promised; that promise ends. Else one that is over. NULL: none. Sleeps. */
struct page *hugetlb_pool_take(struct hstate *h, bool promised);
/* No mapping can be promised more than this. */
u64 hugetlb_pool_ceiling(struct hstate *h);

#define HUGETLB_MAX_SURPLUS_ORDER 9u	/* larger pages are never made for a mapping that lacks them */
struct hugetlb_counts { u64 nr, free, resv, surplus, overcommit, max; };
void hugetlb_pool_counts(struct hstate *h, struct hugetlb_counts *c);	/* of one moment */
void hugetlb_pool_resize(struct hstate *h, u64 count);	/* as far as it goes (D2). Sleeps, ends early for a signal */
void hugetlb_pool_set_overcommit(struct hstate *h, u64 pages);

/* -- mm/hugetlb_subpool.c: the size= and min_size= of a mount -- */

#define SUBPOOL_NO_LIMIT	(~0ul)

/* ERR_PTR(-ENOMEM): no memory, or the pool cannot promise @min pages. SUBPOOL_NO_LIMIT for each that is not set. Sleeps. */
struct hugetlb_subpool *hugetlb_subpool_create(struct hstate *h, u64 max, u64 min);
void hugetlb_subpool_get(struct hugetlb_subpool *sp);
void hugetlb_subpool_put(struct hugetlb_subpool *sp);	/* the last reference gives the minimum back. NULL is fine. Any context */
/* A page of @sp was freed: how many promises the pool must take back (0: the minimum keeps the page for itself). */
u64 hugetlb_subpool_uncharge(struct hugetlb_subpool *sp, u64 n);
void hugetlb_subpool_limits(struct hugetlb_subpool *sp, u64 *max, u64 *used);	/* one consistent look */

/* @n more pages or promises. *kept: how many of them come out of the minimum. 0 or -ENOSPC. */
int __must_check hugetlb_subpool_charge(struct hugetlb_subpool *sp, u64 n, u64 *kept);
/* Undoes that, exactly (R18). How many must go to the pool because others have filled the minimum up meanwhile. */
u64 hugetlb_subpool_undo(struct hugetlb_subpool *sp, u64 n, u64 kept);
/* @n promises, of subpool and pool. Sleeps. 0 or -ENOMEM, nothing changed then. And back; any context. */
int __must_check hugetlb_charge(struct hstate *h, struct hugetlb_subpool *sp, u64 n);
void hugetlb_uncharge(struct hstate *h, struct hugetlb_subpool *sp, u64 n);

static inline bool test_bit64(const u64 *bits, u64 i) { return bits[i / 64] >> (i % 64) & 1; }
static inline void set_bit64(u64 *bits, u64 i) { bits[i / 64] |= 1ul << (i % 64); }
static inline void clear_bit64(u64 *bits, u64 i) { bits[i / 64] &= ~(1ul << (i % 64)); }

/* -- mm/hugetlb_file_map.c: what a file has promised -- */

/* Two bits for each page of a file; see the top of mm/hugetlb_reserve.c. */
struct hugetlb_file_map {
	struct spinlock		lock;		/* LOCK_HUGETLB_POOL; never with another lock of that class */
	struct radix_tree	chunks;		/* lock */
};
void hugetlb_file_map_init(struct hugetlb_file_map *map);
int __must_check hugetlb_reserve_shared(struct inode *inode, u64 from, u64 to);
/* How it stands with @idx, and in *n with how many indexes below @end in a row, of the file or of a private mapping. Of one moment. */
enum hugetlb_promise { HUGETLB_NONE, HUGETLB_PROMISED, HUGETLB_TAKEN };	/* TAKEN: there is a page, or one is on its way */
enum hugetlb_promise hugetlb_file_promise(struct inode *inode, u64 idx, u64 end, u64 *n);
enum hugetlb_promise hugetlb_private_promise(const struct vma *vma, u64 idx, u64 end, u64 *n);
bool hugetlb_file_map_redeem(struct inode *inode, u64 idx);	/* a page came back with its promise: is that still wanted? */

/* -- mm/hugetlb_reserve.c -- */
/* A page that no map has promised: counts against the subpool, and may come out of its minimum. ERR_PTR(-ENOSPC). Sleeps. */
struct page *hugetlb_take_unpromised(struct hstate *h, struct hugetlb_subpool *sp);
/* One that a map has promised, whose bit has just been cleared; it was counted against the subpool then. Cannot fail (D1). */
struct page *hugetlb_take_promised(struct hstate *h, struct hugetlb_subpool *sp);

/* How a page comes back with its promise; see the top of mm/hugetlb_reserve.c. */
struct hugetlb_ticket { u64 kind, idx; void *promiser; };
struct hugetlb_ticket hugetlb_ticket_of(struct page *page);	/* takes it off the page */
/* The page is in the pool and counted as promised. Any context. */
void hugetlb_ticket_redeem(struct hugetlb_ticket *t, struct hstate *h, struct hugetlb_subpool *sp);


u32 hugetlb_removal_lock(struct mapping *m, u64 idx);
void hugetlb_removal_unlock(u32 hash);

/* -- fs/hugetlbfs.c -- */
struct hugetlb_file_map *hugetlbfs_file_map(struct inode *inode);
struct hugetlb_subpool *hugetlbfs_subpool(struct inode *inode);		/* NULL: the mount has no limits */

#endif
