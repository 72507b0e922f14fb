/*
 * process_vm_readv, process_vm_writev: copies between this process and another, page by page through pins. The local
 * side is an ordinary user copy and may fault; the remote side is never touched through a translation.
 *
 * Result: bytes copied if there were any, else the error. So a fault in the middle shows as a short count (A35).
 */
#include "kernel/errno.h"
#include "kernel/process.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/gup.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define UIO_MAXIOV	1024u
#define PIN_BATCH	16u

/* The counted mm of @pid: ERR_PTR(-ESRCH), ERR_PTR(-EPERM). */
static struct mm *get_remote_mm(int pid)
{
	struct task *t = find_task_get(pid);
	struct mm *mm;

	if (!t)
		return ERR_PTR(-ESRCH);
	mm = task_mm_get(t);
	if (!mm) {
		mm = ERR_PTR(-ESRCH);
	} else if (!may_ptrace(t->process)) {
		mm_put(mm);
		mm = ERR_PTR(-EPERM);
	}
	task_put(t);
	return mm;
}

/* One remote segment, as far as the local side reaches. 0 or -errno; *done counts the bytes. */
static int copy_segment(struct mm *mm, const struct iovec *remote, struct iov_iter *local, bool write, ssize_t *done)
{
	unsigned int foll = FOLL_PIN | FOLL_REMOTE | (write ? FOLL_WRITE : 0);
	uintptr_t addr = (uintptr_t)remote->base;
	size_t left = min(remote->len, local->count);
	struct page *pages[PIN_BATCH];

	while (left) {
		size_t off = addr & ~PAGE_MASK;
		unsigned long nr = min((off + min(left, (size_t)PIN_BATCH << PAGE_SHIFT) + PAGE_SIZE - 1) >> PAGE_SHIFT, (unsigned long)PIN_BATCH);
		long got = get_user_pages(mm, addr, nr, foll, pages);
		int err = 0;

		if (got <= 0)
			return -EFAULT;		/* poison too: only the caller's own memory has more to say */
		for (long i = 0; i < got; i++) {
			size_t n = min(PAGE_SIZE - off, left);

			if (!err) {
				char *p = (char *)page_to_virt(pages[i]) + off;
				size_t copied = write ? copy_from_iter(p, n, local) : copy_to_iter(p, n, local);

				*done += (ssize_t)copied;
				addr += copied;
				left -= copied;
				off = 0;
				if (copied < n)
					err = -EFAULT;
			}
			put_user_page(pages[i], foll, write);
		}
		if (err)
			return err;
	}
	return 0;
}

/* The remote vector: its addresses are another process's, and are judged when they are used. */
static int import_remote(const struct iovec __user *uvec, unsigned long nr, struct iovec **out)
{
	struct iovec *v;

	if (nr > UIO_MAXIOV)
		return -EINVAL;
	v = kmalloc(max(nr, 1ul) * sizeof(*v), GFP_KERNEL);
	if (!v)
		return -ENOMEM;
	if (copy_in(v, uvec, nr * sizeof(*v))) {
		kfree(v);
		return -EFAULT;
	}
	for (unsigned long i = 0; i < nr; i++) {
		if ((ssize_t)v[i].len < 0) {
			kfree(v);
			return -EINVAL;
		}
	}
	*out = v;
	return 0;
}

static long process_vm_rw(int pid, const struct iovec __user *lvec, unsigned long nr_local,
			  const struct iovec __user *rvec, unsigned long nr_remote, unsigned long flags, bool write)
{
	struct iovec fast[8], *local_vec = NULL, *remote = NULL;
	struct iov_iter local;
	ssize_t total, done = 0;
	int err;

	if (flags)
		return -EINVAL;
	total = import_iovec(lvec, nr_local, &local_vec, fast, ARRAY_SIZE(fast));
	if (total < 0)
		return total;
	iov_iter_init(&local, local_vec, nr_local, (size_t)total);
	err = 0;
	if (!total)
		goto free_local;
	err = import_remote(rvec, nr_remote, &remote);
	if (err)
		goto free_local;

	size_t wanted = 0;
	for (unsigned long i = 0; i < nr_remote; i++)
		wanted |= remote[i].len;
	if (!wanted)
		goto free_remote;

	struct mm *mm = get_remote_mm(pid);
	if (IS_ERR(mm)) {
		err = (int)PTR_ERR(mm);
		goto free_remote;
	}
	for (unsigned long i = 0; i < nr_remote && local.count && !err; i++)
		err = copy_segment(mm, &remote[i], &local, write, &done);
	mm_put(mm);
free_remote:
	kfree(remote);
free_local:
	if (local_vec != fast)
		kfree(local_vec);
	return done ? done : err;
}

SYSCALL_DEFINE(process_vm_readv, int pid, const struct iovec __user *lvec, unsigned long nr_local,
	       const struct iovec __user *rvec, unsigned long nr_remote, unsigned long flags)
{
	return process_vm_rw(pid, lvec, nr_local, rvec, nr_remote, flags, false);
}

SYSCALL_DEFINE(process_vm_writev, int pid, const struct iovec __user *lvec, unsigned long nr_local,
	       const struct iovec __user *rvec, unsigned long nr_remote, unsigned long flags)
{
	return process_vm_rw(pid, lvec, nr_local, rvec, nr_remote, flags, true);
}
