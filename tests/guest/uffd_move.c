/*
 * UFFDIO_MOVE: what it refuses, what lies where afterwards, and two VMAs locked together from both sides (rules F37, F38, C11).
 */
#include "uffd_test.h"

#define HOLES	UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES

static struct result move(int fd, const char *dst, const char *src, size_t len, uint64_t mode)
{
	return raw_move(fd, (uintptr_t)dst, (uintptr_t)src, len, mode);
}

/* F38: the same physical page, elsewhere; and nothing where it was. */
static void a_page_changes_its_address(void)
{
	struct memory dst = make_memory(ANON_PRIVATE, 3);
	char *src = map_alone(3, RW);
	struct helper h;
	int fd = open_uffd(0);

	memset(src, 's', 3 * PAGE);
	MUST(uffd_register(fd, dst.p, dst.len, MISSING) == 0);
	uint64_t pfn = pagemap(src) & PM_PFN;
	helper_start(&h, do_read, dst.p + PAGE, 1);
	EXPECT_FAULT(fd, 0, dst.p + PAGE);
	CHECK_RESULT(0, (int64_t)(3 * PAGE), move(fd, dst.p, src, 3 * PAGE, 0));
	CHECK_EQUAL('s', HELPER_END(&h));			/* F24 */
	CHECK_EQUAL(pfn, pagemap(dst.p) & PM_PFN);
	CHECK(pfn != 0);
	CHECK_EQUAL(0, pagemap(src));
	CHECK_EQUAL(0, src[0] | src[PAGE] | src[3 * PAGE - 1]);
	dst.p[0] = 'd';						/* writable, and ours */
	CHECK_EQUAL('d', dst.p[0]);

	/* DONTWAKE */
	MUST(madvise(dst.p, dst.len, MADV_DONTNEED) == 0);
	helper_start(&h, do_read, dst.p, 1);
	EXPECT_FAULT(fd, 0, dst.p);
	src[0] = 'w';
	CHECK_RESULT(0, (int64_t)PAGE, move(fd, dst.p, src, PAGE, UFFDIO_MOVE_MODE_DONTWAKE));
	CHECK(!helper_is_done(&h, 20));
	CHECK_EQUAL(0, uffd_wake(fd, dst.p, PAGE));
	CHECK_EQUAL('w', HELPER_END(&h));
	close(fd);
	free_memory(&dst);
	munmap(src, 3 * PAGE);
}

/* The source registered too: what was moved away is missing there. */
static void both_registered_and_one_vma(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 4);
	struct helper h;
	int fd = open_uffd(0);

	m.p[0] = 'a';
	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	CHECK_EQUAL(1, count_vmas(m.p, m.len));
	CHECK_RESULT(0, (int64_t)PAGE, move(fd, m.p + 2 * PAGE, m.p, PAGE, 0));
	CHECK_EQUAL('a', m.p[2 * PAGE]);
	helper_start(&h, do_read, m.p, 1);
	EXPECT_FAULT(fd, 0, m.p);
	CHECK_RESULT(0, (int64_t)PAGE, move(fd, m.p, m.p + 2 * PAGE, PAGE, 0));
	CHECK_EQUAL('a', HELPER_END(&h));
	CHECK(!(pagemap(m.p + 2 * PAGE) & PM_PRESENT));
	close(fd);
	free_memory(&m);
}

static void holes(void)
{
	struct memory dst = make_memory(ANON_PRIVATE, 3);
	char *src = map_alone(3, RW);
	int fd = open_uffd(0);

	MUST(uffd_register(fd, dst.p, dst.len, MISSING) == 0);
	src[0] = '0';
	src[2 * PAGE] = '2';
	CHECK_RESULT(ENOENT, -ENOENT, move(fd, dst.p, src + PAGE, PAGE, 0));
	CHECK_RESULT(0, (int64_t)PAGE, move(fd, dst.p, src + PAGE, PAGE, HOLES));
	CHECK(!(pagemap(dst.p) & PM_PRESENT));
	CHECK_RESULT(EAGAIN, (int64_t)PAGE, move(fd, dst.p, src, 3 * PAGE, 0));	/* stops before the hole */
	CHECK_EQUAL('0', dst.p[0]);
	src[0] = 'n';
	CHECK_RESULT(EEXIST, -EEXIST, move(fd, dst.p, src, PAGE, 0));
	CHECK_EQUAL('n', src[0]);
	CHECK_EQUAL('0', dst.p[0]);
	CHECK_RESULT(0, (int64_t)(2 * PAGE), move(fd, dst.p + PAGE, src + PAGE, 2 * PAGE, HOLES));
	CHECK(!(pagemap(dst.p + PAGE) & PM_PRESENT));
	CHECK_EQUAL('2', dst.p[2 * PAGE]);
	close(fd);
	free_memory(&dst);
	munmap(src, 3 * PAGE);
}

/* F37, in a table: what the mappings are, and what comes. */
static void refused(void)
{
	struct memory dst = make_memory(ANON_PRIVATE, 2), shmem = make_memory(SHMEM_PRIVATE, 2), shared = make_memory(SHMEM_SHARED, 2);
	char *src = map_alone(2, RW), *locked = map_alone(1, RW), *exec = map_alone(1, RW | PROT_EXEC), *ro = map_alone(1, RW);
	struct memory plain = make_memory(ANON_PRIVATE, 1), ro_dst = make_memory(ANON_PRIVATE, 1), theirs = make_memory(ANON_PRIVATE, 1);
	struct memory wp_dst = make_memory(ANON_PRIVATE, 1);
	int fd = open_uffd(0), other = open_uffd(0);
	unsigned long s = (uintptr_t)src, d = (uintptr_t)dst.p;

	MUST(uffd_register(fd, dst.p, dst.len, MISSING) == 0 && uffd_register(fd, shmem.p, shmem.len, MISSING) == 0);
	MUST(uffd_register(fd, shared.p, shared.len, MISSING) == 0 && uffd_register(fd, ro_dst.p, ro_dst.len, MISSING) == 0);
	MUST(uffd_register(other, theirs.p, theirs.len, MISSING) == 0 && uffd_register(fd, wp_dst.p, wp_dst.len, WP) == 0);
	src[0] = locked[0] = exec[0] = ro[0] = 's';
	MUST(mlock(locked, PAGE) == 0 && mprotect(ro, PAGE, PROT_READ) == 0 && mprotect(ro_dst.p, PAGE, PROT_READ) == 0);
	const struct { unsigned long dst, src, len; uint64_t mode; int error; bool silent; } table[] = {
		{ d + 1, s, PAGE, 0, EINVAL, true }, { d, s + 1, PAGE, 0, EINVAL, true }, { d, s, PAGE - 1, 0, EINVAL, true },
		{ d, s, 0, 0, EINVAL, true }, { d, s, PAGE, 4, EINVAL, true }, { d, s, PAGE, 8, EINVAL, true },
		{ d, s, -PAGE, 0, EINVAL, true }, { d, KERNEL_ADDRESS, PAGE, 0, EINVAL, true }, { KERNEL_ADDRESS, s, PAGE, 0, EINVAL, true },
		{ d, TASK_SIZE, PAGE, 0, EINVAL, true }, { TASK_SIZE, s, PAGE, 0, EINVAL, true },
		{ d, s - PAGE, PAGE, 0, ENOENT, false }, { d - PAGE, s, PAGE, 0, ENOENT, false },
		{ d, s + PAGE, 2 * PAGE, 0, EINVAL, false }, { d + PAGE, s, 2 * PAGE, 0, EINVAL, false },
		{ (uintptr_t)plain.p, s, PAGE, 0, EINVAL, false },	/* not registered at all */
		{ (uintptr_t)theirs.p, s, PAGE, 0, EINVAL, false },	/* with another descriptor */
		{ (uintptr_t)shmem.p, s, PAGE, 0, EINVAL, false }, { (uintptr_t)shared.p, s, PAGE, 0, EINVAL, false },
		{ d, (uintptr_t)shmem.p, PAGE, 0, EINVAL, false }, { d, (uintptr_t)shared.p, PAGE, 0, EINVAL, false },
		{ d, (uintptr_t)locked, PAGE, 0, EINVAL, false }, { d, (uintptr_t)exec, PAGE, 0, EINVAL, false },
		{ d, (uintptr_t)ro, PAGE, 0, EINVAL, false }, { (uintptr_t)ro_dst.p, s, PAGE, 0, EINVAL, false },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct result r = raw_move(fd, table[i].dst, table[i].src, table[i].len, table[i].mode);

		if (r.error != table[i].error || r.out != (table[i].silent ? GARBAGE : -table[i].error)) {
			printf("move, row %zu: errno %d and %lld, not %d\n", i, r.error, (long long)r.out, table[i].error);
			test_failures++;
		}
	}
	CHECK_EQUAL('s', src[0]);
	CHECK_EQUAL('s', locked[0]);

	/* The descriptor of a parent means the parent's memory: not for MOVE. */
	int status;
	pid_t pid = fork();
	if (!pid) {
		test_failures = 0;
		CHECK_RESULT(EINVAL, GARBAGE, raw_move(fd, d, s, PAGE, 0));
		_exit(test_failures != 0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	close(fd);
	close(other);
	free_memory(&dst);
	free_memory(&shmem);
	free_memory(&shared);
	free_memory(&plain);
	free_memory(&theirs);
	free_memory(&ro_dst);
	free_memory(&wp_dst);
	munmap(src, 2 * PAGE);
	munmap(locked, PAGE);
	munmap(exec, PAGE);
	munmap(ro, PAGE);
}

/* F37: shared since fork, or pinned by a pipe. */
static void pages_of_others(void)
{
	struct memory dst = make_memory(ANON_PRIVATE, 1);
	char *src = map_alone(1, RW), c;
	int fd = open_uffd(0), status, p[2];

	MUST(uffd_register(fd, dst.p, dst.len, MISSING) == 0);
	src[0] = 'f';
	pid_t pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	CHECK_RESULT(EBUSY, -EBUSY, move(fd, dst.p, src, PAGE, 0));
	src[0] = 'g';						/* the copy is ours alone */
	CHECK_RESULT(0, (int64_t)PAGE, move(fd, dst.p, src, PAGE, 0));
	CHECK_EQUAL('g', dst.p[0]);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);

	src[0] = 'p';
	MUST(pipe(p) == 0 && madvise(dst.p, PAGE, MADV_DONTNEED) == 0);
	struct iovec v = { src, 1 };
	MUST(vmsplice(p[1], &v, 1, 0) == 1);
	struct result r = move(fd, dst.p, src, PAGE, 0);
	CHECK(r.error == EBUSY || r.error == EAGAIN || r.error == 0);	/* a plain reference is not a pin: either way, no byte changes */
	MUST(read(p[0], &c, 1) == 1);
	CHECK_EQUAL('p', c);
	CHECK_EQUAL('p', r.error ? src[0] : dst.p[0]);
	close(p[0]);
	close(p[1]);
	close(fd);
	free_memory(&dst);
	munmap(src, PAGE);
}

/* A protected or poisoned place is not empty; the page of zeros is not a page to move, yet it moves. */
static void markers_and_the_zero_page(void)
{
	struct memory dst = make_memory(ANON_PRIVATE, 2);
	char *src = map_alone(1, RW);
	int fd = open_uffd(UFFD_FEATURE_WP_UNPOPULATED);

	MUST(uffd_register(fd, dst.p, dst.len, MISSING | WP) == 0);
	src[0] = 's';
	CHECK_EQUAL((long)PAGE, uffd_poison(fd, dst.p, PAGE, 0));
	CHECK_RESULT(EEXIST, -EEXIST, move(fd, dst.p, src, PAGE, 0));
	MUST(madvise(dst.p, PAGE, MADV_DONTNEED) == 0);
	CHECK_RESULT(0, (int64_t)PAGE, move(fd, dst.p, src, PAGE, 0));
	CHECK_EQUAL('s', dst.p[0]);
	CHECK_EQUAL(0, src[0]);					/* maps the zero page */
	CHECK_RESULT(0, (int64_t)PAGE, move(fd, dst.p + PAGE, src, PAGE, 0));
	CHECK_EQUAL(0, dst.p[PAGE]);
	close(fd);
	free_memory(&dst);
	munmap(src, PAGE);
}

/*
 * C11, R29: two threads move pages from a to b and back at the same time, so each locks what the other one wants; a third changes the
 * mappings beside them and the two themselves. Everything comes to an end, and every page has its own content all the time.
 */
#define PAGES	8
static char *side[2];
static int both_fd;
static volatile int over;
static volatile long moved[2];

static long mover(struct helper *h)
{
	int to = (int)h->value;

	for (unsigned i = 0; !over; i++) {
		size_t at = i % PAGES * PAGE;
		struct result r = raw_move(both_fd, (uintptr_t)side[to] + at, (uintptr_t)side[!to] + at, PAGE, 0);

		if (!r.error)
			moved[to]++;
		else if (r.error != ENOENT && r.error != EEXIST && r.error != EAGAIN && r.error != EBUSY && r.error != EINVAL)
			return r.error;
	}
	return 0;
}

static long changer(struct helper *h)
{
	while (!over) {
		char *p = mmap(h->p, PAGE, RW, ANON | MAP_FIXED, -1, 0);	/* beside them */

		MUST(p == h->p);
		*p = 1;
		MUST(munmap(p, PAGE) == 0);
		MUST(mprotect(side[0] + 4 * PAGE, 4 * PAGE, PROT_READ) == 0);	/* splits one of the two for a moment */
		MUST(mprotect(side[0] + 4 * PAGE, 4 * PAGE, RW) == 0);
		h->value++;
	}
	return h->value;
}

static void from_both_sides(void)
{
	struct helper h[3];
	char *area = empty_place((2 * PAGES + 2) * PAGE, PAGE);
	struct timespec t = { 1, 0 };

	for (int i = 0; i < 2; i++) {
		side[i] = area + (size_t)i * (PAGES + 1) * PAGE;
		MUST(mmap(side[i], PAGES * PAGE, RW, ANON | MAP_FIXED, -1, 0) == side[i]);
	}
	for (size_t i = 0; i < PAGES; i++)
		memset(side[0] + i * PAGE, 'A' + (int)i, PAGE);
	both_fd = open_uffd(0);
	for (int i = 0; i < 2; i++)
		MUST(uffd_register(both_fd, side[i], PAGES * PAGE, MISSING) == 0);
	for (int i = 0; i < 2; i++) {
		h[i].value = i;
		helper_start(&h[i], mover, NULL, 0);
	}
	h[2].value = 0;
	helper_start(&h[2], changer, area + PAGES * PAGE, PAGE);
	nanosleep(&t, NULL);
	over = 1;
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(0, HELPER_END(&h[i]));
	CHECK(HELPER_END(&h[2]) > 0);
	CHECK(moved[0] > 0 && moved[1] > 0);
	for (size_t i = 0; i < PAGES; i++) {
		bool here[2];

		for (int s = 0; s < 2; s++) {
			here[s] = pagemap(side[s] + i * PAGE) & PM_PRESENT;
			if (here[s])
				CHECK(side[s][i * PAGE] == 'A' + (int)i && side[s][i * PAGE + PAGE - 1] == 'A' + (int)i);
		}
		CHECK_EQUAL(1, here[0] + here[1]);
	}
	close(both_fd);
	munmap(side[0], PAGES * PAGE);
	munmap(side[1], PAGES * PAGE);
}

int main(void)
{
	a_page_changes_its_address();
	both_registered_and_one_vma();
	holes();
	refused();
	pages_of_others();
	markers_and_the_zero_page();
	from_both_sides();
	test_end();
}
