/*
 * Zapping: taking pages out of a range of one VMA, for munmap, exit, DONTNEED, truncate and hole punching.
 *
 * The page tables stay (free_pgtables() is another step); each entry is emptied, its page's map count and the process's
 * Rss go down, and the reference that the entry held goes into the gather, which drops it after the flush: a page must
 * not be reused while some CPU may still write to it through a stale translation. That order is not left to this file's
 * care: tlb_flush() is the only way for a page out of a gather.
 *
 * Locks: any of mmap_lock, the VMA's lock, or, for truncate, which comes through the file, mapping->i_mmap_lock for
 * read. So faults may run beside us and put in pages right behind us; who needs the range to stay empty must see to
 * that himself (munmap: VMA write-locked; truncate: i_size lowered first).
 *
 * The rule that is easy to break: a dirty bit must reach the page before the entry's lock is dropped, and while a CPU
 * may still have a dirty translation the page must not be written back, or the last writes are lost. So where a file
 * keeps account of dirty pages the flush is done under the lock, which writeback takes too (page_mkclean).
 */
#include "mm/rmap.h"

#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "mm/hugetlb.h"
#include "mm/page_walk.h"
#include "mm/tlb.h"

struct zap {
	struct mmu_gather *tlb;
	struct vma	*vma;
	bool		 even_cows;	/* private copies too, not only pages of the file */
	bool		 keep_wp;	/* the uffd-wp bit of a file page outlives the page (F36) */
};

static void zap_range(struct zap *z, uintptr_t start, uintptr_t end);

void zap_vma_range(struct mmu_gather *tlb, struct vma *vma, uintptr_t start, uintptr_t end, bool even_cows)
{
	struct zap z = { .tlb = tlb, .vma = vma, .even_cows = even_cows };

	assert(start >= vma->start && end <= vma->end && start <= end);
	if (unlikely(vma->flags & VM_HUGETLB))
		hugetlb_zap_range(tlb, vma, start, end, even_cows);
	else
		zap_range(&z, start, end);
}

/* DONTNEED. mmap_lock or the VMA lock for read. On return no CPU uses the old pages. */
void zap_page_range(struct vma *vma, uintptr_t start, uintptr_t end)
{
	struct mmu_gather tlb;
	struct zap z = {
		.tlb = &tlb,
		.vma = vma,
		.even_cows = true,
		.keep_wp = !vma_is_anonymous(vma) && (vma->flags & VM_UFFD_WP),
	};

	assert_vma_locked(vma);
	if (unlikely(vma->flags & VM_HUGETLB)) {
		hugetlb_zap_page_range(vma, start, end);
		return;
	}
	tlb_gather_begin(&tlb, vma->mm);
	zap_range(&z, start, end);
	tlb_gather_end(&tlb);
}

/* A marker has no page. Poison belongs to the private memory that was lost; what is only unmapped by truncate keeps it. */
static void zap_marker(struct zap *z, pte_t *pte, pte_t e)
{
	if ((e.v & PTE_MARKER_POISON) ? z->even_cows : !z->keep_wp)
		pte_write_entry(pte, (pte_t){ 0 });
}

/*
 * A present entry: cleared, its page counted in @rss and handed to the gather. True: the gather is full. *flush_now: a
 * dirty page of a file that is written back was unmapped.
 */
static bool zap_present(struct zap *z, pte_t *pte, struct page *page, s64 rss[], bool *flush_now)
{
	pte_t e = pte_get_and_clear(pte);	/* the CPU may set D until this very moment */

	if (unlikely(z->keep_wp && pte_uffd_wp(e)))
		pte_write_entry(pte, (pte_t){ PTE_MARKER_UFFD_WP });
	if (!page)
		return false;
	if (page_test(page, PG_anon)) {
		rss[MM_ANONPAGES]--;
	} else {
		rss[file_mm_counter(page)]--;
		if (pte_dirty(e)) {
			mapping_mark_dirty(page);
			*flush_now |= page->mapping && mapping_tracks_dirty(page->mapping);
		}
	}
	page_remove_rmap(page, z->vma);
	return tlb_add_page(z->tlb, page);
}

/* The entries of one table. Returns how far it came: @end, or less when the gather had to be emptied. */
static uintptr_t zap_table(struct zap *z, pmd_t *pmd, uintptr_t addr, uintptr_t end)
{
	struct mm *mm = z->vma->mm;
	s64 rss[NR_MM_COUNTERS] = { 0 };
	uintptr_t first = end, last = addr;	/* entries that were cleared: [first, last) */
	bool full = false, flush_now = false;
	struct spinlock *ptl;
	pte_t *pte = pte_offset_lock(mm, pmd, addr, &ptl);

	if (!pte)
		return end;
	for (; addr < end && !full; pte++, addr += PAGE_SIZE) {
		pte_t e = pte_read(pte);

		if (pte_none(e))
			continue;
		if (unlikely(pte_marker(e))) {
			zap_marker(z, pte, e);
			continue;
		}
		struct page *page = pte_normal_page(e);
		if (unlikely(!z->even_cows) && page && page_test(page, PG_anon))
			continue;
		if (addr < first)
			first = addr;
		last = addr + PAGE_SIZE;
		full = zap_present(z, pte, page, rss, &flush_now);
	}
	if (first < last)
		tlb_note_cleared(z->tlb, first, last - first);
	if (unlikely(flush_now))
		flush_tlb_range(mm, first, last, false);
	for (int c = 0; c < NR_MM_COUNTERS; c++)
		if (rss[c])
			mm_counter_add_locked(mm, c, rss[c]);
	pte_unlock(ptl);

	race_window("zap_before_flush");
	if (full)
		tlb_flush(z->tlb);
	return addr;
}

static void zap_range(struct zap *z, uintptr_t start, uintptr_t end)
{
	uintptr_t addr = start, stop;
	pmd_t *pmd;

	while (next_pte_table(z->vma->mm, &addr, end, &pmd, &stop)) {
		addr = zap_table(z, pmd, addr, stop);
		cond_resched();
	}
}
