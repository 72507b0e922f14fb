/*
 * /proc/PID/hugetlb: for each mapping of huge pages, how it stands with every index of its range. One line each:
 *
 *	start-end device inode bytes-of-a-page shared|private first-index STATE COUNT [STATE COUNT]...
 *
 *	page		there is a huge page, or one is on its way
 *	promised	the pool keeps one for it (HugePages_Rsvd counts it)
 *	none		neither: a fault there may find the pool empty, and be SIGBUS
 *
 * Of a shared mapping these are the states of the file, the same for all who map it. Of a private one they are its own: "page" is a copy
 * that it has made, which used up its promise.
 *
 * mmap_lock for reading keeps the VMAs; pages come and go meanwhile, so only each run is of one moment.
 */
#include "fs/vfs.h"
#include "mm/hugetlb_internal.h"
#include "mm/mmap.h"
#include "mm/proc_text.h"
#include "mm/vma.h"

static enum hugetlb_promise promise_of(const struct vma *vma, u64 idx, u64 end, u64 *n)
{
	return vma_is_private(vma) ? hugetlb_private_promise(vma, idx, end, n) : hugetlb_file_promise(vma->file->inode, idx, end, n);
}

static void show_hugetlb_vma(struct text *t, struct vma *vma, void *unused)
{
	static const char *const names[] = { [HUGETLB_NONE] = "none", [HUGETLB_PROMISED] = "promised", [HUGETLB_TAKEN] = "page" };
	const struct inode *inode;
	u64 idx, end, n, run = 0;
	enum hugetlb_promise now = HUGETLB_NONE;

	(void)unused;
	if (!(vma->flags & VM_HUGETLB))
		return;
	inode = vma->file->inode;
	idx = hugetlb_index(hstate_vma(vma), vma, vma->start);
	end = idx + (vma_pages(vma) >> hstate_vma(vma)->order);
	text_add(t, "%08lx-%08lx %02lx:%02lx %lu %lu %s %lu", vma->start, vma->end, (unsigned long)MAJOR(inode->sb->dev),
		 (unsigned long)MINOR(inode->sb->dev), inode->ino, huge_page_size(hstate_vma(vma)), vma_is_private(vma) ? "private" : "shared", idx);
	for (; idx < end && !text_full(t); idx += n, run += n) {
		enum hugetlb_promise next = promise_of(vma, idx, end, &n);

		if (run && next != now) {
			text_add(t, " %s %lu", names[now], run);
			run = 0;
		}
		now = next;
	}
	text_add(t, " %s %lu\n", names[now], run);
}

ssize_t proc_hugetlb_read(struct mm *mm, u64 *cursor, char *buf, size_t size)
{
	return show_vmas(mm, cursor, buf, size, show_hugetlb_vma, NULL);
}
