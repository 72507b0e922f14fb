/*
 * The demonstration program runs, and finds its own memory right; what it cannot work with it says, and ends.
 */
#define main demo_main
#include "user/demo/uffd_migrate.c"
#undef main

#include "uffd_demo.h"

int main(void)
{
	static const char *const bad[] = { "0", "-1", "x", "", "4x", "1025", "18446744073709551617" };
	char *large[] = { W("demo"), W("32"), NULL }, *small[] = { W("demo"), W("4"), NULL };
	int out;

	RUNS(0, "memory right");
	RUNS(0, "256 pages", W("1"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		RUNS(2, "usage: uffd_migrate", (char *)bad[i]);
	RUNS(2, "usage: uffd_migrate", W("1"), W("1"));

	/* The source dies while its memory is still being made: whoever waits for a page must not wait for ever. */
	pid_t pid = demo_start(large, &out), source = child_of(pid);
	kill(source, SIGKILL);
	demo_end(__LINE__, pid, out, 1, "the other process is gone");

	/* The destination dies, and the source must not stay behind: then the pipe would have a writer for ever. */
	pid = demo_start(small, &out);
	child_of(pid);
	kill(pid, SIGKILL);
	char c;
	while (read(out, &c, 1) > 0)
		;
	MUST(waitpid(pid, NULL, 0) == pid);

	close(0);
	RUNS(0, "256 pages", W("1"));
	test_end();
}
