/*
 * only: faultline
 * timeout: 120
 *
 * Ports: words, inline bytes, descriptors and lent memory go there and back; every error of docs/ipc.md; time-outs, signals and the
 * death of either side; many callers and servers; a caller whose memory nobody provides does not hold up the server.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "test.h"
#include "user/include/port.h"

#define MS 1000000ll
#define SECOND (1000 * MS)

static void make(int p[2])
{
	MUST(port_create(p, 0) == 0);
}

static void close_both(int p[2])
{
	close(p[0]);
	close(p[1]);
}

/* Answers words: adds one to each. A first word of ~0 ends it. */
static void *word_server(void *arg)
{
	int fd = *(int *)arg;
	uint64_t w[FL_WORDS] = { 0 }, token = 0;

	while (port_reply_receive_words(fd, w, &token, -1) == 0) {
		if (w[0] == ~0ull) {
			struct fl_msg m = { .token = token };

			port_reply(fd, &m);
			break;
		}
		for (int i = 0; i < FL_WORDS; i++)
			w[i]++;
	}
	return NULL;
}

static void words(void)
{
	int p[2];
	uint64_t w[FL_WORDS] = { 0 };
	pthread_t t;

	make(p);
	MUST(pthread_create(&t, NULL, word_server, &p[0]) == 0);
	for (uint64_t n = 0; n < 1000; n++) {
		for (unsigned int i = 0; i < FL_WORDS; i++)
			w[i] = n * 100 + i;
		CHECK_EQUAL(0, port_call_words(p[1], w, -1));
		for (unsigned int i = 0; i < FL_WORDS; i++)
			CHECK_EQUAL(n * 100 + i + 1, w[i]);
	}
	for (int i = 0; i < 20; i++) {			/* with a limit that is not reached */
		w[0] = 5;
		CHECK_EQUAL(0, port_call_words(p[1], w, 10 * SECOND));
		CHECK_EQUAL(6, w[0]);
	}
	w[0] = ~0ull;
	CHECK_EQUAL(0, port_call_words(p[1], w, -1));
	pthread_join(t, NULL);
	close_both(p);
}

/* Turns each byte round and gives the descriptors back; op in word[0]. */
enum { OP_ECHO = 1, OP_LENT, OP_LENT_WRONG, OP_TOO_LONG, OP_QUIT, OP_SLOW, OP_WHO };

static void *echo_server(void *arg)
{
	int fd = *(int *)arg;
	static __thread char buf[FL_INLINE_MAX], lent[300000];
	struct fl_msg m = { .buf = (uintptr_t)buf, .room = sizeof(buf) };
	long n;

	for (;;) {
		m.flags = 0;
		if (port_receive(fd, &m, -1))
			return NULL;
		switch (m.word[0]) {
		case OP_ECHO:
			for (uint32_t i = 0; i < m.len; i++)
				buf[i] ^= 0x55;
			m.word[1] = m.len;
			break;
		case OP_LENT:
			n = port_lent_read(fd, m.token, 0, lent, m.lent_len);
			for (long i = 0; i < n; i++)
				lent[i] ^= 0x55;
			m.word[1] = (uint64_t)n;
			m.word[2] = (uint64_t)port_lent_write(fd, m.token, 0, lent, (uint64_t)n);
			break;
		case OP_LENT_WRONG:
			m.word[1] = (uint64_t)-port_lent_write(fd, m.token, 0, lent, 4);	/* may only be read */
			m.word[2] = (uint64_t)-port_lent_read(fd, m.token, m.lent_len + 1, lent, 4);
			m.word[3] = (uint64_t)-port_lent_read(fd, m.token + 99, 0, lent, 4);
			m.word[4] = (uint64_t)-port_lent_read(fd, m.token, 0, (void *)8, 4);
			m.word[5] = (uint64_t)port_lent_read(fd, m.token, m.lent_len - 1, lent, 100);
			break;
		case OP_TOO_LONG:
			m.len = 100;
			n = port_reply(fd, &m);
			m.len = 0;
			m.word[1] = (uint64_t)-n;
			break;
		case OP_SLOW:
			usleep(100000);
			break;
		case OP_WHO:
			m.word[1] = m.pid;
			m.word[2] = m.uid;
			break;
		case OP_QUIT:
			port_reply(fd, &m);
			return NULL;
		}
		port_reply(fd, &m);
		for (uint32_t i = 0; i < m.nr_fds; i++)
			close(m.fd[i]);
	}
}

static void quit(int fd)
{
	struct fl_msg m = { .word = { OP_QUIT } };

	CHECK_EQUAL(0, port_call(fd, &m, -1));
}

static void bytes_and_descriptors(void)
{
	int p[2], q[2];
	static char buf[FL_INLINE_MAX];
	pthread_t t;

	make(p);
	MUST(pthread_create(&t, NULL, echo_server, &p[0]) == 0);
	for (uint32_t len = 0; len <= FL_INLINE_MAX; len += len < 8 ? 1 : 511) {
		struct fl_msg m = { .word = { OP_ECHO }, .buf = (uintptr_t)buf, .len = len, .room = sizeof(buf) };

		for (uint32_t i = 0; i < len; i++)
			buf[i] = (char)i;
		CHECK_EQUAL(0, port_call(p[1], &m, -1));
		CHECK_EQUAL(len, m.len);
		CHECK_EQUAL(len, m.word[1]);
		for (uint32_t i = 0; i < len; i++)
			if (buf[i] != (char)(i ^ 0x55)) {
				CHECK_EQUAL((char)(i ^ 0x55), buf[i]);
				break;
			}
	}

	/* The way there and back makes two new descriptors of the same pipe. */
	MUST(pipe(q) == 0);
	struct fl_msg m = { .word = { OP_ECHO }, .fd = { q[0], q[1] }, .nr_fds = 2, .flags = FL_FDS_CLOEXEC };
	CHECK_EQUAL(0, port_call(p[1], &m, -1));
	CHECK_EQUAL(2, m.nr_fds);
	CHECK(m.fd[0] != q[0] && m.fd[1] != q[1]);
	CHECK_EQUAL(FD_CLOEXEC, fcntl(m.fd[0], F_GETFD));
	CHECK_EQUAL(1, write(m.fd[1], "z", 1));
	CHECK_EQUAL(1, read(q[0], buf, 1));
	close(m.fd[0]);
	close(m.fd[1]);
	close(q[1]);
	struct pollfd hup = { q[0], POLLIN, 0 };
	for (int i = 0; i < 200 && poll(&hup, 1, 10) == 0; i++)	/* the server closes its copies after the reply */
		;
	CHECK_EQUAL(0, read(q[0], buf, 1));		/* nothing keeps a copy */
	close(q[0]);

	/* A reply that is too long is refused, and the caller can still be answered. */
	struct fl_msg small = { .word = { OP_TOO_LONG }, .buf = (uintptr_t)buf, .room = 10 };
	CHECK_EQUAL(0, port_call(p[1], &small, -1));
	CHECK_EQUAL(EMSGSIZE, small.word[1]);
	struct fl_msg who = { .word = { OP_WHO } };
	CHECK_EQUAL(0, port_call(p[1], &who, -1));
	CHECK(who.word[1] == (uint64_t)getpid() && who.word[2] == 0);
	quit(p[1]);
	pthread_join(t, NULL);
	close_both(p);
}

static void lent_memory(void)
{
	int p[2];
	size_t n = 250001;
	char *mem = mmap(NULL, 300000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t;

	MUST(mem != MAP_FAILED);
	make(p);
	MUST(pthread_create(&t, NULL, echo_server, &p[0]) == 0);
	for (size_t i = 0; i < n; i++)
		mem[i + 13] = (char)(i * 7);
	struct fl_msg m = { .word = { OP_LENT }, .lent = (uintptr_t)mem + 13, .lent_len = n, .flags = FL_LENT_R | FL_LENT_W };
	CHECK_EQUAL(0, port_call(p[1], &m, -1));
	CHECK_EQUAL(n, m.word[1]);
	CHECK_EQUAL(n, m.word[2]);
	size_t wrong = 0;
	for (size_t i = 0; i < n; i++)
		wrong += mem[i + 13] != (char)((char)(i * 7) ^ 0x55);
	CHECK_EQUAL(0, wrong);
	CHECK(mem[12] == 0 && mem[13 + n] == 0);

	struct fl_msg r = { .word = { OP_LENT_WRONG }, .lent = (uintptr_t)mem, .lent_len = 5000, .flags = FL_LENT_R };
	CHECK_EQUAL(0, port_call(p[1], &r, -1));
	CHECK_EQUAL(EACCES, r.word[1]);
	CHECK_EQUAL(EINVAL, r.word[2]);
	CHECK_EQUAL(ESRCH, r.word[3]);
	CHECK_EQUAL(EFAULT, r.word[4]);
	CHECK_EQUAL(1, r.word[5]);

	struct fl_msg bad = { .lent = 8, .lent_len = 100, .flags = FL_LENT_R };
	CHECK_EQUAL(-EFAULT, port_call(p[1], &bad, -1));
	mprotect(mem, 4096, PROT_READ);
	bad = (struct fl_msg){ .lent = (uintptr_t)mem, .lent_len = 100, .flags = FL_LENT_W };
	CHECK_EQUAL(-EFAULT, port_call(p[1], &bad, -1));
	bad = (struct fl_msg){ .lent = (uintptr_t)mem, .lent_len = FL_LENT_MAX + 1, .flags = FL_LENT_R };
	CHECK_EQUAL(-E2BIG, port_call(p[1], &bad, -1));
	bad = (struct fl_msg){ .lent = (uintptr_t)mem, .lent_len = 100 };
	CHECK_EQUAL(-EINVAL, port_call(p[1], &bad, -1));
	bad = (struct fl_msg){ .flags = FL_LENT_R };
	CHECK_EQUAL(-EINVAL, port_call(p[1], &bad, -1));
	quit(p[1]);
	pthread_join(t, NULL);
	close_both(p);
	munmap(mem, 300000);
}

static void errors(void)
{
	int p[2], n;
	uint64_t w[FL_WORDS] = { 0 }, token = 0;
	static char buf[FL_INLINE_MAX + 1];
	struct fl_msg m = { 0 };

	CHECK_EQUAL(-EINVAL, port_create(p, 1));
	CHECK_EQUAL(-EFAULT, port_create((int *)8, 0));
	make(p);
	CHECK_EQUAL(-EBADF, port_call(-1, &m, 0));
	CHECK_EQUAL(-EINVAL, port_call(0, &m, 0));
	CHECK_EQUAL(-EINVAL, port_call(p[0], &m, 0));		/* the wrong end */
	CHECK_EQUAL(-EINVAL, port_receive(p[1], &m, 0));
	CHECK_EQUAL(-EFAULT, port_call(p[1], (void *)8, 0));
	CHECK_EQUAL(-EFAULT, port_receive(p[0], (void *)8, 0));
	CHECK_EQUAL(-EAGAIN, port_receive(p[0], &m, 0));
	CHECK_EQUAL(-EAGAIN, port_reply_receive_words(p[0], w, &token, 0));
	CHECK_EQUAL(-ETIMEDOUT, port_receive(p[0], &m, 5 * MS));
	CHECK_EQUAL(-ETIMEDOUT, port_call_words(p[1], w, 5 * MS));
	CHECK_EQUAL(-ETIMEDOUT, port_call_words(p[1], w, 0));
	CHECK_EQUAL(-EAGAIN, port_receive(p[0], &m, 0));	/* taken back, not left in the queue */
	CHECK_EQUAL(-ESRCH, port_reply(p[0], &m));
	m = (struct fl_msg){ .buf = (uintptr_t)buf, .len = FL_INLINE_MAX + 1 };
	CHECK_EQUAL(-EMSGSIZE, port_call(p[1], &m, 0));
	m = (struct fl_msg){ .buf = 8, .len = 4 };
	CHECK_EQUAL(-EFAULT, port_call(p[1], &m, 0));
	m = (struct fl_msg){ .nr_fds = 5 };
	CHECK_EQUAL(-EINVAL, port_call(p[1], &m, 0));
	m = (struct fl_msg){ .nr_fds = 1, .fd = { 999 } };
	CHECK_EQUAL(-EBADF, port_call(p[1], &m, 0));
	m = (struct fl_msg){ .flags = 0x80 };
	CHECK_EQUAL(-EINVAL, port_call(p[1], &m, 0));
	m = (struct fl_msg){ .reserved = 1 };
	CHECK_EQUAL(-EINVAL, port_call(p[1], &m, 0));
	CHECK_ERRNO(EINVAL, read(p[0], buf, 1));
	n = fcntl(p[0], F_GETFD);
	CHECK_EQUAL(0, n);
	close_both(p);
	MUST(port_create(p, O_CLOEXEC) == 0);
	CHECK_EQUAL(FD_CLOEXEC, fcntl(p[0], F_GETFD));
	close(p[0]);
	CHECK_EQUAL(-EPIPE, port_call_words(p[1], w, -1));	/* nobody will ever receive */
	close(p[1]);
}

/* A server that cannot take the call sees it again; one whose buffer is bad gets the caller an error. */
static void *caller_with_bytes(void *arg)
{
	char c[4] = "abc";
	struct fl_msg m = { .buf = (uintptr_t)c, .len = 4, .room = 4 };

	return (void *)port_call(*(int *)arg, &m, -1);
}

static void awkward_servers(void)
{
	int p[2];
	uint64_t w[FL_WORDS] = { 0 }, token = 0;
	char buf[8];
	struct fl_msg m = { .buf = (uintptr_t)buf, .room = 2 };
	pthread_t t;
	void *ret;

	make(p);
	MUST(pthread_create(&t, NULL, caller_with_bytes, &p[1]) == 0);
	CHECK_EQUAL(-EMSGSIZE, port_reply_receive_words(p[0], w, &token, -1));
	CHECK_EQUAL(0, port_receive(p[0], &m, -1));
	CHECK_EQUAL(4, m.len);				/* cut to the room, but told */
	CHECK(buf[0] == 'a' && buf[1] == 'b');
	m.len = 0;
	CHECK_EQUAL(0, port_reply(p[0], &m));
	CHECK_EQUAL(-ESRCH, port_reply(p[0], &m));	/* once */
	pthread_join(t, &ret);
	CHECK_EQUAL(0, (long)ret);

	MUST(pthread_create(&t, NULL, caller_with_bytes, &p[1]) == 0);
	m = (struct fl_msg){ .buf = 8, .room = 4 };
	CHECK_EQUAL(-EFAULT, port_receive(p[0], &m, -1));
	pthread_join(t, &ret);
	CHECK_EQUAL(-EIO, (long)ret);

	struct pollfd pf = { p[0], POLLIN, 0 };
	CHECK_EQUAL(0, poll(&pf, 1, 0));
	MUST(pthread_create(&t, NULL, caller_with_bytes, &p[1]) == 0);
	CHECK_EQUAL(1, poll(&pf, 1, 10000));
	CHECK_EQUAL(POLLIN, pf.revents);
	m = (struct fl_msg){ .buf = (uintptr_t)buf, .room = 8 };
	CHECK_EQUAL(0, port_receive(p[0], &m, 0));
	CHECK_EQUAL(0, port_reply(p[0], &m));
	pthread_join(t, &ret);
	close(p[1]);
	CHECK_EQUAL(1, poll(&pf, 1, 0));
	CHECK_EQUAL(POLLHUP, pf.revents);
	close(p[0]);
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* A server dies with calls in its queue and in its hands. */
static void death_of_the_server(void)
{
	int p[2], status;
	uint64_t w[FL_WORDS] = { 0 };

	make(p);
	pid_t server = fork();
	if (server == 0) {
		uint64_t v[FL_WORDS] = { 0 }, token = 0;

		close(p[1]);
		MUST(port_reply_receive_words(p[0], v, &token, -1) == 0);
		pause();
		_exit(0);
	}
	close(p[0]);
	pid_t second = fork();
	if (second == 0) {
		usleep(50000);
		_exit(port_call_words(p[1], w, -1) == -EPIPE ? 0 : 1);	/* never received */
	}
	pid_t killer = fork();
	if (killer == 0) {
		usleep(150000);
		kill(server, SIGKILL);
		_exit(0);
	}
	CHECK_EQUAL(-EPIPE, port_call_words(p[1], w, -1));
	CHECK(waitpid(second, &status, 0) == second && status == 0);
	waitpid(server, &status, 0);
	waitpid(killer, &status, 0);
	CHECK_EQUAL(-EPIPE, port_call_words(p[1], w, -1));
	struct pollfd pf = { p[1], POLLOUT, 0 };
	CHECK_EQUAL(1, poll(&pf, 1, 0));
	CHECK(pf.revents & POLLERR);
	close(p[1]);
}

static void death_of_the_caller(void)
{
	int p[2], status;
	char buf[8] = "";
	struct fl_msg m = { .buf = (uintptr_t)buf, .room = 8 };

	make(p);
	pid_t caller = fork();
	if (caller == 0) {
		char *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct fl_msg c = { .lent = (uintptr_t)mem, .lent_len = 4096, .flags = FL_LENT_R | FL_LENT_W };

		port_call(p[1], &c, -1);
		_exit(1);
	}
	CHECK_EQUAL(0, port_receive(p[0], &m, -1));
	CHECK_EQUAL(4096, m.lent_len);
	CHECK_EQUAL(8, port_lent_read(p[0], m.token, 0, buf, 8));
	kill(caller, SIGKILL);
	CHECK(waitpid(caller, &status, 0) == caller && WIFSIGNALED(status));
	CHECK_EQUAL(-ESRCH, port_lent_write(p[0], m.token, 0, buf, 8));	/* the loan has ended */
	CHECK_EQUAL(-ESRCH, port_reply(p[0], &m));

	/* A signal with a handler: EINTR once the server has it. */
	struct sigaction sa = { .sa_handler = on_alarm };
	sigaction(SIGALRM, &sa, NULL);
	pid_t server = fork();
	if (server == 0) {
		MUST(port_receive(p[0], &m, -1) == 0);
		pause();
		_exit(0);
	}
	uint64_t w[FL_WORDS] = { 0 };
	alarm(1);
	CHECK_EQUAL(-EINTR, port_call_words(p[1], w, -1));
	kill(server, SIGKILL);
	waitpid(server, &status, 0);
	close_both(p);
}

struct crowd { int fd; int from; };

static void *crowd_caller(void *arg)
{
	struct crowd *c = arg;

	for (uint64_t i = 0; i < 50; i++) {	/* contended: slow where the emulator has fewer processors than the guest */
		uint64_t w[FL_WORDS] = { (uint64_t)c->from * 1000 + i, i };

		CHECK_EQUAL(0, port_call_words(c->fd, w, -1));
		CHECK_EQUAL((uint64_t)c->from * 1000 + i + 1, w[0]);
		CHECK_EQUAL(i + 1, w[1]);
	}
	return NULL;
}

static void many(void)
{
	int p[2];
	pthread_t servers[3], callers[6];
	struct crowd c[6];
	uint64_t w[FL_WORDS] = { 0 };

	make(p);
	for (int i = 0; i < 3; i++)
		MUST(pthread_create(&servers[i], NULL, word_server, &p[0]) == 0);
	for (int i = 0; i < 6; i++) {
		c[i] = (struct crowd){ p[1], i };
		MUST(pthread_create(&callers[i], NULL, crowd_caller, &c[i]) == 0);
	}
	for (int i = 0; i < 6; i++)
		pthread_join(callers[i], NULL);
	for (int i = 0; i < 3; i++) {
		w[0] = ~0ull;
		CHECK_EQUAL(0, port_call_words(p[1], w, -1));
	}
	for (int i = 0; i < 3; i++)
		pthread_join(servers[i], NULL);
	close_both(p);
}


static void a_server_passes_its_port_on(void)
{
	int p[2], q[2];
	pthread_t t;
	uint64_t w[FL_WORDS] = { 41 };

	/* A calling end can be sent in a message, and works. */
	make(p);
	make(q);
	MUST(pthread_create(&t, NULL, echo_server, &p[0]) == 0);
	pthread_t u;
	MUST(pthread_create(&u, NULL, word_server, &q[0]) == 0);
	struct fl_msg m = { .word = { OP_ECHO }, .fd = { q[1] }, .nr_fds = 1 };
	CHECK_EQUAL(0, port_call(p[1], &m, -1));
	CHECK_EQUAL(1, m.nr_fds);
	close(q[1]);
	CHECK_EQUAL(0, port_call_words(m.fd[0], w, -1));
	CHECK_EQUAL(42, w[0]);
	w[0] = ~0ull;
	CHECK_EQUAL(0, port_call_words(m.fd[0], w, -1));
	pthread_join(u, NULL);
	close(m.fd[0]);
	close(q[0]);
	quit(p[1]);
	pthread_join(t, NULL);
	close_both(p);
}

int main(void)
{
	words();
	bytes_and_descriptors();
	lent_memory();
	errors();
	awkward_servers();
	death_of_the_server();
	death_of_the_caller();
	many();
	a_server_passes_its_port_on();
	test_end();
}
