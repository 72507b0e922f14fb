/*
 * UFFDIO_WRITEPROTECT on pages, on empty places and on markers: who writes waits and is told about by a message, who reads does not; taking the
 * protection off wakes him, and gives back no right that the mapping does not have.
 * budget: 8000
 */
#include "tests/labs/lab_test.h"
#include "tests/guest/uffd_test.h"

#define PAGES	8ul
#define PROTECT	UFFDIO_WRITEPROTECT_MODE_WP
#define TOLD	(UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP)

static char *area;
static int fd;

static void writer_waits(char *p, char c)
{
	struct helper h = { .value = c };
	char old = *p;

	helper_start(&h, do_write, p, 0);
	EXPECT_FAULT(fd, TOLD, (uintptr_t)p & -PAGE);
	CHECK(helper_sleeps(&h));
	CHECK_EQUAL(old, *p);
	CHECK_EQUAL(0, uffd_writeprotect(fd, (char *)((uintptr_t)p & -PAGE), PAGE, 0));
	HELPER_END(&h);
	CHECK_EQUAL(c, *p);
}

static void pages_and_their_neighbours(void)
{
	memset(area, 'm', 4 * PAGE);
	CHECK_EQUAL(0, uffd_writeprotect(fd, area + PAGE, 2 * PAGE, PROTECT));
	area[0] = area[3 * PAGE] = 'n';			/* nobody asks */
	CHECK_EQUAL('m', area[PAGE]);
	EXPECT_SILENCE(fd);
	CHECK(!(pagemap(area) & PM_UFFD_WP) && (pagemap(area + PAGE) & PM_UFFD_WP) && (pagemap(area + 2 * PAGE) & PM_UFFD_WP) &&
	      !(pagemap(area + 3 * PAGE) & PM_UFFD_WP));
	writer_waits(area + PAGE + 10, '1');
	CHECK(!(pagemap(area + PAGE) & PM_UFFD_WP) && (pagemap(area + 2 * PAGE) & PM_UFFD_WP));
	area[PAGE + 11] = '2';
	writer_waits(area + 2 * PAGE, '3');
	EXPECT_SILENCE(fd);
	CHECK_EQUAL(0, uffd_writeprotect(fd, area, 4 * PAGE, PROTECT));
	CHECK_EQUAL(0, uffd_writeprotect(fd, area, 4 * PAGE, PROTECT));		/* again: the same */
	writer_waits(area + 3 * PAGE, '4');
	CHECK_EQUAL(0, uffd_writeprotect(fd, area, 4 * PAGE, 0));
}

static void dontwake_waits_for_wake(void)
{
	struct helper h = { .value = 'd' };

	area[0] = 'c';
	MUST(uffd_writeprotect(fd, area, PAGE, PROTECT) == 0);
	helper_start(&h, do_write, area, 0);
	EXPECT_FAULT(fd, TOLD, area);
	CHECK_EQUAL(0, uffd_writeprotect(fd, area, PAGE, UFFDIO_WRITEPROTECT_MODE_DONTWAKE));
	CHECK(!helper_is_done(&h, 30));
	CHECK_EQUAL(0, uffd_wake(fd, area, PAGE));
	HELPER_END(&h);
	CHECK_EQUAL('d', area[0]);
}

/* With WP_UNPOPULATED protection is remembered where no page is: for the page that comes. Poison is stronger, and stays. */
static void markers(void)
{
	struct helper h = { .value = 'u' };
	long v = 0;

	MUST(madvise(area, PAGES * PAGE, MADV_DONTNEED) == 0);
	CHECK_RESULT(0, (long)PAGE, raw_fill(fd, UFFDIO_POISON, (uintptr_t)area + 5 * PAGE, PAGE, 0));
	CHECK_EQUAL(0, uffd_writeprotect(fd, area + 4 * PAGE, 3 * PAGE, PROTECT));
	CHECK_EQUAL(0, area[4 * PAGE]);			/* a read gets a page; the protection is still there */
	CHECK(pagemap(area + 4 * PAGE) & PM_UFFD_WP);
	helper_start(&h, do_write, area + 4 * PAGE, 0);
	EXPECT_FAULT(fd, TOLD, area + 4 * PAGE);
	CHECK_EQUAL(0, uffd_writeprotect(fd, area + 4 * PAGE, 3 * PAGE, 0));
	HELPER_END(&h);
	CHECK_EQUAL('u', area[4 * PAGE]);
	area[6 * PAGE] = 'x';				/* its marker is gone */
	CHECK_EQUAL('x', area[6 * PAGE]);
	catch_touch_faults();
	CHECK_EQUAL(SIGBUS, touch((volatile long *)(area + 5 * PAGE), false, &v));
	EXPECT_SILENCE(fd);
	MUST(madvise(area, PAGES * PAGE, MADV_DONTNEED) == 0);
}

static void no_new_rights(void)
{
	long v = 7;

	area[PAGE] = 'o';
	MUST(uffd_writeprotect(fd, area + PAGE, PAGE, PROTECT) == 0 && mprotect(area + PAGE, PAGE, PROT_READ) == 0);
	CHECK_EQUAL(0, uffd_writeprotect(fd, area + PAGE, PAGE, 0));
	CHECK_EQUAL(SIGSEGV, touch((volatile long *)(area + PAGE), true, &v));
	CHECK_EQUAL('o', area[PAGE]);
	MUST(mprotect(area + PAGE, PAGE, RW) == 0);
	CHECK_EQUAL(0, touch((volatile long *)(area + PAGE), true, &v));
}

/* A page shared with a child is taken out of protection: it must be copied all the same, not written in place. */
static int pipes[2];
static void child(void *unused)
{
	char c;

	(void)unused;
	MUST(read(pipes[0], &c, 1) == 1);
	CHECK_EQUAL('k', area[7 * PAGE]);
}

static void shared_pages_are_copied(void)
{
	int status;

	MUST(pipe(pipes) == 0);
	area[7 * PAGE] = 'k';
	MUST(uffd_writeprotect(fd, area + 7 * PAGE, PAGE, PROTECT) == 0);
	fflush(stdout);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		child(NULL);
		_exit(test_failures ? 1 : 0);
	}
	CHECK_EQUAL(0, uffd_writeprotect(fd, area + 7 * PAGE, PAGE, 0));
	area[7 * PAGE] = 'p';
	MUST(write(pipes[1], "x", 1) == 1 && waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
}

/* COPY can put a page in protected. */
static void copied_protected(void)
{
	char *p = map_alone(1, RW);

	MUST(uffd_register(fd, p, PAGE, MISSING | WP) == 0);
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, p, source('z', PAGE), PAGE, UFFDIO_COPY_MODE_WP));
	CHECK_EQUAL('z', *p);
	writer_waits(p, 'y');
	munmap(p, PAGE);
}

int main(void)
{
	area = map_alone(PAGES, RW);
	fd = open_uffd(UFFD_FEATURE_WP_UNPOPULATED);
	MUST(uffd_register(fd, area, PAGES * PAGE, WP) == 0);
	pages_and_their_neighbours();
	dontwake_waits_for_wake();
	markers();
	no_new_rights();
	shared_pages_are_copied();
	copied_protected();
	test_end();
}
