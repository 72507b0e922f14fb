/*
 * Page faults take the lock of their VMA and not mmap_lock, which /proc/lock_stat counts: at most once per VMA that had
 * no anon_vma, and never later (SEMANTICS C7, C12), with one thread and beside threads that map and unmap.
 * only: faultline
 * cpus: 2
 * mem: 2G
 * timeout: 120
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "test.h"

#define FAULTERS 8
#define MAPPERS 4
#define RANGE (4ul << 20)

/* Acquisitions of mmap_lock by faults since the counters were cleared, both modes. */
static long mmap_locks_by_faults(void)
{
	char class[32], caller[32], mode[32], line[256];
	unsigned long acquired;
	long sum = 0;
	FILE *f = fopen("/proc/lock_stat", "r");

	MUST(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%31s %31s %31s %lu", class, caller, mode, &acquired) == 4 && !strcmp(class, "MMAP") &&
		    !strcmp(caller, "fault"))
			sum += (long)acquired;
	fclose(f);
	return sum;
}

static void clear_counters(void)
{
	int fd = open("/proc/lock_stat", O_WRONLY);

	MUST(fd >= 0 && write(fd, "0", 1) == 1);
	close(fd);
}

static void touch(char *p, size_t len)
{
	for (size_t i = 0; i < len; i += 4096)
		((volatile char *)p)[i] = 1;
}

static void one_thread_one_gib(void)
{
	size_t len = 1ul << 30;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED);
	mmap_locks_by_faults();		/* the pages of stdio are there before the count begins */
	clear_counters();
	touch(p, len);
	long n = mmap_locks_by_faults();
	if (n > 1)
		printf("one thread: %ld acquisitions for %zu faults\n", n, len / 4096);
	CHECK(n <= 1);
	munmap(p, len);
}

static volatile int stop, ready;

/*
 * The range has a forbidden page on either side: what the mappers map next to it would merge with it otherwise, and a VMA
 * that changes its bounds is write-locked, by Linux's rules and by ours.
 */
static void *faulter(void *unused)
{
	char *p = mmap(NULL, RANGE + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)unused;
	MUST(p != MAP_FAILED);
	p += 4096;
	MUST(mprotect(p, RANGE, PROT_READ | PROT_WRITE) == 0);
	touch(p, 4096);
	__atomic_add_fetch(&ready, 1, __ATOMIC_RELAXED);
	while (!stop) {
		touch(p, RANGE);
		madvise(p, RANGE, MADV_DONTNEED);
	}
	munmap(p - 4096, RANGE + 2 * 4096);
	return NULL;
}

static void *mapper(void *unused)
{
	(void)unused;
	__atomic_add_fetch(&ready, 1, __ATOMIC_RELAXED);
	while (!stop) {
		char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		MUST(p != MAP_FAILED);
		munmap(p, 65536);
	}
	return NULL;
}

static void many_threads(void)
{
	pthread_t t[FAULTERS + MAPPERS];

	for (int i = 0; i < FAULTERS + MAPPERS; i++)
		MUST(pthread_create(&t[i], NULL, i < FAULTERS ? faulter : mapper, NULL) == 0);
	while (ready < FAULTERS + MAPPERS)
		usleep(1000);
	mmap_locks_by_faults();
	clear_counters();
	sleep(2);
	long n = mmap_locks_by_faults();
	if (n)
		printf("%d threads fault, %d map: %ld acquisitions\n", FAULTERS, MAPPERS, n);
	CHECK(n <= FAULTERS);
	stop = 1;
	for (int i = 0; i < FAULTERS + MAPPERS; i++)
		pthread_join(t[i], NULL);
}

int main(void)
{
	one_thread_one_gib();
	many_threads();
	test_end();
}
