/*
 * A tree of files that a ring-3 server provides: what the calls do and which errors they give. On Linux the same program runs on
 * tmpfs. (memfs has no links and no special files; that is asked last.)
 */
#include "memfs_test.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0);
	CHECK_EQUAL(strlen(text), write(fd, text, strlen(text)));
	close(fd);
}

static int holds(const char *path, const char *text)
{
	char buf[256] = "";
	int fd = open(path, O_RDONLY);
	ssize_t n = fd >= 0 ? read(fd, buf, sizeof(buf) - 1) : -1;

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text) && !memcmp(buf, text, (size_t)n);
}

static void data(void)
{
	char buf[3 * PAGE];
	struct stat st;
	int fd = open("f", O_RDWR | O_CREAT | O_EXCL, 0640);

	CHECK(fd >= 0);
	CHECK_ERRNO(EEXIST, open("f", O_RDWR | O_CREAT | O_EXCL, 0640));
	CHECK_EQUAL(5, write(fd, "hello", 5));
	CHECK_EQUAL(3, pwrite(fd, "end", 3, 2 * PAGE + 100));
	CHECK(fstat(fd, &st) == 0);
	CHECK_EQUAL(2 * PAGE + 103, st.st_size);
	CHECK_EQUAL(0100640, st.st_mode);
	CHECK_EQUAL(1, st.st_nlink);
	CHECK_EQUAL(2 * PAGE + 103, pread(fd, buf, sizeof(buf), 0));
	CHECK(!memcmp(buf, "hello", 5) && !memcmp(buf + 2 * PAGE + 100, "end", 3));
	for (size_t i = 5; i < 2 * PAGE + 100; i++)
		if (buf[i]) {
			CHECK_EQUAL(0, buf[i]);
			break;
		}
	CHECK_EQUAL(0, fsync(fd));
	drop_pages(fd);
	memset(buf, 1, sizeof(buf));
	CHECK_EQUAL(2 * PAGE + 103, pread(fd, buf, sizeof(buf), 0));
	CHECK(!memcmp(buf, "hello", 5) && !buf[5] && !buf[PAGE] && !memcmp(buf + 2 * PAGE + 100, "end", 3));

	/* What was cut off does not come back. */
	CHECK_EQUAL(0, ftruncate(fd, 3));
	CHECK_EQUAL(3, pread(fd, buf, sizeof(buf), 0));
	CHECK_EQUAL(0, ftruncate(fd, PAGE));
	CHECK_EQUAL(PAGE, pread(fd, buf, sizeof(buf), 0));
	CHECK(!memcmp(buf, "hel\0\0\0", 6));
	CHECK_EQUAL(0, fdatasync(fd));
	drop_pages(fd);
	CHECK_EQUAL(PAGE, pread(fd, buf, sizeof(buf), 0));
	CHECK(!memcmp(buf, "hel\0\0\0", 6));
	close(fd);

	fd = open("f", O_WRONLY | O_APPEND);
	CHECK_EQUAL(4, write(fd, "tail", 4));
	CHECK(fstat(fd, &st) == 0);
	CHECK_EQUAL(PAGE + 4, st.st_size);
	CHECK_ERRNO(EBADF, read(fd, buf, 1));
	close(fd);
	fd = open("f", O_RDWR | O_TRUNC);
	CHECK(fstat(fd, &st) == 0);
	CHECK_EQUAL(0, st.st_size);
	CHECK_ERRNO(EINVAL, ftruncate(fd, -1));
	CHECK_EQUAL(0, read(fd, buf, 10));
	CHECK_EQUAL(1 << 20, lseek(fd, 1 << 20, SEEK_SET));
	CHECK_EQUAL(1, write(fd, "x", 1));
	CHECK_EQUAL((1 << 20) + 1, lseek(fd, 0, SEEK_END));

	struct pollfd p = { fd, POLLIN | POLLOUT, 0 };
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);

	CHECK_EQUAL(1, poll(&p, 1, 0));
	CHECK_EQUAL(POLLIN | POLLOUT, p.revents);
	CHECK_ERRNO(EPERM, epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	close(ep);
	close(fd);
	CHECK_EQUAL(0, unlink("f"));
	CHECK_ERRNO(ENOENT, open("f", O_RDONLY));
}

static void names(void)
{
	char name[300], cwd[PATH_MAX];
	struct stat st, up;

	CHECK_EQUAL(0, mkdir("d", 0755));
	CHECK_ERRNO(EEXIST, mkdir("d", 0755));
	CHECK_EQUAL(0, mkdir("d/e", 0700));
	put("d/e/f", "one");
	CHECK(stat("d", &st) == 0);
	CHECK_EQUAL(3, st.st_nlink);
	CHECK_ERRNO(ENOTEMPTY, rmdir("d"));
	CHECK_ERRNO(ENOTDIR, rmdir("d/e/f"));
	CHECK_ERRNO(EISDIR, unlink("d/e"));
	CHECK_ERRNO(ENOTDIR, open("d/e/f/g", O_RDONLY));
	CHECK_ERRNO(ENOENT, open("d/x/f", O_RDONLY));
	CHECK_ERRNO(EISDIR, open("d", O_RDWR));
	CHECK_ERRNO(ENOTDIR, open("d/e/f", O_RDONLY | O_DIRECTORY));

	/* rename: over a file, into itself, over a directory that is not empty, of different kinds */
	put("d/g", "two");
	CHECK_EQUAL(0, rename("d/g", "d/e/f"));
	CHECK(holds("d/e/f", "two"));
	CHECK_ERRNO(ENOENT, stat("d/g", &st));
	CHECK_ERRNO(EINVAL, rename("d", "d/e/d"));
	CHECK_EQUAL(0, mkdir("empty", 0755));
	CHECK_ERRNO(ENOTEMPTY, rename("empty", "d"));
	CHECK_ERRNO(EISDIR, rename("d/e/f", "empty"));
	CHECK_ERRNO(ENOTDIR, rename("empty", "d/e/f"));
	CHECK_EQUAL(0, rename("d/e", "empty"));
	CHECK(holds("empty/f", "two"));
	CHECK(stat("d", &st) == 0);
	CHECK_EQUAL(2, st.st_nlink);
	put("other", "three");
	CHECK_ERRNO(EEXIST, syscall(SYS_renameat2, AT_FDCWD, "other", AT_FDCWD, "empty/f", RENAME_NOREPLACE));
	CHECK_EQUAL(0, syscall(SYS_renameat2, AT_FDCWD, "other", AT_FDCWD, "empty/f", RENAME_EXCHANGE));
	CHECK(holds("empty/f", "three") && holds("other", "two"));
	CHECK_ERRNO(ENOENT, syscall(SYS_renameat2, AT_FDCWD, "other", AT_FDCWD, "none", RENAME_EXCHANGE));

	/* A working directory goes along. */
	CHECK_EQUAL(0, mkdir("d/deep", 0755));
	CHECK_EQUAL(0, chdir("d/deep"));
	CHECK_EQUAL(0, rename(TREE "/d/deep", TREE "/empty/deep"));
	CHECK(getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, TREE "/empty/deep"));
	CHECK(stat("..", &up) == 0 && stat(TREE "/empty", &st) == 0);
	CHECK_EQUAL(st.st_ino, up.st_ino);
	CHECK(holds("../f", "three"));
	CHECK_EQUAL(0, rmdir(TREE "/empty/deep"));
	CHECK_ERRNO(ENOENT, open("new", O_CREAT | O_WRONLY, 0644));
	CHECK_ERRNO(ENOENT, (long)getcwd(cwd, sizeof(cwd)) ? 0 : -1);
	CHECK_EQUAL(0, chdir(TREE));

	/* A file that has lost its name is there as long as it is open. */
	int fd = open("other", O_RDWR);

	CHECK_EQUAL(0, unlink("other"));
	CHECK(fstat(fd, &st) == 0);
	CHECK_EQUAL(0, st.st_nlink);
	CHECK_EQUAL(3, pwrite(fd, "TWO", 3, 0));
	CHECK_EQUAL(0, fsync(fd));
	drop_pages(fd);
	CHECK_EQUAL(3, pread(fd, name, 10, 0));
	CHECK(!memcmp(name, "TWO", 3));
	close(fd);

	memset(name, 'n', sizeof(name));
	name[255] = 0;
	put(name, "long");
	CHECK(holds(name, "long"));
	CHECK_EQUAL(0, unlink(name));
	name[255] = 'n';
	name[256] = 0;
	CHECK_ERRNO(ENAMETOOLONG, open(name, O_CREAT | O_WRONLY, 0644));
	CHECK_EQUAL(0, unlink("empty/f"));
	CHECK_EQUAL(0, rmdir("empty"));
	CHECK_EQUAL(0, rmdir("d"));
	CHECK_ERRNO(ENOENT, rmdir("d"));
}

/* Each name once, with its type and its inode number, also when a scan is interrupted by removals. */
static void directories(void)
{
	char name[32];
	int seen[300] = { 0 }, dots = 0, fd = 0;
	struct dirent *e;
	struct stat st;

	CHECK_EQUAL(0, mkdir("many", 0755));
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		if (i % 3) {
			fd = open(name, O_CREAT | O_WRONLY, 0644);
			close(fd);
		}
		CHECK(i % 3 ? fd >= 0 : mkdir(name, 0755) == 0);
	}
	DIR *d = opendir("many");

	CHECK(d != NULL);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.') {
			dots++;
			continue;
		}
		int i = atoi(e->d_name);

		CHECK(i >= 0 && i < 300 && !seen[i]++);
		CHECK_EQUAL(i % 3 ? DT_REG : DT_DIR, e->d_type);
		snprintf(name, sizeof(name), "many/%d", i);
		CHECK(stat(name, &st) == 0);
		CHECK_EQUAL(e->d_ino, st.st_ino);
		CHECK_EQUAL(0, i % 3 ? unlink(name) : rmdir(name));
	}
	closedir(d);
	CHECK_EQUAL(2, dots);
	for (int i = 0; i < 300; i++)
		CHECK_EQUAL(1, seen[i]);
	CHECK_EQUAL(0, rmdir("many"));
}

static void attributes(void)
{
	struct timeval tv[2] = { { 1000, 0 }, { 2000000000, 5000 } };
	struct stat st;
	int status;

	put("a", "text");
	CHECK_EQUAL(0, chmod("a", 0604));
	CHECK_EQUAL(0, chown("a", 12, 34));
	CHECK_EQUAL(0, utimes("a", tv));
	CHECK(stat("a", &st) == 0);		/* by now the inode was let go of: this comes from the server */
	CHECK_EQUAL(0100604, st.st_mode);
	CHECK_EQUAL(12, st.st_uid);
	CHECK_EQUAL(34, st.st_gid);
	CHECK_EQUAL(2000000000, st.st_mtim.tv_sec);
	CHECK_EQUAL(5000000, st.st_mtim.tv_nsec);
	CHECK_EQUAL(0, mkdir("closed", 0700));
	put("closed/in", "x");

	fflush(stdout);
	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0) {
		MUST(setgid(77) == 0 && setuid(77) == 0);
		CHECK(holds("a", "text"));
		CHECK_ERRNO(EACCES, open("a", O_WRONLY));
		CHECK_ERRNO(EACCES, open("closed/in", O_RDONLY));
		CHECK_ERRNO(EACCES, open("new", O_WRONLY | O_CREAT, 0644));
		CHECK_ERRNO(EACCES, unlink("a"));
		CHECK_ERRNO(EPERM, chmod("a", 0777));
		test_end();
	}
	MUST(waitpid(child, &status, 0) == child);
	CHECK_EQUAL(0, status);
	CHECK_EQUAL(0, unlink("a"));
	CHECK_EQUAL(0, unlink("closed/in"));
	CHECK_EQUAL(0, rmdir("closed"));
}

/* Mounts inside the tree, and what is not there. */
static void odds(void)
{
	CHECK_EQUAL(0, mkdir("m", 0755));
	CHECK_EQUAL(0, mount("none", TREE "/m", "tmpfs", 0, NULL));
	put("m/inside", "mounted");
	CHECK(holds(TREE "/m/inside", "mounted"));
	CHECK_ERRNO(EBUSY, rmdir("m"));
	CHECK_ERRNO(EBUSY, rename("m", "n"));
	CHECK_EQUAL(0, umount(TREE "/m"));
	CHECK_EQUAL(0, rmdir("m"));
	if (!memfs)
		return;
	put("f", "f");
	CHECK_ERRNO(EPERM, link("f", "g"));
	CHECK_ERRNO(EPERM, symlink("f", "g"));
	CHECK_ERRNO(EPERM, mkfifo("g", 0644));
	CHECK_ERRNO(EOPNOTSUPP, open(TREE, O_TMPFILE | O_RDWR, 0600));
	CHECK_ERRNO(EINVAL, mount(NULL, TREE, NULL, MS_REMOUNT, "fd=0"));	/* no port */
	CHECK_ERRNO(EINVAL, mount("none", TREE, "server", 0, NULL));
	CHECK_ERRNO(EBADF, mount("none", TREE, "server", 0, "fd=999"));
	CHECK_ERRNO(EINVAL, mount("none", TREE, "server", 0, "fd=0"));
	CHECK_ERRNO(EINVAL, mount("none", TREE, "server", 0, "fd=-1"));
	CHECK_EQUAL(0, unlink("f"));
}

int main(void)
{
	umask(022);
	mount_tree();
	MUST(chdir(TREE) == 0);
	data();
	names();
	directories();
	attributes();
	odds();
	MUST(chdir("/") == 0);
	unmount_tree();
	test_end();
}
