/*
 * R42. MOVE has found that a page is ours alone; fork makes it shared, or a pipe takes it; it moves all the same, and two processes write to
 * one page (CVE-2024-27007). So that is looked at under the lock of the entry, which fork and pinning need too.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=42
 * shows: of the other|PANIC
 */
#include "uffd_race.h"

static char *side[2];
static int fd;
static volatile int *step;

/* 'm' in both words at all times, wherever the page is; the children write their own. */
static void move_page(struct racer *r)
{
	int to = (int)(r->rounds & 1);
	struct result m = raw_move(fd, (uintptr_t)side[to], (uintptr_t)side[!to], PAGE, 0);

	CHECK(m.error == 0 || m.error == EBUSY || m.error == EAGAIN || m.error == ENOENT || m.error == EEXIST);
	/* Break the sharing that a fork has left, so that it moves again. */
	for (int s = 0; s < 2; s++)
		if (pagemap(side[s]) & PM_PRESENT)
			*(volatile char *)(side[s] + 100) = 1;
}

static void fork_child(struct racer *r)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)r;
	MUST(pid >= 0);
	if (!pid) {
		int found = 0, ok = 1;

		for (int s = 0; s < 2; s++) {
			char *p = side[s];

			if (p[0] != 'm')
				continue;
			found++;
			ok &= p[PAGE - 1] == 'm';
			p[0] = p[PAGE - 1] = 'k';
			sched_yield();
			ok &= p[0] == 'k' && p[PAGE - 1] == 'k';
		}
		_exit(found == 1 && ok ? 0 : found != 1 ? 2 : 1);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
}

static int pipes[2];
static void splice_page(struct racer *r)
{
	struct iovec v = { side[r->rounds & 1], 1 };
	char c;

	if (vmsplice(pipes[1], &v, 1, 0) == 1) {
		MUST(read(pipes[0], &c, 1) == 1);
		CHECK(c == 'm' || c == 0);
	}
}

static void set_up(void)
{
	for (int s = 0; s < 2; s++)
		side[s] = map_alone(1, RW);
	memset(side[0], 'm', PAGE);
	fd = open_uffd(0);
	MUST(uffd_register(fd, side[0], PAGE, WP) == 0 && uffd_register(fd, side[1], PAGE, WP) == 0);
	step = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(step != MAP_FAILED && pipe(pipes) == 0);
}

/* A child shares the page; we move it and write: the child must not see it. */
static void shared_page(void)
{
	int status;

	set_up();
	pid_t pid = (pid_t)syscall(SYS_fork);
	MUST(pid >= 0);
	if (!pid) {
		*step = 1;
		while (*step != 2)
			sched_yield();
		_exit(side[0][0] != 'm');
	}
	while (*step != 1)
		sched_yield();
	CHECK_RESULT(EBUSY, -EBUSY, raw_move(fd, (uintptr_t)side[1], (uintptr_t)side[0], PAGE, 0));
	*(volatile char *)side[1] = 'x';
	*(volatile char *)side[0] = 'y';
	*step = 2;
	MUST(waitpid(pid, &status, 0) == pid);
	if (status) {
		puts("the child reads what was written to the page of the other");
		test_failures++;
	}
}

static void racing(void)
{
	struct racer racers[] = { { .round = move_page }, { .round = fork_child }, { .round = splice_page } };

	shared_page();
	set_up();
	MUST(uffd_unregister(fd, side[0], PAGE) == 0 && uffd_unregister(fd, side[1], PAGE) == 0);
	MUST(uffd_register(fd, side[0], PAGE, WP) == 0 && uffd_register(fd, side[1], PAGE, WP) == 0);
	race(RACE_SECONDS, racers, 3);
}

int main(void)
{
	run_race(racing, NULL, 64);
}
