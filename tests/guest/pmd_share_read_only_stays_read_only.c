/*
 * A file of huge pages, mapped writable by one and from a read-only descriptor by another, over the same GiB. Where the file owns the
 * page table (hugetlb.sync=file) both use it, its entries have all rights, and only the level above says that this mapping
 * must not write. So every way to write is tried: the CPU, the kernel's copies, pins, /proc/self/mem. Rules A11, E10, H9.
 *
 * append: hugepages=24 hugetlb.sync=file
 */
#include "pmd_share_test.h"

#define READER	(WINDOW + 4 * GIB)

static volatile char *writer = WINDOW;

/* The writer looks: no byte of the marks has changed. */
static void expect_untouched(int line)
{
	for (int i = 0; i < PAGES; i++) {
		if (writer[(unsigned long)i * HUGE] != 1 + i) {
			printf("line %d: page %d was written through the read-only mapping\n", line, i);
			test_failures++;
			writer[(unsigned long)i * HUGE] = (char)(1 + i);
		}
	}
}

/* By all ways. */
static void try_to_write(char *p)
{
	struct iovec local = { (char[]){ 'x' }, 1 }, remote = { p, 1 };
	int zero = open("/dev/zero", O_RDONLY), mem = open("/proc/self/mem", O_RDWR), pipes[2];

	MUST(zero >= 0 && mem >= 0 && !pipe(pipes));
	CHECK_FAULT(SIGSEGV, 2, p, access_byte((unsigned long)p, WRITE));
	CHECK_ERRNO(EFAULT, read(zero, p, 1));
	CHECK_ERRNO(EFAULT, process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
	CHECK_ERRNO(EIO, pwrite(mem, "x", 1, (off_t)(uintptr_t)p));
	CHECK_ERRNO(EINVAL, sys_madvise(p, HUGE, MADV_POPULATE_WRITE));
	MUST(write(pipes[1], "x", 1) == 1);
	CHECK_ERRNO(EFAULT, read(pipes[0], p, 1));
	CHECK_ERRNO(EFAULT, syscall(SYS_futex, p, 5 /* WAKE_OP */, 1, 1, p, 1 << 28));
	expect_untouched(__LINE__);
	/* Reading is fine by the same ways. */
	char got = 0;
	struct iovec into = { &got, 1 };
	CHECK_EQUAL(1, process_vm_readv(getpid(), &into, 1, &remote, 1, 0));
	CHECK_EQUAL(1, got);
	CHECK_EQUAL(1, write(pipes[1], p, 1));
	close(zero);
	close(mem);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	char path[32];
	int fd = huge_file(1), ro;

	catch_faults();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY);
	MUST(ro >= 0);
	map_huge(WINDOW, GIB, RW, MAP_SHARED, fd, 0);
	fill(writer, PAGES, 1);

	/* From the read-only descriptor: never more than reading. */
	CHECK_ERRNO(EACCES, sys_mmap(READER, GIB, RW, MAP_SHARED | MAP_FIXED, ro, 0));
	map_huge(READER, GIB, PROT_READ, MAP_SHARED, ro, 0);
	(void)faults_reading(READER, PAGES, 1);
	try_to_write(READER);
	CHECK_ERRNO(EACCES, sys_mprotect(READER, GIB, RW));
	CHECK_ERRNO(EACCES, sys_mprotect(READER + HUGE, HUGE, RW));
	try_to_write(READER);

	/* From the writable one: rights come and go with mprotect, for this mapping alone. */
	map_huge(READER, GIB, PROT_READ, MAP_SHARED, fd, 0);
	(void)faults_reading(READER, PAGES, 1);
	try_to_write(READER);
	MUST(!mprotect(READER, GIB, RW));
	READER[HUGE + 9] = 'y';
	CHECK_EQUAL('y', writer[HUGE + 9]);
	MUST(!mprotect(READER, GIB, PROT_READ));
	try_to_write(READER);
	MUST(!mprotect(READER, GIB, PROT_NONE));
	CHECK_FAULT(SIGSEGV, 2, READER, access_byte((unsigned long)READER, READ));
	writer[0] = 1;				/* the writer never noticed */
	MUST(!mprotect(READER, GIB, PROT_READ));
	(void)faults_reading(READER, PAGES, 1);
	try_to_write(READER);
	test_end();
}
