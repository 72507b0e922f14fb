/*
 * R16. Copying a page clears its entry for a moment before the new one is there. Who reads the entry without its lock just then sees
 * nothing, asks the empty pool for a page and gets SIGBUS.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=16
 * shows: signal 7, value
 */
#include "hugetlb.h"

#define PAGES 2

static char *map;
static size_t hog_len;

/* After each fork the owner's pages are copied, or kept if none is free. */
static void fork_and_write(struct racer *r)
{
	long value = canary(1, (long)(r->rounds & 0xff));
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	MUST(pid >= 0);
	if (!pid) {
		for (int i = 0; i < PAGES; i++)
			touch((volatile long *)(map + (size_t)i * HUGE), false, &value);	/* SIGBUS is allowed: not the owner */
		_exit(0);
	}
	for (int i = 0; i < PAGES; i++)
		CHECK_EQUAL(0, touch((volatile long *)(map + (size_t)i * HUGE), true, &value));
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

static void read_all(struct racer *r)
{
	(void)r;
	for (int i = 0; i < PAGES; i++) {
		long value = 0;
		int sig = touch((volatile long *)(map + (size_t)i * HUGE), false, &value);

		if (sig || (value & ~0xffl) != canary(1, 0)) {
			printf("signal %d, value %lx in a page that was always there\n", sig, value);
			__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);
		}
	}
}

static void map_it(long left)
{
	map = map_huge(PAGES, RW, HUGE_ANON, -1);
	for (int i = 0; i < PAGES; i++)
		write_canary(map + (size_t)i * HUGE, canary(1, 0));
	leave_in_pool(left, &hog_len);
}

static void racing(void)
{
	struct racer racers[] = { { .round = fork_and_write }, { .round = read_all }, { .round = read_all } };

	map_it(1);
	race(RACE_SECONDS, racers, 3);
}

/* -- forced: a page is copied, its old entry is gone, the new one is not there; the pool is empty by then -- */

static void write_once(void *arg)
{
	long value = canary(1, 1);

	(void)arg;
	run_on(1);
	CHECK_EQUAL(0, touch((volatile long *)map, true, &value));
}

static void read_once(void *arg)
{
	(void)arg;
	run_on(0);
	read_all(NULL);
}

static void forced(void)
{
	struct actor writer, reader;
	int pipes[2], status;
	char c;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	run_on(0);
	map_it(1);
	MUST(pipe(pipes) == 0);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		close(pipes[1]);
		_exit(read(pipes[0], &c, 1) != 0);	/* keeps the pages shared until the parent is through */
	}
	actor_create(&writer, write_once, NULL);
	actor_create(&reader, read_once, NULL);
	/* The writer keeps its CPU, and the lock of the entry; the reader waits for the fault mutex and not for that. */
	actor_start_and_hold(&writer, "hugetlb_cow_cleared");
	actor_try(&reader);
	go();
	actor_join(&writer);
	actor_join(&reader);
	close(pipes[1]);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
