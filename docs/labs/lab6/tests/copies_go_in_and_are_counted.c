/*
 * UFFDIO_COPY and the loop that it shares with ZEROPAGE: what goes in, what is reported when only a part could be done, who is woken then, and
 * that each page that did not go in is given back.
 * budget: 12000
 */
#include "tests/labs/lab_test.h"
#include "tests/guest/uffd_test.h"

#define PAGES	8ul

static char *area;
static int fd;

static unsigned long at(size_t page) { return (uintptr_t)area + page * PAGE; }
static void forget(void) { MUST(madvise(area, PAGES * PAGE, MADV_DONTNEED) == 0); }

static void whole_ranges(void)
{
	char *from = source('a', 3 * PAGE);

	from[PAGE] = 'b';
	from[3 * PAGE - 1] = 'c';
	CHECK_RESULT(0, (long)(3 * PAGE), raw_copy(fd, at(1), (uintptr_t)from, 3 * PAGE, 0));
	CHECK_EQUAL(0, memcmp(area + PAGE, from, 3 * PAGE));
	area[PAGE] = 'x';
	CHECK_EQUAL('a', from[0]);
	CHECK_RESULT(0, (long)(2 * PAGE), raw_fill(fd, UFFDIO_ZEROPAGE, at(5), 2 * PAGE, 0));
	CHECK_EQUAL(0, area[5 * PAGE] | area[7 * PAGE - 1]);
	CHECK_EQUAL(5, resident(area + PAGE, 6));		/* all but the fourth */
	forget();
}

/* The source may start anywhere. */
static void odd_sources(void)
{
	char *from = source('o', 2 * PAGE);

	from[100] = '1';
	CHECK_RESULT(0, (long)PAGE, raw_copy(fd, at(0), (uintptr_t)from + 100, PAGE, 0));
	CHECK_EQUAL('1', area[0]);
	CHECK_EQUAL('o', area[PAGE - 1]);
	forget();
}

static void parts_are_reported(void)
{
	struct helper h = { 0 };
	unsigned long from = (uintptr_t)source('p', 4 * PAGE);
	char *two = map_alone(2, RW);

	/* What is there stays as it is. */
	CHECK_RESULT(0, (long)PAGE, raw_copy(fd, at(2), (uintptr_t)source('p', PAGE), PAGE, 0));
	area[2 * PAGE] = 'q';
	CHECK_RESULT(EEXIST, -EEXIST, raw_copy(fd, at(2), from, PAGE, 0));
	CHECK_RESULT(EEXIST, -EEXIST, raw_copy(fd, at(2), from, 2 * PAGE, 0));
	CHECK_RESULT(EEXIST, -EEXIST, raw_fill(fd, UFFDIO_ZEROPAGE, at(2), PAGE, 0));
	CHECK_EQUAL('q', area[2 * PAGE]);
	/* Two pages go in, the third is there: who waits for the first is woken all the same. */
	helper_start(&h, do_read, area, 0);
	EXPECT_FAULT(fd, 0, area);
	CHECK_RESULT(EAGAIN, (long)(2 * PAGE), raw_copy(fd, at(0), from, 4 * PAGE, 0));
	CHECK_EQUAL('p', HELPER_END(&h));
	CHECK_EQUAL('q', area[2 * PAGE]);
	CHECK_EQUAL(0, resident(area + 3 * PAGE, 1));
	forget();
	/* The source ends early. */
	memset(two, 't', 2 * PAGE);
	MUST(munmap(two + PAGE, PAGE) == 0);
	CHECK_RESULT(EFAULT, -EFAULT, raw_copy(fd, at(0), (uintptr_t)two + PAGE, PAGE, 0));
	CHECK_RESULT(EAGAIN, (long)PAGE, raw_copy(fd, at(0), (uintptr_t)two, 3 * PAGE, 0));
	CHECK_EQUAL('t', area[0]);
	CHECK_EQUAL(0, resident(area + PAGE, 1));
	munmap(two, PAGE);
	forget();
}

static void refusals(void)
{
	unsigned long from = (uintptr_t)source('r', 2 * PAGE);
	char *plain = map_alone(1, RW);

	CHECK_RESULT(ENOENT, -ENOENT, raw_copy(fd, (uintptr_t)plain, from, PAGE, 0));
	CHECK_RESULT(ENOENT, -ENOENT, raw_copy(fd, at(PAGES - 1), from, 2 * PAGE, 0));
	CHECK_RESULT(ENOENT, -ENOENT, raw_copy(fd, at(PAGES), from, PAGE, 0));
	CHECK_EQUAL(0, resident(area + (PAGES - 1) * PAGE, 1));
	munmap(plain, PAGE);
}

/* Sources that are not in memory yet: a file's page, memory that nobody has touched. */
static void sources_that_fault(void)
{
	int file = make_memfd(2, 0);
	char *untouched = map_alone(1, RW), *mapped;

	MUST(pwrite(file, "file", 4, (off_t)PAGE) == 4);
	mapped = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	MUST(mapped != MAP_FAILED);
	CHECK_RESULT(0, (long)(2 * PAGE), raw_copy(fd, at(0), (uintptr_t)mapped, 2 * PAGE, 0));
	CHECK_EQUAL(0, memcmp(area + PAGE, "file", 5));
	CHECK_RESULT(0, (long)PAGE, raw_copy(fd, at(4), (uintptr_t)untouched, PAGE, 0));
	CHECK_EQUAL(0, area[4 * PAGE]);
	munmap(mapped, 2 * PAGE);
	munmap(untouched, PAGE);
	close(file);
	forget();
}

static unsigned long nested_source;
static long copy_nested(struct helper *h)
{
	struct result r = raw_copy(fd, (uintptr_t)h->p, nested_source, PAGE, 0);

	return r.error ? -r.error : r.out;
}

/*
 * The source belongs to another manager, who takes his time: COPY waits for him with nothing locked, so the destination can be filled, or
 * go away, meanwhile; and that is then the result.
 */
static void sources_of_another_manager(void)
{
	char *far = map_alone(2, RW), *doomed = map_alone(1, RW);
	struct helper h = { 0 }, g = { 0 };
	int other = open_uffd(0);

	MUST(uffd_register(other, far, 2 * PAGE, MISSING) == 0 && uffd_register(fd, doomed, PAGE, MISSING) == 0);
	nested_source = (uintptr_t)far;
	helper_start(&h, copy_nested, area, 0);
	EXPECT_FAULT(other, 0, far);
	CHECK_RESULT(0, (long)PAGE, raw_fill(fd, UFFDIO_ZEROPAGE, at(1), PAGE, 0));
	CHECK_RESULT(0, (long)PAGE, raw_fill(fd, UFFDIO_ZEROPAGE, at(0), PAGE, 0));
	CHECK_EQUAL((long)PAGE, uffd_zeropage(other, far, PAGE, 0));
	CHECK_EQUAL(-EEXIST, HELPER_END(&h));

	nested_source = (uintptr_t)far + PAGE;
	helper_start(&g, copy_nested, doomed, 0);
	EXPECT_FAULT(other, 0, far + PAGE);
	MUST(munmap(doomed, PAGE) == 0);
	CHECK_EQUAL((long)PAGE, uffd_zeropage(other, far + PAGE, PAGE, 0));
	CHECK_EQUAL(-ENOENT, HELPER_END(&g));
	close(other);
	munmap(far, 2 * PAGE);
	forget();
}

/* The manager's bad pointer is his own affair: the page is in, so who waits for it is woken. */
static void a_bad_out_field(void)
{
	struct uffdio_copy *req = (void *)map_alone(1, RW);
	struct helper h = { 0 };

	*req = (struct uffdio_copy){ at(6), (uintptr_t)source('f', PAGE), PAGE, 0, 0 };
	MUST(mprotect(req, PAGE, PROT_READ) == 0);
	helper_start(&h, do_read, area + 6 * PAGE, 0);
	EXPECT_FAULT(fd, 0, area + 6 * PAGE);
	CHECK_ERRNO(EFAULT, ioctl(fd, UFFDIO_COPY, req));
	CHECK_EQUAL('f', HELPER_END(&h));
	munmap(req, PAGE);
	forget();
}

/* What goes in has the rights of the mapping, and can be used by them. */
static void rights_of_the_mapping(void)
{
	char *p = map_alone(2, PROT_WRITE);
	struct helper h = { .value = 'w' };
	long v = 1;

	MUST(uffd_register(fd, p, 2 * PAGE, MISSING) == 0);
	helper_start(&h, do_write, p, 0);
	EXPECT_FAULT(fd, UFFD_PAGEFAULT_FLAG_WRITE, p);
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, p, source('k', PAGE), PAGE, 0));
	HELPER_END(&h);
	EXPECT_SILENCE(fd);
	CHECK_EQUAL(0, mprotect(p, 2 * PAGE, PROT_READ));
	CHECK(p[0] == 'w' && p[1] == 'k');
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, p + PAGE, source('k', PAGE), PAGE, 0));
	catch_touch_faults();
	CHECK_EQUAL(SIGSEGV, touch((volatile long *)(p + PAGE), true, &v));
	CHECK_EQUAL('k', p[PAGE]);
	munmap(p, 2 * PAGE);
}

/* 4000 pages that do not go in, and 4000 that do and are dropped. */
static void no_page_is_lost(void)
{
	char *from = source('l', PAGE);
	long before;

	MUST(uffd_copy(fd, area, from, PAGE, 0) == (ssize_t)PAGE);
	before = memory_used();
	for (int i = 0; i < 4000; i++) {
		CHECK(raw_copy(fd, at(0), (uintptr_t)from, PAGE, 0).error == EEXIST);
		CHECK(raw_copy(fd, at(1), (uintptr_t)from, PAGE, 0).error == 0);
		MUST(madvise(area + PAGE, PAGE, MADV_DONTNEED) == 0);
		if (test_failures > 10)
			break;
	}
	long lost = memory_used() - before;
	if (lost > 1500) {
		printf("%ld pages are missing after 4000 COPYs that were refused and 4000 that were not\n", lost);
		test_failures++;
	}
	forget();
}

int main(void)
{
	area = map_alone(PAGES, RW);
	fd = open_uffd(0);
	MUST(uffd_register(fd, area, PAGES * PAGE, MISSING) == 0);
	whole_ranges();
	odd_sources();
	parts_are_reported();
	refusals();
	sources_that_fault();
	sources_of_another_manager();
	a_bad_out_field();
	rights_of_the_mapping();
	no_page_is_lost();
	test_end();
}
