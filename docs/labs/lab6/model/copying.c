/* COPY: exact results for the whole, for a part and for nothing; its waiters; write-only memory; and no memory is lost. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 4 };

static int fd;
static char *area;
static char from[PAGES * PAGE];
static volatile int writer_done;

struct copy { uint64_t dst, src, len, mode; int64_t copied; };

static void die(const char *why)
{
	puts(why);
	exit(1);
}

/* The errno; *copied: what is reported. */
static int copy(const char *to, uint64_t len, int64_t *copied)
{
	struct copy c = { (uintptr_t)to, (uintptr_t)from, len, 0, 12345 };
	int error = ioctl(fd, 0xc028aa03u, &c) ? errno : 0;

	*copied = c.copied;
	return error;
}

static void expect(int error, int64_t copied, int got_error, int64_t got_copied, const char *what)
{
	if (error != got_error || copied != got_copied) {
		printf("%s: errno %d, copied %lld\n", what, got_error, (long long)got_copied);
		exit(1);
	}
}

static void enroll(char *p, uint64_t len)
{
	uint64_t reg[4] = { (uintptr_t)p, len, 1, 0 };

	if (ioctl(fd, 0xc020aa00u, reg))
		die("register");
}

static void *write_to(void *p)
{
	*(volatile char *)p = 'w';
	writer_done = 1;
	return NULL;
}

static void wait_for_writer(pthread_t t, const char *why)
{
	for (int i = 0; i < 300 && !writer_done; i++)
		usleep(1000);
	if (!writer_done)
		die(why);
	pthread_join(t, NULL);
	writer_done = 0;
}

static long free_kb(void)
{
	char text[4096], *found;
	int f = open("/proc/meminfo", O_RDONLY);
	ssize_t n = read(f, text, sizeof(text) - 1);

	close(f);
	text[n > 0 ? n : 0] = '\0';
	found = strstr(text, "MemFree:");
	return found ? atol(found + 8) : 0;
}

int main(void)
{
	uint64_t api[3] = { 0xaa, 0, 0 };
	int64_t copied;
	int error;
	char *plain, *write_only;
	pthread_t t;

	memset(from, 'f', sizeof(from));
	fd = (int)syscall(SYS_userfaultfd, O_NONBLOCK);
	area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	plain = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	write_only = mmap(NULL, PAGE, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fd < 0 || ioctl(fd, 0xc018aa3fu, api))
		die("userfaultfd");
	enroll(area, PAGES * PAGE);
	enroll(write_only, PAGE);

	error = copy(area + 2 * PAGE, PAGE, &copied);
	expect(0, PAGE, error, copied, "one page");
	error = copy(area + 2 * PAGE, PAGE, &copied);
	expect(EEXIST, -EEXIST, error, copied, "a page that is there");
	error = copy(plain, PAGE, &copied);
	expect(ENOENT, -ENOENT, error, copied, "memory that is not registered");

	pthread_create(&t, NULL, write_to, area);
	usleep(20000);
	error = copy(area, PAGES * PAGE, &copied);
	expect(EAGAIN, 2 * PAGE, error, copied, "four pages, the third is there");
	wait_for_writer(t, "a COPY that did a part wakes nobody");
	if (area[0] != 'w' || area[1] != 'f' || area[PAGE] != 'f')
		die("the bytes are not there");

	pthread_create(&t, NULL, write_to, write_only);
	usleep(20000);
	error = copy(write_only, PAGE, &copied);
	expect(0, PAGE, error, copied, "write-only memory");
	wait_for_writer(t, "the page is there, and its writer faults for ever");

	long before = free_kb();
	for (int i = 0; i < 3000; i++)
		copy(area, PAGE, &copied);
	if (before - free_kb() > 4000)
		die("refused COPYs lose memory");
	return 0;
}
