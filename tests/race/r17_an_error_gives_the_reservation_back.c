/*
 * R17. A fault takes a reserved page and then cannot use it: another one was faster, the file was cut, memory for the page cache is
 * short. The page goes back, and with it must go the reservation, in the file's or the mapping's map and in the pool. One that is
 * lost is missing for ever; one that is given back twice is promised to two.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=17
 * shows: the pool has
 */
#include "hugetlb.h"

#define PAGES 4

static char *shared, *private;

/* In the debug kernel: the n-th allocation of this task from now on fails. */
static void fail_at(int n)
{
	static __thread int fd = -1;
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", n);

	if (!have_windows())
		return;
	if (fd < 0)
		fd = open("/sys/kernel/faultline/alloc_fail", O_RDWR);
	MUST(fd >= 0);
	while (pwrite(fd, text, (size_t)len, 0) != len)
		MUST(errno == ENOMEM);
}

/*
 * By calls that report what went wrong, not by faults, which on lack of memory would end the process: fallocate, MADV_POPULATE_WRITE and
 * mmap, each with an allocation that fails somewhere, or for want of pages, or because the file is cut.
 */
static void allocate(struct racer *r)
{
	long i = rnd(PAGES);

	fail_at((int)(r->rounds % 12) + 1);
	switch (rnd(4)) {
	case 0:
		(void)fallocate(huge_fd, 0, i * (long)HUGE, HUGE);
		break;
	case 1:
		(void)madvise(shared + (size_t)i * HUGE, HUGE, MADV_POPULATE_WRITE);
		break;
	case 2:
		(void)madvise(private + (size_t)i * HUGE, HUGE, MADV_POPULATE_WRITE);
		break;
	default: {
		char *p = mmap(NULL, 2 * HUGE, RW, MAP_SHARED, huge_fd, i * (long)HUGE);
		fail_at(0);
		if (p != MAP_FAILED)
			MUST(munmap(p, 2 * HUGE) == 0);
	}
	}
	fail_at(0);
}

static void cut(struct racer *r)
{
	(void)r;
	switch (rnd(3)) {
	case 0:
		MUST(ftruncate(huge_fd, 0) == 0 && ftruncate(huge_fd, (PAGES + 1) * HUGE) == 0);
		break;
	case 1:
		MUST(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, rnd(PAGES) * HUGE, HUGE) == 0);
		break;
	default:
		MUST(madvise(private, PAGES * HUGE, MADV_DONTNEED) == 0);
	}
	sched_yield();
}

static void racing(void)
{
	struct racer racers[] = { { .round = allocate }, { .round = allocate }, { .round = allocate }, { .round = cut } };
	struct pool before = pool_now();
	struct stat st;

	huge_fd = huge_memfd((PAGES + 1) * HUGE);
	shared = map_huge(PAGES, RW, MAP_SHARED, huge_fd);
	private = map_huge(PAGES, RW, HUGE_ANON, -1);
	race(RACE_SECONDS, racers, 4);
	MUST(munmap(shared, PAGES * HUGE) == 0 && munmap(private, PAGES * HUGE) == 0);
	MUST(ftruncate(huge_fd, 0) == 0 && fstat(huge_fd, &st) == 0);
	CHECK_EQUAL(0, st.st_blocks);
	pool_must_be("after truncation to nothing", before);
}

int main(void)
{
	run_huge_race(racing, NULL, 64);
}
