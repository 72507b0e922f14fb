/*
 * userfaultfd for minutes: threads read, write, fork, map, unmap, move and protect registered memory of all kinds, with several managers, kills
 * and closes in between; every page keeps its own content, everybody comes to an end, and no memory is missing.
 *
 * slow
 * cpus: 1 2 4 8
 * append: hugepages=8
 * timeout: 700
 */
#define HANG_SECONDS	60.0		/* a dozen threads that all want mmap_lock, on as few processors as there are */
#include "../race/uffd_race.h"

#include "tests/stress/stress.h"

#define PAGES	64
#define SECONDS	120

static char *area;
static int fd;
static volatile long touched, moved, forked, protections;

/* Page i holds (i + 1) in each of its words, from whatever source it came. */
static void serve(struct manager *m, const struct uffd_msg *msg)
{
	static __thread long from[PAGE / 8];
	char *at = (char *)(uintptr_t)(msg->arg.pagefault.address & -PAGE);
	size_t i = (size_t)(at - area) / PAGE;

	switch (msg->event) {
	case UFFD_EVENT_FORK:
		/* The child's managers are us: it is served like its parent, or released, at random. */
		close((int)msg->arg.fork.ufd);
		return;
	case UFFD_EVENT_PAGEFAULT:
		break;
	default:
		return;
	}
	if (msg->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
		if (uffd_writeprotect(m->fd, at, PAGE, 0))
			uffd_wake(m->fd, at, PAGE);	/* an event is pending: the access asks again after it */
		return;
	}
	for (size_t k = 0; k < PAGE / 8; k++)
		from[k] = (long)i + 1;
	long n = uffd_copy(m->fd, at, from, PAGE, rnd(8) ? 0 : UFFDIO_COPY_MODE_WP);
	if (n == -EEXIST || n == -EAGAIN)
		uffd_wake(m->fd, at, PAGE);
	else if (n != (long)PAGE && n != -ENOENT)
		CHECK(!"COPY");
}

static void check_page(size_t i)
{
	volatile long *p = (volatile long *)(area + i * PAGE);
	long a = p[rnd(PAGE / 8)], b = p[rnd(PAGE / 8)];

	/* DONTNEED may come between the two, and then the page comes again: alike. */
	if (a != (long)i + 1 || b != (long)i + 1) {
		printf("page %zu holds %ld and %ld\n", i, a, b);
		test_failures++;
	}
	touched++;
}

static void toucher(struct racer *r)
{
	size_t i = rnd(PAGES);

	check_page(i);
	if (r->rounds % 16 == 0)
		usleep(100);
	if (rnd(2))
		*(volatile long *)(area + i * PAGE) = (long)i + 1;
}

static void remover(struct racer *r)
{
	(void)r;
	MUST(madvise(area + rnd(PAGES) * PAGE, PAGE, MADV_DONTNEED) == 0);
	sleep_ms(1);			/* while its event is unread nothing can be filled */
}

static void protector(struct racer *r)
{
	size_t i = rnd(PAGES - 8);

	(void)r;
	if (uffd_writeprotect(fd, area + i * PAGE, 8 * PAGE, UFFDIO_WRITEPROTECT_MODE_WP) == 0)
		protections++;
	for (int k = rnd(4); k; k--)
		sched_yield();
	while (uffd_writeprotect(fd, area + i * PAGE, 8 * PAGE, 0) && errno == EAGAIN)
		sched_yield();
}

static void forker(struct racer *r)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)r;
	MUST(pid >= 0);
	if (!pid) {
		/* The manager closes the child's descriptor, so what is missing reads zero. */
		long v = *(volatile long *)(area + 5 * PAGE);
		_exit(v != 6 && v != 0);
	}
	if (rnd(3) == 0)
		kill(pid, SIGKILL);
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
	forked++;
	sleep_ms(2);
}

/* In two mappings of its own: from one to the other and back, through the same descriptor. */
static void mover(struct racer *r)
{
	static char *side[2];

	if (!side[0]) {
		for (int s = 0; s < 2; s++) {
			side[s] = map_pages(2, RW, ANON);
			MUST(uffd_register(fd, side[s], 2 * PAGE, WP) == 0);
		}
		side[0][0] = 'a';
	}
	int to = !(r->rounds & 1);
	struct result m = raw_move(fd, (uintptr_t)side[to], (uintptr_t)side[!to], PAGE, UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES);
	if (!m.error)
		moved++;
	CHECK((pagemap(side[0]) & PM_PRESENT ? side[0][0] == 'a' : 1) && (pagemap(side[1]) & PM_PRESENT ? side[1][0] == 'a' || side[1][0] == 0 : 1));
	/* What a fork shares does not move until somebody has written to it. */
	for (int s = 0; s < 2; s++)
		if (pagemap(side[s]) & PM_PRESENT)
			*(volatile char *)(side[s] + 1) = 1;
}

static void mapper(struct racer *r)
{
	char *p = map_pages(16, RW, ANON);

	(void)r;
	memset(p, 1, 16 * PAGE);
	MUST(munmap(p, 16 * PAGE) == 0);
}

/* Another descriptor, another kind of memory each time, closed while somebody waits on it. */
static void closer(struct racer *r)
{
	enum kind kind = (enum kind)((r->rounds / 2) % NR_KINDS);

	if (is_hugetlb(kind) && huge_pages() < 1)
		return;
	/* Wherever it comes to lie: make_memory() looks for a place first, which others could take meanwhile. */
	size_t len = is_hugetlb(kind) ? HUGE : PAGE;
	int flags = (is_shared(kind) ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | (is_hugetlb(kind) ? MAP_HUGETLB : 0);
	char *p = mmap(NULL, len, RW, flags, -1, 0);
	struct helper h;
	int own = open_uffd(0);

	if (p == MAP_FAILED) {			/* the last huge page is still on its way back */
		close(own);
		return;
	}

	MUST(uffd_register(own, p, len, MISSING) == 0);
	helper_start(&h, do_read, p, 1);
	for (int i = rnd(5); i; i--)
		sched_yield();
	close(own);
	CHECK_EQUAL(0, HELPER_END(&h));
	MUST(munmap(p, len) == 0);
}

static void round_of_all(void)
{
	int status;

	fflush(stdout);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid) {
		MUST(waitpid(pid, &status, 0) == pid);
		CHECK_EQUAL(0, status);
		return;
	}
	struct racer racers[] = {
		{ .round = toucher }, { .round = toucher }, { .round = toucher }, { .round = remover }, { .round = protector }, { .round = forker },
		{ .round = mover }, { .round = mapper }, { .round = closer },
	};
	struct manager m[3] = { 0 };

	test_failures = 0;
	area = map_alone(PAGES, RW);
	fd = open_uffd(UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_REMOVE);
	MUST(uffd_register(fd, area, PAGES * PAGE, MISSING | WP) == 0);
	for (int i = 0; i < 3; i++)
		manager_start(&m[i], fd, serve);
	race(SECONDS, racers, sizeof(racers) / sizeof(racers[0]));
	for (int i = 0; i < 3; i++)
		manager_stop(&m[i]);
	/* Moves are not asked for: a page that a fork shares stays, and there may be nothing but forks. */
	if (!touched || !forked || !protections) {
		printf("touched %ld, moved %ld, forked %ld, protected %ld\n", touched, moved, forked, protections);
		test_failures++;
	}
	_exit(test_failures ? 1 : 0);
}

int main(void)
{
	stress_rounds(round_of_all, 3, 4096);
	test_end();
}
