/*
 * R44. A fill is refused because the mappings are changing; the manager takes the out field, which nobody has written, for the number of
 * bytes done, and skips or repeats some. Or he loops for ever; or waits for an event that he should read himself. So the field says
 * -EAGAIN, and whoever waits for a reader can be killed.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=44
 * shows: out field
 */
#include "uffd_race.h"

#define PAGES	8

static char *area;
static int fd;
static volatile long refused;

static void must_say(struct result r, const char *what)
{
	/* Bytes, or the negative error: never what was there before. A range is whole, partly done, or not at all. */
	bool ok = r.error == 0 ? r.out == (int64_t)(PAGES * PAGE) : r.error == EAGAIN ? r.out == -EAGAIN || (r.out > 0 && r.out < (int64_t)(PAGES * PAGE)) :
		r.out == -r.error;

	if (!ok) {
		printf("%s: errno %d, and the out field says %lld\n", what, r.error, (long long)r.out);
		test_failures++;
	}
	refused += r.error == EAGAIN && r.out == -EAGAIN;
}

static void fill(struct racer *r)
{
	unsigned long p = (uintptr_t)area;

	(void)r;
	must_say(raw_copy(fd, p, (uintptr_t)source('s', PAGES * PAGE), PAGES * PAGE, 0), "COPY");
	must_say(raw_fill(fd, UFFDIO_ZEROPAGE, p, PAGES * PAGE, 0), "ZEROPAGE");
	must_say(raw_fill(fd, UFFDIO_POISON, p, PAGES * PAGE, 0), "POISON");
}

static void change(struct racer *r)
{
	MUST(madvise(area + r->rounds % PAGES * PAGE, PAGE, MADV_DONTNEED) == 0);
}

static void slow_reader(struct manager *m, const struct uffd_msg *msg)
{
	(void)m;
	(void)msg;
	for (int i = rnd(3); i; i--)
		sched_yield();
}

static void racing(void)
{
	struct racer racers[] = { { .round = fill }, { .round = change } };
	struct manager m = { 0 };

	area = map_alone(PAGES, RW);
	fd = open_uffd(UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP);
	MUST(uffd_register(fd, area, PAGES * PAGE, MISSING) == 0);
	manager_start(&m, fd, slow_reader);
	race(RACE_SECONDS, racers, 2);
	manager_stop(&m);
	CHECK(refused > 0 || m.served < 3);
}

/* Nobody reads: fills are refused, and say so, for as long as that lasts; SIGKILL ends it within a second. */
static void change_now(void *arg)
{
	MUST(madvise(arg, PAGE, MADV_DONTNEED) == 0);
}

static void manager_that_never_reads(void)
{
	struct actor a;
	struct uffd_msg msg;
	int status;

	fflush(stdout);
	pid_t pid = (pid_t)syscall(SYS_fork);
	MUST(pid >= 0);
	if (!pid) {
		area = map_alone(PAGES, RW);
		fd = open_uffd(UFFD_FEATURE_EVENT_UNMAP);
		MUST(uffd_register(fd, area, PAGES * PAGE, MISSING) == 0);
		munmap(area, PAGE);
		_exit(1);
	}
	sleep_ms(100);
	kill(pid, SIGKILL);
	double since = now();
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK(now() - since < 8);
	CHECK(WIFSIGNALED(status));

	area = map_alone(PAGES, RW);
	fd = open_uffd(UFFD_FEATURE_EVENT_REMOVE);
	MUST(uffd_register(fd, area, PAGES * PAGE, MISSING) == 0);
	actor_create(&a, change_now, area);
	a.start = 1;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	MUST(poll(&p, 1, 8000) == 1);
	for (int i = 0; i < 10; i++) {
		struct racer r = { 0 };

		fill(&r);
	}
	CHECK_EQUAL(30, refused);
	MUST(get_message(fd, &msg, 1000));
	actor_join(&a);
	must_say(raw_copy(fd, (uintptr_t)area, (uintptr_t)source('s', PAGES * PAGE), PAGES * PAGE, 0), "COPY");
}

static void both(void)
{
	manager_that_never_reads();
	refused = 0;
	racing();
}

int main(void)
{
	run_race(both, NULL, 64);
}
