/*
 * userfaultfd on pages of 1 GiB: a message is for the whole page, an operation too, and the smallest edge is a GiB.
 *
 * mem: 5G
 * append: hugepagesz=1G hugepages=2
 * slow
 * timeout: 900
 */
#include "uffd_test.h"

#define GIB		(1ul << 30)
#define HUGE_1G		(30u << 26)		/* MAP_HUGE_1GB, MFD_HUGE_1GB */
#define MIDDLE		(GIB / 2 + 5 * PAGE + 12)

static char *src;		/* a page of the pool: what is copied from */

static long pool(const char *what)
{
	char path[128];
	long n = -1;

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-1048576kB/%s", what);
	FILE *f = fopen(path, "r");

	if (f) {
		MUST(fscanf(f, "%ld", &n) == 1);
		fclose(f);
	}
	return n;
}

static char *map_gib(int flags, int fd)
{
	char *p = mmap(NULL, GIB, RW, flags, fd, 0);

	MUST(p != MAP_FAILED && (uintptr_t)p % GIB == 0);
	return p;
}

/* A thread that must wait, and the message that says so. */
static void start(struct helper *h, long (*fn)(struct helper *h), char *p, int fd, uint64_t flags)
{
	helper_start(h, fn, p, 1);
	EXPECT_FAULT(fd, flags, (uintptr_t)p & -GIB);
	CHECK(helper_sleeps(h));
}

/* -- ranges: nothing smaller than the page -- */

static void edges(int fd, char *p)
{
	CHECK_ERRNO(EINVAL, uffd_register(fd, p, HUGE, MISSING));
	CHECK_ERRNO(EINVAL, uffd_register(fd, p + HUGE, GIB - HUGE, MISSING));
	MUST(uffd_register(fd, p, GIB, MISSING | WP) == 0);
	CHECK_ERRNO(EINVAL, uffd_unregister(fd, p + HUGE, GIB - HUGE));
	CHECK_EQUAL(-EINVAL, uffd_copy(fd, p, src, HUGE, 0));
	CHECK_EQUAL(-EINVAL, uffd_copy(fd, p + HUGE, src, HUGE, 0));
	CHECK_EQUAL(-EINVAL, uffd_zeropage(fd, p, GIB, 0));
	CHECK_EQUAL(-EINVAL, uffd_poison(fd, p, HUGE, 0));
	CHECK_ERRNO(EINVAL, uffd_writeprotect(fd, p, HUGE, UFFDIO_WRITEPROTECT_MODE_WP));
	CHECK_EQUAL(-EFAULT, uffd_continue(fd, p, GIB, 0));
}

/* -- missing, and write-protected; what is in the file is in it for all -- */

static void missing_and_protected(int mem, bool shared)
{
	char *p = map_gib(shared ? MAP_SHARED : MAP_PRIVATE, mem);
	int fd = open_uffd(0);
	struct helper h;

	edges(fd, p);
	start(&h, do_read, p + MIDDLE, fd, 0);
	CHECK_EQUAL((long)GIB, uffd_copy(fd, p, src, GIB, UFFDIO_COPY_MODE_WP));
	CHECK_EQUAL('m', HELPER_END(&h));
	CHECK_EQUAL(0, pool("free_hugepages"));
	CHECK_EQUAL(-EEXIST, uffd_copy(fd, p, src, GIB, 0));
	CHECK_EQUAL('a', p[0]);
	CHECK_EQUAL('z', p[GIB - 1]);
	CHECK_EQUAL(PM_PRESENT | PM_UFFD_WP, pagemap(p + 7 * PAGE) & (PM_PRESENT | PM_UFFD_WP));

	h.value = 'w';
	start(&h, do_write, p + MIDDLE, fd, UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP);
	CHECK_EQUAL('m', p[MIDDLE]);
	CHECK_EQUAL(0, uffd_writeprotect(fd, p, GIB, 0));
	HELPER_END(&h);
	CHECK_EQUAL('w', p[MIDDLE]);
	EXPECT_SILENCE(fd);

	CHECK_EQUAL(0, uffd_writeprotect(fd, p, GIB, UFFDIO_WRITEPROTECT_MODE_WP));
	h.value = 'w';
	start(&h, do_write, p + 1, fd, UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP);
	CHECK_EQUAL(0, uffd_unregister(fd, p, GIB));
	HELPER_END(&h);
	CHECK_EQUAL('w', p[1]);
	CHECK_EQUAL(0, pagemap(p) & PM_UFFD_WP);
	close(fd);
	munmap(p, GIB);
	CHECK_EQUAL(shared ? 0 : 1, pool("free_hugepages"));
}

/* -- minor faults: the page is in the file, put there through another mapping (by the tests above) -- */

static void minor(int mem, bool shared)
{
	char *p = map_gib(shared ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE, mem);
	int fd = open_uffd(0);
	struct helper h;

	MUST(uffd_register(fd, p, GIB, MINOR) == 0);
	start(&h, do_read, p + MIDDLE, fd, UFFD_PAGEFAULT_FLAG_MINOR);
	CHECK_EQUAL((long)GIB, uffd_continue(fd, p, GIB, 0));
	CHECK_EQUAL('w', HELPER_END(&h));
	CHECK_EQUAL(-EEXIST, uffd_continue(fd, p, GIB, 0));
	if (shared) {
		p[MIDDLE] = 'x';
		p[MIDDLE] = 'w';
	}
	close(fd);
	munmap(p, GIB);
}

/* -- poison: a marker for a GiB -- */

static void poison(int mem)
{
	char *p = map_gib(MAP_SHARED, mem);
	int fd = open_uffd(0), pipes[2];

	MUST(fallocate(mem, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)GIB) == 0);
	CHECK_EQUAL(1, pool("free_hugepages"));
	MUST(uffd_register(fd, p, GIB, MISSING) == 0);
	CHECK_EQUAL((long)GIB, uffd_poison(fd, p, GIB, 0));
	CHECK_EQUAL(-EEXIST, uffd_poison(fd, p, GIB, 0));
	CHECK_FAULT(SIGBUS, BUS_MCEERR_AR, p + MIDDLE, access_byte((unsigned long)p + MIDDLE, READ));
	MUST(pipe(pipes) == 0);
	CHECK_ERRNO(EFAULT, write(pipes[1], p + 3, 1));
	MUST(madvise(p, GIB, MADV_DONTNEED) == 0);
	CHECK_EQUAL((long)GIB, uffd_copy(fd, p, src, GIB, 0));
	CHECK_EQUAL('m', p[MIDDLE]);
	close(pipes[0]), close(pipes[1]), close(fd);
	munmap(p, GIB);
}

int main(void)
{
	if (pool("nr_hugepages") < 2)
		test_skip("no two pages of 1 GiB");
	catch_faults();
	src = map_gib(ANON | MAP_HUGETLB | (int)HUGE_1G, -1);
	src[0] = 'a';
	src[MIDDLE] = 'm';
	src[GIB - 1] = 'z';

	int mem = (int)syscall(SYS_memfd_create, "gib", MFD_HUGETLB | HUGE_1G);
	MUST(mem >= 0 && ftruncate(mem, (off_t)GIB) == 0);
	missing_and_protected(mem, true);
	minor(mem, true);
	minor(mem, false);
	poison(mem);
	close(mem);
	CHECK_EQUAL(1, pool("free_hugepages"));

	mem = (int)syscall(SYS_memfd_create, "gib", MFD_HUGETLB | HUGE_1G);
	MUST(mem >= 0 && ftruncate(mem, (off_t)GIB) == 0);
	missing_and_protected(mem, false);
	close(mem);
	munmap(src, GIB);
	CHECK_EQUAL(2, pool("free_hugepages"));
	CHECK_EQUAL(0, pool("resv_hugepages"));
	test_end();
}
