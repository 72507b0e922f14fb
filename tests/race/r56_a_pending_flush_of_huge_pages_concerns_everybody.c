/*
 * R56 with huge pages. Two threads drop the same page. The first has emptied the entry and not flushed yet; the second finds nothing
 * to do. When it returns, its caller relies on the page being gone, on every CPU. Here the second has to wait: the lock that keeps faults
 * from an empty pool (R15) is held until the flush is over.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=56
 * shows: still reads
 */
#include "hugetlb.h"
#include "drop_race.h"

static void racing(void)
{
	race_drops(map_huge(1, RW, HUGE_ANON, -1), HUGE);
}

static void forced(void)
{
	force_drops(map_huge(1, RW, HUGE_ANON, -1), HUGE, "hugetlb_zapped");
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
