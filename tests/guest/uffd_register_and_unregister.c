/*
 * Which memory may be registered in which mode, what a second registration changes, and that nobody sleeps on after the range was
 * unregistered or the descriptor closed (rules F8, F10 to F16).
 *
 * append: hugepages=8
 */
#include "uffd_test.h"

#define FULL	0x13cull	/* WAKE COPY ZEROPAGE MOVE POISON */
#define HUGE_OPS 0x10cull	/* WAKE COPY POISON */

/* F10, F12, F13: modes against kinds. */
static void modes_and_kinds(void)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		if (is_hugetlb(kind) && huge_pages() < 1)
			continue;
		for (uint64_t mode = 0; mode < 16; mode++) {
			struct memory m = make_memory(kind, 1);
			int fd = open_uffd(0);
			uint64_t ops = is_hugetlb(kind) ? HUGE_OPS : FULL;
			bool bad = mode == 0 || mode > 7 || (kind == ANON_PRIVATE && (mode & MINOR));

			if (mode & WP)
				ops |= 0x40;
			if (mode & MINOR)
				ops |= 0x80;
			struct result r = raw_register(fd, (uintptr_t)m.p, m.len, mode);
			if (r.error != (bad ? EINVAL : 0) || (uint64_t)r.out != (bad ? (uint64_t)GARBAGE : ops)) {
				printf("register %s mode %llx: errno %d, ioctls %llx\n", kind_names[kind], (unsigned long long)mode, r.error,
				       (unsigned long long)r.out);
				test_failures++;
			}
			/* Only with WP and MINOR can a message say so: here it says what smaps says. */
			CHECK_EQUAL(!bad && (mode & MISSING), smaps_flag(m.p, "um"));
			CHECK_EQUAL(!bad && (mode & WP), smaps_flag(m.p, "uw"));
			CHECK_EQUAL(!bad && (mode & MINOR), smaps_flag(m.p, "ui"));
			CHECK_EQUAL(0, close(fd));
			CHECK(!smaps_flag(m.p, "um") && !smaps_flag(m.p, "uw") && !smaps_flag(m.p, "ui"));
			free_memory(&m);
		}
	}
}

static void ranges(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 4);
	unsigned long p = (uintptr_t)m.p;
	const struct { unsigned long start, len; int error; } table[] = {
		{ p + 1, PAGE, EINVAL }, { p, PAGE + 1, EINVAL }, { p, 0, EINVAL }, { p, -PAGE, EINVAL }, { p, 1ul << 63, EINVAL },
		{ TASK_SIZE, PAGE, EINVAL }, { TASK_SIZE - PAGE, 2 * PAGE, EINVAL }, { KERNEL_ADDRESS, PAGE, EINVAL }, { -PAGE, PAGE, EINVAL },
		{ -PAGE, 2 * PAGE, EINVAL }, { p - PAGE, PAGE, EINVAL }, { p + 4 * PAGE, PAGE, EINVAL },
		{ p - PAGE, 2 * PAGE, 0 }, { p + 3 * PAGE, 2 * PAGE, 0 }, { p, 4 * PAGE, 0 },
	};
	int fd = open_uffd(0);

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct result r = raw_register(fd, table[i].start, table[i].len, MISSING);

		if (r.error != table[i].error) {
			printf("register %lx +%lx: errno %d, not %d\n", table[i].start, table[i].len, r.error, table[i].error);
			test_failures++;
		}
	}
	CHECK_ERRNO(EFAULT, ioctl(fd, UFFDIO_REGISTER, (void *)8));
	/* WAKE looks at the range only; UNREGISTER wants some mapping too. */
	for (size_t i = 0; i < 9; i++) {
		RANGE_ERRNO(EINVAL, fd, UFFDIO_WAKE, table[i].start, table[i].len);
		RANGE_ERRNO(EINVAL, fd, UFFDIO_UNREGISTER, table[i].start, table[i].len);
	}
	RANGE_ERRNO(0, fd, UFFDIO_WAKE, p - PAGE, PAGE);
	RANGE_ERRNO(EINVAL, fd, UFFDIO_UNREGISTER, p - PAGE, PAGE);
	RANGE_ERRNO(0, fd, UFFDIO_UNREGISTER, p - PAGE, 6 * PAGE);
	RANGE_ERRNO(0, fd, UFFDIO_UNREGISTER, p, PAGE);			/* not registered any more: skipped */
	CHECK_ERRNO(EFAULT, ioctl(fd, UFFDIO_UNREGISTER, (void *)8));
	CHECK_ERRNO(EFAULT, ioctl(fd, UFFDIO_WAKE, (void *)8));
	close(fd);
	free_memory(&m);
}

/* A hole in the middle is skipped; a mapping that cannot be registered spoils all. */
static void holes_and_strangers(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 5);
	int fd = open_uffd(0), other = open_uffd(0), file;

	MUST(munmap(m.p + 2 * PAGE, PAGE) == 0);
	CHECK_EQUAL(0, uffd_register(fd, m.p, m.len, MISSING));
	CHECK(smaps_flag(m.p, "um") && smaps_flag(m.p + 4 * PAGE, "um"));
	/* F11 */
	CHECK_ERRNO(EBUSY, uffd_register(other, m.p + 4 * PAGE, PAGE, MISSING));
	CHECK_ERRNO(EBUSY, uffd_register(other, m.p, m.len, WP));
	CHECK_EQUAL(0, uffd_unregister(fd, m.p, m.len));

	file = open("/bin/busybox", O_RDONLY);
	MUST(file >= 0);
	MUST(mmap(m.p + 2 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == m.p + 2 * PAGE);
	struct statfs { long type; long rest[32]; } fs;
	MUST(syscall(SYS_fstatfs, file, &fs) == 0);
	if (fs.type != 0x01021994) {		/* shmem is registered like any other */
		CHECK_ERRNO(EINVAL, uffd_register(fd, m.p, m.len, MISSING));
		CHECK(!smaps_flag(m.p, "um") && !smaps_flag(m.p + 4 * PAGE, "um"));
	}
	close(file);
	close(fd);
	close(other);
	free_memory(&m);
}

/* F11: memory that nobody may ever write, and memory that may become writable. */
static void never_writable(void)
{
	int rw = make_memfd(1, 0), fd = open_uffd(0);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", rw);
	int ro = open(path, O_RDONLY);
	MUST(ro >= 0);
	char *shared = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ro, 0), *private = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, ro, 0);
	char *none = mmap(NULL, PAGE, PROT_NONE, ANON, -1, 0);
	MUST(shared != MAP_FAILED && private != MAP_FAILED && none != MAP_FAILED);
	CHECK_ERRNO(EPERM, uffd_register(fd, shared, PAGE, MISSING));
	CHECK_ERRNO(EPERM, uffd_register(fd, shared, PAGE, MINOR));
	CHECK_EQUAL(0, uffd_register(fd, private, PAGE, MISSING));
	CHECK_EQUAL(0, uffd_register(fd, none, PAGE, MISSING));
	close(ro);
	close(rw);
	close(fd);
	munmap(shared, PAGE);
	munmap(private, PAGE);
	munmap(none, PAGE);
}

/* F14: a mode is never reduced, and what is more replaces. */
static void registered_again(void)
{
	const struct { uint64_t first, second, is; } table[] = {
		{ MISSING | WP, MISSING, MISSING | WP }, { MISSING, MISSING | WP, MISSING | WP }, { WP, MISSING, MISSING }, { MISSING, WP, WP },
		{ WP, WP, WP }, { MINOR | WP, MISSING | MINOR, MISSING | MINOR }, { MISSING | WP | MINOR, MINOR, MISSING | WP | MINOR },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct memory m = make_memory(SHMEM_SHARED, 3);
		int fd = open_uffd(0);

		CHECK_EQUAL(0, uffd_register(fd, m.p, m.len, table[i].first));
		CHECK_EQUAL(0, uffd_register(fd, m.p + PAGE, PAGE, table[i].second));
		uint64_t is = (smaps_flag(m.p + PAGE, "um") ? MISSING : 0) | (smaps_flag(m.p + PAGE, "uw") ? WP : 0) |
			(smaps_flag(m.p + PAGE, "ui") ? MINOR : 0);
		CHECK_EQUAL(table[i].is, is);
		CHECK_EQUAL(table[i].is == table[i].first ? 1 : 3, count_vmas(m.p, m.len));
		close(fd);
		CHECK_EQUAL(1, count_vmas(m.p, m.len));		/* alike again: they merge */
		free_memory(&m);
	}
}

static void existing_pages_stay(void)
{
	struct memory m = make_memory(ANON_PRIVATE, 2);
	int fd = open_uffd(0);

	m.p[0] = 'x';
	CHECK_EQUAL(0, uffd_register(fd, m.p, m.len, MISSING | WP));
	CHECK_EQUAL('x', m.p[0]);
	m.p[0] = 'y';				/* present and not protected: no message */
	CHECK_EQUAL(0, uffd_unregister(fd, m.p, m.len));
	CHECK_EQUAL('y', m.p[0]);
	CHECK_EQUAL(0, m.p[PAGE]);
	close(fd);
	free_memory(&m);
}

/* F8, F15, F16: nobody sleeps on. */
static void waiters_are_released(void)
{
	enum how_released { BY_UNREGISTER, BY_CLOSE, BY_OTHER_MODE, NR_HOWS };
	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		for (int how = 0; how < NR_HOWS; how++) {
			for (int is_read = 0; is_read < 2; is_read++) {
				if (is_hugetlb(kind) && huge_pages() < 1)
					continue;
				struct memory m = make_memory(kind, 1);
				struct helper h[2];
				struct uffd_msg msg;
				int fd = open_uffd(0);

				MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
				helper_start(&h[0], do_read, m.p, 1);
				h[1].value = 0;
				helper_start(&h[1], do_write, m.p, 1);
				CHECK(helper_sleeps(&h[0]) && helper_sleeps(&h[1]));
				if (is_read)
					MUST(get_message(fd, &msg, 1000));		/* one waits unread, one was read */
				if (how == BY_UNREGISTER)
					CHECK_EQUAL(0, uffd_unregister(fd, m.p, m.len));
				else if (how == BY_CLOSE)
					CHECK_EQUAL(0, close(fd));
				else
					CHECK_EQUAL(0, uffd_register(fd, m.p, m.len, WP));
				if (how == BY_OTHER_MODE)
					CHECK_EQUAL(0, uffd_wake(fd, m.p, m.len));	/* as Linux leaves it to the manager */
				CHECK_EQUAL(0, HELPER_END(&h[0]));
				HELPER_END(&h[1]);
				if (how != BY_CLOSE)
					close(fd);
				free_memory(&m);
			}
		}
	}
}

/* F10: a huge page is registered whole or not at all. */
static void huge_alignment(void)
{
	if (huge_pages() < 2)
		return;
	struct memory m = make_memory(HUGETLB_SHARED, 2);
	int fd = open_uffd(0);

	CHECK_ERRNO(EINVAL, uffd_register(fd, m.p, PAGE, MISSING));
	CHECK_ERRNO(EINVAL, uffd_register(fd, m.p + PAGE, HUGE - PAGE, MISSING));
	CHECK_ERRNO(EINVAL, uffd_register(fd, m.p, HUGE + PAGE, WP));
	CHECK_EQUAL(0, uffd_register(fd, m.p, HUGE, MISSING));
	CHECK_ERRNO(EINVAL, uffd_unregister(fd, m.p, PAGE));
	CHECK_EQUAL(0, uffd_unregister(fd, m.p, HUGE));
	close(fd);
	free_memory(&m);
}

/* F13: with WP_ASYNC, any memory may be write-protected; not with another mode. */
static void any_memory_with_wp_async(void)
{
	int file = open("/bin/busybox", O_RDONLY), fd = open_uffd(UFFD_FEATURE_WP_ASYNC);
	char *p = mmap(NULL, PAGE, RW, MAP_PRIVATE, file, 0);

	MUST(file >= 0 && p != MAP_FAILED);
	p[0] = 1;
	CHECK_EQUAL(0, uffd_register(fd, p, PAGE, WP));
	CHECK_EQUAL(0, uffd_writeprotect(fd, p, PAGE, UFFDIO_WRITEPROTECT_MODE_WP));
	CHECK(pagemap(p) & PM_UFFD_WP);
	p[0] = 2;					/* nobody is told, nobody waits */
	CHECK(!(pagemap(p) & PM_UFFD_WP));
	EXPECT_SILENCE(fd);
	munmap(p, PAGE);
	close(file);
	close(fd);
}

int main(void)
{
	modes_and_kinds();
	ranges();
	holes_and_strangers();
	never_writable();
	registered_again();
	existing_pages_stay();
	waiters_are_released();
	huge_alignment();
	any_memory_with_wp_async();
	test_end();
}
