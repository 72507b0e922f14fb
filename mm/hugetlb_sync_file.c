/*
 * hugetlb.sync=file: the file owns its page tables. For each GiB of it there is one PMD table, in which an entry is present only
 * if the page is in the file. Mapping the GiB means to point a PUD entry at the table; unmapping, to clear it. Whoever maps a
 * file that is populated has all its pages after one fault.
 *
 *	inode --> table of GiB 0 --> huge pages		mm A	PUD entry, read and write ---+
 *	      --> table of GiB 1 --> ...		mm B	PUD entry, read only --------+--> table of GiB 1
 *
 * Why the lock story is shorter. The others have to answer: who may free the table while I use it? Here nobody: the table is
 * freed with the inode, and a VMA holds the file. There is no sharer to count (pt_sharers is kept for /proc alone), none to
 * search, no table that becomes private again, and rights do not have to agree, for they are in the PUD entry:
 *
 *	fault		fault mutex -> entry
 *	munmap, ...	VMA locked -> i_mmap write -> entry
 *	truncate	[fault mutex ->] i_mmap write -> entry
 *
 * A fault beside a DONTNEED may fill an entry of the file's table whose PUD entry has just been cleared. That is right: the page
 * is in the file. A fault beside truncate is kept apart by the fault mutex, as everywhere.
 *
 * It is sound by these rules:
 *
 *   - A PUD entry is installed only for a whole, aligned GiB of one shared VMA without userfaultfd, with 2 MiB pages and
 *     congruent offset (window_is_of_file()). A wp or poison marker would be seen by everybody. Other windows have tables
 *     of their own, which truncate finds through i_mmap.
 *   - Entries in the file's table carry all rights, the PUD entry those of the VMA. So every walk in software must combine the
 *     levels (effective_entry() in mm/hugetlb_vma.c), or a mapping of a read-only descriptor could be written through.
 *   - munmap, mprotect, DONTNEED, mremap, split and registration clear this mm's PUD entry and flush the GiB; the table is not
 *     touched. Only truncate and punch empty entries: table lock, flush of every mm that maps the file, then the page goes.
 *   - PROT_NONE has a table of its own: a PUD entry that is present gives at least the right to read.
 */
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/rcu.h"
#include "kernel/trace.h"
#include "mm/debug.h"
#include "mm/frame.h"
#include "mm/hugetlb_entry.h"
#include "mm/mm.h"
#include "mm/vmstat.h"

#define GIB_SHIFT	(PUD_SHIFT - PAGE_SHIFT)	/* from 4 KiB pages of the file to its GiB */

static bool window_is_of_file(const struct vma *vma, uintptr_t addr)
{
	uintptr_t window = addr & PUD_MASK;

	return hugetlb_pmd_share_enabled && !vma_is_private(vma) && !(vma->flags & VM_UFFD_ANY) && (vma->flags & VM_ACCESS) &&
	       window >= vma->start && vma->end - window >= PUD_SIZE && !(linear_index(vma, window) & ((1ul << GIB_SHIFT) - 1));
}

static u64 pud_rights(const struct vma *vma)
{
	return (TABLE_PROT & ~(vma->flags & VM_WRITE ? 0 : PTE_WRITE)) | (vma->flags & VM_EXEC ? 0 : PTE_NX);
}

/* The file's table for this GiB, made if there is none. It lives as long as the inode. NULL: no memory. Sleeps. */
static struct page *file_table(struct mapping *m, u64 gib)
{
	struct radix_pool pool = { 0 };
	struct page *table, *new;
	int err;

	rcu_read_lock();
	table = radix_lookup(&m->huge_tables, gib);
	rcu_read_unlock();
	if (likely(table))
		return table;
	new = file_table_alloc(gib);
	if (!new)
		return NULL;
	for (;;) {
		spin_lock(&m->tree_lock);
		table = radix_lookup(&m->huge_tables, gib);
		err = table ? -EEXIST : radix_insert(&m->huge_tables, gib, new, &pool);
		spin_unlock(&m->tree_lock);
		if (err != -EAGAIN)
			break;
		err = radix_pool_fill(&pool, GFP_KERNEL);
		if (err)
			break;
	}
	radix_pool_drain(&pool);
	if (!err)
		return new;
	free_table(new);		/* never published */
	return err == -EEXIST ? table : NULL;
}

static int make_table(struct vma *vma, uintptr_t addr, pud_t *pud)
{
	u64 none = 0;

	if (!window_is_of_file(vma, addr))
		return pmd_alloc(vma->mm, addr) ? 0 : -ENOMEM;
	struct page *table = file_table(vma->mapping, linear_index(vma, addr & PUD_MASK) >> GIB_SHIFT);
	if (!table)
		return -ENOMEM;
	race_window("file_table_found");
	if (__atomic_compare_exchange_n(&pud->v, &none, page_to_phys(table) | pud_rights(vma), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		u32 users = __atomic_add_fetch(&table->pt_sharers, 1, __ATOMIC_RELAXED);

		__atomic_fetch_add(&vma->mm->pgtables_bytes, PAGE_SIZE, __ATOMIC_RELAXED);
		vm_count(VM_pmd_share);
		trace_event(TRACE_SHARE, vma->mm->context_id, addr & PUD_MASK, page_to_pfn(table), users);
	}
	return 0;
}

static bool leave_table(struct vma *vma, uintptr_t addr, pud_t *pud)
{
	pud_t e = pud_read(pud);

	if (!pud_table(e) || !table_is_of_file(pud_page(e)))
		return false;
	e = pud_get_and_clear(pud);
	u32 users = __atomic_sub_fetch(&pud_page(e)->pt_sharers, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&vma->mm->pgtables_bytes, PAGE_SIZE, __ATOMIC_RELAXED);
	vm_count(VM_pmd_unshare);
	trace_event(TRACE_UNSHARE, vma->mm->context_id, addr & PUD_MASK, page_to_pfn(pud_page(e)), users);
	race_window("pmd_unshared");
	return true;
}

static bool table_has_others(const struct vma *vma, const struct page *table)
{
	(void)vma;
	return table_is_of_file(table) && __atomic_load_n(&table->pt_sharers, __ATOMIC_RELAXED) > 1;
}

/* Out of the file's own tables: pages [first, last). Their references go to @pages. */
static void empty_tables(struct mapping *m, u64 first, u64 last, struct list_head *pages)
{
	u64 gib = first / PTRS_PER_PMD;

	for (;; gib++) {
		rcu_read_lock();
		struct page *table = radix_next(&m->huge_tables, &gib, RADIX_ANY);
		rcu_read_unlock();
		if (!table || gib * PTRS_PER_PMD >= last)
			return;
		u64 from = max(first, gib * PTRS_PER_PMD), to = min(last, (gib + 1) * PTRS_PER_PMD);
		pte_t *pte = (pte_t *)page_to_virt(table) + from % PTRS_PER_PMD;

		spin_lock(&table->ptl);
		for (; from < to; from++, pte++) {
			if (pte_none(pte_read(pte)))
				continue;
			struct page *page = pte_page(pte_get_and_clear(pte));
			huge_remove_rmap(page);
			list_add(&page->lru, pages);
		}
		spin_unlock(&table->ptl);
	}
}

/* In debug builds: @vma may still use translations to @pages until it is flushed. */
static void note_translations(struct vma *vma, const struct list_head *pages)
{
#ifdef DEBUG
	struct page *page;

	list_for_each_entry(page, pages, lru) {
		u64 at = page->index << page->order;
		uintptr_t addr = vma->start + ((at - vma->pgoff) << PAGE_SHIFT);
		pud_t *pud = at >= vma->pgoff && at - vma->pgoff < vma_pages(vma) ? pud_walk(vma->mm, addr) : NULL;

		if (pud && pud_table(pud_read(pud)) && table_is_of_file(pud_page(pud_read(pud))))
			debug_translation_gone(vma->mm, addr, PMD_SIZE, page, current_rip());
	}
#else
	(void)vma, (void)pages;
#endif
}

/* A page that was found in the file's table and is put back there by a fault meanwhile is a page of the file still: this is no removal. */
static void unmap_file(struct mapping *m, u64 first, u64 last, bool even_cows)
{
	struct hstate *h = hstate_inode(m->host);
	LIST_HEAD(pages);
	struct vma *vma;

	down_write(&m->i_mmap_lock);
	if (huge_page_shift(h) == PMD_SHIFT)
		empty_tables(m, first, last, &pages);
	race_window("file_tables_emptied");
	list_for_each_entry(vma, &m->i_mmap, i_mmap_node) {
		note_translations(vma, &pages);
		huge_unmap_file_pages(vma, first, last, even_cows);
	}
	up_write(&m->i_mmap_lock);
	while (!list_empty(&pages)) {
		struct page *page = list_first_entry(&pages, struct page, lru);

		list_del(&page->lru);
		put_page(page);
	}
}

static void free_file_table(struct rcu_head *head)
{
	free_table(container_of(head, struct page, rcu));
}

/* No VMA is left, so no PUD entry either; walkers in software may still be about, hence RCU. */
static void evict_file(struct mapping *m)
{
	u64 gib = 0;
	struct page *table;

	unmap_file(m, 0, ~0ul, true);
	for (;;) {
		spin_lock(&m->tree_lock);
		table = radix_next(&m->huge_tables, &gib, RADIX_ANY);
		if (table)
			radix_remove(&m->huge_tables, gib);
		spin_unlock(&m->tree_lock);
		if (!table)
			return;
		BUG_ON(table->pt_sharers);
		call_rcu(&table->rcu, free_file_table);
	}
}

const struct hugetlb_sync_ops hugetlb_sync_file = {
	.name = "file",
	.order = { LOCK_HUGETLB_FAULT, LOCK_I_MMAP, LOCK_PTE, NR_LOCK_CLASSES },
	.open = sync_nothing,
	.close = sync_nothing,
	.begin = sync_nothing,
	.end = sync_nothing,
	.make_table = make_table,
	.lock_entry = huge_lock_stable_entry,
	.change_begin = sync_i_mmap_write_lock,
	.change_end = sync_i_mmap_write_unlock,
	.leave_table = leave_table,
	.table_has_others = table_has_others,
	.unmap_file = unmap_file,
	.evict_file = evict_file,
	.settle_begin = sync_i_mmap_read_lock,
	.settle_end = sync_i_mmap_read_unlock,
};
