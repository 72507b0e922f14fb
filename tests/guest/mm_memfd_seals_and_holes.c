/*
 * memfd_create, its seals against mappings and sizes, ftruncate and fallocate under mappings. Rules A11, A34, A36.
 */
#include "mm_test.h"

#define SEALABLE		2u	/* MFD_ALLOW_SEALING */

#define memfd(name, flags)	((int)syscall(SYS_memfd_create, name, flags))
#define seals(fd)		fcntl(fd, F_GET_SEALS)

static void creation(void)
{
	char name[300];
	int fd;
	struct vma_line v;

	CHECK_ERRNO(EINVAL, memfd("x", 0x8000u));
	CHECK_ERRNO(EFAULT, memfd((char *)8, 0));
	memset(name, 'n', sizeof(name));
	name[250] = '\0';
	CHECK_ERRNO(EINVAL, memfd(name, 0));
	name[249] = '\0';
	CHECK((fd = memfd(name, 0)) >= 0);
	close(fd);
	CHECK((fd = memfd("", 0)) >= 0);
	close(fd);
	fd = memfd("plain", 0);
	CHECK_EQUAL(F_SEAL_SEAL, seals(fd));
	CHECK_ERRNO(EPERM, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	CHECK_EQUAL(0, fcntl(fd, F_GETFD) & FD_CLOEXEC);
	MUST(ftruncate(fd, PAGE) == 0);
	char *p = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);
	CHECK(vma_at(p, &v) && strcmp(v.name, "/memfd:plain (deleted)") == 0);
	munmap(p, PAGE);
	close(fd);
	fd = memfd("cloexec", 1u);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	fd = open("/proc/self/status", O_RDONLY);		/* not a file in memory */
	CHECK_ERRNO(EINVAL, seals(fd));
	close(fd);
}

static void shrink_and_grow(void)
{
	int fd = memfd("s", SEALABLE);

	CHECK_EQUAL(0, seals(fd));
	MUST(ftruncate(fd, 2 * PAGE) == 0);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	CHECK_ERRNO(EPERM, ftruncate(fd, PAGE));
	CHECK(ftruncate(fd, 3 * PAGE) == 0);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) == 0);
	CHECK_EQUAL(F_SEAL_SHRINK | F_SEAL_GROW, seals(fd));
	CHECK_ERRNO(EPERM, ftruncate(fd, 4 * PAGE));
	CHECK(ftruncate(fd, 3 * PAGE) == 0);
	CHECK_ERRNO(EPERM, fallocate(fd, 0, 3 * PAGE, PAGE));
	CHECK_EQUAL(1, pwrite(fd, "x", 1, 3 * PAGE - 1));
	CHECK_ERRNO(EPERM, pwrite(fd, "x", 1, 3 * PAGE));
	CHECK_EQUAL(1, pwrite(fd, "x", 1, PAGE));
	CHECK_ERRNO(EINVAL, fcntl(fd, F_ADD_SEALS, 0x1000));
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) == 0);
	CHECK_ERRNO(EPERM, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	close(fd);
}

static void write_seals(void)
{
	int fd = memfd("w", SEALABLE);
	char *p, *q;

	MUST(ftruncate(fd, 2 * PAGE) == 0);
	p = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, fd, 0);
	p[0] = 'p';
	CHECK_ERRNO(EBUSY, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	CHECK(mprotect(p, 2 * PAGE, PROT_READ) == 0);
	CHECK_ERRNO(EBUSY, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));	/* it could become writable again */
	munmap(p, PAGE);
	CHECK_ERRNO(EBUSY, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));	/* half of it is still mapped */
	munmap(p + PAGE, PAGE);
	q = mmap(NULL, 2 * PAGE, RW, MAP_PRIVATE, fd, 0);
	q[PAGE] = 'q';
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);		/* private mappings do not write to it */
	q[0] = 'q';
	CHECK_ERRNO(EPERM, pwrite(fd, "x", 1, 0));
	CHECK_ERRNO(EPERM, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
	CHECK(ftruncate(fd, PAGE) == 0);				/* that is the business of other seals */
	munmap(q, 2 * PAGE);
	close(fd);

	/* FUTURE_WRITE: who has it mapped may go on */
	fd = memfd("f", SEALABLE);
	MUST(ftruncate(fd, PAGE) == 0);
	p = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
	p[0] = 'f';
	CHECK_ERRNO(EPERM, pwrite(fd, "x", 1, 0));
	CHECK_ERRNO(EPERM, sys_mmap(0, PAGE, RW, MAP_SHARED, fd, 0));
	q = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK_EQUAL('f', q[0]);
	munmap(p, PAGE);
	munmap(q, PAGE);
	close(fd);

	/* a second mapping by mremap and by fork counts as well */
	fd = memfd("m", SEALABLE);
	MUST(ftruncate(fd, PAGE) == 0);
	p = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);
	q = (char *)sys_mremap(p, 0, PAGE, MREMAP_MAYMOVE, 0);
	munmap(p, PAGE);
	CHECK_ERRNO(EBUSY, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	munmap(q, PAGE);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);
	close(fd);
}

/* What mappings see of holes, allocations and sizes. */
static void holes(void)
{
	int fd = make_memfd(8, 0);
	char *s = mmap(NULL, 8 * PAGE, RW, MAP_SHARED, fd, 0), *q = mmap(NULL, 8 * PAGE, RW, MAP_PRIVATE, fd, 0), buf[16], path[64];
	const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	struct stat st;

	CHECK_ERRNO(EINVAL, fallocate(fd, 0, 0, 0));
	CHECK_ERRNO(EINVAL, fallocate(fd, 0, -1, PAGE));
	CHECK_ERRNO(EOPNOTSUPP, fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, PAGE));
	CHECK_ERRNO(EOPNOTSUPP, fallocate(fd, 0x10, 0, PAGE));			/* ZERO_RANGE exists, but not here */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int ro = open(path, O_RDONLY);
	CHECK_ERRNO(EBADF, fallocate(ro, 0x10, 0, PAGE));
	CHECK_ERRNO(EOPNOTSUPP, fallocate(ro, 0x80, 0, PAGE));			/* no such mode at all */
	close(ro);
	CHECK_ERRNO(EFBIG, fallocate(fd, 0, 0x7ffffffffffff000, PAGE));
	CHECK_ERRNO(EINVAL, ftruncate(fd, -1));

	memset(s, 's', 8 * PAGE);
	memset(q + 2 * PAGE, 'q', 2 * PAGE);
	CHECK(fallocate(fd, punch, PAGE + 10, 3 * PAGE) == 0);		/* 10 bytes into page 1 to 10 bytes into page 4 */
	CHECK(s[PAGE + 9] == 's' && s[PAGE + 10] == 0 && s[2 * PAGE] == 0 && s[4 * PAGE + 9] == 0 && s[4 * PAGE + 10] == 's');
	CHECK_EQUAL('q', q[2 * PAGE]);					/* a hole takes no private copies away */
	CHECK_EQUAL('q', q[3 * PAGE]);
	CHECK_EQUAL(0, q[PAGE + 10]);
	CHECK(fstat(fd, &st) == 0 && st.st_size == 8 * (off_t)PAGE);
	/* the reads through the shared mapping have filled page 2 with zeros again, nothing has filled page 3 */
	CHECK_EQUAL(7 * 8, st.st_blocks);
	CHECK_EQUAL(16, pread(fd, buf, 16, 3 * PAGE));
	CHECK(fstat(fd, &st) == 0);
	CHECK_EQUAL(7 * 8, st.st_blocks);				/* reading a hole by read(2) does not */
	CHECK(fallocate(fd, 0, 0, 8 * PAGE) == 0);
	CHECK(fstat(fd, &st) == 0);
	CHECK_EQUAL(8 * 8, st.st_blocks);
	CHECK_EQUAL(0, s[3 * PAGE]);

	/* beyond the end: with KEEP_SIZE the file does not grow, and access is SIGBUS as before */
	munmap(s, 8 * PAGE);
	s = mmap(NULL, 16 * PAGE, RW, MAP_SHARED, fd, 0);
	CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 8 * PAGE, 4 * PAGE) == 0);
	CHECK(fstat(fd, &st) == 0 && st.st_size == 8 * (off_t)PAGE);
	CHECK_FAULT(SIGBUS, BUS_ADRERR, s + 8 * PAGE, access_byte((unsigned long)s + 8 * PAGE, READ));
	CHECK(fallocate(fd, 0, 8 * PAGE, PAGE) == 0);
	CHECK(fstat(fd, &st) == 0 && st.st_size == 9 * (off_t)PAGE);
	s[8 * PAGE] = 'n';
	CHECK_FAULT(SIGBUS, BUS_ADRERR, s + 9 * PAGE, access_byte((unsigned long)s + 9 * PAGE, WRITE));

	/* to nothing and back */
	CHECK(ftruncate(fd, 0) == 0);
	CHECK_FAULT(SIGBUS, BUS_ADRERR, s, access_byte((unsigned long)s, READ));
	CHECK_FAULT(SIGBUS, BUS_ADRERR, q + 2 * PAGE, access_byte((unsigned long)q + 2 * PAGE, READ));
	CHECK(fstat(fd, &st) == 0);
	CHECK_EQUAL(0, st.st_blocks);
	CHECK(ftruncate(fd, 8 * PAGE) == 0);
	for (int i = 0; i < 8; i++)
		CHECK(s[i * PAGE] == 0 && q[i * PAGE] == 0);
	CHECK_EQUAL(16, pread(fd, buf, 16, PAGE));
	s[PAGE] = 'w';							/* write(2), read(2) and memory are one */
	CHECK_EQUAL(1, pread(fd, buf, 1, PAGE));
	CHECK_EQUAL('w', buf[0]);
	CHECK_EQUAL(1, pwrite(fd, "x", 1, PAGE));
	CHECK_EQUAL('x', s[PAGE]);
	CHECK_EQUAL('x', q[PAGE]);
	close(fd);
	s[2 * PAGE] = 'c';						/* the mapping keeps the file */
	CHECK_EQUAL('c', s[2 * PAGE]);
	munmap(s, 16 * PAGE);
	munmap(q, 8 * PAGE);
}

int main(void)
{
	catch_faults();
	creation();
	shrink_and_grow();
	write_seals();
	holes();
	test_end();
}
