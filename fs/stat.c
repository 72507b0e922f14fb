/* What is known about a file: the stat family, statfs, readlink. */
#include "fs/internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define AT_NO_AUTOMOUNT		0x800
#define AT_STATX_SYNC_TYPE	0x6000
#define STATX_BASIC_STATS	0x7ffu
#define STATX_MNT_ID		0x1000u
#define STATX__RESERVED		0x80000000u
#define STATX_ATTR_MOUNT_ROOT	0x2000u

struct stat {			/* user ABI */
	u64	st_dev, st_ino, st_nlink;
	u32	st_mode, st_uid, st_gid, pad0;
	u64	st_rdev;
	s64	st_size, st_blksize, st_blocks;
	u64	st_atime, st_atime_nsec, st_mtime, st_mtime_nsec, st_ctime, st_ctime_nsec;
	s64	unused[3];
};
_Static_assert(sizeof(struct stat) == 144, "user ABI");

struct statx_time { s64 sec; u32 nsec; s32 pad; };
struct statx {			/* user ABI */
	u32	mask, blksize;
	u64	attributes;
	u32	nlink, uid, gid;
	u16	mode, pad0;
	u64	ino, size, blocks, attributes_mask;
	struct statx_time atime, btime, ctime, mtime;
	u32	rdev_major, rdev_minor, dev_major, dev_minor;
	u64	mnt_id;
	u32	dio_mem_align, dio_offset_align;
	u64	spare[12];
};
_Static_assert(sizeof(struct statx) == 256, "user ABI");

/* One consistent look at an inode. */
struct kstat {
	u32	mode, uid, gid, nlink;
	u64	ino, size, blocks, block_size, atime, mtime, ctime;
	dev_t	dev, rdev;
};

static void inode_stat(struct inode *i, struct kstat *k)
{
	spin_lock(&i->meta_lock);
	*k = (struct kstat){
		.mode = i->mode, .uid = i->uid, .gid = i->gid, .nlink = i->nlink, .ino = i->ino,
		.atime = i->atime, .mtime = i->mtime, .ctime = i->ctime, .dev = i->sb->dev, .rdev = i->rdev,
		.block_size = i->sb->block_size,
	};
	spin_unlock(&i->meta_lock);
	k->size = READ_ONCE(i->size);
	k->blocks = inode_blocks(i);
}

static long put_stat(struct inode *inode, struct stat __user *ubuf)
{
	struct kstat k;

	inode_stat(inode, &k);
	struct stat st = {
		.st_dev = k.dev, .st_ino = k.ino, .st_nlink = k.nlink, .st_mode = k.mode, .st_uid = k.uid, .st_gid = k.gid,
		.st_rdev = k.rdev, .st_size = (s64)k.size, .st_blksize = (s64)k.block_size, .st_blocks = (s64)k.blocks,
		.st_atime = k.atime / NSEC_PER_SEC, .st_atime_nsec = k.atime % NSEC_PER_SEC,
		.st_mtime = k.mtime / NSEC_PER_SEC, .st_mtime_nsec = k.mtime % NSEC_PER_SEC,
		.st_ctime = k.ctime / NSEC_PER_SEC, .st_ctime_nsec = k.ctime % NSEC_PER_SEC,
	};

	return copy_out(ubuf, &st, sizeof(st));
}

static long stat_fd(int fd, struct stat __user *ubuf)
{
	struct fd_ref r = fdget_raw(fd);

	if (!r.file)
		return -EBADF;
	long ret = put_stat(r.file->inode, ubuf);

	fdput(r);
	return ret;
}

SYSCALL_DEFINE(newfstatat, int dfd, const char __user *name, struct stat __user *ubuf, int flags)
{
	unsigned int lookup = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct path path;

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_SYNC_TYPE))
		return -EINVAL;
	if (flags & AT_EMPTY_PATH) {
		char first = 0;

		/* glibc's fstat: the descriptor itself, without a walk. Linux 6.11 takes NULL for "" as well. */
		if (name && get_user(first, name))
			return -EFAULT;
		if (!first && dfd >= 0)
			return stat_fd(dfd, ubuf);
		lookup |= LOOKUP_EMPTY;
	}
	int err = user_path_at(dfd, name, lookup, &path);

	if (err)
		return err;
	long ret = put_stat(path.dentry->inode, ubuf);

	path_put(&path);
	return ret;
}

SYSCALL_DEFINE(stat, const char __user *name, struct stat __user *ubuf)
{
	return sys_newfstatat(AT_FDCWD, name, ubuf, 0);
}

SYSCALL_DEFINE(lstat, const char __user *name, struct stat __user *ubuf)
{
	return sys_newfstatat(AT_FDCWD, name, ubuf, AT_SYMLINK_NOFOLLOW);
}

SYSCALL_DEFINE(fstat, int fd, struct stat __user *ubuf)
{
	return stat_fd(fd, ubuf);
}

static struct statx_time statx_time(u64 ns)
{
	return (struct statx_time){ .sec = (s64)(ns / NSEC_PER_SEC), .nsec = (u32)(ns % NSEC_PER_SEC) };
}

SYSCALL_DEFINE(statx, int dfd, const char __user *name, unsigned int flags, unsigned int mask, struct statx __user *ubuf)
{
	unsigned int lookup = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct path path;
	struct kstat k;

	if (mask & STATX__RESERVED)
		return -EINVAL;
	if (flags & ~(unsigned int)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_SYNC_TYPE))
		return -EINVAL;
	if ((flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE)
		return -EINVAL;
	if (flags & AT_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	int err = user_path_at(dfd, name, lookup, &path);

	if (err)
		return err;
	inode_stat(path.dentry->inode, &k);
	struct statx sx = {
		.mask = STATX_BASIC_STATS | STATX_MNT_ID, .blksize = (u32)k.block_size, .nlink = k.nlink, .uid = k.uid, .gid = k.gid,
		.mode = (u16)k.mode, .ino = k.ino, .size = k.size, .blocks = k.blocks,
		.atime = statx_time(k.atime), .mtime = statx_time(k.mtime), .ctime = statx_time(k.ctime),
		.rdev_major = (u32)MAJOR(k.rdev), .rdev_minor = (u32)MINOR(k.rdev),
		.dev_major = (u32)MAJOR(k.dev), .dev_minor = (u32)MINOR(k.dev),
		.mnt_id = path.mnt->id, .attributes_mask = STATX_ATTR_MOUNT_ROOT,
		.attributes = path.dentry == path.mnt->root ? STATX_ATTR_MOUNT_ROOT : 0,
	};

	path_put(&path);
	return copy_out(ubuf, &sx, sizeof(sx));
}

/* -- statfs -- */

/* What a file system without its own word on it says: its limits, or zeros when it has none (as Linux's ramfs). */
static void generic_statfs(struct super_block *sb, struct statfs64 *out)
{
	s64 blocks = READ_ONCE(sb->used_blocks), inodes = READ_ONCE(sb->used_inodes);

	if (sb->max_blocks) {
		out->f_blocks = (s64)sb->max_blocks;
		out->f_bfree = out->f_bavail = max((s64)sb->max_blocks - blocks, (s64)0);
	}
	if (sb->max_inodes) {
		out->f_files = (s64)sb->max_inodes;
		out->f_ffree = max((s64)sb->max_inodes - inodes, (s64)0);
	}
}

/* f_flags: the MS_ bits, but ST_RELATIME has a number of its own, and ST_VALID says that they are there. */
static s64 statfs_flags(u32 ms)
{
	s64 st = 0x20 | (s64)(ms & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME));

	return ms & MS_RELATIME ? st | 0x1000 : st;
}

int vfs_statfs(struct super_block *sb, u32 mount_flags, struct statfs64 *out)
{
	*out = (struct statfs64){
		.f_type = (s64)sb->magic, .f_bsize = sb->block_size, .f_frsize = sb->block_size, .f_namelen = NAME_MAX,
		.f_fsid = { (s32)sb->dev, (s32)(sb->dev >> 32) },
	};
	int err = 0;

	if (sb->statfs)
		err = sb->statfs(sb, out);
	else
		generic_statfs(sb, out);
	out->f_flags = statfs_flags(mount_flags | sb->flags);
	return err;
}

static long put_statfs(const struct path *path, struct statfs64 __user *ubuf)
{
	struct statfs64 st;
	int err = vfs_statfs(path->mnt->sb, path->mnt->flags, &st);

	return err ? err : copy_out(ubuf, &st, sizeof(st));
}

SYSCALL_DEFINE(statfs, const char __user *name, struct statfs64 __user *ubuf)
{
	struct path path;
	int err = user_path_at(AT_FDCWD, name, LOOKUP_FOLLOW, &path);

	if (err)
		return err;
	long ret = put_statfs(&path, ubuf);

	path_put(&path);
	return ret;
}

SYSCALL_DEFINE(fstatfs, int fd, struct statfs64 __user *ubuf)
{
	struct fd_ref r = fdget_raw(fd);

	if (!r.file)
		return -EBADF;
	long ret = put_statfs(&r.file->path, ubuf);

	fdput(r);
	return ret;
}

/* -- readlink -- */

/* The text of a link: its target, or for a magic link the path of what it leads to. kfree; ERR_PTR. */
static char *link_text(struct inode *inode)
{
	if (inode->ops->readlink)
		return inode->ops->readlink(inode);
	if (!inode->ops->follow)
		return ERR_PTR(-EINVAL);

	struct path to;
	int err = inode->ops->follow(inode, &to);

	if (err)
		return ERR_PTR(err);
	char *buf = kmalloc(PATH_MAX, GFP_KERNEL), *s = ERR_PTR(-ENOMEM);

	if (buf) {
		s = d_path(&to, buf, PATH_MAX);
		if (!IS_ERR(s)) {
			memmove(buf, s, strlen(s) + 1);
			s = buf;
		} else {
			kfree(buf);
		}
	}
	path_put(&to);
	return s;
}

SYSCALL_DEFINE(readlinkat, int dfd, const char __user *name, char __user *ubuf, int size)
{
	struct path path;

	if (size <= 0)
		return -EINVAL;
	/* "" is a link opened with O_PATH | O_NOFOLLOW. */
	int err = user_path_at(dfd, name, LOOKUP_EMPTY, &path);

	if (err)
		return err;
	struct inode *inode = path.dentry->inode;
	char first = 1;
	long ret;

	if (!S_ISLNK(inode->mode)) {
		ret = get_user(first, name) || first ? -EINVAL : -ENOENT;
	} else {
		char *text = link_text(inode);

		ret = PTR_ERR(text);
		if (!IS_ERR(text)) {
			ret = (long)min(strlen(text), (size_t)size);
			if (copy_out(ubuf, text, (size_t)ret))
				ret = -EFAULT;
			kfree(text);
		}
	}
	path_put(&path);
	return ret;
}

SYSCALL_DEFINE(readlink, const char __user *name, char __user *ubuf, int size)
{
	return sys_readlinkat(AT_FDCWD, name, ubuf, size);
}
