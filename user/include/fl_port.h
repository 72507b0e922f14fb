/*
 * Ports as the kernel and programs both see them: call numbers, struct fl_msg, flags. docs/ipc.md is the chapter;
 * user/include/port.h wraps the calls for C programs.
 *
 * A port has two kinds of descriptors: the receiving end (the server's) and the calling end. A call carries eight words in
 * registers, up to FL_INLINE_MAX bytes, up to FL_MAX_FDS descriptors, and lends a range of the caller's memory. The caller sleeps
 * until the reply.
 */
#ifndef FL_PORT_H
#define FL_PORT_H

#include <stdint.h>

/* Native system calls. All: a result >= 0 or -errno. timeout: nanoseconds from now; 0 does not wait; < 0 waits for ever. */
#define FL_PORT_CREATE			1024	/* (int fds[2], flags): fds[0] receives, fds[1] calls. flags: O_CLOEXEC */
#define FL_PORT_CALL			1025	/* (fd, struct fl_msg *, timeout) */
#define FL_PORT_RECEIVE			1026	/* (fd, struct fl_msg *, timeout) */
#define FL_PORT_REPLY			1027	/* (fd, struct fl_msg *): msg->token says to whom */
#define FL_PORT_REPLY_RECEIVE		1028	/* (fd, struct fl_msg *, timeout): a reply unless token is 0, then receive */
#define FL_PORT_CALL_WORDS		1029	/* words only, in registers: port.h has the wrapper */
#define FL_PORT_REPLY_RECEIVE_WORDS	1030
#define FL_PORT_LENT_READ		1031	/* (fd, token, offset, buf, len): from the caller's lent range */
#define FL_PORT_LENT_WRITE		1032	/* (fd, token, offset, buf, len): to it */
#define FL_FAMILY_CLAIM			1033	/* (fd, family): this port serves socket(family, ...). fl_server.h */
#define FL_FAMILY_READY			1034	/* (fd, const struct fl_ready *, n): readiness of sockets has changed */

#define FL_WORDS	8
#define FL_INLINE_MAX	4096u
#define FL_MAX_FDS	4u
#define FL_LENT_MAX	(16u << 20)	/* bytes one call may lend */

/* flags of a call: what the server may do with the lent range. At least one if lent_len is not 0. */
#define FL_LENT_R	1u
#define FL_LENT_W	2u
/* flags of receive, and of a call for its reply: descriptors arrive close-on-exec. */
#define FL_FDS_CLOEXEC	4u

/*
 * The long form. What a field means depends on the direction:
 *
 *			call			receive (filled in)	reply			call returns (filled in)
 *	word		request			request			answer			answer
 *	buf, len	bytes to send		bytes received		bytes to send		bytes received
 *	room		buf's size, for the reply	buf's size		-			-
 *	fd, nr_fds	to pass (copies)	received		to pass			received
 *	lent, lent_len	the range, if any	lent = 0; length	-			-
 *	flags		FL_LENT_*, FL_FDS_CLOEXEC	FL_FDS_CLOEXEC in; FL_LENT_* out	-	-
 *	token		-			names the call; 0 if nobody waits for a reply	as received	-
 *	pid, uid, gid	-			the caller's, from the kernel	-		-
 */
struct fl_msg {
	uint64_t word[FL_WORDS];
	uint64_t buf;			/* a pointer */
	uint32_t len;
	uint32_t room;
	int32_t	 fd[FL_MAX_FDS];
	uint32_t nr_fds;
	uint32_t flags;
	uint64_t lent;			/* a pointer */
	uint64_t lent_len;
	uint64_t token;
	uint32_t pid, uid, gid;
	uint32_t reserved;		/* 0 */
};
_Static_assert(sizeof(struct fl_msg) == 144, "native ABI");

#endif
