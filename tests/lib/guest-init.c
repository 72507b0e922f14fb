/*
 * Process 1 of a guest that tests/guest.sh started, on Faultline and on Linux alike.
 *
 * It owns the way from the command to the host. The kernel's log has ttyS0 to itself; what the command prints goes out on
 * ttyS1, byte for byte; what *we* say goes out on ttyS2. The host believes only ttyS2 lines that start with the run's
 * secret, and the secret is unlinked before the command starts: nothing that a command prints can look like a verdict.
 * On ttyS1 one line with the secret comes before the command's output. On ttyS2:
 *
 *	SECRET ready			about to start the command
 *	SECRET exit STATUS BYTES	the command's wait status as a shell would give it, and how many bytes went to ttyS1
 *	SECRET error TEXT		the guest could not be set up; there is no status
 *
 * The rule that is easy to break: the command has ended when *its* process has, not when the pipe closes. A daemon that it
 * left behind may hold the pipe for ever. So we forward what the pipe held when the command ended, and no more.
 *
 * Everything the host wants done arrives as files in /.guest, which tests/lib/guest.py appends to the initramfs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define RUN_DIR		"/.guest"
#define COMMAND_MAX	(128 * 1024)		/* what execve takes as one string */

static char secret[80];
static int status_fd = -1;
static int output_fd = -1;
static unsigned long long bytes_out;

static void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static int write_all(int fd, const char *buf, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		buf += n;
		len -= n;
	}
	return 0;
}

__attribute__((format(printf, 1, 2)))
static void say(const char *fmt, ...)
{
	char text[256], line[400];
	va_list ap;
	int n;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = snprintf(line, sizeof(line), "%s %s\n", secret, text);
	write_all(status_fd, line, n);
	tcdrain(status_fd);
}

__attribute__((format(printf, 1, 2), noreturn))
static void fail(const char *fmt, ...)
{
	char text[200];
	int err = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "guest-init: %s: %s\n", text, strerror(err));
	if (status_fd >= 0)
		say("error %s: %s", text, strerror(err));
	power_off();
	abort();
}

/* Read a small file whole, with a terminating zero. Returns its length, or -1 with errno. */
static ssize_t slurp(const char *path, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while ((n = read(fd, buf + len, size - 1 - len)) > 0)
		len += n;
	buf[len] = '\0';
	close(fd);
	return len;
}

static int exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* A mount that is already there (a kernel may mount /dev by itself) is as good as ours. */
static void mount_at(const char *type, const char *dir, const char *options)
{
	mkdir(dir, 0755);
	if (mount(type, dir, type, 0, options) && errno != EBUSY)
		fprintf(stderr, "guest-init: mount %s on %s: %s\n", type, dir, strerror(errno));
}

static int huge_pages_in_pool(void)
{
	static char buf[16384];
	char *p;

	if (slurp("/proc/meminfo", buf, sizeof(buf)) < 0)
		return 0;
	p = strstr(buf, "HugePages_Total:");
	if (p && atol(p + strlen("HugePages_Total:")) > 0)
		return 1;
	p = strstr(buf, "Hugetlb:");			/* kB in pools of every size */
	return p && atol(p + strlen("Hugetlb:")) > 0;
}

static void mount_everything(void)
{
	mount_at("proc", "/proc", NULL);
	mount_at("sysfs", "/sys", NULL);
	mount_at("devtmpfs", "/dev", NULL);
	mount_at("devpts", "/dev/pts", "mode=0620,ptmxmode=0666");
	mount_at("tmpfs", "/dev/shm", "mode=1777");
	mount_at("tmpfs", "/tmp", "mode=1777");
	if (huge_pages_in_pool())
		mount_at("hugetlbfs", "/dev/hugepages", NULL);

	/* What udev makes elsewhere. */
	if (!exists("/dev/fd") && symlink("/proc/self/fd", "/dev/fd") == 0) {
		symlink("/proc/self/fd/0", "/dev/stdin");
		symlink("/proc/self/fd/1", "/dev/stdout");
		symlink("/proc/self/fd/2", "/dev/stderr");
	}
}

static int open_raw(const char *path)
{
	struct termios t;
	int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (tcgetattr(fd, &t) == 0) {
		cfmakeraw(&t);
		t.c_cflag |= CLOCAL | CREAD;
		cfsetspeed(&t, B115200);
		tcsetattr(fd, TCSANOW, &t);
	}
	return fd;
}

/* Whatever the kernel gave us, 0 to 2 are open from here on, so that no pipe end or port can land there. */
static void hold_standard_fds(void)
{
	int fd;

	do {
		fd = open("/dev/console", O_RDWR | O_NOCTTY);
		if (fd < 0)
			fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

/* The oracle kernel has its virtio drivers as modules; the host sends those that the run needs, named in load order. */
static void load_modules(void)
{
	struct dirent **list;
	int n = scandir(RUN_DIR "/modules", &list, NULL, alphasort);
	char path[512];

	for (int i = 0; i < n; i++) {
		int fd;

		if (list[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), RUN_DIR "/modules/%s", list[i]->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			fail("module %s", list[i]->d_name);
		close(fd);
	}
}

static void loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	ioctl(fd, SIOCSIFFLAGS, &ifr);
	close(fd);
}

/* Run a set-up script to its end; its output belongs to the console. */
static void run_script(const char *path)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execl("/bin/sh", "sh", path, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
		errno = ECHILD;
		fail("%s did not succeed", path);
	}
}

static void forward(int from, size_t limit)
{
	static char buf[65536];
	ssize_t n = read(from, buf, limit < sizeof(buf) ? limit : sizeof(buf));

	if (n <= 0)
		return;
	bytes_out += n;
	if (write_all(output_fd, buf, n))
		fail("write to ttyS1");
}

static volatile sig_atomic_t child_event;

static void on_child(int sig)
{
	(void)sig;
	child_event = 1;
}

/* Forward the pipe and reap orphans until `pid` ends; returns the status as a shell would give it. */
static int supervise(pid_t pid, int from, const sigset_t *wait_mask)
{
	struct pollfd p = { .fd = from, .events = POLLIN };
	int status = 0, done = 0, left = 0;

	while (!done) {
		if (!child_event && ppoll(&p, 1, NULL, wait_mask) > 0) {
			if (p.revents & POLLIN)
				forward(from, SIZE_MAX);
			else
				p.fd = -1;		/* every writer is gone; only the exit is left to wait for */
		}
		if (child_event) {
			pid_t got;
			int s;

			child_event = 0;
			while ((got = waitpid(-1, &s, WNOHANG)) > 0) {
				if (got == pid) {
					status = s;
					done = 1;
				}
			}
		}
	}
	if (ioctl(from, FIONREAD, &left) == 0) {
		while (left > 0) {
			unsigned long long before = bytes_out;

			forward(from, left);
			if (bytes_out == before)
				break;
			left -= bytes_out - before;
		}
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(void)
{
	static char command[COMMAND_MAX];
	static char *const env[] = {
		"PATH=/bin:/sbin:/usr/bin:/usr/sbin", "HOME=/root", "TERM=dumb", NULL
	};
	struct sigaction sa = { .sa_handler = on_child };
	sigset_t blocked, wait_mask;
	int pipe_fd[2], status;
	pid_t pid;

	umask(022);
	mount_everything();
	hold_standard_fds();
	output_fd = open_raw("/dev/ttyS1");
	status_fd = open_raw("/dev/ttyS2");
	if (output_fd < 0 || status_fd < 0)
		fail("open /dev/ttyS1 and /dev/ttyS2");
	if (slurp(RUN_DIR "/secret", secret, sizeof(secret)) < 0 || slurp(RUN_DIR "/command", command, sizeof(command)) < 0)
		fail("read " RUN_DIR);
	unlink(RUN_DIR "/secret");

	/* UEFI firmware talks on every serial port it finds: tell the host where our words and the command's begin. */
	write_all(status_fd, "\n", 1);
	write_all(output_fd, secret, strlen(secret));
	write_all(output_fd, "\n", 1);
	sethostname("guest", 5);
	if (exists("/proc/net"))
		loopback_up();
	load_modules();
	if (exists(RUN_DIR "/setup"))
		run_script(RUN_DIR "/setup");

	/* SIGCHLD is only let in inside ppoll(), so a child that ends between the check and the wait is not missed. */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, &wait_mask);
	sigaction(SIGCHLD, &sa, NULL);

	if (pipe2(pipe_fd, O_CLOEXEC))
		fail("pipe");
	say("ready");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

		signal(SIGCHLD, SIG_DFL);
		sigprocmask(SIG_SETMASK, &wait_mask, NULL);
		setsid();
		dup2(pipe_fd[1], STDERR_FILENO);	/* first, so that a failure below is seen */
		if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(pipe_fd[1], STDOUT_FILENO) < 0 || chdir("/")) {
			perror("guest-init: set up the command");
			_exit(126);
		}
		execve("/bin/ash", (char *const[]){ "ash", "-c", command, NULL }, env);
		perror("guest-init: /bin/ash");
		_exit(127);
	}
	close(pipe_fd[1]);
	status = supervise(pid, pipe_fd[0], &wait_mask);
	sync();
	tcdrain(output_fd);
	say("exit %d %llu", status, bytes_out);
	power_off();
	return 0;
}
