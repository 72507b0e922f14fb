/*
 * Rule D10: the counters of a private and of a shared mapping, step by step, and who pays for a fault in a private mapping of a
 * file (D11, D26).
 */
#include "hugetlb_test.h"

static void private_mapping(void)
{
	char *p = map_huge(4, RW, HUGE_ANON);

	CHECK_POOL(10, 4);
	p[0] = 1;
	CHECK_POOL(9, 3);
	CHECK_EQUAL(0, madvise(p, HUGE, MADV_DONTNEED));
	CHECK_POOL(10, 4);
	CHECK_EQUAL(0, p[0]);
	CHECK_POOL(9, 3);
	unmap_huge(p, 4);
	CHECK_POOL(10, 0);
}

static void shared_mapping(void)
{
	int fd = huge_memfd(0);
	char *p = map_fd(fd, 4, RW, MAP_SHARED, 0), *q;

	CHECK_POOL(10, 4);
	q = map_fd(fd, 4, RW, MAP_SHARED, 0);
	CHECK_POOL(10, 4);
	p[0] = 1;
	CHECK_POOL(9, 3);
	CHECK_EQUAL(1, q[0]);
	CHECK_POOL(9, 3);
	CHECK_EQUAL(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)HUGE));
	CHECK_POOL(10, 3);
	CHECK_EQUAL(0, q[0]);			/* again, and without a promise this time */
	CHECK_POOL(9, 3);
	CHECK_EQUAL(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)HUGE));
	unmap_huge(p, 4);
	unmap_huge(q, 4);
	CHECK_POOL(10, 3);
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_POOL(10, 0);
	close(fd);
	CHECK_POOL(10, 0);
}

static void private_mapping_of_a_file(void)
{
	int fd = huge_memfd(0);
	char *s = map_fd(fd, 2, RW, MAP_SHARED, 0), *p;
	struct stat st;

	s[0] = 'f';
	CHECK_POOL(9, 1);
	p = map_fd(fd, 2, RW, MAP_PRIVATE, 0);
	CHECK_POOL(9, 3);
	CHECK_EQUAL('f', p[0]);			/* the file's page, read-only */
	CHECK_POOL(9, 3);
	p[0] = 'p';				/* a copy, promised to this mapping */
	CHECK_POOL(8, 2);
	CHECK_EQUAL('f', s[0]);
	CHECK_EQUAL(0, p[HUGE]);		/* absent: a page of the mapping's own, and the file gets none */
	CHECK_POOL(7, 1);
	p[HUGE] = 'q';
	CHECK_EQUAL(0, fstat(fd, &st));
	CHECK_EQUAL(HUGE / 512, st.st_blocks);
	CHECK_EQUAL(0, s[HUGE]);
	CHECK_POOL(6, 0);
	unmap_huge(p, 2);
	CHECK_POOL(8, 0);
	unmap_huge(s, 2);
	close(fd);
	CHECK_POOL(10, 0);
}

int main(void)
{
	pool_begin(10);
	private_mapping();
	shared_mapping();
	private_mapping_of_a_file();
	pool_end(10);
}
