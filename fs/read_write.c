/*
 * Reading, writing and seeking.
 *
 * Who guards file->pos: nobody, while one thread alone holds the file (one descriptor in an unshared table, see fdget);
 * pos_lock otherwise, so that threads and processes that share a file get pieces that do not overlap. Streams have no offset
 * and take no lock: a reader asleep on a pipe must not stop a writer.
 */
#include "fs/internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define SEEK_SET	0
#define SEEK_CUR	1
#define SEEK_END	2
#define SEEK_DATA	3
#define SEEK_HOLE	4

#define RWF_HIPRI	1
#define RWF_DSYNC	2
#define RWF_SYNC	4
#define RWF_NOWAIT	8
#define RWF_APPEND	0x10

#define IOV_FAST	8
#define COPY_CHUNK	(64 * 1024ul)

/* -- one file -- */

/* An offset from which @n bytes can be counted. Streams have none. */
static bool pos_valid(const struct file *f, loff_t pos, size_t n)
{
	return (f->mode & FMODE_STREAM) || (pos >= 0 && pos <= INT64_MAX - (loff_t)n);
}

/* Bytes or -errno. The caller owns *pos. May sleep. */
ssize_t vfs_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	if (unlikely(!(f->mode & FMODE_READ)))
		return -EBADF;
	if (unlikely(!f->ops->read))
		return -EINVAL;
	if (unlikely(!pos_valid(f, *pos, to->count)))
		return -EINVAL;
	return f->ops->read(f, to, pos);
}

ssize_t vfs_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	if (unlikely(!(f->mode & FMODE_WRITE)))
		return -EBADF;
	if (unlikely(!f->ops->write))
		return -EINVAL;
	if (unlikely(!pos_valid(f, *pos, from->count)))
		return -EINVAL;
	return f->ops->write(f, from, pos);
}

typedef ssize_t (*transfer_t)(struct file *f, struct iov_iter *it, loff_t *pos);

static bool pos_is_shared(struct fd_ref r)
{
	return r.counted || refcount_read(&r.file->refs) > 1;
}

/* read, write, readv, writev: at the file's own offset. */
static inline __attribute__((always_inline)) ssize_t transfer_at_pos(struct fd_ref r, struct iov_iter *it, transfer_t transfer)
{
	struct file *f = r.file;
	loff_t none = 0;

	if (f->mode & FMODE_STREAM)
		return transfer(f, it, &none);
	if (!pos_is_shared(r))
		return transfer(f, it, &f->pos);

	ssize_t n = mutex_lock_killable(&f->pos_lock);	/* who has it may be waiting for a server */

	if (n)
		return n;
	n = transfer(f, it, &f->pos);
	mutex_unlock(&f->pos_lock);
	return n;
}

/* One user buffer. Linux checks rights first, then that the range lies in user space, then cuts the count. */
static inline __attribute__((always_inline)) ssize_t transfer_buffer(struct fd_ref r, void __user *buf, size_t count, transfer_t transfer, u32 need, const loff_t *at)
{
	if (unlikely(!(r.file->mode & need)))
		return -EBADF;
	if (unlikely(!access_ok(buf, count)))
		return -EFAULT;
	count = min(count, MAX_RW_COUNT);

	struct iovec iov = { buf, count };
	struct iov_iter it;

	iov_iter_init(&it, &iov, 1, count);
	if (at) {
		loff_t pos = *at;

		return transfer(r.file, &it, &pos);
	}
	return transfer_at_pos(r, &it, transfer);
}

SYSCALL_DEFINE(read, int fd, void __user *buf, size_t count)
{
	struct fd_ref r = fdget(fd);

	if (unlikely(!r.file))
		return -EBADF;
	ssize_t n = transfer_buffer(r, buf, count, vfs_read, FMODE_READ, NULL);

	fdput(r);
	return n;
}

SYSCALL_DEFINE(write, int fd, const void __user *buf, size_t count)
{
	struct fd_ref r = fdget(fd);

	if (unlikely(!r.file))
		return -EBADF;
	ssize_t n = transfer_buffer(r, (void __user *)buf, count, vfs_write, FMODE_WRITE, NULL);

	fdput(r);
	return n;
}

static ssize_t do_pread(int fd, void __user *buf, size_t count, loff_t pos, transfer_t transfer, u32 need)
{
	if (pos < 0)
		return -EINVAL;
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	ssize_t n = -ESPIPE;

	if (r.file->mode & FMODE_LSEEK)
		n = transfer_buffer(r, buf, count, transfer, need, &pos);
	fdput(r);
	return n;
}

SYSCALL_DEFINE(pread64, int fd, void __user *buf, size_t count, loff_t pos)
{
	return do_pread(fd, buf, count, pos, vfs_read, FMODE_READ);
}

SYSCALL_DEFINE(pwrite64, int fd, const void __user *buf, size_t count, loff_t pos)
{
	return do_pread(fd, (void __user *)buf, count, pos, vfs_write, FMODE_WRITE);
}

/* -- vectors -- */

/* @at NULL: the file's own offset. */
static ssize_t transfer_vector(struct fd_ref r, const struct iovec __user *uvec, unsigned long nr, transfer_t transfer,
			       u32 need, loff_t *at)
{
	struct iovec fast[IOV_FAST], *iov = fast;
	struct iov_iter it;

	if (!(r.file->mode & need))
		return -EBADF;
	ssize_t n = import_iovec(uvec, nr, &iov, fast, IOV_FAST);

	if (n < 0)
		return n;
	iov_iter_init(&it, iov, nr, min((size_t)n, MAX_RW_COUNT));
	if (n)				/* nothing to do is no reason to wait, for a pipe */
		n = at ? transfer(r.file, &it, at) : transfer_at_pos(r, &it, transfer);
	if (iov != fast)
		kfree(iov);
	return n;
}

static ssize_t do_readv(int fd, const struct iovec __user *uvec, unsigned long nr, transfer_t transfer, u32 need)
{
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	ssize_t n = transfer_vector(r, uvec, nr, transfer, need, NULL);

	fdput(r);
	return n;
}

SYSCALL_DEFINE(readv, int fd, const struct iovec __user *uvec, unsigned long nr)
{
	return do_readv(fd, uvec, nr, vfs_read, FMODE_READ);
}

SYSCALL_DEFINE(writev, int fd, const struct iovec __user *uvec, unsigned long nr)
{
	return do_readv(fd, uvec, nr, vfs_write, FMODE_WRITE);
}

/*
 * preadv2 and pwritev2; @pos -1: the file's own. Every write here is as durable as it gets, so HIPRI, DSYNC and SYNC ask for
 * nothing more; APPEND needs the file's flag and NOWAIT a path that never sleeps, which we do not have.
 */
static ssize_t do_preadv(int fd, const struct iovec __user *uvec, unsigned long nr, loff_t pos, int flags, transfer_t transfer, u32 need)
{
	bool own = pos == -1;

	if (pos < -1)
		return -EINVAL;
	if (flags & ~(RWF_HIPRI | RWF_DSYNC | RWF_SYNC))
		return -EOPNOTSUPP;
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	ssize_t n = -ESPIPE;

	if (own || (r.file->mode & FMODE_LSEEK))
		n = transfer_vector(r, uvec, nr, transfer, need, own ? NULL : &pos);
	fdput(r);
	return n;
}

/* The offset comes in two halves; on 64 bits the low one is all of it. */
SYSCALL_DEFINE(preadv, int fd, const struct iovec __user *uvec, unsigned long nr, long pos)
{
	return pos < 0 ? -EINVAL : do_preadv(fd, uvec, nr, pos, 0, vfs_read, FMODE_READ);
}

SYSCALL_DEFINE(pwritev, int fd, const struct iovec __user *uvec, unsigned long nr, long pos)
{
	return pos < 0 ? -EINVAL : do_preadv(fd, uvec, nr, pos, 0, vfs_write, FMODE_WRITE);
}

SYSCALL_DEFINE(preadv2, int fd, const struct iovec __user *uvec, unsigned long nr, long pos, long pos_high, int flags)
{
	(void)pos_high;
	return do_preadv(fd, uvec, nr, pos, flags, vfs_read, FMODE_READ);
}

SYSCALL_DEFINE(pwritev2, int fd, const struct iovec __user *uvec, unsigned long nr, long pos, long pos_high, int flags)
{
	(void)pos_high;
	return do_preadv(fd, uvec, nr, pos, flags, vfs_write, FMODE_WRITE);
}

/* -- lseek -- */

/* SEEK_DATA, SEEK_HOLE: pages are data, holes in the cache are holes, and there is one more at the end. */
static loff_t seek_data(struct inode *inode, loff_t off, bool data)
{
	struct mapping *m = &inode->mapping;
	u64 size = READ_ONCE(inode->size), index = (u64)off >> PAGE_SHIFT;

	if (off < 0 || (u64)off >= size)
		return -ENXIO;
	if (data) {
		u64 next = mapping_next_page(m, index);

		if (next >= DIV_ROUND_UP(size, PAGE_SIZE))
			return -ENXIO;
		return max(off, (loff_t)(next << PAGE_SHIFT));
	}
	while (index < DIV_ROUND_UP(size, PAGE_SIZE) && mapping_next_page(m, index) == index)
		index++;
	return min(max(off, (loff_t)(index << PAGE_SHIFT)), (loff_t)size);
}

/* pos_lock held if the file is shared. New offset or -EINVAL, -ENXIO. */
loff_t generic_llseek(struct file *f, loff_t off, int whence)
{
	struct inode *inode = f->inode;
	loff_t base = 0;

	switch (whence) {
	case SEEK_SET:
		break;
	case SEEK_CUR:
		base = f->pos;
		break;
	case SEEK_END:
		base = (loff_t)READ_ONCE(inode->size);
		break;
	case SEEK_DATA:
	case SEEK_HOLE:
		if (!S_ISREG(inode->mode))
			return -EINVAL;
		off = seek_data(inode, off, whence == SEEK_DATA);
		if (off < 0)
			return off;
		break;
	default:
		return -EINVAL;
	}
	if (off > 0 && base > INT64_MAX - off)
		return -EOVERFLOW;
	if (base + off < 0)
		return -EINVAL;
	f->pos = base + off;
	return f->pos;
}

SYSCALL_DEFINE(lseek, int fd, loff_t off, unsigned int whence)
{
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	struct file *f = r.file;
	loff_t pos = -ESPIPE;

	if (whence > SEEK_HOLE) {
		pos = -EINVAL;
	} else if (f->mode & FMODE_LSEEK) {
		bool shared = pos_is_shared(r);

		if (shared && mutex_lock_killable(&f->pos_lock)) {
			fdput(r);
			return -EINTR;
		}
		pos = f->ops->llseek ? f->ops->llseek(f, off, (int)whence) : generic_llseek(f, off, (int)whence);
		if (shared)
			mutex_unlock(&f->pos_lock);
	} else if (f->ops->llseek) {
		pos = f->ops->llseek(f, off, (int)whence);	/* a stream that says what seeking in it means */
	}
	fdput(r);
	return pos;
}

/* -- from file to file -- */

/*
 * Copies up to @count bytes from @in at *in_pos to @out at *out_pos through a kernel buffer. *in_pos moves only past what
 * was written. Bytes, or -errno if nothing was copied.
 */
static ssize_t copy_between(struct file *in, loff_t *in_pos, struct file *out, loff_t *out_pos, size_t count)
{
	char *buf = kmalloc(min(COPY_CHUNK, ALIGN_UP(count, PAGE_SIZE)), GFP_KERNEL);
	ssize_t done = 0, err = 0;

	if (!buf)
		return -ENOMEM;
	while (count) {
		struct iovec slot;
		struct iov_iter it;
		loff_t pos = *in_pos;

		iov_iter_kernel(&it, &slot, buf, min(count, COPY_CHUNK));
		ssize_t got = in->ops->read(in, &it, &pos);

		if (got <= 0) {
			err = got;
			break;
		}
		iov_iter_kernel(&it, &slot, buf, (size_t)got);
		ssize_t put = out->ops->write(out, &it, out_pos);

		if (put <= 0) {
			err = put;
			break;
		}
		*in_pos += put;
		done += put;
		count -= (size_t)put;
		if (put < got)
			break;
		if (signal_pending()) {
			err = -EINTR;
			break;
		}
		cond_resched();
	}
	kfree(buf);
	return done ? done : err;
}

static ssize_t do_sendfile(struct fd_ref out, struct fd_ref in, loff_t *upos, size_t count)
{
	loff_t none = 0;

	if (!(in.file->mode & FMODE_READ) || !(out.file->mode & FMODE_WRITE))
		return -EBADF;
	if (upos && !(in.file->mode & FMODE_LSEEK))
		return -ESPIPE;
	/* The source must be a file that can be read again from where the sink stopped. */
	if (!(in.file->mode & FMODE_LSEEK) || !in.file->ops->read || in.file->ops->no_splice || !out.file->ops->write || (out.file->flags & O_APPEND))
		return -EINVAL;
	if (upos && *upos < 0)
		return -EINVAL;
	if (!count)
		return 0;

	/* pos_lock of the source and of the sink would have to nest in both orders; the offsets are worked on as copies instead. */
	loff_t in_pos = upos ? *upos : READ_ONCE(in.file->pos);
	loff_t out_pos = READ_ONCE(out.file->pos);
	bool stream = out.file->mode & FMODE_STREAM;
	ssize_t n = copy_between(in.file, &in_pos, out.file, stream ? &none : &out_pos, min(count, MAX_RW_COUNT));

	if (n > 0) {
		if (upos)
			*upos = in_pos;
		else
			WRITE_ONCE(in.file->pos, in_pos);
		if (!stream)
			WRITE_ONCE(out.file->pos, out_pos);
	}
	return n;
}

SYSCALL_DEFINE(sendfile, int out_fd, int in_fd, loff_t __user *uoffset, size_t count)
{
	loff_t pos = 0;

	if (uoffset && get_user(pos, uoffset))
		return -EFAULT;
	struct fd_ref in = fdget(in_fd), out = fdget(out_fd);
	ssize_t n = -EBADF;

	if (in.file && out.file)
		n = do_sendfile(out, in, uoffset ? &pos : NULL, count);
	fdput(in);
	fdput(out);
	if (n > 0 && uoffset && put_user(pos, uoffset))
		return -EFAULT;
	return n;
}

static ssize_t do_copy_file_range(struct file *in, loff_t *in_pos, struct file *out, loff_t *out_pos, size_t count)
{
	struct inode *from = in->inode, *to = out->inode;

	if (S_ISDIR(from->mode) || S_ISDIR(to->mode))
		return -EISDIR;
	if (!S_ISREG(from->mode) || !S_ISREG(to->mode))
		return -EINVAL;
	if (!(in->mode & FMODE_READ) || !(out->mode & FMODE_WRITE) || (out->flags & O_APPEND))
		return -EBADF;
	if (!in->ops->read || !out->ops->write)
		return -EINVAL;
	if (*in_pos < 0 || *out_pos < 0 || (s64)count < 0)
		return -EINVAL;
	if (from->sb != to->sb)
		return -EXDEV;
	u64 size = READ_ONCE(from->size);

	count = (u64)*in_pos >= size ? 0 : min(count, (size_t)(size - (u64)*in_pos));
	if (from == to && *in_pos < *out_pos + (loff_t)count && *out_pos < *in_pos + (loff_t)count)
		return -EINVAL;
	return count ? copy_between(in, in_pos, out, out_pos, min(count, MAX_RW_COUNT)) : 0;
}

SYSCALL_DEFINE(copy_file_range, int in_fd, loff_t __user *uin, int out_fd, loff_t __user *uout, size_t count, unsigned int flags)
{
	loff_t in_pos, out_pos;
	ssize_t n = -EBADF;

	if (flags)
		return -EINVAL;
	struct fd_ref in = fdget(in_fd), out = fdget(out_fd);

	if (!in.file || !out.file)
		goto put;
	n = -EFAULT;
	in_pos = in.file->pos;
	out_pos = out.file->pos;
	if ((uin && get_user(in_pos, uin)) || (uout && get_user(out_pos, uout)))
		goto put;
	n = do_copy_file_range(in.file, &in_pos, out.file, &out_pos, count);
	if (n > 0) {
		if (!uin)
			WRITE_ONCE(in.file->pos, in_pos);
		if (!uout)
			WRITE_ONCE(out.file->pos, out_pos);
		if ((uin && put_user(in_pos, uin)) || (uout && put_user(out_pos, uout)))
			n = -EFAULT;
	}
put:
	fdput(in);
	fdput(out);
	return n;
}

/* -- writing back, and advice -- */

static long do_fsync(int fd, bool datasync)
{
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	int err = r.file->ops->fsync ? r.file->ops->fsync(r.file, datasync) : -EINVAL;

	fdput(r);
	return err;
}

SYSCALL_DEFINE(fsync, int fd)
{
	return do_fsync(fd, false);
}

SYSCALL_DEFINE(fdatasync, int fd)
{
	return do_fsync(fd, true);
}

SYSCALL_DEFINE(sync, void)
{
	(void)!writeback_sync(NULL);	/* only a fatal signal ends it early */
	return 0;
}

SYSCALL_DEFINE(syncfs, int fd)
{
	struct fd_ref r = fdget_raw(fd);

	if (!r.file)
		return -EBADF;
	struct super_block *sb = r.file->inode->sb;
	int err = sb->sync ? sb->sync(sb) : writeback_sync(sb);

	fdput(r);
	return err;
}

SYSCALL_DEFINE(sync_file_range, int fd, loff_t off, loff_t len, unsigned int flags)
{
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	u32 type = r.file->inode->mode & S_IFMT;
	long ret = 0;

	if ((flags & ~7u) || off < 0 || len < 0 || off > INT64_MAX - len)
		ret = -EINVAL;
	else if (type != S_IFREG && type != S_IFBLK && type != S_IFDIR && type != S_IFLNK)
		ret = -ESPIPE;
	fdput(r);
	return ret;
}

#define POSIX_FADV_DONTNEED	4
#define POSIX_FADV_NOREUSE	5

/* What is dirty is sent on its way, what is clean leaves the cache; part of a page only if it is the file's last. */
static void drop_cached_range(struct inode *inode, u64 off, u64 len)
{
	struct mapping *m = &inode->mapping;
	u64 end = len && len < INT64_MAX - off ? off + len : INT64_MAX, size = READ_ONCE(inode->size);

	(void)!mapping_writeback_range(m, (loff_t)off, (loff_t)end, false);
	mapping_drop_clean(m, DIV_ROUND_UP(off, PAGE_SIZE), end >= size ? ~0ul : end >> PAGE_SHIFT);
}

/* Advice about reading ahead has nothing to act on: a page is read when it is wanted. */
SYSCALL_DEFINE(fadvise64, int fd, loff_t off, size_t len, int advice)
{
	struct fd_ref r = fdget(fd);
	long ret = 0;

	if (!r.file)
		return -EBADF;
	if (S_ISFIFO(r.file->inode->mode))
		ret = -ESPIPE;
	else if ((loff_t)len < 0 || advice < 0 || advice > POSIX_FADV_NOREUSE)
		ret = -EINVAL;
	else if (advice == POSIX_FADV_DONTNEED && S_ISREG(r.file->inode->mode) && off >= 0)
		drop_cached_range(r.file->inode, (u64)off, len);
	fdput(r);
	return ret;
}

SYSCALL_DEFINE(readahead, int fd, loff_t off, size_t count)
{
	struct fd_ref r = fdget(fd);
	long ret = 0;

	(void)off, (void)count;
	if (!r.file || !(r.file->mode & FMODE_READ))
		ret = -EBADF;
	else if (!S_ISREG(r.file->inode->mode) && (r.file->inode->mode & S_IFMT) != S_IFBLK)
		ret = -EINVAL;
	fdput(r);
	return ret;
}
