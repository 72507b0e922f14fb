/*
 * Sixty thousand VMAs in one process, made by mmap and by mprotect in a scattered order: each is found, changed, merged and
 * unmapped again. Rules A2, A3, A6.
 * timeout: 180
 */
#include "mm_test.h"

#define PAGES	60000ul

/* Lines of maps, in pieces: the whole would be megabytes. */
static long count_lines(void)
{
	static char buf[65536];
	long n = 0, got;
	int fd = open("/proc/self/maps", O_RDONLY);

	MUST(fd >= 0);
	while ((got = read(fd, buf, sizeof(buf))) > 0)
		for (long i = 0; i < got; i++)
			n += buf[i] == '\n';
	MUST(got == 0);
	close(fd);
	return n;
}

/* Every page once, far apart from one another: 7919 does not divide into PAGES. */
static size_t scattered(size_t i) { return i * 7919 % PAGES; }

int main(void)
{
	char *p = map_pages(PAGES, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE);
	long before = count_lines();

	catch_faults();
	for (size_t i = 0; i < PAGES; i++) {
		size_t page = scattered(i);

		if (page & 1)
			MUST(mprotect(p + page * PAGE, PAGE, RW) == 0);
	}
	long after = count_lines();
	CHECK(after >= before + (long)PAGES - 2 && after <= before + (long)PAGES);

	/* each has its own rights */
	for (size_t i = 0; i < PAGES; i += 97) {
		size_t page = scattered(i);

		if (page & 1) {
			p[page * PAGE] = (char)page;
			CHECK_EQUAL((char)page, p[page * PAGE]);
		} else {
			CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + page * PAGE, access_byte((unsigned long)p + page * PAGE, READ));
		}
	}

	/* the limit is near: no more than 65530 */
	size_t more = 0;
	char *q = map_pages(8000, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE);
	for (size_t i = 1; i < 8000; i += 2) {
		if (mprotect(q + i * PAGE, PAGE, PROT_READ)) {
			CHECK_EQUAL(ENOMEM, errno);
			break;
		}
		more += 2;
	}
	long all = count_lines();
	CHECK(all >= 65526 && all <= 65533);
	CHECK(labs(all - after - (long)more) <= 3);		/* the new mapping, and the last split may have got half its way */
	CHECK(munmap(q, 8000 * PAGE) == 0);

	/* a child has them all */
	fflush(stdout);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid == 0)
		_exit(count_lines() != after);
	int status;
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);

	/* half of them back to one, the other way round */
	for (size_t i = PAGES; i-- > PAGES / 2; ) {
		size_t page = scattered(i);

		if (page & 1)
			MUST(mprotect(p + page * PAGE, PAGE, PROT_NONE) == 0);
	}
	CHECK(count_lines() < before + (long)PAGES * 6 / 10);
	CHECK(munmap(p + PAGE, (PAGES - 2) * PAGE) == 0);
	CHECK_EQUAL(before + 1, count_lines());
	CHECK(munmap(p, PAGES * PAGE) == 0);

	test_end();
}
