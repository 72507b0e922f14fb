/*
 * R38. A fault reads an empty entry without a lock; the page is filled, and the manager notes it as delivered; then the fault sends its
 * message. So the message is sent by an entry that is empty still, under its lock.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=38
 * shows: a message for a page that is there
 */
#include "uffd_race.h"

#define PAGES	4

static char *area;
static int fd;
/* Odd while the page is there: from before its DONTNEED... to after its COPY, both counted by whoever does them. */
static volatile unsigned long filled[PAGES], removed[PAGES];

/*
 * A message that was queued after the COPY of the page returned, and before the page was removed again, is wrong. The manager
 * alone fills, so what he reads was queued between his last fill and now, or before it by a second toucher. So: only one
 * toucher for each page, and then each message must find the page missing: COPY succeeds.
 */
static void serve(struct manager *m, const struct uffd_msg *msg)
{
	static char from[PAGE];
	char *at = (char *)(uintptr_t)msg->arg.pagefault.address;
	size_t i = (size_t)(at - area) / PAGE;
	long n = uffd_copy(m->fd, at, from, PAGE, 0);

	if (n == -EEXIST) {
		puts("a message for a page that is there");
		test_failures++;
		uffd_wake(m->fd, at, PAGE);
	} else {
		CHECK_EQUAL((long)PAGE, n);
		filled[i]++;
	}
}

static void touch_own(struct racer *r)
{
	size_t i = (size_t)r->id;

	(void)*(volatile char *)(area + i * PAGE);
	removed[i]++;
	MUST(madvise(area + i * PAGE, PAGE, MADV_DONTNEED) == 0);
}

static void set_up(void)
{
	area = map_alone(PAGES, RW);
	fd = open_uffd(0);
	MUST(uffd_register(fd, area, PAGES * PAGE, MISSING) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = touch_own }, { .round = touch_own }, { .round = touch_own } };
	struct manager m = { 0 };

	set_up();
	manager_start(&m, fd, serve);
	race(RACE_SECONDS, racers, 3);
	manager_stop(&m);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(removed[i], filled[i]);
}

static void forced(void)
{
	struct actor reader;
	struct uffd_msg msg;

	set_up();
	actor_create(&reader, read_a_byte, area);
	actor_start_and_hold(&reader, "uffd_before_queue");
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, area, PAGE, 0));
	go();
	if (get_message(fd, &msg, 300)) {
		puts("a message for a page that is there");
		test_failures++;
		uffd_wake(fd, area, PAGE);
	}
	must_end(&reader, "a fault whose page is there:");
}

int main(void)
{
	run_race(racing, forced, 32);
}
