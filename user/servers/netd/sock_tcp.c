/*
 * Stream sockets on lwIP's TCP.
 *
 *	FRESH	     no connection; perhaps bound. Its pcb is made when it is needed
 *	LISTENING    finished connections wait in `accepted`, sockets without an id until the kernel asks for them
 *	CONNECTING   the SYN is out
 *	UP	     connected; eof: the peer has ended its side; ended: we have ended ours
 *	DOWN	     it was connected: reset, timed out, or both sides have ended
 *
 * The rule that is easy to break: lwIP frees a pcb by itself in two places, and tells us in one. After an error the error
 * callback says that the pcb is gone. But a pcb that has ended in both directions goes quietly, some time later. So as soon
 * as both sides have ended we let go of it ourselves (detach()).
 *
 * Flow control: what was received stays in `received` and counts against the window until the program has read it
 * (tcp_recved); what is to be sent is copied into lwIP's queue, at most TCP_SND_BUF bytes.
 */
#include "sock.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lwip/priv/tcp_priv.h"
#include "lwip/tcp.h"
#include "linux_tcp.h"

#define SEND_LOW_WATER	(TCP_SND_BUF / 4)	/* room from which on a full socket is writable again */
#define SEGMENTS_LOW	32u
#define KEEPALIVE_MS	7200000u

enum tcp_kind { FRESH, LISTENING, CONNECTING, UP, DOWN };

struct tcp_sock {
	struct sock	 s;
	enum tcp_kind	 kind;
	struct tcp_pcb	*pcb;		/* NULL: none yet, or lwIP has it to itself */
	bool		 eof, ended;	/* the peer's side, our side */
	bool		 deaf;		/* shutdown(SHUT_RD): what comes is thrown away */
	bool		 full;		/* a send found no room: OUT comes back at the low-water mark */
	bool		 nodelay, reuse, keepalive, linger_reset;
	u32_t		 keep_idle, keep_interval, keep_count;
	u8_t		 tos, ttl;	/* 0: default */

	struct pbuf	**received;	/* ring of chains, `capacity` places */
	unsigned int	 first, nr, capacity;
	size_t		 bytes, taken;	/* in all of them; of the first, read already */

	ip_addr_t	 own_ip, peer_ip;	/* when there is no pcb to ask */
	u16_t		 own_port, peer_port;

	struct tcp_sock	*accepted, **accepted_last, *accepted_next;
	unsigned int	 nr_accepted;
};

static const struct sock_ops tcp_ops;

static struct tcp_sock *tcp_of(struct sock *s)
{
	return (struct tcp_sock *)s;
}

/* -- received data -- */

static bool queue_push(struct tcp_sock *t, struct pbuf *p)
{
	if (t->nr == t->capacity) {
		unsigned int more = t->capacity ? t->capacity * 2 : 16;
		struct pbuf **ring = malloc(more * sizeof(*ring));

		if (!ring)
			return false;
		for (unsigned int i = 0; i < t->nr; i++)
			ring[i] = t->received[(t->first + i) % t->capacity];
		free(t->received);
		t->received = ring;
		t->capacity = more;
		t->first = 0;
	}
	t->received[(t->first + t->nr++) % t->capacity] = p;
	t->bytes += p->tot_len;
	return true;
}

/* Up to @n bytes to @to, which stay where they are. */
static size_t queue_peek(const struct tcp_sock *t, uint8_t *to, size_t n)
{
	size_t done = 0, skip = t->taken;

	for (unsigned int i = 0; i < t->nr && done < n; i++) {
		const struct pbuf *p = t->received[(t->first + i) % t->capacity];
		size_t part = p->tot_len - skip < n - done ? p->tot_len - skip : n - done;

		done += pbuf_copy_partial(p, to + done, (u16_t)part, (u16_t)skip);
		skip = 0;
	}
	return done;
}

static void queue_drop(struct tcp_sock *t, size_t n)
{
	t->bytes -= n;
	while (n) {
		struct pbuf *p = t->received[t->first];
		size_t left = p->tot_len - t->taken;

		if (n < left) {
			t->taken += n;
			return;
		}
		n -= left;
		t->taken = 0;
		pbuf_free(p);
		t->first = (t->first + 1) % t->capacity;
		t->nr--;
	}
}

/* The window opens again by what the program has read. */
static void window_opens(struct tcp_sock *t, size_t n)
{
	while (t->pcb && n) {
		u16_t part = n > 0xffff ? 0xffff : (u16_t)n;

		tcp_recved(t->pcb, part);
		n -= part;
	}
}

/* -- the pcb -- */

static void remember_names(struct tcp_sock *t)
{
	if (!t->pcb || t->kind == LISTENING)
		return;
	t->own_ip = t->pcb->local_ip;
	t->own_port = t->pcb->local_port;
	t->peer_ip = t->pcb->remote_ip;
	t->peer_port = t->pcb->remote_port;
}

static void silence(struct tcp_pcb *pcb)
{
	tcp_arg(pcb, NULL);
	if (pcb->state == LISTEN) {
		tcp_accept(pcb, NULL);
		return;
	}
	tcp_recv(pcb, NULL);
	tcp_sent(pcb, NULL);
	tcp_err(pcb, NULL);
}

/* Both sides have ended: lwIP finishes alone. */
static void detach(struct tcp_sock *t)
{
	remember_names(t);
	silence(t->pcb);
	t->pcb = NULL;
	t->kind = DOWN;
}

static void on_error(void *arg, err_t err)
{
	struct tcp_sock *t = arg;

	if (!t)
		return;
	t->pcb = NULL;		/* lwIP has freed it */
	if (t->kind == CONNECTING) {
		t->kind = FRESH;
		t->s.bound = false;
		sock_failed(&t->s, err == ERR_RST ? ECONNREFUSED : errno_of(err));
		return;
	}
	t->kind = DOWN;
	t->eof = true;
	if (err == ERR_CLSD)
		sock_changed(&t->s);
	else
		sock_failed(&t->s, errno_of(err));
}

static err_t on_received(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
	struct tcp_sock *t = arg;

	(void)err;
	if (!p) {
		t->eof = true;
		if (t->ended)
			detach(t);
	} else if (t->deaf) {
		tcp_recved(pcb, p->tot_len);
		pbuf_free(p);
	} else if (!queue_push(t, p)) {
		return ERR_MEM;		/* lwIP keeps it and offers it again */
	}
	sock_changed(&t->s);
	return ERR_OK;
}

/* The field itself: tcp_sndbuf() tells at most 65535. */
static bool has_room(const struct tcp_sock *t)
{
	return t->pcb->snd_buf >= SEND_LOW_WATER && tcp_sndqueuelen(t->pcb) + SEGMENTS_LOW < TCP_SND_QUEUELEN;
}

static err_t on_sent(void *arg, struct tcp_pcb *pcb, u16_t len)
{
	struct tcp_sock *t = arg;

	(void)pcb, (void)len;
	if (t->full && has_room(t)) {
		t->full = false;
		sock_changed(&t->s);
	}
	return ERR_OK;
}

static err_t on_connected(void *arg, struct tcp_pcb *pcb, err_t err)
{
	struct tcp_sock *t = arg;

	(void)pcb, (void)err;		/* always ERR_OK */
	t->kind = UP;
	sock_changed(&t->s);
	return ERR_OK;
}

static void listen_to_pcb(struct tcp_sock *t)
{
	tcp_arg(t->pcb, t);
	tcp_recv(t->pcb, on_received);
	tcp_sent(t->pcb, on_sent);
	tcp_err(t->pcb, on_error);
}

/* Options that were set before there was a pcb. */
static void apply_options(struct tcp_sock *t)
{
	struct tcp_pcb *pcb = t->pcb;

	if (!pcb)
		return;
	if (t->reuse)
		ip_set_option(pcb, SOF_REUSEADDR);
	else
		ip_reset_option(pcb, SOF_REUSEADDR);
	if (t->keepalive)
		ip_set_option(pcb, SOF_KEEPALIVE);
	else
		ip_reset_option(pcb, SOF_KEEPALIVE);
	if (t->ttl)
		pcb->ttl = t->ttl;
	pcb->tos = t->tos;
	if (pcb->state == LISTEN)
		return;
	if (t->nodelay)
		tcp_nagle_disable(pcb);
	else
		tcp_nagle_enable(pcb);
	pcb->keep_idle = t->keep_idle * 1000;
	pcb->keep_intvl = t->keep_interval * 1000;
	pcb->keep_cnt = t->keep_count;
}

static bool need_pcb(struct tcp_sock *t)
{
	if (t->pcb)
		return true;
	t->pcb = tcp_new_ip_type(ip_type_of(&t->s));
	if (!t->pcb)
		return false;
	listen_to_pcb(t);
	apply_options(t);
	return true;
}

struct sock *tcp_sock_create(void)
{
	struct tcp_sock *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->s.ops = &tcp_ops;
	t->accepted_last = &t->accepted;
	t->keep_idle = KEEPALIVE_MS / 1000;
	t->keep_interval = 75;
	t->keep_count = 9;
	return &t->s;
}

/* -- bind, listen, accept -- */

static long tcp_bind_sock(struct sock *s, const ip_addr_t *ip, u16_t port)
{
	struct tcp_sock *t = tcp_of(s);

	if (t->kind != FRESH)
		return -EINVAL;
	if (!need_pcb(t))
		return -ENOBUFS;
	return -errno_of(tcp_bind(t->pcb, ip, port));
}

static err_t on_accepted(void *arg, struct tcp_pcb *pcb, err_t err)
{
	struct tcp_sock *listener = arg;

	if (err != ERR_OK || !pcb || !listener)
		return ERR_VAL;
	struct tcp_sock *t = sock_count() < SOCKETS_MAX ? tcp_of(tcp_sock_create()) : NULL;

	if (!t)
		return ERR_MEM;		/* lwIP aborts the connection */
	t->s.domain = listener->s.domain;
	t->s.type = listener->s.type;
	t->s.protocol = listener->s.protocol;
	t->s.v6only = listener->s.v6only;
	t->s.bound = true;
	t->kind = UP;
	t->pcb = pcb;
	t->nodelay = listener->nodelay;
	t->keepalive = listener->keepalive;
	t->reuse = listener->reuse;
	t->tos = listener->tos;
	t->ttl = listener->ttl;
	t->keep_idle = listener->keep_idle;
	t->keep_interval = listener->keep_interval;
	t->keep_count = listener->keep_count;
	listen_to_pcb(t);
	apply_options(t);
	remember_names(t);
	tcp_backlog_delayed(pcb);	/* counts against the backlog until accept() */
	*listener->accepted_last = t;
	listener->accepted_last = &t->accepted_next;
	listener->nr_accepted++;
	sock_changed(&listener->s);
	return ERR_OK;
}

static long tcp_listen_sock(struct sock *s, int backlog)
{
	struct tcp_sock *t = tcp_of(s);
	u8_t limit = backlog < 1 ? 1 : backlog > 255 ? 255 : (u8_t)backlog;	/* lwIP counts in a byte */
	err_t err;

	if (t->kind == LISTENING) {
		tcp_backlog_set(t->pcb, limit);
		return 0;
	}
	if (t->kind != FRESH)
		return -EINVAL;
	if (!need_pcb(t))
		return -ENOBUFS;
	if (!s->bound) {
		ip_addr_t any = *IP4_ADDR_ANY;

		if (s->domain == AF_INET6)
			any = s->v6only ? *IP6_ADDR_ANY : *IP_ANY_TYPE;
		err = tcp_bind(t->pcb, &any, 0);
		if (err != ERR_OK)
			return -errno_of(err);
		s->bound = true;
	}
	struct tcp_pcb *listening = tcp_listen_with_backlog_and_err(t->pcb, limit, &err);

	if (!listening)
		return -errno_of(err);
	t->pcb = listening;
	t->kind = LISTENING;
	tcp_arg(listening, t);
	tcp_accept(listening, on_accepted);
	return 0;
}

/* Frees an accepted one that nobody will ask for. */
static void tcp_close_sock(struct sock *s);

static struct tcp_sock *pop_accepted(struct tcp_sock *listener)
{
	struct tcp_sock *t = listener->accepted;

	listener->accepted = t->accepted_next;
	if (!listener->accepted)
		listener->accepted_last = &listener->accepted;
	listener->nr_accepted--;
	return t;
}

static long tcp_accept_sock(struct sock *s, struct call *c, uint64_t id)
{
	struct tcp_sock *listener = tcp_of(s), *t;

	if (listener->kind != LISTENING)
		return -EINVAL;
	for (;;) {
		if (!listener->accepted)
			return -EAGAIN;
		t = pop_accepted(listener);
		if (t->kind == UP || t->bytes)
			break;
		tcp_close_sock(&t->s);		/* reset before anybody looked */
		free(t);
	}
	t->s.error = 0;
	if (!sock_add(&t->s, id)) {
		tcp_close_sock(&t->s);
		free(t);
		return -EINVAL;
	}
	if (t->pcb)
		tcp_backlog_accepted(t->pcb);
	sock_changed(&t->s);
	c->ans->addr_len = c->out_len = addr_out(t->s.domain, &t->peer_ip, t->peer_port, c->out);
	return 0;
}

/* -- connect -- */

static long tcp_connect_sock(struct sock *s, const ip_addr_t *ip, u16_t port)
{
	struct tcp_sock *t = tcp_of(s);
	ip_addr_t self;

	if (!ip)			/* AF_UNSPEC on a stream that is not connected */
		return t->kind == FRESH ? 0 : -EINVAL;
	switch (t->kind) {
	case FRESH:	 break;
	case CONNECTING: return -EALREADY;
	default:	 return -EISCONN;
	}
	if (!need_pcb(t))
		return -ENOBUFS;
	if (ip_addr_isany(ip)) {	/* "this host" */
		if (IP_IS_V6_VAL(*ip) && !IP_IS_ANY_TYPE_VAL(*ip))
			ip_addr_copy_from_ip6(self, *netif_ip6_addr(netif_get_by_index(1), 0));
		else
			IP_ADDR4(&self, 127, 0, 0, 1);
		ip = &self;
	}
	t->kind = CONNECTING;
	err_t err = tcp_connect(t->pcb, ip, port, on_connected);

	if (err != ERR_OK) {
		t->kind = FRESH;
		return err == ERR_USE ? -EADDRNOTAVAIL : -errno_of(err);
	}
	return -EINPROGRESS;
}

/* -- data -- */

static long tcp_send_sock(struct sock *s, struct call *c, const ip_addr_t *ip, u16_t port)
{
	struct tcp_sock *t = tcp_of(s);
	size_t want = c->req->size, done = 0;

	(void)ip, (void)port;
	if (t->kind == CONNECTING)
		return -EAGAIN;
	if (t->kind != UP || t->ended)
		return -EPIPE;
	if (c->req->msg_flags & MSG_OOB)
		return -EOPNOTSUPP;
	while (done < want) {
		size_t room = t->pcb->snd_buf, n = want - done;

		n = n < room ? n : room;
		n = n < 0x8000 ? n : 0x8000;
		if (!n || tcp_sndqueuelen(t->pcb) + SEGMENTS_LOW >= TCP_SND_QUEUELEN)
			break;
		const void *data = call_data(c, done, &n);

		if (!data)
			return done ? (long)done : -EFAULT;
		if (!n || tcp_write(t->pcb, data, (u16_t)n, TCP_WRITE_FLAG_COPY | (done + n < want ? TCP_WRITE_FLAG_MORE : 0)) != ERR_OK)
			break;
		done += n;
	}
	if (done)
		tcp_output(t->pcb);
	if (done < want)
		t->full = true;
	/* With nothing under way no acknowledgement will ever make room: that is lack of memory. */
	if (!done && want)
		return t->pcb->unsent || t->pcb->unacked ? -EAGAIN : -ENOBUFS;
	return (long)done;
}

static long tcp_recv_sock(struct sock *s, struct call *c)
{
	struct tcp_sock *t = tcp_of(s);
	size_t want = c->req->size;

	if (t->kind == FRESH || t->kind == LISTENING)
		return -ENOTCONN;
	if (c->req->msg_flags & MSG_OOB)
		return -EINVAL;
	if (!t->bytes)
		return t->eof || t->deaf || t->kind == DOWN ? 0 : -EAGAIN;
	if (want > t->bytes)
		want = t->bytes;
	bool discard = (c->req->msg_flags & MSG_TRUNC) && !(c->req->msg_flags & MSG_PEEK);	/* tcp(7): thrown away, not copied */
	size_t n = want;

	if (!discard) {
		uint8_t *to = call_room(c, &n);
		size_t got = queue_peek(t, to, n);
		long ret = call_give(c, to, got);

		if (ret < 0)
			return ret;
		n = got;
	}
	if (!(c->req->msg_flags & MSG_PEEK)) {
		queue_drop(t, n);
		window_opens(t, n);
	}
	return (long)n;
}

static long tcp_shutdown_sock(struct sock *s, bool reading, bool writing)
{
	struct tcp_sock *t = tcp_of(s);

	if (t->kind == LISTENING && reading) {		/* Linux: stops listening */
		while (t->accepted) {
			struct tcp_sock *a = pop_accepted(t);

			tcp_close_sock(&a->s);
			free(a);
		}
		silence(t->pcb);
		tcp_close(t->pcb);
		t->pcb = NULL;
		t->kind = FRESH;
		s->bound = false;
		return 0;
	}
	if (t->kind != UP)
		return t->kind == DOWN && !t->s.error ? 0 : -ENOTCONN;
	if (reading)
		t->deaf = true;
	if (writing && !t->ended) {
		err_t err = tcp_shutdown(t->pcb, 0, 1);

		if (err != ERR_OK)
			return -errno_of(err);
		t->ended = true;
		if (t->eof)
			detach(t);
	}
	return 0;
}

static void tcp_close_sock(struct sock *s)
{
	struct tcp_sock *t = tcp_of(s);

	while (t->accepted) {
		struct tcp_sock *a = pop_accepted(t);

		tcp_close_sock(&a->s);
		free(a);
	}
	if (t->pcb) {
		struct tcp_pcb *pcb = t->pcb;

		t->pcb = NULL;
		silence(pcb);
		/* With data unread tcp_close() resets: the peer must not think that it arrived (RFC 2525, 2.17). */
		if ((t->linger_reset && t->kind == UP) || tcp_close(pcb) != ERR_OK)
			tcp_abort(pcb);
	}
	while (t->nr) {
		pbuf_free(t->received[t->first]);
		t->first = (t->first + 1) % t->capacity;
		t->nr--;
	}
	free(t->received);
	t->received = NULL;
}

/* -- questions -- */

static bool tcp_name(struct sock *s, bool peer, ip_addr_t *ip, u16_t *port)
{
	struct tcp_sock *t = tcp_of(s);

	if (peer && t->kind != UP && t->kind != DOWN)
		return false;
	if (peer && t->kind == DOWN)
		return false;
	remember_names(t);
	if (t->kind == LISTENING) {
		*ip = t->pcb->local_ip;
		*port = t->pcb->local_port;
	} else {
		*ip = peer ? t->peer_ip : t->own_ip;
		*port = peer ? t->peer_port : t->own_port;
	}
	return true;
}

static uint32_t tcp_ready(struct sock *s)
{
	struct tcp_sock *t = tcp_of(s);
	uint32_t bits = 0;

	switch (t->kind) {
	case FRESH:
		return FL_READY_OUT | FL_READY_HUP;
	case LISTENING:
		return t->accepted ? FL_READY_IN : 0;
	case CONNECTING:
		return 0;
	case DOWN:
		return FL_READY_IN | FL_READY_OUT | FL_READY_RDHUP | FL_READY_HUP;
	case UP:
		break;
	}
	if (t->bytes || t->eof || t->deaf)
		bits |= FL_READY_IN;
	if (t->eof || t->deaf)
		bits |= FL_READY_RDHUP;
	if (t->ended || !t->full || has_room(t)) {
		t->full = false;
		bits |= FL_READY_OUT;
	}
	return bits;
}

static size_t tcp_pending(struct sock *s)
{
	return tcp_of(s)->bytes;
}

/* -- options -- */

static long tcp_setopt_tcp(struct tcp_sock *t, int name, int v)
{
	switch (name) {
	case TCP_NODELAY:
		t->nodelay = v;
		break;
	case TCP_KEEPIDLE:
		if (v < 1 || v > 32767)
			return -EINVAL;
		t->keep_idle = (u32_t)v;
		break;
	case TCP_KEEPINTVL:
		if (v < 1 || v > 32767)
			return -EINVAL;
		t->keep_interval = (u32_t)v;
		break;
	case TCP_KEEPCNT:
		if (v < 1 || v > 127)
			return -EINVAL;
		t->keep_count = (u32_t)v;
		break;
	default:
		return -ENOPROTOOPT;
	}
	apply_options(t);
	return 0;
}

static long tcp_setopt(struct sock *s, int level, int name, const void *value, uint32_t len)
{
	struct tcp_sock *t = tcp_of(s);
	struct linger linger;
	int v;

	if (level == SOL_SOCKET && name == SO_LINGER) {
		if (len < sizeof(linger))
			return -EINVAL;
		memcpy(&linger, value, sizeof(linger));
		t->linger_reset = linger.l_onoff && !linger.l_linger;	/* waiting in close() is not there: data is sent behind it anyway */
		return 0;
	}
	if (!option_int(value, len, &v))
		return -EINVAL;
	if (level == IPPROTO_TCP)
		return tcp_setopt_tcp(t, name, v);
	if (level == SOL_SOCKET && name == SO_REUSEADDR)
		t->reuse = v;
	else if (level == SOL_SOCKET && name == SO_KEEPALIVE)
		t->keepalive = v;
	else if ((level == IPPROTO_IP && name == IP_TOS) || (level == IPPROTO_IPV6 && name == IPV6_TCLASS))
		t->tos = (u8_t)v;
	else if ((level == IPPROTO_IP && name == IP_TTL) || (level == IPPROTO_IPV6 && name == IPV6_UNICAST_HOPS))
		t->ttl = v < 0 ? 0 : (u8_t)v;
	else if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) {
		if (s->bound || t->kind != FRESH)
			return -EINVAL;
		s->v6only = v;
		if (t->pcb) {		/* made by an option before this one */
			IP_SET_TYPE_VAL(t->pcb->local_ip, ip_type_of(s));
			IP_SET_TYPE_VAL(t->pcb->remote_ip, ip_type_of(s));
		}
	} else {
		return -ENOPROTOOPT;
	}
	apply_options(t);
	return 0;
}

/* struct tcp_info of Linux, as far as lwIP knows: state, mss, smoothed times, windows. */
static long get_info(const struct tcp_sock *t, void *value, uint32_t room)
{
	static const u8_t states[] = { 7, 10, 2, 3, 1, 4, 5, 8, 11, 9, 6 };	/* lwIP's numbers to Linux's */
	struct tcp_info info = { .tcpi_state = 7 };

	if (t->pcb && t->kind != LISTENING) {
		info.tcpi_state = states[t->pcb->state];
		info.tcpi_snd_mss = info.tcpi_rcv_mss = tcp_mss(t->pcb);
		info.tcpi_snd_cwnd = t->pcb->cwnd / (tcp_mss(t->pcb) ? tcp_mss(t->pcb) : 1);
		info.tcpi_rto = (u32_t)t->pcb->rto * TCP_SLOW_INTERVAL * 1000;
		info.tcpi_rtt = (u32_t)(t->pcb->sa > 0 ? t->pcb->sa >> 3 : 0) * TCP_SLOW_INTERVAL * 1000;
		info.tcpi_retransmits = t->pcb->nrtx;
	} else if (t->kind == LISTENING) {
		info.tcpi_state = 10;
	}
	room = room < sizeof(info) ? room : sizeof(info);
	memcpy(value, &info, room);
	return (long)room;
}

static long tcp_getopt(struct sock *s, int level, int name, void *value, uint32_t room)
{
	struct tcp_sock *t = tcp_of(s);

	if (level == IPPROTO_TCP) {
		switch (name) {
		case TCP_NODELAY:   return put_int(value, room, t->nodelay);
		case TCP_MAXSEG:    return put_int(value, room, t->pcb && t->kind != LISTENING ? tcp_mss(t->pcb) : TCP_MSS);
		case TCP_KEEPIDLE:  return put_int(value, room, (int)t->keep_idle);
		case TCP_KEEPINTVL: return put_int(value, room, (int)t->keep_interval);
		case TCP_KEEPCNT:   return put_int(value, room, (int)t->keep_count);
		case TCP_INFO:	    return get_info(t, value, room);
		default:	    return -ENOPROTOOPT;
		}
	}
	if (level == SOL_SOCKET) {
		switch (name) {
		case SO_REUSEADDR: return put_int(value, room, t->reuse);
		case SO_KEEPALIVE: return put_int(value, room, t->keepalive);
		case SO_SNDBUF:	   return put_int(value, room, TCP_SND_BUF);
		case SO_RCVBUF:	   return put_int(value, room, TCP_WND);
		case SO_LINGER: {
			struct linger linger = { .l_onoff = t->linger_reset };

			room = room < sizeof(linger) ? room : sizeof(linger);
			memcpy(value, &linger, room);
			return (long)room;
		}
		}
	}
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
		return put_int(value, room, s->v6only);
	if (level == IPPROTO_IP && name == IP_TTL)
		return put_int(value, room, t->ttl ? t->ttl : TCP_TTL);
	if (level == IPPROTO_IP && name == IP_TOS)
		return put_int(value, room, t->tos);
	return -ENOPROTOOPT;
}

static const struct sock_ops tcp_ops = {
	.bind = tcp_bind_sock, .listen = tcp_listen_sock, .connect = tcp_connect_sock, .accept = tcp_accept_sock,
	.send = tcp_send_sock, .recv = tcp_recv_sock, .shutdown = tcp_shutdown_sock, .name = tcp_name,
	.setopt = tcp_setopt, .getopt = tcp_getopt, .ready = tcp_ready, .pending = tcp_pending, .close = tcp_close_sock,
};
