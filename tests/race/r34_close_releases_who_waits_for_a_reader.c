/*
 * R34. A thread is about to wait until its event is read; the descriptor is closed, which wakes whoever waits: he does not yet. So he looks
 * whether it is closed after he can be found.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=34
 * shows: hang
 */
#include "uffd_race.h"

static void unmap_and_fork(struct racer *r)
{
	char *p = map_alone(2, RW);
	int fd = uffd_open(O_NONBLOCK, UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_REMOVE), ready[2], status;

	/* The monitor is another process: it reads one event, or none, and dies. The last descriptor goes with it. */
	MUST(fd >= 0 && pipe(ready) == 0);
	pid_t pid = (pid_t)syscall(SYS_fork);
	MUST(pid >= 0);
	if (!pid) {
		struct uffd_msg msg;

		if (r->rounds % 3)
			get_message(fd, &msg, 100);
		else
			sleep_ms((int)rnd(3));
		_exit(0);
	}
	MUST(uffd_register(fd, p, 2 * PAGE, MISSING) == 0);
	close(fd);
	if (r->rounds % 2) {
		pid_t child = (pid_t)syscall(SYS_fork);

		if (!child) {
			/* Whoever holds the descriptor that was made of us is gone, or will be: then this memory is plain. */
			long v;
			_exit(touch((volatile long *)p, false, &v) != 0);
		}
		MUST(waitpid(child, &status, 0) == child);
		CHECK_EQUAL(0, status);
	}
	MUST(madvise(p, PAGE, MADV_DONTNEED) == 0);
	MUST(munmap(p, 2 * PAGE) == 0);
	MUST(waitpid(pid, &status, 0) == pid);
	close(ready[0]);
	close(ready[1]);
}

static void racing(void)
{
	struct racer racers[] = { { .round = unmap_and_fork } };

	race(RACE_SECONDS, racers, 1);
}

static int fd;
static void remove_now(void *arg)
{
	MUST(madvise(arg, PAGE, MADV_DONTNEED) == 0);
}

static void close_now(void *arg)
{
	(void)arg;
	close(fd);
}

static void forced(void)
{
	struct actor remover, closer;
	char *p = map_alone(1, RW);

	fd = open_uffd(UFFD_FEATURE_EVENT_REMOVE);
	MUST(uffd_register(fd, p, PAGE, MISSING) == 0);
	actor_create(&remover, remove_now, p);
	actor_create(&closer, close_now, NULL);
	actor_start_and_hold(&remover, "uffd_changing_raised");
	actor_try(&closer);
	go();
	must_end(&remover, "who waits for a reader that will never come:");
	actor_join(&closer);
}

int main(void)
{
	run_race(racing, forced, 64);
}
