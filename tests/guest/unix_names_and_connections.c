/*
 * Addresses (paths, abstract names, chosen by the kernel), bind, listen, connect, accept with each error; who the peer is; a full
 * backlog; a listener that goes away.
 */
#include "unix_test.h"

#define PATH "/tmp/unix-names-test"

static void binding(void)
{
	struct sockaddr_un a, b;
	socklen_t len = name_of(&a, PATH), got;
	struct stat st;
	int s = socket(AF_UNIX, SOCK_STREAM, 0), t = socket(AF_UNIX, SOCK_STREAM, 0);

	unlink(PATH);
	umask(022);
	got = sizeof(b);
	CHECK_EQUAL(0, getsockname(s, (void *)&b, &got));
	CHECK_EQUAL(2, got);
	CHECK_EQUAL(0, bind(s, (void *)&a, len));
	CHECK_EQUAL(0, stat(PATH, &st));
	CHECK(S_ISSOCK(st.st_mode));
	CHECK_EQUAL(0755, st.st_mode & 07777);
	got = sizeof(b);
	CHECK_EQUAL(0, getsockname(s, (void *)&b, &got));
	CHECK_EQUAL(len, got);
	CHECK(!strcmp(b.sun_path, PATH));
	got = 4;
	memset(&b, 0, sizeof(b));
	CHECK_EQUAL(0, getsockname(s, (void *)&b, &got));
	CHECK_EQUAL(len, got);				/* the whole length, however little was asked for */
	CHECK(b.sun_path[0] == PATH[0] && b.sun_path[1] == PATH[1] && !b.sun_path[2]);
	CHECK_ERRNO(EADDRINUSE, bind(t, (void *)&a, len));
	len = name_of(&a, PATH "2");
	unlink(PATH "2");
	CHECK_ERRNO(EINVAL, bind(s, (void *)&a, len));	/* has a name */
	CHECK_ERRNO(ENOENT, stat(PATH "2", &st));
	len = name_of(&a, "/no/such/directory");
	CHECK_ERRNO(ENOENT, bind(t, (void *)&a, len));
	len = name_of(&a, "/proc/self/x");
	CHECK(bind(t, (void *)&a, len) == -1);
	CHECK_ERRNO(EINVAL, bind(t, (void *)&a, 1));
	CHECK_ERRNO(EINVAL, bind(t, (void *)&a, 111));
	CHECK_ERRNO(EINVAL, bind(t, (void *)&a, (socklen_t)-1));
	CHECK_ERRNO(EFAULT, bind(t, (void *)8, 10));
	a.sun_family = AF_INET;
	CHECK_ERRNO(EINVAL, bind(t, (void *)&a, 10));
	a.sun_family = AF_UNIX;
	CHECK_EQUAL(0, bind(t, (void *)&a, 2));		/* the kernel chooses */
	got = sizeof(b);
	CHECK_EQUAL(0, getsockname(t, (void *)&b, &got));
	CHECK_EQUAL(8, got);
	CHECK(!b.sun_path[0] && strspn(b.sun_path + 1, "0123456789abcdef") >= 5);
	close(s);
	close(t);
	CHECK_EQUAL(0, stat(PATH, &st));		/* the file stays */

	/* Abstract names go with the socket. */
	s = bound(SOCK_STREAM, "@names-test");
	len = name_of(&a, "@names-test");
	t = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_ERRNO(EADDRINUSE, bind(t, (void *)&a, len));
	close(s);
	CHECK_EQUAL(0, bind(t, (void *)&a, len));
	close(t);
	CHECK_ERRNO(EBADF, bind(-1, (void *)&a, len));
	CHECK_ERRNO(ENOTSOCK, bind(0, (void *)&a, len));
	CHECK_ERRNO(ENOTSOCK, listen(0, 1));
	CHECK_ERRNO(ENOTSOCK, send(0, "x", 1, 0));
}

static void connecting(void)
{
	struct sockaddr_un a;
	socklen_t len = name_of(&a, PATH);
	int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0), f, n;
	char buf[4];

	CHECK_EQUAL(POLLOUT | POLLHUP, poll_now(s));
	CHECK_ERRNO(ENOTCONN, send(s, "x", 1, MSG_NOSIGNAL));
	CHECK_ERRNO(EINVAL, recv(s, buf, 1, 0));
	CHECK_ERRNO(ENOTCONN, getpeername(s, (void *)&a, &len));
	CHECK_ERRNO(EINVAL, listen(s, 1));			/* no name */
	CHECK_ERRNO(EINVAL, accept(s, NULL, NULL));
	len = name_of(&a, PATH);
	CHECK_ERRNO(ECONNREFUSED, connect(c, (void *)&a, len));	/* a file that nobody has */
	unlink(PATH);
	CHECK_ERRNO(ENOENT, connect(c, (void *)&a, len));
	f = open(PATH, O_CREAT | O_RDWR, 0666);
	CHECK_ERRNO(ECONNREFUSED, connect(c, (void *)&a, len));	/* not a socket */
	close(f);
	unlink(PATH);
	CHECK_EQUAL(0, bind(s, (void *)&a, len));
	CHECK_ERRNO(ECONNREFUSED, connect(c, (void *)&a, len));	/* does not listen */
	CHECK_EQUAL(0, listen(s, 5));
	CHECK_EQUAL(0, poll_now(s) & POLLIN);
	int v = 0;
	len = sizeof(v);
	CHECK_EQUAL(0, getsockopt(s, SOL_SOCKET, SO_ACCEPTCONN, &v, &len));
	CHECK_EQUAL(1, v);
	len = name_of(&a, PATH);
	CHECK_EQUAL(0, connect(c, (void *)&a, len));
	CHECK_EQUAL(POLLIN, poll_now(s) & POLLIN);
	CHECK_ERRNO(EISCONN, connect(c, (void *)&a, len));
	CHECK_ERRNO(EINVAL, connect(s, (void *)&a, len));	/* a listener does not connect */
	CHECK_ERRNO(ENOTCONN, send(s, "x", 1, MSG_NOSIGNAL));
	CHECK_EQUAL(4, send(c, "ping", 4, 0));			/* before anybody has accepted */

	struct sockaddr_un p;
	len = sizeof(p);
	n = accept4(s, (void *)&p, &len, SOCK_CLOEXEC);
	CHECK(n >= 0);
	CHECK_EQUAL(2, len);					/* the client has no name */
	CHECK_EQUAL(FD_CLOEXEC, fcntl(n, F_GETFD));
	CHECK_EQUAL(4, read(n, buf, 4));
	len = sizeof(p);
	CHECK_EQUAL(0, getpeername(c, (void *)&p, &len));
	CHECK(!strcmp(p.sun_path, PATH));
	len = sizeof(p);
	CHECK_EQUAL(0, getsockname(n, (void *)&p, &len));
	CHECK(!strcmp(p.sun_path, PATH));
	CHECK_ERRNO(EISCONN, sendto(c, "x", 1, 0, (void *)&a, sizeof(a)));
	CHECK_ERRNO(EOPNOTSUPP, sendto(s, "x", 1, 0, (void *)&a, sizeof(a)));
	CHECK_ERRNO(EINVAL, syscall(SYS_accept4, s, NULL, NULL, 1));	/* musl's own would try accept() next, and wait */

	struct ucred cred;
	len = sizeof(cred);
	CHECK_EQUAL(0, getsockopt(n, SOL_SOCKET, SO_PEERCRED, &cred, &len));
	CHECK_EQUAL(getpid(), cred.pid);
	CHECK_EQUAL(0, cred.uid);
	close(n);
	close(c);

	/* The wrong type; the right of the file. */
	int d = socket(AF_UNIX, SOCK_DGRAM, 0);
	CHECK_ERRNO(EPROTOTYPE, connect_to(d, PATH));
	close(d);
	chmod(PATH, 0600);
	if (fork() == 0) {
		MUST(setuid(1000) == 0);
		c = socket(AF_UNIX, SOCK_STREAM, 0);
		CHECK_ERRNO(EACCES, connect_to(c, PATH));
		_exit(test_failures != 0);
	}
	int status;
	wait(&status);
	CHECK_EQUAL(0, status);

	/* Waiting connections end with the listener. */
	c = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_EQUAL(0, connect_to(c, PATH));
	close(s);
	CHECK_ERRNO(ECONNRESET, read(c, buf, 1));
	CHECK_EQUAL(0, read(c, buf, 1));
	close(c);
	unlink(PATH);
}

static void *accept_later(void *arg)
{
	usleep(50000);
	int n = accept(*(int *)arg, NULL, NULL);
	CHECK(n >= 0);
	return (void *)(long)n;
}

static void backlog(void)
{
	int s = bound(SOCK_STREAM, "@backlog"), c[8], made = 0;
	pthread_t t;

	CHECK_EQUAL(0, listen(s, 1));
	for (int i = 0; i < 8; i++) {
		c[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect_to(c[i], "@backlog") == 0)
			made++;
		else
			CHECK_EQUAL(EAGAIN, errno);
	}
	CHECK_EQUAL(2, made);				/* backlog plus one */
	int b = socket(AF_UNIX, SOCK_STREAM, 0);
	MUST(pthread_create(&t, NULL, accept_later, &s) == 0);
	CHECK_EQUAL(0, connect_to(b, "@backlog"));	/* waits for the accept */
	void *n;
	pthread_join(t, &n);
	close((int)(long)n);
	close(b);

	/* A connect that waits learns that the listener has gone. */
	struct timeval tv = { 0, 50000 };
	b = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_EQUAL(0, setsockopt(b, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	CHECK_ERRNO(EAGAIN, connect_to(b, "@backlog"));
	close(b);
	CHECK_EQUAL(0, fcntl(s, F_SETFL, O_NONBLOCK));
	for (int i = 0; i < 2; i++) {
		int a = accept(s, NULL, NULL);
		CHECK(a >= 0);
		close(a);
	}
	CHECK_ERRNO(EAGAIN, accept(s, NULL, NULL));
	for (int i = 0; i < 8; i++)
		close(c[i]);
	close(s);
	b = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_ERRNO(ECONNREFUSED, connect_to(b, "@backlog"));
	close(b);
}

/* Many at once: each client gets its own server thread's answer back. */
static void *serve(void *arg)
{
	int s = *(int *)arg, x;

	for (int i = 0; i < 50; i++) {
		int n = accept(s, NULL, NULL);

		MUST(n >= 0);
		MUST(read(n, &x, sizeof(x)) == sizeof(x));
		x = x * 3 + 1;
		MUST(write(n, &x, sizeof(x)) == sizeof(x));
		close(n);
	}
	return NULL;
}

static void *ask(void *arg)
{
	for (int i = 0; i < 25; i++) {
		int c = socket(AF_UNIX, SOCK_STREAM, 0), x = (int)(long)arg * 1000 + i, y = x;

		MUST(connect_to(c, "@crowd") == 0);
		MUST(write(c, &x, sizeof(x)) == sizeof(x));
		MUST(read(c, &y, sizeof(y)) == sizeof(y));
		CHECK_EQUAL(x * 3 + 1, y);
		close(c);
	}
	return NULL;
}

static void crowd(void)
{
	int s = bound(SOCK_STREAM, "@crowd");
	pthread_t servers[2], clients[4];

	CHECK_EQUAL(0, listen(s, 2));
	for (long i = 0; i < 2; i++)
		MUST(pthread_create(&servers[i], NULL, serve, &s) == 0);
	for (long i = 0; i < 4; i++)
		MUST(pthread_create(&clients[i], NULL, ask, (void *)i) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(clients[i], NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(servers[i], NULL);
	close(s);
}

static void options(void)
{
	int s = socket(AF_UNIX, SOCK_STREAM, 0), v, one = 1;
	socklen_t len;
	static const struct { int name, value; } is[] = {
		{ SO_TYPE, SOCK_STREAM }, { SO_DOMAIN, AF_UNIX }, { SO_PROTOCOL, 0 }, { SO_ERROR, 0 }, { SO_ACCEPTCONN, 0 },
		{ SO_REUSEADDR, 0 }, { SO_KEEPALIVE, 0 }, { SO_SNDBUF, 212992 }, { SO_RCVBUF, 212992 }, { SO_RCVLOWAT, 1 }, { SO_PASSCRED, 0 },
	};

	for (size_t i = 0; i < sizeof(is) / sizeof(is[0]); i++) {
		len = sizeof(v);
		v = -1;
		CHECK_EQUAL(0, getsockopt(s, SOL_SOCKET, is[i].name, &v, &len));
		CHECK_EQUAL(is[i].value, v);
		CHECK_EQUAL(sizeof(v), len);
	}
	CHECK_EQUAL(0, setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	len = sizeof(v);
	CHECK_EQUAL(0, getsockopt(s, SOL_SOCKET, SO_REUSEADDR, &v, &len));
	CHECK_EQUAL(1, v);
	v = 10000;
	CHECK_EQUAL(0, setsockopt(s, SOL_SOCKET, SO_SNDBUF, &v, sizeof(v)));
	len = sizeof(v);
	CHECK_EQUAL(0, getsockopt(s, SOL_SOCKET, SO_SNDBUF, &v, &len));
	CHECK_EQUAL(20000, v);
	struct linger l = { 1, 7 }, m = { 0, 0 };
	CHECK_EQUAL(0, setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	len = sizeof(m);
	CHECK_EQUAL(0, getsockopt(s, SOL_SOCKET, SO_LINGER, &m, &len));
	CHECK(m.l_onoff == 1 && m.l_linger == 7);
	CHECK_ERRNO(EINVAL, setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, 2));
	CHECK_ERRNO(EFAULT, setsockopt(s, SOL_SOCKET, SO_REUSEADDR, (void *)8, 4));
	CHECK_ERRNO(ENOPROTOOPT, setsockopt(s, SOL_SOCKET, SO_TYPE, &one, sizeof(one)));
	CHECK_ERRNO(ENOPROTOOPT, setsockopt(s, SOL_SOCKET, 9999, &one, sizeof(one)));
	CHECK_ERRNO(EOPNOTSUPP, setsockopt(s, 6, 1, &one, sizeof(one)));
	len = sizeof(v);
	CHECK_ERRNO(ENOPROTOOPT, getsockopt(s, SOL_SOCKET, 9999, &v, &len));
	len = (socklen_t)-1;
	CHECK_ERRNO(EINVAL, getsockopt(s, SOL_SOCKET, SO_TYPE, &v, &len));
	len = 1;
	v = 0;
	CHECK_EQUAL(0, getsockopt(s, SOL_SOCKET, SO_TYPE, &v, &len));
	CHECK(len == 1 && v == SOCK_STREAM);
	struct timeval tv = { 1, 2000000 };
	CHECK_ERRNO(EDOM, setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	close(s);
}

int main(void)
{
	binding();
	connecting();
	backlog();
	crowd();
	options();
	test_end();
}
