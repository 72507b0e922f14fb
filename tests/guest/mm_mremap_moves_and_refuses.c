/*
 * mremap: every refusal, growing in place and elsewhere, shrinking, FIXED, DONTUNMAP, duplicating. Rules A18..A21, A23.
 */
#include "mm_test.h"

#define MOVE	MREMAP_MAYMOVE
#define FIX	(MREMAP_MAYMOVE | MREMAP_FIXED)
#define KEEP	(MREMAP_MAYMOVE | MREMAP_DONTUNMAP)

/* A18 */
static void invalid(void)
{
	char *p = map_alone(4, RW), *free_place = map_alone(8, RW);

	munmap(free_place, 8 * PAGE);
	p[0] = 'x';
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, PAGE, 8, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, PAGE, ~0ul, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, PAGE, MREMAP_FIXED, free_place));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, PAGE, MREMAP_DONTUNMAP, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, 2 * PAGE, KEEP, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, PAGE + 1, KEEP, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p + 1, PAGE, PAGE, MOVE, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, 0, MOVE, 0));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, ~0ul, MOVE, 0));		/* rounds to 0 */
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, PAGE, FIX, free_place + 1));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, PAGE, FIX, TASK_SIZE));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, 2 * PAGE, FIX, TASK_SIZE - PAGE));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, PAGE, FIX, KERNEL_ADDRESS));
	CHECK_ERRNO(EINVAL, sys_mremap(p, 4 * PAGE, 4 * PAGE, FIX, p + PAGE));
	CHECK_ERRNO(EINVAL, sys_mremap(p + PAGE, PAGE, 2 * PAGE, FIX, p));
	CHECK_ERRNO(EINVAL, sys_mremap(p, PAGE, PAGE, FIX, p));
	CHECK_ERRNO(EINVAL, sys_mremap(p, 0, PAGE, MOVE, 0));			/* private memory has no double */
	CHECK_ERRNO(EINVAL, sys_mremap(p, 0, PAGE, 0, 0));
	CHECK_EQUAL('x', p[0]);
	CHECK_EQUAL(1, count_vmas(p, 4 * PAGE));
	munmap(p, 4 * PAGE);
}

/* A19 */
static void unmapped_and_across(void)
{
	char *p = map_alone(4, RW);

	CHECK_ERRNO(EFAULT, sys_mremap(p - PAGE, PAGE, 2 * PAGE, MOVE, 0));
	CHECK_ERRNO(EFAULT, sys_mremap(p - PAGE, PAGE, PAGE, 0, 0));
	CHECK_ERRNO(EFAULT, sys_mremap(KERNEL_ADDRESS, PAGE, PAGE, 0, 0));
	CHECK_ERRNO(EFAULT, sys_mremap(p, 5 * PAGE, 6 * PAGE, MOVE, 0));
	CHECK(mprotect(p + 2 * PAGE, 2 * PAGE, PROT_READ) == 0);
	CHECK_ERRNO(EFAULT, sys_mremap(p, 4 * PAGE, 5 * PAGE, MOVE, 0));
	CHECK_ERRNO(EFAULT, sys_mremap(p, 4 * PAGE, 4 * PAGE, KEEP, 0));
	CHECK_EQUAL((long)p, sys_mremap(p, 4 * PAGE, 4 * PAGE, MOVE, 0));	/* equal: nothing to do, nothing looked at */
	CHECK_EQUAL((long)p, sys_mremap(p, 64 * PAGE, 64 * PAGE, 0, 0));
	CHECK_EQUAL((long)p, sys_mremap(p, 4 * PAGE, PAGE, 0, 0));		/* shrinking may */
	CHECK(is_mapped(p, PAGE) && !is_mapped(p + PAGE, PAGE) && !is_mapped(p + 3 * PAGE, PAGE));
	munmap(p, 4 * PAGE);
}

/* A20 */
static void grow_and_shrink(void)
{
	char *p = map_alone(8, RW), *q;

	memset(p, 'x', 8 * PAGE);
	CHECK_EQUAL((long)p, sys_mremap(p, 8 * PAGE, 4 * PAGE + 1, 0, 0));	/* five pages */
	CHECK(is_mapped(p, 5 * PAGE) && !is_mapped(p + 5 * PAGE, PAGE));
	CHECK_EQUAL((long)p, sys_mremap(p, 5 * PAGE, 8 * PAGE, 0, 0));		/* the space after is free */
	CHECK_EQUAL(1, count_vmas(p, 8 * PAGE));
	CHECK_EQUAL('x', p[5 * PAGE - 1]);
	CHECK_EQUAL(0, p[5 * PAGE]);
	munmap(p + 4 * PAGE, PAGE);
	CHECK_ERRNO(ENOMEM, sys_mremap(p, 4 * PAGE, 6 * PAGE, 0, 0));
	CHECK_EQUAL((long)p, sys_mremap(p, 4 * PAGE, 5 * PAGE, 0, 0));		/* fits the hole, and becomes one with both */
	CHECK_EQUAL(1, count_vmas(p, 8 * PAGE));
	CHECK_ERRNO(ENOMEM, sys_mremap(p, 2 * PAGE, 3 * PAGE, 0, 0));		/* not at the VMA's end */
	q = (char *)sys_mremap(p, 2 * PAGE, 3 * PAGE, MOVE, 0);
	CHECK((long)q > 0 && q != p);
	CHECK_EQUAL('x', q[2 * PAGE - 1]);
	CHECK_EQUAL(0, q[2 * PAGE]);
	CHECK(!is_mapped(p, PAGE) && !is_mapped(p + PAGE, PAGE) && is_mapped(p + 2 * PAGE, 6 * PAGE));
	CHECK_ERRNO(ENOMEM, sys_mremap(q, 3 * PAGE, 1ul << 46, 0, 0));
	CHECK_ERRNO(ENOMEM, sys_mremap(q, 3 * PAGE, 1ul << 47, MOVE, 0));
	CHECK(is_mapped(q, 3 * PAGE));
	munmap(q, 3 * PAGE);
	munmap(p, 8 * PAGE);
}

static void locked_growth(void *unused)
{
	char *p = map_alone(4, RW);

	(void)unused;
	set_limit(RLIMIT_MEMLOCK, 4 * PAGE);
	become_nobody();
	MUST(sys_mlock(p, 3 * PAGE) == 0);
	munmap(p + 3 * PAGE, PAGE);
	CHECK_EQUAL((long)p, sys_mremap(p, 3 * PAGE, 4 * PAGE, 0, 0));
	CHECK_EQUAL(4, resident(p, 4));						/* faulted in like the rest */
	CHECK_ERRNO(EAGAIN, sys_mremap(p, 4 * PAGE, 5 * PAGE, MOVE, 0));
	CHECK_EQUAL(16, proc_number("/proc/self/status", "VmLck"));
}

/* A21 */
static void moves(void)
{
	char *p = map_alone(4, RW), *to = map_alone(8, RW);

	for (int i = 0; i < 3; i++)
		p[i * PAGE] = (char)('a' + i);			/* the fourth stays untouched */
	memset(to, 't', 8 * PAGE);
	CHECK_EQUAL((long)to + (long)PAGE, sys_mremap(p, 4 * PAGE, 4 * PAGE, FIX, to + PAGE));
	CHECK(!is_mapped(p, PAGE) && !is_mapped(p + 3 * PAGE, PAGE));
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(i < 3 ? 'a' + i : 0, to[(i + 1) * PAGE]);
	CHECK_EQUAL('t', to[0]);
	CHECK_EQUAL('t', to[5 * PAGE]);
	CHECK_FAULT(SIGSEGV, SEGV_MAPERR, p, access_byte((unsigned long)p, READ));

	/* to a smaller place: the tail is unmapped; to a larger one: the rest is new */
	CHECK_EQUAL((long)p, sys_mremap(to + PAGE, 4 * PAGE, 2 * PAGE, FIX, p));
	CHECK(is_mapped(p, 2 * PAGE) && !is_mapped(p + 2 * PAGE, PAGE));
	CHECK(!is_mapped(to + PAGE, PAGE) && !is_mapped(to + 3 * PAGE, PAGE) && !is_mapped(to + 4 * PAGE, PAGE) && is_mapped(to + 5 * PAGE, PAGE));
	CHECK_EQUAL('b', p[PAGE]);
	CHECK_EQUAL((long)to, sys_mremap(p, 2 * PAGE, 6 * PAGE, FIX, to));
	CHECK_EQUAL('b', to[PAGE]);
	CHECK_EQUAL(0, to[2 * PAGE]);
	CHECK_EQUAL(0, to[5 * PAGE]);
	CHECK_EQUAL('t', to[6 * PAGE]);

	/* the middle of a VMA */
	CHECK_EQUAL((long)p, sys_mremap(to + PAGE, PAGE, PAGE, FIX, p));
	CHECK_EQUAL('b', p[0]);
	CHECK(!is_mapped(to + PAGE, PAGE) && is_mapped(to, PAGE) && is_mapped(to + 2 * PAGE, PAGE));

	/* the old place is not mapped: the target is gone all the same, or not; either way EFAULT */
	CHECK_ERRNO(EFAULT, sys_mremap(to + PAGE, PAGE, PAGE, FIX, p + 3 * PAGE));
	munmap(p, 4 * PAGE);
	munmap(to, 8 * PAGE);

	/* rights go along; so does what fork shares */
	p = map_alone(2, RW);
	p[0] = 'r';
	CHECK(mprotect(p, PAGE, PROT_READ) == 0);
	to = (char *)sys_mremap(p, PAGE, 3 * PAGE, MOVE, 0);
	CHECK((long)to > 0);
	CHECK_EQUAL('r', to[0]);
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, to, access_byte((unsigned long)to, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, to + 2 * PAGE, access_byte((unsigned long)to + 2 * PAGE, WRITE));
	munmap(to, 3 * PAGE);
	munmap(p, 2 * PAGE);

	/* over many page tables */
	p = map_pages(1024 + 512, RW, ANON | MAP_NORESERVE);
	for (size_t i = 0; i < 1536; i += 37)
		p[i * PAGE] = (char)i;
	to = map_pages(1536 + 7, PROT_NONE, ANON);
	CHECK_EQUAL((long)to + 7 * (long)PAGE, sys_mremap(p, 1536 * PAGE, 1536 * PAGE, FIX, to + 7 * PAGE));
	for (size_t i = 0; i < 1536; i++)
		CHECK_EQUAL(i % 37 ? 0 : (char)i, to[(i + 7) * PAGE]);
	munmap(to, 1543 * PAGE);
}

static void dontunmap(void)
{
	char *p = map_alone(3, RW), *q, *to = map_alone(3, RW);

	memset(p, 'x', 3 * PAGE);
	munmap(to, 3 * PAGE);
	CHECK_EQUAL((long)to, sys_mremap(p, 3 * PAGE, 3 * PAGE, KEEP | MREMAP_FIXED, to));
	CHECK_EQUAL('x', to[2 * PAGE]);
	CHECK(is_mapped(p, 3 * PAGE));
	CHECK_EQUAL(0, resident(p, 3));
	CHECK_EQUAL(0, p[0]);						/* stays, emptied */
	p[0] = 'y';
	CHECK_EQUAL('x', to[0]);
	q = (char *)sys_mremap(p, PAGE, PAGE, KEEP, 0);			/* a part, and the kernel chooses */
	CHECK((long)q > 0);
	CHECK_EQUAL('y', q[0]);
	CHECK_EQUAL(0, p[0]);
	munmap(q, PAGE);
	munmap(to, 3 * PAGE);
	munmap(p, 3 * PAGE);

	/* a shared one: the old place shows the file again */
	p = map_pages(2, RW, MAP_SHARED | MAP_ANONYMOUS);
	p[0] = 's';
	q = (char *)sys_mremap(p, 2 * PAGE, 2 * PAGE, KEEP, 0);
	CHECK((long)q > 0);
	CHECK_EQUAL('s', q[0]);
	CHECK_EQUAL('s', p[0]);
	munmap(p, 2 * PAGE);
	munmap(q, 2 * PAGE);

	/* locked memory: the copy is locked, what stays is not */
	p = map_pages(2, RW, ANON | MAP_LOCKED);
	q = (char *)sys_mremap(p, 2 * PAGE, 2 * PAGE, KEEP, 0);
	CHECK((long)q > 0);
	CHECK(smaps_flag(q, "lo") && !smaps_flag(p, "lo"));
	munmap(p, 2 * PAGE);		/* Linux forgets to take the old place off VmLck: that number is not looked at */
	munmap(q, 2 * PAGE);
}

/* A18: old length 0 makes a second mapping of shared memory */
static void duplicates(void)
{
	char *p = map_pages(2, RW, MAP_SHARED | MAP_ANONYMOUS), *q;

	p[0] = 'a';
	p[PAGE] = 'b';
	q = (char *)sys_mremap(p, 0, 2 * PAGE, MOVE, 0);
	CHECK((long)q > 0 && q != p);
	CHECK_EQUAL('b', q[PAGE]);
	q[0] = 'c';
	CHECK_EQUAL('c', p[0]);
	munmap(q, 2 * PAGE);
	q = (char *)sys_mremap(p + PAGE, 0, PAGE, MOVE, 0);		/* from the middle */
	CHECK((long)q > 0);
	CHECK_EQUAL('b', q[0]);
	munmap(q, PAGE);
	q = map_alone(2, PROT_NONE);
	CHECK_EQUAL((long)q, sys_mremap(p, 0, 2 * PAGE, FIX, q));
	CHECK_EQUAL('c', q[0]);
	CHECK_ERRNO(ENOMEM, sys_mremap(p, 0, 2 * PAGE, 0, 0));		/* needs MAYMOVE */
	munmap(p, 2 * PAGE);
	CHECK_EQUAL('b', q[PAGE]);
	munmap(q, 2 * PAGE);
}

/* A file mapping that moves goes on at its offset */
static void file_mapping(void)
{
	int fd = make_memfd(6, 0);
	char *all = mmap(NULL, 6 * PAGE, RW, MAP_SHARED, fd, 0), *p, *q;

	MUST(all != MAP_FAILED);
	for (int i = 0; i < 6; i++)
		all[i * PAGE] = (char)('0' + i);
	p = mmap(NULL, 2 * PAGE, RW, MAP_PRIVATE, fd, PAGE);
	p[0] = 'p';
	q = (char *)sys_mremap(p + PAGE, PAGE, 3 * PAGE, MOVE, 0);
	CHECK((long)q > 0);
	CHECK_EQUAL('2', q[0]);
	CHECK_EQUAL('3', q[PAGE]);
	CHECK_EQUAL('4', q[2 * PAGE]);
	CHECK_EQUAL('p', p[0]);
	CHECK_EQUAL('1', all[PAGE]);
	CHECK_ERRNO(EINVAL, sys_mremap(q, 0, PAGE, MOVE, 0));
	q = (char *)sys_mremap(q, 3 * PAGE, 6 * PAGE, MOVE, 0);
	CHECK_EQUAL('5', q[3 * PAGE]);
	CHECK_FAULT(SIGBUS, BUS_ADRERR, q + 4 * PAGE, access_byte((unsigned long)q + 4 * PAGE, READ));
	munmap(q, 6 * PAGE);
	munmap(p, PAGE);
	munmap(all, 6 * PAGE);
	close(fd);
}

int main(void)
{
	catch_faults();
	invalid();
	unmapped_and_across();
	grow_and_shrink();
	IN_CHILD(locked_growth);
	moves();
	dontunmap();
	duplicates();
	file_mapping();
	test_end();
}
