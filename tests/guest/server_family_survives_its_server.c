/*
 * only: faultline
 *
 * A socket family in ring 3 (mini_family.h): ordinary socket calls work on it; when the server is killed, established connections are
 * reset, a listener goes on waiting and accepts again once a new server has come, and nothing else is harmed. A server that
 * lies about lengths, never answers, or answers nonsense gets its callers an error.
 */
#include "unix_test.h"

#include "mini_family.h"

static pid_t server;

/* As a launcher does it: make a port, claim, give the receiving end away. */
static void start(void (*run)(int fd))
{
	int p[2];
	long err;

	MUST(port_create(p, 0) == 0);
	for (int i = 0; (err = family_claim(p[0], MINI_FAMILY)) == -EBUSY && i < 500; i++)
		usleep(10000);
	MUST(err == 0);
	close(p[1]);
	server = fork();
	MUST(server >= 0);
	if (server == 0) {
		run(p[0]);
		_exit(1);
	}
	close(p[0]);
}

static void stop(void)
{
	int status;

	kill(server, SIGKILL);
	MUST(waitpid(server, &status, 0) == server);
}

static struct mini_addr named(const char *name)
{
	struct mini_addr a = { .family = MINI_FAMILY };

	strncpy(a.name, name, sizeof(a.name));
	return a;
}

static int listener(const char *name)
{
	struct mini_addr a = named(name);
	int s = socket(MINI_FAMILY, SOCK_STREAM, 0);

	MUST(s >= 0);
	CHECK_EQUAL(0, bind(s, (void *)&a, sizeof(a)));
	CHECK_EQUAL(0, listen(s, 5));
	return s;
}

static int client(const char *name)
{
	struct mini_addr a = named(name);
	int c = socket(MINI_FAMILY, SOCK_STREAM, 0);

	MUST(c >= 0);
	CHECK_EQUAL(0, connect(c, (void *)&a, sizeof(a)));
	return c;
}

static void claims(void)
{
	int p[2], q[2];

	/* EAFNOSUPPORT until the first claim ever; an earlier run in this boot had a server: then the call has waited for another. */
	CHECK(socket(MINI_FAMILY, SOCK_STREAM, 0) == -1 && (errno == EAFNOSUPPORT || errno == ENETDOWN));
	MUST(port_create(p, 0) == 0);
	MUST(port_create(q, 0) == 0);
	CHECK_EQUAL(-EBADF, family_claim(-1, MINI_FAMILY));
	CHECK_EQUAL(-EINVAL, family_claim(p[1], MINI_FAMILY));	/* the calling end */
	CHECK_EQUAL(-EINVAL, family_claim(p[0], AF_UNIX));
	CHECK_EQUAL(-EINVAL, family_claim(p[0], 4711));
	if (fork() == 0) {
		MUST(setuid(1000) == 0);
		CHECK_EQUAL(-EPERM, family_claim(p[0], MINI_FAMILY));
		fflush(stdout);
		_exit(test_failures != 0);
	}
	int status;
	wait(&status);
	CHECK_EQUAL(0, status);
	CHECK_EQUAL(0, family_claim(p[0], MINI_FAMILY));
	CHECK_EQUAL(-EBUSY, family_claim(q[0], MINI_FAMILY));
	CHECK_EQUAL(-EALREADY, family_claim(p[0], MINI_FAMILY));
	struct fl_ready v[FL_READY_MAX + 1] = { { .id = 99 } };
	CHECK_EQUAL(0, family_ready(p[0], v, 1));		/* unknown: skipped */
	CHECK_EQUAL(-EINVAL, family_ready(p[0], v, FL_READY_MAX + 1));
	CHECK_EQUAL(-EINVAL, family_ready(p[1], v, 1));
	CHECK_EQUAL(-EFAULT, family_ready(p[0], (void *)8, 1));
	close(p[0]);
	close(p[1]);
	close(q[0]);
	close(q[1]);
}

static void ordinary_calls(void)
{
	struct mini_addr a = named("none"), got;
	socklen_t len = sizeof(got);
	char buf[64];
	int s = listener("one"), c, n;

	CHECK_ERRNO(ESOCKTNOSUPPORT, socket(MINI_FAMILY, SOCK_DGRAM, 0));
	c = socket(MINI_FAMILY, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK_ERRNO(ECONNREFUSED, connect(c, (void *)&a, sizeof(a)));
	CHECK_ERRNO(ENOTCONN, send(c, "x", 1, MSG_NOSIGNAL));
	close(c);
	CHECK_EQUAL(0, fcntl(s, F_SETFL, O_NONBLOCK));
	CHECK_ERRNO(EAGAIN, accept(s, NULL, NULL));
	CHECK_EQUAL(0, poll_now(s) & POLLIN);
	c = client("one");
	CHECK_EQUAL(POLLIN, poll_now(s) & POLLIN);
	n = accept(s, (void *)&got, &len);
	CHECK(n >= 0);
	CHECK_EQUAL(sizeof(got), len);
	len = sizeof(got);
	CHECK_EQUAL(0, getsockname(s, (void *)&got, &len));
	CHECK(!strcmp(got.name, "one"));
	CHECK_EQUAL(5, write(c, "hello", 5));
	CHECK_EQUAL(3, recv(n, buf, 3, MSG_PEEK));
	CHECK_EQUAL(5, read(n, buf, sizeof(buf)));
	CHECK(!memcmp(buf, "hello", 5));
	CHECK_ERRNO(EAGAIN, recv(n, buf, 1, MSG_DONTWAIT));
	int v = 0;
	len = sizeof(v);
	CHECK_EQUAL(0, getsockopt(n, SOL_SOCKET, SO_TYPE, &v, &len));
	CHECK_EQUAL(SOCK_STREAM, v);
	v = 1;
	CHECK_EQUAL(0, setsockopt(n, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)));
	CHECK_ERRNO(ENOPROTOOPT, setsockopt(n, 6, 1, &v, sizeof(v)));
	CHECK_ERRNO(ENOTTY, ioctl(n, 0x1234, &v));
	struct timeval tv = { 0, 20000 };
	CHECK_EQUAL(0, setsockopt(n, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	CHECK_ERRNO(EAGAIN, read(n, buf, 1));
	CHECK_EQUAL(0, shutdown(c, SHUT_WR));
	CHECK_EQUAL(0, read(n, buf, 1));
	CHECK_ERRNO(EPIPE, send(c, "x", 1, MSG_NOSIGNAL));
	close(n);
	close(c);
	close(s);
}

static void *pump(void *arg)
{
	int fd = *(int *)arg;
	static char out[300000];

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (char)(i * 31 >> 3);
	for (size_t at = 0; at < sizeof(out); ) {
		ssize_t n = write(fd, out + at, sizeof(out) - at);

		MUST(n > 0);
		at += (size_t)n;
	}
	close(fd);
	return NULL;
}

/* More than any buffer holds: both sides wait for the readiness that the server tells. */
static void bulk(void)
{
	int s = listener("bulk"), c = client("bulk"), n = accept(s, NULL, NULL);
	static char in[50000];
	size_t total = 0, wrong = 0;
	ssize_t got;
	pthread_t t;

	MUST(pthread_create(&t, NULL, pump, &c) == 0);
	while ((got = read(n, in, sizeof(in))) > 0) {
		for (ssize_t i = 0; i < got; i++)
			wrong += in[i] != (char)((total + (size_t)i) * 31 >> 3);
		total += (size_t)got;
	}
	CHECK_EQUAL(0, got);
	CHECK_EQUAL(300000, total);
	CHECK_EQUAL(0, wrong);
	pthread_join(t, NULL);
	close(n);
	close(s);
}

static void *accepting(void *arg)
{
	int n = accept(*(int *)arg, NULL, NULL);

	CHECK(n >= 0);
	return (void *)(long)n;
}

static void killed(int times)
{
	int s = listener("phoenix");

	for (int i = 0; i < times; i++) {
		int c = client("phoenix"), n = accept(s, NULL, NULL);
		char buf[4];
		pthread_t t;
		void *ret;

		CHECK(n >= 0);
		MUST(pthread_create(&t, NULL, accepting, &s) == 0);
		usleep(20000);
		stop();
		CHECK_EQUAL(POLLERR | POLLHUP | POLLIN, poll_now(c) & (POLLERR | POLLHUP | POLLIN));
		CHECK_ERRNO(ECONNRESET, read(c, buf, 1));
		CHECK_EQUAL(0, read(c, buf, 1));
		CHECK_ERRNO(EPIPE, send(c, "x", 1, MSG_NOSIGNAL));
		CHECK_ERRNO(ECONNRESET, write(n, "x", 1));
		CHECK_EQUAL(0, poll_now(s));			/* the listener only waits */
		close(c);
		close(n);
		start(mini_main);
		c = client("phoenix");				/* bind and listen were replayed */
		pthread_join(t, &ret);
		n = (int)(long)ret;
		CHECK_EQUAL(2, write(c, "up", 2));
		CHECK_EQUAL(2, read(n, buf, 4));
		close(c);
		close(n);
	}
	close(s);
}

/* -- servers that should not be -- */

static int lie;

static void liar(int fd)
{
	static char buf[FL_INLINE_MAX];

	mini_fd = fd;
	for (;;) {
		struct fl_msg m = { .buf = (uintptr_t)buf, .room = sizeof(buf) };
		struct fl_req req;
		struct fl_ans ans = { 0 };

		if (port_receive(fd, &m, -1))
			exit(1);
		memcpy(&req, m.word, sizeof(req));
		if (req.op != FL_OP_RECV && req.op != FL_OP_SEND && req.op != FL_OP_NAME) {
			if (req.op == FL_OP_SOCKET && !(req.flags & FL_REQ_REPLAY))
				lie = 0;
			ans.ready = FL_READY_VALID | FL_READY_IN | FL_READY_OUT;
			memcpy(m.word, &ans, sizeof(ans));
			m.len = m.nr_fds = 0;
			if (m.token)
				port_reply(fd, &m);
			continue;
		}
		m.len = m.nr_fds = 0;
		switch (lie++) {
		case 0: ans.result = 1000000; break;			/* more than was asked for */
		case 1: ans.result = 10; break;				/* bytes that are not there */
		case 2: ans.result = 4; ans.addr_len = 4000; break;
		case 3: ans.result = 4; ans.flags = FL_ANS_LENT; break;	/* nothing was lent */
		case 4: ans.result = -512; break;			/* the kernel's own numbers */
		case 5: ans.result = INT64_MIN; break;
		case 6: ans.result = 4; ans.addr_len = 200; m.len = 204; break;
		default: ans.result = -5; break;
		}
		memcpy(m.word, &ans, sizeof(ans));
		port_reply(fd, &m);
	}
}

static void lies(void)
{
	char buf[16];
	struct mini_addr a = named("x");
	int c = socket(MINI_FAMILY, SOCK_STREAM, 0);

	MUST(c >= 0);
	CHECK_EQUAL(0, connect(c, (void *)&a, sizeof(a)));
	for (int i = 0; i < 8; i++)
		CHECK_ERRNO(EIO, recv(c, buf, sizeof(buf), 0));
	close(c);
	c = socket(MINI_FAMILY, SOCK_STREAM, 0);
	CHECK_ERRNO(EIO, send(c, buf, sizeof(buf), 0));			/* more taken than given */
	close(c);
	c = socket(MINI_FAMILY, SOCK_STREAM, 0);
	CHECK_EQUAL(0, bind(c, (void *)&a, sizeof(a)));
	close(c);
}

static void mute(int fd)
{
	struct fl_msg m = { 0 };

	for (;;)
		port_receive(fd, &m, -1);
}

static void never_answers(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		socket(MINI_FAMILY, SOCK_STREAM, 0);
		_exit(1);
	}
	usleep(100000);
	kill(pid, SIGKILL);				/* killing works at once */
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status));
	CHECK_ERRNO(EIO, socket(MINI_FAMILY, SOCK_STREAM, 0));	/* after ten seconds */
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	claims();
	start(mini_main);
	ordinary_calls();
	bulk();
	killed(20);
	stop();
	start(liar);
	lies();
	stop();
	start(mute);
	never_answers();
	stop();
	test_end();
}
