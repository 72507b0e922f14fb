/*
 * A whole server of a socket family in a page or two: streams within the family, by name. For tests of the kernel's side
 * (docs/servers.md); netd is the real thing. One event loop, no waiting anywhere.
 */
#ifndef MINI_FAMILY_H
#define MINI_FAMILY_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "user/include/port.h"

#define MINI_FAMILY	40
#define MINI_SOCKETS	64
#define MINI_BUFFER	20000

struct mini_addr { uint16_t family; char name[14]; };

struct mini_sock {
	uint64_t id;		/* 0: made by a connect, not yet accepted */
	int	 used, listening, connected, eof;
	int	 replayed;
	struct mini_addr name;
	struct mini_sock *peer, *pending_of;
	uint32_t have;
	char	 buf[MINI_BUFFER];
};

static struct mini_sock mini[MINI_SOCKETS];
static int mini_fd;

static struct mini_sock *mini_new(uint64_t id)
{
	for (int i = 0; i < MINI_SOCKETS; i++) {
		if (!mini[i].used) {
			memset(&mini[i], 0, sizeof(mini[i]));
			mini[i].used = 1;
			mini[i].id = id;
			return &mini[i];
		}
	}
	return NULL;
}

static struct mini_sock *mini_find(uint64_t id)
{
	for (int i = 0; i < MINI_SOCKETS; i++)
		if (mini[i].used && id && mini[i].id == id)
			return &mini[i];
	return NULL;
}

static struct mini_sock *mini_named(const struct mini_addr *a)
{
	for (int i = 0; i < MINI_SOCKETS; i++)
		if (mini[i].used && mini[i].name.name[0] && !mini[i].connected && !strncmp(mini[i].name.name, a->name, sizeof(a->name)))
			return &mini[i];
	return NULL;
}

static struct mini_sock *mini_pending(struct mini_sock *listener)
{
	for (int i = 0; i < MINI_SOCKETS; i++)
		if (mini[i].used && mini[i].pending_of == listener)
			return &mini[i];
	return NULL;
}

static uint32_t mini_ready(struct mini_sock *s)
{
	uint32_t r = FL_READY_VALID;

	if (s->listening)
		return r | (mini_pending(s) ? FL_READY_IN : 0);
	if (s->have || s->eof)
		r |= FL_READY_IN;
	if (s->eof)
		r |= FL_READY_RDHUP;
	if (!s->peer || s->peer->have < MINI_BUFFER)
		r |= FL_READY_OUT;
	return r;
}

static void mini_tell(struct mini_sock *s)
{
	struct fl_ready v = { .id = s->id, .ready = mini_ready(s) };

	if (s->id)
		family_ready(mini_fd, &v, 1);
}

static void mini_hang_up(struct mini_sock *s)
{
	if (s->peer) {
		s->peer->eof = 1;
		s->peer->peer = NULL;
		mini_tell(s->peer);
	}
	s->peer = NULL;
}

static int64_t mini_connect(struct mini_sock *s, const struct mini_addr *a)
{
	struct mini_sock *l = mini_named(a), *other;

	if (!l || !l->listening)
		return -111;	/* ECONNREFUSED */
	other = mini_new(0);
	if (!other)
		return -105;
	other->connected = s->connected = 1;
	other->peer = s;
	s->peer = other;
	other->name = l->name;
	other->pending_of = l;
	mini_tell(l);
	return 0;
}

static int64_t mini_send(struct mini_sock *s, const struct fl_req *req, struct fl_msg *m, const char *data)
{
	struct mini_sock *to = s->peer;
	uint32_t n = req->size;

	if (!s->connected)
		return -107;
	if (!to)
		return -32;
	if (n > MINI_BUFFER - to->have)
		n = MINI_BUFFER - to->have;
	if (!n && req->size)
		return -11;
	if (req->flags & FL_REQ_LENT)
		port_lent_read(mini_fd, m->token, 0, to->buf + to->have, n);
	else
		memcpy(to->buf + to->have, data, n);
	to->have += n;
	mini_tell(to);
	return n;
}

/* The answer's data goes to @out, or to the lent range. */
static int64_t mini_recv(struct mini_sock *s, const struct fl_req *req, struct fl_msg *m, char *out, struct fl_ans *ans)
{
	uint32_t n = req->size < s->have ? req->size : s->have;

	if (!s->connected)
		return -107;
	if (!n)
		return s->eof ? 0 : -11;
	if (req->flags & FL_REQ_LENT) {
		port_lent_write(mini_fd, m->token, 0, s->buf, n);
		ans->flags = FL_ANS_LENT;
	} else {
		memcpy(out, s->buf, n);
		m->len = n;
	}
	if (!(req->msg_flags & MSG_PEEK)) {
		s->have -= n;
		memmove(s->buf, s->buf + n, s->have);
		if (s->peer)
			mini_tell(s->peer);
	}
	return n;
}

/* One request; 0 to go on. @lie: what a bad server does instead. */
static void mini_serve(struct fl_msg *m, char *buf)
{
	struct fl_req req;
	struct fl_ans ans = { 0 };
	struct mini_sock *s, *t;

	memcpy(&req, m->word, sizeof(req));
	uint32_t got = m->len;
	s = mini_find(req.id);
	m->len = 0;
	m->nr_fds = 0;
	if (req.op == FL_OP_SOCKET && !s) {
		ans.result = req.arg[1] != SOCK_STREAM ? -94 : (s = mini_new(req.id)) ? 0 : -105;
		if (s)
			s->replayed = !!(req.flags & FL_REQ_REPLAY);
	} else if (!s) {
		ans.result = -9;
	} else switch (req.op) {
	case FL_OP_BIND:
		if (mini_named((void *)buf))
			ans.result = -98;
		else
			memcpy(&s->name, buf, got < sizeof(s->name) ? got : sizeof(s->name));
		break;
	case FL_OP_LISTEN:
		s->listening = 1;
		break;
	case FL_OP_CONNECT:
		ans.result = mini_connect(s, (void *)buf);
		break;
	case FL_OP_ACCEPT:
		t = mini_pending(s);
		ans.result = t ? 0 : -11;
		if (t) {
			t->pending_of = NULL;
			t->id = req.id2;
			mini_tell(t);
		}
		break;
	case FL_OP_SEND:
		ans.result = mini_send(s, &req, m, buf + req.addr_len);
		break;
	case FL_OP_RECV:
		ans.result = mini_recv(s, &req, m, buf, &ans);
		break;
	case FL_OP_SHUTDOWN:
		if (req.arg[0] != 0)
			mini_hang_up(s);
		break;
	case FL_OP_NAME:
		memcpy(buf, req.arg[0] && s->peer ? &s->peer->name : &s->name, sizeof(s->name));
		((struct mini_addr *)buf)->family = MINI_FAMILY;
		ans.addr_len = m->len = sizeof(s->name);
		break;
	case FL_OP_SETOPT:
	case FL_OP_GETOPT:
		ans.result = -92;
		break;
	case FL_OP_CLOSE:
		mini_hang_up(s);
		s->used = 0;
		return;
	default:
		ans.result = -25;
	}
	if (s)
		ans.ready = mini_ready(s);
	memcpy(m->word, &ans, sizeof(ans));
	if (m->token)
		port_reply(mini_fd, m);
	else if (s)
		mini_tell(s);
}

__attribute__((unused, noreturn))
static void mini_main(int fd)
{
	static char buf[FL_INLINE_MAX];

	mini_fd = fd;
	for (;;) {
		struct fl_msg m = { .buf = (uintptr_t)buf, .room = sizeof(buf) };

		if (port_receive(fd, &m, -1))
			exit(1);
		mini_serve(&m, buf);
	}
}

#endif
