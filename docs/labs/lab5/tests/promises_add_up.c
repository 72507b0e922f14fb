/*
 * What is promised at mmap, when a promise turns into a page, and when it comes back: for private mappings and for files, also when
 * ranges overlap, mappings are cut, the pool does not suffice, or two threads promise the same pages at once.
 * append: hugepages=40 hugetlb.sync=i_mmap
 * build: debug
 */
#include "lab5.h"

#define PRIVATE		HUGE_ANON

static void private_mappings(void)
{
	char *p = map_huge(4, RW, PRIVATE, -1);

	CHECK_POOL(0, 4);
	*word_of(p, 1) = 1;
	CHECK_POOL(1, 3);
	CHECK(madvise(p + HUGE, HUGE, MADV_DONTNEED) == 0);	/* the mapping still is entitled to four */
	CHECK_POOL(0, 4);
	CHECK_EQUAL(0, *word_of(p, 1));
	CHECK_POOL(1, 3);
	CHECK(munmap(p + 2 * HUGE, HUGE) == 0);			/* a promise that was not used */
	CHECK_POOL(1, 2);
	*word_of(p, 3) = 1;
	CHECK_POOL(2, 1);
	CHECK(munmap(p + HUGE, HUGE) == 0);			/* one that was */
	CHECK_POOL(1, 1);
	CHECK(munmap(p, HUGE) == 0 && munmap(p + 3 * HUGE, HUGE) == 0);
	CHECK_POOL(0, 0);
	p = map_huge(3, RW, PRIVATE | MAP_NORESERVE, -1);
	CHECK_POOL(0, 0);
	*word_of(p, 0) = 1;
	CHECK_POOL(1, 0);
	CHECK(munmap(p, 3 * HUGE) == 0);
	check_pool_is_back("private mappings");
}

static void files(void)
{
	int fd = huge_memfd(2 * GIB);
	char *p = map_at(fd, 0, 4, RW, MAP_SHARED), *q, *far;

	CHECK_POOL(0, 4);
	q = map_at(fd, 2, 4, RW, MAP_SHARED);			/* two of these were promised before */
	CHECK_POOL(0, 6);
	*word_of(p, 2) = 7;
	CHECK_POOL(1, 5);
	CHECK_EQUAL(7, *word_of(q, 0));
	CHECK_POOL(1, 5);
	CHECK(munmap(q, 4 * HUGE) == 0);			/* the file keeps its promises */
	CHECK_POOL(1, 5);
	punch(fd, 2);
	CHECK_POOL(0, 5);
	CHECK_EQUAL(0, *word_of(p, 2));				/* again, and without a promise this time */
	CHECK_POOL(1, 5);
	/* Across the words and the chunks of the map: what is there needs no promise, what is promised no second one. */
	far = map_at(fd, 60, 8, RW, MAP_SHARED);
	CHECK_POOL(1, 13);
	*word_of(far, 3) = *word_of(far, 4) = 1;
	CHECK_POOL(3, 11);
	q = map_at(fd, 62, 4, RW, MAP_SHARED);
	CHECK_POOL(3, 11);
	CHECK(munmap(q, 4 * HUGE) == 0 && munmap(far, 8 * HUGE) == 0);
	q = map_at(fd, 510, 5, RW, MAP_SHARED);
	CHECK_POOL(3, 16);
	*word_of(q, 1) = *word_of(q, 2) = 1;
	CHECK_POOL(5, 14);
	CHECK(ftruncate(fd, 3 * (off_t)HUGE) == 0);
	CHECK_POOL(1, 2);
	CHECK(munmap(q, 5 * HUGE) == 0 && munmap(p, 4 * HUGE) == 0);
	CHECK(close(fd) == 0);
	check_pool_is_back("a file");
}

/* Nothing has changed when mmap fails, and what can just be promised is. */
static void too_much(void)
{
	int fd = huge_memfd(GIB);
	size_t all = (size_t)(at_first.free - at_first.rsvd);
	char *p = map_at(fd, 0, all - 2, RW, MAP_SHARED), *q;

	CHECK_POOL(0, all - 2);
	CHECK_ERRNO(ENOMEM, map_at(fd, all - 4, 5, RW, MAP_SHARED));
	CHECK_ERRNO(ENOMEM, mmap(NULL, 3 * HUGE, RW, PRIVATE, -1, 0));
	CHECK_POOL(0, all - 2);
	q = map_at(fd, all - 4, 4, RW, MAP_SHARED);
	CHECK(q != MAP_FAILED);
	CHECK_POOL(0, all);
	/* Who was promised nothing gets nothing, though all pages are free; who was, does. */
	char *r = map_huge(1, RW, PRIVATE | MAP_NORESERVE, -1);
	long value = 1;
	CHECK_EQUAL(SIGBUS, touch(word_of(r, 0), true, &value));
	for (size_t i = 0; i < 4; i++)
		CHECK_EQUAL(0, touch(word_of(q, i), true, &value));
	CHECK_POOL(4, all - 4);
	CHECK(munmap(p, (all - 2) * HUGE) == 0 && munmap(q, 4 * HUGE) == 0 && munmap(r, HUGE) == 0 && close(fd) == 0);
	check_pool_is_back("a pool that does not suffice");
}

/*
 * One thread maps a file and has counted what is missing; another one brings a page in, without a promise; then the first goes on. What it
 * has charged too much must go back.
 */
static int both_fd;

static void map_it(void *arg)
{
	*(char **)arg = map_at(both_fd, 0, 8, RW, MAP_SHARED);
}

static void at_once(void)
{
	struct actor mapper;
	char *before, *p = NULL;

	both_fd = huge_memfd(8 * HUGE);
	before = map_at(both_fd, 0, 8, RW, MAP_SHARED | MAP_NORESERVE);
	*word_of(before, 0) = 1;
	CHECK_POOL(1, 0);
	actor_create(&mapper, map_it, &p);
	hold("hugetlb_reserve_counted", mapper.tid);
	mapper.start = 1;
	while (!mapper.done && !is_held_now("hugetlb_reserve_counted"))
		race_relax();
	*word_of(before, 3) = 1;
	go();
	actor_join(&mapper);
	clear_windows();
	CHECK(p != MAP_FAILED);
	CHECK_POOL(2, 6);
	CHECK(munmap(p, 8 * HUGE) == 0 && munmap(before, 8 * HUGE) == 0 && close(both_fd) == 0);
	check_pool_is_back("a promise and a fault at once");
}

int main(void)
{
	catch_touch_faults();
	clear_windows();
	pool_begin();
	private_mappings();
	files();
	too_much();
	at_once();
	test_end();
}
