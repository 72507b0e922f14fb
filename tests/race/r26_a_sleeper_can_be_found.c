/*
 * R26. A fault sees its page missing; the manager, who has read no message, copies the page and wakes whoever waits: nobody yet. Then the
 * fault goes to sleep, for ever. So whoever is about to wait looks again once he can be found.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=26
 * shows: hang
 */
#include "uffd_race.h"

static char *page;
static int fd;
static volatile unsigned long asked;		/* the round for which the reader wants the page */
static volatile int stop_blind;

/* Copies without having read anything, at about the moment at which the reader comes. */
static void *blind_manager(void *arg)
{
	static char from[PAGE] = { 'b' };

	for (unsigned long round = 1; !stop_blind; ) {
		if (asked != round) {
			sched_yield();
			continue;
		}
		for (int i = rnd(400); i; i--)
			__asm__ volatile("pause");
		CHECK_EQUAL((long)PAGE, uffd_copy(fd, page, from, PAGE, 0));
		round++;
	}
	return arg;
}

static void read_fresh(struct racer *r)
{
	asked = r->rounds + 1;
	CHECK_EQUAL('b', *(volatile char *)page);
	MUST(madvise(page, PAGE, MADV_DONTNEED) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = read_fresh } };
	pthread_t blind;

	page = map_alone(1, RW);
	fd = open_uffd(0);
	MUST(uffd_register(fd, page, PAGE, MISSING) == 0);
	MUST(pthread_create(&blind, NULL, blind_manager, NULL) == 0);
	race(RACE_SECONDS, racers, 1);
	stop_blind = 1;
	pthread_join(blind, NULL);
}

/* The page comes, with its wake, when the fault has decided to wait and is not in the queue yet. */
static void forced(void)
{
	struct actor reader;

	page = map_alone(1, RW);
	fd = open_uffd(0);
	MUST(uffd_register(fd, page, PAGE, MISSING) == 0);
	actor_create(&reader, read_a_byte, page);
	actor_start_and_hold(&reader, "uffd_before_queue");
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, page, PAGE, 0));
	go();
	must_end(&reader, "a fault whose page is there:");
}

int main(void)
{
	run_race(racing, forced, 32);
}
