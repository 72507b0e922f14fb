/* ioctl(2): the commands that are the same for every file, then the file's own. */
#include "fs/internal.h"
#include "kernel/syscall.h"
#include "mm/uaccess.h"

#define FIOCLEX		0x5451u
#define FIONCLEX	0x5450u
#define FIONBIO		0x5421u
#define FIOASYNC	0x5452u
#define FIONREAD	0x541bu
#define FIOQSIZE	0x5460u
#define FIGETBSZ	2u

static long set_nonblock(struct file *f, int __user *uarg)
{
	int on;

	if (get_user(on, uarg))
		return -EFAULT;
	if (on)
		__atomic_fetch_or(&f->flags, O_NONBLOCK, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&f->flags, ~(u32)O_NONBLOCK, __ATOMIC_RELAXED);
	return 0;
}

/* Files and directories; everything else answers for itself. */
static long inode_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	struct inode *inode = f->inode;

	switch (cmd) {
	case FIGETBSZ:
		return put_user((int)inode->sb->block_size, (int __user *)arg);
	case FIOQSIZE:
		return put_user((s64)READ_ONCE(inode->size), (s64 __user *)arg);
	case FIONREAD:
		if (S_ISREG(inode->mode))
			return put_user((int)((loff_t)READ_ONCE(inode->size) - READ_ONCE(f->pos)), (int __user *)arg);
	}
	return -ENOTTY;
}

static long do_ioctl(int fd, struct file *f, unsigned int cmd, unsigned long arg)
{
	long ret = -ENOTTY;
	int on;

	switch (cmd) {
	case FIOCLEX:
	case FIONCLEX:
		return fd_set_cloexec(fd, cmd == FIOCLEX);
	case FIONBIO:
		return set_nonblock(f, (int __user *)arg);
	case FIOASYNC:
		/* No file here can signal; turning it off is always true. */
		if (get_user(on, (int __user *)arg))
			return -EFAULT;
		return on ? -ENOTTY : 0;
	}
	if (f->ops->ioctl)
		ret = f->ops->ioctl(f, cmd, arg);
	if (ret == -ENOTTY && (S_ISREG(f->inode->mode) || S_ISDIR(f->inode->mode)))
		ret = inode_ioctl(f, cmd, arg);
	return ret;
}

SYSCALL_DEFINE(ioctl, int fd, unsigned int cmd, unsigned long arg)
{
	struct fd_ref r = fdget(fd);

	if (!r.file)
		return -EBADF;
	long ret = do_ioctl(fd, r.file, cmd, arg);

	fdput(r);
	return ret;
}
