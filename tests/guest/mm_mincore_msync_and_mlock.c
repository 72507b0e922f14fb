/*
 * mincore tells what is there, msync checks before it writes, the mlock family counts against RLIMIT_MEMLOCK. Rules A31..A34.
 */
#include "mm_test.h"

static int zero_pages_of(const char *p, size_t pages)
{
	int n = 0;

	for (size_t i = 0; i < pages; i++)
		n += p[i * PAGE] == 0;
	return n;
}

/* A31 */
static void mincore_calls(void)
{
	unsigned char vec[16];
	char *p = map_alone(8, RW), *q;
	int fd = make_memfd(4, 0);

	CHECK_ERRNO(EINVAL, sys_mincore(p + 1, PAGE, vec));
	CHECK_ERRNO(EINVAL, sys_mincore(p + 1, 0, vec));
	CHECK(sys_mincore(p, 0, vec) == 0);
	CHECK(sys_mincore(p - PAGE, 0, vec) == 0);
	CHECK_ERRNO(ENOMEM, sys_mincore(p - PAGE, PAGE, vec));
	CHECK_ERRNO(ENOMEM, sys_mincore(p, 9 * PAGE, vec));
	CHECK_ERRNO(ENOMEM, sys_mincore(KERNEL_ADDRESS, PAGE, vec));
	CHECK_ERRNO(ENOMEM, sys_mincore(p, ~0ul, vec));
	CHECK_ERRNO(EFAULT, sys_mincore(p, 8 * PAGE, KERNEL_ADDRESS));
	CHECK_ERRNO(EFAULT, sys_mincore(p, 8 * PAGE, 16));
	CHECK_ERRNO(EFAULT, sys_mincore(p - PAGE, PAGE, ~0ul));
	CHECK_ERRNO(ENOMEM, sys_mincore(p - PAGE, PAGE, 16));

	CHECK_EQUAL(0, resident(p, 8));
	p[0] = 1;
	p[5 * PAGE] = 1;
	memset(vec, 0x55, sizeof(vec));
	CHECK(sys_mincore(p, 5 * PAGE + 1, vec) == 0);			/* one byte of a page is the page */
	CHECK(vec[0] == 1 && vec[1] == 0 && vec[4] == 0 && vec[5] == 1 && vec[6] == 0x55);
	CHECK_EQUAL(0, *(volatile char *)(p + PAGE));			/* a read maps the page of zeros */
	CHECK_EQUAL(3, resident(p, 8));
	CHECK(mprotect(p, 8 * PAGE, PROT_NONE) == 0);
	CHECK_EQUAL(3, resident(p, 8));

	/* a hole: what came before it has been reported */
	munmap(p + 2 * PAGE, PAGE);
	memset(vec, 0x55, sizeof(vec));
	CHECK_ERRNO(ENOMEM, sys_mincore(p, 8 * PAGE, vec));
	munmap(p, 8 * PAGE);

	/* file memory: what the cache holds, whoever brought it there */
	p = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, fd, 0);
	q = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK_EQUAL(0, resident(p, 4));
	p[PAGE] = 1;
	MUST(pwrite(fd, "x", 1, 3 * PAGE) == 1);
	CHECK_EQUAL(2, resident(p, 4));
	CHECK_EQUAL(2, resident(q, 4));
	munmap(q, 4 * PAGE);
	q = mmap(NULL, 8 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);	/* also past the end */
	CHECK_EQUAL(2, resident(q, 8));
	munmap(q, 8 * PAGE);
	munmap(p, 4 * PAGE);
	close(fd);
}

/* A32 */
static void msync_calls(void)
{
	char *p = map_alone(4, RW), *s;
	int fd = open("/tmp/msync-test", O_RDWR | O_CREAT | O_TRUNC, 0600);
	char byte = 0;

	CHECK_ERRNO(EINVAL, sys_msync(p, PAGE, 8));
	CHECK_ERRNO(EINVAL, sys_msync(p, 0, 8));
	CHECK_ERRNO(EINVAL, sys_msync(p, PAGE, MS_SYNC | MS_ASYNC));
	CHECK_ERRNO(EINVAL, sys_msync(p + 1, PAGE, MS_SYNC));
	CHECK_ERRNO(EINVAL, sys_msync(p + 1, 0, 0));
	CHECK(sys_msync(p, PAGE, 0) == 0);
	CHECK(sys_msync(p, 0, MS_SYNC) == 0);
	CHECK(sys_msync(p - PAGE, 0, MS_SYNC) == 0);
	CHECK(sys_msync(p, 4 * PAGE, MS_SYNC) == 0);
	CHECK(sys_msync(p, 4 * PAGE, MS_ASYNC) == 0);
	CHECK(sys_msync(p, 4 * PAGE, MS_INVALIDATE | MS_SYNC) == 0);
	CHECK_ERRNO(ENOMEM, sys_msync(p, -(long)PAGE, MS_SYNC));
	CHECK_ERRNO(ENOMEM, sys_msync(p - PAGE, PAGE, MS_SYNC));
	CHECK_ERRNO(ENOMEM, sys_msync(p - PAGE, PAGE, MS_ASYNC));
	CHECK_ERRNO(ENOMEM, sys_msync(p + 3 * PAGE, 2 * PAGE, 0));
	CHECK_ERRNO(ENOMEM, sys_msync(KERNEL_ADDRESS, PAGE, MS_SYNC));
	CHECK(sys_mlock(p + PAGE, PAGE) == 0);
	CHECK_ERRNO(EBUSY, sys_msync(p, 4 * PAGE, MS_INVALIDATE));
	CHECK_ERRNO(EBUSY, sys_msync(p + PAGE, PAGE, MS_INVALIDATE | MS_SYNC));
	CHECK_ERRNO(EBUSY, sys_msync(p - PAGE, 4 * PAGE, MS_INVALIDATE));	/* found before the hole is reported */
	CHECK(sys_msync(p, PAGE, MS_INVALIDATE) == 0);
	munmap(p, 4 * PAGE);

	MUST(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
	s = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, fd, 0);
	s[PAGE] = 'm';
	CHECK(sys_msync(s, 2 * PAGE, MS_SYNC) == 0);
	CHECK(pread(fd, &byte, 1, PAGE) == 1);
	CHECK_EQUAL('m', byte);
	munmap(s, 2 * PAGE);
	close(fd);
	unlink("/tmp/msync-test");
}

static long vmlck(void) { return proc_number("/proc/self/status", "VmLck"); }

/* A33 */
static void mlock_calls(void)
{
	char *p = map_alone(8, RW);
	int fd = make_memfd(2, 0);

	p[0] = p[7 * PAGE] = 1;		/* Linux merges VMAs again only where all have been written to, or none */
	CHECK_EQUAL(0, vmlck());
	CHECK(sys_mlock(p + PAGE + 1, 1) == 0);				/* rounds outwards */
	CHECK_EQUAL(4, vmlck());
	CHECK_EQUAL(3, resident(p, 8));
	CHECK(smaps_flag(p + PAGE, "lo") && !smaps_flag(p, "lo"));
	CHECK_EQUAL(3, count_vmas(p, 8 * PAGE));
	CHECK(sys_mlock(p + 2 * PAGE - 1, 2) == 0);			/* two bytes in two pages */
	CHECK_EQUAL(8, vmlck());
	CHECK(sys_mlock(p + PAGE, 2 * PAGE) == 0);			/* twice counts once */
	CHECK_EQUAL(8, vmlck());
	CHECK(sys_munlock(p, 8 * PAGE) == 0);
	CHECK_EQUAL(0, vmlck());
	CHECK_EQUAL(1, count_vmas(p, 8 * PAGE));
	CHECK(sys_mlock(p, 0) == 0);
	CHECK(sys_mlock(p - PAGE, 0) == 0);
	CHECK(sys_munlock(p, 0) == 0);
	CHECK_ERRNO(EINVAL, sys_mlock(p, -(long)PAGE));
	CHECK_ERRNO(EINVAL, sys_munlock(p, -(long)PAGE));
	CHECK_ERRNO(ENOMEM, sys_mlock(KERNEL_ADDRESS, PAGE));
	CHECK_ERRNO(EINVAL, sys_mlock2(p, PAGE, 2));
	CHECK_ERRNO(EINVAL, sys_mlock2(p, 0, ~0u));
	CHECK(sys_mlock2(p, 0, 0) == 0);

	/* a hole: ENOMEM, but what is before it is locked */
	CHECK_ERRNO(ENOMEM, sys_mlock(p - PAGE, 2 * PAGE));
	CHECK_EQUAL(0, vmlck());
	CHECK_ERRNO(ENOMEM, sys_mlock(p + 6 * PAGE, 3 * PAGE));
	CHECK_EQUAL(8, vmlck());
	CHECK_ERRNO(ENOMEM, sys_munlock(p + 6 * PAGE, 3 * PAGE));
	CHECK_EQUAL(0, vmlck());
	munmap(p + 2 * PAGE, PAGE);
	CHECK_ERRNO(ENOMEM, sys_mlock(p, 8 * PAGE));
	CHECK_EQUAL(8, vmlck());
	CHECK(sys_munlock(p, 2 * PAGE) == 0);

	/* pages that cannot be had */
	CHECK(mprotect(p, PAGE, PROT_NONE) == 0);
	CHECK_ERRNO(ENOMEM, sys_mlock(p, PAGE));
	CHECK_EQUAL(4, vmlck());					/* the VMA is locked all the same */
	CHECK(sys_munlock(p, PAGE) == 0);
	munmap(p, 8 * PAGE);
	p = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, fd, 0);
	CHECK_ERRNO(ENOMEM, sys_mlock(p, 4 * PAGE));			/* past the end of the file */
	CHECK_EQUAL(2, resident(p, 4));
	munmap(p, 4 * PAGE);
	CHECK_EQUAL(0, vmlck());
	close(fd);

	/* ONFAULT: counted now, brought in when touched */
	p = map_alone(4, RW);
	CHECK(sys_mlock2(p, 4 * PAGE, 1) == 0);
	CHECK_EQUAL(16, vmlck());
	CHECK_EQUAL(0, resident(p, 4));
	CHECK(smaps_flag(p, "lo") && smaps_flag(p, "lf"));
	p[PAGE] = 1;
	CHECK_EQUAL(1, resident(p, 4));
	CHECK(sys_mlock(p, 4 * PAGE) == 0);
	CHECK_EQUAL(4, resident(p, 4));
	CHECK(!smaps_flag(p, "lf"));
	munmap(p, 4 * PAGE);

	/* locking read-only memory reads it: pages of zeros; making it writable brings pages of its own */
	p = map_alone(2, PROT_READ);
	CHECK(sys_mlock(p, 2 * PAGE) == 0);
	CHECK_EQUAL(2, resident(p, 2));
	CHECK_EQUAL(0, smaps_kb(p, "Rss"));
	CHECK(mprotect(p, 2 * PAGE, RW) == 0);
	CHECK_EQUAL(8, smaps_kb(p, "Rss"));
	CHECK_EQUAL(8, smaps_kb(p, "Locked"));
	CHECK_EQUAL(2, zero_pages_of(p, 2));
	munmap(p, 2 * PAGE);
}

static void limited(void *unused)
{
	char *p = map_alone(16, RW);
	struct rlimit none = { 0, 8 * PAGE };

	(void)unused;
	set_limit(RLIMIT_MEMLOCK, 8 * PAGE);
	become_nobody();
	CHECK_ERRNO(ENOMEM, sys_mlock(p, 9 * PAGE));
	CHECK_EQUAL(0, vmlck());
	CHECK(sys_mlock(p, 8 * PAGE) == 0);
	CHECK_ERRNO(ENOMEM, sys_mlock(p + 8 * PAGE, 1));
	CHECK(sys_mlock(p, 8 * PAGE) == 0);
	CHECK_ERRNO(ENOMEM, sys_mlock(p + PAGE, 8 * PAGE));		/* one page more than what is locked already */
	CHECK(sys_munlock(p, PAGE) == 0);
	CHECK(sys_mlock(p + PAGE, 8 * PAGE) == 0);
	CHECK_ERRNO(ENOMEM, sys_mlockall(MCL_CURRENT));
	CHECK(sys_mlockall(MCL_FUTURE) == 0);
	CHECK_ERRNO(EAGAIN, sys_mmap(0, PAGE, RW, ANON, -1, 0));
	long brk = sys_brk(0);
	CHECK_EQUAL(brk, sys_brk(brk + 4 * PAGE));			/* the heap counts too */
	CHECK(syscall(SYS_munlockall) == 0);
	CHECK_EQUAL(0, vmlck());
	CHECK(sys_mmap(0, PAGE, RW, ANON, -1, 0) > 0);
	MUST(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
	CHECK_ERRNO(EPERM, sys_mlock(p, PAGE));
	CHECK_ERRNO(EPERM, sys_mlock(p, 0));
	CHECK_ERRNO(EPERM, sys_mlockall(MCL_CURRENT));
	CHECK_ERRNO(EINVAL, sys_mlockall(0));				/* before the right */
	CHECK(sys_munlock(p, PAGE) == 0);
}

static void all(void *unused)
{
	char *p = map_alone(4, RW), *q;

	(void)unused;
	CHECK_ERRNO(EINVAL, sys_mlockall(0));
	CHECK_ERRNO(EINVAL, sys_mlockall(8));
	CHECK_ERRNO(EINVAL, sys_mlockall(4));
	CHECK(sys_mlockall(MCL_CURRENT) == 0);
	CHECK_EQUAL(4, resident(p, 4));
	CHECK(smaps_flag(p, "lo"));
	q = map_pages(2, RW, ANON);
	CHECK_EQUAL(0, resident(q, 2));
	CHECK(!smaps_flag(q, "lo"));
	CHECK(sys_mlockall(MCL_FUTURE) == 0);
	q = map_pages(2, RW, ANON);
	CHECK_EQUAL(2, resident(q, 2));
	CHECK(smaps_flag(q, "lo"));
	long brk = (sys_brk(0) + PAGE - 1) & ~(PAGE - 1);
	CHECK_EQUAL(brk + 2 * (long)PAGE, sys_brk(brk + 2 * PAGE));
	CHECK_EQUAL(2, resident((void *)brk, 2));
	CHECK(sys_mlockall(MCL_FUTURE | 4) == 0);
	q = map_pages(2, RW, ANON);
	CHECK_EQUAL(0, resident(q, 2));
	CHECK(smaps_flag(q, "lf"));
	CHECK(syscall(SYS_munlockall) == 0);
	CHECK_EQUAL(0, vmlck());
	CHECK(!smaps_flag(p, "lo") && !smaps_flag(q, "lf"));
}

static void not_inherited(void *unused)
{
	(void)unused;
	CHECK_EQUAL(0, vmlck());
}

/* A34: and a child starts with nothing locked */
static void locked_memory_can_go(void)
{
	int fd = make_memfd(2, 0);
	char *p = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, fd, 0);

	CHECK(sys_mlock(p, 2 * PAGE) == 0);
	p[PAGE] = 'x';
	IN_CHILD(not_inherited);
	CHECK(ftruncate(fd, PAGE) == 0);
	CHECK_FAULT(SIGBUS, BUS_ADRERR, p + PAGE, access_byte((unsigned long)p + PAGE, READ));
	CHECK(ftruncate(fd, 2 * PAGE) == 0);
	CHECK_EQUAL(0, p[PAGE]);
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0);
	CHECK(sys_munmap(p, 2 * PAGE) == 0);
	CHECK_EQUAL(0, vmlck());
	close(fd);
}

int main(void)
{
	catch_faults();
	mincore_calls();
	msync_calls();
	mlock_calls();
	IN_CHILD(limited);
	IN_CHILD(all);
	locked_memory_can_go();
	test_end();
}
