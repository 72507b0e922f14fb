/*
 * Fork: the child gets the parent's pages, one VMA at a time.
 *
 *	VMA				child's entries
 *	---------------------------	---------------------------------------------------------------
 *	shared, or private file memory	none: faults find the pages again in the file. Unless an entry knows more
 *	that was never written		than the file does: device memory, uffd-wp bits
 *	private, was written (anon_vma)	entry by entry:
 *	   anonymous page		the same page, read-only in both; it loses its exclusive mark (mm/cow.c)
 *	   pinned anonymous page	a copy at once: the page must stay the parent's, whose pin points to it (B13)
 *	   page of the file		the same page; it is read-only already
 *	   zero page			the same entry
 *	   marker			poison is inherited; uffd-wp only if the child is registered
 *
 * Locks: both mmap_locks for write, the parent's VMA write-locked (C5): no fault of the parent's other threads runs in
 * it. But they still run, and may still write through translations from before. When we return, those are flushed, so
 * that nothing written after fork() has returned can reach the child (R46).
 *
 * The rule that is easy to break: the child's VMA must be in the rmap lists before the first entry is copied, behind
 * its parent. Truncate walks the lists at the same time: it empties the parent's entry before we copy it, or comes to
 * the child later.
 */
#include "mm/rmap.h"

#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "mm/fault_internal.h"
#include "mm/frame.h"
#include "mm/hugetlb.h"
#include "mm/page_walk.h"
#include "mm/tlb.h"

struct copy {
	struct vma	*child, *parent;
	struct page	*spare;		/* for a pinned page; allocated with no lock held */
	bool		 protected;	/* an entry of the parent lost its write right */
};

static int copy_table(struct copy *c, pmd_t *from, uintptr_t addr, uintptr_t end);

static bool needs_copy(const struct vma *child, const struct vma *parent)
{
	if (child->flags & VM_WIPEONFORK)
		return false;
	if (child->flags & (VM_PFNMAP | VM_UFFD_WP))
		return true;
	return vma_is_private(parent) && parent->anon_vma;
}

static int copy_range(struct copy *c)
{
	uintptr_t addr = c->parent->start, end = c->parent->end, stop;
	pmd_t *pmd;

	for (; next_pte_table(c->parent->mm, &addr, end, &pmd, &stop); addr = stop) {
		int err = copy_table(c, pmd, addr, stop);

		if (err)
			return err;
		race_window("fork_table_copied");
		if (fatal_signal_pending())
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* Sleeps. After an error the child holds what was copied so far: the caller unmaps it. */
int copy_vma_pages(struct vma *child, struct vma *parent)
{
	struct copy c = { .child = child, .parent = parent };

	assert_mmap_write_locked(parent->mm);
	assert_vma_write_locked(parent);
	if (unlikely(parent->flags & VM_HUGETLB))
		return hugetlb_copy_vma(child, parent);
	if (!needs_copy(child, parent))
		return 0;

	int err = copy_range(&c);
	race_window("fork_before_flush");
	if (c.protected)		/* also after an error: the entries are read-only, the translations must be too */
		flush_tlb_range(parent->mm, parent->start, parent->end, false);
	if (c.spare)
		put_page(c.spare);
	return err;
}

/* -- one table -- */

/* The page of a locked parent entry becomes shared. False: it is pinned, and has to be copied. */
static bool share_anon(struct copy *c, struct page *page, pte_t *src, uintptr_t addr)
{
	if (page_test(page, PG_anon_exclusive)) {
		if (unlikely(page_maybe_pinned(page)))
			return false;
		page_clear(page, PG_anon_exclusive);
	}
	if (pte_writable(pte_read(src))) {
		pte_clear_bits(src, PTE_WRITE);		/* keeps A and D, which the parent's threads still set */
		c->protected = true;
	}
	get_page(page);
	page_add_anon(page, c->child, addr);
	return true;
}

/* The child gets a page of its own. */
static void copy_pinned(struct copy *c, pte_t *dst, const struct page *page, uintptr_t addr, bool keep_wp)
{
	struct page *copy = c->spare;

	c->spare = NULL;
	copy_page(page_to_virt(copy), page_to_virt(page));
	page_add_new_anon(copy, c->child, addr);
	pte_t entry = vma_pte(c->child, copy, true);
	if (keep_wp)
		entry = (pte_t){ (entry.v & ~PTE_WRITE) | PTE_UFFD_WP };
	pte_write_entry(dst, entry);
}

/* Both tables are locked, the parent's entry is not none. 0, or -EAGAIN: needs a spare page first. */
static int copy_entry(struct copy *c, pte_t *dst, pte_t *src, uintptr_t addr, s64 rss[])
{
	pte_t e = pte_read(src);
	bool keep_wp = c->child->flags & VM_UFFD_WP;

	if (unlikely(pte_marker(e))) {
		if (e.v & PTE_MARKER_POISON)
			pte_write_entry(dst, (pte_t){ PTE_MARKER_POISON });
		else if (keep_wp)
			pte_write_entry(dst, e);
		return 0;
	}

	struct page *page = pte_normal_page(e);
	if (page && page_test(page, PG_anon)) {
		if (unlikely(!share_anon(c, page, src, addr))) {
			if (!c->spare)
				return -EAGAIN;
			copy_pinned(c, dst, page, addr, keep_wp && pte_uffd_wp(e));
			rss[MM_ANONPAGES]++;
			return 0;
		}
		rss[MM_ANONPAGES]++;
	} else if (page) {
		get_page(page);
		page_add_file(page, c->child);
		rss[page_mm_counter(page)]++;
	}
	if (vma_is_private(c->child))
		e.v &= ~PTE_WRITE;
	if (!keep_wp)
		e.v &= ~PTE_UFFD_WP;
	pte_write_entry(dst, e);
	return 0;
}

/* Two tables of different processes: by address, since another fork may lock the same two the other way round. */
static void lock_pair(struct spinlock *a, struct spinlock *b)
{
	spin_lock(a < b ? a : b);
	spin_lock_nested(a < b ? b : a);
}

/* The part of one parent table that lies in [addr, end). 0, -ENOMEM. */
static int copy_table(struct copy *c, pmd_t *from, uintptr_t addr, uintptr_t end)
{
	struct mm *mm = c->child->mm;
	s64 rss[NR_MM_COUNTERS] = { 0 };
	pmd_t *to = pmd_alloc(mm, addr);
	int err;

	if (!to || pte_alloc(mm, to))
		return -ENOMEM;
	do {
		/* Neither table can go: we hold both mmap_locks for write. */
		struct spinlock *src_ptl = pte_lockptr(from), *dst_ptl = pte_lockptr(to);
		pte_t *src = pte_offset(pmd_read(from), addr), *dst = pte_offset(pmd_read(to), addr);

		err = 0;
		lock_pair(src_ptl, dst_ptl);
		for (; addr < end; addr += PAGE_SIZE, src++, dst++) {
			if (pte_none(pte_read(src)))
				continue;
			err = copy_entry(c, dst, src, addr, rss);
			if (unlikely(err))
				break;
		}
		spin_unlock(dst_ptl);
		spin_unlock(src_ptl);
		if (err == -EAGAIN) {
			c->spare = alloc_page(GFP_USER);
			err = c->spare ? -EAGAIN : -ENOMEM;
		}
	} while (err == -EAGAIN);

	for (int i = 0; i < NR_MM_COUNTERS; i++)
		if (rss[i])
			mm_counter_add(mm, i, rss[i]);
	return err;
}
