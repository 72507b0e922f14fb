/*
 * Shared PMD tables. Two VMAs that map the same GiB of a file with 2 MiB pages, the same rights and the same alignment would
 * have two tables with the same 512 entries. They use one instead (E1, E2): the second to come points its PUD entry at the
 * first one's table. With hundreds of processes and hundreds of GiB that is the difference between gigabytes of tables and
 * none, and a page that one of them has faulted in is there for all.
 *
 *	mm A	PUD entry ----+
 *			      +--> PMD table, pt_sharers = 1 --> huge pages
 *	mm B	PUD entry ----+
 *
 * page->pt_sharers of the table counts the PUD entries beyond the first. It is not the reference count of the page: those
 * who look at the table for a moment must not look like sharers (E3, R6).
 *
 *	share	i_mmap_lock held (read is enough) from the search to the insertion. Count up first, then one compare-and-swap
 *		of the empty PUD entry; the loser counts down again (E4, R11). The sibling's table cannot go meanwhile:
 *	unshare	i_mmap_lock for write, and the table's lock. Clears this mm's PUD entry, counts down (E5). Not a page is
 *		touched: they stay for the others and in the file, and this mm faults them in again. Never done to a table
 *		with one user: he edits it.
 *	free	as any table, by its last user, who has found it unshared under i_mmap_lock for write, with his VMA
 *		write-locked; free_pgtables() hands it to RCU (E7).
 *
 * A VMA that is write-locked is about to change: its rights, its edges, its life. Nobody shares with it (vma_is_changing()),
 * which is what closes the gaps between "the flags are new" and "the table has been left", and between "all pages are
 * zapped" and "the VMA is out of i_mmap" (E16).
 *
 * What is easy to break: pt_mm and index of a table name one user and his address; the page-table code builds tables below by
 * that, and the stale-translation checker believes it. When the one that was named has left, the user that remains must
 * take the name over before he edits anything (adopt_table()).
 */
#include "mm/pmd_share.h"

#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/trace.h"
#include "mm/hugetlb_sync.h"
#include "mm/mm.h"
#include "mm/vmstat.h"

bool pmd_window_sharable(const struct vma *vma, uintptr_t addr)
{
	uintptr_t window = addr & PUD_MASK;

	if (!hugetlb_pmd_share_enabled || vma_is_private(vma) || (vma->flags & VM_UFFD_ANY))
		return false;
	if (hugetlb_sync->may_share && !hugetlb_sync->may_share(vma))
		return false;
	return window >= vma->start && vma->end - window >= PUD_SIZE;
}

/*
 * Is somebody changing @vma, of whatever mm, right now? A hint in general. It is more where the caller holds i_mmap_lock and has
 * read a new value of a field that is only written under the write lock of the VMA: that was set before the field (both
 * plain stores, ordered on x86 and to the compiler by the calls between), and is not released before the writer has had
 * i_mmap_lock for write in order to leave its shared tables. So who sees the new value sees the lock.
 */
static bool vma_is_changing(const struct vma *vma)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return READ_ONCE(vma->lock_seq) == READ_ONCE(vma->mm->lock_seq);
}

/* The address at which @sibling maps what @vma maps at @addr, if a table could serve both; else 0 (E1, second half). */
static uintptr_t sibling_address(const struct vma *vma, uintptr_t addr, const struct vma *sibling)
{
	const u64 ignored = VM_LOCKED | VM_LOCKONFAULT;
	u64 page = linear_index(vma, addr);
	uintptr_t there;

	if (sibling == vma || page < sibling->pgoff || page - sibling->pgoff >= vma_pages(sibling))
		return 0;
	there = sibling->start + ((page - sibling->pgoff) << PAGE_SHIFT);
	if (pmd_index(there) != pmd_index(addr) || ((vma->flags ^ READ_ONCE(sibling->flags)) & ~ignored) ||
	    !pmd_window_sharable(sibling, there) || vma_is_changing(sibling))
		return 0;
	return there;
}

bool huge_pmd_share(struct vma *vma, uintptr_t addr, pud_t *pud)
{
	struct mapping *m = vma->mapping;
	struct vma *sibling;

	assert(rwsem_is_locked(&m->i_mmap_lock));
	list_for_each_entry(sibling, &m->i_mmap, i_mmap_node) {
		uintptr_t there = sibling_address(vma, addr, sibling);
		pud_t *theirs = there ? pud_walk(sibling->mm, there) : NULL;
		pud_t e = theirs ? pud_read(theirs) : (pud_t){ 0 };
		u64 none = 0;

		if (!pud_table(e))
			continue;
		struct page *table = pud_page(e);
		u32 sharers = __atomic_add_fetch(&table->pt_sharers, 1, __ATOMIC_RELAXED);
		race_window("pmd_share_counted");
		if (__atomic_compare_exchange_n(&pud->v, &none, e.v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			__atomic_fetch_add(&vma->mm->pgtables_bytes, PAGE_SIZE, __ATOMIC_RELAXED);
			vm_count(VM_pmd_share);
			trace_event(TRACE_SHARE, vma->mm->context_id, addr & PUD_MASK, page_to_pfn(table), sharers);
		} else {
			__atomic_fetch_sub(&table->pt_sharers, 1, __ATOMIC_RELAXED);	/* R11: another fault of this mm was faster */
		}
		return true;
	}
	return false;
}

int huge_pmd_share_or_alloc(struct vma *vma, uintptr_t addr, pud_t *pud, bool locked)
{
	bool shared = false;

	if (pmd_window_sharable(vma, addr)) {
		race_window("hugetlb_before_share");
		if (!locked)
			down_read(&vma->mapping->i_mmap_lock);
		shared = huge_pmd_share(vma, addr, pud);
		if (!locked)
			up_read(&vma->mapping->i_mmap_lock);
	}
	return shared || pmd_alloc(vma->mm, addr) ? 0 : -ENOMEM;
}

/* One user is left, and it is @vma. No lock needed: nobody else can reach the table, and ours are kept out. */
static void adopt_table(struct page *table, struct vma *vma, uintptr_t addr)
{
	if (table->pt_mm != vma->mm || table->index != (addr & PUD_MASK)) {
		table->pt_mm = vma->mm;
		table->index = addr & PUD_MASK;
	}
}

bool huge_pmd_unshare(struct vma *vma, uintptr_t addr, pud_t *pud)
{
	pud_t e = pud_read(pud);
	struct page *table;

	assert(rwsem_is_write_held(&vma->mapping->i_mmap_lock));
	if (!pud_table(e))
		return false;
	table = pud_page(e);
	if (!pmd_table_is_shared(table)) {
		adopt_table(table, vma, addr);
		return false;
	}

	struct spinlock *ptl = huge_lockptr(vma, page_to_virt(table));
	spin_lock(ptl);
	pud_get_and_clear(pud);
	u32 sharers = __atomic_sub_fetch(&table->pt_sharers, 1, __ATOMIC_RELAXED);
	spin_unlock(ptl);
	__atomic_fetch_sub(&vma->mm->pgtables_bytes, PAGE_SIZE, __ATOMIC_RELAXED);
	vm_count(VM_pmd_unshare);
	trace_event(TRACE_UNSHARE, vma->mm->context_id, addr & PUD_MASK, page_to_pfn(table), sharers);
	race_window("pmd_unshared");
	return true;
}
