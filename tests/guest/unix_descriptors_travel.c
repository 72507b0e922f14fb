/*
 * SCM_RIGHTS and SCM_CREDENTIALS: what arrives, close-on-exec, control buffers that are too small, wrong arguments, peeking; that
 * descriptors are not lost or doubled when a socket is closed with them inside, and that long chains of such sockets end well.
 */
#include "unix_test.h"

static union { char buf[CMSG_SPACE(sizeof(int) * 300)]; struct cmsghdr align; } control;

/* musl's sendmsg() looks into the control buffer and has a limit of its own. */
static ssize_t raw_sendmsg(int sock, const struct msghdr *m, int flags)
{
	return syscall(SYS_sendmsg, sock, m, flags);
}

/* @n descriptors and one byte. */
static ssize_t send_fds(int sock, const int *fds, int n)
{
	char c = 'F';
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	memset(&control, 0, sizeof(control));
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
	memcpy(CMSG_DATA(h), fds, sizeof(int) * (size_t)n);
	return raw_sendmsg(sock, &m, 0);
}

/* Number of descriptors received into @fds, *flags as told. */
static int recv_fds(int sock, int *fds, int room, int flags, int *out_flags)
{
	char c;
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.buf,
			    .msg_controllen = room ? CMSG_LEN(sizeof(int) * (size_t)room) : 0 };

	memset(&control, 0, sizeof(control));
	CHECK_EQUAL(1, recvmsg(sock, &m, flags));
	*out_flags = m.msg_flags;
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (!h)
		return 0;
	CHECK_EQUAL(SOL_SOCKET, h->cmsg_level);
	CHECK_EQUAL(SCM_RIGHTS, h->cmsg_type);
	int n = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(h), sizeof(int) * (size_t)n);
	return n;
}

static int nr_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 400; fd++)
		n += fcntl(fd, F_GETFD) != -1;
	return n;
}

static void a_file_arrives(void)
{
	int s[2], p[2], fds[4], flags;
	char buf[4];

	pair(SOCK_STREAM, s);
	MUST(pipe(p) == 0);
	CHECK_EQUAL(1, send_fds(s[0], p, 2));
	CHECK_EQUAL(1, write(s[0], "x", 1));
	close(p[1]);
	CHECK_EQUAL(2, recv_fds(s[1], fds, 4, 0, &flags));	/* and not the x, which came without */
	CHECK_EQUAL(0, flags & MSG_CTRUNC);
	CHECK_EQUAL(0, fcntl(fds[0], F_GETFD));
	CHECK_EQUAL(5, write(fds[1], "hello", 5));
	CHECK_EQUAL(4, read(p[0], buf, 4));
	close(fds[1]);
	CHECK_EQUAL(1, read(fds[0], buf, 4));
	CHECK_EQUAL(0, read(fds[0], buf, 4));			/* the last writer has gone: nothing holds it */
	CHECK_EQUAL(1, read(s[1], buf, 4));
	close(fds[0]);

	CHECK_EQUAL(1, send_fds(s[0], p, 1));
	CHECK_EQUAL(1, recv_fds(s[1], fds, 4, MSG_CMSG_CLOEXEC, &flags));
	CHECK_EQUAL(FD_CLOEXEC, fcntl(fds[0], F_GETFD));
	close(fds[0]);

	/* Bytes before it are not mixed with it; those of it end the read. */
	CHECK_EQUAL(2, write(s[0], "ab", 2));
	CHECK_EQUAL(1, send_fds(s[0], p, 1));
	CHECK_EQUAL(2, write(s[0], "cd", 2));
	char big[8];
	struct iovec v = { big, 8 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof(control.buf) };
	CHECK_EQUAL(3, recvmsg(s[1], &m, 0));
	CHECK(!memcmp(big, "abF", 3));
	MUST(CMSG_FIRSTHDR(&m) != NULL);
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	close(fds[0]);
	CHECK_EQUAL(2, read(s[1], big, 8));
	close(p[0]);
	close_both(s);
}

static void not_all_fit(void)
{
	int s[2], p[2], fds[8], flags, before;
	char c;

	pair(SOCK_DGRAM, s);
	MUST(pipe(p) == 0);
	before = nr_open();
	int four[4] = { p[0], p[1], p[0], p[1] };
	CHECK_EQUAL(1, send_fds(s[0], four, 4));
	CHECK_EQUAL(2, recv_fds(s[1], fds, 2, 0, &flags));
	CHECK_EQUAL(MSG_CTRUNC, flags & MSG_CTRUNC);
	close(fds[0]);
	close(fds[1]);
	CHECK_EQUAL(1, send_fds(s[0], four, 4));
	CHECK_EQUAL(0, recv_fds(s[1], fds, 0, 0, &flags));
	CHECK_EQUAL(MSG_CTRUNC, flags & MSG_CTRUNC);
	CHECK_EQUAL(1, send_fds(s[0], four, 4));
	CHECK_EQUAL(1, read(s[1], &c, 1));			/* a plain read throws them away */
	CHECK_EQUAL(1, send_fds(s[0], four, 1));
	CHECK_EQUAL(1, recv_fds(s[1], fds, 2, MSG_PEEK, &flags));	/* a copy; the message keeps its own */
	close(fds[0]);
	CHECK_EQUAL(1, recv_fds(s[1], fds, 2, 0, &flags));
	close(fds[0]);
	CHECK_EQUAL(before, nr_open());

	/* No free descriptor: truncated. */
	struct rlimit old, low;
	MUST(getrlimit(RLIMIT_NOFILE, &old) == 0);
	CHECK_EQUAL(1, send_fds(s[0], four, 2));
	low = old;
	low.rlim_cur = (rlim_t)p[1] + 1;
	MUST(setrlimit(RLIMIT_NOFILE, &low) == 0);
	int got = recv_fds(s[1], fds, 4, 0, &flags);
	MUST(setrlimit(RLIMIT_NOFILE, &old) == 0);
	CHECK(got == 0 && (flags & MSG_CTRUNC));

	/* Those in a queue that is thrown away are closed. */
	CHECK_EQUAL(1, send_fds(s[0], &p[1], 1));
	close(p[1]);
	close_both(s);
	CHECK_EQUAL(0, read(p[0], &c, 1));
	close(p[0]);
}

static void wrong_arguments(void)
{
	int s[2], bad[2] = { 0, 999 }, many[300] = { 0 };
	char c = 0;
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = CMSG_SPACE(sizeof(int)) };
	struct cmsghdr *h = &control.align;

	pair(SOCK_STREAM, s);
	CHECK_ERRNO(EBADF, send_fds(s[0], bad, 2));
	CHECK_ERRNO(EINVAL, send_fds(s[0], many, 254));
	CHECK_EQUAL(1, send_fds(s[0], many, 253));
	CHECK_EQUAL(1, read(s[1], &c, 1));
	memset(&control, 0, sizeof(control));
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = 4;					/* shorter than itself */
	CHECK_ERRNO(EINVAL, raw_sendmsg(s[0], &m, 0));
	h->cmsg_len = 4000;					/* longer than the buffer */
	CHECK_ERRNO(EINVAL, raw_sendmsg(s[0], &m, 0));
	h->cmsg_len = CMSG_LEN(sizeof(int));
	h->cmsg_type = 77;
	CHECK_ERRNO(EINVAL, raw_sendmsg(s[0], &m, 0));
	m.msg_control = (void *)8;
	CHECK_ERRNO(EFAULT, raw_sendmsg(s[0], &m, 0));
	close_both(s);
}

static ssize_t send_cred(int sock, struct ucred *cred)
{
	char c = 'C';
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = CMSG_SPACE(sizeof(*cred)) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	memset(&control, 0, sizeof(control));
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_CREDENTIALS;
	h->cmsg_len = CMSG_LEN(sizeof(*cred));
	memcpy(CMSG_DATA(h), cred, sizeof(*cred));
	return raw_sendmsg(sock, &m, MSG_NOSIGNAL);
}

static int recv_cred(int sock, struct ucred *cred)
{
	char c;
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof(control.buf) };

	CHECK_EQUAL(1, recvmsg(sock, &m, 0));
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (!h || h->cmsg_type != SCM_CREDENTIALS)
		return -1;
	memcpy(cred, CMSG_DATA(h), sizeof(*cred));
	return 0;
}

static void credentials(void)
{
	int s[2], one = 1;
	struct ucred cred = { 0 }, mine = { getpid(), 0, 0 };

	pair(SOCK_STREAM, s);
	CHECK_EQUAL(1, write(s[0], "x", 1));
	CHECK_EQUAL(-1, recv_cred(s[1], &cred));		/* not asked for */
	CHECK_EQUAL(0, setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	CHECK_EQUAL(1, write(s[0], "x", 1));
	CHECK_EQUAL(0, recv_cred(s[1], &cred));
	CHECK(cred.pid == getpid() && cred.uid == 0 && cred.gid == 0);
	CHECK_EQUAL(1, send_cred(s[0], &mine));
	CHECK_EQUAL(0, recv_cred(s[1], &cred));
	CHECK_EQUAL(getpid(), cred.pid);
	struct ucred other = { 1, 12, 34 };
	CHECK_EQUAL(1, send_cred(s[0], &other));		/* root may */
	CHECK_EQUAL(0, recv_cred(s[1], &cred));
	CHECK(cred.pid == 1 && cred.uid == 12 && cred.gid == 34);
	other.pid = 999999;
	CHECK_ERRNO(ESRCH, send_cred(s[0], &other));
	if (fork() == 0) {
		MUST(setgid(1000) == 0 && setuid(1000) == 0);
		mine = (struct ucred){ getpid(), 1000, 1000 };
		CHECK_EQUAL(1, send_cred(s[0], &mine));
		mine.uid = 0;
		CHECK_ERRNO(EPERM, send_cred(s[0], &mine));
		mine.uid = 1000;
		mine.pid = 1;
		CHECK_ERRNO(EPERM, send_cred(s[0], &mine));
		fflush(stdout);
		_exit(test_failures != 0);
	}
	int status;
	wait(&status);
	CHECK_EQUAL(0, status);
	CHECK_EQUAL(0, recv_cred(s[1], &cred));
	CHECK_EQUAL(1000, cred.uid);
	close_both(s);
}

/* A socket in a socket in a socket: closing the first must not dig a hole in the kernel's stack. */
static void long_chain(void)
{
	int a[2], b[2];

	pair(SOCK_DGRAM, a);
	for (int i = 0; i < 2000; i++) {
		pair(SOCK_DGRAM, b);
		CHECK_EQUAL(1, send_fds(b[0], a, 2));
		close_both(a);
		a[0] = b[0];
		a[1] = b[1];
	}
	close_both(a);
}

int main(void)
{
	a_file_arrives();
	not_all_fit();
	wrong_arguments();
	credentials();
	long_chain();
	test_end();
}
