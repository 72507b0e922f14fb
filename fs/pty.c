/*
 * Pseudo terminals (pty(7)): /dev/ptmx makes a pair; the master file is the line of the terminal /dev/pts/N.
 * What programs write to the terminal waits in its output ring until the master reads it; what the master writes is
 * the terminal's input.
 */
#include "fs/internal.h"
#include "fs/tty.h"
#include "fs/tty_ioctl.h"
#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define MAX_PTYS	1024u
#define PTY_MAJOR	136		/* Unix98 slaves */

/*
 *   P  pty_lock   T  tty->lock   I  constant
 */
struct pty {
	unsigned int		 index;		/* I */
	struct tty		*tty;		/* I  the terminal, counted */
	struct dentry		*name;		/* I  /dev/pts/N */
	bool			 locked;	/* T  until unlockpt */
	bool			 opened;	/* T  the terminal side was open at least once */
	bool			 packet;	/* T  never set: packet mode is a known gap */
	struct wait_queue	 master_wait;	/* master readers and writers, pollers */
	struct refcount		 refs;		/* master file, plus one for the terminal's line pointer */
};

static struct mutex pty_lock = MUTEX_INIT(pty_lock, LOCK_KMUTEX);
static struct pty *ptys[MAX_PTYS];		/* pty_lock */
static struct super_block *devpts_sb;

static void pty_put(struct pty *pty)
{
	if (refcount_dec_and_test(&pty->refs))
		kfree(pty);
}

/* -- the terminal's line -- */

static void pty_kick(struct tty *tty)
{
	struct pty *pty = tty->line;

	if (n_tty_output_pending(&tty->ldisc) && wait_queue_active(&pty->master_wait))
		wake_up_poll(&pty->master_wait, POLLIN | POLLRDNORM);
}

static bool pty_drained(struct tty *tty)
{
	return !n_tty_output_pending(&tty->ldisc);
}

static void pty_input_taken(struct tty *tty)
{
	wake_up_poll(&((struct pty *)tty->line)->master_wait, POLLOUT | POLLWRNORM);
}

static void pty_closed(struct tty *tty)
{
	__wake_up(&((struct pty *)tty->line)->master_wait, TASK_NORMAL, 0, POLLIN | POLLHUP);
}

static long pty_terminal_ioctl(struct tty *tty, unsigned int cmd, unsigned long arg)
{
	struct pty *pty = tty->line;

	if (cmd == TIOCGPTN)
		return put_user(pty->index, (unsigned int __user *)arg);
	return -ENOTTY;
}

static void pty_terminal_freed(struct tty *tty)
{
	pty_put(tty->line);
}

static const struct tty_line_ops pty_line_ops = {
	.freed = pty_terminal_freed,
	.kick = pty_kick,
	.drained = pty_drained,
	.input_taken = pty_input_taken,
	.closed = pty_closed,
	.ioctl = pty_terminal_ioctl,
};

/* -- the master file -- */

static size_t take_output(struct tty *tty, u8 *buf, size_t n)
{
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	size_t done = 0;

	while (done < n && !tty->ldisc.flow_stopped) {
		const u8 *p;
		size_t k = min(n_tty_output_peek(&tty->ldisc, &p), n - done);

		if (!k)
			break;
		memcpy(buf + done, p, k);
		n_tty_output_consume(&tty->ldisc, k);
		done += k;
	}
	spin_unlock_irqrestore(&tty->lock, flags);
	return done;
}

static bool output_waits(const struct tty *tty)
{
	return n_tty_output_pending(&tty->ldisc) && !READ_ONCE(tty->ldisc.flow_stopped);
}

/* The terminal was open and is no longer: the master sees the end. */
static bool terminal_closed(const struct pty *pty)
{
	return READ_ONCE(pty->opened) && !READ_ONCE(pty->tty->opens);
}

static ssize_t master_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct pty *pty = f->private;
	struct tty *tty = pty->tty;
	u8 buf[512];
	size_t done = 0;

	(void)pos;
	while (to->count) {
		size_t n = take_output(tty, buf, min(to->count, sizeof(buf)));

		if (n) {
			size_t copied = copy_to_iter(buf, n, to);

			done += copied;
			tty_output_wakeup(tty);
			if (copied < n)
				return done ? (ssize_t)done : -EFAULT;
			continue;
		}
		if (done)
			break;
		if (terminal_closed(pty))
			return -EIO;
		if (READ_ONCE(f->flags) & O_NONBLOCK)
			return -EAGAIN;
		int ret = wait_event_interruptible(&pty->master_wait, output_waits(tty) || terminal_closed(pty));

		if (ret)
			return ret;
	}
	return (ssize_t)done;
}

/* Bytes that the terminal can take without dropping any. A canonical line being edited always has room for its end. */
static size_t input_room(const struct tty *tty)
{
	const struct n_tty *n = &tty->ldisc;
	u32 used = READ_ONCE(n->head) - READ_ONCE(n->tail);
	bool editing = (n->termios.c_lflag & ICANON) && n->canon_head == n->tail;

	if (editing)
		return N_TTY_BUF;	/* beyond the limit bytes are dropped with a bell, as on a real line */
	return used < N_TTY_BUF - 1 ? N_TTY_BUF - 1 - used : 0;
}

static ssize_t master_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	struct pty *pty = f->private;
	struct tty *tty = pty->tty;
	u8 buf[512];
	size_t done = 0;

	(void)pos;
	while (from->count) {
		size_t room = input_room(tty);

		if (!room) {
			if (done)
				break;
			if (READ_ONCE(f->flags) & O_NONBLOCK)
				return -EAGAIN;
			int ret = wait_event_interruptible(&pty->master_wait, input_room(tty) > 0);

			if (ret)
				return ret;
			continue;
		}
		size_t n = min(min(from->count, sizeof(buf)), room);
		size_t copied = copy_from_iter(buf, n, from);

		tty_receive(tty, buf, copied);
		done += copied;
		if (copied < n)
			return done ? (ssize_t)done : -EFAULT;
	}
	return (ssize_t)done;
}

static u32 master_poll(struct file *f, struct poll_table *pt)
{
	struct pty *pty = f->private;
	u32 bits = 0;

	poll_wait(f, &pty->master_wait, pt);
	if (output_waits(pty->tty))
		bits |= POLLIN | POLLRDNORM;
	if (terminal_closed(pty))
		bits |= POLLHUP;
	if (input_room(pty->tty))
		bits |= POLLOUT | POLLWRNORM;
	return bits;
}

static long master_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	struct pty *pty = f->private;
	struct tty *tty = pty->tty;
	unsigned long flags;
	int value;

	switch (cmd) {
	case TIOCGPTN:
		return put_user(pty->index, (unsigned int __user *)arg);
	case TIOCSPTLCK:
		if (get_user(value, (int __user *)arg))
			return -EFAULT;
		flags = spin_lock_irqsave(&tty->lock);
		pty->locked = value != 0;
		spin_unlock_irqrestore(&tty->lock, flags);
		return 0;
	case TIOCGPTLCK:
		return put_user((int)READ_ONCE(pty->locked), (int __user *)arg);
	case TIOCINQ:
		return put_user((int)n_tty_output_pending(&tty->ldisc), (int __user *)arg);
	case TIOCGPGRP:
		return put_user(READ_ONCE(tty->pgrp), (int __user *)arg);
	}
	return tty_ioctl_from_master(tty, cmd, arg);
}

static void master_release(struct file *f)
{
	struct pty *pty = f->private;
	struct tty *tty = pty->tty;

	mutex_lock(&pty_lock);
	ptys[pty->index] = NULL;
	mutex_unlock(&pty_lock);
	dentry_remove(pty->name);
	dentry_put(pty->name);

	unsigned long flags = spin_lock_irqsave(&tty->lock);
	tty->line_gone = true;
	spin_unlock_irqrestore(&tty->lock, flags);
	tty_hangup(tty);
	tty_put(tty);
	pty_put(pty);
}

static const struct file_ops master_fops = {
	.read = master_read,
	.write = master_write,
	.poll = master_poll,
	.ioctl = master_ioctl,
	.release = master_release,
};

/* -- making and opening -- */

static int terminal_open(struct inode *inode, struct file *f)
{
	unsigned int index = MINOR(inode->rdev);
	struct tty *tty = NULL;
	int ret = -EIO;

	mutex_lock(&pty_lock);
	struct pty *pty = index < MAX_PTYS ? ptys[index] : NULL;
	if (pty && !READ_ONCE(pty->locked)) {
		tty = pty->tty;
		tty_get(tty);
		refcount_inc(&pty->refs);
	}
	mutex_unlock(&pty_lock);
	if (!tty)
		return -EIO;
	ret = tty_open_file(tty, f);
	if (!ret) {
		WRITE_ONCE(pty->opened, true);
		tty_adopt_on_open(tty, f);
	}
	tty_put(tty);
	pty_put(pty);
	return ret;
}

static const struct file_ops terminal_fops = { .open = terminal_open };

/* Claims the lowest free number. The number, or -ENOSPC. */
static int claim_index(struct pty *pty)
{
	int index = -ENOSPC;

	mutex_lock(&pty_lock);
	for (unsigned int i = 0; i < MAX_PTYS; i++) {
		if (!ptys[i]) {
			ptys[i] = pty;
			pty->index = i;
			index = (int)i;
			break;
		}
	}
	mutex_unlock(&pty_lock);
	return index;
}

static int name_terminal(struct pty *pty)
{
	struct inode *inode = inode_alloc(devpts_sb, S_IFCHR | 0620);
	char name[12];

	if (!inode)
		return -ENOMEM;
	inode->rdev = pty->tty->dev;
	inode->fops = &terminal_fops;
	snprintf(name, sizeof(name), "%u", pty->index);
	struct dentry *d = dentry_add(devpts_sb->root, name, inode);
	if (IS_ERR(d))
		return (int)PTR_ERR(d);
	dentry_get(d);
	pty->name = d;
	return 0;
}

static int ptmx_open(struct inode *inode, struct file *f)
{
	struct pty *pty = kzalloc(sizeof(*pty), GFP_KERNEL);
	struct tty *tty = kmalloc(sizeof(*tty), GFP_KERNEL);
	char name[16];
	int ret = -ENOMEM;

	(void)inode;
	if (!pty || !tty)
		goto free;
	refcount_set(&pty->refs, 2);
	wait_queue_init(&pty->master_wait);
	pty->locked = true;
	ret = claim_index(pty);
	if (ret < 0)
		goto free;
	snprintf(name, sizeof(name), "pts/%u", pty->index);
	tty_setup(tty, name, MKDEV(PTY_MAJOR, pty->index), &pty_line_ops, pty);
	pty->tty = tty;
	ret = name_terminal(pty);
	if (ret)
		goto unclaim;
	f->private = pty;
	f->ops = &master_fops;
	f->mode |= FMODE_STREAM;
	return 0;

unclaim:
	mutex_lock(&pty_lock);
	ptys[pty->index] = NULL;
	mutex_unlock(&pty_lock);
free:
	kfree(tty);
	kfree(pty);
	return ret;
}

static const struct file_ops ptmx_fops = { .open = ptmx_open };

/* -- devpts: one instance, however often it is mounted -- */

static struct super_block *devpts_mount(const char *source, const char *options, u32 flags)
{
	(void)source, (void)options, (void)flags;
	if (!devpts_sb)
		return ERR_PTR(-ENOMEM);
	refcount_inc(&devpts_sb->refs);
	return devpts_sb;
}

static struct fs_type devpts_type = { .name = "devpts", .nodev = true, .mount = devpts_mount };

void pty_init(void)
{
	struct super_block *sb = ramfs_create("devpts", NULL, false);

	if (IS_ERR(sb)) {
		pr_err("devpts: no memory, pseudo terminals are missing\n");
		return;
	}
	sb->magic = 0x1cd1;
	devpts_sb = sb;
	register_filesystem(&devpts_type);
	dev_register("ptmx", 0666, MKDEV(5, 2), &ptmx_fops, NULL);
	struct inode *inode = inode_alloc(sb, S_IFCHR | 0666);
	if (inode) {
		inode->rdev = MKDEV(5, 2);
		inode->fops = &ptmx_fops;
		dentry_add(sb->root, "ptmx", inode);
	}
}
