/*
 * The descriptor of userfaultfd and UFFDIO_API: who may have one, what it answers before and after the handshake, poll, read,
 * /dev/userfaultfd, fdinfo (rules F0 to F9).
 */
#include "uffd_test.h"

#include <sys/epoll.h>
#include <sys/socket.h>

static int new_uffd(int flags)
{
	return (int)syscall(SYS_userfaultfd, flags);
}

static int poll_now(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };

	poll(&p, 1, 0);
	return p.revents;
}

static void flags_of_the_call(void)
{
	int fd;

	CHECK_ERRNO(EINVAL, new_uffd(2));
	CHECK_ERRNO(EINVAL, new_uffd(O_APPEND));
	CHECK_ERRNO(EINVAL, new_uffd(-1));
	CHECK((fd = new_uffd(O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)) >= 0);
	CHECK_EQUAL(FD_CLOEXEC, fcntl(fd, F_GETFD));
	CHECK_EQUAL(O_RDONLY | O_NONBLOCK, fcntl(fd, F_GETFL) & ~0x8000);
	close(fd);
	CHECK((fd = new_uffd(0)) >= 0);
	CHECK_EQUAL(0, fcntl(fd, F_GETFD));
	close(fd);
}

/* F1: the rights test comes before the flag test. */
static void as_nobody(void *arg)
{
	int fd;

	(void)arg;
	become_nobody();
	CHECK_ERRNO(EPERM, new_uffd(0));
	CHECK_ERRNO(EPERM, new_uffd(2));
	CHECK((fd = new_uffd(UFFD_USER_MODE_ONLY)) >= 0);
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_EVENT_FORK };
	CHECK_ERRNO(EPERM, ioctl(fd, UFFDIO_API, &api));
	CHECK_EQUAL(0, api.api | api.features | api.ioctls);
}

static void unprivileged(void)
{
	const char *sysctl = "/proc/sys/vm/unprivileged_userfaultfd";

	CHECK_EQUAL(0, atol(read_text(sysctl)));
	IN_CHILD(as_nobody);
	write_file(sysctl, "1");
	CHECK_EQUAL(1, atol(read_text(sysctl)));
	write_file(sysctl, "0");
}

/* F3 */
static void before_the_handshake(void)
{
	struct uffd_msg msg;
	struct uffdio_api bad = { .api = UFFD_API };
	int fd = new_uffd(O_NONBLOCK), blocking = new_uffd(0);
	struct memory m = make_memory(ANON_PRIVATE, 1);

	CHECK_ERRNO(EINVAL, read(fd, &msg, sizeof(msg)));
	CHECK_ERRNO(EINVAL, read(blocking, &msg, sizeof(msg)));
	CHECK_EQUAL(POLLERR, poll_now(fd));
	CHECK_EQUAL(POLLERR, poll_now(blocking));
	CHECK_RESULT(EINVAL, GARBAGE, raw_register(fd, (uintptr_t)m.p, m.len, MISSING));
	CHECK_ERRNO(EINVAL, uffd_unregister(fd, m.p, m.len));
	CHECK_ERRNO(EINVAL, uffd_wake(fd, m.p, m.len));
	CHECK_RESULT(EINVAL, GARBAGE, raw_copy(fd, (uintptr_t)m.p, (uintptr_t)m.p, m.len, 0));
	CHECK_RESULT(EINVAL, GARBAGE, raw_fill(fd, UFFDIO_ZEROPAGE, (uintptr_t)m.p, m.len, 0));
	CHECK_RESULT(EINVAL, GARBAGE, raw_fill(fd, UFFDIO_CONTINUE, (uintptr_t)m.p, m.len, 0));
	CHECK_RESULT(EINVAL, GARBAGE, raw_fill(fd, UFFDIO_POISON, (uintptr_t)m.p, m.len, 0));
	CHECK_RESULT(EINVAL, GARBAGE, raw_move(fd, (uintptr_t)m.p, (uintptr_t)m.p, m.len, 0));
	CHECK_ERRNO(EINVAL, uffd_writeprotect(fd, m.p, m.len, 0));
	CHECK_ERRNO(EINVAL, ioctl(fd, 0xaa55, &bad));
	CHECK_ERRNO(EFAULT, ioctl(fd, UFFDIO_API, (void *)8));
	CHECK_ERRNO(EFAULT, ioctl(fd, UFFDIO_API, (void *)KERNEL_ADDRESS));
	/* All of that has not used up the one handshake. */
	CHECK_EQUAL(0, ioctl(fd, UFFDIO_API, &bad));
	close(fd);
	close(blocking);
	free_memory(&m);
}

/* F4 */
static void the_handshake(void)
{
	const struct { uint64_t api, features; int error; } table[] = {
		{ 0xab, 0, EINVAL }, { 0, 0, EINVAL }, { UFFD_API, 1ull << 17, EINVAL }, { UFFD_API, 1ull << 63, EINVAL },
		{ UFFD_API, ~0ull, EINVAL }, { UFFD_API, ALL_FEATURES, 0 },
	};
	int fd = new_uffd(O_NONBLOCK);

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct uffdio_api api = { table[i].api, table[i].features, 77 };

		if (table[i].error) {
			CHECK_ERRNO(table[i].error, ioctl(fd, UFFDIO_API, &api));
			CHECK_EQUAL(0, api.api | api.features | api.ioctls);
		} else {
			CHECK_EQUAL(0, ioctl(fd, UFFDIO_API, &api));
			CHECK_EQUAL(ALL_FEATURES, api.features);
			CHECK_EQUAL(0x8000000000000003ull, api.ioctls);
			CHECK_EQUAL(UFFD_API, api.api);
		}
	}
	struct uffdio_api again = { UFFD_API, 0, 0 };
	CHECK_ERRNO(EINVAL, ioctl(fd, UFFDIO_API, &again));
	CHECK_EQUAL(0, again.api | again.features | again.ioctls);
	close(fd);

	/* One feature at a time is accepted, and the answer is always all of them. */
	for (int bit = 0; bit < 17; bit++) {
		struct uffdio_api api = { UFFD_API, 1ull << bit, 0 };

		fd = new_uffd(0);
		CHECK_EQUAL(0, ioctl(fd, UFFDIO_API, &api));
		CHECK_EQUAL(ALL_FEATURES, api.features);
		close(fd);
	}

	/* The answer cannot be written: an error, and the descriptor is as before. */
	struct uffdio_api *ro = (struct uffdio_api *)map_pages(1, RW, ANON);
	*ro = (struct uffdio_api){ UFFD_API, 0, 0 };
	MUST(mprotect(ro, PAGE, PROT_READ) == 0);
	fd = new_uffd(O_NONBLOCK);
	CHECK_ERRNO(EFAULT, ioctl(fd, UFFDIO_API, ro));
	CHECK_EQUAL(POLLERR, poll_now(fd));
	close(fd);
	munmap(ro, PAGE);
}

/* F5, F6 */
static void poll_and_read(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 4);
	struct uffd_msg msgs[8];
	struct helper h[4];
	struct iovec half[2] = { { &msgs[0], 16 }, { (char *)&msgs[0] + 16, 16 } };
	int fd = open_uffd(0), ep = epoll_create1(0), blocking = uffd_open(0, 0);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u32 = 7 };
	unsigned seen = 0;

	CHECK_EQUAL(0, poll_now(fd));
	CHECK_EQUAL(POLLERR, poll_now(blocking));
	CHECK_ERRNO(EAGAIN, read(fd, msgs, sizeof(msgs)));
	CHECK_ERRNO(EINVAL, read(fd, msgs, 31));
	CHECK_ERRNO(EINVAL, read(fd, msgs, 0));
	CHECK_ERRNO(ESPIPE, pread(fd, msgs, sizeof(msgs), 0));
	CHECK_ERRNO(EBADF, write(fd, msgs, sizeof(msgs)));
	CHECK_EQUAL(0, lseek(fd, 77, SEEK_SET));
	CHECK_ERRNO(ENODEV, mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
	CHECK_EQUAL(0, epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	CHECK_EQUAL(0, epoll_wait(ep, &ev, 1, 0));

	CHECK_EQUAL(0, uffd_register(fd, m.p, m.len, MISSING));
	for (int i = 0; i < 4; i++) {
		helper_start(&h[i], do_read, m.p + (size_t)i * PAGE, 1);
		CHECK(helper_sleeps(&h[i]));
	}
	CHECK_EQUAL(POLLIN, poll_now(fd));
	CHECK_EQUAL(1, epoll_wait(ep, &ev, 1, 5000));
	CHECK_EQUAL(7, ev.data.u32);
	CHECK_ERRNO(EINVAL, read(fd, msgs, 31));
	CHECK_EQUAL(32, read(fd, msgs, 63));			/* whole messages only */
	CHECK_EQUAL(96, read(fd, msgs + 1, sizeof(msgs) - 32));	/* the other three, at once */
	CHECK_ERRNO(EAGAIN, read(fd, msgs, sizeof(msgs)));	/* each is delivered once */
	CHECK_EQUAL(0, poll_now(fd));
	for (int i = 0; i < 4; i++) {
		CHECK_EQUAL(UFFD_EVENT_PAGEFAULT, msgs[i].event);
		CHECK_EQUAL(0, msgs[i].reserved1 | msgs[i].reserved2 | msgs[i].reserved3 | msgs[i].arg.pagefault.feat.ptid);
		/* In the order in which they came: each slept before the next began. */
		CHECK_EQUAL((uintptr_t)m.p + (size_t)i * PAGE, msgs[i].arg.pagefault.address);
		seen |= 1u << ((msgs[i].arg.pagefault.address - (uintptr_t)m.p) / PAGE & 31);
	}
	CHECK_EQUAL(15, seen);
	CHECK_EQUAL((long)m.len, uffd_copy(fd, m.p, source('c', m.len), m.len, 0));
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL('c', HELPER_END(&h[i]));

	/* A message for which there is no room is lost, its sleeper is not. */
	empty_memory(&m);
	helper_start(&h[0], do_read, m.p, 1);
	CHECK(helper_sleeps(&h[0]));
	CHECK_ERRNO(EFAULT, read(fd, (void *)8, 32));
	CHECK_ERRNO(EAGAIN, read(fd, msgs, sizeof(msgs)));
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, m.p, source('d', PAGE), PAGE, 0));
	CHECK_EQUAL('d', HELPER_END(&h[0]));

	/* readv: a message over two pieces. */
	helper_start(&h[0], do_write, m.p + PAGE, 1);
	CHECK(helper_sleeps(&h[0]));
	CHECK_EQUAL(32, readv(fd, half, 2));
	CHECK_EQUAL((uintptr_t)m.p + PAGE, msgs[0].arg.pagefault.address);
	CHECK_EQUAL(UFFD_PAGEFAULT_FLAG_WRITE, msgs[0].arg.pagefault.flags);
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, m.p + PAGE, PAGE, 0));
	HELPER_END(&h[0]);
	close(ep);
	close(fd);
	close(blocking);
	free_memory(&m);
}

static void on_signal(int sig) { (void)sig; }
static long do_read_message(struct helper *h) { return read((int)h->value, h->p, 32); }

static void blocking_read(void)
{
	struct sigaction plain = { .sa_handler = on_signal }, restart = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct memory m = make_memory(ANON_PRIVATE, 1);
	struct uffd_msg msg;
	struct helper reader, toucher;
	int fd = uffd_open(0, 0);

	MUST(sigaction(SIGUSR1, &plain, NULL) == 0 && sigaction(SIGUSR2, &restart, NULL) == 0);
	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	reader.value = fd;
	helper_start(&reader, do_read_message, &msg, 32);
	CHECK(helper_sleeps(&reader));
	pthread_kill(reader.thread, SIGUSR1);
	CHECK_EQUAL(-1, HELPER_END(&reader));
	CHECK_EQUAL(EINTR, reader.error);

	reader.value = fd;
	helper_start(&reader, do_read_message, &msg, 32);
	CHECK(helper_sleeps(&reader));
	pthread_kill(reader.thread, SIGUSR2);
	CHECK(!helper_is_done(&reader, 50));
	helper_start(&toucher, do_read, m.p, 1);
	CHECK_EQUAL(32, HELPER_END(&reader));
	CHECK_EQUAL((uintptr_t)m.p, msg.arg.pagefault.address);
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, m.p, PAGE, 0));
	CHECK_EQUAL(0, HELPER_END(&toucher));
	close(fd);
	free_memory(&m);
}

/* F1 in brackets */
static void device(void)
{
	struct stat st;
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), fd;

	MUST(dev >= 0 && fstat(dev, &st) == 0);
	CHECK(S_ISCHR(st.st_mode));
	CHECK_ERRNO(EINVAL, ioctl(dev, USERFAULTFD_IOC_NEW, 2));
	CHECK_ERRNO(EINVAL, ioctl(dev, UFFDIO_API, 0));
	CHECK((fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK)) >= 0);
	CHECK_EQUAL(POLLERR, poll_now(fd));
	struct uffdio_api api = { UFFD_API, 0, 0 };
	CHECK_EQUAL(0, ioctl(fd, UFFDIO_API, &api));
	close(fd);
	close(dev);
}

static unsigned long fdinfo(int fd, const char *key)
{
	char path[64], *text;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	text = strstr(read_text(path), key);
	return text ? strtoul(text + strlen(key), NULL, 10) : 999;
}

/* F9 */
static void shown_in_fdinfo(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 2);
	struct uffd_msg msg;
	struct helper h[2];
	char path[64];
	int fd = open_uffd(UFFD_FEATURE_THREAD_ID);

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	for (int i = 0; i < 2; i++) {
		helper_start(&h[i], do_read, m.p + (size_t)i * PAGE, 1);
		CHECK(helper_sleeps(&h[i]));
	}
	CHECK_EQUAL(2, fdinfo(fd, "pending:\t"));
	CHECK_EQUAL(2, fdinfo(fd, "total:\t"));
	MUST(read(fd, &msg, sizeof(msg)) == sizeof(msg));
	CHECK_EQUAL(h[0].tid, (pid_t)msg.arg.pagefault.feat.ptid);
	CHECK_EQUAL(1, fdinfo(fd, "pending:\t"));		/* what nobody has read yet */
	CHECK_EQUAL(2, fdinfo(fd, "total:\t"));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	CHECK(strstr(read_text(path), "API:\taa:80000100:80000000000001ff") != NULL);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	char link[64] = "";
	CHECK(readlink(path, link, sizeof(link) - 1) > 0);
	CHECK(strcmp(link, "anon_inode:[userfaultfd]") == 0);
	CHECK_EQUAL((long)m.len, uffd_zeropage(fd, m.p, m.len, 0));
	HELPER_END(&h[0]);
	HELPER_END(&h[1]);
	CHECK_EQUAL(0, fdinfo(fd, "total:\t"));
	close(fd);
	free_memory(&m);
}

/* F2: it acts on the creator's memory, whoever calls. */
static void used_by_another_process(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 2);
	struct helper h;
	int fd = open_uffd(0), pair[2], status;
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec v = { &byte, 1 };
	struct msghdr message = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	pid_t pid = fork();
	if (!pid) {
		/* Our own memory at that address is plain: the descriptor means the parent's. */
		bool ok = m.p[0] == 0 && uffd_copy(fd, m.p, source('q', PAGE), PAGE, 0) == (long)PAGE && m.p[0] == 0;
		ok &= uffd_copy(fd, m.p, source('q', PAGE), PAGE, 0) == -EEXIST;
		_exit(!ok);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	CHECK_EQUAL('q', m.p[0]);

	/* Passed in a message, where there are sockets. */
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
		pid = fork();
		if (!pid) {
			int got = -1;

			close(fd);
			if (recvmsg(pair[1], &message, 0) == 1 && CMSG_FIRSTHDR(&message))
				memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(got));
			struct uffd_msg msg;
			bool ok = get_message(got, &msg, 8000) && msg.arg.pagefault.address == (uintptr_t)m.p + PAGE;
			ok &= uffd_copy(got, m.p + PAGE, source('s', PAGE), PAGE, 0) == (long)PAGE;
			_exit(!ok);
		}
		struct cmsghdr *c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
		CHECK_EQUAL(1, sendmsg(pair[0], &message, 0));
		helper_start(&h, do_read, m.p + PAGE, 1);
		CHECK_EQUAL('s', HELPER_END(&h));
		MUST(waitpid(pid, &status, 0) == pid);
		CHECK_EQUAL(0, status);
		close(pair[0]);
		close(pair[1]);
	}
	close(fd);
	free_memory(&m);
}

int main(void)
{
	flags_of_the_call();
	unprivileged();
	before_the_handshake();
	the_handshake();
	poll_and_read();
	blocking_read();
	device();
	shown_in_fdinfo();
	used_by_another_process();
	test_end();
}
