/*
 * Datagram and seqpacket sockets: one message a call, truncation told, queues that fill, senders who wait, whom a connected socket
 * hears, what remains when the peer has gone.
 */
#include "unix_test.h"

static void packets(int type)
{
	int s[2];
	char buf[16];
	struct iovec v = { buf, 2 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	pair(type, s);
	CHECK_EQUAL(3, send(s[0], "abc", 3, 0));
	CHECK_EQUAL(2, send(s[0], "de", 2, 0));
	CHECK_EQUAL(0, send(s[0], "", 0, 0));
	CHECK_EQUAL(1, send(s[0], "f", 1, 0));
	CHECK_EQUAL(3, recv(s[1], buf, 16, MSG_PEEK));
	CHECK_EQUAL(3, recv(s[1], buf, 2, MSG_PEEK | MSG_TRUNC));
	CHECK_EQUAL(2, recvmsg(s[1], &m, 0));
	CHECK_EQUAL(MSG_TRUNC, m.msg_flags & MSG_TRUNC);
	CHECK(!memcmp(buf, "ab", 2));
	CHECK_EQUAL(2, recvmsg(s[1], &m, 0));
	CHECK_EQUAL(0, m.msg_flags & MSG_TRUNC);
	CHECK(!memcmp(buf, "de", 2));
	CHECK_EQUAL(0, recv(s[1], buf, 16, 0));
	CHECK_EQUAL(1, recv(s[1], buf, 16, 0));
	CHECK_ERRNO(EAGAIN, recv(s[1], buf, 16, MSG_DONTWAIT));
	CHECK_ERRNO(EOPNOTSUPP, send(s[0], "x", 1, MSG_OOB));

	static char big[300000];
	CHECK_ERRNO(EMSGSIZE, send(s[0], big, sizeof(big), 0));
	int small = 1000;
	CHECK_EQUAL(0, setsockopt(s[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
	CHECK_ERRNO(EMSGSIZE, send(s[0], big, 10000, 0));
	close_both(s);
}

static void gone_peers(void)
{
	int s[2];
	char buf[4];

	pair(SOCK_SEQPACKET, s);
	CHECK_EQUAL(1, send(s[0], "x", 1, 0));
	close(s[0]);
	CHECK_EQUAL(1, recv(s[1], buf, 4, 0));
	CHECK_EQUAL(0, recv(s[1], buf, 4, 0));
	CHECK_EQUAL(0, recv(s[1], buf, 4, MSG_DONTWAIT));
	CHECK_ERRNO(EPIPE, send(s[1], "x", 1, MSG_NOSIGNAL));
	close(s[1]);

	pair(SOCK_DGRAM, s);
	close(s[0]);
	CHECK_ERRNO(ECONNREFUSED, send(s[1], "x", 1, 0));
	CHECK_ERRNO(ENOTCONN, send(s[1], "x", 1, 0));	/* the first failure has ended the association */
	CHECK_ERRNO(EAGAIN, recv(s[1], buf, 4, MSG_DONTWAIT));
	close(s[1]);

	int fresh = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	CHECK_ERRNO(ENOTCONN, send(fresh, "x", 1, 0));
	CHECK_ERRNO(ENOTCONN, recv(fresh, buf, 1, 0));
	close(fresh);
	fresh = socket(AF_UNIX, SOCK_DGRAM, 0);
	CHECK_ERRNO(ENOTCONN, send(fresh, "x", 1, 0));
	CHECK_ERRNO(EOPNOTSUPP, listen(fresh, 1));
	CHECK_ERRNO(EOPNOTSUPP, accept(fresh, NULL, NULL));
	CHECK_EQUAL(POLLOUT, poll_now(fresh));
	close(fresh);
}

static void addresses(void)
{
	int a = bound(SOCK_DGRAM, "@dgram-a"), b = bound(SOCK_DGRAM, "@dgram-b"), c = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct sockaddr_un to, from;
	socklen_t len = name_of(&to, "@dgram-a"), got = sizeof(from);
	char buf[8];

	CHECK_EQUAL(2, sendto(b, "hi", 2, 0, (void *)&to, len));
	CHECK_EQUAL(2, recvfrom(a, buf, 8, 0, (void *)&from, &got));
	CHECK_EQUAL(offsetof(struct sockaddr_un, sun_path) + 8, got);
	CHECK(!memcmp(from.sun_path, "\0dgram-b", 8));
	CHECK_EQUAL(3, sendto(c, "hey", 3, 0, (void *)&to, len));
	got = sizeof(from);
	CHECK_EQUAL(3, recvfrom(a, buf, 8, 0, (void *)&from, &got));
	CHECK_EQUAL(0, got);				/* no name, no address */
	CHECK_EQUAL(0, connect(a, (void *)&to, name_of(&to, "@dgram-b")));
	CHECK_ERRNO(EPERM, sendto(c, "no", 2, 0, (void *)&to, name_of(&to, "@dgram-a")));	/* it hears b only */
	CHECK_ERRNO(EPERM, connect_to(c, "@dgram-a"));
	CHECK_EQUAL(1, send(a, "1", 1, 0));
	CHECK_EQUAL(1, recv(b, buf, 8, 0));
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	CHECK_EQUAL(0, connect(a, &none, sizeof(none)));
	CHECK_ERRNO(ENOTCONN, send(a, "1", 1, 0));
	CHECK_EQUAL(2, sendto(c, "ok", 2, 0, (void *)&to, name_of(&to, "@dgram-a")));
	CHECK_ERRNO(ECONNREFUSED, sendto(c, "x", 1, 0, (void *)&to, name_of(&to, "@nobody")));
	close(a);
	close(b);
	close(c);
}

static void *drain_later(void *arg)
{
	char buf[8];

	usleep(50000);
	CHECK_EQUAL(1, recv(*(int *)arg, buf, 8, 0));
	return NULL;
}

static void full_queues(void)
{
	int a = bound(SOCK_DGRAM, "@full"), b = socket(AF_UNIX, SOCK_DGRAM, 0), n = 0;
	char buf[8];
	pthread_t t;

	CHECK_EQUAL(0, connect_to(b, "@full"));
	while (send(b, "x", 1, MSG_DONTWAIT) == 1)
		n++;
	CHECK_EQUAL(EAGAIN, errno);
	CHECK(n >= 10 && n <= 12);
	CHECK_EQUAL(0, poll_now(b) & POLLOUT);
	MUST(pthread_create(&t, NULL, drain_later, &a) == 0);
	CHECK_EQUAL(1, send(b, "y", 1, 0));			/* waits for the reader */
	pthread_join(t, NULL);

	MUST(pthread_create(&t, NULL, drain_later, &a) == 0);
	struct pollfd p = { b, POLLOUT, 0 };
	CHECK_EQUAL(1, poll(&p, 1, -1));
	pthread_join(t, NULL);
	while (recv(a, buf, 8, MSG_DONTWAIT) == 1)
		;
	CHECK_EQUAL(POLLOUT, poll_now(b));
	close(a);
	CHECK_ERRNO(ECONNREFUSED, send(b, "x", 1, 0));
	close(b);
}

static void seqpacket_server(void)
{
	int s = bound(SOCK_SEQPACKET, "@seq"), c = socket(AF_UNIX, SOCK_SEQPACKET, 0), n;
	char buf[8];

	CHECK_EQUAL(0, listen(s, 1));
	CHECK_EQUAL(0, connect_to(c, "@seq"));
	n = accept(s, NULL, NULL);
	CHECK_EQUAL(3, send(c, "abc", 3, MSG_EOR));
	CHECK_EQUAL(2, send(c, "de", 2, 0));
	CHECK_EQUAL(3, recv(n, buf, 8, 0));
	CHECK_EQUAL(2, recv(n, buf, 8, 0));
	int d = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_ERRNO(ECONNREFUSED, connect_to(d, "@seq"));	/* abstract names are looked for by type */
	close(d);
	close(n);
	close(c);
	close(s);
}

static void several_at_once(void)
{
	int s[2];
	char a[4], b[4];
	struct iovec va = { a, 4 }, vb = { b, 4 };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = &va, .msg_iovlen = 1 } }, { .msg_hdr = { .msg_iov = &vb, .msg_iovlen = 1 } } };

	pair(SOCK_DGRAM, s);
	memcpy(a, "AAAA", 4);
	memcpy(b, "BBBB", 4);
	CHECK_EQUAL(2, sendmmsg(s[0], m, 2, 0));
	CHECK_EQUAL(4, m[1].msg_len);
	memset(a, 0, 4);
	CHECK_EQUAL(2, recvmmsg(s[1], m, 2, MSG_DONTWAIT, NULL));
	CHECK(!memcmp(a, "AAAA", 4) && !memcmp(b, "BBBB", 4));
	CHECK_ERRNO(EAGAIN, recvmmsg(s[1], m, 2, MSG_DONTWAIT, NULL));
	CHECK_EQUAL(4, send(s[0], "CCCC", 4, 0));
	CHECK_EQUAL(1, recvmmsg(s[1], m, 2, MSG_WAITFORONE, NULL));

	struct msghdr many = { .msg_iov = &va, .msg_iovlen = 1025 };
	CHECK_ERRNO(EMSGSIZE, syscall(SYS_sendmsg, s[0], &many, 0));
	CHECK_ERRNO(EFAULT, syscall(SYS_sendmsg, s[0], (void *)8, 0));
	close_both(s);
}

int main(void)
{
	packets(SOCK_DGRAM);
	packets(SOCK_SEQPACKET);
	gone_peers();
	addresses();
	full_queues();
	seqpacket_server();
	several_at_once();
	test_end();
}
