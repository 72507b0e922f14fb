/*
 * R20. UFFDIO_COPY has a huge page, finds that its source is not there, drops its locks to fetch it and tries again. The page and
 * the promise that it took must not be taken twice; and who copies the same page meanwhile wins, the other learns EEXIST.
 *
 * append: hugepages=64
 * build: debug
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 */
#include "huge_uffd.h"

#define PAGES 2
#define COPIERS 4

static int uffd;
static char *map;

/* From a source of its own that is not there just now. */
static void copy(struct racer *r)
{
	static __thread char *source;
	long i = rnd(PAGES);
	struct uffd_copy c = { .dst = (uintptr_t)map + (size_t)i * HUGE, .len = HUGE, .copy = 77 };

	if (!source)
		source = map_pages(HUGE / PAGE, RW, ANON);
	MUST(madvise(source, HUGE, MADV_DONTNEED) == 0);
	*(volatile long *)(source + HUGE - 8) = canary(1, r->id);	/* the end is there, the beginning is not */
	c.src = (uintptr_t)source;
	if (ioctl(uffd, UFFD_COPY, &c)) {
		CHECK(errno == EEXIST || errno == EAGAIN || errno == ENOMEM);
		CHECK(c.copy == -errno || c.copy == 77);
	} else {
		CHECK_EQUAL(HUGE, c.copy);
	}
}

static void drop(struct racer *r)
{
	(void)r;
	if (rnd(2))
		CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGES * HUGE) == 0);
	else
		MUST(madvise(map, PAGES * HUGE, MADV_DONTNEED) == 0);
	sched_yield();
}

/* All or nothing: a page that is there has its end. Read by a call, which waits for nobody. */
static void look(struct racer *r)
{
	long i = rnd(PAGES), value = 0;

	(void)r;
	if (pread(huge_fd, &value, sizeof(value), (i + 1) * (long)HUGE - 8) == sizeof(value))
		CHECK(value == 0 || (value >= canary(1, 0) && value < canary(1, COPIERS)));
	sched_yield();
}

static void racing(void)
{
	struct racer racers[COPIERS + 2];
	struct pool before = pool_now();

	uffd = uffd_open(0);
	huge_fd = huge_memfd(PAGES * HUGE);
	map = map_huge(PAGES, RW, MAP_SHARED, huge_fd);
	MUST(uffd_register(uffd, map, PAGES * HUGE, UFFD_MISSING) == 0);
	for (int i = 0; i < COPIERS; i++)
		racers[i] = (struct racer){ .round = copy };
	racers[COPIERS] = (struct racer){ .round = drop };
	racers[COPIERS + 1] = (struct racer){ .round = look };
	race(RACE_SECONDS, racers, COPIERS + 2);
	close(uffd);
	MUST(munmap(map, PAGES * HUGE) == 0);
	MUST(ftruncate(huge_fd, 0) == 0);
	pool_must_be("after truncation to nothing", before);
}

int main(void)
{
	close(uffd_open(0));		/* or skipped, while nothing has begun */
	run_huge_race(racing, NULL, 64);
}
