/*
 * R33. The reader has taken a FORK event and makes the child's descriptor; the process that forked is killed, and frees what the event
 * refers to (CVE-2017-15126). So both hold references, and either may go first.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=33
 * shows: PANIC
 */
#include "uffd_race.h"

static char *area;
static int fd;
static volatile long events;

/* A process that forks in a loop; its descriptor came by its own birth. */
static void forker_main(void)
{
	for (;;) {
		int status;
		pid_t pid = (pid_t)syscall(SYS_fork);

		if (!pid)
			_exit(0);
		if (pid > 0)
			syscall(SYS_wait4, pid, &status, 0, NULL);
	}
}

static volatile int their_fd = -1;
static volatile pid_t forker;

static void serve(struct manager *m, const struct uffd_msg *msg)
{
	struct uffd_msg their;

	(void)m;
	if (msg->event != UFFD_EVENT_FORK)
		return;
	/* The forker exists: read what it sends, until it is gone. */
	int theirs = (int)msg->arg.fork.ufd;
	their_fd = theirs;
	for (int quiet = 0; quiet < 3; ) {
		if (!get_message(theirs, &their, 10)) {
			quiet++;
			continue;
		}
		quiet = 0;
		if (their.event != UFFD_EVENT_FORK)
			continue;
		int childs = (int)their.arg.fork.ufd;
		events++;
		struct result r = raw_copy(childs, (uintptr_t)area + PAGE, (uintptr_t)area, PAGE, 0);
		CHECK(r.error == 0 || r.error == ESRCH || r.error == EAGAIN || r.error == ENOENT || r.error == EEXIST);
		close(childs);
	}
	their_fd = -1;
	close(theirs);
}

static void start_and_kill(struct racer *r)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)r;
	MUST(pid >= 0);
	if (!pid)
		forker_main();
	sleep_ms((int)rnd(30));
	kill(pid, SIGKILL);
	MUST(waitpid(pid, &status, 0) == pid);
}

static void set_up(void)
{
	area = map_alone(2, RW);
	area[0] = 'x';
	fd = open_uffd(UFFD_FEATURE_EVENT_FORK);
	MUST(uffd_register(fd, area, 2 * PAGE, MISSING) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = start_and_kill } };
	struct manager m[2] = { 0 };

	set_up();
	manager_start(&m[0], fd, serve);
	manager_start(&m[1], fd, serve);
	race(RACE_SECONDS, racers, 1);
	manager_stop(&m[0]);
	manager_stop(&m[1]);
	CHECK(events > 0);
}

/* -- forced -- */

static int theirs, childs = -1;

static void read_their_event(void *arg)
{
	struct uffd_msg msg;

	(void)arg;
	if (get_message(theirs, &msg, 8000) && msg.event == UFFD_EVENT_FORK)
		childs = (int)msg.arg.fork.ufd;
}

static void fork_a_forker(void *arg)
{
	(void)arg;
	pid_t pid = (pid_t)syscall(SYS_fork);

	if (!pid)
		forker_main();
	forker = pid;
}

static void forced(void)
{
	struct actor a, reader;
	struct uffd_msg msg;
	int status;

	set_up();
	actor_create(&a, fork_a_forker, NULL);
	a.start = 1;
	MUST(get_message(fd, &msg, 8000) && msg.event == UFFD_EVENT_FORK);
	theirs = (int)msg.arg.fork.ufd;
	actor_join(&a);
	actor_create(&reader, read_their_event, NULL);
	actor_start_and_hold(&reader, "uffd_message_taken");
	kill(forker, SIGKILL);
	MUST(waitpid(forker, &status, 0) == forker);
	sleep_ms(100);
	go();
	actor_join(&reader);
	if (childs >= 0) {
		CHECK_EQUAL(0, uffd_wake(childs, area, PAGE));
		uffd_writeprotect(childs, area, PAGE, 0);
		close(childs);
	}
	close(theirs);
}

int main(void)
{
	run_race(racing, forced, 128);
}
