/*
 * madvise: advice that only sets flags, and advice that acts on pages (drop, punch, prefault).
 *
 *	advice			lock			what it does
 *	flags (NORMAL...)	mmap_lock write		VMAs split and merge as for mprotect
 *	DONTNEED, FREE		VMA lock, or mmap read	zap: a fault beside it sees the page before or after, never half
 *	REMOVE			none while punching	the file's own hole punch, which finds all mappings
 *	POPULATE_*		as page pinning		page pinning without keeping the pages
 *	the rest		mmap_lock read		checked, then nothing: there is no reclaim to advise
 */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/gup.h"
#include "mm/hugetlb.h"
#include "mm/mmap.h"
#include "mm/rmap.h"
#include "mm/uffd.h"
#include "mm/vma_internal.h"

enum {
	MADV_NORMAL = 0, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE = 8, MADV_REMOVE, MADV_DONTFORK,
	MADV_DOFORK, MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP,
	MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_COLD, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
	MADV_DONTNEED_LOCKED, MADV_COLLAPSE,
};
#define FALLOC_FL_KEEP_SIZE	1
#define FALLOC_FL_PUNCH_HOLE	2
#define VM_SPECIAL	(VM_IO | VM_DONTEXPAND | VM_PFNMAP)

static long advise_flags(struct mm *mm, uintptr_t start, uintptr_t end, int advice);
static long advise_pages(struct mm *mm, uintptr_t start, uintptr_t end, int advice);
static long advise_populate(struct mm *mm, uintptr_t start, uintptr_t end, bool write);
static bool zap_under_vma_lock(struct mm *mm, uintptr_t start, uintptr_t end, int advice);

static bool advice_known(int advice)
{
	return (advice >= MADV_NORMAL && advice <= MADV_DONTNEED) || (advice >= MADV_FREE && advice <= MADV_COLLAPSE);
}

/* A24 */
SYSCALL_DEFINE(madvise, uintptr_t start, size_t len, int advice)
{
	struct mm *mm = current->mm;
	size_t rounded = ALIGN_UP(len, PAGE_SIZE);
	uintptr_t end = start + rounded;

	if (!advice_known(advice))
		return -EINVAL;
	if (start & ~PAGE_MASK)
		return -EINVAL;
	if ((len && !rounded) || end < start)
		return -EINVAL;
	if (start == end)
		return 0;

	switch (advice) {
	case MADV_POPULATE_READ:
	case MADV_POPULATE_WRITE:
		return advise_populate(mm, start, end, advice == MADV_POPULATE_WRITE);
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_FREE:
		if (zap_under_vma_lock(mm, start, end, advice))
			return 0;
		return advise_pages(mm, start, end, advice);
	case MADV_WILLNEED:
	case MADV_REMOVE:
	case MADV_COLD:
	case MADV_PAGEOUT:
	case MADV_COLLAPSE:
		return advise_pages(mm, start, end, advice);
	default:
		return advise_flags(mm, start, end, advice);
	}
}

/* Advice that loses data is refused where the seal promises that nothing is written: read-only anonymous memory. */
static bool sealed_against(const struct vma *vma, int advice)
{
	if (!(vma->flags & VM_SEALED) || vma->file || (vma->flags & (VM_SHARED | VM_WRITE)))
		return false;
	return advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED || advice == MADV_FREE || advice == MADV_REMOVE ||
	       advice == MADV_DONTFORK || advice == MADV_WIPEONFORK;
}

/* -- flags -- */

/* *flags: those of @vma after @advice. 0, or -EINVAL if it does not apply (A29 and kin). */
static int new_flags(const struct vma *vma, int advice, u64 *flags)
{
	u64 f = vma->flags;

	switch (advice) {
	case MADV_NORMAL:
		f &= ~(VM_RAND_READ | VM_SEQ_READ);
		break;
	case MADV_SEQUENTIAL:
		f = (f & ~VM_RAND_READ) | VM_SEQ_READ;
		break;
	case MADV_RANDOM:
		f = (f & ~VM_SEQ_READ) | VM_RAND_READ;
		break;
	case MADV_DONTFORK:
		f |= VM_DONTCOPY;
		break;
	case MADV_DOFORK:
		if (f & VM_IO)
			return -EINVAL;
		f &= ~VM_DONTCOPY;
		break;
	case MADV_WIPEONFORK:
		if (vma->file || (f & VM_SHARED))
			return -EINVAL;
		f |= VM_WIPEONFORK;
		break;
	case MADV_KEEPONFORK:
		if (f & VM_DROPPABLE)
			return -EINVAL;
		f &= ~VM_WIPEONFORK;
		break;
	case MADV_DONTDUMP:
		f |= VM_DONTDUMP;
		break;
	case MADV_DODUMP:
		if ((!(f & VM_HUGETLB) && (f & VM_SPECIAL)) || (f & VM_DROPPABLE))
			return -EINVAL;
		f &= ~VM_DONTDUMP;
		break;
	case MADV_MERGEABLE:		/* remembered and shown; nothing merges pages here */
		if (!(f & (VM_SHARED | VM_MAYSHARE | VM_SPECIAL | VM_HUGETLB)))
			f |= VM_MERGEABLE;
		break;
	case MADV_UNMERGEABLE:
		f &= ~VM_MERGEABLE;
		break;
	case MADV_HUGEPAGE:
		if ((f & VM_SPECIAL) && !(f & VM_HUGETLB))
			return -EINVAL;
		f = (f & ~VM_NOHUGEPAGE) | VM_HUGEPAGE;
		break;
	case MADV_NOHUGEPAGE:
		f = (f & ~VM_HUGEPAGE) | VM_NOHUGEPAGE;
		break;
	default:
		return -EINVAL;
	}
	*flags = f;
	return 0;
}

static long advise_flags(struct mm *mm, uintptr_t start, uintptr_t end, int advice)
{
	bool hole = false;
	long ret = 0;

	if (mmap_write_lock_killable(mm))
		return -EINTR;
	while (start < end) {
		struct vma *vma = vma_find(mm, start);
		uintptr_t part_end;
		u64 flags;

		if (!vma || vma->start >= end) {
			hole = true;
			break;
		}
		if (vma->start > start) {
			hole = true;	/* reported when the rest is done */
			start = vma->start;
		}
		part_end = min(end, vma->end);
		ret = sealed_against(vma, advice) ? -EPERM : new_flags(vma, advice, &flags);
		if (ret)
			break;
		vma = vma_modify(vma, start, part_end, flags, vma->uffd);
		if (IS_ERR(vma)) {
			ret = PTR_ERR(vma) == -ENOMEM ? -EAGAIN : PTR_ERR(vma);
			break;
		}
		start = part_end;
	}
	mmap_write_unlock(mm);
	return ret ? ret : hole ? -ENOMEM : 0;
}

/* -- pages -- */

/* A25, A27: may the pages of @vma be dropped? 0, -EINVAL, -EPERM. FREE acts as DONTNEED: what may go at any time goes now. */
static int may_drop(const struct vma *vma, int advice)
{
	if (sealed_against(vma, advice))
		return -EPERM;
	if ((vma->flags & VM_PFNMAP) || (advice != MADV_DONTNEED_LOCKED && (vma->flags & VM_LOCKED)))
		return -EINVAL;
	return advice == MADV_FREE && !vma_is_anonymous(vma) ? -EINVAL : 0;
}

/* The common case, a range inside one VMA, without mmap_lock. False: not done, go the long way. */
static bool zap_under_vma_lock(struct mm *mm, uintptr_t start, uintptr_t end, int advice)
{
	struct vma *vma = vma_lock_under_rcu(mm, start);
	bool done;

	if (!vma)
		vma = vma_lock_after_writer(mm, start);
	if (!vma)
		return false;
	done = end <= vma->end && !(vma->flags & VM_HUGETLB) && !uffd_wants_remove(vma) && !may_drop(vma, advice);
	if (done)
		zap_page_range(vma, start, end);
	vma_read_unlock(vma);
	return done;
}

/*
 * A28. mmap_lock read is held on entry; dropped on return, whatever the result: the punch takes the inode's lock, which
 * comes before it, and zaps through the reverse map.
 */
static long punch_hole(struct vma *vma, uintptr_t start, uintptr_t end)
{
	struct mm *mm = vma->mm;
	struct file *file = vma->file;
	struct inode *inode;
	loff_t off;
	long err = 0;

	if ((vma->flags & VM_LOCKED) || !file)
		err = -EINVAL;
	else if (!vma_counts_as_writer(vma->flags))
		err = -EACCES;			/* private memory from /dev/zero too */
	else if (!vma->mapping)
		err = -EINVAL;
	else
		file_get(file);
	off = (loff_t)(linear_index(vma, start) << PAGE_SHIFT);
	if (!err && uffd_wants_remove(vma))
		uffd_tell_remove(vma, start, end);
	else
		mmap_read_unlock(mm);
	if (err)
		return err;
	inode = file->inode;
	if (!inode->ops->fallocate) {
		err = -EOPNOTSUPP;
	} else {
		down_write(&inode->lock);
		err = inode->ops->fallocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, (loff_t)(end - start));
		up_write(&inode->lock);
	}
	file_put(file);
	return err;
}

/* A26: dropping half a huge page is refused where it begins, and forgotten where it ends. 0 or -EINVAL. */
static int whole_huge_pages(const struct vma *vma, uintptr_t start, uintptr_t *end)
{
	const u64 mask = huge_page_mask(hstate_vma(vma));

	*end &= mask;
	return start & ~mask ? -EINVAL : 0;
}

/* What DONTNEED and FREE ask, in the order of Linux. 0 or -errno; *end may come down to start: nothing to do. */
static int may_drop_range(const struct vma *vma, uintptr_t start, uintptr_t *end, int advice)
{
	int err = may_drop(vma, advice);

	*end = min(*end, vma->end);
	return err || !(vma->flags & VM_HUGETLB) ? err : whole_huge_pages(vma, start, end);
}

/*
 * mmap_lock read held, and afterwards again unless -EINTR (*dropped). The manager of the range is told before its pages
 * go, with the lock dropped; he may fill it once more, and that goes too (F51). Meanwhile anything may have changed.
 */
static int drop_followed_pages(struct mm *mm, struct vma *vma, uintptr_t start, uintptr_t end, int advice, bool *dropped)
{
	int err;

	uffd_tell_remove(vma, start, end);
	*dropped = true;
	race_window("uffd_remove_told");
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	*dropped = false;
	vma = vma_lookup(mm, start);
	err = vma ? may_drop_range(vma, start, &end, advice) : -ENOMEM;
	if (!err && start < end)
		zap_page_range(vma, start, end);
	return err;
}

/* One VMA's part. mmap_lock read held; *dropped: not any more. 0 or -errno. */
static long advise_part(struct vma *vma, uintptr_t start, uintptr_t end, int advice, bool *dropped)
{
	int err;

	switch (advice) {
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_FREE:
		err = may_drop_range(vma, start, &end, advice);
		if (!err && start < end && unlikely(uffd_wants_remove(vma)))
			return drop_followed_pages(vma->mm, vma, start, end, advice, dropped);
		if (!err && start < end)
			zap_page_range(vma, start, end);
		return err;
	case MADV_REMOVE:
		if (sealed_against(vma, advice))
			return -EPERM;
		*dropped = true;
		return punch_hole(vma, start, end);
	case MADV_COLD:
	case MADV_PAGEOUT:
		return vma->flags & (VM_LOCKED | VM_PFNMAP | VM_HUGETLB) ? -EINVAL : 0;
	case MADV_COLLAPSE:
		return -EINVAL;		/* there are no transparent huge pages: as on Linux where a process has forbidden them */
	default:
		return 0;	/* WILLNEED: files are in memory, or read a page at a time */
	}
}

/* The VMA is looked up anew for each part: while the lock was dropped anything may have changed. */
static long advise_pages(struct mm *mm, uintptr_t start, uintptr_t end, int advice)
{
	bool hole = false, dropped = true;
	long err = 0;

	while (start < end && !err) {
		struct vma *vma;
		uintptr_t part_end;

		if (dropped && mmap_read_lock_killable(mm))
			return -EINTR;
		dropped = false;
		vma = vma_find(mm, start);
		if (!vma || vma->start >= end) {
			hole = true;
			break;
		}
		if (vma->start > start) {
			hole = true;
			start = vma->start;
		}
		part_end = min(end, vma->end);
		err = advise_part(vma, start, part_end, advice, &dropped);
		start = part_end;
	}
	if (!dropped)
		mmap_read_unlock(mm);
	return err ? err : hole ? -ENOMEM : 0;
}

/* -- prefaulting -- */

/* A30: up to where one VMA goes and whether it may be touched at all; then as page pinning does. */
static long advise_populate(struct mm *mm, uintptr_t start, uintptr_t end, bool write)
{
	while (start < end) {
		uintptr_t part_end;
		struct vma *vma;
		long err = 0;

		if (mmap_read_lock_killable(mm))
			return -EINTR;
		vma = vma_lookup(mm, start);
		part_end = vma ? min(end, vma->end) : end;
		if (!vma)
			err = -ENOMEM;
		else if ((vma->flags & (VM_IO | VM_PFNMAP)) || !(vma->flags & (write ? VM_WRITE : VM_READ)))
			err = -EINVAL;
		mmap_read_unlock(mm);
		if (!err)
			err = populate_range(mm, start, part_end, write ? FOLL_WRITE : 0);
		if (err)
			return err;
		start = part_end;
	}
	return 0;
}
