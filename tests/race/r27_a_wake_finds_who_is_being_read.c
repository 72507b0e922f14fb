/*
 * R27. The message of a fault is being read: its waiter is taken from one list and put into another. A wake looks through the first list
 * before and through the second one after... the waiter has been in neither, and sleeps for ever.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=27
 * shows: hang
 */
#include "uffd_race.h"

#define PAGES	8

static char *area;
static int fd;
static volatile int wanted[PAGES];	/* set by the toucher, taken by who copies */

/* Reads messages and does nothing with them: who fills a page is never who has read of it. */
static void only_read(struct manager *m, const struct uffd_msg *msg)
{
	(void)m;
	(void)msg;
}

static volatile int stop_copying;
static void *copier(void *arg)
{
	while (!stop_copying) {
		for (size_t i = 0; i < PAGES; i++) {
			if (!__atomic_exchange_n(&wanted[i], 0, __ATOMIC_ACQ_REL))
				continue;
			for (int k = rnd(300); k; k--)
				__asm__ volatile("pause");
			CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, area + i * PAGE, PAGE, 0));
		}
		sched_yield();
	}
	return arg;
}

static void toucher(struct racer *r)
{
	size_t i = (size_t)r->id;

	wanted[i] = 1;
	CHECK_EQUAL(0, *(volatile char *)(area + i * PAGE));
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
	struct racer racers[4];
	struct manager readers[3] = { 0 };
	pthread_t thread;

	set_up();
	for (int i = 0; i < 4; i++)
		racers[i] = (struct racer){ .round = toucher };
	for (int i = 0; i < 3; i++)
		manager_start(&readers[i], fd, only_read);
	MUST(pthread_create(&thread, NULL, copier, NULL) == 0);
	race(RACE_SECONDS, racers, 4);
	stop_copying = 1;
	pthread_join(thread, NULL);
	for (int i = 0; i < 3; i++)
		manager_stop(&readers[i]);
}

/* The copy comes when the message has left the first list. */
static void read_message_now(void *arg)
{
	struct uffd_msg msg;

	(void)arg;
	MUST(read(fd, &msg, sizeof(msg)) == sizeof(msg));
}

static void forced(void)
{
	struct actor reader, sleeper;

	set_up();
	actor_create(&sleeper, read_a_byte, area);
	actor_create(&reader, read_message_now, NULL);
	sleeper.start = 1;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	MUST(poll(&p, 1, 8000) == 1);
	actor_start_and_hold(&reader, "uffd_message_taken");
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, area, PAGE, 0));
	go();
	actor_join(&reader);
	must_end(&sleeper, "a fault that was read and served:");
}

int main(void)
{
	run_race(racing, forced, 32);
}
