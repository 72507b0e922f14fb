/*
 * Rules D5, D7, D8, D20: a file promises each of its pages at most once, whoever maps it, however the ranges overlap; promises
 * outlive munmap and go with truncate or with the file.
 */
#include "hugetlb_test.h"

static void union_of_ranges(void)
{
	int fd = huge_memfd(0);
	char *a = map_fd(fd, 3, RW, MAP_SHARED, 0), *b, *c;

	CHECK_POOL(10, 3);
	b = map_fd(fd, 4, RW, MAP_SHARED, 2);		/* 2 to 5: three more */
	CHECK_POOL(10, 6);
	c = map_fd(fd, 8, PROT_READ, MAP_SHARED, 0);	/* 0 to 7: two more, reading or not */
	CHECK_POOL(10, 8);
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 11 * HUGE, RW, MAP_SHARED, fd, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 3 * HUGE, RW, MAP_SHARED, fd, 8 * HUGE));
	CHECK_POOL(10, 8);
	a[2 * HUGE] = 'x';
	CHECK_POOL(9, 7);
	CHECK_EQUAL('x', b[0]);
	unmap_huge(a, 3);
	unmap_huge(b, 4);
	unmap_huge(c, 8);
	CHECK_POOL(9, 7);
	CHECK_EQUAL(0, ftruncate(fd, 4 * (off_t)HUGE));
	CHECK_POOL(9, 3);
	CHECK_EQUAL(0, ftruncate(fd, 2 * (off_t)HUGE));
	CHECK_POOL(10, 2);
	close(fd);
	CHECK_POOL(10, 0);
}

/* D20: what was cut off and grown again is a hole, without a promise, also where it is still mapped. */
static void regrown_part_has_no_promise(void)
{
	int fd = huge_memfd(0);
	char *p = map_fd(fd, 4, RW, MAP_SHARED, 0), *all;

	memset(p, 1, 4 * HUGE);
	CHECK_POOL(6, 0);
	CHECK_EQUAL(0, ftruncate(fd, (off_t)HUGE));
	CHECK_POOL(9, 0);
	CHECK_FAULT(SIGBUS, 2, p + HUGE, access_byte((unsigned long)p + HUGE, READ));
	CHECK_EQUAL(0, ftruncate(fd, 4 * (off_t)HUGE));
	CHECK_POOL(9, 0);
	all = map_huge(9, RW, HUGE_ANON);
	CHECK_FAULT(SIGBUS, 2, p + HUGE, access_byte((unsigned long)p + HUGE, READ));
	unmap_huge(all, 9);
	CHECK_EQUAL(0, p[HUGE]);
	CHECK_POOL(8, 0);
	unmap_huge(p, 4);
	close(fd);
}

/* D7: unreserved by one mapping, promised by another afterwards: only what is absent. */
static void noreserve_and_reserve(void)
{
	int fd = huge_memfd(0);
	char *p, *q;

	CHECK_EQUAL(0, ftruncate(fd, 4 * (off_t)HUGE));
	p = map_fd(fd, 4, RW, MAP_SHARED | MAP_NORESERVE, 0);
	CHECK_POOL(10, 0);
	p[0] = p[2 * HUGE] = 1;
	CHECK_POOL(8, 0);
	q = map_fd(fd, 4, RW, MAP_SHARED, 0);
	CHECK_POOL(8, 2);
	p[HUGE] = 1;					/* the unreserving mapping may use the file's promise */
	CHECK_POOL(7, 1);
	unmap_huge(p, 4);
	unmap_huge(q, 4);
	close(fd);
	CHECK_POOL(10, 0);
}

static void unlinked_while_mapped(void)
{
	char path[] = "/tmp/.huge/f", *p;
	int fd;

	MUST(mount_huge("/tmp/.huge", NULL) == 0);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	MUST(fd >= 0);
	p = map_fd(fd, 3, RW, MAP_SHARED, 0);
	close(fd);
	p[0] = 'u';
	CHECK_EQUAL(0, unlink(path));
	CHECK_POOL(9, 2);
	CHECK_EQUAL('u', p[0]);
	p[HUGE] = 1;
	CHECK_POOL(8, 1);
	CHECK_ERRNO(EBUSY, umount("/tmp/.huge"));
	unmap_huge(p, 3);
	CHECK_POOL(10, 0);

	/* And one that stays: its pages and promises are the file's. */
	fd = open(path, O_CREAT | O_RDWR, 0600);
	p = map_fd(fd, 2, RW, MAP_SHARED, 0);
	p[0] = 's';
	unmap_huge(p, 2);
	close(fd);
	CHECK_POOL(9, 1);
	fd = open(path, O_RDONLY);
	p = map_fd(fd, 2, PROT_READ, MAP_SHARED, 0);
	CHECK_EQUAL('s', p[0]);
	CHECK_POOL(9, 1);
	unmap_huge(p, 2);
	close(fd);
	fd = open(path, O_RDWR | O_TRUNC);
	CHECK_POOL(10, 0);
	close(fd);
	CHECK_EQUAL(0, unlink(path));
	CHECK_EQUAL(0, umount("/tmp/.huge"));
}

static void child_of_shared(void *arg)
{
	char *p = arg;

	CHECK_EQUAL('p', p[0]);
	p[HUGE] = 'c';
	if (test_failures)
		_exit(1);
}

static void fork_shares(void)
{
	char *p = map_huge(3, RW, HUGE_SHARED);

	p[0] = 'p';
	CHECK_EQUAL(0, in_child(child_of_shared, p));
	CHECK_EQUAL('c', p[HUGE]);
	CHECK_POOL(8, 1);
	CHECK_EQUAL(0, madvise(p, HUGE, MADV_DONTNEED));	/* the file keeps its page */
	CHECK_POOL(8, 1);
	CHECK_EQUAL('p', p[0]);
	CHECK_EQUAL(0, madvise(p, HUGE, MADV_REMOVE));
	CHECK_POOL(9, 1);
	CHECK_EQUAL(0, p[0]);
	unmap_huge(p, 3);
	CHECK_POOL(10, 0);
}

/* D13: writable mappings extend the file, others do not. */
static void size_follows_writers(void)
{
	int fd = huge_memfd(0);
	struct stat st;
	char *p = map_fd(fd, 2, PROT_READ, MAP_SHARED, 0), *q;

	MUST(fstat(fd, &st) == 0);
	CHECK_EQUAL(0, st.st_size);
	CHECK_FAULT(SIGBUS, 2, p, access_byte((unsigned long)p, READ));
	q = map_fd(fd, 1, RW, MAP_PRIVATE, 2);
	MUST(fstat(fd, &st) == 0);
	CHECK_EQUAL(3 * HUGE, st.st_size);
	CHECK_EQUAL(0, p[0]);
	unmap_huge(p, 2);
	unmap_huge(q, 1);
	close(fd);
	CHECK_POOL(10, 0);
}

int main(void)
{
	catch_faults();
	pool_begin(10);
	union_of_ranges();
	regrown_part_has_no_promise();
	noreserve_and_reserve();
	unlinked_while_mapped();
	fork_shares();
	size_follows_writers();
	pool_end(10);
}
