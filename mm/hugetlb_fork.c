/*
 * Fork of a huge mapping. Shared ones copy nothing: the child finds the pages in the file, and the table of its parent by
 * sharing (D24, E14); unless entries know more than the file does, uffd-wp bits that the child keeps. Private ones are copied
 * entry by entry, as in mm/fork_copy.c, which tells about the locks and about the order in the reverse map.
 */
#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "mm/hugetlb_entry.h"
#include "mm/rmap.h"
#include "mm/tlb.h"

struct huge_copy {
	struct vma	*child, *parent;
	struct hstate	*h;
	struct page	*spare;		/* a copy of spare_of, which is pinned */
	struct page	*spare_of;
	bool		 protected;	/* an entry of the parent lost its write right */
};

/* Both entries are locked. 0, or -EAGAIN: the page is pinned, and must stay the parent's: a copy of it is needed first (B13). */
static int copy_entry(struct huge_copy *c, pte_t *dst, pte_t *src)
{
	pte_t e = pte_read(src);
	bool keep_wp = c->child->flags & VM_UFFD_WP;

	if (pte_none(e))
		return 0;
	if (!pte_present(e)) {
		if ((e.v & PTE_MARKER_POISON) || keep_wp)
			pte_write_entry(dst, e);
		return 0;
	}
	struct page *page = pte_page(e);
	bool anon = page_test(page, PG_anon);
	if (anon && page_test(page, PG_anon_exclusive)) {
		if (page_maybe_pinned(page)) {
			if (c->spare_of != page)
				return -EAGAIN;
			hugetlb_page_is_used(c->spare);
			huge_add_new_anon(c->spare);
			pte_write_entry(dst, huge_mk_entry(c->child, c->spare, true));
			c->spare = c->spare_of = NULL;
			return 0;
		}
		page_clear(page, PG_anon_exclusive);
	}
	if (anon && pte_writable(e)) {
		pte_clear_bits(src, PTE_WRITE);		/* keeps A and D, which the parent's threads still set */
		c->protected = true;
	}
	if (vma_is_private(c->child))
		e.v &= ~PTE_WRITE;
	if (!keep_wp)
		e.v &= ~PTE_UFFD_WP;
	get_page(page);
	__atomic_fetch_add(&page->mapcount, 1, __ATOMIC_RELAXED);
	pte_write_entry(dst, e);
	return 0;
}

static void drop_spare(struct huge_copy *c)
{
	if (!c->spare)
		return;
	hugetlb_restore_reserve(c->child, c->child->start, c->spare);
	put_page(c->spare);
	c->spare = c->spare_of = NULL;
}

/* With nothing locked but the mmap_locks: only truncate can take the page away meanwhile, hence the reference. */
static int copy_pinned(struct huge_copy *c, pte_t *src, uintptr_t addr)
{
	struct spinlock *ptl = huge_lockptr(c->parent, src);
	struct page *page = NULL, *copy;

	drop_spare(c);
	spin_lock(ptl);
	pte_t e = pte_read(src);
	if (pte_present(e)) {
		page = pte_page(e);
		get_page(page);
	}
	spin_unlock(ptl);
	if (!page)
		return 0;

	u32 hash = hugetlb_fault_mutex_lock(c->child->mapping, hugetlb_index(c->h, c->child, addr));
	copy = hugetlb_alloc_page(c->child, addr, true);
	hugetlb_fault_mutex_unlock(hash);
	if (!IS_ERR(copy)) {
		copy_huge_page(copy, page);
		page_set(copy, PG_uptodate);
		c->spare = copy;
		c->spare_of = page;
	}
	put_page(page);
	return IS_ERR(copy) ? -ENOMEM : 0;
}

static int copy_one(struct huge_copy *c, pte_t *src, uintptr_t addr)
{
	struct mm *mm = c->child->mm;
	pte_t *dst = huge_page_shift(c->h) == PUD_SHIFT ? (pte_t *)pud_alloc(mm, addr) : (pte_t *)pmd_alloc(mm, addr);
	int err;

	if (!dst)
		return -ENOMEM;
	do {
		struct spinlock *a = huge_lockptr(c->parent, src), *b = huge_lockptr(c->child, dst);

		spin_lock(a < b ? a : b);
		spin_lock_nested(a < b ? b : a);
		err = copy_entry(c, dst, src);
		spin_unlock(b);
		spin_unlock(a);
		if (err == -EAGAIN && copy_pinned(c, src, addr))
			err = -ENOMEM;
	} while (err == -EAGAIN);
	return err;
}

/*
 * Does a private mapping know anything that the file does not? While it has only read the file's pages the child finds them as it did, by
 * faults, and nothing is copied, as on Linux.
 */
static bool has_pages_of_its_own(struct vma *vma, struct hstate *h)
{
	size_t size = huge_page_size(h);

	for (uintptr_t addr = vma->start; addr < vma->end; addr += size) {
		pte_t *pte = huge_walk(vma->mm, h, addr), e = { 0 };

		if (pte)
			e = pte_read(pte);
		else
			addr = pud_addr_end(addr, vma->end) - size;
		if (!pte_none(e) && (!pte_present(e) || page_test(pte_page(e), PG_anon)))
			return true;
	}
	return false;
}

/* Both mmap_locks write, the parent VMA write-locked. 0, -ENOMEM, -EINTR: then the child holds what was copied so far. Sleeps. */
int hugetlb_copy_vma(struct vma *child, struct vma *parent)
{
	struct huge_copy c = { .child = child, .parent = parent, .h = hstate_vma(parent) };
	size_t size = huge_page_size(c.h);
	int err = 0;

	if (!(child->flags & VM_UFFD_WP) && (!vma_is_private(parent) || !has_pages_of_its_own(parent, c.h)))
		return 0;
	for (uintptr_t addr = parent->start; addr < parent->end && !err; addr += size) {
		pte_t *src = huge_walk(parent->mm, c.h, addr);

		if (!src) {
			addr = pud_addr_end(addr, parent->end) - size;
			continue;
		}
		if (pte_none(pte_read(src)))
			continue;
		err = fatal_signal_pending() ? -EINTR : copy_one(&c, src, addr);
		race_window("hugetlb_fork_entry_copied");
		cond_resched();
	}
	if (c.protected)		/* also after an error: the entries are read-only, the translations must be too (R46) */
		flush_tlb_range(parent->mm, parent->start, parent->end, false);
	drop_spare(&c);
	return err;
}
