/*
 * mprotect: new rights for a range, in its VMAs and in the pages that are already there.
 *
 * The rule that is easy to break (A17): when the call returns, no CPU may use a right that was taken away. So entries
 * that lose something are flushed from every CPU before mmap_lock is released. Entries that only gain need no flush: a CPU
 * with the old translation faults once, finds the new entry, and drops its own (B16).
 */
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/sched.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/hugetlb.h"
#include "mm/mmap.h"
#include "mm/page_walk.h"
#include "mm/rmap.h"
#include "mm/tlb.h"
#include "mm/vma_internal.h"

#define PR_MDWE_REFUSE_EXEC_GAIN	1u

static long do_mprotect(uintptr_t start, size_t len, unsigned long prot, int pkey);

SYSCALL_DEFINE(mprotect, uintptr_t start, size_t len, unsigned long prot)
{
	return do_mprotect(start, len, prot, -1);
}

SYSCALL_DEFINE(pkey_mprotect, uintptr_t start, size_t len, unsigned long prot, int pkey)
{
	return do_mprotect(start, len, prot, pkey);
}

bool mdwe_denies(u64 old_flags, u64 new_flags)
{
	if (!(current->process->mm_flags & PR_MDWE_REFUSE_EXEC_GAIN) || !(new_flags & VM_EXEC))
		return false;
	return (new_flags & VM_WRITE) || !(old_flags & VM_EXEC);
}

/* -- pages -- */

/* The entry with the rights of @prot. Where the page is, and what happened to it, stays. */
pte_t pte_modify(pte_t old, u64 prot, const struct vma *vma)
{
	const u64 kept = PTE_PFN_MASK | PTE_ACCESSED | PTE_DIRTY | PTE_SPECIAL | PTE_UFFD_WP | PTE_SOFT_DIRTY | PTE_PWT | PTE_PCD | PTE_PAT;
	pte_t e = { (old.v & kept) | prot };

	if (!(prot & PTE_PRESENT) || pte_uffd_wp(e) || !(vma->flags & VM_WRITE)) {
		e.v &= ~PTE_WRITE;
	} else if (!(prot & PTE_WRITE)) {
		/*
		 * Private, or dirty tracking: page_prot cannot say. A private page that is ours alone may be written at once; a
		 * tracked one only if it could be before, so that its first write is still noticed.
		 */
		bool writable = vma_is_private(vma) ? !pte_special(e) && page_test(pte_page(e), PG_anon) && page_test(pte_page(e), PG_anon_exclusive)
						    : pte_writable(old);
		if (writable)
			e.v |= PTE_WRITE;
	}
	return e;
}

static bool lost_right(pte_t old, pte_t new)
{
	return (old.v & PTE_PRESENT) && (!(new.v & PTE_PRESENT) || (old.v & ~new.v & PTE_WRITE) || (new.v & ~old.v & PTE_NX));
}

/* The entries of one table. True: some lost a right. */
static bool change_table(struct vma *vma, pmd_t *pmd, uintptr_t addr, uintptr_t end, u64 prot)
{
	struct spinlock *ptl;
	pte_t *pte = pte_offset_lock(vma->mm, pmd, addr, &ptl);
	bool lost = false;

	if (!pte)
		return false;
	for (; addr < end; addr += PAGE_SIZE, pte++) {
		pte_t old, new;

		do {
			old = pte_read(pte);
			if (!pte_present(old))
				break;	/* none, or a marker: it has no rights to change */
			new = pte_modify(old, prot, vma);
		} while (!pte_try_replace(pte, old, new));
		if (pte_present(old))
			lost |= lost_right(old, new);
	}
	pte_unlock(ptl);
	return lost;
}

/* @vma write-locked, its flags and page_prot already the new ones. Sleeps for IPIs. Flushed on return where needed. */
void change_protection(struct vma *vma, uintptr_t start, uintptr_t end, u64 new_page_prot)
{
	uintptr_t addr = start, stop;
	bool lost = false;
	pmd_t *pmd;

	assert_vma_write_locked(vma);
	if (unlikely(vma->flags & VM_HUGETLB)) {
		hugetlb_change_protection(vma, start, end, new_page_prot);
		return;
	}
	for (; next_pte_table(vma->mm, &addr, end, &pmd, &stop); addr = stop) {
		lost |= change_table(vma, pmd, addr, stop, new_page_prot);
		cond_resched();
	}
	if (lost)
		flush_tlb_range(vma->mm, start, end, false);
}

/* -- VMAs -- */

/* [start, end) of one VMA. mmap_lock write. 0 or -errno. *populate: it is locked, and became writable. */
static int protect_part(struct vma *vma, uintptr_t start, uintptr_t end, u64 new_flags, bool *populate)
{
	struct mm *mm = vma->mm;
	u64 old_flags = vma->flags, pages = (end - start) >> PAGE_SHIFT, charge = 0;
	int err;

	if (old_flags & VM_SEALED)
		return -EPERM;
	if (new_flags == old_flags)
		return 0;
	if (new_flags & VM_WRITE) {
		if (!may_expand_vm(mm, new_flags, pages) && may_expand_vm(mm, old_flags, pages))
			return -ENOMEM;
		if (!(old_flags & (VM_ACCOUNT | VM_WRITE | VM_HUGETLB | VM_SHARED | VM_NORESERVE))) {
			charge = pages;
			err = vm_commit(charge);
			if (err)
				return err;
			new_flags |= VM_ACCOUNT;
		}
	}
	vma = vma_modify(vma, start, end, new_flags, vma->uffd);
	if (IS_ERR(vma)) {
		vm_uncommit(charge);
		return (int)PTR_ERR(vma);
	}

	/* Nothing below this line can fail. */
	change_protection(vma, start, end, vma->page_prot);
	vm_stat_account(mm, old_flags, -(s64)pages);
	vm_stat_account(mm, new_flags, (s64)pages);
	vma_prepare_for_writes(vma);
	if ((old_flags & (VM_WRITE | VM_SHARED | VM_LOCKED)) == VM_LOCKED && (new_flags & VM_WRITE))
		*populate = true;
	return 0;
}

/* A16: upwards, until the end or the first obstacle; what was done stays done. mmap_lock write. */
static int protect_range(struct mm *mm, struct vma *vma, uintptr_t start, uintptr_t end, unsigned long prot, bool *populate)
{
	bool read_implies_exec = (prot & PROT_READ) && (current->process->personality & READ_IMPLIES_EXEC);
	int err = 0;

	for (; start < end; vma = vma_find(mm, start)) {
		uintptr_t part_end;
		u64 flags;

		if (!vma || vma->start > start)
			return -ENOMEM;
		part_end = min(vma->end, end);
		flags = (vma->flags & ~VM_ACCESS) | calc_prot_bits(prot);
		if (read_implies_exec && (vma->flags & VM_MAYEXEC))
			flags |= VM_EXEC;
		if ((flags & ~(flags >> 4)) & VM_ACCESS)
			return -EACCES;		/* beyond VM_MAY* */
		if (mdwe_denies(vma->flags, flags))
			return -EACCES;
		err = protect_part(vma, start, part_end, flags, populate);
		if (err)
			return err;
		start = part_end;
	}
	return 0;
}

static long do_mprotect(uintptr_t start, size_t len, unsigned long prot, int pkey)
{
	struct mm *mm = current->mm;
	unsigned long grows = prot & (PROT_GROWSDOWN | PROT_GROWSUP);
	bool populate = false;
	uintptr_t end;
	struct vma *vma;
	long err;

	prot &= ~(unsigned long)(PROT_GROWSDOWN | PROT_GROWSUP);	/* A15 */
	if (grows == (PROT_GROWSDOWN | PROT_GROWSUP))
		return -EINVAL;
	if (start & ~PAGE_MASK)
		return -EINVAL;
	if (!len)
		return 0;
	end = start + ALIGN_UP(len, PAGE_SIZE);
	if (end <= start)
		return -ENOMEM;
	if (prot & ~(unsigned long)(PROT_READ | PROT_WRITE | PROT_EXEC | PROT_SEM))
		return -EINVAL;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	err = -EINVAL;
	if (pkey != -1)			/* no protection keys: none is allocated */
		goto unlock;
	vma = vma_find(mm, start);
	err = -ENOMEM;
	if (!vma)
		goto unlock;
	if (grows & PROT_GROWSDOWN) {
		if (vma->start >= end)
			goto unlock;
		start = vma->start;
		err = -EINVAL;
		if (!(vma->flags & VM_GROWSDOWN))
			goto unlock;
	} else {
		if (vma->start > start)
			goto unlock;
		err = -EINVAL;
		if (grows & PROT_GROWSUP)	/* no VMA grows up on x86 */
			goto unlock;
	}
	err = protect_range(mm, vma, start, end, prot, &populate);
unlock:
	mmap_write_unlock(mm);
	if (populate)
		populate_locked(mm, start, end);
	return err;
}

/* Protection keys are a feature of the CPU that this kernel leaves off: there are none to give away. */
SYSCALL_DEFINE(pkey_alloc, unsigned long flags, unsigned long rights)
{
	return flags || (rights & ~3ul) ? -EINVAL : -ENOSPC;
}

SYSCALL_DEFINE(pkey_free, int pkey)
{
	(void)pkey;
	return -EINVAL;
}
