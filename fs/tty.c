/*
 * Terminals as files: read, write, ioctl, job control, hang-up (termios(3), tty_ioctl(4), credentials(7)).
 *
 * Signals are sent after tty->lock is dropped: the signal code takes locks that come before it in the rank table.
 */
#include "fs/tty.h"

#include "fs/tty_ioctl.h"
#include "kernel/errno.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/printk.h"
#include "kernel/task.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define TTY_CHUNK 512u

/* One open file of a terminal. */
struct tty_file {
	struct tty	*tty;		/* counted */
	u32		 hangups;	/* tty->hangups at open: unequal means hung up since */
};

static struct tty_file *tty_file_of(struct file *f) { return f->private; }

void tty_setup(struct tty *tty, const char *name, dev_t dev, const struct tty_line_ops *ops, void *line)
{
	memset(tty, 0, sizeof(*tty));
	refcount_set(&tty->refs, 1);
	strscpy(tty->name, name, sizeof(tty->name));
	tty->dev = dev;
	tty->ops = ops;
	tty->line = line;
	spin_lock_init(&tty->lock, LOCK_TTY_BUF);
	mutex_init(&tty->write_mutex, LOCK_TTY);
	wait_queue_init(&tty->read_wait);
	wait_queue_init(&tty->write_wait);
	n_tty_init(&tty->ldisc);
}

void tty_get(struct tty *tty)
{
	refcount_inc(&tty->refs);
}

void tty_put(struct tty *tty)
{
	if (!tty || !refcount_dec_and_test(&tty->refs))
		return;
	if (tty->ops->freed)
		tty->ops->freed(tty);
	kfree(tty);
}

/* -- the line side -- */

static void send_signals(struct tty *tty, u32 signals, int pgrp)
{
	(void)tty;
	for (int sig = 1; signals && sig < 32; sig++) {
		if (signals & (1u << sig) && pgrp > 0)
			send_signal_pgrp(pgrp, sig, NULL);
		signals &= ~(1u << sig);
	}
}

void tty_receive(struct tty *tty, const u8 *buf, size_t n)
{
	unsigned long flags = spin_lock_irqsave(&tty->lock);

	n_tty_receive(&tty->ldisc, buf, n);
	tty->ops->kick(tty);
	u32 signals = tty->ldisc.signals;
	int pgrp = tty->pgrp;
	bool readable = n_tty_input_available(&tty->ldisc, 1);
	tty->ldisc.signals = 0;
	spin_unlock_irqrestore(&tty->lock, flags);

	send_signals(tty, signals, pgrp);
	if (readable)
		wake_up_poll(&tty->read_wait, POLLIN | POLLRDNORM);
	if (signals)
		wake_up_all(&tty->write_wait);	/* the output was flushed */
}

void tty_output_wakeup(struct tty *tty)
{
	unsigned long flags = spin_lock_irqsave(&tty->lock);

	tty->ops->kick(tty);
	bool room = n_tty_write_room(&tty->ldisc) > 0;
	spin_unlock_irqrestore(&tty->lock, flags);
	if (room)
		wake_up_poll(&tty->write_wait, POLLOUT | POLLWRNORM);
}

/* -- job control -- */

static bool signal_is_ignored_or_blocked(int sig)
{
	struct sighand *sh = current->process->sighand;
	unsigned long flags = spin_lock_irqsave(&sh->lock);
	bool yes = (current->blocked & sigmask(sig)) || sh->action[sig - 1].handler == SIG_IGN;

	spin_unlock_irqrestore(&sh->lock, flags);
	return yes;
}

int tty_check_change(struct tty *tty, int sig)
{
	struct process *p = current->process;

	if (READ_ONCE(p->tty) != tty)
		return 0;
	int pgid = READ_ONCE(p->pgid);
	int fg = READ_ONCE(tty->pgrp);

	if (!fg || pgid == fg)
		return 0;
	if (signal_is_ignored_or_blocked(sig))
		return sig == SIGTTIN ? -EIO : 0;
	if (pgrp_is_orphaned(pgid))
		return -EIO;
	send_signal_pgrp(pgid, sig, NULL);
	return -ERESTARTSYS;
}

static bool process_is_session_leader(const struct process *p)
{
	return p->sid == p->tgid;
}

/* Makes @tty the terminal of current's session. Neither has one or is one yet: checked here, under the locks. */
static int tty_set_controlling(struct tty *tty, bool steal)
{
	struct process *p = current->process;
	int ret = -EPERM;
	int lost_session = 0;

	if (!process_is_session_leader(p))
		return -EPERM;
	unsigned long flags = spin_lock_irqsave(&p->sighand->lock);
	spin_lock_nested(&tty->lock);
	if (p->tty == tty && tty->session == p->sid) {
		ret = 0;
	} else if (!p->tty && (!tty->session || steal)) {
		lost_session = tty->session;
		tty->session = p->sid;
		tty->pgrp = p->pgid;
		tty_get(tty);
		p->tty = tty;
		ret = 0;
	}
	spin_unlock(&tty->lock);
	spin_unlock_irqrestore(&p->sighand->lock, flags);
	if (ret == 0 && lost_session && lost_session != p->sid)
		session_clear_tty(lost_session, tty);
	return ret;
}

void tty_disassociate(bool leader_exits)
{
	struct process *p = current->process;
	unsigned long flags = spin_lock_irqsave(&p->sighand->lock);
	struct tty *tty = p->tty;

	p->tty = NULL;
	spin_unlock_irqrestore(&p->sighand->lock, flags);
	if (!tty)
		return;

	if (process_is_session_leader(p)) {
		flags = spin_lock_irqsave(&tty->lock);
		bool ours = tty->session == p->sid;
		int fg = ours ? tty->pgrp : 0;
		if (ours) {
			tty->session = 0;
			tty->pgrp = 0;
		}
		spin_unlock_irqrestore(&tty->lock, flags);
		if (ours) {
			session_clear_tty(p->sid, tty);
			if (fg > 0) {
				send_signal_pgrp(fg, SIGHUP, NULL);
				send_signal_pgrp(fg, SIGCONT, NULL);
			}
			if (leader_exits)
				tty_hangup(tty);
		}
	}
	tty_put(tty);
}

void tty_hangup(struct tty *tty)
{
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	int session = tty->session;
	int fg = tty->pgrp;

	tty->hangups++;
	tty->session = 0;
	tty->pgrp = 0;
	n_tty_flush_input(&tty->ldisc);
	n_tty_flush_output(&tty->ldisc);
	struct termios clean = tty->ldisc.termios;
	n_tty_init(&tty->ldisc);
	tty->ldisc.termios.c_cflag = clean.c_cflag;
	spin_unlock_irqrestore(&tty->lock, flags);

	if (session) {
		session_clear_tty(session, tty);
		send_signal_pgrp(fg > 0 ? fg : session, SIGHUP, NULL);
		send_signal_pgrp(fg > 0 ? fg : session, SIGCONT, NULL);
	}
	__wake_up(&tty->read_wait, TASK_NORMAL, 0, POLLHUP | POLLIN | POLLERR);
	__wake_up(&tty->write_wait, TASK_NORMAL, 0, POLLHUP | POLLOUT | POLLERR);
}

/* -- files -- */

static bool file_hung_up(const struct tty_file *tf)
{
	return READ_ONCE(tf->tty->line_gone) || READ_ONCE(tf->tty->hangups) != tf->hangups;
}

int tty_open_file(struct tty *tty, struct file *f)
{
	struct tty_file *tf = kzalloc(sizeof(*tf), GFP_KERNEL);

	if (!tf)
		return -ENOMEM;
	tty_get(tty);
	tf->tty = tty;
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	bool gone = tty->line_gone;
	if (!gone)
		tty->opens++;
	tf->hangups = tty->hangups;
	spin_unlock_irqrestore(&tty->lock, flags);
	if (gone) {
		tty_put(tty);
		kfree(tf);
		return -EIO;
	}
	f->private = tf;
	f->mode |= FMODE_STREAM;
	f->ops = &tty_fops;
	return 0;
}

void tty_adopt_on_open(struct tty *tty, struct file *f)
{
	struct process *p = current->process;

	if (!(f->flags & O_NOCTTY) && process_is_session_leader(p) && !READ_ONCE(p->tty) &&
	    !READ_ONCE(tty->session) && (f->mode & FMODE_READ))
		(void)tty_set_controlling(tty, false);
}

static void tty_release(struct file *f)
{
	struct tty_file *tf = tty_file_of(f);
	struct tty *tty = tf->tty;
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	bool last = --tty->opens == 0;

	spin_unlock_irqrestore(&tty->lock, flags);
	if (last && tty->ops->closed)
		tty->ops->closed(tty);
	kfree(tf);
	tty_put(tty);
}

struct read_limits { u32 vmin, vtime; bool canonical; };

static struct read_limits read_limits(struct tty *tty)
{
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	const struct termios *t = &tty->ldisc.termios;
	struct read_limits r = { t->c_cc[VMIN], t->c_cc[VTIME], t->c_lflag & ICANON };

	spin_unlock_irqrestore(&tty->lock, flags);
	return r;
}

/* Sleeps until there is input, a hang-up, or @timeout_ns (0: for ever) is over. 0, -ERESTARTSYS, -ETIMEDOUT. */
static int wait_for_input(struct tty_file *tf, u64 timeout_ns)
{
	struct tty *tty = tf->tty;

	if (timeout_ns)
		return wait_event_interruptible_timeout(&tty->read_wait,
				n_tty_input_available(&tty->ldisc, 1) || file_hung_up(tf), timeout_ns);
	return wait_event_interruptible(&tty->read_wait,
				n_tty_input_available(&tty->ldisc, 1) || file_hung_up(tf));
}

static ssize_t tty_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct tty_file *tf = tty_file_of(f);
	struct tty *tty = tf->tty;
	size_t want = to->count;
	size_t got = 0;
	ssize_t ret = 0;
	u8 small[256];
	u8 *buf = small;
	size_t room = min(want, (size_t)N_TTY_BUF);

	(void)pos;
	if (!want)
		return 0;
	if (room > sizeof(small) && !(buf = kmalloc(room, GFP_KERNEL)))
		return -ENOMEM;
	else if (room <= sizeof(small))
		room = min(room, sizeof(small));

	for (;;) {
		if (file_hung_up(tf))
			break;
		ret = tty_check_change(tty, SIGTTIN);
		if (ret)
			break;

		bool eof;
		unsigned long flags = spin_lock_irqsave(&tty->lock);
		size_t n = n_tty_read(&tty->ldisc, buf, min(room, want - got), &eof);
		spin_unlock_irqrestore(&tty->lock, flags);

		if (n) {
			if (tty->ops->input_taken)
				tty->ops->input_taken(tty);
			size_t copied = copy_to_iter(buf, n, to);

			got += copied;
			if (copied < n) {
				ret = -EFAULT;
				break;
			}
		}
		struct read_limits lim = read_limits(tty);

		if (eof || got == want || (lim.canonical && got))
			break;
		if (!lim.canonical && (got ? got >= lim.vmin : lim.vmin == 0 && lim.vtime == 0))
			break;
		if (READ_ONCE(f->flags) & O_NONBLOCK) {
			ret = -EAGAIN;
			break;
		}
		/* The interbyte timer runs only after the first byte when VMIN is set. */
		u64 timeout = 0;
		if (!lim.canonical && lim.vtime && (lim.vmin == 0 || got))
			timeout = lim.vtime * 100 * NSEC_PER_MSEC;
		ret = wait_for_input(tf, timeout);
		if (ret == -ETIMEDOUT) {
			ret = 0;
			break;
		}
		if (ret)
			break;
	}
	if (buf != small)
		kfree(buf);
	return got ? (ssize_t)got : ret;
}

/* Puts @n bytes on the line, waiting for room. Bytes taken, or -errno if none was. write_mutex held. */
static ssize_t write_chunk(struct file *f, const u8 *buf, size_t n)
{
	struct tty_file *tf = tty_file_of(f);
	struct tty *tty = tf->tty;
	size_t done = 0;

	while (done < n) {
		if (file_hung_up(tf))
			return done ? (ssize_t)done : -EIO;
		unsigned long flags = spin_lock_irqsave(&tty->lock);
		size_t k = n_tty_write(&tty->ldisc, buf + done, n - done);
		tty->ops->kick(tty);
		spin_unlock_irqrestore(&tty->lock, flags);

		done += k;
		if (k || done == n)
			continue;
		if (READ_ONCE(f->flags) & O_NONBLOCK)
			return done ? (ssize_t)done : -EAGAIN;
		int ret = wait_event_interruptible(&tty->write_wait,
				n_tty_write_room(&tty->ldisc) >= 8 || file_hung_up(tf));
		if (ret)
			return done ? (ssize_t)done : ret;
	}
	return (ssize_t)done;
}

static ssize_t tty_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	struct tty_file *tf = tty_file_of(f);
	struct tty *tty = tf->tty;
	u8 buf[TTY_CHUNK];
	size_t done = 0;
	ssize_t ret = 0;

	(void)pos;
	if (READ_ONCE(tty->ldisc.termios.c_lflag) & TOSTOP) {
		ret = tty_check_change(tty, SIGTTOU);
		if (ret)
			return ret;
	}
	ret = mutex_lock_interruptible(&tty->write_mutex);
	if (ret)
		return ret;
	while (from->count) {
		size_t n = min(from->count, sizeof(buf));
		size_t copied = copy_from_iter(buf, n, from);

		if (copied) {
			ret = write_chunk(f, buf, copied);
			if (ret > 0)
				done += (size_t)ret;
			if (ret < (ssize_t)copied)
				break;
		}
		if (copied < n) {
			ret = -EFAULT;
			break;
		}
	}
	mutex_unlock(&tty->write_mutex);
	return done ? (ssize_t)done : min(ret, (ssize_t)0);
}

static u32 tty_poll(struct file *f, struct poll_table *pt)
{
	struct tty_file *tf = tty_file_of(f);
	struct tty *tty = tf->tty;
	u32 bits = 0;

	poll_wait(f, &tty->read_wait, pt);
	poll_wait(f, &tty->write_wait, pt);
	if (file_hung_up(tf))
		return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLERR | POLLHUP;
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	const u8 *cc = tty->ldisc.termios.c_cc;
	if (n_tty_input_available(&tty->ldisc, cc[VTIME] ? 1 : cc[VMIN]))
		bits |= POLLIN | POLLRDNORM;
	if (n_tty_write_room(&tty->ldisc) >= TTY_CHUNK)
		bits |= POLLOUT | POLLWRNORM;
	spin_unlock_irqrestore(&tty->lock, flags);
	return bits;
}

/* -- ioctl -- */

static bool output_gone(struct tty *tty)
{
	return !n_tty_output_pending(&tty->ldisc) && (!tty->ops->drained || tty->ops->drained(tty));
}

/* tcdrain: 0 or -ERESTARTSYS. The hardware's own FIFO gives no interrupt when empty, so its last bytes are polled for. */
static int tty_drain(struct tty_file *tf)
{
	struct tty *tty = tf->tty;

	while (!output_gone(tty) && !file_hung_up(tf)) {
		int ret = wait_event_interruptible_timeout(&tty->write_wait,
				output_gone(tty) || file_hung_up(tf), 2 * NSEC_PER_MSEC);
		if (ret && ret != -ETIMEDOUT)
			return ret;
	}
	return 0;
}

static long tty_set_termios(struct tty_file *tf, const struct termios __user *arg, bool drain, bool flush)
{
	struct tty *tty = tf->tty;
	struct termios t;
	int ret = tty_check_change(tty, SIGTTOU);

	if (ret)
		return ret;
	if (copy_in(&t, arg, sizeof(t)))
		return -EFAULT;
	if (drain && (ret = tty_drain(tf)))
		return ret;
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	if (flush)
		n_tty_flush_input(&tty->ldisc);
	n_tty_set_termios(&tty->ldisc, &t);
	tty->ops->kick(tty);
	bool readable = n_tty_input_available(&tty->ldisc, 1);
	spin_unlock_irqrestore(&tty->lock, flags);
	if (readable)
		wake_up_poll(&tty->read_wait, POLLIN | POLLRDNORM);
	return 0;
}

static long tty_set_winsize(struct tty *tty, const struct winsize __user *arg)
{
	struct winsize ws;

	if (copy_in(&ws, arg, sizeof(ws)))
		return -EFAULT;
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	bool changed = memcmp(&ws, &tty->winsize, sizeof(ws)) != 0;
	int pgrp = tty->pgrp;
	tty->winsize = ws;
	spin_unlock_irqrestore(&tty->lock, flags);
	if (changed && pgrp > 0)
		send_signal_pgrp(pgrp, SIGWINCH, NULL);
	return 0;
}

static long tty_set_pgrp(struct tty *tty, int __user *arg)
{
	struct process *p = current->process;
	int pgid;
	int ret = tty_check_change(tty, SIGTTOU);

	if (ret)
		return ret == -EIO ? -ENOTTY : ret;
	if (READ_ONCE(p->tty) != tty || READ_ONCE(tty->session) != p->sid)
		return -ENOTTY;
	if (get_user(pgid, arg))
		return -EFAULT;
	if (pgid < 0)
		return -EINVAL;
	ret = pgrp_session(pgid);
	if (ret < 0)
		return ret;
	if (ret != p->sid)
		return -EPERM;
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	tty->pgrp = pgid;
	spin_unlock_irqrestore(&tty->lock, flags);
	return 0;
}

static long tty_flush(struct tty *tty, unsigned long which)
{
	int ret = tty_check_change(tty, SIGTTOU);

	if (ret)
		return ret;
	if (which > TCIOFLUSH)
		return -EINVAL;
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	if (which != TCOFLUSH)
		n_tty_flush_input(&tty->ldisc);
	if (which != TCIFLUSH)
		n_tty_flush_output(&tty->ldisc);
	spin_unlock_irqrestore(&tty->lock, flags);
	if (which != TCIFLUSH)
		wake_up_poll(&tty->write_wait, POLLOUT);
	return 0;
}

static long tty_flow(struct tty *tty, unsigned long action)
{
	int ret = tty_check_change(tty, SIGTTOU);

	if (ret)
		return ret;
	if (action > TCION)
		return -EINVAL;
	unsigned long flags = spin_lock_irqsave(&tty->lock);
	if (action == TCOOFF || action == TCOON)
		tty->ldisc.flow_stopped = action == TCOOFF;
	tty->ops->kick(tty);
	spin_unlock_irqrestore(&tty->lock, flags);
	tty_output_wakeup(tty);
	return 0;
}

static long tty_steal_input(struct tty *tty, u8 __user *arg)
{
	u8 c;

	if (READ_ONCE(current->process->tty) != tty && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (get_user(c, arg))
		return -EFAULT;
	tty_receive(tty, &c, 1);
	return 0;
}

static long tty_job_ioctl(struct tty *tty, unsigned int cmd, unsigned long arg)
{
	struct process *p = current->process;

	switch (cmd) {
	case TIOCSCTTY:
		return tty_set_controlling(tty, arg == 1 && capable(CAP_SYS_ADMIN));
	case TIOCNOTTY:
		if (READ_ONCE(p->tty) != tty)
			return -ENOTTY;
		tty_disassociate(false);
		return 0;
	case TIOCGPGRP:
		if (READ_ONCE(p->tty) != tty)
			return -ENOTTY;
		return put_user(READ_ONCE(tty->pgrp), (int __user *)arg);
	case TIOCSPGRP:
		return tty_set_pgrp(tty, (int __user *)arg);
	case TIOCGSID:
		if (READ_ONCE(p->tty) != tty || !READ_ONCE(tty->session))
			return -ENOTTY;
		return put_user(READ_ONCE(tty->session), (int __user *)arg);
	}
	return -ENOTTY;
}

static long terminal_ioctl(struct tty_file *tf, unsigned int cmd, unsigned long arg)
{
	struct tty *tty = tf->tty;
	void __user *uarg = (void __user *)arg;
	int ret;

	switch (cmd) {
	case TCGETS:
		return copy_out(uarg, &tty->ldisc.termios, sizeof(struct termios));
	case TCSETS:
		return tty_set_termios(tf, uarg, false, false);
	case TCSETSW:
		return tty_set_termios(tf, uarg, true, false);
	case TCSETSF:
		return tty_set_termios(tf, uarg, true, true);
	case TIOCGWINSZ:
		return copy_out(uarg, &tty->winsize, sizeof(struct winsize));
	case TIOCSWINSZ:
		return tty_set_winsize(tty, uarg);
	case TCSBRK:
	case TCSBRKP:
		ret = tty_check_change(tty, SIGTTOU);
		return ret ? ret : tty_drain(tf);	/* a break itself means nothing to our lines */
	case TCXONC:
		return tty_flow(tty, arg);
	case TCFLSH:
		return tty_flush(tty, arg);
	case TIOCINQ:
		return put_user((int)n_tty_chars_in_buffer(&tty->ldisc), (int __user *)uarg);
	case TIOCOUTQ:
		return put_user((int)n_tty_output_pending(&tty->ldisc), (int __user *)uarg);
	case TIOCSTI:
		return tty_steal_input(tty, uarg);
	case TIOCGETD:
		return put_user(0, (int __user *)uarg);
	case TIOCSETD: {
		int disc;

		if (get_user(disc, (int __user *)uarg))
			return -EFAULT;
		return disc == 0 ? 0 : -EINVAL;
	}
	}
	return tty_job_ioctl(tty, cmd, arg);
}

static long tty_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	struct tty_file *tf = tty_file_of(f);

	if (file_hung_up(tf))
		return cmd == TIOCSPGRP ? -ENOTTY : -EIO;
	if (tf->tty->ops->ioctl) {
		long own = tf->tty->ops->ioctl(tf->tty, cmd, arg);

		if (own != -ENOTTY)
			return own;
	}
	return terminal_ioctl(tf, cmd, arg);
}

long tty_ioctl_from_master(struct tty *tty, unsigned int cmd, unsigned long arg)
{
	struct tty_file tf = { .tty = tty, .hangups = READ_ONCE(tty->hangups) };

	return terminal_ioctl(&tf, cmd, arg);
}

const struct file_ops tty_fops = {
	.read = tty_read,
	.write = tty_write,
	.poll = tty_poll,
	.ioctl = tty_ioctl,
	.release = tty_release,
};

/* -- terminals on console ports -- */

static struct tty *port_ttys[MAX_PORTS];	/* same index as chardev_ports; constant after tty_init */

static void port_kick(struct tty *tty)
{
	struct chardev_port *port = tty->line;
	const u8 *p;
	size_t n;

	while (!tty->ldisc.flow_stopped && (n = n_tty_output_peek(&tty->ldisc, &p))) {
		size_t taken = port->write(port, p, n);

		n_tty_output_consume(&tty->ldisc, taken);
		if (taken < n)
			break;
	}
}

static bool port_drained(struct tty *tty)
{
	struct chardev_port *port = tty->line;

	return !port->drained || port->drained(port);
}

/* What programs ask to find out whether they sit at a screen (BusyBox init chooses TERM by it). */
static long port_ioctl(struct tty *tty, unsigned int cmd, unsigned long arg)
{
	struct chardev_port *port = tty->line;

	if (!port->is_screen)
		return -ENOTTY;
	switch (cmd) {
	case VT_OPENQRY:
		return put_user(-1, (int __user *)arg);		/* one screen, no free ones */
	case KDGKBTYPE:
		return put_user((u8)KB_101, (u8 __user *)arg);
	case KDGETMODE:
		return put_user(0, (int __user *)arg);		/* KD_TEXT */
	}
	return -ENOTTY;
}

static const struct tty_line_ops port_line_ops = {
	.kick = port_kick,
	.drained = port_drained,
	.ioctl = port_ioctl,
};

static void port_receive(void *ctx, const u8 *buf, size_t n) { tty_receive(ctx, buf, n); }
static void port_write_wakeup(void *ctx) { tty_output_wakeup(ctx); }

static int port_open(struct inode *inode, struct file *f)
{
	for (unsigned int i = 0; i < nr_chardev_ports; i++) {
		struct tty *tty = port_ttys[i];

		if (!tty || tty->dev != inode->rdev)
			continue;
		int ret = tty_open_file(tty, f);

		if (!ret)
			tty_adopt_on_open(tty, f);
		return ret;
	}
	return -ENXIO;
}

/* /dev/console: the preferred port; never becomes a controlling terminal by being opened. */
static int console_open(struct inode *inode, struct file *f)
{
	struct chardev_port *port = console_preferred_port();

	(void)inode;
	for (unsigned int i = 0; port && i < nr_chardev_ports; i++)
		if (chardev_ports[i] == port && port_ttys[i])
			return tty_open_file(port_ttys[i], f);
	return -ENXIO;
}

/* /dev/tty: the opener's own controlling terminal. */
static int current_tty_open(struct inode *inode, struct file *f)
{
	struct process *p = current->process;
	unsigned long flags = spin_lock_irqsave(&p->sighand->lock);
	struct tty *tty = p->tty;

	(void)inode;
	if (tty)
		tty_get(tty);
	spin_unlock_irqrestore(&p->sighand->lock, flags);
	if (!tty)
		return -ENXIO;
	int ret = tty_open_file(tty, f);

	tty_put(tty);
	return ret;
}

static const struct file_ops port_dev_fops = { .open = port_open };
static const struct file_ops console_dev_fops = { .open = console_open };
static const struct file_ops current_tty_dev_fops = { .open = current_tty_open };

void tty_init(void)
{
	dev_register("tty", 0666, MKDEV(5, 0), &current_tty_dev_fops, NULL);
	dev_register("console", 0600, MKDEV(5, 1), &console_dev_fops, NULL);
	for (unsigned int i = 0; i < nr_chardev_ports; i++) {
		struct chardev_port *port = chardev_ports[i];
		struct tty *tty = kmalloc(sizeof(*tty), GFP_KERNEL);

		if (!tty) {
			pr_err("tty: no memory for %s\n", port->name);
			continue;
		}
		tty_setup(tty, port->name, MKDEV(port->major, port->minor), &port_line_ops, port);
		tty->winsize = port->winsize;
		port_ttys[i] = tty;
		dev_register(port->name, 0620, tty->dev, &port_dev_fops, NULL);
		port_attach(port, port_receive, port_write_wakeup, NULL, tty);
	}
	pty_init();
}
