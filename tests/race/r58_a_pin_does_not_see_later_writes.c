/*
 * R58. Bytes that a child has put into a pipe by vmsplice, from a page that it shares with its parent since fork, are those of that
 * moment: what the parent writes later does not reach them, although the child has unmapped the page and the parent is
 * the only one left who maps it. Who counts mappings gets this wrong; a page has other owners too (CVE-2020-29374).
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=58
 * shows: the parent's secret
 */
#include "race.h"

static volatile int *step;

/* The child's pipe holds the page; it has unmapped it; the parent writes; the child looks. */
static void one_round(void)
{
	volatile char *page = map_pages(1, RW, ANON);
	int status;

	*step = 0;
	page[0] = 'o';
	pid_t pid = (pid_t)syscall(SYS_fork);
	MUST(pid >= 0);
	if (!pid) {
		struct iovec v = { (void *)page, 1 };
		char c = 0;
		int p[2];

		if (pipe(p) || vmsplice(p[1], &v, 1, 0) != 1 || munmap((void *)page, PAGE))
			_exit(2);
		*step = 1;
		while (*step != 2)
			sched_yield();
		_exit(read(p[0], &c, 1) != 1 ? 3 : c == 'o' ? 0 : 4);
	}
	while (*step != 1)
		sched_yield();
	page[0] = 's';
	*step = 2;
	MUST(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 4)
		puts("the child reads the parent's secret from its pipe");
	CHECK_EQUAL(0, status);
	MUST(munmap((void *)page, PAGE) == 0);
}

/* The same in the other direction, and at the same time: a thread splices, others fork and write. */
static long *shared;
static int pipes[2];

static void splice_it(struct racer *r)
{
	struct iovec v = { shared, 2 * sizeof(long) };
	long got[2];

	(void)r;
	MUST(vmsplice(pipes[1], &v, 1, 0) == sizeof(got));
	MUST(read(pipes[0], got, sizeof(got)) == sizeof(got));
	CHECK(got[0] >= 0 && got[1] >= 0);		/* of the parent, from whatever moment; never a child's */
}

static void write_both(struct racer *r)
{
	__atomic_store_n(&shared[0], (long)r->rounds, __ATOMIC_RELEASE);
	__atomic_store_n(&shared[1], (long)r->rounds, __ATOMIC_RELEASE);
}

static void fork_child(struct racer *r)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)r;
	MUST(pid >= 0);
	if (!pid) {
		long a = shared[0];

		shared[0] = -5;
		sched_yield();
		_exit(a < 0 || shared[0] != -5);
	}
	one_round();
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
}

static void racing(void)
{
	struct racer racers[] = { { .round = fork_child }, { .round = write_both }, { .round = splice_it } };

	shared = (long *)map_pages(1, RW, ANON);
	step = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(step != MAP_FAILED && pipe(pipes) == 0);
	for (int i = 0; i < 10; i++)
		one_round();
	race(RACE_SECONDS, racers, 3);
}

int main(void)
{
	run_race(racing, NULL, 32);
}
