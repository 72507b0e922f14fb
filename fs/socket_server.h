/*
 * Socket families that a ring-3 server provides (docs/servers.md; the messages are in user/include/fl_server.h).
 * fs/socket_server.c has the socket operations, fs/socket_family.c claims, questions to the server, readiness, and what happens when it dies.
 */
#ifndef FS_SOCKET_SERVER_H
#define FS_SOCKET_SERVER_H

#include "fs/socket.h"
#include "kernel/port.h"
#include "user/include/fl_server.h"

#define ID_BUCKETS	64u
#define MAX_OPTIONS	16u		/* remembered for one socket */
#define OPTION_MAX	64u		/* bytes of one */
#define BULK_MAX	65536u		/* bytes of data of one request */
#define SERVER_WAIT_NS	(10 * NSEC_PER_SEC)	/* for a new server, and for an answer */

/*
 *   C  claim_lock (sleeping)   F  lock   A  atomic
 */
struct family {
	int		 number;
	struct mutex	 claim_lock;	/* LOCK_FAMILY: one claim at a time */
	struct spinlock	 lock;		/* LOCK_FAMILY_IDS */
	struct port	*port;		/* F  counted; NULL: no server now */
	struct port	*claiming;	/* F  during a claim: is being told of the sockets */
	u64		 generation;	/* F  counts servers; 0: there has never been one */
	struct list_head ids[ID_BUCKETS];	/* F  server_sock.node */
	struct wait_queue arrival;	/* for a server */
	struct port_owner owner;	/* C  of port */
};

struct option { int level, name; u32 len; u8 value[OPTION_MAX]; };

/*
 *   I  constant   L  sock.lock   F  family->lock   A  atomic word
 * sock.state: A, changed by calls and by what the server says.
 */
struct server_sock {
	struct socket	 sock;
	struct refcount	 refs;		/* the file; users of the id table */
	struct family	*family;	/* I */
	u64		 id;		/* I */
	struct list_head node;		/* F */
	u32		 ready;		/* A  FL_READY_*; FL_READY_VALID: the server has said */
	bool		 broken;	/* A  a connection whose server died: only an end is left */
	u64		 generation;	/* L to write  of the server that knows us; 0: none */
	struct sock_addr *bound, *peer;	/* L  for the replay; NULL: not */
	int		 backlog;	/* L  -1: does not listen */
	struct option	*options;	/* L  [nr_options], in the order they were set */
	u32		 nr_options;	/* L */
	struct server_sock *spare;	/* A  a socket made for an accept that found nothing */
};

static inline struct server_sock *server_sk(struct socket *sock) { return container_of(sock, struct server_sock, sock); }

/* One question and its answer. */
struct question {
	struct fl_req	 req;		/* id is filled in by ask() */
	const void	*addr;		/* req.addr_len bytes */
	const void	*data;		/* inline, after the address */
	u32		 data_len;
	void		*bulk;		/* a kernel buffer to lend, bulk_len bytes */
	u32		 bulk_len, bulk_rights;
	bool		 again;		/* may be asked twice: a server that dies in between is no error */
	struct fl_ans	 ans;
	struct port_payload *reply;	/* the caller's; NULL: none */
};

struct family *family_get(int number);			/* NULL: no such number */
struct server_sock *server_sock_new(struct family *f, int type, int protocol, const struct socket_ops *ops);	/* in the table; NULL */
void server_sock_put(struct server_sock *s);
/* 0: q->ans and q->reply. -errno of the server, or ours: ENETDOWN, EIO, EINTR. May sleep. sock.lock held iff @locked. */
int ask(struct server_sock *s, struct question *q, bool locked);
void question_end(struct question *q);
/* The bytes behind the address in the reply. */
const u8 *reply_data(const struct question *q, u32 *n);
void reply_addr(const struct question *q, struct sock_addr *addr);
void post_close(struct server_sock *s);			/* tells the server, if it knows the socket */
void set_ready(struct server_sock *s, u32 ready, int error);

#endif
