/*
 * R48. Who replaces or changes a VMA waits for the faults that run in it, and no fault sees one half done: content and rights are those
 * of one state, never the rights of one and the memory of another.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=48
 * shows: the old mapping's rights|PANIC
 */
#include "race.h"

#define CANARY 0x1122334455667788l

static char *area;		/* three pages; the middle one changes */

/* Read-only memory that nobody can have written reads zero. */
static void replace(struct racer *r)
{
	volatile long *p = (volatile long *)(area + PAGE);
	long v = 0;

	(void)r;
	MUST(mmap((void *)p, PAGE, RW, ANON | MAP_FIXED, -1, 0) == p);
	for (int i = rnd(50); i; i--)
		__asm__ volatile("pause");
	MUST(mmap((void *)p, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0) == p);
	for (int i = 0; i < 3; i++) {
		CHECK_EQUAL(0, touch(p, false, &v));
		if (v) {
			printf("fresh read-only memory reads %lx: a write came through with the old mapping's rights\n", (unsigned long)v);
			test_failures++;
			break;
		}
	}
	if (rnd(2)) {
		/* The same VMA, narrowed: what is written stays as it was. */
		MUST(mmap((void *)p, PAGE, RW, ANON | MAP_FIXED, -1, 0) == p);
		MUST(mprotect((void *)p, PAGE, PROT_READ) == 0);
		long first = *p;
		for (int i = 0; i < 3; i++)
			CHECK_EQUAL(first, *p);
		MUST(mprotect((void *)p, PAGE, PROT_NONE) == 0);
		CHECK_EQUAL(SIGSEGV, touch(p, false, &v));
	}
}

static void write_it(struct racer *r)
{
	long v = CANARY;

	(void)r;
	for (int i = 0; i < 20; i++) {
		int sig = touch((volatile long *)(area + PAGE), true, &v);
		CHECK(sig == 0 || sig == SIGSEGV);
	}
}

static void racing(void)
{
	struct racer racers[] = { { .round = replace }, { .round = write_it }, { .round = write_it } };

	area = map_pages(3, RW, ANON);
	area[0] = area[2 * PAGE] = 1;
	race(RACE_SECONDS, racers, 3);
}

/* -- forced: the mapping is replaced while a fault has decided what to install and not yet done it -- */

static void write_once(void *arg)
{
	long v = CANARY;

	touch(arg, true, &v);
}

static void map_read_only(void *arg)
{
	MUST(mmap(arg, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0) == arg);
}

static void forced(void)
{
	volatile long *p;
	struct actor writer, mapper;

	area = map_pages(3, RW, ANON);
	area[0] = area[2 * PAGE] = 1;		/* the table of the middle page stays */
	p = (volatile long *)(area + PAGE);
	actor_create(&writer, write_once, (void *)p);
	actor_create(&mapper, map_read_only, (void *)p);
	actor_start_and_hold(&writer, "anon_page_ready");
	actor_try(&mapper);		/* as it should be, it waits for the fault */
	go();
	actor_join(&mapper);
	actor_join(&writer);
	if (*p) {
		printf("fresh read-only memory reads %lx: a write came through with the old mapping's rights\n", *p);
		test_failures++;
	}
}

int main(void)
{
	run_race(racing, forced, 32);
}
