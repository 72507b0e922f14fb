/* Who waits for a page is woken by it, and by nothing else; a signal is handled meanwhile. Also in the moment before the fault is queued. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 6 };
#define UFFD_API_IOCTL	0xc018aa3fu
#define UFFD_REGISTER	0xc020aa00u
#define UFFD_WAKE	0x8010aa02u
#define UFFD_ZERO	0xc020aa04u

static int fd;
static char *area;
static volatile int handled;

static void die(const char *why)
{
	puts(why);
	exit(1);
}

static void zero(int from, int n)
{
	uint64_t z[4] = { (uintptr_t)area + (uint64_t)from * PAGE, (uint64_t)n * PAGE, 0, 0 };

	if (ioctl(fd, UFFD_ZERO, z))
		die("zeropage");
}

/* The address of the next message; 0 when none comes within @ms. */
static uint64_t message(int ms)
{
	struct pollfd p = { fd, POLLIN, 0 };
	uint64_t m[4];

	if (poll(&p, 1, ms) != 1 || read(fd, m, sizeof(m)) != sizeof(m))
		return 0;
	return m[2];
}

struct thread {
	pthread_t	 id;
	int		 page;
	volatile int	 done;
};

static void *reader(void *arg)
{
	struct thread *t = arg;

	(void)*(volatile char *)(area + t->page * PAGE);
	t->done = 1;
	return NULL;
}

static void start(struct thread *t, int page, int read_message)
{
	*t = (struct thread){ .page = page };
	pthread_create(&t->id, NULL, reader, t);
	if (read_message && message(2000) != (uintptr_t)area + (uint64_t)page * PAGE)
		die("no message");
	usleep(5000);
}

static void finish(struct thread *t, const char *why)
{
	for (int i = 0; i < 300 && !t->done; i++)
		usleep(1000);
	if (!t->done)
		die(why);
	pthread_join(t->id, NULL);
}

static void on_signal(int sig)
{
	(void)sig;
	handled = 1;
}

/* The debug kernel stops a thread at a named place; on others this does nothing. */
static int window(const char *command)
{
	int f = open("/sys/kernel/faultline/race", O_WRONLY), ok;

	if (f < 0)
		return 0;
	ok = write(f, command, strlen(command)) > 0;
	close(f);
	return ok;
}

static void filled_before_it_is_queued(void)
{
	struct thread t;

	if (!window("hold uffd_before_queue until filled"))
		return;
	start(&t, 5, 0);
	usleep(20000);
	zero(5, 1);
	window("pass filled");
	finish(&t, "a fault waits for a page that is there");
	window("clear");
}

int main(void)
{
	struct thread a, b, c;
	uint64_t api[3] = { 0xaa, 0, 0 }, reg[4];
	struct sigaction sa = { .sa_handler = on_signal };

	fd = (int)syscall(SYS_userfaultfd, O_NONBLOCK);
	area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg[0] = (uintptr_t)area;
	reg[1] = PAGES * PAGE;
	reg[2] = 1;
	if (fd < 0 || ioctl(fd, UFFD_API_IOCTL, api) || ioctl(fd, UFFD_REGISTER, reg))
		die("userfaultfd");

	filled_before_it_is_queued();
	start(&a, 0, 1);
	start(&b, 3, 1);
	start(&c, 1, 0);		/* its message stays unread */
	zero(0, 2);
	finish(&a, "a fault whose message was read is not woken");
	finish(&c, "a fault whose message was not read is not woken");
	if (message(20))
		die("a fault was woken for nothing, or its message stays behind");
	if (b.done)
		die("a fault ended without its page");
	zero(3, 1);
	finish(&b, "the last one is not woken");

	sigaction(SIGUSR1, &sa, NULL);
	start(&a, 4, 1);
	pthread_kill(a.id, SIGUSR1);
	for (int i = 0; i < 200 && !handled; i++)
		usleep(1000);
	if (!handled)
		die("no signal is handled while a fault waits");
	message(500);			/* it asks again */
	zero(4, 1);
	finish(&a, "a fault that was interrupted is not woken");
	return 0;
}
