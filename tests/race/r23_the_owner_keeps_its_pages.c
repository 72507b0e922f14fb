/*
 * R23. Parent and children share private huge pages, and no page is left for a copy. When the parent writes it keeps the page, and
 * it is taken from the children, who get a signal if they touch it later: never a deadlock between them, never zeros for what was
 * there.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=23
 * shows: a child reads 0
 */
#include "hugetlb.h"

#define PAGES 3
#define CHILDREN 3

static char *map;
static size_t hog_len;

static void child(void)
{
	for (int k = 0; k < 4; k++) {
		for (int i = 0; i < PAGES; i++) {
			volatile long *p = (volatile long *)(map + (size_t)i * HUGE);
			long value = 0;
			int sig = touch(p, false, &value);

			/* As it was at fork, or gone; or our own copy. */
			if (sig ? sig != SIGBUS : (value & ~0xffl) != canary(1, 0) && value != canary(2, i)) {
				printf("a child reads %lx, signal %d\n", value, sig);
				test_failures++;
			}
			value = canary(2, i);
			if (k % 2)
				touch(p, true, &value);
		}
		sched_yield();
	}
	fflush(stdout);
	_exit(test_failures ? 1 : 0);
}

static void fork_and_write(struct racer *r)
{
	long value = canary(1, (long)(r->rounds & 0xff));
	pid_t pid[CHILDREN];
	int status;

	for (int i = 0; i < CHILDREN; i++) {
		pid[i] = (pid_t)syscall(SYS_fork);
		MUST(pid[i] >= 0);
		if (!pid[i])
			child();
	}
	for (int i = 0; i < PAGES; i++) {
		int sig = touch((volatile long *)(map + (size_t)i * HUGE), true, &value);
		if (sig) {
			printf("signal %d for the owner of the pages\n", sig);
			test_failures++;
		}
	}
	for (int i = 0; i < CHILDREN; i++)
		MUST(waitpid(pid[i], &status, 0) == pid[i] && status == 0);
	for (int i = 0; i < PAGES; i++)
		CHECK_EQUAL(value, *(volatile long *)(map + (size_t)i * HUGE));
}

static void read_all(struct racer *r)
{
	(void)r;
	for (int i = 0; i < PAGES; i++) {
		long value = 0;

		CHECK_EQUAL(0, touch((volatile long *)(map + (size_t)i * HUGE), false, &value));
		CHECK_EQUAL(canary(1, 0), value & ~0xffl);
	}
	sched_yield();
}

static void racing(void)
{
	struct racer racers[] = { { .round = fork_and_write }, { .round = read_all } };

	map = map_huge(PAGES, RW, HUGE_ANON, -1);
	for (int i = 0; i < PAGES; i++)
		write_canary(map + (size_t)i * HUGE, canary(1, 0));
	leave_in_pool(0, &hog_len);
	race(RACE_SECONDS, racers, 2);
}

/* -- forced: the owner is about to take the page from its child, which touches it just then and once more later -- */

static void write_once(void *arg)
{
	long value = canary(1, 1);

	(void)arg;
	if (touch((volatile long *)map, true, &value)) {
		puts("a signal for the owner of the pages");
		test_failures++;
	}
}

static long child_writes(long unused)
{
	long value = canary(2, 0);

	(void)unused;
	return touch((volatile long *)map, true, &value);
}

static long child_reads(long unused)
{
	long value = 0;

	(void)unused;
	return touch((volatile long *)map, false, &value) ? -1 : value;
}

static void forced(void)
{
	struct peer *other;
	struct actor owner;

	char *spare = map_huge(1, RW, HUGE_ANON, -1);
	map = map_huge(1, RW, HUGE_ANON, -1);
	write_canary(map, canary(1, 0));
	leave_in_pool(0, &hog_len);
	other = peer_start(NULL);
	actor_create(&owner, write_once, NULL);
	actor_start_and_hold(&owner, "hugetlb_cow_no_page");
	other->call = child_writes;
	sleep_ms(200);
	go();
	actor_join(&owner);
	for (double end = now() + HANG_SECONDS; other->call; sched_yield())
		if (now() >= end)
			hang("child", other->pid);
	CHECK_EQUAL(canary(1, 1), *(volatile long *)map);
	MUST(munmap(spare, HUGE) == 0);		/* now there is a page for the child; it must not be given one */
	if (puppet(other, child_reads, 0) != -1) {
		printf("a child reads %lx where its page was taken away\n", other->result);
		test_failures++;
	}
	peers_end();
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
