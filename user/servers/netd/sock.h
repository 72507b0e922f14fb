/*
 * Sockets of netd: objects by the kernel's id, each of a kind (stream, datagram) with a table of functions. sock.c turns requests
 * (user/include/fl_server.h) into calls of these; nothing here knows of ports or the event loop, so the hosted tests drive it
 * directly.
 */
#ifndef NETD_SOCK_H
#define NETD_SOCK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lwip/ip_addr.h"
#include "lwip/pbuf.h"
#include "user/include/fl_server.h"

#define LENT_MAX	(64u << 10)	/* most bytes of one send or receive */
#define SOCKETS_MAX	16384u		/* beyond: ENOBUFS */

/* One request on its way to its answer. */
struct call {
	const struct fl_req	*req;
	const uint8_t		*in;		/* inline: address, then data */
	uint32_t		 in_len;
	uint8_t			*out;		/* FL_INLINE_MAX bytes for the answer: address, then data */
	uint32_t		 out_len;
	struct fl_ans		*ans;
	/* The caller's lent range; bytes or -errno. */
	long			(*lent_read)(struct call *c, uint64_t offset, void *buf, uint64_t len);
	long			(*lent_write)(struct call *c, uint64_t offset, const void *buf, uint64_t len);
	uint64_t		 token;
};

struct sock;

struct sock_ops {
	long	 (*bind)(struct sock *s, const ip_addr_t *ip, u16_t port);
	long	 (*listen)(struct sock *s, int backlog);
	/* @ip NULL: AF_UNSPEC, that is, disconnect. */
	long	 (*connect)(struct sock *s, const ip_addr_t *ip, u16_t port);
	long	 (*accept)(struct sock *s, struct call *c, uint64_t id);
	/* @ip NULL: to whom it is connected. */
	long	 (*send)(struct sock *s, struct call *c, const ip_addr_t *ip, u16_t port);
	long	 (*recv)(struct sock *s, struct call *c);
	long	 (*shutdown)(struct sock *s, bool reading, bool writing);
	bool	 (*name)(struct sock *s, bool peer, ip_addr_t *ip, u16_t *port);	/* false: not connected */
	/* -ENOPROTOOPT: not one of mine. */
	long	 (*setopt)(struct sock *s, int level, int name, const void *value, uint32_t len);
	long	 (*getopt)(struct sock *s, int level, int name, void *value, uint32_t room);
	uint32_t (*ready)(struct sock *s);		/* FL_READY_* now */
	size_t	 (*pending)(struct sock *s);		/* bytes that a read would give: FIONREAD */
	void	 (*close)(struct sock *s);		/* everything but the struct itself */
};

/* Common to all kinds; embedded first in each. */
struct sock {
	const struct sock_ops	*ops;
	uint64_t		 id;		/* 0: accepted by lwIP, not yet asked for */
	struct sock		*hash_next;
	struct sock		*changed_next;	/* readiness is to be told; linked iff changed */
	bool			 changed;
	int			 domain, type, protocol;
	bool			 v6only;
	bool			 bound;
	int			 error;		/* to be told once; a positive errno */
	uint32_t		 told;		/* what the kernel was told last */
};

/* -- sock.c -- */
/* Answers @c: fills c->ans, c->out. Never waits. */
void sock_request(struct call *c);
void sock_changed(struct sock *s);		/* its readiness may have: told before the loop sleeps */
void sock_failed(struct sock *s, int error);	/* the same, with an error */
/* Up to @max of those whose readiness is not what the kernel knows. */
unsigned int sock_take_changes(struct fl_ready *v, unsigned int max);
bool sock_add(struct sock *s, uint64_t id);
unsigned int sock_count(void);
void sock_close_all(void);			/* for tests */
/* The data to send: inline, or @max bytes of the lent range from @offset on, in a static buffer. *len in: wanted, out: there. NULL: -EFAULT. */
const void *call_data(struct call *c, size_t offset, size_t *len);
/* Where up to *len bytes of data for the answer may be put, and then: @n are there. */
void *call_room(struct call *c, size_t *len);
long call_give(struct call *c, const void *data, size_t n);	/* n or -errno */
int errno_of(err_t err);			/* lwIP's error as a positive errno */

/* -- sock_addr.c -- */
/* 0 or -errno (EINVAL, EAFNOSUPPORT). */
long addr_in(const struct sock *s, const void *addr, uint32_t len, ip_addr_t *ip, u16_t *port);
uint32_t addr_out(int domain, const ip_addr_t *ip, u16_t port, void *out);	/* its length */
u8_t ip_type_of(const struct sock *s);		/* for lwIP's *_new_ip_type() */

/* -- sock_tcp.c, sock_dgram.c, sock_option.c -- */
struct sock *tcp_sock_create(void);		/* NULL: no memory */
struct sock *dgram_sock_create(int domain, int type, int protocol);
long netif_ioctl(struct call *c);
size_t netif_conf(void *out, size_t room);	/* struct ifreq for SIOCGIFCONF */
bool dgram_init(void);
/* Options that are an int, as programs pass them (a byte will do). False: too short. */
bool option_int(const void *value, uint32_t len, int *out);
long put_int(void *value, uint32_t room, int v);

#endif
