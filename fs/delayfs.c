/*
 * delayfs: files with a slow disk behind them, for machines that have no disk.
 *
 *	mount -t delayfs -o delay_us=2000,bw_kib=10240,size=64m none /mnt
 *
 * The disk is memory: each file has stored pages, apart from those of the page cache, which are brought in, become dirty,
 * are written back and may be dropped as those of any disk. A device of its own serves each mount, and takes its time:
 *
 *	bw_kib=N	KiB a second over the wire, which carries one page at a time, reads and writes alike; 0: no limit
 *	delay_us=N	from the end of the transfer until the data is safe, or there; these overlap, as in any queue of a disk
 *	size=N		of the store, as tmpfs has it: k, m, g, % of memory; a quarter of memory if not given
 *	fail_reads=N, fail_writes=N	the next N pages read, or written, fail with EIO: to see who is told. Also by remount
 *
 *	  write_page()                 timer                 work: arrivals()
 *	------------->  queue, by time  --->  interrupt  --->  copy to the stored page, page_end_writeback()
 *
 * A hole has no stored page. One is made before a page of the cache becomes dirty (make_room), so that a full store is
 * told to the one who writes (ENOSPC, SIGBUS), not to fsync much later. The names are the dentry tree, as in ramfs.
 *
 * The rule that is easy to break: truncate and punch first take the page out of the cache, which waits for its
 * write-back, and then the stored page. The other way round a write that is on its way would bring it back.
 */
#include "fs/internal.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/timer.h"
#include "mm/fault_internal.h"
#include "mm/slab.h"

#define DELAYFS_MAGIC		0x64656c79u	/* "dely" */
#define MAX_DELAY_US		10000000u	/* ten seconds */
#define MAX_BW_KIB		(1u << 30)
#define SEEK_DATA		3
#define SEEK_HOLE		4
#define FALLOC_FL_KEEP_SIZE	1
#define FALLOC_FL_PUNCH_HOLE	2
#define END_OF_FILE		((loff_t)(INT64_MAX & PAGE_MASK))

struct delay_options {
	u64	max_blocks, delay_us, bw_kib, fail_reads, fail_writes;
};

/*
 *   D  lock   A  atomic   I  constant
 */
struct delay_device {
	struct refcount		 refs;		/* A  one of the super block, one while active */
	struct spinlock		 lock;		/* LOCK_BACKING_STORE */
	struct delay_options	 options;	/* D  fail_*: how many are still to fail */
	u64			 wire_free_at;	/* D  ktime: the last transfer that was booked ends */
	struct list_head	 queue;		/* D  page->lru: being written, in order of page->private, when they arrive */
	bool			 active;	/* D  the timer is set, or arrivals() is due or runs; true while the queue has pages */
	struct timer		 arrival;
	struct work		 work;
	struct wait_queue	 readers;	/* sleep here until their time has come; nobody wakes them */
};

/* inode->private of a regular file: what the disk holds of it. */
struct delay_file {
	struct spinlock		 lock;		/* LOCK_BACKING_STORE */
	struct radix_tree	 pages;		/* lock; holds one reference of each */
	u64			 nr;		/* lock to write */
};

static const struct inode_ops dir_ops, delayfs_inode_ops;
static const struct file_ops delayfs_file_ops;
static const struct mapping_ops delayfs_mapping_ops;
static struct vma_ops delayfs_vma_ops;		/* those of any mapped file, and page_mkwrite */

static struct delay_device *device_of(const struct mapping *m)
{
	return m->host->sb->private;
}

static struct delay_file *store_of(const struct mapping *m)
{
	return m->host->private;
}

/* -- the device ------------------------------------------------------------------------------------------------------ */

static void device_put(struct delay_device *d)
{
	if (!refcount_dec_and_test(&d->refs))
		return;
	timer_cancel_sync(&d->arrival);		/* its function may still be on the way out */
	kfree(d);
}

/* One page goes over the wire; when will it have arrived? Lock: d->lock. */
static u64 book_transfer(struct delay_device *d)
{
	const struct delay_options *o = &d->options;
	u64 transfer_ns = o->bw_kib ? PAGE_SIZE / 1024 * NSEC_PER_SEC / o->bw_kib : 0;

	d->wire_free_at = max(d->wire_free_at, ktime_get_ns()) + transfer_ns;
	return d->wire_free_at + o->delay_us * NSEC_PER_USEC;
}

/* Takes as long as reading one page takes. 0, -EIO, -EINTR (only a fatal signal). Sleeps. */
static int device_read(struct delay_device *d)
{
	bool fails;
	u64 due, now;

	spin_lock(&d->lock);
	due = book_transfer(d);
	fails = d->options.fail_reads;
	d->options.fail_reads -= fails;
	spin_unlock(&d->lock);

	while ((now = ktime_get_ns()) < due) {
		int err = __wait_event(&d->readers, ktime_get_ns() >= due, TASK_KILLABLE, false, due - now);

		if (err && err != -ETIMEDOUT)
			return -EINTR;
	}
	return fails ? -EIO : 0;
}

/* @page is under write-back, which arrivals() ends. */
static void device_write(struct delay_device *d, struct page *page)
{
	spin_lock(&d->lock);
	page->private = book_transfer(d);
	list_add_tail(&page->lru, &d->queue);
	if (!d->active) {
		d->active = true;
		refcount_inc(&d->refs);
		timer_arm(&d->arrival, page->private);
	}
	spin_unlock(&d->lock);
}

static void arrival_timer(struct timer *t)
{
	schedule_work(&container_of(t, struct delay_device, arrival)->work);
}

/*
 * The next page whose time has come, off the queue, and how it went. NULL: none. Then the timer is set for the next, or
 * nothing is under way any more and @d, whose reference is dropped, may be gone.
 */
static struct page *next_arrival(struct delay_device *d, int *err)
{
	spin_lock(&d->lock);
	struct page *page = list_first_entry_or_null(&d->queue, struct page, lru);

	if (page && page->private <= ktime_get_ns()) {
		list_del(&page->lru);
		*err = d->options.fail_writes ? -EIO : 0;
		d->options.fail_writes -= *err != 0;
		spin_unlock(&d->lock);
		return page;
	}
	if (page)
		timer_arm(&d->arrival, page->private);
	else
		d->active = false;
	spin_unlock(&d->lock);
	if (!page)
		device_put(d);
	return NULL;
}

static int store_page(struct mapping *m, struct page *page);

static void arrivals(struct work *w)
{
	struct delay_device *d = container_of(w, struct delay_device, work);
	struct page *page;
	int err;

	while ((page = next_arrival(d, &err))) {
		if (!err)
			err = store_page(page->mapping, page);	/* stays: removal waits for us */
		page_end_writeback(page, err);
		cond_resched();
	}
}

/* -- the stored pages of one file ------------------------------------------------------------------------------------ */

/* Counted, or NULL: a hole. */
static struct page *stored_page(struct delay_file *f, u64 index)
{
	spin_lock(&f->lock);
	struct page *page = radix_lookup(&f->pages, index);

	if (page)
		get_page(page);
	spin_unlock(&f->lock);
	return page;
}

static int charge_block(struct super_block *sb)
{
	s64 used = __atomic_add_fetch(&sb->used_blocks, 1, __ATOMIC_RELAXED);
	u64 limit = READ_ONCE(sb->max_blocks);

	if (!limit || used <= (s64)limit)
		return 0;
	__atomic_fetch_sub(&sb->used_blocks, 1, __ATOMIC_RELAXED);
	return -ENOSPC;
}

static void uncharge_blocks(struct super_block *sb, s64 n)
{
	__atomic_fetch_sub(&sb->used_blocks, n, __ATOMIC_RELAXED);
}

static int insert_stored(struct delay_file *f, u64 index, struct page *page)
{
	struct radix_pool pool = { 0 };
	int err;

	do {
		spin_lock(&f->lock);
		err = radix_insert(&f->pages, index, page, &pool);
		f->nr += !err;
		spin_unlock(&f->lock);
		if (err == -EAGAIN && radix_pool_fill(&pool, GFP_KERNEL))
			err = -ENOMEM;
	} while (err == -EAGAIN);
	radix_pool_drain(&pool);
	return err;
}

/* Afterwards @index has a stored page. 0, -ENOSPC, -ENOMEM. Sleeps. */
static int reserve_stored(struct inode *inode, u64 index)
{
	struct delay_file *f = inode->private;
	struct page *page = stored_page(f, index);

	if (page) {
		put_page(page);
		return 0;
	}
	int err = charge_block(inode->sb);

	if (err)
		return err;
	page = alloc_page(GFP_USER | GFP_ZERO);
	err = page ? insert_stored(f, index, page) : -ENOMEM;
	if (!err)
		return 0;			/* the reference is the tree's */
	uncharge_blocks(inode->sb, 1);
	if (page)
		put_page(page);
	return err == -EEXIST ? 0 : err;	/* somebody was faster */
}

/* Stored pages [first, end) are gone. Sleeps. */
static void free_stored(struct inode *inode, u64 first, u64 end)
{
	struct delay_file *f = inode->private;
	u64 index = first;

	for (;;) {
		spin_lock(&f->lock);
		struct page *page = radix_next(&f->pages, &index, RADIX_ANY);

		if (page && index < end) {
			radix_remove(&f->pages, index);
			f->nr--;
		} else {
			page = NULL;
		}
		spin_unlock(&f->lock);
		if (!page)
			return;
		put_page(page);
		uncharge_blocks(inode->sb, 1);
		cond_resched();
	}
}

/*
 * @page, under write-back, has arrived. What lies beyond the end of the file is not kept: a mapping may have written
 * there, and it must not appear when the file grows.
 */
static int store_page(struct mapping *m, struct page *page)
{
	u64 size = READ_ONCE(m->host->size), start = page->index << PAGE_SHIFT;

	if (start >= size)
		return 0;			/* truncate waits for us, to remove it */

	/* Room was made when it became dirty; a punch may have taken that back since. */
	int err = reserve_stored(m->host, page->index);
	struct page *stored = err ? NULL : stored_page(store_of(m), page->index);

	if (!stored)
		return err;
	copy_page(page_to_virt(stored), page_to_virt(page));
	if (size - start < PAGE_SIZE)
		memset((char *)page_to_virt(stored) + (size - start), 0, PAGE_SIZE - (size - start));
	put_page(stored);
	return 0;
}

/* -- page cache operations ------------------------------------------------------------------------------------------- */

/* A hole costs no time: no disk is asked about it. */
static int delayfs_read_page(struct mapping *m, struct page *page)
{
	struct page *stored = stored_page(store_of(m), page->index);

	if (!stored) {
		clear_pages(page_to_virt(page), 0);
		return 0;
	}
	int err = device_read(device_of(m));

	if (!err)
		copy_page(page_to_virt(page), page_to_virt(stored));
	put_page(stored);
	return err;
}

static int delayfs_write_page(struct mapping *m, struct page *page)
{
	page_start_writeback(page);
	unlock_page(page);
	device_write(device_of(m), page);
	return 0;
}

static int delayfs_make_room(struct mapping *m, struct page *page)
{
	return reserve_stored(m->host, page->index);
}

static const struct mapping_ops delayfs_mapping_ops = {
	.read_page = delayfs_read_page,
	.write_page = delayfs_write_page,
	.make_room = delayfs_make_room,
};

/* A clean page becomes writable through a mapping (G6). It is locked, and stays so unless this fails. */
static unsigned int delayfs_page_mkwrite(struct vm_fault *vmf)
{
	struct page *page = vmf->page;
	struct mapping *m = page->mapping;
	vm_fault_t ret = 0;

	if (page->index >= mapping_size_pages(m)) {
		ret = VM_FAULT_NOPAGE;		/* truncate is about to take it: the access finds out */
	} else {
		int err = reserve_stored(m->host, page->index);

		if (err)
			ret = err == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
	}
	if (ret)
		unlock_page(page);
	else
		inode_touch(m->host, true);
	return ret;
}

/* -- files ----------------------------------------------------------------------------------------------------------- */

static int delayfs_mmap(struct file *file, struct vma *vma)
{
	int err = generic_file_mmap(file, vma);

	vma->ops = &delayfs_vma_ops;
	return err;
}

static int delayfs_fsync(struct file *f, bool datasync)
{
	(void)datasync;
	return mapping_writeback_range(&f->inode->mapping, 0, INT64_MAX, true);
}

static ssize_t delayfs_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	ssize_t n = ramfs_write(f, from, pos);
	int err = n > 0 && (f->flags & O_DSYNC) ?
		  mapping_writeback_range(&f->inode->mapping, *pos - n, *pos, true) : 0;

	return err ? err : n;
}

/* Where the holes are only the disk knows, and it is not asked: all is data up to the end, as Linux does for such files. */
static loff_t delayfs_llseek(struct file *f, loff_t off, int whence)
{
	loff_t size = (loff_t)READ_ONCE(f->inode->size);

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return generic_llseek(f, off, whence);
	if (off < 0 || off >= size)
		return -ENXIO;
	f->pos = whence == SEEK_DATA ? off : size;
	return f->pos;
}

/* Lock: inode->lock for write. */
static int delayfs_truncate(struct inode *inode, u64 size)
{
	if (size > inode->size) {
		zero_beyond_end(&inode->mapping, size);
		WRITE_ONCE(inode->size, size);
		return 0;
	}
	WRITE_ONCE(inode->size, size);
	truncate_mapping_range(&inode->mapping, (loff_t)size, END_OF_FILE, true);
	free_stored(inode, DIV_ROUND_UP(size, PAGE_SIZE), ~0ul);
	return 0;
}

/*
 * A fault may bring a page back between the first two steps, with what was stored: so once more. (If it was written to,
 * that write came before the punch.)
 */
static void punch_hole(struct inode *inode, u64 start, u64 end)
{
	truncate_mapping_range(&inode->mapping, (loff_t)start, (loff_t)end, true);
	free_stored(inode, DIV_ROUND_UP(start, PAGE_SIZE), end >> PAGE_SHIFT);
	truncate_mapping_range(&inode->mapping, (loff_t)start, (loff_t)end, true);
}

/* Lock: inode->lock for write. */
static int delayfs_fallocate(struct inode *inode, int mode, loff_t off, loff_t len)
{
	u64 end = (u64)off + (u64)len;

	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
		return -EOPNOTSUPP;
	if (mode & FALLOC_FL_PUNCH_HOLE) {
		punch_hole(inode, (u64)off, end);
		inode_touch(inode, true);
		return 0;
	}
	if (!(mode & FALLOC_FL_KEEP_SIZE) && end > rlimit_cur(RLIMIT_FSIZE)) {
		send_signal_task(current, SIGXFSZ, NULL);
		return -EFBIG;
	}
	for (u64 i = (u64)off >> PAGE_SHIFT; i < DIV_ROUND_UP(end, PAGE_SIZE); i++) {
		int err = signal_pending() ? -EINTR : reserve_stored(inode, i);

		if (err)
			return err;
		cond_resched();
	}
	if (!(mode & FALLOC_FL_KEEP_SIZE) && end > inode->size) {
		zero_beyond_end(&inode->mapping, end);
		WRITE_ONCE(inode->size, end);
	}
	inode_touch(inode, true);
	return 0;
}

static u64 delayfs_blocks(struct inode *inode)
{
	const struct delay_file *f = inode->private;

	return READ_ONCE(f->nr) * (PAGE_SIZE / 512);
}

/* The pages of the cache are gone already. */
static void delayfs_evict(struct inode *inode)
{
	free_stored(inode, 0, ~0ul);
	kfree(inode->private);
}

static const struct file_ops delayfs_file_ops = {
	.read = ramfs_read,
	.write = delayfs_write,
	.llseek = delayfs_llseek,
	.mmap = delayfs_mmap,
	.fsync = delayfs_fsync,
};

static const struct inode_ops delayfs_inode_ops = {
	.truncate = delayfs_truncate,
	.fallocate = delayfs_fallocate,
	.blocks = delayfs_blocks,
	.evict = delayfs_evict,
};

/* -- names ----------------------------------------------------------------------------------------------------------- */

/* ERR_PTR: -ENOMEM, -ENOSPC. Only regular files are ours; the rest is as in ramfs. */
static struct inode *delayfs_inode(struct super_block *sb, u32 mode, dev_t rdev)
{
	struct delay_file *f = NULL;

	if (S_ISREG(mode)) {
		f = kzalloc(sizeof(*f), GFP_KERNEL);
		if (!f)
			return ERR_PTR(-ENOMEM);
		spin_lock_init(&f->lock, LOCK_BACKING_STORE);
	}
	struct inode *inode = ramfs_inode(sb, mode, rdev);

	if (!inode) {
		kfree(f);
		return ERR_PTR(-ENOSPC);
	}
	if (f) {
		inode->ops = &delayfs_inode_ops;
		inode->fops = &delayfs_file_ops;
		inode->private = f;
		inode->mapping.ops = &delayfs_mapping_ops;
		inode->mapping.is_shmem = false;
	} else if (S_ISDIR(mode)) {
		inode->ops = &dir_ops;
	}
	return inode;
}

static struct inode *delayfs_create(struct inode *dir, u32 mode, dev_t rdev)
{
	return delayfs_inode(dir->sb, mode, rdev);
}

static const struct inode_ops dir_ops = { .create = delayfs_create, .symlink = ramfs_symlink };

/* -- mounting -------------------------------------------------------------------------------------------------------- */

static int parse_number(const char *s, u64 limit, u64 *out)
{
	u64 v;

	if (kstrtou64(s, 10, &v) || v > limit)
		return -EINVAL;
	*out = v;
	return 0;
}

static int parse_option(void *arg, const char *name, const char *value)
{
	struct delay_options *o = arg;
	u64 bytes;

	if (!strcmp(name, "delay_us"))
		return parse_number(value, MAX_DELAY_US, &o->delay_us);
	if (!strcmp(name, "bw_kib"))
		return parse_number(value, MAX_BW_KIB, &o->bw_kib);
	if (!strcmp(name, "fail_reads"))
		return parse_number(value, UINT32_MAX, &o->fail_reads);
	if (!strcmp(name, "fail_writes"))
		return parse_number(value, UINT32_MAX, &o->fail_writes);
	if (strcmp(name, "size") || mount_parse_size(value, nr_total_pages() * PAGE_SIZE, &bytes))
		return -EINVAL;
	o->max_blocks = DIV_ROUND_UP(bytes, PAGE_SIZE);
	return 0;
}

static size_t delayfs_show_options(struct super_block *sb, char *buf, size_t size)
{
	struct delay_device *d = sb->private;

	spin_lock(&d->lock);
	struct delay_options o = d->options;
	spin_unlock(&d->lock);

	size_t n = (size_t)scnprintf(buf, size, ",size=%luk,delay_us=%lu,bw_kib=%lu", o.max_blocks * (PAGE_SIZE / 1024), o.delay_us, o.bw_kib);

	if (o.fail_reads)
		n += (size_t)scnprintf(buf + n, size - n, ",fail_reads=%lu", o.fail_reads);
	if (o.fail_writes)
		n += (size_t)scnprintf(buf + n, size - n, ",fail_writes=%lu", o.fail_writes);
	return n;
}

/* What the options do not name stays as it is. Pages that are on their way arrive as they were booked. */
static int delayfs_remount(struct super_block *sb, const char *options)
{
	struct delay_device *d = sb->private;

	spin_lock(&d->lock);
	struct delay_options o = d->options;
	spin_unlock(&d->lock);

	int err = mount_parse_options(options, parse_option, &o);

	if (err)
		return err;
	if (o.max_blocks && (s64)o.max_blocks < READ_ONCE(sb->used_blocks))
		return -EINVAL;		/* smaller than what is used */
	spin_lock(&d->lock);
	d->options = o;
	WRITE_ONCE(sb->max_blocks, o.max_blocks);
	spin_unlock(&d->lock);
	return 0;
}

static void delayfs_kill(struct super_block *sb)
{
	device_put(sb->private);
}

static struct super_block *delayfs_mount(const char *source, const char *options, u32 flags)
{
	struct delay_options o = { .max_blocks = nr_total_pages() / 4 };
	int err = options ? mount_parse_options(options, parse_option, &o) : 0;

	(void)source, (void)flags;
	if (err)
		return ERR_PTR(err);

	struct delay_device *d = kzalloc(sizeof(*d), GFP_KERNEL);
	struct super_block *sb = d ? super_alloc("delayfs", DELAYFS_MAGIC) : NULL;

	if (!sb) {
		kfree(d);
		return ERR_PTR(-ENOMEM);
	}
	refcount_set(&d->refs, 1);
	spin_lock_init(&d->lock, LOCK_BACKING_STORE);
	d->options = o;
	INIT_LIST_HEAD(&d->queue);
	timer_setup(&d->arrival, arrival_timer);
	work_init(&d->work, arrivals);
	wait_queue_init(&d->readers);
	sb->private = d;
	sb->max_blocks = o.max_blocks;
	sb->kill = delayfs_kill;
	sb->show_options = delayfs_show_options;
	sb->remount = delayfs_remount;

	struct inode *root = delayfs_inode(sb, S_IFDIR | 0755, 0);

	err = IS_ERR(root) ? (int)PTR_ERR(root) : super_make_root(sb, root);
	if (err) {
		super_put(sb);
		return ERR_PTR(err);
	}
	return sb;
}

static struct fs_type delayfs_type = { .name = "delayfs", .nodev = true, .mount = delayfs_mount };

void delayfs_init(void)
{
	delayfs_vma_ops = filemap_vma_ops;
	delayfs_vma_ops.page_mkwrite = delayfs_page_mkwrite;
	register_filesystem(&delayfs_type);
}
