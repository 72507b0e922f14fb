/*
 * Processes that signal each other as fast as they can while they compute, sleep and make system calls: no signal kills
 * by mistake, registers and the floating-point state survive each handler, real-time signals are not lost.
 * timeout: 120
 */
#include <stdint.h>
#include <sys/time.h>

#include "stress.h"

#define PROCESSES 6

static volatile sig_atomic_t seen;

static void handler(int sig)
{
	volatile double x = sig;

	for (int i = 0; i < 10; i++)
		x = x * 1.5 + i;
	seen++;
}

static void victim(void)
{
	double sum = 0, again = 0;

	while (stress_goes_on()) {
		sum = again = 0;
		for (int i = 1; i < 2000; i++)
			sum += 1.0 / i;
		for (int i = 1; i < 2000; i++)
			again += 1.0 / i;
		if (sum != again)
			_exit(2);
		getppid();
		usleep(10);
	}
	_exit(seen ? 0 : 3);
}

static void work(void)
{
	struct sigaction sa = { .sa_handler = handler };
	pid_t pids[PROCESSES];
	int status;

	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR2, &sa, NULL);
	sigaction(SIGRTMIN, &sa, NULL);
	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		MUST(pids[i] >= 0);
		if (pids[i] == 0) {
			struct itimerval tick = { { 0, 700 }, { 0, 700 } };

			setitimer(ITIMER_REAL, &tick, NULL);
			victim();
		}
	}
	while (stress_goes_on()) {
		for (int i = 0; i < PROCESSES; i++) {
			kill(pids[i], SIGUSR1);
			kill(pids[i], SIGUSR2);
			kill(pids[i], SIGRTMIN);
			if (i == 0) {
				kill(pids[i], SIGSTOP);
				kill(pids[i], SIGCONT);
			}
		}
	}
	for (int i = 0; i < PROCESSES; i++) {
		MUST(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK_EQUAL(0, status);
	}
}

int main(void)
{
	stress_and_compare_memory(work, 1024);
	test_end();
}
