/*
 * A fault in registered memory waits, and its message tells who waits for what. It is woken by what fills its page, by WAKE, by the end of its
 * registration and by the close of the descriptor; a signal of its program is handled meanwhile, SIGKILL ends it. And nothing else wakes it.
 * budget: 12000
 */
#include "tests/labs/lab_test.h"
#include "tests/guest/uffd_test.h"

#define PAGES	8ul
#define SHORT	30		/* ms of guest time in which nothing must happen */

static char *area;
static int fd;

static void begin(uint64_t features)
{
	area = map_alone(PAGES, RW);
	fd = open_uffd(features);
	MUST(uffd_register(fd, area, PAGES * PAGE, MISSING) == 0);
}

static void end(void)
{
	close(fd);
	munmap(area, PAGES * PAGE);
}

/* A thread that reads or writes @p, and has come as far as waiting; its message is read. */
static void start_waiting(struct helper *h, bool write, char *p)
{
	helper_start(h, write ? do_write : do_read, p, 0);
	EXPECT_FAULT(fd, write ? UFFD_PAGEFAULT_FLAG_WRITE : 0, (uintptr_t)p & -PAGE);
	CHECK(helper_sleeps(h));
}

static void must_still_wait(struct helper *h)
{
	CHECK(!helper_is_done(h, SHORT));
	EXPECT_SILENCE(fd);		/* woken for nothing it would have asked again */
}

static void a_page_ends_the_wait(void)
{
	struct helper reader = { 0 }, writer = { .value = 'w' };

	start_waiting(&reader, false, area + 5);
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, area, source('c', PAGE), PAGE, 0));
	CHECK_EQUAL('c', HELPER_END(&reader));
	start_waiting(&writer, true, area + PAGE + 7);
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, area + PAGE, PAGE, 0));
	HELPER_END(&writer);
	CHECK_EQUAL('w', area[PAGE + 7]);
	CHECK_EQUAL(0, area[PAGE + 8]);
}

static void two_threads_one_page(void)
{
	struct helper a = { 0 }, b = { 0 };

	start_waiting(&a, false, area + 2 * PAGE);
	start_waiting(&b, false, area + 2 * PAGE + 9);		/* a fault each, a message each */
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, area + 2 * PAGE, source('2', PAGE), PAGE, 0));
	CHECK_EQUAL('2', HELPER_END(&a));
	CHECK_EQUAL('2', HELPER_END(&b));
}

/* Also those whose message nobody has read. */
static void exactly_the_range(void)
{
	struct helper in[2] = { { 0 } }, before = { 0 }, behind = { 0 };
	struct pollfd p = { .fd = fd, .events = POLLIN };

	start_waiting(&before, false, area + 3 * PAGE);
	start_waiting(&behind, false, area + 6 * PAGE);
	start_waiting(&in[0], false, area + 4 * PAGE);
	helper_start(&in[1], do_read, area + 5 * PAGE, 0);
	CHECK_EQUAL(1, poll(&p, 1, 8000));
	CHECK(helper_sleeps(&in[1]));
	CHECK_EQUAL((long)(2 * PAGE), uffd_copy(fd, area + 4 * PAGE, source('r', 2 * PAGE), 2 * PAGE, 0));
	CHECK_EQUAL('r', HELPER_END(&in[0]));
	CHECK_EQUAL('r', HELPER_END(&in[1]));
	EXPECT_SILENCE(fd);		/* the message of a fault that is over is not there any more */
	must_still_wait(&before);
	must_still_wait(&behind);
	CHECK_EQUAL(0, uffd_wake(fd, area + 3 * PAGE, PAGE));
	EXPECT_FAULT(fd, 0, area + 3 * PAGE);		/* woken without a page it asks again */
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, area + 3 * PAGE, source('3', PAGE), PAGE, UFFDIO_COPY_MODE_DONTWAKE));
	must_still_wait(&before);
	CHECK_EQUAL(0, uffd_wake(fd, area, 6 * PAGE));
	CHECK_EQUAL('3', HELPER_END(&before));
	must_still_wait(&behind);
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, area + 6 * PAGE, PAGE, 0));
	CHECK_EQUAL(0, HELPER_END(&behind));
}

static long fdinfo(const char *key)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	char *text = read_text(path);
	size_t n = strlen(key);

	for (char *line; (line = next_line(&text)); )
		if (!strncmp(line, key, n) && line[n] == ':')
			return atol(line + n + 1);
	return -1;
}

static void waiters_are_counted(void)
{
	struct helper h = { 0 };
	struct uffd_msg msg;

	CHECK_EQUAL(0, fdinfo("total"));
	helper_start(&h, do_read, area + 7 * PAGE, 0);
	CHECK(helper_sleeps(&h));
	CHECK_EQUAL(1, fdinfo("pending"));
	CHECK_EQUAL(1, fdinfo("total"));
	CHECK(get_message(fd, &msg, 100));
	CHECK_EQUAL(0, fdinfo("pending"));
	CHECK_EQUAL(1, fdinfo("total"));
	CHECK_EQUAL(0, uffd_unregister(fd, area + 7 * PAGE, PAGE));	/* it is plain memory now */
	CHECK_EQUAL(0, HELPER_END(&h));
	CHECK_EQUAL(0, fdinfo("total"));
}

static volatile sig_atomic_t handled;
static void on_signal(int sig)
{
	(void)sig;
	handled = 1;
}

/* The handler runs while the fault waits; then the access is made again, and asked for again. */
static void signals_are_handled(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct helper h = { 0 };

	MUST(sigaction(SIGUSR1, &sa, NULL) == 0);
	start_waiting(&h, false, area);
	pthread_kill(h.thread, SIGUSR1);
	EXPECT_FAULT(fd, 0, area);
	CHECK_EQUAL(1, handled);
	CHECK_EQUAL(1, fdinfo("total"));
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, area, source('s', PAGE), PAGE, 0));
	CHECK_EQUAL('s', HELPER_END(&h));
}

/* A process that waits for a manager who never comes can be killed. */
static void killed_while_waiting(void)
{
	int status, pipe_fd[2];

	MUST(pipe(pipe_fd) == 0);
	fflush(stdout);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		char *p = map_alone(1, RW);
		int own = open_uffd(0);

		MUST(uffd_register(own, p, PAGE, MISSING) == 0 && write(pipe_fd[1], "x", 1) == 1);
		(void)*(volatile char *)p;
		_exit(1);
	}
	MUST(read(pipe_fd[0], &status, 1) == 1);
	usleep(20000);
	MUST(kill(pid, SIGKILL) == 0);
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
}

static void closing_ends_all_waits(void)
{
	struct helper was_read = { 0 }, was_not = { 0 };

	start_waiting(&was_read, false, area + PAGE);
	helper_start(&was_not, do_read, area + 2 * PAGE, 0);
	CHECK(helper_sleeps(&was_not));
	close(fd);
	CHECK_EQUAL(0, HELPER_END(&was_read));
	CHECK_EQUAL(0, HELPER_END(&was_not));
}

static void messages_tell_what_was_asked_for(void)
{
	struct helper h = { 0 };
	struct uffd_msg msg;

	begin(UFFD_FEATURE_THREAD_ID | UFFD_FEATURE_EXACT_ADDRESS);
	helper_start(&h, do_write, area + PAGE + 123, 0);
	CHECK(get_message(fd, &msg, 8000));
	CHECK_EQUAL(UFFD_EVENT_PAGEFAULT, msg.event);
	CHECK_EQUAL(UFFD_PAGEFAULT_FLAG_WRITE, msg.arg.pagefault.flags);
	CHECK_EQUAL((uintptr_t)area + PAGE + 123, msg.arg.pagefault.address);
	CHECK_EQUAL(h.tid, msg.arg.pagefault.feat.ptid);
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, area + PAGE, PAGE, 0));
	HELPER_END(&h);
	end();
}

int main(void)
{
	begin(0);
	a_page_ends_the_wait();
	two_threads_one_page();
	exactly_the_range();
	waiters_are_counted();
	end();
	begin(0);
	signals_are_handled();
	killed_while_waiting();
	closing_ends_all_waits();
	munmap(area, PAGES * PAGE);
	messages_tell_what_was_asked_for();
	test_end();
}
