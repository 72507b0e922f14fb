/*
 * Post-copy migration: a process goes on at another place before its memory has arrived. The source sends its pages over a pipe, in order, and
 * any page that is asked for at once; the destination runs, and asks for each page that it misses.
 *
 *	uffd_migrate [MiB]
 *
 * Two processes here, with nothing in common but two pipes; it would be the same with sockets and two machines.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../uffd.h"
#include "arguments.h"

#define PAGE	4096ul

struct parcel { uint64_t index; char bytes[PAGE]; };

static size_t pages;
static int requests[2], parcels[2];	/* pipes: page numbers to the source; pages to the destination */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void all(ssize_t (*call)(int, void *, size_t), int fd, void *p, size_t n)
{
	for (char *at = p; n; ) {
		ssize_t done = call(fd, at, n);

		if (done <= 0) {
			fprintf(stderr, "the other process is gone\n");
			exit(1);
		}
		at += done;
		n -= (size_t)done;
	}
}

static ssize_t do_write(int fd, void *p, size_t n) { return write(fd, p, n); }

static uint64_t word_of(size_t page, size_t i) { return page * 1000003 + i * 7 + 1; }

/* -- the source -- */

static void send_page(uint64_t *memory, bool *sent, size_t i)
{
	static struct parcel p;

	if (sent[i])			/* on its way already */
		return;
	p.index = i;
	memcpy(p.bytes, (char *)memory + i * PAGE, PAGE);
	all(do_write, parcels[1], &p, sizeof(p));
	sent[i] = true;
}

static void source(void)
{
	uint64_t *memory = malloc(pages * PAGE);
	bool *sent = calloc(pages, sizeof(bool));
	struct pollfd pfd = { .fd = requests[0], .events = POLLIN };
	uint64_t wanted;

	signal(SIGPIPE, SIG_IGN);
	close(requests[1]);
	close(parcels[0]);
	if (!memory || !sent)
		die("malloc");
	for (size_t i = 0; i < pages * PAGE / 8; i++)
		memory[i] = word_of(i / (PAGE / 8), i % (PAGE / 8));
	for (size_t next = 0; next < pages; next++) {
		while (poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLIN)) {
			all(read, requests[0], &wanted, sizeof(wanted));
			send_page(memory, sent, wanted);
		}
		send_page(memory, sent, next);
	}
	exit(0);
}

/* -- the destination -- */

static uint64_t *memory;
static int uffd;
static size_t asked, pushed;

/* Takes pages as they come, and asks for those that are missed. Ends when all have come. */
static void *receiver(void *arg)
{
	static struct parcel p;
	struct pollfd pfd[2] = { { .fd = parcels[0], .events = POLLIN }, { .fd = uffd, .events = POLLIN } };
	bool *here = calloc(pages, 2), *wanted = here + pages;
	struct uffd_msg msg;

	for (size_t left = pages; left; ) {
		if (poll(pfd, 2, -1) < 0)
			die("poll");
		if (pfd[1].revents & POLLIN && read(uffd, &msg, sizeof(msg)) == sizeof(msg)) {
			char *at = (char *)(uintptr_t)msg.arg.pagefault.address;
			uint64_t i = (uint64_t)(at - (char *)memory) / PAGE;

			if (here[i]) {				/* it came while the message was under way */
				uffd_wake(uffd, at, PAGE);
			} else if (!wanted[i]) {
				wanted[i] = true;
				asked++;
				(void)!write(requests[1], &i, sizeof(i));	/* who has sent everything is gone, but it is on its way */
			}
		}
		if (pfd[0].revents) {				/* or there is nobody to send any more */
			all(read, parcels[0], &p, sizeof(p));
			if (uffd_copy(uffd, (char *)memory + p.index * PAGE, p.bytes, PAGE, 0) != (long)PAGE)
				die("UFFDIO_COPY");
			here[p.index] = true;
			pushed += !wanted[p.index];
			left--;
		}
	}
	return arg;
}

/* What the migrated program does: it reads and changes its memory, here and there, long before all of it is here. */
static bool run(void)
{
	size_t wrong = 0;

	for (size_t step = 0; step < pages; step++) {
		size_t page = step * 7919 % pages, i = step % (PAGE / 8);

		wrong += memory[page * PAGE / 8 + i] != word_of(page, i);
		memory[page * PAGE / 8 + i] = ~0ull;
	}
	for (size_t page = 0; page < pages; page++)
		for (size_t i = 0; i < PAGE / 8; i++) {
			uint64_t v = memory[page * PAGE / 8 + i];

			wrong += v != word_of(page, i) && v != ~0ull;
		}
	return wrong == 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int status;

	if (argc > 2)
		usage("uffd_migrate [MiB]");
	pages = number_argument(argc, argv, 1, 4, 1024, "uffd_migrate [MiB]") << 8;
	if (pipe(requests) || pipe(parcels))
		die("pipe");
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		source();
	close(requests[0]);			/* so that each sees when the other is gone */
	close(parcels[1]);
	signal(SIGPIPE, SIG_IGN);
	memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uffd = uffd_open(O_NONBLOCK | O_CLOEXEC, 0);
	if (memory == MAP_FAILED || uffd < 0 || uffd_register(uffd, memory, pages * PAGE, UFFDIO_REGISTER_MODE_MISSING))
		die("userfaultfd");
	pthread_create(&thread, NULL, receiver, NULL);
	bool ok = run();
	pthread_join(thread, NULL);
	waitpid(pid, &status, 0);
	printf("%zu pages: %zu asked for, %zu came by themselves; memory %s\n", pages, asked, pushed, ok ? "right" : "WRONG");
	return !ok || status || asked + pushed != pages || !asked;
}
