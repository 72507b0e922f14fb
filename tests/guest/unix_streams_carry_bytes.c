/*
 * Stream sockets: bytes arrive in order and whole, with short reads, peeking, waiting for all, time-outs and non-blocking calls; half-close,
 * end of file, EPIPE with and without the signal, ECONNRESET when bytes are thrown away; what poll says at each step.
 */
#include "unix_test.h"

static volatile int pipes_broken;

static void on_sigpipe(int sig)
{
	(void)sig;
	pipes_broken++;
}

static void bytes(void)
{
	int s[2];
	char buf[64];

	pair(SOCK_STREAM, s);
	CHECK_EQUAL(POLLOUT, poll_now(s[0]));
	CHECK_EQUAL(3, send(s[0], "abc", 3, 0));
	CHECK_EQUAL(4, write(s[0], "defg", 4));
	CHECK_EQUAL(POLLIN | POLLOUT, poll_now(s[1]));
	int n = -1;
	CHECK_EQUAL(0, ioctl(s[1], FIONREAD, &n));
	CHECK_EQUAL(7, n);
	CHECK_EQUAL(5, recv(s[1], buf, 5, MSG_PEEK));
	CHECK(!memcmp(buf, "abcde", 5));
	CHECK_EQUAL(2, recv(s[1], buf, 2, 0));
	CHECK(!memcmp(buf, "ab", 2));
	CHECK_EQUAL(5, read(s[1], buf, sizeof(buf)));
	CHECK(!memcmp(buf, "cdefg", 5));
	CHECK_EQUAL(POLLOUT, poll_now(s[1]));
	CHECK_ERRNO(EAGAIN, recv(s[1], buf, 1, MSG_DONTWAIT));
	CHECK_EQUAL(0, write(s[0], buf, 0));
	CHECK_EQUAL(0, read(s[1], buf, 0));
	CHECK_ERRNO(EFAULT, send(s[0], (void *)8, 4, 0));
	CHECK_EQUAL(2, send(s[0], "xy", 2, 0));
	CHECK_ERRNO(EFAULT, recv(s[1], (void *)8, 2, 0));
	CHECK_EQUAL(2, recv(s[1], buf, 8, 0));		/* a failed copy takes nothing */
	CHECK_ERRNO(ESPIPE, lseek(s[0], 0, SEEK_SET));
	CHECK_ERRNO(ESPIPE, pread(s[0], buf, 1, 0));

	struct iovec v[2] = { { "12", 2 }, { "345", 3 } };
	CHECK_EQUAL(5, writev(s[0], v, 2));
	char a[1], b[8];
	struct iovec w[2] = { { a, 1 }, { b, 8 } };
	CHECK_EQUAL(5, readv(s[1], w, 2));
	CHECK(a[0] == '1' && !memcmp(b, "2345", 4));
	close_both(s);
}

static void *send_in_two(void *arg)
{
	int fd = *(int *)arg;

	usleep(30000);
	CHECK_EQUAL(3, send(fd, "one", 3, 0));
	usleep(30000);
	CHECK_EQUAL(3, send(fd, "two", 3, 0));
	return NULL;
}

static void waiting(void)
{
	int s[2];
	char buf[16];
	pthread_t t;
	struct timeval tv = { 0, 50000 }, got;
	socklen_t len = sizeof(got);
	struct timespec t0, t1;

	pair(SOCK_STREAM, s);
	MUST(pthread_create(&t, NULL, send_in_two, &s[0]) == 0);
	CHECK_EQUAL(6, recv(s[1], buf, 6, MSG_WAITALL));
	CHECK(!memcmp(buf, "onetwo", 6));
	pthread_join(t, NULL);

	MUST(pthread_create(&t, NULL, send_in_two, &s[0]) == 0);
	CHECK_EQUAL(3, recv(s[1], buf, 6, 0));
	CHECK_EQUAL(3, recv(s[1], buf, 6, 0));
	pthread_join(t, NULL);

	CHECK_EQUAL(0, setsockopt(s[1], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	CHECK_EQUAL(0, getsockopt(s[1], SOL_SOCKET, SO_RCVTIMEO, &got, &len));
	CHECK(got.tv_sec == 0 && got.tv_usec >= 50000 && got.tv_usec < 60000);	/* Linux rounds up to ticks */
	clock_gettime(CLOCK_MONOTONIC, &t0);
	CHECK_ERRNO(EAGAIN, recv(s[1], buf, 1, 0));
	clock_gettime(CLOCK_MONOTONIC, &t1);
	CHECK((t1.tv_sec - t0.tv_sec) * 1000 + (t1.tv_nsec - t0.tv_nsec) / 1000000 >= 45);	/* ticks again */
	close_both(s);
}

static void *write_much(void *arg)
{
	int fd = *(int *)arg;
	static unsigned char out[100000];
	unsigned int x = 1;

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof(out); i++)
			out[i] = (unsigned char)((x = x * 1103515245 + 12345) >> 16);
		for (size_t at = 0; at < sizeof(out); ) {
			ssize_t n = write(fd, out + at, sizeof(out) - at);

			MUST(n > 0);
			at += (size_t)n;
		}
	}
	shutdown(fd, SHUT_WR);
	return NULL;
}

static void much(void)
{
	int s[2];
	pthread_t t;
	static unsigned char in[7001];
	unsigned int x = 1;
	size_t total = 0, wrong = 0;
	ssize_t n;

	pair(SOCK_STREAM, s);
	MUST(pthread_create(&t, NULL, write_much, &s[0]) == 0);
	while ((n = read(s[1], in, sizeof(in))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			wrong += in[i] != (unsigned char)((x = x * 1103515245 + 12345) >> 16);
		total += (size_t)n;
	}
	CHECK_EQUAL(0, n);
	CHECK_EQUAL(2000000, total);
	CHECK_EQUAL(0, wrong);
	pthread_join(t, NULL);
	close_both(s);
}

static void a_full_socket(void)
{
	int s[2];
	static char buf[65536];
	size_t total = 0;
	ssize_t n;

	pair(SOCK_STREAM, s);
	CHECK_EQUAL(0, fcntl(s[0], F_SETFL, O_NONBLOCK));
	while ((n = write(s[0], buf, sizeof(buf))) > 0)
		total += (size_t)n;
	CHECK(n == -1 && errno == EAGAIN);
	CHECK(total >= 65536 && total <= 1 << 20);
	CHECK_EQUAL(0, poll_now(s[0]) & POLLOUT);
	while (total) {
		n = read(s[1], buf, sizeof(buf));
		MUST(n > 0);
		total -= (size_t)n;
	}
	CHECK_EQUAL(POLLOUT, poll_now(s[0]));
	struct timeval tv = { 0, 20000 };
	CHECK_EQUAL(0, fcntl(s[0], F_SETFL, 0));
	CHECK_EQUAL(0, setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	while ((n = write(s[0], buf, sizeof(buf))) == sizeof(buf))
		;
	CHECK(n >= 0 || errno == EAGAIN);		/* a part, or nothing, after the time */
	close_both(s);
}

static void ends(void)
{
	int s[2];
	char buf[8];

	/* Half-close: the other direction goes on. */
	pair(SOCK_STREAM, s);
	CHECK_EQUAL(2, write(s[0], "hi", 2));
	CHECK_EQUAL(0, shutdown(s[0], SHUT_WR));
	CHECK_EQUAL(POLLIN | POLLOUT | POLLRDHUP, poll_now(s[1]));
	CHECK_EQUAL(2, read(s[1], buf, 8));
	CHECK_EQUAL(0, read(s[1], buf, 8));
	CHECK_EQUAL(0, read(s[1], buf, 8));
	CHECK_EQUAL(2, write(s[1], "yo", 2));
	CHECK_EQUAL(2, read(s[0], buf, 8));
	signal(SIGPIPE, on_sigpipe);
	pipes_broken = 0;
	CHECK_ERRNO(EPIPE, write(s[0], "x", 1));
	CHECK_EQUAL(1, pipes_broken);
	CHECK_ERRNO(EPIPE, send(s[0], "x", 1, MSG_NOSIGNAL));
	CHECK_EQUAL(1, pipes_broken);
	close_both(s);

	/* Gone with nothing unread: end of file, then EPIPE. */
	pair(SOCK_STREAM, s);
	close(s[0]);
	CHECK_EQUAL(POLLIN | POLLOUT | POLLHUP | POLLRDHUP, poll_now(s[1]));
	CHECK_EQUAL(0, read(s[1], buf, 8));
	CHECK_ERRNO(EPIPE, send(s[1], "x", 1, MSG_NOSIGNAL));
	close(s[1]);

	/* Gone without having read: a reset, once. */
	pair(SOCK_STREAM, s);
	CHECK_EQUAL(1, write(s[1], "x", 1));
	close(s[0]);
	CHECK_EQUAL(POLLERR | POLLIN | POLLHUP | POLLRDHUP, poll_now(s[1]) & ~POLLOUT);
	CHECK_ERRNO(ECONNRESET, read(s[1], buf, 8));
	CHECK_EQUAL(0, read(s[1], buf, 8));
	close(s[1]);

	pair(SOCK_STREAM, s);
	CHECK_EQUAL(1, write(s[1], "x", 1));
	close(s[0]);
	int err = 0;
	socklen_t len = sizeof(err);
	CHECK_EQUAL(0, getsockopt(s[1], SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK_EQUAL(ECONNRESET, err);
	CHECK_EQUAL(0, getsockopt(s[1], SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK_EQUAL(0, err);
	close(s[1]);

	/* Reading is over: the other side cannot write. */
	pair(SOCK_STREAM, s);
	CHECK_EQUAL(0, shutdown(s[0], SHUT_RD));
	CHECK_EQUAL(0, read(s[0], buf, 8));
	CHECK_ERRNO(EPIPE, send(s[1], "x", 1, MSG_NOSIGNAL));
	CHECK_ERRNO(EINVAL, shutdown(s[0], 3));
	close_both(s);
}

static void *close_later(void *arg)
{
	usleep(30000);
	close(*(int *)arg);
	return NULL;
}

static void sleepers_are_woken(void)
{
	int s[2];
	char buf[8];
	pthread_t t;

	pair(SOCK_STREAM, s);
	MUST(pthread_create(&t, NULL, close_later, &s[0]) == 0);
	CHECK_EQUAL(0, read(s[1], buf, 8));
	pthread_join(t, NULL);
	close(s[1]);

	pair(SOCK_STREAM, s);
	MUST(pthread_create(&t, NULL, close_later, &s[0]) == 0);
	struct pollfd p = { s[1], POLLIN, 0 };
	CHECK_EQUAL(1, poll(&p, 1, -1));
	CHECK_EQUAL(POLLIN | POLLHUP, p.revents);
	pthread_join(t, NULL);
	close(s[1]);
}

static void edges(void)
{
	int s[2], ep = epoll_create1(0);
	struct epoll_event e = { .events = EPOLLIN | EPOLLET }, got;
	char buf[8];

	pair(SOCK_STREAM, s);
	CHECK_EQUAL(0, epoll_ctl(ep, EPOLL_CTL_ADD, s[1], &e));
	CHECK_EQUAL(0, epoll_wait(ep, &got, 1, 0));
	CHECK_EQUAL(1, write(s[0], "a", 1));
	CHECK_EQUAL(1, epoll_wait(ep, &got, 1, 0));
	CHECK_EQUAL(0, epoll_wait(ep, &got, 1, 0));
	CHECK_EQUAL(1, write(s[0], "b", 1));
	CHECK_EQUAL(1, epoll_wait(ep, &got, 1, 0));
	CHECK_EQUAL(2, read(s[1], buf, 8));
	CHECK_EQUAL(0, epoll_wait(ep, &got, 1, 0));
	close_both(s);
	close(ep);
}

static void descriptors(void)
{
	int s[2];
	struct stat st;
	char link[64], path[64];

	CHECK_EQUAL(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s));
	CHECK_EQUAL(FD_CLOEXEC, fcntl(s[1], F_GETFD));
	CHECK_EQUAL(O_RDWR | O_NONBLOCK, fcntl(s[1], F_GETFL));
	CHECK_EQUAL(0, fstat(s[0], &st));
	CHECK(S_ISSOCK(st.st_mode));
	CHECK_EQUAL(0777, st.st_mode & 07777);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s[0]);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	CHECK(n > 8 && !strncmp(link, "socket:[", 8));
	CHECK_ERRNO(ENXIO, open(path, O_RDWR));
	close_both(s);
	int *volatile nowhere = (int *)8;
	CHECK_ERRNO(EFAULT, socketpair(AF_UNIX, SOCK_STREAM, 0, nowhere));
	CHECK_ERRNO(EINVAL, socketpair(AF_UNIX, SOCK_STREAM | 0x100000, 0, s));
	CHECK_ERRNO(EPROTONOSUPPORT, socketpair(AF_UNIX, SOCK_STREAM, 77, s));
	CHECK_ERRNO(ESOCKTNOSUPPORT, socketpair(AF_UNIX, SOCK_RDM, 0, s));
	CHECK_ERRNO(ESOCKTNOSUPPORT, socket(AF_UNIX, 0, 0));
	CHECK_ERRNO(EAFNOSUPPORT, socket(45, SOCK_STREAM, 0));
	CHECK_ERRNO(EAFNOSUPPORT, socket(4711, SOCK_STREAM, 0));
	CHECK_ERRNO(EAFNOSUPPORT, socket(-1, SOCK_STREAM, 0));
}

int main(void)
{
	bytes();
	waiting();
	much();
	a_full_socket();
	ends();
	sleepers_are_woken();
	edges();
	descriptors();
	test_end();
}
