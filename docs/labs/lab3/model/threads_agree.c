/* Two threads write to one page that has just become shared by fork, a third reads it all the time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long *page;
static volatile long published, stale, quit;
static pthread_barrier_t line;

static void *watch(void *unused)
{
	(void)unused;
	while (!quit) {
		long p = __atomic_load_n(&published, __ATOMIC_ACQUIRE);

		if (page[0] < p)
			stale = 1;
		__builtin_ia32_pause();
	}
	return NULL;
}

static void *other(void *unused)
{
	(void)unused;
	for (long i = 1; i <= 40; i++) {
		pthread_barrier_wait(&line);
		page[64] = i;
		pthread_barrier_wait(&line);
	}
	return NULL;
}

int main(void)
{
	pthread_t a, b;
	int lost = 0;

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page[0] = 0;
	pthread_barrier_init(&line, NULL, 2);
	pthread_create(&a, NULL, watch, NULL);
	pthread_create(&b, NULL, other, NULL);
	for (long i = 1; i <= 40; i++) {
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				pause();
		pthread_barrier_wait(&line);
		page[0] = i;
		__atomic_store_n(&published, i, __ATOMIC_RELEASE);
		pthread_barrier_wait(&line);
		lost |= page[0] != i || page[64] != i;
		usleep(2000);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	quit = 1;
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	if (stale)
		puts("a thread read what was there before");
	if (lost)
		puts("a write is lost");
	return stale || lost;
}
