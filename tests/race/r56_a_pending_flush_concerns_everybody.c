/*
 * R56. Two threads drop the same page. The first has emptied the entry and not flushed yet; the second finds nothing to do. When it
 * returns, its caller relies on the page being gone all the same, on every CPU.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=56
 * shows: still reads
 */
#include "race.h"
#include "drop_race.h"

static void racing(void)
{
	race_drops(map_pages(1, RW, ANON), PAGE);
}

/* -- forced: the second drops while the first is about to flush. The second never leaves its CPU, whose TLB knows the page -- */

static volatile int is_hot, may_drop;
static volatile long seen;

static void drop_once(void *arg)
{
	(void)arg;
	run_on(0);
	MUST(madvise((void *)page, PAGE, MADV_DONTNEED) == 0);
}

static void second_drop(void *arg)
{
	(void)arg;
	run_on(1);
	*page = 77;
	is_hot = 1;
	while (!may_drop)
		__asm__ volatile("pause");
	MUST(madvise((void *)page, PAGE, MADV_DONTNEED) == 0);
	seen = *page;
}

static void forced(void)
{
	struct actor one, two;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;			/* the second could not stay on its CPU */
	run_on(0);
	page = (volatile long *)map_pages(1, RW, ANON);
	for (int i = 0; i < 3; i++) {
		is_hot = may_drop = 0;
		actor_create(&one, drop_once, NULL);
		actor_create(&two, second_drop, NULL);
		two.start = 1;
		MUST(wait_flag(&is_hot, 5000));
		actor_start_and_hold(&one, "zap_before_flush");
		may_drop = 1;
		wait_flag(&two.done, 1000);
		go();
		actor_join(&two);
		actor_join(&one);
		if (seen) {
			printf("after MADV_DONTNEED the page still reads %ld\n", seen);
			test_failures++;
		}
	}
}

int main(void)
{
	run_race(racing, forced, 32);
}
