/*
 * Sockets as files, and what is the same for every family: read, write and poll on the descriptor, and the options of SOL_SOCKET.
 *
 * A socket belongs to one file from socket_file_create() on, and ends with it (ops->release); what a family keeps beyond that
 * is counted by the family.
 */
#include "fs/socket.h"

#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/task.h"

static const struct file_ops socket_fops;

void socket_init(struct socket *sock, const struct socket_ops *ops, int family, int type, int protocol)
{
	sock->ops = ops;
	sock->family = family;
	sock->type = type;
	sock->protocol = protocol;
	sock->sndbuf = sock->rcvbuf = SOCK_BUF_DEFAULT;
	sock->rcvlowat = 1;
	mutex_init(&sock->lock, LOCK_SOCKET);
	mutex_init(&sock->read_lock, LOCK_SOCKET_READ);
	wait_queue_init(&sock->rd_wait);
	wait_queue_init(&sock->wr_wait);
}

struct socket *file_socket(struct file *f)
{
	return f->ops == &socket_fops ? f->private : NULL;
}

void sock_wake_all(struct socket *sock)
{
	__wake_up(&sock->rd_wait, TASK_NORMAL, 0, POLLIN | POLLRDNORM | POLLHUP | POLLRDHUP | POLLERR);
	__wake_up(&sock->wr_wait, TASK_NORMAL, 0, POLLOUT | POLLWRNORM | POLLWRBAND | POLLHUP | POLLERR);
}

ssize_t sock_broken_pipe(u32 flags)
{
	if (!(flags & MSG_NOSIGNAL))
		send_signal_task(current, SIGPIPE, NULL);
	return -EPIPE;
}

/* -- the file -- */

/* Opening /proc/PID/fd/N of a socket. */
static int socket_open_again(struct inode *inode, struct file *f)
{
	(void)inode;
	(void)f;
	return -ENXIO;
}

static const struct file_ops socket_inode_fops = { .open = socket_open_again };

struct file *socket_file_reserve(unsigned int flags)
{
	struct file *f = anon_file_create_mode("socket", S_IFSOCK | 0777, &socket_fops, NULL, O_RDWR | (int)(flags & SOCK_NONBLOCK));

	if (!IS_ERR(f))
		f->inode->fops = &socket_inode_fops;
	return f;
}

void socket_file_attach(struct file *f, struct socket *sock)
{
	f->private = sock;
}

struct file *socket_file_create(struct socket *sock, unsigned int flags)
{
	struct file *f = socket_file_reserve(flags);

	if (!IS_ERR(f))
		socket_file_attach(f, sock);
	return f;
}

static u32 nonblock_flag(const struct file *f)
{
	return READ_ONCE(f->flags) & O_NONBLOCK ? MSG_DONTWAIT : 0;
}

static ssize_t socket_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct socket *sock = f->private;
	struct sock_msg m = { .iter = to, .flags = nonblock_flag(f) };

	(void)pos;
	if (!to->count)
		return 0;
	ssize_t n = sock->ops->recv(sock, &m);

	scm_files_put(m.scm.files);	/* whoever reads like this does not want them */
	return n;
}

static ssize_t socket_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	struct socket *sock = f->private;
	struct sock_msg m = { .iter = from, .flags = nonblock_flag(f) };

	(void)pos;
	scm_cred_current(&m.scm.cred);
	return sock->ops->send(sock, &m);
}

static u32 socket_poll(struct file *f, struct poll_table *pt)
{
	struct socket *sock = f->private;

	poll_wait(f, &sock->rd_wait, pt);
	poll_wait(f, &sock->wr_wait, pt);
	return sock->ops->poll(sock);
}

static long socket_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	struct socket *sock = f->private;

	return sock->ops->ioctl ? sock->ops->ioctl(sock, cmd, arg) : -ENOTTY;
}

static void socket_release(struct file *f)
{
	struct socket *sock = f->private;

	if (sock)			/* NULL: accept() failed after socket_file_reserve() */
		sock->ops->release(sock);
}

static const struct file_ops socket_fops = {
	.read = socket_read,
	.write = socket_write,
	.poll = socket_poll,
	.ioctl = socket_ioctl,
	.release = socket_release,
};

/* -- options of SOL_SOCKET -- */

enum {
	SO_DEBUG = 1, SO_REUSEADDR, SO_TYPE, SO_ERROR, SO_DONTROUTE, SO_BROADCAST, SO_SNDBUF, SO_RCVBUF, SO_KEEPALIVE, SO_OOBINLINE,
	SO_NO_CHECK, SO_PRIORITY, SO_LINGER, SO_BSDCOMPAT, SO_REUSEPORT, SO_PEERCRED = 17, SO_RCVLOWAT, SO_SNDLOWAT,
	SO_RCVTIMEO_OLD, SO_SNDTIMEO_OLD, SO_TIMESTAMP = 29, SO_ACCEPTCONN, SO_SNDBUFFORCE = 32, SO_RCVBUFFORCE, SO_PASSSEC, SO_MARK = 36,
	SO_PROTOCOL = 38, SO_DOMAIN, SO_RCVTIMEO_NEW = 66, SO_SNDTIMEO_NEW,
};

#define SNDBUF_MIN	4608u
#define RCVBUF_MIN	2304u
/* Flags that are kept and given back, and mean nothing more here (or are read by the family). */
#define STORED_FLAGS	(BIT(SO_DEBUG) | BIT(SO_REUSEADDR) | BIT(SO_DONTROUTE) | BIT(SO_BROADCAST) | BIT(SO_KEEPALIVE) | BIT(SO_OOBINLINE) | \
			 BIT(SO_NO_CHECK) | BIT(SO_REUSEPORT) | BIT(SO_PASSCRED) | BIT(SO_TIMESTAMP))

static void store_flag(struct socket *sock, int name, bool on)
{
	if (on)
		__atomic_fetch_or(&sock->options, (u32)BIT(name), __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&sock->options, ~(u32)BIT(name), __ATOMIC_RELAXED);
}

/* struct timeval to nanoseconds; zero is for ever, negative counts as already over. 0, -EFAULT, -EINVAL, -EDOM. */
static int set_timeout(u64 *timeo, const void __user *val, u32 len)
{
	struct timeval64 tv;

	if (len < sizeof(tv))
		return -EINVAL;
	if (copy_in(&tv, val, sizeof(tv)))
		return -EFAULT;
	if (tv.tv_usec < 0 || tv.tv_usec >= 1000000)
		return -EDOM;
	struct timespec64 ts = { tv.tv_sec, tv.tv_usec * 1000 };

	WRITE_ONCE(*timeo, tv.tv_sec < 0 ? 1 : timespec_to_ns(&ts));
	return 0;
}

static int set_linger(struct socket *sock, const void __user *val, u32 len)
{
	struct { int onoff, linger; } l;

	if (len < sizeof(l))
		return -EINVAL;
	if (copy_in(&l, val, sizeof(l)))
		return -EFAULT;
	sock->linger.onoff = !!l.onoff;
	if (l.onoff)
		sock->linger.linger = l.linger;
	return 0;
}

/* Twice what is asked for, as Linux does and tells: room for the bookkeeping. */
static u32 buffer_size(int v, u32 least, bool force)
{
	u32 n = v < 0 ? SOCK_BUF_DEFAULT : (u32)v;

	if (force)
		n = min(n, (u32)INT32_MAX / 2);
	else
		n = min(n, SOCK_BUF_DEFAULT);
	return max(n * 2, least);
}

static int set_number(struct socket *sock, int name, int v)
{
	switch (name) {
	case SO_SNDBUFFORCE:
	case SO_RCVBUFFORCE:
		if (!capable(CAP_NET_ADMIN))
			return -EPERM;
		__attribute__((fallthrough));
	case SO_SNDBUF:
	case SO_RCVBUF:
		if (name == SO_SNDBUF || name == SO_SNDBUFFORCE)
			WRITE_ONCE(sock->sndbuf, buffer_size(v, SNDBUF_MIN, name == SO_SNDBUFFORCE));
		else
			WRITE_ONCE(sock->rcvbuf, buffer_size(v, RCVBUF_MIN, name == SO_RCVBUFFORCE));
		sock_wake_writers(sock);
		return 0;
	case SO_PRIORITY:
		if ((v < 0 || v > 6) && !capable(CAP_NET_ADMIN) && !capable(CAP_NET_RAW))
			return -EPERM;
		WRITE_ONCE(sock->priority, (u32)v);
		return 0;
	case SO_MARK:
		if (!capable(CAP_NET_ADMIN) && !capable(CAP_NET_RAW))
			return -EPERM;
		WRITE_ONCE(sock->mark, (u32)v);
		return 0;
	case SO_RCVLOWAT:
		WRITE_ONCE(sock->rcvlowat, v < 0 ? (u32)INT32_MAX : (u32)(v ? v : 1));
		return 0;
	case SO_DEBUG:
		if (v && !capable(CAP_NET_ADMIN))
			return -EACCES;
		break;
	}
	store_flag(sock, name, v);
	return 0;
}

static bool is_number(int name)
{
	switch (name) {
	case SO_SNDBUF: case SO_RCVBUF: case SO_SNDBUFFORCE: case SO_RCVBUFFORCE: case SO_PRIORITY: case SO_MARK: case SO_RCVLOWAT:
		return true;
	default:
		return name >= 0 && name < 32 && (STORED_FLAGS & BIT(name));
	}
}

int sock_setsockopt(struct socket *sock, int name, const void __user *val, u32 len)
{
	int v;

	if (len < sizeof(v))
		return -EINVAL;
	if (get_user(v, (const int __user *)val))
		return -EFAULT;
	switch (name) {
	case SO_TYPE: case SO_PROTOCOL: case SO_DOMAIN: case SO_ERROR: case SO_ACCEPTCONN: case SO_PEERCRED: case SO_SNDLOWAT:
		return -ENOPROTOOPT;
	case SO_LINGER:
		return set_linger(sock, val, len);
	case SO_RCVTIMEO_OLD: case SO_RCVTIMEO_NEW:
		return set_timeout(&sock->rcvtimeo, val, len);
	case SO_SNDTIMEO_OLD: case SO_SNDTIMEO_NEW:
		return set_timeout(&sock->sndtimeo, val, len);
	default:
		return is_number(name) ? set_number(sock, name, v) : -ENOPROTOOPT;
	}
}

int sock_option_out(const void *p, size_t size, void __user *val, int __user *ulen)
{
	int len;

	if (get_user(len, ulen))
		return -EFAULT;
	if (len < 0)
		return -EINVAL;
	len = min(len, (int)size);
	if (copy_out(val, p, (size_t)len))
		return -EFAULT;
	return put_user(len, ulen);
}

static int get_timeout(u64 timeo, void __user *val, int __user *ulen)
{
	struct timespec64 ts = ns_to_timespec(timeo);
	struct timeval64 tv = { ts.tv_sec, ts.tv_nsec / 1000 };

	return sock_option_out(&tv, sizeof(tv), val, ulen);
}

/* Of the options that are one number. 0 or -ENOPROTOOPT. */
static int get_number(struct socket *sock, int name, int *v)
{
	switch (name) {
	case SO_TYPE:		*v = sock->type; return 0;
	case SO_DOMAIN:		*v = sock->family; return 0;
	case SO_PROTOCOL:	*v = sock->protocol; return 0;
	case SO_ERROR:		*v = -sock_error(sock); return 0;
	case SO_ACCEPTCONN:	*v = READ_ONCE(sock->state) == SS_LISTENING; return 0;
	case SO_SNDBUF:		*v = (int)READ_ONCE(sock->sndbuf); return 0;
	case SO_RCVBUF:		*v = (int)READ_ONCE(sock->rcvbuf); return 0;
	case SO_PRIORITY:	*v = (int)READ_ONCE(sock->priority); return 0;
	case SO_MARK:		*v = (int)READ_ONCE(sock->mark); return 0;
	case SO_RCVLOWAT:	*v = (int)READ_ONCE(sock->rcvlowat); return 0;
	case SO_SNDLOWAT:	*v = 1; return 0;
	case SO_PASSSEC:	*v = 0; return 0;
	}
	if (name < 0 || name >= 32 || !(STORED_FLAGS & BIT(name)))
		return -ENOPROTOOPT;
	*v = sock_option(sock, (unsigned int)name);
	return 0;
}

int sock_getsockopt(struct socket *sock, int name, void __user *val, int __user *ulen)
{
	int len, v;

	if (get_user(len, ulen))
		return -EFAULT;
	if (len < 0)
		return -EINVAL;
	switch (name) {
	case SO_LINGER:
		return sock_option_out(&sock->linger, sizeof(sock->linger), val, ulen);
	case SO_RCVTIMEO_OLD: case SO_RCVTIMEO_NEW:
		return get_timeout(READ_ONCE(sock->rcvtimeo), val, ulen);
	case SO_SNDTIMEO_OLD: case SO_SNDTIMEO_NEW:
		return get_timeout(READ_ONCE(sock->sndtimeo), val, ulen);
	case SO_PEERCRED:
		return sock_option_out(&sock->peer_cred, sizeof(sock->peer_cred), val, ulen);
	}
	int err = get_number(sock, name, &v);

	return err ? err : sock_option_out(&v, sizeof(v), val, ulen);
}
