/*
 * R31. The manager is another process, and its target exits during an ioctl: page tables are freed while the ioctl walks them
 * (CVE-2021-47461). So each ioctl keeps the address space for as long as it takes, or says ESRCH.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=31
 * shows: PANIC|went away
 */
#include "uffd_race.h"

#define PAGES	16

static char *area;
static int fd;
static volatile long forks;

static bool is_end(struct result r)
{
	return r.error == ESRCH;
}

/* Everything at once, until the child is gone. */
static void hammer(int theirs)
{
	unsigned long p = (uintptr_t)area;

	for (int i = 0; i < 1000; i++) {
		struct result r = raw_copy(theirs, p + (unsigned long)(i % PAGES) * PAGE, p, PAGE, 0);

		if (is_end(r))
			break;
		CHECK(r.error == 0 || r.error == EEXIST || r.error == EAGAIN || r.error == ENOENT);
		uffd_writeprotect(theirs, area, PAGES * PAGE, i & 1);
		raw_fill(theirs, UFFDIO_ZEROPAGE, p + (unsigned long)(i % PAGES) * PAGE, PAGE, 0);
		raw_fill(theirs, UFFDIO_POISON, p, PAGE, 0);
		uffd_register(theirs, area, PAGES * PAGE, MISSING | WP);
		uffd_wake(theirs, area, PAGES * PAGE);
	}
	CHECK_ERRNO(ESRCH, uffd_writeprotect(theirs, area, PAGE, 0));
	CHECK_ERRNO(ENOMEM, uffd_register(theirs, area, PAGE, MISSING));
	CHECK_ERRNO(ENOMEM, uffd_unregister(theirs, area, PAGE));
	CHECK_EQUAL(0, uffd_wake(theirs, area, PAGE));
	CHECK_RESULT(ESRCH, GARBAGE, raw_copy(theirs, (uintptr_t)area, (uintptr_t)area, PAGE, 0));
}

static void serve(struct manager *m, const struct uffd_msg *msg)
{
	(void)m;
	if (msg->event != UFFD_EVENT_FORK)
		return;
	hammer((int)msg->arg.fork.ufd);
	close((int)msg->arg.fork.ufd);
}

/* A child lives for a moment. It ends when the manager has begun. */
static void fork_and_exit(struct racer *r)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)r;
	MUST(pid >= 0);
	if (!pid) {
		for (int i = rnd(20); i; i--)
			sched_yield();
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	forks++;
}

static void set_up(void)
{
	area = map_alone(PAGES, RW);
	memset(area, 'x', PAGES / 2 * PAGE);
	fd = open_uffd(UFFD_FEATURE_EVENT_FORK);
	MUST(uffd_register(fd, area, PAGES * PAGE, MISSING | WP) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = fork_and_exit } };
	struct manager m = { 0 };

	set_up();
	manager_start(&m, fd, serve);
	race(RACE_SECONDS, racers, 1);
	manager_stop(&m);
	CHECK(forks > 0 && m.served > 0);
}

/* -- forced: the ioctl has begun, and the target ends -- */

static int theirs;

static void copy_to_them(void *arg)
{
	(void)arg;
	struct result r = raw_copy(theirs, (uintptr_t)area + (PAGES - 1) * PAGE, (uintptr_t)area, PAGE, 0);

	if (r.error) {
		printf("the address space went away during the ioctl (errno %d)\n", r.error);
		test_failures++;
	}
}

static volatile pid_t child;
static void fork_a_sleeper(void *arg)
{
	(void)arg;
	pid_t pid = (pid_t)syscall(SYS_fork);

	if (!pid)
		for (;;)
			syscall(SYS_pause);
	child = pid;
}

static void forced(void)
{
	struct actor forker, copier;
	struct uffd_msg msg;
	int status;

	set_up();
	actor_create(&forker, fork_a_sleeper, NULL);
	forker.start = 1;
	MUST(get_message(fd, &msg, 8000) && msg.event == UFFD_EVENT_FORK);
	theirs = (int)msg.arg.fork.ufd;
	actor_join(&forker);
	actor_create(&copier, copy_to_them, NULL);
	actor_start_and_hold(&copier, "uffd_mm_pinned");
	kill(child, SIGKILL);
	MUST(waitpid(child, &status, 0) == child);
	sleep_ms(50);
	go();
	actor_join(&copier);
}

int main(void)
{
	run_race(racing, forced, 64);
}
