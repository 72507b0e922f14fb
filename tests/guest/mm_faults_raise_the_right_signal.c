/*
 * Every row of the signal table with its exact code and address, the same events inside system calls, the end of a file,
 * and the stack. Rules A35..A38 and the table above them.
 */
#include "mm_test.h"

#ifndef SI_KERNEL
#define SI_KERNEL	128
#endif

#define AT(p)	((unsigned long)(p))

static void addresses(void)
{
	char *p = map_alone(3, RW);
	unsigned long non_canonical[] = { 0x800000000000ul, 0x8000000000000000ul, 0xffff7ffffffffffful };
	unsigned long kernel[] = { KERNEL_ADDRESS, 0xffffffff81000000ul, 0xffffffffff5ff000ul, 0xfffffffffffffff0ul };

	munmap(p + PAGE, PAGE);
	for (int how = READ; how <= WRITE; how++) {
		CHECK_FAULT(SIGSEGV, SEGV_MAPERR, p + PAGE, access_byte(AT(p) + PAGE, how));
		CHECK_FAULT(SIGSEGV, SEGV_MAPERR, p + PAGE + 1234, access_byte(AT(p) + PAGE + 1234, how));
		CHECK_FAULT(SIGSEGV, SEGV_MAPERR, 0, access_byte(0, how));
		CHECK_FAULT(SIGSEGV, SEGV_MAPERR, 0xfff, access_byte(0xfff, how));
		CHECK_FAULT(SIGSEGV, SEGV_MAPERR, TASK_SIZE, access_byte(TASK_SIZE, how));
		for (size_t i = 0; i < sizeof(kernel) / sizeof(kernel[0]); i++)
			CHECK_FAULT(SIGSEGV, SEGV_MAPERR, kernel[i], access_byte(kernel[i], how));
		for (size_t i = 0; i < sizeof(non_canonical) / sizeof(non_canonical[0]); i++)
			CHECK_FAULT(SIGSEGV, SI_KERNEL, 0, access_byte(non_canonical[i], how));
	}
	CHECK_FAULT(SIGSEGV, SEGV_MAPERR, p + PAGE + 3, access_byte(AT(p) + PAGE + 3, EXECUTE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 5, access_byte(AT(p) + 5, EXECUTE));
	CHECK_FAULT(SIGSEGV, SEGV_MAPERR, kernel[1], access_byte(kernel[1], EXECUTE));

	/* an access over the edge: the first byte that could not be had */
	*(volatile int *)(p + PAGE - 4) = 1;
	struct fault f = { 0 };
	if (sigsetjmp(fault_jump, 0) == 0)
		(void)*(volatile long *)(p + PAGE - 4);
	else
		f = fault_got;
	CHECK_EQUAL(SIGSEGV, f.signal);
	CHECK_EQUAL(AT(p) + PAGE, f.addr);
	munmap(p, 3 * PAGE);
}

static void rights(void)
{
	char *p = map_alone(2, PROT_READ);

	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 7, access_byte(AT(p) + 7, WRITE));
	CHECK_NO_FAULT(access_byte(AT(p), READ));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + 7, access_byte(AT(p) + 7, WRITE));	/* also when the page is there */
	CHECK(mprotect(p, 2 * PAGE, PROT_NONE) == 0);
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p, access_byte(AT(p), READ));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + PAGE, access_byte(AT(p) + PAGE, READ));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, p + PAGE, access_byte(AT(p) + PAGE, WRITE));
	munmap(p, 2 * PAGE);
}

/* A36, A37 */
static void end_of_file(void)
{
	int fd = make_memfd(3, 0), ro;
	char *s = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, fd, 0), *q = mmap(NULL, 4 * PAGE, RW, MAP_PRIVATE, fd, 0), *r, path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	MUST((ro = open(path, O_RDONLY)) >= 0);
	r = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, ro, 0);
	MUST(r != MAP_FAILED);
	for (int how = READ; how <= WRITE; how++) {
		CHECK_FAULT(SIGBUS, BUS_ADRERR, s + 3 * PAGE + 9, access_byte(AT(s) + 3 * PAGE + 9, how));
		CHECK_FAULT(SIGBUS, BUS_ADRERR, q + 3 * PAGE + 9, access_byte(AT(q) + 3 * PAGE + 9, how));
	}
	CHECK_FAULT(SIGBUS, BUS_ADRERR, r + 3 * PAGE, access_byte(AT(r) + 3 * PAGE, READ));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, r + 3 * PAGE, access_byte(AT(r) + 3 * PAGE, WRITE));	/* rights before the end */

	/* the end inside a page: zero behind it, may be scribbled on */
	memset(s, 's', 3 * PAGE);
	q[PAGE] = 'q';
	q[0] = 'q';
	CHECK(ftruncate(fd, PAGE + 100) == 0);
	CHECK_EQUAL('s', s[PAGE + 99]);
	CHECK_EQUAL(0, s[PAGE + 100]);
	s[PAGE + 200] = 'z';
	CHECK_EQUAL('z', s[PAGE + 200]);
	CHECK_EQUAL('q', q[PAGE]);
	CHECK_FAULT(SIGBUS, BUS_ADRERR, s + 2 * PAGE, access_byte(AT(s) + 2 * PAGE, READ));
	CHECK_FAULT(SIGBUS, BUS_ADRERR, q + 2 * PAGE, access_byte(AT(q) + 2 * PAGE, WRITE));

	/* pages behind the new end are gone from private mappings too, copies and all; growing gives zeros */
	CHECK(ftruncate(fd, PAGE) == 0);
	CHECK_FAULT(SIGBUS, BUS_ADRERR, q + PAGE, access_byte(AT(q) + PAGE, READ));
	CHECK_EQUAL('q', q[0]);
	CHECK(ftruncate(fd, 3 * PAGE) == 0);
	CHECK_EQUAL(0, q[PAGE]);
	CHECK_EQUAL(0, s[PAGE + 50]);
	CHECK_EQUAL(0, s[2 * PAGE]);
	CHECK_EQUAL('s', s[0]);
	munmap(s, 4 * PAGE);
	munmap(q, 4 * PAGE);
	munmap(r, 4 * PAGE);
	close(ro);
	close(fd);
}

/* A35: in a system call it is an error or a short count */
static void in_system_calls(void)
{
	char *p = map_alone(3, RW);
	int ends[2], fd = make_memfd(2, 0), out = make_memfd(0, 0);
	char *f = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, fd, 0);

	MUST(pipe(ends) == 0);
	munmap(p + PAGE, PAGE);
	memset(p, 'x', PAGE);
	CHECK_ERRNO(EFAULT, write(ends[1], p + PAGE, 1));
	CHECK_ERRNO(EFAULT, write(ends[1], (void *)KERNEL_ADDRESS, 1));
	CHECK_ERRNO(EFAULT, write(ends[1], (void *)0x800000000000ul, 1));
	CHECK_ERRNO(EFAULT, write(out, f + 2 * PAGE, 1));				/* SIGBUS, were it an access */
	CHECK_EQUAL(100, pwrite(out, p + PAGE - 100, 200, 0));				/* short */
	CHECK_EQUAL(100, pwrite(out, f + 2 * PAGE - 100, 200, 0));
	MUST(ftruncate(out, 400) == 0);
	CHECK_EQUAL(100, pread(out, p + PAGE - 100, 200, 0));
	CHECK_ERRNO(EFAULT, pread(out, p + PAGE, 200, 0));
	CHECK(mprotect(p, PAGE, PROT_READ) == 0);
	CHECK_ERRNO(EFAULT, pread(out, p, 200, 0));
	CHECK_EQUAL(200, pwrite(out, p, 200, 0));
	CHECK(mprotect(p, PAGE, PROT_NONE) == 0);
	CHECK_ERRNO(EFAULT, pwrite(out, p, 200, 0));
	CHECK_ERRNO(EFAULT, pipe((int *)(p + PAGE)));
	munmap(p, 3 * PAGE);
	munmap(f, 4 * PAGE);
	close(fd);
	close(out);
	close(ends[0]);
	close(ends[1]);
}

/* The kernel restores the registers of the access: it goes on where it stopped, once its page is there. */
static char *repair_p;

static void repair(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)context;
	if (si->si_code == SEGV_ACCERR)
		mprotect((void *)((unsigned long)si->si_addr & ~(PAGE - 1)), PAGE, RW);
	else
		(void)!mmap((void *)((unsigned long)si->si_addr & ~(PAGE - 1)), PAGE, RW, ANON | MAP_FIXED, -1, 0);
}

static void repaired_accesses(void *unused)
{
	struct sigaction sa = { .sa_sigaction = repair, .sa_flags = SA_SIGINFO };

	(void)unused;
	sigaction(SIGSEGV, &sa, NULL);
	repair_p = map_alone(64, PROT_READ);
	munmap(repair_p + 32 * PAGE, 32 * PAGE);
	for (int i = 0; i < 64; i++)
		repair_p[i * PAGE + i] = (char)i;
	for (int i = 0; i < 64; i++)
		CHECK_EQUAL(i, repair_p[i * PAGE + i]);
}

static volatile char *volatile nowhere = (volatile char *)8;

/* A blocked or ignored SIGSEGV kills all the same. */
static void blocked(void *unused)
{
	sigset_t set;

	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigprocmask(SIG_BLOCK, &set, NULL);
	*nowhere = 1;
}

static void ignored(void *unused)
{
	(void)unused;
	signal(SIGSEGV, SIG_IGN);
	*nowhere = 1;
}

/* A38 */
static void stack_of_our_own(void)
{
	char *area = map_pages(1024, PROT_NONE, ANON), *stack;

	munmap(area, 1024 * PAGE);
	stack = area + 900 * PAGE;
	CHECK(mmap(stack, 4 * PAGE, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) == stack);
	CHECK(smaps_flag(stack, "gd"));
	CHECK_NO_FAULT(access_byte(AT(stack) - 1, WRITE));			/* nobody compares with rsp */
	CHECK_NO_FAULT(access_byte(AT(stack) - 20 * PAGE, READ));
	CHECK(is_mapped(stack - 20 * PAGE, 24 * PAGE));
	CHECK_EQUAL(1, count_vmas(stack - 20 * PAGE, 24 * PAGE));
	CHECK_EQUAL('w', stack[-1]);

	/* no nearer than 256 pages to what lies below */
	CHECK(mmap(area + 500 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) == area + 500 * PAGE);
	CHECK_FAULT(SIGSEGV, SEGV_MAPERR, area + 755 * PAGE, access_byte(AT(area) + 755 * PAGE, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_MAPERR, area + 756 * PAGE, access_byte(AT(area) + 756 * PAGE, WRITE));
	CHECK_NO_FAULT(access_byte(AT(area) + 757 * PAGE, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_MAPERR, area + 756 * PAGE, access_byte(AT(area) + 756 * PAGE, WRITE));
	/* unless nobody can touch that */
	CHECK(mprotect(area + 500 * PAGE, PAGE, PROT_NONE) == 0);
	CHECK_NO_FAULT(access_byte(AT(area) + 600 * PAGE, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, area + 500 * PAGE, access_byte(AT(area) + 500 * PAGE, WRITE));
	munmap(area, 1024 * PAGE);
}

static void stack_limit(void *unused)
{
	char *area = map_pages(1024, PROT_NONE, ANON), *stack;

	(void)unused;
	munmap(area, 1024 * PAGE);
	stack = area + 1000 * PAGE;
	CHECK(mmap(stack, PAGE, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) == stack);
	set_limit(RLIMIT_STACK, 64 * PAGE);
	CHECK_FAULT(SIGSEGV, SEGV_MAPERR, stack - 64 * PAGE, access_byte(AT(stack) - 64 * PAGE, WRITE));
	CHECK_NO_FAULT(access_byte(AT(stack) - 63 * PAGE, WRITE));
	CHECK_FAULT(SIGSEGV, SEGV_MAPERR, stack - 63 * PAGE - 1, access_byte(AT(stack) - 63 * PAGE - 1, WRITE));
}

static void use_stack(int depth)
{
	volatile char frame[4096];

	frame[0] = (char)depth;
	if (depth)
		use_stack(depth - 1);
	frame[4095] = frame[0];
}

static void main_stack(void *unused)
{
	struct vma_line before, after;
	char here;

	(void)unused;
	CHECK(vma_at(&here, &before) && strcmp(before.name, "[stack]") == 0);
	use_stack(500);			/* two megabytes */
	CHECK(vma_at(&here, &after) && strcmp(after.name, "[stack]") == 0);
	CHECK(before.start - after.start >= 1 << 20);
	CHECK_EQUAL(before.end, after.end);
}

/* A system call that writes below the stack grows it as well (A35: unless it may not, then EFAULT). */
static void stack_in_a_call(void *unused)
{
	unsigned long here = AT(&here) & ~(PAGE - 1);
	int fd = open("/dev/zero", O_RDONLY);

	(void)unused;
	CHECK_EQUAL(1, read(fd, (void *)(here - 200 * PAGE), 1));
	CHECK(is_mapped((void *)(here - 200 * PAGE), 200 * PAGE));
	set_limit(RLIMIT_STACK, 300 * PAGE);
	CHECK_ERRNO(EFAULT, read(fd, (void *)(here - 400 * PAGE), 1));
}

int main(void)
{
	catch_faults();
	addresses();
	rights();
	end_of_file();
	in_system_calls();
	IN_CHILD(repaired_accesses);
	CHECK_EQUAL(SIGSEGV, in_child(blocked, NULL) & 0x7f);
	CHECK_EQUAL(SIGSEGV, in_child(ignored, NULL) & 0x7f);
	stack_of_our_own();
	IN_CHILD(stack_limit);
	IN_CHILD(main_stack);
	IN_CHILD(stack_in_a_call);
	test_end();
}
