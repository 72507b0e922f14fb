/*
 * An interactive ash on a pseudo terminal: Ctrl-C ends a job, Ctrl-Z stops it, jobs, bg and fg know about it, a background job
 * that reads is stopped, pipelines are one job, and hanging up ends them all.
 */
#define _GNU_SOURCE
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <termios.h>
#include <time.h>

static int master;
static char seen[65536];
static size_t nseen, mark;

static long now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Waits until @text has come since the last type() or expect(). */
static int expect(const char *text)
{
	long end = now_ms() + 10000;

	for (;;) {
		char *at = strstr(seen + mark, text);
		if (at) {
			mark = (size_t)(at - seen) + strlen(text);
			return 1;
		}
		struct pollfd p = { master, POLLIN, 0 };
		long left = end - now_ms();
		if (left <= 0 || poll(&p, 1, (int)left) <= 0)
			break;
		ssize_t n = read(master, seen + nseen, sizeof(seen) - 1 - nseen);
		if (n <= 0)
			break;
		seen[nseen + (size_t)n] = 0;
		/* BusyBox's line editor asks the terminal where the cursor is, and waits a little for the answer. */
		if (strstr(seen + nseen, "\033[6n"))
			write(master, "\033[1;8R", 7);
		nseen += (size_t)n;
	}
	printf("expected \"%s\" after \"%s\"\n", text, seen + mark);
	test_failures++;
	return 0;
}

static void type(const char *text) { MUST(write(master, text, strlen(text)) == (ssize_t)strlen(text)); }

int main(void)
{
	int st;
	pid_t pid = forkpty(&master, NULL, NULL, NULL);

	MUST(pid >= 0);
	if (!pid) {
		setenv("PS1", "READY> ", 1);
		unsetenv("ENV");
		execlp("busybox", "ash", "-i", NULL);
		execlp("ash", "ash", "-i", NULL);
		execlp("sh", "sh", "-i", NULL);
		_exit(77);
	}
	if (!expect("READY> ")) {
		waitpid(pid, &st, WNOHANG);
		test_end();
	}
	type("echo $((6*7))\n");
	expect("42\r\n");
	expect("READY> ");

	type("sleep 1000; echo after=$?\n");
	usleep(300000);
	type("\003");			/* Ctrl-C: ends the job and the line */
	expect("^C");
	expect("READY> ");
	type("echo status=$?\n");
	expect("status=130");
	expect("READY> ");

	type("sleep 1001\n");
	usleep(300000);
	type("\032");			/* Ctrl-Z */
	expect("Stopped");
	expect("READY> ");
	type("jobs\n");
	expect("Stopped");
	expect("sleep 1001");
	expect("READY> ");
	type("bg\n");
	expect("READY> ");
	type("jobs\n");
	expect("Running");
	expect("READY> ");
	type("fg\n");
	expect("sleep 1001");
	usleep(300000);
	type("\003");
	expect("READY> ");
	type("jobs; echo none\n");
	expect("\nnone");
	expect("READY> ");

	/* Reading from the background stops. */
	type("cat &\n");
	expect("READY> ");
	usleep(300000);
	type("\n");
	expect("Stopped (tty input)");
	type("\n");
	expect("READY> ");
	type("kill %1; wait; echo gone\n");
	expect("\ngone");
	expect("READY> ");

	/* A pipeline is one job. */
	type("sleep 1002 | sleep 1003 | cat\n");
	usleep(300000);
	type("\032");
	expect("Stopped");
	expect("READY> ");
	type("fg\n");
	expect("sleep 1002 | sleep 1003 | cat");
	usleep(300000);
	type("\003");
	expect("READY> ");
	type("jobs; echo over\n");
	expect("\nover");
	expect("READY> ");

	/* End of file. */
	type("cat\n");
	usleep(300000);
	type("xyz\n");
	expect("xyz\r\nxyz");
	type("\004");
	expect("READY> ");

	/* The line is cut: the shell and its jobs get SIGHUP. */
	type("sleep 1005 & echo pid=$!\n");
	expect("\npid=");
	usleep(100000);
	expect("READY> ");
	char *text = strstr(seen, "\npid=");
	int job = text ? atoi(text + 5) : 0;
	CHECK(job > 1 && kill(job, 0) == 0);
	close(master);
	for (int i = 0; i < 100 && waitpid(pid, &st, WNOHANG) == 0; i++)
		usleep(50000);
	CHECK(waitpid(pid, &st, WNOHANG) == -1);
	test_end();
}
