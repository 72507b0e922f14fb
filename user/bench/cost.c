/*
 * What operations cost, in instructions: run under --icount, where the time-stamp counter counts one tick an instruction.
 *
 * Rules (docs/measuring.md): one loop lasts at least a million instructions; after a warm-up each row is measured REPS
 * times in one boot; the cost is the smallest, and the median is printed beside it where it is over 5 % above. The cost
 * of clearing or copying a warm page with REP is measured first and subtracted where the row says so. Clock reads
 * stand outside the loops.
 *
 * Output: "row,cost,median" lines, which user/bench/bench.py merges for both kernels.
 */
#define _GNU_SOURCE
#include "cost.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../include/port.h"

#define REPS	9
#define PAGE	4096ul

static void *map(size_t len, int prot, int flags)
{
	void *p = mmap(NULL, len, prot, flags, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static void touch_read(volatile char *p, size_t len)
{
	for (size_t i = 0; i < len; i += PAGE)
		(void)p[i];
}

static void touch_write(volatile char *p, size_t len)
{
	for (size_t i = 0; i < len; i += PAGE)
		p[i] = 1;
}

/* Each measures one repetition of @n operations and returns ticks for all of them. */

static uint64_t run_null_call(unsigned long n)
{
	uint64_t start = ticks();

	for (unsigned long i = 0; i < n; i++)
		getpid();
	return ticks() - start;
}

static uint64_t run_clear(unsigned long n)
{
	static char page[PAGE] __attribute__((aligned(4096)));
	uint64_t start = ticks();

	for (unsigned long i = 0; i < n; i++) {
		void *di = page;
		unsigned long cx = PAGE / 8;

		__asm__ volatile("rep stosq" : "+D"(di), "+c"(cx) : "a"(0) : "memory");
	}
	return ticks() - start;
}

static uint64_t run_copy(unsigned long n)
{
	static char from[PAGE] __attribute__((aligned(4096))), to[PAGE] __attribute__((aligned(4096)));
	uint64_t start = ticks();

	for (unsigned long i = 0; i < n; i++) {
		void *di = to;
		const void *si = from;
		unsigned long cx = PAGE / 8;

		__asm__ volatile("rep movsq" : "+D"(di), "+S"(si), "+c"(cx) : : "memory");
	}
	return ticks() - start;
}

static uint64_t fresh_anonymous(unsigned long n, void (*touch)(volatile char *, size_t), int flags)
{
	char *p = map(n * PAGE, PROT_READ | PROT_WRITE, flags);
	uint64_t start = ticks();

	touch(p, n * PAGE);
	uint64_t t = ticks() - start;
	munmap(p, n * PAGE);
	return t;
}

static uint64_t run_read_fault(unsigned long n) { return fresh_anonymous(n, touch_read, MAP_PRIVATE | MAP_ANONYMOUS); }
static uint64_t run_write_fault(unsigned long n) { return fresh_anonymous(n, touch_write, MAP_PRIVATE | MAP_ANONYMOUS); }
static uint64_t run_shmem_write(unsigned long n) { return fresh_anonymous(n, touch_write, MAP_SHARED | MAP_ANONYMOUS); }

static uint64_t run_refault(unsigned long n)
{
	char *p = map(n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);

	touch_write(p, n * PAGE);
	if (madvise(p, n * PAGE, MADV_DONTNEED))
		die("madvise");
	uint64_t start = ticks();
	touch_write(p, n * PAGE);
	uint64_t t = ticks() - start;
	munmap(p, n * PAGE);
	return t;
}

/* The child keeps its copy alive while the parent writes, so every write copies. */
static uint64_t run_cow(unsigned long n)
{
	char *p = map(n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	int go[2];
	char c;

	touch_write(p, n * PAGE);
	if (pipe(go))
		die("pipe");
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(go[1]);
		if (read(go[0], &c, 1) < 0)
			_exit(1);
		_exit(0);
	}
	uint64_t start = ticks();
	touch_write(p, n * PAGE);
	uint64_t t = ticks() - start;
	close(go[1]);
	close(go[0]);
	waitpid(pid, NULL, 0);
	munmap(p, n * PAGE);
	return t;
}

static uint64_t run_pipe(unsigned long n)
{
	int to[2], from[2];
	char c = 0;

	if (pipe(to) || pipe(from))
		die("pipe");
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(to[1]);
		close(from[0]);
		while (read(to[0], &c, 1) == 1)
			if (write(from[1], &c, 1) != 1)
				_exit(1);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	if (write(to[1], &c, 1) != 1 || read(from[0], &c, 1) != 1)
		die("pipe warm-up");
	uint64_t start = ticks();
	for (unsigned long i = 0; i < n; i++)
		if (write(to[1], &c, 1) != 1 || read(from[0], &c, 1) != 1)
			die("pipe");
	uint64_t t = ticks() - start;
	close(to[1]);
	close(from[0]);
	waitpid(pid, NULL, 0);
	return t;
}

static uint64_t run_unix(unsigned long n)
{
	int s[2];
	char c = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
		die("socketpair");
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(s[0]);
		while (read(s[1], &c, 1) == 1)
			if (write(s[1], &c, 1) != 1)
				_exit(1);
		_exit(0);
	}
	close(s[1]);
	if (write(s[0], &c, 1) != 1 || read(s[0], &c, 1) != 1)
		die("socketpair warm-up");
	uint64_t start = ticks();
	for (unsigned long i = 0; i < n; i++)
		if (write(s[0], &c, 1) != 1 || read(s[0], &c, 1) != 1)
			die("socketpair");
	uint64_t t = ticks() - start;
	close(s[0]);
	waitpid(pid, NULL, 0);
	return t;
}

/* A server process that answers words, and bytes with words. 0: this kernel has no ports. */
static pid_t port_server(int p[2])
{
	static char buf[FL_INLINE_MAX];
	uint64_t w[FL_WORDS] = { 0 }, token = 0;
	struct fl_msg m = { .buf = (uintptr_t)buf, .room = sizeof(buf) };
	long err;

	if (port_create(p, 0) < 0)
		return 0;
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid)
		return pid;
	close(p[1]);
	while ((err = port_reply_receive_words(p[0], w, &token, -1)) == 0)
		w[0]++;
	if (err != -EMSGSIZE)
		_exit(0);
	while (port_reply_receive(p[0], &m, -1) == 0)
		m.len = m.nr_fds = 0;
	_exit(0);
}

static void port_end(int p[2], pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(p[0]);
	close(p[1]);
}

/* Eight bytes there and eight back. */
static uint64_t run_port(unsigned long n)
{
	int p[2];
	uint64_t w[FL_WORDS] = { 0 };
	pid_t pid = port_server(p);

	if (!pid)
		return 0;
	port_call_words(p[1], w, -1);
	uint64_t start = ticks();
	for (unsigned long i = 0; i < n; i++)
		if (port_call_words(p[1], w, -1))
			die("port_call_words");
	uint64_t t = ticks() - start;
	port_end(p, pid);
	return t;
}

static uint64_t run_port_4k(unsigned long n)
{
	static char page[PAGE];
	int p[2];
	struct fl_msg m = { .buf = (uintptr_t)page, .len = PAGE };
	pid_t pid = port_server(p);

	if (!pid)
		return 0;
	if (port_call(p[1], &m, -1))
		die("port_call");
	uint64_t start = ticks();
	for (unsigned long i = 0; i < n; i++) {
		m.len = PAGE;
		if (port_call(p[1], &m, -1))
			die("port_call");
	}
	uint64_t t = ticks() - start;
	port_end(p, pid);
	return t;
}

static uint64_t run_map_touch_unmap(unsigned long n)
{
	uint64_t start = ticks();

	for (unsigned long i = 0; i < n; i++) {
		char *p = map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);

		touch_write(p, 4 * PAGE);
		munmap(p, 4 * PAGE);
	}
	return ticks() - start;
}

static uint64_t run_fork(unsigned long n)
{
	uint64_t start = ticks();

	for (unsigned long i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0)
			_exit(0);
		if (waitpid(pid, NULL, 0) != pid)
			die("waitpid");
	}
	return ticks() - start;
}

enum subtract { NOTHING, CLEAR, COPY };

static const struct row {
	const char	*name;
	uint64_t	(*run)(unsigned long n);
	unsigned long	 n;		/* operations a repetition: at least a million instructions even at our ceilings */
	enum subtract	 less;
	unsigned int	 times;		/* pages cleared or copied an operation */
} rows[] = {
	{ "clear_page",			run_clear,		4000,	NOTHING, 0 },
	{ "copy_page",			run_copy,		4000,	NOTHING, 0 },
	{ "null_call",			run_null_call,		40000,	NOTHING, 0 },
	{ "anon_read_fault",		run_read_fault,		8192,	NOTHING, 0 },
	{ "anon_write_fault",		run_write_fault,	8192,	CLEAR, 1 },
	{ "cow_fault",			run_cow,		4096,	COPY, 1 },
	{ "shmem_first_write",		run_shmem_write,	8192,	CLEAR, 1 },
	{ "shmem_refault",		run_refault,		8192,	NOTHING, 0 },
	{ "pipe_round_trip",		run_pipe,		1000,	NOTHING, 0 },
	{ "unix_round_trip",		run_unix,		1000,	NOTHING, 0 },
	{ "port_round_trip",		run_port,		4000,	NOTHING, 0 },
	{ "port_round_trip_4k",		run_port_4k,		1000,	NOTHING, 0 },
	{ "served_page_in",		run_served_page_in,	1000,	NOTHING, 0 },
	{ "served_stat",		run_served_stat,	1000,	NOTHING, 0 },
	{ "mmap_touch_munmap_16k",	run_map_touch_unmap,	1000,	CLEAR, 4 },
	{ "fork_exit_wait",		run_fork,		100,	NOTHING, 0 },
	{ "uffd_missing_copy",		run_uffd_missing,	1000,	NOTHING, 0 },
	{ "uffd_wp",			run_uffd_wp,		1000,	NOTHING, 0 },
	{ "uffd_minor",			run_uffd_minor,		1000,	NOTHING, 0 },
	{ "uffd_register_unregister",	run_uffd_register,	1000,	NOTHING, 0 },
	{ "huge_refault",		run_huge_refault,	47 * 100, NOTHING, 0 },
	{ "huge_map_touch_unmap",	run_huge_map_touch_unmap, 48 * 100, NOTHING, 0 },
};

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	uint64_t base[3] = { 0, 0, 0 };

	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		const struct row *row = &rows[r];
		uint64_t t[REPS];
		int wanted = r < 2 || argc < 2;

		for (int i = 1; i < argc; i++)
			wanted |= !strcmp(argv[i], row->name);
		if (!wanted)
			continue;
		if (!row->run(row->n))
			continue;		/* this kernel does not have it */
		for (int i = 0; i < REPS; i++)
			t[i] = row->run(row->n) / row->n;
		qsort(t, REPS, sizeof(t[0]), by_value);
		if (r < 2)
			base[r + 1] = t[0];
		uint64_t less = base[row->less] * row->times;
		printf("%s,%llu,%llu\n", row->name, (unsigned long long)(t[0] - less), (unsigned long long)(t[REPS / 2] - less));
		fflush(stdout);
	}
	return 0;
}
