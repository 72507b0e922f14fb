/*
 * hugetlbfs: files made of huge pages. It knows names, sizes and which index has a page; it never edits a page table, and
 * counts nothing: promises and pools are in mm/hugetlb_reserve.c and mm/hugetlb.c.
 *
 *	a file of a mount		create, open, mmap, ftruncate, fallocate, read
 *	a file without a name		hugetlb_file_setup(): MAP_HUGETLB, memfd_create, shmget; on a mount of our own for each size
 *
 * Taking pages away (ftruncate, hole punching) against faults (D30). The size goes down first. Then the range is unmapped as a
 * whole, which is cheap but proves nothing: a fault that looked at the size earlier may still bring pages in. Then, for each
 * page that is in the file, the fault mutex of its index is taken: now no fault is at work there and none can begin, so the page
 * and its private copies are unmapped once more, and it is removed. A fault that inserts a page looks at the size again after that and
 * takes it out itself (R12), so one pass is enough.
 */
#include "fs/hugetlbfs.h"
#include "kernel/mutex.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/race.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/hugetlb_internal.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define FALLOC_FL_KEEP_SIZE	1
#define FALLOC_FL_PUNCH_HOLE	2
#define SEEK_DATA		3
#define SEEK_HOLE		4

/*   I  constant */
struct hugetlbfs_inode {		/* inode->private of a regular file */
	struct hugetlb_file_map	 map;
	struct mutex		 cut_lock;		/* LOCK_HUGETLB_FILE: promises and size go up together (mmap) or down together (truncate) */
	bool			 reserved_whole;	/* I  shmget has reserved it all: mmap reserves nothing */
};

static const struct inode_ops dir_ops, file_inode_ops;
static const struct file_ops hugetlbfs_file_ops;

static struct hugetlbfs_inode *inode_info(const struct inode *inode) { return inode->private; }

bool file_is_hugetlbfs(const struct file *file)
{
	return file && file->inode->fops == &hugetlbfs_file_ops;
}

bool hugetlb_beyond_end(const struct mapping *m, const struct hstate *h, u64 idx)
{
	return idx >= READ_ONCE(m->host->size) >> huge_page_shift(h);
}

struct hstate *hstate_inode(const struct inode *inode) { return hugetlbfs_sb(inode->sb)->h; }
struct hstate *hstate_file(const struct file *file) { return hstate_inode(file->inode); }
struct hugetlb_file_map *hugetlbfs_file_map(struct inode *inode) { return &inode_info(inode)->map; }
struct hugetlb_subpool *hugetlbfs_subpool(struct inode *inode) { return hugetlbfs_sb(inode->sb)->subpool; }

/* -- inodes --------------------------------------------------------------------------------------------------------- */

struct inode *hugetlbfs_new_inode(struct super_block *sb, u32 mode, dev_t rdev)
{
	struct hugetlbfs_inode *info = S_ISREG(mode) ? kzalloc(sizeof(*info), GFP_KERNEL) : NULL;
	struct inode *inode;

	if (S_ISREG(mode) && !info)
		return NULL;
	inode = S_ISREG(mode) ? inode_alloc(sb, mode) : ramfs_inode(sb, mode, rdev);
	if (!inode) {
		kfree(info);
		return NULL;
	}
	if (S_ISREG(mode)) {
		hugetlb_file_map_init(&info->map);
		mutex_init(&info->cut_lock, LOCK_HUGETLB_FILE);
		inode->private = info;
		inode->ops = &file_inode_ops;
		inode->fops = &hugetlbfs_file_ops;
		inode->mapping.is_hugetlb = true;
	} else if (S_ISDIR(mode)) {
		inode->ops = &dir_ops;
	}
	return inode;
}

static struct inode *hugetlbfs_create(struct inode *dir, u32 mode, dev_t rdev)
{
	struct inode *inode = hugetlbfs_new_inode(dir->sb, mode, rdev);

	return inode ? inode : ERR_PTR(-ENOSPC);
}

/* The text of a symbolic link would have to be written, which files here cannot be. Linux answers the same. */
static struct inode *hugetlbfs_symlink(struct inode *dir, const char *target)
{
	(void)dir, (void)target;
	return ERR_PTR(-EINVAL);
}

/* No page is left in the file, and nobody maps it. */
static void hugetlbfs_evict(struct inode *inode)
{
	hugetlb_unreserve_pages(inode, 0, ~0ul);
	kfree(inode->private);
}

static u64 hugetlbfs_blocks(struct inode *inode)
{
	return READ_ONCE(inode->mapping.nr_pages) * (huge_page_size(hstate_inode(inode)) / 512);
}

/* -- removing pages ------------------------------------------------------------------------------------------------- */

/* One index of the file. @page is referenced; it may have left the file since it was found. */
static void remove_page(struct inode *inode, struct page *page, u64 idx)
{
	struct mapping *m = &inode->mapping;
	u32 hash = hugetlb_removal_lock(m, idx);

	/*
	 * Before the folio lock, which comes after the locks that unmapping takes. With the mutex nobody maps it again (R13). Even if it
	 * is mapped nowhere: a private mapping may have copied it since the range was unmapped.
	 */
	hugetlb_unmap_file(m, idx, idx + 1, true);
	race_window("hugetlb_removal_unmapped");
	lock_page(page);
	if (page->mapping == m && page->index == idx)
		hugetlb_remove_from_page_cache(page);
	unlock_page(page);
	put_page(page);
	hugetlb_removal_unlock(hash);
}

/* Pages [first, last) of the file, from everywhere. inode lock held. Sleeps. */
static void remove_range(struct inode *inode, u64 first, u64 last)
{
	struct mapping *m = &inode->mapping;
	struct page *page;

	race_window("hugetlb_truncate_begin");
	hugetlb_unmap_file(m, first, last, true);
	race_window("hugetlb_truncate_unmapped");
	for (u64 idx = first; (page = mapping_find_get_next(m, &idx)); idx++) {
		if (idx >= last) {
			put_page(page);
			break;
		}
		remove_page(inode, page, idx);
		cond_resched();
	}
}

/* D20. inode lock held for write. Growing takes away what fallocate(KEEP_SIZE) has put behind the new end, too. */
static int hugetlbfs_truncate(struct inode *inode, u64 size)
{
	struct hstate *h = hstate_inode(inode);
	u64 first = size >> huge_page_shift(h);

	if (size & ~huge_page_mask(h))
		return -EINVAL;
	if ((size < inode->size && (inode->seals & F_SEAL_SHRINK)) || (size > inode->size && (inode->seals & F_SEAL_GROW)))
		return -EPERM;
	mutex_lock(&inode_info(inode)->cut_lock);
	__atomic_store_n(&inode->size, size, __ATOMIC_SEQ_CST);		/* before we look for pages: hugetlb_add_to_page_cache() */
	remove_range(inode, first, ~0ul);
	hugetlb_unreserve_pages(inode, first, ~0ul);
	mutex_unlock(&inode_info(inode)->cut_lock);
	return 0;
}

/* Bytes [start, end), which lie in one page, if the file has that page. */
static void zero_part(struct inode *inode, u64 start, u64 end)
{
	struct hstate *h = hstate_inode(inode);
	struct page *page = mapping_find_get(&inode->mapping, start >> huge_page_shift(h));

	if (!page)
		return;
	lock_page(page);
	if (page->mapping == &inode->mapping)
		memset((char *)page_to_virt(page) + (start & ~huge_page_mask(h)), 0, end - start);
	unlock_page(page);
	put_page(page);
}

/* D22. inode lock held for write. */
static int punch_hole(struct inode *inode, u64 start, u64 end)
{
	u64 size = huge_page_size(hstate_inode(inode));
	unsigned int shift = huge_page_shift(hstate_inode(inode));
	u64 first = ALIGN_UP(start, size), last = ALIGN_DOWN(end, size);	/* whole pages: bytes [first, last) */

	if (inode->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return -EPERM;
	if (start < first)
		zero_part(inode, start, min(end, first));
	if (first < last)
		remove_range(inode, first >> shift, last >> shift);
	if (end > last && end > first)
		zero_part(inode, last, end);
	inode_touch(inode, true);
	return 0;
}

/* -- allocating ahead ------------------------------------------------------------------------------------------------ */

/* A page at @idx if there is none. inode lock held. 0 or -errno. */
static int allocate_index(struct inode *inode, u64 idx)
{
	u32 hash = hugetlb_fault_mutex_lock(&inode->mapping, idx);
	struct page *page = mapping_find_get(&inode->mapping, idx);
	int err = 0;

	if (page)
		goto put;
	page = hugetlb_alloc_page_file(inode, idx);
	if (IS_ERR(page)) {
		err = (int)PTR_ERR(page);
		goto unlock;
	}
	clear_huge_page(page);
	page_set(page, PG_uptodate);
	lock_page(page);
	err = hugetlb_add_to_page_cache(page, inode, idx);
	unlock_page(page);
	if (err)
		hugetlb_restore_reserve_file(inode, idx, page);
put:
	put_page(page);
unlock:
	hugetlb_fault_mutex_unlock(hash);
	return err;
}

/* Of fallocate and mmap, which hold different locks: the size only grows here. */
static void extend_size(struct inode *inode, u64 size)
{
	u64 old = READ_ONCE(inode->size);

	while (old < size && !__atomic_compare_exchange_n(&inode->size, &old, size, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/* D21. inode lock held for write; @off and @len were checked. What was allocated before an error stays. */
static int hugetlbfs_fallocate(struct inode *inode, int mode, loff_t off, loff_t len)
{
	struct hstate *h = hstate_inode(inode);
	u64 end = (u64)off + (u64)len, last = DIV_ROUND_UP(end, huge_page_size(h));
	int err = 0;

	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
		return -EOPNOTSUPP;
	if (mode & FALLOC_FL_PUNCH_HOLE)
		return punch_hole(inode, (u64)off, end);
	if (end > inode->size && end > rlimit_cur(RLIMIT_FSIZE)) {	/* with KEEP_SIZE too, as Linux has it */
		send_signal_task(current, SIGXFSZ, NULL);
		return -EFBIG;
	}
	if ((inode->seals & F_SEAL_GROW) && end > inode->size)
		return -EPERM;
	for (u64 idx = (u64)off >> huge_page_shift(h); idx < last && !err; idx++) {
		cond_resched();
		if (signal_pending()) {
			err = -EINTR;
			break;
		}
		err = allocate_index(inode, idx);
		if (err)
			return err;
	}
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		extend_size(inode, end);
	inode_touch(inode, false);
	return err;
}

/* -- reading ---------------------------------------------------------------------------------------------------------- */

/* At most what one page has. Bytes, short after a fault, or -errno. */
static ssize_t read_from_page(struct mapping *m, u64 idx, size_t off, size_t n, struct iov_iter *to)
{
	struct page *page = mapping_find_get(m, idx);
	ssize_t done;

	if (!page)
		return (ssize_t)zero_iter(n, to);
	if (page_test(page, PG_hwpoison))
		done = -EIO;
	else
		done = (ssize_t)copy_to_iter((char *)page_to_virt(page) + off, n, to);
	put_page(page);
	return done;
}

/* D19. */
static ssize_t hugetlbfs_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct inode *inode = f->inode;
	struct hstate *h = hstate_inode(inode);
	ssize_t done = 0;

	while (to->count) {
		u64 size = READ_ONCE(inode->size), at = (u64)*pos;		/* fresh for each page: it may shrink under us */

		if (at >= size)
			break;
		size_t off = at & ~huge_page_mask(h);
		size_t n = min(min(huge_page_size(h) - off, to->count), size - at);
		ssize_t got = read_from_page(&inode->mapping, at >> huge_page_shift(h), off, n, to);

		if (got > 0) {
			done += got;
			*pos += got;
		}
		if (got != (ssize_t)n) {
			if (!done)
				done = got < 0 ? got : -EFAULT;
			break;
		}
		cond_resched();
	}
	file_accessed(f);
	return done;
}

/* Holes are not told apart: all up to the end is data. */
static loff_t hugetlbfs_llseek(struct file *f, loff_t off, int whence)
{
	loff_t size = (loff_t)READ_ONCE(f->inode->size);

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return generic_llseek(f, off, whence);
	if (off < 0)
		return -EINVAL;
	if (off >= size)
		return -ENXIO;
	return generic_llseek(f, whence == SEEK_DATA ? off : size, 0);
}

static int hugetlbfs_fsync(struct file *f, bool datasync)
{
	(void)f, (void)datasync;
	return 0;
}

/* -- mapping ----------------------------------------------------------------------------------------------------------- */

/* What truncate would undo in one go is done in one go. 0 or -ENOMEM. */
static int reserve_and_extend(struct inode *inode, struct vma *vma, u64 end, u64 flags)
{
	struct hstate *h = hstate_inode(inode);
	struct mutex *lock = &inode_info(inode)->cut_lock;
	int err;

	mutex_lock(lock);
	err = hugetlb_reserve_pages(inode, vma->pgoff >> h->order, end >> h->order, vma, flags);
	if (!err && (flags & VM_WRITE))
		extend_size(inode, end << PAGE_SHIFT);
	mutex_unlock(lock);
	return err;
}

/* D13. The address and length are multiples of the page size (mm/mmap.c). mmap_lock write; the VMA is not in the tree yet. */
static int hugetlbfs_mmap(struct file *f, struct vma *vma)
{
	struct inode *inode = f->inode;
	struct hstate *h = hstate_inode(inode);
	u64 pages = vma_pages(vma), flags = vma->flags;
	int err;

	if (vma->pgoff & ((1ul << h->order) - 1))
		return -EINVAL;
	if (vma->pgoff + pages > (u64)INT64_MAX >> PAGE_SHIFT)
		return -EINVAL;
	file_accessed(f);
	if (inode_info(inode)->reserved_whole)
		flags |= VM_NORESERVE;
	vma->ops = &hugetlb_vma_ops;
	vma->mapping = &inode->mapping;
	err = reserve_and_extend(inode, vma, vma->pgoff + pages, flags);
	if (err)
		return err;
	vma->flags |= VM_HUGETLB | VM_DONTEXPAND;
	hugetlb_vma_mapped(vma);
	return 0;
}

static const struct inode_ops dir_ops = { .create = hugetlbfs_create, .symlink = hugetlbfs_symlink };
static const struct inode_ops file_inode_ops = {
	.truncate = hugetlbfs_truncate,
	.fallocate = hugetlbfs_fallocate,
	.blocks = hugetlbfs_blocks,
	.evict = hugetlbfs_evict,
};
static const struct file_ops hugetlbfs_file_ops = {
	.read = hugetlbfs_read,
	.llseek = hugetlbfs_llseek,
	.mmap = hugetlbfs_mmap,
	.fsync = hugetlbfs_fsync,
	.no_direct_io = true,
	.no_splice = true,
};

/* -- files without a name ----------------------------------------------------------------------------------------------- */

struct file *hugetlb_file_setup(struct hstate *h, const char *name, u64 size, unsigned int open_flags, bool allow_sealing)
{
	struct mount *mnt = hugetlbfs_internal_mounts[h - hstates];
	struct inode *inode = hugetlbfs_new_inode(mnt->sb, S_IFREG | 0777, 0);

	if (!inode)
		return ERR_PTR(-ENOSPC);
	inode->size = size;
	if (allow_sealing)
		inode->seals = 0;
	return unlinked_file(mnt, inode, name, (int)open_flags);
}

struct file *hugetlb_file_setup_reserved(struct hstate *h, const char *name, u64 size, bool noreserve)
{
	struct file *f = hugetlb_file_setup(h, name, size, O_RDWR, false);
	int err;

	if (IS_ERR(f))
		return f;
	inode_info(f->inode)->reserved_whole = true;
	err = noreserve ? 0 : hugetlb_reserve_pages(f->inode, 0, size >> huge_page_shift(h), NULL, 0);
	if (!err)
		return f;
	file_put(f);
	return ERR_PTR(err);
}

