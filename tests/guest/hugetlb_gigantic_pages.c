/*
 * Rule D28: pages of 1 GiB, from the command line and at run time, by the same rules; a pool of its own that the one of 2 MiB
 * does not see.
 * mem: 4G
 * append: hugepagesz=1G hugepages=1
 * timeout: 120
 */
#include "hugetlb_test.h"

#define ANON_1G	(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_1G)

static void check_gib(int line, long total, long free, long rsvd, long surplus)
{
	long t = read_number(POOL_1G "nr_hugepages"), f = read_number(POOL_1G "free_hugepages"), r = read_number(POOL_1G "resv_hugepages"),
	     s = read_number(POOL_1G "surplus_hugepages");

	if (t != total || f != free || r != rsvd || s != surplus) {
		printf("line %d: expected %ld %ld %ld %ld, got Total %ld Free %ld Rsvd %ld Surp %ld\n", line, total, free, rsvd, surplus, t, f, r, s);
		test_failures++;
	}
}
#define CHECK_GIB(total, free, rsvd, surplus)	check_gib(__LINE__, total, free, rsvd, surplus)

static void mapping(void)
{
	char *p = mmap(NULL, 1, RW, ANON_1G, -1, 0);
	unsigned char vec;

	MUST(p != MAP_FAILED);
	CHECK_EQUAL(0, (unsigned long)p % GIB);
	CHECK_GIB(1, 1, 1, 0);
	CHECK_ERRNO(ENOMEM, sys_mmap(0, GIB, RW, ANON_1G, -1, 0));
	CHECK_EQUAL(0, sys_mincore(p + 12345 * PAGE, PAGE, &vec));
	CHECK_EQUAL(0, vec & 1);
	p[0] = 1;
	p[GIB - 1] = 2;
	CHECK_GIB(1, 0, 0, 0);
	CHECK_EQUAL(0, p[GIB / 2]);
	CHECK_EQUAL(0, sys_mincore(p + 12345 * PAGE, PAGE, &vec));
	CHECK_EQUAL(1, vec & 1);
	CHECK_EQUAL(1 << 20, smaps_kb(p, "Private_Hugetlb"));
	CHECK_EQUAL(0, mprotect(p, GIB, PROT_READ));
	CHECK_FAULT(SIGSEGV, 2, p + 99, access_byte((unsigned long)p + 99, WRITE));
	CHECK_EQUAL(2, p[GIB - 1]);
	CHECK_ERRNO(EINVAL, sys_munmap(p, HUGE));
	CHECK_ERRNO(EINVAL, sys_munmap(p + HUGE, GIB - HUGE));
	CHECK_ERRNO(EINVAL, sys_mprotect(p, HUGE, RW));
	CHECK_ERRNO(EINVAL, sys_madvise(p + HUGE, HUGE, MADV_DONTNEED));
	CHECK_EQUAL(0, sys_madvise(p, GIB - PAGE, MADV_DONTNEED));
	CHECK_EQUAL(2, p[GIB - 1]);
	CHECK_EQUAL(0, sys_madvise(p, GIB, MADV_DONTNEED));
	CHECK_GIB(1, 1, 1, 0);
	CHECK_EQUAL(0, munmap(p, GIB));
	CHECK_GIB(1, 1, 0, 0);
}

static void files(void)
{
	int fd = (int)syscall(SYS_memfd_create, "gib", MFD_HUGETLB | HUGE_1G);
	struct stat st;
	char *p, *q;

	MUST(fd >= 0 && fstat(fd, &st) == 0);
	CHECK_EQUAL(GIB, st.st_blksize);
	CHECK_ERRNO(EINVAL, ftruncate(fd, (off_t)HUGE));
	p = mmap(NULL, GIB, RW, MAP_SHARED, fd, 0);
	MUST(p != MAP_FAILED);
	q = mmap(NULL, GIB, PROT_READ, MAP_SHARED, fd, 0);
	MUST(q != MAP_FAILED);
	CHECK_ERRNO(EINVAL, sys_mmap(0, GIB, RW, MAP_SHARED, fd, HUGE));
	CHECK_GIB(1, 1, 1, 0);
	p[700 << 20] = 'g';
	CHECK_EQUAL('g', q[700 << 20]);
	CHECK_GIB(1, 0, 0, 0);
	CHECK_EQUAL(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 700 << 20, 1));
	CHECK_EQUAL(0, q[700 << 20]);
	CHECK_GIB(1, 0, 0, 0);
	munmap(p, GIB);
	munmap(q, GIB);
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_GIB(1, 1, 0, 0);
	close(fd);

	MUST(mount_huge("/tmp/.gib", "pagesize=1G,size=1G,min_size=1G") == 0);
	CHECK_GIB(1, 1, 1, 0);
	char *text = read_text("/proc/mounts");
	CHECK(strstr(text, "pagesize=1024M,size=1073741824,min_size=1073741824"));
	CHECK_EQUAL(0, umount("/tmp/.gib"));
	CHECK_GIB(1, 1, 0, 0);
}

/* One more, if memory has a free, aligned GiB left; and none. */
static void resizing(void)
{
	char *p = mmap(NULL, GIB, RW, ANON_1G, -1, 0);
	long now;

	MUST(p != MAP_FAILED);
	p[0] = 1;
	set_number(POOL_1G "nr_hugepages", 0);
	CHECK_GIB(1, 0, 0, 1);
	munmap(p, GIB);
	CHECK_GIB(0, 0, 0, 0);
	CHECK_ERRNO(ENOMEM, sys_mmap(0, GIB, RW, ANON_1G, -1, 0));
	set_number(POOL_1G "nr_hugepages", 3);
	now = read_number(POOL_1G "nr_hugepages");
	CHECK(now >= 1 && now <= 3);
	CHECK_GIB(now, now, 0, 0);
	CHECK_EQUAL(EINVAL, try_write(POOL_1G "nr_overcommit_hugepages", "1"));
	set_number(POOL_1G "nr_hugepages", 1);
	CHECK_GIB(1, 1, 0, 0);
}

int main(void)
{
	catch_faults();
	CHECK_GIB(1, 1, 0, 0);
	CHECK_EQUAL(0, proc_number("/proc/meminfo", "HugePages_Total"));	/* those are of the default size */
	CHECK_EQUAL(1 << 20, proc_number("/proc/meminfo", "Hugetlb"));
	CHECK_EQUAL(2048, proc_number("/proc/meminfo", "Hugepagesize"));
	mapping();
	files();
	resizing();
	test_end();
}
