/*
 * Pseudo terminals: lines, echo, raw mode, the interrupt character, window size, the end of either side, sessions.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "test.h"

static int master;
static char slave_name[64];

static void open_pair(void)
{
	master = posix_openpt(O_RDWR | O_NOCTTY);
	MUST(master >= 0 && grantpt(master) == 0);
	CHECK(open("/dev/pts/99999", O_RDWR) < 0);
	MUST(unlockpt(master) == 0 && ptsname_r(master, slave_name, sizeof(slave_name)) == 0);
}

static void expect_read(int fd, const char *want)
{
	char buf[256];
	size_t have = 0, need = strlen(want);
	struct pollfd p = { fd, POLLIN, 0 };

	while (have < need && poll(&p, 1, 2000) == 1) {
		ssize_t n = read(fd, buf + have, need - have);

		if (n <= 0)
			break;
		have += (size_t)n;
	}
	if (have != need || memcmp(buf, want, need)) {
		printf("expected \"%s\", got %zu bytes \"%.*s\"\n", want, have, (int)have, buf);
		test_failures++;
	}
}

static void lines_and_raw_mode(void)
{
	struct termios t;
	struct winsize ws = { 33, 101, 0, 0 }, got;
	int slave, n = -1;

	open_pair();
	slave = open(slave_name, O_RDWR | O_NOCTTY);
	MUST(slave >= 0);
	CHECK(isatty(slave));
	MUST(write(master, "ab\177c\r", 5) == 5);
	expect_read(slave, "ac\n");
	expect_read(master, "ab\b \bc\r\n");
	MUST(write(slave, "out\n", 4) == 4);
	expect_read(master, "out\r\n");
	CHECK_EQUAL(0, ioctl(master, TIOCSWINSZ, &ws));
	CHECK_EQUAL(0, ioctl(slave, TIOCGWINSZ, &got));
	CHECK(got.ws_row == 33 && got.ws_col == 101);
	MUST(tcgetattr(slave, &t) == 0);
	cfmakeraw(&t);
	t.c_cc[VMIN] = 1;
	CHECK_EQUAL(0, tcsetattr(slave, TCSANOW, &t));
	MUST(write(master, "x\003\r", 3) == 3);
	for (int i = 0; i < 100 && n < 3; i++) {	/* Linux passes it on a little later */
		CHECK_EQUAL(0, ioctl(slave, FIONREAD, &n));
		usleep(10000);
	}
	CHECK_EQUAL(3, n);
	expect_read(slave, "x\003\r");
	t.c_cc[VMIN] = 0;
	t.c_cc[VTIME] = 1;
	CHECK_EQUAL(0, tcsetattr(slave, TCSANOW, &t));
	char c;
	CHECK_EQUAL(0, read(slave, &c, 1));		/* a tenth of a second, then nothing */
	close(slave);
	CHECK_ERRNO(EIO, read(master, &c, 1));		/* everybody has left */
	slave = open(slave_name, O_RDWR | O_NOCTTY);
	MUST(slave >= 0);
	close(master);
	CHECK_EQUAL(0, read(slave, &c, 1));		/* hung up */
	CHECK_ERRNO(EIO, write(slave, "x", 1));
	close(slave);
	CHECK(open(slave_name, O_RDWR | O_NOCTTY) < 0);
}

static volatile sig_atomic_t seen;
static void note(int sig) { seen = sig; }

/* A session leader takes the terminal; the interrupt character reaches its foreground group, hang-up ends it. */
static void control(void)
{
	int status;
	struct sigaction sa = { .sa_handler = note };

	open_pair();
	sigaction(SIGINT, &sa, NULL);
	fflush(stdout);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		MUST(setsid() > 0);
		int slave = open(slave_name, O_RDWR);
		char c;

		MUST(slave >= 0);
		close(master);
		if (tcgetsid(slave) != getpid() || tcgetpgrp(slave) != getpgrp())
			_exit(2);
		int tty = open("/dev/tty", O_RDWR);
		if (tty < 0 || write(tty, "ready\n", 6) != 6)
			_exit(3);
		if (read(slave, &c, 1) != -1 || errno != EINTR || seen != SIGINT)
			_exit(4);
		if (write(slave, "bye\n", 4) != 4)
			_exit(5);
		for (;;)
			pause();
	}
	expect_read(master, "ready\r\n");
	usleep(100000);
	MUST(write(master, "\003", 1) == 1);
	expect_read(master, "^Cbye\r\n");
	close(master);
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP);
}

int main(void)
{
	lines_and_raw_mode();
	control();
	test_end();
}
