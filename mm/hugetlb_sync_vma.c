/*
 * hugetlb.sync=vma: a semaphore for each VMA. A fault holds it for reading from its walk to its last use of the entry; whoever
 * may take the table away holds it for writing. Faults of different VMAs, and of different processes, meet nowhere.
 *
 *	fault		fault mutex -> vma_lock read -> (i_mmap read, only while a table is being shared) -> entry
 *	munmap, ...	VMA locked -> vma_lock write -> i_mmap write -> entry
 *	truncate	[fault mutex ->] i_mmap write -> vma_lock write, by trylock -> entry
 *
 * Truncate comes from the other side: it finds the VMA in i_mmap, and only then its semaphore. It must not wait there, since
 * a fault may hold the semaphore and want i_mmap (E18, R2). So it tries, and if that fails lets i_mmap go and takes both in
 * order. The VMA may be gone by then; so the semaphore is an object of its own, counted, which says whose it is (E17):
 *
 *	truncate			munmap
 *	i_mmap; try vma_lock: busy
 *	count the object
 *	drop i_mmap
 *					VMA leaves i_mmap
 *					close: waits for vma_lock, vma = NULL, drops it
 *	vma_lock, i_mmap
 *	object says NULL, or the VMA is in no list: start again
 *
 * Private VMAs have the same object (R24), where it keeps DONTNEED from a fault that wants the very page (R15). If there is
 * no memory for one, the VMA lives without: it never shares a table, so nobody takes one away from its faults.
 */
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/refcount.h"
#include "mm/hugetlb_sync.h"
#include "mm/pmd_share.h"
#include "mm/slab.h"

struct hugetlb_vma_lock {
	struct rwsem	 rw;		/* LOCK_HUGETLB_VMA */
	struct vma	*vma;		/* rw; NULL: closed */
	struct refcount	 refs;		/* the VMA's, and one per truncate that waits */
};

static void put_lock(struct hugetlb_vma_lock *l)
{
	if (refcount_dec_and_test(&l->refs))
		kfree(l);
}

/* A copy is in i_mmap already when it gets its lock; truncate must see either none, and then keeps us out here, or a whole one. */
static void open_vma(struct vma *vma)
{
	struct hugetlb_vma_lock *l = kmalloc(sizeof(*l), GFP_KERNEL);
	bool linked = !list_empty(&vma->i_mmap_node);

	assert(!vma->hugetlb_lock);
	if (!l)
		return;
	rwsem_init(&l->rw, LOCK_HUGETLB_VMA);
	refcount_set(&l->refs, 1);
	l->vma = vma;
	if (linked)
		down_write(&vma->mapping->i_mmap_lock);
	vma->hugetlb_lock = l;
	if (linked)
		up_write(&vma->mapping->i_mmap_lock);
}

static void close_vma(struct vma *vma)
{
	struct hugetlb_vma_lock *l = vma->hugetlb_lock;

	if (!l)
		return;
	down_write(&l->rw);
	l->vma = NULL;
	up_write(&l->rw);
	vma->hugetlb_lock = NULL;
	put_lock(l);
}

static bool may_share(const struct vma *vma)
{
	return READ_ONCE(vma->hugetlb_lock) != NULL;
}

static void begin(struct vma *vma)
{
	if (likely(vma->hugetlb_lock))
		down_read(&vma->hugetlb_lock->rw);
}

static void end(struct vma *vma)
{
	if (likely(vma->hugetlb_lock))
		up_read(&vma->hugetlb_lock->rw);
}

static void change_begin(struct vma *vma)
{
	if (vma->hugetlb_lock)
		down_write(&vma->hugetlb_lock->rw);
	down_write(&vma->mapping->i_mmap_lock);
}

static void change_end(struct vma *vma)
{
	up_write(&vma->mapping->i_mmap_lock);
	if (vma->hugetlb_lock)
		up_write(&vma->hugetlb_lock->rw);
}

/* i_mmap_lock is held on entry and on return, and was not in between. False: @l's VMA has gone, @l is not locked. */
static bool lock_in_order(struct mapping *m, struct hugetlb_vma_lock *l)
{
	up_write(&m->i_mmap_lock);
	race_window("truncate_dropped_i_mmap");
	down_write(&l->rw);
	down_write(&m->i_mmap_lock);
	if (l->vma && !list_empty(&l->vma->i_mmap_node))
		return true;
	up_write(&l->rw);
	return false;
}

/*
 * E18. Of a range (the first, cheap pass of a removal) each VMA is visited once: the list only grows at its end, so the place in
 * it is good as long as the VMA that we stand on is. That proves nothing about what faults do behind us, and need not.
 *
 * Of one page (the pass that has to be exact; its fault mutex is held) all VMAs must be visited under one hold of i_mmap_lock:
 *
 *	truncate				fault in A, of another page
 *	A: leaves its table
 *	B: semaphore is busy, i_mmap dropped
 *						shares B's table, with our page in it
 *	B: leaves the table; A keeps it, and the page
 *
 * So when i_mmap_lock was dropped we look from the start again, at those that have an entry for the page. Nobody but a fault
 * that shares can give them one, and each turn follows a fault that we waited for.
 */
static void unmap_file(struct mapping *m, u64 first, u64 last, bool even_cows)
{
	struct hstate *h = hstate_inode(m->host);
	bool exact = last - first == 1, gone;
	struct vma *vma;

	down_write(&m->i_mmap_lock);
again:
	list_for_each_entry(vma, &m->i_mmap, i_mmap_node) {
		struct hugetlb_vma_lock *l = vma->hugetlb_lock;

		if (!vma_maps_file_pages(vma, first, last, h) || (exact && !huge_file_page_has_entry(vma, first)))
			continue;
		if (!l || down_write_trylock(&l->rw)) {
			huge_unmap_file_pages(vma, first, last, even_cows);
			if (l)
				up_write(&l->rw);
			continue;
		}
		refcount_inc(&l->refs);
		gone = !lock_in_order(m, l);
		if (!gone) {
			huge_unmap_file_pages(vma, first, last, even_cows);
			up_write(&l->rw);
		}
		put_lock(l);
		if (gone || exact)
			goto again;
	}
	up_write(&m->i_mmap_lock);
}

const struct hugetlb_sync_ops hugetlb_sync_vma = {
	.name = "vma",
	.order = { LOCK_HUGETLB_FAULT, LOCK_HUGETLB_VMA, LOCK_I_MMAP, LOCK_PTE, NR_LOCK_CLASSES },
	.open = open_vma,
	.close = close_vma,
	.may_share = may_share,
	.begin = begin,
	.end = end,
	.make_table = sync_share_or_alloc,
	.lock_entry = huge_lock_stable_entry,
	.change_begin = change_begin,
	.change_end = change_end,
	.leave_table = huge_pmd_unshare,
	.table_has_others = sync_table_is_shared,
	.unmap_file = unmap_file,
	.evict_file = sync_evict_nothing,
	/* Without its lock a VMA has to settle by i_mmap_lock; with it that does no harm. */
	.settle_begin = sync_i_mmap_read_lock,
	.settle_end = sync_i_mmap_read_unlock,
};
