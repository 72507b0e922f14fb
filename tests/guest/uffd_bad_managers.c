/*
 * Managers that do it wrong: ten thousand ranges, nobody who reads, hundreds who wait, descriptors closed under everybody, sources that go
 * away half-way. The right errno, nothing hangs, and all memory is back at the end.
 *
 * timeout: 90
 */
#include "uffd_test.h"

/* count_vmas() for more of them than its buffer holds. */
static int vmas_in(const char *p, size_t len)
{
	unsigned long start, end;
	char line[512];
	int n = 0;
	FILE *f = fopen("/proc/self/maps", "r");

	MUST(f != NULL);
	while (fgets(line, sizeof(line), f))
		n += sscanf(line, "%lx-%lx", &start, &end) == 2 && end > (unsigned long)p && start < (unsigned long)p + len;
	fclose(f);
	return n;
}

/*
 * A registered page, a plain one, and so on: each registration splits, each unregistration merges (up to the reverse maps of the two
 * pages that exist: how far those merge is left open).
 */
static void ten_thousand_ranges(void)
{
	size_t n = 20000;
	char *p = map_pages(n, RW, ANON | MAP_NORESERVE);
	int fd = open_uffd(0);

	for (size_t i = 0; i < n; i += 2)
		MUST(uffd_register(fd, p + i * PAGE, PAGE, MISSING) == 0);
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, p + 5000 * PAGE, source('m', PAGE), PAGE, 0));
	CHECK_EQUAL('m', p[5000 * PAGE]);
	CHECK_RESULT(ENOENT, -ENOENT, raw_copy(fd, (uintptr_t)p + 5001 * PAGE, (uintptr_t)p + 5000 * PAGE, PAGE, 0));
	CHECK_EQUAL(0, p[5001 * PAGE]);
	CHECK_EQUAL(0, uffd_unregister(fd, p, n / 2 * PAGE));
	CHECK(vmas_in(p, n / 2 * PAGE) <= 3);
	close(fd);
	CHECK(vmas_in(p, n * PAGE) <= 3);
	munmap(p, n * PAGE);
}

/* Splitting beyond vm.max_map_count: ENOMEM, and what is registered stays usable. */
static void too_many_ranges(void *arg)
{
	size_t n = 70000, i;
	char *p = map_pages(n, RW, ANON | MAP_NORESERVE);
	int fd = open_uffd(0), error = 0;

	(void)arg;
	for (i = 0; i < n && !error; i += 2)
		error = uffd_register(fd, p + i * PAGE, PAGE, MISSING) ? errno : 0;
	CHECK_EQUAL(ENOMEM, error);
	CHECK(i > 60000 && i < 66000);
	CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, p, PAGE, 0));
	close(fd);
	CHECK(vmas_in(p, n * PAGE) <= 3);
}

/* A hundred threads wait and nobody reads; then they are let go in another way each time. */
static void nobody_reads(void)
{
	enum { N = 100 };
	static struct helper h[N];
	struct memory m = make_memory(ANON_PRIVATE, N);
	int fd = open_uffd(0);

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	for (int i = 0; i < N; i++)
		helper_start(&h[i], do_read, m.p + (size_t)(i / 2) * PAGE, 1);
	for (int i = 0; i < N; i++)
		CHECK(helper_sleeps(&h[i]));
	for (int i = 0; i < 10; i++)
		CHECK_EQUAL((long)PAGE, uffd_zeropage(fd, m.p + (size_t)i * PAGE, PAGE, 0));
	for (int i = 0; i < 20; i++)
		HELPER_END(&h[i]);
	CHECK_EQUAL(0, uffd_unregister(fd, m.p + 10 * PAGE, 10 * PAGE));
	for (int i = 20; i < 40; i++)
		HELPER_END(&h[i]);
	close(fd);
	for (int i = 40; i < N; i++)
		HELPER_END(&h[i]);
	free_memory(&m);
}

/* The source has a hole: what lies before it is done, and said so (F22, F27). */
static void source_ends_half_way(void)
{
	struct memory dst = make_memory(ANON_PRIVATE, 4);
	char *src = map_alone(4, RW);
	int fd = open_uffd(0);

	memset(src, 's', 4 * PAGE);
	MUST(munmap(src + 2 * PAGE, PAGE) == 0 && uffd_register(fd, dst.p, dst.len, MISSING) == 0);
	CHECK_RESULT(EAGAIN, (int64_t)(2 * PAGE), raw_copy(fd, (uintptr_t)dst.p, (uintptr_t)src, 4 * PAGE, 0));
	CHECK_RESULT(EFAULT, -EFAULT, raw_copy(fd, (uintptr_t)dst.p + 2 * PAGE, (uintptr_t)src + 2 * PAGE, 2 * PAGE, 0));
	CHECK(!(pagemap(dst.p + 2 * PAGE) & PM_PRESENT));
	MUST(mprotect(src, PAGE, PROT_NONE) == 0);
	CHECK_RESULT(EFAULT, -EFAULT, raw_copy(fd, (uintptr_t)dst.p + 2 * PAGE, (uintptr_t)src, PAGE, 0));
	/* Unaligned, over a page border, the second page missing: not a byte is installed. */
	CHECK_RESULT(EFAULT, -EFAULT, raw_copy(fd, (uintptr_t)dst.p + 2 * PAGE, (uintptr_t)src + PAGE + 100, PAGE, 0));
	CHECK(!(pagemap(dst.p + 2 * PAGE) & PM_PRESENT));
	/* Never touched, so read by a fault inside the call. */
	MUST(mmap(src + 2 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) != MAP_FAILED);
	CHECK_RESULT(0, (int64_t)PAGE, raw_copy(fd, (uintptr_t)dst.p + 2 * PAGE, (uintptr_t)src + 2 * PAGE, PAGE, 0));
	CHECK_EQUAL(0, dst.p[2 * PAGE]);
	close(fd);
	free_memory(&dst);
	munmap(src, 4 * PAGE);
}

/* Two descriptors, many dup()s, and the last one goes while a poller and a reader sleep on it. */
static long do_poll(struct helper *h)
{
	struct pollfd p = { .fd = (int)h->value, .events = POLLIN };

	return poll(&p, 1, 300);
}

static void closed_under_its_users(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 1);
	struct helper poller, toucher;
	int fd = open_uffd(0), again = dup(fd);

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	poller.value = fd;
	helper_start(&poller, do_poll, NULL, 0);
	close(again);
	helper_start(&toucher, do_read, m.p, 1);
	CHECK_EQUAL(1, HELPER_END(&poller));
	CHECK(!helper_is_done(&toucher, 10));
	close(fd);
	CHECK_EQUAL(0, HELPER_END(&toucher));
	CHECK_ERRNO(EBADF, uffd_register(fd, m.p, m.len, MISSING));
	free_memory(&m);
}

/* Descriptors without memory, in number. */
static void many_descriptors(void)
{
	int fd[200];
	struct memory m = make_memory(ANON_PRIVATE, 200);

	for (int i = 0; i < 200; i++) {
		fd[i] = open_uffd(0);
		MUST(uffd_register(fd[i], m.p + (size_t)i * PAGE, PAGE, MISSING) == 0);
	}
	CHECK_EQUAL(200, vmas_in(m.p, m.len));
	for (int i = 0; i < 200; i++)
		close(fd[i]);
	CHECK(vmas_in(m.p, m.len) <= 3);
	memset(m.p, 1, m.len);
	free_memory(&m);
}

int main(void)
{
	long before = meminfo("MemFree");

	ten_thousand_ranges();
	IN_CHILD(too_many_ranges);
	nobody_reads();
	source_ends_half_way();
	closed_under_its_users();
	many_descriptors();
	usleep(300000);
	CHECK(before - meminfo("MemFree") < 65536);
	test_end();
}
