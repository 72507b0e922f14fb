/*
 * madvise: every advice, on every kind of memory, with holes, locks and seals of order. Rules A24..A30.
 */
#include "mm_test.h"

static const int harmless[] = {
	MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTFORK, MADV_DOFORK, MADV_DONTDUMP, MADV_DODUMP,
	MADV_COLD, MADV_PAGEOUT,
};
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

/* A24 */
static void arguments(void)
{
	char *p = map_alone(6, RW);

	CHECK_ERRNO(EINVAL, sys_madvise(p, PAGE, 5));
	CHECK_ERRNO(EINVAL, sys_madvise(p, PAGE, 7));
	CHECK_ERRNO(EINVAL, sys_madvise(p, PAGE, 26));
	CHECK_ERRNO(EINVAL, sys_madvise(p, PAGE, -1));
	CHECK_ERRNO(EINVAL, sys_madvise(p + 1, PAGE, MADV_NORMAL));
	CHECK_ERRNO(EINVAL, sys_madvise(p + 1, 0, MADV_NORMAL));
	CHECK_ERRNO(EINVAL, sys_madvise(p, 0, 1234));				/* unknown before length 0 */
	CHECK_ERRNO(EINVAL, sys_madvise(p, ~0ul, MADV_NORMAL));
	CHECK_ERRNO(EINVAL, sys_madvise(p, -(long)PAGE, MADV_NORMAL));
	CHECK_ERRNO(ENOMEM, sys_madvise(KERNEL_ADDRESS, PAGE, MADV_NORMAL));
	CHECK_ERRNO(ENOMEM, sys_madvise(TASK_SIZE, PAGE, MADV_WILLNEED));
	for (size_t i = 0; i < COUNT(harmless); i++) {
		CHECK(sys_madvise(p, 0, harmless[i]) == 0);
		CHECK(sys_madvise(p - PAGE, 0, harmless[i]) == 0);
		CHECK(sys_madvise(p, 6 * PAGE, harmless[i]) == 0);
		CHECK(sys_madvise(p, 1, harmless[i]) == 0);
		CHECK_ERRNO(ENOMEM, sys_madvise(p - PAGE, PAGE, harmless[i]));
		CHECK_ERRNO(ENOMEM, sys_madvise(p - PAGE, 3 * PAGE, harmless[i]));
		CHECK_ERRNO(ENOMEM, sys_madvise(p + 4 * PAGE, 3 * PAGE, harmless[i]));
	}
	sys_madvise(p, 6 * PAGE, MADV_NORMAL);

	/* holes: the rest is done all the same */
	memset(p, 'x', 6 * PAGE);
	munmap(p + 2 * PAGE, PAGE);
	CHECK_ERRNO(ENOMEM, sys_madvise(p - PAGE, 6 * PAGE, MADV_DONTNEED));
	CHECK_EQUAL(0, p[0]);
	CHECK_EQUAL(0, p[PAGE]);
	CHECK_EQUAL(0, p[4 * PAGE]);
	CHECK_EQUAL('x', p[5 * PAGE]);
	CHECK_ERRNO(ENOMEM, sys_madvise(p, 6 * PAGE, MADV_DONTFORK));
	CHECK(smaps_flag(p, "dc") && smaps_flag(p + 5 * PAGE, "dc"));
	munmap(p, 6 * PAGE);
}

/* What an advice leaves in the VMA, and that it splits and merges like mprotect. */
static void flags(void)
{
	char *p = map_alone(6, RW);
	int fd = make_memfd(2, 0);

	CHECK(sys_madvise(p + PAGE, PAGE, MADV_RANDOM) == 0);
	CHECK_EQUAL(3, count_vmas(p, 6 * PAGE));
	CHECK(smaps_flag(p + PAGE, "rr") && !smaps_flag(p, "rr"));
	CHECK(sys_madvise(p + PAGE, PAGE, MADV_SEQUENTIAL) == 0);
	CHECK(smaps_flag(p + PAGE, "sr") && !smaps_flag(p + PAGE, "rr"));
	CHECK(sys_madvise(p + PAGE, PAGE, MADV_NORMAL) == 0);
	CHECK_EQUAL(1, count_vmas(p, 6 * PAGE));
	CHECK(sys_madvise(p, PAGE, MADV_DONTDUMP) == 0);
	CHECK(smaps_flag(p, "dd"));
	CHECK(sys_madvise(p, PAGE, MADV_DODUMP) == 0);
	CHECK(!smaps_flag(p, "dd"));
	CHECK(sys_madvise(p, PAGE, MADV_WIPEONFORK) == 0);
	CHECK(smaps_flag(p, "wf"));
	CHECK(sys_madvise(p, PAGE, MADV_KEEPONFORK) == 0);
	CHECK_EQUAL(1, count_vmas(p, 6 * PAGE));
	munmap(p, 6 * PAGE);

	/* A29 */
	p = mmap(NULL, 2 * PAGE, RW, MAP_PRIVATE, fd, 0);
	CHECK_ERRNO(EINVAL, sys_madvise(p, PAGE, MADV_WIPEONFORK));
	munmap(p, 2 * PAGE);
	p = map_pages(2, RW, MAP_SHARED | MAP_ANONYMOUS);
	CHECK_ERRNO(EINVAL, sys_madvise(p, PAGE, MADV_WIPEONFORK));
	munmap(p, 2 * PAGE);
	close(fd);
}

/* A29 */
static char *fork_p;

static void child_looks(void *unused)
{
	(void)unused;
	CHECK(!is_mapped(fork_p, PAGE));
	CHECK_FAULT(SIGSEGV, SEGV_MAPERR, fork_p, access_byte((unsigned long)fork_p, READ));
	CHECK_EQUAL(0, fork_p[PAGE]);
	CHECK_EQUAL('k', fork_p[2 * PAGE]);
	CHECK(smaps_flag(fork_p + PAGE, "wf"));		/* and its own child again */
}

static void fork_advice(void)
{
	fork_p = map_alone(3, RW);
	memset(fork_p, 'k', 3 * PAGE);
	CHECK(sys_madvise(fork_p, PAGE, MADV_DONTFORK) == 0);
	CHECK(sys_madvise(fork_p + PAGE, PAGE, MADV_WIPEONFORK) == 0);
	IN_CHILD(child_looks);
	CHECK_EQUAL('k', fork_p[0]);
	CHECK_EQUAL('k', fork_p[PAGE]);
	munmap(fork_p, 3 * PAGE);
}

/* A25 */
static void dontneed(void)
{
	int fd = make_memfd(3, 0);
	char *p = map_alone(3, RW), *q;

	memset(p, 'x', 3 * PAGE);
	CHECK(sys_madvise(p + PAGE, 1, MADV_DONTNEED) == 0);
	CHECK_EQUAL(2, resident(p, 3));
	CHECK_EQUAL('x', p[0]);
	CHECK_EQUAL(0, p[PAGE]);
	CHECK(sys_mlock(p, PAGE) == 0);
	CHECK_ERRNO(EINVAL, sys_madvise(p, 3 * PAGE, MADV_DONTNEED));
	CHECK_EQUAL('x', p[0]);
	CHECK_EQUAL('x', p[2 * PAGE]);				/* the locked one came first: nothing behind it was done */
	CHECK(sys_madvise(p, 3 * PAGE, MADV_DONTNEED_LOCKED) == 0);
	CHECK_EQUAL(0, p[0]);
	CHECK(sys_munlock(p, PAGE) == 0);
	CHECK(mprotect(p, PAGE, PROT_NONE) == 0);		/* rights do not matter */
	CHECK(sys_madvise(p, PAGE, MADV_DONTNEED) == 0);
	munmap(p, 3 * PAGE);

	/* file memory comes from the file again; private changes are lost, shared ones are in the file */
	p = mmap(NULL, 3 * PAGE, RW, MAP_SHARED, fd, 0);
	q = mmap(NULL, 3 * PAGE, RW, MAP_PRIVATE, fd, 0);
	memset(p, 'f', 3 * PAGE);
	q[0] = 'q';
	CHECK(sys_madvise(p, 3 * PAGE, MADV_DONTNEED) == 0);
	CHECK_EQUAL('f', p[0]);
	CHECK_EQUAL('q', q[0]);
	CHECK(sys_madvise(q, 3 * PAGE, MADV_DONTNEED) == 0);
	CHECK_EQUAL('f', q[0]);
	munmap(p, 3 * PAGE);
	munmap(q, 3 * PAGE);
	close(fd);
}

/* A27 */
static void lazy_free(void)
{
	int fd = make_memfd(1, 0);
	char *p = map_alone(2, RW), *q = mmap(NULL, PAGE, RW, MAP_PRIVATE, fd, 0), *s = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);

	memset(p, 'x', 2 * PAGE);
	CHECK(sys_madvise(p, PAGE, MADV_FREE) == 0);
	CHECK(p[0] == 0 || p[0] == 'x');
	p[0] = 'y';						/* written again: it stays */
	CHECK_EQUAL('y', p[0]);
	CHECK_EQUAL('x', p[PAGE]);
	CHECK_ERRNO(EINVAL, sys_madvise(q, PAGE, MADV_FREE));
	CHECK_ERRNO(EINVAL, sys_madvise(s, PAGE, MADV_FREE));
	CHECK(sys_mlock(p, PAGE) == 0);
	CHECK_ERRNO(EINVAL, sys_madvise(p, PAGE, MADV_FREE));
	munmap(p, 2 * PAGE);
	munmap(q, PAGE);
	munmap(s, PAGE);
	close(fd);
}

/* A28 */
static void remove_pages(void)
{
	int fd = make_memfd(4, 0), ro;
	char *p = map_alone(1, RW), *s = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, fd, 0), *q = mmap(NULL, 4 * PAGE, RW, MAP_PRIVATE, fd, 0), *r;
	char path[64];
	struct stat st;

	CHECK_ERRNO(EINVAL, sys_madvise(p, PAGE, MADV_REMOVE));
	CHECK_ERRNO(EACCES, sys_madvise(q, PAGE, MADV_REMOVE));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	MUST((ro = open(path, O_RDONLY)) >= 0);
	r = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ro, 0);
	CHECK_ERRNO(EACCES, sys_madvise(r, PAGE, MADV_REMOVE));

	int zero = open("/dev/zero", O_RDWR);
	char *z = mmap(NULL, PAGE, RW, MAP_PRIVATE, zero, 0);

	MUST(z != MAP_FAILED);
	CHECK_ERRNO(EACCES, sys_madvise(z, PAGE, MADV_REMOVE));	/* anonymous, and yet it has a file */
	MUST(munmap(z, PAGE) == 0);
	close(zero);
	munmap(r, PAGE);

	memset(s, 's', 4 * PAGE);
	CHECK_EQUAL('s', q[PAGE]);				/* maps the file's page */
	CHECK(fstat(fd, &st) == 0);
	CHECK_EQUAL(32, st.st_blocks);
	CHECK(sys_madvise(s + PAGE, 2 * PAGE, MADV_REMOVE) == 0);
	CHECK_EQUAL('s', s[0]);
	CHECK_EQUAL(0, s[PAGE]);
	CHECK_EQUAL(0, q[PAGE]);				/* every mapping of it sees the hole */
	CHECK_EQUAL('s', s[3 * PAGE]);
	CHECK(fstat(fd, &st) == 0);
	CHECK_EQUAL(4 * PAGE, st.st_size);
	CHECK(sys_mlock(s, PAGE) == 0);
	CHECK_ERRNO(EINVAL, sys_madvise(s, PAGE, MADV_REMOVE));
	sys_munlock(s, PAGE);
	CHECK(mprotect(s, PAGE, PROT_READ) == 0);		/* writable is what the file is, not what the VMA is now */
	int err = sys_madvise(s, PAGE, MADV_REMOVE) ? errno : 0;
	CHECK(err == 0 || err == EACCES);
	munmap(s, 4 * PAGE);
	munmap(q, 4 * PAGE);
	close(ro);
	close(fd);

	s = map_pages(2, RW, MAP_SHARED | MAP_ANONYMOUS);	/* A4 */
	memset(s, 's', 2 * PAGE);
	CHECK(sys_madvise(s, PAGE, MADV_REMOVE) == 0);
	CHECK_EQUAL(0, s[0]);
	CHECK_EQUAL('s', s[PAGE]);
	munmap(s, 2 * PAGE);
	munmap(p, PAGE);
}

/* A30 */
static void populate(void)
{
	int fd = make_memfd(2, 0);
	char *p = map_alone(6, RW);

	CHECK(sys_madvise(p, 2 * PAGE, MADV_POPULATE_WRITE) == 0);
	CHECK_EQUAL(2, resident(p, 6));
	CHECK_EQUAL(8, smaps_kb(p, "Rss"));
	CHECK(sys_madvise(p + 2 * PAGE, 2 * PAGE, MADV_POPULATE_READ) == 0);
	CHECK_EQUAL(4, resident(p, 6));
	CHECK_EQUAL(8, smaps_kb(p, "Rss"));			/* B14: two pages of zeros are not counted */
	CHECK(sys_madvise(p, 6 * PAGE, MADV_POPULATE_WRITE) == 0);
	CHECK_EQUAL(24, smaps_kb(p, "Rss"));
	CHECK(sys_madvise(p, 0, MADV_POPULATE_READ) == 0);
	CHECK(sys_madvise(p - PAGE, 0, MADV_POPULATE_WRITE) == 0);
	munmap(p, 6 * PAGE);

	p = map_alone(6, RW);
	CHECK(mprotect(p + 2 * PAGE, PAGE, PROT_READ) == 0);
	CHECK_ERRNO(EINVAL, sys_madvise(p, 6 * PAGE, MADV_POPULATE_WRITE));
	CHECK_EQUAL(2, resident(p, 6));				/* up to where the right is missing */
	CHECK(sys_madvise(p + 2 * PAGE, PAGE, MADV_POPULATE_READ) == 0);
	CHECK(mprotect(p + 2 * PAGE, PAGE, PROT_NONE) == 0);
	CHECK_ERRNO(EINVAL, sys_madvise(p, 6 * PAGE, MADV_POPULATE_READ));
	munmap(p + 4 * PAGE, PAGE);
	CHECK_ERRNO(ENOMEM, sys_madvise(p + 3 * PAGE, 3 * PAGE, MADV_POPULATE_READ));
	CHECK_EQUAL(1, resident(p + 3 * PAGE, 1));
	CHECK_EQUAL(0, resident(p + 5 * PAGE, 1));
	CHECK_ERRNO(ENOMEM, sys_madvise(p - PAGE, PAGE, MADV_POPULATE_READ));
	CHECK_ERRNO(ENOMEM, sys_madvise(KERNEL_ADDRESS, PAGE, MADV_POPULATE_READ));
	munmap(p, 6 * PAGE);

	p = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, fd, 0);	/* two pages are past the end: SIGBUS, were it an access */
	CHECK(sys_madvise(p, 2 * PAGE, MADV_POPULATE_WRITE) == 0);
	CHECK_ERRNO(EFAULT, sys_madvise(p, 4 * PAGE, MADV_POPULATE_READ));
	CHECK_ERRNO(EFAULT, sys_madvise(p + 2 * PAGE, PAGE, MADV_POPULATE_WRITE));
	munmap(p, 4 * PAGE);
	close(fd);
}

/* The advice about reclaim changes nothing that a program can see, locked memory apart. */
static void reclaim_advice(void)
{
	char *p = map_alone(2, RW);

	memset(p, 'x', 2 * PAGE);
	CHECK(sys_madvise(p, 2 * PAGE, MADV_COLD) == 0);
	CHECK(sys_madvise(p, 2 * PAGE, MADV_PAGEOUT) == 0);
	CHECK_EQUAL('x', p[0]);
	CHECK(sys_mlock(p, PAGE) == 0);
	CHECK_ERRNO(EINVAL, sys_madvise(p, 2 * PAGE, MADV_COLD));
	CHECK_ERRNO(EINVAL, sys_madvise(p, 2 * PAGE, MADV_PAGEOUT));
	CHECK(sys_madvise(p, 2 * PAGE, MADV_WILLNEED) == 0);
	munmap(p, 2 * PAGE);
}

int main(void)
{
	catch_faults();
	arguments();
	flags();
	fork_advice();
	dontneed();
	lazy_free();
	remove_pages();
	populate();
	reclaim_advice();
	test_end();
}
