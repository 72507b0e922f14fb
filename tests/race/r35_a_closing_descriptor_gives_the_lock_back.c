/*
 * R35. The descriptor is being closed and wants mmap_lock to unregister; the kernel pins a page of registered memory, holds mmap_lock, is
 * told "try again" without letting go of the lock, and tries for ever. So "closed" is told with the lock dropped, as every RETRY.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=35
 * shows: hang|PANIC
 */
#include "uffd_race.h"

static char *area;
static int pipes[2];

/* Reads missing memory in three ways. Each time it is plain memory in the end: the manager only closes. */
static void use_by_kernel(struct racer *r)
{
	char buf[8];
	struct iovec to = { buf, 8 }, from = { area, 8 };

	switch (r->rounds % 3) {
	case 0:
		CHECK_EQUAL(8, process_vm_readv(getpid(), &to, 1, &from, 1, 0));
		break;
	case 1:
		CHECK_EQUAL(8, vmsplice(pipes[1], &from, 1, 0));
		CHECK_EQUAL(8, read(pipes[0], buf, 8));
		break;
	default:
		CHECK_EQUAL(8, write(pipes[1], area, 8));
		CHECK_EQUAL(8, read(pipes[0], buf, 8));
	}
	MUST(madvise(area, PAGE, MADV_DONTNEED) == 0);
}

static void open_and_close(struct racer *r)
{
	int fd = open_uffd(0);

	(void)r;
	MUST(uffd_register(fd, area, PAGE, MISSING) == 0);
	for (int i = rnd(4); i; i--)
		sched_yield();
	close(fd);
}

static void racing(void)
{
	struct racer racers[] = { { .round = use_by_kernel }, { .round = open_and_close } };

	area = map_alone(1, RW);
	MUST(pipe(pipes) == 0);
	race(RACE_SECONDS, racers, 2);
}

static int fd;
static void pin(void *arg)
{
	char buf[8];
	struct iovec to = { buf, 8 }, from = { arg, 8 };

	CHECK_EQUAL(8, process_vm_readv(getpid(), &to, 1, &from, 1, 0));
}

static void close_now(void *arg)
{
	(void)arg;
	close(fd);
}

/* The fault is about to queue when the descriptor says "closed". */
static void forced(void)
{
	struct actor pinner, closer;

	area = map_alone(1, RW);
	fd = open_uffd(0);
	MUST(uffd_register(fd, area, PAGE, MISSING) == 0);
	actor_create(&pinner, pin, area);
	actor_create(&closer, close_now, NULL);
	actor_start_and_hold(&pinner, "uffd_before_queue");
	actor_try(&closer);
	go();
	must_end(&closer, "who closes the descriptor:");
	must_end(&pinner, "who pins a page of it:");
}

int main(void)
{
	run_race(racing, forced, 64);
}
