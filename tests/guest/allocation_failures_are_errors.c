/*
 * The n-th allocation of a system call fails, for n = 1, 2, 3 ... until the call needs no more: each time the call says
 * ENOMEM (or the like) and changes nothing, or it succeeds all the same; and in the end nothing has leaked.
 *
 * only: faultline
 * build: debug
 * timeout: 300
 */
#include "test.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define MAX_N 400

static int fail_fd;

/* The n-th allocation of this task from now on fails; 0: none does. */
static void fail_at(int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", n);

	while (pwrite(fail_fd, text, (size_t)len, 0) != len)
		MUST(errno == ENOMEM);		/* that was it: the next try finds none armed */
}

/* Allocations that are still to come before one fails: 0 if it has failed. */
static int still_armed(void)
{
	char text[16] = "";

	if (pread(fail_fd, text, sizeof(text) - 1, 0) > 0)
		return atoi(text);
	MUST(errno == ENOMEM);			/* it was still to come, and hit this call */
	return 1;
}

static int error_is_allowed(int error)
{
	return error == ENOMEM || error == EAGAIN || error == ENFILE || error == ENOSPC;
}

/* Each: 0 and undone, or -1 with errno. Must not touch fresh memory between the call and its undoing but through calls. */
static int do_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (!pid)
		_exit(0);
	int status;
	while (waitpid(pid, &status, 0) != pid)
		;
	return 0;
}

static int do_mmap(void)
{
	char *p = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -1;
	for (int i = 0; i < 16; i++)
		p[i * 4096] = 1;		/* a fault that finds no memory is served in the end */
	return munmap(p, 64 << 10);
}

static int do_split(void)
{
	static char *p;

	if (!p) {
		fail_at(0);
		p = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		MUST(p != MAP_FAILED);
		memset(p, 7, 16 * 4096);
		return 0;
	}
	int r = mprotect(p + 4 * 4096, 4 * 4096, PROT_READ);
	CHECK(p[0] == 7 && p[5 * 4096] == 7 && p[15 * 4096] == 7);
	if (r)
		return -1;
	while (mprotect(p + 4 * 4096, 4 * 4096, PROT_READ | PROT_WRITE))
		CHECK(error_is_allowed(errno));
	return 0;
}

static int do_open(void)
{
	int fd = open("/tmp/af", O_CREAT | O_RDWR, 0600);

	if (fd < 0)
		return -1;
	ssize_t n = write(fd, "0123456789abcdef", 16);
	int error = errno;
	close(fd);
	while (unlink("/tmp/af"))
		CHECK(error_is_allowed(errno));
	errno = error;
	return n < 0 ? -1 : 0;
}

static int do_pipe(void)
{
	int fds[2];
	char c;

	if (pipe(fds))
		return -1;
	int bad = write(fds[1], "x", 1) != 1 || read(fds[0], &c, 1) != 1;
	int error = errno;
	close(fds[0]);
	close(fds[1]);
	errno = error;
	return bad ? -1 : 0;
}

static int do_memfd(void)
{
	int fd = (int)syscall(SYS_memfd_create, "af", 0);

	if (fd < 0)
		return -1;
	int error = 0;
	void *p = MAP_FAILED;
	if (ftruncate(fd, 32768))
		error = errno;
	else if ((p = mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
		error = errno;
	else
		memset(p, 1, 32768);
	if (p != MAP_FAILED)
		munmap(p, 32768);
	close(fd);
	errno = error;
	return error ? -1 : 0;
}

static int do_epoll(void)
{
	int ep = epoll_create1(0), ev = ep < 0 ? -1 : eventfd(0, 0), r = -1, error;
	struct epoll_event event = { .events = EPOLLIN };

	if (ev >= 0)
		r = epoll_ctl(ep, EPOLL_CTL_ADD, ev, &event);
	error = errno;
	if (ev >= 0)
		close(ev);
	if (ep >= 0)
		close(ep);
	errno = error;
	return r;
}

static int do_mkdir(void)
{
	if (mkdir("/tmp/afdir", 0700))
		return -1;
	while (rmdir("/tmp/afdir"))
		CHECK(error_is_allowed(errno));
	return 0;
}

static int do_exec(void)
{
	int status;

	fail_at(0);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		extern int exec_n;
		char *argv[] = { "true", NULL };
		fail_at(exec_n);
		execve("/bin/true", argv, argv + 1);
		_exit(error_is_allowed(errno) ? 42 : 43);
	}
	while (waitpid(pid, &status, 0) != pid)
		;
	/* After the point of no return a failure can only kill. */
	CHECK((WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 42 ||
	       WEXITSTATUS(status) == 127)) || WIFSIGNALED(status));	/* 127: the program's own loader was told ENOMEM */
	return 0;
}
int exec_n;

static const struct { const char *name; int (*fn)(void); int rounds; } calls[] = {
	{ "fork", do_fork, 0 }, { "mmap", do_mmap, 0 }, { "split", do_split, 0 }, { "open", do_open, 0 }, { "pipe", do_pipe, 0 },
	{ "memfd", do_memfd, 0 }, { "epoll", do_epoll, 0 }, { "mkdir", do_mkdir, 0 }, { "exec", do_exec, 60 },
};

static long frames_used(void)
{
	char text[512];
	long used = -1;
	int fd = open("/sys/kernel/faultline/leaks", O_RDONLY);

	MUST(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && sscanf(text, "frames_used %ld", &used) == 1);
	close(fd);
	return used;
}

/* The least that is seen within a second: dead tasks and their stacks go in their own time. */
static long frames_used_at_rest(void)
{
	long least = frames_used();

	for (int i = 0; i < 10; i++) {
		usleep(100000);
		long used = frames_used();
		if (used < least)
			least = used;
	}
	return least;
}

static void run(unsigned int i)
{
	for (int n = 1; n <= MAX_N; n++) {
		exec_n = n;
		fail_at(n);
		errno = 0;
		int r = calls[i].fn();
		int error = errno;
		int left = still_armed();
		fail_at(0);
		if (r && !error_is_allowed(error)) {
			printf("%s, allocation %d: errno %d (%s)\n", calls[i].name, n, error, strerror(error));
			test_failures++;
		}
		if (calls[i].rounds ? n == calls[i].rounds : left > 0)
			return;			/* it needed fewer than n */
	}
	printf("%s: still failing at allocation %d\n", calls[i].name, MAX_N);
	test_failures++;
}

int main(void)
{
	fail_fd = open("/sys/kernel/faultline/alloc_fail", O_RDWR);
	MUST(fail_fd >= 0);
	setvbuf(stdout, NULL, _IONBF, 0);
	do_split();
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		run(i);					/* caches reach the size they need */
		long before = frames_used_at_rest();
		run(i);
		run(i);
		long after = frames_used_at_rest();
		if (after > before + 16) {		/* one frame lost per failure would be several times that */
			printf("%s: %ld frames more than before\n", calls[i].name, after - before);
			test_failures++;
		}
	}
	test_end();
}
