/*
 * Requests of the kernel: find the socket, check what the request says about itself, call the kind's function, and answer with
 * the readiness that holds afterwards.
 *
 * The kernel is trusted, a program behind it is not, and a fuzzer is neither: lengths that contradict each other are EINVAL.
 */
#include "sock.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "lwip/err.h"

#define HASH_SIZE	1024u

static struct sock *hash[HASH_SIZE];
static struct sock *changed_first, **changed_last = &changed_first;
static unsigned int nr_sockets;

/* -- the table -- */

static struct sock **slot_of(uint64_t id)
{
	struct sock **at = &hash[(id ^ id >> 10) % HASH_SIZE];

	while (*at && (*at)->id != id)
		at = &(*at)->hash_next;
	return at;
}

bool sock_add(struct sock *s, uint64_t id)
{
	struct sock **at = slot_of(id);

	if (*at || !id)
		return false;
	s->id = id;
	s->hash_next = NULL;
	*at = s;
	nr_sockets++;
	return true;
}

unsigned int sock_count(void)
{
	return nr_sockets;
}

static void forget_change(struct sock *s)
{
	struct sock **at = &changed_first;

	if (!s->changed)
		return;
	while (*at != s)
		at = &(*at)->changed_next;
	*at = s->changed_next;
	if (!*at)
		changed_last = at;
	s->changed = false;
}

static void close_sock(struct sock **at)
{
	struct sock *s = *at;

	*at = s->hash_next;
	nr_sockets--;
	forget_change(s);
	s->ops->close(s);
	free(s);
}

void sock_close_all(void)
{
	for (unsigned int i = 0; i < HASH_SIZE; i++)
		while (hash[i])
			close_sock(&hash[i]);
}

/* -- readiness -- */

void sock_changed(struct sock *s)
{
	if (!s->id || s->changed)
		return;
	s->changed = true;
	s->changed_next = NULL;
	*changed_last = s;
	changed_last = &s->changed_next;
}

void sock_failed(struct sock *s, int error)
{
	s->error = error;
	sock_changed(s);
}

/* An error is told once: the kernel keeps it until somebody asks. */
static uint32_t take_ready(struct sock *s, int32_t *error)
{
	uint32_t ready = s->ops->ready(s);

	*error = s->error;
	if (s->error)
		ready |= FL_READY_ERR;
	s->error = 0;
	s->told = ready;
	return ready;
}

unsigned int sock_take_changes(struct fl_ready *v, unsigned int max)
{
	unsigned int n = 0;

	while (n < max && changed_first) {
		struct sock *s = changed_first;

		forget_change(s);
		if (!s->error && s->ops->ready(s) == s->told)
			continue;
		v[n].id = s->id;
		v[n].ready = take_ready(s, &v[n].error);
		n++;
	}
	return n;
}

/* -- data of a call -- */

static uint8_t staging[LENT_MAX];

const void *call_data(struct call *c, size_t offset, size_t *len)
{
	if (!(c->req->flags & FL_REQ_LENT))
		return c->in + c->req->addr_len + offset;	/* sock_request() has checked that it is there */
	if (*len > sizeof(staging))
		*len = sizeof(staging);
	long got = c->lent_read(c, offset, staging, *len);

	if (got < 0)
		return NULL;
	*len = (size_t)got;
	return staging;
}

void *call_room(struct call *c, size_t *len)
{
	size_t there = FL_INLINE_MAX - c->ans->addr_len;

	if (*len <= there)
		return c->out + c->ans->addr_len;
	if (!(c->req->flags & FL_REQ_LENT)) {
		*len = there;
		return c->out + c->ans->addr_len;
	}
	if (*len > sizeof(staging))
		*len = sizeof(staging);
	return staging;
}

long call_give(struct call *c, const void *data, size_t n)
{
	if (data != staging) {
		c->out_len = c->ans->addr_len + (uint32_t)n;
		return (long)n;
	}
	long ret = c->lent_write(c, 0, data, n);

	if (ret < 0)
		return ret;
	c->ans->flags |= FL_ANS_LENT;
	c->out_len = c->ans->addr_len;
	return (long)n;
}

int errno_of(err_t err)
{
	switch (err) {
	case ERR_OK:	   return 0;
	case ERR_MEM:	   return ENOBUFS;
	case ERR_BUF:	   return EADDRNOTAVAIL;	/* no local port left */
	case ERR_TIMEOUT:  return ETIMEDOUT;
	case ERR_RTE:	   return ENETUNREACH;
	case ERR_USE:	   return EADDRINUSE;
	case ERR_ALREADY:  return EALREADY;
	case ERR_ISCONN:   return EISCONN;
	case ERR_CONN:	   return ENOTCONN;
	case ERR_ABRT:	   return ETIMEDOUT;		/* lwIP gave up: retransmissions or keep-alives went unanswered */
	case ERR_RST:	   return ECONNRESET;
	case ERR_CLSD:	   return ECONNRESET;
	case ERR_WOULDBLOCK: return EAGAIN;
	default:	   return EINVAL;
	}
}

/* -- requests -- */

static long do_socket(struct call *c)
{
	int domain = c->req->arg[0], type = c->req->arg[1] & 0xf, protocol = c->req->arg[2];
	struct sock *s = NULL;

	if (domain != AF_INET && domain != AF_INET6)
		return -EAFNOSUPPORT;
	if (protocol < 0 || protocol > 255)
		return -EINVAL;
	if (nr_sockets >= SOCKETS_MAX)
		return -ENOBUFS;
	if (*slot_of(c->req->id))
		return -EEXIST;
	if (type == SOCK_STREAM) {
		if (protocol && protocol != IPPROTO_TCP)
			return -EPROTONOSUPPORT;
		protocol = IPPROTO_TCP;
		s = tcp_sock_create();
	} else if (type == SOCK_DGRAM) {
		int ping = domain == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6;

		if (protocol && protocol != IPPROTO_UDP && protocol != ping)
			return -EPROTONOSUPPORT;
		protocol = protocol ? protocol : IPPROTO_UDP;
		s = dgram_sock_create(domain, type, protocol);
	} else if (type == SOCK_RAW) {
		if (!protocol)
			return -EPROTONOSUPPORT;
		s = dgram_sock_create(domain, type, protocol);
	} else {
		return -ESOCKTNOSUPPORT;
	}
	if (!s)
		return -ENOBUFS;
	s->domain = domain;
	s->type = type;
	s->protocol = protocol;
	if (!sock_add(s, c->req->id)) {
		s->ops->close(s);
		free(s);
		return -EINVAL;
	}
	return 0;
}

static long do_bind(struct sock *s, struct call *c)
{
	ip_addr_t ip;
	u16_t port;
	long err = addr_in(s, c->in, c->req->addr_len, &ip, &port);

	if (err)
		return err;
	if (s->bound)
		return -EINVAL;
	err = s->ops->bind(s, &ip, port);
	s->bound = !err;
	return err;
}

static long do_connect(struct sock *s, struct call *c)
{
	ip_addr_t ip;
	u16_t port;

	if (c->req->addr_len >= 2 && c->in[0] == AF_UNSPEC && !c->in[1])
		return s->ops->connect(s, NULL, 0);
	long err = addr_in(s, c->in, c->req->addr_len, &ip, &port);

	return err ? err : s->ops->connect(s, &ip, port);
}

static long do_send(struct sock *s, struct call *c)
{
	ip_addr_t ip;
	u16_t port;

	if (!c->req->addr_len || s->type == SOCK_STREAM)
		return s->ops->send(s, c, NULL, 0);
	long err = addr_in(s, c->in, c->req->addr_len, &ip, &port);

	return err ? err : s->ops->send(s, c, &ip, port);
}

static long do_name(struct sock *s, struct call *c)
{
	ip_addr_t ip = *IP4_ADDR_ANY;
	u16_t port = 0;

	if (!s->ops->name(s, c->req->arg[0] == 1, &ip, &port))
		return -ENOTCONN;
	c->ans->addr_len = c->out_len = addr_out(s->domain, &ip, port, c->out);
	return 0;
}

static long do_ioctl(struct sock *s, struct call *c)
{
	int value;

	switch ((unsigned int)c->req->arg[0]) {
	case FIONREAD:
		value = (int)s->ops->pending(s);
		break;
	case 0x8905:			/* SIOCATMARK: urgent data is not told apart */
		value = 0;
		break;
	default:
		return netif_ioctl(c);
	}
	memcpy(c->out, &value, sizeof(value));
	c->out_len = sizeof(value);
	return 0;
}

static long do_getopt(struct sock *s, struct call *c)
{
	uint32_t room = c->req->size < FL_INLINE_MAX ? c->req->size : FL_INLINE_MAX;
	long n = s->ops->getopt(s, c->req->arg[0], c->req->arg[1], c->out, room);

	if (n >= 0)
		c->out_len = (uint32_t)n;
	return n;
}

static long dispatch(struct sock *s, struct call *c)
{
	const struct fl_req *r = c->req;

	switch (r->op) {
	case FL_OP_BIND:	return do_bind(s, c);
	case FL_OP_LISTEN:	return s->ops->listen(s, r->arg[0]);
	case FL_OP_CONNECT:	return do_connect(s, c);
	case FL_OP_ACCEPT:	return s->ops->accept(s, c, r->id2);
	case FL_OP_SEND:	return do_send(s, c);
	case FL_OP_RECV:	return s->ops->recv(s, c);
	case FL_OP_SHUTDOWN:	return s->ops->shutdown(s, r->arg[0] != 1, r->arg[0] != 0);
	case FL_OP_NAME:	return do_name(s, c);
	case FL_OP_SETOPT:	return s->ops->setopt(s, r->arg[0], r->arg[1], c->in + r->addr_len, c->in_len - r->addr_len);
	case FL_OP_GETOPT:	return do_getopt(s, c);
	case FL_OP_IOCTL:	return do_ioctl(s, c);
	default:		return -EOPNOTSUPP;
	}
}

/* Does the request contradict itself? */
static bool request_ok(const struct call *c)
{
	const struct fl_req *r = c->req;

	if (c->in_len > FL_INLINE_MAX || r->addr_len > c->in_len || r->addr_len > 128)
		return false;
	if (r->op == FL_OP_SEND && !(r->flags & FL_REQ_LENT) && r->size > c->in_len - r->addr_len)
		return false;
	if (r->op == FL_OP_SHUTDOWN && (r->arg[0] < 0 || r->arg[0] > 2))
		return false;
	return true;
}

void sock_request(struct call *c)
{
	struct sock **at = slot_of(c->req->id), *s = *at;
	long result;

	memset(c->ans, 0, sizeof(*c->ans));
	c->out_len = 0;
	if (c->req->op == FL_OP_HELLO) {
		c->ans->result = c->req->arg[0] == FL_SERVER_VERSION ? 0 : -EPROTONOSUPPORT;
		return;
	}
	if (c->req->op == FL_OP_CLOSE) {
		if (s)
			close_sock(at);
		return;
	}
	if (!request_ok(c))
		result = -EINVAL;
	else if (c->req->op == FL_OP_SOCKET)
		result = do_socket(c);
	else
		result = s ? dispatch(s, c) : -EBADF;
	c->ans->result = result;
	if (result < 0)
		c->ans->addr_len = c->out_len = c->ans->flags = 0;

	s = *slot_of(c->req->id);
	if (!s)
		return;
	/* Nobody reads the answer of a replay, so its failure must be told in another way. */
	if (result < 0 && result != -EINPROGRESS && (c->req->flags & FL_REQ_REPLAY)) {
		sock_failed(s, (int)-result);
		return;
	}
	c->ans->ready = take_ready(s, &c->ans->error) | FL_READY_VALID;
}
