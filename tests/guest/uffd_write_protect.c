/*
 * Write protection: what is protected, who is told, what survives and what takes the protection away (rules F33 to F36, and R39: no bit
 * is left behind), poison markers (F30).
 *
 * append: hugepages=8
 */
#include "uffd_test.h"

#define PROTECT		UFFDIO_WRITEPROTECT_MODE_WP

static bool usable(enum kind kind)
{
	return !is_hugetlb(kind) || huge_pages() >= 3;
}

/* F34, F35 */
static void protect_write_resolve(enum kind kind)
{
	struct memory m = make_memory(kind, 2);
	struct helper h[2];
	struct uffd_msg msg;
	int fd = open_uffd(0);

	m.p[0] = 'a';
	MUST(uffd_register(fd, m.p, m.len, WP) == 0);
	CHECK_EQUAL(0, uffd_writeprotect(fd, m.p, m.len, PROTECT));
	CHECK(pagemap(m.p) & PM_UFFD_WP);
	CHECK_EQUAL('a', m.p[0]);				/* reading is free */
	/* The missing page: a marker in a file, nothing in anonymous memory. */
	CHECK_EQUAL(kind != ANON_PRIVATE, !!(pagemap(m.p + m.unit) & PM_UFFD_WP));
	for (int i = 0; i < 2; i++) {
		h[i].value = 'b' + i;
		helper_start(&h[i], do_write, m.p + i, 1);
		EXPECT_FAULT(fd, UFFD_PAGEFAULT_FLAG_WP | UFFD_PAGEFAULT_FLAG_WRITE, m.p);
	}
	CHECK_EQUAL('a', m.p[0]);
	CHECK_EQUAL(0, uffd_writeprotect(fd, m.p, m.unit, UFFDIO_WRITEPROTECT_MODE_DONTWAKE));
	CHECK(!helper_is_done(&h[0], 20));
	CHECK(!(pagemap(m.p) & PM_UFFD_WP));
	CHECK_EQUAL(0, uffd_writeprotect(fd, m.p, m.unit, 0));
	HELPER_END(&h[0]);
	HELPER_END(&h[1]);
	CHECK_EQUAL('b', m.p[0]);
	CHECK_EQUAL('c', m.p[1]);
	EXPECT_SILENCE(fd);
	/* The marker becomes a protected page when it is read, and tells when it is written. */
	if (kind != ANON_PRIVATE) {
		CHECK_EQUAL(0, m.p[m.unit]);
		CHECK(pagemap(m.p + m.unit) & PM_UFFD_WP);
		h[0].value = 'd';
		helper_start(&h[0], do_write, m.p + m.unit, 1);
		MUST(get_message(fd, &msg, 8000));
		CHECK_EQUAL(UFFD_PAGEFAULT_FLAG_WP | UFFD_PAGEFAULT_FLAG_WRITE, msg.arg.pagefault.flags);
		CHECK_EQUAL(0, uffd_writeprotect(fd, m.p, m.len, 0));
		HELPER_END(&h[0]);
	}
	/* Private memory: the file never saw any of that. */
	if (kind == SHMEM_PRIVATE || kind == HUGETLB_PRIVATE)
		CHECK_EQUAL(0, m.alias[0]);
	close(fd);
	free_memory(&m);
}

/* F34: with WP_UNPOPULATED the marker lies in anonymous memory too. */
static void unpopulated(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 2);
	struct helper h;
	int fd = open_uffd(UFFD_FEATURE_WP_UNPOPULATED);

	MUST(uffd_register(fd, m.p, m.len, WP) == 0);
	CHECK_EQUAL(0, uffd_writeprotect(fd, m.p, m.len, PROTECT));
	CHECK_EQUAL(PM_UFFD_WP, pagemap(m.p) & (PM_UFFD_WP | PM_PRESENT));
	CHECK_EQUAL(0, m.p[0]);
	CHECK(pagemap(m.p) & PM_UFFD_WP);			/* the zero page, protected */
	for (int i = 0; i < 2; i++) {
		h.value = 'x';
		helper_start(&h, do_write, m.p + (size_t)i * PAGE, 1);
		EXPECT_FAULT(fd, UFFD_PAGEFAULT_FLAG_WP | UFFD_PAGEFAULT_FLAG_WRITE, m.p + (size_t)i * PAGE);
		CHECK_EQUAL(0, uffd_writeprotect(fd, m.p + (size_t)i * PAGE, PAGE, 0));
		HELPER_END(&h);
		CHECK_EQUAL('x', m.p[(size_t)i * PAGE]);
	}
	close(fd);
	free_memory(&m);
}

/* F35: the kernel clears the bit by itself. */
static void async(enum kind kind)
{
	struct memory m = make_memory(kind, 1);
	int fd = open_uffd(UFFD_FEATURE_WP_ASYNC);

	m.p[0] = 'a';
	MUST(uffd_register(fd, m.p, m.len, WP) == 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQUAL(0, uffd_writeprotect(fd, m.p, m.len, PROTECT));
		CHECK(pagemap(m.p) & PM_UFFD_WP);
		CHECK_EQUAL('a' + i, m.p[0]);
		CHECK(pagemap(m.p) & PM_UFFD_WP);
		m.p[0] = (char)('b' + i);
		CHECK(!(pagemap(m.p) & PM_UFFD_WP));
	}
	EXPECT_SILENCE(fd);
	close(fd);
	free_memory(&m);
}

/* F26: filled and protected in one step. */
static void filled_protected(enum kind kind)
{
	struct memory m = make_memory(kind, 2);
	struct helper h;
	int fd = open_uffd(0);

	MUST(uffd_register(fd, m.p, m.len, MISSING | WP) == 0);
	CHECK_EQUAL((long)m.len, uffd_copy(fd, m.p, source('c', m.len), m.len, UFFDIO_COPY_MODE_WP));
	CHECK((pagemap(m.p) & PM_UFFD_WP) && (pagemap(m.p + m.unit) & PM_UFFD_WP));
	h.value = 'w';
	helper_start(&h, do_write, m.p + m.unit, 1);
	EXPECT_FAULT(fd, UFFD_PAGEFAULT_FLAG_WP | UFFD_PAGEFAULT_FLAG_WRITE, m.p + m.unit);
	CHECK_EQUAL(0, uffd_writeprotect(fd, m.p + m.unit, m.unit, 0));
	HELPER_END(&h);
	CHECK_EQUAL('w', m.p[m.unit]);
	CHECK_EQUAL('c', m.p[0]);
	close(fd);
	free_memory(&m);
}

/* F35: rights first. F26: filling does not ask for rights, using does. */
static void rights_come_first(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 2);
	int fd = open_uffd(0);

	catch_faults();
	m.p[0] = 'r';
	MUST(uffd_register(fd, m.p, m.len, MISSING | WP) == 0);
	CHECK_EQUAL(0, uffd_writeprotect(fd, m.p, PAGE, PROTECT));
	MUST(mprotect(m.p, m.len, PROT_READ) == 0);
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, m.p, access_byte((uintptr_t)m.p, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, m.p + PAGE, access_byte((uintptr_t)m.p + PAGE, WRITE));
	EXPECT_SILENCE(fd);
	CHECK(pagemap(m.p) & PM_UFFD_WP);			/* mprotect leaves it */
	MUST(mprotect(m.p, m.len, PROT_NONE) == 0);
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, m.p + PAGE, source('n', PAGE), PAGE, 0));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, m.p + PAGE, access_byte((uintptr_t)m.p + PAGE, READ));
	MUST(mprotect(m.p, m.len, RW) == 0);
	CHECK(pagemap(m.p) & PM_UFFD_WP);
	CHECK_EQUAL('n', m.p[PAGE]);
	m.p[PAGE] = 'o';
	close(fd);
	free_memory(&m);
}

/* F33: a stranger in the middle: what lies before it is done. */
static void stops_at_a_stranger(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 3);
	int fd = open_uffd(0);

	memset(m.p, 1, m.len);
	MUST(uffd_register(fd, m.p, m.len, WP) == 0 && uffd_unregister(fd, m.p + PAGE, PAGE) == 0);
	CHECK_ERRNO(ENOENT, uffd_writeprotect(fd, m.p, m.len, PROTECT));
	CHECK(pagemap(m.p) & PM_UFFD_WP);
	CHECK(!(pagemap(m.p + 2 * PAGE) & PM_UFFD_WP));
	MUST(munmap(m.p + PAGE, PAGE) == 0);
	CHECK_EQUAL(0, uffd_writeprotect(fd, m.p, m.len, PROTECT));
	CHECK(pagemap(m.p + 2 * PAGE) & PM_UFFD_WP);
	close(fd);
	free_memory(&m);
}

/* -- R39: every exit from protection, from a page and from a marker -- */

enum way_out { UNREGISTER, CLOSE, MOVED, FORKED, DONTNEED, PUNCHED, NR_WAYS };
static const char *const way_names[NR_WAYS] = { "unregister", "close", "mremap", "fork", "DONTNEED", "punch" };

/* The write goes through at once and nothing is left in pagemap. */
static bool writes_freely(volatile char *p)
{
	*p = 'w';
	return !(pagemap((const void *)p) & PM_UFFD_WP) && *p == 'w';
}

static void way_out(enum kind kind, enum way_out way, bool marker)
{
	struct memory m = make_memory(kind, 1);
	int fd = open_uffd(UFFD_FEATURE_WP_UNPOPULATED), status;
	bool ok = true;

	if (!marker)
		m.p[0] = 'a';
	MUST(uffd_register(fd, m.p, m.len, WP) == 0);
	MUST(uffd_writeprotect(fd, m.p, m.len, PROTECT) == 0);
	CHECK(pagemap(m.p) & PM_UFFD_WP);
	switch (way) {
	case UNREGISTER:
		CHECK_EQUAL(0, uffd_unregister(fd, m.p, m.len));
		break;
	case CLOSE:
		close(fd);
		fd = -1;
		break;
	case MOVED: {
		char *to = empty_place(m.len, m.unit);

		MUST(mremap(m.p, m.len, m.len, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
		m.p = to;
		break;
	}
	case FORKED: {
		pid_t pid = fork();

		MUST(pid >= 0);
		if (!pid)
			_exit(!writes_freely(m.p));
		MUST(waitpid(pid, &status, 0) == pid);
		ok = status == 0;
		CHECK(pagemap(m.p) & PM_UFFD_WP);		/* the parent's stays */
		CHECK_EQUAL(0, uffd_unregister(fd, m.p, m.len));
		break;
	}
	case DONTNEED:
		MUST(madvise(m.p, m.len, MADV_DONTNEED) == 0);
		break;
	default:
		MUST(fallocate(m.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)m.len) == 0);
	}
	/* F36: where the memory is a file's it may stay, so that no write is missed; but it can be taken away. */
	if (way == PUNCHED || (way == DONTNEED && kind != ANON_PRIVATE))
		CHECK_EQUAL(0, uffd_writeprotect(fd, m.p, m.len, 0));
	if (!ok || !writes_freely(m.p)) {
		printf("%s, %s, after %s: still protected\n", kind_names[kind], marker ? "marker" : "page", way_names[way]);
		test_failures++;
	}
	if (fd >= 0)
		close(fd);
	free_memory(&m);
}

static void nothing_is_left_behind(void)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++)
		for (int way = 0; way < NR_WAYS; way++)
			for (int marker = 0; marker < 2; marker++) {
				if (!usable(kind) || (way == PUNCHED && kind == ANON_PRIVATE))
					continue;
				way_out(kind, way, marker);
			}
}

/* F36: what survives. */
static void survives_mremap_with_its_event(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 1);
	struct helper h;
	struct uffd_msg msg;
	int fd = open_uffd(UFFD_FEATURE_EVENT_REMAP);
	char *to = empty_place(m.len, PAGE);
	pid_t pid;

	m.p[0] = 'a';
	MUST(uffd_register(fd, m.p, m.len, WP) == 0 && uffd_writeprotect(fd, m.p, m.len, PROTECT) == 0);
	/* Somebody must read the event while mremap waits. */
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		bool ok = get_message(fd, &msg, 8000) && msg.event == UFFD_EVENT_REMAP && msg.arg.remap.from == (uintptr_t)m.p &&
			msg.arg.remap.to == (uintptr_t)to && msg.arg.remap.len == m.len;
		_exit(!ok);
	}
	MUST(mremap(m.p, m.len, m.len, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	int status;
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	CHECK(pagemap(to) & PM_UFFD_WP);
	h.value = 'b';
	helper_start(&h, do_write, to, 1);
	EXPECT_FAULT(fd, UFFD_PAGEFAULT_FLAG_WP | UFFD_PAGEFAULT_FLAG_WRITE, to);
	CHECK_EQUAL(0, uffd_writeprotect(fd, to, PAGE, 0));
	HELPER_END(&h);
	close(fd);
	munmap(to, m.len);
}

/* F36: fork keeps protection in the parent; both sides share the page and the parent's copy is made after unprotection only. */
static void fork_and_copy_on_write(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 1);
	struct helper h;
	int fd = open_uffd(0), status;

	m.p[0] = 'a';
	MUST(uffd_register(fd, m.p, m.len, WP) == 0 && uffd_writeprotect(fd, m.p, m.len, PROTECT) == 0);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		pause();
		_exit(0);
	}
	h.value = 'b';
	helper_start(&h, do_write, m.p, 1);
	EXPECT_FAULT(fd, UFFD_PAGEFAULT_FLAG_WP | UFFD_PAGEFAULT_FLAG_WRITE, m.p);
	CHECK_EQUAL(0, uffd_writeprotect(fd, m.p, PAGE, 0));
	HELPER_END(&h);
	CHECK_EQUAL('b', m.p[0]);
	EXPECT_SILENCE(fd);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(fd);
	free_memory(&m);
}

/* -- F30 -- */

static int pipes[2];

static void poison(enum kind kind)
{
	struct memory m = make_memory(kind, 2);
	struct helper h;
	int fd = open_uffd(0), status;

	catch_faults();
	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0 && pipe(pipes) == 0);
	CHECK_EQUAL((long)m.unit, uffd_poison(fd, m.p, m.unit, 0));
	CHECK(is_hugetlb(kind) || (pagemap(m.p) & PM_SWAP));		/* of huge pages pagemap tells only of pages */
	CHECK_FAULT(SIGBUS, 4 /* BUS_MCEERR_AR */, m.p, access_byte((uintptr_t)m.p, READ));
	CHECK_FAULT(SIGBUS, 4, m.p, access_byte((uintptr_t)m.p, WRITE));
	CHECK_ERRNO(EFAULT, write(pipes[1], m.p, 1));
	EXPECT_SILENCE(fd);
	/* Fork copies it where it copies entries at all: not those of shared memory, which come from the file again. */
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		test_failures = 0;
		if (is_shared(kind))
			CHECK_EQUAL(0, pagemap(m.p));
		else
			CHECK_FAULT(SIGBUS, 4, m.p, access_byte((uintptr_t)m.p, READ));
		_exit(test_failures != 0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	/* A waiter is told, too. */
	struct uffd_msg msg;
	helper_start(&h, do_read, m.p + m.unit, 1);
	MUST(get_message(fd, &msg, 8000));
	CHECK_EQUAL((long)m.unit, uffd_copy(fd, m.p + m.unit, source('o', m.unit), m.unit, 0));
	CHECK_EQUAL('o', HELPER_END(&h));
	/* Copy lays a page over it; so does DONTNEED remove it. */
	CHECK_EQUAL((long)m.unit, uffd_copy(fd, m.p, source('c', m.unit), m.unit, 0));
	CHECK_EQUAL('c', m.p[0]);
	empty_memory(&m);
	CHECK_EQUAL((long)m.unit, uffd_poison(fd, m.p, m.unit, 0));
	CHECK_EQUAL(0, uffd_unregister(fd, m.p, m.len));
	CHECK_FAULT(SIGBUS, 4, m.p, access_byte((uintptr_t)m.p, READ));
	MUST(madvise(m.p, m.len, MADV_DONTNEED) == 0);
	CHECK_NO_FAULT(access_byte((uintptr_t)m.p, READ));
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
	free_memory(&m);
}

int main(void)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		if (!usable(kind))
			continue;
		protect_write_resolve(kind);
		async(kind);
		filled_protected(kind);
		poison(kind);
	}
	unpopulated();
	rights_come_first();
	stops_at_a_stranger();
	nothing_is_left_behind();
	survives_mremap_with_its_event();
	fork_and_copy_on_write();
	test_end();
}
