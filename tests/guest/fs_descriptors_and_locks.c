/* Descriptor tables, fcntl, memfd seals, record locks and flock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "test.h"

#ifndef F_OFD_SETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

static void numbers(void)
{
	int a = open("/dev/null", O_RDONLY), b = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK_EQUAL(a + 1, b);			/* the lowest free one */
	close(a);
	CHECK_EQUAL(a, dup(b));
	CHECK_EQUAL(0, fcntl(a, F_GETFD));
	CHECK_EQUAL(FD_CLOEXEC, fcntl(b, F_GETFD));
	CHECK_EQUAL(b, dup2(b, b));
	CHECK_EQUAL(FD_CLOEXEC, fcntl(b, F_GETFD));
	CHECK_ERRNO(EINVAL, dup3(b, b, 0));
	CHECK_ERRNO(EBADF, dup2(1000000, 5));
	CHECK_ERRNO(EBADF, dup2(b, -1));
	CHECK_ERRNO(EBADF, dup2(b, 100000000));
	CHECK_ERRNO(EINVAL, syscall(SYS_dup3, b, 50, 1));
	CHECK_EQUAL(700, dup3(b, 700, O_CLOEXEC));	/* the table grows */
	CHECK_EQUAL(FD_CLOEXEC, fcntl(700, F_GETFD));
	CHECK_EQUAL(701, fcntl(b, F_DUPFD, 700));
	CHECK_EQUAL(702, fcntl(b, F_DUPFD_CLOEXEC, 700));
	CHECK_ERRNO(EINVAL, fcntl(b, F_DUPFD, -1));
	CHECK_ERRNO(EINVAL, fcntl(b, 12345, 0));
	CHECK_ERRNO(EBADF, fcntl(999, F_GETFD));
	CHECK_EQUAL(0, syscall(SYS_close_range, 700, 701, 0));
	CHECK_ERRNO(EBADF, fcntl(700, F_GETFD));
	CHECK_EQUAL(FD_CLOEXEC, fcntl(702, F_GETFD));
	CHECK_ERRNO(EINVAL, syscall(SYS_close_range, 5, 4, 0));
	CHECK_EQUAL(0, close(702));
	CHECK_ERRNO(EBADF, close(702));
	CHECK_ERRNO(EBADF, close(-1));
	CHECK_EQUAL(O_RDONLY | 0100000, fcntl(a, F_GETFL) | 0100000);
	CHECK_EQUAL(0, fcntl(a, F_SETFL, O_NONBLOCK | O_APPEND | O_RDWR | O_CREAT));
	CHECK_EQUAL(O_NONBLOCK | O_APPEND, fcntl(a, F_GETFL) & ~0100000);
	close(a), close(b);
}

static void limit(void *unused)
{
	struct rlimit l = { 20, 20 };
	int last = -1, fd;

	(void)unused;
	MUST(setrlimit(RLIMIT_NOFILE, &l) == 0);
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		last = fd;
	CHECK_EQUAL(EMFILE, errno);
	CHECK_EQUAL(19, last);
	CHECK_ERRNO(EMFILE, dup(0));
	CHECK_ERRNO(EBADF, dup2(0, 20));
	CHECK_ERRNO(EINVAL, fcntl(0, F_DUPFD, 20));
	CHECK_ERRNO(EMFILE, fcntl(0, F_DUPFD, 19));
	CHECK_EQUAL(19, dup2(0, 19));
}

static int stop, racing_fd;
static void *reader(void *unused)
{
	char c;
	ssize_t n;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		n = pread(racing_fd, &c, 1, 0);
		MUST(n >= 0 || errno == EBADF || errno == ESPIPE);
	}
	return unused;
}

static void closed_while_used(void)
{
	pthread_t t[3];

	racing_fd = 500;
	for (int i = 0; i < 3; i++)
		MUST(!pthread_create(&t[i], NULL, reader, NULL));
	for (int i = 0; i < 3000; i++) {
		int fd = open("/dev/zero", O_RDONLY);
		MUST(fd >= 0 && dup2(fd, racing_fd) == racing_fd);
		close(fd);
		if (i % 3)
			close(racing_fd);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	close(racing_fd);
}

static void seals(void)
{
	char name[260], link[PATH_MAX] = "", proc[64];
	struct stat st;
	int fd = memfd_create("hello", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	CHECK(readlink(proc, link, sizeof(link) - 1) > 0);
	CHECK(!strcmp(link, "/memfd:hello (deleted)"));
	CHECK(fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0 && st.st_size == 0);
	CHECK_EQUAL(0, fcntl(fd, F_GET_SEALS));
	CHECK_EQUAL(5, write(fd, "12345", 5));
	CHECK_EQUAL(0, fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
	CHECK_ERRNO(EPERM, write(fd, "6", 1));
	CHECK_ERRNO(EPERM, ftruncate(fd, 100));
	CHECK_EQUAL(1, pwrite(fd, "x", 1, 2) == 1 || errno == EPERM);
	CHECK_EQUAL(0, ftruncate(fd, 4));
	CHECK_EQUAL(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	CHECK_ERRNO(EPERM, ftruncate(fd, 3));
	char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(map != MAP_FAILED);
	CHECK_ERRNO(EBUSY, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	munmap(map, 4096);
	CHECK_EQUAL(0, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	CHECK_ERRNO(EPERM, pwrite(fd, "y", 1, 0));
	errno = 0;
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM);
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) != MAP_FAILED);
	CHECK_ERRNO(EINVAL, fcntl(fd, F_ADD_SEALS, 0x4000));
	CHECK_EQUAL(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
	CHECK_ERRNO(EPERM, fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
	CHECK_EQUAL(F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, fcntl(fd, F_GET_SEALS));
	close(fd);

	fd = memfd_create("no sealing", 0);
	CHECK_EQUAL(F_SEAL_SEAL, fcntl(fd, F_GET_SEALS));
	CHECK_ERRNO(EPERM, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	close(fd);
	CHECK_ERRNO(EINVAL, memfd_create("x", 0x1000));
	CHECK_ERRNO(EINVAL, memfd_create("x", 21u << 26));
	CHECK_ERRNO(EFAULT, memfd_create((char *)8, 0));
	memset(name, 'n', sizeof(name));
	name[250] = 0;
	CHECK_ERRNO(EINVAL, memfd_create(name, 0));
	name[249] = 0;
	CHECK((fd = memfd_create(name, 0)) >= 0);
	close(fd);
	int p[2];
	MUST(pipe(p) == 0);
	CHECK_ERRNO(EINVAL, fcntl(p[1], F_GET_SEALS));
	/* A pipe opened again by its descriptor, as /dev/stdin does. */
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", p[0]);
	fd = open(proc, O_RDONLY | O_NONBLOCK);
	CHECK(fd >= 0);
	CHECK_EQUAL(1, write(p[1], "z", 1));
	CHECK_EQUAL(1, read(fd, name, 1));
	CHECK(fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode));
	snprintf(name, sizeof(name), "pipe:[%lu]", (unsigned long)st.st_ino);
	memset(link, 0, sizeof(link));
	CHECK(readlink(proc, link, sizeof(link) - 1) > 0 && !strcmp(link, name));
	close(fd), close(p[0]), close(p[1]);
}

static int lock(int fd, int cmd, int type, long start, long len)
{
	struct flock l = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };

	return fcntl(fd, cmd, &l);
}

/* Who holds [start, start + len) against us: type, and the range it has. */
static struct flock query(int fd, int type, long start, long len)
{
	struct flock l = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };

	MUST(fcntl(fd, F_GETLK, &l) == 0);
	return l;
}

static int lock_fd;
static void other_process(void *unused)
{
	int fd = open("locked", O_RDWR);
	struct flock l;

	(void)unused;
	CHECK_ERRNO(EAGAIN, lock(fd, F_SETLK, F_WRLCK, 0, 10));
	CHECK_ERRNO(EAGAIN, lock(fd, F_SETLK, F_RDLCK, 5, 1));
	CHECK_EQUAL(0, lock(fd, F_SETLK, F_WRLCK, 10, 10));	/* the gap */
	CHECK_EQUAL(0, lock(fd, F_SETLK, F_RDLCK, 30, 5));	/* theirs is for reading */
	CHECK_ERRNO(EAGAIN, lock(fd, F_SETLK, F_WRLCK, 30, 5));
	l = query(fd, F_WRLCK, 0, 0);
	CHECK_EQUAL(F_WRLCK, l.l_type);
	CHECK_EQUAL(0, l.l_start);
	CHECK_EQUAL(10, l.l_len);
	CHECK_EQUAL(getppid(), l.l_pid);
	l = query(fd, F_WRLCK, 100, 0);
	CHECK_EQUAL(F_UNLCK, l.l_type);
}

static void waiting_process(void *unused)
{
	int fd = open("locked", O_RDWR);

	(void)unused;
	CHECK_EQUAL(0, lock(fd, F_SETLKW, F_WRLCK, 0, 0));
	MUST(pwrite(fd, "W", 1, 0) == 1);
}

static void record_locks(void)
{
	int fd = open("locked", O_CREAT | O_RDWR, 0644), status;
	char c = 0;

	lock_fd = fd;
	CHECK_EQUAL(0, lock(fd, F_SETLK, F_WRLCK, 0, 30));
	CHECK_EQUAL(0, lock(fd, F_SETLK, F_UNLCK, 10, 10));	/* a hole: two locks */
	CHECK_EQUAL(0, lock(fd, F_SETLK, F_RDLCK, 20, 20));	/* and a third of another type */
	CHECK_EQUAL(0, in_child(other_process, NULL));
	CHECK_ERRNO(EINVAL, lock(fd, F_SETLK, 77, 0, 0));
	CHECK_ERRNO(EINVAL, lock(fd, F_SETLK, F_WRLCK, -1, 0));
	int ro = open("locked", O_RDONLY);
	CHECK_ERRNO(EBADF, lock(ro, F_SETLK, F_WRLCK, 50, 1));

	fflush(stdout);
	pid_t pid = fork();
	if (!pid) {
		waiting_process(NULL);
		_exit(test_failures != 0);
	}
	usleep(50000);
	CHECK_EQUAL(0, pread(fd, &c, 1, 0));			/* it waits */
	close(ro);						/* any close drops all of this process's locks: POSIX */
	CHECK_EQUAL(pid, waitpid(pid, &status, 0));
	CHECK_EQUAL(0, status);
	CHECK_EQUAL(1, pread(fd, &c, 1, 0));
	CHECK_EQUAL('W', c);

	/* Locks of an open file: between two opens of one process. */
	int fd2 = open("locked", O_RDWR);
	CHECK_EQUAL(0, lock(fd, F_OFD_SETLK, F_WRLCK, 0, 5));
	CHECK_ERRNO(EAGAIN, lock(fd2, F_OFD_SETLK, F_WRLCK, 4, 5));
	CHECK_ERRNO(EAGAIN, lock(fd2, F_SETLK, F_RDLCK, 0, 1));
	CHECK_EQUAL(0, lock(fd, F_OFD_SETLK, F_UNLCK, 0, 0));
	CHECK_EQUAL(0, lock(fd2, F_OFD_SETLK, F_WRLCK, 4, 5));

	CHECK_EQUAL(0, flock(fd, LOCK_EX));
	CHECK_ERRNO(EWOULDBLOCK, flock(fd2, LOCK_SH | LOCK_NB));
	CHECK_EQUAL(0, flock(fd, LOCK_SH));
	CHECK_EQUAL(0, flock(fd2, LOCK_SH | LOCK_NB));
	CHECK_ERRNO(EWOULDBLOCK, flock(fd2, LOCK_EX | LOCK_NB));
	CHECK_ERRNO(EINVAL, flock(fd, 77));
	close(fd);						/* the last reference drops the flock */
	CHECK_EQUAL(0, flock(fd2, LOCK_EX | LOCK_NB));
	close(fd2);
	unlink("locked");
}

static void deadlock(void)
{
	int fd = open("dl", O_CREAT | O_RDWR, 0644), status;

	MUST(lock(fd, F_SETLK, F_WRLCK, 0, 1) == 0);
	fflush(stdout);
	pid_t pid = fork();
	if (!pid) {
		alarm(20);
		MUST(lock(fd, F_SETLK, F_WRLCK, 1, 1) == 0);
		MUST(lock(fd, F_SETLKW, F_WRLCK, 0, 1) == 0);	/* waits for the parent */
		_exit(0);
	}
	usleep(100000);
	CHECK_ERRNO(EDEADLK, lock(fd, F_SETLKW, F_WRLCK, 1, 1));
	CHECK_EQUAL(0, lock(fd, F_SETLK, F_UNLCK, 0, 1));
	CHECK_EQUAL(pid, waitpid(pid, &status, 0));
	CHECK_EQUAL(0, status);
	close(fd);
	unlink("dl");
}

int main(void)
{
	MUST(mkdir("/tmp/fds", 0755) == 0 && chdir("/tmp/fds") == 0);
	numbers();
	CHECK_EQUAL(0, in_child(limit, NULL));
	closed_while_used();
	seals();
	record_locks();
	deadlock();
	CHECK_EQUAL(0, chdir("/"));
	CHECK_EQUAL(0, rmdir("/tmp/fds"));
	test_end();
}
