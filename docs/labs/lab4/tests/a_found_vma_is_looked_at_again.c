/*
 * Race 51 of docs/races.md: the same program as in tests/race, with the racing part cut short. Its forced part holds one task at a window inside
 * the kernel until the other has done, or waits for, what must not come in between.
 * build: debug
 * budget: 6000
 */
#define RACE_SECONDS	0.05
#include "tests/labs/lab_test.h"
#define main race_main
#include "tests/race/r51_a_found_vma_is_looked_at_again.c"
#undef main

int main(void)
{
	must_use_vma_locks();
	return race_main();
}
