/* For the dirty_*.c programs: a delayfs on /tmp/disk, the limits of dirty memory, and the counters that tell what happened. */
#ifndef DIRTY_TEST_H
#define DIRTY_TEST_H

#include <pthread.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <time.h>

#include "mm_test.h"

#define DISK	"/tmp/disk"

#define vmstat(key)	proc_number("/proc/vmstat", (key))

__attribute__((unused))
static void mount_disk(const char *options)
{
	mkdir(DISK, 0755);
	MUST(mount("none", DISK, "delayfs", 0, options) == 0);
}

__attribute__((unused))
static void change_disk(const char *options)
{
	MUST(mount("none", DISK, "delayfs", MS_REMOUNT, options) == 0);
}

/* Bytes; 0: the defaults. Both are the system's: put them back at the end. */
__attribute__((unused))
static void set_dirty_limits(unsigned long limit, unsigned long background)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu", limit);
	write_file("/proc/sys/vm/dirty_bytes", text);
	snprintf(text, sizeof(text), "%lu", background);
	write_file("/proc/sys/vm/dirty_background_bytes", text);
}

__attribute__((unused))
static long now_ms(void)
{
	struct timespec t;

	MUST(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((unused))
static void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&t, &t))
		;
}

/* A new file of @pages holes, all of them in the page cache and clean: a first write is a fault, but waits for no read. */
__attribute__((unused))
static int make_cached(const char *path, size_t pages)
{
	static char buf[1 << 16];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	ssize_t n;

	MUST(fd >= 0 && ftruncate(fd, (off_t)(pages * PAGE)) == 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		;
	MUST(n == 0);
	return fd;
}

__attribute__((unused))
static char *map_file(int fd, size_t pages)
{
	char *p = mmap(NULL, pages * PAGE, RW, MAP_SHARED, fd, 0);

	MUST(p != MAP_FAILED);
	return p;
}

__attribute__((unused))
static void must_be_clean(void)
{
	CHECK_EQUAL(0, vmstat("nr_dirty"));
	CHECK_EQUAL(0, vmstat("nr_writeback"));
}

/* The same, for a file that is gone: whoever used it last may still be waiting for its pages, to free them. */
__attribute__((unused))
static void must_become_clean(void)
{
	long start = now_ms();

	while (vmstat("nr_dirty") + vmstat("nr_writeback") && now_ms() - start < 20000)
		sleep_ms(10);
	must_be_clean();
}

#endif
