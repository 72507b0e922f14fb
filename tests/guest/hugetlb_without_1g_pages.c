/*
 * A processor without 1 GiB pages: no such pool, no such mount, no such mapping; what the command line wants of it is ignored.
 * cpu: max,-cx16,-la57,-pdpe1gb
 * append: hugepagesz=1G hugepages=1 hugepagesz=2M hugepages=3 default_hugepagesz=1G hugepages=2
 */
#include "hugetlb_test.h"

int main(void)
{
	CHECK(access(POOL_1G, F_OK) && errno == ENOENT);
	CHECK_EQUAL(2048, proc_number("/proc/meminfo", "Hugepagesize"));
	CHECK_EQUAL(3, proc_number("/proc/meminfo", "HugePages_Total"));
	CHECK_EQUAL(3 * 2048, proc_number("/proc/meminfo", "Hugetlb"));
	CHECK_ERRNO(EINVAL, sys_mmap(0, GIB, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_1G, -1, 0));
	CHECK_ERRNO(ENODEV, syscall(SYS_memfd_create, "x", MFD_HUGETLB | HUGE_1G));
	CHECK_ERRNO(EINVAL, shmget(IPC_PRIVATE, GIB, IPC_CREAT | SHM_HUGETLB | HUGE_1G | 0600));
	CHECK_EQUAL(EINVAL, mount_huge("/tmp/.gib", "pagesize=1G"));
	char *p = mmap(NULL, HUGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	MUST(p != MAP_FAILED);
	p[0] = 1;
	CHECK_POOL(2, 0);
	unmap_huge(p, 1);
	CHECK_POOL(3, 0);
	test_end();
}
