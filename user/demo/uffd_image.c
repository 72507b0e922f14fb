/*
 * The memory of another program, out of an image: restored lazily, and written back by need. The program makes the memory, the descriptor and the
 * registration, starts us with the descriptor open, and goes on working; all of its pages are still missing.
 *
 *	uffd_image UFFD IMAGE BASE PAGES	BASE in hexadecimal. Ends when standard input does, and then says
 *	dirty N...				which pages are no longer what the image says
 *
 * The descriptor: MISSING and WP, EVENT_REMOVE and EVENT_UNMAP. What we do:
 *
 *	a page is missing	it gets the image's bytes, zeros behind the end of it; protected, unless it is to be written to
 *	a page is written to	it is dirty; the protection goes
 *	REMOVE			the program has dropped its pages: they are zeros from now on, whatever the image says, and dirty
 *	UNMAP			they are no concern of ours any more: not dirty, and nobody will ask
 *
 * The rule that is easy to break: while an event is on its way, whatever we know of the memory may be wrong, and the kernel refuses to fill (EAGAIN).
 * The fault must then wait until the event has been read, and be decided anew. It is kept, not woken: faults are delivered before
 * events, so one that asks again and again could keep the event from us for ever.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../uffd.h"

#define PAGE		4096ul
#define MAX_PAGES	65536ul
#define MAX_LATER	256		/* threads of the program that can wait at once; more would be an error of its */

enum page_state { OF_IMAGE, DIRTY, REMOVED, UNMAPPED };

static int uffd, image;
static uintptr_t base;
static size_t pages;
static unsigned char state[MAX_PAGES];		/* enum page_state */

/* Faults that could not be served while an event was on its way. */
static struct { uintptr_t at; bool write; } later[MAX_LATER];
static size_t nr_later;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static size_t number_of(uintptr_t at)
{
	return (at - base) / PAGE;
}

/* The page of the image, in a buffer of ours. */
static const char *read_image(size_t n)
{
	static char page[PAGE];
	size_t done = 0;

	memset(page, 0, PAGE);
	while (done < PAGE) {
		ssize_t got = pread(image, page + done, PAGE - done, (off_t)(n * PAGE + done));

		if (got < 0)
			die("image");
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return page;
}

/* Supplies the page at @at to who wants to read it or to @write. False: not now, an event is on its way. */
static bool serve_missing(uintptr_t at, bool write)
{
	size_t n = number_of(at);
	long done;

	if (state[n] == REMOVED) {
		done = uffd_zeropage(uffd, (void *)at, PAGE, 0);
	} else {
		done = uffd_copy(uffd, (void *)at, read_image(n), PAGE, write ? 0 : UFFDIO_COPY_MODE_WP);
		if (done > 0 && write)
			state[n] = DIRTY;
	}
	if (done == -EAGAIN)
		return false;
	if (done == -EEXIST)				/* another thread missed it too, and was served */
		uffd_wake(uffd, (void *)at, PAGE);
	else if (done < 0 && done != -ENOENT && done != -ESRCH)		/* those: it is gone, and so is who wanted it */
		die("fill");
	return true;
}

/* Somebody writes to a protected page: from now on it may differ. False: not now. */
static bool serve_write(uintptr_t at)
{
	size_t n = number_of(at);

	if (uffd_writeprotect(uffd, (void *)at, PAGE, 0)) {
		if (errno == EAGAIN)
			return false;
		if (errno != ENOENT && errno != ESRCH)
			die("unprotect");
		return true;
	}
	if (state[n] == OF_IMAGE)
		state[n] = DIRTY;
	return true;
}

/* What has become of [start, end), as far as it is ours. */
static void set_state(uintptr_t start, uintptr_t end, enum page_state s)
{
	for (uintptr_t at = start < base ? base : start; at < end && number_of(at) < pages; at += PAGE)
		state[number_of(at)] = (unsigned char)s;
}

/* One message; nothing that it asks for is forgotten. */
static void serve(const struct uffd_msg *msg)
{
	uintptr_t at = (uintptr_t)msg->arg.pagefault.address & -PAGE;
	bool served = true, write = msg->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE;

	switch (msg->event) {
	case UFFD_EVENT_PAGEFAULT:
		served = msg->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP ? serve_write(at) : serve_missing(at, write);
		break;
	case UFFD_EVENT_REMOVE:
		set_state(msg->arg.remove.start, msg->arg.remove.end, REMOVED);
		break;
	case UFFD_EVENT_UNMAP:
		set_state(msg->arg.remove.start, msg->arg.remove.end, UNMAPPED);
		break;
	}
	if (served)
		return;
	if (nr_later == MAX_LATER)
		die("too many faults");
	later[nr_later].at = at;
	later[nr_later++].write = write;
}

/* What had to wait, once more. Woken, a thread asks anew, by what is true then: so the kind of its fault need not be remembered. */
static void serve_later(void)
{
	for (size_t i = nr_later; i-- > 0; )
		if (serve_missing(later[i].at, later[i].write))
			later[i] = later[--nr_later];
}

static void report(void)
{
	printf("dirty");
	for (size_t n = 0; n < pages; n++)
		if (state[n] == DIRTY || state[n] == REMOVED)
			printf(" %zu", n);
	printf("\n");
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	uffd = atoi(argv[1]);
	image = open(argv[2], O_RDONLY | O_CLOEXEC);
	base = strtoul(argv[3], NULL, 16);
	pages = strtoul(argv[4], NULL, 10);
	if (image < 0 || !base || !pages || pages > MAX_PAGES)
		die(argv[2]);
	for (;;) {
		struct pollfd p[2] = { { .fd = uffd, .events = POLLIN }, { .fd = 0, .events = POLLIN } };
		struct uffd_msg msg;

		if (poll(p, 2, nr_later ? 1 : -1) < 0 && errno != EINTR)
			die("poll");
		if ((p[0].revents & POLLIN) && read(uffd, &msg, sizeof(msg)) == sizeof(msg))
			serve(&msg);
		else if (p[1].revents && !nr_later)
			break;
		serve_later();
	}
	report();
	return 0;
}
