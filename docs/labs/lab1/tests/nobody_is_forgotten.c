/*
 * Threads that map, unmap, look and fault, and onlookers that are killed, all at once, with the race windows of the debug kernel: everybody gets on, none
 * gets an error that the others cannot explain, and a thread that has to wait does so asleep. The debug kernel's own checks (writers alone, locks
 * given back by who has them) do the rest.
 * build: debug
 * seeds: 2
 * budget: 6000
 * only: faultline
 */
#define RACE_SECONDS	0.15
#include "lab1.h"

static char *area;		/* two pages: mapped and unmapped together */

static void change(struct racer *r)
{
	(void)r;
	MUST(mmap(area, 2 * PAGE, RW, ANON | MAP_FIXED, -1, 0) == area);
	MUST(munmap(area, 2 * PAGE) == 0);
}

static void look(struct racer *r)
{
	unsigned char vec[2];

	(void)r;
	CHECK(sys_mincore(area, 2 * PAGE, vec) == 0 || errno == ENOMEM);
}

static void fault(struct racer *r)
{
	long v;
	int sig = touch((volatile long *)(area + r->rounds % 2 * PAGE), false, &v);

	CHECK(sig == 0 || sig == SIGSEGV);
	race_relax();
}

static void be_killed(struct racer *r)
{
	pid_t pid = (pid_t)syscall(SYS_fork), subject = getpid();

	(void)r;
	MUST(pid >= 0);
	if (!pid) {
		char path[64], buf[2048];

		snprintf(path, sizeof(path), "/proc/%d/maps", subject);
		int fd = open(path, O_RDONLY);
		while (pread(fd, buf, sizeof(buf), 0) > 0)
			;
		_exit(0);
	}
	usleep(200 + rnd(2000));
	kill(pid, SIGKILL);
	MUST(waitpid(pid, NULL, 0) == pid);
}

static void nothing(void *unused)
{
	unsigned char vec;

	(void)unused;
	sys_mincore(three_pages, PAGE, &vec);
}

int main(void)
{
	struct racer racers[] = { { .round = change }, { .round = change }, { .round = look }, { .round = fault }, { .round = be_killed } };
	struct actor holder, waiter;

	need_windows();
	catch_touch_faults();
	actor_create(&waiter, nothing, NULL);
	hold_writer(&holder, "go");
	queue_up(&waiter, "a reader");
	go();
	must_finish(&holder, "who had the lock:");
	must_finish(&waiter, "who waited for it:");
	area = LONELY_PLACE;
	if (!test_failures)
		race(RACE_SECONDS, racers, 5);
	test_end();
}
