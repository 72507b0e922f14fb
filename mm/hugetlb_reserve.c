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
 * minimum is promised to it as a whole, at mount, for its mappings to draw on before they ask the pool (mm/hugetlb_subpool.c). The
 * bits of files are in mm/hugetlb_file_map.c; what private mappings were promised, and taking pages, is here.
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
	int err = hugetlb_charge(h, sp, to - from);

	if (err)
		return err;
	pm = kzalloc(sizeof(*pm) + 2 * DIV_ROUND_UP(to - from, 64ul) * 8, GFP_KERNEL);
	if (!pm) {
		hugetlb_uncharge(h, sp, to - from);
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
	return !vma || (vm_flags & VM_MAYSHARE) ? hugetlb_reserve_shared(inode, from, to) : reserve_private(vma, inode, from, to);
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

void hugetlb_vma_inherit_mark(struct vma *copy, struct vma *vma)
{
	if (hugetlb_vma_is_unmapped(vma))
		hugetlb_vma_mark_unmapped(copy);
}

/* -- taking a page --------------------------------------------------------------------------------------------------- */

/* One that no map has promised: it counts against the subpool, and may come out of its minimum. */
struct page *hugetlb_take_unpromised(struct hstate *h, struct hugetlb_subpool *sp)
{
	struct page *page;
	u64 kept;

	if (hugetlb_subpool_charge(sp, 1, &kept))
		return ERR_PTR(-ENOSPC);
	page = hugetlb_pool_take(h, kept);
	if (!page) {
		hugetlb_pool_unpromise(h, hugetlb_subpool_undo(sp, 1, kept));
		return ERR_PTR(-ENOSPC);
	}
	hugetlb_subpool_get(sp);
	page->private = (uintptr_t)sp;
	return page;
}

/* One that a map has promised; it was counted against the subpool then. By D1 there is one. */
struct page *hugetlb_take_promised(struct hstate *h, struct hugetlb_subpool *sp)
{
	struct page *page = hugetlb_pool_take(h, true);

	BUG_ON(!page);
	hugetlb_subpool_get(sp);
	page->private = (uintptr_t)sp | HP_PROMISED;
	return page;
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
		return hugetlb_take_unpromised(h, sp);
	return hugetlb_take_promised(h, sp);
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

enum hugetlb_promise hugetlb_private_promise(const struct vma *vma, u64 idx, u64 end, u64 *n)
{
	struct private_map *pm = private_map(vma);
	u64 i, same = 1;
	bool spent;

	*n = end - idx;
	if (!pm)
		return HUGETLB_NONE;		/* promised nothing: no reservation, or a child of fork */
	i = idx - pm->first;
	assert(i + *n <= pm->nr);
	spin_lock(&pm->lock);
	spent = test_bit64(pm->spent, i);
	while (same < *n && test_bit64(pm->spent, i + same) == spent)
		same++;
	spin_unlock(&pm->lock);
	*n = same;
	return spent ? HUGETLB_TAKEN : HUGETLB_PROMISED;
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
	bool wanted = t->kind == HP_RESTORE_FILE ? hugetlb_file_map_redeem(t->promiser, t->idx) : redeem_private(t->promiser, t->idx);

	if (!wanted)
		hugetlb_uncharge(h, sp, 1);
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
	hugetlb_uncharge(hstate_vma(vma), hugetlbfs_subpool(vma->file->inode), retire(vma, pm));
	private_map_put(pm);
}

/* Before open: the child has its parent's pointer, but nothing was promised to it (D6, D25). What its parent has lost, it has too. */
void hugetlb_fork_vma(struct vma *child)
{
	if (vma_is_private(child))
		child->private = (void *)((uintptr_t)child->private & PRIVATE_UNMAPPED);
}

/* After open of both: what was @from's is @to's alone. */
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
