/*
 * Many processes execute programs over and over, by fork and by vfork; some are killed in the middle of it.
 * cpus: 2 8
 * timeout: 120
 */
#define _DEFAULT_SOURCE
#include "tests/stress/stress.h"

static void worker(int number)
{
	for (volatile int i = 0; i < 15; i++) {
		int status;
		pid_t pid = (i & 1) ? vfork() : fork();

		if (pid == 0) {
			execl("/bin/sh", "sh", "-c", i % 3 ? "exit 5" : "exec /bin/sh -c 'exit 5'", (char *)NULL);
			_exit(99);
		}
		MUST(pid > 0);
		if (i % 5 == 4 && number % 2)
			kill(pid, SIGKILL);
		MUST(waitpid(pid, &status, 0) == pid);
		CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 5) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
	}
}

static void round_of_execs(void)
{
	pid_t pids[6];
	int status;

	fflush(stdout);
	for (int i = 0; i < 6; i++) {
		pids[i] = fork();
		MUST(pids[i] >= 0);
		if (pids[i] == 0) {
			worker(i);
			fflush(stdout);
			_exit(test_failures ? 1 : 0);
		}
	}
	for (int i = 0; i < 6; i++) {
		MUST(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK_EQUAL(0, status);
	}
}

int main(void)
{
	stress_rounds(round_of_execs, 3, 1024);
	test_end();
}
