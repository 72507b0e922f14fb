/*
 * Unpacks the initramfs into the root file system. fs/cpio.c reads and checks the archive; here its entries become files.
 *
 * Hard links: entries with the same inode number (and more than one link) are names of one file. The first makes it, the
 * others link to it, and whichever of them carries the data writes it (usually the last).
 */
#include "fs/cpio.h"
#include "fs/internal.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/slab.h"

#define LINK_BUCKETS	64u

struct link_name {
	struct link_name *next;
	u32		 ino, major, minor;
	char		 name[];
};

struct unpack {
	struct link_name *links[LINK_BUCKETS];
	unsigned long	 files;
	u64		 bytes;
	char		 path[PATH_MAX + 1];	/* of the entry at hand, absolute */
};

static void forget_links(struct unpack *u)
{
	for (unsigned int b = 0; b < LINK_BUCKETS; b++) {
		while (u->links[b]) {
			struct link_name *l = u->links[b];

			u->links[b] = l->next;
			kfree(l);
		}
	}
}

/* The name under which this inode was first seen, or NULL after remembering @e's. ERR_PTR(-ENOMEM). */
static const char *first_name(struct unpack *u, const struct cpio_entry *e)
{
	struct link_name **slot = &u->links[(e->ino ^ e->dev_minor) % LINK_BUCKETS];
	size_t len = strlen(u->path);

	for (struct link_name *l = *slot; l; l = l->next)
		if (l->ino == e->ino && l->major == e->dev_major && l->minor == e->dev_minor)
			return l->name;
	struct link_name *l = kmalloc(sizeof(*l) + len + 1, GFP_KERNEL);

	if (!l)
		return ERR_PTR(-ENOMEM);
	*l = (struct link_name){ *slot, e->ino, e->dev_major, e->dev_minor };
	memcpy(l->name, u->path, len + 1);
	*slot = l;
	return NULL;
}

/* Owner, rights and age as the archive has them. */
static int set_attributes(const char *path, const struct cpio_entry *e)
{
	struct path p;
	int err = path_lookup_at(AT_FDCWD, path, 0, &p);

	if (err)
		return err;
	struct inode *inode = p.dentry->inode;

	spin_lock(&inode->meta_lock);
	inode->uid = e->uid;
	inode->gid = e->gid;
	if (!S_ISLNK(inode->mode))
		inode->mode = (inode->mode & S_IFMT) | (e->mode & 07777);
	inode->mtime = (u64)e->mtime * NSEC_PER_SEC;
	spin_unlock(&inode->meta_lock);
	path_put(&p);
	return 0;
}

static int write_file(const char *path, const struct cpio_entry *e)
{
	struct file *f = file_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
	size_t done = 0;

	if (IS_ERR(f))
		return (int)PTR_ERR(f);
	while (done < e->size) {
		ssize_t n = kernel_write(f, e->data + done, e->size - done, (loff_t)done);

		if (n <= 0) {
			file_put(f);
			return n ? (int)n : -EIO;
		}
		done += (size_t)n;
	}
	file_put(f);
	return 0;
}

static int make_symlink(const char *path, const struct cpio_entry *e)
{
	if (!e->size || e->size >= PATH_MAX || memchr(e->data, 0, e->size))
		return -EINVAL;
	char *target = kmalloc(e->size + 1, GFP_KERNEL);

	if (!target)
		return -ENOMEM;
	memcpy(target, e->data, e->size);
	target[e->size] = 0;
	int err = vfs_symlink(target, path);

	kfree(target);
	return err;
}

/* Makes the object itself. -EEXIST when something of that name is there. */
static int make_object(struct unpack *u, const struct cpio_entry *e)
{
	switch (e->mode & S_IFMT) {
	case S_IFDIR: {
		int err = vfs_mkdir(u->path, 0755);

		return err == -EEXIST ? 0 : err;	/* usual when archives are laid over each other */
	}
	case S_IFREG:
		return write_file(u->path, e);
	case S_IFLNK:
		return make_symlink(u->path, e);
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return vfs_mknod(u->path, e->mode & (S_IFMT | 07777), MKDEV(e->rdev_major, e->rdev_minor));
	default:
		return -EINVAL;
	}
}

/* Archives may leave directories out. */
static int make_parents(struct unpack *u)
{
	for (char *slash = strchr(u->path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		int err = vfs_mkdir(u->path, 0755);

		*slash = '/';
		if (err && err != -EEXIST)
			return err;
	}
	return 0;
}

static int unpack_entry(void *ctx, const struct cpio_entry *e)
{
	struct unpack *u = ctx;
	const char *first = NULL;
	int err;

	if (!e->name) {			/* inode numbers mean nothing across archives */
		forget_links(u);
		return 0;
	}
	u->path[0] = '/';
	strscpy(u->path + 1, e->name, PATH_MAX);
	if (!*e->name)
		return set_attributes("/", e);
	if (!S_ISDIR(e->mode) && e->nlink > 1) {
		first = first_name(u, e);
		if (IS_ERR(first))
			return (int)PTR_ERR(first);
	}
	for (unsigned int attempt = 0;; attempt++) {
		err = first ? vfs_link(first, u->path) : make_object(u, e);
		if (err == -ENOENT && attempt < 2)
			err = make_parents(u);
		else if ((err == -EEXIST || err == -ELOOP) && attempt < 2)
			err = vfs_unlink(u->path);	/* a later archive wins */
		else
			break;
		if (err)
			break;
	}
	if (!err && first && e->size && S_ISREG(e->mode))
		err = write_file(u->path, e);
	if (!err)
		err = set_attributes(u->path, e);
	if (err)
		pr_err("initramfs: %s: error %d\n", u->path, -err);
	u->files++;
	u->bytes += e->size;
	return err;
}

/* Boot context. 0, or -errno after a message that says what is wrong. */
int initramfs_unpack(const void *data, size_t len)
{
	struct unpack *u = kzalloc(sizeof(*u), GFP_KERNEL);
	struct cpio_error bad = { 0, NULL };

	if (!u) {
		pr_err("initramfs: no memory to unpack it\n");
		return -ENOMEM;
	}
	int err = cpio_parse(data, len, unpack_entry, u, &bad);

	forget_links(u);
	if (bad.what)
		pr_err("initramfs: damaged at byte %lu of %lu: %s\n", bad.offset, len, bad.what);
	else if (!err && !u->files)
		pr_err("initramfs: the archive is empty\n");
	else if (!err)
		pr_info("initramfs: %lu files, %lu KiB\n", u->files, u->bytes / 1024);
	if (!err && !u->files)
		err = -EINVAL;
	kfree(u);
	return err;
}
