/*
 * The completed fault: N first writes to shared file memory are N faults (pgfault, ru_minflt) and N calls of the fault handler,
 * for memory that never waits (G3) and for a file on a disk, by the program, by the kernel on its behalf and by page pinning.
 * dirty_faults_are_entered_twice.c is this program again, under mm.fault_completed=off.
 *
 * only: faultline
 */
#include "dirty_test.h"

#ifndef COMPLETED
#define COMPLETED 1
#endif

#define N	1024l
#define NOISE	(N / 16)	/* faults of others, and of what counts them */

struct counts { long entries, retries, faults, minor; };

static struct counts counts_now(void)
{
	struct rusage use;

	MUST(getrusage(RUSAGE_SELF, &use) == 0);
	return (struct counts){ vmstat("fault_entries"), vmstat("fault_retry"), vmstat("pgfault"), use.ru_minflt + use.ru_majflt };
}

static void is_about(const char *how, const char *what, long expected, long got)
{
	if (got >= expected && got <= expected + NOISE)
		return;
	printf("%s: %s: expected %ld and a few, got %ld\n", how, what, expected, got);
	test_failures++;
}

static void write_bytes(char *p)
{
	for (long i = 0; i < N; i++)
		((volatile char *)p)[i * (long)PAGE] = 1;
}

static void read_into(char *p)
{
	int fd = open("/dev/zero", O_RDONLY);

	for (long i = 0; i < N; i++)
		MUST(read(fd, p + i * (long)PAGE, 1) == 1);
	close(fd);
}

static void pin(char *p)
{
	MUST(madvise(p, N * PAGE, MADV_POPULATE_WRITE) == 0);
}

static void count(const char *how, char *p, void (*dirty)(char *p))
{
	/* Pinning looks at the entry before it calls the handler again, and finds the page: one call, even if it was told to retry. */
	long calls = COMPLETED || dirty == pin ? N : 2 * N, retries = COMPLETED ? 0 : N;
	struct counts before = counts_now();

	dirty(p);

	struct counts after = counts_now();

	is_about(how, "fault_entries", calls, after.entries - before.entries);
	is_about(how, "fault_retry", retries, after.retries - before.retries);
	if (dirty != pin) {		/* pinning is no fault of the program's */
		is_about(how, "pgfault", N, after.faults - before.faults);
		is_about(how, "ru_minflt + ru_majflt", N, after.minor - before.minor);
	}
	munmap(p, N * PAGE);
}

static char *shared_memory(void)
{
	return map_pages(N, RW, MAP_SHARED | MAP_ANONYMOUS);
}

/* The file's pages are in memory; @mapped: here too, for reading, so that the write finds a write-protected entry. */
static char *file_memory(bool mapped)
{
	int fd = make_cached(DISK "/f", N);
	char *p = map_file(fd, N);

	close(fd);
	for (long i = 0; mapped && i < N; i++)
		CHECK_EQUAL(0, ((volatile char *)p)[i * (long)PAGE]);
	return p;
}

int main(void)
{
	mount_disk("");
	vmstat("pgfault");		/* its buffer is there now */
	count("shmem, program", shared_memory(), write_bytes);
	count("shmem, kernel", shared_memory(), read_into);
	count("shmem, pinning", shared_memory(), pin);
	count("delayfs, missing, program", file_memory(false), write_bytes);
	count("delayfs, write-protected, program", file_memory(true), write_bytes);
	count("delayfs, missing, kernel", file_memory(false), read_into);
	count("delayfs, missing, pinning", file_memory(false), pin);
	unlink(DISK "/f");
	CHECK(umount(DISK) == 0);
	test_end();
}
