/*
 * only: faultline
 *
 * A caller lends memory that lies under a userfaultfd which nobody serves. It waits for its own page, the server does not: it
 * goes on serving others, and never hears of the call. The caller can be killed. A caller whose page comes late is served then.
 */
#define _GNU_SOURCE
#include <fcntl.h>

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <pthread.h>

#include "test.h"
#include "user/include/port.h"
#include "user/uffd.h"

#define PAGE 4096ul

static int open_uffd(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0)
		test_skip("no userfaultfd");
	MUST(ioctl(fd, UFFDIO_API, &api) == 0);
	return fd;
}

static char *watched(int fd)
{
	char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = { .range = { (uintptr_t)p, 2 * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };

	MUST(p != MAP_FAILED);
	MUST(ioctl(fd, UFFDIO_REGISTER, &reg) == 0);
	return p;
}

/* Answers each call with the number of lent bytes. */
static void serve(int fd)
{
	struct fl_msg m = { 0 };

	while (port_reply_receive(fd, &m, -1) == 0) {
		m.word[0] = m.lent_len;
		m.len = m.nr_fds = 0;
		m.flags = 0;
	}
	_exit(1);
}

static void *lender(void *arg)
{
	void **a = arg;
	struct fl_msg m = { .lent = (uintptr_t)a[1], .lent_len = 2 * PAGE, .flags = FL_LENT_W };

	CHECK_EQUAL(0, port_call((int)(long)a[0], &m, -1));
	CHECK_EQUAL(2 * PAGE, m.word[0]);
	return NULL;
}

int main(void)
{
	int p[2], status;
	uint64_t w[FL_WORDS] = { 0 };

	MUST(port_create(p, 0) == 0);
	pid_t server = fork();
	if (server == 0) {
		close(p[1]);
		serve(p[0]);
	}
	pid_t stuck = fork();
	if (stuck == 0) {
		struct fl_msg m = { .lent_len = 2 * PAGE, .flags = FL_LENT_W };

		m.lent = (uintptr_t)watched(open_uffd());
		port_call(p[1], &m, -1);
		_exit(1);
	}
	usleep(100000);
	for (int i = 0; i < 200; i++) {
		w[0] = 1;
		CHECK_EQUAL(0, port_call_words(p[1], w, 5000000000ll));
		CHECK_EQUAL(0, w[0]);
	}
	CHECK_EQUAL(0, waitpid(stuck, &status, WNOHANG));	/* still waits */
	kill(stuck, SIGKILL);
	CHECK(waitpid(stuck, &status, 0) == stuck && WIFSIGNALED(status));

	/* The pages come after all. */
	int uffd = open_uffd();
	void *a[2] = { (void *)(long)p[1], watched(uffd) };
	pthread_t t;
	MUST(pthread_create(&t, NULL, lender, a) == 0);
	for (int i = 0; i < 2; i++) {
		struct uffd_msg msg;
		MUST(read(uffd, &msg, sizeof(msg)) == sizeof(msg));
		struct uffdio_zeropage z = { .range = { msg.arg.pagefault.address & ~(PAGE - 1), PAGE } };
		CHECK_EQUAL(0, ioctl(uffd, UFFDIO_ZEROPAGE, &z));
	}
	pthread_join(t, NULL);
	kill(server, SIGKILL);
	waitpid(server, &status, 0);
	test_end();
}
