/*
 * R40. fork has made a userfaultfd context for the child, and fails after that. No event may be sent for a child that never was, and
 * nothing may stay raised: else every COPY answers EAGAIN from then on.
 *
 * build: debug
 * timeout: 120
 * slow-cpus: 1 4 8
 * fails: race.reopen=40
 * shows: EAGAIN
 */
#include "uffd_race.h"

#define PAGES	4
#define MAX_N	200

static char *area;
static int fd;
static volatile long fork_events;

static void serve(struct manager *m, const struct uffd_msg *msg)
{
	if (msg->event == UFFD_EVENT_FORK) {
		fork_events++;
		close((int)msg->arg.fork.ufd);
	} else {
		serve_zeros(m, msg);
	}
}

static void set_up(void)
{
	/* Below everything else, so that most of what fork allocates comes after the context for the child. */
	area = mmap((void *)0x10000ul, PAGES * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	MUST(area != MAP_FAILED);
	fd = open_uffd(UFFD_FEATURE_EVENT_FORK);
	memset(area, 1, 2 * PAGE);
	MUST(uffd_register(fd, area, PAGES * PAGE, MISSING | WP) == 0);
}

/* Fills are allowed again. The task that forked lowers the counter when it runs again: it has. */
static void must_be_calm(const char *when)
{
	long n = uffd_zeropage(fd, area + (PAGES - 1) * PAGE, PAGE, 0);

	if (n != (long)PAGE && n != -EEXIST) {
		printf("%s: ZEROPAGE answers %ld (EAGAIN is %d)\n", when, n, -EAGAIN);
		test_failures++;
	}
	MUST(madvise(area + (PAGES - 1) * PAGE, PAGE, MADV_DONTNEED) == 0);
}

static volatile long born;

/* Limits make fork fail early; children come and go. */
static void fork_some(struct racer *r)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)r;
	if (!pid)
		_exit(0);
	if (pid > 0) {
		born++;
		MUST(waitpid(pid, &status, 0) == pid);
	}
	must_be_calm("after a fork");
}

static void racing(void)
{
	struct racer racers[] = { { .round = fork_some } };
	struct manager m = { 0 };

	set_up();
	manager_start(&m, fd, serve);
	race(RACE_SECONDS, racers, 1);
	manager_stop(&m);
	CHECK_EQUAL(born, fork_events);
}

/* -- the n-th allocation of fork fails -- */

static void forced(void)
{
	struct manager m = { 0 };
	int control = open("/proc/self/alloc_fail", O_RDWR), failed = 0;
	char text[16] = "";

	if (control < 0)
		control = open("/sys/kernel/faultline/alloc_fail", O_RDWR);
	MUST(control >= 0);
	set_up();
	manager_start(&m, fd, serve);
	for (int n = 1; n < MAX_N; n++) {
		int len = snprintf(text, sizeof(text), "%d", n), status;

		while (pwrite(control, text, (size_t)len, 0) != len)
			MUST(errno == ENOMEM);
		pid_t pid = (pid_t)syscall(SYS_fork);
		if (!pid)
			_exit(0);
		while (pwrite(control, "0", 1, 0) != 1)
			MUST(errno == ENOMEM);
		if (pid > 0) {
			born++;
			MUST(waitpid(pid, &status, 0) == pid);
			must_be_calm("after a fork that succeeded");
		} else {
			failed++;
			must_be_calm("after a fork that failed");
		}
		if (test_failures)
			break;
	}
	manager_stop(&m);
	CHECK(failed > 0);
	if (!test_failures)
		CHECK_EQUAL(born, fork_events);
}

int main(void)
{
	run_race(racing, forced, 64);
}
