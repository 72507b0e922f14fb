/*
 * /proc/trace is all that the rings hold, also when that is more than a page of text; in order, each record once.
 * only: faultline
 */
#include "mm_test.h"

#define CALLS	500

int main(void)
{
	unsigned long seq, last = 0;
	char line[400];
	int calls = 0;
	FILE *f;

	write_file("/proc/trace", "1");
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid, 0x7ace, i);
	write_file("/proc/trace", "0");
	f = fopen("/proc/trace", "r");
	MUST(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		const char *arg = strstr(line, "\"arg0\":31438,\"arg1\":");	/* 0x7ace */

		MUST(sscanf(line, "{\"seq\":%lu,", &seq) == 1);
		CHECK(seq > last);
		last = seq;
		if (arg)
			CHECK_EQUAL(calls++, atoi(strrchr(line, ':') + 1));
	}
	fclose(f);
	CHECK_EQUAL(CALLS, calls);
	test_end();
}
