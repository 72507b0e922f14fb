/*
 * The protocol of a server-backed socket family: what the kernel (fs/socket_server.c) asks and a ring-3 server answers.
 * docs/servers.md is the reference. Shared by both sides; no code.
 *
 * The two rules that make it work:
 *
 *	The server never blocks. Each request is answered at once, with a result or with -EAGAIN. Whoever has to wait waits in the
 *	kernel, until the server says by FL_FAMILY_READY, or in a later answer, that the socket has become ready.
 *
 *	The kernel believes the readiness it was told last, in the order in which the server made its calls (reply or ready). So a
 *	server with several threads orders its calls for one socket; one event loop does so by itself.
 */
#ifndef FL_SERVER_H
#define FL_SERVER_H

#include <stdint.h>
#include "fl_port.h"

#define FL_SERVER_VERSION	1

enum fl_op {
	FL_OP_HELLO = 1,	/* arg[0] = FL_SERVER_VERSION, arg[1] = family. First message after the claim, and after each restart */
	FL_OP_SOCKET,		/* arg: domain, type, protocol. Makes socket `id` */
	FL_OP_BIND,		/* inline: the address */
	FL_OP_LISTEN,		/* arg[0] = backlog */
	FL_OP_CONNECT,		/* inline: the address. 0; -EINPROGRESS: OUT or an error will come as readiness */
	FL_OP_ACCEPT,		/* the oldest finished connection becomes socket `id2`. Answer: peer's address. -EAGAIN: none */
	FL_OP_SEND,		/* msg_flags, size; inline: address (addr_len), then the data; or the data is the lent range */
	FL_OP_RECV,		/* msg_flags, size = bytes wanted. Answer: the sender's address, then the data, inline or lent */
	FL_OP_SHUTDOWN,		/* arg[0] = 0 reading, 1 writing, 2 both */
	FL_OP_NAME,		/* arg[0] = 0 own address, 1 the peer's. Answer: the address */
	FL_OP_SETOPT,		/* arg: level, name; inline: the value */
	FL_OP_GETOPT,		/* arg: level, name; size = room. Answer: the value */
	FL_OP_IOCTL,		/* arg[0] = command; inline: what the command reads. Answer: what it writes */
	FL_OP_CLOSE,		/* `id` is gone. Unknown ids are to be ignored */
};

/* The eight words of a request. */
struct fl_req {
	uint32_t op;
	uint32_t flags;		/* FL_REQ_* */
	uint64_t id;		/* which socket. Chosen by the kernel, never used twice */
	uint64_t id2;		/* FL_OP_ACCEPT: the new one */
	int32_t	 arg[4];
	uint32_t addr_len;	/* the first bytes inline are a struct sockaddr of this length */
	uint32_t size;		/* bytes of data to send, or wanted */
	uint32_t msg_flags;	/* MSG_PEEK, MSG_OOB, MSG_TRUNC; the kernel keeps DONTWAIT, WAITALL and NOSIGNAL to itself */
	uint32_t reserved[3];
};
#define FL_REQ_REPLAY	1u	/* what an earlier server had been told: bind and listen as before. Nobody waits for an answer */
#define FL_REQ_LENT	2u	/* SEND: the data is the lent range, `size` bytes. RECV: there is a lent range of `size` bytes to fill */
#define FL_REQ_PRIVILEGED 4u	/* BIND, SETOPT, IOCTL: the caller may administer the network (CAP_NET_ADMIN) */

/* The eight words of an answer. */
struct fl_ans {
	int64_t	 result;	/* bytes or 0; or -errno */
	uint32_t ready;		/* FL_READY_* now, with FL_READY_VALID; else 0 */
	int32_t	 error;		/* with FL_READY_VALID: the error waiting for SO_ERROR (a positive errno), or 0 */
	uint32_t addr_len;	/* the first bytes inline are the address */
	uint32_t flags;		/* FL_ANS_* */
	uint32_t msg_flags;	/* RECV: MSG_TRUNC, MSG_OOB, MSG_CTRUNC for recvmsg */
	uint32_t reserved[9];
};
#define FL_ANS_LENT	1u	/* RECV: the data was written to the lent range */

/* Readiness: what poll() says, in its bits. */
#define FL_READY_IN	0x001u
#define FL_READY_PRI	0x002u
#define FL_READY_OUT	0x004u
#define FL_READY_ERR	0x008u
#define FL_READY_HUP	0x010u
#define FL_READY_RDHUP	0x2000u
#define FL_READY_VALID	0x80000000u

/* FL_FAMILY_READY takes an array of these. Unknown ids are skipped. */
struct fl_ready {
	uint64_t id;
	uint32_t ready;		/* FL_READY_* now, all of them: not a change */
	int32_t	 error;		/* a positive errno for SO_ERROR, or 0 */
};
#define FL_READY_MAX	64u	/* entries of one call */

_Static_assert(sizeof(struct fl_req) == 8 * FL_WORDS && sizeof(struct fl_ans) == 8 * FL_WORDS, "they travel in registers");

#endif
