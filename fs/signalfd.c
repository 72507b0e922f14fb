/* signalfd(2): takes pending signals of the reader out of a mask. */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

struct signalfd { sigset_t mask; };	/* one word, replaced whole by signalfd4 on an existing descriptor */

struct signalfd_siginfo {		/* user ABI, 128 bytes */
	u32 signo;
	s32 errno_, code;
	u32 pid, uid;
	s32 fd;
	u32 tid, band, overrun, trapno;
	s32 status, int_;
	u64 ptr, utime, stime, addr;
	u16 addr_lsb, pad2;
	s32 syscall;
	u64 call_addr;
	u32 arch;
	u8 pad[28];
};
_Static_assert(sizeof(struct signalfd_siginfo) == 128, "user ABI");

static struct signalfd_siginfo to_user_form(const struct siginfo *i)
{
	struct signalfd_siginfo s = { .signo = (u32)i->si_signo, .errno_ = i->si_errno, .code = i->si_code };

	switch (i->si_signo) {
	case SIGCHLD:
		s.pid = (u32)i->chld.pid;
		s.uid = i->chld.uid;
		s.status = i->chld.status;
		s.utime = (u64)i->chld.utime;
		s.stime = (u64)i->chld.stime;
		break;
	case SIGSEGV: case SIGBUS: case SIGFPE: case SIGILL: case SIGTRAP:
		s.addr = i->fault.addr;
		s.addr_lsb = (u16)i->fault.addr_lsb;
		break;
	default:
		if (i->si_code == SI_TIMER) {
			s.tid = (u32)i->timer.tid;
			s.overrun = (u32)i->timer.overrun;
			s.ptr = i->timer.value;
			s.int_ = (s32)i->timer.value;
		} else {
			s.pid = (u32)i->rt.pid;
			s.uid = i->rt.uid;
			s.ptr = i->rt.value;
			s.int_ = (s32)i->rt.value;
		}
	}
	return s;
}

static bool take_signal(struct signalfd *sf, struct siginfo *info)
{
	struct sighand *sh = current->process->sighand;
	unsigned long flags = spin_lock_irqsave(&sh->lock);
	int sig = dequeue_signal_locked(current, READ_ONCE(sf->mask), info);

	spin_unlock_irqrestore(&sh->lock, flags);
	return sig > 0;
}

static bool signal_waiting(struct signalfd *sf)
{
	sigset_t set = READ_ONCE(current->pending.set) | READ_ONCE(current->process->pending.set);

	return set & READ_ONCE(sf->mask);
}

static ssize_t signalfd_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct signalfd *sf = f->private;
	struct siginfo info;
	ssize_t done = 0;

	(void)pos;
	if (to->count < sizeof(struct signalfd_siginfo))
		return -EINVAL;
	while (to->count >= sizeof(struct signalfd_siginfo)) {
		if (!take_signal(sf, &info)) {
			if (done)
				break;
			if (READ_ONCE(f->flags) & O_NONBLOCK)
				return -EAGAIN;
			int ret = wait_event_interruptible(&current->process->sighand->signalfd_wait, signal_waiting(sf));

			if (ret)
				return ret;
			continue;
		}
		struct signalfd_siginfo s = to_user_form(&info);

		if (copy_to_iter(&s, sizeof(s), to) != sizeof(s))
			return done ? done : -EFAULT;
		done += (ssize_t)sizeof(s);
	}
	return done;
}

static u32 signalfd_poll(struct file *f, struct poll_table *pt)
{
	poll_wait(f, &current->process->sighand->signalfd_wait, pt);
	return signal_waiting(f->private) ? POLLIN | POLLRDNORM : 0;
}

static void signalfd_release(struct file *f)
{
	kfree(f->private);
}

static const struct file_ops signalfd_fops = {
	.read = signalfd_read,
	.poll = signalfd_poll,
	.release = signalfd_release,
};

static long signalfd_change(int fd, sigset_t mask)
{
	struct file *f = fd_get(fd);

	if (!f)
		return -EBADF;
	long ret = -EINVAL;

	if (f->ops == &signalfd_fops) {
		WRITE_ONCE(((struct signalfd *)f->private)->mask, mask);
		wake_up_all(&current->process->sighand->signalfd_wait);
		ret = fd;
	}
	file_put(f);
	return ret;
}

SYSCALL_DEFINE(signalfd4, int ufd, const sigset_t __user *umask, size_t size, int flags)
{
	sigset_t mask;

	if (flags & ~(O_CLOEXEC | O_NONBLOCK) || size != sizeof(mask))
		return -EINVAL;
	if (copy_in(&mask, umask, sizeof(mask)))
		return -EFAULT;
	mask &= ~(sigmask(SIGKILL) | sigmask(SIGSTOP));
	if (ufd != -1)
		return signalfd_change(ufd, mask);

	struct signalfd *sf = kmalloc(sizeof(*sf), GFP_KERNEL);
	if (!sf)
		return -ENOMEM;
	sf->mask = mask;

	int fd = anon_fd_create("[signalfd]", &signalfd_fops, sf, O_RDONLY | (flags & (O_NONBLOCK | O_CLOEXEC)));
	if (fd < 0)
		kfree(sf);
	return fd;
}

SYSCALL_DEFINE(signalfd, int ufd, const sigset_t __user *umask, size_t size)
{
	return sys_signalfd4(ufd, umask, size, 0);
}
