/*
 * R10. Who walks tables without a lock tests an entry ("is it a table?") and follows it. If it reads the entry a second time to
 * follow it, a page or nothing may be there by then, and its contents are taken for a table.
 *
 * append: hugepages=64
 * build: debug
 * linux: slow
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 */
#include "hugetlb.h"

static char *const place = WINDOW(0);
static int small_fd;

/* At one address in turn: huge pages, small pages (a table), nothing. */
static void replace(struct racer *r)
{
	long value = canary(1, 0);

	switch (r->rounds % 4) {
	case 0:
		map_window(0, HUGE, RW);
		break;
	case 1:
		MUST(mmap(place, HUGE, RW, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == place);
		break;
	case 2:
		MUST(mmap(place, HUGE, RW, MAP_SHARED | MAP_FIXED, small_fd, 0) == place);
		break;
	default:
		MUST(munmap(place, HUGE) == 0);
		return;
	}
	touch((volatile long *)place, true, &value);
}

/* Each way of walking: none may crash, and what it copies is a canary or zero. */
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
			CHECK(got == 0 || got == canary(1, 0));
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
		CHECK(value == 0 || value == canary(1, 0));
}

static void racing(void)
{
	struct racer racers[] = { { .round = replace }, { .round = walk }, { .round = walk }, { .round = read_smaps }, { .round = access_it } };

	make_huge_file(1);
	write_canary(map_huge(1, RW, MAP_SHARED, huge_fd), canary(1, 0));
	small_fd = make_memfd(512, 0);
	race(RACE_SECONDS, racers, 5);
}

int main(void)
{
	run_huge_race(racing, NULL, 600);
}
