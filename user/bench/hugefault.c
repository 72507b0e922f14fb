/*
 * Maps a file of huge pages, writes to each page, unmaps it, for ever: how many faults is that, for one process and for
 * many at once? (The first of the two programs of the published measurements; docs/sharing-page-tables.md.)
 *
 *	hugefault [-n INSTANCES] [-s SIZE] [-t SECONDS] [-f FILE]
 *	hugefault -c [-s SIZE]		the costs of one process in ticks of the time-stamp counter (instructions under --icount)
 *
 * All instances map the same file at the same address. Each writes the number of its round into a place of its own in
 * each page; afterwards every page must show the last round of every instance: work that was not done would be found.
 *
 * -c prints "name=value" words, per huge page and the least of seven times: fresh (the file has no page yet), again (map, touch
 * all, unmap, where nobody else maps the file), shared (the same while a second process keeps it mapped), refault (one page
 * of a mapping that has been dropped with MADV_DONTNEED, alone).
 */
#include "huge.h"

#define REPS 7

static struct options o;
static int fd;

static volatile long *place(char *map, size_t page, int instance)
{
	return (volatile long *)(map + page * HUGE) + instance;
}

static long map_touch_unmap(int instance, long round, struct board *b)
{
	size_t pages = o.size / HUGE;
	char *map = map_file(fd, o.size);

	for (size_t i = 0; i < pages; i++)
		*place(map, i, instance) = round;
	if (munmap(map, o.size))
		die("munmap");
	b->of[instance].pages = round;			/* the last round, for the check */
	return (long)pages;
}

static void check(const struct board *b)
{
	char *map = map_file(fd, o.size);

	for (size_t i = 0; i < o.size / HUGE; i++)
		for (int n = 0; n < o.instances; n++)
			if (*place(map, i, n) != b->of[n].pages) {
				fprintf(stderr, "hugefault: page %zu shows round %ld of instance %d, not %ld\n", i, *place(map, i, n), n,
					b->of[n].pages);
				exit(1);
			}
	munmap(map, o.size);
}

/* -- costs -- */

static uint64_t ticks(void)
{
	uint32_t lo, hi;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
}

static uint64_t one_round(void)
{
	size_t pages = o.size / HUGE;
	uint64_t begin = ticks();
	char *map = map_file(fd, o.size);

	for (size_t i = 0; i < pages; i++)
		*place(map, i, 0) = 1;
	if (munmap(map, o.size))
		die("munmap");
	return (ticks() - begin) / pages;
}

static uint64_t least_of_rounds(void)
{
	uint64_t least = ~0ul;

	for (int i = 0; i < REPS; i++) {
		uint64_t t = one_round();
		least = t < least ? t : least;
	}
	return least;
}

/* One access to a page that is in the file and not in our tables, beyond what the access itself costs. */
static uint64_t refault(void)
{
	size_t pages = o.size / HUGE;
	uint64_t least = ~0ul;
	char *map = map_file(fd, o.size);

	for (int k = 0; k < REPS; k++) {
		if (madvise(map, o.size, MADV_DONTNEED))
			die("madvise");
		*place(map, 0, 0) = 1;			/* the table is there again */
		uint64_t begin = ticks();
		for (size_t i = 1; i < pages; i++)
			*place(map, i, 0) = 1;
		uint64_t t = (ticks() - begin) / (pages - 1);
		least = t < least ? t : least;
	}
	munmap(map, o.size);
	return least;
}

static void costs(void)
{
	uint64_t fresh = one_round(), again = least_of_rounds(), fault = refault(), shared;
	int pipes[2];
	char c;

	if (pipe(pipes))
		die("pipe");
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		char *map = map_file(fd, o.size);

		for (size_t i = 0; i < o.size / HUGE; i++)
			(void)*place(map, i, 0);
		close(pipes[1]);
		_exit(read(pipes[0], &c, 1) != 0);
	}
	close(pipes[0]);
	struct timespec ts = { 1, 0 };
	nanosleep(&ts, NULL);				/* until it has touched all */
	shared = least_of_rounds();
	close(pipes[1]);
	waitpid(pid, NULL, 0);
	printf("mb=%zu fresh=%lu again=%lu shared=%lu refault=%lu\n", o.size >> 20, fresh, again, shared, fault);
}

int main(int argc, char **argv)
{
	struct board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	o = parse_options(argc, argv);
	fd = open_file(&o);
	if (b == MAP_FAILED)
		die("mmap");
	if (o.cost) {
		costs();
		return 0;
	}
	struct board warm = { 0 };
	map_touch_unmap(0, 1, &warm);			/* the pages are there before the time begins */
	run_instances(&o, "fault", map_touch_unmap, b);
	check(b);
	return 0;
}
