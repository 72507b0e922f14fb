/*
 * The demonstration program runs, and finds its own memory right; what it cannot work with it says, and ends.
 */
#define main demo_main
#include "user/demo/uffd_snapshot.c"
#undef main

#include "uffd_demo.h"

int main(void)
{
	static const char *const bad[] = { "0", "-1", "x", "", "1.5", "1025", "99999999999999999999" };

	RUNS(0, "12 of 12 images");
	RUNS(0, "3 of 3 images", W("1"), W("3"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		RUNS(2, "usage: uffd_snapshot", (char *)bad[i]);
	RUNS(2, "usage: uffd_snapshot", W("1"), W("0"));
	RUNS(2, "usage: uffd_snapshot", W("1"), W("1"), W("1"));
	close(0);
	RUNS(0, "3 of 3 images", W("1"), W("3"));
	test_end();
}
