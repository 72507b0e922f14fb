/*
 * The fault side: which message comes for which access, who is woken by what, and what system calls do that meet missing memory
 * (rules F24, F28, F40 to F44, F55).
 *
 * append: hugepages=8
 */
#include "uffd_test.h"

#define FUTEX_WAIT	0

static bool usable(enum kind kind)
{
	return !is_hugetlb(kind) || huge_pages() >= 3;
}

/* F40: missing and minor, by reading and by writing. */
static void messages(enum kind kind)
{
	struct memory m = make_memory(kind, 3);
	struct helper h;
	int fd = open_uffd(0);
	size_t unit = m.unit;

	if (kind != ANON_PRIVATE)
		m.alias[2 * unit] = 'f';
	MUST(uffd_register(fd, m.p, m.len, kind == ANON_PRIVATE ? MISSING : MISSING | MINOR) == 0);
	/* The base of the page, whatever byte was touched. */
	helper_start(&h, do_read, m.p + 123, 1);
	EXPECT_FAULT(fd, 0, m.p);
	CHECK_EQUAL((long)unit, uffd_copy(fd, m.p, source('r', unit), unit, 0));
	CHECK_EQUAL('r', HELPER_END(&h));
	EXPECT_SILENCE(fd);						/* F43 */

	h.value = 'W';
	helper_start(&h, do_write, m.p + 2 * unit - 1, 1);
	EXPECT_FAULT(fd, UFFD_PAGEFAULT_FLAG_WRITE, m.p + unit);
	CHECK_EQUAL((long)unit, uffd_copy(fd, m.p + unit, source('w', unit), unit, 0));
	HELPER_END(&h);
	CHECK_EQUAL('W', m.p[2 * unit - 1]);
	CHECK_EQUAL('w', m.p[2 * unit - 2]);
	EXPECT_SILENCE(fd);

	if (kind != ANON_PRIVATE) {
		h.value = 'M';
		helper_start(&h, do_write, m.p + 2 * unit, 1);
		EXPECT_FAULT(fd, UFFD_PAGEFAULT_FLAG_MINOR | UFFD_PAGEFAULT_FLAG_WRITE, m.p + 2 * unit);
		CHECK_EQUAL((long)unit, uffd_continue(fd, m.p + 2 * unit, unit, 0));
		HELPER_END(&h);
		CHECK_EQUAL('M', m.p[2 * unit]);
		/* F29: private memory got the file's page read-only, and copied it then. */
		CHECK_EQUAL(is_shared(kind) ? 'M' : 'f', m.alias[2 * unit]);
	}
	close(fd);
	free_memory(&m);
}

/* MISSING alone does not see cached pages, MINOR alone not missing ones. */
static void only_what_was_asked_for(void)
{
	struct memory m = make_memory(SHMEM_SHARED, 2);
	struct helper h;
	int fd = open_uffd(0);

	m.alias[0] = 'c';
	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	CHECK_EQUAL('c', m.p[0]);
	MUST(uffd_unregister(fd, m.p, m.len) == 0 && madvise(m.p, m.len, MADV_DONTNEED) == 0);
	MUST(uffd_register(fd, m.p, m.len, MINOR) == 0);
	CHECK_EQUAL(0, m.p[PAGE]);
	helper_start(&h, do_read, m.p, 1);
	EXPECT_FAULT(fd, UFFD_PAGEFAULT_FLAG_MINOR, m.p);
	CHECK_EQUAL((long)PAGE, uffd_continue(fd, m.p, PAGE, 0));
	CHECK_EQUAL('c', HELPER_END(&h));
	close(fd);
	free_memory(&m);
}

static void exact_address_and_thread(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 1);
	struct helper h;
	struct uffd_msg msg;
	int fd = open_uffd(UFFD_FEATURE_EXACT_ADDRESS | UFFD_FEATURE_THREAD_ID);

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	helper_start(&h, do_read, m.p + 1234, 1);
	MUST(get_message(fd, &msg, 8000));
	CHECK_EQUAL((uintptr_t)m.p + 1234, msg.arg.pagefault.address);
	CHECK_EQUAL(h.tid, (pid_t)msg.arg.pagefault.feat.ptid);
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, m.p, PAGE, 0));
	HELPER_END(&h);
	close(fd);
	free_memory(&m);
}

/* F24: by whom, and exactly where. */
static void who_is_woken(enum kind kind)
{
	struct memory m = make_memory(kind, 3);
	struct helper h[4];
	struct uffd_msg msg;
	int fd = open_uffd(0);
	size_t unit = m.unit;

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	for (int i = 0; i < 4; i++) {
		helper_start(&h[i], do_read, m.p + (size_t)(i % 3) * unit, 1);
		CHECK(helper_sleeps(&h[i]));
	}
	for (int i = 0; i < 4; i++)
		CHECK(get_message(fd, &msg, 1000));		/* F44: one each, two for page 0 */
	EXPECT_SILENCE(fd);
	/* The page is there and nobody knows. */
	CHECK_EQUAL((long)unit, uffd_copy(fd, m.p, source('a', unit), unit, UFFDIO_COPY_MODE_DONTWAKE));
	CHECK(!helper_is_done(&h[0], 20) && !helper_is_done(&h[3], 1));
	CHECK_EQUAL(-EEXIST, uffd_copy(fd, m.p, source('b', unit), unit, 0));	/* wakes nobody, for nothing was done */
	CHECK(!helper_is_done(&h[0], 20));
	/* Of another page, then of this one. */
	CHECK_EQUAL((long)unit, uffd_copy(fd, m.p + unit, source('c', unit), unit, 0));
	CHECK_EQUAL('c', HELPER_END(&h[1]));
	CHECK(!helper_is_done(&h[0], 20) && !helper_is_done(&h[2], 1));
	CHECK_EQUAL(0, uffd_wake(fd, m.p, unit));
	CHECK_EQUAL('a', HELPER_END(&h[0]));
	CHECK_EQUAL('a', HELPER_END(&h[3]));
	CHECK(!helper_is_done(&h[2], 20));
	/* F43: a bare wake where nothing is: the access comes back with a new message. */
	CHECK_EQUAL(0, uffd_wake(fd, m.p, m.len));
	EXPECT_FAULT(fd, 0, m.p + 2 * unit);
	CHECK(!helper_is_done(&h[2], 20));
	/* F24: partial progress wakes too. Pages 0 and 1 are there, so begin at 2, with one page too many. */
	struct memory after = m;
	if (kind == SHMEM_SHARED) {
		MUST(ftruncate(m.fd, (off_t)(2 * unit + unit)) == 0);
		CHECK_EQUAL((long)unit, uffd_zeropage(fd, after.p + 2 * unit, unit, 0));
		CHECK_EQUAL(0, HELPER_END(&h[2]));
	} else {
		CHECK_EQUAL((long)unit, uffd_copy(fd, m.p + 2 * unit, source('e', unit), unit, 0));
		CHECK_EQUAL('e', HELPER_END(&h[2]));
	}
	CHECK_EQUAL(0, uffd_wake(fd, m.p, m.len));			/* nobody waits: fine (F32) */
	close(fd);
	free_memory(&m);
}

static void partial_progress_wakes(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 3);
	struct helper h[2];
	struct uffd_msg msg;
	int fd = open_uffd(0);

	m.p[2 * PAGE] = 'x';
	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	for (int i = 0; i < 2; i++) {
		helper_start(&h[i], do_read, m.p + (size_t)i * PAGE, 1);
		MUST(get_message(fd, &msg, 8000));
	}
	CHECK_RESULT(EAGAIN, (int64_t)(2 * PAGE), raw_copy(fd, (uintptr_t)m.p, (uintptr_t)source('p', m.len), m.len, 0));
	CHECK_EQUAL('p', HELPER_END(&h[0]));
	CHECK_EQUAL('p', HELPER_END(&h[1]));
	CHECK_EQUAL('x', m.p[2 * PAGE]);
	close(fd);
	free_memory(&m);
}

/* F28: a page is seen empty or whole. Readers spin over the last word while it is filled from both ends of nothing. */
static volatile int stop;
static long check_whole(struct helper *h)
{
	volatile unsigned long *p = (volatile unsigned long *)h->p;
	long torn = 0;

	while (!stop) {
		unsigned long last = p[511], first = p[0];

		torn += last != first;
	}
	return torn;
}

static void whole_or_not_at_all(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 1);
	struct helper h;
	struct uffd_msg msg;
	int fd = open_uffd(0);

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	stop = 0;
	helper_start(&h, check_whole, m.p, 1);
	for (int i = 0; i < 300; i++) {
		/* One version for all rounds would hide a torn page, but between two rounds the page goes. So the pattern stays. */
		if (!get_message(fd, &msg, 8000)) {
			CHECK(!"a message");
			break;
		}
		CHECK_EQUAL((long)PAGE, uffd_copy(fd, m.p, source('z', PAGE), PAGE, 0));
		if (i < 299)
			MUST(madvise(m.p, PAGE, MADV_DONTNEED) == 0);
	}
	stop = 1;
	uffd_copy(fd, m.p, source('z', PAGE), PAGE, 0);
	CHECK_EQUAL(0, HELPER_END(&h));
	close(fd);
	free_memory(&m);
}

/* -- the kernel's own accesses -- */

static int pipes[2];
static long do_write_from(struct helper *h) { return write(pipes[1], h->p, h->len); }
static long do_read_into(struct helper *h) { return read(pipes[0], h->p, h->len); }
static long do_vm_read(struct helper *h)
{
	char buf[16];
	struct iovec to = { buf, 16 }, from = { h->p, 16 };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0);
}
static long do_splice(struct helper *h)
{
	struct iovec v = { h->p, 16 };

	return vmsplice(pipes[1], &v, 1, 0);
}
static long do_futex(struct helper *h)
{
	return syscall(SYS_futex, h->p, FUTEX_WAIT, 5, NULL, NULL, 0);	/* the value is another: EAGAIN once it was read */
}
static long do_mlock(struct helper *h) { return mlock(h->p, PAGE); }
static long do_populate(struct helper *h) { return madvise(h->p, PAGE, MADV_POPULATE_WRITE); }

static const struct { const char *name; long (*fn)(struct helper *h); long value; int error; bool write; } calls[] = {
	{ "write", do_write_from, 16, 0, false }, { "read", do_read_into, 16, 0, true }, { "process_vm_readv", do_vm_read, 16, 0, false },
	{ "vmsplice", do_splice, 16, 0, false }, { "futex", do_futex, -1, EAGAIN, true }, { "mlock", do_mlock, 0, 0, true },
	{ "MADV_POPULATE_WRITE", do_populate, 0, 0, true },
};
#define NR_CALLS	(sizeof(calls) / sizeof(calls[0]))

/* They wait like the program itself. */
static void system_calls_wait(enum kind kind)
{
	for (size_t i = 0; i < NR_CALLS; i++) {
		struct memory m = make_memory(kind, 1);
		struct helper h;
		struct uffd_msg msg;
		int fd = open_uffd(0);

		MUST(pipe(pipes) == 0 && write(pipes[1], "0123456789abcdef", 16) == 16);
		MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
		helper_start(&h, calls[i].fn, m.p, 16);
		if (!get_message(fd, &msg, 8000)) {
			printf("%s on %s: no message\n", calls[i].name, kind_names[kind]);
			test_failures++;
			close(fd);
			continue;
		}
		CHECK_EQUAL((uintptr_t)m.p, msg.arg.pagefault.address);
		/* A shared futex pins its page for writing; mlock breaks copy-on-write of private memory only. */
		if (msg.arg.pagefault.flags != (calls[i].write && !(calls[i].fn == do_mlock && is_shared(kind)))) {
			printf("%s on %s: flags %llx\n", calls[i].name, kind_names[kind], (unsigned long long)msg.arg.pagefault.flags);
			test_failures++;
		}
		CHECK(!helper_is_done(&h, 10));
		CHECK_EQUAL((long)m.unit, uffd_copy(fd, m.p, source('k', m.unit), m.unit, 0));
		long value = HELPER_END(&h);
		if (value != calls[i].value || (value < 0 && h.error != calls[i].error)) {
			printf("%s on %s: %ld, errno %d\n", calls[i].name, kind_names[kind], value, h.error);
			test_failures++;
		}
		CHECK_EQUAL(calls[i].fn == do_read_into ? '0' : 'k', m.p[0]);
		close(pipes[0]);
		close(pipes[1]);
		close(fd);
		free_memory(&m);
	}
}

/* The table after F44: SIGBUS, and USER_MODE_ONLY. */
static void no_message(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 1);
	int fd = open_uffd(UFFD_FEATURE_SIGBUS), byte = 0;

	catch_faults();
	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0 && pipe(pipes) == 0);
	CHECK_FAULT(SIGBUS, BUS_ADRERR, m.p + 5, access_byte((uintptr_t)m.p + 5, READ));
	CHECK_FAULT(SIGBUS, BUS_ADRERR, m.p + 5, access_byte((uintptr_t)m.p + 5, WRITE));
	CHECK_ERRNO(EFAULT, write(pipes[1], m.p, 16));
	MUST(write(pipes[1], &byte, 1) == 1);
	CHECK_ERRNO(EFAULT, read(pipes[0], m.p, 1));
	CHECK_ERRNO(EFAULT, syscall(SYS_futex, m.p, FUTEX_WAIT, 5, NULL, NULL, 0));
	EXPECT_SILENCE(fd);
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, m.p, source('s', PAGE), PAGE, 0));
	CHECK_EQUAL('s', m.p[0]);
	close(fd);
	free_memory(&m);

	m = make_memory(ANON_PRIVATE, 1);
	fd = uffd_open(O_NONBLOCK | UFFD_USER_MODE_ONLY, 0);
	struct helper h;
	MUST(fd >= 0 && uffd_register(fd, m.p, m.len, MISSING) == 0);
	CHECK_ERRNO(EFAULT, write(pipes[1], m.p, 16));
	EXPECT_SILENCE(fd);
	helper_start(&h, do_read, m.p, 1);
	EXPECT_FAULT(fd, 0, m.p);
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, m.p, source('u', PAGE), PAGE, 0));
	CHECK_EQUAL('u', HELPER_END(&h));
	close(fd);
	free_memory(&m);
	close(pipes[0]);
	close(pipes[1]);
}

/* F7, F42, F55: a signal handler runs, and the access is tried again. */
static volatile int handled;
static void on_signal(int sig) { (void)sig; handled++; }

static void signal_while_waiting(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct memory m = make_memory(ANON_PRIVATE, 1);
	struct helper h;
	int fd = open_uffd(0);

	MUST(sigaction(SIGUSR1, &sa, NULL) == 0 && uffd_register(fd, m.p, m.len, MISSING) == 0);
	helper_start(&h, do_read, m.p, 1);
	EXPECT_FAULT(fd, 0, m.p);
	EXPECT_SILENCE(fd);
	CHECK(helper_sleeps(&h));
	pthread_kill(h.thread, SIGUSR1);
	EXPECT_FAULT(fd, 0, m.p);				/* once more, by the retry */
	CHECK_EQUAL(1, handled);
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, m.p, source('i', PAGE), PAGE, 0));
	CHECK_EQUAL('i', HELPER_END(&h));
	close(fd);
	free_memory(&m);
}

/* F42: SIGKILL gets through, whoever waits, for whatever, and whether its message was read. */
static void killed_while_waiting(void)
{
	for (int how = 0; how < 2 + (int)NR_CALLS; how++) {
		int status, ready[2], fd;
		struct uffd_msg msg;
		char c;

		MUST(pipe(ready) == 0);
		pid_t pid = fork();
		MUST(pid >= 0);
		if (!pid) {
			struct memory m = make_memory(ANON_PRIVATE, 1);
			struct helper h;

			fd = open_uffd(0);
			MUST(pipe(pipes) == 0 && write(pipes[1], "0123456789abcdef", 16) == 16);
			MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
			if (how < 2)
				helper_start(&h, do_read, m.p, 1);
			else
				helper_start(&h, calls[how - 2].fn, m.p, 16);
			MUST(helper_sleeps(&h));
			if (how == 1)
				MUST(get_message(fd, &msg, 1000));
			MUST(write(ready[1], "r", 1) == 1);
			pause();
		}
		close(ready[1]);
		MUST(read(ready[0], &c, 1) == 1);
		kill(pid, SIGKILL);
		for (int i = 0; i < 500 && waitpid(pid, &status, WNOHANG) == 0; i++)
			usleep(10000);
		CHECK(kill(pid, 0) == -1 && errno == ESRCH);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		close(ready[0]);
	}
}

/* exec and exit of a process whose threads wait in faults. */
static void ended_while_waiting(void)
{
	for (int how = 0; how < 2; how++) {
		int status;
		pid_t pid = fork();

		MUST(pid >= 0);
		if (!pid) {
			struct memory m = make_memory(ANON_PRIVATE, 2);
			struct helper h[2];
			int fd = open_uffd(0);

			MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
			for (int i = 0; i < 2; i++) {
				helper_start(&h[i], do_read, m.p + (size_t)i * PAGE, 1);
				MUST(helper_sleeps(&h[i]));
			}
			if (how)
				execl("/bin/busybox", "true", (char *)NULL);
			_exit(0);
		}
		for (int i = 0; i < 500 && waitpid(pid, &status, WNOHANG) == 0; i++)
			usleep(10000);
		CHECK(kill(pid, 0) == -1 && errno == ESRCH);
		CHECK_EQUAL(0, status);
	}
}

/* The manager is another process, and dies: its descriptor was the last one, so the faults go on as ordinary ones. */
static void manager_dies(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 1);
	struct helper h;
	int fd = open_uffd(0), status;

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		pause();
		_exit(0);
	}
	close(fd);
	helper_start(&h, do_read, m.p, 1);
	CHECK(helper_sleeps(&h));
	kill(pid, SIGKILL);
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, HELPER_END(&h));
	free_memory(&m);
}

int main(void)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		if (!usable(kind))
			continue;
		messages(kind);
		who_is_woken(kind);
	}
	for (enum kind kind = 0; kind <= SHMEM_PRIVATE; kind++)
		system_calls_wait(kind);
	only_what_was_asked_for();
	exact_address_and_thread();
	partial_progress_wakes();
	whole_or_not_at_all();
	no_message();
	signal_while_waiting();
	killed_while_waiting();
	ended_while_waiting();
	manager_dies();
	test_end();
}
