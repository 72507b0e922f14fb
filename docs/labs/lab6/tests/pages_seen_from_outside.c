/*
 * What COPY, ZEROPAGE and WRITEPROTECT leave in the page tables, as the grader finds it in the guest's memory.
 * only: faultline
 * view
 * budget: 20000
 */
#include "tests/labs/lab_test.h"
#include "tests/guest/uffd_test.h"

static volatile unsigned long *page(char *p, size_t n)
{
	return (volatile unsigned long *)(p + n * PAGE);
}

int main(void)
{
	char *p = map_alone(4, RW);
	unsigned long *from = (void *)source(0, PAGE);
	int fd = open_uffd(0);

	MUST(uffd_register(fd, p, 4 * PAGE, MISSING | WP) == 0);
	view_none(p);
	from[0] = 0xc0b1ed;
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, p, from, PAGE, 0));
	from[0] = 0xbad;
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, p + PAGE, from, PAGE, UFFDIO_COPY_MODE_WP));
	CHECK_EQUAL((long)(2 * PAGE), uffd_zeropage(fd, p + 2 * PAGE, 2 * PAGE, 0));
	view_page(page(p, 0), "rw");
	view_page(page(p, 1), "r-");
	view_page(page(p, 2), "r-");
	view_same(p + 2 * PAGE, p + 3 * PAGE);
	view_differ(p, p + PAGE);
	view_differ(p, from);
	view_remember("copied", p);
	CHECK_EQUAL(0xc0b1ed, *page(p, 0));
	CHECK_EQUAL(0, uffd_writeprotect(fd, p, 2 * PAGE, UFFDIO_WRITEPROTECT_MODE_WP));
	view_page(page(p, 0), "r-");
	CHECK_EQUAL(0, uffd_writeprotect(fd, p, 2 * PAGE, 0));
	*page(p, 0) = 0x600d;
	*page(p, 1) = 0x700d;
	view_page(page(p, 0), "rw");
	view_page(page(p, 1), "rw");
	view_is("copied", p);
	test_end();
}
