/* Every operation of netd's sockets, over lwIP's loopback: results, errors, readiness, and nothing left behind. */
#include "hosted.h"

#include "user/servers/netd/linux_tcp.h"

static uint64_t last_id;

/* -- shorthand -- */

static uint64_t make(int domain, int type, int protocol)
{
	struct fl_req r = { .op = FL_OP_SOCKET, .id = ++last_id, .arg = { domain, type, protocol } };

	CHECK_EQUAL(0, request(&r, NULL, 0));
	return last_id;
}

static long plain(uint32_t op, uint64_t id, int a, int b)
{
	struct fl_req r = { .op = op, .id = id, .arg = { a, b } };

	return request(&r, NULL, 0);
}

static struct sockaddr_in at(const char *ip, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	inet_pton(AF_INET, ip, &a.sin_addr);
	return a;
}

static struct sockaddr_in6 at6(const char *ip, int port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };

	inet_pton(AF_INET6, ip, &a.sin6_addr);
	return a;
}

static long with_addr(uint32_t op, uint64_t id, const void *addr, uint32_t len)
{
	struct fl_req r = { .op = op, .id = id, .addr_len = len };

	return request(&r, addr, len);
}

static long send_inline(uint64_t id, const void *data, uint32_t n)
{
	struct fl_req r = { .op = FL_OP_SEND, .id = id, .size = n };

	return request(&r, data, n);
}

static long send_to(uint64_t id, const struct sockaddr_in *to, const void *data, uint32_t n)
{
	struct fl_req r = { .op = FL_OP_SEND, .id = id, .size = n, .addr_len = sizeof(*to) };
	uint8_t all[2048];

	memcpy(all, to, sizeof(*to));
	memcpy(all + sizeof(*to), data, n);
	return request(&r, all, (uint32_t)sizeof(*to) + n);
}

static long recv_some(uint64_t id, uint32_t n, uint32_t flags)
{
	struct fl_req r = { .op = FL_OP_RECV, .id = id, .size = n, .msg_flags = flags };

	return request(&r, NULL, 0);
}

static long set_int(uint64_t id, int level, int name, int v)
{
	struct fl_req r = { .op = FL_OP_SETOPT, .id = id, .arg = { level, name } };

	return request(&r, &v, sizeof(v));
}

static int get_int(uint64_t id, int level, int name)
{
	struct fl_req r = { .op = FL_OP_GETOPT, .id = id, .arg = { level, name }, .size = 4 };
	int v = -1;

	if (request(&r, NULL, 0) == 4)
		memcpy(&v, answer_data, 4);
	return v;
}

static long accept_as(uint64_t listener, uint64_t *id)
{
	struct fl_req r = { .op = FL_OP_ACCEPT, .id = listener, .id2 = *id = ++last_id };

	return request(&r, NULL, 0);
}

/* What the kernel would have been told last about @id; *error of it. ~0: nothing new. */
static uint32_t told(uint64_t id, int *error)
{
	struct fl_ready v[64];
	uint32_t ready = ~0u;
	unsigned int n;

	*error = 0;
	pump();
	while ((n = sock_take_changes(v, 64)))
		for (unsigned int i = 0; i < n; i++)
			if (v[i].id == id) {
				ready = v[i].ready;
				*error = v[i].error ? v[i].error : *error;
			}
	return ready;
}

static void pair(uint64_t *client, uint64_t *server, int port)
{
	struct sockaddr_in a = at("127.0.0.1", port);
	uint64_t listener = make(AF_INET, SOCK_STREAM, 0);
	int error;

	CHECK_EQUAL(0, with_addr(FL_OP_BIND, listener, &a, sizeof(a)));
	CHECK_EQUAL(0, plain(FL_OP_LISTEN, listener, 5, 0));
	CHECK_EQUAL(-EAGAIN, accept_as(listener, server));
	*client = make(AF_INET, SOCK_STREAM, 0);
	CHECK_EQUAL(-EINPROGRESS, with_addr(FL_OP_CONNECT, *client, &a, sizeof(a)));
	CHECK_EQUAL(FL_READY_VALID, ans.ready);
	CHECK_EQUAL(-EALREADY, with_addr(FL_OP_CONNECT, *client, &a, sizeof(a)));
	CHECK_EQUAL(FL_READY_OUT, told(*client, &error));
	CHECK_EQUAL(0, error);
	CHECK_EQUAL(0, accept_as(listener, server));
	CHECK_EQUAL(sizeof(struct sockaddr_in), ans.addr_len);
	CHECK_EQUAL(FL_READY_VALID, ans.ready);		/* the listener: nothing more */
	CHECK_EQUAL(-EISCONN, with_addr(FL_OP_CONNECT, *client, &a, sizeof(a)));
	plain(FL_OP_CLOSE, listener, 0, 0);
}

/* -- tests -- */

static void streams(void)
{
	uint64_t c, s;
	struct sockaddr_in name;
	int error;

	pair(&c, &s, 1000);
	CHECK_EQUAL(-EAGAIN, recv_some(s, 10, 0));
	CHECK_EQUAL(5, send_inline(c, "hello", 5));
	CHECK(told(s, &error) & FL_READY_IN);
	CHECK_EQUAL(5, recv_some(s, 100, MSG_PEEK));
	CHECK(ans.ready & FL_READY_IN);
	CHECK_EQUAL(2, recv_some(s, 2, 0));
	CHECK(answer_len == 2 && !memcmp(answer_data, "he", 2));
	CHECK_EQUAL(3, recv_some(s, 100, 0));
	CHECK(!memcmp(answer_data, "llo", 3));
	CHECK(!(ans.ready & FL_READY_IN));

	CHECK_EQUAL(0, plain(FL_OP_NAME, c, 1, 0));
	memcpy(&name, answer_data, sizeof(name));
	CHECK_EQUAL(1000, ntohs(name.sin_port));
	CHECK_EQUAL(htonl(INADDR_LOOPBACK), name.sin_addr.s_addr);

	/* Half-close: the other direction goes on. */
	CHECK_EQUAL(0, plain(FL_OP_SHUTDOWN, c, 1, 0));
	CHECK_EQUAL(-EPIPE, send_inline(c, "x", 1));
	CHECK((told(s, &error) & (FL_READY_IN | FL_READY_RDHUP)) == (FL_READY_IN | FL_READY_RDHUP));
	CHECK_EQUAL(0, recv_some(s, 10, 0));
	CHECK_EQUAL(4, send_inline(s, "back", 4));
	pump();
	CHECK_EQUAL(4, recv_some(c, 10, 0));
	CHECK_EQUAL(0, plain(FL_OP_SHUTDOWN, s, 1, 0));
	CHECK(told(c, &error) & FL_READY_HUP);
	CHECK_EQUAL(0, error);
	CHECK_EQUAL(0, recv_some(c, 10, 0));
	plain(FL_OP_CLOSE, c, 0, 0);
	plain(FL_OP_CLOSE, s, 0, 0);
}

/* More than any buffer holds, through lent memory, with the reader slower than the writer. */
static void bulk(void)
{
	uint64_t c, s;
	size_t sent = 0, got = 0, total = 3u << 20;
	bool was_full = false, writable = true;
	int error;

	pair(&c, &s, 1001);
	for (int turn = 0; got < total; turn++) {
		struct fl_req w = { .op = FL_OP_SEND, .id = c, .flags = FL_REQ_LENT, .size = sizeof(lent) };
		struct fl_req r = { .op = FL_OP_RECV, .id = s, .flags = FL_REQ_LENT, .size = 20000 };

		/* As the kernel does: after EAGAIN, only when told that there is room again. */
		uint32_t news = told(c, &error);
		writable |= news != ~0u && (news & FL_READY_OUT);
		if (turn == 100000) {
			CHECK(!"the writer is told when there is room again");
			return;
		}
		if (sent < total && writable) {
			for (size_t i = 0; i < sizeof(lent); i++)
				lent[i] = (uint8_t)((sent + i) * 31 >> 3);
			long n = request(&w, NULL, 0);

			CHECK(n > 0 || n == -EAGAIN);
			writable = ans.ready & FL_READY_OUT;
			was_full |= !writable;
			sent += n > 0 ? (size_t)n : 0;
		}
		pump();
		memset(lent, 0, 20000);
		long n = request(&r, NULL, 0);

		CHECK(n >= 0 || n == -EAGAIN);
		const uint8_t *data = ans.flags & FL_ANS_LENT ? lent : answer_data;
		for (long i = 0; i < n; i++)
			if (data[i] != (uint8_t)((got + (size_t)i) * 31 >> 3)) {
				CHECK(!"data is as it was sent");
				return;
			}
		got += n > 0 ? (size_t)n : 0;
		if (failures)
			return;
	}
	CHECK(was_full);
	/* A caller that has gone before its data was copied: an error for it, and the socket is as before. */
	lent_broken = true;
	struct fl_req w = { .op = FL_OP_SEND, .id = c, .flags = FL_REQ_LENT, .size = 1000 };
	CHECK_EQUAL(-EFAULT, request(&w, NULL, 0));
	lent_broken = false;
	plain(FL_OP_CLOSE, c, 0, 0);
	plain(FL_OP_CLOSE, s, 0, 0);
}

static void refused_and_reset(void)
{
	struct sockaddr_in nobody = at("127.0.0.1", 9);
	uint64_t c = make(AF_INET, SOCK_STREAM, 0), s;
	int error;

	CHECK_EQUAL(FL_READY_OUT | FL_READY_HUP | FL_READY_VALID, ans.ready);
	CHECK_EQUAL(-ENOTCONN, recv_some(c, 1, 0));
	CHECK_EQUAL(-EPIPE, send_inline(c, "x", 1));
	CHECK_EQUAL(-ENOTCONN, plain(FL_OP_NAME, c, 1, 0));
	CHECK_EQUAL(-EINPROGRESS, with_addr(FL_OP_CONNECT, c, &nobody, sizeof(nobody)));
	CHECK(told(c, &error) & FL_READY_ERR);
	CHECK_EQUAL(ECONNREFUSED, error);
	plain(FL_OP_CLOSE, c, 0, 0);

	/* Closed with data unread: the writer learns that it did not arrive. */
	pair(&c, &s, 1002);
	CHECK_EQUAL(4, send_inline(c, "lost", 4));
	pump();
	plain(FL_OP_CLOSE, s, 0, 0);
	told(c, &error);
	CHECK_EQUAL(ECONNRESET, error);
	CHECK_EQUAL(-EPIPE, send_inline(c, "x", 1));
	CHECK_EQUAL(0, recv_some(c, 1, 0));
	plain(FL_OP_CLOSE, c, 0, 0);
}

static void backlog_and_dead_connections(void)
{
	struct sockaddr_in a = at("0.0.0.0", 1003), to = at("127.0.0.1", 1003);
	uint64_t l = make(AF_INET, SOCK_STREAM, 0), c[8], s;
	int error, up = 0;

	CHECK_EQUAL(0, with_addr(FL_OP_BIND, l, &a, sizeof(a)));
	CHECK_EQUAL(-EINVAL, with_addr(FL_OP_BIND, l, &a, sizeof(a)));
	CHECK_EQUAL(0, plain(FL_OP_LISTEN, l, 3, 0));
	for (int i = 0; i < 8; i++) {
		c[i] = make(AF_INET, SOCK_STREAM, 0);
		CHECK_EQUAL(-EINPROGRESS, with_addr(FL_OP_CONNECT, c[i], &to, sizeof(to)));
		up += told(c[i], &error) == FL_READY_OUT;
	}
	CHECK_EQUAL(3, up);
	plain(FL_OP_CLOSE, c[0], 0, 0);		/* ended, but it was there: accept shows it */
	CHECK_EQUAL(0, accept_as(l, &s));
	pump();
	CHECK_EQUAL(0, recv_some(s, 1, 0));
	plain(FL_OP_CLOSE, s, 0, 0);
	/* The same place again. */
	uint64_t second = make(AF_INET, SOCK_STREAM, 0);
	CHECK_EQUAL(-EADDRINUSE, with_addr(FL_OP_BIND, second, &a, sizeof(a)));
	plain(FL_OP_CLOSE, second, 0, 0);
	plain(FL_OP_CLOSE, l, 0, 0);		/* with two in its queue */
	for (int i = 1; i < 8; i++)
		plain(FL_OP_CLOSE, c[i], 0, 0);
	pump();
}

static void both_families_on_one_socket(void)
{
	struct sockaddr_in6 any = at6("::", 1004), a6;
	struct sockaddr_in four = at("127.0.0.1", 1004);
	struct sockaddr_in6 six = at6("::1", 1004);
	uint64_t l = make(AF_INET6, SOCK_STREAM, 0), c, s;
	char text[64];

	CHECK_EQUAL(0, with_addr(FL_OP_BIND, l, &any, sizeof(any)));
	CHECK_EQUAL(0, plain(FL_OP_LISTEN, l, 5, 0));
	c = make(AF_INET, SOCK_STREAM, 0);
	CHECK_EQUAL(-EINPROGRESS, with_addr(FL_OP_CONNECT, c, &four, sizeof(four)));
	pump();
	CHECK_EQUAL(0, accept_as(l, &s));
	CHECK_EQUAL(sizeof(a6), ans.addr_len);
	memcpy(&a6, answer_data, sizeof(a6));
	CHECK(!strcmp("::ffff:127.0.0.1", inet_ntop(AF_INET6, &a6.sin6_addr, text, sizeof(text))));
	plain(FL_OP_CLOSE, c, 0, 0);
	plain(FL_OP_CLOSE, s, 0, 0);

	c = make(AF_INET6, SOCK_STREAM, 0);
	CHECK_EQUAL(-EINPROGRESS, with_addr(FL_OP_CONNECT, c, &six, sizeof(six)));
	pump();
	CHECK_EQUAL(0, accept_as(l, &s));
	memcpy(&a6, answer_data, sizeof(a6));
	CHECK(!strcmp("::1", inet_ntop(AF_INET6, &a6.sin6_addr, text, sizeof(text))));
	CHECK_EQUAL(3, send_inline(c, "six", 3));
	pump();
	CHECK_EQUAL(3, recv_some(s, 10, 0));
	plain(FL_OP_CLOSE, c, 0, 0);
	plain(FL_OP_CLOSE, s, 0, 0);
	plain(FL_OP_CLOSE, l, 0, 0);

	l = make(AF_INET6, SOCK_STREAM, 0);
	CHECK_EQUAL(0, set_int(l, IPPROTO_IPV6, IPV6_V6ONLY, 1));
	CHECK_EQUAL(-EAFNOSUPPORT, with_addr(FL_OP_CONNECT, l, &four, sizeof(four)));
	plain(FL_OP_CLOSE, l, 0, 0);
}

static void datagrams(void)
{
	struct sockaddr_in a = at("127.0.0.1", 2000), nobody = at("127.0.0.1", 2999), from, bcast = at("10.0.0.255", 5);
	uint64_t s = make(AF_INET, SOCK_DGRAM, 0), c = make(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
	int error;

	CHECK_EQUAL(0, with_addr(FL_OP_BIND, s, &a, sizeof(a)));
	CHECK_EQUAL(-EADDRINUSE, with_addr(FL_OP_BIND, c, &a, sizeof(a)));
	CHECK_EQUAL(-EDESTADDRREQ, send_inline(c, "x", 1));
	CHECK_EQUAL(-EAGAIN, recv_some(s, 10, 0));
	CHECK_EQUAL(6, send_to(c, &a, "packet", 6));
	CHECK_EQUAL(0, send_to(c, &a, "", 0));
	CHECK(told(s, &error) & FL_READY_IN);
	CHECK_EQUAL(3, recv_some(s, 3, MSG_PEEK));
	CHECK_EQUAL(MSG_TRUNC, ans.msg_flags);
	CHECK_EQUAL(6, recv_some(s, 3, MSG_TRUNC));
	CHECK_EQUAL(sizeof(from) + 3, answer_len);
	memcpy(&from, answer_data, sizeof(from));
	CHECK_EQUAL(htonl(INADDR_LOOPBACK), from.sin_addr.s_addr);
	CHECK_EQUAL(0, recv_some(s, 10, 0));	/* the empty one */
	CHECK_EQUAL(-EAGAIN, recv_some(s, 10, 0));
	CHECK_EQUAL(5, send_to(s, &from, "reply", 5));
	pump();
	CHECK_EQUAL(5, recv_some(c, 10, 0));
	CHECK_EQUAL(-EACCES, send_to(c, &bcast, "b", 1));
	CHECK_EQUAL(0, set_int(c, SOL_SOCKET, SO_BROADCAST, 1));
	CHECK_EQUAL(1, send_to(c, &bcast, "b", 1));

	/* Nobody there: the connected socket is told. */
	CHECK_EQUAL(0, with_addr(FL_OP_CONNECT, c, &nobody, sizeof(nobody)));
	CHECK_EQUAL(1, send_inline(c, "x", 1));
	told(c, &error);
	CHECK_EQUAL(ECONNREFUSED, error);

	/* A flood is cut off, not kept. */
	for (int i = 0; i < 4000; i++) {
		send_to(s, &a, answer_data, 1000);
		pump();
	}
	int kept = 0;
	while (recv_some(s, 2000, 0) >= 0)
		kept++;
	CHECK(kept > 50 && kept < 400);
	plain(FL_OP_CLOSE, s, 0, 0);
	plain(FL_OP_CLOSE, c, 0, 0);
}

static void pings(void)
{
	struct sockaddr_in a = at("127.0.0.1", 0);
	uint64_t p = make(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), raw = make(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	uint8_t echo[16] = { 8, 0, 0, 0, 0x12, 0x34, 0, 7, 'p', 'i', 'n', 'g' };
	uint8_t other[16] = { 13 };

	CHECK_EQUAL(-EINVAL, send_to(p, &a, other, sizeof(other)));
	CHECK_EQUAL(sizeof(echo), send_to(p, &a, echo, sizeof(echo)));
	pump();
	CHECK_EQUAL(sizeof(echo), recv_some(p, 100, 0));
	const uint8_t *m = answer_data + ans.addr_len;
	CHECK_EQUAL(0, m[0]);
	CHECK_EQUAL(7, m[7]);
	CHECK(!memcmp(m + 8, "ping", 4));
	CHECK_EQUAL(-EAGAIN, recv_some(p, 100, 0));
	/* The raw socket saw request and reply, with headers. */
	CHECK_EQUAL(20 + sizeof(echo), recv_some(raw, 100, 0));
	CHECK_EQUAL(0x45, answer_data[ans.addr_len]);
	CHECK_EQUAL(20 + sizeof(echo), recv_some(raw, 100, 0));
	plain(FL_OP_CLOSE, p, 0, 0);
	plain(FL_OP_CLOSE, raw, 0, 0);
}

static void options(void)
{
	uint64_t t = make(AF_INET, SOCK_STREAM, 0), u = make(AF_INET, SOCK_DGRAM, 0);
	struct { int on, s; } linger = { 1, 0 };
	struct fl_req r = { .op = FL_OP_SETOPT, .id = t, .arg = { SOL_SOCKET, SO_LINGER } };

	CHECK_EQUAL(0, set_int(t, IPPROTO_TCP, TCP_NODELAY, 1));
	CHECK_EQUAL(1, get_int(t, IPPROTO_TCP, TCP_NODELAY));
	CHECK_EQUAL(0, set_int(t, SOL_SOCKET, SO_REUSEADDR, 1));
	CHECK_EQUAL(1, get_int(t, SOL_SOCKET, SO_REUSEADDR));
	CHECK_EQUAL(0, set_int(t, IPPROTO_TCP, TCP_KEEPIDLE, 60));
	CHECK_EQUAL(60, get_int(t, IPPROTO_TCP, TCP_KEEPIDLE));
	CHECK_EQUAL(-EINVAL, set_int(t, IPPROTO_TCP, TCP_KEEPIDLE, 0));
	CHECK_EQUAL(-ENOPROTOOPT, set_int(t, IPPROTO_TCP, 9999, 1));
	CHECK_EQUAL(-ENOPROTOOPT, set_int(u, IPPROTO_TCP, TCP_NODELAY, 1));
	CHECK_EQUAL(0, request(&r, &linger, sizeof(linger)));
	CHECK_EQUAL(-EINVAL, request(&r, &linger, 3));
	CHECK_EQUAL(0, set_int(u, IPPROTO_IP, IP_TTL, 9));
	CHECK_EQUAL(9, get_int(u, IPPROTO_IP, IP_TTL));
	CHECK_EQUAL(-EINVAL, set_int(u, IPPROTO_IP, IP_TTL, 256));
	plain(FL_OP_CLOSE, t, 0, 0);
	plain(FL_OP_CLOSE, u, 0, 0);
}

static void nonsense(void)
{
	struct fl_req r = { .op = FL_OP_SOCKET, .id = ++last_id, .arg = { AF_UNIX, SOCK_STREAM, 0 } };
	uint64_t t;

	CHECK_EQUAL(-EAFNOSUPPORT, request(&r, NULL, 0));
	r.arg[0] = AF_INET;
	r.arg[1] = 7;
	CHECK_EQUAL(-ESOCKTNOSUPPORT, request(&r, NULL, 0));
	r.arg[1] = SOCK_STREAM;
	r.arg[2] = IPPROTO_UDP;
	CHECK_EQUAL(-EPROTONOSUPPORT, request(&r, NULL, 0));
	CHECK_EQUAL(-EBADF, plain(FL_OP_LISTEN, 12345678, 1, 0));
	plain(FL_OP_CLOSE, 12345678, 0, 0);
	t = make(AF_INET, SOCK_STREAM, 0);
	r = (struct fl_req){ .op = FL_OP_SOCKET, .id = t, .arg = { AF_INET, SOCK_STREAM } };
	CHECK_EQUAL(-EEXIST, request(&r, NULL, 0));
	r = (struct fl_req){ .op = FL_OP_SEND, .id = t, .size = 100 };	/* claims more than it brings */
	CHECK_EQUAL(-EINVAL, request(&r, "abc", 3));
	r = (struct fl_req){ .op = FL_OP_BIND, .id = t, .addr_len = 16 };
	CHECK_EQUAL(-EINVAL, request(&r, "abc", 3));
	CHECK_EQUAL(-EOPNOTSUPP, plain(99, t, 0, 0));
	CHECK_EQUAL(-EINVAL, plain(FL_OP_SHUTDOWN, t, 3, 0));
	plain(FL_OP_CLOSE, t, 0, 0);
}

int main(void)
{
	start_stack();
	streams();
	bulk();
	refused_and_reset();
	backlog_and_dead_connections();
	both_families_on_one_socket();
	datagrams();
	pings();
	options();
	nonsense();
	CHECK_EQUAL(0, sock_count());
	return failures != 0;
}
