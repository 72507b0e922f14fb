/*
 * After fork both have the same frames. A write by one gives it a frame of its own, with the same contents, and the other sees
 * nothing of it, whoever writes first; and writes of the parent right after fork do not reach the child.
 */
#include "tests/labs/lab_test.h"

#define N	64ul

static char *p;
static unsigned long long *frames;	/* shared with the child */
static volatile int *step;

static void wait_step(int n)
{
	for (; *step < n; relax())
		sched_yield();
}

static void child(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < N; i++)
		if (i != 1)
			frames[i] = frame_of(p + i * PAGE);
	*step = 1;
	wait_step(2);
	for (size_t i = 0; i < N; i++)		/* the parent has written the odd ones */
		CHECK_EQUAL((char)i, p[i * PAGE + 3]);
	for (size_t i = 0; i < N; i += 2)
		p[i * PAGE + 3] = 99;
	for (size_t i = 0; i < N; i += 2) {
		CHECK(frame_of(p + i * PAGE) != frames[i]);
		CHECK_EQUAL((char)i, p[i * PAGE]);
	}
	*step = 3;
	wait_step(4);
}

int main(void)
{
	unsigned long long mine[N];
	int status;
	pid_t pid;

	p = map_alone(N, RW);
	frames = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	step = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(frames != MAP_FAILED && step != MAP_FAILED);
	for (size_t i = 0; i < N; i++)
		memset(p + i * PAGE, (int)i, PAGE);
	for (size_t i = 0; i < N; i++)
		mine[i] = frame_of(p + i * PAGE);
	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		child(NULL);
		fflush(stdout);
		_exit(test_failures != 0);
	}
	p[PAGE + 3] = 55;			/* at once: through a translation from before? */
	wait_step(1);
	for (size_t i = 0; i < N; i++)
		if (i != 1)
			CHECK_EQUAL(mine[i], frames[i]);
	for (size_t i = 1; i < N; i += 2)
		p[i * PAGE + 3] = 55;
	for (size_t i = 1; i < N; i += 2) {
		CHECK(frame_of(p + i * PAGE) != mine[i]);
		CHECK_EQUAL((char)i, p[i * PAGE]);
	}
	*step = 2;
	wait_step(3);
	for (size_t i = 0; i < N; i++)
		CHECK_EQUAL(i % 2 ? 55 : (char)i, p[i * PAGE + 3]);
	*step = 4;
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	test_end();
}
