/*
 * A snapshot of memory that goes on being written: all of it is write-protected, and who wants to write waits until his page has
 * been saved.
 *
 *	uffd_snapshot [MiB] [SNAPSHOTS]
 *
 * Protecting takes a while, and writers run meanwhile. Why is the image that of one moment all the same? A write is in the image if and only if it
 * came before its page was protected. Whoever comes too late waits, and nobody is let go before the last page is protected:
 * so nothing that depends on a missing write can be in the image. That is why one thread does both, first all of the
 * protecting, then the saving. The check: each writer numbers its pages round by round, so an image shows one number, or one
 * up to some page and the number before it from there.
 */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../uffd.h"
#include "arguments.h"

#define PAGE	4096ul
#define WRITERS	2

static char *memory, *image;
static bool *saved;
static size_t pages, by_fault;		/* pages of each writer; saved because somebody waited */
static int uffd;
static volatile bool stop;
static volatile uint64_t rounds[WRITERS];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *writer(void *arg)
{
	uintptr_t id = (uintptr_t)arg;

	for (uint64_t round = 1; !stop; round++) {
		for (size_t i = 0; i < pages; i++) {
			volatile uint64_t *p = (volatile uint64_t *)(memory + (id * pages + i) * PAGE);

			p[0] = round;
			p[PAGE / 8 - 1] = round;
		}
		rounds[id] = round;
	}
	return NULL;
}

static void save(size_t i)
{
	if (saved[i])
		return;
	memcpy(image + i * PAGE, memory + i * PAGE, PAGE);
	saved[i] = true;
	if (uffd_writeprotect(uffd, memory + i * PAGE, PAGE, 0))		/* and wakes */
		die("UFFDIO_WRITEPROTECT");
}

static void snapshot(void)
{
	struct uffd_msg msg;

	memset(saved, 0, WRITERS * pages);
	if (uffd_writeprotect(uffd, memory, WRITERS * pages * PAGE, UFFDIO_WRITEPROTECT_MODE_WP))
		die("UFFDIO_WRITEPROTECT");
	for (size_t next = 0; next < WRITERS * pages; next++) {
		while (read(uffd, &msg, sizeof(msg)) == sizeof(msg)) {
			by_fault++;
			save((msg.arg.pagefault.address - (uintptr_t)memory) / PAGE);
		}
		save(next);
	}
}

/* The number falls at most once along a writer's pages, and by one; a page is never torn between two rounds in the wrong order. */
static bool is_one_moment(void)
{
	for (size_t w = 0; w < WRITERS; w++) {
		uint64_t at = 0;
		int falls = 0;

		for (size_t i = 0; i < pages; i++) {
			uint64_t *p = (uint64_t *)(image + (w * pages + i) * PAGE), value[2] = { p[0], p[PAGE / 8 - 1] };

			for (int k = 0; k < 2; k++) {
				if ((i || k) && value[k] != at) {
					falls++;
					if (value[k] + 1 != at)
						return false;
				}
				at = value[k];
			}
		}
		if (falls > 1)
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	static const char line[] = "uffd_snapshot [MiB] [SNAPSHOTS]";
	int snapshots = (int)number_argument(argc, argv, 2, 12, 100000, line), good = 0;
	pthread_t threads[WRITERS];
	size_t len;

	if (argc > 3)
		usage(line);
	pages = number_argument(argc, argv, 1, 1, 1024, line) * 256 / WRITERS;
	len = WRITERS * pages * PAGE;
	memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	image = malloc(len);
	saved = malloc(WRITERS * pages);
	uffd = uffd_open(O_NONBLOCK | O_CLOEXEC, UFFD_FEATURE_PAGEFAULT_FLAG_WP);
	if (memory == MAP_FAILED || !image || !saved || uffd < 0)
		die("memory");
	memset(memory, 0, len);			/* a missing page has nothing to protect */
	if (uffd_register(uffd, memory, len, UFFDIO_REGISTER_MODE_WP))
		die("UFFDIO_REGISTER");
	for (uintptr_t i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, writer, (void *)i);
	for (int i = 0; i < snapshots; i++) {
		usleep(2000);
		snapshot();
		good += is_one_moment();
	}
	/* Who waits for a page that was saved already has been woken with it; so they all come to their end. */
	stop = true;
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	printf("%d of %d images are of one moment; %zu pages saved for a waiting writer; rounds %llu %llu\n", good, snapshots, by_fault,
	       (unsigned long long)rounds[0], (unsigned long long)rounds[1]);
	return good != snapshots || !by_fault;
}
