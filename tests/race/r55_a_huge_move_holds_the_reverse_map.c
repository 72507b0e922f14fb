/*
 * R55 with huge pages. Who looks for all mappings of a page, to take it away, must not look at the new place before the page arrives
 * there and at the old one after it has left.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=55
 * shows: still shows what was punched out|PANIC
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

static void must_be_gone(long value)
{
	if (!value)
		return;
	printf("a mapping still shows what was punched out: %ld\n", value);
	test_failures++;
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
		if (!touch((volatile long *)at[i], false, &got))
			must_be_gone(got);
	}
}

static void racing(void)
{
	struct racer racers[] = { { .round = move }, { .round = read_all }, { .round = punch } };

	make_huge_file(PAGES);
	map_window(0, PAGES * HUGE, RW);
	race(RACE_SECONDS, racers, 3);
}

/*
 * -- forced, as in R55 with small pages: a punch unmaps the whole range, and then once more each page that it takes out. So the page has to
 * slip past it twice. A punch of one page: two passes over the list, each past the new place first, where the race is open. --
 */
static void move_there(void *arg)
{
	(void)arg;
	MUST(mremap(here, PAGES * HUGE, PAGES * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
}

static void move_back(void *arg)
{
	(void)arg;
	MUST(mremap(there, PAGES * HUGE, PAGES * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, here) == here);
}

static void punch_once(void *arg)
{
	(void)arg;
	CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HUGE) == 0);
}

static void forced(void)
{
	struct actor away, back, puncher;
	long got = 0;

	make_huge_file(PAGES);
	map_window(0, PAGES * HUGE, RW);
	*(volatile long *)here = 5;
	actor_create(&away, move_there, NULL);
	actor_create(&back, move_back, NULL);
	actor_create(&puncher, punch_once, NULL);

	race_command("hold mremap_target_built:%d until away", away.tid);
	race_command("hold mremap_target_built:%d until back", back.tid);
	race_command("hold hugetlb_truncate_unmapped:%d until mremap_target_built:%d", puncher.tid, back.tid);
	race_command("hold hugetlb_unmapped_vma:%d until first_walk", puncher.tid);
	away.start = 1;
	CHECK(is_held("mremap_target_built"));
	puncher.start = 1;
	CHECK(is_held("hugetlb_unmapped_vma"));
	race_command("pass away");		/* the entries move, behind the walk; as it should be, they wait for it */
	actor_try(&away);
	race_command("pass first_walk");
	actor_join(&away);
	race_command("hold hugetlb_unmapped_vma:%d until second_walk", puncher.tid);
	back.start = 1;
	CHECK(is_held("mremap_target_built") || is_blocked(back.tid));
	race_command("pass back");
	actor_try(&back);
	race_command("pass second_walk");
	actor_join(&back);
	actor_join(&puncher);
	if (!touch((volatile long *)here, false, &got))
		must_be_gone(got);
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
