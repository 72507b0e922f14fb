/*
 * mseal: from now on these mappings may not be unmapped, moved, replaced or given other rights. The refusals are where
 * those things are done; there is no way back.
 */
#include "kernel/errno.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/vma_internal.h"

/* Every page of [start, end) is mapped? mmap_lock held. */
static bool wholly_mapped(struct mm *mm, uintptr_t start, uintptr_t end)
{
	while (start < end) {
		struct vma *vma = vma_lookup(mm, start);

		if (!vma)
			return false;
		start = vma->end;
	}
	return true;
}

SYSCALL_DEFINE(mseal, uintptr_t start, size_t len, unsigned long flags)
{
	struct mm *mm = current->mm;
	size_t rounded = ALIGN_UP(len, PAGE_SIZE);
	uintptr_t end = start + rounded;
	int err = 0;

	if (flags || (start & ~PAGE_MASK) || (len && !rounded) || end < start)
		return -EINVAL;
	if (start == end)
		return 0;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	if (!wholly_mapped(mm, start, end))
		err = -ENOMEM;
	while (!err && start < end) {
		struct vma *vma = vma_lookup(mm, start);
		uintptr_t part_end = min(vma->end, end);

		vma = vma_modify(vma, start, part_end, vma->flags | VM_SEALED, vma->uffd);
		if (IS_ERR(vma))
			err = (int)PTR_ERR(vma);
		start = part_end;
	}
	mmap_write_unlock(mm);
	return err;
}
