/*
 * A user with a limit of 100 processes forks until it may not, several levels deep; all are reaped, and nothing leaks.
 * cpus: 2 8
 * timeout: 120
 */
#include <sys/resource.h>

#include "tests/stress/stress.h"

#define LIMIT 100

static void bomb(void *arg)
{
	struct rlimit limit = { LIMIT, LIMIT };
	int children = 0;

	(void)arg;
	MUST(setrlimit(RLIMIT_NPROC, &limit) == 0);
	MUST(setgid(1000) == 0 && setuid(1000) == 0);
	for (;;) {
		pid_t pid = fork();

		if (pid == 0) {
			if (fork() == 0)		/* may fail; then there is one less */
				fork();
			usleep(50000);
			while (wait(NULL) > 0 || errno == EINTR)
				;
			_exit(0);
		}
		if (pid < 0)
			break;
		MUST(++children <= LIMIT);
	}
	CHECK_EQUAL(EAGAIN, errno);
	CHECK(children > LIMIT / 4);
	while (children > 0 && wait(NULL) > 0)
		children--;
	CHECK_EQUAL(0, children);
}

static void round_of_forks(void)
{
	CHECK_EQUAL(0, in_child(bomb, NULL));
}

int main(void)
{
	stress_rounds(round_of_forks, 4, 1024);
	test_end();
}
