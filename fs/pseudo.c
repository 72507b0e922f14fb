/*
 * Files whose contents a function makes: procfs, sysfs and what else has something to tell as text.
 *
 * A read at offset 0 makes the text and keeps it with the open file; later reads continue in the same text, so a reader with a
 * small buffer sees one consistent picture. The text is counted, because pread needs no lock of the file: a reader that loses
 * the race for a fresh text still finishes with the old one.
 */
#include "fs/internal.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define TEXT_MAX	(64ul << 20)	/* smaps of 60,000 mappings is about 50 MiB */
#define STORE_MAX	(64ul << 10)
#define PROC_MAGIC	0x9fa0u
#define SYSFS_MAGIC	0x62656572u

struct dentry *proc_root, *sysfs_root;

struct text_file {		/* inode->private */
	const struct text_file_ops *ops;
	void	*arg;
};

struct text {			/* file->private; inode->meta_lock guards that pointer */
	struct refcount	refs;
	size_t		len;
	char		data[];
};

static void text_put(struct text *t)
{
	if (t && refcount_dec_and_test(&t->refs))
		kvfree(t);
}

/* The whole text of one moment, refs 1; ERR_PTR. May sleep. */
static struct text *text_make(text_show_t show, void *arg)
{
	for (size_t size = PAGE_SIZE;; size *= 2) {
		struct text *t = kvmalloc(size, GFP_KERNEL);

		if (!t)
			return ERR_PTR(-ENOMEM);
		size_t room = size - sizeof(*t);
		ssize_t n = show(arg, t->data, room);

		if (n >= 0 && ((size_t)n < room || size >= TEXT_MAX)) {
			refcount_set(&t->refs, 1);
			t->len = min((size_t)n, room);
			return t;
		}
		kvfree(t);
		if (n < 0)
			return ERR_PTR(n);
	}
}

static struct text *text_get(struct file *f, text_show_t show, void *arg, bool fresh)
{
	struct inode *inode = f->inode;

	if (!fresh) {
		spin_lock(&inode->meta_lock);
		struct text *t = f->private;

		if (t)
			refcount_inc(&t->refs);
		spin_unlock(&inode->meta_lock);
		if (t)
			return t;
	}
	struct text *t = text_make(show, arg);

	if (IS_ERR(t))
		return t;
	refcount_inc(&t->refs);		/* one for the file, one for the caller */
	spin_lock(&inode->meta_lock);
	struct text *old = f->private;

	f->private = t;
	spin_unlock(&inode->meta_lock);
	text_put(old);
	return t;
}

ssize_t text_file_read(struct file *f, text_show_t show, void *arg, struct iov_iter *to, loff_t *pos)
{
	if (!show)
		return -EINVAL;
	if (!to->count)
		return 0;
	struct text *t = text_get(f, show, arg, *pos == 0);

	if (IS_ERR(t))
		return PTR_ERR(t);
	ssize_t ret = 0;

	if ((u64)*pos < t->len) {
		size_t n = min(t->len - (size_t)*pos, to->count), done = copy_to_iter(t->data + *pos, n, to);

		ret = done || !n ? (ssize_t)done : -EFAULT;
		*pos += (loff_t)done;
	}
	text_put(t);
	return ret;
}

static ssize_t text_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	const struct text_file *tf = f->inode->private;

	return text_file_read(f, tf->ops->show, tf->arg, to, pos);
}

static ssize_t text_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	const struct text_file *tf = f->inode->private;
	size_t n = from->count;

	if (!tf->ops->store)
		return -EIO;		/* as Linux's procfs says */
	if (!n)
		return 0;
	if (n > STORE_MAX)
		return -E2BIG;
	char *copy = kmalloc(n + 1, GFP_KERNEL);

	if (!copy)
		return -ENOMEM;
	ssize_t ret = -EFAULT;

	if (copy_from_iter(copy, n, from) == n) {
		copy[n] = 0;
		ret = tf->ops->store(tf->arg, copy, n);
	}
	kfree(copy);
	if (ret > 0)
		*pos += ret;
	return ret;
}

void text_file_release(struct file *f)
{
	text_put(f->private);
}

static int no_cut(struct inode *inode, u64 size)	/* "echo 1 > /proc/sys/..." opens with O_TRUNC */
{
	(void)inode, (void)size;
	return 0;
}

static void text_evict(struct inode *inode)
{
	kfree(inode->private);
}

static const struct file_ops text_fops = { .read = text_read, .write = text_write, .llseek = generic_llseek, .release = text_file_release };
static const struct inode_ops text_inode_ops = { .truncate = no_cut, .evict = text_evict };

/* -- links and directories -- */

static char *link_read(struct inode *inode)
{
	char *copy = kstrdup(inode->private, GFP_KERNEL);

	return copy ? copy : ERR_PTR(-ENOMEM);
}

static const struct inode_ops link_ops = { .readlink = link_read, .evict = text_evict };
static const struct inode_ops pseudo_dir_ops = { 0 };

static struct inode *dir_inode(struct super_block *sb)
{
	/* Directories of devtmpfs are ordinary ones. */
	if (dev_root && sb == dev_root->sb) {
		struct inode *inode = ramfs_inode(sb, S_IFDIR | 0755, 0);

		if (inode)
			inode->uid = inode->gid = 0;
		return inode;
	}
	struct inode *inode = pseudo_inode(sb, S_IFDIR | 0555);

	if (inode) {
		inode->ops = &pseudo_dir_ops;
		inode->fops = &dir_file_ops;
	}
	return inode;
}

/* The directory @name of @dir, made if need be. Permanent, so not counted. ERR_PTR. */
static struct dentry *subdir(struct dentry *dir, const char *name)
{
	struct dentry *d = dcache_lookup(dir, name, strlen(name));

	if (!d) {
		struct inode *inode = dir_inode(dir->sb);

		if (!inode)
			return ERR_PTR(-ENOMEM);
		d = dentry_add(dir, name, inode);
		if (!IS_ERR(d) || PTR_ERR(d) != -EEXIST)
			return d;
		d = dcache_lookup(dir, name, strlen(name));
		if (!d)
			return ERR_PTR(-ENOENT);
	}
	dentry_put(d);
	return S_ISDIR(d->inode->mode) ? d : ERR_PTR(-ENOTDIR);
}

/* Makes the directories of @path; *last is its final component (in @path). */
static struct dentry *parents(struct dentry *root, const char *path, const char **last)
{
	struct dentry *dir = root;
	const char *slash;

	while ((slash = strchr(path, '/')) && !IS_ERR(dir)) {
		char name[NAME_MAX + 1];

		if ((size_t)(slash - path) > NAME_MAX)
			return ERR_PTR(-ENAMETOOLONG);
		memcpy(name, path, (size_t)(slash - path));
		name[slash - path] = 0;
		if (name[0])
			dir = subdir(dir, name);
		path = slash + 1;
	}
	*last = path;
	return dir;
}

struct dentry *pseudo_dir(struct dentry *root, const char *path)
{
	const char *name;
	struct dentry *dir = parents(root, path, &name);

	return IS_ERR(dir) || !*name ? dir : subdir(dir, name);
}

struct dentry *pseudo_symlink(struct dentry *root, const char *path, const char *target)
{
	const char *name;
	struct dentry *dir = parents(root, path, &name);

	if (IS_ERR(dir))
		return dir;
	char *copy = kstrdup(target, GFP_KERNEL);
	struct inode *inode = copy ? pseudo_inode(root->sb, S_IFLNK | 0777) : NULL;

	if (!inode) {
		kfree(copy);
		return ERR_PTR(-ENOMEM);
	}
	inode->ops = &link_ops;
	inode->private = copy;
	inode->size = strlen(copy);
	return dentry_add(dir, name, inode);
}

struct dentry *pseudo_text_file(struct dentry *root, const char *path, u32 mode, const struct text_file_ops *ops, void *arg)
{
	const char *name;
	struct dentry *dir = parents(root, path, &name);

	if (IS_ERR(dir))
		return dir;
	struct text_file *tf = kmalloc(sizeof(*tf), GFP_KERNEL);
	struct inode *inode = tf ? pseudo_inode(root->sb, S_IFREG | mode) : NULL;

	if (!inode) {
		kfree(tf);
		return ERR_PTR(-ENOMEM);
	}
	*tf = (struct text_file){ ops, arg };
	inode->ops = &text_inode_ops;
	inode->fops = &text_fops;
	inode->private = tf;
	return dentry_add(dir, name, inode);
}

/* -- proc and sysfs: one instance each, which every mount shows -- */

static struct super_block *proc_mount(const char *source, const char *options, u32 flags)
{
	(void)source, (void)options, (void)flags;
	refcount_inc(&proc_root->sb->refs);
	return proc_root->sb;
}

static struct super_block *sysfs_mount(const char *source, const char *options, u32 flags)
{
	(void)source, (void)options, (void)flags;
	refcount_inc(&sysfs_root->sb->refs);
	return sysfs_root->sb;
}

static struct fs_type proc_type = { .name = "proc", .nodev = true, .mount = proc_mount };
static struct fs_type sysfs_type = { .name = "sysfs", .nodev = true, .mount = sysfs_mount };

static struct dentry *make_instance(const char *type, u64 magic)
{
	struct super_block *sb = super_alloc(type, magic);
	struct inode *root = sb ? dir_inode(sb) : NULL;

	if (!root || super_make_root(sb, root))
		panic("no memory for %s", type);
	return sb->root;
}

void pseudo_init(void)
{
	proc_root = make_instance("proc", PROC_MAGIC);
	sysfs_root = make_instance("sysfs", SYSFS_MAGIC);
	register_filesystem(&proc_type);
	register_filesystem(&sysfs_type);
}
