/*
 * R47. Several threads touch below the same stack at once, and beside it; it grows for each of them, and no one finds it half grown.
 * Growing changes a VMA that others are faulting in, so it wants mmap_lock for writing (CVE-2023-3269).
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=47
 * shows: PANIC: .*mmap_lock
 */
#include "race.h"

#define DEPTH 64
#define TOP ((char *)0x30000000)		/* far from everything else, which may land below a stack */

/* All at once down the same stack, each to its own words. */
static void touch_down(struct racer *r)
{
	long v = (long)(r->rounds << 4) + r->id, got = 0;

	for (int tries = 0; tries < 20; tries++) {
		volatile long *p = (volatile long *)(TOP - (1 + rnd(DEPTH)) * PAGE) + r->id;
		int sig = touch(p, true, &v);

		CHECK(sig == 0 || sig == SIGSEGV);	/* SIGSEGV: the stack was just replaced, and there is none */
		if (!sig && !touch((volatile long *)p, false, &got))
			CHECK(got == v || got == 0);	/* 0: a new stack */
	}
}

static void new_stack(struct racer *r)
{
	(void)r;
	MUST(munmap(TOP - DEPTH * PAGE, (DEPTH + 1) * PAGE) == 0);
	MUST(mmap(TOP, PAGE, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) == TOP);
	TOP[0] = 1;
	sleep_ms(2);
}

static void racing(void)
{
	struct racer racers[] = { { .round = new_stack }, { .round = touch_down }, { .round = touch_down }, { .round = touch_down } };

	MUST(mmap(TOP, PAGE, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) == TOP);
	race(RACE_SECONDS, racers, 4);
}

/* -- forced: one is about to grow it, then another grows it further -- */

static void touch_near(void *arg)
{
	(void)arg;
	((volatile long *)(TOP - 2 * PAGE))[0] = 1;
}

static void forced(void)
{
	struct actor near;

	MUST(mmap(TOP, PAGE, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) == TOP);
	actor_create(&near, touch_near, NULL);
	actor_start_and_hold(&near, "stack_grow");
	((volatile long *)(TOP - 8 * PAGE))[0] = 2;
	go();
	actor_join(&near);
	CHECK_EQUAL(1, *(volatile long *)(TOP - 2 * PAGE));
	CHECK_EQUAL(2, *(volatile long *)(TOP - 8 * PAGE));
	CHECK_EQUAL(1, count_vmas(TOP - 8 * PAGE, 9 * PAGE));
}

int main(void)
{
	run_race(racing, forced, 32);
}
