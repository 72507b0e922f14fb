/*
 * Of boot parameters that say the same thing twice the first counts: a size that was named before is ignored, and so is the number that
 * follows it; a second number for one size; a second default. Only a default size may be named once more, for its number.
 * append: hugepagesz=2M hugepages=3 hugepages=4 hugepagesz=2M hugepages=5 default_hugepagesz=2M default_hugepagesz=1G hugepages=6
 */
#include "hugetlb_test.h"

int main(void)
{
	CHECK_EQUAL(3, read_number(POOL "nr_hugepages"));
	CHECK_EQUAL(3, read_number("/proc/sys/vm/nr_hugepages"));
	CHECK_EQUAL(2048, proc_number("/proc/meminfo", "Hugepagesize"));
	test_end();
}
