/*
 * A compiler in the guest: tcc compiles a threaded program into memory, makes it executable (mprotect) and runs it.
 * libc: glibc
 * libs: -ltcc -ldl
 */
#include <libtcc.h>
#include <pthread.h>

#include "test.h"

static const char source[] =
	"typedef unsigned long pthread_t;\n"
	"int pthread_create(pthread_t *, void *, void *(*)(void *), void *);\n"
	"int pthread_join(pthread_t, void **);\n"
	"static long part[4];\n"
	"static void *work(void *arg) {\n"
	"	long me = (long)arg, i;\n"
	"	for (i = me; i < 100000; i += 4) part[me] += i;\n"
	"	return 0;\n"
	"}\n"
	"long run(void) {\n"
	"	pthread_t t[4]; long i, sum = 0;\n"
	"	for (i = 0; i < 4; i++) if (pthread_create(&t[i], 0, work, (void *)i)) return -1;\n"
	"	for (i = 0; i < 4; i++) { pthread_join(t[i], 0); sum += part[i]; }\n"
	"	return sum;\n"
	"}\n";

int main(void)
{
	TCCState *tcc = tcc_new();
	long (*run)(void);

	MUST(tcc != NULL);
	tcc_set_options(tcc, "-nostdlib -nostdinc");
	tcc_set_output_type(tcc, TCC_OUTPUT_MEMORY);
	MUST(tcc_compile_string(tcc, source) == 0);
	tcc_add_symbol(tcc, "pthread_create", pthread_create);
	tcc_add_symbol(tcc, "pthread_join", pthread_join);
	MUST(tcc_relocate(tcc, TCC_RELOCATE_AUTO) >= 0);
	run = (long (*)(void))tcc_get_symbol(tcc, "run");
	MUST(run != NULL);
	CHECK_EQUAL(4999950000L, run());
	tcc_delete(tcc);
	test_end();
}
