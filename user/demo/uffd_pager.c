/*
 * A pager: memory that looks like a file, filled page by page when it is touched. mmap of a file, made in user space.
 *
 *	uffd_pager [FILE]
 */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../uffd.h"
#include "arguments.h"

#define PAGE	4096ul

static int file, uffd;
static char *memory;
static size_t len, served;
static volatile bool stop;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* One fault after the other: read that page of the file, and give it to whoever waits. */
static void *pager(void *arg)
{
	static char page[PAGE];
	struct pollfd pfd = { .fd = uffd, .events = POLLIN };
	struct uffd_msg msg;

	while (!stop) {
		if (poll(&pfd, 1, 10) != 1 || read(uffd, &msg, sizeof(msg)) != sizeof(msg))
			continue;
		char *at = (char *)(uintptr_t)msg.arg.pagefault.address;

		memset(page, 0, PAGE);			/* what lies behind the end of the file */
		if (pread(file, page, PAGE, at - memory) < 0)
			die("pread");
		long n = uffd_copy(uffd, at, page, PAGE, 0);
		if (n == -EEXIST)			/* another thread had missed the same page */
			uffd_wake(uffd, at, PAGE);
		else if (n < 0)
			die("UFFDIO_COPY");
		else
			served++;
	}
	return arg;
}

static unsigned sum_of(const unsigned char *p, size_t n, unsigned sum)
{
	while (n--)
		sum = sum * 31 + *p++;
	return sum;
}

static unsigned in_memory[2];

/* Two of them walk the memory from both ends at once. */
static void *reader(void *arg)
{
	bool backwards = arg != NULL;
	size_t pages = len / PAGE;
	unsigned sum = 0;

	for (size_t i = 0; i < pages; i++)
		(void)*(volatile char *)(memory + (backwards ? pages - 1 - i : i) * PAGE);
	sum = sum_of((unsigned char *)memory, len, 0);
	in_memory[backwards] = sum;
	return NULL;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "/proc/self/exe";
	static unsigned char buf[PAGE];
	pthread_t threads[3];
	struct stat st;
	unsigned sum = 0;

	if (argc > 2)
		usage("uffd_pager [FILE]");
	file = open(name, O_RDONLY | O_NONBLOCK);	/* a pipe would wait for its writer */
	if (file < 0 || fstat(file, &st))
		die(name);
	if (!S_ISREG(st.st_mode) || !st.st_size) {
		fprintf(stderr, "%s: %s\n", name, S_ISREG(st.st_mode) ? "empty" : "not a regular file");
		return 1;
	}
	len = ((size_t)st.st_size + PAGE - 1) & -PAGE;
	memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uffd = uffd_open(O_NONBLOCK | O_CLOEXEC, 0);
	if (memory == MAP_FAILED || uffd < 0 || uffd_register(uffd, memory, len, UFFDIO_REGISTER_MODE_MISSING))
		die("userfaultfd");
	pthread_create(&threads[0], NULL, pager, NULL);
	pthread_create(&threads[1], NULL, reader, NULL);
	pthread_create(&threads[2], NULL, reader, &len);
	pthread_join(threads[1], NULL);
	pthread_join(threads[2], NULL);
	stop = true;
	pthread_join(threads[0], NULL);

	for (size_t at = 0; at < len; at += PAGE) {
		memset(buf, 0, PAGE);
		if (pread(file, buf, PAGE, (off_t)at) < 0)
			die("pread");
		sum = sum_of(buf, PAGE, sum);
	}
	printf("%s: %zu pages, %zu served, sums %08x %08x %08x\n", name, len / PAGE, served, in_memory[0], in_memory[1], sum);
	return in_memory[0] != sum || in_memory[1] != sum || served != len / PAGE;
}
