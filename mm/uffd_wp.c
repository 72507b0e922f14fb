/*
 * Write protection: UFFDIO_WRITEPROTECT, and taking it off at the end of a registration.
 *
 *	entry		protect					unprotect
 *	--------------	--------------------------------------	--------------------------------------
 *	present		loses the write right, gets the bit	loses the bit, regains the right if the VMA
 *								and the page allow it
 *	none		file memory: gets a marker, so that a	-
 *			page that comes later is protected.
 *			Anonymous: only with WP_UNPOPULATED
 *	marker: wp	-					becomes none
 *	marker: poison	-					-
 *
 * The rule that is easy to break (R32): when the entry's lock is dropped, no CPU may still write through an old
 * translation. Else a fault on another CPU copies the page, or the manager saves it, and the write that follows through
 * the stale translation is lost. So the flush, one for each table, is done under the lock. Rights that grow need none (B16).
 */
#include "mm/uffd_internal.h"

#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "mm/hugetlb_uffd.h"
#include "mm/mapping.h"
#include "mm/mm.h"
#include "mm/page_walk.h"
#include "mm/rmap.h"
#include "mm/tlb.h"
#include "mm/uaccess.h"

struct protect {
	struct vma	*vma;
	bool		 protect;
	bool		 markers;	/* none becomes a marker */
	bool		 flush;		/* an entry of the table lost its write right */
};

bool uffd_wp_is_async(const struct vma *vma)
{
	return uffd_features(vma->uffd) & UFFD_FEATURE_WP_ASYNC;
}

bool uffd_wp_is_tracked(const struct vma *vma)
{
	return (vma->flags & VM_UFFD_WP) && uffd_wp_is_async(vma);
}

static bool uses_markers(const struct vma *vma)
{
	return !vma_is_anonymous(vma) || (uffd_features(vma->uffd) & UFFD_FEATURE_WP_UNPOPULATED);
}

static pte_t new_entry(const struct protect *p, pte_t old)
{
	if (p->protect)
		return (pte_t){ (old.v & ~PTE_WRITE) | PTE_UFFD_WP };
	return pte_modify((pte_t){ old.v & ~PTE_UFFD_WP }, p->vma->page_prot, p->vma);
}

/* The entry is locked. The CPU may set its A and D bits at any moment. */
static void change_entry(struct protect *p, pte_t *pte)
{
	pte_t old;

	do {
		old = pte_read(pte);
		if (!pte_present(old) || pte_uffd_wp(old) == p->protect)
			break;
	} while (!pte_try_replace(pte, old, new_entry(p, old)));

	if (pte_present(old))
		p->flush |= p->protect && pte_writable(old);
	else if (pte_none(old) && p->markers)
		pte_write_entry(pte, (pte_t){ PTE_MARKER_UFFD_WP });
	else if (old.v == PTE_MARKER_UFFD_WP && !p->protect)
		pte_write_entry(pte, (pte_t){ 0 });
}

/* A poisoned page is marked besides: it can be listed as written once, like every other. */
bool uffd_wp_entry(struct vma *vma, pte_t *pte)
{
	struct protect p = { .vma = vma, .protect = true, .markers = true };

	if (pte_read(pte).v == PTE_MARKER_POISON)
		pte_write_entry(pte, (pte_t){ PTE_MARKER_POISON | PTE_MARKER_UFFD_WP });
	else
		change_entry(&p, pte);
	return p.flush;
}

static void change_table(struct protect *p, pmd_t *pmd, uintptr_t start, uintptr_t end)
{
	struct mm *mm = p->vma->mm;
	struct spinlock *ptl;
	pte_t *pte = pte_offset_lock(mm, pmd, start, &ptl);

	if (!pte)
		return;
	p->flush = false;
	for (uintptr_t addr = start; addr < end; addr += PAGE_SIZE, pte++)
		change_entry(p, pte);
	race_window("uffd_wp_before_flush");
	if (p->flush)
		flush_tlb_range(mm, start, end, false);
	pte_unlock(ptl);
}

/* Markers need tables where nothing is mapped yet. */
static int make_tables(struct vma *vma, uintptr_t start, uintptr_t end)
{
	for (uintptr_t addr = start; addr < end; addr = pmd_addr_end(addr, end)) {
		pmd_t *pmd = pmd_alloc(vma->mm, addr);

		if (!pmd || pte_alloc(vma->mm, pmd))
			return -ENOMEM;
		cond_resched();
	}
	return 0;
}

int uffd_wp_range(struct vma *vma, uintptr_t start, uintptr_t end, bool protect)
{
	struct protect p = { .vma = vma, .protect = protect, .markers = protect && uses_markers(vma) };
	uintptr_t addr = start, stop;
	pmd_t *pmd;
	int err;

	assert_vma_locked(vma);
	if (vma->flags & VM_HUGETLB)
		return hugetlb_uffd_wp(vma, start, end, protect);
	if (p.markers) {
		err = make_tables(vma, start, end);
		if (err)
			return err;
	}
	for (; next_pte_table(vma->mm, &addr, end, &pmd, &stop); addr = stop) {
		change_table(&p, pmd, addr, stop);
		cond_resched();
	}
	return 0;
}

/* -- UFFDIO_WRITEPROTECT -- */

struct uffdio_writeprotect { u64 start, len, mode; };

/* The part of [start, end) in one locked VMA. 0 or -errno. */
static int protect_part(struct uffd *ctx, struct vma *vma, uintptr_t start, uintptr_t end, bool protect)
{
	int err;

	if (!uffd_map_stable_begin(ctx))
		return -EAGAIN;
	if (!(vma->flags & VM_UFFD_WP))
		err = -ENOENT;
	else if ((vma->flags & VM_HUGETLB) && ((start | end) & ~huge_page_mask(hstate_vma(vma))))
		err = -EINVAL;
	else
		err = uffd_wp_range(vma, max(start, vma->start), min(end, vma->end), protect);
	uffd_map_stable_end(ctx);
	return err;
}

/* F33. VMA by VMA; holes are skipped. What was done before an error stays. */
static int protect_range(struct uffd *ctx, uintptr_t start, uintptr_t end, bool protect)
{
	uintptr_t addr = start;
	int err = -ENOENT;

	while (addr < end) {
		struct vma *vma = uffd_locking->lock_next(ctx->mm, addr, end);

		if (IS_ERR(vma))
			return (int)PTR_ERR(vma);
		if (!vma)
			break;
		addr = vma->end;
		err = protect_part(ctx, vma, start, end, protect);
		uffd_locking->unlock(vma);
		if (err)
			break;
	}
	return err;
}

long uffd_writeprotect(struct uffd *ctx, void __user *arg)
{
	struct uffdio_writeprotect req;
	bool protect, wake;
	int err;

	if (unlikely(uffd_map_is_changing(ctx)))
		return -EAGAIN;
	if (copy_in(&req, arg, sizeof(req)))
		return -EFAULT;
	if (uffd_check_range(req.start, req.len))
		return -EINVAL;
	if (req.mode & ~(u64)(UFFDIO_WRITEPROTECT_MODE_WP | UFFDIO_WRITEPROTECT_MODE_DONTWAKE))
		return -EINVAL;
	protect = req.mode & UFFDIO_WRITEPROTECT_MODE_WP;
	wake = !(req.mode & UFFDIO_WRITEPROTECT_MODE_DONTWAKE);
	if (protect && !wake)
		return -EINVAL;			/* protecting wakes nobody */
	if (!uffd_pin_mm(ctx))
		return -ESRCH;
	err = protect_range(ctx, req.start, req.start + req.len, protect);
	uffd_unpin_mm(ctx);
	if (!err && !protect && wake)
		uffd_wake_range(ctx, req.start, req.start + req.len);
	return err;
}
