/*
 * Rules D6 to D9 and D24 to D26: what a private mapping was promised stays its own through split, mremap and fork; a child has
 * no promise and loses its page rather than have the owner fail.
 */
#include "hugetlb_test.h"

static void split_and_partial_unmap(void)
{
	char *p = map_huge(6, RW, HUGE_ANON);

	p[0] = p[3 * HUGE] = 1;
	CHECK_POOL(8, 4);
	CHECK_EQUAL(0, mprotect(p + 2 * HUGE, 2 * HUGE, PROT_READ));	/* three VMAs of one map */
	CHECK_POOL(8, 4);
	unmap_huge(p + 2 * HUGE, 2);
	CHECK_POOL(9, 3);
	p[5 * HUGE] = 1;
	CHECK_POOL(8, 2);
	unmap_huge(p, 1);
	CHECK_POOL(9, 2);
	unmap_huge(p + HUGE, 1);
	CHECK_POOL(9, 1);
	unmap_huge(p + 4 * HUGE, 2);
	CHECK_POOL(10, 0);
}

/* R22: Rsvd 4 2 2 1 0. */
static void mremap_takes_the_promise_along(void)
{
	char *p = map_huge(4, RW, HUGE_ANON), *room = map_huge(4, PROT_NONE, HUGE_ANON | MAP_NORESERVE), *q;

	CHECK_POOL(10, 4);
	p[0] = p[HUGE] = 7;
	CHECK_POOL(8, 2);
	q = mremap(p, 4 * HUGE, 4 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
	CHECK(q == room);
	CHECK_POOL(8, 2);
	CHECK_EQUAL(7, q[0]);
	q[2 * HUGE] = 1;
	CHECK_POOL(7, 1);
	q = mremap(q, 4 * HUGE, 2 * HUGE, 0);	/* shrinks: page 2 is freed, the promise of page 3 ends */
	CHECK(q == room);
	CHECK_POOL(8, 0);
	unmap_huge(q, 2);
	CHECK_POOL(10, 0);
}

static void dontneed_gives_the_promise_back(void)
{
	char *p = map_huge(3, RW, HUGE_ANON);

	memset(p, 1, 3 * HUGE);
	CHECK_POOL(7, 0);
	CHECK_EQUAL(0, madvise(p + HUGE, 2 * HUGE, MADV_DONTNEED));
	CHECK_POOL(9, 2);
	char *all = map_huge(7, RW, HUGE_ANON);		/* everything that is over */
	CHECK_POOL(9, 9);
	CHECK_ERRNO(ENOMEM, sys_mmap(0, HUGE, RW, HUGE_ANON, -1, 0));
	p[HUGE] = p[2 * HUGE] = 2;			/* cannot fail */
	CHECK_POOL(7, 7);
	unmap_huge(all, 7);
	unmap_huge(p, 3);
	CHECK_POOL(10, 0);
}

/* A26, D9: a page that a child maps too is not given back, so neither is its promise. */
static void child_uses(void *arg)
{
	volatile char *p = arg;

	CHECK_EQUAL(5, p[0]);
	CHECK_FAULT(0, 0, 0, access_byte((unsigned long)p, READ));
	p[0] = 6;					/* a copy of the child's own, by no promise */
	if (test_failures)
		_exit(1);
}

static void fork_promises_nothing(void)
{
	char *p = map_huge(3, RW, HUGE_ANON);

	p[0] = 5;
	CHECK_POOL(9, 2);
	CHECK_EQUAL(0, in_child(child_uses, p));
	CHECK_POOL(9, 2);
	CHECK_EQUAL(5, p[0]);
	p[0] = 4;					/* alone again: the page is reused */
	CHECK_POOL(9, 2);
	unmap_huge(p, 3);
	CHECK_POOL(10, 0);
}

static void noreserve_may_fail(void)
{
	char *p = map_huge(2, RW, HUGE_ANON | MAP_NORESERVE), *all;

	CHECK_POOL(10, 0);
	p[0] = 1;
	CHECK_POOL(9, 0);
	all = map_huge(9, RW, HUGE_ANON);
	CHECK_POOL(9, 9);
	CHECK_FAULT(SIGBUS, 2, p + HUGE + 123, access_byte((unsigned long)p + HUGE + 123, WRITE));
	CHECK_FAULT(SIGBUS, 2, p + HUGE, access_byte((unsigned long)p + HUGE, READ));
	CHECK_POOL(9, 9);
	unmap_huge(all, 9);
	CHECK_NO_FAULT(access_byte((unsigned long)p + HUGE, WRITE));
	CHECK_POOL(8, 0);
	unmap_huge(p, 2);
	CHECK_POOL(10, 0);
}

/* D24: no page for the owner's copy, so the child's goes. Then the child gets SIGBUS, at any missing page, never zeros. */
static int owner_told[2], child_told[2];

static void child_loses(char *p)
{
	char c;

	close(owner_told[1]);
	close(child_told[0]);
	CHECK_EQUAL('o', p[0]);				/* mapped here too */
	MUST(write(child_told[1], "r", 1) == 1);
	MUST(read(owner_told[0], &c, 1) == 1);		/* the owner has written meanwhile */
	CHECK_FAULT(SIGBUS, 2, p, access_byte((unsigned long)p, READ));
	CHECK_FAULT(SIGBUS, 2, p, access_byte((unsigned long)p, WRITE));
	CHECK_FAULT(SIGBUS, 2, p + HUGE, access_byte((unsigned long)p + HUGE, READ));
	fflush(stdout);
	_exit(test_failures ? 1 : 0);
}

static void the_owner_never_fails(void)
{
	char *p = map_huge(2, RW, HUGE_ANON), *all = map_huge(8, RW, HUGE_ANON), c;
	int status;

	p[0] = 'o';
	CHECK_POOL(9, 9);
	MUST(pipe(owner_told) == 0 && pipe(child_told) == 0);
	pid_t pid = fork();
	if (!pid)
		child_loses(p);
	MUST(read(child_told[0], &c, 1) == 1);
	p[0] = 'O';					/* nothing free that is not promised: keeps its page */
	CHECK_EQUAL('O', p[0]);
	CHECK_POOL(9, 9);
	MUST(write(owner_told[1], "w", 1) == 1);
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	p[HUGE] = 1;
	CHECK_POOL(8, 8);
	unmap_huge(all, 8);
	unmap_huge(p, 2);
	CHECK_POOL(10, 0);
	for (int i = 0; i < 2; i++) {
		close(owner_told[i]);
		close(child_told[i]);
	}
}

/* The other way round: a child that wants to write a shared page while nothing is free. */
static void child_cannot_copy(void *arg)
{
	CHECK_FAULT(SIGBUS, 2, arg, access_byte((unsigned long)arg, WRITE));
	CHECK_EQUAL('o', *(char *)arg);			/* it still can read */
	if (test_failures)
		_exit(1);
}

static void a_childs_copy_may_fail(void)
{
	char *p = map_huge(1, RW, HUGE_ANON), *all = map_huge(9, RW, HUGE_ANON);

	p[0] = 'o';
	CHECK_EQUAL(0, in_child(child_cannot_copy, p));
	CHECK_POOL(9, 9);
	CHECK_EQUAL('o', p[0]);
	unmap_huge(all, 9);
	unmap_huge(p, 1);
}

/* What a child finds mapped: the pages that are the parent's own, and beside them the file's, but not the file's alone. */
static void present(void *arg)
{
	char *p = arg;

	_exit(resident(p, 1) | resident(p + HUGE, 1) << 1);
}

static int present_in_child(char *p)
{
	int pid, status;

	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (!pid)
		present(p);
	MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void fork_copies_what_the_file_does_not_know(void)
{
	int fd = huge_memfd(0);

	for (int noreserve = 0; noreserve < 2; noreserve++) {
		int flags = MAP_PRIVATE | (noreserve ? MAP_NORESERVE : 0);
		char *p;

		MUST(ftruncate(fd, 2 * HUGE) == 0 && fallocate(fd, 0, 0, 2 * HUGE) == 0);
		p = map_fd(fd, 2, RW, flags, 0);
		CHECK_EQUAL(0, p[0] | p[HUGE]);
		CHECK_EQUAL(0, present_in_child(p));
		p[HUGE] = 1;
		CHECK_EQUAL(3, present_in_child(p));
		CHECK_POOL(7, noreserve ? 0 : 1);
		unmap_huge(p, 2);
		MUST(ftruncate(fd, 0) == 0);

		p = map_huge(2, RW, HUGE_ANON | (noreserve ? MAP_NORESERVE : 0));
		CHECK_EQUAL(0, p[0]);
		CHECK_EQUAL(1, present_in_child(p));
		unmap_huge(p, 2);
		CHECK_POOL(10, 0);
	}
	close(fd);
}

static void must_read_old(void *arg)
{
	CHECK_EQUAL('o', *(char *)arg);
	if (test_failures)
		_exit(1);
}

/* A page lies in a pipe when its owner forks, and when he writes again. The pipe and the child have what was there before. */
static void fork_with_a_page_in_a_pipe(void)
{
	int pipes[2], told[2], pid, status;

	for (int noreserve = 0; noreserve < 2; noreserve++) {
		char *p = map_huge(1, RW, HUGE_ANON | (noreserve ? MAP_NORESERVE : 0)), byte = 0;
		struct iovec iov = { p, 1 };

		p[0] = 'o';
		MUST(pipe(pipes) == 0 && pipe(told) == 0);
		CHECK_EQUAL(1, vmsplice(pipes[1], &iov, 1, 0));
		CHECK_POOL(9, 0);
		fflush(stdout);
		pid = fork();
		MUST(pid >= 0);
		if (!pid) {
			MUST(read(told[0], &byte, 1) == 1);
			must_read_old(p);
			_exit(0);
		}
		CHECK_POOL(9, 0);
		p[0] = 'n';
		CHECK_POOL(8, 0);
		MUST(write(told[1], "w", 1) == 1);
		MUST(waitpid(pid, &status, 0) == pid);
		CHECK_EQUAL(0, status);
		CHECK_POOL(8, 0);		/* one of them is the pipe's */
		CHECK_EQUAL(1, read(pipes[0], &byte, 1));
		CHECK_EQUAL('o', byte);
		CHECK_EQUAL('n', p[0]);
		CHECK_POOL(9, 0);
		for (int i = 0; i < 2; i++) {
			close(pipes[i]);
			close(told[i]);
		}
		unmap_huge(p, 1);
		CHECK_POOL(10, 0);
	}
}

/* Exit without munmap gives back both kinds. */
static void leaves_all_behind(void *arg)
{
	char *p = map_huge(5, RW, HUGE_ANON);

	(void)arg;
	p[0] = p[4 * HUGE] = 1;
	CHECK_POOL(8, 3);
}

int main(void)
{
	catch_faults();
	pool_begin(10);
	split_and_partial_unmap();
	mremap_takes_the_promise_along();
	dontneed_gives_the_promise_back();
	fork_promises_nothing();
	noreserve_may_fail();
	the_owner_never_fails();
	a_childs_copy_may_fail();
	fork_copies_what_the_file_does_not_know();
	fork_with_a_page_in_a_pipe();
	CHECK_EQUAL(0, in_child(leaves_all_behind, NULL));
	CHECK_POOL(10, 0);
	pool_end(10);
}
