/*
 * Memory used up by user pages: the process that holds most is killed by SIGKILL, small ones and their parents live on,
 * and afterwards there is as much memory as before. Several at once, too.
 *
 * mem: 256M
 * timeout: 120
 */
#include "test.h"

#include <sys/mman.h>

#define STEP (1ul << 20)

static unsigned long free_kib(void)
{
	char line[128];
	unsigned long kib = 0;
	FILE *f = fopen("/proc/meminfo", "r");

	MUST(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemFree: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

static pid_t start_eater(void)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid)
		return pid;
	for (;;) {
		char *p = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			_exit(3);
		memset(p, 1, STEP);
	}
}

static void eaters_die(int n)
{
	pid_t pids[8], bystander = fork();
	int status;

	MUST(bystander >= 0);
	if (!bystander)
		for (;;)
			pause();
	for (int i = 0; i < n; i++)
		pids[i] = start_eater();
	for (int i = 0; i < n; i++) {
		CHECK_EQUAL(pids[i], waitpid(pids[i], &status, 0));
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	CHECK_EQUAL(0, waitpid(bystander, &status, WNOHANG));	/* it held next to nothing */
	kill(bystander, SIGKILL);
	waitpid(bystander, &status, 0);
}

int main(void)
{
	eaters_die(1);			/* warms the caches up */
	unsigned long before = free_kib();
	eaters_die(1);
	eaters_die(4);
	unsigned long after = free_kib();
	for (int i = 0; i < 50 && after + 4096 < before; i++) {	/* what RCU and workers still hold comes back soon */
		usleep(100000);
		after = free_kib();
	}
	CHECK(after + 4096 >= before);
	test_end();
}
