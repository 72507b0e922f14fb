/*
 * Entries of huge pages, and what they do to the page: shared by the fault, the other walks and userfaultfd. An entry is a pte_t
 * wherever it stands: in a PMD table for 2 MiB, in a PUD table for 1 GiB; the bits are those of a leaf.
 */
#ifndef MM_HUGETLB_ENTRY_H
#define MM_HUGETLB_ENTRY_H

#include "kernel/panic.h"
#include "mm/hugetlb_sync.h"

/* A table that belongs to a file, not to an address space (hugetlb.sync=file): the rights are in the PUD entry. */
static inline bool table_is_of_file(const struct page *table) { return !table->pt_mm; }

/* After a read, or after a write: then dirty, and writable if the VMA is. */
static inline pte_t huge_mk_entry(const struct vma *vma, const struct page *page, bool write)
{
	u64 prot = vma->page_prot | PTE_HUGE | PTE_ACCESSED;

	if (write)
		prot |= PTE_DIRTY | (vma->flags & VM_WRITE ? PTE_WRITE : 0);
	return mk_pte(page, prot);
}

/* The same for a page of the file, in whichever table the entry stands. */
static inline pte_t huge_file_entry(const struct huge_entry *e, const struct page *page, bool write)
{
	if (unlikely(table_is_of_file(virt_to_page(e->pte))))
		return mk_pte(page, TABLE_PROT | PTE_HUGE);
	return huge_mk_entry(e->vma, page, write);
}

/* What goes in over a uffd-wp marker is write-protected, as the marker promised (F36). */
static inline pte_t huge_keep_marker(const struct vma *vma, pte_t orig, pte_t entry)
{
	if (unlikely(orig.v == PTE_MARKER_UFFD_WP && (vma->flags & VM_UFFD_WP)))
		return (pte_t){ (entry.v & ~PTE_WRITE) | PTE_UFFD_WP };
	return entry;
}

/* -- map counts; the entry's lock is held -- */

static inline void huge_add_file_rmap(struct page *page) { __atomic_fetch_add(&page->mapcount, 1, __ATOMIC_RELAXED); }
static inline void huge_remove_rmap(struct page *page)
{
	u32 old = __atomic_fetch_sub(&page->mapcount, 1, __ATOMIC_RELEASE);
	BUG_ON(old == 0);
}
/* A page that nobody else knows. There is no anon_vma: whoever has to find its mappings goes by the file (D24). */
static inline void huge_add_new_anon(struct page *page)
{
	page->flags |= 1u << PG_anon | 1u << PG_anon_exclusive;
	page->mapcount = 1;
}

/* -- mm/hugetlb_vma.c -- */

/* The missing tables for @addr. False: no memory. Sleeps. Somebody may take the last one away again at once. */
bool huge_make_table(struct vma *vma, struct hstate *h, uintptr_t addr);
/*
 * A new page, clear or filled, becomes the file's page @idx, unless one is there (-EEXIST) or the file has shrunk (-EFAULT); or
 * -ENOMEM. On failure the page is given back with its reservation, on success it has a reference for the caller. Under the
 * fault mutex. Sleeps.
 */
int huge_insert_page(struct vma *vma, uintptr_t addr, struct page *page, u64 idx);
/* D24: every other private VMA of the file that has the owner's page at @addr of @vma loses it. Sleeps. */
void huge_take_from_children(struct vma *vma, uintptr_t addr);

#endif
