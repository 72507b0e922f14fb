/* Reading directories: getdents, and the operations every directory shares. */
#include "fs/internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/uaccess.h"

static int dir_open(struct inode *inode, struct file *f)
{
	(void)inode;
	f->private = (void *)READ_ONCE(f->path.dentry->next_cookie);	/* see dcache_readdir */
	return 0;
}

static ssize_t dir_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	(void)f, (void)to, (void)pos;
	return -EISDIR;
}

static loff_t dir_llseek(struct file *f, loff_t off, int whence)
{
	if (whence == 1)
		off += f->pos;
	else if (whence != 0)
		return -EINVAL;
	if (off < 0)
		return -EINVAL;
	f->pos = off;
	return off;
}

static int dir_fsync(struct file *f, bool datasync)
{
	(void)f, (void)datasync;
	return 0;
}

/* Names of the tree have positions below this, those of inode->ops->readdir above. */
#define DYNAMIC_BASE	((loff_t)1 << 40)

static int dir_readdir(struct file *f, struct dir_context *ctx)
{
	struct inode *dir = f->inode;
	int err;

	if (dir->sb->weak_names)
		return dir->ops->readdir(f, ctx);	/* those of the tree are only the ones in use */
	if (ctx->pos < DYNAMIC_BASE) {
		struct dentry *d = f->path.dentry;
		loff_t end = ctx->pos;

		err = dcache_readdir(f, ctx);
		/* Did it stop because the buffer is full, or because it was through? */
		if (err || !dir->ops->readdir)
			return err;
		if (ctx->pos < 2)
			return 0;
		end = ctx->pos;
		if (!list_empty(&d->children) && (u64)end <= list_last_entry(&d->children, struct dentry, sibling)->cookie)
			return 0;
		ctx->pos = DYNAMIC_BASE;
	}
	ctx->base = DYNAMIC_BASE;
	ctx->pos -= DYNAMIC_BASE;
	err = dir->ops->readdir(f, ctx);
	ctx->pos += DYNAMIC_BASE;
	ctx->base = 0;
	return err;
}

const struct file_ops dir_file_ops = {
	.open = dir_open,
	.read = dir_read,
	.llseek = dir_llseek,
	.readdir = dir_readdir,
	.fsync = dir_fsync,
};

/* -- system calls -- */

struct linux_dirent64 {		/* user ABI */
	u64	ino;
	s64	off;		/* position of the next entry */
	u16	reclen;
	u8	type;
	char	name[];
};

struct linux_dirent {		/* user ABI of getdents; the type is the record's last byte */
	u64	ino;
	s64	off;
	u16	reclen;
	char	name[];
};

struct dents {
	struct dir_context ctx;
	char __user	*buf;
	size_t		 left;
	size_t		 prev;		/* length of the last record, whose off is still to be filled; 0: none yet */
	int		 err;
};

/* The offset that leads to an entry is known only when it comes: it goes into the record before it. */
static bool set_previous_off(struct dents *d, loff_t pos)
{
	if (d->prev && put_user((s64)pos, (s64 __user *)(d->buf - d->prev + offsetof(struct linux_dirent64, off)))) {
		d->err = -EFAULT;
		return false;
	}
	return true;
}

/* Writes one record of @reclen bytes whose fixed part is @head and whose name stands at @name_at; @type at @type_at. */
static bool emit_record(struct dents *d, struct linux_dirent64 *head, const char *name, size_t len, size_t name_at, size_t type_at)
{
	u8 pad[16] = { 0 };
	size_t reclen = head->reclen;

	if (!set_previous_off(d, d->ctx.base + d->ctx.pos))
		return false;
	if (copy_out(d->buf, head, name_at) || copy_out(d->buf + name_at, name, len) ||
	    copy_out(d->buf + name_at + len, pad, reclen - name_at - len) || put_user(head->type, (u8 __user *)(d->buf + type_at))) {
		d->err = -EFAULT;
		return false;
	}
	d->buf += reclen;
	d->left -= reclen;
	d->prev = reclen;
	return true;
}

/* Linux's rule: no room at all for the first entry is EINVAL, later it just ends this call. A signal ends it too. */
static bool has_room(struct dents *d, size_t reclen)
{
	if (reclen > d->left)
		d->err = -EINVAL;
	else if (d->prev && signal_pending())
		d->err = -EINTR;
	else
		return true;
	return false;
}

static bool emit64(struct dir_context *ctx, const char *name, size_t len, u64 ino, unsigned int type)
{
	struct dents *d = container_of(ctx, struct dents, ctx);
	size_t name_at = offsetof(struct linux_dirent64, name), reclen = ALIGN_UP(name_at + len + 1, 8);
	struct linux_dirent64 head = { .ino = ino, .reclen = (u16)reclen, .type = (u8)type };

	return has_room(d, reclen) && emit_record(d, &head, name, len, name_at, offsetof(struct linux_dirent64, type));
}

static bool emit32(struct dir_context *ctx, const char *name, size_t len, u64 ino, unsigned int type)
{
	struct dents *d = container_of(ctx, struct dents, ctx);
	size_t name_at = offsetof(struct linux_dirent, name), reclen = ALIGN_UP(name_at + len + 2, 8);
	struct linux_dirent64 head = { .ino = ino, .reclen = (u16)reclen, .type = (u8)type };

	return has_room(d, reclen) && emit_record(d, &head, name, len, name_at, reclen - 1);
}

static long do_getdents(int fd, void __user *buf, unsigned int count,
			bool (*emit)(struct dir_context *, const char *, size_t, u64, unsigned int))
{
	struct dents d = { .ctx.emit = emit, .buf = buf, .left = count };
	struct file *f = fd_get(fd);
	long ret;

	if (!f)
		return -EBADF;
	ret = -ENOTDIR;
	if (!f->ops->readdir)
		goto put;
	if (!access_ok(buf, count)) {
		ret = -EFAULT;
		goto put;
	}
	ret = mutex_lock_killable(&f->pos_lock);
	if (ret)
		goto put;
	ret = down_read_killable(&f->inode->lock);
	if (ret)
		goto unlock_pos;
	ret = -ENOENT;
	if (f->inode->nlink) {		/* not removed */
		d.ctx.pos = f->pos;
		ret = f->ops->readdir(f, &d.ctx);
		if (!ret)
			ret = d.err;
		f->pos = d.ctx.pos;
		if (d.prev)
			ret = set_previous_off(&d, d.ctx.pos) ? (long)(count - d.left) : -EFAULT;
	}
	up_read(&f->inode->lock);
	file_accessed(f);
unlock_pos:
	mutex_unlock(&f->pos_lock);
put:
	file_put(f);
	return ret;
}

SYSCALL_DEFINE(getdents64, int fd, void __user *buf, unsigned int count)
{
	return do_getdents(fd, buf, count, emit64);
}

SYSCALL_DEFINE(getdents, int fd, void __user *buf, unsigned int count)
{
	return do_getdents(fd, buf, count, emit32);
}
