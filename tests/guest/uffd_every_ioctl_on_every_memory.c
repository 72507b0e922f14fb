/*
 * The matrix: each operation, on each kind of memory, registered in each mode, on a page in each state; the errno and the out field
 * that the rules say (F20 to F34, F37). After it, misuse: bad ranges, bad modes, bad pointers, per operation.
 *
 * append: hugepages=8
 */
#include "uffd_test.h"

enum op { COPY, COPY_WP, ZEROPAGE, CONTINUE, CONTINUE_WP, POISON, MOVE, PROTECT, UNPROTECT, WAKE, NR_OPS };
static const char *const op_names[NR_OPS] = {
	"COPY", "COPY|WP", "ZEROPAGE", "CONTINUE", "CONTINUE|WP", "POISON", "MOVE", "WRITEPROTECT", "WRITEPROTECT 0", "WAKE",
};

/* EMPTY: nothing anywhere. CACHED: in the file, not mapped here. The markers lie where no page is. */
enum state { EMPTY, CACHED, PRESENT, WP_MARKER, POISONED, NR_STATES };
static const char *const state_names[NR_STATES] = { "empty", "cached", "present", "wp marker", "poisoned" };

/*
 * What must come, in the order in which it is tested: 0 or an errno.
 */
static int expected(enum op op, enum kind kind, uint64_t mode, enum state state)
{
	bool shared = is_shared(kind), huge = is_hugetlb(kind);

	switch (op) {
	case WAKE:
		return 0;
	case PROTECT:
	case UNPROTECT:
		return mode & WP ? 0 : ENOENT;					/* F33 */
	case MOVE:
		if (kind != ANON_PRIVATE)
			return EINVAL;						/* F37 */
		return state == EMPTY ? 0 : EEXIST;
	case CONTINUE_WP:
	case COPY_WP:
		if (!(mode & WP))
			return EINVAL;						/* F26 */
		break;
	default:
		break;
	}
	if (op == ZEROPAGE && huge)
		return EINVAL;
	if (op == CONTINUE || op == CONTINUE_WP) {
		if (kind == ANON_PRIVATE)
			return EINVAL;
		if (state == EMPTY || state == WP_MARKER || state == POISONED)
			return EFAULT;						/* F29: not in the cache */
		/* A private huge page is not in the file; a private small one was read from there first. */
		return state != PRESENT ? 0 : kind == HUGETLB_PRIVATE ? EFAULT : EEXIST;
	}
	if (op == POISON)
		return state == EMPTY || state == CACHED ? 0 : EEXIST;		/* F25 */
	if (op == ZEROPAGE && !shared)
		return state == EMPTY || state == CACHED ? 0 : EEXIST;
	/* COPY; and ZEROPAGE of shared memory, which puts a page of zeros into the file: both overwrite markers. */
	return state == PRESENT || (state == CACHED && shared) ? EEXIST : 0;
}

static uint64_t request_of(enum op op)
{
	return op == ZEROPAGE ? UFFDIO_ZEROPAGE : op == POISON ? UFFDIO_POISON : UFFDIO_CONTINUE;
}

static struct result run_op(enum op op, int fd, struct memory *m, const char *from)
{
	unsigned long p = (uintptr_t)m->p;

	switch (op) {
	case COPY:
	case COPY_WP:
		return raw_copy(fd, p, (uintptr_t)from, m->unit, op == COPY_WP ? UFFDIO_COPY_MODE_WP : 0);
	case MOVE:
		return raw_move(fd, p, (uintptr_t)from, m->unit, 0);
	case ZEROPAGE:
	case CONTINUE:
	case CONTINUE_WP:
	case POISON:
		return raw_fill(fd, request_of(op), p, m->unit, op == CONTINUE_WP ? UFFDIO_CONTINUE_MODE_WP : 0);
	case PROTECT:
	case UNPROTECT:
		return (struct result){ uffd_writeprotect(fd, m->p, m->unit, op == PROTECT) ? errno : 0, GARBAGE };
	default:
		return (struct result){ uffd_wake(fd, m->p, m->unit) ? errno : 0, GARBAGE };
	}
}

/* Before registration: what a page or the file holds. With the descriptor: markers. Returns false if the state does not exist. */
static bool prepare(struct memory *m, enum state state)
{
	if (state == CACHED && m->kind == ANON_PRIVATE)
		return false;
	if (state == CACHED)
		m->alias[0] = 'f';
	if (state == PRESENT)
		m->p[0] = 'p';
	return true;
}

static bool prepare_marker(struct memory *m, enum state state, int fd, uint64_t mode)
{
	if (state == POISONED)
		CHECK_EQUAL((long)m->unit, uffd_poison(fd, m->p, m->unit, 0));
	if (state == WP_MARKER) {
		if (!(mode & WP))
			return false;
		CHECK_EQUAL(0, uffd_writeprotect(fd, m->p, m->unit, UFFDIO_WRITEPROTECT_MODE_WP));
	}
	return true;
}

/* What must be seen afterwards, where the operation succeeded. */
static void look(struct memory *m, enum op op, enum state state, const char *what)
{
	uint64_t pm = pagemap(m->p);
	bool wp = op == COPY_WP || op == CONTINUE_WP || op == PROTECT;
	bool marker = op == POISON || (op == PROTECT && state != PRESENT && state != POISONED);
	int first = op == COPY || op == COPY_WP ? 'c' : op == MOVE ? 'm' : op == CONTINUE || op == CONTINUE_WP ? 'f' : op == ZEROPAGE ? 0 : -1;

	if (op == WAKE || op == UNPROTECT || state == POISONED)
		wp = pm & PM_UFFD_WP;					/* not looked at */
	if (!!(pm & PM_UFFD_WP) != wp || (marker && (pm & PM_PRESENT)) || (first >= 0 && !(pm & PM_PRESENT))) {
		printf("%s: pagemap says %llx\n", what, (unsigned long long)pm);
		test_failures++;
	}
	if (first >= 0 && m->p[0] != first) {
		printf("%s: reads %x, not %x\n", what, m->p[0], first);
		test_failures++;
	}
	/* A private page is private, a shared one is the file's. */
	if (m->alias && (op == COPY || op == COPY_WP)) {
		int in_file = is_shared(m->kind) ? 'c' : state == CACHED ? 'f' : 0;

		if (m->alias[0] != in_file) {
			printf("%s: the file reads %x, not %x\n", what, m->alias[0], in_file);
			test_failures++;
		}
	}
}

static void one_cell(enum op op, enum kind kind, uint64_t mode, enum state state)
{
	struct memory m = make_memory(kind, 1);
	int fd = open_uffd(UFFD_FEATURE_WP_UNPOPULATED);
	char what[128];

	snprintf(what, sizeof(what), "%s on %s, mode %llu, %s", op_names[op], kind_names[kind], (unsigned long long)mode, state_names[state]);
	if (prepare(&m, state)) {
		MUST(uffd_register(fd, m.p, m.len, mode) == 0);
		if (prepare_marker(&m, state, fd, mode)) {
			char *from = op == MOVE ? map_alone(1, RW) : source('c', m.unit);
			if (op == MOVE)
				from[0] = 'm';
			struct result r = run_op(op, fd, &m, from);
			int want = expected(op, kind, mode, state);
			bool has_out = op < PROTECT;
			/* EINVAL of a mode that the memory has not is found late, and reported. */
			int64_t out = !has_out ? GARBAGE : want ? -want : (int64_t)m.unit;

			if (r.error != want || (r.out != out && !(want == EINVAL && r.out == GARBAGE))) {
				printf("%s: expected errno %d and %lld, got %d and %lld\n", what, want, (long long)out, r.error, (long long)r.out);
				test_failures++;
			} else if (!r.error) {
				look(&m, op, state, what);
			}
			if (op == MOVE)
				munmap(from, PAGE);
		}
	}
	close(fd);
	free_memory(&m);
}

static void matrix(void)
{
	int cells = 0;

	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		if (is_hugetlb(kind) && huge_pages() < 2)
			continue;
		for (uint64_t mode = 1; mode < 8; mode++) {
			if (kind == ANON_PRIVATE && (mode & MINOR))
				continue;
			for (enum op op = 0; op < NR_OPS; op++)
				for (enum state state = 0; state < NR_STATES; state++, cells++)
					one_cell(op, kind, mode, state);
		}
	}
	CHECK(cells >= 3 * 10 * 5);
}

/* A page that fallocate(KEEP_SIZE) has put behind the end of a file of huge pages can be mapped. */
static void continue_behind_the_end(enum kind kind)
{
	struct memory m = make_memory(kind, 2);
	int fd = open_uffd(0);

	CHECK_EQUAL(0, ftruncate(m.fd, (off_t)m.unit));
	CHECK_EQUAL(0, fallocate(m.fd, FALLOC_FL_KEEP_SIZE, (off_t)m.unit, (off_t)m.unit));
	MUST(uffd_register(fd, m.p, m.len, MINOR) == 0);
	CHECK_EQUAL(-EFAULT, uffd_continue(fd, m.p, m.unit, 0));
	CHECK_EQUAL((long)m.unit, uffd_continue(fd, m.p + m.unit, m.unit, 0));
	CHECK_EQUAL(0, m.p[m.unit]);
	CHECK_EQUAL(-EEXIST, uffd_continue(fd, m.p + m.unit, m.unit, 0));
	close(fd);
	free_memory(&m);
}

/* F20, F21: what is wrong before any page is looked at, and whether the out field is touched. */
static void misuse(enum kind kind)
{
	struct memory m = make_memory(kind, 3), plain = make_memory(kind, 1);
	int fd = open_uffd(0);
	unsigned long p = (uintptr_t)m.p, unit = m.unit, src = (uintptr_t)source('s', 3 * unit);
	const struct { unsigned long start, len; uint64_t mode; int error; bool reported; } table[] = {
		{ p + 1, unit, 0, EINVAL, false }, { p, unit + 1, 0, EINVAL, false }, { p, 0, 0, EINVAL, false }, { p, -PAGE, 0, EINVAL, false },
		{ TASK_SIZE, unit, 0, EINVAL, false }, { TASK_SIZE - unit, 2 * unit, 0, EINVAL, false }, { KERNEL_ADDRESS, unit, 0, EINVAL, false },
		{ -PAGE, PAGE, 0, EINVAL, false }, { p, unit, 4, EINVAL, false }, { p, unit, 1ull << 63, EINVAL, false },
		{ (uintptr_t)plain.p, unit, 0, ENOENT, true },		/* mapped, not registered */
		{ p - unit, unit, 0, ENOENT, true },			/* nothing there */
		{ p - unit, 2 * unit, 0, ENOENT, true },
		{ p + 2 * unit, 2 * unit, 0, ENOENT, true },		/* beyond its end */
		{ p, 4 * unit, 0, ENOENT, true },			/* more than one VMA: not begun */
	};
	const unsigned long fills[] = { UFFDIO_ZEROPAGE, UFFDIO_CONTINUE, UFFDIO_POISON };

	MUST(uffd_register(fd, m.p, m.len, MISSING | WP) == 0);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int64_t out = table[i].reported ? -table[i].error : GARBAGE;
		uint64_t bad = table[i].mode;

		CHECK_RESULT(table[i].error, out, raw_copy(fd, table[i].start, src, table[i].len, bad));
		for (size_t f = 0; f < 3; f++) {
			/* For ZEROPAGE and POISON 2 is unknown already. */
			CHECK_RESULT(table[i].error, out, raw_fill(fd, fills[f], table[i].start, table[i].len, bad));
			if (bad && fills[f] != UFFDIO_CONTINUE)
				CHECK_RESULT(EINVAL, GARBAGE, raw_fill(fd, fills[f], p, unit, 2));
		}
		/* WRITEPROTECT has no out field, and skips holes. */
		if (table[i].error == EINVAL)
			CHECK_ERRNO(EINVAL, uffd_writeprotect(fd, (void *)table[i].start, table[i].len, bad));
	}
	CHECK_ERRNO(EINVAL, uffd_writeprotect(fd, m.p, unit, 3));
	CHECK_ERRNO(ENOENT, uffd_writeprotect(fd, plain.p, unit, 1));
	CHECK_ERRNO(ENOENT, uffd_writeprotect(fd, m.p - unit, unit, 1));
	CHECK_EQUAL(0, uffd_writeprotect(fd, m.p - unit, 2 * unit, 1));		/* the hole is skipped */
	CHECK_EQUAL(0, uffd_writeprotect(fd, m.p - unit, 2 * unit, 0));
	for (size_t f = 0; f < 3; f++)
		CHECK_ERRNO(EFAULT, ioctl(fd, fills[f], (void *)8));
	CHECK_ERRNO(EFAULT, ioctl(fd, UFFDIO_COPY, (void *)KERNEL_ADDRESS));
	CHECK_ERRNO(EFAULT, ioctl(fd, UFFDIO_MOVE, (void *)8));
	CHECK_ERRNO(EFAULT, ioctl(fd, UFFDIO_WRITEPROTECT, (void *)8));
	CHECK_ERRNO(EINVAL, ioctl(fd, _IO(0xaa, 9), &m));
	CHECK_ERRNO(EINVAL, ioctl(fd, UFFDIO_COPY & ~0xffu, &m));

	/* The source of a copy may lie anywhere, but must be readable (F27). */
	CHECK_RESULT(EINVAL, GARBAGE, raw_copy(fd, p, -unit, 2 * unit, 0));
	CHECK_RESULT(EINVAL, GARBAGE, raw_copy(fd, p, KERNEL_ADDRESS, unit, 0));
	CHECK_RESULT(EFAULT, -EFAULT, raw_copy(fd, p, 16 * PAGE, unit, 0));
	CHECK_RESULT(EINVAL, GARBAGE, raw_copy(fd, p, TASK_SIZE - PAGE, 2 * unit, 0));
	CHECK(!(pagemap(m.p) & PM_PRESENT));
	CHECK_RESULT(0, (int64_t)unit, raw_copy(fd, p, src + 13, unit, 0));
	CHECK_EQUAL('s', m.p[0]);

	/* Partial: what was done, and -1 (F22). The page in the middle is there already. */
	CHECK_RESULT(EEXIST, -EEXIST, raw_copy(fd, p, src, 3 * unit, 0));
	CHECK_RESULT(0, (int64_t)unit, raw_copy(fd, p + 2 * unit, src, unit, 0));
	CHECK_RESULT(EAGAIN, (int64_t)unit, raw_copy(fd, p + unit, src, 2 * unit, 0));
	CHECK_EQUAL('s', m.p[unit]);

	/* Registered with another descriptor is good enough for all but MOVE (F21). */
	int other = open_uffd(0);
	MUST(uffd_register(other, plain.p, plain.len, MISSING) == 0);
	CHECK_RESULT(0, (int64_t)unit, raw_copy(fd, (uintptr_t)plain.p, src, unit, 0));
	close(other);
	close(fd);
	free_memory(&m);
	free_memory(&plain);
}

/* Part of a huge page is nobody's unit. */
static void misuse_of_huge_pages(void)
{
	struct memory m = make_memory(HUGETLB_SHARED, 2);
	int fd = open_uffd(0);
	unsigned long p = (uintptr_t)m.p, src = (uintptr_t)source('s', HUGE);

	MUST(uffd_register(fd, m.p, m.len, MISSING | WP | MINOR) == 0);
	CHECK_RESULT(EINVAL, -EINVAL, raw_copy(fd, p, src, PAGE, 0));
	CHECK_RESULT(EINVAL, -EINVAL, raw_copy(fd, p + PAGE, src, PAGE, 0));
	CHECK_RESULT(EINVAL, -EINVAL, raw_fill(fd, UFFDIO_CONTINUE, p, PAGE, 0));
	CHECK_RESULT(EINVAL, -EINVAL, raw_fill(fd, UFFDIO_POISON, p + PAGE, PAGE, 0));
	CHECK_ERRNO(EINVAL, uffd_writeprotect(fd, m.p, PAGE, 1));
	CHECK_ERRNO(EINVAL, uffd_writeprotect(fd, m.p + PAGE, HUGE, 1));
	CHECK_RESULT(EINVAL, -EINVAL, raw_fill(fd, UFFDIO_ZEROPAGE, p, HUGE, 0));
	close(fd);
	free_memory(&m);
}

/* F27: behind the end of the file. */
static void beyond_the_end_of_the_file(void)
{
	for (enum kind kind = SHMEM_SHARED; kind <= SHMEM_PRIVATE; kind++) {
		struct memory m = make_memory(kind, 2);
		int fd = open_uffd(0);
		unsigned long p = (uintptr_t)m.p;

		MUST(uffd_register(fd, m.p, m.len, MISSING | MINOR) == 0 && ftruncate(m.fd, PAGE) == 0);
		CHECK_RESULT(EFAULT, -EFAULT, raw_copy(fd, p + PAGE, (uintptr_t)source('s', PAGE), PAGE, 0));
		CHECK_RESULT(EFAULT, -EFAULT, raw_fill(fd, UFFDIO_ZEROPAGE, p + PAGE, PAGE, 0));
		CHECK_RESULT(EINVAL, -EINVAL, raw_fill(fd, UFFDIO_CONTINUE, p + PAGE, PAGE, 0));
		catch_faults();
		CHECK_FAULT(SIGBUS, BUS_ADRERR, p + PAGE, access_byte(p + PAGE, READ));	/* no event (F40) */
		EXPECT_SILENCE(fd);
		CHECK_RESULT(EAGAIN, (int64_t)PAGE, raw_copy(fd, p, (uintptr_t)source('s', 2 * PAGE), 2 * PAGE, 0));
		close(fd);
		free_memory(&m);
	}
}

/* CONTINUE where a private page lies already. */
static void private_over_present(void)
{
	struct memory m = make_memory(SHMEM_PRIVATE, 1);
	int fd = open_uffd(0);

	m.alias[0] = 'f';
	MUST(uffd_register(fd, m.p, m.len, MINOR) == 0);
	CHECK_EQUAL((long)PAGE, uffd_continue(fd, m.p, PAGE, 0));
	CHECK_RESULT(EEXIST, -EEXIST, raw_fill(fd, UFFDIO_CONTINUE, (uintptr_t)m.p, PAGE, 0));
	m.p[0] = 'w';
	CHECK_RESULT(EEXIST, -EEXIST, raw_fill(fd, UFFDIO_CONTINUE, (uintptr_t)m.p, PAGE, 0));
	CHECK_EQUAL('w', m.p[0]);
	CHECK_EQUAL('f', m.alias[0]);
	close(fd);
	free_memory(&m);
}

int main(void)
{
	bool huge = huge_pages() >= 6;

	matrix();
	for (enum kind kind = 0; kind < NR_KINDS; kind++)
		if (!is_hugetlb(kind) || huge)
			misuse(kind);
	if (huge) {
		misuse_of_huge_pages();
		continue_behind_the_end(HUGETLB_SHARED);
		continue_behind_the_end(HUGETLB_PRIVATE);
	}
	beyond_the_end_of_the_file();
	private_over_present();
	test_end();
}
