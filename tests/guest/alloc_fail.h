/* Allocations that fail on demand (/sys/kernel/faultline/alloc_fail), and what is in use. */
#ifndef TESTS_GUEST_ALLOC_FAIL_H
#define TESTS_GUEST_ALLOC_FAIL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "test.h"

static int fail_fd;

static void alloc_fail_open(void)
{
	fail_fd = open("/sys/kernel/faultline/alloc_fail", O_RDWR);
	MUST(fail_fd >= 0);
}

/* The @n-th allocation from here on fails; 0: none. */
static void fail_at(int n)
{
	char text[16];
	int len = sprintf(text, "%d", n);

	/* This write allocates too, and may be the one to fail. */
	for (int i = 0; i < 2; i++)
		if (pwrite(fail_fd, text, (size_t)len, 0) == len)
			return;
	MUST(0);
}

/* Frames in use and bytes in slabs, once everything that waits to be freed is. */
static void usage(long *frames, long *slab)
{
	char buf[256] = "";
	int fd = open("/sys/kernel/faultline/leaks", O_RDONLY);

	MUST(fd >= 0 && read(fd, buf, sizeof(buf) - 1) > 0);
	close(fd);
	MUST(sscanf(buf, "frames_used %ld\nslab %ld", frames, slab) == 2);
}

__attribute__((unused))
static long frames_used(void)
{
	long frames, slab;

	usage(&frames, &slab);
	return frames;
}

#endif
