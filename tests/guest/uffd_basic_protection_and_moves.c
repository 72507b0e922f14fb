/*
 * Write protection tells the manager of the first write, survives what it should survive, and is gone with the registration; MOVE
 * takes a page from one address to another (SEMANTICS F33 to F39).
 */
#include "uffd_basic.h"

#define PM_WP	(1ul << 57)

static char data[PAGE] __attribute__((aligned(4096)));

static bool is_protected(const void *p)
{
	unsigned long v = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	MUST(fd >= 0 && pread(fd, &v, 8, (off_t)((unsigned long)p / PAGE * 8)) == 8);
	close(fd);
	return v & PM_WP;
}

static char *memory(int kind, size_t pages)
{
	int fd = kind ? make_memfd(pages, 0) : -1;
	char *p = mmap(NULL, pages * PAGE, RW, kind == 0 ? ANON : kind == 1 ? MAP_SHARED : MAP_PRIVATE, fd, 0);

	MUST(p != MAP_FAILED);
	if (fd >= 0)
		close(fd);
	return p;
}

/* kind 0: anonymous, 1: shared file, 2: private file */
static void protect(int kind)
{
	int fd = u_open(0, 0);
	char *p = memory(kind, 4);
	struct toucher t;

	p[0] = 'a';
	CHECK(u_register(fd, p, 4 * PAGE, U_WP) == 0);
	CHECK_ERRNO(EINVAL, u_protect(fd, p, PAGE, 3));
	CHECK_ERRNO(EINVAL, u_protect(fd, p, PAGE, 4));
	CHECK_ERRNO(EINVAL, u_protect(fd, p + 1, PAGE, 1));
	CHECK(u_protect(fd, p, 4 * PAGE, 1) == 0);
	CHECK(is_protected(p) && is_protected(p + PAGE) == (kind != 0));
	CHECK_EQUAL('a', p[0]);
	touch_start(&t, p + 5, true, 'w');
	CHECK_MSG(u_read(fd), EV_PAGEFAULT, PF_WP | PF_WRITE, p);
	CHECK(p[5] == 0 && !t.done);
	CHECK(u_protect(fd, p, PAGE, 0) == 0);
	touch_end(&t);
	CHECK(p[5] == 'w' && !is_protected(p));
	/* A page that was not there: protected when it comes, if a marker was left. */
	touch_start(&t, p + PAGE, true, 'v');
	if (kind) {
		CHECK_MSG(u_read(fd), EV_PAGEFAULT, PF_WP | PF_WRITE, p + PAGE);
		CHECK(u_protect(fd, p, 4 * PAGE, 0) == 0);
	}
	touch_end(&t);
	CHECK_EQUAL('v', p[PAGE]);

	/* mprotect to and fro keeps it; unregistering, and closing, take it away. */
	CHECK(u_protect(fd, p, 4 * PAGE, 1) == 0);
	CHECK(mprotect(p, 4 * PAGE, PROT_READ) == 0);
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p, access_byte((unsigned long)p, WRITE));
	CHECK(mprotect(p, 4 * PAGE, RW) == 0 && is_protected(p));
	CHECK(u_unregister(fd, p, 4 * PAGE) == 0);
	CHECK(!is_protected(p) && !is_protected(p + 2 * PAGE));
	p[0] = 'b';
	CHECK(u_register(fd, p, 4 * PAGE, U_WP) == 0 && u_protect(fd, p, 4 * PAGE, 1) == 0);
	close(fd);
	CHECK(!is_protected(p) && !is_protected(p + 2 * PAGE));
	p[0] = 'c';
	p[2 * PAGE] = 'd';

	/* Not registered, or not for this. */
	fd = u_open(0, 0);
	CHECK_ERRNO(ENOENT, u_protect(fd, p, PAGE, 1));
	CHECK(u_register(fd, p, PAGE, U_MISSING) == 0);
	CHECK_ERRNO(ENOENT, u_protect(fd, p, PAGE, 1));
	CHECK_ERRNO(EINVAL, u_copy(fd, p, data, PAGE, 2));
	close(fd);
	munmap(p, 4 * PAGE);
}

/* COPY can put a page in protected; fork without EVENT_FORK gives the child plain memory. */
static void copy_protected(void)
{
	int fd = u_open(0, F_WP_UNPOPULATED), status;
	char *p = map_alone(3, RW);
	struct toucher t;
	pid_t pid;

	CHECK(u_register(fd, p, 3 * PAGE, U_MISSING | U_WP) == 0);
	data[0] = 'p';
	CHECK(u_copy(fd, p, data, PAGE, 2) == 0 && is_protected(p));
	CHECK(u_protect(fd, p + PAGE, 2 * PAGE, 1) == 0 && is_protected(p + PAGE));
	CHECK_ERRNO(EEXIST, u_fill(fd, U_ZEROPAGE, p + PAGE, PAGE, 0));
	CHECK(u_copy(fd, p + PAGE, data, PAGE, 0) == 0 && !is_protected(p + PAGE));
	pid = fork();
	if (!pid) {
		p[0] = 'k';
		_exit(is_protected(p) || p[0] != 'k' || p[2 * PAGE]);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(is_protected(p) && p[0] == 'p');
	touch_start(&t, p, true, 'w');
	CHECK_MSG(u_read(fd), EV_PAGEFAULT, PF_WP | PF_WRITE, p);
	CHECK(madvise(p, PAGE, MADV_DONTNEED) == 0);
	CHECK(u_wake(fd, p, PAGE) == 0);
	CHECK_MSG(u_read(fd), EV_PAGEFAULT, PF_WRITE, p);
	CHECK(u_copy(fd, p, data, PAGE, 0) == 0);
	touch_end(&t);
	close(fd);
	munmap(p, 3 * PAGE);
}

static void asynchronous(void)
{
	int fd = u_open(0, F_WP_ASYNC);
	char *p = map_alone(2, RW);

	p[0] = 1;
	CHECK(u_register(fd, p, 2 * PAGE, U_WP) == 0 && u_protect(fd, p, 2 * PAGE, 1) == 0);
	CHECK(is_protected(p) && is_protected(p + PAGE));
	p[0] = 2;
	CHECK(!is_protected(p) && is_protected(p + PAGE) && p[0] == 2);
	p[PAGE] = 3;
	CHECK(!is_protected(p + PAGE) && p[PAGE] == 3);
	close(fd);
	munmap(p, 2 * PAGE);
}

static void move(void)
{
	int fd = u_open(0, 0), other = u_open(0, 0), status;
	char *p = map_alone(100, RW), *q = map_alone(100, RW), *shared = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct toucher t;

	MUST(shared != MAP_FAILED);
	for (int i = 0; i < 100; i++)
		q[i * PAGE] = (char)(i + 1);
	CHECK_ERRNO(EINVAL, u_move(fd, p, q, PAGE, 0));			/* not registered */
	MUST(u_register(fd, p, 100 * PAGE, U_MISSING) == 0);
	CHECK_ERRNO(EINVAL, u_move(other, p, q, PAGE, 0));
	CHECK_ERRNO(EINVAL, u_move(fd, p, q + 1, PAGE, 0));
	CHECK_ERRNO(EINVAL, u_move(fd, p, q, PAGE, 4));
	CHECK_ERRNO(EINVAL, u_move(fd, p, shared, PAGE, 0));
	CHECK_ERRNO(EINVAL, u_move(fd, p, q + 99 * PAGE, 2 * PAGE, 0));
	CHECK_ERRNO(ENOENT, u_move(fd, p, q + 100 * PAGE, PAGE, 0));
	touch_start(&t, p + 7 * PAGE, false, 0);
	CHECK_MSG(u_read(fd), EV_PAGEFAULT, 0, p + 7 * PAGE);
	CHECK(u_move(fd, p, q, 80 * PAGE, 0) == 0 && u_done == 80 * PAGE);
	CHECK_EQUAL(8, touch_end(&t));
	for (int i = 0; i < 80; i++)
		if (p[i * PAGE] != i + 1 || q[i * PAGE])
			CHECK_EQUAL(i + 1, p[i * PAGE]);
	CHECK_ERRNO(EEXIST, u_move(fd, p, q + 80 * PAGE, PAGE, 0));
	CHECK(madvise(q, 80 * PAGE, MADV_DONTNEED) == 0);		/* the zero pages that the test has read */
	CHECK_ERRNO(ENOENT, u_move(fd, p + 80 * PAGE, q, PAGE, 0));
	CHECK_EQUAL(-ENOENT, u_done);
	CHECK(u_move(fd, p + 80 * PAGE, q + 79 * PAGE, 2 * PAGE, 2) == 0);
	CHECK(p[81 * PAGE] == 81);
	CHECK(u_move(fd, p + 82 * PAGE, q + 96 * PAGE, 4 * PAGE, 0) == 0);
	CHECK(p[82 * PAGE] == 97 && p[85 * PAGE] == 100);

	/* Within one VMA, there and back; what a child shares cannot go. */
	CHECK(u_move(fd, p + 95 * PAGE, p, 2 * PAGE, 0) == 0 && p[96 * PAGE] == 2);
	CHECK(u_move(fd, p, p + 95 * PAGE, 2 * PAGE, 0) == 0 && p[PAGE] == 2);
	pid_t pid = fork();
	if (!pid) {
		usleep(300000);
		_exit(0);
	}
	CHECK_ERRNO(EBUSY, u_move(fd, p + 95 * PAGE, p, PAGE, 0));
	CHECK(waitpid(pid, &status, 0) == pid);
	p[0] = 42;
	CHECK(u_move(fd, p + 95 * PAGE, p, PAGE, 0) == 0 && p[95 * PAGE] == 42);
	close(fd), close(other);
	munmap(p, 100 * PAGE), munmap(q, 100 * PAGE), munmap(shared, PAGE);
}

int main(void)
{
	catch_faults();
	for (int kind = 0; kind < 3; kind++)
		protect(kind);
	copy_protected();
	asynchronous();
	move();
	test_end();
}
