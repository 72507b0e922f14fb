/*
 * R36. A thread waits for its page; the range is unregistered, or registered in another mode, and nobody will ever fill it. So whoever waits
 * there is woken, and faults again by the new rules.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=36
 * shows: hang
 */
#include "uffd_race.h"

static char *page;
static int fd;

/* Whatever the manager does, this ends with zeros. */
static void touch_it(struct racer *r)
{
	(void)r;
	CHECK_EQUAL(0, *(volatile char *)page);
	MUST(madvise(page, PAGE, MADV_DONTNEED) == 0);
}

static volatile int stop_managing;
static void *manage(void *arg)
{
	struct uffd_msg msg;

	for (int i = 0; !stop_managing; i++) {
		MUST(uffd_register(fd, page, PAGE, MISSING) == 0);
		get_message(fd, &msg, i % 4);		/* read or not: it waits all the same */
		MUST(uffd_unregister(fd, page, PAGE) == 0);
	}
	return arg;
}

static void racing(void)
{
	struct racer racers[] = { { .round = touch_it } };
	pthread_t thread;

	page = map_alone(1, RW);
	fd = open_uffd(0);
	MUST(pthread_create(&thread, NULL, manage, NULL) == 0);
	race(RACE_SECONDS, racers, 1);
	stop_managing = 1;
	pthread_join(thread, NULL);
}

static void forced(void)
{
	struct uffd_msg msg;

	page = map_alone(1, RW);
	fd = open_uffd(0);
	for (int was_read = 0; was_read < 2; was_read++) {
		struct actor reader;

		MUST(uffd_register(fd, page, PAGE, MISSING) == 0);
		actor_create(&reader, read_a_byte, page);
		reader.start = 1;
		struct pollfd p = { .fd = fd, .events = POLLIN };
		MUST(poll(&p, 1, 8000) == 1);
		if (was_read)
			MUST(get_message(fd, &msg, 100));
		MUST(uffd_unregister(fd, page, PAGE) == 0);
		must_end(&reader, "a fault in memory that is no longer registered:");
		MUST(madvise(page, PAGE, MADV_DONTNEED) == 0);
	}
}

int main(void)
{
	run_race(racing, forced, 32);
}
