/*
 * mmap, munmap, brk, mprotect, mremap, madvise, mincore, msync, mlock: which error, in which order, and what memory looks
 * like afterwards. The letters are the rules of docs (A5 ... A34).
 * cpus: 1 2
 * timeout: 60
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "test.h"

#define PAGE		4096ul
#define TASK_SIZE	0x7ffffffff000ul
#define KERNEL		0xffff800000000000ul
#define RW		(PROT_READ | PROT_WRITE)
#define ANON		(MAP_PRIVATE | MAP_ANONYMOUS)
#define BASE		((char *)0x100000000000ul)	/* far from everything else */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define SHARED_VALIDATE	3
#define DROPPABLE	8

/* Addresses as numbers, so that absurd ones need no casts. */
static long map(unsigned long addr, unsigned long len, int prot, unsigned long flags, int fd, unsigned long off)
{
	return syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}
static long unmap(unsigned long addr, unsigned long len) { return syscall(SYS_munmap, addr, len); }
static long protect(unsigned long addr, unsigned long len, unsigned long prot) { return syscall(SYS_mprotect, addr, len, prot); }
static long remap(void *addr, unsigned long old, unsigned long new, int flags, void *to) { return syscall(SYS_mremap, addr, old, new, flags, to); }
static long advise(void *addr, unsigned long len, int advice) { return syscall(SYS_madvise, addr, len, advice); }

/* Fresh anonymous pages at a fixed place. */
static char *fresh(char *addr, int pages, int prot)
{
	char *p = mmap(addr, pages * PAGE, prot, ANON | MAP_FIXED, -1, 0);

	MUST(p == addr);
	return p;
}

static sigjmp_buf escape;
static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	siglongjmp(escape, sig * 10 + info->si_code);
}
#define SEGV_MAP	(SIGSEGV * 10 + 1)
#define SEGV_ACC	(SIGSEGV * 10 + 2)
#define BUS_ADR		(SIGBUS * 10 + 2)

/* 0, or the signal and its code. */
static int touch(volatile char *p, int write)
{
	int what = sigsetjmp(escape, 1);

	if (what)
		return what;
	if (write)
		*p = 1;
	else
		(void)*p;
	return 0;
}

/* How many lines of maps lie in [from, to)? */
static int mappings(char *from, char *to)
{
	char line[512];
	unsigned long a, b;
	int n = 0;
	FILE *f = fopen("/proc/self/maps", "r");

	MUST(f != NULL);
	while (fgets(line, sizeof(line), f))
		n += sscanf(line, "%lx-%lx", &a, &b) == 2 && a < (unsigned long)to && b > (unsigned long)from;
	fclose(f);
	return n;
}

static int file_rw, file_ro, file_wo, dir, pipes[2];

static void test_mmap(void)
{
	unsigned long base = (unsigned long)BASE;

	/* A5: the offset comes first of all, then the descriptor. */
	CHECK_ERRNO(EINVAL, map(0, 0, RW, ANON, -1, 1));
	CHECK_ERRNO(EBADF, map(0, 0, RW, MAP_PRIVATE, 999, 0));
	CHECK_ERRNO(EINVAL, map(0, PAGE, RW, MAP_PRIVATE | MAP_HUGETLB, file_rw, 0));
	/* A6 */
	CHECK_ERRNO(EINVAL, map(0, 0, RW, ANON, -1, 0));
	CHECK_ERRNO(ENOMEM, map(0, -1ul, RW, ANON, -1, 0));
	CHECK_ERRNO(ENOMEM, map(0, 1ul << 47, RW, ANON, -1, 0));
	CHECK_ERRNO(EOVERFLOW, map(0, 2 * PAGE, PROT_READ, MAP_SHARED, file_rw, -PAGE));
	/* A7 */
	CHECK_ERRNO(EINVAL, map(base + 1, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(ENOMEM, map(TASK_SIZE, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(ENOMEM, map(KERNEL, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	long got = map(KERNEL, PAGE, RW, ANON, -1, 0);
	CHECK(got > 0 && (unsigned long)got < TASK_SIZE);
	unmap(got, PAGE);
	fresh(BASE, 4, RW);
	CHECK_ERRNO(EEXIST, map(base + 3 * PAGE, 2 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	CHECK_EQUAL(base + 4 * PAGE, map(base + 4 * PAGE, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	CHECK_EQUAL(1, mappings(BASE, BASE + 5 * PAGE));	/* A2: it joined its neighbour */
	got = map(base + 123, PAGE, RW, ANON, -1, 0);
	CHECK(got > 0 && (unsigned long)got != base);		/* a hint that is taken */
	unmap(got, PAGE);
	/* A8: FIXED replaces every part, and a failure replaces nothing. */
	BASE[PAGE] = 7;
	CHECK_ERRNO(EACCES, map(base, 3 * PAGE, RW, MAP_SHARED | MAP_FIXED, file_ro, 0));
	CHECK_EQUAL(7, BASE[PAGE]);
	fresh(BASE + PAGE, 1, PROT_READ);
	fresh(BASE, 5, RW);
	CHECK_EQUAL(0, BASE[PAGE]);
	CHECK_EQUAL(1, mappings(BASE, BASE + 5 * PAGE));
	unmap(base, 5 * PAGE);
	/* A10 */
	CHECK_ERRNO(EINVAL, map(0, PAGE, RW, MAP_ANONYMOUS, -1, 0));
	CHECK_ERRNO(EINVAL, map(0, PAGE, RW, MAP_ANONYMOUS | 4, -1, 0));
	CHECK_ERRNO(EINVAL, map(0, PAGE, RW, MAP_ANONYMOUS | SHARED_VALIDATE, -1, 0));
	CHECK_ERRNO(EOPNOTSUPP, map(0, PAGE, RW, SHARED_VALIDATE | MAP_FIXED_NOREPLACE << 1, file_rw, 0));
	got = map(0, PAGE, RW, MAP_SHARED | MAP_FIXED_NOREPLACE << 1, file_rw, 0);
	CHECK(got > 0);
	unmap(got, PAGE);
	CHECK_ERRNO(EINVAL, map(0, PAGE, RW, MAP_ANONYMOUS | DROPPABLE | MAP_LOCKED, -1, 0));
	CHECK_ERRNO(EINVAL, map(0, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0));
	CHECK_ERRNO(EINVAL, map(0, PAGE, RW, MAP_PRIVATE | MAP_GROWSDOWN, file_rw, 0));
	/* A11 */
	CHECK_ERRNO(EACCES, map(0, PAGE, PROT_READ, MAP_SHARED, file_wo, 0));
	CHECK_ERRNO(EACCES, map(0, PAGE, PROT_READ, MAP_PRIVATE, file_wo, 0));
	CHECK_ERRNO(EACCES, map(0, PAGE, RW, MAP_SHARED, file_ro, 0));
	CHECK_ERRNO(ENODEV, map(0, PAGE, PROT_READ, MAP_PRIVATE, dir, 0));
	CHECK_ERRNO(ENODEV, map(0, PAGE, PROT_READ, MAP_PRIVATE, pipes[0], 0));
	char *p = mmap(NULL, PAGE, RW, MAP_PRIVATE, file_ro, 0);
	MUST(p != MAP_FAILED);
	p[0] = 99;
	CHECK_EQUAL(99, p[0]);
	munmap(p, PAGE);
	/* A1: shared and read-only stays read-only. */
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file_ro, 0);
	CHECK_ERRNO(EACCES, mprotect(p, PAGE, RW));
	munmap(p, PAGE);
	int sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
	MUST(sealed >= 0 && !ftruncate(sealed, PAGE));
	p = mmap(NULL, PAGE, RW, MAP_SHARED, sealed, 0);
	CHECK_ERRNO(EBUSY, fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE));
	munmap(p, PAGE);
	CHECK_EQUAL(0, fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE));
	CHECK_ERRNO(EPERM, map(0, PAGE, RW, MAP_SHARED, sealed, 0));
	close(sealed);
	/* A12, A36: prefaulting past the end of a file is not an error, touching it is. */
	p = mmap(NULL, 20 * PAGE, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file_rw, 0);
	MUST(p != MAP_FAILED);
	CHECK_EQUAL(0x41, p[PAGE]);
	CHECK_EQUAL(BUS_ADR, touch(p + 17 * PAGE, 0));
	munmap(p, 20 * PAGE);
	CHECK_EQUAL(SEGV_MAP, touch(p, 0));
}

static void test_munmap_and_brk(void)
{
	unsigned long base = (unsigned long)BASE;

	CHECK_ERRNO(EINVAL, unmap(base + 1, PAGE));		/* A13 */
	CHECK_ERRNO(EINVAL, unmap(base, 0));
	CHECK_ERRNO(EINVAL, unmap(TASK_SIZE, PAGE));
	CHECK_ERRNO(EINVAL, unmap(base, -PAGE));
	CHECK_EQUAL(0, unmap(base, 100 * PAGE));		/* a hole */
	char *p = fresh(BASE, 5, RW);
	CHECK_EQUAL(0, unmap(base + 2 * PAGE, 1));		/* rounds up; a hole in the middle */
	CHECK_EQUAL(2, mappings(BASE, BASE + 5 * PAGE));
	CHECK_EQUAL(SEGV_MAP, touch(p + 2 * PAGE, 1));
	CHECK_EQUAL(0, touch(p + 3 * PAGE, 1));
	CHECK_EQUAL(0, unmap(base, 5 * PAGE));			/* over the hole */

	unsigned long brk = syscall(SYS_brk, 0);		/* A14 */
	CHECK_EQUAL(brk, syscall(SYS_brk, 1));
	CHECK_EQUAL(brk, syscall(SYS_brk, TASK_SIZE));
	CHECK_EQUAL(brk + 3 * PAGE, syscall(SYS_brk, brk + 3 * PAGE));
	p = (char *)((brk + PAGE - 1) & -PAGE);
	p[PAGE] = 1;
	CHECK_EQUAL(brk, syscall(SYS_brk, brk));
	CHECK_EQUAL(SEGV_MAP, touch(p + PAGE, 0));
	CHECK_EQUAL(brk + 3 * PAGE, syscall(SYS_brk, brk + 3 * PAGE));
	CHECK_EQUAL(0, p[PAGE]);
	syscall(SYS_brk, brk);
}

static void test_mprotect(void)
{
	unsigned long base = (unsigned long)BASE;
	char *p = fresh(BASE, 8, RW);

	CHECK_ERRNO(EINVAL, protect(base + 1, 0, PROT_GROWSDOWN | PROT_GROWSUP));	/* A15 */
	CHECK_ERRNO(EINVAL, protect(base + 1, PAGE, PROT_READ));
	CHECK_EQUAL(0, protect(base + 100 * PAGE, 0, PROT_READ));
	CHECK_ERRNO(ENOMEM, protect(base, -1ul, 1ul << 30));
	CHECK_ERRNO(EINVAL, protect(base, PAGE, 1ul << 30));
	CHECK_ERRNO(ENOMEM, protect(base + 100 * PAGE, PAGE, PROT_READ));
	CHECK_ERRNO(EINVAL, protect(base, PAGE, PROT_READ | PROT_GROWSDOWN));
	/* A16: up to the hole it is done. */
	unmap(base + 4 * PAGE, PAGE);
	CHECK_ERRNO(ENOMEM, protect(base + 2 * PAGE, 4 * PAGE, PROT_READ));
	CHECK_EQUAL(0, touch(p + PAGE, 1));
	CHECK_EQUAL(SEGV_ACC, touch(p + 3 * PAGE, 1));
	CHECK_EQUAL(0, touch(p + 5 * PAGE, 1));
	/* A2: back together */
	CHECK_EQUAL(0, protect(base + 2 * PAGE, 2 * PAGE, RW));
	CHECK_EQUAL(1, mappings(BASE, BASE + 4 * PAGE));
	/* A17 */
	p[0] = 3;
	protect(base, PAGE, PROT_READ);
	CHECK_EQUAL(SEGV_ACC, touch(p, 1));
	protect(base, PAGE, PROT_NONE);
	CHECK_EQUAL(SEGV_ACC, touch(p, 0));
	protect(base, PAGE, PROT_WRITE);
	CHECK_EQUAL(3, p[0]);
	CHECK_EQUAL(0, touch(p, 1));
	unmap(base, 8 * PAGE);
}

static void test_mremap(void)
{
	char *p = fresh(BASE, 8, RW), *q = BASE + (1ul << 30);

	CHECK_ERRNO(EINVAL, remap(p, PAGE, PAGE, 8, q));		/* A18 */
	CHECK_ERRNO(EINVAL, remap(p, PAGE, PAGE, MREMAP_FIXED, q));
	CHECK_ERRNO(EINVAL, remap(p, PAGE, 2 * PAGE, MREMAP_MAYMOVE | 4, q));
	CHECK_ERRNO(EINVAL, remap(p + 1, PAGE, PAGE, 0, q));
	CHECK_ERRNO(EINVAL, remap(p, PAGE, 0, 0, q));
	CHECK_ERRNO(EINVAL, remap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q + 1));
	CHECK_ERRNO(EINVAL, remap(p, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + PAGE));
	CHECK_ERRNO(EINVAL, remap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)TASK_SIZE));
	CHECK_ERRNO(EINVAL, remap(p, 0, PAGE, MREMAP_MAYMOVE, q));	/* duplicate of a private one */
	CHECK_ERRNO(EFAULT, remap(q, PAGE, 2 * PAGE, 0, NULL));		/* A19 */
	CHECK_ERRNO(EFAULT, remap(p, 9 * PAGE, 10 * PAGE, MREMAP_MAYMOVE, NULL));
	/* A20 */
	CHECK_EQUAL((long)p, remap(p, 8 * PAGE, 8 * PAGE, 0, NULL));
	for (int i = 0; i < 8; i++)
		p[i * PAGE] = (char)(i + 1);
	CHECK_EQUAL((long)p, remap(p, 8 * PAGE, 6 * PAGE, 0, NULL));
	CHECK_EQUAL(SEGV_MAP, touch(p + 6 * PAGE, 0));
	CHECK_EQUAL((long)p, remap(p, 6 * PAGE, 8 * PAGE, 0, NULL));
	CHECK_EQUAL(0, p[6 * PAGE]);
	fresh(p + 8 * PAGE, 1, PROT_READ);
	CHECK_ERRNO(ENOMEM, remap(p, 8 * PAGE, 9 * PAGE, 0, NULL));
	/* A21: a part moves with its pages onto something that was there. */
	fresh(q, 4, PROT_READ);
	CHECK_EQUAL((long)q, remap(p + 2 * PAGE, 3 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q));
	CHECK_EQUAL(3, q[0]);
	CHECK_EQUAL(5, q[2 * PAGE]);
	CHECK_EQUAL(SEGV_MAP, touch(p + 3 * PAGE, 0));
	CHECK_EQUAL(2, p[PAGE]);
	CHECK_EQUAL(6, p[5 * PAGE]);
	CHECK_EQUAL(SEGV_ACC, touch(q + 3 * PAGE, 1));
	/* over a page-table border, growing */
	char *border = BASE + (2ul << 30) - PAGE;
	CHECK_EQUAL((long)border, remap(q, 3 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, border));
	CHECK_EQUAL(3, border[0]);
	CHECK_EQUAL(4, border[PAGE]);
	CHECK_EQUAL(0, border[3 * PAGE]);
	/* DONTUNMAP leaves an empty mapping behind. */
	CHECK_EQUAL((long)q, remap(border, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | 4, q));
	CHECK_EQUAL(5, q[2 * PAGE]);
	CHECK_EQUAL(0, border[0]);
	munmap(border, 4 * PAGE);
	munmap(q, 4 * PAGE);
	munmap(p, 9 * PAGE);
	/* Shared: length 0 makes a second view. */
	p = mmap(NULL, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	q = (char *)remap(p, 0, 2 * PAGE, MREMAP_MAYMOVE, NULL);
	CHECK(q != MAP_FAILED && q != p);
	p[PAGE] = 42;
	CHECK_EQUAL(42, q[PAGE]);
	munmap(p, 2 * PAGE);
	munmap(q, 2 * PAGE);
}

static void test_madvise(void)
{
	char *p = fresh(BASE, 6, RW), *f;

	CHECK_ERRNO(EINVAL, advise(p + 1, PAGE, 999));			/* A24 */
	CHECK_ERRNO(EINVAL, advise(p + 1, PAGE, MADV_NORMAL));
	CHECK_ERRNO(EINVAL, advise(p, -1ul, MADV_NORMAL));
	CHECK_EQUAL(0, advise(p + 100 * PAGE, 0, MADV_DONTNEED));
	CHECK_ERRNO(ENOMEM, advise(p + 100 * PAGE, PAGE, MADV_DONTNEED));
	munmap(p + 2 * PAGE, PAGE);
	p[PAGE] = p[3 * PAGE] = 9;
	CHECK_ERRNO(ENOMEM, advise(p, 6 * PAGE, MADV_DONTNEED));	/* both sides of the hole */
	CHECK_EQUAL(0, p[PAGE] | p[3 * PAGE]);
	/* A25 */
	CHECK_EQUAL(0, mlock(p, PAGE));
	CHECK_ERRNO(EINVAL, advise(p, PAGE, MADV_DONTNEED));
	p[0] = 1;
	CHECK_EQUAL(0, advise(p, PAGE, 24));
	CHECK_EQUAL(0, p[0]);
	munlock(p, PAGE);
	f = mmap(NULL, 2 * PAGE, RW, MAP_PRIVATE, file_rw, 0);
	f[0] = 99;
	CHECK_EQUAL(0, advise(f, PAGE, MADV_DONTNEED));
	CHECK_EQUAL(0x40, f[0]);
	CHECK_ERRNO(EINVAL, advise(f, PAGE, MADV_FREE));		/* A27 */
	CHECK_EQUAL(0, advise(p, PAGE, MADV_FREE));
	CHECK_ERRNO(EINVAL, advise(p, PAGE, MADV_REMOVE));		/* A28 */
	CHECK_ERRNO(EACCES, advise(f, PAGE, MADV_REMOVE));
	CHECK_ERRNO(EINVAL, advise(f, PAGE, 18));			/* A29 */
	munmap(f, 2 * PAGE);
	f = mmap(NULL, 3 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	f[PAGE] = f[2 * PAGE] = 5;
	CHECK_EQUAL(0, advise(f + PAGE, PAGE, MADV_REMOVE));
	CHECK_EQUAL(0, f[PAGE]);
	CHECK_EQUAL(5, f[2 * PAGE]);
	munmap(f, 3 * PAGE);
	/* A30 */
	unsigned char vec[4];
	CHECK_EQUAL(0, advise(p + 3 * PAGE, 2 * PAGE, 23));
	CHECK_EQUAL(0, mincore(p + 3 * PAGE, 2 * PAGE, vec));
	CHECK_EQUAL(1, vec[0] & vec[1] & 1);
	CHECK_ERRNO(ENOMEM, advise(p, 3 * PAGE, 22));
	mprotect(p, PAGE, PROT_READ);
	CHECK_ERRNO(EINVAL, advise(p, PAGE, 23));
	f = mmap(NULL, 20 * PAGE, RW, MAP_SHARED, file_rw, 0);
	CHECK_ERRNO(EFAULT, advise(f, 20 * PAGE, 22));
	munmap(f, 20 * PAGE);
	munmap(p, 6 * PAGE);
}

static void child_sees_forked_memory(void *arg)
{
	char *p = arg;

	CHECK_EQUAL(1, p[0]);
	CHECK_EQUAL(0, p[PAGE]);			/* WIPEONFORK */
	CHECK_EQUAL(SEGV_MAP, touch(p + 2 * PAGE, 0));	/* DONTFORK */
	p[0] = 2;
}

static void test_fork_advice(void)
{
	char *p = fresh(BASE, 3, RW);

	p[0] = p[PAGE] = p[2 * PAGE] = 1;
	CHECK_EQUAL(0, advise(p + PAGE, PAGE, 18));
	CHECK_EQUAL(0, advise(p + 2 * PAGE, PAGE, MADV_DONTFORK));
	CHECK_EQUAL(0, in_child(child_sees_forked_memory, p));
	CHECK_EQUAL(3, p[0] + p[PAGE] + p[2 * PAGE]);
	munmap(p, 3 * PAGE);
}

static void test_mincore_msync(void)
{
	unsigned char vec[8] = { 0 };
	char *p = fresh(BASE, 4, RW);

	CHECK_ERRNO(EINVAL, mincore(p + 1, PAGE, vec));			/* A31 */
	CHECK_ERRNO(ENOMEM, mincore(p, 5 * PAGE, vec));
	CHECK_ERRNO(ENOMEM, mincore((void *)KERNEL, PAGE, vec));
	CHECK_ERRNO(EFAULT, mincore(p, PAGE, (void *)KERNEL));
	CHECK_EQUAL(0, mincore(p + 100 * PAGE, 0, vec));
	p[PAGE] = 1;
	CHECK_EQUAL(0, mincore(p, 4 * PAGE, vec));
	CHECK_EQUAL(0x0100, (vec[0] & 1) << 12 | (vec[1] & 1) << 8 | (vec[2] & 1) << 4 | (vec[3] & 1));
	char *f = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, file_rw, 0);
	CHECK_EQUAL(0, mincore(f, 4 * PAGE, vec));			/* in the cache, if not mapped */
	CHECK_EQUAL(1, vec[3] & 1);

	CHECK_ERRNO(EINVAL, msync(p, PAGE, 8));				/* A32 */
	CHECK_ERRNO(EINVAL, msync(p, PAGE, MS_SYNC | MS_ASYNC));
	CHECK_ERRNO(EINVAL, msync(p + 1, PAGE, MS_SYNC));
	CHECK_EQUAL(0, msync(f, 4 * PAGE, 0));
	CHECK_EQUAL(0, msync(f, 4 * PAGE, MS_SYNC));
	CHECK_ERRNO(ENOMEM, msync(p, 6 * PAGE, MS_SYNC));
	CHECK_EQUAL(0, mlock(p, PAGE));
	CHECK_ERRNO(EBUSY, msync(p, PAGE, MS_INVALIDATE));
	munmap(f, 4 * PAGE);
	munmap(p, 4 * PAGE);
}

static void unprivileged_locks(void *arg)
{
	struct rlimit limit = { 4 * PAGE, 4 * PAGE };
	char *p = BASE;

	(void)arg;
	MUST(!setrlimit(RLIMIT_MEMLOCK, &limit) && !setgid(1000) && !setuid(1000));
	fresh(p, 8, RW);
	CHECK_EQUAL(0, mlock(p + 1, 3 * PAGE));				/* four pages, as it rounds */
	CHECK_EQUAL(0, mlock(p, 4 * PAGE));				/* the same four */
	CHECK_ERRNO(ENOMEM, mlock(p + 4 * PAGE, PAGE));
	CHECK_ERRNO(EAGAIN, map(0, PAGE, RW, ANON | MAP_LOCKED, -1, 0));	/* A9 */
	CHECK_EQUAL(0, munlock(p, 2 * PAGE));
	CHECK_EQUAL(0, mlock(p + 6 * PAGE, 2 * PAGE));
	CHECK_ERRNO(ENOMEM, mlockall(MCL_CURRENT));
	CHECK_EQUAL(0, munlockall());
	limit.rlim_cur = 0;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	CHECK_ERRNO(EPERM, mlock(p, PAGE));
	CHECK_ERRNO(EPERM, map(0, PAGE, RW, ANON | MAP_LOCKED, -1, 0));
	CHECK_ERRNO(EPERM, map(PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0));	/* A7: below mmap_min_addr */
}

static void limited_address_space(void *arg)
{
	struct rlimit limit = { 256ul << 20, 256ul << 20 };

	(void)arg;
	MUST(!setrlimit(RLIMIT_AS, &limit));
	CHECK_ERRNO(ENOMEM, map(0, 256ul << 20, RW, ANON, -1, 0));
	CHECK(map(0, 100ul << 20, RW, ANON, -1, 0) > 0);
	CHECK_ERRNO(ENOMEM, map(0, 200ul << 20, PROT_NONE, ANON, -1, 0));
	limit.rlim_cur = 16ul << 20;
	MUST(!setrlimit(RLIMIT_DATA, &limit));
	CHECK_ERRNO(ENOMEM, map(0, PAGE, RW, ANON, -1, 0));
	CHECK(map(0, PAGE, PROT_READ, ANON, -1, 0) > 0);
	unsigned long brk = syscall(SYS_brk, 0);
	CHECK_EQUAL(brk, syscall(SYS_brk, brk + (32ul << 20)));
}

static void test_mlock(void)
{
	char *p = fresh(BASE, 4, RW);
	unsigned char vec[4];

	CHECK_ERRNO(EINVAL, syscall(SYS_mlock2, p, PAGE, 2));		/* A33 */
	CHECK_ERRNO(EINVAL, mlockall(0));
	CHECK_ERRNO(EINVAL, mlockall(4));
	CHECK_ERRNO(EINVAL, mlockall(8));
	CHECK_ERRNO(ENOMEM, mlock(p, 5 * PAGE));
	CHECK_EQUAL(0, mincore(p, 4 * PAGE, vec));
	CHECK_EQUAL(0, mlock(p, 4 * PAGE));
	CHECK_EQUAL(0, mincore(p, 4 * PAGE, vec));
	CHECK_EQUAL(1, vec[0] & vec[1] & vec[2] & vec[3] & 1);
	munmap(p, 4 * PAGE);
	fresh(p, 2, PROT_NONE);
	CHECK_ERRNO(ENOMEM, mlock(p, PAGE));
	munmap(p, 2 * PAGE);
	fresh(p, 2, RW);
	CHECK_EQUAL(0, syscall(SYS_mlock2, p, 2 * PAGE, 1));		/* on fault only */
	CHECK_EQUAL(0, mincore(p, 2 * PAGE, vec));
	CHECK_EQUAL(0, (vec[0] | vec[1]) & 1);
	munmap(p, 2 * PAGE);
	p = mmap(NULL, 20 * PAGE, PROT_READ, MAP_SHARED, file_rw, 0);
	CHECK_ERRNO(ENOMEM, mlock(p, 20 * PAGE));			/* past the end of the file */
	munmap(p, 20 * PAGE);
	CHECK_EQUAL(0, in_child(unprivileged_locks, NULL));
	CHECK_EQUAL(0, in_child(limited_address_space, NULL));
}

static void test_seal(void)
{
	char *p = fresh(BASE + (8ul << 30), 3, RW);

	if (syscall(462, p, 0, 0) && errno == ENOSYS)
		return;
	CHECK_ERRNO(EINVAL, syscall(462, p, PAGE, 1));
	CHECK_ERRNO(EINVAL, syscall(462, p + 1, PAGE, 0));
	CHECK_ERRNO(ENOMEM, syscall(462, p, 4 * PAGE, 0));
	mprotect(p + PAGE, PAGE, PROT_READ);
	CHECK_EQUAL(0, syscall(462, p + PAGE, PAGE, 0));
	CHECK_ERRNO(EPERM, munmap(p, 3 * PAGE));
	CHECK_ERRNO(EPERM, mprotect(p + PAGE, PAGE, RW));
	CHECK_ERRNO(EPERM, remap(p + PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE, NULL));
	CHECK_ERRNO(EPERM, map((unsigned long)p, 2 * PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(EPERM, advise(p + PAGE, PAGE, MADV_DONTNEED));
	CHECK_EQUAL(0, munmap(p, PAGE));
	CHECK_EQUAL(0, munmap(p + 2 * PAGE, PAGE));
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	char page[PAGE];

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	file_rw = open("/tmp/memory_calls", O_RDWR | O_CREAT | O_TRUNC, 0600);
	MUST(file_rw >= 0);
	for (int i = 0; i < 16; i++) {
		memset(page, 0x40 + i, sizeof(page));
		MUST(write(file_rw, page, sizeof(page)) == (ssize_t)sizeof(page));
	}
	file_ro = open("/tmp/memory_calls", O_RDONLY);
	file_wo = open("/tmp/memory_calls", O_WRONLY);
	dir = open("/tmp", O_RDONLY | O_DIRECTORY);
	MUST(file_ro >= 0 && file_wo >= 0 && dir >= 0 && !pipe(pipes));

	test_mmap();
	test_munmap_and_brk();
	test_mprotect();
	test_mremap();
	test_madvise();
	test_fork_advice();
	test_mincore_msync();
	test_mlock();
	test_seal();
	unlink("/tmp/memory_calls");
	test_end();
}
