/*
 * mmap: what it refuses, in which order, and what it leaves alone when it does. Rules A1, A2, A4..A12.
 */
#include "mm_test.h"

#include <sys/mount.h>

static int fd;		/* a memfd of four pages */

/* A5, A6: offset and descriptor before everything, then the length */
static void offset_descriptor_length(void)
{
	CHECK_ERRNO(EINVAL, sys_mmap(0, 0, RW, 0, -1, 1));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, ANON, -1, 0x800));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, MAP_PRIVATE, -1, 1));
	CHECK_ERRNO(EBADF, sys_mmap(0, 0, RW, MAP_PRIVATE, -1, 0));
	CHECK_ERRNO(EBADF, sys_mmap(1, PAGE, RW, MAP_FIXED, 12345, 0));
	CHECK_ERRNO(EBADF, sys_mmap(0, PAGE, RW, MAP_PRIVATE | MAP_HUGETLB, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, 2ul << 20, RW, MAP_PRIVATE | MAP_HUGETLB, fd, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, 2ul << 20, RW, ANON | MAP_HUGETLB | 24 << 26, -1, 0));

	CHECK_ERRNO(EINVAL, sys_mmap(0, 0, RW, ANON, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(KERNEL_ADDRESS, 0, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, ~0ul, RW, ANON, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, ~0ul, RW, 0, fd, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 1ul << 47, RW, ANON, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, TASK_SIZE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 1ul << 47, RW, MAP_ANONYMOUS, -1, 0));		/* before the type */
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 1ul << 63, RW, MAP_SHARED, fd, 0));
	CHECK_ERRNO(EOVERFLOW, sys_mmap(0, 2 * PAGE, RW, MAP_SHARED, fd, 0x7ffffffffffff000));
	CHECK_ERRNO(EOVERFLOW, sys_mmap(0, PAGE, RW, MAP_SHARED, fd, 0xfffffffffffff000));
	CHECK_ERRNO(EOVERFLOW, sys_mmap(0, PAGE, RW, 0, fd, 0xfffffffffffff000));	/* before the type */
	CHECK(sys_mmap(0, 2 * PAGE, RW, ANON, -1, 0xfffffffffffff000) > 0);		/* nobody looks at it */

	char *p = map_alone(2, RW);	/* a length of one byte is a page */
	CHECK(sys_mmap(p, 1, RW, ANON | MAP_FIXED, -1, 0) == (long)p);
	p[PAGE - 1] = 1;
	CHECK(is_mapped(p, 2 * PAGE));
	munmap(p, 2 * PAGE);
}

static void without_privilege(void *unused)
{
	(void)unused;
	become_nobody();
	CHECK_ERRNO(EPERM, sys_mmap(PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(EPERM, sys_mmap(0, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(EPERM, sys_mmap(PAGE, PAGE, RW, MAP_ANONYMOUS | MAP_FIXED, -1, 0));	/* before the type */
	CHECK_ERRNO(EINVAL, sys_mmap(1, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK(sys_mmap(65536, PAGE, RW, ANON | MAP_FIXED, -1, 0) == 65536);
}

/* A7 */
static void addresses(void)
{
	char *p = map_alone(4, RW), *q;
	struct vma_line v;

	CHECK_ERRNO(EINVAL, sys_mmap(p + 1, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(p + 1, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(TASK_SIZE, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(TASK_SIZE - PAGE, 2 * PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(TASK_SIZE + 1, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(KERNEL_ADDRESS, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(~0ul & ~(PAGE - 1), PAGE, RW, MAP_SHARED | MAP_FIXED, fd, 0));
	CHECK_EQUAL(PAGE, sys_mmap(PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0));		/* root may */
	munmap((void *)PAGE, PAGE);
	IN_CHILD(without_privilege);

	/* hints */
	munmap(p, 4 * PAGE);
	CHECK_EQUAL((long)p, sys_mmap(p, PAGE, RW, ANON, -1, 0));
	CHECK_EQUAL((long)p + 2 * PAGE, sys_mmap(p + 2 * PAGE + 5, PAGE, RW, ANON, -1, 0));
	q = (char *)sys_mmap(p, PAGE, RW, ANON, -1, 0);
	CHECK(q != p && (long)q > 0);
	CHECK(sys_mmap(KERNEL_ADDRESS, PAGE, RW, ANON, -1, 0) > 0);
	CHECK(sys_mmap(~0ul, PAGE, RW, ANON, -1, 0) > 0);
	CHECK(sys_mmap(TASK_SIZE - PAGE + 1, 2 * PAGE, RW, ANON, -1, 0) > 0);
	CHECK(!vma_at((void *)65536, &v));
	q = (char *)sys_mmap(2 * PAGE, PAGE, RW, ANON, -1, 0);		/* below the lowest address: as if it were that */
	CHECK_EQUAL(65536, q);
	munmap((void *)65536, PAGE);

	/* FIXED_NOREPLACE */
	p = map_alone(4, RW);
	p[0] = 1;
	CHECK_ERRNO(EEXIST, sys_mmap(p, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	CHECK_ERRNO(EEXIST, sys_mmap(p - PAGE, 2 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	CHECK_ERRNO(EEXIST, sys_mmap(p + 3 * PAGE, 2 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	CHECK_ERRNO(EEXIST, sys_mmap(p, PAGE, RW, MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));	/* before the type */
	CHECK_EQUAL(1, p[0]);
	CHECK(is_mapped(p, 4 * PAGE) && !is_mapped(p - PAGE, PAGE) && !is_mapped(p + 4 * PAGE, PAGE));
	munmap(p + PAGE, 2 * PAGE);
	CHECK_EQUAL((long)p + PAGE, sys_mmap(p + PAGE, 2 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	munmap(p, 4 * PAGE);

	q = (char *)sys_mmap(0, PAGE, RW, ANON | MAP_32BIT, -1, 0);
	CHECK((unsigned long)q >= 0x40000000 && (unsigned long)q < 0x80000000);
	munmap(q, PAGE);
}

/* A8: FIXED replaces every part in its range, however many VMAs and holes; a call that fails replaces nothing. */
static void fixed_replaces(void)
{
	char *p = map_alone(12, RW);

	for (int i = 0; i < 12; i++)
		p[i * PAGE] = (char)('a' + i);
	CHECK(mprotect(p + 2 * PAGE, PAGE, PROT_READ) == 0);
	CHECK(munmap(p + 4 * PAGE, PAGE) == 0);
	CHECK(mmap(p + 6 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == p + 6 * PAGE);
	CHECK_EQUAL(6, count_vmas(p, 12 * PAGE));

	CHECK_ERRNO(EINVAL, sys_mmap(p, 12 * PAGE, RW, MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(p, 12 * PAGE, RW, ANON | MAP_FIXED | MAP_GROWSDOWN | MAP_SHARED, -1, 0));
	int ro = open("/proc/self/exe", O_RDONLY);
	CHECK_ERRNO(EACCES, sys_mmap(p, 12 * PAGE, RW, MAP_SHARED | MAP_FIXED, ro, 0));
	int dir = open("/", O_RDONLY);
	CHECK_ERRNO(ENODEV, sys_mmap(p, 12 * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, dir, 0));
	close(ro);
	close(dir);
	CHECK_EQUAL(6, count_vmas(p, 12 * PAGE));
	CHECK_EQUAL('a', p[0]);
	CHECK_EQUAL('l', p[11 * PAGE]);

	CHECK_EQUAL((long)p + PAGE, sys_mmap(p + PAGE, 10 * PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK(is_mapped(p, 12 * PAGE));
	for (int i = 0; i < 12; i++)
		CHECK_EQUAL(i == 0 ? 'a' : i == 11 ? 'l' : 0, p[i * PAGE]);
	p[6 * PAGE] = 1;
	munmap(p, 12 * PAGE);
}

/* A9 */
static void locked_without_privilege(void *unused)
{
	(void)unused;
	set_limit(RLIMIT_MEMLOCK, 8 * PAGE);
	become_nobody();
	CHECK_ERRNO(EAGAIN, sys_mmap(0, 9 * PAGE, RW, ANON | MAP_LOCKED, -1, 0));
	CHECK_ERRNO(EAGAIN, sys_mmap(0, 9 * PAGE, RW, MAP_ANONYMOUS | MAP_LOCKED, -1, 0));	/* before the type */
	long p = sys_mmap(0, 8 * PAGE, RW, ANON | MAP_LOCKED, -1, 0);
	CHECK(p > 0);
	CHECK_EQUAL(8, resident((void *)p, 8));
	CHECK_ERRNO(EAGAIN, sys_mmap(0, PAGE, RW, ANON | MAP_LOCKED, -1, 0));
	CHECK(sys_munmap(p, PAGE) == 0);
	p = sys_mmap(0, PAGE, RW, ANON | MAP_LOCKED, -1, 0);
	CHECK(p > 0);
	struct rlimit none = { 0, 8 * PAGE };
	MUST(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
	CHECK_ERRNO(EPERM, sys_mmap(0, PAGE, RW, ANON | MAP_LOCKED, -1, 0));
	CHECK_ERRNO(EPERM, sys_mmap(0, PAGE, RW, MAP_ANONYMOUS | MAP_LOCKED, -1, 0));
}

/* A10 */
static void types(void)
{
	for (int type = 4; type < 16; type++)
		if (type != MAP_DROPPABLE)
			CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, MAP_ANONYMOUS | type, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, MAP_ANONYMOUS, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, 0, fd, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, 4, fd, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, MAP_DROPPABLE, fd, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0));
	CHECK_ERRNO(EOPNOTSUPP, sys_mmap(0, PAGE, RW, MAP_SHARED_VALIDATE | 0x800000, fd, 0));
	CHECK_ERRNO(EOPNOTSUPP, sys_mmap(0, PAGE, RW, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0));
	CHECK(sys_mmap(0, PAGE, RW, MAP_SHARED_VALIDATE, fd, 0) > 0);
	CHECK(sys_mmap(0, PAGE, RW, MAP_SHARED_VALIDATE | MAP_NORESERVE | MAP_STACK | MAP_LOCKED | MAP_DENYWRITE, fd, 0) > 0);
	CHECK(sys_mmap(0, PAGE, RW, MAP_SHARED | 0x800000, fd, 0) > 0);
	CHECK(sys_mmap(0, PAGE, RW, MAP_PRIVATE | 0x800000, fd, 0) > 0);
	CHECK(sys_mmap(0, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | 0x800000, -1, 0) > 0);
	CHECK(sys_mmap(0, PAGE, RW, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0) > 0);
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, MAP_DROPPABLE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, MAP_DROPPABLE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, MAP_SHARED | MAP_GROWSDOWN, fd, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, RW, MAP_PRIVATE | MAP_GROWSDOWN, fd, 0));
	CHECK(sys_mmap(0, PAGE, RW, ANON | MAP_GROWSDOWN, -1, 0) > 0);
	CHECK(sys_mmap(0, PAGE, 0x80 | PROT_READ, ANON, -1, 0) > 0);		/* unknown rights are ignored */
}

/* A11, A1 */
static void rights_of_the_descriptor(void)
{
	int ro, wo, dir, ends[2], sealed;
	char *p;

	MUST(mkdir("/tmp/mmap", 0755) == 0 || errno == EEXIST);
	MUST(mount("none", "/tmp/mmap", "tmpfs", MS_NOEXEC, NULL) == 0);
	MUST((wo = open("/tmp/mmap/file", O_CREAT | O_WRONLY, 0644)) >= 0 && ftruncate(wo, 2 * PAGE) == 0);
	MUST((ro = open("/tmp/mmap/file", O_RDONLY)) >= 0 && (dir = open("/tmp/mmap", O_RDONLY)) >= 0 && pipe(ends) == 0);

	CHECK_ERRNO(EACCES, sys_mmap(0, PAGE, PROT_READ, MAP_SHARED, wo, 0));
	CHECK_ERRNO(EACCES, sys_mmap(0, PAGE, PROT_WRITE, MAP_SHARED, wo, 0));
	CHECK_ERRNO(EACCES, sys_mmap(0, PAGE, PROT_NONE, MAP_PRIVATE, wo, 0));
	CHECK_ERRNO(EINVAL, sys_mmap(0, PAGE, PROT_NONE, 0, wo, 0));		/* the type first */
	CHECK_ERRNO(EACCES, sys_mmap(0, PAGE, RW, MAP_SHARED, ro, 0));
	CHECK(sys_mmap(0, PAGE, RW, MAP_PRIVATE, ro, 0) > 0);
	CHECK_ERRNO(ENODEV, sys_mmap(0, PAGE, PROT_READ, MAP_SHARED, dir, 0));
	CHECK_ERRNO(ENODEV, sys_mmap(0, PAGE, PROT_READ, MAP_PRIVATE, dir, 0));
	CHECK_ERRNO(EACCES, sys_mmap(0, PAGE, RW, MAP_SHARED, dir, 0));
	CHECK_ERRNO(ENODEV, sys_mmap(0, PAGE, PROT_READ, MAP_SHARED, ends[0], 0));
	CHECK_ERRNO(EACCES, sys_mmap(0, PAGE, PROT_READ, MAP_SHARED, ends[1], 0));
	int path = open("/tmp/mmap/file", O_PATH);
	CHECK_ERRNO(EBADF, sys_mmap(0, PAGE, PROT_READ, MAP_SHARED, path, 0));
	CHECK_ERRNO(EPERM, sys_mmap(0, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, ro, 0));
	CHECK_ERRNO(EPERM, sys_mmap(0, PAGE, PROT_EXEC, MAP_SHARED, ro, 0));

	/* A1: the bound for later mprotect calls */
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ro, 0);
	CHECK_ERRNO(EACCES, sys_mprotect(p, PAGE, RW));
	CHECK_ERRNO(EACCES, sys_mprotect(p, PAGE, PROT_READ | PROT_EXEC));
	CHECK(smaps_flag(p, "ms") && smaps_flag(p, "mr") && !smaps_flag(p, "sh") && !smaps_flag(p, "mw") && !smaps_flag(p, "me"));
	munmap(p, PAGE);
	p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, ro, 0);
	CHECK(sys_mprotect(p, PAGE, RW) == 0);
	p[0] = 1;
	munmap(p, PAGE);
	p = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);
	CHECK(smaps_flag(p, "ms") && smaps_flag(p, "sh") && smaps_flag(p, "mw"));
	munmap(p, PAGE);

	/* seals */
	sealed = make_memfd(1, 2 /* MFD_ALLOW_SEALING */);
	MUST(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE) == 0);
	CHECK_ERRNO(EPERM, sys_mmap(0, PAGE, RW, MAP_SHARED, sealed, 0));
	CHECK(sys_mmap(0, PAGE, RW, MAP_PRIVATE, sealed, 0) > 0);
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, sealed, 0);
	CHECK(p != MAP_FAILED);
	CHECK_ERRNO(EACCES, sys_mprotect(p, PAGE, RW));
	munmap(p, PAGE);
	close(sealed);
	sealed = make_memfd(1, 2);
	MUST(fcntl(sealed, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
	CHECK_ERRNO(EPERM, sys_mmap(0, PAGE, RW, MAP_SHARED, sealed, 0));
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, sealed, 0);
	CHECK_ERRNO(EACCES, sys_mprotect(p, PAGE, RW));
	munmap(p, PAGE);
	close(sealed);

	close(ro);
	close(wo);
	close(dir);
	close(path);
	umount2("/tmp/mmap", MNT_DETACH);
}

/* A12 */
static void prefault(void)
{
	char *p = map_pages(8, RW, ANON | MAP_POPULATE);

	CHECK_EQUAL(8, resident(p, 8));
	munmap(p, 8 * PAGE);
	p = map_pages(8, RW, ANON | MAP_POPULATE | MAP_NONBLOCK);
	CHECK_EQUAL(0, resident(p, 8));
	munmap(p, 8 * PAGE);
	p = map_pages(8, RW, ANON | MAP_LOCKED);
	CHECK_EQUAL(8, resident(p, 8));
	munmap(p, 8 * PAGE);
	p = map_pages(8, PROT_NONE, ANON | MAP_POPULATE);		/* cannot be had, and nobody says so */
	CHECK_EQUAL(0, resident(p, 8));
	munmap(p, 8 * PAGE);
	p = mmap(NULL, 8 * PAGE, RW, MAP_SHARED | MAP_POPULATE, fd, 2 * PAGE);	/* two of them are past the end */
	CHECK(p != MAP_FAILED);
	CHECK_EQUAL(2, resident(p, 8));
	munmap(p, 8 * PAGE);
}

/*
 * A2: neighbours that are alike become one, and only those. Read-only ones: when writable ones merge also depends on which pages
 * were written to, and in which order.
 */
static void neighbours_merge(void)
{
	char *p = map_alone(6, PROT_READ);
	struct vma_line v;

	munmap(p, 6 * PAGE);
	for (int i = 0; i < 6; i += 2)
		CHECK(sys_mmap(p + i * PAGE, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0) == (long)p + i * (long)PAGE);
	CHECK_EQUAL(3, count_vmas(p, 6 * PAGE));
	CHECK(sys_mmap(p + PAGE, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0) > 0);
	CHECK_EQUAL(2, count_vmas(p, 6 * PAGE));
	CHECK(sys_mmap(p + 3 * PAGE, PAGE, PROT_NONE, ANON | MAP_FIXED, -1, 0) > 0);
	CHECK_EQUAL(3, count_vmas(p, 6 * PAGE));
	CHECK(mprotect(p + 3 * PAGE, PAGE, PROT_READ) == 0);
	CHECK_EQUAL(1, count_vmas(p, 6 * PAGE));
	CHECK(mprotect(p + 2 * PAGE, 2 * PAGE, RW) == 0);		/* A3 */
	CHECK_EQUAL(3, count_vmas(p, 6 * PAGE));
	CHECK(vma_at(p + 2 * PAGE, &v) && v.start == (unsigned long)p + 2 * PAGE && v.end == v.start + 2 * PAGE);
	munmap(p, 6 * PAGE);

	/* files: only where one goes on where the other ends */
	CHECK(mmap(p, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == p);
	CHECK(mmap(p + PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, PAGE) == p + PAGE);
	CHECK_EQUAL(1, count_vmas(p, 6 * PAGE));
	CHECK(mmap(p + 2 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, PAGE) == p + 2 * PAGE);
	CHECK_EQUAL(2, count_vmas(p, 6 * PAGE));
	CHECK(mmap(p + 3 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 2 * PAGE) == p + 3 * PAGE);
	CHECK_EQUAL(3, count_vmas(p, 6 * PAGE));
	munmap(p, 6 * PAGE);
}

/* A4 */
static char *common;

static void write_common(void *unused)
{
	(void)unused;
	common[PAGE] = 'c';
}

static void shared_anonymous_is_a_file(void)
{
	struct vma_line v;

	common = map_pages(2, RW, MAP_SHARED | MAP_ANONYMOUS);
	CHECK_EQUAL(0, common[0]);
	IN_CHILD(write_common);
	CHECK_EQUAL('c', common[PAGE]);
	CHECK(vma_at(common, &v));
	CHECK(strcmp(v.name, "/dev/zero (deleted)") == 0);
	CHECK(strcmp(v.rights, "rw-s") == 0);
	CHECK(v.inode != 0);
	munmap(common, 2 * PAGE);
}

int main(void)
{
	fd = make_memfd(4, 0);
	offset_descriptor_length();
	addresses();
	fixed_replaces();
	IN_CHILD(locked_without_privilege);
	types();
	rights_of_the_descriptor();
	prefault();
	neighbours_merge();
	shared_anonymous_is_a_file();
	test_end();
}
