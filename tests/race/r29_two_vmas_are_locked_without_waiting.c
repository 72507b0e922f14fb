/*
 * R29. MOVE holds the lock of its destination and waits for mmap_lock to find the source; somebody holds mmap_lock and waits for
 * the destination. So the second VMA is only tried, and if that fails the first is let go.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=29
 * shows: hang|lock order
 */
#include "uffd_race.h"

#define PAGES	4

static char *side[2], *beside;
static int fd;

static void mover(struct racer *r)
{
	int to = r->id & 1;
	size_t at = rnd(PAGES) * PAGE;
	struct result m = raw_move(fd, (uintptr_t)side[to] + at, (uintptr_t)side[!to] + at, PAGE, 0);

	CHECK(m.error == 0 || m.error == ENOENT || m.error == EEXIST || m.error == EAGAIN || m.error == EBUSY || m.error == EINVAL);
}

/* Both of them, and one beside them. Never both sides without rights: a page must stay on one of them. */
static void changer(struct racer *r)
{
	char *p = side[r->rounds & 1] + PAGE;

	MUST(mprotect(p, 2 * PAGE, PROT_READ) == 0);
	MUST(mprotect(p, 2 * PAGE, RW) == 0);
	p = mmap(beside, PAGE, RW, ANON | MAP_FIXED, -1, 0);
	MUST(p == beside);
	*p = 1;
	MUST(munmap(beside, PAGE) == 0);
}

static void look_at_pages(void)
{
	for (size_t i = 0; i < PAGES; i++) {
		int found = 0;

		for (int s = 0; s < 2; s++) {
			if (!(pagemap(side[s] + i * PAGE) & PM_PRESENT))
				continue;
			found++;
			CHECK_EQUAL('A' + (int)i, side[s][i * PAGE]);
			CHECK_EQUAL('A' + (int)i, side[s][i * PAGE + PAGE - 1]);
		}
		CHECK_EQUAL(1, found);
	}
}

static void set_up(void)
{
	char *area = (char *)0x10000ul;

	side[0] = area;
	beside = area + PAGES * PAGE;
	side[1] = area + (PAGES + 1) * PAGE;
	fd = open_uffd(0);
	for (int s = 0; s < 2; s++) {
		MUST(mmap(side[s], PAGES * PAGE, RW, ANON | MAP_FIXED, -1, 0) == side[s]);
		MUST(uffd_register(fd, side[s], PAGES * PAGE, MISSING) == 0);
	}
	for (size_t i = 0; i < PAGES; i++) {
		static char from[PAGE];

		memset(from, 'A' + (int)i, PAGE);
		MUST(uffd_copy(fd, side[0] + i * PAGE, from, PAGE, 0) == (long)PAGE);
	}
}

static void racing(void)
{
	struct racer racers[] = { { .round = mover }, { .round = mover }, { .round = mover }, { .round = mover }, { .round = changer } };

	set_up();
	race(RACE_SECONDS, racers, 5);
	look_at_pages();
}

static void move_once(void *arg)
{
	(void)arg;
	struct result m = raw_move(fd, (uintptr_t)side[1], (uintptr_t)side[0], PAGE, 0);

	CHECK(m.error == 0 || m.error == EAGAIN || m.error == EBUSY);
}

static void fork_once(void *arg)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)arg;
	if (!pid)
		_exit(0);
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
}

/*
 * A fork holds mmap_lock and write-locks one VMA after the other. It is stopped when it has the source, which lies below everything else,
 * and not yet the destination, which the mover takes then. In the end each would have what the other one wants.
 */
static void forced(void)
{
	struct actor m, w;

	set_up();
	actor_create(&m, move_once, NULL);
	actor_create(&w, fork_once, NULL);
	actor_start_and_hold(&w, "fork_vma_locked");
	actor_try(&m);
	go();
	actor_join(&w);
	actor_join(&m);
	look_at_pages();
}

int main(void)
{
	run_race(racing, forced, 32);
}
