/*
 * Page pinning (get_user_pages) and its relatives: the kernel wants the page behind a user address, in this process or
 * another, without going through a translation.
 *
 *	get_user_pages()	references or pins, for process_vm_readv, vmsplice, ptrace
 *	fixup_user_fault()	only makes an address accessible, for callers that then look for themselves (futex)
 *	fault_in_user_page()	the same for current, without locks
 *
 * All of them call the fault handler, and must treat each of its results (SEMANTICS B9, B10):
 *
 *	COMPLETED	the page is mapped, but mmap_lock is gone, and with it all that was known: look again. Not to be
 *			mistaken for "pinned", nor for "try the fault again"
 *	RETRY		mmap_lock is gone, nothing was done: look again, with TRIED
 *	errors		mmap_lock is held
 *
 * The rule that is easy to break: a page is taken only under its entry's lock, and only if the entry, as it is now,
 * allows what is asked. A write that was forced (FOLL_FORCE) past missing rights may touch an anonymous page that is
 * exclusive at this moment and nothing else, however often the fault before has "broken" the sharing (R57, Dirty COW).
 */
#include "mm/gup.h"

#include "kernel/errno.h"
#include "kernel/futex.h"
#include "kernel/lock_stat.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/hugetlb.h"
#include "mm/mmap.h"
#include "mm/rmap.h"
#include "mm/uaccess.h"

static struct page *follow_page(struct vma *vma, uintptr_t addr, unsigned int foll, unsigned int *fault_flags);

/* The errno of a fault that failed. */
static int fault_errno(vm_fault_t ret)
{
	if (ret & VM_FAULT_OOM)
		return -ENOMEM;
	if (ret & (VM_FAULT_HWPOISON | VM_FAULT_HWPOISON_LARGE))
		return -EHWPOISON;
	return -EFAULT;
}

/* May pages of @vma be taken for this? FOLL_FORCE passes rights that are missing, not rights that could never be had. */
static bool vma_allows(const struct vma *vma, unsigned int foll)
{
	if (vma->flags & (VM_IO | VM_PFNMAP))
		return false;
	if (foll & FOLL_WRITE) {
		if (vma->flags & VM_WRITE)
			return true;
		return (foll & FOLL_FORCE) && vma_is_private(vma) && (vma->flags & VM_MAYWRITE) && !(vma->flags & VM_HUGETLB);
	}
	return (vma->flags & VM_READ) || ((foll & FOLL_FORCE) && (vma->flags & VM_MAYREAD));
}

/*
 * Lets the fault handler make the page available. mmap_lock is held on entry; afterwards *locked tells. 0: look again.
 * -EBUSY: FOLL_NOWAIT, and it would have to wait.
 */
static int gup_fault(struct vma *vma, uintptr_t addr, unsigned int foll, unsigned int extra, unsigned int *tried, bool *locked)
{
	unsigned int flags = FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE | extra | *tried;

	if (foll & FOLL_NOWAIT)
		flags |= FAULT_FLAG_RETRY_NOWAIT;
	if ((foll & FOLL_WRITE) && !(extra & FAULT_FLAG_UNSHARE))
		flags |= FAULT_FLAG_WRITE;
	if (foll & FOLL_REMOTE)
		flags |= FAULT_FLAG_REMOTE;

	vm_fault_t ret = call_fault_handler(FAULT_SITE_GUP, vma, addr, flags);
	if (ret & VM_FAULT_ERROR) {
		*locked = !(ret & VM_FAULT_DROPPED);
		return fault_errno(ret);
	}
	if (ret & VM_FAULT_COMPLETED) {
		*locked = false;
		return 0;
	}
	if (ret & VM_FAULT_RETRY) {
		if (foll & FOLL_NOWAIT)
			return -EBUSY;
		*locked = false;
		*tried = FAULT_FLAG_TRIED;
	}
	return 0;
}

/*
 * The loop turns after each page and after each fault. It ends: a fault that left the lock in place has changed the
 * entry or failed, one that dropped it has slept, and a task that is being killed leaves.
 */
long get_user_pages(struct mm *mm, uintptr_t start, unsigned long nr, unsigned int foll, struct page **pages)
{
	enum lock_caller old = lock_stat_enter(LOCK_CALLER_GUP);
	unsigned long done = 0;
	unsigned int tried = 0;
	struct vma *vma = NULL;
	bool locked = false;
	long err = 0;

	start &= PAGE_MASK;
	while (done < nr) {
		uintptr_t addr = start + (done << PAGE_SHIFT);
		unsigned int extra = 0;

		if (addr < start || addr >= TASK_SIZE) {
			err = -EFAULT;
			break;
		}
		if (fatal_signal_pending()) {
			err = -EINTR;
			break;
		}
		if (!locked) {
			err = mmap_read_lock_killable(mm);
			if (err)
				break;
			locked = true;
			vma = NULL;
		}
		if (!vma || addr >= vma->end) {
			vma = vma_lookup(mm, addr);
			if (!vma || !vma_allows(vma, foll)) {
				err = -EFAULT;
				break;
			}
		}
		struct page *page = follow_page(vma, addr, foll, &extra);
		if (page) {
			if (IS_ERR(page)) {
				err = PTR_ERR(page);
				break;
			}
			pages[done++] = page;
			tried = 0;
			continue;
		}
		race_window("gup_fault");
		err = gup_fault(vma, addr, foll, extra, &tried, &locked);
		if (err)
			break;
		race_window("gup_again");
		cond_resched();
	}
	if (locked)
		mmap_read_unlock(mm);
	lock_stat_leave(old);
	return done ? (long)done : err;
}

/* R57: is it right to write to the page of this entry, now, under its lock? */
static bool entry_allows_write(pte_t e, const struct page *page, unsigned int foll)
{
	if (pte_writable(e))
		return true;
	return (foll & FOLL_FORCE) && page && page_test(page, PG_anon) && page_test(page, PG_anon_exclusive) && !pte_uffd_wp(e);
}

/* The page of a locked, present entry, referenced. NULL: a fault must come first (*fault_flags: of which kind). ERR_PTR(-EFAULT). */
static struct page *take_page(pte_t e, unsigned int foll, unsigned int *fault_flags)
{
	struct page *page = pte_normal_page(e);

	if ((foll & FOLL_WRITE) && !entry_allows_write(e, page, foll))
		return NULL;
	if (!page)
		return pte_page(e) == zero_page ? zero_page : ERR_PTR(-EFAULT);
	if ((foll & (FOLL_PIN | FOLL_WRITE)) == FOLL_PIN && page_test(page, PG_anon) && !page_test(page, PG_anon_exclusive)) {
		*fault_flags = FAULT_FLAG_UNSHARE;	/* else the first write to it would leave us with the old page (B13) */
		return NULL;
	}
	__atomic_fetch_add(&page->refcount, foll & FOLL_PIN ? PIN_BIAS : 1, __ATOMIC_RELAXED);	/* the entry holds one: not 0 */
	return page;
}

static struct page *follow_page(struct vma *vma, uintptr_t addr, unsigned int foll, unsigned int *fault_flags)
{
	if (unlikely(vma->flags & VM_HUGETLB))
		return hugetlb_follow_page(vma, addr, foll, fault_flags);
	pmd_t *pmd = pmd_walk(vma->mm, addr);
	struct spinlock *ptl;
	pte_t *pte = pmd ? pte_offset_lock(vma->mm, pmd, addr, &ptl) : NULL;

	if (!pte)
		return NULL;
	pte_t e = pte_read(pte);
	struct page *page = pte_present(e) ? take_page(e, foll, fault_flags) : NULL;	/* none and markers: the fault knows */
	pte_unlock(ptl);
	return page;
}

/* @dirtied: the caller wrote to it. The page may have left its file meanwhile: then nobody wants to know. May sleep. */
void put_user_page(struct page *page, unsigned int foll, bool dirtied)
{
	if (page == zero_page)
		return;
	page = page_head(page);		/* of a huge page the whole is counted */
	if (dirtied && !page_test(page, PG_anon)) {
		lock_page(page);
		if (page->mapping)
			mapping_mark_dirty(page);
		unlock_page(page);
	}
	if (foll & FOLL_PIN)
		__atomic_fetch_sub(&page->refcount, PIN_BIAS - 1, __ATOMIC_RELEASE);
	put_page(page);
}

/* -- making an address accessible -- */

/*
 * mmap_lock for read, held again on return. *unlocked (if not NULL): it was dropped in between, so what the caller knows
 * of VMAs and entries is stale. 0, -EFAULT, -ENOMEM, -EINTR, -EHWPOISON.
 */
int fixup_user_fault(struct mm *mm, uintptr_t addr, unsigned int flags, bool *unlocked)
{
	if (unlocked)
		flags |= FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE;
	for (;;) {
		struct vma *vma = vma_lookup(mm, addr);

		if (!vma || !vma_permits_fault(vma, flags))
			return -EFAULT;
		if ((flags & FAULT_FLAG_KILLABLE) && fatal_signal_pending())
			return -EINTR;
		vm_fault_t ret = call_fault_handler(FAULT_SITE_FIXUP, vma, addr, flags);
		if (ret & VM_FAULT_DROPPED) {
			mmap_read_lock(mm);
			*unlocked = true;
		}
		if (ret & VM_FAULT_ERROR)
			return fault_errno(ret);
		if (!(ret & VM_FAULT_DROPPED))
			return 0;
		if (ret & VM_FAULT_COMPLETED)
			return 0;		/* done; to fault once more would be wrong (B10) */
		flags |= FAULT_FLAG_TRIED;
	}
}

int fault_in_user_page(uintptr_t uaddr, bool write)
{
	struct mm *mm = current->mm;
	bool unlocked;

	if (!mm || uaddr >= TASK_SIZE || mmap_read_lock_killable(mm))
		return -EFAULT;
	enum lock_caller old = lock_stat_enter(LOCK_CALLER_GUP);
	int err = fixup_user_fault(mm, uaddr, write ? FAULT_FLAG_WRITE : 0, &unlocked);
	lock_stat_leave(old);
	mmap_read_unlock(mm);
	return err ? -EFAULT : 0;
}

/* -- futex keys -- */

/* mmap_lock held. A hint, good enough to save a fault that would find nothing to do. */
static bool page_is_accessible(struct vma *vma, uintptr_t addr, bool write)
{
	pmd_t *pmd = pmd_walk(vma->mm, addr);
	pmd_t e = pmd ? pmd_read(pmd) : (pmd_t){ 0 };
	pte_t pte = pmd_table(e) ? pte_read(pte_offset(e, addr)) : (pte_t){ 0 };

	if (unlikely(vma->flags & VM_HUGETLB))
		pte = hugetlb_read_entry(vma, addr, NULL);
	return pte_present(pte) && vma_permits_fault(vma, write ? FAULT_FLAG_WRITE : 0) && (!write || pte_writable(pte));
}

/* See kernel/futex.h. The page is made present first: a futex on memory that cannot be had is an error, not a key. */
int futex_shared_key(uintptr_t uaddr, bool write, void **object, u64 *offset)
{
	struct mm *mm = current->mm;
	bool unlocked;
	int err = 0;

	if (!mm || uaddr >= TASK_SIZE || mmap_read_lock_killable(mm))
		return -EFAULT;
	enum lock_caller old = lock_stat_enter(LOCK_CALLER_GUP);
	struct vma *vma = vma_lookup(mm, uaddr);
	write |= vma && (vma->flags & VM_WRITE);	/* as Linux: only if it cannot be written is it read */
	if (!vma || !page_is_accessible(vma, uaddr, write)) {
		err = fixup_user_fault(mm, uaddr, write ? FAULT_FLAG_WRITE : 0, &unlocked);
		vma = err ? NULL : vma_lookup(mm, uaddr);	/* the lock may have been dropped: what was known is stale */
	}
	if (!vma) {
		err = -EFAULT;
	} else if (vma_is_private(vma) || !vma->mapping) {
		*object = mm;
		*offset = uaddr;
	} else {
		*object = vma->mapping;
		*offset = (linear_index(vma, uaddr) << PAGE_SHIFT) + (uaddr & ~PAGE_MASK);
	}
	lock_stat_leave(old);
	mmap_read_unlock(mm);
	return err;
}

/* -- /proc/PID/mem and ptrace -- */

/* Bytes copied, short at the first page that cannot be had, or -EIO if that is the first. Sleeps; @mm pinned by the caller. */
ssize_t access_remote_vm(struct mm *mm, uintptr_t addr, void *kbuf, size_t len, bool write, bool force)
{
	unsigned int foll = FOLL_REMOTE | (write ? FOLL_WRITE | FOLL_PIN : 0) | (force ? FOLL_FORCE : 0);
	size_t done = 0;

	while (done < len) {
		size_t off = (addr + done) & ~PAGE_MASK, n = min(PAGE_SIZE - off, len - done);
		struct page *page;

		if (get_user_pages(mm, addr + done, 1, foll, &page) != 1)
			break;
		char *p = (char *)page_to_virt(page) + off;
		if (write)
			memcpy(p, (char *)kbuf + done, n);
		else
			memcpy((char *)kbuf + done, p, n);
		put_user_page(page, foll, write);
		done += n;
	}
	return done ? (ssize_t)done : len ? -EIO : 0;
}
