/* A fault has its page ready and is about to install it. Who replaces the mapping has to wait for it. */
#include "windows.h"

static void write_there(void *p)
{
	write_long(p, 7);
}

static void map_read_only(void *p)
{
	if (mmap(p, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0) != p)
		die("mmap");
}

int main(void)
{
	char *area = mmap(NULL, 3 * PAGE, RW, ANON, -1, 0);
	struct actor writer, mapper;

	catch_faults();
	command("seed 0");
	run_on(0);
	area[0] = area[2 * PAGE] = 1;
	create(&writer, 1, write_there, area + PAGE);
	create(&mapper, 0, map_read_only, area + PAGE);
	start_and_hold(&writer, "anon_page_ready");
	start_and_see_it_wait(&mapper);
	command("pass go");
	join(&mapper);
	join(&writer);
	if (*(volatile long *)(area + PAGE))
		die("a fresh read-only page is not empty: a fault came in with the old mapping's rights");
	return 0;
}
