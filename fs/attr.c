/* Changing what an inode says about itself: mode, owner, times; and asking whether one may (access). */
#include "fs/internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define UTIME_NOW	((1l << 30) - 1)
#define UTIME_OMIT	((1l << 30) - 2)

/* A file system whose inodes are copies has the original changed first. May sleep. */
static int tell_owner(struct inode *inode, const struct iattr *a)
{
	return inode->ops->setattr ? inode->ops->setattr(inode, a) : 0;
}

/* -- mode -- */

static int change_mode(const struct path *path, u32 mode)
{
	struct inode *inode = path->dentry->inode;

	if (S_ISLNK(inode->mode))
		return -EOPNOTSUPP;
	int err = mount_want_write(path->mnt);

	if (err)
		return err;
	err = down_write_killable(&inode->lock);
	if (err)
		goto drop_write;
	if (!inode_owner_or_capable(inode)) {
		err = -EPERM;
	} else if ((inode->seals & F_SEAL_EXEC) && inode->mapping.is_shmem && ((inode->mode ^ mode) & 0111)) {
		err = -EPERM;
	} else {
		mode &= 07777;
		if ((mode & S_ISGID) && !in_group(inode->gid) && !capable(CAP_FSETID))
			mode &= ~(u32)S_ISGID;
		err = tell_owner(inode, &(struct iattr){ .valid = ATTR_MODE, .mode = mode });
	}
	if (!err) {
		spin_lock(&inode->meta_lock);
		inode->mode = (inode->mode & S_IFMT) | mode;
		inode->ctime = ktime_get_real_ns();
		spin_unlock(&inode->meta_lock);
	}
	up_write(&inode->lock);
drop_write:
	mount_drop_write(path->mnt);
	return err;
}

SYSCALL_DEFINE(fchmodat2, int dfd, const char __user *name, unsigned int mode, unsigned int flags)
{
	unsigned int lookup = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct path path;

	if (flags & ~(unsigned int)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (flags & AT_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	int err = user_path_at(dfd, name, lookup, &path);

	if (err)
		return err;
	err = change_mode(&path, mode);
	path_put(&path);
	return err;
}

SYSCALL_DEFINE(fchmodat, int dfd, const char __user *name, unsigned int mode)
{
	return sys_fchmodat2(dfd, name, mode, 0);
}

SYSCALL_DEFINE(chmod, const char __user *name, unsigned int mode)
{
	return sys_fchmodat2(AT_FDCWD, name, mode, 0);
}

SYSCALL_DEFINE(fchmod, int fd, unsigned int mode)
{
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	int err = change_mode(&r.file->path, mode);

	fdput(r);
	return err;
}

/* -- owner -- */

/* (u32)-1 leaves an id as it is. inode lock held. */
static int may_chown(struct inode *inode, u32 uid, u32 gid)
{
	struct access_ids ids = current_ids();
	bool owner = ids.uid == inode->uid;

	if (ids_capable(&ids, CAP_CHOWN))
		return 0;
	if (uid != (u32)-1 && !(owner && uid == inode->uid))
		return -EPERM;
	if (gid != (u32)-1 && !(owner && (gid == inode->gid || in_group(gid))))
		return -EPERM;
	return 0;
}

static int change_owner(const struct path *path, u32 uid, u32 gid)
{
	struct inode *inode = path->dentry->inode;
	int err = mount_want_write(path->mnt);

	if (err)
		return err;
	err = down_write_killable(&inode->lock);
	if (err)
		goto drop_write;
	err = may_chown(inode, uid, gid);
	if (!err)
		err = tell_owner(inode, &(struct iattr){ .valid = ATTR_OWNER, .uid = uid == (u32)-1 ? inode->uid : uid, .gid = gid == (u32)-1 ? inode->gid : gid });
	if (!err) {
		spin_lock(&inode->meta_lock);
		if (uid != (u32)-1)
			inode->uid = uid;
		if (gid != (u32)-1)
			inode->gid = gid;
		/* A program does not take its rights along to a new owner. Even root asks for them again. */
		if (!S_ISDIR(inode->mode))
			inode->mode &= ~(u32)(S_ISUID | (inode->mode & 010 ? S_ISGID : 0));
		inode->ctime = ktime_get_real_ns();
		spin_unlock(&inode->meta_lock);
	}
	up_write(&inode->lock);
drop_write:
	mount_drop_write(path->mnt);
	return err;
}

SYSCALL_DEFINE(fchownat, int dfd, const char __user *name, unsigned int uid, unsigned int gid, int flags)
{
	unsigned int lookup = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct path path;

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (flags & AT_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	int err = user_path_at(dfd, name, lookup, &path);

	if (err)
		return err;
	err = change_owner(&path, uid, gid);
	path_put(&path);
	return err;
}

SYSCALL_DEFINE(chown, const char __user *name, unsigned int uid, unsigned int gid)
{
	return sys_fchownat(AT_FDCWD, name, uid, gid, 0);
}

SYSCALL_DEFINE(lchown, const char __user *name, unsigned int uid, unsigned int gid)
{
	return sys_fchownat(AT_FDCWD, name, uid, gid, AT_SYMLINK_NOFOLLOW);
}

SYSCALL_DEFINE(fchown, int fd, unsigned int uid, unsigned int gid)
{
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	int err = change_owner(&r.file->path, uid, gid);

	fdput(r);
	return err;
}

/* -- times -- */

/* @times: atime, mtime; NULL: both now, which a writer may do too, not only the owner. */
static int change_times(const struct path *path, const struct timespec64 *times)
{
	struct inode *inode = path->dentry->inode;
	u64 now = ktime_get_real_ns();
	int err = mount_want_write(path->mnt);

	if (err)
		return err;
	if (times && times[0].tv_nsec == UTIME_NOW && times[1].tv_nsec == UTIME_NOW)
		times = NULL;
	if (!inode_owner_or_capable(inode))
		err = times ? -EPERM : inode_permission(inode, MAY_WRITE);
	if (!err && (!times || times[1].tv_nsec != UTIME_OMIT))
		err = tell_owner(inode, &(struct iattr){ .valid = ATTR_MTIME, .mtime = !times || times[1].tv_nsec == UTIME_NOW ? now : timespec_to_ns(&times[1]) });
	if (!err) {
		spin_lock(&inode->meta_lock);
		if (!times || times[0].tv_nsec != UTIME_OMIT)
			inode->atime = !times || times[0].tv_nsec == UTIME_NOW ? now : timespec_to_ns(&times[0]);
		if (!times || times[1].tv_nsec != UTIME_OMIT)
			inode->mtime = !times || times[1].tv_nsec == UTIME_NOW ? now : timespec_to_ns(&times[1]);
		inode->ctime = now;
		spin_unlock(&inode->meta_lock);
	}
	mount_drop_write(path->mnt);
	return err;
}

static bool nsec_valid(s64 nsec)
{
	return nsec == UTIME_NOW || nsec == UTIME_OMIT || (nsec >= 0 && nsec < (s64)NSEC_PER_SEC);
}

/* @name NULL: the descriptor itself (futimens). */
static long do_utimes(int dfd, const char __user *name, const struct timespec64 *times, int flags)
{
	unsigned int lookup = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct path path;
	int err;

	if (times && (!nsec_valid(times[0].tv_nsec) || !nsec_valid(times[1].tv_nsec)))
		return -EINVAL;
	if (!name && dfd != AT_FDCWD) {
		struct fd_ref r = fdget(dfd);

		err = -EBADF;
		if (r.file)
			err = flags ? -EINVAL : change_times(&r.file->path, times);
		fdput(r);
		return err;
	}
	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (flags & AT_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	err = user_path_at(dfd, name, lookup, &path);
	if (err)
		return err;
	err = change_times(&path, times);
	path_put(&path);
	return err;
}

SYSCALL_DEFINE(utimensat, int dfd, const char __user *name, const struct timespec64 __user *utimes, int flags)
{
	struct timespec64 t[2];

	if (!utimes)
		return do_utimes(dfd, name, NULL, flags);
	if (copy_in(t, utimes, sizeof(t)))
		return -EFAULT;
	if (t[0].tv_nsec == UTIME_OMIT && t[1].tv_nsec == UTIME_OMIT)
		return 0;		/* nothing to do: not even the name is looked at */
	return do_utimes(dfd, name, t, flags);
}

SYSCALL_DEFINE(futimesat, int dfd, const char __user *name, const struct timeval64 __user *utimes)
{
	struct timeval64 tv[2];
	struct timespec64 t[2];

	if (!utimes)
		return do_utimes(dfd, name, NULL, 0);
	if (copy_in(tv, utimes, sizeof(tv)))
		return -EFAULT;
	for (unsigned int i = 0; i < 2; i++) {
		if (tv[i].tv_usec < 0 || tv[i].tv_usec >= 1000000)
			return -EINVAL;
		t[i] = (struct timespec64){ tv[i].tv_sec, tv[i].tv_usec * 1000 };
	}
	return do_utimes(dfd, name, t, 0);
}

SYSCALL_DEFINE(utimes, const char __user *name, const struct timeval64 __user *utimes)
{
	return sys_futimesat(AT_FDCWD, name, utimes);
}

SYSCALL_DEFINE(utime, const char __user *name, const s64 __user *utimes)
{
	struct timespec64 t[2] = { { 0, 0 }, { 0, 0 } };

	if (!utimes)
		return do_utimes(AT_FDCWD, name, NULL, 0);
	if (get_user(t[0].tv_sec, &utimes[0]) || get_user(t[1].tv_sec, &utimes[1]))
		return -EFAULT;
	return do_utimes(AT_FDCWD, name, t, 0);
}

/* -- access -- */

static int access_path(const struct path *path, int mask, const struct access_ids *ids)
{
	struct inode *inode = path->dentry->inode;
	u32 type = inode->mode & S_IFMT;

	if ((mask & MAY_EXEC) && S_ISREG(inode->mode) && path_is_noexec(path))
		return -EACCES;
	int err = inode_permission_as(inode, mask, ids);

	if (!err && (mask & MAY_WRITE) && mount_readonly(path->mnt) && (type == S_IFREG || type == S_IFDIR || type == S_IFLNK))
		err = -EROFS;
	return err;
}

SYSCALL_DEFINE(faccessat2, int dfd, const char __user *uname, int mode, int flags)
{
	unsigned int lookup = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct access_ids ids = flags & AT_EACCESS ? current_ids() : current_real_ids();
	struct path path;

	if (mode & ~7)
		return -EINVAL;
	if (flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (flags & AT_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	char *name = getname(uname, flags & AT_EMPTY_PATH);

	if (IS_ERR(name))
		return PTR_ERR(name);
	int err = path_lookup_as(dfd, name, lookup, &ids, &path);

	putname(name);
	if (err)
		return err;
	err = access_path(&path, mode, &ids);
	path_put(&path);
	return err;
}

SYSCALL_DEFINE(faccessat, int dfd, const char __user *name, int mode)
{
	return sys_faccessat2(dfd, name, mode, 0);
}

SYSCALL_DEFINE(access, const char __user *name, int mode)
{
	return sys_faccessat2(AT_FDCWD, name, mode, 0);
}
