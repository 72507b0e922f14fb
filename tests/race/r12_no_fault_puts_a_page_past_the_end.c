/*
 * R12. A fault has seen that its page lies inside the file, and allocates one. Meanwhile the file is truncated; truncation looks for
 * pages to remove and finds none there. The fault must look at the size again before it puts its page in, or the page and its
 * reservation live past the end. Linux 6.12 fails the racing part: there a page of the file turns up past its end within a second.
 *
 * append: hugepages=64
 * build: debug
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * only: faultline
 * fails: hugetlb.sync=none unsafe
 * shows: past the end of the file|an empty file has|after truncation to nothing|PANIC
 */
#include "hugetlb.h"

#define PAGES 6

static char *map;

static void fault(struct racer *r)
{
	long i = rnd(PAGES), value = canary(1, i);
	int sig;

	(void)r;
	sig = touch((volatile long *)(map + (size_t)i * HUGE), true, &value);
	CHECK(sig == 0 || sig == SIGBUS);
	sig = touch((volatile long *)(map + (size_t)i * HUGE), false, &value);
	if (!sig)
		CHECK(value == 0 || value == canary(1, i));
}

/* The only one that changes the size. So when it has become smaller, nothing is left beyond. */
static void cut(struct racer *r)
{
	long keep = rnd(PAGES), value;
	struct stat st;

	(void)r;
	MUST(ftruncate(huge_fd, keep * (long)HUGE) == 0);
	for (long i = keep; i < PAGES; i++) {
		if (touch((volatile long *)(map + (size_t)i * HUGE), false, &value) != SIGBUS) {
			printf("a page past the end of the file can be read, %ld\n", value);
			test_failures++;
		}
	}
	MUST(fstat(huge_fd, &st) == 0);
	CHECK(st.st_blocks <= keep * (long)(HUGE / 512));
	MUST(ftruncate(huge_fd, PAGES * HUGE) == 0);
	sched_yield();
}

static void map_file(void)
{
	huge_fd = huge_memfd(PAGES * HUGE);
	map = map_huge(PAGES, RW, MAP_SHARED, huge_fd);		/* with reservations */
}

static void check_end(struct pool before)
{
	struct stat st;

	MUST(ftruncate(huge_fd, 0) == 0);
	MUST(fstat(huge_fd, &st) == 0);
	if (st.st_blocks) {
		printf("an empty file has %ld blocks\n", (long)st.st_blocks);
		test_failures++;
	}
	pool_must_be("after truncation to nothing", before);
}

static void racing(void)
{
	struct racer racers[] = { { .round = fault }, { .round = fault }, { .round = fault }, { .round = cut } };
	struct pool before = pool_now();

	map_file();
	race(RACE_SECONDS, racers, 4);
	check_end(before);
}

/* -- forced: all of the truncation between the look at the size and the page's arrival -- */

static volatile int fault_signal;

static void fault_last(void *arg)
{
	long value;

	(void)arg;
	fault_signal = touch((volatile long *)(map + (PAGES - 1) * HUGE), false, &value);
}

static void cut_all(void *arg)
{
	(void)arg;
	CHECK(ftruncate(huge_fd, 0) == 0);
}

static void forced(void)
{
	struct actor faulter, cutter;
	struct pool before = pool_now();
	struct stat st;
	long value;

	map_file();
	actor_create(&faulter, fault_last, NULL);
	actor_create(&cutter, cut_all, NULL);
	actor_start_and_hold(&faulter, "hugetlb_page_ready");
	actor_try(&cutter);
	go();
	actor_join(&faulter);
	actor_join(&cutter);
	CHECK(fault_signal == 0 || fault_signal == SIGBUS);
	MUST(fstat(huge_fd, &st) == 0);
	if (st.st_blocks) {
		printf("an empty file has %ld blocks\n", (long)st.st_blocks);
		test_failures++;
	}
	if (touch((volatile long *)(map + (PAGES - 1) * HUGE), false, &value) != SIGBUS) {
		printf("a page past the end of the file can be read, %ld\n", value);
		test_failures++;
	}
	pool_must_be("after truncation to nothing", before);
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
