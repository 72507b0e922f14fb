/*
 * A manager that asks for it is told of fork, mremap, munmap and madvise, and nothing can be filled until he has read of it
 * (SEMANTICS F45 to F55).
 */
#include "uffd_basic.h"

static char data[PAGE] __attribute__((aligned(4096)));

/* A call in a thread of its own, which waits for the manager. */
struct call {
	pthread_t	thread;
	long		number, arg[5], ret;
	volatile int	done;
};

static void *call_thread(void *arg)
{
	struct call *c = arg;

	c->ret = syscall(c->number, c->arg[0], c->arg[1], c->arg[2], c->arg[3], c->arg[4], 0l);
	while (c->number == SYS_fork && !c->ret)
		pause();			/* the child, until it is killed */
	c->done = 1;
	return NULL;
}

static void call_start(struct call *c, long number, void *a0, long a1, long a2, long a3, void *a4)
{
	*c = (struct call){ .number = number, .arg = { (long)a0, a1, a2, a3, (long)a4 } };
	MUST(pthread_create(&c->thread, NULL, call_thread, c) == 0);
}

static long call_end(struct call *c)
{
	MUST(pthread_join(c->thread, NULL) == 0);
	return c->ret;
}

#define CHECK_EVENT(fd, ev, x, y, z)							\
	do {										\
		struct u_msg m_ = u_read(fd);						\
		if (m_.event != (ev) || m_.a != (unsigned long)(x) || m_.b != (unsigned long)(y) || m_.c != (unsigned long)(z)) { \
			printf("%s:%d: expected event %x %lx %lx %lx, got %x %lx %lx %lx\n", __FILE__, __LINE__, (unsigned int)(ev), \
			       (unsigned long)(x), (unsigned long)(y), (unsigned long)(z), m_.event, m_.a, m_.b, m_.c); \
			test_failures++;						\
		}									\
	} while (0)

static void wait_until_queued(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	MUST(poll(&p, 1, 10000) == 1);
}

/* The counter goes down when the sender runs again, a little after the read. */
static int copy_patiently(int fd, void *dst)
{
	int ret;

	while ((ret = u_copy(fd, dst, data, PAGE, 0)) && errno == EAGAIN)
		CHECK_EQUAL(-EAGAIN, u_done);
	return ret;
}

static void unmap_and_remove(void)
{
	int fd = u_open(O_NONBLOCK, F_EVENT_REMOVE | F_EVENT_UNMAP);
	char *p = map_alone(8, RW);
	struct call c;
	struct u_copy raw = { (unsigned long)p, (unsigned long)data, PAGE, 0, 0x5555 };

	MUST(u_register(fd, p, 8 * PAGE, U_MISSING) == 0);
	data[0] = 'd';
	CHECK(u_copy(fd, p, data, PAGE, 0) == 0 && u_copy(fd, p + 3 * PAGE, data, PAGE, 0) == 0);
	call_start(&c, SYS_madvise, p, 2 * PAGE, MADV_DONTNEED, 0, NULL);
	wait_until_queued(fd);
	CHECK_ERRNO(EAGAIN, ioctl(fd, U_COPY, &raw));
	CHECK_EQUAL(-EAGAIN, raw.done);
	CHECK_ERRNO(EAGAIN, u_fill(fd, U_ZEROPAGE, p + PAGE, PAGE, 0));
	CHECK_ERRNO(EAGAIN, u_protect(fd, p, PAGE, 1));
	CHECK(u_wake(fd, p, PAGE) == 0 && !c.done && p[0] == 'd');
	CHECK_EVENT(fd, EV_REMOVE, p, p + 2 * PAGE, 0);
	CHECK_EQUAL(0, call_end(&c));
	CHECK(copy_patiently(fd, p) == 0);

	call_start(&c, SYS_munmap, p + 2 * PAGE, 2 * PAGE - 5, 0, 0, NULL);
	wait_until_queued(fd);
	CHECK(!is_mapped(p + 2 * PAGE, PAGE) && !c.done);
	CHECK_EVENT(fd, EV_UNMAP, p + 2 * PAGE, p + 4 * PAGE, 0);
	CHECK_EQUAL(0, call_end(&c));
	call_start(&c, SYS_mmap, p + 4 * PAGE, PAGE, PROT_READ, ANON | MAP_FIXED, (void *)-1);
	CHECK((wait_until_queued(fd), 1));
	CHECK_EVENT(fd, EV_UNMAP, p + 4 * PAGE, p + 5 * PAGE, 0);
	CHECK_EQUAL((long)(p + 4 * PAGE), call_end(&c));

	/* Nobody reads: the end of the descriptor is the end of the wait. */
	call_start(&c, SYS_munmap, p + 6 * PAGE, PAGE, 0, 0, NULL);
	wait_until_queued(fd);
	close(fd);
	CHECK_EQUAL(0, call_end(&c));
	munmap(p, 8 * PAGE);
}

static void remap(void)
{
	int fd = u_open(O_NONBLOCK, F_EVENT_REMAP | F_EVENT_UNMAP), plain = u_open(O_NONBLOCK, 0);
	char *p = map_alone(4, RW), *room = map_alone(8, PROT_NONE), *q = map_alone(2, RW);
	struct toucher t;
	struct call c;

	MUST(u_register(fd, p, 4 * PAGE, U_MISSING) == 0 && u_register(plain, q, 2 * PAGE, U_MISSING | U_WP) == 0);
	data[0] = 'r';
	MUST(u_copy(fd, p, data, PAGE, 0) == 0 && u_copy(plain, q, data, PAGE, 2) == 0);
	call_start(&c, SYS_mremap, p, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
	wait_until_queued(fd);
	CHECK_EVENT(fd, EV_REMAP, p, room, 4 * PAGE);
	wait_until_queued(fd);
	CHECK_EVENT(fd, EV_UNMAP, p, p + 4 * PAGE, 0);
	CHECK_EQUAL((long)room, call_end(&c));
	CHECK_EQUAL('r', room[0]);
	touch_start(&t, room + PAGE, false, 0);
	wait_until_queued(fd);
	CHECK_MSG(u_read(fd), EV_PAGEFAULT, 0, room + PAGE);
	CHECK(copy_patiently(fd, room + PAGE) == 0);
	CHECK_EQUAL('r', touch_end(&t));
	/* Without the feature the new place is plain, protection and all. */
	CHECK(mremap(q, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + 6 * PAGE) == room + 6 * PAGE);
	room[6 * PAGE]++;
	room[7 * PAGE] = 1;
	CHECK(room[6 * PAGE] == 'r' + 1);
	CHECK_ERRNO(ENOENT, u_copy(plain, room + 7 * PAGE, data, PAGE, 0));
	close(fd), close(plain);
	munmap(room, 8 * PAGE);
}

/* The child of a followed fork waits for its parent's manager; the descriptor in the message is that of the child's memory. */
static void forks(void)
{
	int fd = u_open(O_NONBLOCK, F_EVENT_FORK), status, child_fd;
	char *p = map_alone(2, RW), byte;
	struct u_msg m;
	struct call c;

	MUST(u_register(fd, p, 2 * PAGE, U_MISSING) == 0);
	data[0] = 'f';
	MUST(u_copy(fd, p, data, PAGE, 0) == 0);
	call_start(&c, SYS_fork, NULL, 0, 0, 0, NULL);
	wait_until_queued(fd);
	CHECK_ERRNO(EAGAIN, u_copy(fd, p + PAGE, data, PAGE, 0));
	m = u_read(fd);
	CHECK_EQUAL(EV_FORK, m.event);
	child_fd = (int)(unsigned int)m.a;
	call_end(&c);
	MUST(c.ret > 0);
	CHECK((fcntl(child_fd, F_GETFL) & O_NONBLOCK) && child_fd != fd);
	CHECK(copy_patiently(fd, p + PAGE) == 0);
	data[0] = 'c';
	CHECK(copy_patiently(child_fd, p + PAGE) == 0);
	CHECK(p[PAGE] == 'f');
	char path[64];
	snprintf(path, sizeof(path), "/proc/%ld/mem", c.ret);
	int mem = open(path, O_RDONLY);
	CHECK(pread(mem, &byte, 1, (off_t)(unsigned long)(p + PAGE)) == 1 && byte == 'c');
	close(mem);
	kill((pid_t)c.ret, SIGKILL);
	CHECK(waitpid((pid_t)c.ret, &status, 0) == c.ret);
	CHECK_ERRNO(ESRCH, u_copy(child_fd, p, data, PAGE, 0));
	CHECK_ERRNO(ENOMEM, u_register(child_fd, p, PAGE, U_MISSING));
	CHECK(u_wake(child_fd, p, PAGE) == 0);
	close(child_fd);

	close(fd);
	munmap(p, 2 * PAGE);
}

int main(void)
{
	unmap_and_remove();
	remap();
	forks();
	test_end();
}
