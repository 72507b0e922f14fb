/*
 * A missing page is asked for by a message and supplied by COPY, ZEROPAGE or CONTINUE; the thread that waits goes on, whatever ends its
 * wait (SEMANTICS F3 to F8, F10 to F15, F20 to F32, F40 to F44).
 */
#include "uffd_basic.h"

static char page_of[4][PAGE] __attribute__((aligned(4096)));

static void descriptor_and_api(void)
{
	struct u_api api = { UFFD_API_MAGIC, 0, 0 }, bad = { 0xAB, 0, 7 };
	struct u_msg m;
	struct pollfd p = { .events = POLLIN };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	MUST(fd >= 0);
	p.fd = fd;
	CHECK_ERRNO(EINVAL, syscall(SYS_userfaultfd, 2));
	CHECK_ERRNO(EINVAL, read(fd, &m, sizeof(m)));
	CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLERR);
	CHECK_ERRNO(EINVAL, u_wake(fd, page_of[0], PAGE));
	CHECK_ERRNO(EINVAL, ioctl(fd, U_API, &bad));
	CHECK(bad.api == 0 && bad.features == 0 && bad.ioctls == 0);
	bad = (struct u_api){ UFFD_API_MAGIC, 1ul << 40, 7 };
	CHECK_ERRNO(EINVAL, ioctl(fd, U_API, &bad));
	CHECK_ERRNO(EFAULT, ioctl(fd, U_API, (void *)8));
	CHECK(ioctl(fd, U_API, &api) == 0);
	CHECK(api.features == F_ALL && api.ioctls == 0x8000000000000003ul);
	CHECK_ERRNO(EINVAL, ioctl(fd, U_API, &api));
	CHECK_ERRNO(EAGAIN, read(fd, &m, sizeof(m)));
	CHECK_ERRNO(EINVAL, read(fd, &m, 31));
	CHECK_ERRNO(EINVAL, ioctl(fd, 0xAA55, &m));
	CHECK_ERRNO(EBADF, write(fd, &m, sizeof(m)));
	CHECK_ERRNO(ESPIPE, pread(fd, &m, sizeof(m), 0));
	CHECK(poll(&p, 1, 0) == 0);
	close(fd);
	fd = u_open(0, 0);
	p.fd = fd;
	CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLERR);
	close(fd);
}

static void fdinfo_tells(int fd, const char *counts)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (!strstr(read_text(path), counts)) {
		printf("fdinfo: expected \"%s\", got:\n%s\n", counts, read_text(path));
		test_failures++;
	}
}

static void copy_serves_threads(void)
{
	int fd = u_open(O_NONBLOCK, F_THREAD_ID);
	char *p = map_alone(4, RW);
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	struct toucher t[2];
	struct u_register r = { (unsigned long)p, 4 * PAGE, U_MISSING, 0 };
	struct u_msg m[3];

	CHECK(ioctl(fd, U_REGISTER, &r) == 0);
	CHECK_EQUAL(0x13c, r.ioctls);
	touch_start(&t[0], p + PAGE + 5, false, 0);
	CHECK(poll(&poller, 1, 10000) == 1 && poller.revents == POLLIN);
	fdinfo_tells(fd, "pending:\t1\ntotal:\t1\nAPI:\taa:80000100:80000000000001ff");
	m[0] = u_read(fd);
	CHECK_MSG(m[0], EV_PAGEFAULT, 0, p + PAGE);
	CHECK_EQUAL(t[0].tid, (unsigned int)m[0].c);
	fdinfo_tells(fd, "pending:\t0\ntotal:\t1\n");
	CHECK(poll(&poller, 1, 0) == 0);
	CHECK_ERRNO(EAGAIN, read(fd, m, sizeof(m)));

	touch_start(&t[1], p + PAGE + 9, true, 'w');
	CHECK(poll(&poller, 1, 10000) == 1);
	CHECK_EQUAL(32, read(fd, m, sizeof(m)));
	CHECK_MSG(m[0], EV_PAGEFAULT, PF_WRITE, p + PAGE);

	memset(page_of[0], 'c', PAGE);
	CHECK(u_copy(fd, p + PAGE, page_of[0], PAGE, 0) == 0 && u_done == PAGE);
	CHECK_EQUAL('c', touch_end(&t[0]));
	touch_end(&t[1]);
	CHECK(p[PAGE + 9] == 'w' && p[PAGE] == 'c');
	CHECK_ERRNO(EEXIST, u_copy(fd, p + PAGE, page_of[0], PAGE, 0));
	CHECK_EQUAL(-EEXIST, u_done);
	fdinfo_tells(fd, "pending:\t0\ntotal:\t0\n");

	/* Half of a range: the page that is there stops it. */
	CHECK_ERRNO(EAGAIN, u_copy(fd, p, page_of[0], 2 * PAGE, 0));
	CHECK_EQUAL(PAGE, u_done);
	/* ZEROPAGE, and a bare wake-up that changes nothing: the access asks again. */
	touch_start(&t[0], p + 2 * PAGE, false, 'x');
	CHECK(poll(&poller, 1, 10000) == 1);
	CHECK_MSG(u_read(fd), EV_PAGEFAULT, 0, p + 2 * PAGE);
	CHECK(u_wake(fd, p, 4 * PAGE) == 0);
	CHECK(poll(&poller, 1, 10000) == 1);
	CHECK_MSG(u_read(fd), EV_PAGEFAULT, 0, p + 2 * PAGE);
	CHECK(u_fill(fd, U_ZEROPAGE, p + 2 * PAGE, PAGE, 0) == 0 && u_done == PAGE);
	CHECK_EQUAL(0, touch_end(&t[0]));
	p[2 * PAGE] = 7;
	CHECK(p[2 * PAGE] == 7 && p[2 * PAGE + 1] == 0);

	/* Unregistering, and closing, release who waits. */
	touch_start(&t[0], p + 3 * PAGE, false, 'x');
	CHECK(poll(&poller, 1, 10000) == 1);
	CHECK(u_unregister(fd, p, 4 * PAGE) == 0);
	CHECK_EQUAL(0, touch_end(&t[0]));
	CHECK(madvise(p, 4 * PAGE, MADV_DONTNEED) == 0);
	CHECK(u_register(fd, p, 4 * PAGE, U_MISSING) == 0);
	touch_start(&t[0], p + 3 * PAGE, true, 'x');
	CHECK(poll(&poller, 1, 10000) == 1);
	u_read(fd);
	close(fd);
	touch_end(&t[0]);
	CHECK_EQUAL('x', p[3 * PAGE]);
	munmap(p, 4 * PAGE);
}

/* Source missing, both ways of failing; the source of one descriptor served by another. */
static void *serve_one(void *arg)
{
	int fd = *(int *)arg;
	struct u_msg m = u_read(fd);

	memset(page_of[1], 's', PAGE);
	MUST(u_copy(fd, (void *)m.b, page_of[1], PAGE, 0) == 0);
	return NULL;
}

static void copy_waits_for_its_source(void)
{
	int fd = u_open(0, 0), other = u_open(0, 0);
	char *p = map_alone(2, RW), *src = map_alone(2, RW), *nothing = map_alone(1, PROT_NONE);
	pthread_t thread;

	MUST(u_register(fd, p, 2 * PAGE, U_MISSING) == 0 && u_register(other, src, PAGE, U_MISSING) == 0);
	CHECK_ERRNO(EBUSY, u_register(other, p, PAGE, U_MISSING));
	CHECK_ERRNO(EFAULT, u_copy(fd, p, nothing, PAGE, 0));
	CHECK_EQUAL(-EFAULT, u_done);
	MUST(pthread_create(&thread, NULL, serve_one, &other) == 0);
	CHECK(u_copy(fd, p, src, PAGE, 0) == 0);
	MUST(pthread_join(thread, NULL) == 0);
	CHECK(p[0] == 's' && p[PAGE - 1] == 's');
	CHECK(u_copy(fd, p + PAGE, src + 100, PAGE, 0) == 0);	/* unaligned, and its second half not yet touched */
	CHECK(p[PAGE] == 's' && p[2 * PAGE - 101] == 's' && p[2 * PAGE - 100] == 0);
	CHECK_ERRNO(ENOENT, u_copy(fd, nothing, src, PAGE, 0));
	CHECK_ERRNO(ENOENT, u_copy(fd, p + PAGE, src, 2 * PAGE, 0));
	CHECK_ERRNO(EINVAL, u_copy(fd, p + 1, src, PAGE, 0));
	CHECK_EQUAL(0x5555, u_done);
	CHECK_ERRNO(EINVAL, u_copy(fd, p, src, 0, 0));
	CHECK_ERRNO(EINVAL, u_copy(fd, p, src, PAGE, 4));
	CHECK_ERRNO(EINVAL, u_copy(fd, p, (void *)-PAGE, 2 * PAGE, 0));
	close(fd);
	close(other);
	munmap(p, 2 * PAGE), munmap(src, 2 * PAGE), munmap(nothing, PAGE);
}

static void shared_memory(void)
{
	int fd = u_open(0, F_EXACT_ADDRESS), mem = make_memfd(4, 0);
	char *p = mmap(NULL, 5 * PAGE, RW, MAP_SHARED, mem, 0), *side = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, mem, 0);
	char *priv = mmap(NULL, 4 * PAGE, RW, MAP_PRIVATE, mem, 0);
	struct u_register r = { (unsigned long)p, 5 * PAGE, U_MISSING | U_MINOR, 0 };
	struct toucher t;

	MUST(p != MAP_FAILED && side != MAP_FAILED && priv != MAP_FAILED);
	CHECK(ioctl(fd, U_REGISTER, &r) == 0);
	CHECK_EQUAL(0x1bc, r.ioctls);
	memset(page_of[0], 'f', PAGE);
	CHECK(u_copy(fd, p, page_of[0], PAGE, 0) == 0 && p[1] == 'f' && side[2] == 'f');
	side[PAGE] = 'm';
	CHECK_ERRNO(EEXIST, u_copy(fd, p + PAGE, page_of[0], PAGE, 0));
	touch_start(&t, p + PAGE + 3, true, 'n');
	CHECK_MSG(u_read(fd), EV_PAGEFAULT, PF_MINOR | PF_WRITE, p + PAGE + 3);
	CHECK(u_fill(fd, U_CONTINUE, p + PAGE, PAGE, 0) == 0);
	touch_end(&t);
	CHECK(side[PAGE] == 'm' && side[PAGE + 3] == 'n');
	CHECK_ERRNO(EEXIST, u_fill(fd, U_CONTINUE, p + PAGE, PAGE, 0));
	CHECK_ERRNO(EFAULT, u_fill(fd, U_CONTINUE, p + 2 * PAGE, PAGE, 0));
	CHECK_ERRNO(EINVAL, u_fill(fd, U_CONTINUE, p + 4 * PAGE, PAGE, 0));
	CHECK_ERRNO(EFAULT, u_copy(fd, p + 4 * PAGE, page_of[0], PAGE, 0));
	CHECK_ERRNO(EFAULT, u_fill(fd, U_ZEROPAGE, p + 4 * PAGE, PAGE, 0));
	CHECK_FAULT(SIGBUS, BUS_ADRERR, p + 4 * PAGE, access_byte((unsigned long)p + 4 * PAGE, READ));
	CHECK(u_fill(fd, U_ZEROPAGE, p + 2 * PAGE, PAGE, 0) == 0);
	p[2 * PAGE] = 'z';
	CHECK(side[2 * PAGE] == 'z');

	/* Private: the file's page may be seen, what is written stays here. */
	CHECK(u_register(fd, priv, 4 * PAGE, U_MISSING | U_MINOR) == 0);
	CHECK(u_fill(fd, U_CONTINUE, priv + PAGE, PAGE, 0) == 0);
	priv[PAGE] = 'p';
	CHECK(priv[PAGE] == 'p' && priv[PAGE + 3] == 'n' && side[PAGE] == 'm');
	CHECK(u_copy(fd, priv, page_of[0], PAGE, 0) == 0);
	priv[0] = 'q';
	CHECK(side[0] == 'f' && priv[0] == 'q');
	close(fd), close(mem);
	munmap(p, 5 * PAGE), munmap(side, 4 * PAGE), munmap(priv, 4 * PAGE);
}

static void poison_and_sigbus(void)
{
	int fd = u_open(0, 0), bus = u_open(0, F_SIGBUS), null = open("/dev/zero", O_RDONLY);
	char *p = map_alone(2, RW), *q = map_alone(1, RW);

	MUST(null >= 0 && u_register(fd, p, 2 * PAGE, U_MISSING) == 0 && u_register(bus, q, PAGE, U_MISSING) == 0);
	CHECK(u_fill(fd, U_POISON, p, PAGE, 0) == 0 && u_done == PAGE);
	CHECK_FAULT(SIGBUS, BUS_MCEERR_AR, p, access_byte((unsigned long)p, READ));
	CHECK_ERRNO(EEXIST, u_fill(fd, U_POISON, p, PAGE, 0));
	CHECK_ERRNO(EEXIST, u_fill(fd, U_ZEROPAGE, p, PAGE, 0));
	CHECK_ERRNO(EFAULT, read(null, p, 1));
	CHECK(u_copy(fd, p, page_of[0], PAGE, 0) == 0);
	CHECK_NO_FAULT(access_byte((unsigned long)p, READ));
	CHECK(u_fill(fd, U_POISON, p + PAGE, PAGE, 0) == 0);
	CHECK(madvise(p + PAGE, PAGE, MADV_DONTNEED) == 0);
	CHECK(u_fill(fd, U_ZEROPAGE, p + PAGE, PAGE, 0) == 0);
	CHECK_FAULT(SIGBUS, BUS_ADRERR, q, access_byte((unsigned long)q, READ));
	CHECK_ERRNO(EFAULT, read(null, q, 1));
	close(fd), close(bus), close(null);
	munmap(p, 2 * PAGE), munmap(q, PAGE);
}

static void registration_errors(void)
{
	int fd = u_open(0, 0), ro;
	char *p = map_alone(4, RW), *file;
	const char *path = "/tmp/uffd_basic";

	CHECK_ERRNO(EINVAL, u_register(fd, p, 4 * PAGE, 0));
	CHECK_ERRNO(EINVAL, u_register(fd, p, 4 * PAGE, 8));
	CHECK_ERRNO(EINVAL, u_register(fd, p, 4 * PAGE, U_MINOR));
	CHECK_ERRNO(EINVAL, u_register(fd, p + 1, PAGE, U_MISSING));
	CHECK_ERRNO(EINVAL, u_register(fd, p, PAGE - 1, U_MISSING));
	CHECK_ERRNO(EINVAL, u_register(fd, p, 0, U_MISSING));
	CHECK_ERRNO(EINVAL, u_register(fd, p + 4 * PAGE, PAGE, U_MISSING));
	CHECK_ERRNO(EINVAL, u_register(fd, (void *)KERNEL_ADDRESS, PAGE, U_MISSING));
	CHECK_ERRNO(EINVAL, u_register(fd, p, -(unsigned long)p, U_MISSING));
	CHECK_ERRNO(EINVAL, u_unregister(fd, p + 4 * PAGE, PAGE));
	CHECK(u_unregister(fd, p, 4 * PAGE) == 0);
	close(open(path, O_CREAT | O_RDWR, 0600));
	MUST(truncate(path, PAGE) == 0);
	ro = open(path, O_RDONLY);
	file = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ro, 0);
	MUST(file != MAP_FAILED);
	CHECK_ERRNO(EPERM, u_register(fd, file, PAGE, U_MISSING));
	unlink(path);
	close(ro), close(fd);
	munmap(p, 4 * PAGE), munmap(file, PAGE);
}

/* A waiter can be killed, and its system call too. */
static void wait_for_ever(void *arg)
{
	*(volatile char *)arg = 1;
}

static void kill_ends_the_wait(void)
{
	int fd = u_open(O_NONBLOCK, 0), pipes[2], status;
	char *p = mmap(NULL, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	MUST(pipe(pipes) == 0);
	for (int how = 0; how < 2; how++) {
		pid = fork();
		if (!pid) {
			int own = u_open(0, 0);

			MUST(u_register(own, p, 2 * PAGE, U_MISSING) == 0);
			MUST(write(pipes[1], "x", 1) == 1);
			if (how)
				(void)!read(open("/dev/zero", O_RDONLY), p, 1);
			else
				wait_for_ever(p);
			_exit(3);
		}
		MUST(read(pipes[0], &status, 1) == 1);
		usleep(50000);
		CHECK(waitpid(pid, &status, WNOHANG) == 0);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	close(fd), close(pipes[0]), close(pipes[1]);
	munmap(p, 2 * PAGE);
}

int main(void)
{
	catch_faults();
	descriptor_and_api();
	copy_serves_threads();
	copy_waits_for_its_source();
	shared_memory();
	poison_and_sigbus();
	registration_errors();
	kill_ends_the_wait();
	test_end();
}
