/*
 * ramfs and tmpfs: files that live in the page cache and nowhere else.
 *
 * Names are the dentry tree, data is the mapping; all that is left for a file system to do is to count: blocks against size=,
 * inodes against nr_inodes=, and to refuse what a seal forbids. rootfs and devtmpfs are instances without limits.
 */
#include "fs/internal.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define TMPFS_MAGIC	0x01021994u
#define RAMFS_MAGIC	0x858458f6u
#define MAX_FILE_SIZE	INT64_MAX

#define FALLOC_FL_KEEP_SIZE	1
#define FALLOC_FL_PUNCH_HOLE	2

static const struct inode_ops dir_ops, file_inode_ops, symlink_ops, special_ops;
static const struct file_ops ramfs_file_ops;

/* -- blocks -- */

static int charge_pages(struct mapping *m, u64 n)
{
	struct super_block *sb = m->host->sb;
	s64 used = __atomic_add_fetch(&sb->used_blocks, (s64)n, __ATOMIC_RELAXED);

	if (sb->max_blocks && used > (s64)sb->max_blocks) {
		__atomic_fetch_sub(&sb->used_blocks, (s64)n, __ATOMIC_RELAXED);
		return -ENOSPC;
	}
	return 0;
}

static void freed_page(struct mapping *m, struct page *page)
{
	(void)page;
	__atomic_fetch_sub(&m->host->sb->used_blocks, 1, __ATOMIC_RELAXED);
}

static const struct mapping_ops ramfs_mapping_ops = {
	.charge_pages = charge_pages,
	.freed_page = freed_page,
};

/* -- inodes -- */

struct inode *ramfs_inode(struct super_block *sb, u32 mode, dev_t rdev)
{
	struct inode *inode = inode_alloc(sb, mode);

	if (!inode)
		return NULL;
	inode->rdev = rdev;
	if (S_ISREG(mode)) {
		inode->ops = &file_inode_ops;
		inode->fops = &ramfs_file_ops;
		inode->mapping.ops = &ramfs_mapping_ops;
		inode->mapping.is_shmem = true;
	} else if (S_ISDIR(mode)) {
		inode->ops = &dir_ops;
		inode->fops = &dir_file_ops;
	} else if (S_ISLNK(mode)) {
		inode->ops = &symlink_ops;
	} else {
		inode->ops = &special_ops;	/* what opening it means is decided by type and number (fs/open.c) */
	}
	return inode;
}

static struct inode *ramfs_create_inode(struct inode *dir, u32 mode, dev_t rdev)
{
	struct inode *inode = ramfs_inode(dir->sb, mode, rdev);

	return inode ? inode : ERR_PTR(-ENOSPC);
}

struct inode *ramfs_symlink(struct inode *dir, const char *target)
{
	char *copy = kstrdup(target, GFP_KERNEL);

	if (!copy)
		return ERR_PTR(-ENOMEM);
	struct inode *inode = ramfs_inode(dir->sb, S_IFLNK | 0777, 0);

	if (!inode) {
		kfree(copy);
		return ERR_PTR(-ENOSPC);
	}
	inode->private = copy;
	inode->size = strlen(copy);
	return inode;
}

static char *ramfs_readlink(struct inode *inode)
{
	char *copy = kstrdup(inode->private, GFP_KERNEL);

	return copy ? copy : ERR_PTR(-ENOMEM);
}

static void symlink_evict(struct inode *inode)
{
	kfree(inode->private);
}

/* -- data -- */

/* What truncate leaves out at the end, whatever was there: also blocks beyond i_size from fallocate(KEEP_SIZE). */
#define END_OF_MAPPING	((loff_t)(MAX_FILE_SIZE & PAGE_MASK))

/* Lock: inode->lock for write. */
static int ramfs_truncate(struct inode *inode, u64 size)
{
	u64 old = inode->size;

	if ((size < old && (inode->seals & F_SEAL_SHRINK)) || (size > old && (inode->seals & F_SEAL_GROW)))
		return -EPERM;
	WRITE_ONCE(inode->size, size);
	if (size < old || inode->mapping.nr_pages > DIV_ROUND_UP(size, PAGE_SIZE))
		truncate_mapping_range(&inode->mapping, (loff_t)size, END_OF_MAPPING, true);
	return 0;
}

ssize_t ramfs_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	ssize_t n = mapping_read(&f->inode->mapping, *pos, to);

	if (n > 0)
		*pos += n;
	file_accessed(f);
	return n;
}

/* Bytes at @pos that limits and seals let through, at most @count; or -errno. inode lock held. */
static ssize_t write_allowed(struct inode *inode, u64 pos, size_t count)
{
	u64 limit = rlimit_cur(RLIMIT_FSIZE), end = pos + count;

	if (pos >= limit && !task_is_kthread(current)) {
		send_signal_task(current, SIGXFSZ, NULL);
		return -EFBIG;
	}
	if (pos >= MAX_FILE_SIZE)
		return -EFBIG;
	if (!task_is_kthread(current))
		end = min(end, limit);
	end = min(end, (u64)MAX_FILE_SIZE);
	if (inode->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return -EPERM;
	if ((inode->seals & F_SEAL_GROW) && end > inode->size) {
		/* Whole pages below the end still go through; the one that would grow the file does not. */
		end = inode->size & PAGE_MASK;
		if (end <= pos)
			return -EPERM;
	}
	return (ssize_t)(end - pos);
}

/* A changed program must not keep the rights of its former self. inode lock held. */
static void drop_privileges(struct inode *inode)
{
	u32 kill = 0;

	if (likely(!(inode->mode & (S_ISUID | S_ISGID))) || capable(CAP_FSETID))
		return;
	if (inode->mode & S_ISUID)
		kill |= S_ISUID;
	if ((inode->mode & (S_ISGID | 010)) == (S_ISGID | 010))
		kill |= S_ISGID;
	spin_lock(&inode->meta_lock);
	inode->mode &= ~kill;
	spin_unlock(&inode->meta_lock);
}

ssize_t ramfs_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	struct inode *inode = f->inode;

	if (!from->count)
		return 0;
	ssize_t n = down_write_killable(&inode->lock);

	if (n)
		return n;
	if (f->flags & O_APPEND)
		*pos = (loff_t)inode->size;
	n = write_allowed(inode, (u64)*pos, from->count);

	if (n > 0) {
		size_t held_back = from->count - (size_t)n;

		from->count = (size_t)n;
		drop_privileges(inode);
		n = mapping_write(&inode->mapping, *pos, from);
		from->count += held_back;
	}
	if (n > 0) {
		*pos += n;
		if ((u64)*pos > inode->size)
			WRITE_ONCE(inode->size, (u64)*pos);
		inode_touch(inode, true);
	}
	up_write(&inode->lock);
	return n;
}

/* Pages of [first, end) that are not there yet. */
static u64 count_holes(struct mapping *m, u64 first, u64 end)
{
	u64 holes = end - first;

	for (u64 i = mapping_next_page(m, first); i < end; i = mapping_next_page(m, i + 1))
		holes--;
	return holes;
}

/* Lock: inode->lock for write. Refuses before it starts when the space is known not to suffice. */
static int ramfs_fallocate(struct inode *inode, int mode, loff_t off, loff_t len)
{
	struct mapping *m = &inode->mapping;
	struct super_block *sb = inode->sb;
	u64 end = (u64)off + (u64)len;

	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
		return -EOPNOTSUPP;
	if (mode & FALLOC_FL_PUNCH_HOLE) {
		if (inode->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
			return -EPERM;
		truncate_mapping_range(m, off, (loff_t)end, false);	/* private copies are not part of the file: they stay */
		inode_touch(inode, true);
		return 0;
	}
	if (!(mode & FALLOC_FL_KEEP_SIZE) && end > rlimit_cur(RLIMIT_FSIZE)) {
		send_signal_task(current, SIGXFSZ, NULL);
		return -EFBIG;
	}
	if ((inode->seals & F_SEAL_GROW) && end > inode->size)
		return -EPERM;

	u64 first = (u64)off >> PAGE_SHIFT, last = DIV_ROUND_UP(end, PAGE_SIZE);

	if (sb->max_blocks && (last - first > sb->max_blocks ||
			       (s64)count_holes(m, first, last) > (s64)sb->max_blocks - READ_ONCE(sb->used_blocks)))
		return -ENOSPC;
	for (u64 i = first; i < last; i++) {
		struct page *page = signal_pending() ? ERR_PTR(-EINTR) : mapping_get_page(m, i);

		if (IS_ERR(page))
			return (int)PTR_ERR(page);
		put_page(page);
		cond_resched();
	}
	if (!(mode & FALLOC_FL_KEEP_SIZE) && end > inode->size)
		WRITE_ONCE(inode->size, end);
	inode_touch(inode, true);
	return 0;
}

static int ramfs_fsync(struct file *f, bool datasync)
{
	(void)f, (void)datasync;
	return 0;
}

static const struct inode_ops dir_ops = { .create = ramfs_create_inode, .symlink = ramfs_symlink };
static const struct inode_ops file_inode_ops = { .truncate = ramfs_truncate, .fallocate = ramfs_fallocate };
static const struct inode_ops symlink_ops = { .readlink = ramfs_readlink, .evict = symlink_evict };
static const struct inode_ops special_ops = { 0 };

static const struct file_ops ramfs_file_ops = {
	.read = ramfs_read,
	.write = ramfs_write,
	.llseek = generic_llseek,
	.mmap = generic_file_mmap,
	.fsync = ramfs_fsync,
};

/* -- mounting -- */

struct ramfs_options {
	u64	max_blocks, max_inodes;	/* 0: no limit */
	u32	mode, uid, gid;
};

/* "64k", "10M", "1g", or "50%" of @whole. 0 or -EINVAL. */
int mount_parse_size(const char *s, u64 whole, u64 *out)
{
	char digits[24];
	size_t n = 0;
	u64 v;

	while (*s >= '0' && *s <= '9' && n < sizeof(digits) - 1)
		digits[n++] = *s++;
	digits[n] = 0;
	if (kstrtou64(digits, 10, &v))
		return -EINVAL;
	unsigned int shift = 0;

	switch (*s | 0x20) {
	case 'k': shift = 10; break;
	case 'm': shift = 20; break;
	case 'g': shift = 30; break;
	case 't': shift = 40; break;
	}
	if (shift)
		s++;
	if (shift && v > UINT64_MAX >> shift)
		return -EINVAL;
	v <<= shift;
	if (*s == '%') {
		v = v * whole / 100;
		s++;
	}
	*out = v;
	return *s ? -EINVAL : 0;
}

static int parse_u32(const char *s, unsigned int base, u32 *out)
{
	u64 v;

	if (kstrtou64(s, base, &v) || v > UINT32_MAX)
		return -EINVAL;
	*out = (u32)v;
	return 0;
}

/* One "name=value" of the option string, cut into two strings. 0 or -EINVAL. */
static int parse_option(void *options, const char *name, const char *value)
{
	struct ramfs_options *o = options;
	u64 v;
	u32 mode;

	if (!strcmp(name, "size")) {
		if (mount_parse_size(value, nr_total_pages() * PAGE_SIZE, &v))
			return -EINVAL;
		o->max_blocks = DIV_ROUND_UP(v, PAGE_SIZE);
		return 0;
	}
	if (!strcmp(name, "nr_blocks"))
		return mount_parse_size(value, 0, &o->max_blocks);
	if (!strcmp(name, "nr_inodes"))
		return mount_parse_size(value, 0, &o->max_inodes);
	if (!strcmp(name, "uid"))
		return parse_u32(value, 10, &o->uid);
	if (!strcmp(name, "gid"))
		return parse_u32(value, 10, &o->gid);
	if (!strcmp(name, "mode")) {
		if (parse_u32(value, 8, &mode))
			return -EINVAL;
		o->mode = mode & 07777;
		return 0;
	}
	/* True as they stand: there is no swap, numbers are 64 bits wide, tmpfs uses no huge pages. */
	if (!strcmp(name, "noswap") || !strcmp(name, "inode64") || (!strcmp(name, "huge") && !strcmp(value, "never")))
		return 0;
	return -EINVAL;
}

int mount_parse_options(const char *options, int (*one)(void *arg, const char *name, const char *value), void *arg)
{
	char *copy = kstrdup(options, GFP_KERNEL), *next = copy;
	int err = copy ? 0 : -ENOMEM;

	while (next && !err) {
		char *word = next, *comma = strchr(word, ','), *equals;

		next = comma ? comma + 1 : NULL;
		if (comma)
			*comma = 0;
		equals = strchr(word, '=');
		if (equals)
			*equals = 0;
		if (*word)
			err = one(arg, word, equals ? equals + 1 : "");
	}
	kfree(copy);
	return err;
}

static size_t ramfs_show_options(struct super_block *sb, char *buf, size_t size)
{
	const struct ramfs_options *o = sb->private;
	size_t n = 0;

	if (sb->max_blocks && sb->max_blocks != nr_total_pages() / 2)
		n += (size_t)scnprintf(buf + n, size - n, ",size=%luk", sb->max_blocks * (PAGE_SIZE / 1024));
	if (sb->max_inodes && sb->max_inodes != nr_total_pages() / 2)
		n += (size_t)scnprintf(buf + n, size - n, ",nr_inodes=%lu", sb->max_inodes);
	if (o->mode != 01777)
		n += (size_t)scnprintf(buf + n, size - n, ",mode=%03o", o->mode);
	if (o->uid)
		n += (size_t)scnprintf(buf + n, size - n, ",uid=%u", o->uid);
	if (o->gid)
		n += (size_t)scnprintf(buf + n, size - n, ",gid=%u", o->gid);
	return n;
}

static int ramfs_remount(struct super_block *sb, const char *options)
{
	struct ramfs_options o = { sb->max_blocks, sb->max_inodes, 0, 0, 0 };
	int err = mount_parse_options(options, parse_option, &o);

	if (err)
		return err;
	if ((o.max_blocks && (s64)o.max_blocks < READ_ONCE(sb->used_blocks)) ||
	    (o.max_inodes && (s64)o.max_inodes < READ_ONCE(sb->used_inodes)))
		return -EINVAL;		/* smaller than what is used */
	WRITE_ONCE(sb->max_blocks, o.max_blocks);
	WRITE_ONCE(sb->max_inodes, o.max_inodes);
	return 0;
}

static void ramfs_kill(struct super_block *sb)
{
	kfree(sb->private);
}

/* An instance with its root; @limits: half of memory unless the options say otherwise, as tmpfs has it. ERR_PTR. */
struct super_block *ramfs_create(const char *type, const char *options, bool limits)
{
	struct ramfs_options *o = kzalloc(sizeof(*o), GFP_KERNEL);
	struct super_block *sb = super_alloc(type, limits ? TMPFS_MAGIC : RAMFS_MAGIC);
	int err = -ENOMEM;

	if (!o || !sb)
		goto fail;
	o->mode = limits ? 01777 : 0755;
	if (limits)
		o->max_blocks = o->max_inodes = nr_total_pages() / 2;
	err = options ? mount_parse_options(options, parse_option, o) : 0;
	if (err)
		goto fail;
	sb->private = o;
	sb->max_blocks = o->max_blocks;
	sb->max_inodes = o->max_inodes;
	sb->kill = ramfs_kill;
	if (limits) {
		sb->show_options = ramfs_show_options;
		sb->remount = ramfs_remount;
	}

	struct inode *root = ramfs_inode(sb, S_IFDIR | o->mode, 0);

	err = -ENOMEM;
	if (!root)
		goto fail;
	root->uid = o->uid;
	root->gid = o->gid;
	err = super_make_root(sb, root);
	if (err)
		goto fail;
	return sb;
fail:
	if (sb && sb->private)
		super_put(sb);		/* frees the options too */
	else {
		kfree(sb);
		kfree(o);
	}
	return ERR_PTR(err);
}

static struct super_block *tmpfs_mount(const char *source, const char *options, u32 flags)
{
	(void)source, (void)flags;
	return ramfs_create("tmpfs", options, true);
}

/* ramfs has no limits, and has always ignored options that it does not know. */
static struct super_block *ramfs_mount(const char *source, const char *options, u32 flags)
{
	(void)source, (void)flags, (void)options;
	return ramfs_create("ramfs", NULL, false);
}

static struct fs_type tmpfs_type = { .name = "tmpfs", .nodev = true, .mount = tmpfs_mount };
static struct fs_type ramfs_type = { .name = "ramfs", .nodev = true, .mount = ramfs_mount };

void ramfs_init(void)
{
	register_filesystem(&tmpfs_type);
	register_filesystem(&ramfs_type);
}
