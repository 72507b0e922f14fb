/*
 * Threads of one process while its pages are being copied: a write that a thread has finished and told about is seen by the others,
 * though they read the page all the time through translations from before; and two writes to different words of one page are both
 * there afterwards. In the debug kernel, with its race windows.
 * build: debug
 * seeds: 3
 * budget: 3000
 */
#include "tests/labs/lab_test.h"

#define ROUNDS	25

static volatile long *page;
static volatile long told, seen, stop;
static pthread_barrier_t begin, over;

/* Reads page[1] all the time; once it is told that a value has been written there it must find it. */
static void *reader(void *unused)
{
	(void)unused;
	while (!stop) {
		long want = __atomic_load_n(&told, __ATOMIC_ACQUIRE), got = page[1];

		if (want && got < want) {
			printf("page[1] is %ld, after another thread wrote %ld\n", got, want);
			test_failures++;
			break;
		}
		seen = want;
		relax();
	}
	return NULL;
}

/* Writes a word of its own in each round, at the same moment as the others. */
static void *writer(void *arg)
{
	long me = (long)arg;

	for (long round = 1; round <= ROUNDS; round++) {
		pthread_barrier_wait(&begin);
		page[8 + me] = round;
		pthread_barrier_wait(&over);
	}
	return NULL;
}

static pid_t fork_holder(void)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid) {
		pause();
		_exit(0);
	}
	return pid;
}

static void end_holder(pid_t pid)
{
	kill(pid, SIGKILL);
	MUST(waitpid(pid, NULL, 0) == pid);
}

int main(void)
{
	pthread_t r, w[2];

	page = (void *)map_alone(1, RW);
	page[1] = 0;
	MUST(pthread_create(&r, NULL, reader, NULL) == 0);
	for (long round = 1; round <= ROUNDS; round++) {
		pid_t pid = fork_holder();		/* from now on the page is shared: the next write copies it */

		page[1] = round;
		__atomic_store_n(&told, round, __ATOMIC_RELEASE);
		for (double end = now() + 1; seen < round && !test_failures && now() < end; relax())
			sched_yield();
		end_holder(pid);
	}
	stop = 1;
	pthread_join(r, NULL);

	pthread_barrier_init(&begin, NULL, 3);
	pthread_barrier_init(&over, NULL, 3);
	for (long i = 0; i < 2; i++)
		MUST(pthread_create(&w[i], NULL, writer, (void *)i) == 0);
	for (long round = 1; round <= ROUNDS; round++) {
		pid_t pid = fork_holder();

		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&over);
		CHECK_EQUAL(round, page[8]);
		CHECK_EQUAL(round, page[9]);
		end_holder(pid);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(w[i], NULL);
	test_end();
}
