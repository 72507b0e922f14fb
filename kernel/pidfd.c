/*
 * Descriptors that name a process: unlike a number they never come to mean another one. The file holds a reference to
 * the structure, which outlives the process; poll says readable once it is a zombie.
 */
#include "kernel/pidfd.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/syscall.h"
#include "mm/uaccess.h"

static u32 pidfd_poll(struct file *f, struct poll_table *pt)
{
	struct process *p = f->private;

	poll_wait(f, &p->exit_wait, pt);
	return READ_ONCE(p->zombie) ? POLLIN | POLLRDNORM : 0;
}

static void pidfd_release(struct file *f) { process_put(f->private); }

static size_t pidfd_fdinfo(struct file *f, char *buf, size_t size)
{
	struct process *p = f->private;
	int pid = READ_ONCE(p->leader) ? p->tgid : -1;	/* -1: reaped */

	return (size_t)scnprintf(buf, size, "Pid:\t%d\nNSpid:\t%d\n", pid, pid);
}

static const struct file_ops pidfd_ops = {
	.poll = pidfd_poll,
	.release = pidfd_release,
	.fdinfo = pidfd_fdinfo,
};

int pidfd_create(struct process *p, unsigned int flags, struct file **filp)
{
	int fd = fd_reserve(O_CLOEXEC);

	if (fd < 0)
		return fd;
	process_get(p);
	*filp = anon_file_create("[pidfd]", &pidfd_ops, p, (int)(O_RDWR | flags));
	if (IS_ERR(*filp)) {
		process_put(p);
		fd_release(fd);
		return (int)PTR_ERR(*filp);
	}
	return fd;
}

struct process *pidfd_process_get(int fd)
{
	struct file *f = fd_get(fd);
	struct process *p = ERR_PTR(-EBADF);

	if (f && f->ops == &pidfd_ops) {
		p = f->private;
		process_get(p);
	}
	if (f)
		file_put(f);
	return p;
}

SYSCALL_DEFINE(pidfd_open, int pid, unsigned int flags)
{
	struct file *file;

	if (flags & ~PIDFD_NONBLOCK || pid <= 0)
		return -EINVAL;
	struct process *p = find_process_get(pid);

	if (!p) {
		struct task *t = find_task_get(pid);

		if (!t)
			return -ESRCH;
		task_put(t);
		return -EINVAL;			/* a thread that leads no process */
	}
	int fd = pidfd_create(p, flags, &file);

	process_put(p);
	if (fd >= 0)
		fd_install(fd, file);
	return fd;
}

SYSCALL_DEFINE(pidfd_send_signal, int fd, int sig, const struct siginfo __user *uinfo, unsigned int flags)
{
	struct siginfo info = { .si_signo = sig, .si_code = SI_USER };
	long ret;

	if (flags)
		return -EINVAL;
	struct process *p = pidfd_process_get(fd);

	if (IS_ERR(p))
		return PTR_ERR(p);
	info.chld.pid = current->process->tgid;
	info.chld.uid = current->process->creds.uid;
	if (uinfo) {
		ret = -EFAULT;
		if (copy_in(&info, uinfo, sizeof(info)))
			goto out;
		ret = -EINVAL;
		if (info.si_signo != sig)
			goto out;
		ret = -EPERM;			/* pretending to be the kernel, to others */
		if (p != current->process && (info.si_code >= 0 || info.si_code == SI_TKILL))
			goto out;
	}
	if (!READ_ONCE(p->leader))
		ret = -ESRCH;
	else if (sig < 0 || sig > NSIG)
		ret = -EINVAL;
	else if (!may_signal(p, sig))
		ret = -EPERM;
	else
		ret = sig ? send_signal_process(p, sig, &info) : 0;
out:
	process_put(p);
	return ret;
}

SYSCALL_DEFINE(pidfd_getfd, int pidfd, int fd, unsigned int flags)
{
	if (flags)
		return -EINVAL;
	struct process *p = pidfd_process_get(pidfd);

	if (IS_ERR(p))
		return PTR_ERR(p);
	long ret = may_ptrace(p) ? -ESRCH : -EPERM;
	struct task *t = ret == -ESRCH ? next_thread_get(p, 0) : NULL;
	struct files *files = t ? task_files_get(t) : NULL;

	if (files) {
		struct file *file = files_fd_get(files, fd);

		ret = file ? fd_reserve(O_CLOEXEC) : -EBADF;
		if (ret >= 0)
			fd_install((int)ret, file);
		else if (file)
			file_put(file);
		files_put(files);
	}
	if (t)
		task_put(t);
	process_put(p);
	return ret;
}
