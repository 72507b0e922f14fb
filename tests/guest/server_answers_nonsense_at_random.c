/*
 * only: faultline
 * timeout: 240
 *
 * A server of a socket family that answers at random: results and lengths that cannot be, answers to calls that are not its, twice or
 * never, descriptors that it does not have, readiness of sockets that it made up, nonsense into lent memory; then it dies. Each call of its clients
 * ends, with a result or an error; the kernel is unharmed, and with a good server the family works as before. SEED=n repeats a run.
 */
#include "unix_test.h"

#include <sys/ioctl.h>
#include <time.h>

#include "mini_family.h"

#ifndef ROUNDS
#define ROUNDS	8
#endif
#define CLIENTS		3
#define REQUESTS	150		/* then the server dies */

static uint64_t state;

static uint64_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static int one_in(unsigned int n) { return rnd() % n == 0; }
static uint64_t one_of(const uint64_t *v, unsigned int n) { return v[rnd() % n]; }

static uint64_t number(void)
{
	static const uint64_t v[] = { 0, 1, 2, 4, 16, 20, 128, 200, 4000, 4095, 4096, 4097, 65536, 1000000, 1ull << 31, 1ull << 32, 1ull << 63, ~0ull,
				      (uint64_t)-5, (uint64_t)-11, (uint64_t)-512, (uint64_t)-4095, (uint64_t)-4096, INT64_MAX };

	return one_in(8) ? rnd() : one_of(v, sizeof(v) / sizeof(v[0]));
}

/* -- the server -- */

static uint64_t old_token, ids[8];

static void make_up_an_answer(struct fl_msg *m, const struct fl_req *req)
{
	struct fl_ans ans = { 0 };
	int good = one_in(3) || (req->op == FL_OP_SOCKET && !one_in(8));

	ans.ready = FL_READY_VALID | (uint32_t)(rnd() & 0x201f);
	m->len = m->nr_fds = m->flags = 0;
	if (!good) {
		ans.result = (int64_t)number();
		ans.ready = one_in(2) ? ans.ready : (uint32_t)number();
		ans.error = one_in(2) ? 0 : (int32_t)number();
		ans.addr_len = one_in(2) ? 0 : (uint32_t)number();
		ans.flags = (uint32_t)(one_in(2) ? 0 : number());
		ans.msg_flags = (uint32_t)(one_in(2) ? 0 : number());
		m->len = (uint32_t)(one_in(2) ? rnd() % 300 : number());
		if (one_in(3)) {
			m->nr_fds = (uint32_t)(rnd() % 6);
			for (unsigned int i = 0; i < FL_MAX_FDS; i++)
				m->fd[i] = (int)(rnd() % 12) - 1;
		}
	}
	memcpy(m->word, &ans, sizeof(ans));
}

static void send_readiness(int fd)
{
	struct fl_ready v[FL_READY_MAX];
	unsigned int n = (unsigned int)(rnd() % FL_READY_MAX);

	for (unsigned int i = 0; i < FL_READY_MAX; i++)
		v[i] = (struct fl_ready){ .id = one_in(3) ? number() : ids[rnd() % 8], .ready = (uint32_t)number(), .error = (int32_t)number() };
	family_ready(fd, v, one_in(8) ? (unsigned int)number() : n);
}

static void nonsense(int fd)
{
	static char buf[FL_INLINE_MAX + 16];

	for (int i = 0; i < REQUESTS; i++) {
		struct fl_msg m = { .buf = (uintptr_t)buf, .room = one_in(4) ? (uint32_t)(rnd() % 100) : FL_INLINE_MAX };
		struct fl_req req;

		if (port_receive(fd, &m, 50000000))
			return;			/* all clients wait for answers that will not come */
		memcpy(&req, m.word, sizeof(req));
		ids[rnd() % 8] = req.id;
		for (uint32_t k = 0; k < m.nr_fds; k++)
			close(m.fd[k]);
		if (m.lent_len && one_in(2))
			port_lent_write(fd, one_in(8) ? old_token : m.token, one_in(2) ? 0 : number(), buf, one_in(2) ? 100 : number());
		if (m.lent_len && one_in(2))
			port_lent_read(fd, m.token, one_in(2) ? 0 : number(), buf, one_in(2) ? 100 : rnd() % 4096);
		make_up_an_answer(&m, &req);
		if (one_in(10))
			send_readiness(fd);
		if (one_in(20)) {
			old_token = m.token;	/* for later, perhaps */
			continue;
		}
		if (one_in(10)) {
			uint64_t token = m.token;

			m.token = one_in(2) ? old_token : number();
			port_reply(fd, &m);
			m.token = token;
		}
		if (port_reply(fd, &m)) {	/* the kernel would not have it: less, then */
			m.len = m.nr_fds = 0;
			port_reply(fd, &m);
		}
		if (one_in(10))
			port_reply(fd, &m);
	}
}

/* -- its clients: ordinary calls, results of no interest -- */

static void use(int s)
{
	static char buf[100000];
	struct mini_addr a = { .family = MINI_FAMILY, .name = "nonsense" };
	struct pollfd p = { .fd = s, .events = (short)rnd() };
	socklen_t len = (socklen_t)(rnd() % sizeof(a));
	size_t n = one_in(3) ? sizeof(buf) : (size_t)(rnd() % 5000);
	int flags = one_in(8) ? 0 : MSG_DONTWAIT, r;

	switch (rnd() % 12) {
	case 0: bind(s, (void *)&a, sizeof(a)); break;
	case 1: listen(s, (int)rnd()); break;
	case 2: connect(s, (void *)&a, sizeof(a)); break;
	case 3:
		r = accept4(s, (void *)&a, &len, SOCK_NONBLOCK);
		if (r >= 0)
			close(r);
		break;
	case 4: send(s, buf, n, flags); break;
	case 5: sendto(s, buf, n, flags, (void *)&a, sizeof(a)); break;
	case 6: recv(s, buf, n, flags); break;
	case 7: recvfrom(s, buf, n, flags | (one_in(4) ? MSG_PEEK : 0), (void *)&a, &len); break;
	case 8: one_in(2) ? getsockname(s, (void *)&a, &len) : getpeername(s, (void *)&a, &len); break;
	case 9:
		len = (socklen_t)(rnd() % 300);
		one_in(2) ? getsockopt(s, (int)(rnd() % 3), (int)(rnd() % 40), buf, &len) : setsockopt(s, (int)(rnd() % 3), (int)(rnd() % 40), buf, len);
		break;
	case 10: ioctl(s, one_in(2) ? FIONREAD : 0x8912, buf); break;
	case 11:
		poll(&p, 1, 1);
		if (one_in(4))
			shutdown(s, (int)(rnd() % 3));
		break;
	}
}

static void client(void)
{
	for (;;) {
		int s = socket(MINI_FAMILY, (one_in(2) ? SOCK_STREAM : SOCK_DGRAM) | (one_in(8) ? 0 : SOCK_NONBLOCK), 0);

		for (int i = 0; s >= 0 && i < 20; i++)
			use(s);
		close(s);
	}
}

/* -- */

static pid_t start(void (*run)(int fd))
{
	int p[2];
	long err;

	MUST(port_create(p, 0) == 0);
	while ((err = family_claim(p[0], MINI_FAMILY)) == -EBUSY)
		usleep(1000);			/* the last one is still on its way out */
	MUST(err == 0);
	close(p[1]);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		state = state * 31 + 7;
		run(p[0]);
		_exit(0);
	}
	close(p[0]);
	return pid;
}

static void one_round(void)
{
	pid_t pid[CLIENTS], server = start(nonsense);
	int status;

	for (int i = 0; i < CLIENTS; i++) {
		pid[i] = fork();
		MUST(pid[i] >= 0);
		if (pid[i] == 0) {
			state = state * 31 + (uint64_t)i + 100;
			client();
		}
	}
	MUST(waitpid(server, &status, 0) == server);
	CHECK_EQUAL(0, status);
	for (int i = 0; i < CLIENTS; i++) {
		kill(pid[i], SIGKILL);
		MUST(waitpid(pid[i], &status, 0) == pid[i]);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	rnd();
}

static void a_good_server_works(void)
{
	pid_t server = start(mini_main);
	struct mini_addr a = { .family = MINI_FAMILY, .name = "good" };
	int l = socket(MINI_FAMILY, SOCK_STREAM, 0), c = socket(MINI_FAMILY, SOCK_STREAM, 0), status;
	char buf[8];

	MUST(l >= 0 && c >= 0);
	CHECK_EQUAL(0, bind(l, (void *)&a, sizeof(a)));
	CHECK_EQUAL(0, listen(l, 1));
	CHECK_EQUAL(0, connect(c, (void *)&a, sizeof(a)));
	int n = accept(l, NULL, NULL);
	CHECK(n >= 0);
	CHECK_EQUAL(5, write(c, "hello", 5));
	CHECK_EQUAL(5, read(n, buf, sizeof(buf)));
	CHECK(!memcmp(buf, "hello", 5));
	close(n);
	close(c);
	close(l);
	kill(server, SIGKILL);
	MUST(waitpid(server, &status, 0) == server);
}

int main(void)
{
	const char *seed = getenv("SEED");

	state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
	printf("seed %llu\n", (unsigned long long)state);
	fflush(stdout);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < ROUNDS; i++)
		one_round();
	a_good_server_works();
	test_end();
}
