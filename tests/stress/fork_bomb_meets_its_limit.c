/*
 * A fork bomb under RLIMIT_NPROC: fork fails with EAGAIN, everything else goes on, and all of it can be killed.
 * timeout: 120
 */
#include <sched.h>
#include <sys/resource.h>

#include "stress.h"

#define LIMIT 200

static void bomb(void *unused)
{
	struct rlimit r = { LIMIT, LIMIT };

	(void)unused;
	MUST(setpgid(0, 0) == 0);
	MUST(setrlimit(RLIMIT_NPROC, &r) == 0);
	MUST(setuid(4711) == 0);
	for (;;) {
		pid_t pid = fork();

		if (pid < 0) {
			if (errno != EAGAIN && errno != ENOMEM)
				_exit(3);
			sched_yield();
		}
		if (getppid() == 1)
			_exit(0);	/* the root of the bomb is dead */
	}
}

static void work(void)
{
	pid_t pid = fork();
	int status;

	MUST(pid >= 0);
	if (pid == 0)
		bomb(NULL);
	usleep(1500000);
	MUST(kill(-pid, SIGKILL) == 0);
	MUST(waitpid(pid, &status, 0) == pid);
	/* A member may have forked between two looks: as many kills as it takes. */
	for (int i = 0; i < 1000 && kill(-pid, SIGKILL) == 0; i++)
		usleep(2000);
	CHECK(kill(-pid, SIGKILL) == -1 && errno == ESRCH);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(0);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

int main(void)
{
	stress_and_compare_memory(work, 2048);
	test_end();
}
