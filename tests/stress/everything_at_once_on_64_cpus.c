/*
 * More runnable processes than processors: forks, threads, pipes, faults and signals at the same time.
 * cpus: 64
 * mem: 2G
 * timeout: 240
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "tests/stress/stress.h"

#define WORKERS 72

static void *touch(void *arg)
{
	size_t size = 1 << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED);
	for (size_t i = 0; i < size; i += 4096)
		p[i] = (char)(long)arg;
	for (size_t i = 0; i < size; i += 4096)
		CHECK_EQUAL((char)(long)arg, p[i]);
	munmap(p, size);
	return NULL;
}

static void worker(long me)
{
	pthread_t threads[3];
	int fds[2], status;
	char c = 0;
	pid_t pid;

	for (long i = 0; i < 3; i++)
		MUST(pthread_create(&threads[i], NULL, touch, (void *)(me + i)) == 0);
	MUST(pipe(fds) == 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		MUST(write(fds[1], &me, 1) == 1);
		for (;;)
			pause();
	}
	MUST(read(fds[0], &c, 1) == 1);
	CHECK_EQUAL((char)me, c);
	kill(pid, SIGTERM);
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	for (int i = 0; i < 3; i++)
		MUST(pthread_join(threads[i], NULL) == 0);
}

static void round_of_everything(void)
{
	pid_t pids[WORKERS];
	int status;

	fflush(stdout);
	for (long i = 0; i < WORKERS; i++) {
		pids[i] = fork();
		MUST(pids[i] >= 0);
		if (pids[i] == 0) {
			worker(i);
			fflush(stdout);
			_exit(test_failures ? 1 : 0);
		}
	}
	for (int i = 0; i < WORKERS; i++) {
		MUST(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK_EQUAL(0, status);
	}
}

int main(void)
{
	cpu_set_t set;

	MUST(sched_getaffinity(0, sizeof(set), &set) == 0);
	CHECK_EQUAL(64, CPU_COUNT(&set));
	stress_rounds(round_of_everything, 2, 1024);
	test_end();
}
