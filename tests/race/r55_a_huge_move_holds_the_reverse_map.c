/*
 * R55 with huge pages. Who looks for all mappings of a page, to take it away, must not look at the new place before the page arrives
 * there and at the old one after it has left.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 */
#include "hugetlb.h"

#define PAGES 2

static char *const here = WINDOW(0), *const there = WINDOW(2);

static void move(struct racer *r)
{
	(void)r;
	MUST(mremap(here, PAGES * HUGE, PAGES * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
	MUST(mremap(there, PAGES * HUGE, PAGES * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, here) == here);
}

static void read_all(struct racer *r)
{
	long value = 0;

	for (int i = 0; i < PAGES; i++)
		touch((volatile long *)((r->rounds & 1 ? here : there) + (size_t)i * HUGE), false, &value);
}

/* Only we write to the file; after a punch nobody sees what we wrote before it. */
static void punch(struct racer *r)
{
	char *at[] = { here, there };
	long got = 0, value = (long)r->rounds + 1;

	for (int i = 0; i < 2; i++)
		touch((volatile long *)at[i], true, &value);
	MUST(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGES * HUGE) == 0);
	for (int i = 0; i < 2; i++) {
		got = 0;
		if (!touch((volatile long *)at[i], false, &got) && got) {
			printf("a mapping still shows what was punched out: %ld\n", got);
			test_failures++;
		}
	}
}

static void racing(void)
{
	struct racer racers[] = { { .round = move }, { .round = read_all }, { .round = punch } };

	make_huge_file(PAGES);
	map_window(0, PAGES * HUGE, RW);
	race(RACE_SECONDS, racers, 3);
}

int main(void)
{
	run_huge_race(racing, NULL, 32);
}
