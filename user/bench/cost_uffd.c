/*
 * The userfaultfd rows of user/bench/cost.c: a page fault that another thread of the program serves, on one CPU. An operation is all
 * of it: the fault, the message, the manager's read, what he does, the wake-up, two switches, and the return to the access.
 */
#define _GNU_SOURCE
#include "cost.h"

#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE		4096ul
#define UFFDIO_REGISTER		0xC020AA00ul
#define UFFDIO_UNREGISTER	0x8010AA01ul
#define UFFDIO_COPY		0xC028AA03ul
#define UFFDIO_WRITEPROTECT	0xC018AA06ul
#define UFFDIO_CONTINUE		0xC020AA07ul
#define UFFDIO_API		0xC018AA3Ful
#define MODE_MISSING		1ul
#define MODE_WP			2ul
#define MODE_MINOR		4ul

struct message { uint64_t event, flags, address, rest; };

/* -- the manager: a thread that serves @left faults by @serve -- */

struct manager {
	int		fd;
	unsigned long	left;
	void		(*serve)(int fd, uint64_t page);
};

static void call(int fd, unsigned long which, void *arg)
{
	if (ioctl(fd, which, arg))
		die("userfaultfd ioctl");
}

static void *manage(void *arg)
{
	struct manager *m = arg;
	struct message msg;

	for (; m->left; m->left--) {
		if (read(m->fd, &msg, sizeof(msg)) != sizeof(msg))
			die("read of userfaultfd");
		m->serve(m->fd, msg.address & ~(PAGE - 1));
	}
	return NULL;
}

static void serve_copy(int fd, uint64_t page)
{
	static char contents[PAGE] __attribute__((aligned(4096)));
	uint64_t req[5] = { page, (uint64_t)contents, PAGE, 0, 0 };

	call(fd, UFFDIO_COPY, req);
}

static void serve_unprotect(int fd, uint64_t page)
{
	uint64_t req[3] = { page, PAGE, 0 };

	call(fd, UFFDIO_WRITEPROTECT, req);
}

static void serve_continue(int fd, uint64_t page)
{
	uint64_t req[4] = { page, PAGE, 0, 0 };

	call(fd, UFFDIO_CONTINUE, req);
}

/* -- one repetition -- */

static int open_uffd(void)
{
	uint64_t api[3] = { 0xAA, 0, 0 };
	int fd = (int)syscall(SYS_userfaultfd, 0);

	if (fd < 0)
		die("userfaultfd");
	call(fd, UFFDIO_API, api);
	return fd;
}

static void register_range(int fd, void *p, size_t len, uint64_t modes)
{
	uint64_t req[4] = { (uint64_t)p, len, modes, 0 };

	call(fd, UFFDIO_REGISTER, req);
}

/* Touches @n pages at @p, each of which the manager serves. */
static uint64_t served(char *p, unsigned long n, int fd, void (*serve)(int fd, uint64_t page))
{
	struct manager m = { fd, n, serve };
	pthread_t thread;

	if (pthread_create(&thread, NULL, manage, &m))
		die("pthread_create");
	usleep(1000);			/* he waits in read */
	uint64_t start = ticks();
	for (unsigned long i = 0; i < n; i++)
		((volatile char *)p)[i * PAGE] = 1;
	uint64_t t = ticks() - start;
	pthread_join(thread, NULL);
	close(fd);
	return t;
}

uint64_t run_uffd_missing(unsigned long n)
{
	char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open_uffd();

	if (p == MAP_FAILED)
		die("mmap");
	register_range(fd, p, n * PAGE, MODE_MISSING);
	uint64_t t = served(p, n, fd, serve_copy);
	munmap(p, n * PAGE);
	return t;
}

uint64_t run_uffd_wp(unsigned long n)
{
	char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t protect[3] = { (uint64_t)p, n * PAGE, 1 };
	int fd = open_uffd();

	if (p == MAP_FAILED)
		die("mmap");
	for (unsigned long i = 0; i < n; i++)
		p[i * PAGE] = 1;
	register_range(fd, p, n * PAGE, MODE_WP);
	call(fd, UFFDIO_WRITEPROTECT, protect);
	uint64_t t = served(p, n, fd, serve_unprotect);
	munmap(p, n * PAGE);
	return t;
}

uint64_t run_uffd_minor(unsigned long n)
{
	int mem = (int)syscall(SYS_memfd_create, "cost", 0), fd = open_uffd();

	if (mem < 0 || ftruncate(mem, (off_t)(n * PAGE)))
		die("memfd");
	char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
	char *side = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
	if (p == MAP_FAILED || side == MAP_FAILED)
		die("mmap");
	for (unsigned long i = 0; i < n; i++)
		side[i * PAGE] = 1;
	register_range(fd, p, n * PAGE, MODE_MINOR);
	uint64_t t = served(p, n, fd, serve_continue);
	munmap(p, n * PAGE);
	munmap(side, n * PAGE);
	close(mem);
	return t;
}

/* Both calls for one whole VMA. */
uint64_t run_uffd_register(unsigned long n)
{
	char *room = mmap(NULL, 18 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *p = room + PAGE;
	uint64_t range[2] = { (uint64_t)p, 16 * PAGE };
	int fd = open_uffd();

	if (room == MAP_FAILED || mprotect(p, 16 * PAGE, PROT_READ | PROT_WRITE))
		die("mmap");
	uint64_t start = ticks();
	for (unsigned long i = 0; i < n; i++) {
		register_range(fd, p, 16 * PAGE, MODE_MISSING);
		call(fd, UFFDIO_UNREGISTER, range);
	}
	uint64_t t = ticks() - start;
	close(fd);
	munmap(room, 18 * PAGE);
	return t;
}
