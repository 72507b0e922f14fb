/*
 * What /proc says about shared tables and the huge pages in them. Rules E19, H5, H7, H8, A31.
 *
 * append: hugepages=24
 */
#include "pmd_share_test.h"

static uint64_t pagemap(const char *p)
{
	int f = open("/proc/self/pagemap", O_RDONLY);
	uint64_t v = 0;

	MUST(f >= 0 && pread(f, &v, 8, (off_t)((uintptr_t)p / PAGE * 8)) == 8);
	close(f);
	return v;
}

#define PRESENT		(1ull << 63)
#define FILE_PAGE	(1ull << 61)
#define EXCLUSIVE	(1ull << 56)
#define PFN(v)		((v) & ((1ull << 55) - 1))

static void sharer_sees(void)
{
	CHECK_EQUAL(1, faults_reading(WINDOW, PAGES, 1));
	CHECK_EQUAL(PAGES * 2048, smaps_kb(WINDOW, "Shared_Hugetlb"));
	CHECK_EQUAL(0, smaps_kb(WINDOW, "Private_Hugetlb"));
	for (int i = 0; i < PAGES; i++) {
		const char *p = WINDOW + (unsigned long)i * HUGE;
		uint64_t first = pagemap(p), last = pagemap(p + HUGE - PAGE);

		CHECK((first & (PRESENT | FILE_PAGE)) == (PRESENT | FILE_PAGE) && !(first & EXCLUSIVE));
		CHECK_EQUAL(PFN(first) + 511, PFN(last));
	}
	CHECK_EQUAL(0, pagemap(WINDOW + PAGES * HUGE) & (PRESENT | PFN(~0ull)));
	/* mincore tells which entries are there, for each 4 KiB. */
	CHECK_EQUAL(256, resident(WINDOW + HUGE, 256));
	CHECK_EQUAL(128, resident(WINDOW + PAGES * HUGE - 128 * PAGE, 256));
}

/* A table that is shared counts in full for each who uses it. */
static void tables_count_for_each(void)
{
	long before = proc_number("/proc/self/status", "VmPTE"), with;

	map_huge(WINDOW + 32 * GIB, GIB, RW, MAP_SHARED, open("/proc/self/fd/3", O_RDWR), 0);
	CHECK_EQUAL(1, *(volatile char *)(WINDOW + 32 * GIB));
	with = proc_number("/proc/self/status", "VmPTE");
	CHECK(with - before >= 4);
}

int main(void)
{
	int fd = huge_file(1);

	MUST(dup2(fd, 3) == 3);
	map_huge(WINDOW, GIB, RW, MAP_SHARED, fd, 0);
	CHECK_EQUAL(2048, smaps_kb(WINDOW, "KernelPageSize"));
	CHECK_EQUAL(2048, smaps_kb(WINDOW, "MMUPageSize"));
	fill(WINDOW, PAGES, 1);
	CHECK_EQUAL(0, smaps_kb(WINDOW, "Shared_Hugetlb"));
	CHECK_EQUAL(PAGES * 2048, smaps_kb(WINDOW, "Private_Hugetlb"));
	CHECK_EQUAL(0, smaps_kb(WINDOW, "Rss"));
	CHECK_EQUAL(PAGES * 2048, proc_number("/proc/self/status", "HugetlbPages"));
	in_checked_child(sharer_sees);
	tables_count_for_each();
	CHECK_EQUAL(PAGES * 2048, smaps_kb(WINDOW, "Shared_Hugetlb"));
	test_end();
}
