/*
 * Rules D1 to D3: growing and shrinking a pool, under reservations and pages in use, surplus pages that come and go by
 * overcommit, and what is refused.
 */
#include "hugetlb_test.h"

static void check_all(int line, long total, long free, long rsvd, long surplus)
{
	struct pool p = pool_now();

	if (p.total == total && p.free == free && p.rsvd == rsvd && p.surplus == surplus)
		return;
	printf("line %d: expected %ld %ld %ld %ld, got Total %ld Free %ld Rsvd %ld Surp %ld\n", line, total, free, rsvd, surplus,
	       p.total, p.free, p.rsvd, p.surplus);
	test_failures++;
}
#define CHECK_ALL(total, free, rsvd, surplus)	check_all(__LINE__, total, free, rsvd, surplus)

static void refused_words(void)
{
	CHECK_EQUAL(EINVAL, try_write(POOL "nr_hugepages", "many"));
	CHECK_EQUAL(EINVAL, try_write(POOL "nr_hugepages", "-1"));
	CHECK_EQUAL(EINVAL, try_write(POOL "nr_hugepages", "3 4"));
	CHECK_EQUAL(EINVAL, try_write(POOL "nr_hugepages", "0x10"));
	CHECK_EQUAL(ERANGE, try_write(POOL "nr_hugepages", "99999999999999999999"));
	CHECK_EQUAL(EINVAL, try_write(POOL "nr_hugepages", "\n"));
	CHECK_EQUAL(EINVAL, try_write(POOL "nr_overcommit_hugepages", "\n"));
	CHECK_EQUAL(EINVAL, try_write("/proc/sys/vm/nr_hugepages", "\n"));
	CHECK_EQUAL(EINVAL, try_write("/proc/sys/vm/nr_hugepages", "08"));
	CHECK_EQUAL(0, try_write("/proc/sys/vm/nr_hugepages", "0x4"));
	CHECK_EQUAL(0, try_write("/proc/sys/vm/nr_hugepages", "04"));
	CHECK_EQUAL(EINVAL, try_write("/proc/sys/vm/nr_hugepages", "many"));
	CHECK_EQUAL(EINVAL, try_write("/proc/sys/vm/nr_overcommit_hugepages", "none"));
	CHECK_EQUAL(EINVAL, try_write(POOL "nr_overcommit_hugepages", "none"));
	CHECK_EQUAL(EACCES, try_write(POOL "free_hugepages", "1") ? EACCES : 0);
	CHECK_ALL(4, 4, 0, 0);
	CHECK_EQUAL(4, read_number("/proc/sys/vm/nr_hugepages"));
}

/* What write returned, or -errno. */
static long wrote(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	long n;

	MUST(fd >= 0);
	n = write(fd, text, strlen(text));
	if (n < 0)
		n = -errno;
	close(fd);
	return n;
}

/* Files of /sys and of /proc/sys read numbers by rules of their own. */
static void accepted_words(void)
{
	static const char *const group = "/proc/sys/vm/hugetlb_shm_group", *const proc = "/proc/sys/vm/nr_hugepages";

	CHECK_EQUAL(2, wrote(POOL "nr_hugepages", "+4"));
	CHECK_EQUAL(-EINVAL, wrote(POOL "nr_hugepages", "++4"));
	CHECK_EQUAL(-EINVAL, wrote(POOL "nr_hugepages", "+"));
	CHECK_EQUAL(-EINVAL, wrote(POOL "nr_hugepages", " 4"));
	CHECK_EQUAL(2, wrote(POOL "nr_overcommit_hugepages", "+0"));
	CHECK_EQUAL(-EINVAL, wrote(proc, "+4"));
	CHECK_EQUAL(2, wrote(proc, "4 9"));		/* as much as was used */
	CHECK_EQUAL(3, wrote(proc, " 4\n"));
	CHECK_EQUAL(0, wrote(POOL "nr_hugepages", ""));
	CHECK_EQUAL(0, wrote(proc, ""));
	CHECK_ALL(4, 4, 0, 0);

	CHECK_EQUAL(4, wrote(group, "0x10"));
	CHECK_EQUAL(16, read_number(group));
	CHECK_EQUAL(4, wrote(group, " 010"));
	CHECK_EQUAL(8, read_number(group));
	CHECK_EQUAL(2, wrote(group, "-7"));
	CHECK_EQUAL(-7, read_number(group));
	CHECK_EQUAL(2, wrote(group, "9 8"));
	CHECK_EQUAL(9, read_number(group));
	CHECK_EQUAL(-EINVAL, wrote(group, "2147483648"));
	CHECK_EQUAL(-EINVAL, wrote(group, "08"));
	CHECK_EQUAL(-EINVAL, wrote(group, "+7"));
	CHECK_EQUAL(-EINVAL, wrote(group, "- 7"));
	CHECK_EQUAL(-EINVAL, wrote(group, "--7"));
	CHECK_EQUAL(-EINVAL, wrote(group, "-"));
	CHECK_EQUAL(9, read_number(group));
	CHECK_EQUAL(1, wrote(group, "0"));
}

static void both_names_are_one_pool(void)
{
	write_file("/proc/sys/vm/nr_hugepages", "6\n");
	CHECK_ALL(6, 6, 0, 0);
	write_file("/proc/sys/vm/nr_hugepages", "  4 \n");
	CHECK_ALL(4, 4, 0, 0);
	CHECK_EQUAL(4, proc_number("/proc/meminfo", "HugePages_Total"));
	CHECK_EQUAL(4, proc_number("/proc/meminfo", "HugePages_Free"));
	CHECK_EQUAL(2048, proc_number("/proc/meminfo", "Hugepagesize"));
	CHECK_EQUAL(4 * 2048, proc_number("/proc/meminfo", "Hugetlb"));
	CHECK_EQUAL(0, read_number("/proc/sys/vm/nr_overcommit_hugepages"));
}

/* Promised pages stay; pages in use become surplus, and leave when they are freed. */
static void shrinks_under_users(void)
{
	char *p = map_huge(3, RW, HUGE_ANON);

	p[0] = 1;
	CHECK_ALL(4, 3, 2, 0);
	set_number(POOL "nr_hugepages", 0);
	CHECK_ALL(3, 2, 2, 3);			/* the one that nobody wanted is gone */
	CHECK_EQUAL(0, read_number("/proc/sys/vm/nr_hugepages"));
	p[HUGE] = 1;
	p[2 * HUGE] = 1;
	CHECK_ALL(3, 0, 0, 3);
	set_number(POOL "nr_hugepages", 2);	/* growing takes surplus over first */
	CHECK_ALL(3, 0, 0, 1);
	set_number(POOL "nr_hugepages", 0);
	CHECK_ALL(3, 0, 0, 3);
	unmap_huge(p, 3);
	CHECK_ALL(0, 0, 0, 0);
	set_number(POOL "nr_hugepages", 4);
	CHECK_ALL(4, 4, 0, 0);
}

/* A mapping of more than there is gets pages made at mmap, if overcommit allows it; they go with the promise. */
static void overcommit(void)
{
	char *p;

	CHECK_ERRNO(ENOMEM, sys_mmap(0, 5 * HUGE, RW, HUGE_ANON, -1, 0));
	CHECK_ALL(4, 4, 0, 0);
	set_number(POOL "nr_overcommit_hugepages", 2);
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 7 * HUGE, RW, HUGE_ANON, -1, 0));
	CHECK_ALL(4, 4, 0, 0);
	p = map_huge(6, RW, HUGE_ANON);
	CHECK_ALL(6, 6, 6, 2);
	CHECK_ERRNO(ENOMEM, sys_mmap(0, HUGE, RW, HUGE_ANON, -1, 0));
	unmap_huge(p, 6);
	CHECK_ALL(4, 4, 0, 0);

	p = map_huge(6, RW, HUGE_ANON);
	memset(p, 1, 6 * HUGE);
	CHECK_ALL(6, 0, 0, 2);
	CHECK_EQUAL(0, madvise(p, HUGE, MADV_DONTNEED));	/* no promise comes back while there is surplus: the page goes */
	CHECK_ALL(5, 0, 0, 1);
	CHECK_EQUAL(0, p[0]);					/* made anew, in the fault */
	CHECK_ALL(6, 0, 0, 2);
	unmap_huge(p, 6);
	CHECK_ALL(4, 4, 0, 0);

	p = map_huge(5, RW, HUGE_ANON | MAP_NORESERVE);
	CHECK_ALL(4, 4, 0, 0);
	memset(p, 1, 5 * HUGE);
	CHECK_ALL(5, 0, 0, 1);
	set_number(POOL "nr_overcommit_hugepages", 0);		/* what is there stays */
	CHECK_ALL(5, 0, 0, 1);
	unmap_huge(p, 5);
	CHECK_ALL(4, 4, 0, 0);
}

/* More than memory has: success, and as many as there were. */
static void partial_success(void)
{
	struct pool p;

	CHECK_EQUAL(0, try_write(POOL "nr_hugepages", "1000000"));
	p = pool_now();
	CHECK(p.total > 50 && p.total < 512 && p.free == p.total && p.rsvd == 0 && p.surplus == 0);
	CHECK_EQUAL(p.total, read_number("/proc/sys/vm/nr_hugepages"));
	set_number(POOL "nr_hugepages", 4);
	CHECK_ALL(4, 4, 0, 0);
}

/* D28: 1 GiB pages are not made for overcommit. */
static void gigantic_overcommit(void)
{
	if (access(POOL_1G "nr_hugepages", F_OK))
		return;
	CHECK_EQUAL(EINVAL, try_write(POOL_1G "nr_overcommit_hugepages", "1"));
	CHECK_EQUAL(0, read_number(POOL_1G "nr_hugepages"));
}

int main(void)
{
	pool_begin(4);
	refused_words();
	accepted_words();
	both_names_are_one_pool();
	shrinks_under_users();
	overcommit();
	partial_success();
	gigantic_overcommit();
	pool_end(4);
}
