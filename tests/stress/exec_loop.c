/*
 * exec, and exec again, from single- and many-threaded processes, while others fork and exit: memory comes back.
 * timeout: 120
 */
#include <pthread.h>

#include "stress.h"

static char *self;

static void *sleeper(void *unused)
{
	(void)unused;
	for (;;)
		pause();
}

/* Re-executes itself @left times, with threads that exec must end. */
static void chain(int left)
{
	char number[16];
	char *argv[] = { self, "chain", number, NULL };
	pthread_t t;

	if (left == 0)
		_exit(0);
	for (int i = 0; i < 3; i++)
		if (pthread_create(&t, NULL, sleeper, NULL))
			_exit(4);
	snprintf(number, sizeof(number), "%d", left - 1);
	execv(self, argv);
	_exit(5);
}

static void work(void)
{
	int running = 0, status;

	while (stress_goes_on() || running) {
		if (stress_goes_on() && running < 8) {
			pid_t pid = fork();

			MUST(pid >= 0);
			if (pid == 0)
				chain(5);
			running++;
			continue;
		}
		MUST(wait(&status) > 0);
		CHECK_EQUAL(0, status);
		running--;
	}
}

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc == 3)
		chain(atoi(argv[2]));
	stress_and_compare_memory(work, 2048);
	test_end();
}
