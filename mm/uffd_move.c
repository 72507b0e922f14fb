/*
 * UFFDIO_MOVE: pages change their address, without a copy. What a compacting collector wants.
 *
 * Both places are private anonymous memory, each in one VMA, perhaps the same. For a batch of entries of one table here and one
 * there, with both table locks held:
 *
 *	1. look: the old entry has a page that is this process's alone, the new one is empty
 *	2. clear the old entries, flush them
 *	3. write the new ones
 *
 * Between 2 and 3 nobody can see that the page is nowhere: faults of either place wait for its table's lock. A thread that
 * still writes through the old address does so before the flush, and the write is in the page; afterwards it faults.
 *
 * The rule that is easy to break (R42): a page may move only while this entry is all there is to it. Another process (after
 * fork) or a pin would go on using it by the old name. PG_anon_exclusive says that of the one and the count of references of
 * the other, and both can change only under the lock of the entry, by fork and by page pinning. Nobody else looks for
 * anonymous pages: there is no swap, and no lockless pinning.
 */
#include "mm/uffd_internal.h"

#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "kernel/task.h"
#include "mm/fault_internal.h"
#include "mm/mm.h"
#include "mm/page_walk.h"
#include "mm/tlb.h"
#include "mm/uaccess.h"

#define MOVE_BATCH	32u		/* entries for one flush; they are kept on the stack meanwhile */

struct move {
	struct uffd	*ctx;
	struct vma	*dst_vma, *src_vma;
	uintptr_t	 dst, src;	/* the next page */
	u64		 left;		/* bytes */
	bool		 holes;		/* UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES */
};

/* -- one batch -- */

/* By address, as the rank table says; two addresses may lie in one table. */
static void lock_tables(struct spinlock *a, struct spinlock *b)
{
	spin_lock(a < b ? a : b);
	if (a != b)
		spin_lock_nested(a < b ? b : a);
}

static void unlock_tables(struct spinlock *a, struct spinlock *b)
{
	spin_unlock(a);
	if (a != b)
		spin_unlock(b);
}

/* 1. Both entries locked. 0 or -errno (F37). */
static int check_entry(const struct move *mv, pte_t dst, pte_t src)
{
	struct page *page;

	if (!pte_none(dst))
		return -EEXIST;
	if (pte_none(src))
		return mv->holes ? 0 : -ENOENT;
	if (pte_marker(src))
		return -EFAULT;
	page = pte_normal_page(src);
	if (page && (!page_test(page, PG_anon) || !page_test(page, PG_anon_exclusive) || page_maybe_pinned(page)))
		return -EBUSY;
	return 0;
}

/* 2. */
static void take_out(struct move *mv, pte_t *src, pte_t taken[], unsigned int n)
{
	bool flush = false;

	for (unsigned int i = 0; i < n; i++) {
		taken[i] = pte_none(pte_read(src + i)) ? (pte_t){ 0 } : pte_get_and_clear(src + i);
		flush |= !pte_none(taken[i]);
	}
	race_window("uffd_move_before_flush");
	if (flush)
		flush_tlb_range(mv->src_vma->mm, mv->src, mv->src + n * PAGE_SIZE, false);
}

/* 3. The page belongs to its new VMA, and counts as written to (as after mremap). */
static void put_in(struct move *mv, pte_t *dst, const pte_t taken[], unsigned int n)
{
	struct vma *vma = mv->dst_vma;

	for (unsigned int i = 0; i < n; i++) {
		struct page *page;

		if (pte_none(taken[i]))
			continue;
		page = pte_normal_page(taken[i]);
		if (!page) {
			pte_write_entry(dst + i, mk_pte(zero_page, (vma->page_prot & ~PTE_WRITE) | PTE_SPECIAL | PTE_ACCESSED));
			continue;
		}
		page->anon_vma = vma->anon_vma;
		page->index = linear_index(vma, mv->dst + i * PAGE_SIZE);
		pte_write_entry(dst + i, vma_pte(vma, page, true));
	}
}

/* As many entries as go in one batch; mv moves on. 0, or why the next entry could not be moved. */
static int move_batch(struct move *mv, pmd_t *dst_pmd, pmd_t *src_pmd, unsigned int max)
{
	struct spinlock *dst_ptl = pte_lockptr(dst_pmd), *src_ptl = pte_lockptr(src_pmd);
	pte_t *dst = pte_offset(pmd_read(dst_pmd), mv->dst), *src = pte_offset(pmd_read(src_pmd), mv->src);
	pte_t taken[MOVE_BATCH];
	unsigned int n = 0;
	int err = 0;

	lock_tables(dst_ptl, src_ptl);
	for (; n < max; n++) {
		err = check_entry(mv, pte_read(dst + n), pte_read(src + n));
		if (err)
			break;
	}
	race_window("uffd_move_checked");
	if (n) {
		take_out(mv, src, taken, n);
		put_in(mv, dst, taken, n);
	}
	unlock_tables(dst_ptl, src_ptl);
	mv->dst += n * PAGE_SIZE;
	mv->src += n * PAGE_SIZE;
	mv->left -= n * PAGE_SIZE;
	return err;
}

/* -- the range -- */

/*
 * The batch must not overlap itself: a page would have to be in its old and its new place at once. Then the destination's
 * entries are not empty, unless they are holes; so a batch ends where the other place begins.
 */
static unsigned int batch_size(const struct move *mv)
{
	u64 n = min(mv->left >> PAGE_SHIFT, (u64)MOVE_BATCH);
	u64 apart = (mv->dst > mv->src ? mv->dst - mv->src : mv->src - mv->dst) >> PAGE_SHIFT;

	n = min(n, (pmd_addr_end(mv->dst, mv->dst + mv->left) - mv->dst) >> PAGE_SHIFT);
	n = min(n, (pmd_addr_end(mv->src, mv->src + mv->left) - mv->src) >> PAGE_SHIFT);
	return (unsigned int)(apart ? min(n, apart) : min(n, 1ul));
}

static bool has_table(struct mm *mm, uintptr_t addr)
{
	pmd_t *pmd = pmd_walk(mm, addr);

	return pmd && pmd_table(pmd_read(pmd));
}

static int move_some(struct move *mv)
{
	struct mm *mm = mv->ctx->mm;
	pmd_t *dst, *src;

	if (!mv->holes && !has_table(mm, mv->src))
		return -ENOENT;
	src = pmd_alloc(mm, mv->src);
	dst = pmd_alloc(mm, mv->dst);
	if (!src || !dst || pte_alloc(mm, src) || pte_alloc(mm, dst))
		return -ENOMEM;
	return move_batch(mv, dst, src, batch_size(mv));
}

/* F37: what kind of memory, seen once both VMAs are locked. */
static int check_vmas(const struct move *mv)
{
	const struct vma *d = mv->dst_vma, *s = mv->src_vma;
	const u64 same = VM_ACCESS | VM_LOCKED;

	if (!vma_is_private(s) || mv->left > s->end - mv->src || !vma_is_private(d) || mv->left > d->end - mv->dst)
		return -EINVAL;
	if ((s->flags & same) != (d->flags & same) || s->page_prot != d->page_prot || !(s->flags & VM_WRITE))
		return -EINVAL;
	if ((s->flags | d->flags) & (VM_PFNMAP | VM_IO | VM_HUGETLB))
		return -EINVAL;
	return d->uffd == mv->ctx && vma_is_anonymous(s) && vma_is_anonymous(d) ? 0 : -EINVAL;
}

/* Bytes moved, or -errno if none. */
static s64 move_range(struct move *mv)
{
	u64 len = mv->left, done;
	int err = uffd_locking->lock_pair(mv->ctx->mm, mv->dst, mv->src, &mv->dst_vma, &mv->src_vma);

	if (err)
		return err;
	race_window("uffd_move_locked");
	if (!uffd_map_stable_begin(mv->ctx)) {
		err = -EAGAIN;
		goto unlock;
	}
	err = check_vmas(mv);
	while (!err && mv->left) {
		err = move_some(mv);
		if (fatal_signal_pending() && !err)
			err = -EINTR;
		cond_resched();
	}
	uffd_map_stable_end(mv->ctx);
unlock:
	uffd_locking->unlock_pair(mv->dst_vma, mv->src_vma);
	done = len - mv->left;
	return done ? (s64)done : err;
}

struct uffdio_move { u64 dst, src, len, mode; s64 move; };

long uffd_move(struct uffd *ctx, void __user *arg)
{
	struct uffdio_move __user *uarg = arg;
	struct uffdio_move req;
	struct move mv = { .ctx = ctx };
	s64 done;

	if (unlikely(uffd_map_is_changing(ctx)))
		return put_user((s64)-EAGAIN, &uarg->move) ? -EFAULT : -EAGAIN;
	if (copy_in(&req, arg, offsetof(struct uffdio_move, move)))
		return -EFAULT;
	if (ctx->mm != current->mm)
		return -EINVAL;
	if (uffd_check_range(req.dst, req.len) || uffd_check_range(req.src, req.len))
		return -EINVAL;
	if (req.mode & ~(u64)(UFFDIO_MODE_DONTWAKE | UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES))
		return -EINVAL;
	mv.dst = req.dst;
	mv.src = req.src;
	mv.left = req.len;
	mv.holes = req.mode & UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES;
	done = move_range(&mv);
	return uffd_report(ctx, done, req.len, req.dst, !(req.mode & UFFDIO_MODE_DONTWAKE), &uarg->move);
}
