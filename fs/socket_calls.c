/*
 * The system calls on sockets: arguments in, addresses and message headers, then the family's operation. Structures are copied once.
 */
#include "fs/socket.h"

#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"

#define IOV_MAX		1024u
#define MAX_RW_COUNT	0x7ffff000ul

struct msghdr {			/* user ABI */
	void __user		*name;
	int			 namelen, _pad0;
	struct iovec __user	*iov;
	size_t			 iovlen;
	void __user		*control;
	size_t			 controllen;
	u32			 flags, _pad1;
};
struct mmsghdr { struct msghdr hdr; u32 len, _pad; };

/* A socket by descriptor; fdput() when done, whatever came of it. -EBADF, -ENOTSOCK. */
struct sock_ref { struct socket *sock; struct fd_ref ref; };

static int sock_lookup(int fd, struct sock_ref *s)
{
	s->ref = fdget(fd);
	if (!s->ref.file)
		return -EBADF;
	s->sock = file_socket(s->ref.file);
	return s->sock ? 0 : -ENOTSOCK;
}

static bool is_nonblocking(const struct sock_ref *s)
{
	return READ_ONCE(s->ref.file->flags) & O_NONBLOCK;
}

/* -- addresses -- */

static int address_in(struct sock_addr *addr, const void __user *uaddr, int len)
{
	if (len < 0 || len > (int)sizeof(addr->bytes))
		return -EINVAL;
	memset(addr, 0, sizeof(*addr));
	addr->len = (u32)len;
	return len ? copy_in(addr->bytes, uaddr, (size_t)len) : 0;
}

/* As much as there is room for; the length tells how much there was. */
static int address_out(const struct sock_addr *addr, void __user *uaddr, int __user *ulen)
{
	int room;

	if (get_user(room, ulen))
		return -EFAULT;
	if (room < 0)
		return -EINVAL;
	if (copy_out(uaddr, addr->bytes, min((size_t)room, (size_t)addr->len)))
		return -EFAULT;
	return put_user((int)addr->len, ulen);
}

/* -- making sockets -- */

static struct socket *create(int family, int type, int protocol)
{
	if (family < 0 || family >= AF_MAX)
		return ERR_PTR(-EAFNOSUPPORT);
	if (type > 10)
		return ERR_PTR(-EINVAL);
	if (family == AF_UNIX)
		return unix_create(type, protocol);
	return server_create(family, type, protocol);
}

/* Gives @sock a file and @fd. Takes both over, also when it fails. */
static int install_socket(struct socket *sock, int fd, unsigned int flags)
{
	struct file *f = socket_file_create(sock, flags);

	if (IS_ERR(f)) {
		sock->ops->release(sock);
		fd_release(fd);
		return (int)PTR_ERR(f);
	}
	fd_install(fd, f);
	return fd;
}

SYSCALL_DEFINE(socket, int family, int type, int protocol)
{
	unsigned int flags = (unsigned int)type & ~(unsigned int)SOCK_TYPE_MASK;

	if (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK))
		return -EINVAL;
	struct socket *sock = create(family, type & SOCK_TYPE_MASK, protocol);

	if (IS_ERR(sock))
		return PTR_ERR(sock);
	int fd = fd_reserve(flags & SOCK_CLOEXEC ? O_CLOEXEC : 0);

	if (fd < 0) {
		sock->ops->release(sock);
		return fd;
	}
	return install_socket(sock, fd, flags);
}

/* Two files for two connected sockets, which it takes over. 0 or -errno. */
static int pair_files(struct socket *socks[2], struct file *files[2], unsigned int flags)
{
	for (int i = 0; i < 2; i++) {
		files[i] = socket_file_create(socks[i], flags);
		if (!IS_ERR(files[i]))
			continue;
		for (int j = i; j < 2; j++)
			socks[j]->ops->release(socks[j]);
		if (i)
			file_put(files[0]);
		return (int)PTR_ERR(files[i]);
	}
	return 0;
}

static int create_pair(int family, int type, int protocol, unsigned int flags, struct file *files[2])
{
	struct socket *socks[2];

	socks[0] = create(family, type, protocol);
	if (IS_ERR(socks[0]))
		return (int)PTR_ERR(socks[0]);
	socks[1] = create(family, type, protocol);
	int err = IS_ERR(socks[1]) ? (int)PTR_ERR(socks[1]) : family == AF_UNIX ? unix_socketpair(socks[0], socks[1]) : -EOPNOTSUPP;

	if (err) {
		if (!IS_ERR(socks[1]))
			socks[1]->ops->release(socks[1]);
		socks[0]->ops->release(socks[0]);
		return err;
	}
	return pair_files(socks, files, flags);
}

SYSCALL_DEFINE(socketpair, int family, int type, int protocol, int __user *ufds)
{
	unsigned int flags = (unsigned int)type & ~(unsigned int)SOCK_TYPE_MASK;
	struct file *files[2];
	int fds[2], err;

	if (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK))
		return -EINVAL;
	for (int i = 0; i < 2; i++) {
		fds[i] = fd_reserve(flags & SOCK_CLOEXEC ? O_CLOEXEC : 0);
		if (fds[i] < 0) {
			if (i)
				fd_release(fds[0]);
			return fds[i];
		}
	}
	err = copy_out(ufds, fds, sizeof(fds));	/* before anything exists: a bad pointer leaves nothing behind */
	if (!err)
		err = create_pair(family, type & SOCK_TYPE_MASK, protocol, flags, files);
	if (err) {
		fd_release(fds[0]);
		fd_release(fds[1]);
		return err;
	}
	fd_install(fds[0], files[0]);
	fd_install(fds[1], files[1]);
	return 0;
}

/* -- names and connections -- */

SYSCALL_DEFINE(bind, int fd, const void __user *uaddr, int len)
{
	struct sock_addr addr;
	struct sock_ref s;
	int err = sock_lookup(fd, &s);

	if (!err)
		err = address_in(&addr, uaddr, len);
	if (!err)
		err = s.sock->ops->bind ? s.sock->ops->bind(s.sock, &addr) : -EOPNOTSUPP;
	fdput(s.ref);
	return err;
}

SYSCALL_DEFINE(connect, int fd, const void __user *uaddr, int len)
{
	struct sock_addr addr;
	struct sock_ref s;
	int err = sock_lookup(fd, &s);

	if (!err)
		err = address_in(&addr, uaddr, len);
	if (!err)
		err = s.sock->ops->connect ? s.sock->ops->connect(s.sock, &addr, is_nonblocking(&s)) : -EOPNOTSUPP;
	fdput(s.ref);
	return err;
}

SYSCALL_DEFINE(listen, int fd, int backlog)
{
	struct sock_ref s;
	int err = sock_lookup(fd, &s);

	if (!err) {
		if ((unsigned int)backlog > SOMAXCONN)
			backlog = SOMAXCONN;
		err = s.sock->ops->listen ? s.sock->ops->listen(s.sock, backlog) : -EOPNOTSUPP;
	}
	fdput(s.ref);
	return err;
}

/* The descriptor and the file come first: a connection that was taken out of the queue must not be lost for want of them. */
static int do_accept(struct sock_ref *s, void __user *uaddr, int __user *ulen, unsigned int flags)
{
	struct socket *sock = s->sock, *new;
	struct sock_addr addr = { 0 };
	int err = 0;

	if (!sock->ops->accept)
		return -EOPNOTSUPP;
	int fd = fd_reserve(flags & SOCK_CLOEXEC ? O_CLOEXEC : 0);

	if (fd < 0)
		return fd;
	struct file *f = socket_file_reserve(flags);

	if (IS_ERR(f)) {
		err = (int)PTR_ERR(f);
		goto release_fd;
	}
	new = sock->ops->accept(sock, is_nonblocking(s));
	if (IS_ERR(new)) {
		err = (int)PTR_ERR(new);
		goto put_file;
	}
	socket_file_attach(f, new);
	if (uaddr) {
		err = new->ops->getname(new, &addr, true);
		err = err ? -ECONNABORTED : address_out(&addr, uaddr, ulen);
		if (err)
			goto put_file;
	}
	fd_install(fd, f);
	return fd;
put_file:
	file_put(f);
release_fd:
	fd_release(fd);
	return err;
}

SYSCALL_DEFINE(accept4, int fd, void __user *uaddr, int __user *ulen, int flags)
{
	struct sock_ref s;

	if ((unsigned int)flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK))
		return -EINVAL;
	int ret = sock_lookup(fd, &s);

	if (!ret)
		ret = do_accept(&s, uaddr, ulen, (unsigned int)flags);
	fdput(s.ref);
	return ret;
}

SYSCALL_DEFINE(accept, int fd, void __user *uaddr, int __user *ulen)
{
	return sys_accept4(fd, uaddr, ulen, 0);
}

SYSCALL_DEFINE(shutdown, int fd, int how)
{
	struct sock_ref s;
	int err = sock_lookup(fd, &s);

	if (!err && (how < 0 || how > 2))
		err = -EINVAL;
	if (!err)
		err = s.sock->ops->shutdown ? s.sock->ops->shutdown(s.sock, (unsigned int)how + 1) : -EOPNOTSUPP;
	fdput(s.ref);
	return err;
}

static int do_getname(int fd, void __user *uaddr, int __user *ulen, bool peer)
{
	struct sock_addr addr = { 0 };
	struct sock_ref s;
	int err = sock_lookup(fd, &s);

	if (!err)
		err = s.sock->ops->getname(s.sock, &addr, peer);
	if (!err)
		err = address_out(&addr, uaddr, ulen);
	fdput(s.ref);
	return err;
}

SYSCALL_DEFINE(getsockname, int fd, void __user *uaddr, int __user *ulen)
{
	return do_getname(fd, uaddr, ulen, false);
}

SYSCALL_DEFINE(getpeername, int fd, void __user *uaddr, int __user *ulen)
{
	return do_getname(fd, uaddr, ulen, true);
}

/* -- options -- */

SYSCALL_DEFINE(setsockopt, int fd, int level, int name, const void __user *val, int len)
{
	struct sock_ref s;
	int err;

	if (len < 0)
		return -EINVAL;
	err = sock_lookup(fd, &s);
	if (!err) {
		if (s.sock->ops->setsockopt)
			err = s.sock->ops->setsockopt(s.sock, level, name, val, (u32)len);
		else
			err = level == SOL_SOCKET ? sock_setsockopt(s.sock, name, val, (u32)len) : -EOPNOTSUPP;
	}
	fdput(s.ref);
	return err;
}

SYSCALL_DEFINE(getsockopt, int fd, int level, int name, void __user *val, int __user *ulen)
{
	struct sock_ref s;
	int err = sock_lookup(fd, &s);

	if (!err) {
		if (s.sock->ops->getsockopt)
			err = s.sock->ops->getsockopt(s.sock, level, name, val, ulen);
		else
			err = level == SOL_SOCKET ? sock_getsockopt(s.sock, name, val, ulen) : -EOPNOTSUPP;
	}
	fdput(s.ref);
	return err;
}

/* -- sending and receiving -- */

static int import_buffer(struct iov_iter *it, struct iovec *slot, void __user *buf, size_t len)
{
	len = min(len, MAX_RW_COUNT);
	if (!access_ok(buf, len))
		return -EFAULT;
	*slot = (struct iovec){ buf, len };
	iov_iter_init(it, slot, 1, len);
	return 0;
}

SYSCALL_DEFINE(sendto, int fd, const void __user *buf, size_t len, unsigned int flags, const void __user *uaddr, int addrlen)
{
	struct sock_addr addr;
	struct iovec slot;
	struct iov_iter it;
	struct sock_ref s;
	ssize_t n = import_buffer(&it, &slot, (void __user *)buf, len);

	if (n)
		return n;
	n = sock_lookup(fd, &s);
	if (!n && uaddr)
		n = address_in(&addr, uaddr, addrlen);
	if (!n) {
		struct sock_msg m = { .iter = &it, .addr = uaddr ? &addr : NULL, .flags = flags };

		if (is_nonblocking(&s))
			m.flags |= MSG_DONTWAIT;
		scm_cred_current(&m.scm.cred);
		n = s.sock->ops->send(s.sock, &m);
	}
	fdput(s.ref);
	return n;
}

SYSCALL_DEFINE(recvfrom, int fd, void __user *buf, size_t len, unsigned int flags, void __user *uaddr, int __user *ulen)
{
	struct sock_addr addr;
	struct iovec slot;
	struct iov_iter it;
	struct sock_ref s;
	ssize_t n = import_buffer(&it, &slot, buf, len);

	if (n)
		return n;
	n = sock_lookup(fd, &s);
	if (!n) {
		struct sock_msg m = { .iter = &it, .addr = uaddr ? &addr : NULL, .flags = flags };

		addr.len = 0;
		if (is_nonblocking(&s))
			m.flags |= MSG_DONTWAIT;
		n = s.sock->ops->recv(s.sock, &m);
		scm_files_put(m.scm.files);
		if (n >= 0 && uaddr) {
			int err = address_out(&addr, uaddr, ulen);

			n = err ? err : n;
		}
	}
	fdput(s.ref);
	return n;
}

/* A message header of user space, and what its pointers lead to but for the data. */
struct message {
	struct msghdr	 hdr;
	struct sock_addr addr;
	struct iovec	*iov, fast[8];
	struct iov_iter	 it;
};

/* 0 or -errno; then message_end(). */
static int message_in(struct message *m, const struct msghdr __user *uhdr)
{
	if (copy_in(&m->hdr, uhdr, sizeof(m->hdr)))
		return -EFAULT;
	if (!m->hdr.name)
		m->hdr.namelen = 0;
	if (m->hdr.namelen < 0)
		return -EINVAL;
	m->hdr.namelen = min(m->hdr.namelen, (int)sizeof(m->addr.bytes));
	if (m->hdr.iovlen > IOV_MAX)
		return -EMSGSIZE;
	ssize_t total = import_iovec(m->hdr.iov, m->hdr.iovlen, &m->iov, m->fast, ARRAY_SIZE(m->fast));

	if (total < 0)
		return (int)total;
	iov_iter_init(&m->it, m->iov, m->hdr.iovlen, (size_t)total);
	return 0;
}

static void message_end(struct message *m)
{
	if (m->iov != m->fast)
		kfree(m->iov);
}

static ssize_t send_message(struct sock_ref *s, const struct msghdr __user *uhdr, u32 flags)
{
	struct message m;
	struct sock_msg sm = { .iter = &m.it, .flags = flags };
	ssize_t n = message_in(&m, uhdr);

	if (n)
		return n;
	scm_cred_current(&sm.scm.cred);
	if (m.hdr.namelen) {
		n = address_in(&m.addr, m.hdr.name, m.hdr.namelen);
		sm.addr = &m.addr;
	}
	if (!n && m.hdr.controllen && s->sock->family == AF_UNIX)	/* other families have no use for any */
		n = scm_parse(m.hdr.control, m.hdr.controllen, &sm.scm);
	if (is_nonblocking(s))
		sm.flags |= MSG_DONTWAIT;
	if (!n) {
		n = s->sock->ops->send(s->sock, &sm);
		scm_files_put(sm.scm.files);		/* NULL if they went with the message */
	}
	message_end(&m);
	return n;
}

/* What a received message leaves in the user's header. */
static int message_out(struct message *m, struct sock_msg *sm, struct msghdr __user *uhdr)
{
	u32 flags = sm->out_flags | (sm->flags & MSG_CMSG_CLOEXEC);
	size_t used = scm_deliver(&sm->scm, m->hdr.control, m->hdr.control ? m->hdr.controllen : 0, sm->flags & MSG_CMSG_CLOEXEC, &flags);

	if (m->hdr.name && (copy_out(m->hdr.name, m->addr.bytes, min((size_t)m->hdr.namelen, (size_t)m->addr.len)) ||
			    put_user((int)m->addr.len, &uhdr->namelen)))
		return -EFAULT;
	if (put_user(flags, &uhdr->flags) || put_user(used, &uhdr->controllen))
		return -EFAULT;
	return 0;
}

static ssize_t recv_message(struct sock_ref *s, struct msghdr __user *uhdr, u32 flags)
{
	struct message m;
	struct sock_msg sm = { .iter = &m.it, .flags = flags };
	ssize_t n = message_in(&m, uhdr);

	if (n)
		return n;
	m.addr.len = 0;
	if (m.hdr.name)
		sm.addr = &m.addr;
	if (is_nonblocking(s))
		sm.flags |= MSG_DONTWAIT;
	n = s->sock->ops->recv(s->sock, &sm);
	if (n >= 0) {
		int err = message_out(&m, &sm, uhdr);

		n = err ? err : n;
	}
	scm_files_put(sm.scm.files);
	message_end(&m);
	return n;
}

SYSCALL_DEFINE(sendmsg, int fd, const struct msghdr __user *uhdr, unsigned int flags)
{
	struct sock_ref s;
	ssize_t n = sock_lookup(fd, &s);

	if (!n)
		n = send_message(&s, uhdr, flags);
	fdput(s.ref);
	return n;
}

SYSCALL_DEFINE(recvmsg, int fd, struct msghdr __user *uhdr, unsigned int flags)
{
	struct sock_ref s;
	ssize_t n = sock_lookup(fd, &s);

	if (!n)
		n = recv_message(&s, uhdr, flags);
	fdput(s.ref);
	return n;
}

SYSCALL_DEFINE(sendmmsg, int fd, struct mmsghdr __user *uvec, unsigned int nr, unsigned int flags)
{
	struct sock_ref s;
	ssize_t n = sock_lookup(fd, &s);
	unsigned int done = 0;

	for (nr = min(nr, IOV_MAX); !n && done < nr; done++) {
		n = send_message(&s, &uvec[done].hdr, flags);
		if (n < 0)
			break;
		n = put_user((u32)n, &uvec[done].len);
		if (n)
			break;
		cond_resched();
	}
	fdput(s.ref);
	return done ? (ssize_t)done : n;
}

/* The time-out is looked at only between messages, as on Linux: a call that waits for its first message waits for ever. */
SYSCALL_DEFINE(recvmmsg, int fd, struct mmsghdr __user *uvec, unsigned int nr, unsigned int flags, struct timespec64 __user *uts)
{
	u64 deadline = 0;
	struct timespec64 ts;
	struct sock_ref s;
	unsigned int done = 0;

	if (uts) {
		if (copy_in(&ts, uts, sizeof(ts)))
			return -EFAULT;
		if (!timespec_valid(&ts))
			return -EINVAL;
		deadline = ktime_get_ns() + timespec_to_ns(&ts);
	}
	ssize_t n = sock_lookup(fd, &s);

	for (nr = min(nr, IOV_MAX); !n && done < nr; done++) {
		n = recv_message(&s, &uvec[done].hdr, flags & ~MSG_WAITFORONE);
		if (n < 0)
			break;
		n = put_user((u32)n, &uvec[done].len);
		if (n)
			break;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (deadline && ktime_get_ns() >= deadline) {
			done++;
			break;
		}
		cond_resched();
	}
	/* An error after some messages waits for the next call, as on Linux. */
	if (done && n < 0 && n > -ERESTARTSYS && n != -EAGAIN && n != -EFAULT)
		WRITE_ONCE(s.sock->err, (int)-n);
	fdput(s.ref);
	return done ? (ssize_t)done : n;
}
