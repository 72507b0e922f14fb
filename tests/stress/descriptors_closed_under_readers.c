/*
 * Threads that close and reopen the descriptors on which others read, write, poll and dup: EBADF at worst, never a hang
 * and never somebody else's file.
 * timeout: 120
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include "tests/stress/stress.h"

static int ends[2];
static volatile int stop;

static void *reader(void *unused)
{
	char c;

	(void)unused;
	while (!stop) {
		struct pollfd p = { ends[0], POLLIN, 0 };

		poll(&p, 1, 1);
		if (read(ends[0], &c, 1) == 1 && c != 'x')
			__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);
		close(dup(ends[0]));
	}
	return NULL;
}

static void *writer(void *unused)
{
	(void)unused;
	while (!stop)
		if (write(ends[1], "x", 1) < 0 && errno != EBADF && errno != EAGAIN && errno != EPIPE)
			__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void *closer(void *unused)
{
	(void)unused;
	while (!stop) {
		int fresh[2];

		if (pipe2(fresh, O_NONBLOCK))
			continue;
		dup2(fresh[0], ends[0]);
		dup2(fresh[1], ends[1]);
		close(fresh[0]);
		close(fresh[1]);
	}
	return NULL;
}

static void work(void)
{
	void *(*const fn[])(void *) = { reader, reader, writer, writer, closer };
	pthread_t t[5];

	signal(SIGPIPE, SIG_IGN);
	MUST(pipe2(ends, O_NONBLOCK) == 0);
	for (int i = 0; i < 5; i++)
		MUST(pthread_create(&t[i], NULL, fn[i], NULL) == 0);
	sleep(2);
	stop = 1;
	for (int i = 0; i < 5; i++)
		pthread_join(t[i], NULL);
	stop = 0;
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	stress_rounds(work, 3, 1024);
	test_end();
}
