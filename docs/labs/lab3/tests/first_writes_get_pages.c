/* Anonymous memory: mapping costs nothing, each page costs one fault at its first write, comes empty, and counts as resident. */
#include "tests/labs/lab_test.h"

#define N	200ul

int main(void)
{
	char *p = map_alone(N, RW);
	long rss, before;

	(void)status_kb("RssAnon");
	for (size_t i = 0; i < N; i++)
		CHECK(frame_of(p + i * PAGE) == 0);
	rss = status_kb("RssAnon");
	before = faults();
	for (size_t i = 0; i < N; i++)
		p[i * PAGE + i] = (char)(i + 1);
	CHECK_EQUAL(N, faults() - before);
	CHECK_EQUAL(4 * N, status_kb("RssAnon") - rss);
	before = faults();
	for (size_t i = 0; i < N; i++) {
		for (size_t k = 0; k < PAGE; k++)
			if (p[i * PAGE + k] != (k == i ? (char)(i + 1) : 0)) {
				printf("page %zu, byte %zu is %d\n", i, k, p[i * PAGE + k]);
				test_failures++;
				break;
			}
		p[i * PAGE] = 1;
	}
	CHECK_EQUAL(0, faults() - before);
	for (size_t i = 1; i < N; i++)
		CHECK(frame_of(p + i * PAGE) != frame_of(p + (i - 1) * PAGE));
	/* Gone and back: empty again. */
	CHECK(madvise(p, N * PAGE, MADV_DONTNEED) == 0);
	CHECK_EQUAL(0, status_kb("RssAnon") - rss);
	p[1] = 1;
	CHECK_EQUAL(0, p[0]);
	/* Rights: read-only memory is not written, write-only memory can be. */
	catch_faults();
	char *ro = map_alone(1, PROT_READ), *wo = map_alone(1, PROT_WRITE);
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, ro, access_byte((unsigned long)ro, WRITE));
	CHECK_NO_FAULT(access_byte((unsigned long)wo, WRITE));
	CHECK_EQUAL('w', *wo);
	test_end();
}
