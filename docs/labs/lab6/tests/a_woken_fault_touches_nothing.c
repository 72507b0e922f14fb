/*
 * Race 37 of docs/races.md: the same program as in tests/race, with the racing part cut short. Its forced part unmaps the memory of a fault that
 * is about to sleep, and wakes it when the VMA has been freed.
 * build: debug
 * budget: 6000
 */
#define RACE_SECONDS	0.05
#include "tests/labs/lab_test.h"
#define main race_main
#include "tests/race/r37_a_woken_fault_touches_nothing.c"
#undef main

int main(void)
{
	return race_main();
}
