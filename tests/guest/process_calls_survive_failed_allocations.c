/*
 * In a debug build the n-th allocation of a task can be made to fail. For n = 1, 2, 3... until nothing fails any more: fork,
 * threads, execve, setuid, signals and pidfds give an error or work; nothing leaks.
 *
 * only: faultline
 * build: debug
 */
#define _GNU_SOURCE
#include "test.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define CONTROL "/sys/kernel/faultline/alloc_fail"

static char self[4096];
static int control;

static void fail_at(int n)
{
	char text[16];
	int len = sprintf(text, "%d", n);

	while (write(control, text, (size_t)len) != len)
		MUST(errno == ENOMEM);		/* the failure that was asked for hits the call that takes it back */
}

static int thread_fn(void *arg) { (void)arg; return 0; }

/* Each returns 0 or an errno. */
static int do_fork(void)
{
	pid_t pid = fork();
	if (!pid)
		_exit(0);
	if (pid < 0)
		return errno;
	waitpid(pid, NULL, 0);
	return 0;
}

static int do_clone(void)
{
	static char stack[16384] __attribute__((aligned(16)));
	int pidfd = -1;
	pid_t pid = clone(thread_fn, stack + sizeof(stack), CLONE_VM | CLONE_FS | CLONE_PIDFD | SIGCHLD, NULL, &pidfd);
	if (pid < 0)
		return errno;
	waitpid(pid, NULL, 0);
	close(pidfd);
	return 0;
}

static int do_exec(void)
{
	execve(self, (char *[]){ self, "nothing", NULL }, (char *[]){ "A=b", NULL });
	return errno;
}

static int do_setuid(void) { return setuid(12345) ? errno : 0; }

static int do_signals(void)
{
	sigset_t set;
	siginfo_t info;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 3; i++) {
		if (sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = i }))
			return errno;
	}
	while (sigtimedwait(&set, &info, &(struct timespec){ 0 }) > 0)
		;
	return 0;
}

static int do_pidfd(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* How a child that tries may end. Past execve's point of no return, or when it cannot have a page, a signal kills it. */
static int end_is_fair(int st)
{
	if (WIFEXITED(st))
		return WEXITSTATUS(st) == 0 || WEXITSTATUS(st) == 9;
	return WTERMSIG(st) == SIGSEGV || WTERMSIG(st) == SIGKILL || WTERMSIG(st) == SIGBUS;
}

#define ENOUGH 20	/* so many successes in a row: there are no more allocations to fail */

static void try_all(const char *name, int (*fn)(void))
{
	int n, st, successes = 0;

	for (n = 1; n < 1000 && successes < ENOUGH; n++) {
		pid_t pid = fork();
		MUST(pid >= 0);
		if (!pid) {
			fail_at(n);
			int err = fn();
			fail_at(0);
			if (err && err != ENOMEM && err != EAGAIN && err != ENFILE) {
				printf("%s: allocation %d fails: errno %d (%s)\n", name, n, err, strerror(err));
				fflush(stdout);
				_exit(1);
			}
			_exit(err ? 9 : 0);
		}
		MUST(waitpid(pid, &st, 0) == pid);
		if (!end_is_fair(st))
			printf("%s: allocation %d fails: status %x\n", name, n, st), test_failures++;
		successes = st ? 0 : successes + 1;
	}
	CHECK(n < 1000);
}

static void all(void)
{
	try_all("fork", do_fork);
	try_all("clone", do_clone);
	try_all("execve", do_exec);
	try_all("setuid", do_setuid);
	try_all("signals", do_signals);
	try_all("pidfd", do_pidfd);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "nothing"))
		return 0;
	MUST(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	control = open(CONTROL, O_WRONLY | O_CLOEXEC);
	if (control < 0)
		test_skip("failure injection is in the debug build");
	all();			/* fills the caches */
	long before = meminfo("MemFree");
	all();
	usleep(300000);
	long after = meminfo("MemFree");
	if (before - after > 1024)
		printf("%ld kB are gone\n", before - after), test_failures++;
	test_end();
}
