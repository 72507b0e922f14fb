/*
 * In the guest of a grader: runs test programs one after the other, each within a budget, and says how they ended.
 *
 *	runner LIST SECRET-FILE		LIST: lines "NAME BUDGET-IN-MILLIONS ARGUMENTS..."
 *
 * Under -icount one guest nanosecond is one instruction, so the clock measures instructions, and the budget holds on any
 * host. The secret is read and its file removed before the first test starts: no test and nothing that it prints can look like
 * a verdict of ours. (A kernel can: see docs/labs/README.md.)
 *
 *	SECRET loop, then a loop, then
 *	SECRET ready INSTRUCTIONS		of the loop
 *	SECRET begin NAME
 *	SECRET output BYTES, then that many bytes (the last ones that the test printed)
 *	SECRET end NAME STATUS INSTRUCTIONS		status as of a shell; "budget" if it was killed for taking too long
 *	SECRET all
 *
 * Programs are called /t/tests/lab-NAME: bugs that are planted for students' tests act in processes of such a name only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OUTPUT		"/tmp/.output"
#define SHOWN		4000
#define MAX_ARGUMENTS	16
#define LOOP		10000000

static char secret[80];

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void trouble(const char *what)
{
	printf("%s trouble %s: %s\n", secret, what, strerror(errno));
	fflush(stdout);
	_exit(99);
}

static void run_child(char **argv)
{
	int out = open(OUTPUT, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600), in = open("/dev/null", O_RDONLY);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(98);
	execv(argv[0], argv);
	printf("exec %s: %s\n", argv[0], strerror(errno));
	fflush(stdout);
	_exit(97);
}

/* Until @pid ends or the budget does: its wait status, or -1 when it had to be killed. */
static int wait_for(pid_t pid, long long end)
{
	sigset_t chld;
	int status;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid)
			return status;
		long long left = end - now();
		if (left <= 0)
			break;
		struct timespec ts = { left / 1000000000, left % 1000000000 };
		sigtimedwait(&chld, NULL, &ts);
	}
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	/* What cannot even be killed hangs inside the kernel; then this is where the host's watchdog finds us. */
	for (long long give_up = now() + 1000000000ll; now() < give_up; usleep(1000))
		if (waitpid(pid, &status, WNOHANG) == pid)
			break;
	return -1;
}

static void show_output(void)
{
	static char buf[SHOWN];
	struct stat st;
	ssize_t n = 0;
	int fd = open(OUTPUT, O_RDONLY);

	if (fd >= 0 && fstat(fd, &st) == 0) {
		if (st.st_size > SHOWN)
			lseek(fd, -SHOWN, SEEK_END);
		n = read(fd, buf, sizeof(buf));
	}
	if (fd >= 0)
		close(fd);
	printf("%s output %zd\n", secret, n > 0 ? n : 0);
	if (n > 0)
		fwrite(buf, 1, (size_t)n, stdout);
	printf("\n");
}

static void run(char *line)
{
	char path[256], *argv[MAX_ARGUMENTS + 1] = { path }, *save;
	char *name = strtok_r(line, " \n", &save), *budget = strtok_r(NULL, " \n", &save);
	int argc = 1;

	if (!name || !budget)
		return;
	while (argc < MAX_ARGUMENTS && (argv[argc] = strtok_r(NULL, " \n", &save)))
		argc++;
	snprintf(path, sizeof(path), "/t/tests/lab-%s", name);
	printf("%s begin %s\n", secret, name);
	fflush(stdout);
	unlink(OUTPUT);

	long long start = now();
	pid_t pid = fork();

	if (pid < 0)
		trouble("fork");
	if (pid == 0)
		run_child(argv);
	int status = wait_for(pid, start + atoll(budget) * 1000000ll);
	long long took = now() - start;

	kill(-1, SIGKILL);		/* whatever it left running; spares us and process 1 */
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	show_output();
	if (status == -1)
		printf("%s end %s budget %lld\n", secret, name, took);
	else
		printf("%s end %s %d %lld\n", secret, name, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), took);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	sigset_t chld;
	char line[512];
	FILE *f;

	if (argc != 3 || !(f = fopen(argv[2], "r")) || !fgets(secret, sizeof(secret), f))
		return 2;
	secret[strcspn(secret, "\n")] = '\0';
	fclose(f);
	unlink(argv[2]);
	prctl(PR_SET_DUMPABLE, 0);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);

	f = fopen(argv[1], "re");
	if (!f)
		return 2;
	/* How fast is this machine? The grader looks at its clock at both lines. */
	printf("%s loop\n", secret);
	fflush(stdout);
	long long begin = now();
	for (volatile int i = 0; i < LOOP; i++)
		;
	printf("%s ready %lld\n", secret, now() - begin);
	fflush(stdout);
	while (fgets(line, sizeof(line), f))
		run(line);
	printf("%s all\n", secret);
	fflush(stdout);
	return 0;
}
