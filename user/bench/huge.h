/*
 * What hugefault and hugefork have in common: a file of huge pages that all instances map at the same address, which is
 * a multiple of a gigabyte, so that they can share its page tables; processes that begin together and stop at a time;
 * and the line of figures at the end.
 */
#ifndef BENCH_HUGE_H
#define BENCH_HUGE_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HUGE		(2ul << 20)
#define GIB		(1ul << 30)
#define ADDRESS		((char *)0x100000000000ul)
#define MAX_INSTANCES	64

struct options { int instances; size_t size; double seconds; const char *file; int cost; };

/* Shared by all processes of one program. */
struct board {
	volatile int	ready, go;
	struct { volatile long ops, pages; volatile double cpu; } of[MAX_INSTANCES];
};

static const char *program;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program, what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Of this process and of the children that it has waited for. */
static double cpu_seconds(void)
{
	struct rusage a, b;

	if (getrusage(RUSAGE_SELF, &a) || getrusage(RUSAGE_CHILDREN, &b))
		die("getrusage");
	return (double)(a.ru_utime.tv_sec + a.ru_stime.tv_sec + b.ru_utime.tv_sec + b.ru_stime.tv_sec) +
	       (double)(a.ru_utime.tv_usec + a.ru_stime.tv_usec + b.ru_utime.tv_usec + b.ru_stime.tv_usec) / 1e6;
}

static size_t parse_size(const char *text)
{
	char *end;
	size_t n = strtoul(text, &end, 0);

	if (*end == 'G' || *end == 'g')
		n <<= 30;
	else if (*end == 'M' || *end == 'm')
		n <<= 20;
	if (!n || n % HUGE) {
		fprintf(stderr, "%s: the size must be a multiple of 2M\n", program);
		exit(2);
	}
	return n;
}

static struct options parse_options(int argc, char **argv)
{
	struct options o = { 1, 64ul << 20, 1, NULL, 0 };
	int c;

	program = argv[0];
	while ((c = getopt(argc, argv, "n:s:t:f:c")) != -1) {
		switch (c) {
		case 'n':	o.instances = atoi(optarg); break;
		case 's':	o.size = parse_size(optarg); break;
		case 't':	o.seconds = atof(optarg); break;
		case 'f':	o.file = optarg; break;
		case 'c':	o.cost = 1; break;
		default:	exit(2);
		}
	}
	if (o.instances < 1 || o.instances > MAX_INSTANCES || o.seconds <= 0) {
		fprintf(stderr, "usage: %s [-n INSTANCES] [-s SIZE] [-t SECONDS] [-f FILE of a hugetlbfs]\n", program);
		exit(2);
	}
	return o;
}

/* A file that two programs can share, or one of our own. */
static int open_file(const struct options *o)
{
	int fd = o->file ? open(o->file, O_RDWR | O_CREAT, 0600) :
		 (int)syscall(SYS_memfd_create, "bench", 4u /* MFD_HUGETLB */ | 21u << 26);

	if (fd < 0)
		die(o->file ? o->file : "memfd_create");
	if (ftruncate(fd, (off_t)o->size))
		die("ftruncate");
	return fd;
}

static char *map_file(int fd, size_t size)
{
	char *p = mmap(ADDRESS, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);

	if (p != ADDRESS)
		die("mmap");
	return p;
}

/* Runs @work in each instance, from one moment on, until the time is over; then prints the sums. */
static void run_instances(const struct options *o, const char *unit, long (*work)(int instance, long round, struct board *b),
			  struct board *b)
{
	double begin, elapsed, cpu = 0, slowest = -1;
	long ops = 0, pages = 0;

	fflush(stdout);
	for (int i = 0; i < o->instances; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid)
			continue;
		__atomic_add_fetch(&b->ready, 1, __ATOMIC_RELEASE);
		while (!b->go)
			sched_yield();
		begin = now();
		double cpu_before = cpu_seconds();
		for (long round = 1; now() - begin < o->seconds; round++)
			b->of[i].ops += work(i, round, b);
		b->of[i].cpu = cpu_seconds() - cpu_before;
		_exit(0);
	}
	while (b->ready < o->instances)
		sched_yield();
	begin = now();
	b->go = 1;
	for (int i = 0, status; i < o->instances; i++) {
		if (wait(&status) < 0)
			die("wait");
		if (status) {
			fprintf(stderr, "%s: an instance ended with status %x\n", program, (unsigned)status);
			exit(1);
		}
	}
	elapsed = now() - begin;
	for (int i = 0; i < o->instances; i++) {
		ops += b->of[i].ops;
		pages += b->of[i].pages;
		cpu += b->of[i].cpu;
		if (slowest < 0 || (double)b->of[i].ops < slowest)
			slowest = (double)b->of[i].ops;
	}
	printf("unit=%s instances=%d mb=%zu elapsed_ms=%.0f cpu_ms=%.0f ops=%ld per_cpu_second=%.0f slowest=%.3f\n", unit, o->instances,
	       o->size >> 20, elapsed * 1e3, cpu * 1e3, ops, cpu > 0 ? (double)ops / cpu : 0,
	       ops ? slowest * o->instances / (double)ops : 0);
}

#endif
