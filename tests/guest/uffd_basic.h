/* For the uffd_basic*.c programs: one descriptor, one message, one call. */
#ifndef UFFD_BASIC_H
#define UFFD_BASIC_H

#include "mm_test.h"

#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>

/* Numbers and layouts are written out: a test of an ABI does not take them from a header that may be older than the ABI. */
#define UFFD_API_MAGIC		0xAAul
#define U_REGISTER		0xC020AA00ul
#define U_UNREGISTER		0x8010AA01ul
#define U_WAKE			0x8010AA02ul
#define U_COPY			0xC028AA03ul
#define U_ZEROPAGE		0xC020AA04ul
#define U_MOVE			0xC028AA05ul
#define U_WRITEPROTECT		0xC018AA06ul
#define U_CONTINUE		0xC020AA07ul
#define U_POISON		0xC020AA08ul
#define U_API			0xC018AA3Ful
#define U_MISSING		1
#define U_WP			2
#define U_MINOR			4
#define F_EVENT_FORK		(1ul << 1)
#define F_EVENT_REMAP		(1ul << 2)
#define F_EVENT_REMOVE		(1ul << 3)
#define F_EVENT_UNMAP		(1ul << 6)
#define F_SIGBUS		(1ul << 7)
#define F_THREAD_ID		(1ul << 8)
#define F_EXACT_ADDRESS		(1ul << 11)
#define F_WP_UNPOPULATED	(1ul << 13)
#define F_WP_ASYNC		(1ul << 15)
#define F_ALL			0x1fffful
#define EV_PAGEFAULT		0x12
#define EV_FORK			0x13
#define EV_REMAP		0x14
#define EV_REMOVE		0x15
#define EV_UNMAP		0x16
#define PF_WRITE		1
#define PF_WP			2
#define PF_MINOR		4

struct u_api { unsigned long api, features, ioctls; };
struct u_range { unsigned long start, len; };
struct u_register { unsigned long start, len, mode, ioctls; };
struct u_copy { unsigned long dst, src, len, mode; long done; };
struct u_fill { unsigned long start, len, mode; long done; };
struct u_wp { unsigned long start, len, mode; };
struct u_msg { unsigned char event, zero[7]; unsigned long a, b, c; };

__attribute__((unused))
static int u_open(int flags, unsigned long features)
{
	struct u_api api = { UFFD_API_MAGIC, features, 0 };
	int fd = (int)syscall(SYS_userfaultfd, flags);

	MUST(fd >= 0 && ioctl(fd, U_API, &api) == 0);
	return fd;
}

__attribute__((unused))
static int u_register(int fd, const void *p, size_t len, int mode)
{
	struct u_register r = { (unsigned long)p, len, (unsigned long)mode, 0 };

	return ioctl(fd, U_REGISTER, &r);
}

__attribute__((unused))
static int u_unregister(int fd, const void *p, size_t len)
{
	struct u_range r = { (unsigned long)p, len };

	return ioctl(fd, U_UNREGISTER, &r);
}

__attribute__((unused))
static int u_wake(int fd, const void *p, size_t len)
{
	struct u_range r = { (unsigned long)p, len };

	return ioctl(fd, U_WAKE, &r);
}

static long u_done;		/* what the last call below reported */

__attribute__((unused))
static int u_copy(int fd, void *dst, const void *src, size_t len, int mode)
{
	struct u_copy c = { (unsigned long)dst, (unsigned long)src, len, (unsigned long)mode, 0x5555 };
	int ret = ioctl(fd, U_COPY, &c);

	u_done = c.done;
	return ret;
}

__attribute__((unused))
static int u_move(int fd, void *dst, const void *src, size_t len, int mode)
{
	struct u_copy c = { (unsigned long)dst, (unsigned long)src, len, (unsigned long)mode, 0x5555 };
	int ret = ioctl(fd, U_MOVE, &c);

	u_done = c.done;
	return ret;
}

__attribute__((unused))
static int u_fill(int fd, unsigned long which, void *dst, size_t len, int mode)
{
	struct u_fill c = { (unsigned long)dst, len, (unsigned long)mode, 0x5555 };
	int ret = ioctl(fd, which, &c);

	u_done = c.done;
	return ret;
}

__attribute__((unused))
static int u_protect(int fd, const void *p, size_t len, int mode)
{
	struct u_wp w = { (unsigned long)p, len, (unsigned long)mode };

	return ioctl(fd, U_WRITEPROTECT, &w);
}

__attribute__((unused))
static struct u_msg u_read(int fd)
{
	struct u_msg m;

	MUST(read(fd, &m, sizeof(m)) == sizeof(m));
	return m;
}

/* -- a thread that touches one byte, and how far it has come -- */

struct toucher {
	pthread_t	 thread;
	volatile char	*p;
	bool		 write;
	char		 value;		/* to write, or what was read */
	volatile int	 tid, done;
};

static void *touch_thread(void *arg)
{
	struct toucher *t = arg;

	t->tid = (int)syscall(SYS_gettid);
	if (t->write)
		*t->p = t->value;
	else
		t->value = *t->p;
	t->done = 1;
	return NULL;
}

__attribute__((unused))
static void touch_start(struct toucher *t, void *p, bool write, char value)
{
	*t = (struct toucher){ .p = p, .write = write, .value = value };
	MUST(pthread_create(&t->thread, NULL, touch_thread, t) == 0);
}

__attribute__((unused))
static char touch_end(struct toucher *t)
{
	MUST(pthread_join(t->thread, NULL) == 0);
	return t->value;
}

#define CHECK_MSG(m, ev, flags, at)							\
	do {										\
		struct u_msg m_ = (m);							\
		if (m_.event != (ev) || m_.a != (unsigned long)(flags) || m_.b != (unsigned long)(at)) { \
			printf("%s:%d: %s: expected event %x flags %lx at %lx, got event %x flags %lx at %lx\n", __FILE__, __LINE__, #m, \
			       (unsigned int)(ev), (unsigned long)(flags), (unsigned long)(at), m_.event, m_.a, m_.b); \
			test_failures++;						\
		}									\
	} while (0)

#endif
