/*
 * Files of a ring-3 server, mapped: shared and private mappings, read and write show one file; pages come from the server when they are
 * touched, and go back to it. On Linux the same program runs on tmpfs.
 */
#include "memfs_test.h"

#define PAGES	8

static char *map(int fd, int prot, int flags)
{
	char *p = mmap(NULL, PAGES * PAGE, prot, flags, fd, 0);

	MUST(p != MAP_FAILED);
	return p;
}

static void one_file(int fd)
{
	char *shared = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED), *private = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE), buf[8];
	int status;

	CHECK(is_bus_error(shared, 0));			/* still empty */
	CHECK_EQUAL(0, ftruncate(fd, PAGES * PAGE));
	for (int i = 0; i < PAGES; i++)
		CHECK_EQUAL(0, shared[i * PAGE]);
	memcpy(shared + 2 * PAGE, "mapped", 6);
	CHECK_EQUAL(6, pread(fd, buf, 6, 2 * PAGE));
	CHECK(!memcmp(buf, "mapped", 6));
	CHECK(!memcmp(private + 2 * PAGE, "mapped", 6));
	CHECK_EQUAL(5, pwrite(fd, "calls", 5, 3 * PAGE));
	CHECK(!memcmp(shared + 3 * PAGE, "calls", 5) && !memcmp(private + 3 * PAGE, "calls", 5));
	memcpy(private + 4 * PAGE, "mine", 4);
	CHECK_EQUAL(0, shared[4 * PAGE]);
	memcpy(shared + 4 * PAGE, "ours", 4);
	CHECK(!memcmp(private + 4 * PAGE, "mine", 4));

	fflush(stdout);
	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0) {
		memcpy(shared + 5 * PAGE, "child", 5);
		memcpy(private + 5 * PAGE, "other", 5);
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child && status == 0);
	CHECK(!memcmp(shared + 5 * PAGE, "child", 5) && !memcmp(private + 5 * PAGE, "child", 5));

	/* To the server and back. */
	CHECK_EQUAL(0, msync(shared, PAGES * PAGE, MS_SYNC));
	munmap(shared, PAGES * PAGE);
	drop_pages(fd);
	shared = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	CHECK(!memcmp(shared + 2 * PAGE, "mapped", 6) && !memcmp(shared + 3 * PAGE, "calls", 5));
	CHECK(!memcmp(shared + 4 * PAGE, "ours", 4) && !memcmp(shared + 5 * PAGE, "child", 5));
	CHECK(!memcmp(private + 4 * PAGE, "mine", 4));

	/* Cut: what lies behind the end is gone from all mappings, private copies too, and does not come back. */
	memset(shared + 6 * PAGE, 'x', PAGE);
	memset(private + 6 * PAGE, 'y', PAGE);
	CHECK_EQUAL(0, ftruncate(fd, 6 * PAGE + 100));
	CHECK(is_bus_error(shared + 7 * PAGE, 0) && is_bus_error(private + 7 * PAGE, 1));
	CHECK_EQUAL('x', shared[6 * PAGE + 99]);
	CHECK_EQUAL(0, shared[6 * PAGE + 100]);
	CHECK_EQUAL(0, ftruncate(fd, PAGES * PAGE));
	CHECK_EQUAL(0, shared[7 * PAGE]);
	CHECK_EQUAL(0, fsync(fd));
	munmap(shared, PAGES * PAGE);
	munmap(private, PAGES * PAGE);
	drop_pages(fd);
	CHECK_EQUAL(1, pread(fd, buf, 1, 6 * PAGE + 99));
	CHECK_EQUAL('x', buf[0]);
}

/* The last reference is the mapping's; what it wrote arrives all the same. */
static void only_a_mapping(void)
{
	int fd = open("left", O_RDWR | O_CREAT, 0644);
	char buf[5] = "";

	MUST(fd >= 0 && ftruncate(fd, PAGE) == 0);
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	MUST(p != MAP_FAILED);
	close(fd);
	memcpy(p, "late", 4);
	munmap(p, PAGE);
	fd = open(TREE, O_RDONLY);
	CHECK_EQUAL(0, syscall(SYS_syncfs, fd));
	close(fd);
	fd = open("left", O_RDONLY);
	drop_pages(fd);
	CHECK_EQUAL(4, read(fd, buf, 4));
	CHECK(!memcmp(buf, "late", 4));
	close(fd);
	unlink("left");
}

/* A program runs from there: its text is paged in by the server. */
static void a_program(void)
{
	char buf[8192];
	int from = open("/proc/self/exe", O_RDONLY), to = open("program", O_WRONLY | O_CREAT, 0755), status;
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) > 0)
		CHECK_EQUAL(n, write(to, buf, (size_t)n));
	CHECK_EQUAL(0, fsync(to));
	drop_pages(to);
	close(from);
	close(to);

	fflush(stdout);
	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0) {
		execl(TREE "/program", "program", "7", (char *)NULL);
		_exit(1);
	}
	MUST(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	unlink("program");
}

int main(int argc, char **argv)
{
	if (argc == 2)
		return atoi(argv[1]);
	mount_tree();
	MUST(chdir(TREE) == 0);
	int fd = open("f", O_RDWR | O_CREAT, 0644);

	MUST(fd >= 0);
	one_file(fd);
	CHECK_EQUAL(0, unlink("f"));
	CHECK_EQUAL(0, ftruncate(fd, 0));
	one_file(fd);			/* without a name it works as well */
	close(fd);
	only_a_mapping();
	a_program();
	MUST(chdir("/") == 0);
	unmount_tree();
	test_end();
}
