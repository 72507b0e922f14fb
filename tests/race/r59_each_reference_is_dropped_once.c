/*
 * R59. Several processes write the same shared pages at once: each copies, each gives back its reference to the original, the
 * last one frees it. A count that is read, and acted on later, loses a reference: then a page is never freed, or freed while
 * it is mapped.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=59
 * shows: pages are missing|PANIC: BUG_ON.old == 0. at .*mm/page.h|PANIC: kasan: use after free
 */
#include "race.h"

#define CHILDREN 8
#define PAGES 16

static long *area;
static volatile int *barrier;

static void meet(int n)
{
	__atomic_add_fetch(barrier, 1, __ATOMIC_SEQ_CST);
	while (*barrier < n)
		sched_yield();
}

static int write_all(long id)
{
	int wrong = 0;

	for (int i = 0; i < PAGES; i++) {
		wrong += area[i * 512] != 1000 + i;
		area[i * 512] = id;
	}
	for (int i = 0; i < PAGES; i++)
		wrong += area[i * 512] != id;
	return wrong;
}

static void one_storm(struct racer *r)
{
	pid_t pids[CHILDREN];
	int status;

	(void)r;
	for (int i = 0; i < PAGES; i++)
		area[i * 512] = 1000 + i;
	*barrier = 0;
	for (int c = 0; c < CHILDREN; c++) {
		pids[c] = (pid_t)syscall(SYS_fork);
		MUST(pids[c] >= 0);
		if (!pids[c]) {
			meet(CHILDREN + 1);
			_exit(write_all(c + 1) != 0);
		}
	}
	meet(CHILDREN + 1);
	CHECK_EQUAL(0, write_all(99));
	for (int c = 0; c < CHILDREN; c++) {
		MUST(waitpid(pids[c], &status, 0) == pids[c]);
		CHECK_EQUAL(0, status);
	}
}

static void map_them(void)
{
	area = (long *)map_pages(PAGES, RW, ANON);
	barrier = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(barrier != MAP_FAILED);
}

static void racing(void)
{
	struct racer racers[] = { { .round = one_storm } };

	map_them();
	race(RACE_SECONDS, racers, 1);
}

/* -- forced: both owners are about to drop their reference -- */

#define ROUNDS 48

static void write_first(void *arg)
{
	*(volatile long *)arg = 1;
}

static void forced(void)
{
	struct actor writer;
	int status;

	map_them();
	for (int i = 0; i < ROUNDS; i++) {
		clear_windows();
		area[0] = 1000;
		*barrier = 0;
		actor_create(&writer, write_first, area);
		pid_t pid = (pid_t)syscall(SYS_fork);
		MUST(pid >= 0);
		if (!pid) {
			sched_yield();		/* its stack is its own now: the next copy is the one that counts */
			*barrier = 1;
			while (*barrier != 2)
				sched_yield();
			area[0] = 2;
			_exit(0);
		}
		while (*barrier != 1)
			sched_yield();
		/* The parent stops where it is about to drop the old page; the child comes by, and drops it too. */
		race_command("hold cow_put_old:%d until cow_put_old:%d", writer.tid, pid);
		writer.start = 1;
		CHECK(is_held("cow_put_old"));
		*barrier = 2;
		actor_join(&writer);
		MUST(waitpid(pid, &status, 0) == pid);
		CHECK_EQUAL(0, status);
		CHECK_EQUAL(1, area[0]);
	}
}

int main(void)
{
	run_race(racing, forced, 32);
}
