/* msync: write what was changed through shared mappings back to where it belongs (A32). */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/mapping.h"
#include "mm/vma_internal.h"

#define MS_ASYNC	1
#define MS_INVALIDATE	2
#define MS_SYNC		4

/* mmap_lock read on entry, dropped on return: the file is held instead while its pages are written. */
static long sync_part(struct vma *vma, uintptr_t start, uintptr_t end)
{
	struct file *file = vma->file;
	struct mapping *mapping = vma->mapping;
	loff_t first = (loff_t)(linear_index(vma, start) << PAGE_SHIFT);
	long err;

	file_get(file);
	mmap_read_unlock(vma->mm);
	err = mapping_writeback_range(mapping, first, first + (loff_t)(end - start), true);
	file_put(file);
	return err;
}

/*
 * ASYNC and 0 only check: dirty pages are written in the background anyway, and mappings always show the file. Entries that
 * are dirty but whose page does not know it yet do not exist: the first write to a tracked page goes through the fault.
 */
SYSCALL_DEFINE(msync, uintptr_t start, size_t len, int flags)
{
	struct mm *mm = current->mm;
	size_t rounded = ALIGN_UP(len, PAGE_SIZE);
	uintptr_t end = start + rounded;
	bool hole = false, locked = false;
	long err = 0;

	if ((flags & ~(MS_ASYNC | MS_INVALIDATE | MS_SYNC)) || (start & ~PAGE_MASK))
		return -EINVAL;
	if ((flags & MS_ASYNC) && (flags & MS_SYNC))
		return -EINVAL;
	if (end < start)		/* a length that rounds to 0 is none, also from the top end */
		return -ENOMEM;
	while (start < end && !err) {
		struct vma *vma;
		uintptr_t part_end;

		if (!locked && mmap_read_lock_killable(mm))
			return -EINTR;
		locked = true;
		vma = vma_find(mm, start);
		if (!vma || vma->start >= end || (vma->start > start && flags == MS_ASYNC)) {
			hole = true;
			break;
		}
		if (vma->start > start) {
			hole = true;
			start = vma->start;
		}
		part_end = min(end, vma->end);
		if ((flags & MS_INVALIDATE) && (vma->flags & VM_LOCKED)) {
			err = -EBUSY;
		} else if ((flags & MS_SYNC) && vma->mapping && (vma->flags & VM_SHARED)) {
			err = sync_part(vma, start, part_end);
			locked = false;
		}
		start = part_end;
	}
	if (locked)
		mmap_read_unlock(mm);
	return err ? err : hole ? -ENOMEM : 0;
}
