/*
 * R39. Memory is write-protected; the range is unregistered, the descriptor closed, the mapping moved; a bit stays in an entry, and the next
 * write to it sends a message to nobody, or waits for ever (CVE-2024-36881). Every way out, from a page and from a marker, is tried by
 * tests/guest/uffd_write_protect.c; here they race with writers.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=39
 * shows: hang|left behind
 */
#include "uffd_race.h"

#define PAGES	4

static char *area;
static volatile unsigned long writes;

static void write_all(struct racer *r)
{
	for (size_t i = 0; i < PAGES; i++)
		((volatile long *)(area + i * PAGE))[r->id]++;
	writes++;
}

static volatile int stop_protecting;
static void *protect(void *arg)
{
	for (int round = 0; !stop_protecting; round++) {
		int fd = open_uffd(UFFD_FEATURE_WP_UNPOPULATED);

		MUST(uffd_register(fd, area, PAGES * PAGE, WP) == 0);
		MUST(uffd_writeprotect(fd, area, PAGES * PAGE, UFFDIO_WRITEPROTECT_MODE_WP) == 0);
		if (round % 3 == 0)
			MUST(madvise(area + PAGE, PAGE, MADV_DONTNEED) == 0 &&
			     uffd_writeprotect(fd, area + PAGE, PAGE, UFFDIO_WRITEPROTECT_MODE_WP) == 0);
		for (int i = rnd(3); i; i--)
			sched_yield();
		if (round % 2)
			MUST(uffd_unregister(fd, area, PAGES * PAGE) == 0);
		close(fd);
		for (size_t i = 0; i < PAGES; i++) {
			if (pagemap(area + i * PAGE) & PM_UFFD_WP) {
				printf("protection is left behind in page %zu\n", i);
				test_failures++;
			}
		}
	}
	return arg;
}

static void racing(void)
{
	struct racer racers[] = { { .round = write_all }, { .round = write_all } };
	pthread_t protector;

	area = map_alone(PAGES, RW);
	memset(area, 0, PAGES * PAGE);
	MUST(pthread_create(&protector, NULL, protect, NULL) == 0);
	race(RACE_SECONDS, racers, 2);
	stop_protecting = 1;
	pthread_join(protector, NULL);
	CHECK(writes > 0);
}

int main(void)
{
	run_race(racing, NULL, 32);
}
