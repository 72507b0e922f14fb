/* fcntl(2): one small function or line per command. */
#include "fs/internal.h"
#include "fs/pipe.h"
#include "kernel/syscall.h"
#include "mm/uaccess.h"

enum {
	F_DUPFD = 0, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_SETOWN, F_GETOWN, F_SETSIG, F_GETSIG,
	F_SETOWN_EX = 15, F_GETOWN_EX, F_OFD_GETLK = 36, F_OFD_SETLK, F_OFD_SETLKW,
	F_SETLEASE = 1024, F_GETLEASE, F_NOTIFY, F_DUPFD_QUERY, F_DUPFD_CLOEXEC = 1030, F_SETPIPE_SZ, F_GETPIPE_SZ,
	F_ADD_SEALS, F_GET_SEALS,
};
#define FD_CLOEXEC	1
#define F_UNLCK		2
#define F_OWNER_PID	1
#define F_OWNER_PGRP	2
#define SETFL_MASK	(O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME)

struct f_owner_ex { int type, pid; };	/* user ABI */

static long dup_from(struct file *f, unsigned long min, unsigned int flags)
{
	if (min >= rlimit_cur(RLIMIT_NOFILE) || min > INT32_MAX)
		return -EINVAL;
	int fd = fd_reserve_from((int)min, flags);

	if (fd >= 0) {
		file_get(f);
		fd_install(fd, f);
	}
	return fd;
}

/* O_ASYNC is ignored, as Linux does for files that cannot signal: none here can. */
static long set_flags(struct file *f, unsigned long arg)
{
	u32 old = __atomic_load_n(&f->flags, __ATOMIC_RELAXED), new;

	if ((arg & O_NOATIME) && !(old & O_NOATIME) && !inode_owner_or_capable(f->inode))
		return -EPERM;
	if ((arg & O_DIRECT) && f->ops && f->ops->no_direct_io)
		return -EINVAL;
	do
		new = (old & ~(u32)SETFL_MASK) | ((u32)arg & SETFL_MASK);
	while (!__atomic_compare_exchange_n(&f->flags, &old, new, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return 0;
}

static long set_owner_ex(struct file *f, const struct f_owner_ex __user *u)
{
	struct f_owner_ex o;

	if (copy_in(&o, u, sizeof(o)))
		return -EFAULT;
	if (o.type < 0 || o.type > F_OWNER_PGRP)
		return -EINVAL;
	WRITE_ONCE(f->owner_pid, o.type == F_OWNER_PGRP ? -o.pid : o.pid);
	return 0;
}

static long get_owner_ex(struct file *f, struct f_owner_ex __user *u)
{
	int pid = READ_ONCE(f->owner_pid);
	struct f_owner_ex o = { pid < 0 ? F_OWNER_PGRP : F_OWNER_PID, pid < 0 ? -pid : pid };

	return copy_out(u, &o, sizeof(o));
}

static bool allowed_on_o_path(unsigned int cmd)
{
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC || cmd == F_DUPFD_QUERY || cmd == F_GETFD || cmd == F_SETFD || cmd == F_GETFL;
}

static long is_same_file(struct file *f, int fd)
{
	struct fd_ref r = fdget_raw(fd);

	if (!r.file)
		return -EBADF;
	bool same = r.file == f;

	fdput(r);
	return same;
}

static long do_fcntl(int fd, struct file *f, unsigned int cmd, unsigned long arg)
{
	void __user *uarg = (void __user *)arg;

	switch (cmd) {
	case F_DUPFD:
		return dup_from(f, arg, 0);
	case F_DUPFD_CLOEXEC:
		return dup_from(f, arg, O_CLOEXEC);
	case F_DUPFD_QUERY:
		return is_same_file(f, (int)arg);
	case F_GETFD:
		return fd_is_cloexec(current->files, fd) ? FD_CLOEXEC : 0;
	case F_SETFD:
		return fd_set_cloexec(fd, arg & FD_CLOEXEC);
	case F_GETFL:
		return READ_ONCE(f->flags);
	case F_SETFL:
		return set_flags(f, arg);
	case F_GETLK:
		return fcntl_getlk(f, uarg, false);
	case F_OFD_GETLK:
		return fcntl_getlk(f, uarg, true);
	case F_SETLK:
	case F_SETLKW:
		return fcntl_setlk(fd, f, uarg, cmd == F_SETLKW, false);
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		return fcntl_setlk(fd, f, uarg, cmd == F_OFD_SETLKW, true);
	case F_SETOWN:
		WRITE_ONCE(f->owner_pid, (int)arg);
		return 0;
	case F_GETOWN:
		return READ_ONCE(f->owner_pid);
	case F_SETSIG:
		if (arg > NSIG)
			return -EINVAL;
		WRITE_ONCE(f->owner_sig, (int)arg);
		return 0;
	case F_GETSIG:
		return READ_ONCE(f->owner_sig);
	case F_SETOWN_EX:
		return set_owner_ex(f, uarg);
	case F_GETOWN_EX:
		return get_owner_ex(f, uarg);
	case F_GETLEASE:
		return F_UNLCK;
	case F_SETPIPE_SZ:
		return pipe_set_size(f, arg);
	case F_GETPIPE_SZ:
		return pipe_get_size(f);
	case F_ADD_SEALS:
		return memfd_add_seals(f, (unsigned int)arg);
	case F_GET_SEALS:
		return memfd_get_seals(f);
	default:
		return -EINVAL;		/* leases and directory notification among them */
	}
}

SYSCALL_DEFINE(fcntl, int fd, unsigned int cmd, unsigned long arg)
{
	/* Locks are undone when the descriptor is closed meanwhile, so the file is counted here whoever shares the table. */
	struct file *f = fd_get_raw(fd);
	long ret = -EBADF;

	if (!f)
		return -EBADF;
	if (!(f->mode & FMODE_PATH) || allowed_on_o_path(cmd))
		ret = do_fcntl(fd, f, cmd, arg);
	file_put(f);
	return ret;
}
