/*
 * userfaultfd on huge pages: what an operation does to one entry, for mm/uffd_*.c. Every function wants the VMA locked (its
 * own lock for read, or mmap_lock), VM_HUGETLB, and whole huge pages; it takes and drops all locks below that itself, and may
 * sleep. Waking, checking of ranges and rights, and reporting are the caller's.
 *
 * The step of a range is huge_page_size(hstate_vma(vma)).
 *
 * What a fault in a huge page needs of handle_userfault(): it is called with none of our locks held, with vmf->address the start of
 * the huge page, vmf->orig_pte the entry that was decided on, and vmf->pmd, pte, ptl NULL. To look again (F41):
 *
 *	pte_t now = hugetlb_read_entry(vmf->vma, vmf->address, NULL);
 *
 * which needs no lock but the VMA's, and for MINOR and MISSING nothing else: what fills an entry wakes after it is visible.
 */
#ifndef MM_HUGETLB_UFFD_H
#define MM_HUGETLB_UFFD_H

#include "mm/hugetlb.h"

/*
 * UFFDIO_COPY of the huge page at @addr from @src of current's memory; @wp: write-protected. *temp is NULL at the first try.
 * 0; -EEXIST: an entry, or the page in the file; -EFAULT: beyond the end of the file; -ENOMEM: no page; -ENOENT: @src is not
 * there. Then nothing is held: unlock the VMA, hugetlb_uffd_read_source(), lock and check all anew, and come again with *temp.
 */
int hugetlb_uffd_copy(struct vma *vma, uintptr_t addr, uintptr_t src, bool wp, struct page **temp);
/* No lock held. The contents of @src in a page that belongs to nobody (R20). 0, -EFAULT, -ENOMEM. */
int hugetlb_uffd_read_source(struct hstate *h, uintptr_t src, struct page **temp);
void hugetlb_uffd_drop_source(struct page **temp);	/* in the end, used or not */
/* UFFDIO_CONTINUE: maps the page that is in the file. 0, -EFAULT: there is none; -EEXIST, -EIO: poisoned; -ENOMEM. */
int hugetlb_uffd_continue(struct vma *vma, uintptr_t addr, bool wp);
/* UFFDIO_POISON: a marker where nothing is. 0, -EEXIST, -ENOMEM. */
int hugetlb_uffd_poison(struct vma *vma, uintptr_t addr);
/*
 * UFFDIO_WRITEPROTECT of [start, end), and, with @protect false, the end of a registration: wp bits and wp markers go. Pages
 * that are missing get a marker. Flushed on return. 0 or -ENOMEM (then a part is done).
 */
int hugetlb_uffd_wp(struct vma *vma, uintptr_t start, uintptr_t end, bool protect);
/*
 * The entry of the huge page at @addr is protected if @matches says so, which is asked with the entry locked, and must not
 * sleep. 0 or -ENOMEM.
 */
int hugetlb_uffd_wp_matching(struct vma *vma, uintptr_t addr, bool (*matches)(void *arg, pte_t entry), void *arg);
/*
 * @vma has just been registered, in any mode, its flags say so, and it is write-locked: it leaves the tables that it shares
 * (E10, F14, R9), and shares none as long as it is registered, for what is written into them from now on is not for others.
 */
void hugetlb_uffd_registered(struct vma *vma);

#endif
