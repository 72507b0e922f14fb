/*
 * fork, exit, wait4 and waitid: statuses, WNOHANG, WNOWAIT, groups, orphans and subreapers, automatic reaping, __WCLONE,
 * the end of a process whose leader went first, vfork, usage of children.
 */
#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static pid_t child(int status)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid)
		_exit(status);
	return pid;
}

static void statuses(void)
{
	int st;

	for (int code = 0; code < 256; code += 51) {
		pid_t pid = child(code);

		CHECK_EQUAL(pid, waitpid(pid, &st, 0));
		CHECK(WIFEXITED(st) && WEXITSTATUS(st) == code);
	}
	pid_t pid = fork();
	if (!pid) {
		raise(SIGKILL);
		_exit(1);
	}
	CHECK_EQUAL(pid, waitpid(-1, &st, 0));
	CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
	CHECK_ERRNO(ECHILD, waitpid(-1, &st, 0));
	CHECK_ERRNO(ECHILD, waitpid(1, &st, WNOHANG));
	CHECK_ERRNO(EINVAL, waitpid(-1, &st, 0x100));
	CHECK_ERRNO(ESRCH, waitpid(-2147483647 - 1, &st, 0));
	CHECK_ERRNO(EINVAL, waitid(P_ALL, 0, NULL, WNOHANG));
}

static void without_hanging(void)
{
	int pipefd[2], st;
	char c;

	MUST(!pipe(pipefd));
	pid_t pid = fork();
	if (!pid) {
		close(pipefd[1]);
		read(pipefd[0], &c, 1);
		_exit(9);
	}
	close(pipefd[0]);
	CHECK_EQUAL(0, waitpid(pid, &st, WNOHANG));
	siginfo_t info = { .si_pid = 77, .si_signo = 77 };
	CHECK_EQUAL(0, waitid(P_PID, pid, &info, WEXITED | WNOHANG));
	CHECK_EQUAL(0, info.si_signo);
	CHECK_EQUAL(0, info.si_pid);
	close(pipefd[1]);
	/* Looked at, and still there. */
	CHECK_EQUAL(0, waitid(P_ALL, 0, &info, WEXITED | WNOWAIT));
	CHECK_EQUAL(SIGCHLD, info.si_signo);
	CHECK_EQUAL(CLD_EXITED, info.si_code);
	CHECK_EQUAL(pid, info.si_pid);
	CHECK_EQUAL(9, info.si_status);
	CHECK_EQUAL(0, kill(pid, 0));
	CHECK_EQUAL(pid, waitpid(pid, &st, 0));
	CHECK_ERRNO(ESRCH, kill(pid, 0));
}

static void groups(void)
{
	int st;
	pid_t a = fork();
	if (!a) {
		setpgid(0, 0);
		_exit(1);
	}
	setpgid(a, a);
	pid_t b = child(2);
	CHECK_EQUAL(a, waitpid(-a, &st, 0));
	CHECK_ERRNO(ECHILD, waitpid(-a, &st, 0));
	CHECK_EQUAL(b, waitpid(0, &st, 0));
}

static void automatic_reaping(void)
{
	int st;

	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 5; i++)
		child(0);
	CHECK_ERRNO(ECHILD, waitpid(-1, &st, 0));	/* waits for all of them, then there is none */
	signal(SIGCHLD, SIG_DFL);
	struct sigaction sa = { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT };
	sigaction(SIGCHLD, &sa, NULL);
	child(0);
	CHECK_ERRNO(ECHILD, wait(&st));
	signal(SIGCHLD, SIG_DFL);
}

static void orphans(void)
{
	int st;

	MUST(!prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
	pid_t me = getpid();
	pid_t middle = fork();
	if (!middle) {
		if (!fork()) {
			while (getppid() != me)
				sched_yield();
			_exit(33);
		}
		child(44);		/* becomes an orphan as a zombie */
		usleep(50000);
		_exit(5);
	}
	CHECK_EQUAL(middle, waitpid(middle, &st, 0));
	int sum = 0;
	for (int i = 0; i < 2; i++) {
		CHECK(wait(&st) > 0);
		sum += WEXITSTATUS(st);
	}
	CHECK_EQUAL(77, sum);
	prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

static void *exits_last(void *arg)
{
	usleep(100000);
	*(volatile int *)arg = 1;
	syscall(SYS_exit, 3);
	return NULL;
}

/* The process lives until its last thread ends, and then has that thread's status (since Linux 5.18). */
static void leader_goes_first(void)
{
	int st;
	int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();
	if (!pid) {
		pthread_t t;
		pthread_create(&t, NULL, exits_last, shared);
		syscall(SYS_exit, 6);
	}
	CHECK_EQUAL(pid, waitpid(pid, &st, 0));
	CHECK_EQUAL(1, *shared);
	CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 3);
}

static void *never_ends(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *ends_all(void *arg)
{
	(void)arg;
	exit(7);
}

static void group_exit(void)
{
	int st;
	pid_t pid = fork();
	if (!pid) {
		pthread_t t;
		for (int i = 0; i < 4; i++)
			pthread_create(&t, NULL, never_ends, NULL);
		pthread_create(&t, NULL, ends_all, NULL);
		never_ends(NULL);
	}
	CHECK_EQUAL(pid, waitpid(pid, &st, 0));
	CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 7);
}

static int clone_child(void *arg) { return (int)(long)arg; }

static void clone_children(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	int st;
	pid_t pid = clone(clone_child, stack + sizeof(stack), CLONE_VM, (void *)21L);	/* no exit signal */

	MUST(pid > 0);
	CHECK_ERRNO(ECHILD, waitpid(pid, &st, 0));
	CHECK_EQUAL(pid, waitpid(pid, &st, __WCLONE));
	CHECK_EQUAL(21, WEXITSTATUS(st));
	signal(SIGUSR2, SIG_IGN);
	pid = clone(clone_child, stack + sizeof(stack), CLONE_VM | SIGUSR2, (void *)22L);
	CHECK_EQUAL(pid, waitpid(pid, &st, __WALL));
	CHECK_EQUAL(22, WEXITSTATUS(st));
	signal(SIGUSR2, SIG_DFL);
}

static void vfork_shares_and_waits(void)
{
	static volatile int stage;
	int st;
	pid_t pid = vfork();

	if (!pid) {
		stage = 1;
		_exit(8);
	}
	CHECK_EQUAL(1, stage);
	CHECK_EQUAL(pid, waitpid(pid, &st, 0));
	CHECK_EQUAL(8, WEXITSTATUS(st));
}

static void usage(void)
{
	struct rusage before, after, ru;
	int st;

	getrusage(RUSAGE_CHILDREN, &before);
	pid_t pid = fork();
	if (!pid) {
		for (volatile long i = 0; i < 30000000; i++)
			;
		_exit(0);
	}
	CHECK_EQUAL(pid, wait4(pid, &st, 0, &ru));
	CHECK(ru.ru_utime.tv_sec * 1000000 + ru.ru_utime.tv_usec > 1000);
	CHECK(ru.ru_minflt > 0);
	getrusage(RUSAGE_CHILDREN, &after);
	CHECK(after.ru_minflt >= before.ru_minflt + ru.ru_minflt);
	CHECK_ERRNO(EINVAL, getrusage(5, &ru));
}

static void many_children(void)
{
	enum { N = 200 };
	int st, seen = 0;

	for (int i = 0; i < N; i++)
		child(i);
	while (wait(&st) > 0)
		seen++;
	CHECK_EQUAL(N, seen);
}

static void bad_clones(void)
{
	CHECK_ERRNO(EINVAL, syscall(SYS_clone, CLONE_THREAD | CLONE_VM, 0, 0, 0, 0));
	CHECK_ERRNO(EINVAL, syscall(SYS_clone, CLONE_SIGHAND, 0, 0, 0, 0));
	char args[256] = { 0 };
	CHECK_ERRNO(EINVAL, syscall(SYS_clone3, args, 8));
	CHECK_ERRNO(E2BIG, syscall(SYS_clone3, args, 8192));
	CHECK_ERRNO(EFAULT, syscall(SYS_clone3, (void *)8, 64));
	args[200] = 1;
	CHECK_ERRNO(E2BIG, syscall(SYS_clone3, args, 256));
}

int main(void)
{
	statuses();
	without_hanging();
	groups();
	automatic_reaping();
	orphans();
	leader_goes_first();
	group_exit();
	clone_children();
	vfork_shares_and_waits();
	usage();
	many_children();
	bad_clones();
	test_end();
}
