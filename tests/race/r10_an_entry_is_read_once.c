/*
 * R10. Who walks tables without a lock tests an entry ("is it a table?") and follows it. If it reads the entry a second time to
 * follow it, a page or nothing may be there by then, and its contents are taken for a table.
 *
 * The worst page for that is one of 1 GiB: its entry stands where that of the table was, and its first bytes, which anybody may write,
 * are then entries.
 *
 * append: hugepagesz=2M hugepages=64 hugepagesz=1G hugepages=1
 * mem: 4G
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * fails: race.reopen=10
 * shows: PANIC: 
 */
#include "hugetlb.h"

/*
 * What the first words of the large page say to whom takes them for PMD entries: there is a table, writable, for users, in a frame that
 * this machine does not have.
 */
#define FORGED		0x000003fffffff007l

static char *const place = WINDOW(0);
static int small_fd, gib_fd = -1;

/* At one address in turn: huge pages, small pages (a table), a page of 1 GiB, nothing. */
static void replace(struct racer *r)
{
	long value = canary(1, 0);

	switch (r->rounds % 5) {
	case 0:
		map_window(0, HUGE, RW);
		break;
	case 1:
		MUST(mmap(place, HUGE, RW, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == place);
		break;
	case 2:
		MUST(mmap(place, HUGE, RW, MAP_SHARED | MAP_FIXED, small_fd, 0) == place);
		break;
	case 3:
		MUST(munmap(place, HUGE) == 0);
		if (gib_fd >= 0) {
			MUST(mmap(place, GIB, PROT_READ, MAP_SHARED | MAP_FIXED, gib_fd, 0) == place);
			CHECK_EQUAL(FORGED, *(volatile long *)place);
		}
		return;
	default:
		MUST(munmap(place, GIB) == 0);
		return;
	}
	touch((volatile long *)place, true, &value);
}

static bool is_known(long value)
{
	return value == 0 || value == canary(1, 0) || value == FORGED;
}

/* Each way of walking: none may crash, and what it copies was written by us. */
static void walk(struct racer *r)
{
	long got = 0;
	struct iovec from = { place, sizeof(got) }, to = { &got, sizeof(got) };
	unsigned char vec[8];
	uint64_t entries[8];
	int fd;

	switch ((r->rounds + (unsigned long)r->id) % 3) {
	case 0:
		(void)sys_mincore(place, 8 * PAGE, vec);
		break;
	case 1:
		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof(got))
			CHECK(is_known(got));
		break;
	default:
		fd = open("/proc/self/pagemap", O_RDONLY);
		MUST(fd >= 0);
		CHECK_EQUAL(sizeof(entries), pread(fd, entries, sizeof(entries), (off_t)((uintptr_t)place / PAGE * 8)));
		close(fd);
	}
}

static void read_smaps(struct racer *r)
{
	char buffer[4096];
	int fd = open("/proc/self/smaps", O_RDONLY);

	(void)r;
	MUST(fd >= 0);
	while (read(fd, buffer, sizeof(buffer)) > 0)
		;
	close(fd);
}

static void access_it(struct racer *r)
{
	long value;

	(void)r;
	if (!touch((volatile long *)place, false, &value))
		CHECK(is_known(value));
}

/* A file of one page of 1 GiB, which is there from now on. Left out where the processor has no such pages. */
static void make_gib_file(void)
{
	volatile long *p;

	if (access("/sys/kernel/mm/hugepages/hugepages-1048576kB", F_OK))
		return;
	gib_fd = (int)syscall(SYS_memfd_create, "gib", 4u /* MFD_HUGETLB */ | 30u << 26);
	MUST(gib_fd >= 0 && ftruncate(gib_fd, GIB) == 0);
	p = mmap(WINDOW(4), GIB, RW, MAP_SHARED | MAP_FIXED, gib_fd, 0);
	MUST(p != MAP_FAILED);
	for (int i = 0; i < 8; i++)
		p[i] = FORGED;
	MUST(munmap((void *)p, GIB) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = replace }, { .round = walk }, { .round = walk }, { .round = read_smaps }, { .round = access_it } };

	make_huge_file(1);
	write_canary(map_huge(1, RW, MAP_SHARED, huge_fd), canary(1, 0));
	small_fd = make_memfd(512, 0);
	race(RACE_SECONDS, racers, 5);
}

/*
 * -- forced. Nearly all walks hold a VMA, which keeps the kind of its entries. The debug kernel's look at an entry after each fault, to find
 * faults without progress, holds nothing but an RCU section: while it stands between the test and the step, the mapping becomes one of
 * 1 GiB. The old table is still memory then. It spins there, so it must not be alone on its CPU. --
 */
static volatile int is_warm, may_fault;

static void fault_once(void *arg)
{
	long value = 1;

	run_on(1);
	touch(arg, true, &value);		/* so that the stack, and all else that this needs, is there */
	is_warm = 1;
	while (!may_fault)
		race_relax();
	touch((volatile long *)place, true, &value);
}

static void become_large(void *arg)
{
	(void)arg;
	run_on(0);
	MUST(mmap(place, GIB, PROT_READ, MAP_SHARED | MAP_FIXED, gib_fd, 0) == place);
	CHECK_EQUAL(FORGED, *(volatile long *)place);
}

static void forced(void)
{
	struct actor faulter, replacer;

	if (gib_fd < 0 || sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	run_on(0);
	MUST(mmap(place, HUGE, RW, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == place);
	actor_create(&faulter, fault_once, map_pages(1, RW, ANON));
	actor_create(&replacer, become_large, NULL);
	faulter.start = 1;
	MUST(wait_flag(&is_warm, 10000));
	hold("pmd_walk_read", faulter.tid);
	may_fault = 1;
	CHECK(is_held("pmd_walk_read"));
	replacer.start = 1;
	CHECK(wait_flag(&replacer.done, 4000));
	go();
	actor_join(&faulter);
	actor_join(&replacer);
	MUST(munmap(place, GIB) == 0);
}

int main(void)
{
	make_gib_file();
	run_huge_race(racing, forced, 600);
}
