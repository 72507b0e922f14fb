/*
 * The promises: who may take which huge page, and how a promise is kept, spent, given back.
 *
 * A promise is one page in hstate.resv. It is made at mmap or shmget for each page of the range that lacks one, so that a
 * later fault cannot fail for want of pages. Two kinds of map say for which pages promises are out:
 *
 *   Shared mappings: the file has the map, two bits for each index.
 *
 *	promised	a promise is out for this index and nobody has taken a page for it
 *	used		a page was taken by promise, or the file has a page; nothing need be promised for it
 *
 *			reserve			take by promise			insert into the file
 *	neither  -->  promised   -->   used (page: HP_PROMISED)   -->   used
 *		 <--		 <--					 <--
 *	      unreserve		restore					 page removed: neither
 *
 *     A page that was taken without a promise marks nothing until it is in the file: then it sets used, and if somebody has
 *     promised the index meanwhile, that promise has been met and is given back. Truncate may clear used while the page is
 *     on its way into the file: then restore finds it clear, and the page simply goes back to the pool (R12, R17).
 *     The fault mutex of the index keeps two pages from being on their way to it at once.
 *
 *   Private mappings: the VMA has the map, one bit for each page of the range that was mapped: spent, its promise has been
 *     used. All of it is promised at mmap. Split halves share the map, mremap takes it along, a fork child gets none (D6).
 *     The map never grows, so giving a promise back cannot fail (R19).
 *
 * The rule that is easy to break: a bit says "promised" only while hstate.resv counts it. Making a promise, the pool counts first
 * and the bit follows; taking it back, the bit goes first. So it is when a page comes back with its promise, after an error
 * or by DONTNEED: the page carries a ticket, who promised it and for which index. When the last reference is gone it
 * enters the pool as promised, and only then the ticket is redeemed: the bit returns, or, if nobody wants it any more (the
 * file was cut, the mapping is gone), the promise ends. Without that detour a truncate or a fault that came between the two
 * steps would give back or spend what is not counted yet.
 *
 * A mount's size= and min_size= are a subpool between maps and pool: all its promises and pages count as used of it, and the
 * minimum is promised to it as a whole, at mount, for its mappings to draw on before they ask the pool (D17).
 *
 * Nothing here holds two of its locks at once.
 */
#include "mm/hugetlb_internal.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/string.h"
#include "mm/hugetlb_sync.h"
#include "mm/rmap.h"
#include "mm/slab.h"

/* -- subpools ------------------------------------------------------------------------------------------------------ */

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
static int subpool_charge(struct hugetlb_subpool *sp, u64 n, u64 *kept)
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
static u64 subpool_undo(struct hugetlb_subpool *sp, u64 n, u64 kept)
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
static int charge(struct hstate *h, struct hugetlb_subpool *sp, u64 n)
{
	u64 kept;

	if (!n)
		return 0;
	if (subpool_charge(sp, n, &kept))
		return -ENOMEM;
	race_window("hugetlb_subpool_charged");
	if (!hugetlb_pool_promise(h, n - kept))
		return 0;
	hugetlb_pool_unpromise(h, subpool_undo(sp, n, kept));
	return -ENOMEM;
}

static void uncharge(struct hstate *h, struct hugetlb_subpool *sp, u64 n)
{
	if (n)
		hugetlb_pool_unpromise(h, hugetlb_subpool_uncharge(sp, n));
}

/* -- the map of a file ---------------------------------------------------------------------------------------------- */

/*
 * 512 indexes: a GiB of 2 MiB pages. Pinned while somebody between two holds of the lock relies on its being there; an empty
 * one that nobody pins is freed, so that the map is no larger than what it tells of.
 */
#define CHUNK_PAGES	512u
struct map_chunk {
	u32	pins;			/* C  */
	u64	promised[CHUNK_PAGES / 64];	/* C */
	u64	used[CHUNK_PAGES / 64];		/* C */
};

static inline bool test_bit64(const u64 *bits, u64 i) { return bits[i / 64] >> (i % 64) & 1; }
static inline void set_bit64(u64 *bits, u64 i) { bits[i / 64] |= 1ul << (i % 64); }
static inline void clear_bit64(u64 *bits, u64 i) { bits[i / 64] &= ~(1ul << (i % 64)); }

void hugetlb_file_map_init(struct hugetlb_file_map *map)
{
	spin_lock_init(&map->lock, LOCK_HUGETLB_POOL);
	map->chunks.root = NULL;
}

/* Lock held. NULL: nothing is promised or used around there. */
static struct map_chunk *chunk_of(struct hugetlb_file_map *map, u64 idx)
{
	return radix_lookup(&map->chunks, idx / CHUNK_PAGES);
}

/* Lock held. Frees it if it says nothing. */
static void chunk_prune(struct hugetlb_file_map *map, struct map_chunk *c, u64 number)
{
	u64 any = c->pins;

	for (unsigned int i = 0; i < CHUNK_PAGES / 64; i++)
		any |= c->promised[i] | c->used[i];
	if (any)
		return;
	radix_remove(&map->chunks, number);
	kfree(c);
}

/* Makes chunk @number exist until it is unpinned. Sleeps. 0 or -ENOMEM. */
static int chunk_pin(struct hugetlb_file_map *map, u64 number)
{
	struct radix_pool pool = { 0 };
	struct map_chunk *new = NULL, *c;
	int err = 0;

	for (;;) {
		spin_lock(&map->lock);
		c = radix_lookup(&map->chunks, number);
		if (!c && new) {
			err = radix_insert(&map->chunks, number, new, &pool);
			if (!err) {
				c = new;
				new = NULL;
			}
		}
		if (c)
			c->pins++;
		spin_unlock(&map->lock);
		if (c)
			break;
		if (!new)
			new = kzalloc(sizeof(*new), GFP_KERNEL);
		if (!new || (err == -EAGAIN && radix_pool_fill(&pool, GFP_KERNEL))) {
			err = -ENOMEM;
			break;
		}
	}
	radix_pool_drain(&pool);
	kfree(new);
	return c ? 0 : err;
}

/* Chunks [first, end). */
static void chunks_unpin(struct hugetlb_file_map *map, u64 first, u64 end)
{
	for (u64 number = first; number < end; number++) {
		spin_lock(&map->lock);
		struct map_chunk *c = radix_lookup(&map->chunks, number);

		c->pins--;
		chunk_prune(map, c, number);
		spin_unlock(&map->lock);
	}
}

static int chunks_pin(struct hugetlb_file_map *map, u64 first, u64 end)
{
	for (u64 number = first; number < end; number++) {
		int err = chunk_pin(map, number);

		if (err) {
			chunks_unpin(map, first, number);
			return err;
		}
	}
	return 0;
}

/* Lock held, chunks pinned. Indexes of [from, to) that need a promise and have none; with @mark they get it. */
static u64 count_missing(struct hugetlb_file_map *map, u64 from, u64 to, bool mark)
{
	u64 missing = 0;

	for (u64 idx = from; idx < to; idx++) {
		struct map_chunk *c = chunk_of(map, idx);
		u64 i = idx % CHUNK_PAGES;

		if (test_bit64(c->promised, i) || test_bit64(c->used, i))
			continue;
		missing++;
		if (mark)
			set_bit64(c->promised, i);
	}
	return missing;
}

/*
 * Counts, charges, and looks again: if more is missing now (a page was punched), more is charged; once the charge suffices the
 * bits are set under the same hold of the lock, and what was too much goes back (R21).
 */
static int reserve_shared(struct inode *inode, u64 from, u64 to)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	struct hugetlb_subpool *sp = hugetlbfs_subpool(inode);
	struct hstate *h = hstate_inode(inode);
	u64 first = from / CHUNK_PAGES, end = DIV_ROUND_UP(to, CHUNK_PAGES), charged = 0, missing;
	int err;

	/* Each index has a page, a promise, or needs one: more than that there cannot be. */
	if (to - from > 2 * hugetlb_pool_ceiling(h))
		return -ENOMEM;
	err = chunks_pin(map, first, end);
	if (err)
		return err;
	for (;;) {
		spin_lock(&map->lock);
		missing = count_missing(map, from, to, false);
		if (missing <= charged)
			count_missing(map, from, to, true);
		spin_unlock(&map->lock);
		if (missing <= charged)
			break;
		race_window("hugetlb_reserve_counted");
		err = charge(h, sp, missing - charged);
		if (err) {
			missing = 0;
			break;
		}
		charged = missing;
	}
	uncharge(h, sp, charged - missing);
	chunks_unpin(map, first, end);
	return err;
}

/*
 * The file ends before @from now, or is about to go. Pages of the range were removed; one that is still on its way into the
 * file will find that it is too late (i_size), so nothing is kept for it.
 */
void hugetlb_unreserve_pages(struct inode *inode, u64 from, u64 to)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	u64 number = from / CHUNK_PAGES, promises = 0;
	struct map_chunk *c;

	spin_lock(&map->lock);
	for (; (c = radix_next(&map->chunks, &number, RADIX_ANY)) && number * CHUNK_PAGES < to; number++) {
		u64 base = number * CHUNK_PAGES;

		for (u64 i = from > base ? from - base : 0; i < CHUNK_PAGES && base + i < to; i++) {
			promises += test_bit64(c->promised, i);
			clear_bit64(c->promised, i);
			clear_bit64(c->used, i);
		}
		chunk_prune(map, c, number);
	}
	spin_unlock(&map->lock);
	uncharge(hstate_inode(inode), hugetlbfs_subpool(inode), promises);
}

/* -- the map of a private mapping ----------------------------------------------------------------------------------- */

/*   I  constant   P  lock */
struct private_map {
	struct refcount	 refs;		/* VMAs: one, and what was split off; tickets */
	struct spinlock	 lock;		/* LOCK_HUGETLB_POOL */
	u64		 first;		/* I  index of bit 0 */
	u64		 nr;		/* I */
	u64		 spent[];	/* P  bit i: the promise for index first + i was used. Then as many: its VMA is gone */
};

#define PRIVATE_UNMAPPED	1ul	/* in vma->private, beside the pointer: pages were taken away (D24) */

static struct private_map *private_map(const struct vma *vma)
{
	if (!vma_is_private(vma))
		return NULL;
	return (struct private_map *)((uintptr_t)READ_ONCE(vma->private) & ~PRIVATE_UNMAPPED);
}

static void private_map_put(struct private_map *pm)
{
	if (refcount_dec_and_test(&pm->refs))
		kfree(pm);
}

static u64 *gone_bits(struct private_map *pm)
{
	return pm->spent + DIV_ROUND_UP(pm->nr, 64ul);
}

/* False: it was spent before. */
static bool spend(struct private_map *pm, u64 idx)
{
	u64 i = idx - pm->first;
	bool was_spent;

	assert(i < pm->nr);
	spin_lock(&pm->lock);
	was_spent = test_bit64(pm->spent, i);
	set_bit64(pm->spent, i);
	spin_unlock(&pm->lock);
	return !was_spent;
}

static int reserve_private(struct vma *vma, struct inode *inode, u64 from, u64 to)
{
	struct hugetlb_subpool *sp = hugetlbfs_subpool(inode);
	struct hstate *h = hstate_inode(inode);
	struct private_map *pm;
	int err = charge(h, sp, to - from);

	if (err)
		return err;
	pm = kzalloc(sizeof(*pm) + 2 * DIV_ROUND_UP(to - from, 64ul) * 8, GFP_KERNEL);
	if (!pm) {
		uncharge(h, sp, to - from);
		return -ENOMEM;
	}
	refcount_set(&pm->refs, 1);
	spin_lock_init(&pm->lock, LOCK_HUGETLB_POOL);
	pm->first = from;
	pm->nr = to - from;
	vma->private = pm;
	return 0;
}

/* The range of @vma is no longer anybody's. How many promises for it were not spent. */
static u64 retire(const struct vma *vma, struct private_map *pm)
{
	struct hstate *h = hstate_vma(vma);
	u64 first = hugetlb_index(h, vma, vma->start) - pm->first, unspent = 0;

	spin_lock(&pm->lock);
	for (u64 i = first; i < first + (vma_pages(vma) >> h->order); i++) {
		unspent += !test_bit64(pm->spent, i);
		set_bit64(gone_bits(pm), i);
	}
	spin_unlock(&pm->lock);
	return unspent;
}

/* -- reserving ------------------------------------------------------------------------------------------------------- */

int hugetlb_reserve_pages(struct inode *inode, u64 from, u64 to, struct vma *vma, u64 vm_flags)
{
	if (vm_flags & VM_NORESERVE)
		return 0;
	if (to - from > 2 * hugetlb_pool_ceiling(hstate_inode(inode)))
		return -ENOMEM;
	return !vma || (vm_flags & VM_MAYSHARE) ? reserve_shared(inode, from, to) : reserve_private(vma, inode, from, to);
}

bool hugetlb_vma_is_owner(const struct vma *vma)
{
	return private_map(vma) != NULL;
}

void hugetlb_vma_mark_unmapped(struct vma *vma)
{
	assert(vma_is_private(vma));
	__atomic_fetch_or((uintptr_t *)&vma->private, PRIVATE_UNMAPPED, __ATOMIC_RELEASE);
}

bool hugetlb_vma_is_unmapped(const struct vma *vma)
{
	return vma_is_private(vma) && ((uintptr_t)__atomic_load_n(&vma->private, __ATOMIC_ACQUIRE) & PRIVATE_UNMAPPED);
}

/* -- taking a page --------------------------------------------------------------------------------------------------- */

/* One that no map has promised: it counts against the subpool, and may come out of its minimum. */
static struct page *take_unpromised(struct hstate *h, struct hugetlb_subpool *sp)
{
	struct page *page;
	u64 kept;

	if (subpool_charge(sp, 1, &kept))
		return ERR_PTR(-ENOSPC);
	page = hugetlb_pool_take(h, kept);
	if (!page) {
		hugetlb_pool_unpromise(h, subpool_undo(sp, 1, kept));
		return ERR_PTR(-ENOSPC);
	}
	hugetlb_subpool_get(sp);
	page->private = (uintptr_t)sp;
	return page;
}

/* One that a map has promised; it was counted against the subpool then. By D1 there is one. */
static struct page *take_promised(struct hstate *h, struct hugetlb_subpool *sp)
{
	struct page *page = hugetlb_pool_take(h, true);

	BUG_ON(!page);
	hugetlb_subpool_get(sp);
	page->private = (uintptr_t)sp | HP_PROMISED;
	return page;
}

struct page *hugetlb_alloc_page_file(struct inode *inode, u64 idx)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	struct hugetlb_subpool *sp = hugetlbfs_subpool(inode);
	struct hstate *h = hstate_inode(inode);
	struct map_chunk *c;
	bool promised;

	spin_lock(&map->lock);
	c = chunk_of(map, idx);
	promised = c && test_bit64(c->promised, idx % CHUNK_PAGES);
	if (promised) {
		clear_bit64(c->promised, idx % CHUNK_PAGES);
		set_bit64(c->used, idx % CHUNK_PAGES);
	}
	spin_unlock(&map->lock);
	return promised ? take_promised(h, sp) : take_unpromised(h, sp);
}

struct page *hugetlb_alloc_page(struct vma *vma, uintptr_t addr, bool avoid_reserve)
{
	struct inode *inode = vma->file->inode;
	struct hugetlb_subpool *sp = hugetlbfs_subpool(inode);
	struct private_map *pm = private_map(vma);
	struct hstate *h = hstate_vma(vma);
	u64 idx = hugetlb_index(h, vma, addr);

	if (!vma_is_private(vma))
		return hugetlb_alloc_page_file(inode, idx);
	if (!pm || avoid_reserve || !spend(pm, idx))
		return take_unpromised(h, sp);
	return take_promised(h, sp);
}

/* -- and what becomes of it ------------------------------------------------------------------------------------------ */

void hugetlb_page_is_used(struct page *page)
{
	page->private &= ~HP_PROMISED;
}

/* The ticket lies in the second struct page of the folio, where these two fields have no other use. */
static void put_ticket(struct page *page, void *promiser, u64 idx, u64 kind)
{
	page[1].private = (uintptr_t)promiser;
	page[1].index = idx;
	page->private = (page->private & ~HP_PROMISED) | kind;
}

void hugetlb_restore_reserve_file(struct inode *inode, u64 idx, struct page *page)
{
	if (page->private & HP_PROMISED)
		put_ticket(page, inode, idx, HP_RESTORE_FILE);
}

void hugetlb_restore_reserve(struct vma *vma, uintptr_t addr, struct page *page)
{
	struct private_map *pm = private_map(vma);
	u64 idx = hugetlb_index(hstate_vma(vma), vma, addr);

	if (!vma_is_private(vma)) {
		hugetlb_restore_reserve_file(vma->file->inode, idx, page);
	} else if (page->private & HP_PROMISED) {
		refcount_inc(&pm->refs);
		put_ticket(page, pm, idx, HP_RESTORE_PRIVATE);
	}
}

/*
 * D9. Only if this is the last map of the page, else a promise would come back that a child's page still fills. And only
 * without surplus: then this very page may be on its way out of the pool. The caller has not removed the rmap yet.
 */
void hugetlb_zap_restores_reserve(struct vma *vma, uintptr_t addr, struct page *page)
{
	struct private_map *pm = private_map(vma);
	struct hstate *h = hstate_vma(vma);
	u64 idx = hugetlb_index(h, vma, addr);

	if (!pm || !page_test(page, PG_anon) || page_mapcount(page) != 1 || READ_ONCE(h->surplus) || (huge_page_state(page) & HP_RESTORE))
		return;
	refcount_inc(&pm->refs);
	put_ticket(page, pm, idx, HP_RESTORE_PRIVATE);
}

static bool redeem_file(struct inode *inode, u64 idx)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	u64 i = idx % CHUNK_PAGES;
	bool wanted;

	spin_lock(&map->lock);
	struct map_chunk *c = chunk_of(map, idx);

	wanted = c && test_bit64(c->used, i);
	if (wanted) {
		clear_bit64(c->used, i);
		set_bit64(c->promised, i);
	}
	spin_unlock(&map->lock);
	return wanted;
}

static bool redeem_private(struct private_map *pm, u64 idx)
{
	u64 i = idx - pm->first;
	bool wanted;

	spin_lock(&pm->lock);
	wanted = !test_bit64(gone_bits(pm), i) && test_bit64(pm->spent, i);
	if (wanted)
		clear_bit64(pm->spent, i);
	spin_unlock(&pm->lock);
	private_map_put(pm);
	return wanted;
}

struct hugetlb_ticket hugetlb_ticket_of(struct page *page)
{
	struct hugetlb_ticket t = { .kind = page->private & HP_RESTORE };

	if (t.kind) {
		t.promiser = (void *)page[1].private;
		t.idx = page[1].index;
		page[1].private = 0;
	}
	return t;
}

void hugetlb_ticket_redeem(struct hugetlb_ticket *t, struct hstate *h, struct hugetlb_subpool *sp)
{
	bool wanted = t->kind == HP_RESTORE_FILE ? redeem_file(t->promiser, t->idx) : redeem_private(t->promiser, t->idx);

	if (!wanted)
		uncharge(h, sp, 1);
}

int hugetlb_add_to_page_cache(struct page *page, struct inode *inode, u64 idx)
{
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	u64 number = idx / CHUNK_PAGES;
	bool met = false;
	int err = chunk_pin(map, number);

	if (err)
		return err;
	race_window("hugetlb_before_insert");
	err = mapping_add_page(&inode->mapping, page, idx);
	if (!err) {
		spin_lock(&map->lock);
		struct map_chunk *c = radix_lookup(&map->chunks, number);

		/* Promised while we came without: the promise is met by this page. */
		met = test_bit64(c->promised, idx % CHUNK_PAGES);
		clear_bit64(c->promised, idx % CHUNK_PAGES);
		set_bit64(c->used, idx % CHUNK_PAGES);
		spin_unlock(&map->lock);
		hugetlb_page_is_used(page);
	}
	chunks_unpin(map, number, number + 1);
	uncharge(hstate_inode(inode), hugetlbfs_subpool(inode), met);
	return err;
}

void hugetlb_remove_from_page_cache(struct page *page)
{
	struct inode *inode = page->mapping->host;
	struct hugetlb_file_map *map = hugetlbfs_file_map(inode);
	u64 idx = page->index;

	mapping_remove_page(page);
	spin_lock(&map->lock);
	struct map_chunk *c = chunk_of(map, idx);

	if (c) {
		clear_bit64(c->used, idx % CHUNK_PAGES);
		chunk_prune(map, c, idx / CHUNK_PAGES);
	}
	spin_unlock(&map->lock);
}

/* -- VMAs come and go ------------------------------------------------------------------------------------------------ */

static void hugetlb_vma_open(struct vma *vma)
{
	struct private_map *pm = private_map(vma);

	if (pm)
		refcount_inc(&pm->refs);
	hugetlb_sync->open(vma);
}

/* Its pages are gone. What was promised to its range and not used goes back; the rest of the map is the other halves'. */
static void hugetlb_vma_close(struct vma *vma)
{
	struct private_map *pm = private_map(vma);

	hugetlb_sync->close(vma);
	if (!pm)
		return;
	vma->private = NULL;
	uncharge(hstate_vma(vma), hugetlbfs_subpool(vma->file->inode), retire(vma, pm));
	private_map_put(pm);
}

/* Before open: the child has its parent's pointer, but nothing was promised to it (D6, D25). */
void hugetlb_fork_vma(struct vma *child)
{
	if (vma_is_private(child))
		child->private = NULL;
}

/* After open of @to: what was @from's is @to's alone. */
void hugetlb_move_vma(struct vma *to, struct vma *from)
{
	struct private_map *pm = private_map(from);

	assert(private_map(to) == pm);
	if (!pm)
		return;
	from->private = NULL;
	private_map_put(pm);
}

static int hugetlb_vma_may_split(struct vma *vma, uintptr_t addr)
{
	return IS_ALIGNED(addr, huge_page_size(hstate_vma(vma))) ? 0 : -EINVAL;
}

const struct vma_ops hugetlb_vma_ops = {
	.open = hugetlb_vma_open,
	.close = hugetlb_vma_close,
	.may_split = hugetlb_vma_may_split,
};
