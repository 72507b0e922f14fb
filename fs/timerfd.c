/* timerfd(2): a timer as a file; read gives the number of expirations since the last read. */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/timer.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define CLOCK_REALTIME		0
#define CLOCK_MONOTONIC		1
#define CLOCK_BOOTTIME		7
#define TFD_TIMER_ABSTIME	1
#define TFD_TIMER_CANCEL_ON_SET	2

struct itimerspec { struct timespec64 it_interval, it_value; };

/* All under wait.lock, which the timer interrupt takes too. */
struct timerfd {
	struct wait_queue	 wait;
	struct timer		 timer;
	u64			 expires;	/* ktime ns of the next expiration, 0: disarmed */
	u64			 interval;	/* ns, 0: one shot */
	u64			 ticks;		/* expirations not read yet */
	int			 clock;		/* constant */
};

static void timerfd_fire(struct timer *t)
{
	struct timerfd *tf = container_of(t, struct timerfd, timer);
	unsigned long flags = spin_lock_irqsave(&tf->wait.lock);
	u64 now = ktime_get_ns();
	bool fired = tf->expires && tf->expires <= now;

	if (fired) {
		u64 n = tf->interval ? 1 + (now - tf->expires) / tf->interval : 1;

		tf->ticks += n;
		tf->expires = tf->interval ? tf->expires + n * tf->interval : 0;
	}
	u64 next = tf->expires;
	spin_unlock_irqrestore(&tf->wait.lock, flags);
	if (next)
		timer_arm(t, next);
	if (fired)
		wake_up_poll(&tf->wait, POLLIN | POLLRDNORM);
}

static u64 take_ticks(struct timerfd *tf)
{
	unsigned long flags = spin_lock_irqsave(&tf->wait.lock);
	u64 n = tf->ticks;

	tf->ticks = 0;
	spin_unlock_irqrestore(&tf->wait.lock, flags);
	return n;
}

static ssize_t timerfd_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct timerfd *tf = f->private;
	u64 n;

	(void)pos;
	if (to->count < sizeof(n))
		return -EINVAL;
	while (!(n = take_ticks(tf))) {
		if (READ_ONCE(f->flags) & O_NONBLOCK)
			return -EAGAIN;
		int ret = wait_event_interruptible(&tf->wait, READ_ONCE(tf->ticks) > 0);

		if (ret)
			return ret;
	}
	return copy_to_iter(&n, sizeof(n), to) == sizeof(n) ? (ssize_t)sizeof(n) : -EFAULT;
}

static u32 timerfd_poll(struct file *f, struct poll_table *pt)
{
	struct timerfd *tf = f->private;

	poll_wait(f, &tf->wait, pt);
	return READ_ONCE(tf->ticks) ? POLLIN | POLLRDNORM : 0;
}

static void timerfd_release(struct file *f)
{
	struct timerfd *tf = f->private;
	unsigned long flags = spin_lock_irqsave(&tf->wait.lock);

	tf->expires = 0;
	spin_unlock_irqrestore(&tf->wait.lock, flags);
	timer_cancel_sync(&tf->timer);
	kfree(tf);
}

static const struct file_ops timerfd_fops = {
	.read = timerfd_read,
	.poll = timerfd_poll,
	.release = timerfd_release,
};

SYSCALL_DEFINE(timerfd_create, int clock, int flags)
{
	if (flags & ~(O_CLOEXEC | O_NONBLOCK))
		return -EINVAL;
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)
		return -EINVAL;
	struct timerfd *tf = kzalloc(sizeof(*tf), GFP_KERNEL);

	if (!tf)
		return -ENOMEM;
	wait_queue_init(&tf->wait);
	timer_setup(&tf->timer, timerfd_fire);
	tf->clock = clock;

	int fd = anon_fd_create("[timerfd]", &timerfd_fops, tf, O_RDONLY | (flags & (O_NONBLOCK | O_CLOEXEC)));
	if (fd < 0)
		kfree(tf);
	return fd;
}

static struct itimerspec current_setting(const struct timerfd *tf, u64 now)
{
	u64 left = tf->expires > now ? tf->expires - now : tf->expires ? 1 : 0;

	return (struct itimerspec){ ns_to_timespec(tf->interval), ns_to_timespec(left) };
}

/* The ktime deadline of a setting; 0 disarms. An absolute time in the past fires at once. */
static u64 setting_deadline(const struct timerfd *tf, const struct itimerspec *s, bool absolute, u64 now)
{
	u64 v = timespec_to_ns(&s->it_value);

	if (!v)
		return 0;
	if (!absolute)
		return now + v;
	if (tf->clock == CLOCK_REALTIME) {
		u64 real = ktime_get_real_ns();

		return v > real ? now + (v - real) : 1;
	}
	return v;
}

static struct file *timerfd_get(int fd)
{
	struct file *f = fd_get(fd);

	if (f && f->ops != &timerfd_fops) {
		file_put(f);
		return ERR_PTR(-EINVAL);
	}
	return f ? f : ERR_PTR(-EBADF);
}

SYSCALL_DEFINE(timerfd_settime, int fd, int flags, const struct itimerspec __user *unew, struct itimerspec __user *uold)
{
	struct itimerspec new_setting, old;

	if (copy_in(&new_setting, unew, sizeof(new_setting)))
		return -EFAULT;
	if (flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET))
		return -EINVAL;
	if (!timespec_valid(&new_setting.it_value) || !timespec_valid(&new_setting.it_interval))
		return -EINVAL;
	struct file *f = timerfd_get(fd);

	if (IS_ERR(f))
		return PTR_ERR(f);
	struct timerfd *tf = f->private;

	timer_cancel_sync(&tf->timer);
	unsigned long irq = spin_lock_irqsave(&tf->wait.lock);
	u64 now = ktime_get_ns();
	old = current_setting(tf, now);
	tf->interval = timespec_to_ns(&new_setting.it_interval);
	tf->expires = setting_deadline(tf, &new_setting, flags & TFD_TIMER_ABSTIME, now);
	tf->ticks = 0;
	u64 expires = tf->expires;
	spin_unlock_irqrestore(&tf->wait.lock, irq);
	if (expires)
		timer_arm(&tf->timer, expires);
	file_put(f);
	return uold ? copy_out(uold, &old, sizeof(old)) : 0;
}

SYSCALL_DEFINE(timerfd_gettime, int fd, struct itimerspec __user *ucur)
{
	struct file *f = timerfd_get(fd);

	if (IS_ERR(f))
		return PTR_ERR(f);
	struct timerfd *tf = f->private;
	unsigned long irq = spin_lock_irqsave(&tf->wait.lock);
	struct itimerspec cur = current_setting(tf, ktime_get_ns());

	spin_unlock_irqrestore(&tf->wait.lock, irq);
	file_put(f);
	return copy_out(ucur, &cur, sizeof(cur));
}
