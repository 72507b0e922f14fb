/*
 * close_range over pipes, files and gaps, while another thread opens and closes: what is in the range is closed, who reads the other end of a pipe sees
 * its end, and nothing else is touched.
 * build: debug
 * budget: 3000
 */
#include "tests/labs/lab_test.h"

#define PIPES	20
#define FIRST	500

static volatile int stop;

static void *open_and_close(void *unused)
{
	(void)unused;
	while (!stop) {
		int fd = open("/proc/self/stat", O_RDONLY);

		MUST(fd >= 0 && close(fd) == 0);
		relax();
	}
	return NULL;
}

int main(void)
{
	int readers[PIPES], keep = open("/proc/self/stat", O_RDONLY);
	pthread_t thread;
	char c;

	MUST(keep >= 0 && pthread_create(&thread, NULL, open_and_close, NULL) == 0);
	for (int i = 0; i < PIPES; i++) {
		int ends[2];

		MUST(pipe(ends) == 0);
		readers[i] = ends[0];
		MUST(dup2(ends[1], FIRST + 2 * i) == FIRST + 2 * i && close(ends[1]) == 0);
	}
	MUST(dup2(keep, FIRST + 2 * PIPES + 1) >= 0 && dup2(keep, FIRST + 1) >= 0);
	CHECK_EQUAL(0, syscall(SYS_close_range, FIRST, FIRST + 2 * PIPES, 0));
	for (int i = 0; i < PIPES; i++) {
		CHECK_EQUAL(0, read(readers[i], &c, 1));
		CHECK_ERRNO(EBADF, fcntl(FIRST + 2 * i, F_GETFD));
	}
	CHECK_ERRNO(EBADF, fcntl(FIRST + 1, F_GETFD));
	CHECK(fcntl(FIRST + 2 * PIPES + 1, F_GETFD) >= 0);
	CHECK(fcntl(keep, F_GETFD) >= 0);
	stop = 1;
	pthread_join(thread, NULL);
	test_end();
}
