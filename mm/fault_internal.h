/* Between the files that serve faults (fault.c, cow.c, filemap.c) only. */
#ifndef MM_FAULT_INTERNAL_H
#define MM_FAULT_INTERNAL_H

#include "kernel/panic.h"
#include "mm/fault.h"
#include "mm/rmap.h"
#include "mm/uffd.h"

/*
 * Locks the entry and looks again (B12): false, with nothing locked, if it is no longer what was decided on. The table
 * itself is where it was: it can go only when both mmap_lock and the VMA are locked for writing, and we hold one.
 */
static inline bool vmf_lock_pte(struct vm_fault *vmf)
{
	assert(vmf->ptl == pte_lockptr(vmf->pmd));
	spin_lock(vmf->ptl);
	if (likely(pte_read(vmf->pte).v == vmf->orig_pte.v))
		return true;
	pte_unlock(vmf->ptl);
	return false;
}

/* An entry for a page of @vma after a read, or after a write: then dirty, and writable if the VMA is (FOLL_FORCE writes where it is not). */
static inline pte_t vma_pte(const struct vma *vma, const struct page *page, bool write)
{
	u64 prot = vma->page_prot | PTE_ACCESSED;

	if (write)
		prot |= PTE_DIRTY | (vma->flags & VM_WRITE ? PTE_WRITE : 0);
	return mk_pte(page, prot);
}

/* What goes in over a uffd-wp marker is write-protected, as the marker promised (F36). */
static inline pte_t vmf_keep_marker(const struct vm_fault *vmf, pte_t entry)
{
	if (unlikely(vmf->orig_pte.v == PTE_MARKER_UFFD_WP && (vmf->vma->flags & VM_UFFD_WP)))
		return (pte_t){ (entry.v & ~PTE_WRITE) | PTE_UFFD_WP };
	return entry;
}

/* May this fault let go of its lock and come back with RETRY (B2)? */
static inline bool vmf_may_drop_lock(const struct vm_fault *vmf)
{
	return (vmf->flags & (FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_RETRY_NOWAIT)) == FAULT_FLAG_ALLOW_RETRY;
}

/* -- mm/fault.c -- */
/* Makes sure that an anonymous page can be put in (C7). 0, VM_FAULT_OOM or VM_FAULT_RETRY. */
vm_fault_t vmf_anon_prepare_slow(struct vm_fault *vmf);
static inline vm_fault_t vmf_anon_prepare(struct vm_fault *vmf)
{
	return likely(READ_ONCE(vmf->vma->anon_vma)) ? 0 : vmf_anon_prepare_slow(vmf);
}
/*
 * The folio lock of a page that the caller holds a reference of. 0: locked. VM_FAULT_RETRY: not locked, the reference
 * is gone, and the fault's lock too unless RETRY_NOWAIT.
 */
vm_fault_t vmf_lock_page_slow(struct vm_fault *vmf, struct page *page);
static inline vm_fault_t vmf_lock_page(struct vm_fault *vmf, struct page *page)
{
	return likely(trylock_page(page)) ? 0 : vmf_lock_page_slow(vmf, page);
}
/* After a shared page was written through a mapping; it is locked, and is unlocked here. 0, COMPLETED or RETRY (section G). */
vm_fault_t fault_dirty_shared_page(struct vm_fault *vmf, struct page *page);

/* -- mm/cow.c -- */
vm_fault_t do_wp_page(struct vm_fault *vmf);

static inline void copy_page(void *to, const void *from)
{
	u64 words = PAGE_SIZE / 8;

	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
}

#endif
