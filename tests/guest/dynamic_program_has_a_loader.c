/*
 * PT_INTERP: the loader maps libc and runs us; both are found in our maps, and dlopen-free symbols resolve.
 * link: dynamic
 */
#include <pthread.h>
#include <sys/auxv.h>

#include "test.h"

static void *thread(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	char line[256];
	int loader = 0, self = 0;
	pthread_t t;
	void *result;
	FILE *maps = fopen("/proc/self/maps", "r");

	(void)argc;
	MUST(maps != NULL);
	while (fgets(line, sizeof(line), maps)) {
		loader |= strstr(line, "ld-musl") != NULL;
		self |= strstr(line, "dynamic_program") != NULL;
	}
	CHECK(loader);
	CHECK(self);
	CHECK(getauxval(AT_BASE) != 0);
	CHECK(getauxval(AT_PHDR) != 0);
	CHECK(strstr(argv[0], "dynamic_program") != NULL);
	MUST(pthread_create(&t, NULL, thread, line) == 0);
	MUST(pthread_join(t, &result) == 0);
	CHECK(result == line);
	test_end();
}
