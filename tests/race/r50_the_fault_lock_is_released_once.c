/*
 * R50. Whatever a fault's result, its lock is released exactly once, and it is the lock that was taken: with RETRY and COMPLETED
 * by the handler, else by the caller. Each result is forced at each place that calls the handler, under the VMA's lock
 * and under mmap_lock; then whoever needs the locks for writing must get them.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=50
 * shows: PANIC: .*(count|assert)
 */
#include "race.h"

#define PAGES 64

static int fd;
static char *area;

/* -- racing -- */

/* First writes to clean shared pages: COMPLETED under the VMA's lock. */
static void write_pages(struct racer *r)
{
	long v = (long)(r->rounds << 8) + r->id;

	for (int i = 0; i < PAGES; i++)
		touch((volatile long *)(area + (size_t)i * PAGE) + r->id, true, &v);
}

static void map_over(struct racer *r)
{
	(void)r;
	if (rnd(2))
		munmap(area, PAGES * PAGE);
	CHECK(mmap(area, PAGES * PAGE, RW, MAP_SHARED | MAP_FIXED, fd, 0) == area);
}

static void cut_file(struct racer *r)
{
	(void)r;
	CHECK(ftruncate(fd, (off_t)(rnd(PAGES) * PAGE)) == 0);
	CHECK(ftruncate(fd, PAGES * PAGE) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = write_pages }, { .round = write_pages }, { .round = map_over }, { .round = cut_file } };

	fd = make_memfd(PAGES, 0);
	area = mmap(NULL, PAGES * PAGE, RW, MAP_SHARED, fd, 0);
	MUST(area != MAP_FAILED);
	race(RACE_SECONDS, racers, 4);
}

/* -- each result at each place -- */

#define INJECT "/sys/kernel/faultline/fault_inject"

static const char *const sites[] = { "user", "kernel", "gup", "fixup" };
static const char *const results[] = { "retry", "completed" };
static char *stack_top;

static long injected(const char *site, const char *result)
{
	char *text = read_text(INJECT);
	long retry, completed;

	for (char *line; (line = next_line(&text)); )
		if (!strncmp(line, site, strlen(site)) && sscanf(line + strlen(site), " retry %ld completed %ld", &retry, &completed) == 2)
			return result[0] == 'r' ? retry : completed;
	return -1;
}

/* Something that has a fault at this place; the page is fresh. */
static void fault_at(const char *site, char *page)
{
	if (site[0] == 'u') {
		*(volatile char *)page = 1;			/* under the VMA's lock */
		stack_top -= PAGE;
		*(volatile char *)stack_top = 1;		/* the stack grows: under mmap_lock */
	} else if (site[0] == 'k') {
		int p[2];

		MUST(pipe(p) == 0 && write(p[1], "x", 1) == 1);
		CHECK_EQUAL(1, read(p[0], page, 1));
		close(p[0]);
		close(p[1]);
	} else if (site[0] == 'g') {
		char c = 'x';
		struct iovec from = { &c, 1 }, to = { page, 1 };

		CHECK_EQUAL(1, process_vm_writev(getpid(), &from, 1, &to, 1, 0));
	} else {
		/* A shared futex: its page is made accessible to find what it belongs to. */
		CHECK_EQUAL(0, syscall(SYS_futex, page, 1 /* WAKE */, 1, NULL, NULL, 0));
	}
}

static void one_result(const char *site, const char *result, bool shared)
{
	int memfd = make_memfd(8, 0);
	char *p = shared ? mmap(NULL, 8 * PAGE, RW, MAP_SHARED, memfd, 0) : map_pages(8, RW, ANON), text[64];

	MUST(p != MAP_FAILED);
	snprintf(text, sizeof(text), "%s %s 3", site, result);
	write_file(INJECT, text);
	for (int i = 0; i < 8 && injected(site, result) > 0; i++)
		fault_at(site, p + (size_t)i * PAGE);
	if (injected(site, result) != 0) {
		printf("'%s' left %ld, shared %d\n", text, injected(site, result), shared);
		test_failures++;
	}
	snprintf(text, sizeof(text), "%s %s 0", site, result);
	write_file(INJECT, text);
	/* Both locks for writing. A lock that was not released makes this hang, one that was released twice is found by its count. */
	CHECK(mprotect(p, PAGE, PROT_READ) == 0);
	CHECK(munmap(p, 8 * PAGE) == 0);
	close(memfd);
}

static void forced(void)
{
	stack_top = (char *)0x30000000;		/* far from everything else, which may land in a gap that is not mapped */
	MUST(mmap(stack_top, PAGE, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) == stack_top);
	for (size_t s = 0; s < 4; s++)
		for (size_t r = 0; r < 2; r++)
			/* A write to a shared page ends with COMPLETED anyhow, and nothing is injected. */
			for (int shared = 0; shared < (!r ? 2 : 1); shared++)
				one_result(sites[s], results[r], shared);
}

int main(void)
{
	run_race(racing, forced, 32);
}
