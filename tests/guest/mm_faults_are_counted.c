/*
 * pgfault, minflt and majflt count each fault once: anonymous, zero page, copy-on-write, file, the completed ones too; not
 * those that are refused, nor accesses that do not fault. Rules B7, B8, B14, G4, RACES R52.
 */
#include "mm_test.h"

#include <sys/prctl.h>

#define N	256

struct counts {
	long	minor, major, vmstat;
};

static struct counts counts(void)
{
	struct rusage r;
	struct counts c;

	c.vmstat = proc_number("/proc/vmstat", "pgfault");
	getrusage(RUSAGE_SELF, &r);
	c.minor = r.ru_minflt;
	c.major = r.ru_majflt;
	return c;
}

static void touch(char *p, bool write)
{
	for (int i = 0; i < N; i++) {
		if (write)
			p[i * PAGE] = (char)i;
		else
			(void)*(volatile char *)(p + i * PAGE);
	}
}

/*
 * What the touching added. This process may take a fault of its own meanwhile (a page of its text), and others count in
 * vmstat, so a few more are fine; one less, or twice as many, is not.
 */
static void check(const char *what, char *p, bool write, long expected)
{
	struct counts before, after;

	counts();
	before = counts();
	touch(p, write);
	after = counts();
	long minor = after.minor - before.minor, all = after.vmstat - before.vmstat;

	if (minor < expected || minor > expected + 3 || after.major != before.major || all < expected || all > expected + 40) {
		printf("%s: expected %ld minor faults, got %ld, %ld major, %ld in vmstat\n", what, expected, minor, after.major - before.major, all);
		test_failures++;
	}
}

static char *parents;

static void child_copies(void *unused)
{
	(void)unused;
	check("copy-on-write in the child", parents, true, N);
	check("no fault after the copy", parents, true, 0);
}

int main(void)
{
	int fd = make_memfd(N, 0);
	char *p, *q;

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);		/* Linux might map 2 MiB by one fault */
	p = map_pages(N, RW, ANON);
	catch_faults();
	counts();
	check("anonymous reads", p, false, N);
	check("zero pages written to", p, true, N);
	check("nothing", p, true, 0);
	madvise(p, N * PAGE, MADV_DONTNEED);
	check("anonymous writes", p, true, N);

	parents = p;
	IN_CHILD(child_copies);
	check("writes after the child is gone", p, true, N);
	mprotect(p, N * PAGE, PROT_READ);
	mprotect(p, N * PAGE, RW);
	check("writes after mprotect there and back", p, true, 0);
	munmap(p, N * PAGE);

	/* G4: each first write to a shared file page is one fault, although it drops its lock before it is done */
	p = mmap(NULL, N * PAGE, RW, MAP_SHARED, fd, 0);
	check("first writes to shared file pages", p, true, N);
	check("second writes", p, true, 0);
	madvise(p, N * PAGE, MADV_DONTNEED);
	touch(p, false);
	check("writes after reads of pages that are dirty", p, true, 0);
	munmap(p, N * PAGE);

	/* pages that are cached are mapped many at a time, and copied one at a time */
	q = mmap(NULL, N * PAGE, RW, MAP_PRIVATE, fd, 0);
	struct counts before = counts();
	touch(q, false);
	struct counts after = counts();
	CHECK(after.minor - before.minor >= N / 16 && after.minor - before.minor <= N + 3);
	check("private copies of file pages", q, true, N);
	munmap(q, N * PAGE);

	/* prefaulted by the kernel: faults of this task all the same */
	before = counts();
	p = map_pages(N, RW, ANON | MAP_POPULATE);
	after = counts();
	CHECK(after.minor - before.minor >= N && after.minor - before.minor <= N + 3);
	CHECK(after.vmstat - before.vmstat >= N && after.vmstat - before.vmstat <= N + 40);
	check("after MAP_POPULATE", p, true, 0);

	/* B7, B8: refused before the handler is asked: counts nowhere */
	mprotect(p, N * PAGE, PROT_NONE);
	access_byte((unsigned long)p, READ);
	before = counts();
	for (int i = 0; i < N; i++)
		access_byte((unsigned long)p + (unsigned long)i * PAGE, READ);
	after = counts();
	CHECK(after.minor - before.minor <= 3);
	CHECK(after.vmstat - before.vmstat <= 40);
	munmap(p, N * PAGE);

	/* a fault past the end of a file: the handler was asked, so it is in vmstat; the task's count has only successes */
	p = mmap(NULL, 2 * N * PAGE, RW, MAP_SHARED, fd, 0);
	access_byte((unsigned long)p + N * PAGE, READ);
	before = counts();
	for (int i = 0; i < N; i++)
		access_byte((unsigned long)p + (unsigned long)(N + i) * PAGE, READ);
	after = counts();
	CHECK(after.minor - before.minor <= 3);
	CHECK(after.vmstat - before.vmstat >= N && after.vmstat - before.vmstat <= N + 40);
	munmap(p, 2 * N * PAGE);

	/* inside a system call it is a fault like any other */
	p = map_pages(N, RW, ANON);
	before = counts();
	for (int i = 0; i < N; i++)
		CHECK(pread(fd, p + i * PAGE, 1, 0) == 1);
	after = counts();
	CHECK(after.minor - before.minor >= N && after.minor - before.minor <= N + 3);

	/* /proc/self/stat agrees with getrusage */
	char *text = read_text("/proc/self/stat"), *field = strrchr(text, ')');
	for (int i = 0; i < 8; i++)
		field = strchr(field + 1, ' ');
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	CHECK(atol(field) <= r.ru_minflt && atol(field) >= after.minor && r.ru_minflt - atol(field) <= 3);
	test_end();
}
