/*
 * Two processes lock two bytes of a file, and each wants the other's. The second one to ask is refused, EDEADLK, and both go on.
 * build: debug
 * budget: 2000
 */
#include "tests/labs/lab_test.h"

static int fd, to_parent[2], to_child[2];

static int set(int type, int wait, long at)
{
	struct flock l = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

	return fcntl(fd, wait ? F_SETLKW : F_SETLK, &l);
}

static void tell(int *p) { MUST(write(p[1], "x", 1) == 1); }
static void listen_to(int *p) { char c; MUST(read(p[0], &c, 1) == 1); }

static void other(void *unused)
{
	(void)unused;
	CHECK_EQUAL(0, set(F_WRLCK, 0, 2));
	tell(to_parent);
	CHECK_EQUAL(0, set(F_WRLCK, 1, 1));		/* waits for the parent */
	CHECK_EQUAL(0, set(F_UNLCK, 0, 1));
	CHECK_EQUAL(0, set(F_UNLCK, 0, 2));
}

int main(void)
{
	int status;

	fd = open("/tmp/locked", O_RDWR | O_CREAT, 0600);
	MUST(fd >= 0 && pipe(to_parent) == 0 && pipe(to_child) == 0);
	CHECK_EQUAL(0, set(F_WRLCK, 0, 1));
	fflush(stdout);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		other(NULL);
		fflush(stdout);
		_exit(test_failures ? 1 : 0);
	}
	listen_to(to_parent);
	usleep(50000);			/* it waits now */
	CHECK_ERRNO(EDEADLK, set(F_WRLCK, 1, 2));
	usleep(1000);			/* sleeps, with whatever is held */
	CHECK_EQUAL(0, set(F_UNLCK, 0, 1));
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	CHECK_EQUAL(0, set(F_WRLCK, 1, 2));
	test_end();
}
