/* Rules D18 to D22: read, write, ftruncate, fallocate, hole punching and lseek on a file of huge pages. */
#include "hugetlb_test.h"

#include <sys/sendfile.h>

#define PUNCH	(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define S	((off_t)HUGE)

static off_t size_of(int fd)
{
	struct stat st;

	MUST(fstat(fd, &st) == 0);
	CHECK_EQUAL(HUGE, st.st_blksize);
	return st.st_size;
}

static long pages_of(int fd)
{
	struct stat st;

	MUST(fstat(fd, &st) == 0);
	return st.st_blocks * 512 / (long)HUGE;
}

static void reading(int fd)
{
	static char buf[3 * HUGE];
	struct iovec v[2] = { { buf, 10 }, { buf + 10, HUGE } };
	char *p = map_fd(fd, 2, RW, MAP_SHARED, 0);

	memset(p, 'a', HUGE);
	CHECK_POOL(9, 1);
	memset(buf, 'z', sizeof(buf));
	CHECK_EQUAL(2 * HUGE, pread(fd, buf, sizeof(buf), 0));
	CHECK(buf[0] == 'a' && buf[HUGE - 1] == 'a' && buf[HUGE] == 0 && buf[2 * HUGE - 1] == 0 && buf[2 * HUGE] == 'z');
	CHECK_POOL(9, 1);				/* reading a hole takes no page */
	CHECK_EQUAL(10, pread(fd, buf, 10, S - 5));
	CHECK(buf[4] == 'a' && buf[5] == 0);
	CHECK_EQUAL(5, pread(fd, buf, 10, 2 * S - 5));
	CHECK_EQUAL(0, pread(fd, buf, 10, 2 * S));
	CHECK_EQUAL(0, pread(fd, buf, 10, 0x7ffffffffffff000));
	CHECK_ERRNO(EINVAL, pread(fd, buf, 10, -1));
	CHECK_EQUAL(HUGE + 10, preadv(fd, v, 2, S / 2));
	CHECK_ERRNO(EFAULT, pread(fd, (void *)16, 10, 0));
	CHECK_EQUAL(0, lseek(fd, 0, SEEK_SET));
	CHECK_EQUAL(7, read(fd, buf, 7));
	CHECK_EQUAL(7, lseek(fd, 0, SEEK_CUR));
	CHECK_ERRNO(EINVAL, write(fd, buf, 1));
	CHECK_ERRNO(EINVAL, pwrite(fd, buf, 1, 0));
	CHECK_ERRNO(EINVAL, writev(fd, v, 2));
	CHECK_EQUAL(0, fsync(fd));
	CHECK_EQUAL(0, fdatasync(fd));
	CHECK_EQUAL(2 * S, lseek(fd, 0, SEEK_END));
	CHECK_EQUAL(5, lseek(fd, 5, SEEK_DATA));
	CHECK_EQUAL(2 * S, lseek(fd, 5, SEEK_HOLE));
	CHECK_ERRNO(ENXIO, lseek(fd, 2 * S, SEEK_DATA));
	CHECK_ERRNO(ENXIO, lseek(fd, 2 * S, SEEK_HOLE));
	unmap_huge(p, 2);
}

/* What the pages of other files may do and these may not: to be read by devices, and to travel through pipes. */
static void ways_round_read(int fd)
{
	char name[32];
	int to, pipes[2];
	off_t at = 0;

	MUST(ftruncate(fd, S) == 0);
	sprintf(name, "/proc/self/fd/%d", fd);
	CHECK_ERRNO(EINVAL, open(name, O_RDWR | O_DIRECT));
	CHECK_ERRNO(EINVAL, fcntl(fd, F_SETFL, O_DIRECT));
	CHECK_EQUAL(O_RDWR, fcntl(fd, F_GETFL) & (O_ACCMODE | O_DIRECT));
	MUST(mount_huge("/tmp/.huge", NULL) == 0);
	CHECK_ERRNO(EINVAL, open("/tmp/.huge/direct", O_RDWR | O_CREAT | O_DIRECT, 0600));
	CHECK_EQUAL(0, unlink("/tmp/.huge/direct"));	/* it has been made all the same */
	MUST(umount("/tmp/.huge") == 0);

	to = open("/tmp/.copy", O_RDWR | O_CREAT | O_TRUNC, 0600);
	MUST(to >= 0 && pipe(pipes) == 0);
	CHECK_ERRNO(EINVAL, sendfile(to, fd, &at, PAGE));
	CHECK_ERRNO(EINVAL, sendfile(pipes[1], fd, NULL, PAGE));
	MUST(write(to, "data", 4) == 4 && lseek(to, 0, SEEK_SET) == 0);
	CHECK_ERRNO(EINVAL, sendfile(fd, to, NULL, 4));
	CHECK_EQUAL(0, at);
	close(to);
	close(pipes[0]);
	close(pipes[1]);
	MUST(unlink("/tmp/.copy") == 0);
	CHECK_POOL(10, 0);
}

static void truncating(int fd)
{
	char *p, *own;

	CHECK_EQUAL(2 * S, size_of(fd));
	CHECK_ERRNO(EINVAL, ftruncate(fd, 1));
	CHECK_ERRNO(EINVAL, ftruncate(fd, S + 4096));
	CHECK_ERRNO(EINVAL, ftruncate(fd, -1));
	CHECK_ERRNO(EINVAL, ftruncate(fd, 0x7fffffffffffffff));
	CHECK_EQUAL(2 * S, size_of(fd));
	CHECK_POOL(9, 1);
	CHECK_EQUAL(0, ftruncate(fd, 0x7fffffffffe00000));	/* the last whole page below 8 EiB */
	CHECK_POOL(9, 1);
	CHECK_EQUAL(0, ftruncate(fd, 2 * S));
	CHECK_POOL(9, 1);
	p = map_fd(fd, 2, RW, MAP_SHARED, 0);
	own = map_fd(fd, 2, RW, MAP_PRIVATE, 0);
	memset(own, 'o', 2 * HUGE);
	CHECK_POOL(7, 1);
	CHECK_EQUAL(0, ftruncate(fd, S));		/* private copies go too; their promises come back to the mapping */
	CHECK_POOL(8, 1);
	CHECK_FAULT(SIGBUS, 2, p + HUGE, access_byte((unsigned long)p + HUGE, READ));
	CHECK_FAULT(SIGBUS, 2, own + HUGE, access_byte((unsigned long)own + HUGE, READ));
	CHECK_EQUAL('o', own[0]);
	CHECK_EQUAL(0, ftruncate(fd, 2 * S));
	CHECK_EQUAL(0, p[HUGE]);
	CHECK_POOL(7, 1);
	own[HUGE] = 1;
	CHECK_POOL(6, 0);
	unmap_huge(p, 2);
	unmap_huge(own, 2);
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_POOL(10, 0);
}

static void allocating(int fd)
{
	struct rlimit old, low = { HUGE, RLIM_INFINITY };
	int ro = open("/proc/self/fd/0", O_RDONLY);
	char path[64];

	if (ro >= 0)
		close(ro);
	sprintf(path, "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY);
	MUST(ro >= 0);
	CHECK_ERRNO(EBADF, fallocate(ro, 0, 0, S));
	CHECK_ERRNO(EBADF, fallocate(ro, PUNCH, 0, S));
	close(ro);
	CHECK_ERRNO(EINVAL, fallocate(fd, 0, 0, 0));
	CHECK_ERRNO(EINVAL, fallocate(fd, 0, -1, S));
	CHECK_ERRNO(EINVAL, fallocate(fd, 0, 0, -1));
	CHECK_ERRNO(EFBIG, fallocate(fd, 0, 0x7ffffffffffff000, S));
	CHECK_ERRNO(EOPNOTSUPP, fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, S));
	CHECK_ERRNO(EOPNOTSUPP, fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, S));
	CHECK_ERRNO(EOPNOTSUPP, fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, S));
	CHECK_POOL(10, 0);

	CHECK_EQUAL(0, fallocate(fd, FALLOC_FL_KEEP_SIZE, S + 1, 1));
	CHECK_EQUAL(0, size_of(fd));
	CHECK_EQUAL(1, pages_of(fd));
	CHECK_EQUAL(0, ftruncate(fd, S));		/* growing takes away what lies behind the new end */
	CHECK_EQUAL(0, pages_of(fd));
	CHECK_EQUAL(0, fallocate(fd, 0, S - 1, 2));	/* pages 0 and 1; the size is the exact end */
	CHECK_EQUAL(2, pages_of(fd));
	CHECK_EQUAL(S + 1, size_of(fd));
	char *p = map_fd(fd, 2, PROT_READ, MAP_SHARED, 0);
	CHECK_EQUAL(0, p[HUGE]);			/* a page that is there can be mapped */
	CHECK_EQUAL(0, fallocate(fd, PUNCH, S, S));
	CHECK_FAULT(SIGBUS, 2, p + HUGE, access_byte((unsigned long)p + HUGE, READ));	/* but none is made for a part of one */
	unmap_huge(p, 2);
	CHECK_EQUAL(1, pages_of(fd));
	CHECK_EQUAL(0, fallocate(fd, 0, 0, 2 * S));
	CHECK_EQUAL(2, pages_of(fd));
	CHECK_POOL(8, 0);
	CHECK_ERRNO(ENOSPC, fallocate(fd, 0, 0, 11 * S));	/* what came before stays */
	CHECK_EQUAL(10, pages_of(fd));
	CHECK_EQUAL(2 * S, size_of(fd));
	CHECK_POOL(0, 0);
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_POOL(10, 0);

	MUST(getrlimit(RLIMIT_FSIZE, &old) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	MUST(setrlimit(RLIMIT_FSIZE, &low) == 0);
	CHECK_ERRNO(EFBIG, fallocate(fd, 0, 0, S + 1));
	CHECK_ERRNO(EFBIG, fallocate(fd, FALLOC_FL_KEEP_SIZE, S, S));
	CHECK_ERRNO(EFBIG, ftruncate(fd, 2 * S));
	CHECK_EQUAL(0, fallocate(fd, 0, 0, S));
	MUST(setrlimit(RLIMIT_FSIZE, &old) == 0);
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_POOL(10, 0);
}

/* By promise where there is one. */
static void allocating_what_was_promised(int fd)
{
	char *p = map_fd(fd, 4, RW, MAP_SHARED, 0), *all;

	CHECK_POOL(10, 4);
	all = map_huge(6, RW, HUGE_ANON);
	CHECK_POOL(10, 10);
	CHECK_EQUAL(0, fallocate(fd, 0, S, 2 * S));
	CHECK_POOL(8, 8);
	CHECK_ERRNO(ENOSPC, fallocate(fd, 0, 3 * S, 2 * S));
	CHECK_POOL(7, 7);
	CHECK_EQUAL(0, p[3 * HUGE]);
	CHECK_POOL(7, 7);
	CHECK_EQUAL(0, p[0]);
	CHECK_POOL(6, 6);
	unmap_huge(all, 6);
	unmap_huge(p, 4);
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_POOL(10, 0);
}

static void punching(int fd)
{
	char *p = map_fd(fd, 4, RW, MAP_SHARED, 0), *own;

	memset(p, 'x', 4 * HUGE);
	CHECK_POOL(6, 0);
	CHECK_EQUAL(0, fallocate(fd, PUNCH, 100, 50));			/* inside one page: zeroed, nothing goes */
	CHECK_POOL(6, 0);
	CHECK(p[99] == 'x' && p[100] == 0 && p[149] == 0 && p[150] == 'x');
	CHECK_EQUAL(0, fallocate(fd, PUNCH, S - 10, 20));		/* the edges of two pages */
	CHECK(p[HUGE - 11] == 'x' && p[HUGE - 10] == 0 && p[HUGE + 9] == 0 && p[HUGE + 10] == 'x');
	CHECK_POOL(6, 0);
	own = map_fd(fd, 4, RW, MAP_PRIVATE, 0);
	CHECK_POOL(6, 4);
	own[2 * HUGE] = 'o';
	own[3 * HUGE] = 'o';
	CHECK_POOL(4, 2);
	CHECK_EQUAL(0, fallocate(fd, PUNCH, 2 * S - 5, S + 10));	/* page 2 whole, with the private copy of it */
	CHECK(p[2 * HUGE - 6] == 'x' && p[2 * HUGE - 5] == 0 && p[3 * HUGE + 4] == 0 && p[3 * HUGE + 5] == 'x');
	CHECK_EQUAL(3, pages_of(fd));
	CHECK_EQUAL(4 * S, size_of(fd));
	CHECK_POOL(6, 3);
	CHECK_EQUAL('o', own[3 * HUGE]);
	CHECK_EQUAL(0, own[2 * HUGE]);
	CHECK_POOL(5, 2);
	CHECK_EQUAL(0, p[2 * HUGE]);
	CHECK_POOL(4, 2);
	CHECK_EQUAL(0, fallocate(fd, PUNCH, 8 * S, S));			/* nothing there */
	CHECK_EQUAL(0, fallocate(fd, PUNCH, 0, 0x7fffffffffffffff));
	CHECK_EQUAL(0, pages_of(fd));
	CHECK_EQUAL(0, p[0]);
	unmap_huge(p, 4);
	unmap_huge(own, 4);
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_POOL(10, 0);
}

/* What fallocate(KEEP_SIZE) has put behind the end can be mapped and copied, and goes with the next truncate, the copy too. */
static void private_copy_behind_the_end(int fd)
{
	char *p = mmap(NULL, 2 * HUGE, RW, MAP_PRIVATE, fd, 0);

	MUST(p != MAP_FAILED);
	CHECK_EQUAL(0, ftruncate(fd, S));
	CHECK_EQUAL(0, fallocate(fd, FALLOC_FL_KEEP_SIZE, S, S));
	CHECK_EQUAL(S, size_of(fd));
	p[HUGE] = 'c';					/* the first access, and a write */
	CHECK_EQUAL('c', p[HUGE]);
	CHECK_EQUAL(0, ftruncate(fd, S));
	CHECK_FAULT(SIGBUS, 2, p + HUGE, access_byte((unsigned long)p + HUGE, WRITE));
	CHECK_EQUAL(0, munmap(p, 2 * HUGE));
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_POOL(10, 0);
}

static void on_interrupt(int sig) { (void)sig; }

/* EINTR with a signal that is already there. What was done is kept. */
static void interrupted(int fd)
{
	sigset_t set;

	/* Pending and blocked does not count. */
	signal(SIGUSR1, on_interrupt);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	CHECK_EQUAL(0, fallocate(fd, 0, 0, 2 * S));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_POOL(10, 0);
}

int main(void)
{
	int fd;

	catch_faults();
	pool_begin(10);
	fd = huge_memfd(0);
	reading(fd);
	truncating(fd);
	allocating(fd);
	allocating_what_was_promised(fd);
	punching(fd);
	private_copy_behind_the_end(fd);
	ways_round_read(fd);
	interrupted(fd);
	close(fd);
	pool_end(10);
}
