/*
 * R25. The pool is made smaller by the pages that are free and not promised. If the count is taken first and the pages are freed
 * afterwards, somebody is promised them in between, and gets SIGBUS later.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=25
 * shows: pages are promised
 */
#include "hugetlb.h"

#define PAGES 8

static void set_pool(long pages)
{
	char text[16];
	int fd = open("/proc/sys/vm/nr_hugepages", O_WRONLY), len = snprintf(text, sizeof(text), "%ld", pages);

	MUST(fd >= 0 && write(fd, text, (size_t)len) == len);
	close(fd);
}

static void resize(struct racer *r)
{
	(void)r;
	set_pool(POOL - PAGES);
	sched_yield();
	set_pool(POOL);
}

static void map_and_touch(struct racer *r)
{
	size_t pages = (size_t)PAGES / 2 + rnd(PAGES / 2 + 1);
	long value = 1;
	char *p = mmap(NULL, pages * HUGE, RW, r->id % 2 ? HUGE_ANON : MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (p == MAP_FAILED) {
		CHECK_EQUAL(ENOMEM, errno);
		sched_yield();
		return;
	}
	for (size_t i = 0; i < pages; i++) {
		int sig = touch((volatile long *)(p + i * HUGE), true, &value);

		if (sig) {
			printf("signal %d for a page that was promised\n", sig);
			__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);
		}
	}
	MUST(munmap(p, pages * HUGE) == 0);
}

static void check_pool_back(void)
{
	set_pool(POOL);
	/* Memory may be in pieces just now: the kernel may take a second try, but not lose pages for good. */
	for (int i = 0; i < 20 && meminfo("HugePages_Total") != POOL; i++) {
		sleep_ms(50);
		set_pool(POOL);
	}
	CHECK_EQUAL(POOL, meminfo("HugePages_Total"));
}

static void racing(void)
{
	struct racer racers[] = { { .round = resize }, { .round = map_and_touch }, { .round = map_and_touch } };
	size_t len;

	leave_in_pool(PAGES, &len);
	race(RACE_SECONDS, racers, 3);
	check_pool_back();
}

/* -- forced: one page has gone and more are to go, when all that are free are promised -- */

static void shrink(void *arg)
{
	(void)arg;
	set_pool(POOL - PAGES);
}

static void forced(void)
{
	struct actor shrinker;
	size_t len;
	long value = 1;

	leave_in_pool(PAGES, &len);
	actor_create(&shrinker, shrink, NULL);
	actor_start_and_hold(&shrinker, "hugetlb_pool_shrinks");
	char *p = mmap(NULL, (PAGES - 1) * HUGE, RW, HUGE_ANON, -1, 0);
	go();
	actor_join(&shrinker);
	struct pool is = pool_now();
	if (is.rsvd > is.free) {
		printf("%ld pages are promised, %ld are free\n", is.rsvd, is.free);
		test_failures++;
	}
	MUST(p != MAP_FAILED);
	for (int i = 0; i < PAGES - 1; i++)
		CHECK_EQUAL(0, touch((volatile long *)(p + (size_t)i * HUGE), true, &value));
	MUST(munmap(p, (PAGES - 1) * HUGE) == 0);
	check_pool_back();
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
