/*
 * AF_UNIX: sockets between processes of this machine. fs/unix.c: life, connections; fs/unix_names.c: addresses; fs/unix_io.c: messages.
 *
 * Who holds whom. The file of a socket holds it (until release). A connected socket holds its peer, and lets go when it is released, not
 * when the peer is; so a peer that has been released still exists and says so (dead). A message holds the socket that sent
 * it, for its address and for the count of bytes under way.
 */
#ifndef FS_UNIX_H
#define FS_UNIX_H

#include "fs/socket.h"

#define UNIX_PATH_MAX	108u
#define UNIX_DGRAM_QLEN	10u		/* messages that wait at one datagram socket, as net.unix.max_dgram_qlen */

struct unix_addr {
	struct refcount	 refs;
	u32		 len;
	u8		 bytes[sizeof(u16) + UNIX_PATH_MAX + 1];	/* struct sockaddr_un; a path ends with a NUL */
};

/*
 *   I  constant   A  atomic   L  sock.lock   Q  lock   N  names_lock   1  set once (under L), then constant
 * sock.state and sock.shutdown: Q to write, any read.
 */
struct unix_sock {
	struct socket	 sock;
	struct refcount	 refs;
	struct spinlock	 lock;		/* LOCK_UNIX */
	bool		 dead;		/* Q  released: nobody will read any more */
	struct list_head queue;		/* Q  struct unix_msg; of a listener: unix_sock.pending */
	u32		 nr_queued;	/* Q */
	u32		 backlog;	/* Q  of a listener */
	struct unix_sock *peer;		/* counted. Stream, seqpacket: 1. Datagram: Q */
	struct list_head pending;	/* Q of the listener  while waiting to be accepted */
	struct list_head senders;	/* Q  datagram sockets that are connected to us */
	struct list_head sender_node;	/* Q of the peer */
	struct wait_queue room_wait;	/* senders without room in our queue, and connects without room in our backlog */
	u32		 wmem;		/* A  bytes sent from here that nobody has taken yet */
	u64		 read_bytes;	/* A  what FIONREAD tells, for streams */
	struct unix_addr *addr;		/* 1  counted; NULL: no name */
	struct path	 path;		/* 1  of a socket bound to a file; counted */
	struct list_head name_node;	/* N */
};

static inline struct unix_sock *unix_sk(struct socket *sock) { return container_of(sock, struct unix_sock, sock); }
static inline bool unix_is_stream(const struct unix_sock *u) { return u->sock.type == SOCK_STREAM; }
static inline bool unix_is_connected_type(const struct unix_sock *u) { return u->sock.type != SOCK_DGRAM; }

/* -- fs/unix.c -- */
void unix_get(struct unix_sock *u);
void unix_put(struct unix_sock *u);		/* may sleep */
/* Of a datagram socket, counted; NULL: none. */
struct unix_sock *unix_peer_get(struct unix_sock *u);
void unix_dgram_disconnect(struct unix_sock *u, struct unix_sock *peer);	/* if it is still the peer. May sleep */

/* -- fs/unix_names.c -- */
void unix_addr_put(struct unix_addr *a);
int unix_bind(struct socket *sock, const struct sock_addr *addr);
/* The socket that has this name, counted. ERR_PTR: -EINVAL, -ECONNREFUSED, -EPROTOTYPE, and what a path walk says. */
struct unix_sock *unix_find(const struct sock_addr *addr, int type);
void unix_unname(struct unix_sock *u);		/* released: nobody finds it any more */
void unix_name_of(const struct unix_sock *u, struct sock_addr *addr);

/* -- fs/unix_io.c -- */
void unix_drop_messages(struct list_head *queue);	/* may sleep */
ssize_t unix_stream_send(struct socket *sock, struct sock_msg *m);
ssize_t unix_stream_recv(struct socket *sock, struct sock_msg *m);
ssize_t unix_dgram_send(struct socket *sock, struct sock_msg *m);
ssize_t unix_dgram_recv(struct socket *sock, struct sock_msg *m);
ssize_t unix_seqpacket_send(struct socket *sock, struct sock_msg *m);
ssize_t unix_seqpacket_recv(struct socket *sock, struct sock_msg *m);
u32 unix_poll(struct socket *sock);
long unix_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg);

#endif
