/*
 * A fault brings the page of the file, or a new one, empty; a private mapping gets a copy when it writes, and pages of its own behind
 * holes. After fork the owner of the pages never fails, whoever else has them; and every page comes back to the pool.
 * append: hugepages=40 hugetlb.sync=i_mmap
 * build: debug
 */
#include "lab5.h"

#define PAGES	4ul

/* Pages that were written and given back are empty when they come again. */
static void pages_are_empty(void)
{
	char *p = map_huge(PAGES, RW, HUGE_ANON, -1);

	for (size_t i = 0; i < PAGES; i++)
		write_canary(p + i * HUGE, canary(3, (long)i));
	MUST(munmap(p, PAGES * HUGE) == 0);
	p = map_huge(PAGES, RW, HUGE_ANON, -1);
	for (size_t i = 0; i < PAGES; i++)
		CHECK_EQUAL(0, *word_of(p, i) | word_of(p, i)[1000] | word_of(p, i)[HUGE_LONGS - 1]);
	MUST(munmap(p, PAGES * HUGE) == 0);
	check_pool_is_back("empty pages");
}

static void shared_pages(void)
{
	int fd = huge_memfd(PAGES * HUGE);
	char *p = map_at(fd, 0, PAGES, RW, MAP_SHARED), *q = map_at(fd, 0, PAGES, PROT_READ, MAP_SHARED);
	long before = faults(), value = 0;

	for (size_t i = 0; i < PAGES; i++)
		CHECK_EQUAL(0, *word_of(p, i));
	CHECK_EQUAL((long)PAGES, faults() - before);
	for (size_t i = 0; i < PAGES; i++)
		write_canary(p + i * HUGE, canary(1, (long)i));
	for (size_t i = 0; i < PAGES; i++) {
		CHECK_EQUAL(canary(1, (long)i), word_of(q, i)[1000]);
		CHECK_EQUAL(frame_of(word_of(p, i)), frame_of(word_of(q, i)));
		MUST(pread(fd, &value, sizeof(value), (off_t)((i + 1) * HUGE - sizeof(value))) == sizeof(value));
		CHECK_EQUAL(canary(1, (long)i), value);
	}
	CHECK_EQUAL(SIGSEGV, touch(word_of(q, 0), true, &value));
	MUST(munmap(p, PAGES * HUGE) == 0 && munmap(q, PAGES * HUGE) == 0 && close(fd) == 0);
	check_pool_is_back("shared pages");
}

static void private_copies(void)
{
	int fd = huge_memfd(PAGES * HUGE);
	char *s = map_at(fd, 0, 2, RW, MAP_SHARED), *p;
	struct stat st;

	write_canary(s, canary(1, 0));
	write_canary(s + HUGE, canary(1, 1));
	p = map_at(fd, 0, PAGES, RW, MAP_PRIVATE);
	CHECK_EQUAL(canary(1, 0), *word_of(p, 0));		/* the file's page */
	CHECK_EQUAL(frame_of(s), frame_of(p));
	word_of(p, 0)[1] = 5;					/* read before, and now copied */
	word_of(p, 1)[1] = 5;					/* copied at once */
	for (size_t i = 0; i < 2; i++) {
		CHECK(frame_of(s + i * HUGE) != frame_of(p + i * HUGE));
		CHECK_EQUAL(canary(1, (long)i), *word_of(p, i));
		CHECK_EQUAL(canary(1, (long)i), word_of(p, i)[HUGE_LONGS - 1]);
		CHECK_EQUAL(0, word_of(s, i)[1]);
	}
	CHECK_EQUAL(0, *word_of(p, 2));				/* a hole: a page of our own, the file gets none */
	*word_of(p, 3) = 9;
	MUST(fstat(fd, &st) == 0);
	CHECK_EQUAL(2 * (long)(HUGE / 512), st.st_blocks);
	MUST(munmap(p, PAGES * HUGE) == 0 && munmap(s, 2 * HUGE) == 0 && close(fd) == 0);
	check_pool_is_back("private copies");
}

static void nothing_behind_the_end(void)
{
	int fd = huge_memfd(PAGES * HUGE);
	char *s = map_at(fd, 0, PAGES, RW, MAP_SHARED), *p = map_at(fd, 0, PAGES, RW, MAP_PRIVATE);
	long value = 0;

	*word_of(s, 0) = 1;
	MUST(ftruncate(fd, HUGE) == 0);
	CHECK_EQUAL(SIGBUS, touch(word_of(s, 1), false, &value));
	CHECK_EQUAL(SIGBUS, touch(word_of(p, 1), false, &value));
	CHECK_EQUAL(SIGBUS, touch(word_of(p, 2), true, &value));
	CHECK_EQUAL(0, touch(word_of(p, 0), false, &value));
	CHECK_EQUAL(1, value);
	MUST(munmap(p, PAGES * HUGE) == 0 && munmap(s, PAGES * HUGE) == 0 && close(fd) == 0);
	check_pool_is_back("the end of a file");
}

/* -- fork -- */

static char *map;
static size_t hog_len;
static volatile long *shared_word;

static void read_and_write_all(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < PAGES; i++) {
		CHECK_EQUAL(canary(1, (long)i), word_of(map, i)[1000]);
		write_canary(map + i * HUGE, canary(2, (long)i));
	}
}

/* There are pages enough: each gets its own. */
static void both_write(void)
{
	map = map_huge(PAGES, RW, HUGE_ANON, -1);
	for (size_t i = 0; i < PAGES; i++)
		write_canary(map + i * HUGE, canary(1, (long)i));
	unsigned long long frame = frame_of(map);
	CHECK_EQUAL(0, in_child(read_and_write_all, NULL));
	for (size_t i = 0; i < PAGES; i++)
		CHECK_EQUAL(canary(1, (long)i), word_of(map, i)[1000]);
	write_canary(map, canary(3, 0));
	CHECK_EQUAL(frame, frame_of(map));			/* left alone with it: no copy */
	CHECK_POOL(PAGES, 0);
	MUST(munmap(map, PAGES * HUGE) == 0);
	check_pool_is_back("fork");
}

/* In the child, which has not written: its page goes to the owner, and it must never see a fresh one in its place. */
static void loses_its_page(void *spare)
{
	long value = 0;

	CHECK_EQUAL(0, touch(word_of(map, 0), false, &value));
	CHECK_EQUAL(canary(1, 0), value);
	CHECK_EQUAL(SIGBUS, touch(word_of(map, 1), true, &value));	/* a copy, without a promise, from an empty pool */
	shared_word[0] = 1;
	while (!shared_word[1])
		race_relax();
	if (!touch(word_of(map, 0), false, &value) && value != canary(1, 0)) {
		printf("a child reads %lx where its page was taken away\n", value);
		test_failures++;
	}
	MUST(munmap(spare, HUGE) == 0);		/* ours; the parent's is gone: there is a page now */
	shared_word[0] = 2;
	while (shared_word[1] < 2)
		race_relax();
	int sig = touch(word_of(map, 0), false, &value);
	if (sig != SIGBUS) {
		printf("a child reads %lx (signal %d) where its page was taken away\n", value, sig);
		test_failures++;
	}
}

static void the_owner_never_fails(void)
{
	char *spare;
	int status;

	shared_word = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	map = map_huge(2, RW, HUGE_ANON, -1);
	write_canary(map, canary(1, 0));
	write_canary(map + HUGE, canary(1, 1));
	spare = map_huge(1, RW, HUGE_ANON, -1);
	*word_of(spare, 0) = 1;
	char *hog = leave_in_pool(0, &hog_len);
	fflush(stdout);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		loses_its_page(spare);
		fflush(stdout);
		_exit(test_failures != 0);
	}
	while (!shared_word[0])
		race_relax();
	long value = canary(2, 0);
	CHECK_EQUAL(0, touch(word_of(map, 0), true, &value));
	CHECK_EQUAL(canary(2, 0), *word_of(map, 0));
	CHECK_EQUAL(canary(1, 0), word_of(map, 0)[1000]);
	shared_word[1] = 1;
	while (shared_word[0] < 2)
		race_relax();
	MUST(munmap(spare, HUGE) == 0 && munmap(hog, hog_len) == 0);
	shared_word[1] = 2;
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	MUST(munmap(map, 2 * HUGE) == 0);
	check_pool_is_back("an owner and its child");
}

int main(void)
{
	catch_touch_faults();
	pool_begin();
	pages_are_empty();
	shared_pages();
	private_copies();
	nothing_behind_the_end();
	both_write();
	the_owner_never_fails();
	test_end();
}
