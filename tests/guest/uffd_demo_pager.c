/*
 * The demonstration program runs, and finds its own memory right; what it cannot work with it says, and ends.
 */
#define main demo_main
#include "user/demo/uffd_pager.c"
#undef main

#include "uffd_demo.h"

int main(void)
{
	RUNS(0, " served, sums ");
	RUNS(2, "usage: uffd_pager", W("a"), W("b"));
	RUNS(1, "/nowhere: No such file", W("/nowhere"));
	RUNS(1, "not a regular file", W("/tmp"));
	RUNS(1, "not a regular file", W("/dev/zero"));
	MUST(mkfifo("/tmp/demo-pipe", 0600) == 0);
	RUNS(1, "not a regular file", W("/tmp/demo-pipe"));
	unlink("/tmp/demo-pipe");

	/* Nothing, one byte, a page and one byte more. */
	int fd = open("/tmp/demo-file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	MUST(fd >= 0);
	RUNS(1, "empty", W("/tmp/demo-file"));
	MUST(write(fd, "x", 1) == 1);
	RUNS(0, " 1 pages, 1 served", W("/tmp/demo-file"));
	MUST(pwrite(fd, "yz", 2, PAGE - 1) == 2);
	RUNS(0, " 2 pages, 2 served", W("/tmp/demo-file"));
	unlink("/tmp/demo-file");

	/* Without any of the standard descriptors but the two that are looked at. */
	close(0);
	RUNS(0, " served, sums ");
	test_end();
}
