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

static void forced(void)
{
	force_drops(map_pages(1, RW, ANON), PAGE, "zap_before_flush");
}

int main(void)
{
	run_race(racing, forced, 32);
}
