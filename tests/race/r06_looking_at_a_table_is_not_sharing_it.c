/*
 * R6. How many processes share a table is counted in a field of its own. If it were the page's reference count, then who only looks
 * at the table (smaps, pagemap, a page being pinned) would make it look shared, and unmapping would leave its entries behind
 * (CVE-2024-57883).
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: hugetlb.sync=vma race.reopen=6
 * shows: pages are missing|the pool has|PANIC
 */
#include "hugetlb.h"

#define PAGES 4

static void read_whole(const char *format, pid_t pid, off_t from, size_t len)
{
	static __thread char buffer[4096];
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), format, pid);
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		return;				/* it has just ended */
	if (from)
		lseek(fd, from, SEEK_SET);
	for (size_t all = 0; all < len && (n = read(fd, buffer, sizeof(buffer))) > 0; )
		all += (size_t)n;
	close(fd);
}

/* All processes of the program, from outside. */
static void look(struct racer *r)
{
	for (int i = 0; i < nr_peers + 1; i++) {
		pid_t pid = i < nr_peers ? common->peer[i].pid : getpid();

		if (r->id)
			read_whole("/proc/%d/smaps", pid, 0, 1 << 20);
		else
			read_whole("/proc/%d/pagemap", pid, (off_t)((unsigned long)WINDOW(0) / PAGE * 8), PAGES * 4096);
		pid = (pid_t)common->word[i];
		if (pid)
			read_whole("/proc/%d/smaps", pid, 0, 1 << 20);
	}
	for (int i = 0; i < PAGES; i++)
		entry_is_present(WINDOW(0) + (size_t)i * HUGE);
}

static void use(void)
{
	for (int i = 0; i < PAGES; i++)
		CHECK_EQUAL(canary(1, i), *(volatile long *)(WINDOW(0) + (size_t)i * HUGE));
}

/* Sharers come and go by fork, munmap and exit. */
static void come_and_go(void)
{
	int me = common->peer[0].pid == getpid() ? 0 : 1, status;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid) {
		use();
		if (rnd(2))
			MUST(munmap(WINDOW(0), GIB) == 0);
		_exit(test_failures ? 1 : 0);
	}
	common->word[me] = pid;
	use();
	if (rnd(4) == 0)
		map_window(0, GIB, RW);
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
}

static void use_it_here(struct racer *r)
{
	(void)r;
	use();
	if (rnd(2))
		MUST(madvise(WINDOW(0), HUGE, MADV_DONTNEED) == 0);
	sched_yield();
}

static void racing(void)
{
	struct racer racers[] = { { .round = look }, { .round = look }, { .round = use_it_here } };

	make_huge_file(PAGES);
	map_window(0, GIB, RW);
	peer_start(come_and_go);
	peer_start(come_and_go);
	race(RACE_SECONDS, racers, 3);
	peers_end();
	MUST(munmap(WINDOW(0), GIB) == 0);
	MUST(ftruncate(huge_fd, 0) == 0);	/* a page that an entry somewhere still holds would not come back */
}

/* -- forced: somebody looks at the table of one owner, who gives its pages up meanwhile. Only where looking counts can he be held -- */

static void look_once(void *arg)
{
	(void)arg;
	CHECK(entry_is_present(WINDOW(0)) >= 0);
}

static void forced(void)
{
	struct actor looker;

	make_huge_file(PAGES);
	map_window(0, GIB, RW);
	use();
	actor_create(&looker, look_once, NULL);
	start_and_hold(&looker, "pmd_looked_at", "-");
	MUST(madvise(WINDOW(0), PAGES * HUGE, MADV_DONTNEED) == 0);
	go();
	actor_join(&looker);
	MUST(munmap(WINDOW(0), GIB) == 0 && ftruncate(huge_fd, 0) == 0);
}

int main(void)
{
	run_huge_race(racing, forced, 32);
}
