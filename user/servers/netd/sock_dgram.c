/*
 * Datagram sockets: UDP, raw IP, and ICMP echo as anybody may use it (socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP)).
 *
 * What comes is queued with its sender, up to QUEUE_BYTES; beyond that it is dropped, as the network might have.
 */
#include "sock.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lwip/icmp.h"
#include "lwip/igmp.h"
#include "lwip/inet_chksum.h"
#include "lwip/raw.h"
#include "lwip/udp.h"

#define QUEUE_BYTES	(208u << 10)	/* as Linux's default */
#define DATAGRAM_COST	256u		/* an empty datagram occupies memory too */
#define PAYLOAD_MAX	65507u		/* of UDP over IPv4 */
#define ICMP_UNREACHABLE 3
#define ICMP_PORT	3
#define PING_REQUEST4	8
#define PING_REPLY4	0
#define PING_REQUEST6	128
#define PING_REPLY6	129

struct datagram {
	struct datagram	*next;
	struct pbuf	*p;
	ip_addr_t	 from;
	u16_t		 port;
};

enum dgram_kind { UDP, RAW, PING };

struct dgram_sock {
	struct sock	 s;
	enum dgram_kind	 kind;
	struct udp_pcb	*udp;		/* set iff kind == UDP */
	struct raw_pcb	*raw;		/* set iff not */
	struct dgram_sock *next, **prev;	/* of all UDP ones, for ICMP errors */
	struct datagram	*first, **last;
	size_t		 queued;	/* cost of those */
	bool		 connected;
	bool		 deaf, ended;	/* shutdown */
	bool		 reuse, broadcast;
	ip_addr_t	 peer;
	u16_t		 peer_port;
	u16_t		 ident;		/* PING: network order; 0: not chosen yet */
};

static struct dgram_sock *udp_sockets;
static const struct sock_ops dgram_ops;

static struct dgram_sock *dgram_of(struct sock *s)
{
	return (struct dgram_sock *)s;
}

/* -- in -- */

/* Takes over @p. */
static void enqueue(struct dgram_sock *d, struct pbuf *p, const ip_addr_t *from, u16_t port)
{
	struct datagram *m = NULL;

	if (p && !d->deaf && d->queued + p->tot_len + DATAGRAM_COST <= QUEUE_BYTES)
		m = malloc(sizeof(*m));
	if (!m) {
		if (p)
			pbuf_free(p);
		return;
	}
	*m = (struct datagram){ .p = p, .from = *from, .port = port };
	*d->last = m;
	d->last = &m->next;
	d->queued += p->tot_len + DATAGRAM_COST;
	sock_changed(&d->s);
}

static void drop_first(struct dgram_sock *d)
{
	struct datagram *m = d->first;

	d->first = m->next;
	if (!d->first)
		d->last = &d->first;
	d->queued -= m->p->tot_len + DATAGRAM_COST;
	pbuf_free(m->p);
	free(m);
}

static void on_udp(void *arg, struct udp_pcb *pcb, struct pbuf *p, const ip_addr_t *from, u16_t port)
{
	(void)pcb;
	enqueue(arg, p, from, port);
}

/* A copy for this socket, without its first @skip bytes: other sockets, and the stack, want the packet too. */
static void enqueue_copy(struct dgram_sock *d, const struct pbuf *p, u16_t skip, const ip_addr_t *from)
{
	struct pbuf *copy = pbuf_alloc(PBUF_RAW, (u16_t)(p->tot_len - skip), PBUF_RAM);

	if (copy)
		pbuf_copy_partial(p, copy->payload, copy->tot_len, skip);
	enqueue(d, copy, from, 0);
}

/* @p starts with the IP header. Returns 0: not eaten. */
static u8_t on_raw(void *arg, struct raw_pcb *pcb, struct pbuf *p, const ip_addr_t *from)
{
	struct dgram_sock *d = arg;
	u16_t header = ip_current_header_tot_len();
	u8_t icmp[8];

	(void)pcb;
	if (p->tot_len < header)
		return 0;
	if (d->kind == RAW) {		/* raw(7): IPv4 comes with its header, IPv6 without */
		enqueue_copy(d, p, d->s.domain == AF_INET ? 0 : header, from);
		return 0;
	}
	if (pbuf_copy_partial(p, icmp, sizeof(icmp), header) != sizeof(icmp) || !d->ident)
		return 0;
	if (icmp[0] == (d->s.domain == AF_INET ? PING_REPLY4 : PING_REPLY6) && !memcmp(icmp + 4, &d->ident, 2))
		enqueue_copy(d, p, header, from);
	return 0;
}

/* "Port unreachable" about a datagram that a connected socket of ours has sent: ECONNREFUSED there (udp(7)). */
static u8_t on_icmp(void *arg, struct raw_pcb *pcb, struct pbuf *p, const ip_addr_t *from)
{
	u16_t header = ip_current_header_tot_len();
	u8_t m[8 + 20 + 40 + 8];		/* ICMP header, the IP header of ours with options, its first 8 bytes */
	u16_t len = pbuf_copy_partial(p, m, sizeof(m), header);

	(void)arg, (void)pcb, (void)from;
	if (len < 8 + 20 + 8 || m[0] != ICMP_UNREACHABLE || m[1] != ICMP_PORT || m[8] >> 4 != 4 || m[8 + 9] != IPPROTO_UDP)
		return 0;
	unsigned int at = 8 + (m[8] & 15) * 4u;

	if (at < 8 + 20 || at + 4 > len)
		return 0;
	u16_t own = (u16_t)(m[at] << 8 | m[at + 1]), theirs = (u16_t)(m[at + 2] << 8 | m[at + 3]);
	u32_t to;

	memcpy(&to, m + 8 + 16, 4);
	for (struct dgram_sock *d = udp_sockets; d; d = d->next)
		if (d->connected && d->udp->local_port == own && d->peer_port == theirs && IP_IS_V4(&d->peer) &&
		    ip4_addr_get_u32(ip_2_ip4(&d->peer)) == to)
			sock_failed(&d->s, ECONNREFUSED);
	return 0;
}

bool dgram_init(void)
{
	struct raw_pcb *icmp = raw_new_ip_type(IPADDR_TYPE_V4, IPPROTO_ICMP);

	if (icmp)
		raw_recv(icmp, on_icmp, NULL);
	return icmp;
}

/* -- making and closing -- */

static bool make_pcb(struct dgram_sock *d, int domain, int protocol)
{
	u8_t type = domain == AF_INET ? IPADDR_TYPE_V4 : d->kind == UDP ? IPADDR_TYPE_ANY : IPADDR_TYPE_V6;

	if (d->kind == UDP) {
		d->udp = udp_new_ip_type(type);
		if (!d->udp)
			return false;
		udp_recv(d->udp, on_udp, d);
		d->next = udp_sockets;
		d->prev = &udp_sockets;
		if (d->next)
			d->next->prev = &d->next;
		udp_sockets = d;
		return true;
	}
	d->raw = raw_new_ip_type(type, (u8_t)protocol);
	if (!d->raw)
		return false;
	raw_recv(d->raw, on_raw, d);
	if (domain == AF_INET6 && protocol == IPPROTO_ICMPV6) {		/* RFC 3542, 3.1: the sum is ours to make */
		d->raw->chksum_reqd = 1;
		d->raw->chksum_offset = 2;
	}
	return true;
}

struct sock *dgram_sock_create(int domain, int type, int protocol)
{
	struct dgram_sock *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->s.ops = &dgram_ops;
	d->kind = type == SOCK_RAW ? RAW : protocol == IPPROTO_UDP ? UDP : PING;
	d->last = &d->first;
	if (!make_pcb(d, domain, protocol)) {
		free(d);
		return NULL;
	}
	return &d->s;
}

static void dgram_close(struct sock *s)
{
	struct dgram_sock *d = dgram_of(s);

	while (d->first)
		drop_first(d);
	if (d->udp) {
		*d->prev = d->next;
		if (d->next)
			d->next->prev = d->prev;
		udp_remove(d->udp);
	}
	if (d->raw)
		raw_remove(d->raw);
}

/* -- addresses -- */

static long dgram_bind(struct sock *s, const ip_addr_t *ip, u16_t port)
{
	struct dgram_sock *d = dgram_of(s);

	if (d->kind == UDP)
		return -errno_of(udp_bind(d->udp, ip, port));
	if (d->kind == PING)
		d->ident = htons(port);
	return -errno_of(raw_bind(d->raw, ip));
}

static long dgram_connect(struct sock *s, const ip_addr_t *ip, u16_t port)
{
	struct dgram_sock *d = dgram_of(s);
	ip_addr_t self;
	err_t err;

	if (!ip) {
		if (d->kind == UDP)
			udp_disconnect(d->udp);
		else
			raw_disconnect(d->raw);
		d->connected = false;
		return 0;
	}
	if (ip_addr_isany(ip)) {
		IP_ADDR4(&self, 127, 0, 0, 1);
		ip = &self;
	}
	err = d->kind == UDP ? udp_connect(d->udp, ip, port) : raw_connect(d->raw, ip);
	if (err != ERR_OK)
		return -errno_of(err);
	d->connected = true;
	d->peer = *ip;
	d->peer_port = port;
	sock_changed(s);
	return 0;
}

static bool dgram_name(struct sock *s, bool peer, ip_addr_t *ip, u16_t *port)
{
	struct dgram_sock *d = dgram_of(s);

	if (peer) {
		*ip = d->peer;
		*port = d->peer_port;
		return d->connected;
	}
	*ip = d->kind == UDP ? d->udp->local_ip : d->raw->local_ip;
	*port = d->kind == UDP ? d->udp->local_port : d->kind == PING ? ntohs(d->ident) : 0;
	return true;
}

/* -- out -- */

/* Our own identifier in the echo request, so that replies find back; for IPv4 the sum too (the stack makes that of ICMPv6). */
static long make_ping(struct dgram_sock *d, struct pbuf *p)
{
	u8_t *m = p->payload;
	u16_t sum;

	if (p->len < 8)
		return -EINVAL;
	if (m[0] != (d->s.domain == AF_INET ? PING_REQUEST4 : PING_REQUEST6) || m[1])
		return -EINVAL;
	while (!d->ident)
		d->ident = (u16_t)LWIP_RAND();
	memcpy(m + 4, &d->ident, 2);
	memset(m + 2, 0, 2);
	if (d->s.domain == AF_INET) {
		sum = inet_chksum(m, p->len);
		memcpy(m + 2, &sum, 2);
	}
	return 0;
}

static long transmit(struct dgram_sock *d, struct pbuf *p, const ip_addr_t *ip, u16_t port)
{
	err_t err;

	if (d->kind == UDP)
		err = ip ? udp_sendto(d->udp, p, ip, port) : udp_send(d->udp, p);
	else
		err = ip ? raw_sendto(d->raw, p, ip) : raw_send(d->raw, p);
	/* lwIP's "bad argument" is its word for a broadcast without SO_BROADCAST, too. */
	if (err == ERR_VAL && ip && IP_IS_V4(ip) && !d->broadcast)
		return -EACCES;
	if (err == ERR_RTE)
		return -ENETUNREACH;
	return -errno_of(err);
}

static long dgram_send(struct sock *s, struct call *c, const ip_addr_t *ip, u16_t port)
{
	struct dgram_sock *d = dgram_of(s);
	size_t n = c->req->size;
	ip_addr_t self;

	if (d->ended)
		return -EPIPE;
	if (c->req->msg_flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (!ip && !d->connected)
		return -EDESTADDRREQ;
	if (n > PAYLOAD_MAX)
		return -EMSGSIZE;
	if (ip && d->kind == UDP && !port)
		return -EINVAL;
	if (ip && ip_addr_isany(ip)) {
		IP_ADDR4(&self, 127, 0, 0, 1);
		ip = &self;
	}
	const void *data = call_data(c, 0, &n);

	if (!data)
		return -EFAULT;
	struct pbuf *p = pbuf_alloc(d->kind == UDP ? PBUF_TRANSPORT : PBUF_IP, (u16_t)n, PBUF_RAM);

	if (!p)
		return -ENOBUFS;
	pbuf_take(p, data, (u16_t)n);
	long err = d->kind == PING ? make_ping(d, p) : 0;

	if (!err)
		err = transmit(d, p, ip, port);
	pbuf_free(p);
	return err ? err : (long)n;
}

/* -- reading -- */

static long dgram_recv(struct sock *s, struct call *c)
{
	struct dgram_sock *d = dgram_of(s);
	struct datagram *m = d->first;

	if (!m)
		return d->deaf ? 0 : -EAGAIN;
	c->ans->addr_len = c->out_len = addr_out(s->domain, &m->from, m->port, c->out);

	size_t whole = m->p->tot_len, n = whole < c->req->size ? whole : c->req->size;
	void *to = call_room(c, &n);

	n = pbuf_copy_partial(m->p, to, (u16_t)n, 0);
	long ret = call_give(c, to, n);

	if (ret < 0)
		return ret;
	if (n < whole) {
		c->ans->msg_flags |= MSG_TRUNC;
		if (c->req->msg_flags & MSG_TRUNC)
			ret = (long)whole;
	}
	if (!(c->req->msg_flags & MSG_PEEK))
		drop_first(d);
	return ret;
}

static uint32_t dgram_ready(struct sock *s)
{
	struct dgram_sock *d = dgram_of(s);
	uint32_t bits = FL_READY_OUT;

	if (d->first || d->deaf)
		bits |= FL_READY_IN;
	if (d->deaf)
		bits |= FL_READY_RDHUP;
	if (d->deaf && d->ended)
		bits |= FL_READY_HUP;
	return bits;
}

static size_t dgram_pending(struct sock *s)
{
	return dgram_of(s)->first ? dgram_of(s)->first->p->tot_len : 0;
}

static long dgram_shutdown(struct sock *s, bool reading, bool writing)
{
	struct dgram_sock *d = dgram_of(s);

	if (!d->connected)
		return -ENOTCONN;
	d->deaf |= reading;
	d->ended |= writing;
	return 0;
}

static long dgram_listen(struct sock *s, int backlog)
{
	(void)s, (void)backlog;
	return -EOPNOTSUPP;
}

static long dgram_accept(struct sock *s, struct call *c, uint64_t id)
{
	(void)s, (void)c, (void)id;
	return -EOPNOTSUPP;
}

/* -- options -- */

static void apply_options(struct dgram_sock *d)
{
	struct ip_pcb *pcb = d->kind == UDP ? (struct ip_pcb *)d->udp : (struct ip_pcb *)d->raw;

	if (d->reuse)
		ip_set_option(pcb, SOF_REUSEADDR);
	else
		ip_reset_option(pcb, SOF_REUSEADDR);
	if (d->broadcast)
		ip_set_option(pcb, SOF_BROADCAST);
	else
		ip_reset_option(pcb, SOF_BROADCAST);
}

/* IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP: struct ip_mreq or ip_mreqn. */
static long membership(bool join, const void *value, uint32_t len)
{
	struct ip_mreq m;
	ip4_addr_t group, interface;

	if (len < sizeof(m))
		return -EINVAL;
	memcpy(&m, value, sizeof(m));
	group.addr = m.imr_multiaddr.s_addr;
	interface.addr = m.imr_interface.s_addr;
	if (!ip4_addr_ismulticast(&group))
		return -EINVAL;
	err_t err = join ? igmp_joingroup(&interface, &group) : igmp_leavegroup(&interface, &group);

	return err == ERR_OK ? 0 : err == ERR_MEM ? -ENOBUFS : -ENODEV;
}

static long set_ip(struct dgram_sock *d, int name, int v)
{
	struct ip_pcb *pcb = d->kind == UDP ? (struct ip_pcb *)d->udp : (struct ip_pcb *)d->raw;

	switch (name) {
	case IP_TTL:
		if (v == 0 || v < -1 || v > 255)
			return -EINVAL;
		pcb->ttl = v < 0 ? UDP_TTL : (u8_t)v;
		return 0;
	case IP_TOS:
		pcb->tos = (u8_t)v;
		return 0;
	case IP_HDRINCL:
		if (d->kind != RAW || d->s.domain != AF_INET)
			return -ENOPROTOOPT;
		if (v)
			raw_set_flags(d->raw, RAW_FLAGS_HDRINCL);
		else
			raw_clear_flags(d->raw, RAW_FLAGS_HDRINCL);
		return 0;
	case IP_MULTICAST_TTL:
		if (v < -1 || v > 255)
			return -EINVAL;
		if (d->kind == UDP)
			udp_set_multicast_ttl(d->udp, v < 0 ? 1 : (u8_t)v);
		else
			raw_set_multicast_ttl(d->raw, v < 0 ? 1 : (u8_t)v);
		return 0;
	case IP_MULTICAST_LOOP:
		if (d->kind != UDP)
			return -ENOPROTOOPT;
		if (v)
			udp_set_flags(d->udp, UDP_FLAGS_MULTICAST_LOOP);
		else
			udp_clear_flags(d->udp, UDP_FLAGS_MULTICAST_LOOP);
		return 0;
	}
	return -ENOPROTOOPT;
}

static long set_ip6(struct dgram_sock *d, int name, int v)
{
	struct ip_pcb *pcb = d->kind == UDP ? (struct ip_pcb *)d->udp : (struct ip_pcb *)d->raw;

	switch (name) {
	case IPV6_UNICAST_HOPS:
		if (v < -1 || v > 255)
			return -EINVAL;
		pcb->ttl = v < 0 ? UDP_TTL : (u8_t)v;
		return 0;
	case IPV6_V6ONLY:
		if (d->s.bound || d->connected)
			return -EINVAL;
		d->s.v6only = v;
		IP_SET_TYPE_VAL(pcb->local_ip, ip_type_of(&d->s));
		IP_SET_TYPE_VAL(pcb->remote_ip, ip_type_of(&d->s));
		return 0;
	case IPV6_CHECKSUM:
		if (d->kind != RAW || v < -1 || (v & 1 && v != -1) || v > 0xfffe)
			return -EINVAL;
		d->raw->chksum_reqd = v >= 0;
		d->raw->chksum_offset = v >= 0 ? (u16_t)v : 0;
		return 0;
	}
	return -ENOPROTOOPT;
}

static long dgram_setopt(struct sock *s, int level, int name, const void *value, uint32_t len)
{
	struct dgram_sock *d = dgram_of(s);
	int v;

	if (level == IPPROTO_IP && (name == IP_ADD_MEMBERSHIP || name == IP_DROP_MEMBERSHIP))
		return membership(name == IP_ADD_MEMBERSHIP, value, len);
	if (!option_int(value, len, &v))
		return -EINVAL;
	if (level == SOL_SOCKET && name == SO_REUSEADDR)
		d->reuse = v;
	else if (level == SOL_SOCKET && name == SO_BROADCAST)
		d->broadcast = v;
	else if (level == IPPROTO_IP)
		return set_ip(d, name, v);
	else if (level == IPPROTO_IPV6)
		return set_ip6(d, name, v);
	else
		return -ENOPROTOOPT;
	apply_options(d);
	return 0;
}

static long dgram_getopt(struct sock *s, int level, int name, void *value, uint32_t room)
{
	struct dgram_sock *d = dgram_of(s);
	struct ip_pcb *pcb = d->kind == UDP ? (struct ip_pcb *)d->udp : (struct ip_pcb *)d->raw;

	if (level == SOL_SOCKET && name == SO_REUSEADDR)
		return put_int(value, room, d->reuse);
	if (level == SOL_SOCKET && name == SO_BROADCAST)
		return put_int(value, room, d->broadcast);
	if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF))
		return put_int(value, room, QUEUE_BYTES);
	if ((level == IPPROTO_IP && name == IP_TTL) || (level == IPPROTO_IPV6 && name == IPV6_UNICAST_HOPS))
		return put_int(value, room, pcb->ttl);
	if (level == IPPROTO_IP && name == IP_TOS)
		return put_int(value, room, pcb->tos);
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
		return put_int(value, room, s->v6only);
	return -ENOPROTOOPT;
}

static const struct sock_ops dgram_ops = {
	.bind = dgram_bind, .listen = dgram_listen, .connect = dgram_connect, .accept = dgram_accept, .send = dgram_send,
	.recv = dgram_recv, .shutdown = dgram_shutdown, .name = dgram_name, .setopt = dgram_setopt, .getopt = dgram_getopt,
	.ready = dgram_ready, .pending = dgram_pending, .close = dgram_close,
};
