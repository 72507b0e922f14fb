/*
 * R8. What keeps a mapping's tables in place belongs to this mapping: MADV_DONTNEED must not throw it away, and the copies of the
 * mapping that split, fork and mremap make need one of their own, not a pointer to this one.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: hugetlb.sync=vma race.reopen=8
 * shows: PANIC|hang:
 */
#include "hugetlb.h"

#define WINDOWS 4
#define PAGES 2

static void map_all(void)
{
	map_window(0, WINDOWS * GIB, RW);
}

static void change(struct racer *r)
{
	int status;
	pid_t pid;

	(void)r;
	switch (rnd(5)) {
	case 0:
		MUST(madvise(WINDOW(0), WINDOWS * GIB, MADV_DONTNEED) == 0 || errno == ENOMEM);
		break;
	case 1:
		MUST(munmap(WINDOW(1), GIB) == 0);
		break;
	case 2:				/* there and back; fails if it is not one mapping just now */
		if (mremap(WINDOW(2), GIB, GIB, MREMAP_MAYMOVE | MREMAP_FIXED, WINDOW(10)) == WINDOW(10))
			MUST(mremap(WINDOW(10), GIB, GIB, MREMAP_MAYMOVE | MREMAP_FIXED, WINDOW(2)) == WINDOW(2));
		break;
	case 3:
		pid = (pid_t)syscall(SYS_fork);
		MUST(pid >= 0);
		if (!pid) {
			long value;
			touch((volatile long *)WINDOW(0), false, &value);
			_exit(0);
		}
		MUST(waitpid(pid, &status, 0) == pid && status == 0);
		break;
	default:
		map_all();
	}
}

static void fault(struct racer *r)
{
	long window = rnd(WINDOWS), i = rnd(PAGES), value = canary(3, i);
	volatile long *p = (volatile long *)(WINDOW(window) + (size_t)i * HUGE);

	(void)r;
	touch(p, true, &value);
	if (!touch(p, false, &value))
		CHECK(value == 0 || value == canary(3, i));
}

static void cut(struct racer *r)
{
	(void)r;
	CHECK(ftruncate(huge_fd, (off_t)GIB) == 0 && ftruncate(huge_fd, (off_t)(WINDOWS * GIB)) == 0);
	if (rnd(4) == 0)
		CHECK(fallocate(huge_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGES * HUGE) == 0);
	sched_yield();
}

static void map_and_unmap(void)
{
	long value;

	map_all();
	for (int w = 0; w < WINDOWS; w++)
		touch((volatile long *)WINDOW(w), false, &value);
	MUST(munmap(WINDOW(0), WINDOWS * GIB) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = change }, { .round = fault }, { .round = fault }, { .round = cut } };

	huge_fd = huge_memfd(WINDOWS * GIB);
	map_all();
	peer_start(map_and_unmap);
	race(RACE_SECONDS, racers, 4);
	peers_end();
}

/*
 * -- forced: DONTNEED, with faults before and behind it in the queue of the mapping's lock. If the lock goes with the pages, the second fault
 * waits for a lock that is about to be freed, gets it, and has none to give back. Where faults hold no lock nobody waits here. --
 */
static struct actor first, second, third, dropper;

static void fault_in(void *arg)
{
	long value = canary(3, 0);

	touch(arg, true, &value);
	touch((volatile long *)arg + HUGE_LONGS, true, &value);
}

static void drop_all(void *arg)
{
	(void)arg;
	MUST(madvise(WINDOW(0), WINDOWS * GIB, MADV_DONTNEED) == 0);
}

static void forced(void)
{
	huge_fd = huge_memfd(WINDOWS * GIB);
	map_all();
	/* At different pages: one that holds the mutex of a page keeps nobody else waiting. */
	actor_create(&first, fault_in, WINDOW(0));
	actor_create(&second, fault_in, WINDOW(0) + 2 * HUGE);
	actor_create(&third, fault_in, WINDOW(0) + 4 * HUGE);
	actor_create(&dropper, drop_all, NULL);
	race_command("hold hugetlb_fault_walked:%d until first", first.tid);
	race_command("hold hugetlb_fault_walked:%d until second", second.tid);
	first.start = 1;
	CHECK(is_held("hugetlb_fault_walked"));
	actor_try(&dropper);		/* behind the first */
	second.start = 1;		/* behind the drop */
	while (!is_blocked(second.tid) && !task_is_held("hugetlb_fault_walked", second.tid))
		race_relax();
	race_command("pass first");
	actor_join(&first);
	while (!task_is_held("hugetlb_fault_walked", second.tid))
		race_relax();
	actor_try(&dropper);		/* through; or, to throw the lock away, behind the second */
	actor_try(&third);		/* through; or behind that */
	race_command("pass second");
	actor_join(&second);
	actor_join(&third);
	actor_join(&dropper);
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
