/*
 * Threads in every kind of wait are bombarded with signals, with SA_RESTART and without: none is stuck, none loses its work.
 * cpus: 2 8
 * timeout: 120
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/stress/stress.h"

#define THREADS 8

static int fds[2];
static volatile int stop;
static long handled, work[THREADS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void on_signal(int sig)
{
	(void)sig;
	__atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

static void *worker(void *arg)
{
	long me = (long)arg;
	char c;

	while (!stop) {
		struct timespec nap = { 0, 200000 };
		struct pollfd p = { fds[0], POLLIN, 0 };
		char *page;

		switch (me % 5) {
		case 0:	/* restarted reads of a byte that always comes back */
			if (read(fds[0], &c, 1) == 1)
				MUST(write(fds[1], &c, 1) == 1 || errno == EINTR);
			break;
		case 1:
			poll(&p, 1, 1);
			break;
		case 2:
			nanosleep(&nap, NULL);
			break;
		case 3:
			pthread_mutex_lock(&mutex);
			sched_yield();
			pthread_mutex_unlock(&mutex);
			break;
		case 4:
			page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			MUST(page != MAP_FAILED);
			memset(page, 1, 65536);
			munmap(page, 65536);
			break;
		}
		work[me]++;
	}
	return NULL;
}

static void round_of_signals(void)
{
	pthread_t threads[THREADS];
	struct sigaction sa = { .sa_handler = on_signal };

	MUST(pipe(fds) == 0);
	MUST(write(fds[1], "abcd", 4) == 4);
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR2, &sa, NULL);
	stop = 0;
	handled = 0;
	memset(work, 0, sizeof(work));
	for (long i = 0; i < THREADS; i++)
		MUST(pthread_create(&threads[i], NULL, worker, (void *)i) == 0);
	for (int n = 0; n < 400; n++) {
		for (int i = 0; i < THREADS; i++)
			MUST(pthread_kill(threads[i], n & 1 ? SIGUSR1 : SIGUSR2) == 0);
		if (n % 16 == 0)
			usleep(1000);
	}
	usleep(50000);
	stop = 1;
	CHECK(write(fds[1], "efgh", 4) == 4);
	for (int i = 0; i < THREADS; i++) {
		MUST(pthread_join(threads[i], NULL) == 0);
		CHECK(work[i] > 0);
	}
	CHECK(handled > THREADS);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	stress_rounds(round_of_signals, 3, 1024);
	test_end();
}
