/*
 * The userfaultfd descriptor: made, asked for its features, read, polled, closed.
 *
 *	userfaultfd(2), /dev/userfaultfd	a context bound to the mm of the caller, for ever (F2)
 *	UFFDIO_API				once, before all else: which features
 *	the other ioctls			a table of functions, one for each, in the files that mm/uffd.h lists
 *	read(2)					faults first, then events, each oldest first (F6)
 *	the last close				nobody is registered any more, nobody waits any more (F8)
 *
 * The rule that is easy to break: a fault that was read is still waiting. It moves from the list of pending faults to that
 * of read ones under one lock, which is the lock of those who wake too: they find it in one or the other, never in
 * neither (R27).
 */
#include "mm/uffd_internal.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/lock_stat.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/race.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/mm.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define MISC_MAJOR		10
#define USERFAULTFD_MINOR	126
/* What fcntl() sees of the flags; both numbers are those of open(2). */
#define UFFD_FILE_FLAGS		(O_CLOEXEC | O_NONBLOCK)

u32 sysctl_unprivileged_userfaultfd;

static struct kmem_cache *uffd_cache;
static const struct file_ops uffd_fops;

static struct file *new_file(struct uffd *ctx);

/* -- making one -- */

struct uffd *uffd_alloc(struct mm *mm, u32 flags, u64 features)
{
	struct uffd *ctx = kmem_cache_alloc(uffd_cache, GFP_KERNEL | GFP_ZERO);

	if (!ctx)
		return NULL;
	refcount_set(&ctx->refs, 1);
	ctx->flags = flags;
	ctx->features = features;
	ctx->mm = mm;
	mm_grab(mm);
	rwsem_init(&ctx->map_changing, LOCK_UFFD_MAP_CHANGING);
	spin_lock_init(&ctx->lock, LOCK_UFFD_EVENTS);
	INIT_LIST_HEAD(&ctx->pending);
	INIT_LIST_HEAD(&ctx->read);
	INIT_LIST_HEAD(&ctx->events);
	INIT_LIST_HEAD(&ctx->taken);
	wait_queue_init(&ctx->fd_wait);
	return ctx;
}

void uffd_put(struct uffd *ctx)
{
	if (!refcount_dec_and_test(&ctx->refs))
		return;
	BUG_ON(!list_empty(&ctx->pending) || !list_empty(&ctx->read) || !list_empty(&ctx->events) || !list_empty(&ctx->taken));
	mm_drop(ctx->mm);
	kmem_cache_free(uffd_cache, ctx);
}

static long new_descriptor(u32 flags)
{
	struct uffd *ctx;
	struct file *f;
	int fd;

	if (flags & ~(u32)(UFFD_FILE_FLAGS | UFFD_USER_MODE_ONLY))
		return -EINVAL;
	ctx = uffd_alloc(current->mm, flags, 0);
	if (!ctx)
		return -ENOMEM;
	fd = fd_reserve(flags & O_CLOEXEC);
	if (fd < 0) {
		uffd_put(ctx);
		return fd;
	}
	f = new_file(ctx);
	if (IS_ERR(f)) {
		fd_release(fd);
		uffd_put(ctx);
		return PTR_ERR(f);
	}
	fd_install(fd, f);
	return fd;
}

/* F1. A manager that can hold up the kernel in the middle of a system call needs a privilege, or the owner's leave. */
SYSCALL_DEFINE(userfaultfd, int flags)
{
	if (!(flags & UFFD_USER_MODE_ONLY) && !READ_ONCE(sysctl_unprivileged_userfaultfd) && !capable(CAP_SYS_PTRACE))
		return -EPERM;
	return new_descriptor((u32)flags);
}

/* Who could open the device has that leave. */
static long device_ioctl(struct file *f, unsigned int cmd, unsigned long flags)
{
	(void)f;
	if (cmd != USERFAULTFD_IOC_NEW)
		return -EINVAL;
	return new_descriptor((u32)flags);
}

static const struct file_ops device_fops = { .ioctl = device_ioctl };

void uffd_init(void)
{
	uffd_cache = kmem_cache_create("userfaultfd", sizeof(struct uffd), 64);
	uffd_locking_init();
	if (dev_register("userfaultfd", 0600, MKDEV(MISC_MAJOR, USERFAULTFD_MINOR), &device_fops, NULL))
		pr_err("userfaultfd: no memory for /dev/userfaultfd\n");
}

/* -- UFFDIO_API -- */

struct uffdio_api { u64 api, features, ioctls; };

static long refuse_api(void __user *arg, long err)
{
	struct uffdio_api nothing = { 0 };

	return copy_out(arg, &nothing, sizeof(nothing)) ? -EFAULT : err;
}

/* F4. Which features exist is told before it is known whether this call is the one that counts, as on Linux. */
static long uffd_api(struct uffd *ctx, void __user *arg)
{
	struct uffdio_api req;
	u64 features, unset = 0;

	if (copy_in(&req, arg, sizeof(req)))
		return -EFAULT;
	if (req.api != UFFD_API)
		return refuse_api(arg, -EINVAL);
	features = req.features;
	if ((features & UFFD_FEATURE_EVENT_FORK) && !capable(CAP_SYS_PTRACE))
		return refuse_api(arg, -EPERM);
	if (features & UFFD_FEATURE_WP_ASYNC)
		features |= UFFD_FEATURE_WP_UNPOPULATED;
	if (features & ~UFFD_API_FEATURES)
		return refuse_api(arg, -EINVAL);
	req.features = UFFD_API_FEATURES;
	req.ioctls = UFFD_API_IOCTLS;
	if (copy_out(arg, &req, sizeof(req)))
		return -EFAULT;
	if (!__atomic_compare_exchange_n(&ctx->features, &unset, features | UFFD_INITIALIZED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return refuse_api(arg, -EINVAL);
	return 0;
}

/* -- ioctls -- */

static const struct uffd_command {
	u32	cmd;
	long	(*run)(struct uffd *ctx, void __user *arg);
} commands[] = {			/* by the low byte */
	{ UFFDIO_REGISTER,	uffd_register },
	{ UFFDIO_UNREGISTER,	uffd_unregister },
	{ UFFDIO_WAKE,		uffd_wake },
	{ UFFDIO_COPY,		uffd_copy },
	{ UFFDIO_ZEROPAGE,	uffd_zeropage },
	{ UFFDIO_MOVE,		uffd_move },
	{ UFFDIO_WRITEPROTECT,	uffd_writeprotect },
	{ UFFDIO_CONTINUE,	uffd_continue },
	{ UFFDIO_POISON,	uffd_poison },
};

static long uffd_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	struct uffd *ctx = f->private;
	unsigned int nr = cmd & 0xff;
	u8 old;
	long ret;

	if (cmd == UFFDIO_API)
		return uffd_api(ctx, (void __user *)arg);
	if (!uffd_features(ctx) || nr >= ARRAY_SIZE(commands) || commands[nr].cmd != cmd)
		return -EINVAL;
	old = current->lock_caller;		/* lock_stat_enter(), without the call */
	current->lock_caller = LOCK_CALLER_UFFD;
	ret = commands[nr].run(ctx, (void __user *)arg);
	current->lock_caller = old;
	return ret;
}

long uffd_report(struct uffd *ctx, s64 done, u64 len, uintptr_t start, bool wake, s64 __user *out)
{
	/* Before anything here can fail: what is in is in, and who waits for it must not pay for the manager's bad pointer. */
	if (done > 0 && wake)
		uffd_wake_range(ctx, start, start + (u64)done);
	if (put_user(done, out))
		return -EFAULT;
	if (done < 0)
		return done;
	return (u64)done == len ? 0 : -EAGAIN;
}

/* -- reading -- */

/* No lock: a hint for those who go to sleep, who have queued themselves before. */
static bool has_message(const struct uffd *ctx)
{
	return !list_empty(&ctx->pending) || !list_empty(&ctx->events);
}

static bool take_message(struct uffd *ctx, struct uffd_msg *msg, struct uffd_fork_reader *fork)
{
	bool taken = true;

	spin_lock(&ctx->lock);
	if (!list_empty(&ctx->pending)) {
		struct uffd_waiter *w = list_first_entry(&ctx->pending, struct uffd_waiter, node);

		*msg = w->msg;
		list_del(&w->node);
		list_add_tail(&w->node, &ctx->read);
	} else {
		taken = uffd_event_take(ctx, msg, fork);
	}
	spin_unlock(&ctx->lock);
	return taken;
}

/*
 * F47. The child's context becomes a descriptor of the reader. The sender, in fork, waits until it exists, and is told
 * before the message is copied out: from then on an error concerns the reader alone, and closes the descriptor again.
 */
static int read_fork(struct uffd *ctx, struct uffd_msg *msg, struct uffd_fork_reader *fork, struct iov_iter *to)
{
	struct uffd *child = fork->child;
	int fd = fd_reserve(child->flags & O_CLOEXEC);
	struct file *f = fd < 0 ? ERR_PTR(fd) : new_file(child);

	race_window("uffd_fork_file_made");
	uffd_fork_answer(ctx, fork, !IS_ERR(f));
	if (IS_ERR(f)) {
		if (fd >= 0)
			fd_release(fd);
		uffd_put(child);
		return (int)PTR_ERR(f);
	}
	msg->fork.ufd = (u32)fd;
	if (copy_to_iter(msg, sizeof(*msg), to) != sizeof(*msg)) {
		fd_release(fd);
		file_put(f);
		return -EFAULT;
	}
	fd_install(fd, f);
	return 0;
}

/* One message to user space. 0 or -errno; after -EFAULT it is lost, but its fault is still known (F6). */
static int read_message(struct uffd *ctx, bool nonblock, struct iov_iter *to)
{
	struct uffd_fork_reader fork = { 0 };
	struct uffd_msg msg;

	while (!take_message(ctx, &msg, &fork)) {
		int err = nonblock ? -EAGAIN : wait_event_interruptible_exclusive(&ctx->fd_wait, has_message(ctx));

		if (err)
			return err;
	}
	race_window("uffd_message_taken");
	if (unlikely(fork.child))
		return read_fork(ctx, &msg, &fork, to);
	return copy_to_iter(&msg, sizeof(msg), to) == sizeof(msg) ? 0 : -EFAULT;
}

/* F6. As many whole messages as there are and fit; only the first is waited for. */
static ssize_t uffd_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct uffd *ctx = f->private;
	bool nonblock = READ_ONCE(f->flags) & O_NONBLOCK;
	ssize_t done = 0;

	(void)pos;
	if (!uffd_features(ctx))
		return -EINVAL;
	do {
		int err = to->count < sizeof(struct uffd_msg) ? -EINVAL : read_message(ctx, nonblock || done, to);

		if (err)
			return done ? done : err;
		done += (ssize_t)sizeof(struct uffd_msg);
	} while (to->count >= sizeof(struct uffd_msg));
	return done;
}

/* F5. A blocking descriptor is no use to who polls: between poll and read the fault may have been served by another. */
static u32 uffd_poll(struct file *f, struct poll_table *pt)
{
	struct uffd *ctx = f->private;

	poll_wait(f, &ctx->fd_wait, pt);
	if (!uffd_features(ctx) || !(READ_ONCE(f->flags) & O_NONBLOCK))
		return POLLERR;
	return has_message(ctx) ? POLLIN : 0;
}

static size_t uffd_fdinfo(struct file *f, char *buf, size_t size)
{
	struct uffd *ctx = f->private;
	const struct uffd_waiter *w;
	u64 pending = 0, total;

	spin_lock(&ctx->lock);
	list_for_each_entry(w, &ctx->pending, node)
		pending++;
	total = ctx->nr_waiters;
	spin_unlock(&ctx->lock);
	return (size_t)scnprintf(buf, size, "pending:\t%lu\ntotal:\t%lu\nAPI:\t%lx:%lx:%lx\n", pending, total, UFFD_API,
				 uffd_features(ctx), UFFD_API_IOCTLS | UFFD_RANGE_IOCTLS);
}

/* -- the end -- */

/*
 * F8. No lock held, sleeps. First `released`: from here on nobody begins to wait. Faults of VMAs that are still registered
 * are told to try again, with their lock dropped (R35), so that mmap_lock can be had here. Then the VMAs; then whoever had begun
 * to wait before.
 */
static void uffd_release(struct file *f)
{
	struct uffd *ctx = f->private;

	spin_lock(&ctx->lock);
	WRITE_ONCE(ctx->released, true);
	uffd_events_wake(ctx);
	spin_unlock(&ctx->lock);
	race_window("uffd_released");
	uffd_unregister_all(ctx);
	uffd_wake_all(ctx);
	uffd_put(ctx);
}

/* There is no offset, yet asking for one is no error. */
static loff_t uffd_llseek(struct file *f, loff_t off, int whence)
{
	(void)f, (void)off, (void)whence;
	return 0;
}

static const struct file_ops uffd_fops = {
	.read = uffd_read,
	.llseek = uffd_llseek,
	.ioctl = uffd_ioctl,
	.poll = uffd_poll,
	.fdinfo = uffd_fdinfo,
	.release = uffd_release,
};

/* Takes over the caller's reference to @ctx, unless it fails. ERR_PTR. */
static struct file *new_file(struct uffd *ctx)
{
	struct file *f = anon_file_create("[userfaultfd]", &uffd_fops, ctx, O_RDONLY | (int)(ctx->flags & O_NONBLOCK));

	if (!IS_ERR(f))
		f->mode = (f->mode & ~FMODE_LSEEK) | FMODE_STREAM;	/* readers wait beside each other, not for an offset */
	return f;
}
