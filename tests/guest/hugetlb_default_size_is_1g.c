/*
 * default_hugepagesz= decides what a MAP_HUGETLB without a size means, and whose numbers /proc/meminfo and /proc/sys/vm tell; sizes that
 * the machine does not have are ignored, with the count that follows them.
 * mem: 4G
 * append: hugepagesz=3M hugepages=7 hugepagesz=2M hugepages=3 default_hugepagesz=1G hugepages=1
 */
#include "hugetlb_test.h"

int main(void)
{
	char *p;

	CHECK_EQUAL(3, read_number(POOL "nr_hugepages"));
	CHECK_EQUAL(1, read_number(POOL_1G "nr_hugepages"));
	CHECK_EQUAL(1, read_number("/proc/sys/vm/nr_hugepages"));
	CHECK_EQUAL(1, proc_number("/proc/meminfo", "HugePages_Total"));
	CHECK_EQUAL(1 << 20, proc_number("/proc/meminfo", "Hugepagesize"));
	CHECK_EQUAL((1 << 20) + 3 * 2048, proc_number("/proc/meminfo", "Hugetlb"));
	CHECK_EQUAL(EINVAL, try_write("/proc/sys/vm/nr_overcommit_hugepages", "1"));
	p = mmap(NULL, HUGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	MUST(p != MAP_FAILED);
	CHECK_EQUAL(1, read_number(POOL_1G "resv_hugepages"));
	CHECK_EQUAL(1, proc_number("/proc/meminfo", "HugePages_Rsvd"));
	CHECK_EQUAL(0, munmap(p, GIB));
	p = map_huge(1, RW, HUGE_ANON);
	CHECK_POOL(3, 1);
	unmap_huge(p, 1);
	MUST(mount_huge("/tmp/.huge", NULL) == 0);
	CHECK(strstr(read_text("/proc/mounts"), "/tmp/.huge hugetlbfs rw,relatime,pagesize=1024M"));
	MUST(umount("/tmp/.huge") == 0);
	CHECK_POOL(3, 0);
	CHECK_EQUAL(0, read_number(POOL_1G "resv_hugepages"));
	test_end();
}
