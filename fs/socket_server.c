/*
 * The socket operations of families that a server backs: each call becomes a question (fs/socket_family.c: ask()), and whoever
 * has to wait waits here, for the readiness that the server tells.
 *
 * Easy to break: a question that was answered with EAGAIN is asked again only after the readiness has changed. Both the
 * answer's own readiness and the server's messages are stored before the waiters are woken, and the wait looks at the stored
 * word after it has queued itself, so no change is missed.
 */
#include "fs/socket_server.h"

#include "fs/tty_ioctl.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "mm/slab.h"

#define READ_BITS	(FL_READY_IN | FL_READY_RDHUP | FL_READY_HUP | FL_READY_ERR)
#define WRITE_BITS	(FL_READY_OUT | FL_READY_HUP | FL_READY_ERR)
#define SIOCGIFCONF	0x8912u
#define SIOCATMARK	0x8905u
#define SIOCADDRT	0x890bu
#define SIOCDELRT	0x890cu
#define IFREQ_SIZE	40u
#define RTENTRY_SIZE	120u

static const struct socket_ops server_ops;

struct socket *server_create(int number, int type, int protocol)
{
	struct family *f = family_get(number);

	if (!f || !READ_ONCE(f->generation))
		return ERR_PTR(-EAFNOSUPPORT);
	if (type == SOCK_RAW && !capable(CAP_NET_RAW))
		return ERR_PTR(-EPERM);
	struct server_sock *s = server_sock_new(f, type, protocol, &server_ops);

	if (!s)
		return ERR_PTR(-ENOMEM);
	struct question q = { .req = { .op = FL_OP_SOCKET, .arg = { number, type, protocol } } };

	/* Asked rather than told, so that a type that the server does not have is an error now. */
	int err = ask(s, &q, false);

	question_end(&q);
	if (err) {
		s->sock.ops->release(&s->sock);
		return ERR_PTR(err);
	}
	return &s->sock;
}

static void server_release(struct socket *sock)
{
	struct server_sock *s = server_sk(sock);

	if (s->spare)
		server_release(&s->spare->sock);	/* it has no spare of its own */
	post_close(s);
	server_sock_put(s);
}

/* Is one of @bits there, or unknown whether? Then it is worth asking. */
static bool worth_asking(struct server_sock *s, u32 bits)
{
	u32 ready = READ_ONCE(s->ready);

	return !(ready & FL_READY_VALID) || (ready & bits) || READ_ONCE(s->sock.err);
}

/* After EAGAIN: not before the server says something. */
static void nothing_now(struct server_sock *s, u32 bits, const struct question *q)
{
	if (!(q->ans.ready & FL_READY_VALID))
		__atomic_fetch_and(&s->ready, ~bits, __ATOMIC_RELAXED);
	/* A server that says neither would be asked in a circle. */
	u32 unknown = READ_ONCE(s->ready);

	if (!(unknown & FL_READY_VALID))
		__atomic_compare_exchange_n(&s->ready, &unknown, FL_READY_VALID, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* -- names and connections -- */

static bool is_inet(const struct socket *sock) { return sock->family == AF_INET || sock->family == AF_INET6; }

static int check_port(struct socket *sock, const struct sock_addr *addr)
{
	u16 port = (u16)(addr->bytes[2] << 8 | addr->bytes[3]);

	if (!is_inet(sock) || addr->len < 4 || sock->type == SOCK_RAW)
		return 0;
	return port && port < 1024 && !capable(CAP_NET_BIND_SERVICE) ? -EACCES : 0;
}

/* *slot becomes a copy of @addr; NULL: none. What cannot be remembered is not replayed. sock.lock held. */
static int remember(struct sock_addr **slot, const struct sock_addr *addr)
{
	struct sock_addr *copy = addr ? kmalloc(sizeof(*copy), GFP_KERNEL) : NULL;

	if (addr && !copy)
		return -ENOMEM;
	if (copy)
		*copy = *addr;
	kfree(*slot);
	*slot = copy;
	return 0;
}

static int server_bind(struct socket *sock, const struct sock_addr *addr)
{
	struct server_sock *s = server_sk(sock);
	struct question q = { .req = { .op = FL_OP_BIND, .addr_len = addr->len }, .addr = addr->bytes };
	int err = check_port(sock, addr);

	if (err)
		return err;
	mutex_lock(&sock->lock);
	err = ask(s, &q, true);
	if (!err) {
		/* A port that the server chose must be the same again: it is remembered as the server tells it. */
		struct sock_addr name = *addr;
		struct question own = { .req = { .op = FL_OP_NAME }, .again = true };

		question_end(&q);
		if (!ask(s, &own, true) && own.ans.addr_len)
			reply_addr(&own, &name);
		question_end(&own);
		err = remember(&s->bound, &name);
	}
	mutex_unlock(&sock->lock);
	question_end(&q);
	return err;
}

static int server_listen(struct socket *sock, int backlog)
{
	struct server_sock *s = server_sk(sock);
	struct question q = { .req = { .op = FL_OP_LISTEN, .arg = { backlog } } };

	mutex_lock(&sock->lock);
	int err = ask(s, &q, true);

	if (!err) {
		s->backlog = backlog;
		WRITE_ONCE(sock->state, SS_LISTENING);
	}
	mutex_unlock(&sock->lock);
	question_end(&q);
	return err;
}

/* A connection that was begun: established, failed, or not yet. */
static int wait_connected(struct server_sock *s, bool nonblock)
{
	struct socket *sock = &s->sock;
	u64 deadline = sock_deadline(READ_ONCE(sock->sndtimeo));

	if (nonblock && READ_ONCE(sock->state) == SS_CONNECTING)
		return -EINPROGRESS;
	int err = sock_wait(&sock->wr_wait, READ_ONCE(sock->state) != SS_CONNECTING || READ_ONCE(s->broken), false, deadline);

	if (err == -EAGAIN)
		return -EINPROGRESS;
	if (err)
		return err;
	err = sock_error(sock);
	if (!err && READ_ONCE(sock->state) != SS_CONNECTED)
		err = -ECONNABORTED;
	return err;
}

static int begin_connect(struct server_sock *s, const struct sock_addr *addr)
{
	struct question q = { .req = { .op = FL_OP_CONNECT, .addr_len = addr->len }, .addr = addr->bytes };
	u8 before = READ_ONCE(s->sock.state);

	if (s->sock.type == SOCK_STREAM)
		WRITE_ONCE(s->sock.state, SS_CONNECTING);	/* first: the server may say OUT before its answer is here */
	int err = ask(s, &q, true);

	question_end(&q);
	if (s->sock.type != SOCK_STREAM) {
		if (!err)
			err = remember(&s->peer, addr->len >= 2 && addr->family == AF_UNSPEC ? NULL : addr);
	} else if (!err) {
		WRITE_ONCE(s->sock.state, SS_CONNECTED);
	} else if (err != -EINPROGRESS && READ_ONCE(s->sock.state) == SS_CONNECTING) {
		WRITE_ONCE(s->sock.state, before);
	}
	return err;
}

static int server_connect(struct socket *sock, const struct sock_addr *addr, bool nonblock)
{
	struct server_sock *s = server_sk(sock);
	int err = 0;

	if (addr->len < sizeof(addr->family))
		return -EINVAL;
	mutex_lock(&sock->lock);
	u8 state = READ_ONCE(sock->state);

	if (sock->type == SOCK_STREAM && state == SS_CONNECTED)
		err = -EISCONN;
	else if (sock->type == SOCK_STREAM && state == SS_CONNECTING)
		err = nonblock ? -EALREADY : -EINPROGRESS;	/* blocking: joins the wait */
	else if (READ_ONCE(s->broken))
		err = -ECONNABORTED;
	else
		err = begin_connect(s, addr);
	mutex_unlock(&sock->lock);
	return err == -EINPROGRESS ? wait_connected(s, nonblock) : err;
}

/* One try. NULL: nobody there yet. */
static struct server_sock *try_accept(struct server_sock *s)
{
	struct server_sock *child = __atomic_exchange_n(&s->spare, NULL, __ATOMIC_ACQ_REL), *none = NULL;
	int err = -ENOMEM;

	if (!child)
		child = server_sock_new(s->family, s->sock.type, s->sock.protocol, &server_ops);
	if (!child)
		return ERR_PTR(err);
	struct question q = { .req = { .op = FL_OP_ACCEPT, .id2 = child->id }, .again = true };

	err = ask(s, &q, false);
	if (!err) {
		child->generation = READ_ONCE(s->generation);
		WRITE_ONCE(child->sock.state, SS_CONNECTED);
		question_end(&q);
		return child;
	}
	if (err == -EAGAIN) {
		nothing_now(s, FL_READY_IN, &q);
		if (!__atomic_compare_exchange_n(&s->spare, &none, child, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			server_release(&child->sock);
		return NULL;
	}
	child->generation = READ_ONCE(s->generation);	/* the server may have made it all the same: it hears of the close */
	server_release(&child->sock);
	return ERR_PTR(err);
}

static struct socket *server_accept(struct socket *sock, bool nonblock)
{
	struct server_sock *s = server_sk(sock), *child = NULL;
	u64 deadline = sock_deadline(READ_ONCE(sock->rcvtimeo));

	if (READ_ONCE(sock->state) != SS_LISTENING)
		return ERR_PTR(sock->type == SOCK_STREAM ? -EINVAL : -EOPNOTSUPP);
	for (;;) {
		int err = sock_error(sock);

		if (err)
			return ERR_PTR(err);
		if (worth_asking(s, READ_BITS) && (READ_ONCE(s->family->port) || !nonblock)) {
			child = try_accept(s);
			if (child && PTR_ERR(child) != -ENETDOWN)
				return IS_ERR(child) ? (struct socket *)child : &child->sock;
			if (child && !deadline)
				continue;	/* no server, and none has come: a listener is patient */
		}
		if (nonblock)
			return ERR_PTR(-EAGAIN);
		err = sock_wait(&sock->rd_wait, worth_asking(s, READ_BITS), true, deadline);
		if (err)
			return ERR_PTR(err);
	}
}

static int server_shutdown(struct socket *sock, unsigned int how)
{
	struct server_sock *s = server_sk(sock);
	struct question q = { .req = { .op = FL_OP_SHUTDOWN, .arg = { (int)how - 1 } } };

	if (READ_ONCE(s->broken))
		return -ENOTCONN;
	int err = ask(s, &q, false);

	question_end(&q);
	if (!err) {
		__atomic_fetch_or(&sock->shutdown, (u8)how, __ATOMIC_RELAXED);
		sock_wake_all(sock);
	}
	return err;
}

static int server_getname(struct socket *sock, struct sock_addr *addr, bool peer)
{
	struct question q = { .req = { .op = FL_OP_NAME, .arg = { peer } }, .again = true };
	int err = ask(server_sk(sock), &q, false);

	if (!err)
		reply_addr(&q, addr);
	question_end(&q);
	return err == -ECONNRESET ? -ENOTCONN : err;
}

/* -- data -- */

/* Sends @n bytes at @buf, as much as the server takes. Bytes or -errno. */
static ssize_t send_once(struct server_sock *s, struct sock_msg *m, const u8 *buf, u32 n)
{
	struct question q = { .req = { .op = FL_OP_SEND, .size = n, .msg_flags = m->flags & (MSG_OOB | MSG_DONTROUTE | MSG_EOR) } };

	if (m->addr && m->addr->len) {
		q.addr = m->addr->bytes;
		q.req.addr_len = m->addr->len;
	}
	if (n <= FL_INLINE_MAX - q.req.addr_len) {
		q.data = buf;
		q.data_len = n;
	} else {
		q.req.flags = FL_REQ_LENT;
		q.bulk = (void *)buf;
		q.bulk_len = n;
		q.bulk_rights = FL_LENT_R;
	}
	ssize_t ret = ask(s, &q, false);

	if (!ret)
		ret = q.ans.result > n ? -EIO : q.ans.result;
	else if (ret == -EAGAIN)
		nothing_now(s, FL_READY_OUT, &q);
	question_end(&q);
	return ret;
}

/* All of @n bytes, waiting for room. Bytes sent, if any; else -errno. */
static ssize_t send_all(struct server_sock *s, struct sock_msg *m, const u8 *buf, u32 n, u64 deadline)
{
	u32 done = 0;
	ssize_t ret = 0;

	do {
		ret = sock_error(&s->sock);
		if (!ret && (READ_ONCE(s->broken) || (READ_ONCE(s->sock.shutdown) & SHUT_WRITE)))
			ret = -EPIPE;
		if (!ret)
			ret = worth_asking(s, WRITE_BITS) ? send_once(s, m, buf + done, n - done) : -EAGAIN;
		if (ret > 0)
			done += (u32)ret;
		if (ret == -EAGAIN && !(m->flags & MSG_DONTWAIT)) {
			ret = sock_wait(&s->sock.wr_wait, worth_asking(s, WRITE_BITS), true, deadline);
			if (!ret)
				continue;
		}
		if (ret < 0 || (!ret && n))
			break;
	} while (done < n);
	return done ? (ssize_t)done : ret;
}

static ssize_t server_send(struct socket *sock, struct sock_msg *m)
{
	struct server_sock *s = server_sk(sock);
	bool stream = sock->type == SOCK_STREAM;
	u64 deadline = sock_deadline(READ_ONCE(sock->sndtimeo));
	ssize_t done = 0, ret = 0;

	if (!stream && m->iter->count > BULK_MAX)
		return -EMSGSIZE;
	u32 size = (u32)min(m->iter->count, (size_t)BULK_MAX);
	u8 *buf = kvmalloc(max(size, 1u), GFP_KERNEL);	/* filled here, in the caller's own time: the server never waits for it */

	if (!buf)
		return -ENOBUFS;
	do {
		u32 n = (u32)min(m->iter->count, (size_t)size);

		if (copy_from_iter(buf, n, m->iter) != n) {
			ret = -EFAULT;
			break;
		}
		ret = send_all(s, m, buf, n, deadline);
		if (ret < 0)
			break;
		done += ret;
		if ((u32)ret < n)
			break;
	} while (stream && m->iter->count);
	kvfree(buf);
	if (done)
		return done;
	return ret == -EPIPE && stream ? sock_broken_pipe(m->flags) : ret;
}

/* The answer to RECV into the caller's buffer. Bytes or -errno. */
static ssize_t take_data(struct sock_msg *m, const struct question *q, u32 wanted)
{
	u32 n, have = (u32)min(q->ans.result, (s64)wanted);
	const u8 *data = reply_data(q, &n);

	if (q->ans.flags & FL_ANS_LENT)
		data = q->bulk;
	if (have && ((q->ans.flags & FL_ANS_LENT) ? !q->bulk || have > q->bulk_len : have > n))
		return -EIO;
	if (q->ans.result > wanted && !(m->flags & MSG_TRUNC))
		return -EIO;
	if (copy_to_iter(data, have, m->iter) != have)
		return -EFAULT;
	if (m->addr)
		reply_addr(q, m->addr);
	m->out_flags |= q->ans.msg_flags & (MSG_TRUNC | MSG_OOB | MSG_CTRUNC | MSG_EOR);
	return q->ans.result;
}

static ssize_t recv_once(struct server_sock *s, struct sock_msg *m, void *bulk, u32 size)
{
	struct question q = { .req = { .op = FL_OP_RECV, .size = size, .msg_flags = m->flags & (MSG_PEEK | MSG_OOB | MSG_TRUNC | MSG_ERRQUEUE) },
			      .again = true };

	if (bulk) {
		q.req.flags = FL_REQ_LENT;
		q.bulk = bulk;
		q.bulk_len = size;
		q.bulk_rights = FL_LENT_W;
	}
	ssize_t ret = ask(s, &q, false);

	if (!ret)
		ret = take_data(m, &q, size);
	else if (ret == -EAGAIN)
		nothing_now(s, READ_BITS, &q);
	question_end(&q);
	return ret;
}

/* Bytes, 0 at the end, -errno. */
static ssize_t recv_wait(struct server_sock *s, struct sock_msg *m, void *bulk, u32 size, u64 deadline)
{
	struct socket *sock = &s->sock;

	for (;;) {
		ssize_t ret = sock_error(sock);

		if (ret)
			return ret;
		if (READ_ONCE(s->broken))
			return 0;
		ret = worth_asking(s, READ_BITS) && (READ_ONCE(s->family->port) || !(m->flags & MSG_DONTWAIT)) ? recv_once(s, m, bulk, size) : -EAGAIN;
		if (ret == -ECONNRESET && READ_ONCE(s->broken))
			continue;		/* told by the error that the socket has */
		if (ret == -ENETDOWN && !deadline && !(m->flags & MSG_DONTWAIT))
			continue;		/* no server yet: data cannot have come either */
		if (ret != -EAGAIN || (m->flags & MSG_DONTWAIT))
			return ret;
		ret = sock_wait(&sock->rd_wait, worth_asking(s, READ_BITS), true, deadline);
		if (ret)
			return ret;
	}
}

static ssize_t server_recv(struct socket *sock, struct sock_msg *m)
{
	struct server_sock *s = server_sk(sock);
	u64 deadline = sock_deadline(READ_ONCE(sock->rcvtimeo));
	u32 size = (u32)min(m->iter->count, (size_t)BULK_MAX);
	bool all = sock->type == SOCK_STREAM && (m->flags & MSG_WAITALL) && !(m->flags & MSG_PEEK);
	void *bulk = NULL;
	ssize_t done = 0, n;

	if (READ_ONCE(sock->state) == SS_LISTENING)
		return -ENOTCONN;
	if (size > FL_INLINE_MAX - sizeof(m->addr->bytes)) {
		bulk = kvmalloc(size, GFP_KERNEL | GFP_ZERO);	/* a server that claims to have written shows nothing of others */
		if (!bulk)
			return -ENOBUFS;
	}
	do {
		n = recv_wait(s, m, bulk, (u32)min(m->iter->count, (size_t)size), deadline);
		if (n > 0)
			done += n;
	} while (all && n > 0 && m->iter->count);
	kvfree(bulk);
	return done ? done : n;
}

static u32 server_poll(struct socket *sock)
{
	struct server_sock *s = server_sk(sock);
	u32 ready = READ_ONCE(s->ready), bits = ready & (FL_READY_IN | FL_READY_PRI | FL_READY_OUT | FL_READY_ERR | FL_READY_HUP | FL_READY_RDHUP);

	if (!(ready & FL_READY_VALID) && READ_ONCE(sock->state) != SS_LISTENING && READ_ONCE(sock->state) != SS_CONNECTING)
		bits |= POLLOUT;
	if (READ_ONCE(sock->err))
		bits |= POLLERR;
	if (bits & POLLIN)
		bits |= POLLRDNORM;
	if (bits & POLLOUT)
		bits |= POLLWRNORM | POLLWRBAND;
	return bits;
}

/* -- options and ioctls -- */

/* For the next server. Full: it is not replayed (docs/known-gaps.md). sock.lock held. */
static void remember_option(struct server_sock *s, int level, int name, const void *val, u32 len)
{
	struct option *o = NULL;

	for (u32 i = 0; i < s->nr_options && !o; i++)
		if (s->options[i].level == level && s->options[i].name == name)
			o = &s->options[i];
	if (!o) {
		if (s->nr_options == MAX_OPTIONS)
			return;
		if (!s->options)
			s->options = kcalloc(MAX_OPTIONS, sizeof(*o), GFP_KERNEL);
		if (!s->options)
			return;
		o = &s->options[s->nr_options++];
	}
	o->level = level;
	o->name = name;
	o->len = len;
	memcpy(o->value, val, len);
}

static u32 privilege(void) { return capable(CAP_NET_ADMIN) ? FL_REQ_PRIVILEGED : 0; }

static int tell_option(struct server_sock *s, int level, int name, const void *val, u32 len)
{
	struct question q = { .req = { .op = FL_OP_SETOPT, .flags = privilege(), .arg = { level, name }, .size = len },
			      .data = val, .data_len = len };

	mutex_lock(&s->sock.lock);
	int err = ask(s, &q, true);

	if (!err)
		remember_option(s, level, name, val, len);
	mutex_unlock(&s->sock.lock);
	question_end(&q);
	return err;
}

static int server_setsockopt(struct socket *sock, int level, int name, const void __user *val, u32 len)
{
	u8 value[OPTION_MAX];
	int err = level == SOL_SOCKET ? sock_setsockopt(sock, name, val, len) : 0;

	if (err)
		return err;
	if (len > OPTION_MAX)
		return level == SOL_SOCKET ? 0 : -EINVAL;
	if (copy_in(value, val, len))
		return -EFAULT;
	err = READ_ONCE(server_sk(sock)->broken) ? 0 : tell_option(server_sk(sock), level, name, value, len);
	/* The kernel has stored it: a server that has no use for it does not make it an error. */
	return level == SOL_SOCKET && (err == -ENOPROTOOPT || err == -EOPNOTSUPP) ? 0 : err;
}

static int server_getsockopt(struct socket *sock, int level, int name, void __user *val, int __user *ulen)
{
	int len;

	if (level == SOL_SOCKET)
		return sock_getsockopt(sock, name, val, ulen);
	if (get_user(len, ulen))
		return -EFAULT;
	if (len < 0)
		return -EINVAL;
	struct question q = { .req = { .op = FL_OP_GETOPT, .arg = { level, name }, .size = (u32)min(len, (int)FL_INLINE_MAX) }, .again = true };
	int err = ask(server_sk(sock), &q, false);

	if (!err) {
		u32 n;
		const u8 *data = reply_data(&q, &n);

		err = sock_option_out(data, n, val, ulen);
	}
	question_end(&q);
	return err;
}

/* Bytes that a command reads and writes; 0: not one that we know. */
static u32 ioctl_size(unsigned int cmd)
{
	if (cmd == FIONREAD || cmd == TIOCOUTQ || cmd == SIOCATMARK)
		return sizeof(int);
	if (cmd == SIOCADDRT || cmd == SIOCDELRT)
		return RTENTRY_SIZE;
	return cmd >= 0x8910 && cmd <= 0x89ff && cmd != SIOCGIFCONF ? IFREQ_SIZE : 0;
}

static long get_ifconf(struct socket *sock, void __user *arg)
{
	struct { int len, _pad; void __user *buf; } conf;
	struct question q = { .req = { .op = FL_OP_IOCTL, .arg = { (int)SIOCGIFCONF } }, .again = true };
	u32 n;

	if (copy_in(&conf, arg, sizeof(conf)))
		return -EFAULT;
	int err = ask(server_sk(sock), &q, false);

	if (!err) {
		const u8 *data = reply_data(&q, &n);

		if (conf.buf)
			n = (u32)min((int)n, max(conf.len, 0)) / IFREQ_SIZE * IFREQ_SIZE;
		if (conf.buf && n && copy_out(conf.buf, data, n))
			err = -EFAULT;
		conf.len = (int)n;
		if (!err)
			err = copy_out(arg, &conf, sizeof(conf));
	}
	question_end(&q);
	return err;
}

static long server_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg)
{
	u8 value[RTENTRY_SIZE];
	u32 size = ioctl_size(cmd), n;

	if (cmd == SIOCGIFCONF)
		return get_ifconf(sock, (void __user *)arg);
	if (!size)
		return -ENOTTY;
	struct question q = { .req = { .op = FL_OP_IOCTL, .flags = privilege(), .arg = { (int)cmd }, .size = size },
			      .data = value, .data_len = size > sizeof(int) ? size : 0 };

	if (q.data_len && copy_in(value, (void __user *)arg, size))
		return -EFAULT;
	long ret = ask(server_sk(sock), &q, false);

	if (!ret) {
		const u8 *data = reply_data(&q, &n);

		ret = q.ans.result;
		if (n && copy_out((void __user *)arg, data, min(n, size)))
			ret = -EFAULT;
	}
	question_end(&q);
	return ret;
}

static const struct socket_ops server_ops = {
	.bind = server_bind,
	.connect = server_connect,
	.listen = server_listen,
	.accept = server_accept,
	.shutdown = server_shutdown,
	.getname = server_getname,
	.send = server_send,
	.recv = server_recv,
	.poll = server_poll,
	.ioctl = server_ioctl,
	.setsockopt = server_setsockopt,
	.getsockopt = server_getsockopt,
	.release = server_release,
};
