/*
 * Rule A41: remap_file_pages puts other pages of the same file where they are wanted, by a mapping of its own; what it refuses, and what it
 * keeps of the mapping that was there.
 */
#include "mm_test.h"

static char *p;

/* Which page of the file each page of the mapping shows, by its letter; '-' for a hole. */
static void check_shows(int line, const char *want)
{
	char got[9] = "--------";

	for (int i = 0; i < 8; i++)
		if (is_mapped(p + i * PAGE, PAGE))
			got[i] = p[i * PAGE];
	if (strcmp(got, want)) {
		printf("line %d: shows %s, expected %s\n", line, got, want);
		test_failures++;
	}
}
#define SHOWS(want)	check_shows(__LINE__, want)

static void windows(void)
{
	CHECK_EQUAL(0, sys_remap_file_pages(p, PAGE, 0, 5, 0));
	SHOWS("fbcdefgh");
	CHECK_EQUAL(0, sys_remap_file_pages(p + PAGE, 2 * PAGE, 0, 0, 0));
	SHOWS("fabdefgh");
	CHECK_EQUAL(0, sys_remap_file_pages(p, PAGE, 0, 7, MAP_NONBLOCK));
	SHOWS("habdefgh");
	CHECK_EQUAL(0, sys_remap_file_pages(p + 1, PAGE, 0, 2, 0));		/* rounded down, both of them */
	CHECK_EQUAL(0, sys_remap_file_pages(p + PAGE, PAGE + 1, 0, 3, ~0));	/* flags of no meaning */
	SHOWS("cdbdefgh");
	CHECK_EQUAL(0, sys_remap_file_pages(p, 8 * PAGE, 0, 0, 0));		/* over several mappings */
	SHOWS("abcdefgh");
	CHECK_EQUAL(0, sys_remap_file_pages(p + 4 * PAGE, 4 * PAGE, 0, 0, 0));
	CHECK_EQUAL(0, sys_remap_file_pages(p + 2 * PAGE, 4 * PAGE, 0, 0, 0));
	SHOWS("ababcdcd");
	p[0] = 'A';
	SHOWS("AbAbcdcd");
	p[0] = 'a';
	CHECK_EQUAL(8, resident(p, 8));
	CHECK_EQUAL(0, sys_remap_file_pages(p, PAGE, 0, 20, 0));		/* behind the end */
	CHECK_FAULT(SIGBUS, 2, p, access_byte((unsigned long)p, READ));
	CHECK_EQUAL(0, sys_remap_file_pages(p, 8 * PAGE, 0, 0, 0));
}

static void refused(void)
{
	char *private = map_pages(1, RW, ANON), *anonymous = map_pages(2, RW, MAP_SHARED | MAP_ANONYMOUS);

	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p, PAGE, PROT_READ, 5, 0));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p, 0, 0, 1, 0));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p, PAGE - 1, 0, 1, 0));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p, PAGE, 0, -1, 0));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p, -PAGE, 0, 2, 0));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(-PAGE, 2 * PAGE, 0, 2, 0));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p + 8 * PAGE, PAGE, 0, 0, 0));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p + 4 * PAGE, 8 * PAGE, 0, 0, 0));
	CHECK_ERRNO(EOVERFLOW, sys_remap_file_pages(p, PAGE, 0, 0x7ffffffffffffl, 0));
	CHECK_ERRNO(EOVERFLOW, sys_remap_file_pages(p, PAGE, 0, 1l << 60, 0));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(private, PAGE, 0, 0, 0));
	SHOWS("abcdefgh");

	anonymous[0] = 'x';
	anonymous[PAGE] = 'y';
	CHECK_EQUAL(0, sys_remap_file_pages(anonymous, PAGE, 0, 1, 0));
	CHECK_EQUAL('y', anonymous[0]);
	MUST(munmap(private, PAGE) == 0 && munmap(anonymous, 2 * PAGE) == 0);
}

/* Rights, and with them which neighbours may be overwritten in one go. */
static void keeps_what_was_there(void)
{
	MUST(mprotect(p + 5 * PAGE, PAGE, PROT_READ) == 0);
	CHECK_EQUAL(0, sys_remap_file_pages(p + 5 * PAGE, PAGE, 0, 0, 0));
	SHOWS("abcdeagh");
	CHECK_FAULT(SIGSEGV, 2, p + 5 * PAGE, access_byte((unsigned long)p + 5 * PAGE, WRITE));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p + 5 * PAGE, 2 * PAGE, 0, 0, 0));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p + 4 * PAGE, 2 * PAGE, 0, 0, 0));
	MUST(munmap(p + 2 * PAGE, PAGE) == 0);
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p + PAGE, 3 * PAGE, 0, 0, 0));
	SHOWS("ab-deagh");
	MUST(mlock(p, PAGE) == 0);
	CHECK_EQUAL(4, proc_number("/proc/self/status", "VmLck"));
	CHECK_EQUAL(0, sys_remap_file_pages(p, PAGE, 0, 6, 0));
	CHECK_EQUAL(4, proc_number("/proc/self/status", "VmLck"));
	SHOWS("gb-deagh");
	MUST(munlock(p, PAGE) == 0);
}

/* The last mapping of a file whose descriptor is closed gives the file that it then goes without. */
static void outlives_its_own_mapping(void)
{
	for (int i = 0; i < 100; i++) {
		int fd = make_memfd(2, 0);
		char *q = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);

		MUST(q != MAP_FAILED && pwrite(fd, "z", 1, PAGE) == 1);
		close(fd);
		CHECK_EQUAL(0, sys_remap_file_pages(q, PAGE, 0, 1, 0));
		CHECK_EQUAL('z', q[0]);
		CHECK_ERRNO(EOVERFLOW, sys_remap_file_pages(q, PAGE, 0, 1l << 60, 0));
		MUST(munmap(q, PAGE) == 0);
	}
}

int main(void)
{
	int fd = make_memfd(8, 0);

	catch_faults();
	p = mmap(NULL, 9 * PAGE, PROT_NONE, ANON, -1, 0);	/* a hole behind it */
	MUST(p != MAP_FAILED && munmap(p + 8 * PAGE, PAGE) == 0);
	MUST(mmap(p, 8 * PAGE, RW, MAP_SHARED | MAP_FIXED, fd, 0) == p);
	close(fd);
	for (int i = 0; i < 8; i++)
		p[i * PAGE] = (char)('a' + i);
	windows();
	refused();
	keeps_what_was_there();
	outlives_its_own_mapping();
	test_end();
}
