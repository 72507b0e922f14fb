/*
 * R55. While mremap carries pages to their new address, who looks for all mappings of a page of the file (to take it away, or to write it
 * back) must not look at the new place before the page arrives and at the old one after it has left (CVE-2022-41222).
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=55
 * shows: still shows what was punched out|PANIC
 */
#include "race.h"

#define PAGES 4

static int fd;
/* Where no mapping lands by itself: what has moved away leaves a hole. */
static char *const here = (char *)0x30000000, *const there = (char *)0x31000000;

static void move(struct racer *r)
{
	(void)r;
	MUST(mremap(here, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
	MUST(mremap(there, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, here) == here);
}

static void read_all(struct racer *r)
{
	long v = 0;

	for (int i = 0; i < PAGES; i++)
		touch((volatile long *)((r->rounds & 1 ? here : there) + (size_t)i * PAGE), false, &v);
}

/* Only we write to the file; after a punch nobody sees what we wrote before it. */
static void punch(struct racer *r)
{
	long v = (long)r->rounds + 1, got = 0;
	char *at[] = { here, there };

	MUST(pwrite(fd, &v, sizeof(v), 0) == sizeof(v));
	touch((volatile long *)here, false, &got);
	MUST(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGES * PAGE) == 0);
	for (int i = 0; i < 2; i++) {
		got = 0;
		if (!touch((volatile long *)at[i], false, &got) && got) {
			printf("a mapping still shows what was punched out: %ld\n", got);
			test_failures++;
		}
	}
}

static void map_file(void)
{
	fd = make_memfd(PAGES, 0);
	MUST(mmap(here, PAGES * PAGE, RW, MAP_SHARED | MAP_FIXED, fd, 0) == here);
}

static void racing(void)
{
	struct racer racers[] = { { .round = move }, { .round = read_all }, { .round = punch } };

	map_file();
	race(RACE_SECONDS, racers, 3);
}

/*
 * -- forced. The punch unmaps twice: the whole range, then again what it finds mapped when it takes the page out. So the page has to slip
 * past it twice, once on its way there and once on its way back: each time the walk has looked at the new place only, when it moves. --
 */
static void move_there(void *arg)
{
	(void)arg;
	MUST(mremap(here, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
}

static void move_back(void *arg)
{
	(void)arg;
	MUST(mremap(there, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, here) == here);
}

static void punch_once(void *arg)
{
	(void)arg;
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGES * PAGE) == 0);
}

static void forced(void)
{
	struct actor away, back, puncher;
	long got = 0;

	map_file();
	((long *)here)[0] = 5;
	actor_create(&away, move_there, NULL);
	actor_create(&back, move_back, NULL);
	actor_create(&puncher, punch_once, NULL);

	race_command("hold mremap_target_built:%d until away", away.tid);
	race_command("hold mremap_target_built:%d until back", back.tid);
	race_command("hold truncate_unmapped:%d until mremap_target_built:%d", puncher.tid, back.tid);
	race_command("hold unmap_next_vma:%d until first_walk", puncher.tid);
	away.start = 1;
	CHECK(is_held("mremap_target_built"));
	puncher.start = 1;
	CHECK(is_held("unmap_next_vma"));
	race_command("pass away");		/* the entries move, behind the walk; as it should be, they wait for it */
	actor_try(&away);
	race_command("pass first_walk");
	actor_join(&away);
	race_command("hold unmap_next_vma:%d until second_walk", puncher.tid);
	back.start = 1;
	CHECK(is_held("mremap_target_built") || is_blocked(back.tid));
	race_command("pass back");
	actor_try(&back);
	race_command("pass second_walk");
	actor_join(&back);
	actor_join(&puncher);
	if (!touch((volatile long *)here, false, &got) && got) {
		printf("a mapping still shows what was punched out: %ld\n", got);
		test_failures++;
	}
}

int main(void)
{
	run_race(racing, forced, 32);
}
