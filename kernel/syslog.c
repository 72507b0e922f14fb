/* syslog(2): the kernel log for dmesg and klogd (its numbers are those of klogctl(3)). */
#include "kernel/console.h"
#include "kernel/errno.h"
#include "kernel/mutex.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/wait.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define SYSLOG_ACTION_CLOSE		0
#define SYSLOG_ACTION_OPEN		1
#define SYSLOG_ACTION_READ		2
#define SYSLOG_ACTION_READ_ALL		3
#define SYSLOG_ACTION_READ_CLEAR	4
#define SYSLOG_ACTION_CLEAR		5
#define SYSLOG_ACTION_CONSOLE_OFF	6
#define SYSLOG_ACTION_CONSOLE_ON	7
#define SYSLOG_ACTION_CONSOLE_LEVEL	8
#define SYSLOG_ACTION_SIZE_UNREAD	9
#define SYSLOG_ACTION_SIZE_BUFFER	10

#define LOG_BUFFER_SIZE	(256u * 1024u)

static struct mutex syslog_lock = MUTEX_INIT(syslog_lock, LOCK_KMUTEX);
static u64 read_pos;		/* syslog_lock; next byte for SYSLOG_ACTION_READ */
static u64 clear_pos;		/* syslog_lock; READ_ALL starts here */

/* Copies at most @len bytes from *pos on to the user. Bytes, or -errno. */
static long copy_log(u64 *pos, char __user *ubuf, size_t len)
{
	size_t done = 0;
	char *buf = get_free_page(GFP_KERNEL);

	if (!buf)
		return -ENOMEM;
	while (done < len) {
		size_t n = log_read(pos, buf, min(len - done, PAGE_SIZE));

		if (!n)
			break;
		if (copy_out(ubuf + done, buf, n)) {
			free_page(buf);
			return -EFAULT;
		}
		done += n;
	}
	free_page(buf);
	return (long)done;
}

/* The newest @len bytes since the last clear. */
static long read_all(char __user *ubuf, size_t len, bool clear)
{
	mutex_lock(&syslog_lock);
	u64 head = log_head();
	u64 from = max(max(clear_pos, log_tail()), head > len ? head - len : 0);
	long ret = copy_log(&from, ubuf, len);

	if (clear && ret >= 0)
		clear_pos = from;
	mutex_unlock(&syslog_lock);
	return ret;
}

/* Waits until there is something unread. */
static long read_next(char __user *ubuf, size_t len)
{
	for (;;) {
		int ret = wait_event_interruptible(&log_wait, READ_ONCE(read_pos) < log_head());

		if (ret)
			return ret;
		mutex_lock(&syslog_lock);
		long n = copy_log(&read_pos, ubuf, len);
		mutex_unlock(&syslog_lock);
		if (n)
			return n;
	}
}

SYSCALL_DEFINE(syslog, int action, char __user *ubuf, int len)
{
	bool reads = action >= SYSLOG_ACTION_READ && action <= SYSLOG_ACTION_READ_CLEAR;

	if (action != SYSLOG_ACTION_READ_ALL && action != SYSLOG_ACTION_SIZE_BUFFER && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (reads) {
		if (!ubuf || len < 0)
			return -EINVAL;
		if (!len)
			return 0;
		if (!access_ok(ubuf, (size_t)len))
			return -EFAULT;
	}
	switch (action) {
	case SYSLOG_ACTION_CLOSE:
	case SYSLOG_ACTION_OPEN:
	case SYSLOG_ACTION_CONSOLE_OFF:
	case SYSLOG_ACTION_CONSOLE_ON:
		return 0;
	case SYSLOG_ACTION_READ:
		return read_next(ubuf, (size_t)len);
	case SYSLOG_ACTION_READ_ALL:
	case SYSLOG_ACTION_READ_CLEAR:
		return read_all(ubuf, (size_t)len, action == SYSLOG_ACTION_READ_CLEAR);
	case SYSLOG_ACTION_CLEAR:
		mutex_lock(&syslog_lock);
		clear_pos = log_head();
		mutex_unlock(&syslog_lock);
		return 0;
	case SYSLOG_ACTION_CONSOLE_LEVEL:
		return len >= 1 && len <= 8 ? 0 : -EINVAL;	/* all of the log goes to the consoles */
	case SYSLOG_ACTION_SIZE_UNREAD: {
		u64 from = max(READ_ONCE(read_pos), log_tail());

		return (long)(log_head() - from);
	}
	case SYSLOG_ACTION_SIZE_BUFFER:
		return LOG_BUFFER_SIZE;
	}
	return -EINVAL;
}
