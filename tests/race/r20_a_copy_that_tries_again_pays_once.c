/*
 * R20. UFFDIO_COPY has a huge page, finds that its source is not there, drops its locks to fetch it and tries again. The page and
 * the promise that it took must not be taken twice; and who copies the same page meanwhile wins, the other learns EEXIST.
 *
 * append: hugepages=64
 * build: debug
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=20
 * shows: the pool has
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

/*
 * -- forced: one copy has found its source missing and is about to fetch it; another copies the same page. The first then comes too late. What
 * it had taken is in the pool while it waits, promise and all, and nothing is taken a second time. --
 */
struct one_copy { struct uffd_copy c; int err; };

static void copy_once(void *arg)
{
	struct one_copy *o = arg;

	o->err = ioctl(uffd, UFFD_COPY, &o->c) ? errno : 0;
}

static void forced(void)
{
	struct pool before = pool_now(), mapped;
	struct actor slow;

	uffd = uffd_open(0);
	huge_fd = huge_memfd(HUGE);
	map = map_huge(1, RW, MAP_SHARED, huge_fd);
	MUST(uffd_register(uffd, map, HUGE, UFFD_MISSING) == 0);
	mapped = pool_now();
	CHECK_EQUAL(before.rsvd + 1, mapped.rsvd);

	struct one_copy missing = { .c = { .dst = (uintptr_t)map, .src = (uintptr_t)map_pages(HUGE / PAGE, RW, ANON), .len = HUGE } };
	struct one_copy present = missing;

	present.c.src = (uintptr_t)map_pages(HUGE / PAGE, RW, ANON | MAP_POPULATE);
	*(volatile long *)present.c.src = canary(1, 0);
	actor_create(&slow, copy_once, &missing);
	actor_start_and_hold(&slow, "uffd_copy_reads_source");
	pool_must_be("while a copy waits for its source", mapped);
	copy_once(&present);
	CHECK_EQUAL(0, present.err);
	CHECK_EQUAL(HUGE, present.c.copy);
	mapped.free--;
	mapped.rsvd--;
	pool_must_be("after the other copy", mapped);
	go();
	actor_join(&slow);
	CHECK_EQUAL(EEXIST, missing.err);
	CHECK_EQUAL(-EEXIST, missing.c.copy);
	CHECK_EQUAL(canary(1, 0), *(volatile long *)map);
	pool_must_be("after the copy that came too late", mapped);
	close(uffd);
	MUST(munmap(map, HUGE) == 0);
	MUST(ftruncate(huge_fd, 0) == 0);
	pool_must_be("with the page gone", before);
}

int main(void)
{
	close(uffd_open(0));		/* or skipped, while nothing has begun */
	run_huge_race(racing, forced, 64);
}
