/* mincore: which pages of a range would not need to be brought in (A31). */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/sched.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/hugetlb.h"
#include "mm/mapping.h"
#include "mm/page_walk.h"
#include "mm/slab.h"
#include "mm/uaccess.h"
#include "mm/vma_internal.h"

/*
 * What the page cache holds tells what others have read, so only who might write the file may ask; for others all pages
 * look resident.
 */
static bool may_ask(const struct vma *vma)
{
	struct inode *inode;

	if (!vma->file)
		return true;
	inode = vma->file->inode;
	return current->process->creds.fsuid == inode->uid || capable(CAP_FOWNER) || !inode_permission(inode, MAY_WRITE);
}

/* Pages that are not mapped here: in the file's cache, or nowhere. */
static void report_unmapped(const struct vma *vma, uintptr_t start, uintptr_t end, u8 *vec)
{
	if (!vma->mapping) {
		memset(vec, 0, (end - start) >> PAGE_SHIFT);
		return;
	}
	for (; start < end; start += PAGE_SIZE) {
		struct page *page = mapping_find_get(vma->mapping, linear_index(vma, start));

		*vec++ = page && page_test(page, PG_uptodate);
		if (page)
			put_page(page);
	}
}

/* One table: a copy of its entries under the lock, then the answers without it. mmap_lock held. */
static void report_table(const struct vma *vma, pmd_t *pmd, uintptr_t start, uintptr_t end, u8 *vec)
{
	u8 mapped[PTRS_PER_PTE];
	unsigned int n = (unsigned int)((end - start) >> PAGE_SHIFT);
	struct spinlock *ptl;
	pte_t *pte = pte_offset_lock(vma->mm, pmd, start, &ptl);

	if (!pte) {
		report_unmapped(vma, start, end, vec);
		return;
	}
	for (unsigned int i = 0; i < n; i++)
		mapped[i] = pte_present(pte_read(&pte[i]));
	pte_unlock(ptl);
	for (unsigned int i = 0; i < n; i++) {
		if (mapped[i])
			vec[i] = 1;
		else
			report_unmapped(vma, start + ((uintptr_t)i << PAGE_SHIFT), start + ((uintptr_t)(i + 1) << PAGE_SHIFT), &vec[i]);
	}
}

/* A31: huge pages answer by their entries, once for each 4 KiB. mmap_lock held. */
static void report_huge(struct vma *vma, uintptr_t start, uintptr_t end, u8 *vec)
{
	const size_t size = huge_page_size(hstate_vma(vma));

	while (start < end) {
		uintptr_t stop = min((start & ~(size - 1)) + size, end);
		u64 n = (stop - start) >> PAGE_SHIFT;

		memset(vec, pte_present(hugetlb_read_entry(vma, start, NULL)), n);
		vec += n;
		start = stop;
	}
}

/* From @start as far as one VMA and @end reach. mmap_lock read. Pages reported, or -ENOMEM for a hole. */
static long report_part(struct mm *mm, uintptr_t start, uintptr_t end, u8 *vec)
{
	struct vma *vma = vma_lookup(mm, start);
	uintptr_t addr = start, stop;
	pmd_t *pmd;

	if (!vma)
		return -ENOMEM;
	end = min(end, vma->end);
	if (!may_ask(vma)) {
		memset(vec, 1, (end - start) >> PAGE_SHIFT);
		return (long)((end - start) >> PAGE_SHIFT);
	}
	if (vma->flags & VM_HUGETLB) {
		report_huge(vma, start, end, vec);
		return (long)((end - start) >> PAGE_SHIFT);
	}
	while (addr < end) {
		uintptr_t from = addr;
		bool table = next_pte_table(mm, &addr, end, &pmd, &stop);

		addr = min(addr, end);
		if (from < addr)
			report_unmapped(vma, from, addr, vec + ((from - start) >> PAGE_SHIFT));
		if (!table)
			break;
		report_table(vma, pmd, addr, stop, vec + ((addr - start) >> PAGE_SHIFT));
		addr = stop;
	}
	return (long)((end - start) >> PAGE_SHIFT);
}

SYSCALL_DEFINE(mincore, uintptr_t start, size_t len, u8 __user *uvec)
{
	struct mm *mm = current->mm;
	u64 pages = (len >> PAGE_SHIFT) + !!(len & ~PAGE_MASK);
	long err = 0;
	u8 *vec;

	if (start & ~PAGE_MASK)
		return -EINVAL;
	if (!range_ok(start, len))
		return -ENOMEM;
	if (!access_ok(uvec, pages))
		return -EFAULT;
	vec = get_free_page(GFP_KERNEL);
	if (!vec)
		return -EAGAIN;
	while (pages && !err) {
		u64 chunk = min(pages, (u64)PAGE_SIZE);
		long got;

		err = mmap_read_lock_killable(mm);
		if (err)
			break;
		got = report_part(mm, start, start + (chunk << PAGE_SHIFT), vec);
		mmap_read_unlock(mm);
		if (got < 0) {
			err = got;
			break;
		}
		if (copy_to_user(uvec, vec, (size_t)got))
			err = -EFAULT;
		uvec += got;
		pages -= (u64)got;
		start += (uintptr_t)got << PAGE_SHIFT;
		cond_resched();
	}
	free_page(vec);
	return err;
}
