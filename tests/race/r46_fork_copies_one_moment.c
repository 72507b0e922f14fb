/*
 * R46. A child sees its parent's memory as it was at one moment: of two writes that a thread of the parent makes one after the other, it
 * never has the second without the first, wherever the pages lie.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=46
 * shows: the second write, but not the first
 */
#include "race.h"

#define EDGE 0x200000ul			/* where one page table ends and the next begins; below the program, so fork comes here first */

/* Written in this order, again and again: two pages of one table, and one of another. */
static volatile long *const first = (long *)(EDGE - 2 * PAGE), *const second = (long *)(EDGE - PAGE), *const third = (long *)EDGE;

static void map_them(void)
{
	MUST(mmap((void *)first, 3 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == first);
}

static void write_in_order(struct racer *r)
{
	run_on(1);
	for (int i = 0; i < 1000; i++) {
		long n = (long)(r->rounds * 1000) + i;

		*first = n;
		__asm__ volatile("" ::: "memory");
		*second = n;
		__asm__ volatile("" ::: "memory");
		*third = n;
		__asm__ volatile("" ::: "memory");
	}
}

static void fork_and_look(struct racer *r)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)r;
	MUST(pid >= 0);
	if (!pid)
		_exit(*second > *first || *third > *second ? 1 : *first - *third > 1 ? 2 : 0);
	MUST(waitpid(pid, &status, 0) == pid);
	if (status) {
		printf("a child has the second write, but not the first (status %x)\n", status);
		test_failures++;
	}
}

static void racing(void)
{
	struct racer racers[] = { { .round = fork_and_look }, { .round = write_in_order } };

	map_them();
	race(RACE_SECONDS, racers, 2);
}

/* -- forced: a thread writes while fork has copied the first table and not yet the second -- */

static volatile int child_saw;

static void fork_once(void *arg)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)arg;
	MUST(pid >= 0);
	if (!pid)
		_exit((*first ? 1 : 0) | (*third ? 2 : 0));
	MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	child_saw = WEXITSTATUS(status);
}

static void write_both(void *arg)
{
	(void)arg;
	*first = 1;
	*third = 1;
}

static void forced(void)
{
	struct actor forker, writer;

	map_them();
	/* Present, but in no TLB: the kernel makes them so. */
	MUST(madvise((void *)first, 3 * PAGE, MADV_POPULATE_WRITE) == 0);
	actor_create(&forker, fork_once, NULL);
	actor_create(&writer, write_both, NULL);
	actor_start_and_hold(&forker, "fork_table_copied");
	actor_try(&writer);
	go();
	actor_join(&writer);
	actor_join(&forker);
	CHECK_EQUAL(1, *first & *third);
	if (child_saw == 2) {
		puts("the child has the second write, but not the first");
		test_failures++;
	}
}

int main(void)
{
	run_race(racing, forced, 32);
}
