/*
 * R57 with huge pages. /proc/self/mem writes where the mapping may not by copying a page first. For huge pages there is no such
 * copy: the write is refused (H9), and the read-only file stays as it is, whatever happens beside.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=57
 * shows: expected -1 and errno 5|the read-only file
 */
#include "hugetlb.h"

static int mem;
static volatile long *map;

static void check_file(void)
{
	long value = 0;

	MUST(pread(huge_fd, &value, sizeof(value), 0) == sizeof(value));
	if (value != canary(1, 0)) {
		printf("the read-only file has become %lx\n", value);
		test_failures++;
	}
}

static void write_by_force(struct racer *r)
{
	(void)r;
	CHECK_ERRNO(EIO, pwrite(mem, "EVIL", 4, (off_t)(uintptr_t)map));
}

static void drop(struct racer *r)
{
	(void)r;
	MUST(madvise((void *)map, HUGE, MADV_DONTNEED) == 0);
}

static void look(struct racer *r)
{
	(void)r;
	CHECK_EQUAL(canary(1, 0), *map);
	check_file();
	sched_yield();
}

static void racing(void)
{
	struct racer racers[] = { { .round = write_by_force }, { .round = drop }, { .round = look } };

	make_huge_file(1);
	map = (volatile long *)map_huge(1, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, huge_fd);
	mem = open("/proc/self/mem", O_RDWR);
	MUST(mem >= 0);
	race(RACE_SECONDS, racers, 3);
	check_file();
}

int main(void)
{
	run_huge_race(racing, NULL, 32);
}
