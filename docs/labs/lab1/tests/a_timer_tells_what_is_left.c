/*
 * timerfd_gettime, over and over, while the timer that it asks about fires; and what it says is never more than the period.
 * build: debug
 * budget: 2000
 */
#include "tests/labs/lab_test.h"

#include <sys/timerfd.h>

int main(void)
{
	struct itimerspec period = { { 0, 300000 }, { 0, 300000 } }, left;
	uint64_t fired = 0;
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);

	MUST(fd >= 0 && timerfd_settime(fd, 0, &period, NULL) == 0);
	for (int i = 0; i < 2000; i++) {
		CHECK_EQUAL(0, timerfd_gettime(fd, &left));
		CHECK(left.it_value.tv_sec == 0 && left.it_value.tv_nsec >= 0 && left.it_value.tv_nsec <= 300000);
		CHECK_EQUAL(300000, left.it_interval.tv_nsec);
		if (test_failures > 5)
			break;
	}
	MUST(read(fd, &fired, 8) == 8);
	CHECK(fired > 0);
	test_end();
}
