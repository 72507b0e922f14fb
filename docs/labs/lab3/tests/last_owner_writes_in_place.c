/*
 * When the other owners of a page are gone, it is written where it is: same frame, no copy. And no page is lost on the way: many
 * forks later as much memory is free as before.
 */
#include "tests/labs/lab_test.h"

#define N	32ul

static char *p;

static void write_all(void *value)
{
	for (size_t i = 0; i < N; i++)
		p[i * PAGE] = (char)(long)value;
}

static void nothing(void *unused)
{
	(void)unused;
}

int main(void)
{
	unsigned long long frames[N];
	long before = 0, copied;

	p = map_alone(N, RW);
	write_all((void *)1);
	for (size_t i = 0; i < N; i++)
		frames[i] = frame_of(p + i * PAGE);
	CHECK_EQUAL(0, in_child(nothing, NULL));
	write_all((void *)2);
	for (size_t i = 0; i < N; i++)
		CHECK_EQUAL(frames[i], frame_of(p + i * PAGE));
	/* The child copied all: then each has its own, and nothing is left to copy for us. */
	CHECK_EQUAL(0, in_child(write_all, (void *)3));
	for (size_t i = 0; i < N; i++)
		CHECK_EQUAL(2, p[i * PAGE]);
	write_all((void *)4);
	for (size_t i = 0; i < N; i++)
		CHECK_EQUAL(frames[i], frame_of(p + i * PAGE));

	for (int round = 0; round < 40; round++) {
		if (round == 5)
			before = meminfo("MemFree");
		MUST(in_child(write_all, (void *)5) == 0);
		write_all((void *)6);
	}
	for (int i = 0; i < 50; i++) {		/* what is freed after a grace period takes its time */
		copied = (before - meminfo("MemFree")) / 4;
		if (copied < 200)
			break;
		sleep_ms(10);
	}
	if (copied >= 200) {
		printf("%ld pages are gone after 35 forks with %lu writes each\n", copied, 2 * N);
		test_failures++;
	}
	test_end();
}
