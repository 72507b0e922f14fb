/*
 * R54. mremap takes a page away from its old address. As soon as others can find it at the new one, they can free it; so no CPU may be
 * able to write it by the old address any more: flushed first, then let go (CVE-2018-18281).
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=54
 * shows: PANIC: .*stale translation
 */
#include "race.h"

#define PAGES 32
#define CANARY 0x4242424242424242l

static int fd;
/* Where no mapping lands by itself: what has moved away leaves a hole. */
static char *const here = (char *)0x30000000, *const there = (char *)0x31000000;

static void move(struct racer *r)
{
	(void)r;
	MUST(mremap(here, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
	MUST(mremap(there, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, here) == here);
}

static void write_old(struct racer *r)
{
	long v = 0x6666666666666666l;

	(void)r;
	for (int i = 0; i < PAGES; i++)
		touch((volatile long *)(here + (size_t)i * PAGE), true, &v);
}

static void cut(struct racer *r)
{
	(void)r;
	if (rnd(2))
		CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGES * PAGE) == 0);
	else
		CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, PAGES * PAGE) == 0);
}

/* Pages that come free are allocated here, and must stay as they are: zero first, then what we write. */
static void watch(struct racer *r)
{
	long *p = (long *)map_pages(PAGES, RW, ANON);

	(void)r;
	for (int i = 0; i < PAGES; i++) {
		CHECK_EQUAL(0, p[i * 512]);
		p[i * 512] = CANARY;
	}
	sched_yield();
	for (int i = 0; i < PAGES; i++)
		CHECK_EQUAL(CANARY, p[i * 512]);
	MUST(munmap(p, PAGES * PAGE) == 0);
}

static void map_file(void)
{
	fd = make_memfd(PAGES, 0);
	MUST(mmap(here, PAGES * PAGE, RW, MAP_SHARED | MAP_FIXED, fd, 0) == here);
}

static void racing(void)
{
	struct racer racers[] = { { .round = move }, { .round = write_old }, { .round = write_old }, { .round = cut }, { .round = watch } };

	map_file();
	race(RACE_SECONDS, racers, 5);
}

/* -- forced: the file is cut while the entries have moved and nothing is flushed -- */

static void move_once(void *arg)
{
	(void)arg;
	run_on(1);
	MUST(mremap(here, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
}

static void cut_once(void *arg)
{
	(void)arg;
	CHECK(ftruncate(fd, 0) == 0);
}

static void forced(void)
{
	struct actor mover, cutter;
	long v;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;			/* as it should be, the mover is held with locks, and keeps its CPU */
	run_on(0);
	map_file();
	for (int i = 0; i < PAGES; i++)
		here[(size_t)i * PAGE] = 1;
	actor_create(&mover, move_once, NULL);
	actor_create(&cutter, cut_once, NULL);
	actor_start_and_hold(&mover, "mremap_before_flush");
	actor_try(&cutter);
	go();
	actor_join(&cutter);
	actor_join(&mover);
	CHECK_EQUAL(SIGBUS, touch((volatile long *)there, false, &v));
}

int main(void)
{
	run_race(racing, forced, 32);
}
