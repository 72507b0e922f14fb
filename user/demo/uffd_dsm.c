/*
 * Distributed shared memory: two processes, on two machines perhaps, that share one region of memory over a TCP connection.
 *
 *	uffd_dsm				both nodes here, over loopback
 *	uffd_dsm listen PORT			node 0, and
 *	uffd_dsm connect ADDRESS PORT		node 1
 *
 * The protocol is that of the caches of a processor, MSI, page by page. A page is EXCLUSIVE on one node, or SHARED on both and write-protected there,
 * or INVALID, not there at all. userfaultfd tells of an access to what is missing and of a write to what is protected; the page
 * is then asked for. One thread of each node deals with all messages, so it needs no lock; TCP keeps them in order.
 *
 *	fault				asks for	the other node
 *	------------------------------	--------------	----------------------------------------
 *	read,  INVALID			a shared copy	protects its page: SHARED
 *	write, INVALID or SHARED	the page itself	protects its page, sends it, throws it away: INVALID
 *
 * If both want to write a SHARED page at once, node 0 wins: it lets the request of node 1 lie until its own has been answered, and
 * node 1 gives its copy away although it waits.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../uffd.h"

#define PAGE	4096ul
#define PAGES	16
#define WORKERS	2			/* threads of each node */
#define TURNS	15			/* of each worker, under the lock */
#define ROUNDS	10			/* of each litmus test */

enum state { INVALID, SHARED, EXCLUSIVE };
enum kind { NOTHING, WANT_SHARED, WANT_EXCLUSIVE, GIVE_SHARED, GIVE_EXCLUSIVE, BYE };

struct message { uint32_t kind, page; };

static int node, wire, uffd;
static char *memory;
static enum state state[PAGES];			/* the service's, like all up to here */
static enum kind asked[PAGES], deferred[PAGES];
static size_t faults, came;
static volatile bool finished;			/* our program is, and has said so */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* -- the wire -- */

static void receive(void *p, size_t n)
{
	for (ssize_t done; n; n -= (size_t)done, p = (char *)p + done) {
		done = read(wire, p, n);
		if (done <= 0) {
			fprintf(stderr, "node %d: the other node is gone\n", node);
			exit(1);
		}
	}
}

static void transmit(enum kind kind, size_t page, const void *bytes)
{
	static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;
	char buf[sizeof(struct message) + PAGE];
	size_t n = sizeof(struct message) + (bytes ? PAGE : 0);

	memcpy(buf, &(struct message){ kind, (uint32_t)page }, sizeof(struct message));
	if (bytes)
		memcpy(buf + sizeof(struct message), bytes, PAGE);
	pthread_mutex_lock(&sending);
	for (ssize_t at = 0, done; (size_t)at < n; at += done) {
		done = send(wire, buf + at, n - (size_t)at, MSG_NOSIGNAL);
		if (done <= 0) {
			fprintf(stderr, "node %d: the other node is gone\n", node);
			exit(1);
		}
	}
	pthread_mutex_unlock(&sending);
}

/* -- the service -- */

static char *address(size_t page) { return memory + page * PAGE; }

static void give(size_t i, enum kind wanted)
{
	/* Nobody here writes from now on, so what is sent is what is there, and nothing is lost when it is thrown away. */
	if (state[i] == INVALID || uffd_writeprotect(uffd, address(i), PAGE, UFFDIO_WRITEPROTECT_MODE_WP))
		die("the other node wants what is not here");
	transmit(wanted == WANT_SHARED ? GIVE_SHARED : GIVE_EXCLUSIVE, i, address(i));
	state[i] = wanted == WANT_SHARED ? SHARED : INVALID;
	if (state[i] == INVALID && madvise(address(i), PAGE, MADV_DONTNEED))
		die("madvise");
}

static void serve_request(size_t i, enum kind wanted)
{
	if (node == 0 && asked[i])
		deferred[i] = wanted;
	else
		give(i, wanted);
}

/* The page that was asked for, or leave to write what is here. Whoever waits for it is woken. */
static void serve_answer(size_t i, enum kind given)
{
	static char bytes[PAGE];
	bool exclusive = given == GIVE_EXCLUSIVE;

	receive(bytes, PAGE);
	if (state[i] == INVALID && uffd_copy(uffd, address(i), bytes, PAGE, exclusive ? 0 : UFFDIO_COPY_MODE_WP) != (long)PAGE)
		die("UFFDIO_COPY");
	else if (state[i] == SHARED && uffd_writeprotect(uffd, address(i), PAGE, 0))
		die("UFFDIO_WRITEPROTECT");
	state[i] = exclusive ? EXCLUSIVE : SHARED;
	asked[i] = NOTHING;
	came++;
	usleep(1000);			/* who asked shall get to use it, before it is taken away again (Mirage's delta) */
	if (deferred[i])
		give(i, deferred[i]);
	deferred[i] = NOTHING;
}

static void serve_fault(size_t i, bool write)
{
	enum kind want = write ? WANT_EXCLUSIVE : WANT_SHARED;

	if (state[i] == EXCLUSIVE || (state[i] == SHARED && !write)) {
		uffd_wake(uffd, address(i), PAGE);	/* it came while the message was under way */
	} else if (!asked[i]) {				/* else: an answer comes, and who then wants more faults again */
		asked[i] = want;
		faults++;
		transmit(want, i, NULL);
	}
}

static void *service(void *arg)
{
	struct pollfd pfd[2] = { { .fd = wire, .events = POLLIN }, { .fd = uffd, .events = POLLIN } };
	bool said_bye = false;
	struct message m;
	struct uffd_msg msg;

	/* The other node may have finished long before our program has all the pages that it needs. */
	while (poll(pfd, 2, 100) >= 0 && !(said_bye && finished)) {
		if (pfd[1].revents && read(uffd, &msg, sizeof(msg)) == sizeof(msg))
			serve_fault((msg.arg.pagefault.address - (uintptr_t)memory) / PAGE, msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE);
		if (!pfd[0].revents)
			continue;
		receive(&m, sizeof(m));
		if (m.page >= PAGES || m.kind == NOTHING || m.kind > BYE) {
			fprintf(stderr, "node %d: that is no message\n", node);
			exit(1);
		}
		said_bye |= m.kind == BYE;
		if (m.kind == WANT_SHARED || m.kind == WANT_EXCLUSIVE)
			serve_request(m.page, m.kind);
		else if (m.kind != BYE)
			serve_answer(m.page, m.kind);
	}
	return arg;
}

/* -- the program: nothing below knows that there are two machines -- */

enum { LOCK, COUNTER, ARRIVED0, ARRIVED1, DATA, FLAG, X, Y, SEEN0, SEEN1 };	/* each in a page of its own */

static long *var(int which) { return (long *)address((size_t)which); }
static long get(int which) { return __atomic_load_n(var(which), __ATOMIC_SEQ_CST); }
static void set(int which, long v) { __atomic_store_n(var(which), v, __ATOMIC_SEQ_CST); }

static void wait_for(int which, long v)
{
	while (get(which) < v)
		usleep(2000);
}

static void barrier(void)
{
	static long n;

	set(ARRIVED0 + node, ++n);
	wait_for(ARRIVED1 - node, n);
}

/* An exchange happens in a page that is EXCLUSIVE, so it is one step for both nodes. The counter itself is an ordinary variable. */
static void *count_under_lock(void *arg)
{
	for (int i = 0; i < TURNS; i++) {
		while (get(LOCK) || __atomic_exchange_n(var(LOCK), 1, __ATOMIC_SEQ_CST))
			usleep(2000);
		*(volatile long *)var(COUNTER) += 1;
		set(LOCK, 0);
	}
	return arg;
}

/* Who sees the flag sees the data. */
static long message_passing(void)
{
	long wrong = 0;

	for (long i = 1; i <= ROUNDS; i++) {
		if (node == 0) {
			__atomic_store_n(var(DATA), i, __ATOMIC_RELAXED);
			__atomic_store_n(var(FLAG), i, __ATOMIC_RELEASE);
		} else {
			while (__atomic_load_n(var(FLAG), __ATOMIC_ACQUIRE) < i)
				usleep(500);
			wrong += __atomic_load_n(var(DATA), __ATOMIC_RELAXED) < i;
		}
	}
	return wrong;
}

/* Each writes its own and reads the other's: not both may have missed the other's write. */
static long store_buffering(void)
{
	long wrong = 0;

	for (int i = 0; i < ROUNDS; i++) {
		set(X + node, 0);
		barrier();
		set(X + node, 1);
		set(SEEN0 + node, get(Y - node));
		barrier();
		wrong += !get(SEEN0) && !get(SEEN1);
		barrier();
	}
	return wrong;
}

static int work(void)
{
	pthread_t server, worker[WORKERS];
	long passing, buffering;

	memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uffd = uffd_open(O_NONBLOCK | O_CLOEXEC, UFFD_FEATURE_PAGEFAULT_FLAG_WP);
	if (memory == MAP_FAILED || uffd < 0)
		die("userfaultfd");
	for (size_t i = 0; i < PAGES && node == 0; i++, state[i - 1] = EXCLUSIVE)
		*address(i) = 0;			/* in the beginning everything is here */
	if (uffd_register(uffd, memory, PAGES * PAGE, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP))
		die("UFFDIO_REGISTER");
	if (pthread_create(&server, NULL, service, NULL))
		die("pthread_create");

	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&worker[i], NULL, count_under_lock, NULL))
			die("pthread_create");
	for (int i = 0; i < WORKERS; i++)
		pthread_join(worker[i], NULL);
	barrier();
	long counted = get(COUNTER);
	passing = message_passing();
	barrier();
	buffering = store_buffering();
	barrier();
	finished = true;
	transmit(BYE, 0, NULL);				/* pages go on being served until the other has said so too */
	pthread_join(server, NULL);
	bool ok = counted == 2 * WORKERS * TURNS && !passing && !buffering;
	printf("node %d: counted to %ld, wrong messages %ld, wrong buffers %ld: memory %s\n", node, counted, passing, buffering, ok ? "right" : "WRONG");
	fprintf(stderr, "node %d: asked for %zu pages, %zu came\n", node, faults, came);
	return !ok || !faults || faults != came;
}

/* -- the connection -- */

static int listen_at(struct sockaddr_in *a)
{
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	socklen_t len = sizeof(*a);

	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) || bind(s, (struct sockaddr *)a, sizeof(*a)) || listen(s, 1) ||
	    getsockname(s, (struct sockaddr *)a, &len))
		die("listen");
	return s;
}

static void connect_to(const struct sockaddr_in *a)
{
	node = 1;
	for (int tries = 0; ; tries++) {		/* the other machine may just be starting */
		wire = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (wire >= 0 && !connect(wire, (const struct sockaddr *)a, sizeof(*a)))
			break;
		if (wire < 0 || tries == 100)
			die("connect");
		close(wire);
		usleep(300000);
	}
}

static int usage(void)
{
	fprintf(stderr, "usage: uffd_dsm [listen PORT | connect ADDRESS PORT]\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	long port = argc > 2 ? strtol(argv[argc - 1], NULL, 10) : 1;
	int s = -1, on = 1, status = 0;
	pid_t child = 0;

	if (port < 1 || port > 65535)
		return usage();
	a.sin_port = htons(argc > 2 ? (uint16_t)port : 0);
	if (argc == 1) {
		s = listen_at(&a);
		child = fork();
		if (child < 0)
			die("fork");
		if (child == 0)
			connect_to(&a);
	} else if (argc == 3 && !strcmp(argv[1], "listen")) {
		a.sin_addr.s_addr = htonl(INADDR_ANY);
		s = listen_at(&a);
	} else if (argc == 4 && !strcmp(argv[1], "connect") && inet_pton(AF_INET, argv[2], &a.sin_addr) == 1) {
		connect_to(&a);
	} else {
		return usage();
	}
	if (node == 0 && (wire = accept(s, NULL, NULL)) < 0)
		die("accept");
	setsockopt(wire, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	int result = work();
	if (child > 0 && (waitpid(child, &status, 0) != child || status))
		return 1;
	return result;
}
