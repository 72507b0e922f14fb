/*
 * R21. A file's promises are a list of ranges. Adding to it may need memory, for which its lock is dropped; who comes back must look
 * at the list anew, for others have changed it. In the end each page is promised or there exactly once.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=21
 * shows: the pool has
 */
#include "hugetlb.h"

#define PAGES 24
#define THREADS 6

static void map_a_part(struct racer *r)
{
	long from = rnd(PAGES), n = 1 + rnd((unsigned)(PAGES - from)), value;
	char *p = mmap(NULL, (size_t)n * HUGE, RW, MAP_SHARED, huge_fd, from * (long)HUGE);

	(void)r;
	MUST(p != MAP_FAILED);			/* there is enough for all of the file, always */
	if (rnd(3) == 0)
		CHECK_EQUAL(0, touch((volatile long *)(p + (size_t)rnd((unsigned)n) * HUGE), false, &value));
	MUST(munmap(p, (size_t)n * HUGE) == 0);
}

static void allocate_and_punch(struct racer *r)
{
	long i = rnd(PAGES), n = 1 + rnd(3);

	(void)r;
	if (i + n > PAGES)
		n = PAGES - i;
	if (rnd(2))
		CHECK(fallocate(huge_fd, 0, i * (long)HUGE, n * (long)HUGE) == 0);
	else
		CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, i * (long)HUGE, n * (long)HUGE) == 0);
}

static void racing(void)
{
	struct racer racers[THREADS];
	struct pool before = pool_now(), full;
	struct stat st;

	huge_fd = huge_memfd(PAGES * HUGE);
	for (int i = 0; i < THREADS; i++)
		racers[i] = (struct racer){ .round = i < THREADS - 2 ? map_a_part : allocate_and_punch };
	race(RACE_SECONDS, racers, THREADS);

	/* Now all of it is promised, so what is not there is reserved, page by page. */
	char *p = map_huge(PAGES, RW, MAP_SHARED, huge_fd);
	MUST(fstat(huge_fd, &st) == 0);
	long there = st.st_blocks / (long)(HUGE / 512);
	full = (struct pool){ before.total, before.free - there, before.rsvd + PAGES - there, before.surp };
	pool_must_be("with all of the file mapped", full);
	for (int i = 0; i < PAGES; i++)
		(void)*(volatile long *)(p + (size_t)i * HUGE);
	full = (struct pool){ before.total, before.free - PAGES, before.rsvd, before.surp };
	pool_must_be("with all of the file there", full);
	MUST(munmap(p, PAGES * HUGE) == 0 && ftruncate(huge_fd, 0) == 0);
	pool_must_be("after truncation to nothing", before);
}

/*
 * -- forced: one has counted what is missing and is about to be charged for it; meanwhile a page is put there, which needs no promise any
 * more. By fallocate: another mmap would wait for the same mmap_lock. --
 */
static void map_all(void *arg)
{
	(void)arg;
	map_huge(PAGES, RW, MAP_SHARED, huge_fd);
}

static void forced(void)
{
	struct pool before = pool_now();
	struct actor first;

	huge_fd = huge_memfd(PAGES * HUGE);
	actor_create(&first, map_all, NULL);
	actor_start_and_hold(&first, "hugetlb_reserve_counted");
	CHECK(fallocate(huge_fd, 0, 3 * (off_t)HUGE, HUGE) == 0);
	go();
	actor_join(&first);
	before.free--;
	before.rsvd += PAGES - 1;
	pool_must_be("with one page there and the others promised", before);
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
