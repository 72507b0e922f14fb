/*
 * Who waits for a reader/writer semaphore sleeps, and comes in in the order of arrival, readers and writers alike. One thread is held with mmap_lock;
 * six others queue behind it, one after the other: a page is mapped, looked for, unmapped, looked for, mapped, looked for. What each finds tells
 * whether all before it had been in and nobody after.
 * build: debug
 * budget: 6000
 * only: faultline
 */
#include "lab1.h"

#define TURNS	6

static char *page;
static int found[TURNS];	/* 1: mapped, 0: not */
static volatile int left_at[TURNS], departures;

static void take_a_turn(void *arg)
{
	long turn = (long)arg;
	unsigned char vec;

	if (turn % 2)
		found[turn] = sys_mincore(page, PAGE, &vec) == 0;
	else if (turn % 4 == 0)
		MUST(sys_mmap(page, PAGE, RW, ANON | MAP_FIXED, -1, 0) == (long)page);
	else
		MUST(sys_munmap(page, PAGE) == 0);
	left_at[turn] = __atomic_add_fetch(&departures, 1, __ATOMIC_ACQ_REL);
}

int main(void)
{
	static const char *const names[TURNS] = { "the first writer", "a reader behind a writer", "the second writer", "a reader behind two writers",
		"the third writer", "the last reader" };
	struct actor holder, turn[TURNS];

	need_windows();
	page = LONELY_PLACE;
	for (long i = 0; i < TURNS; i++)
		actor_create(&turn[i], take_a_turn, (void *)i);
	hold_writer(&holder, "go");
	for (int i = 0; i < TURNS && !test_failures; i++)
		queue_up(&turn[i], names[i]);
	CHECK_EQUAL(0, departures);
	go();
	must_finish(&holder, "who had the lock:");
	for (int i = 0; i < TURNS; i++) {
		turn[i].start = 1;
		must_finish(&turn[i], names[i]);
	}
	for (int i = 1; i < TURNS; i += 2) {
		int want = i % 4 == 1;		/* after a mmap there is a page, after a munmap there is none */

		if (found[i] != want) {
			printf("%s came in out of turn: it found %s\n", names[i], found[i] ? "a page that was unmapped before" : "no page, though one was mapped before");
			test_failures++;
		}
	}
	test_end();
}
