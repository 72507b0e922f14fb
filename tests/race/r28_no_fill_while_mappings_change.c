/*
 * R28. A COPY has seen that nothing changes and is about to put its page in; DONTNEED says "changing", tells the manager that the range is
 * empty, and empties it; then the page arrives. The manager knows of no page, and the program reads stale data. So who says "changing"
 * waits for the fills that are under way.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=28
 * shows: stale
 */
#include "uffd_race.h"

#define PAGES	4

static char *area;
static int fd;
static unsigned char state[PAGES];	/* the manager's own: is there, as far as he knows */
static volatile unsigned char version[PAGES];	/* what a page of now must contain: grows with each removal */

/*
 * One thread reads messages and fills, as a manager should: an event is believed before anything else is filled, and no page
 * is filled again without a fault.
 */
static void serve(struct manager *m, const struct uffd_msg *msg)
{
	static char from[PAGE];
	char *at = (char *)(uintptr_t)msg->arg.pagefault.address;
	size_t i;

	if (msg->event == UFFD_EVENT_REMOVE) {
		for (i = 0; i < PAGES; i++) {
			char *p = area + i * PAGE;

			if ((uintptr_t)p < msg->arg.remove.start || (uintptr_t)p >= msg->arg.remove.end)
				continue;
			state[i] = 0;
			version[i]++;
		}
		return;
	}
	i = (size_t)(at - area) / PAGE;
	memset(from, version[i], PAGE);
	long n = uffd_copy(m->fd, at, from, PAGE, 0);
	if (n == (long)PAGE)
		state[i] = 1;
	else if (n == -EEXIST || n == -EAGAIN)		/* woken, it will ask again if it has to */
		uffd_wake(m->fd, at, PAGE);
	else
		CHECK(!"COPY works or says EEXIST or EAGAIN");
}

/* After its own DONTNEED a page is missing: it is read of that version or a later one, never of one before. */
static void remove_and_look(struct racer *r)
{
	size_t i = (size_t)r->id % PAGES;
	volatile unsigned char *p = (volatile unsigned char *)(area + i * PAGE);

	(void)*p;
	unsigned char before = version[i];
	MUST(madvise((void *)p, PAGE, MADV_DONTNEED) == 0);
	unsigned char seen = *p;
	if (seen == before) {
		printf("stale: page %zu reads version %u after it was removed\n", i, seen);
		test_failures++;
	}
}

static void racing(void)
{
	struct racer racers[] = { { .round = remove_and_look }, { .round = remove_and_look }, { .round = remove_and_look } };
	struct manager m = { 0 };

	area = map_alone(PAGES, RW);
	fd = open_uffd(UFFD_FEATURE_EVENT_REMOVE);
	MUST(uffd_register(fd, area, PAGES * PAGE, MISSING) == 0);
	manager_start(&m, fd, serve);
	race(RACE_SECONDS, racers, 3);
	manager_stop(&m);
}

/* The COPY is held with its test passed and its page not yet there. */
static void copy_now(void *arg)
{
	static char from[PAGE] = { 'o' };

	CHECK_EQUAL((long)PAGE, uffd_copy(fd, arg, from, PAGE, 0));
}

static void remove_now(void *arg)
{
	MUST(madvise(arg, PAGE, MADV_DONTNEED) == 0);
}

static void forced(void)
{
	struct actor copier, remover;
	struct uffd_msg msg;

	area = map_alone(1, RW);
	fd = open_uffd(UFFD_FEATURE_EVENT_REMOVE);
	MUST(uffd_register(fd, area, PAGE, MISSING) == 0);
	actor_create(&copier, copy_now, area);
	actor_create(&remover, remove_now, area);
	actor_start_and_hold(&copier, "uffd_copy_ready");
	actor_try(&remover);			/* as it should be, it waits for the fill, and the manager hears nothing */
	bool told = get_message(fd, &msg, 300);
	if (told)
		actor_join(&remover);		/* removed, says everybody */
	go();
	actor_join(&copier);
	if (told && (pagemap(area) & PM_PRESENT)) {
		puts("stale: a page was put in after the manager had read of its removal");
		test_failures++;
	}
	if (!told) {
		CHECK(get_message(fd, &msg, 8000) && msg.event == UFFD_EVENT_REMOVE);
		actor_join(&remover);
		CHECK(!(pagemap(area) & PM_PRESENT));
	}
}

int main(void)
{
	run_race(racing, forced, 32);
}
