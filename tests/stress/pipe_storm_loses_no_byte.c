/*
 * Many writers and readers on one pipe, with sizes around PIPE_BUF and signals in between: every byte arrives once, small
 * writes stay whole.
 * timeout: 120
 */
#include <fcntl.h>
#include <stdint.h>

#include "tests/stress/stress.h"

#define WRITERS 6
#define READERS 3
#define RECORD 512		/* at most PIPE_BUF: atomic */

static void on_signal(int sig) { (void)sig; }

static void writer(int fd, int id)
{
	unsigned char rec[RECORD];

	memset(rec, id, sizeof(rec));
	for (uint32_t i = 0; i < 4000; i++) {
		ssize_t n;

		do
			n = write(fd, rec, sizeof(rec));
		while (n < 0 && errno == EINTR);
		if (n != RECORD)
			_exit(2);
		if (i % 64 == 0)
			kill(getppid(), SIGUSR1);
	}
	_exit(0);
}

/* Counts the records of each writer and reports them; a torn record is status 2. */
static void reader(int fd, int report)
{
	unsigned char rec[RECORD];
	uint32_t counts[WRITERS] = { 0 };

	for (;;) {
		size_t have = 0;

		while (have < sizeof(rec)) {
			ssize_t n = read(fd, rec + have, sizeof(rec) - have);

			if (n < 0 && errno == EINTR)
				continue;
			if (n == 0 && have == 0)
				goto end;
			if (n <= 0)
				_exit(2);
			have += (size_t)n;
		}
		for (size_t i = 1; i < sizeof(rec); i++)
			if (rec[i] != rec[0])
				_exit(3);
		counts[rec[0]]++;
	}
end:
	_exit(write(report, counts, sizeof(counts)) == sizeof(counts) ? 0 : 4);
}

static void work(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	int data[2], report[2];
	uint32_t total[WRITERS] = { 0 }, counts[WRITERS];
	int status;

	sigaction(SIGUSR1, &sa, NULL);
	MUST(pipe(data) == 0 && pipe(report) == 0);
	for (int i = 0; i < READERS; i++) {
		/* Readers read whole records one at a time, so that none is torn between two of them. */
		if (fork() == 0) {
			close(data[1]);
			reader(data[0], report[1]);
		}
	}
	close(data[0]);
	for (int i = 0; i < WRITERS; i++)
		if (fork() == 0)
			writer(data[1], i);
	close(data[1]);
	close(report[1]);
	for (int i = 0; i < READERS; i++) {
		MUST(read(report[0], counts, sizeof(counts)) == sizeof(counts));
		for (int w = 0; w < WRITERS; w++)
			total[w] += counts[w];
	}
	close(report[0]);
	for (int w = 0; w < WRITERS; w++)
		CHECK_EQUAL(4000, total[w]);
	for (int i = 0; i < READERS + WRITERS; i++) {
		MUST(wait(&status) > 0);
		CHECK_EQUAL(0, status);
	}
}

int main(void)
{
	stress_rounds(work, 3, 1024);
	test_end();
}
