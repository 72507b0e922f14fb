/*
 * Race 26 of docs/races.md: the same program as in tests/race, with the racing part cut short. Its forced part holds a fault that has seen its
 * page missing until the page is there, and its wake-up gone by.
 * build: debug
 * seeds: 2
 * budget: 6000
 */
#define RACE_SECONDS	0.05
#include "tests/labs/lab_test.h"
#define main race_main
#include "tests/race/r26_a_sleeper_can_be_found.c"
#undef main

int main(void)
{
	return race_main();
}
