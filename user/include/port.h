/*
 * Ports for C programs: one inline function per native call (user/include/fl_port.h, docs/ipc.md). Each returns a result >= 0 or
 * -errno; errno is not touched. Header only, any libc or none.
 */
#ifndef FL_PORT_WRAPPER_H
#define FL_PORT_WRAPPER_H

#include "fl_port.h"
#include "fl_server.h"

static inline long fl_call5(long nr, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
	return ret;
}

/* fds[0] receives and replies, fds[1] calls. flags: 0 or O_CLOEXEC. */
static inline long port_create(int fds[2], int flags)
{
	return fl_call5(FL_PORT_CREATE, (long)fds, flags, 0, 0, 0);
}

/* Sends *m and waits for the reply, which replaces it. */
static inline long port_call(int fd, struct fl_msg *m, int64_t timeout_ns)
{
	return fl_call5(FL_PORT_CALL, fd, (long)m, timeout_ns, 0, 0);
}

/* The next call. m->buf and m->room say where its bytes go. */
static inline long port_receive(int fd, struct fl_msg *m, int64_t timeout_ns)
{
	return fl_call5(FL_PORT_RECEIVE, fd, (long)m, timeout_ns, 0, 0);
}

static inline long port_reply(int fd, struct fl_msg *m)
{
	return fl_call5(FL_PORT_REPLY, fd, (long)m, 0, 0, 0);
}

/*
 * Replies to m->token (unless that is 0), then receives the next call into *m. m->buf serves both: m->len bytes of it are the
 * reply, then up to m->room bytes come in. A reply that fails is not reported: the caller has gone. Use port_reply() to know.
 */
static inline long port_reply_receive(int fd, struct fl_msg *m, int64_t timeout_ns)
{
	return fl_call5(FL_PORT_REPLY_RECEIVE, fd, (long)m, timeout_ns, 0, 0);
}

/* Copies from the range that the caller of @token lends: bytes or -errno. Never waits for the caller. */
static inline long port_lent_read(int fd, uint64_t token, uint64_t offset, void *buf, uint64_t len)
{
	return fl_call5(FL_PORT_LENT_READ, fd, (long)token, (long)offset, (long)buf, (long)len);
}

static inline long port_lent_write(int fd, uint64_t token, uint64_t offset, const void *buf, uint64_t len)
{
	return fl_call5(FL_PORT_LENT_WRITE, fd, (long)token, (long)offset, (long)buf, (long)len);
}

/* The receiving end @fd serves sockets of @family from now on (CAP_NET_ADMIN). The claim lives as long as the receiving end. */
static inline long family_claim(int fd, int family)
{
	return fl_call5(FL_FAMILY_CLAIM, fd, family, 0, 0, 0);
}

static inline long family_ready(int fd, const struct fl_ready *v, unsigned int n)
{
	return fl_call5(FL_FAMILY_READY, fd, (long)v, n, 0, 0);
}

/*
 * The same with eight words only, which stay in registers all the way: rdx r10 r8 r9 rbx r12 r13 r14, the token in r15. This is the
 * fast path. fl_words() is what the two calls have in common; inlined, and the compiler drops the moves that are not needed.
 */
static inline __attribute__((always_inline)) long fl_words(long nr, int fd, uint64_t word[FL_WORDS], uint64_t *token, int64_t timeout_ns)
{
	register uint64_t r10 __asm__("r10") = word[1];
	register uint64_t r8 __asm__("r8") = word[2];
	register uint64_t r9 __asm__("r9") = word[3];
	register uint64_t r12 __asm__("r12") = word[5];
	register uint64_t r13 __asm__("r13") = word[6];
	register uint64_t r14 __asm__("r14") = word[7];
	register uint64_t r15 __asm__("r15") = *token;
	uint64_t rdx = word[0], rbx = word[4];
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret), "+d"(rdx), "+r"(r10), "+r"(r8), "+r"(r9), "+b"(rbx), "+r"(r12), "+r"(r13), "+r"(r14), "+r"(r15)
			 : "0"(nr), "D"((long)fd), "S"(timeout_ns) : "rcx", "r11", "memory");
	word[0] = rdx;
	word[1] = r10;
	word[2] = r8;
	word[3] = r9;
	word[4] = rbx;
	word[5] = r12;
	word[6] = r13;
	word[7] = r14;
	*token = r15;
	return ret;
}

static inline long port_call_words(int fd, uint64_t word[FL_WORDS], int64_t timeout_ns)
{
	uint64_t none = 0;

	return fl_words(FL_PORT_CALL_WORDS, fd, word, &none, timeout_ns);
}

/* -EMSGSIZE: the next call is more than words; it waits for port_receive(). */
static inline long port_reply_receive_words(int fd, uint64_t word[FL_WORDS], uint64_t *token, int64_t timeout_ns)
{
	return fl_words(FL_PORT_REPLY_RECEIVE_WORDS, fd, word, token, timeout_ns);
}

#endif
