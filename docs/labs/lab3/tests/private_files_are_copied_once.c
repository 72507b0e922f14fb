/*
 * A private mapping of a file. A write to a page that is not mapped yet makes the copy at once: one fault. A page that was read before
 * takes one to read and one to copy. The file keeps what it had, and everybody else sees that.
 */
#include "tests/labs/lab_test.h"

#define N	32ul

int main(void)
{
	int fd = make_memfd(2 * N, 0);
	char *file = mmap(NULL, 2 * N * PAGE, RW, MAP_SHARED, fd, 0);
	char *mine = mmap(NULL, 2 * N * PAGE, RW, MAP_PRIVATE, fd, 0);
	long before, rss, sum = 0;

	MUST(file != MAP_FAILED && mine != MAP_FAILED);
	for (size_t i = 0; i < 2 * N * PAGE; i++)
		file[i] = (char)(i / PAGE + i + 1);
	(void)status_kb("RssAnon");
	rss = status_kb("RssAnon");

	CHECK(madvise(mine, 2 * N * PAGE, MADV_RANDOM) == 0);	/* Linux: do not map neighbours along */
	before = faults();
	for (size_t i = 0; i < N; i++)
		mine[i * PAGE + 9] = 'x';
	CHECK_EQUAL(N, faults() - before);
	CHECK_EQUAL(4 * N, status_kb("RssAnon") - rss);

	for (size_t i = N; i < 2 * N; i++)
		sum += mine[i * PAGE];
	(void)sum;
	before = faults();
	for (size_t i = N; i < 2 * N; i++)
		mine[i * PAGE + 9] = 'x';
	CHECK_EQUAL(N, faults() - before);
	CHECK_EQUAL(8 * N, status_kb("RssAnon") - rss);

	for (size_t i = 0; i < 2 * N * PAGE; i++) {
		char was = (char)(i / PAGE + i + 1);

		if (file[i] != was || mine[i] != (i % PAGE == 9 ? 'x' : was)) {
			printf("byte %zu: the file has %d, the copy %d; it was %d\n", i, file[i], mine[i], was);
			test_failures++;
			break;
		}
	}
	/* Behind the end of the file there is nothing to copy. */
	catch_faults();
	MUST(ftruncate(fd, (off_t)PAGE) == 0);
	CHECK_FAULT(SIGBUS, BUS_ADRERR, file + 3 * PAGE, access_byte((unsigned long)file + 3 * PAGE, READ));
	test_end();
}
