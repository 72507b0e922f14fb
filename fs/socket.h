/*
 * Sockets: what all families share. fs/socket.c makes them files and handles SOL_SOCKET options, fs/socket_calls.c has the system
 * calls; a family is a table of operations: AF_UNIX in fs/unix*.c, families that a ring-3 server backs in fs/socket_server.c.
 */
#ifndef FS_SOCKET_H
#define FS_SOCKET_H

#include "fs/scm.h"
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "mm/uaccess.h"

#define AF_UNSPEC	0
#define AF_UNIX		1
#define AF_INET		2
#define AF_INET6	10
#define AF_MAX		46

#define SOCK_STREAM	1
#define SOCK_DGRAM	2
#define SOCK_RAW	3
#define SOCK_SEQPACKET	5
#define SOCK_TYPE_MASK	15
#define SOCK_CLOEXEC	((unsigned int)O_CLOEXEC)
#define SOCK_NONBLOCK	((unsigned int)O_NONBLOCK)

#define MSG_OOB		1u
#define MSG_PEEK	2u
#define MSG_DONTROUTE	4u
#define MSG_CTRUNC	8u
#define MSG_TRUNC	0x20u
#define MSG_DONTWAIT	0x40u
#define MSG_EOR		0x80u
#define MSG_WAITALL	0x100u
#define MSG_ERRQUEUE	0x2000u
#define MSG_NOSIGNAL	0x4000u
#define MSG_WAITFORONE	0x10000u
#define MSG_CMSG_CLOEXEC 0x40000000u

#define SOL_SOCKET	1
#define SHUT_READ	1u		/* sock->shutdown: shutdown()'s argument plus one */
#define SHUT_WRITE	2u
#define SHUT_BOTH	3u

#define SOCK_BUF_DEFAULT 212992u	/* as Linux's net.core.wmem_default */
#define SOMAXCONN	4096

struct sock_addr {
	u32	len;			/* 0: none */
	union {
		u16	family;
		u8	bytes[128];	/* zero behind len */
	};
};

/* One send or receive. */
struct sock_msg {
	struct iov_iter	*iter;
	struct sock_addr *addr;		/* send: where to, NULL for the peer. Receive: filled in; NULL: not wanted */
	struct scm	 scm;		/* send: given away with the message. Receive: the caller's afterwards */
	u32		 flags;		/* MSG_*; DONTWAIT says whether the call may sleep */
	u32		 out_flags;	/* receive: MSG_TRUNC ... */
};

struct socket;

/* Every operation may sleep. Results >= 0 or -errno. NULL: EOPNOTSUPP. */
struct socket_ops {
	int	(*bind)(struct socket *sock, const struct sock_addr *addr);
	int	(*connect)(struct socket *sock, const struct sock_addr *addr, bool nonblock);
	int	(*listen)(struct socket *sock, int backlog);
	/* The oldest connection, counted for the caller; ERR_PTR. Its peer's address into @addr. */
	struct socket *(*accept)(struct socket *sock, bool nonblock);
	int	(*shutdown)(struct socket *sock, unsigned int how);		/* SHUT_* bits */
	int	(*getname)(struct socket *sock, struct sock_addr *addr, bool peer);
	ssize_t	(*send)(struct socket *sock, struct sock_msg *m);
	ssize_t	(*recv)(struct socket *sock, struct sock_msg *m);
	u32	(*poll)(struct socket *sock);					/* the bits; the queues are registered already. Does not sleep */
	long	(*ioctl)(struct socket *sock, unsigned int cmd, unsigned long arg);
	int	(*setsockopt)(struct socket *sock, int level, int name, const void __user *val, u32 len);
	int	(*getsockopt)(struct socket *sock, int level, int name, void __user *val, int __user *ulen);
	void	(*release)(struct socket *sock);				/* the file has gone */
	void	(*buffer_changed)(struct socket *sock);				/* optional: SO_SNDBUF was set */
};

enum sock_state { SS_FRESH, SS_LISTENING, SS_CONNECTING, SS_CONNECTED };

/*
 *   I  constant   A  single word, atomic   L  lock   F  the family says
 */
struct socket {
	const struct socket_ops	*ops;		/* I */
	int			 family, type, protocol;	/* I */
	u8			 state;		/* F  enum sock_state */
	u8			 shutdown;	/* F  SHUT_* */
	int			 err;		/* A  positive errno for SO_ERROR and the next call */
	u32			 sndbuf, rcvbuf;	/* A  bytes */
	u32			 options;	/* A  BIT(name) of the SOL_SOCKET flags that are only stored */
	u32			 priority, mark, rcvlowat;	/* A */
	struct { int onoff, linger; } linger;	/* A */
	u64			 rcvtimeo, sndtimeo;	/* A  ns; 0: for ever */
	struct scm_cred		 peer_cred;	/* F  SO_PEERCRED */
	struct mutex		 lock;		/* LOCK_SOCKET: bind, listen, connect */
	struct mutex		 read_lock;	/* LOCK_SOCKET_READ: one reader takes from the queue */
	struct wait_queue	 rd_wait;	/* for something to read, or to accept */
	struct wait_queue	 wr_wait;	/* for room, or for a connection */
};

void socket_init(struct socket *sock, const struct socket_ops *ops, int family, int type, int protocol);
struct socket *file_socket(struct file *f);		/* NULL: not a socket */
/* A file for @sock, which it takes over. ERR_PTR: @sock is still the caller's. */
struct file *socket_file_create(struct socket *sock, unsigned int flags);
/* The same in two steps, for accept(): everything that can fail comes first. */
struct file *socket_file_reserve(unsigned int flags);
void socket_file_attach(struct file *f, struct socket *sock);

/* SO_PASSCRED and the like: flags that are stored in sock->options. */
#define SO_PASSCRED	16
static inline bool sock_option(const struct socket *sock, unsigned int name) { return READ_ONCE(sock->options) >> name & 1; }

/* The pending error, once: 0 or -errno. */
static inline int sock_error(struct socket *sock)
{
	return likely(!READ_ONCE(sock->err)) ? 0 : -__atomic_exchange_n(&sock->err, 0, __ATOMIC_RELAXED);
}

int sock_setsockopt(struct socket *sock, int name, const void __user *val, u32 len);
int sock_getsockopt(struct socket *sock, int name, void __user *val, int __user *ulen);
/* EPIPE, with the signal if the caller wants it. */
ssize_t sock_broken_pipe(u32 flags);
/* For getsockopt: as much of @p as the user has room for, and its length. 0, -EFAULT, -EINVAL. */
int sock_option_out(const void *p, size_t size, void __user *val, int __user *ulen);

/* When an operation gives up: absolute, 0 for never. */
static inline u64 sock_deadline(u64 timeo) { return timeo ? ktime_get_ns() + timeo : 0; }

/* Sleeps until @cond. 0; -EAGAIN at the deadline; a signal: -ERESTARTSYS, or -EINTR if there is a deadline, as Linux has it. */
#define sock_wait(wq, cond, exclusive, deadline) ({						\
	u64 _end = (deadline), _now = _end ? ktime_get_ns() : 0;				\
	int _err = _end && _now >= _end ? -ETIMEDOUT						\
		: __wait_event(wq, cond, TASK_INTERRUPTIBLE, exclusive, _end - _now);		\
	_err == -ETIMEDOUT ? -EAGAIN : _err == -ERESTARTSYS && _end ? -EINTR : _err; })

/*
 * The condition has been made true, perhaps only under a spin lock; the fence orders it before the look at the queue. A waiter does the
 * same the other way round: he queues himself (a full barrier), then looks at the condition.
 */
static inline void sock_wake_readers(struct socket *sock)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (wait_queue_active(&sock->rd_wait))
		wake_up_sync_poll(&sock->rd_wait, POLLIN | POLLRDNORM | POLLRDBAND);
}

static inline void sock_wake_writers(struct socket *sock)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (wait_queue_active(&sock->wr_wait))
		wake_up_sync_poll(&sock->wr_wait, POLLOUT | POLLWRNORM | POLLWRBAND);
}

/* Everybody, whatever he waits for: the state has changed. */
void sock_wake_all(struct socket *sock);

/* fs/unix.c */
struct socket *unix_create(int type, int protocol);	/* ERR_PTR */
int unix_socketpair(struct socket *a, struct socket *b);
/* fs/socket_server.c */
struct socket *server_create(int family, int type, int protocol);	/* ERR_PTR: -EAFNOSUPPORT if no server has ever claimed the family */

#endif
