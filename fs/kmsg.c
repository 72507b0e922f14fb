/*
 * /dev/kmsg: the kernel log line by line, each as a record "priority,sequence,microseconds,-;text", and a way for programs to
 * add to it. A file's offset is a position in the log; a reader at the end waits for more.
 */
#include "fs/internal.h"
#include "kernel/console.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define LINE_MAX	1024u

/* "[   12.345678] text": cuts the stamp off and returns its microseconds. */
static u64 take_stamp(char **line)
{
	char *s = *line;
	u64 us = 0;

	if (*s != '[')
		return 0;
	for (s++; *s && *s != ']'; s++)
		if (*s >= '0' && *s <= '9')
			us = us * 10 + (u64)(*s - '0');
	if (*s != ']')
		return 0;
	*line = s[1] == ' ' ? s + 2 : s + 1;
	return us;
}

/* One line from *pos into @line, without its end; false when the log ends before the line does. Advances *pos. */
static bool next_line(u64 *pos, char *line)
{
	u64 start = *pos;
	size_t n = log_read(&start, line, LINE_MAX - 1);
	char *end = n ? memchr(line, '\n', n) : NULL;

	if (!n || (!end && n < LINE_MAX - 1))
		return false;
	size_t len = end ? (size_t)(end - line) : n;

	line[len] = 0;
	*pos = start - n + len + (end != NULL);	/* log_read may have skipped what was overwritten */
	return true;
}

static ssize_t kmsg_read(struct file *f, struct iov_iter *to, loff_t *ppos)
{
	char *line = kmalloc(LINE_MAX * 2 + 64, GFP_KERNEL);
	u64 pos = (u64)*ppos;
	ssize_t ret;

	if (!line)
		return -ENOMEM;
	char *record = line + LINE_MAX, *text = line;

	while (!next_line(&pos, line)) {
		ret = -EAGAIN;
		if (f->flags & O_NONBLOCK)
			goto out;
		u64 seen = log_head();

		ret = wait_event_interruptible(&log_wait, log_head() != seen || pos != (u64)*ppos);
		if (ret)
			goto out;
	}
	u64 us = take_stamp(&text);
	size_t n = (size_t)scnprintf(record, LINE_MAX + 64, "6,%lu,%lu,-;%s\n", (u64)*ppos, us, text);

	ret = -EINVAL;			/* a record is read whole or not at all */
	if (to->count < n)
		goto out;
	ret = -EFAULT;
	if (copy_to_iter(record, n, to) < n)
		goto out;
	*ppos = (loff_t)pos;
	ret = (ssize_t)n;
out:
	kfree(line);
	return ret;
}

static ssize_t kmsg_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	char line[256];
	size_t count = from->count, n = min(count, sizeof(line) - 1);
	const char *text = line;

	(void)f, (void)pos;
	if (count > LINE_MAX)
		return -EINVAL;
	if (copy_from_iter(line, n, from) < n)
		return -EFAULT;
	line[n] = 0;
	if (line[0] == '<') {		/* "<3>" is a priority, which the log does not keep */
		const char *end = strchr(line, '>');

		if (end && end - line < 6)
			text = end + 1;
	}
	n = strlen(text);
	printk(n && text[n - 1] == '\n' ? "%s" : "%s\n", text);
	return (ssize_t)count;
}

static loff_t kmsg_llseek(struct file *f, loff_t off, int whence)
{
	if (off)
		return -ESPIPE;
	f->pos = whence == 2 || whence == 3 ? (loff_t)log_head() : (loff_t)log_tail();
	return 0;
}

static u32 kmsg_poll(struct file *f, struct poll_table *pt)
{
	poll_wait(f, &log_wait, pt);
	return POLLOUT | POLLWRNORM | ((u64)READ_ONCE(f->pos) < log_head() ? POLLIN | POLLRDNORM : 0);
}

static int kmsg_open(struct inode *inode, struct file *f)
{
	(void)inode;
	f->pos = (loff_t)log_tail();
	return 0;
}

const struct file_ops kmsg_fops = { .open = kmsg_open, .read = kmsg_read, .write = kmsg_write, .llseek = kmsg_llseek, .poll = kmsg_poll };
