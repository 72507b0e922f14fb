/*
 * Several threads wait for one byte each; one write brings all of them.
 * build: debug
 * budget: 3000
 */
#include "lab1.h"

#define READERS	3

static int ends[2];
static char got[READERS];

static void read_one(void *arg)
{
	MUST(read(ends[0], &got[(long)arg], 1) == 1);
}

int main(void)
{
	for (int round = 0; round < 5; round++) {
		struct actor reader[READERS];

		MUST(pipe(ends) == 0);
		for (long i = 0; i < READERS; i++) {
			actor_create(&reader[i], read_one, (void *)i);
			reader[i].start = 1;
			CHECK(stays(getpid(), reader[i].tid, "S"));
		}
		MUST(write(ends[1], "abc", READERS) == READERS);
		for (int i = 0; i < READERS; i++)
			must_finish(&reader[i], "there is a byte for it in the pipe, and it waits: reader");
		CHECK_EQUAL('a' + 'b' + 'c', got[0] + got[1] + got[2]);
		close(ends[0]);
		close(ends[1]);
	}
	test_end();
}
