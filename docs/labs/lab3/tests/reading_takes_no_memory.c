/*
 * Pages that nobody has written are all the same page of zeros, which costs nothing and is not counted. The first write takes a page
 * of its own, and no other reader notices.
 */
#include "tests/labs/lab_test.h"

#define N	128ul

int main(void)
{
	char *p = map_alone(N, RW), *q = map_alone(1, PROT_READ);
	long rss, before, sum = 0;

	(void)status_kb("RssAnon");
	rss = status_kb("RssAnon");
	before = faults();
	for (size_t i = 0; i < N; i++)
		sum += p[i * PAGE + 5];
	CHECK_EQUAL(0, sum);
	CHECK_EQUAL(N, faults() - before);
	CHECK_EQUAL(0, status_kb("RssAnon") - rss);
	CHECK_EQUAL(0, q[0]);
	for (size_t i = 0; i < N; i++)
		CHECK_EQUAL(frame_of(q), frame_of(p + i * PAGE));
	before = faults();
	for (size_t i = 0; i < N; i += 2)
		p[i * PAGE] = 7;
	CHECK_EQUAL(N / 2, faults() - before);
	CHECK_EQUAL(4 * (long)N / 2, status_kb("RssAnon") - rss);
	for (size_t i = 0; i < N; i++) {
		CHECK_EQUAL(i % 2 ? 0 : 7, p[i * PAGE]);
		CHECK_EQUAL(0, p[i * PAGE + 1]);
		CHECK((frame_of(p + i * PAGE) == frame_of(q)) == (i % 2 == 1));
	}
	CHECK_EQUAL(0, q[0]);
	test_end();
}
