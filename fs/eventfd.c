/* eventfd(2): a 64-bit counter as a file. Notifications of ports and interrupts are delivered through it too. */
#include "fs/eventfd.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define EFD_SEMAPHORE	1
#define EVENTFD_MAX	(~0ul - 1)	/* the largest value it can hold: ~0 - 1 */

struct eventfd {
	struct wait_queue	 wait;
	u64			 count;		/* wait.lock */
	bool			 semaphore;	/* constant */
};

static const struct file_ops eventfd_fops;

/* Takes the value if there is one. */
static bool eventfd_take(struct eventfd *e, u64 *value)
{
	unsigned long flags = spin_lock_irqsave(&e->wait.lock);
	bool ok = e->count > 0;

	*value = e->semaphore && ok ? 1 : e->count;
	e->count -= *value;
	spin_unlock_irqrestore(&e->wait.lock, flags);
	return ok;
}

static bool eventfd_add(struct eventfd *e, u64 value)
{
	unsigned long flags = spin_lock_irqsave(&e->wait.lock);
	bool ok = EVENTFD_MAX - e->count >= value;

	if (ok)
		e->count += value;
	spin_unlock_irqrestore(&e->wait.lock, flags);
	return ok;
}

static ssize_t eventfd_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct eventfd *e = f->private;
	u64 value;

	(void)pos;
	if (to->count < sizeof(value))
		return -EINVAL;
	while (!eventfd_take(e, &value)) {
		if (READ_ONCE(f->flags) & O_NONBLOCK)
			return -EAGAIN;
		int ret = wait_event_interruptible(&e->wait, READ_ONCE(e->count) > 0);

		if (ret)
			return ret;
	}
	wake_up_poll(&e->wait, POLLOUT | POLLWRNORM);
	return copy_to_iter(&value, sizeof(value), to) == sizeof(value) ? (ssize_t)sizeof(value) : -EFAULT;
}

static ssize_t eventfd_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	struct eventfd *e = f->private;
	u64 value;

	(void)pos;
	if (from->count < sizeof(value))
		return -EINVAL;
	if (copy_from_iter(&value, sizeof(value), from) != sizeof(value))
		return -EFAULT;
	if (value == ~0ul)
		return -EINVAL;
	while (!eventfd_add(e, value)) {
		if (READ_ONCE(f->flags) & O_NONBLOCK)
			return -EAGAIN;
		int ret = wait_event_interruptible(&e->wait, EVENTFD_MAX - READ_ONCE(e->count) >= value);

		if (ret)
			return ret;
	}
	if (value)
		wake_up_poll(&e->wait, POLLIN | POLLRDNORM);
	return sizeof(value);
}

static u32 eventfd_poll(struct file *f, struct poll_table *pt)
{
	struct eventfd *e = f->private;
	u32 bits = 0;

	poll_wait(f, &e->wait, pt);
	u64 count = READ_ONCE(e->count);
	if (count > 0)
		bits |= POLLIN | POLLRDNORM;
	if (count == ~0ul)
		bits |= POLLERR;
	if (count < EVENTFD_MAX)
		bits |= POLLOUT | POLLWRNORM;
	return bits;
}

static size_t eventfd_fdinfo(struct file *f, char *buf, size_t size)
{
	struct eventfd *e = f->private;

	return (size_t)scnprintf(buf, size, "eventfd-count: %16lx\n", READ_ONCE(e->count));
}

static void eventfd_release(struct file *f)
{
	kfree(f->private);
}

static const struct file_ops eventfd_fops = {
	.read = eventfd_read,
	.write = eventfd_write,
	.poll = eventfd_poll,
	.fdinfo = eventfd_fdinfo,
	.release = eventfd_release,
};

bool file_is_eventfd(const struct file *f)
{
	return f->ops == &eventfd_fops;
}

void eventfd_signal(struct file *f, u64 n)
{
	struct eventfd *e = f->private;

	if (!eventfd_add(e, n)) {
		unsigned long flags = spin_lock_irqsave(&e->wait.lock);

		e->count = ~0ul;	/* overflow: poll reports POLLERR */
		spin_unlock_irqrestore(&e->wait.lock, flags);
	}
	wake_up_poll(&e->wait, POLLIN | POLLRDNORM);
}

SYSCALL_DEFINE(eventfd2, unsigned int initial, int flags)
{
	if (flags & ~(EFD_SEMAPHORE | O_CLOEXEC | O_NONBLOCK))
		return -EINVAL;
	struct eventfd *e = kzalloc(sizeof(*e), GFP_KERNEL);

	if (!e)
		return -ENOMEM;
	wait_queue_init(&e->wait);
	e->count = initial;
	e->semaphore = flags & EFD_SEMAPHORE;

	int fd = anon_fd_create("[eventfd]", &eventfd_fops, e, O_RDWR | (flags & (O_NONBLOCK | O_CLOEXEC)));
	if (fd < 0)
		kfree(e);
	return fd;
}

SYSCALL_DEFINE(eventfd, unsigned int initial)
{
	return sys_eventfd2(initial, 0);
}
