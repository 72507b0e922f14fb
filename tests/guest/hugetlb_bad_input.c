/*
 * Rules A13, A16, A22, A26, A31, A33 where huge, D12, D13, D27: odd sizes, unaligned edges, sizes that no pool has. Linux's errno,
 * and nothing is changed or lost.
 */
#include "hugetlb_test.h"

#include <sys/prctl.h>

static int fd;

static void bad_mmap(void)
{
	char *free_place = map_huge(2, PROT_NONE, HUGE_ANON | MAP_NORESERVE);

	unmap_huge(free_place, 2);
	CHECK_ERRNO(EINVAL, sys_mmap(0, HUGE, RW, ANON | MAP_HUGETLB | 24 << 26, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, HUGE, RW, ANON | MAP_HUGETLB | 63 << 26, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, 0, RW, HUGE_ANON, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, HUGE, RW, HUGE_ANON, -1, 4096));
	CHECK_ERRNO(EINVAL, sys_mmap(0, HUGE, RW, HUGE_ANON, -1, 1));
	CHECK_ERRNO(EINVAL, sys_mmap(free_place + 4096, HUGE, RW, HUGE_ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, HUGE, RW, MAP_SHARED, fd, 4096));
	CHECK_ERRNO(EINVAL, sys_mmap(free_place + 4096, HUGE, RW, MAP_SHARED | MAP_FIXED, fd, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(TASK_SIZE - HUGE / 2, HUGE, RW, HUGE_ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(TASK_SIZE / HUGE * HUGE, HUGE, RW, HUGE_ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 1ul << 48, RW, HUGE_ANON | MAP_NORESERVE, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 1ul << 46, RW, HUGE_ANON, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 1ul << 46, RW, HUGE_SHARED, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, ~0ul, RW, HUGE_ANON, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, HUGE, RW, MAP_ANONYMOUS | MAP_HUGETLB | HUGE_2M, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, HUGE, RW, MAP_DROPPABLE | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_2M, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, HUGE, RW, HUGE_ANON | MAP_GROWSDOWN, -1, 0));
	CHECK_ERRNO(EBADF, sys_mmap(0, HUGE, RW, MAP_PRIVATE | MAP_HUGETLB, -1, 0));

	int ordinary = make_memfd(1, 0);

	CHECK_ERRNO(EINVAL, sys_mmap(0, HUGE, RW, MAP_SHARED | MAP_HUGETLB, ordinary, 0));
	close(ordinary);
	CHECK_POOL(10, 0);

	/* A hint is rounded, the length too. */
	char *p = mmap(free_place + 4096, 5000, RW, HUGE_ANON, -1, 0);
	struct vma_line v;

	MUST(p != MAP_FAILED);
	CHECK_EQUAL(0, (unsigned long)p % HUGE);
	CHECK(vma_at(p, &v) && v.end - v.start == HUGE);
	CHECK_POOL(10, 1);
	CHECK_ERRNO(EINVAL, sys_munmap(p, 5000));
	unmap_huge(p, 1);
}

static void bad_edges(void)
{
	char *p = map_huge(4, RW, HUGE_ANON);
	unsigned char vec[2048];

	p[HUGE] = 1;
	CHECK_POOL(9, 3);
	CHECK_ERRNO(EINVAL, sys_munmap(p + 4096, HUGE));
	CHECK_ERRNO(EINVAL, sys_munmap(p, 4096));
	CHECK_ERRNO(EINVAL, sys_munmap(p, HUGE + 4096));
	CHECK_ERRNO(EINVAL, sys_munmap(p + HUGE, HUGE - 4096));
	CHECK_ERRNO(EINVAL, sys_mprotect(p, 4096, PROT_READ));
	CHECK_ERRNO(EINVAL, sys_mprotect(p + 4096, HUGE, PROT_READ));
	CHECK_ERRNO(EINVAL, sys_mmap(p + HUGE / 2, HUGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(p + HUGE, 4096, RW, ANON | MAP_FIXED, -1, 0));
	CHECK(is_mapped(p, 4 * HUGE));
	CHECK_EQUAL(1, p[HUGE]);
	CHECK_POOL(9, 3);

	CHECK_ERRNO(EINVAL, sys_madvise(p + 4096, HUGE, MADV_DONTNEED));
	CHECK_EQUAL(0, sys_madvise(p + HUGE, 4096, MADV_DONTNEED));	/* rounds down to nothing */
	CHECK_EQUAL(1, p[HUGE]);
	CHECK_EQUAL(0, sys_madvise(p + HUGE, 2 * HUGE - 4096, MADV_DONTNEED));
	CHECK_POOL(10, 4);
	CHECK_ERRNO(EINVAL, sys_madvise(p, HUGE, MADV_FREE));
	CHECK_EQUAL(0, sys_madvise(p, 4 * HUGE, MADV_HUGEPAGE));	/* means nothing here */
	CHECK_ERRNO(EACCES, sys_madvise(p, HUGE, MADV_REMOVE));
	CHECK_EQUAL(0, sys_madvise(p, 2 * HUGE, MADV_POPULATE_WRITE));
	CHECK_POOL(8, 2);
	CHECK_EQUAL(0, sys_madvise(p + 2 * HUGE, HUGE, MADV_POPULATE_READ));
	CHECK_POOL(7, 1);

	/* A31: each 4 KiB slot of a page that is mapped. */
	MUST(sys_mincore(p + 2 * HUGE, 2 * HUGE, vec) == 0);
	CHECK(vec[0] == 1 && vec[511] == 1 && vec[512] == 0 && vec[1023] == 0);
	MUST(sys_mincore(p + 3 * HUGE - 4096, 8192, vec) == 0);
	CHECK(vec[0] == 1 && vec[1] == 0);
	CHECK_EQUAL(0, sys_msync(p, 4096, MS_SYNC));

	/* A33: succeeds, faults in, and the VMA is not marked. */
	CHECK_EQUAL(0, sys_mlock(p + 3 * HUGE, 4096));
	CHECK_POOL(6, 0);
	CHECK(!smaps_flag(p, "lo"));
	CHECK_EQUAL(0, proc_number("/proc/self/status", "VmLck"));
	CHECK_EQUAL(0, sys_munlock(p, 4 * HUGE));
	unmap_huge(p, 4);
	CHECK_POOL(10, 0);

	p = map_huge(2, RW, HUGE_ANON | MAP_LOCKED);
	CHECK_POOL(8, 0);
	CHECK_EQUAL(0, proc_number("/proc/self/status", "VmLck"));
	unmap_huge(p, 2);
	p = map_huge(2, RW, HUGE_ANON | MAP_POPULATE);
	CHECK_POOL(8, 0);
	unmap_huge(p, 2);
}

/* Lines of /proc/self/maps between two addresses. */
static int vmas_between(const char *from, const char *to)
{
	char *text = read_text("/proc/self/maps");
	int n = 0;

	for (char *line; (line = next_line(&text)); ) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start < (unsigned long)to && end > (unsigned long)from)
			n++;
	}
	return n;
}

/* What fails at an edge of a huge page has not begun to cut, neither there nor at its other end, in small pages. */
static void no_split_is_left(void)
{
	char *all = mmap(NULL, 7 * HUGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0), *p;

	MUST(all != MAP_FAILED);
	p = (char *)(((uintptr_t)all + 2 * HUGE - 1) & -HUGE);
	MUST(mmap(p - 4 * PAGE, 4 * PAGE, RW, ANON | MAP_FIXED, -1, 0) != MAP_FAILED);
	MUST(mmap(p, 3 * HUGE, RW, HUGE_ANON | MAP_FIXED, -1, 0) == p);
	CHECK_EQUAL(2, vmas_between(p - 4 * PAGE, p + 3 * HUGE));
	CHECK_ERRNO(EINVAL, sys_munmap(p, HUGE + PAGE));
	CHECK_ERRNO(EINVAL, sys_munmap(p + PAGE, HUGE));
	CHECK_ERRNO(EINVAL, sys_munmap(p + PAGE, 2 * HUGE - PAGE));
	CHECK_ERRNO(EINVAL, sys_munmap(p + 2 * HUGE + PAGE, HUGE));
	CHECK_ERRNO(EINVAL, sys_mmap(p + PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mprotect(p, PAGE, PROT_READ));
	CHECK_ERRNO(EINVAL, sys_madvise(p, PAGE, MADV_DONTFORK));
	CHECK_EQUAL(2, vmas_between(p - 4 * PAGE, p + 3 * HUGE));
	/* Linux cuts at the small end first, and leaves it so. */
	CHECK_ERRNO(EINVAL, sys_munmap(p - 2 * PAGE, 2 * PAGE + HUGE + PAGE));
	if (access("/sys/kernel/faultline", F_OK) == 0)
		CHECK_EQUAL(2, vmas_between(p - 4 * PAGE, p + 3 * HUGE));
	CHECK(is_mapped(p - 4 * PAGE, 4 * PAGE + 3 * HUGE));
	CHECK_POOL(10, 3);
	MUST(munmap(all, 7 * HUGE) == 0);
	CHECK_POOL(10, 0);
}

/* Without transparent huge pages, for this process at least: a hole is told apart from what cannot be collapsed. */
static void collapse(void)
{
	char *p = map_huge(2, RW, HUGE_ANON), *q = map_pages(4 * HUGE / PAGE, RW, ANON);
	char *hole = (char *)(((uintptr_t)q + 2 * HUGE - 1) & -HUGE);

	MUST(munmap(hole, HUGE) == 0);
	prctl(41 /* PR_SET_THP_DISABLE */, 1, 0, 0, 0);
	CHECK_ERRNO(ENOMEM, sys_madvise(hole, HUGE, MADV_COLLAPSE));
	CHECK_ERRNO(ENOMEM, sys_madvise(hole, PAGE, MADV_COLLAPSE));
	CHECK_ERRNO(ENOMEM, sys_madvise(PAGE, PAGE, MADV_COLLAPSE));
	CHECK_ERRNO(EINVAL, sys_madvise(hole, 2 * HUGE, MADV_COLLAPSE));
	CHECK_ERRNO(EINVAL, sys_madvise(hole - PAGE, 2 * PAGE, MADV_COLLAPSE));
	CHECK_ERRNO(EINVAL, sys_madvise(hole + HUGE, HUGE, MADV_COLLAPSE));
	CHECK_ERRNO(EINVAL, sys_madvise(p, HUGE, MADV_COLLAPSE));
	CHECK_ERRNO(EINVAL, sys_madvise(p + 1, HUGE, MADV_COLLAPSE));
	CHECK_EQUAL(0, sys_madvise(p, 0, MADV_COLLAPSE));
	prctl(41, 0, 0, 0, 0);
	unmap_huge(p, 2);
	MUST(munmap(q, hole - q) == 0 && munmap(hole + HUGE, (size_t)(q + 4 * HUGE - hole) - HUGE) == 0);
}

/* Another page of the same file, whole ones only; the window is then a mapping of its own. */
static void remap(void)
{
	char *p;

	MUST(ftruncate(fd, 4 * HUGE) == 0);
	p = map_fd(fd, 4, RW, MAP_SHARED, 0);
	for (int i = 0; i < 4; i++)
		p[i * HUGE] = (char)('a' + i);
	CHECK_EQUAL(0, sys_remap_file_pages(p, HUGE, 0, 512, 0));
	CHECK_EQUAL('b', p[0]);
	CHECK_EQUAL('b', p[HUGE]);
	CHECK_EQUAL(2, vmas_between(p, p + 4 * HUGE));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p, PAGE, 0, 512, 0));
	CHECK_ERRNO(EINVAL, sys_remap_file_pages(p + PAGE, HUGE, 0, 0, 0));
	CHECK_EQUAL(0, sys_remap_file_pages(p, HUGE, 0, 0, 0));
	CHECK_EQUAL('a', p[0]);
	CHECK_POOL(6, 0);
	unmap_huge(p, 4);
	MUST(ftruncate(fd, 0) == 0);
	CHECK_POOL(10, 0);
}

static void bad_mremap(void)
{
	char *p = map_huge(2, RW, HUGE_ANON), *q = map_huge(4, PROT_NONE, HUGE_ANON | MAP_NORESERVE);

	CHECK_POOL(10, 2);
	CHECK_ERRNO(EINVAL, sys_mremap(p, 2 * HUGE, 4 * HUGE, MREMAP_MAYMOVE, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p, 2 * HUGE, 3 * HUGE, 0, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p + 4096, HUGE, HUGE, MREMAP_MAYMOVE, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p, 2 * HUGE, 2 * HUGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p, 2 * HUGE, 2 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, q + 4096));
	CHECK(sys_mremap(p, 2 * HUGE, 2 * HUGE, 0, 0) == (long)p);
	CHECK_POOL(10, 2);
	CHECK(is_mapped(p, 2 * HUGE) && is_mapped(q, 4 * HUGE));
	unmap_huge(p, 2);
	unmap_huge(q, 4);
	CHECK_POOL(10, 0);
}

/* RLIMIT_AS and map_count stop a mapping before or after its promise: none is left behind. */
static void limited(void *arg)
{
	(void)arg;
	set_limit(RLIMIT_AS, 16 << 20);
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 8 * HUGE, RW, HUGE_ANON, -1, 0));
	CHECK_POOL(10, 0);
}

static void rights(void)
{
	char *p = map_huge(1, PROT_READ, HUGE_ANON);

	CHECK_FAULT(SIGSEGV, 2, p + 77, access_byte((unsigned long)p + 77, WRITE));
	CHECK_EQUAL(0, p[0]);
	CHECK_POOL(9, 0);
	CHECK_EQUAL(0, mprotect(p, HUGE, RW));
	p[0] = 1;
	CHECK_POOL(9, 0);
	CHECK_EQUAL(0, mprotect(p, HUGE, PROT_NONE));
	CHECK_FAULT(SIGSEGV, 2, p, access_byte((unsigned long)p, READ));
	CHECK_EQUAL(0, mprotect(p, HUGE, PROT_READ));
	CHECK_EQUAL(1, p[0]);
	unmap_huge(p, 1);
	CHECK_POOL(10, 0);
}

int main(void)
{
	catch_faults();
	pool_begin(10);
	fd = huge_memfd(0);
	bad_mmap();
	bad_edges();
	no_split_is_left();
	collapse();
	remap();
	bad_mremap();
	IN_CHILD(limited);
	rights();
	close(fd);
	pool_end(10);
}
