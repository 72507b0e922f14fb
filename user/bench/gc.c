/*
 * A compacting collector beside threads that map and unmap: how long is the compaction, what does it cost, and who waits for which lock?
 * The collector is that of user/demo/gc_heap.h.
 *
 *	gc [--mb N] [--reps N] [--mutators N] [--mappers N]
 *
 * Half of the cells of the heap live, every other one, in as many lists as there are mutators. They follow their lists and write to each
 * cell; mappers map 64 KiB, touch all of it and unmap it, all the time. One compactor. Each repetition measures the compaction
 * twice, without the mappers and with them; the heap is filled anew before, and checked after. One line each, "name=value" words:
 * the phase in nanoseconds, of the clock and of the compactor's own processor time; what the others did meanwhile; and from
 * /proc/lock_stat, where there is one, how often mmap_lock was taken by faults and by userfaultfd, and how long anybody waited.
 */
#define _GNU_SOURCE
#include "../demo/gc_heap.h"

#define MAX_THREADS	8
#define MAP_LEN		(64ul << 10)

static int mutators = 4, mappers = 4;
static volatile bool stop, mapping, mutating;
static volatile long steps[MAX_THREADS], maps[MAX_THREADS], wrong;
static size_t live_cells;

/* List i in roots[i]; the place where its mutator is in roots[MAX_THREADS + i]. */
static void fill(void)
{
	uint32_t last[MAX_THREADS] = { 0 };

	live_cells = 0;
	memset(gc.roots, 0, sizeof(gc.roots));
	for (uint32_t n = 1; n < gc.nr - 1; n++) {
		uint32_t id = n / 2 % (uint32_t)mutators;

		gc.cells[n] = (struct cell){ .owner = n % 2 ? id : 99, .serial = n };
		if (n % 2 == 0)			/* garbage */
			continue;
		if (last[id])
			gc.cells[last[id]].next = n;
		else
			gc.roots[id] = gc.roots[MAX_THREADS + id] = n;
		last[id] = n;
		live_cells++;
	}
	gc.top = (uint32_t)gc.nr;
	memset(gc.made, 1, gc.pages);
}

/* All live cells are there, in order. */
static bool heap_is_right(void)
{
	size_t found = 0;

	for (int id = 0; id < mutators; id++) {
		uint32_t serial = 0;

		for (uint32_t n = gc.roots[id]; n; n = gc.cells[n].next, found++) {
			if (gc.cells[n].owner != (uint32_t)id || gc.cells[n].serial <= serial)
				return false;
			serial = gc.cells[n].serial;
		}
	}
	return found == live_cells;
}

static void *mutator(void *arg)
{
	uint32_t id = (uint32_t)(uintptr_t)arg, *at = &gc.roots[MAX_THREADS + id];

	while (!stop) {
		if (!mutating) {
			usleep(1000);
			continue;
		}
		gc_enter();
		for (int i = 0; i < 16; i++) {
			struct cell *c = &gc.cells[*at];

			wrong += c->owner != id;
			c->payload[0]++;
			*at = c->next ? c->next : gc.roots[id];
		}
		gc_leave();
		steps[id]++;
	}
	return NULL;
}

static void *mapper(void *arg)
{
	uintptr_t id = (uintptr_t)arg;

	while (!stop) {
		if (!mapping) {
			usleep(1000);
			continue;
		}
		volatile char *p = gc_map(MAP_LEN);
		for (size_t i = 0; i < MAP_LEN; i += GC_PAGE)
			p[i] = 1;
		munmap((void *)p, MAP_LEN);
		maps[id]++;
	}
	return NULL;
}

/* -- figures -- */

static uint64_t clock_ns(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return (uint64_t)t.tv_sec * 1000000000ul + (uint64_t)t.tv_nsec;
}

static int clear_locks(void)
{
	int fd = open("/proc/lock_stat", O_WRONLY);

	if (fd < 0)
		return -1;
	if (write(fd, "0", 1) != 1)
		gc_die("/proc/lock_stat");
	return close(fd);
}

static void print_locks(void)
{
	static const char *const callers[] = { "uffd", "fault" };
	char line[256], class[64], caller[16], mode[16];
	long acquired, contended, wait_ns, sum[2][3] = { { 0 } }, all = 0;
	FILE *f = fopen("/proc/lock_stat", "r");

	if (!f)
		gc_die("/proc/lock_stat");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %15s %15s %ld %ld %ld", class, caller, mode, &acquired, &contended, &wait_ns) != 6)
			continue;
		all += wait_ns;
		for (int i = 0; i < 2; i++) {
			if (strcmp(class, "MMAP") || strcmp(caller, callers[i]))
				continue;
			sum[i][0] += acquired;
			sum[i][1] += contended;
			sum[i][2] += wait_ns;
		}
	}
	fclose(f);
	for (int i = 0; i < 2; i++)
		printf(" mmap_%s=%ld mmap_%s_waits=%ld mmap_%s_wait_ns=%ld", callers[i], sum[i][0], callers[i], sum[i][1], callers[i], sum[i][2]);
	printf(" all_waits_ns=%ld", all);
}

static long sum_of(const volatile long *p)
{
	long sum = 0;

	for (int i = 0; i < MAX_THREADS; i++)
		sum += p[i];
	return sum;
}

static void measure(bool with_mappers)
{
	gc_stop_world();
	if (uffd_unregister(gc.fd, gc.cells, gc.pages * GC_PAGE))
		gc_die("UFFDIO_UNREGISTER");
	fill();
	gc_take_over();
	gc_start_world();
	mutating = true;
	mapping = with_mappers;
	usleep(50000);				/* everybody is at work */
	gc_begin();

	size_t faults = gc.by_fault, pages = gc.compacted;
	long s = sum_of(steps), m = sum_of(maps);
	int has_locks = !clear_locks();
	uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), all = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	gc_compact();
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	all = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - all;
	printf("mappers=%d pages=%zu wall_ns=%llu cpu_ns=%llu process_cpu_ns=%llu faults=%zu steps=%ld maps=%ld", with_mappers ? mappers : 0,
	       gc.compacted - pages, (unsigned long long)wall, (unsigned long long)cpu, (unsigned long long)all, gc.by_fault - faults,
	       sum_of(steps) - s, sum_of(maps) - m);
	if (has_locks)
		print_locks();
	putchar('\n');
	fflush(stdout);
	mapping = mutating = false;
	gc_stop_world();
	if (!heap_is_right() || wrong) {
		fprintf(stderr, "gc: the heap is not what it was\n");
		exit(1);
	}
	gc_start_world();
	if (madvise(gc.shadow, gc.pages * GC_PAGE, MADV_DONTNEED))
		gc_die("madvise");
}

int main(int argc, char **argv)
{
	size_t mb = 256;
	int reps = 5;
	pthread_t thread;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--mb"))
			mb = strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--reps"))
			reps = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--mutators"))
			mutators = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--mappers"))
			mappers = atoi(argv[i + 1]);
		else
			argc = 0;
	}
	if (argc % 2 == 0 || !mb || reps < 1 || mutators < 1 || mutators > MAX_THREADS || mappers < 0 || mappers > MAX_THREADS) {
		fprintf(stderr, "usage: gc [--mb N] [--reps N] [--mutators 1-%d] [--mappers 0-%d]\n", MAX_THREADS, MAX_THREADS);
		return 2;
	}
	gc_init(mb << 20);
	for (uintptr_t i = 0; i < (uintptr_t)(mutators + mappers); i++)
		if (pthread_create(&thread, NULL, i < (uintptr_t)mutators ? mutator : mapper,
				   (void *)(i < (uintptr_t)mutators ? i : i - (uintptr_t)mutators)))
			gc_die("pthread_create");
	gc_take_over();			/* measure() begins by giving it back */
	for (int i = 0; i < reps; i++) {
		measure(false);
		measure(true);
	}
	stop = true;
	return 0;
}
