/*
 * Race 32 of docs/races.md: the same program as in tests/race, with the racing part cut short. Its forced part protects a page that another
 * processor writes to all the time; when the call has returned, the page stands still.
 * build: debug
 * budget: 6000
 */
#define RACE_SECONDS	0.05
#include "tests/labs/lab_test.h"
#define main race_main
#include "tests/race/r32_protection_is_flushed_before_a_copy.c"
#undef main

int main(void)
{
	return race_main();
}
