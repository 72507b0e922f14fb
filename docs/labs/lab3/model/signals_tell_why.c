/* Memory that is there but may not be written, and memory that is not there, are told apart. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

static sigjmp_buf back;
static volatile int code;

static void handler(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)context;
	code = si->si_code;
	siglongjmp(back, 1);
}

static int code_of_write(volatile char *p)
{
	code = 0;
	if (!sigsetjmp(back, 1))
		*p = 1;
	return code;
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	volatile char *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sigaction(SIGSEGV, &sa, NULL);
	if (code_of_write(p) != SEGV_ACCERR) {
		printf("read-only: code %d\n", code);
		return 1;
	}
	munmap((void *)p, 4096);
	if (code_of_write(p) != SEGV_MAPERR) {
		printf("unmapped: code %d\n", code);
		return 1;
	}
	return 0;
}
