/*
 * The threads of one process do, at the same time, what concerns all of them: execve from any thread, exit_group, fork, new
 * threads, signals to the process, stop and continue. Whatever wins, the process ends with one of the statuses that make
 * sense, its children are adopted and end too, and nobody hangs.
 *
 * slow-cpus: 1 4 8
 * timeout: 180
 */
#define _GNU_SOURCE
#include "../guest/test.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#define ROUNDS 150
#define THREADS 6

static char self[4096];
static unsigned seed;

static unsigned rnd(unsigned *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

static void *does_nothing(void *arg) { return arg; }

static void *thread(void *arg)
{
	static _Thread_local unsigned s;	/* not on the stack that a vfork child shares */
	pthread_t t;
	pid_t pid;

	s = seed * 2654435761u + (unsigned)(long)arg * 40503u + 1;
	for (int i = 0; i < 40; i++) {
		switch (rnd(&s) % 12) {
		case 0:
			execve(self, (char *[]){ self, "new", NULL }, NULL);
			break;		/* another thread was faster: we are about to be killed */
		case 1:
			if (rnd(&s) % 4 == 0)
				syscall(SYS_exit_group, 11);
			break;
		case 2:
		case 3:
			pid = fork();
			if (!pid)
				_exit(0);
			if (pid > 0 && rnd(&s) & 1)
				waitpid(pid, NULL, 0);
			break;
		case 4:
			if (!pthread_create(&t, NULL, does_nothing, NULL))
				pthread_detach(t);
			break;
		case 5:
			kill(getpid(), SIGUSR1);
			break;
		case 6:
			if (rnd(&s) % 8 == 0)
				kill(getpid(), SIGTERM);
			break;
		case 7:
			raise(SIGUSR1);
			break;
		case 8:
			pid = vfork();
			if (!pid) {
				execve(self, (char *[]){ self, "new", NULL }, NULL);
				_exit(1);
			}
			break;
		case 9:
			usleep(rnd(&s) % 500);
			break;
		case 10:
			if (rnd(&s) % 4 == 0)
				syscall(SYS_exit, 11);	/* this thread alone */
			break;
		default:
			for (volatile unsigned n = rnd(&s) % 5000; n; n--)
				;
		}
	}
	return NULL;
}

static void handler(int sig) { (void)sig; }

static void one_round(void)
{
	pthread_t t[THREADS];

	signal(SIGUSR1, handler);
	for (long i = 0; i < THREADS; i++) {
		if (pthread_create(&t[i], NULL, thread, (void *)i))
			t[i] = 0;
	}
	thread((void *)100L);
	_exit(11);
}

int main(int argc, char **argv)
{
	int st;

	if (argc > 1 && !strcmp(argv[1], "new"))
		return 12;
	MUST(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	MUST(!prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
	for (int round = 0; round < ROUNDS; round++) {
		seed = (unsigned)round + 1;
		pid_t pid = fork();
		MUST(pid >= 0);
		if (!pid)
			one_round();
		/* Stop and continue it meanwhile; it must end all the same. */
		for (int i = 0; i < 3; i++) {
			kill(pid, SIGSTOP);
			kill(pid, SIGCONT);
		}
		for (int ms = 0; waitpid(pid, &st, WNOHANG) == 0; ms++) {
			usleep(1000);
			if (ms == 20000) {
				printf("round %d hangs\n", round);
				fflush(stdout);
				kill(pid, SIGKILL);
				MUST(waitpid(pid, &st, 0) == pid);
				test_failures++;
				break;
			}
		}
		int fair = WIFEXITED(st) ? WEXITSTATUS(st) == 11 || WEXITSTATUS(st) == 12 || WEXITSTATUS(st) == 0
					 : WTERMSIG(st) == SIGTERM || WTERMSIG(st) == SIGUSR1 ||
					   WTERMSIG(st) == SIGSEGV;	/* Linux: an execve that loses past its point of no return */
		if (!fair)
			printf("round %d ends with %x\n", round, st), test_failures++;
		for (int ms = 0; (pid = waitpid(-1, &st, WNOHANG)) >= 0;) {	/* orphans come to us */
			if (pid > 0)
				continue;
			usleep(1000);
			if (++ms == 20000) {
				printf("round %d leaves an orphan that does not end\n", round);
				test_failures++;
				break;
			}
		}
		CHECK_EQUAL(ECHILD, errno);
	}
	test_end();
}
