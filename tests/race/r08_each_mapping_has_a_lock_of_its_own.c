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
 * shows: PANIC
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

int main(void)
{
	run_huge_race(racing, NULL, 32);
}
