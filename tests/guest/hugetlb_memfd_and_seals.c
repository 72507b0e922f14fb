/* Rules D14 and D23: memfd_create(MFD_HUGETLB), its flags and sizes, and seals on files of huge pages. */
#include "hugetlb_test.h"

#define memfd(name, flags)	((int)syscall(SYS_memfd_create, name, flags))
#define S			((off_t)HUGE)
#define ALLOW			2u

static void flags(void)
{
	char name[300];
	struct stat st;
	struct statfs sf;
	int fd;

	CHECK_ERRNO(EINVAL, memfd("x", 21u << 26));			/* a size, but not MFD_HUGETLB */
	CHECK_ERRNO(ENODEV, memfd("x", MFD_HUGETLB | 24u << 26));
	CHECK_ERRNO(ENODEV, memfd("x", MFD_HUGETLB | 12u << 26));
	CHECK_ERRNO(ENODEV, memfd("x", MFD_HUGETLB | 63u << 26));
	CHECK_ERRNO(EINVAL, memfd("x", MFD_HUGETLB | 0x20));
	CHECK_ERRNO(EINVAL, memfd("x", MFD_HUGETLB | 0x18));		/* EXEC and NOEXEC_SEAL */
	CHECK_ERRNO(EFAULT, memfd(NULL, MFD_HUGETLB));
	memset(name, 'n', sizeof(name));
	name[250] = '\0';
	CHECK_ERRNO(EINVAL, memfd(name, MFD_HUGETLB));
	name[249] = '\0';
	fd = memfd(name, MFD_HUGETLB);
	CHECK(fd >= 0);
	close(fd);

	fd = memfd("huge", MFD_HUGETLB | HUGE_2M | 1);
	MUST(fd >= 0);
	CHECK_EQUAL(FD_CLOEXEC, fcntl(fd, F_GETFD));
	MUST(fstat(fd, &st) == 0 && fstatfs(fd, &sf) == 0);
	CHECK_EQUAL(0, st.st_size);
	CHECK_EQUAL(HUGE, st.st_blksize);
	CHECK_EQUAL(S_IFREG | 0777, st.st_mode);
	CHECK_EQUAL(0x958458f6, sf.f_type);
	CHECK_EQUAL(HUGE, sf.f_bsize);
	CHECK_POOL(10, 0);
	CHECK_EQUAL(0, ftruncate(fd, 4 * S));
	CHECK_POOL(10, 0);						/* nothing is reserved before mmap */

	struct vma_line v;
	char *p = map_fd(fd, 1, RW, MAP_SHARED, 0);

	CHECK(vma_at(p, &v) && !strcmp(v.name, "/memfd:huge (deleted)"));
	CHECK(smaps_flag(p, "ht"));
	unmap_huge(p, 1);
	close(fd);
	CHECK_POOL(10, 0);

	p = map_huge(1, RW, HUGE_ANON);
	CHECK(vma_at(p, &v) && !strcmp(v.name, "/anon_hugepage (deleted)"));
	CHECK_EQUAL(0, smaps_kb(p, "Rss"));
	p[0] = 1;
	CHECK_EQUAL(0, smaps_kb(p, "Rss"));				/* D4 */
	CHECK_EQUAL(2048, smaps_kb(p, "Private_Hugetlb"));
	unmap_huge(p, 1);
}

static void sealing(void)
{
	int fd = huge_memfd(0);
	char *p;

	CHECK_EQUAL(F_SEAL_SEAL, fcntl(fd, F_GET_SEALS));
	CHECK_ERRNO(EPERM, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	close(fd);

	fd = huge_memfd(ALLOW);
	CHECK_EQUAL(0, fcntl(fd, F_GET_SEALS));
	CHECK_EQUAL(0, ftruncate(fd, 4 * S));
	CHECK_EQUAL(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	CHECK_ERRNO(EPERM, ftruncate(fd, 2 * S));
	CHECK_EQUAL(0, ftruncate(fd, 6 * S));
	CHECK_EQUAL(0, fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
	CHECK_ERRNO(EPERM, ftruncate(fd, 8 * S));
	CHECK_ERRNO(EPERM, fallocate(fd, 0, 6 * S, S));
	CHECK_EQUAL(0, fallocate(fd, 0, 0, S));
	p = map_fd(fd, 2, RW, MAP_SHARED, 0);
	p[0] = 's';
	CHECK_ERRNO(EBUSY, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	CHECK_EQUAL(0, fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	p[0] = 't';							/* what is mapped stays writable */
	CHECK_ERRNO(EPERM, sys_mmap(0, HUGE, RW, MAP_SHARED, fd, 0));
	CHECK_ERRNO(EPERM, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, S));
	unmap_huge(p, 2);
	CHECK_EQUAL(0, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	CHECK_ERRNO(EPERM, sys_mmap(0, HUGE, RW, MAP_SHARED, fd, 0));
	p = map_fd(fd, 1, PROT_READ, MAP_SHARED, 0);
	CHECK_EQUAL('t', p[0]);
	CHECK_ERRNO(EACCES, mprotect(p, HUGE, RW));
	unmap_huge(p, 1);
	p = map_fd(fd, 1, RW, MAP_PRIVATE, 0);
	p[0] = 'u';
	unmap_huge(p, 1);
	CHECK_EQUAL(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
	CHECK_ERRNO(EPERM, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	close(fd);
	CHECK_POOL(10, 0);

	fd = huge_memfd(8);						/* MFD_NOEXEC_SEAL */
	struct stat st;
	MUST(fstat(fd, &st) == 0);
	CHECK_EQUAL(S_IFREG | 0666, st.st_mode);
	CHECK_EQUAL(0x20, fcntl(fd, F_GET_SEALS));
	CHECK_EQUAL(0, fchmod(fd, 0777));				/* F_SEAL_EXEC is kept, but binds only tmpfs */
	close(fd);
}

int main(void)
{
	pool_begin(10);
	flags();
	sealing();
	pool_end(10);
}
