/*
 * Taking pages away from a file: ftruncate, hole punching, eviction of a part. No page that left may stay mapped
 * anywhere, and no fault that runs meanwhile may bring one back.
 *
 * The caller has lowered i_size (truncate) or holds faults off otherwise, and holds the inode's lock. Then:
 *
 *	1. unmap the range, all at once: cheap, but faults that looked at i_size earlier may still map pages
 *	2. each page: lock its folio, unmap it again if it is mapped, remove it from the cache, unlock
 *	3. unmap the range again
 *
 * Why 2 is enough for pages of the file: a fault maps such a page only with its folio locked, after it has looked at
 * page->mapping and i_size under that lock (B11, R12, R13). Why 3 is there: between 1 and 2 a private mapping can copy
 * a page that it still had mapped; the copy is no page of the file, so 2 does not see it, yet it must not survive past
 * the end (A36).
 *
 * Passes are bounded: pages that somebody puts in behind us, in a range that is still part of the file, are his.
 */
#include "mm/mapping.h"

#include "fs/vfs.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/string.h"
#include "mm/rmap.h"
#include "mm/tlb.h"

static void zero_edge(struct mapping *m, loff_t start, loff_t end);
static void remove_pages(struct mapping *m, u64 first, u64 last);

void truncate_mapping_range(struct mapping *m, loff_t start, loff_t end, bool even_cows)
{
	bool to_the_end = (u64)end >= (u64)INT64_MAX - PAGE_SIZE;
	u64 first = DIV_ROUND_UP((u64)start, PAGE_SIZE);
	u64 last = to_the_end ? ~0ul : (u64)end >> PAGE_SHIFT;	/* the first that stays */

	assert(start >= 0 && start <= end);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);	/* i_size written, then look for pages: mm/filemap.c */
	race_window("truncate_begin");
	if (first < last) {
		unmap_mapping_range(m, first, last - first, even_cows);
		race_window("truncate_unmapped");
		remove_pages(m, first, last);
		if (even_cows)
			unmap_mapping_range(m, first, last - first, true);
	}

	/* The parts of pages at both ends; one page if the range lies inside it. */
	if (first > last) {
		zero_edge(m, start, end);
		return;
	}
	zero_edge(m, start, (loff_t)(first << PAGE_SHIFT));
	if (!to_the_end)
		zero_edge(m, (loff_t)(last << PAGE_SHIFT), end);
}

void zero_beyond_end(struct mapping *m, u64 new_size)
{
	u64 old = m->host->size;
	struct page *page = old & ~PAGE_MASK ? mapping_find_get(m, old >> PAGE_SHIFT) : NULL;

	if (!page)
		return;				/* what is stored ends with zeros */
	put_page(page);
	truncate_mapping_range(m, (loff_t)old, (loff_t)min(new_size, ALIGN_UP(old, PAGE_SIZE)), false);
}

/*
 * A page that is being read is locked for as long as that takes, by a server perhaps for ever. One that was read after its
 * file was cut holds zeros there, so to leave it when we are killed harms nobody. What is up to date is locked for a short time only.
 */
static bool lock_page_to_remove(const struct mapping *m, struct page *page)
{
	if (mapping_is_served(m) && !page_test(page, PG_uptodate))
		return !lock_page_killable(page);
	lock_page(page);
	return true;
}

static void remove_pages(struct mapping *m, u64 first, u64 last)
{
	u64 index = first;
	struct page *page;

	for (; (page = mapping_find_get_next(m, &index)); index++) {
		if (index >= last) {
			put_page(page);
			return;
		}
		if (!lock_page_to_remove(m, page)) {
			put_page(page);
			return;
		}
		if (page->mapping == m && page->index == index) {
			wait_on_page_writeback(page);
			if (page_mapcount(page))
				unmap_mapping_range(m, index, 1, false);
			mapping_remove_page(page);
		}
		unlock_page(page);
		put_page(page);
		cond_resched();
	}
}

/* Never waits for a page: what somebody is busy with is in use. One reference is the cache's, one is ours. */
void mapping_drop_clean(struct mapping *m, u64 first, u64 end)
{
	u64 index = first;
	struct page *page;

	if (!m->ops || !m->ops->read_page)
		return;
	for (; (page = mapping_find_get_next(m, &index)) && index < end; index++) {
		if (trylock_page(page)) {
			if (page->mapping == m && page_test(page, PG_uptodate) && !page_test(page, PG_dirty) &&
			    !page_test(page, PG_writeback) && !page_mapcount(page) && page_ref_count(page) == 2)
				mapping_remove_page(page);
			unlock_page(page);
		}
		put_page(page);
		cond_resched();
	}
	if (page)
		put_page(page);
}

/* Bytes [start, end) of one page become zero, so that a file that grows again shows nothing of what was there. */
static void zero_edge(struct mapping *m, loff_t start, loff_t end)
{
	u64 index = (u64)start >> PAGE_SHIFT;
	struct page *page;

	if (start == end)
		return;
	page = mapping_find_get(m, index);
	if (!page && (!(m->ops && m->ops->read_page) || mapping_is_served(m)))
		return;				/* a hole is zeros already, and so is what a server has cut */
	if (page)
		put_page(page);
	page = mapping_get_page_locked(m, index);
	if (IS_ERR(page))
		return;				/* unreadable: what is on the disk cannot be shown either */
	memset((char *)page_to_virt(page) + ((u64)start & ~PAGE_MASK), 0, (size_t)(end - start));
	mapping_mark_dirty(page);
	unlock_page(page);
	put_page(page);
}

/*
 * Out of every mapping: pages [first, first + nr) of the file. Sleeps (i_mmap_lock). The VMAs cannot change their
 * bounds or lose their tables while they are in the list and we hold its lock; their owners may fault meanwhile.
 */
void unmap_mapping_range(struct mapping *m, u64 first, u64 nr, bool even_cows)
{
	u64 last = nr > ~0ul - first ? ~0ul : first + nr;
	struct vma *vma;

	down_read(&m->i_mmap_lock);
	list_for_each_entry(vma, &m->i_mmap, i_mmap_node) {
		u64 from = max(first, vma->pgoff), to = min(last, vma->pgoff + vma_pages(vma));
		struct mmu_gather tlb;

		if (from >= to)
			continue;
		tlb_gather_begin(&tlb, vma->mm);
		zap_vma_range(&tlb, vma, vma->start + ((from - vma->pgoff) << PAGE_SHIFT),
			      vma->start + ((to - vma->pgoff) << PAGE_SHIFT), even_cows);
		tlb_gather_end(&tlb);
		race_window("unmap_next_vma");
	}
	up_read(&m->i_mmap_lock);
}
