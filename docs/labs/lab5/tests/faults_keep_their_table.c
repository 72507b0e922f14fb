/*
 * Race 1 of docs/races.md, with a semaphore for each VMA: a fault stands before its entry, and another thread wants to take the table
 * away. The same program as in tests/race, with the racing part cut short.
 * append: hugepages=64 hugetlb.sync=vma
 * build: debug
 * seeds: 2
 * budget: 2500
 */
#define RACE_SECONDS	0.05
#include "tests/labs/lab_test.h"
#define main race_main
#include "tests/race/r01_an_entry_does_not_outlive_its_table.c"
#undef main

int main(void)
{
	if (access("/sys/kernel/faultline/hugetlb.sync", R_OK) == 0)
		CHECK(sync_is("vma"));
	return race_main();
}
