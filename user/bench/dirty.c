/*
 * Writes one byte to each page of shared memory that nobody has written to before, through a mapping: what does a first
 * write cost, how often was the fault handler called for it, and which locks did it take?
 *
 *	dirty [--mb N] [--reps N] shmem		memory without a file behind it
 *	dirty [--mb N] [--reps N] PATH		a file, whose pages are in the cache already when the writing starts
 *
 * One line a repetition, "name=value" words: ticks of the time-stamp counter (instructions under --icount) and nanoseconds of
 * the writing alone, the growth of counters of /proc/vmstat, and for locks taken by page faults the figures of
 * /proc/lock_stat, meanwhile. A kernel that lacks a counter has none of its word.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE	4096ul

static const char *const counters[] = { "pgfault", "pgmajfault", "fault_entries", "fault_retry", "balance_dirty_wait_ms" };
#define NR_COUNTERS	(sizeof(counters) / sizeof(counters[0]))

struct locks { long mmap, vma, contended, wait_ns; };

static void die(const char *what)
{
	fprintf(stderr, "dirty: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t ticks(void)
{
	uint32_t lo, hi;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ul + (uint64_t)t.tv_nsec;
}

/* -1: this kernel does not count that. */
static void read_counters(long value[NR_COUNTERS])
{
	char name[64];
	long v;
	FILE *f = fopen("/proc/vmstat", "r");

	if (!f)
		die("/proc/vmstat");
	for (size_t i = 0; i < NR_COUNTERS; i++)
		value[i] = -1;
	while (fscanf(f, "%63s %ld", name, &v) == 2) {
		for (size_t i = 0; i < NR_COUNTERS; i++) {
			if (!strcmp(name, counters[i]))
				value[i] = v;
		}
	}
	fclose(f);
}

static int clear_locks(void)
{
	int fd = open("/proc/lock_stat", O_WRONLY);

	if (fd < 0)
		return -1;
	if (write(fd, "0", 1) != 1)
		die("/proc/lock_stat");
	return close(fd);
}

/* What page faults have acquired since. */
static struct locks read_locks(void)
{
	char line[256], class[64], caller[16], mode[16];
	struct locks sum = { 0, 0, 0, 0 };
	long acquired, contended, wait_ns;
	FILE *f = fopen("/proc/lock_stat", "r");

	if (!f)
		die("/proc/lock_stat");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %15s %15s %ld %ld %ld", class, caller, mode, &acquired, &contended, &wait_ns) != 6 ||
		    strcmp(caller, "fault"))
			continue;
		if (!strcmp(class, "MMAP"))
			sum.mmap += acquired;
		if (!strcmp(class, "VMA"))
			sum.vma += acquired;
		sum.contended += contended;
		sum.wait_ns += wait_ns;
	}
	fclose(f);
	return sum;
}

/* A file of @len bytes of holes, all of them pages of the cache: no write below waits for a read. */
static int make_file(const char *path, size_t len)
{
	static char buf[1 << 16];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)len))
		die(path);
	for (ssize_t n; (n = read(fd, buf, sizeof(buf))) != 0; ) {
		if (n < 0)
			die(path);
	}
	return fd;
}

static void repetition(const char *what, size_t len)
{
	int shmem = !strcmp(what, "shmem"), fd = shmem ? -1 : make_file(what, len);
	volatile char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, shmem ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	long before[NR_COUNTERS], after[NR_COUNTERS];

	if (p == MAP_FAILED)
		die("mmap");
	read_counters(before);
	int has_locks = !clear_locks();
	uint64_t ns = now_ns(), t = ticks();

	for (size_t i = 0; i < len; i += PAGE)
		p[i] = 1;
	t = ticks() - t;
	ns = now_ns() - ns;

	struct locks locks = { 0, 0, 0, 0 };
	if (has_locks)
		locks = read_locks();
	read_counters(after);
	printf("pages=%lu ticks=%llu ns=%llu", len / PAGE, (unsigned long long)t, (unsigned long long)ns);
	for (size_t i = 0; i < NR_COUNTERS; i++) {
		if (before[i] >= 0)
			printf(" %s=%ld", counters[i], after[i] - before[i]);
	}
	if (has_locks)
		printf(" mmap_lock=%ld vma_lock=%ld contended=%ld wait_ns=%ld", locks.mmap, locks.vma, locks.contended, locks.wait_ns);
	if (fd >= 0) {
		ns = now_ns();
		if (fsync(fd))
			die("fsync");
		printf(" fsync_ns=%llu", (unsigned long long)(now_ns() - ns));
	}
	putchar('\n');
	fflush(stdout);
	munmap((void *)p, len);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	size_t mb = 400;
	int reps = 7;
	char *const *arg = argv + 1;

	for (; argc > 3 && arg[0] && arg[1] && arg[0][0] == '-'; arg += 2) {
		if (!strcmp(arg[0], "--mb"))
			mb = strtoul(arg[1], NULL, 10);
		else if (!strcmp(arg[0], "--reps"))
			reps = atoi(arg[1]);
		else
			break;
	}
	if (!arg[0] || arg[1] || arg[0][0] == '-' || !mb || reps < 1) {
		fprintf(stderr, "usage: dirty [--mb N] [--reps N] shmem|PATH\n");
		return 2;
	}
	for (int i = 0; i < reps; i++)
		repetition(arg[0], mb << 20);
	return 0;
}
