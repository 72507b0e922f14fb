/*
 * R45. A mapping that gets its first page may borrow the reverse map (anon_vma) of a neighbour. The neighbour may be unmapped, split or
 * merged at the same time, so that needs mmap_lock: with the mapping's own lock alone, what is borrowed may be freed.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=45
 * shows: PANIC: reference taken on a dead object|PANIC: .*(list|rwsem|lock)|PANIC: kasan: use after free
 */
#include "race.h"

#define RWX (RW | PROT_EXEC)

static char *area;		/* left, middle, right: one page each */

/* The middle, fresh each time. Its content is its own, whatever the neighbours do. */
static void touch_middle(struct racer *r)
{
	volatile long *p = (volatile long *)(area + PAGE);
	long v = (long)r->rounds + 1;
	int status;

	MUST(mmap((void *)p, PAGE, rnd(2) ? RW : RWX, ANON | MAP_FIXED, -1, 0) == p);
	*p = v;
	if (rnd(8) == 0) {
		pid_t pid = (pid_t)syscall(SYS_fork);

		MUST(pid >= 0);
		if (!pid) {
			bool same = *p == v;
			*p = -1;
			_exit(!same);
		}
		*p = v + 1;
		MUST(waitpid(pid, &status, 0) == pid);
		CHECK_EQUAL(0, status);
		v++;
	}
	CHECK_EQUAL(v, *p);
}

static void change_neighbour(struct racer *r)
{
	char *p = area + (r->id & 1 ? 0 : 2) * PAGE;
	volatile long *word = (volatile long *)p;

	MUST(mmap(p, PAGE, RW, ANON | MAP_FIXED, -1, 0) == p);
	*word = 5;
	MUST(mprotect(p, PAGE, RWX) == 0);
	*word = 6;
	MUST(mprotect(p, PAGE, RW) == 0);
	CHECK_EQUAL(6, *word);
	if (rnd(2))
		MUST(munmap(p, PAGE) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = touch_middle }, { .round = change_neighbour }, { .round = change_neighbour } };

	area = map_pages(3, RW, ANON);
	race(RACE_SECONDS, racers, 3);
}

/* -- forced: the neighbour goes between the look at its anon_vma and the reference -- */

#define ALLOC_FAIL "/sys/kernel/faultline/alloc_fail"

/*
 * mmap makes the anon_vma of a mapping that can be written, so that no fault has to; if there is no memory for it, the first fault does.
 * So let that allocation fail, which is mmap's last: fail the n-th for n = 1, 2... as long as mmap fails for it.
 */
static void map_unprepared(char *p)
{
	int fd = open(ALLOC_FAIL, O_RDWR), n;
	char text[16];
	void *got = MAP_FAILED;

	MUST(fd >= 0);
	for (n = 1; got == MAP_FAILED; n++) {
		int len = snprintf(text, sizeof(text), "%d", n);

		MUST(n < 30);
		while (pwrite(fd, text, (size_t)len, 0) != len)
			;
		got = (void *)sys_mmap(p, PAGE, RW, ANON | MAP_FIXED, -1, 0);
	}
	while (pwrite(fd, "0", 1, 0) != 1)
		;
	close(fd);
}

static void write_middle(void *arg)
{
	*(volatile long *)arg = 7;
}

static void unmap_left(void *arg)
{
	MUST(munmap(arg, PAGE) == 0);
}

static void forced(void)
{
	struct actor writer, unmapper;

	area = (char *)0x30000000;	/* far from everything else: the left one must have nobody to borrow from */
	MUST(mmap(area, 3 * PAGE, PROT_NONE, ANON | MAP_FIXED, -1, 0) == area);
	actor_create(&writer, write_middle, area + PAGE);
	actor_create(&unmapper, unmap_left, area);
	map_unprepared(area + PAGE);
	/* Other rights, so the two do not merge; but they could, after mprotect, and that is enough to borrow. */
	MUST(mmap(area, PAGE, RWX, ANON | MAP_FIXED, -1, 0) == area);
	area[0] = 1;
	actor_start_and_hold(&writer, "anon_vma_borrow");
	actor_try(&unmapper);
	go();
	actor_join(&unmapper);
	actor_join(&writer);
	CHECK_EQUAL(7, *(volatile long *)(area + PAGE));
}

int main(void)
{
	run_race(racing, forced, 32);
}
