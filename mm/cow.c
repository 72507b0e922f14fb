/*
 * Write-protect faults: the page is there, the entry does not allow the write. One of:
 *
 *	userfaultfd protects it		tell the manager			handle_userfault()
 *	shared mapping			note that the page becomes dirty	wp_shared_page()
 *	private, page is ours alone	take the protection off			reuse
 *	private, anything else		copy, put the copy in			wp_copy_page()
 *
 * When is an anonymous page ours alone? Not when it is mapped once: a map count says nothing about references taken
 * by page pinning, and it changes while we look (R58, R59; CVE-2020-29374). Instead a page carries a mark:
 *
 *	PG_anon_exclusive: exactly one entry maps this page, and no other owner exists.
 *
 *	set	by page_add_new_anon(): the page is fresh
 *		here, when the last other owner has gone: one reference is left, and that is our entry's
 *	cleared	by fork, under the entry's lock, before the child's entry exists (copy_vma_pages)
 *	kept	by fork for pinned pages: those are copied at once instead, so a pinned page never loses its only owner
 *
 * A marked page may be written in place. An unmarked one may be shared, and is copied unless we prove that we are alone:
 * with the folio lock held, which keeps everybody away who would look for the page by other ways than an entry, and the
 * entry locked, which keeps away those who would come through it, a reference count of one means just our entry.
 *
 * Reading through a pin has the same problem from the other side: if a page is pinned while it is shared, the first
 * write by its owner goes to a copy, and the pin is left with stale memory. So page pinning asks for UNSHARE first
 * (B13): as a write, but the new entry stays read-only.
 *
 * Order at a copy (B13): the old translation is flushed from all CPUs before the new entry can be seen. Else
 *
 *	CPU 0, this fault			CPU 1, other thread of the process
 *	entry -> copy
 *	write x to the copy
 *						reads x through its stale translation: old value
 *	flush
 *
 * would let a thread miss a write that another thread has finished and told it about.
 */
#include "mm/fault_internal.h"

#include "kernel/race.h"
#include "mm/frame.h"
#include "mm/tlb.h"

static vm_fault_t wp_private_page(struct vm_fault *vmf, struct page *page);
static vm_fault_t wp_shared_page(struct vm_fault *vmf, struct page *page);
static vm_fault_t wp_copy_page(struct vm_fault *vmf, struct page *old);
static bool page_is_ours_alone(struct page *page);

/* Takes the protection off the locked entry. Rights only grow: nobody's translation has to be flushed (B16). */
static void make_writable(struct vm_fault *vmf)
{
	u64 right = vmf->vma->flags & VM_WRITE ? PTE_WRITE : 0;	/* FOLL_FORCE writes where the VMA may not */

	pte_write_entry(vmf->pte, (pte_t){ vmf->orig_pte.v | right | PTE_DIRTY | PTE_ACCESSED });
}

/* Nobody is asked: the bit goes, which tells who looks later that the page was written to. The entry is locked. */
static void unprotect_entry(struct vm_fault *vmf)
{
	pte_t old;

	do {
		old = pte_read(vmf->pte);	/* the CPU may set A meanwhile */
		vmf->orig_pte = (pte_t){ old.v & ~PTE_UFFD_WP };
	} while (!pte_try_replace(vmf->pte, old, vmf->orig_pte));
}

vm_fault_t do_wp_page(struct vm_fault *vmf)
{
	const struct vma *vma = vmf->vma;
	bool unshare = vmf->flags & FAULT_FLAG_UNSHARE;

	if (!vmf_lock_pte(vmf))
		return 0;
	if (unlikely(pte_uffd_wp(vmf->orig_pte) && (vma->flags & VM_UFFD_WP) && !unshare)) {
		if (!uffd_wp_is_async(vma)) {
			pte_unlock(vmf->ptl);
			return handle_userfault(vmf, VM_UFFD_WP);
		}
		unprotect_entry(vmf);
	}

	struct page *page = pte_normal_page(vmf->orig_pte);
	if (!vma_is_private(vma)) {
		if (page && !unshare)
			return wp_shared_page(vmf, page);
		if (!page && !unshare)
			make_writable(vmf);	/* device memory: nothing to keep account of */
		pte_unlock(vmf->ptl);
		return 0;
	}
	return wp_private_page(vmf, page);
}

/* @page NULL: the zero page. Entry locked on entry, unlocked on return. */
static vm_fault_t wp_private_page(struct vm_fault *vmf, struct page *page)
{
	bool unshare = vmf->flags & FAULT_FLAG_UNSHARE;

	if (page && page_test(page, PG_anon) && page_is_ours_alone(page)) {
		if (!unshare)
			make_writable(vmf);
		pte_unlock(vmf->ptl);
		return 0;
	}
	if (unshare && (!page || !page_test(page, PG_anon))) {
		pte_unlock(vmf->ptl);	/* the file's page, and the zero page, may be pinned for reading as they are */
		return 0;
	}
	if (page)
		get_page(page);		/* keeps it readable while the entry is unlocked */
	pte_unlock(vmf->ptl);
	return wp_copy_page(vmf, page);
}

/*
 * Entry locked: nobody can take a new reference through it. If the folio lock cannot be had at once, somebody does
 * something with the page: then it is not ours alone, and copying is always right.
 */
static bool page_is_ours_alone(struct page *page)
{
	if (page_test(page, PG_anon_exclusive))
		return true;
	if (page_ref_count(page) != 1 || !trylock_page(page))
		return false;
	bool alone = page_ref_count(page) == 1;
	if (alone)
		page_set(page, PG_anon_exclusive);
	unlock_page(page);
	return alone;
}

/*
 * @old is referenced, or NULL for the zero page; nothing is locked. Its contents cannot change under the copy by this
 * process, whose entries are all read-only; a writer elsewhere is a race that the program has asked for.
 */
static vm_fault_t wp_copy_page(struct vm_fault *vmf, struct page *old)
{
	struct vma *vma = vmf->vma;
	struct mm *mm = vma->mm;
	vm_fault_t ret = vmf_anon_prepare(vmf);

	if (unlikely(ret))
		goto put_old;
	struct page *copy = alloc_page(old ? GFP_USER : GFP_USER | GFP_ZERO);
	if (unlikely(!copy)) {
		ret = VM_FAULT_OOM;
		goto put_old;
	}
	if (old)
		copy_page(page_to_virt(copy), page_to_virt(old));

	race_window("cow_copied");
	if (!vmf_lock_pte(vmf)) {
		put_page(copy);
		goto put_old;		/* written or unmapped meanwhile: the access finds out */
	}

	pte_t entry = vma_pte(vma, copy, true);
	if (vmf->flags & FAULT_FLAG_UNSHARE)
		entry = (pte_t){ (entry.v & ~PTE_WRITE) | (vmf->orig_pte.v & PTE_UFFD_WP) };

	pte_get_and_clear(vmf->pte);
	flush_tlb_page(mm, vmf->address);
	page_add_new_anon(copy, vma, vmf->address);
	pte_write_entry(vmf->pte, entry);

	if (!old) {
		mm_counter_add(mm, MM_ANONPAGES, 1);
	} else {
		enum mm_counter was = page_mm_counter(old);
		if (was != MM_ANONPAGES) {
			mm_counter_add(mm, was, -1);
			mm_counter_add(mm, MM_ANONPAGES, 1);
		}
		/* The map count goes before the reference: a page that seems unowned must not be mapped (B13). */
		page_remove_rmap(old, vma);
	}
	pte_unlock(vmf->ptl);
	race_window("cow_put_old");
	if (old)
		put_page(old);		/* the entry's */
put_old:
	if (old)
		put_page(old);		/* ours */
	return ret;
}

/*
 * B15. The first write to a shared page that was clean: it becomes dirty, and the entry writable. Both happen under the
 * folio lock, under which writeback makes pages clean (page_mkclean): it sees neither or both. Entry locked on entry,
 * unlocked on return.
 */
static vm_fault_t wp_shared_page(struct vm_fault *vmf, struct page *page)
{
	const struct vma_ops *ops = vmf->vma->ops;
	vm_fault_t ret;

	if (!page->mapping) {		/* a kernel buffer mapped for sharing: nobody counts its dirt */
		make_writable(vmf);
		pte_unlock(vmf->ptl);
		return 0;
	}
	get_page(page);
	pte_unlock(vmf->ptl);

	race_window("wp_shared");
	ret = vmf_lock_page(vmf, page);
	if (unlikely(ret))
		return ret;		/* the reference is gone with it */
	if (unlikely(!page->mapping)) {
		unlock_page(page);	/* truncated: the access finds out */
		put_page(page);
		return 0;
	}
	vmf->page = page;
	if (ops->page_mkwrite) {
		ret = ops->page_mkwrite(vmf);
		if (unlikely(ret)) {
			put_page(page);
			return ret & VM_FAULT_ERROR ? ret : 0;
		}
	}
	if (!vmf_lock_pte(vmf)) {
		unlock_page(page);
		put_page(page);
		return 0;
	}
	make_writable(vmf);
	pte_unlock(vmf->ptl);
	ret = fault_dirty_shared_page(vmf, page);
	put_page(page);
	return ret;
}
