/*
 * Rows of cost.c: faults on huge pages that the file already has. The pool is filled when the first row asks for it.
 */
#define _GNU_SOURCE
#include "cost.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HUGE		(2ul << 20)
#define GIB		(1ul << 30)
#define PAGES		48
#define AT		((char *)0x600000000000ul)
#define MEMFD_HUGETLB	4u

/* A file of 1 GiB of which the first PAGES huge pages are there. */
static int populated_file(void)
{
	static int fd = -1;

	if (fd >= 0)
		return fd;
	int pool = open("/proc/sys/vm/nr_hugepages", O_WRONLY);

	if (pool < 0 || write(pool, "50", 2) != 2)
		die("nr_hugepages");
	close(pool);
	fd = (int)syscall(SYS_memfd_create, "cost", MEMFD_HUGETLB);
	if (fd < 0 || ftruncate(fd, GIB) || fallocate(fd, 0, 0, PAGES * HUGE))
		die("a file of huge pages");
	return fd;
}

/* Maps @len, touches the first PAGES huge pages, unmaps; ticks for the touching of all but the first, or (@whole) for everything. */
static uint64_t map_and_touch(unsigned long rounds, size_t len, int whole)
{
	int fd = populated_file();
	uint64_t t = 0;

	for (; rounds; rounds--) {
		uint64_t start = ticks();
		volatile char *p = mmap(AT, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);

		if (p != AT)
			die("mmap");
		p[0] = 1;
		uint64_t first = ticks();
		for (unsigned long i = 1; i < PAGES; i++)
			p[i * HUGE] = 1;
		uint64_t last = ticks();
		munmap(AT, len);
		t += whole ? ticks() - start : last - first;
	}
	return t;
}

/* One fault for each page: less than a GiB is mapped, so no table can be shared. */
uint64_t run_huge_refault(unsigned long n) { return map_and_touch(n / (PAGES - 1), PAGES * HUGE, 0); }
/* Per huge page: all of a GiB is mapped, touched where there are pages, and unmapped. */
uint64_t run_huge_map_touch_unmap(unsigned long n) { return map_and_touch(n / PAGES, GIB, 1); }
