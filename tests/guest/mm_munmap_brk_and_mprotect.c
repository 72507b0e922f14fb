/*
 * munmap and its holes, brk that answers with a break, mprotect that changes everything before the first obstacle.
 * Rules A3, A13..A17.
 */
#include "mm_test.h"

/* A13, A3 */
static void munmap_calls(void)
{
	char *p = map_alone(8, RW);

	CHECK_ERRNO(EINVAL, sys_munmap(p + 1, PAGE));
	CHECK_ERRNO(EINVAL, sys_munmap(p, 0));
	CHECK_ERRNO(EINVAL, sys_munmap(p + 1, 0));
	CHECK_ERRNO(EINVAL, sys_munmap(p, ~0ul));
	CHECK_ERRNO(EINVAL, sys_munmap(p, TASK_SIZE));
	CHECK_ERRNO(EINVAL, sys_munmap(TASK_SIZE, PAGE));
	CHECK_ERRNO(EINVAL, sys_munmap(TASK_SIZE - PAGE, 2 * PAGE));
	CHECK_ERRNO(EINVAL, sys_munmap(KERNEL_ADDRESS, PAGE));
	CHECK_ERRNO(EINVAL, sys_munmap(~(PAGE - 1), PAGE));
	CHECK_ERRNO(EINVAL, sys_munmap(0x8000000000000000ul, PAGE));
	CHECK(is_mapped(p, 8 * PAGE));

	memset(p, 'x', 8 * PAGE);
	CHECK(sys_munmap(p + PAGE, 1) == 0);			/* one byte takes its page along */
	CHECK(!is_mapped(p + PAGE, PAGE) && is_mapped(p, PAGE) && is_mapped(p + 2 * PAGE, 6 * PAGE));
	CHECK_EQUAL(2, count_vmas(p, 8 * PAGE));
	CHECK(sys_munmap(p + PAGE, PAGE) == 0);			/* nothing there: fine */
	CHECK(sys_munmap(p + 4 * PAGE, PAGE) == 0);
	CHECK_EQUAL(3, count_vmas(p, 8 * PAGE));
	CHECK(sys_munmap(p - PAGE, 4 * PAGE) == 0);		/* over holes, the end in the middle of a VMA */
	CHECK(!is_mapped(p, PAGE) && !is_mapped(p + 2 * PAGE, PAGE) && is_mapped(p + 3 * PAGE, PAGE));
	CHECK_EQUAL('x', p[3 * PAGE]);
	CHECK_EQUAL('x', p[8 * PAGE - 1]);
	CHECK(sys_munmap(p - PAGE, 10 * PAGE) == 0);
	CHECK_EQUAL(0, count_vmas(p, 8 * PAGE));
	CHECK(sys_munmap(p, 8 * PAGE) == 0);

	/* what comes back is new */
	CHECK(sys_mmap(p, 8 * PAGE, RW, ANON | MAP_FIXED, -1, 0) == (long)p);
	for (int i = 0; i < 8; i++)
		CHECK_EQUAL(0, p[i * PAGE]);
	munmap(p, 8 * PAGE);
}

/* A14 */
static void small_data_limit(void *unused)
{
	long old = sys_brk(0);

	(void)unused;
	set_limit(RLIMIT_DATA, 0);
	CHECK_EQUAL(old, sys_brk(old + 64 * PAGE));
	set_limit(RLIMIT_AS, 0);
	CHECK_EQUAL(old, sys_brk(old + 64 * PAGE));
}

static void brk_calls(void)
{
	long start = sys_brk(0), now = sys_brk(start + 8 * PAGE + 5);
	struct vma_line v;

	CHECK_EQUAL(start + 8 * (long)PAGE + 5, now);
	CHECK(vma_at((void *)(start + PAGE), &v) && strcmp(v.name, "[heap]") == 0);
	memset((void *)start, 'h', 8 * PAGE + 5);
	CHECK_EQUAL(now, sys_brk(0));
	CHECK_EQUAL(now, sys_brk(-1));
	CHECK_EQUAL(now, sys_brk(1));
	CHECK_EQUAL(now, sys_brk(KERNEL_ADDRESS));
	CHECK_EQUAL(now, sys_brk(TASK_SIZE));
	CHECK_EQUAL(now, sys_brk(1ul << 46));
	CHECK_EQUAL('h', *(char *)(start + 8 * PAGE));

	/* a mapping in the way, or right behind a page of distance */
	long ahead = (now + 8 * (long)PAGE) & ~(long)(PAGE - 1);
	CHECK(sys_mmap(ahead, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == ahead);
	CHECK_EQUAL(now, sys_brk(ahead + 1));
	CHECK_EQUAL(now, sys_brk(ahead));
	CHECK_EQUAL(ahead - (long)PAGE, sys_brk(ahead - PAGE));
	munmap((void *)ahead, PAGE);
	CHECK_EQUAL(now, sys_brk(now));

	CHECK_EQUAL(start + (long)PAGE, sys_brk(start + PAGE));
	CHECK(!is_mapped((void *)((start + 2 * PAGE) & ~(PAGE - 1)), PAGE));
	CHECK_EQUAL(now, sys_brk(now));
	CHECK_EQUAL('h', *(char *)start);
	CHECK_EQUAL(0, *(char *)(start + 4 * PAGE));		/* regained: zero */
	CHECK_EQUAL(0, *(char *)(start + 8 * PAGE));
	CHECK_EQUAL(start, sys_brk(start));
	IN_CHILD(small_data_limit);
}

/* A15 */
static void mprotect_errors(void)
{
	char *p = map_alone(4, RW);
	const int both = PROT_GROWSDOWN | PROT_GROWSUP;

	CHECK_ERRNO(EINVAL, sys_mprotect(p, PAGE, both));
	CHECK_ERRNO(EINVAL, sys_mprotect(p, 0, both));
	CHECK_ERRNO(EINVAL, sys_mprotect(p + 1, PAGE, PROT_READ));
	CHECK_ERRNO(EINVAL, sys_mprotect(p + 1, 0, PROT_READ));
	CHECK(sys_mprotect(p, 0, PROT_READ) == 0);
	CHECK(sys_mprotect(p, 0, 0x1234) == 0);
	CHECK(sys_mprotect(p - PAGE, 0, PROT_READ) == 0);	/* not even mapped */
	CHECK(sys_mprotect(KERNEL_ADDRESS, 0, PROT_READ) == 0);
	CHECK_ERRNO(ENOMEM, sys_mprotect(p, ~0ul - PAGE, 0x1234));	/* the wrap before the rights */
	CHECK_ERRNO(ENOMEM, sys_mprotect(p, ~0ul, PROT_READ));		/* rounds to nothing, which is no length 0 */
	CHECK_ERRNO(ENOMEM, sys_mprotect(~(PAGE - 1), PAGE, PROT_READ));
	CHECK_ERRNO(EINVAL, sys_mprotect(p, PAGE, 0x10));
	CHECK_ERRNO(EINVAL, sys_mprotect(p - PAGE, PAGE, 0x10));
	CHECK_ERRNO(ENOMEM, sys_mprotect(p - PAGE, PAGE, PROT_READ));
	CHECK_ERRNO(ENOMEM, sys_mprotect(KERNEL_ADDRESS, PAGE, PROT_READ));
	CHECK(sys_mprotect(p, PAGE, RW | 8 /* PROT_SEM */) == 0);
	CHECK_ERRNO(EINVAL, sys_mprotect(p, PAGE, RW | PROT_GROWSDOWN));	/* A16: not a stack */
	CHECK_ERRNO(EINVAL, sys_mprotect(p, PAGE, RW | PROT_GROWSUP));
	CHECK_ERRNO(ENOMEM, sys_mprotect(p - PAGE, PAGE, RW | PROT_GROWSUP));
	p[0] = 1;
	munmap(p, 4 * PAGE);
}

/* A16 */
static void mprotect_prefix(void)
{
	char *p = map_alone(8, RW);
	int ro = open("/proc/self/exe", O_RDONLY);

	CHECK(ro >= 0);
	memset(p, 'x', 8 * PAGE);
	munmap(p + 4 * PAGE, PAGE);
	CHECK_ERRNO(ENOMEM, sys_mprotect(p + PAGE, 6 * PAGE, PROT_READ));
	CHECK_NO_FAULT(access_byte((unsigned long)p, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + PAGE, access_byte((unsigned long)p + PAGE, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 3 * PAGE + 7, access_byte((unsigned long)p + 3 * PAGE + 7, WRITE));
	CHECK_NO_FAULT(access_byte((unsigned long)p + 5 * PAGE, WRITE));
	CHECK_EQUAL('x', p[2 * PAGE]);

	/* a hole at the very start: nothing changes */
	CHECK_ERRNO(ENOMEM, sys_mprotect(p + 4 * PAGE, 2 * PAGE, PROT_READ));
	CHECK_NO_FAULT(access_byte((unsigned long)p + 5 * PAGE, WRITE));
	/* a hole at the end: everything changes */
	CHECK_ERRNO(ENOMEM, sys_mprotect(p + 7 * PAGE, 2 * PAGE, PROT_READ));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 7 * PAGE, access_byte((unsigned long)p + 7 * PAGE, WRITE));

	/* a right that the mapping can never have */
	CHECK(mprotect(p, 4 * PAGE, PROT_READ) == 0);
	CHECK(mmap(p + 2 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, ro, 0) == p + 2 * PAGE);
	CHECK_ERRNO(EACCES, sys_mprotect(p, 4 * PAGE, RW));
	CHECK_NO_FAULT(access_byte((unsigned long)p + PAGE, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 2 * PAGE, access_byte((unsigned long)p + 2 * PAGE, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 3 * PAGE, access_byte((unsigned long)p + 3 * PAGE, WRITE));
	close(ro);
	munmap(p, 8 * PAGE);

	/* GROWSDOWN: from the start of the stack-like VMA on, whatever the address */
	p = map_alone(8, PROT_NONE);
	CHECK(mmap(p + 2 * PAGE, 4 * PAGE, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) == p + 2 * PAGE);
	CHECK(sys_mprotect(p + 4 * PAGE, PAGE, PROT_READ | PROT_GROWSDOWN) == 0);
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 2 * PAGE, access_byte((unsigned long)p + 2 * PAGE, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 4 * PAGE, access_byte((unsigned long)p + 4 * PAGE, WRITE));
	CHECK_NO_FAULT(access_byte((unsigned long)p + 5 * PAGE, WRITE));
	munmap(p, 8 * PAGE);
}

/* A17: rights that went away are away; rights that came are there */
static void rights_take_effect(void)
{
	char *p = map_pages(1, RW, ANON);
	int ends[2];

	MUST(pipe(ends) == 0);
	p[0] = 'a';
	for (int i = 0; i < 50; i++) {
		CHECK(mprotect(p, PAGE, PROT_READ) == 0);
		CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p, access_byte((unsigned long)p, WRITE));
		CHECK_EQUAL('a', p[0]);
		CHECK(mprotect(p, PAGE, PROT_NONE) == 0);
		CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p, access_byte((unsigned long)p, READ));
		CHECK_ERRNO(EFAULT, write(ends[1], p, 1));			/* A35 */
		CHECK(mprotect(p, PAGE, RW) == 0);
		CHECK_EQUAL('a', p[0]);
		p[0] = 'a';
	}
	p[0] = (char)0xc3;	/* ret */
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p, access_byte((unsigned long)p, EXECUTE));
	CHECK(mprotect(p, PAGE, PROT_READ | PROT_EXEC) == 0);
	CHECK_NO_FAULT(access_byte((unsigned long)p, EXECUTE));
	CHECK(mprotect(p, PAGE, PROT_READ) == 0);
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p, access_byte((unsigned long)p, EXECUTE));
	CHECK(mprotect(p, PAGE, PROT_WRITE) == 0);				/* readable too: x86 has no write-only page */
	CHECK_EQUAL((char)0xc3, *(volatile char *)p);
	munmap(p, PAGE);

	/* the zero page stays read-only, and a page shared by fork is copied, whatever mprotect says in between */
	p = map_pages(2, RW, ANON);
	CHECK_EQUAL(0, *(volatile char *)p);
	p[PAGE] = 'p';
	fflush(stdout);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		mprotect(p, 2 * PAGE, PROT_READ);
		mprotect(p, 2 * PAGE, RW);
		p[0] = 'c';
		p[PAGE] = 'c';
		_exit(0);
	}
	MUST(waitpid(pid, NULL, 0) == pid);
	CHECK_EQUAL(0, p[0]);
	CHECK_EQUAL('p', p[PAGE]);
	munmap(p, 2 * PAGE);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	catch_faults();
	munmap_calls();
	brk_calls();
	mprotect_errors();
	mprotect_prefix();
	rights_take_effect();
	test_end();
}
