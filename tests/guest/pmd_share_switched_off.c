/*
 * hugetlb.pmd_share=off: everybody has tables of his own, with every value of hugetlb.sync that makes a difference there.
 *
 * only: faultline
 * append: hugepages=24 hugetlb.sync=file hugetlb.pmd_share=off
 */
#include "pmd_share_test.h"

static void reads_all(void)
{
	CHECK_EQUAL(PAGES, faults_reading(WINDOW, PAGES, 1));
}

int main(void)
{
	int fd = huge_file(1);

	map_huge(WINDOW, GIB, RW, MAP_SHARED, fd, 0);
	fill(WINDOW, PAGES, 1);
	in_checked_child(reads_all);
	CHECK_EQUAL(0, proc_number("/proc/vmstat", "pmd_share"));
	test_end();
}
