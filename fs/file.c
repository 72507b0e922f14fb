/*
 * Open files: allocation, reference counts, files without a name, and reading and writing from inside the kernel.
 *
 * file_put() may sleep (the last one releases). Lookups of descriptors find files under RCU and count them only if they
 * still live, so a struct file is freed after a grace period.
 */
#include "fs/eventpoll.h"
#include "fs/internal.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define FILE_MAX	1048576u	/* open files of the whole system */
#define ANON_INODE_MAGIC 0x09041934u

static struct kmem_cache *file_cache;
static u32 nr_files;			/* atomic */
struct mount *anon_mount;
static struct path anon_path;		/* what eventfds and the like share, as on Linux: one inode without a type */
const struct file_ops *fifo_ops;

u32 files_open_count(void)
{
	return __atomic_load_n(&nr_files, __ATOMIC_RELAXED);
}

struct file *file_alloc(void)
{
	if (__atomic_add_fetch(&nr_files, 1, __ATOMIC_RELAXED) > FILE_MAX)
		goto uncount;
	struct file *f = kmem_cache_alloc(file_cache, GFP_KERNEL | GFP_ZERO);

	if (!f)
		goto uncount;
	refcount_set(&f->refs, 1);
	mutex_init(&f->pos_lock, LOCK_FILE_POS);
	INIT_LIST_HEAD(&f->epoll_links);
	return f;
uncount:
	__atomic_fetch_sub(&nr_files, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void file_free_rcu(struct rcu_head *head)
{
	kmem_cache_free(file_cache, container_of(head, struct file, rcu));
}

/* Also the end of a file that was never opened fully: then ops, inode or path may be missing. May sleep. */
void file_put(struct file *f)
{
	if (!refcount_dec_and_test(&f->refs))
		return;
	eventpoll_release(f);
	if (f->inode && READ_ONCE(f->inode->locks))
		locks_remove_file(f);
	if ((f->mode & FMODE_OPENED) && f->ops->release)
		f->ops->release(f);
	if (f->inode)
		inode_put(f->inode);
	if (f->path.mnt) {
		if (f->mode & FMODE_WRITER)
			mount_drop_write(f->path.mnt);
		path_put(&f->path);
	}
	__atomic_fetch_sub(&nr_files, 1, __ATOMIC_RELAXED);
	call_rcu(&f->rcu, file_free_rcu);
}

/* -- files without a name -- */

bool file_is_anonymous(const struct file *f)
{
	return f->path.mnt == anon_mount;
}

/* Counts @path; takes over nothing. */
static struct file *anon_file_on(const struct path *path, const struct file_ops *ops, void *priv, int flags)
{
	struct file *f = file_alloc();

	if (!f)
		return ERR_PTR(-ENFILE);
	f->path = *path;
	path_get(&f->path);
	f->inode = path->dentry->inode;
	inode_get(f->inode);
	f->ops = ops;
	f->private = priv;
	f->flags = (u32)flags & ~(u32)O_CLOEXEC;
	f->mode = FMODE_OPENED | (ops->llseek ? FMODE_LSEEK : FMODE_STREAM);
	if ((flags & O_ACCMODE) != O_WRONLY)
		f->mode |= FMODE_READ;
	if ((flags & O_ACCMODE) != O_RDONLY)
		f->mode |= FMODE_WRITE;
	return f;
}

struct file *anon_file_create(const char *name, const struct file_ops *ops, void *priv, int flags)
{
	struct file *f = anon_file_on(&anon_path, ops, priv, flags);

	if (!IS_ERR(f))
		f->anon_name = name;
	return f;
}

struct file *anon_file_create_mode(const char *name, u32 mode, const struct file_ops *ops, void *priv, int flags)
{
	struct super_block *sb = anon_mount->sb;
	struct inode *inode = inode_alloc(sb, mode);

	if (!inode)
		return ERR_PTR(-ENFILE);
	struct path path = { anon_mount, dentry_alloc(sb, NULL, name, strlen(name), inode) };

	if (!path.dentry) {
		inode_put(inode);
		return ERR_PTR(-ENOMEM);
	}
	struct file *f = anon_file_on(&path, ops, priv, flags);

	dentry_put(path.dentry);
	return f;
}

struct file *anon_file_share(struct file *of, const struct file_ops *ops, void *priv, int flags)
{
	return anon_file_on(&of->path, ops, priv, flags);
}

void register_fifo_ops(const struct file_ops *ops)
{
	fifo_ops = ops;
}

/* -- reading and writing by the kernel itself: no rights are asked -- */

ssize_t kernel_read(struct file *f, void *buf, size_t n, loff_t pos)
{
	struct iovec slot;
	struct iov_iter it;

	if (!f->ops->read)
		return -EINVAL;
	iov_iter_kernel(&it, &slot, buf, n);
	return f->ops->read(f, &it, &pos);
}

ssize_t kernel_write(struct file *f, const void *buf, size_t n, loff_t pos)
{
	struct iovec slot;
	struct iov_iter it;

	if (!f->ops->write)
		return -EINVAL;
	iov_iter_kernel(&it, &slot, (void *)buf, n);
	return f->ops->write(f, &it, &pos);
}

void file_init(void)
{
	file_cache = kmem_cache_create("file", sizeof(struct file), 64);

	struct super_block *sb = super_alloc("anon_inodefs", ANON_INODE_MAGIC);
	struct inode *inode = sb ? inode_alloc(sb, 0600) : NULL;	/* without a type: opening it again is ENXIO */

	if (!inode || super_make_root(sb, inode))
		panic("no memory for anonymous files");
	anon_mount = mount_internal(sb);
	if (!anon_mount)
		panic("no memory for anonymous files");
	anon_path = (struct path){ anon_mount, sb->root };
}

int anon_fd_create(const char *name, const struct file_ops *ops, void *priv, int flags)
{
	int fd = fd_reserve(flags & O_CLOEXEC);

	if (fd < 0)
		return fd;
	struct file *f = anon_file_create(name, ops, priv, flags & ~O_CLOEXEC);

	if (IS_ERR(f)) {
		fd_release(fd);
		return (int)PTR_ERR(f);
	}
	fd_install(fd, f);
	return fd;
}
