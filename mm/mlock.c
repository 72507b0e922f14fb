/*
 * mlock and its family, and prefaulting (mm_populate), which MAP_POPULATE shares with them.
 *
 * There is no reclaim of mapped pages here, so VM_LOCKED keeps nothing from being taken away (A34): what remains of mlock
 * is its contract: the pages are there when it returns, and RLIMIT_MEMLOCK counts them. The flag and the counts change under
 * mmap_lock; the pages come afterwards, without it, and by then the VMAs may have changed again, as on Linux.
 */
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/sched.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/gup.h"
#include "mm/mmap.h"
#include "mm/vma_internal.h"

#define MLOCK_ONFAULT	1
#define MCL_CURRENT	1
#define MCL_FUTURE	2
#define MCL_ONFAULT	4

#define VM_LOCKED_MASK	(VM_LOCKED | VM_LOCKONFAULT)
#define POPULATE_BATCH	16

/* -- prefaulting -- */

/* Where what @page maps at @addr ends: a huge page is there as a whole. @page is referenced. */
static uintptr_t end_of_page(uintptr_t addr, struct page *page)
{
	struct page *head = page_head(page);
	size_t size = PAGE_SIZE << (page_test(head, PG_head) ? head->order : 0);

	return (addr & ~(size - 1)) + size;
}

/*
 * Brings in [start, end). No lock held; sleeps. 0 or the error of get_user_pages. A huge page is asked for once, not once for each 4 KiB of
 * it: that is what it costs, and whoever drops it meanwhile (DONTNEED) can make us begin anew at one place, not at 512.
 */
long populate_range(struct mm *mm, uintptr_t start, uintptr_t end, unsigned int foll)
{
	struct page *pages[POPULATE_BATCH];
	unsigned long nr = 1;

	while (start < end) {
		long got = get_user_pages(mm, start, min((end - start) >> PAGE_SHIFT, nr), foll, pages);

		if (got <= 0)
			return got ? got : -EFAULT;
		uintptr_t last = start + ((uintptr_t)(got - 1) << PAGE_SHIFT);
		start = end_of_page(last, pages[got - 1]);
		nr = start - last > PAGE_SIZE ? 1 : POPULATE_BATCH;
		for (long i = 0; i < got; i++)
			put_user_page(pages[i], foll, false);
		cond_resched();
	}
	return 0;
}

/*
 * What prefaulting a VMA asks for: a private writable one gets pages of its own now, the others only what a read needs. Any
 * right is enough, only PROT_NONE is not.
 */
static unsigned int populate_mode(const struct vma *vma)
{
	return (vma->flags & VM_ACCESS ? FOLL_FORCE : 0) | ((vma->flags & (VM_WRITE | VM_SHARED)) == VM_WRITE ? FOLL_WRITE : 0);
}

/* VMAs that lack one of @need are skipped, like holes (the caller has found them, or does not care). */
static int populate_vmas(struct mm *mm, uintptr_t start, uintptr_t end, u64 need, bool ignore_errors)
{
	while (start < end) {
		uintptr_t part_end;
		unsigned int foll = 0;
		bool skip;
		struct vma *vma;
		long err;

		if (mmap_read_lock_killable(mm))
			return -EINTR;
		vma = vma_find(mm, start);
		if (!vma || vma->start >= end) {
			mmap_read_unlock(mm);
			return 0;
		}
		start = max(start, vma->start);
		part_end = min(end, vma->end);
		skip = (vma->flags & (VM_IO | VM_PFNMAP | VM_LOCKONFAULT)) || (vma->flags & need) != need;
		if (!skip)
			foll = populate_mode(vma);
		mmap_read_unlock(mm);

		err = skip ? 0 : populate_range(mm, start, part_end, foll);
		if (err == -EINTR)
			return -EINTR;
		if (err && !ignore_errors)
			return err == -ENOMEM ? -EAGAIN : -ENOMEM;	/* A33: POSIX wants no EFAULT from mlock */
		start = part_end;
	}
	return 0;
}

/* 0, or what mlock reports: -ENOMEM, -EAGAIN, -EINTR. */
int mm_populate(struct mm *mm, uintptr_t start, size_t len, bool ignore_errors)
{
	return populate_vmas(mm, start, start + len, 0, ignore_errors);
}

/* Locked memory that has become writable gets pages of its own at once. */
void populate_locked(struct mm *mm, uintptr_t start, uintptr_t end)
{
	(void)populate_vmas(mm, start, end, VM_LOCKED | VM_WRITE, true);
}

/* -- the flag -- */

/* [start, end) of one VMA gets the locked bits of @flags. mmap_lock write. 0 or -errno. */
static int lock_part(struct vma *vma, uintptr_t start, uintptr_t end, u64 flags)
{
	struct mm *mm = vma->mm;
	u64 old = vma->flags, new = (old & ~VM_LOCKED_MASK) | flags, pages = (end - start) >> PAGE_SHIFT;

	if (new == old || (old & (VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_HUGETLB | VM_DROPPABLE)))
		return 0;	/* never locked, never counted; hugetlb pages stay anyway */
	vma = vma_modify(vma, start, end, new, vma->uffd);
	if (IS_ERR(vma))
		return (int)PTR_ERR(vma);
	if ((new & ~old) & VM_LOCKED)
		mm->locked_vm += pages;
	else if ((old & ~new) & VM_LOCKED)
		mm->locked_vm -= pages;
	return 0;
}

/* Upwards to the end or the first hole (-ENOMEM); what was done stays done. mmap_lock write. */
static int lock_range(struct mm *mm, uintptr_t start, uintptr_t end, u64 flags)
{
	while (start < end) {
		struct vma *vma = vma_find(mm, start);
		uintptr_t part_end;
		int err;

		if (!vma || vma->start > start)
			return -ENOMEM;
		part_end = min(vma->end, end);
		err = lock_part(vma, start, part_end, flags);
		if (err)
			return err;
		start = part_end;
	}
	return 0;
}

static u64 count_locked(struct mm *mm, uintptr_t start, uintptr_t end)
{
	u64 pages = 0;

	for (struct vma *vma = vma_find(mm, start); vma && vma->start < end; vma = vma_next(vma))
		if (vma->flags & VM_LOCKED)
			pages += (min(end, vma->end) - max(start, vma->start)) >> PAGE_SHIFT;
	return pages;
}

/* -- system calls (A33) -- */

/* Rounds as all of them do: down to the page of start, up to the page after the end. False: it wraps. */
static bool round_range(uintptr_t *start, size_t len, uintptr_t *end)
{
	len = ALIGN_UP(len + (*start & ~PAGE_MASK), PAGE_SIZE);
	*start &= PAGE_MASK;
	*end = *start + len;
	return *end >= *start;
}

static long do_mlock(uintptr_t start, size_t len, u64 flags)
{
	struct mm *mm = current->mm;
	u64 limit = rlimit_cur(RLIMIT_MEMLOCK) >> PAGE_SHIFT, want;
	uintptr_t end;
	bool sane;
	long err = -ENOMEM;

	if (!can_do_mlock())
		return -EPERM;
	sane = round_range(&start, len, &end);
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	want = ((end - start) >> PAGE_SHIFT) + mm->locked_vm;
	if (want > limit && !capable(CAP_IPC_LOCK) && sane)
		want -= count_locked(mm, start, end);	/* locked twice counts once */
	if (want <= limit || capable(CAP_IPC_LOCK))
		err = sane ? lock_range(mm, start, end, flags) : -EINVAL;
	mmap_write_unlock(mm);
	if (err || start == end)
		return err;
	return mm_populate(mm, start, end - start, false);
}

SYSCALL_DEFINE(mlock, uintptr_t start, size_t len)
{
	return do_mlock(start, len, VM_LOCKED);
}

SYSCALL_DEFINE(mlock2, uintptr_t start, size_t len, int flags)
{
	if (flags & ~MLOCK_ONFAULT)
		return -EINVAL;
	return do_mlock(start, len, VM_LOCKED | (flags & MLOCK_ONFAULT ? VM_LOCKONFAULT : 0));
}

SYSCALL_DEFINE(munlock, uintptr_t start, size_t len)
{
	struct mm *mm = current->mm;
	uintptr_t end;
	bool sane = round_range(&start, len, &end);
	long err;

	if (mmap_write_lock_killable(mm))
		return -EINTR;
	err = sane ? lock_range(mm, start, end, 0) : -EINVAL;
	mmap_write_unlock(mm);
	return err;
}

/* Every VMA there is gets @flags. Whole VMAs are never split, so nothing can fail. mmap_lock write. */
static void lock_all(struct mm *mm, u64 flags)
{
	for (uintptr_t addr = 0; addr < TASK_SIZE; ) {
		struct vma *vma = vma_find(mm, addr);

		if (!vma)
			return;
		addr = vma->end;
		(void)lock_part(vma, vma->start, vma->end, flags);
	}
}

SYSCALL_DEFINE(mlockall, int flags)
{
	struct mm *mm = current->mm;
	u64 bits = VM_LOCKED | (flags & MCL_ONFAULT ? VM_LOCKONFAULT : 0);
	bool ok;

	if (!flags || (flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) || flags == MCL_ONFAULT)
		return -EINVAL;
	if (!can_do_mlock())
		return -EPERM;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	ok = !(flags & MCL_CURRENT) || mm->total_vm <= rlimit_cur(RLIMIT_MEMLOCK) >> PAGE_SHIFT || capable(CAP_IPC_LOCK);
	if (ok) {
		mm->def_flags = (mm->def_flags & ~VM_LOCKED_MASK) | (flags & MCL_FUTURE ? bits : 0);
		if (flags & MCL_CURRENT)
			lock_all(mm, bits);
	}
	mmap_write_unlock(mm);
	if (!ok)
		return -ENOMEM;
	if (flags & MCL_CURRENT)
		(void)mm_populate(mm, 0, TASK_SIZE, true);
	return 0;
}

SYSCALL_DEFINE(munlockall, void)
{
	struct mm *mm = current->mm;

	if (mmap_write_lock_killable(mm))
		return -EINTR;
	mm->def_flags &= ~VM_LOCKED_MASK;
	lock_all(mm, 0);
	mmap_write_unlock(mm);
	return 0;
}
