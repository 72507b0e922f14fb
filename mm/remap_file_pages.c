/*
 * remap_file_pages: other pages of the file that is mapped at an address. It was made for many windows into one file without a VMA for each;
 * today it is, as on Linux, a name for mmap(MAP_FIXED) that remembers file and rights, and each window costs its VMA.
 *
 * The rule that is easy to break: the mapping that gives us the file may go by what we do, so the file is held, and put only when
 * mmap_lock is free again.
 */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/hugetlb.h"
#include "mm/mmap.h"
#include "mm/vma_internal.h"

/* Is all of [start, end) shared memory of one file with the same rights, without a hole? The first VMA, or NULL. mmap_lock held. */
static struct vma *one_shared_file(struct mm *mm, uintptr_t start, uintptr_t end)
{
	struct vma *first = vma_lookup(mm, start), *vma = first;

	if (!first || !(first->flags & VM_SHARED))
		return NULL;
	while (vma->end < end) {
		struct vma *next = vma_lookup(mm, vma->end);

		if (!next || next->file != first->file || next->flags != first->flags)
			return NULL;
		vma = next;
	}
	return first;
}

/* mmap_lock write. *file: referenced, for the caller to put, or NULL. The address or -errno. */
static long remap_locked(struct mm *mm, uintptr_t start, size_t size, u64 pgoff, unsigned long flags, struct file **file, size_t *populate)
{
	struct vma *vma = one_shared_file(mm, start, start + size);

	if (!vma)
		return -EINVAL;
	/* mmap would round up, and take pages that nobody has named. */
	if ((vma->flags & VM_HUGETLB) && (size & (huge_page_size(hstate_vma(vma)) - 1)))
		return -EINVAL;
	*file = vma->file;
	file_get(*file);
	flags = (flags & MAP_NONBLOCK) | MAP_SHARED | MAP_FIXED | MAP_POPULATE | (vma->flags & VM_LOCKED ? MAP_LOCKED : 0);
	return do_mmap(*file, NULL, start, size, vma->flags & VM_ACCESS, flags, pgoff, populate);
}

/* A41. @prot must be 0; of @flags only MAP_NONBLOCK is looked at. What is not whole pages is cut off. */
SYSCALL_DEFINE(remap_file_pages, uintptr_t start, size_t size, unsigned long prot, u64 pgoff, unsigned long flags)
{
	struct mm *mm = current->mm;
	struct file *file = NULL;
	size_t populate = 0;
	long ret;

	start &= PAGE_MASK;
	size &= PAGE_MASK;
	if (prot || start + size <= start || pgoff + (size >> PAGE_SHIFT) < pgoff)
		return -EINVAL;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	ret = remap_locked(mm, start, size, pgoff, flags, &file, &populate);
	mmap_write_unlock(mm);
	if (file)
		file_put(file);
	if (populate)
		(void)mm_populate(mm, start, populate, true);
	return ret < 0 ? ret : 0;
}
