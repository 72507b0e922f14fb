/*
 * only: faultline
 * timeout: 120
 *
 * The server of a tree of files dies and comes back. While it is away: clean pages that are mapped stay, others are SIGBUS, calls are
 * EIO, dirty pages wait, and fsync says that they are not safe. Then it is killed again and again under a program that makes,
 * writes, renames and removes files: what fsync has confirmed is there, a rename has happened or not, and nothing is both.
 */
#include "memfs_test.h"

#ifndef KILLS
#define KILLS	20
#endif

static void away_and_back(void)
{
	int fd = open(TREE "/f", O_RDWR | O_CREAT, 0644), dir = open(TREE, O_RDONLY | O_DIRECTORY);
	struct stat st;
	char buf[16], dents[1024];

	MUST(fd >= 0 && dir >= 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(1, pwrite(fd, &"abcd"[i], 1, i * (off_t)PAGE));
	CHECK_EQUAL(0, fsync(fd));
	char *p = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	MUST(p != MAP_FAILED);
	CHECK_EQUAL('a', p[0]);
	p[PAGE + 1] = '1';		/* dirty when the server dies */
	drop_pages(fd);			/* pages 2 and 3 */
	kill_memfs();

	CHECK_EQUAL('a', p[0]);
	CHECK_EQUAL('b', p[PAGE]);
	CHECK(is_bus_error(p + 2 * PAGE, 0));
	CHECK(is_bus_error(p + 3 * PAGE, 1));
	/* Everybody else who asks for the page hears of it, and lets go of what he holds: mmap and munmap work. */
	struct iovec to = { buf, 1 }, from = { p + 2 * PAGE, 1 };

	CHECK_EQUAL(-1, mlock(p + 2 * PAGE, PAGE));
	CHECK_ERRNO(EFAULT, process_vm_readv(getpid(), &to, 1, &from, 1, 0));
	CHECK_ERRNO(EFAULT, syscall(SYS_futex, p + 2 * PAGE, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0));
	CHECK_ERRNO(EFAULT, madvise(p + 2 * PAGE, PAGE, 22 /* MADV_POPULATE_READ */));
	CHECK(munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE) == 0);
	munlock(p + 2 * PAGE, PAGE);
	p[1] = '0';			/* and one more while it is dead */
	CHECK_EQUAL(1, pread(fd, buf, 1, 0));
	CHECK_ERRNO(EIO, pread(fd, buf, 1, 2 * PAGE));
	CHECK_ERRNO(EIO, pwrite(fd, buf, 1, 0));
	CHECK_ERRNO(EIO, ftruncate(fd, 1));
	CHECK(fstat(fd, &st) == 0);
	CHECK_EQUAL(3 * PAGE + 1, st.st_size);
	CHECK_ERRNO(EIO, stat(TREE "/f", &st));
	CHECK_ERRNO(EIO, unlink(TREE "/f"));
	CHECK_ERRNO(EIO, mkdir(TREE "/d", 0755));
	CHECK_ERRNO(EIO, chmod(TREE "/f", 0600));
	CHECK_ERRNO(EIO, syscall(SYS_getdents64, dir, dents, sizeof(dents)) > 0 ? syscall(SYS_getdents64, dir, dents, sizeof(dents)) : -1);	/* the dots are ours */
	CHECK_ERRNO(EIO, fsync(fd));
	CHECK_ERRNO(EIO, msync(p, 2 * PAGE, MS_SYNC));
	sync();				/* nobody waits for a dead server */

	start_memfs();
	CHECK_EQUAL('c', p[2 * PAGE]);
	CHECK_EQUAL('d', p[3 * PAGE]);
	CHECK_EQUAL(0, fsync(fd));
	kill_memfs();
	start_memfs();
	munmap(p, 5 * PAGE);
	drop_pages(fd);
	CHECK_EQUAL(2, pread(fd, buf, 2, 0));
	CHECK(!memcmp(buf, "a0", 2));
	CHECK_EQUAL(2, pread(fd, buf, 2, PAGE));
	CHECK(!memcmp(buf, "b1", 2));

	/* A file without a name outlives the server too, and a file that nobody has open any more is written all the same. */
	CHECK_EQUAL(0, unlink(TREE "/f"));
	int other = open(TREE "/g", O_WRONLY | O_CREAT, 0644);

	CHECK_EQUAL(4, write(other, "left", 4));
	kill_memfs();
	close(other);
	start_memfs();
	CHECK_EQUAL(2, pread(fd, buf, 2, 0));
	CHECK(!memcmp(buf, "a0", 2));
	close(fd);
	CHECK_EQUAL(0, syscall(SYS_syncfs, dir));
	kill_memfs();
	start_memfs();
	fd = open(TREE "/g", O_RDONLY);
	CHECK_EQUAL(4, read(fd, buf, sizeof(buf)));
	CHECK(!memcmp(buf, "left", 4));
	close(fd);
	close(dir);
	CHECK_EQUAL(0, unlink(TREE "/g"));
}

/* -- under fire -- */

static struct { int stop; unsigned long rounds, errors; } *shared;

/* The call again until there is a server. What it did the first time nobody knows: so ENOENT or EEXIST may come for success. */
#define PERSIST(call)								\
	({									\
		long r_;							\
		while ((r_ = (call)) < 0 && errno == EIO) {			\
			__atomic_add_fetch(&shared->errors, 1, __ATOMIC_RELAXED); \
			usleep(1000);						\
		}								\
		r_;								\
	})

static int exists(const char *name)
{
	struct stat st;
	long r = PERSIST(stat(name, &st));

	MUST(r == 0 || errno == ENOENT);
	return r == 0;
}

static void one_round(unsigned int n)
{
	char a[32], b[32], text[64], buf[64];

	snprintf(a, sizeof(a), TREE "/a%u", n % 7);
	snprintf(b, sizeof(b), TREE "/b%u", n % 5);
	int size = snprintf(text, sizeof(text), "round %u, and that it is", n);
	int fd = (int)PERSIST(open(a, O_RDWR | O_CREAT | O_TRUNC, 0644));

	MUST(fd >= 0);
	CHECK_EQUAL(size, PERSIST(pwrite(fd, text, (size_t)size, 5000)));
	CHECK_EQUAL(0, PERSIST(fsync(fd)));
	close(fd);
	long r = PERSIST(rename(a, b));

	CHECK(r == 0 || errno == ENOENT);		/* it had happened */
	CHECK(!exists(a));
	MUST(exists(b));
	fd = (int)PERSIST(open(b, O_RDONLY));
	MUST(fd >= 0);
	memset(buf, 0, sizeof(buf));
	CHECK_EQUAL(size, PERSIST(pread(fd, buf, sizeof(buf), 5000)));
	CHECK(!strcmp(buf, text));
	close(fd);
	if (n % 3 == 0) {
		r = PERSIST(unlink(b));
		CHECK(r == 0 || errno == ENOENT);
		CHECK(!exists(b));
	}
	snprintf(a, sizeof(a), TREE "/d%u", n % 3);
	r = PERSIST(mkdir(a, 0755));
	CHECK(r == 0 || errno == EEXIST);
	CHECK(exists(a));
	r = PERSIST(rmdir(a));
	CHECK(r == 0 || errno == ENOENT);
}

/* A program that writes through a mapping only: what it has written is there in the end, however often the server died. */
static void mapper(void)
{
	int fd = (int)PERSIST(open(TREE "/map", O_RDWR | O_CREAT, 0644));
	unsigned long *p;

	MUST(fd >= 0 && PERSIST(ftruncate(fd, 4 * PAGE)) == 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(p != MAP_FAILED);
	for (int i = 0; i < 4; i++)
		while (is_bus_error((char *)p + i * PAGE, 0))
			usleep(1000);			/* mapped pages stay */
	for (unsigned long n = 1; !__atomic_load_n(&shared->stop, __ATOMIC_RELAXED); n++) {
		for (int i = 0; i < 4; i++)
			p[i * PAGE / 8] = n;
		(void)!msync(p, 4 * PAGE, n % 2 ? MS_SYNC : MS_ASYNC);
	}
	unsigned long last = p[0];

	CHECK_EQUAL(0, PERSIST(msync(p, 4 * PAGE, MS_SYNC)));
	munmap(p, 4 * PAGE);
	drop_pages(fd);
	for (int i = 0; i < 4; i++) {
		unsigned long v = 0;

		CHECK_EQUAL(8, PERSIST(pread(fd, &v, 8, i * (off_t)PAGE)));
		CHECK_EQUAL(last, v);
	}
	close(fd);
}

static pid_t run(void (*what)(void))
{
	fflush(stdout);
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0) {
		test_failures = 0;
		what();
		test_end();
	}
	return pid;
}

static void worker(void)
{
	for (unsigned int n = 0; !__atomic_load_n(&shared->stop, __ATOMIC_RELAXED); n++) {
		one_round(n);
		__atomic_add_fetch(&shared->rounds, 1, __ATOMIC_RELAXED);
	}
}

static void under_fire(void)
{
	pid_t pids[2] = { run(worker), run(mapper) };
	int status;

	for (int i = 0; i < KILLS; i++) {
		unsigned long at = __atomic_load_n(&shared->rounds, __ATOMIC_RELAXED);

		usleep((useconds_t)(rand() % 20000));
		kill_memfs();
		start_memfs();
		/* Not faster than the others can make use of it. */
		while (__atomic_load_n(&shared->rounds, __ATOMIC_RELAXED) == at && waitpid(-1, &status, WNOHANG) == 0)
			usleep(1000);
	}
	__atomic_store_n(&shared->stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++) {
		CHECK(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK_EQUAL(0, status);
	}
}

int main(void)
{
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(shared != MAP_FAILED);
	srand(1);
	mkdir(TREE, 0755);
	start_memfs();
	away_and_back();
	under_fire();
	CHECK(shared->rounds > 0);
	unmount_tree();
	printf("%d kills, %lu rounds, %lu times no server\n", KILLS, shared->rounds, shared->errors);
	test_end();
}
