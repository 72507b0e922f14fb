/*
 * only: faultline
 * timeout: 120
 *
 * Native calls with random arguments, from several processes at once, against one port that a server serves as it can: each call
 * ends, with a result or an error that the table of docs/ipc.md has, and the port still works. SEED=n repeats a run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "test.h"
#include "user/include/port.h"

#ifndef CALLS
#define CALLS	1000
#endif

static uint64_t state;

static uint64_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static uint64_t one_of(const uint64_t *v, int n) { return v[rnd() % (uint64_t)n]; }

static char *area;

/* A pointer, a length, a number: mostly good, sometimes not. */
static uint64_t address(void)
{
	uint64_t v[] = { (uintptr_t)area, (uintptr_t)area + 4000, (uintptr_t)area + 8, 0, 8, ~0ull, 0x7ffffffff000, 0xffff800000000000, rnd() };

	return rnd() % 4 ? (uintptr_t)area + rnd() % 8000 : one_of(v, 9);
}

static uint64_t number(void)
{
	static const uint64_t v[] = { 0, 1, 2, 3, 4, 5, 100, 4095, 4096, 4097, 65536, 1 << 24, (1 << 24) + 1, 1ull << 31, 1ull << 32, 1ull << 63, ~0ull };

	return rnd() % 8 ? one_of(v, 17) : rnd();
}

static void message(struct fl_msg *m)
{
	memset(m, 0, sizeof(*m));
	for (int i = 0; i < FL_WORDS; i++)
		m->word[i] = rnd() % 3 ? 0 : rnd();
	m->buf = address();
	m->len = (uint32_t)(rnd() % 3 ? rnd() % 300 : number());
	m->room = (uint32_t)(rnd() % 3 ? 4096 : number());
	m->nr_fds = (uint32_t)(rnd() % 3 ? 0 : rnd() % 2 ? rnd() % 6 : number());
	for (unsigned int i = 0; i < FL_MAX_FDS; i++)
		m->fd[i] = (int)(rnd() % 12) - 1;
	m->flags = (uint32_t)(rnd() % 4 ? rnd() % 8 : number());
	m->lent = address();
	m->lent_len = rnd() % 3 ? rnd() % 8000 : number();
	m->token = rnd() % 2 ? rnd() % 50 : number();
	m->reserved = rnd() % 16 ? 0 : 1;
}

static void check(long r, const char *what)
{
	static const int errors[] = { EBADF, EINVAL, EFAULT, E2BIG, EMSGSIZE, EAGAIN, ETIMEDOUT, EINTR, EPIPE, EIO, ESRCH, EACCES, ENOMEM, EMFILE, EPERM };

	for (unsigned int i = 0; r < 0 && i < sizeof(errors) / sizeof(errors[0]); i++)
		if (-r == errors[i])
			return;
	if (r < 0) {
		printf("%s: %ld is not in the table (seed %llu)\n", what, r, (unsigned long long)state);
		test_failures++;
	}
}

static void one_call(int p[2])
{
	struct fl_msg *m = (void *)(area + 8192), *um = rnd() % 8 ? m : (void *)address();
	int64_t timeout = (int64_t)(rnd() % 200000);
	int fd = rnd() % 8 ? p[1] : (int)(rnd() % 10) - 1, rfd = rnd() % 8 ? p[0] : (int)(rnd() % 10) - 1;

	message(m);
	switch (rnd() % 8) {
	case 0:
	case 1:
		check(port_call(fd, um, timeout), "call");
		break;
	case 2:
		check(port_receive(rfd, um, timeout), "receive");
		break;
	case 3:
		check(port_reply(rfd, um), "reply");
		break;
	case 4:
		check(port_reply_receive(rfd, um, timeout), "reply_receive");
		break;
	case 5:
		check(port_lent_read(rfd, rnd() % 50, number(), (void *)address(), number()), "lent_read");
		break;
	case 6:
		check(port_lent_write(rfd, rnd() % 50, number(), (void *)address(), number()), "lent_write");
		break;
	case 7:
		check(family_ready(rfd, (void *)address(), (unsigned int)number()), "ready");
		break;
	}
	for (int f = 12; f < 40; f++)		/* what arrived */
		close(f);
}

int main(void)
{
	const char *seed = getenv("SEED");
	int p[2], status;

	state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
	printf("seed %llu\n", (unsigned long long)state);
	fflush(stdout);
	MUST(port_create(p, 0) == 0);
	area = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(area != MAP_FAILED);
	while (dup(p[1]) < 11)
		;
	for (int child = 0; child < 4; child++) {
		if (fork() == 0) {
			state = state * 31 + (uint64_t)child + 1;
			for (int i = 0; i < CALLS; i++)
				one_call(p);
			fflush(stdout);
			_exit(test_failures != 0);
		}
	}
	for (int child = 0; child < 4; child++) {
		wait(&status);
		CHECK_EQUAL(0, status);
	}
	/* It still works. */
	uint64_t w[FL_WORDS] = { 20 };
	pid_t server = fork();
	if (server == 0) {
		uint64_t v[FL_WORDS] = { 0 }, token = 0;

		while (port_reply_receive_words(p[0], v, &token, -1) == 0)
			v[0]++;
		_exit(0);
	}
	CHECK_EQUAL(0, port_call_words(p[1], w, -1));
	CHECK_EQUAL(21, w[0]);
	kill(server, SIGKILL);
	wait(&status);
	test_end();
}
