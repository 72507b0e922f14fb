/*
 * Opening files, and cutting them.
 *
 * Order, as on Linux: walk to the name (creating it if asked), may_open() asks for rights, open_path() makes the file and
 * calls the driver, and only then is O_TRUNC carried out.
 */
#include "fs/internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define VALID_OPEN_FLAGS (O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_SYNC | 020000 /* FASYNC */ | \
			  O_DIRECT | O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC | O_PATH | O_TMPFILE)
#define TMPFILE_BIT	(O_TMPFILE & ~O_DIRECTORY)

#define RESOLVE_NO_XDEV		1u
#define RESOLVE_NO_MAGICLINKS	2u
#define RESOLVE_NO_SYMLINKS	4u
#define RESOLVE_BENEATH		8u
#define RESOLVE_IN_ROOT		0x10u
#define RESOLVE_CACHED		0x20u

/* -- making the file -- */

static const struct file_ops *ops_for(struct inode *inode, void **priv)
{
	switch (inode->mode & S_IFMT) {
	case S_IFREG:
		return inode->fops;
	case S_IFDIR:
		return inode->fops ? inode->fops : &dir_file_ops;
	case S_IFCHR:
	case S_IFBLK:
		return inode->fops ? inode->fops : device_find(inode->mode, inode->rdev, priv);
	case S_IFIFO:
		return inode->fops ? inode->fops : fifo_ops;
	default:
		return NULL;		/* sockets, symbolic links, inodes of eventfds: ENXIO */
	}
}

struct file *open_path(const struct path *path, int flags)
{
	struct inode *inode = path->dentry->inode;
	struct file *f = file_alloc();
	int err;

	if (!f)
		return ERR_PTR(-ENFILE);
	f->path = *path;
	path_get(&f->path);
	f->inode = inode;
	inode_get(inode);
	if (flags & O_PATH) {
		f->flags = (u32)flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW);
		f->mode = FMODE_PATH;
		return f;
	}
	f->flags = (u32)flags & ~(u32)O_CLOEXEC;
	if ((flags & O_ACCMODE) == O_RDONLY || (flags & O_ACCMODE) == O_RDWR)
		f->mode |= FMODE_READ;
	if ((flags & O_ACCMODE) == O_WRONLY || (flags & O_ACCMODE) == O_RDWR)
		f->mode |= FMODE_WRITE;
	if ((f->mode & FMODE_WRITE) && (S_ISREG(inode->mode) || S_ISDIR(inode->mode))) {
		err = mount_want_write(path->mnt);
		if (err)
			goto fail;
		f->mode |= FMODE_WRITER;
	}
	f->ops = ops_for(inode, &f->private);
	err = S_ISLNK(inode->mode) ? -ELOOP : -ENXIO;
	if (!f->ops)
		goto fail;
	/* A device without llseek has no offset; neither has a pipe. */
	if (S_ISFIFO(inode->mode) || (S_ISCHR(inode->mode) && !f->ops->llseek))
		f->mode |= FMODE_STREAM;
	else
		f->mode |= FMODE_LSEEK;
	err = -EINVAL;
	if ((flags & O_DIRECT) && f->ops->no_direct_io)
		goto fail;
	err = f->ops->open ? f->ops->open(inode, f) : 0;
	if (err)
		goto fail;
	f->mode |= FMODE_OPENED;
	f->flags &= ~(u32)(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC);
	return f;
fail:
	file_put(f);
	return ERR_PTR(err);
}

/* MAY_* that an open with @flags needs. */
static int access_mode(int flags)
{
	static const u8 of[] = { MAY_READ, MAY_WRITE, MAY_READ | MAY_WRITE, MAY_READ | MAY_WRITE };
	int acc = of[flags & O_ACCMODE];

	return flags & O_TRUNC ? acc | MAY_WRITE : acc;
}

static int may_open(const struct path *path, int acc, int flags)
{
	struct inode *inode = path->dentry->inode;

	switch (inode->mode & S_IFMT) {
	case S_IFLNK:
		return -ELOOP;
	case S_IFDIR:
		if (acc & MAY_WRITE)
			return -EISDIR;
		break;
	case S_IFCHR:
	case S_IFBLK:
		if ((path->mnt->flags | path->mnt->sb->flags) & MS_NODEV)
			return -EACCES;
		break;
	}
	int err = inode_permission(inode, acc);

	if (err)
		return err;
	if ((flags & O_NOATIME) && !inode_owner_or_capable(inode))
		return -EPERM;
	return 0;
}

/* @path is the end of the walk. @created: made by this very call, so no rights are asked and nothing is to be cut. */
static struct file *finish_open(const struct path *path, int flags, bool created)
{
	struct inode *inode = path->dentry->inode;
	bool cut = (flags & O_TRUNC) && S_ISREG(inode->mode) && !created;
	int err;

	if ((flags & O_DIRECTORY) && !S_ISDIR(inode->mode))
		return ERR_PTR(-ENOTDIR);
	err = may_open(path, created ? 0 : access_mode(flags), flags);
	if (err)
		return ERR_PTR(err);
	if (cut) {
		err = mount_want_write(path->mnt);
		if (err)
			return ERR_PTR(err);
	}
	struct file *f = open_path(path, flags);

	if (cut) {
		if (!IS_ERR(f)) {
			err = vfs_truncate(inode, 0);
			if (err) {
				file_put(f);
				f = ERR_PTR(err);
			}
		}
		mount_drop_write(path->mnt);
	}
	return f;
}

/* -- O_CREAT -- */

/*
 * The last component of @w as a counted path, made if it was not there. Two steps: a look without locks for the common case
 * that it exists, then under the directory's lock, where it is decided.
 */
static int lookup_or_create(struct walk *w, u32 mode, struct path *out, bool *created)
{
	int err = walk_child(w, w->last, w->last_len, out);

	*created = false;
	if (err != -ENOENT)
		return err;

	struct inode *dir = w->path.dentry->inode;
	int readonly = mount_want_write(w->path.mnt);

	err = down_write_killable(&dir->lock);
	if (err)
		goto drop_write;
	err = walk_child_locked(w, w->last, w->last_len, out);
	if (err == -ENOENT) {
		err = readonly ? readonly : may_create(w->path.dentry);
		if (!err && !dir_takes_names(dir))
			err = -EACCES;
		if (!err) {
			struct dentry *d = vfs_create_locked(&w->path, w->last, w->last_len, S_IFREG | apply_umask(mode), 0);

			err = IS_ERR(d) ? (int)PTR_ERR(d) : 0;
			if (!err) {
				*created = true;
				out->dentry = d;
				out->mnt = w->path.mnt;
				mount_get(out->mnt);
			}
		}
	}
	up_write(&dir->lock);
drop_write:
	if (!readonly)
		mount_drop_write(w->path.mnt);
	return err;
}

static struct file *open_create(struct walk *w, const char *name, int flags, u32 mode)
{
	int err = walk_name(w, name);

	while (!err) {
		struct path path;
		bool created = false;

		if (w->last_type != LAST_NORM)
			return ERR_PTR(flags & O_EXCL ? -EEXIST : -EISDIR);	/* "/", "." and ".." are directories */
		if (w->trailing)
			return ERR_PTR(-EISDIR);
		err = lookup_or_create(w, mode, &path, &created);
		if (err)
			break;

		struct inode *inode = path.dentry->inode;

		if (!created && (flags & O_EXCL)) {
			err = -EEXIST;
		} else if (S_ISLNK(inode->mode) && !(flags & O_NOFOLLOW)) {
			err = walk_follow(w, &path);	/* puts path */
			if (!err && w->last_type == LAST_ROOT && w->path.dentry != w->root.dentry && !S_ISDIR(w->path.dentry->inode->mode))
				return finish_open(&w->path, flags, false);	/* /proc/self/fd/N: a jump */
			continue;
		} else if (S_ISDIR(inode->mode)) {
			err = -EISDIR;
		} else {
			struct file *f = finish_open(&path, flags, created);

			path_put(&path);
			return f;
		}
		path_put(&path);
	}
	return ERR_PTR(err);
}

/* -- O_TMPFILE -- */

static struct file *open_tmpfile(struct walk *w, const char *name, int flags, u32 mode)
{
	char tmp[24];
	struct inode *inode;
	int err = walk_name(w, name);

	if (err)
		return ERR_PTR(err);
	struct inode *dir = w->path.dentry->inode;

	err = mount_want_write(w->path.mnt);
	if (err)
		return ERR_PTR(err);
	err = inode_permission(dir, MAY_WRITE | MAY_EXEC);
	inode = err ? ERR_PTR(err) : vfs_new_inode(dir, S_IFREG | apply_umask(mode), 0);
	if (IS_ERR(inode)) {
		mount_drop_write(w->path.mnt);
		return ERR_PTR(PTR_ERR(inode) == -EPERM ? -EOPNOTSUPP : PTR_ERR(inode));
	}
	inode->nlink = 0;
	inode->linkable = !(flags & O_EXCL);

	/* A dentry that was never in the tree, so that the file has a path to show. */
	size_t len = 0;
	u64 n = inode->ino;
	char digits[20];

	do
		digits[len++] = (char)('0' + n % 10);
	while (n /= 10);
	tmp[0] = '#';
	for (size_t i = 0; i < len; i++)
		tmp[1 + i] = digits[len - 1 - i];

	struct path path = { w->path.mnt, dentry_alloc(w->path.dentry->sb, w->path.dentry, tmp, len + 1, inode) };
	struct file *f = ERR_PTR(-ENOMEM);

	if (path.dentry) {
		path.dentry->unhashed = true;
		f = open_path(&path, flags & ~O_TMPFILE);
		dentry_put(path.dentry);
	} else {
		inode_put(inode);
	}
	mount_drop_write(w->path.mnt);
	return f;
}

/* -- open -- */

/* Refuses what makes no sense. open and openat have masked unknown bits before; openat2 is strict. 0 or -EINVAL. */
static int check_how(const struct open_how *how)
{
	u64 flags = how->flags;

	if (flags & ~(u64)VALID_OPEN_FLAGS)
		return -EINVAL;
	if (how->resolve & ~(u64)(RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT | RESOLVE_CACHED))
		return -EINVAL;
	if ((how->resolve & RESOLVE_BENEATH) && (how->resolve & RESOLVE_IN_ROOT))
		return -EINVAL;
	if (flags & (O_CREAT | TMPFILE_BIT)) {
		if (how->mode & ~07777ul)
			return -EINVAL;
	} else if (how->mode) {
		return -EINVAL;
	}
	if ((flags & (O_DIRECTORY | O_CREAT)) == (O_DIRECTORY | O_CREAT))
		return -EINVAL;
	if (flags & TMPFILE_BIT) {
		if (!(flags & O_DIRECTORY) || (flags & O_ACCMODE) == O_RDONLY)
			return -EINVAL;
	}
	if ((flags & O_PATH) && (flags & ~(u64)(O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)))
		return -EINVAL;
	if ((how->resolve & RESOLVE_CACHED) && (flags & (O_TRUNC | O_CREAT | TMPFILE_BIT)))
		return -EAGAIN;
	return 0;
}

static unsigned int lookup_flags(const struct open_how *how)
{
	unsigned int l = 0;

	if (!(how->flags & O_NOFOLLOW) && !(how->flags & O_CREAT && how->flags & O_EXCL))
		l |= LOOKUP_FOLLOW;
	if (how->flags & O_DIRECTORY)
		l |= LOOKUP_DIRECTORY;
	if (how->resolve & RESOLVE_NO_XDEV)
		l |= LOOKUP_NO_XDEV;
	if (how->resolve & RESOLVE_NO_MAGICLINKS)
		l |= LOOKUP_NO_MAGICLINKS;
	if (how->resolve & RESOLVE_NO_SYMLINKS)
		l |= LOOKUP_NO_SYMLINKS;
	if (how->resolve & RESOLVE_BENEATH)
		l |= LOOKUP_BENEATH;
	if (how->resolve & RESOLVE_IN_ROOT)
		l |= LOOKUP_IN_ROOT;
	return l;
}

struct file *do_open_how(int dfd, const char *name, const struct open_how *how)
{
	int flags = (int)how->flags | O_LARGEFILE, err = check_how(how);
	unsigned int lflags = lookup_flags(how);
	bool create = (flags & O_CREAT) && !(flags & O_PATH), tmpfile = flags & TMPFILE_BIT;
	struct file *f;
	struct walk w;

	if (err)
		return ERR_PTR(err);
	if (!*name)
		return ERR_PTR(-ENOENT);
	if (create)
		lflags |= LOOKUP_PARENT;
	err = walk_begin(&w, dfd, name, lflags);
	if (err)
		return ERR_PTR(err);
	if (create) {
		f = open_create(&w, name, flags, (u32)how->mode);
	} else if (tmpfile) {
		f = open_tmpfile(&w, name, flags, (u32)how->mode);
	} else {
		err = walk_name(&w, name);
		if (err)
			f = ERR_PTR(err);
		else if (flags & O_PATH)
			f = open_path(&w.path, flags);
		else
			f = finish_open(&w.path, flags, false);
	}
	walk_end(&w);
	return f;
}

/* What open(2) makes of its arguments: unknown bits never mattered. */
static struct open_how classic_how(int flags, u32 mode)
{
	struct open_how how = { .flags = (u64)(u32)flags & VALID_OPEN_FLAGS };

	if (flags & O_PATH)
		how.flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	if (how.flags & (O_CREAT | TMPFILE_BIT))
		how.mode = mode & 07777;
	return how;
}

struct file *file_open_at(int dfd, const char *name, int flags, u32 mode)
{
	struct open_how how = classic_how(flags, mode);

	return do_open_how(dfd, name, &how);
}

static long open_user(int dfd, const char __user *uname, const struct open_how *how)
{
	int err = check_how(how);

	if (err)
		return err;
	char *name = getname(uname, false);

	if (IS_ERR(name))
		return PTR_ERR(name);
	int fd = fd_reserve((unsigned int)how->flags);

	if (fd >= 0) {
		struct file *f = do_open_how(dfd, name, how);

		if (IS_ERR(f)) {
			fd_release(fd);
			fd = (int)PTR_ERR(f);
		} else {
			fd_install(fd, f);
		}
	}
	putname(name);
	return fd;
}

SYSCALL_DEFINE(openat, int dfd, const char __user *name, int flags, unsigned int mode)
{
	struct open_how how = classic_how(flags, mode);

	return open_user(dfd, name, &how);
}

SYSCALL_DEFINE(open, const char __user *name, int flags, unsigned int mode)
{
	return sys_openat(AT_FDCWD, name, flags, mode);
}

SYSCALL_DEFINE(creat, const char __user *name, unsigned int mode)
{
	return sys_openat(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

SYSCALL_DEFINE(openat2, int dfd, const char __user *name, const struct open_how __user *uhow, size_t size)
{
	struct open_how how;
	u8 byte;

	if (size < sizeof(how))
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	if (copy_in(&how, uhow, sizeof(how)))
		return -EFAULT;
	/* A newer program's longer struct is fine as long as what we do not know is zero. */
	for (size_t i = sizeof(how); i < size; i++) {
		if (get_user(byte, (const u8 __user *)uhow + i))
			return -EFAULT;
		if (byte)
			return -E2BIG;
	}
	return open_user(dfd, name, &how);
}

/* -- truncate, fallocate -- */

int vfs_truncate(struct inode *inode, u64 size)
{
	int err;

	err = down_write_killable(&inode->lock);
	if (err)
		return err;
	err = inode->ops->truncate ? inode->ops->truncate(inode, size) : -EINVAL;
	if (!err) {
		spin_lock(&inode->meta_lock);
		inode->mtime = inode->ctime = ktime_get_real_ns();
		if ((inode->mode & (S_ISUID | S_ISGID)) && !capable(CAP_FSETID))
			inode->mode &= ~(u32)(S_ISUID | (inode->mode & 010 ? S_ISGID : 0));
		spin_unlock(&inode->meta_lock);
	}
	up_write(&inode->lock);
	return err;
}

int truncate_checked(struct inode *inode, u64 size)
{
	if (size > inode->size && size > rlimit_cur(RLIMIT_FSIZE)) {
		send_signal_task(current, SIGXFSZ, NULL);
		return -EFBIG;
	}
	return vfs_truncate(inode, size);
}

SYSCALL_DEFINE(truncate, const char __user *name, long length)
{
	struct path path;

	if (length < 0)
		return -EINVAL;
	int err = user_path_at(AT_FDCWD, name, LOOKUP_FOLLOW, &path);

	if (err)
		return err;
	struct inode *inode = path.dentry->inode;

	if (S_ISDIR(inode->mode))
		err = -EISDIR;
	else if (!S_ISREG(inode->mode))
		err = -EINVAL;
	else
		err = mount_want_write(path.mnt);
	if (!err) {
		err = inode_permission(inode, MAY_WRITE);
		if (!err)
			err = truncate_checked(inode, (u64)length);
		mount_drop_write(path.mnt);
	}
	path_put(&path);
	return err;
}

SYSCALL_DEFINE(ftruncate, int fd, long length)
{
	if (length < 0)
		return -EINVAL;
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	int err = -EINVAL;

	if (S_ISREG(r.file->inode->mode) && (r.file->mode & FMODE_WRITE))
		err = truncate_checked(r.file->inode, (u64)length);
	fdput(r);
	return err;
}

#define FALLOC_FL_KEEP_SIZE	0x01
#define FALLOC_FL_PUNCH_HOLE	0x02
#define FALLOC_FL_COLLAPSE	0x08
#define FALLOC_FL_ZERO_RANGE	0x10
#define FALLOC_FL_INSERT	0x20
#define FALLOC_FL_UNSHARE	0x40

/* One kind of change at a time, and which of them may, must or cannot keep the size. What a file system can do is its own affair. */
static bool fallocate_mode_exists(int mode)
{
	switch (mode & ~FALLOC_FL_KEEP_SIZE) {
	case 0:
	case FALLOC_FL_ZERO_RANGE:
	case FALLOC_FL_UNSHARE:
		return true;
	case FALLOC_FL_PUNCH_HOLE:
		return mode & FALLOC_FL_KEEP_SIZE;
	case FALLOC_FL_COLLAPSE:
	case FALLOC_FL_INSERT:
		return !(mode & FALLOC_FL_KEEP_SIZE);
	default:
		return false;
	}
}

static int do_fallocate(struct file *f, int mode, loff_t off, loff_t len)
{
	struct inode *inode = f->inode;

	if (off < 0 || len <= 0)
		return -EINVAL;
	if (!fallocate_mode_exists(mode))
		return -EOPNOTSUPP;
	if (!(f->mode & FMODE_WRITE))
		return -EBADF;
	if (S_ISFIFO(inode->mode))
		return -ESPIPE;
	if (S_ISDIR(inode->mode))
		return -EISDIR;
	if (!S_ISREG(inode->mode))
		return -ENODEV;
	if (off > INT64_MAX - len)
		return -EFBIG;
	if (!inode->ops->fallocate)
		return -EOPNOTSUPP;
	down_write(&inode->lock);
	int err = inode->ops->fallocate(inode, mode, off, len);

	up_write(&inode->lock);
	return err;
}

SYSCALL_DEFINE(fallocate, int fd, int mode, long off, long len)
{
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	int err = do_fallocate(r.file, mode, off, len);

	fdput(r);
	return err;
}
