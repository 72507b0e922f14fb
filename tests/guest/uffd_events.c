/*
 * Events: FORK, REMAP, REMOVE, UNMAP; who waits for whom, what the operations of the manager answer meanwhile, and what happens when a
 * side dies (rules F20, F23, F45 to F53).
 */
#include "uffd_test.h"

static long do_munmap(struct helper *h) { return munmap(h->p, h->len); }
static long do_map_over(struct helper *h) { return mmap(h->p, h->len, RW, ANON | MAP_FIXED, -1, 0) == h->p ? 0 : -1; }
static long do_dontneed(struct helper *h) { return madvise(h->p, h->len, MADV_DONTNEED); }
static long do_free(struct helper *h) { return madvise(h->p, h->len, MADV_FREE); }
static long do_remove(struct helper *h) { return madvise(h->p, h->len, MADV_REMOVE); }

static long do_brk(struct helper *h) { return sys_brk(h->p); }

static bool is_mapped_here(const char *p)
{
	return is_mapped(p, PAGE);
}

/* F50: after the unmap, the whole range once, rounded to pages; the caller waits until it was read. */
static void unmap(void)
{
	long (*const calls[])(struct helper *) = { do_munmap, do_map_over };

	for (int i = 0; i < 2; i++) {
		struct memory m = make_memory(ANON_PRIVATE, 6);
		struct helper h;
		int fd = open_uffd(UFFD_FEATURE_EVENT_UNMAP);

		/* Two registered parts with a hole between; the call takes all of it and more. */
		MUST(uffd_register(fd, m.p + PAGE, PAGE, MISSING) == 0 && uffd_register(fd, m.p + 3 * PAGE, PAGE, MISSING) == 0);
		helper_start(&h, calls[i], m.p, i ? 5 * PAGE : 5 * PAGE - 100);
		CHECK(helper_sleeps(&h));
		CHECK_EQUAL(i == 1, is_mapped_here(m.p));		/* already gone, or already replaced */
		/* F20: every fill is refused while it waits; F46: these are not. */
		CHECK_RESULT(EAGAIN, -EAGAIN, raw_copy(fd, (uintptr_t)m.p, (uintptr_t)m.p, PAGE, 0));
		CHECK_RESULT(EAGAIN, -EAGAIN, raw_fill(fd, UFFDIO_ZEROPAGE, (uintptr_t)m.p, PAGE, 0));
		CHECK_RESULT(EAGAIN, -EAGAIN, raw_fill(fd, UFFDIO_CONTINUE, (uintptr_t)m.p, PAGE, 0));
		CHECK_RESULT(EAGAIN, -EAGAIN, raw_fill(fd, UFFDIO_POISON, (uintptr_t)m.p, PAGE, 0));
		CHECK_RESULT(EAGAIN, -EAGAIN, raw_move(fd, (uintptr_t)m.p, (uintptr_t)m.p, PAGE, 0));
		CHECK_RESULT(EAGAIN, -EAGAIN, raw_copy(fd, 1, 1, 1, 99));	/* before all other tests */
		CHECK_ERRNO(EAGAIN, uffd_writeprotect(fd, m.p, PAGE, 0));
		CHECK_EQUAL(0, uffd_wake(fd, m.p, PAGE));
		CHECK_EQUAL(0, uffd_register(fd, m.p + 5 * PAGE, PAGE, MISSING));
		CHECK_EQUAL(0, uffd_unregister(fd, m.p + 5 * PAGE, PAGE));
		CHECK(!helper_is_done(&h, 10));
		EXPECT_EVENT(fd, UFFD_EVENT_UNMAP, m.p, m.p + 5 * PAGE);
		EXPECT_SILENCE(fd);					/* one for the whole call */
		CHECK_EQUAL(0, HELPER_END(&h));
		/* The answer changes when the waiter has run again: it has. */
		CHECK_RESULT(ENOENT, -ENOENT, raw_copy(fd, (uintptr_t)m.p, (uintptr_t)source('x', PAGE), PAGE, 0));
		close(fd);
		munmap(m.p, m.len);
	}
}

static void without_the_feature(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 2);
	int fd = open_uffd(0);

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	CHECK_EQUAL(0, madvise(m.p, PAGE, MADV_DONTNEED));
	CHECK_EQUAL(0, munmap(m.p, PAGE));
	EXPECT_SILENCE(fd);
	close(fd);
	munmap(m.p, m.len);
}

static void unmap_by_brk(void)
{
	char *old = (char *)sys_brk(0), *top = old + 4 * PAGE;
	struct helper h;
	int fd = open_uffd(UFFD_FEATURE_EVENT_UNMAP);

	old = (char *)(((uintptr_t)old + PAGE - 1) & -PAGE);
	MUST((char *)sys_brk(top) == top);
	MUST(uffd_register(fd, old, 2 * PAGE, MISSING) == 0);
	helper_start(&h, do_brk, old + PAGE, 0);
	EXPECT_EVENT(fd, UFFD_EVENT_UNMAP, old + PAGE, ((uintptr_t)top + PAGE - 1) & -PAGE);
	HELPER_END(&h);
	close(fd);
}

/* F51: told before it happens. */
static void remove_events(void)
{
	const struct { enum kind kind; long (*fn)(struct helper *); } table[] = {
		{ ANON_PRIVATE, do_dontneed }, { SHMEM_SHARED, do_dontneed }, { ANON_PRIVATE, do_free }, { SHMEM_SHARED, do_remove },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct memory m = make_memory(table[i].kind, 3);
		struct helper h;
		int fd = open_uffd(UFFD_FEATURE_EVENT_REMOVE);

		memset(m.p, 'x', m.len);
		MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
		helper_start(&h, table[i].fn, m.p + PAGE, PAGE);
		CHECK(helper_sleeps(&h));
		CHECK_EQUAL('x', m.p[PAGE]);
		CHECK_RESULT(EAGAIN, -EAGAIN, raw_copy(fd, (uintptr_t)m.p, (uintptr_t)m.p, PAGE, 0));
		EXPECT_EVENT(fd, UFFD_EVENT_REMOVE, m.p + PAGE, m.p + 2 * PAGE);
		CHECK_EQUAL(0, HELPER_END(&h));
		if (table[i].fn != do_free) {
			helper_start(&h, do_read, m.p + PAGE, 1);
			if (table[i].fn == do_dontneed && table[i].kind == SHMEM_SHARED) {
				CHECK_EQUAL('x', HELPER_END(&h));	/* still in the file: not missing */
			} else {
				EXPECT_FAULT(fd, 0, m.p + PAGE);
				CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, m.p + PAGE, PAGE, 0));
				CHECK_EQUAL(0, HELPER_END(&h));
			}
		}
		CHECK_EQUAL('x', m.p[0] == 'x' ? m.p[2 * PAGE] : 0);
		close(fd);
		free_memory(&m);
	}
}

/* F51: while it waits the mapping may go, and the call looks again. */
static void unmapped_while_removing(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 2);
	struct helper h;
	int fd = open_uffd(UFFD_FEATURE_EVENT_REMOVE);

	memset(m.p, 'x', m.len);
	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	helper_start(&h, do_dontneed, m.p, m.len);
	CHECK(helper_sleeps(&h));
	MUST(munmap(m.p, m.len) == 0);
	EXPECT_EVENT(fd, UFFD_EVENT_REMOVE, m.p, m.p + m.len);
	CHECK_EQUAL(-1, HELPER_END(&h));
	CHECK_EQUAL(ENOMEM, h.error);
	close(fd);
}

struct remap { char *from, *to; size_t old, new; int flags; };
static struct remap remap;
static long do_mremap(struct helper *h)
{
	(void)h;
	return mremap(remap.from, remap.old, remap.new, remap.flags, remap.to) == MAP_FAILED ? -1 : 0;
}

/* F49: from, to, length; then UNMAP of the old place, if asked for. */
static void remap_events(uint64_t features, bool keep_old)
{
	struct memory m = make_memory(ANON_PRIVATE, 2);
	struct helper h;
	struct uffd_msg msg;
	int fd = open_uffd(features);

	m.p[0] = 'x';
	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	remap = (struct remap){ m.p, empty_place(m.len, PAGE), m.len, m.len, MREMAP_MAYMOVE | MREMAP_FIXED };
	if (keep_old)
		remap.flags |= MREMAP_DONTUNMAP;
	/* Kept free until then: the thread's stack must not take it. */
	MUST(mmap(remap.to, m.len, PROT_NONE, ANON | MAP_FIXED, -1, 0) == remap.to);
	helper_start(&h, do_mremap, NULL, 0);
	if (features & UFFD_FEATURE_EVENT_REMAP) {
		MUST(get_message(fd, &msg, 8000));
		CHECK_EQUAL(UFFD_EVENT_REMAP, msg.event);
		CHECK_EQUAL((uintptr_t)m.p, msg.arg.remap.from);
		CHECK_EQUAL((uintptr_t)remap.to, msg.arg.remap.to);
		CHECK_EQUAL(m.len, msg.arg.remap.len);
	}
	if ((features & UFFD_FEATURE_EVENT_UNMAP) && !keep_old)
		EXPECT_EVENT(fd, UFFD_EVENT_UNMAP, m.p, m.p + m.len);
	CHECK_EQUAL(0, HELPER_END(&h));
	EXPECT_SILENCE(fd);
	CHECK_EQUAL('x', remap.to[0]);
	CHECK_EQUAL(!!(features & UFFD_FEATURE_EVENT_REMAP), smaps_flag(remap.to, "um"));
	CHECK_EQUAL(keep_old, is_mapped_here(m.p));
	helper_start(&h, do_read, remap.to + PAGE, 1);
	if (features & UFFD_FEATURE_EVENT_REMAP) {
		EXPECT_FAULT(fd, 0, remap.to + PAGE);
		CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, remap.to + PAGE, PAGE, 0));
	}
	CHECK_EQUAL(0, HELPER_END(&h));
	close(fd);					/* first: else we would wait for ourselves */
	if (keep_old)
		munmap(m.p, m.len);
	munmap(remap.to, m.len);
}

/* mremap that moves and shrinks: REMAP with the length that mremap was given, UNMAP of the tail, UNMAP of what was moved. */
static void remap_that_shrinks(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 3);
	struct helper h;
	struct uffd_msg msg;
	int fd = open_uffd(UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_UNMAP);

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	remap = (struct remap){ m.p, empty_place(m.len, PAGE), m.len, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED };
	MUST(mmap(remap.to, m.len, PROT_NONE, ANON | MAP_FIXED, -1, 0) == remap.to);
	helper_start(&h, do_mremap, NULL, 0);
	MUST(get_message(fd, &msg, 8000));
	CHECK_EQUAL(UFFD_EVENT_REMAP, msg.event);
	CHECK_EQUAL(m.len, msg.arg.remap.len);
	EXPECT_EVENT(fd, UFFD_EVENT_UNMAP, m.p + PAGE, m.p + m.len);
	EXPECT_EVENT(fd, UFFD_EVENT_UNMAP, m.p, m.p + PAGE);
	CHECK_EQUAL(0, HELPER_END(&h));
	EXPECT_SILENCE(fd);
	close(fd);
	munmap(remap.to, m.len);
}

/* F47: the reader gets a descriptor that means the child. */
static volatile pid_t child;
static int child_pipe[2];
static long do_fork(struct helper *h)
{
	pid_t pid = (pid_t)syscall(SYS_fork);

	if (!pid) {
		/* Only system calls in here: a thread's child. */
		char c = *(volatile char *)h->p;

		if (write(child_pipe[1], &c, 1) != 1)
			_exit(1);
		c = *(volatile char *)(h->p + PAGE);
		_exit(write(child_pipe[1], &c, 1) != 1);
	}
	child = pid;
	return pid > 0 ? 0 : -1;
}

static void fork_event(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 2);
	struct helper h;
	struct uffd_msg msg;
	int fd = open_uffd(UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_THREAD_ID), status;
	char c = 0;

	MUST(pipe(child_pipe) == 0 && uffd_register(fd, m.p, m.len, MISSING | WP) == 0);
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, m.p, source('p', PAGE), PAGE, UFFDIO_COPY_MODE_WP));
	helper_start(&h, do_fork, m.p, m.len);
	CHECK(helper_sleeps(&h));
	CHECK_RESULT(EAGAIN, -EAGAIN, raw_copy(fd, (uintptr_t)m.p, (uintptr_t)m.p, PAGE, 0));
	MUST(get_message(fd, &msg, 8000));
	CHECK_EQUAL(UFFD_EVENT_FORK, msg.event);
	int theirs = (int)msg.arg.fork.ufd;
	CHECK(theirs > 2 && theirs != fd);
	CHECK_EQUAL(fcntl(fd, F_GETFL), fcntl(theirs, F_GETFL));
	CHECK_EQUAL(0, HELPER_END(&h));
	MUST(read(child_pipe[0], &c, 1) == 1);
	CHECK_EQUAL('p', c);						/* the page came along */
	/* The child misses its second page, and asks its own descriptor. */
	MUST(get_message(theirs, &msg, 8000));
	CHECK_EQUAL((uintptr_t)m.p + PAGE, msg.arg.pagefault.address);
	CHECK_EQUAL(child, (pid_t)msg.arg.pagefault.feat.ptid);		/* the features are the parent's */
	EXPECT_SILENCE(fd);
	CHECK_EQUAL((long)PAGE, uffd_copy(theirs, m.p + PAGE, source('k', PAGE), PAGE, 0));
	MUST(read(child_pipe[0], &c, 1) == 1);
	CHECK_EQUAL('k', c);
	MUST(waitpid(child, &status, 0) == child);
	CHECK_EQUAL(0, status);
	/* F53: nobody there any more. */
	CHECK_RESULT(ESRCH, GARBAGE, raw_copy(theirs, (uintptr_t)m.p + PAGE, (uintptr_t)m.p, PAGE, 0));
	CHECK_RESULT(ESRCH, GARBAGE, raw_fill(theirs, UFFDIO_ZEROPAGE, (uintptr_t)m.p + PAGE, PAGE, 0));
	CHECK_ERRNO(ESRCH, uffd_writeprotect(theirs, m.p, PAGE, 0));
	CHECK_ERRNO(ENOMEM, uffd_register(theirs, m.p, PAGE, MISSING));
	CHECK_ERRNO(ENOMEM, uffd_unregister(theirs, m.p, PAGE));
	CHECK_EQUAL(0, uffd_wake(theirs, m.p, PAGE));
	EXPECT_SILENCE(theirs);
	close(theirs);
	/* In the parent, the page is missing still. */
	CHECK(!(pagemap(m.p + PAGE) & PM_PRESENT));
	close(fd);
	close(child_pipe[0]);
	close(child_pipe[1]);
	free_memory(&m);
}

/* F47: no room for the descriptor: the event is not lost. */
static void fork_event_without_room(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 2);
	struct helper h;
	struct uffd_msg msg;
	struct rlimit was, none;
	int fd = open_uffd(UFFD_FEATURE_EVENT_FORK), status;

	MUST(pipe(child_pipe) == 0);
	memset(m.p, 'x', m.len);
	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	helper_start(&h, do_fork, m.p, m.len);
	CHECK(helper_sleeps(&h));
	MUST(getrlimit(RLIMIT_NOFILE, &was) == 0);
	none = was;
	none.rlim_cur = 0;
	MUST(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK_ERRNO(EMFILE, read(fd, &msg, sizeof(msg)));
	MUST(setrlimit(RLIMIT_NOFILE, &was) == 0);
	CHECK(!helper_is_done(&h, 20));
	MUST(get_message(fd, &msg, 8000));
	CHECK_EQUAL(UFFD_EVENT_FORK, msg.event);
	CHECK_EQUAL(0, HELPER_END(&h));
	MUST(waitpid(child, &status, 0) == child);
	CHECK_EQUAL(0, status);
	close((int)msg.arg.fork.ufd);
	close(fd);
	close(child_pipe[0]);
	close(child_pipe[1]);
	free_memory(&m);
}

/* Faults come before events, each in its order (F6). */
static void faults_before_events(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 4);
	struct helper event, fault;
	int fd = open_uffd(UFFD_FEATURE_EVENT_UNMAP);

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	helper_start(&event, do_munmap, m.p + 3 * PAGE, PAGE);
	CHECK(helper_sleeps(&event));
	helper_start(&fault, do_read, m.p, 1);
	CHECK(helper_sleeps(&fault));
	EXPECT_FAULT(fd, 0, m.p);
	EXPECT_EVENT(fd, UFFD_EVENT_UNMAP, m.p + 3 * PAGE, m.p + 4 * PAGE);
	HELPER_END(&event);
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, m.p, PAGE, 0));
	HELPER_END(&fault);
	close(fd);
	munmap(m.p, 3 * PAGE);
}

/* F8, R34: close releases whoever waits for an event to be read. */
static void close_releases_events(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 4);
	struct helper h;
	int fd = open_uffd(UFFD_FEATURE_EVENT_UNMAP);

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	helper_start(&h, do_munmap, m.p, PAGE);
	CHECK(helper_sleeps(&h));
	close(fd);
	CHECK_EQUAL(0, HELPER_END(&h));
	munmap(m.p, m.len);
}

/* F45, F54, R44: a manager that waits for itself is killable, and nothing is left of it. */
static void waits_for_itself(void)
{
	int status = -1, ready[2];
	char c;

	MUST(pipe(ready) == 0);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		struct memory m = make_memory(ANON_PRIVATE, 2);
		int fd = open_uffd(UFFD_FEATURE_EVENT_UNMAP);

		MUST(uffd_register(fd, m.p, m.len, MISSING) == 0 && write(ready[1], "r", 1) == 1);
		munmap(m.p, PAGE);
		_exit(1);
	}
	MUST(read(ready[0], &c, 1) == 1);
	usleep(50000);
	CHECK_EQUAL(0, waitpid(pid, &status, WNOHANG));
	kill(pid, SIGKILL);
	for (int i = 0; i < 500 && waitpid(pid, &status, WNOHANG) == 0; i++)
		usleep(10000);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(ready[0]);
	close(ready[1]);
}

/* F52 */
static void truncation_is_no_event(void)
{
	struct memory m = make_memory(SHMEM_SHARED, 2);
	struct helper h;
	int fd = open_uffd(UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP);

	memset(m.p, 'x', m.len);
	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	MUST(fallocate(m.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0);
	EXPECT_SILENCE(fd);
	helper_start(&h, do_read, m.p, 1);
	EXPECT_FAULT(fd, 0, m.p);
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, m.p, source('n', PAGE), PAGE, 0));
	CHECK_EQUAL('n', HELPER_END(&h));
	close(fd);
	free_memory(&m);
}

int main(void)
{
	unmap();
	without_the_feature();
	unmap_by_brk();
	remove_events();
	unmapped_while_removing();
	remap_events(UFFD_FEATURE_EVENT_REMAP, false);
	remap_events(UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_UNMAP, false);
	remap_events(UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_UNMAP, true);
	remap_events(UFFD_FEATURE_EVENT_UNMAP, false);
	remap_events(0, false);
	remap_that_shrinks();
	fork_event();
	fork_event_without_room();
	faults_before_events();
	close_releases_events();
	waits_for_itself();
	truncation_is_no_event();
	test_end();
}
