/*
 * C7. While a VMA is split its upper part is nowhere in the tree for a moment. A fault there that finds nothing has met a writer, and waits
 * for the end of his period; it does not queue for mmap_lock.
 *
 * only: faultline
 * build: debug
 */
#include "race.h"

static char *area;
static volatile long value;

static long mmap_locks_by_faults(void)
{
	char class[32], caller[32], mode[32], line[256];
	long acquired, sum = 0;
	FILE *f = fopen("/proc/lock_stat", "r");

	MUST(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%31s %31s %31s %ld", class, caller, mode, &acquired) == 4 && !strcmp(class, "MMAP") && !strcmp(caller, "fault"))
			sum += acquired;
	fclose(f);
	return sum;
}

static void unmap_the_middle(void *arg)
{
	(void)arg;
	MUST(munmap(area + PAGE, PAGE) == 0);
}

static void touch_the_last(void *arg)
{
	(void)arg;
	*(volatile char *)(area + 2 * PAGE) = 7;
	value = *(volatile char *)(area + 2 * PAGE);
}

static void forced(void)
{
	struct actor splitter, toucher;

	area = mmap(NULL, 3 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(area != MAP_FAILED);
	actor_create(&splitter, unmap_the_middle, NULL);
	actor_create(&toucher, touch_the_last, NULL);

	long before = mmap_locks_by_faults();

	actor_start_and_hold(&splitter, "vma_split_bounds");
	actor_try(&toucher);
	CHECK(!toucher.done);
	go();
	actor_join(&splitter);
	actor_join(&toucher);
	CHECK_EQUAL(7, value);
	CHECK_EQUAL(0, mmap_locks_by_faults() - before);
}

static void nothing_more(void) { }

int main(void)
{
	run_race(nothing_more, forced, 32);
}
