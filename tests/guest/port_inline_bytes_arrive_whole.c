/*
 * only: faultline
 * timeout: 120
 *
 * Inline bytes of every length about the limits, at every place in a page, there and back, with and without descriptors: what arrives is
 * what was sent, from memory of any kind. A call that fails, that nobody takes, or whose caller dies leaves nothing behind.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "test.h"
#include "user/include/port.h"

#define PAGE 4096ul

static int port[2];

/* The answer to n bytes are n bytes, each one more. word[1]: how many descriptors came. */
static void *server(void *arg)
{
	static unsigned char buf[FL_INLINE_MAX + 64];
	struct fl_msg m = { .room = FL_INLINE_MAX, .flags = FL_FDS_CLOEXEC };

	m.buf = (uintptr_t)buf + 24;
	while (port_reply_receive(port[0], &m, -1) == 0 && m.word[0] != ~0ull) {
		unsigned char *p = (unsigned char *)(uintptr_t)m.buf;

		for (uint32_t i = 0; i < m.len; i++)
			p[i]++;
		m.word[1] = m.nr_fds;
		for (uint32_t i = 0; i < m.nr_fds; i++)
			close(m.fd[i]);
		m.nr_fds = 0;
		m.flags = FL_FDS_CLOEXEC;
	}
	m.len = m.nr_fds = 0;
	port_reply(port[0], &m);
	return arg;
}

static unsigned char byte(uint32_t len, uint32_t i) { return (unsigned char)(len * 7 + i * 13 + (i >> 8)); }

/* Sends @len bytes from @from and looks at what comes back. */
static void there_and_back(unsigned char *from, uint32_t len, int fd, int expect_zero)
{
	struct fl_msg m = { .buf = (uintptr_t)from, .len = len, .room = FL_INLINE_MAX };
	uint32_t wrong = 0;

	if (!expect_zero)
		for (uint32_t i = 0; i < len; i++)
			from[i] = byte(len, i);
	if (fd >= 0) {
		m.fd[0] = fd;
		m.nr_fds = 1;
	}
	CHECK_EQUAL(0, port_call(port[1], &m, -1));
	CHECK_EQUAL(len, m.len);
	CHECK_EQUAL(fd >= 0, m.word[1]);
	for (uint32_t i = 0; i < len; i++)	/* the answer replaces the request, if the memory may be written */
		wrong += from[i] != (unsigned char)((expect_zero ? 0 : byte(len, i)) + 1);
	CHECK_EQUAL(0, wrong);
}

static void lengths_and_places(void)
{
	static const uint32_t lengths[] = { 1, 7, 1023, 1024, 1025, 2048, 4088, 4095, 4096 };
	static const uint32_t places[] = { 0, 1, 8, 2047, 3072, 3073, 4095 };
	unsigned char *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED);
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (unsigned int j = 0; j < sizeof(places) / sizeof(places[0]); j++)
			there_and_back(p + places[j], lengths[i], (i + j) % 3 ? -1 : 0, 0);
	munmap(p, 3 * PAGE);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	there_and_back(p + 100, 4096, -1, 1);			/* nobody has touched it */
	munmap(p, 2 * PAGE);
}

/* Bytes come from a mapping of a file, shared and private, and from one that may only be read. */
static void kinds_of_memory(void)
{
	static unsigned char page[PAGE];
	char name[] = "/tmp/inlineXXXXXX";
	int fd = mkstemp(name);

	MUST(fd >= 0);
	for (uint32_t i = 0; i < PAGE; i++)
		page[i] = byte(PAGE, i);
	MUST(write(fd, page, PAGE) == (ssize_t)PAGE);
	for (int flags = MAP_SHARED; flags <= MAP_PRIVATE; flags++) {
		unsigned char *p = mmap(NULL, PAGE, PROT_READ, flags, fd, 0), *answer = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
		struct fl_msg m = { .buf = (uintptr_t)p, .len = PAGE };

		MUST(p != MAP_FAILED && answer != MAP_FAILED);
		m.room = PAGE;
		CHECK_EQUAL(-EFAULT, port_call(port[1], &m, -1));	/* the bytes are sent, the answer has no place */
		there_and_back(answer, PAGE, -1, 0);
		munmap(p, PAGE);
		munmap(answer, PAGE);
	}
	close(fd);
	unlink(name);
}

static void bad_memory(void)
{
	unsigned char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const uint32_t lengths[] = { 100, 1024, 4096 };

	MUST(p != MAP_FAILED);
	munmap(p + PAGE, PAGE);
	for (int i = 0; i < 3; i++) {
		struct fl_msg m = { .buf = (uintptr_t)p + PAGE - 50, .len = lengths[i] };

		CHECK_EQUAL(-EFAULT, port_call(port[1], &m, -1));
		m.buf = ~0ull - 10;
		CHECK_EQUAL(-EFAULT, port_call(port[1], &m, -1));
		m.buf = (uintptr_t)p;
		m.fd[0] = 999;
		m.nr_fds = 1;
		CHECK_EQUAL(-EBADF, port_call(port[1], &m, -1));
		m.nr_fds = 0;
		m.lent_len = 1;
		m.flags = FL_LENT_W;
		CHECK_EQUAL(-EFAULT, port_call(port[1], &m, -1));	/* lends nothing that exists */
	}
	munmap(p, PAGE);
}

/* Calls that nobody takes, and one whose caller dies: the child's end gives all memory back (the debug build counts). */
static void nobody_receives(void)
{
	int q[2], status;

	MUST(port_create(q, 0) == 0);
	pid_t child = fork();
	if (child == 0) {
		static unsigned char buf[2 * PAGE];
		struct fl_msg m = { .buf = (uintptr_t)buf + 1, .len = PAGE };

		if (port_call(q[1], &m, 1000000) != -ETIMEDOUT)
			_exit(1);
		buf[1]++;
		m.len = PAGE;
		port_call(q[1], &m, -1);
		_exit(2);
	}
	struct fl_msg m = { .room = 0 };
	while (port_receive(q[0], &m, -1) == 0 && m.len != PAGE)
		;
	CHECK_EQUAL(PAGE, m.len);
	kill(child, SIGKILL);
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	CHECK_EQUAL(-ESRCH, port_reply(q[0], &(struct fl_msg){ .token = m.token }));
	close(q[0]);
	CHECK_EQUAL(-EPIPE, port_call(q[1], &(struct fl_msg){ .buf = (uintptr_t)&m, .len = 64 }, -1));
	static unsigned char page[PAGE];
	CHECK_EQUAL(-EPIPE, port_call(q[1], &(struct fl_msg){ .buf = (uintptr_t)page, .len = PAGE }, -1));
	close(q[1]);
}

int main(void)
{
	struct fl_msg end = { .word = { ~0ull } };
	pthread_t t;

	MUST(port_create(port, 0) == 0);
	MUST(pthread_create(&t, NULL, server, NULL) == 0);
	lengths_and_places();
	kinds_of_memory();
	bad_memory();
	nobody_receives();
	CHECK_EQUAL(0, port_call(port[1], &end, -1));
	pthread_join(t, NULL);
	test_end();
}
