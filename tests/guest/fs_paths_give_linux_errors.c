/* Path walk and the calls that make, remove and rename names: results, errors and their order are Linux's. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "test.h"

static int touch(const char *name)
{
	int fd = open(name, O_CREAT | O_WRONLY, 0644);

	MUST(fd >= 0);
	return close(fd);
}

static int renameat2_(const char *a, const char *b, unsigned flags) { return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, flags); }
static int exists(const char *name) { struct stat st; return lstat(name, &st) == 0; }
static int nlinks(const char *name) { struct stat st; MUST(lstat(name, &st) == 0); return (int)st.st_nlink; }

static void lengths(void)
{
	char *path = malloc(10001), name[300];
	struct stat st;

	memset(path, 'a', 10000);
	path[10000] = 0;
	CHECK_ERRNO(ENAMETOOLONG, open(path, O_RDONLY));
	CHECK_ERRNO(ENAMETOOLONG, mkdir(path, 0755));
	for (int i = 0; i < 10000; i += 2)
		path[i] = '/', path[i + 1] = '.';
	CHECK_ERRNO(ENAMETOOLONG, stat(path, &st));
	path[4095] = 0;			/* the longest: 4095 and the NUL */
	CHECK_EQUAL(0, stat(path, &st));
	memset(name, 'n', sizeof(name));
	name[256] = 0;
	CHECK_ERRNO(ENAMETOOLONG, open(name, O_CREAT | O_RDWR, 0600));
	CHECK_ERRNO(ENAMETOOLONG, unlink(name));
	name[255] = 0;
	CHECK_EQUAL(0, touch(name));
	CHECK_EQUAL(0, unlink(name));
	CHECK_ERRNO(ENOENT, open("", O_RDONLY));
	CHECK_ERRNO(ENOENT, mkdir("", 0755));
	CHECK_ERRNO(ENOENT, unlink(""));
	CHECK_ERRNO(ENOENT, rename("", "x"));
	CHECK_ERRNO(EFAULT, open((char *)8, O_RDONLY));
	free(path);
}

static void slashes(void)
{
	struct stat st;

	touch("file");
	CHECK_EQUAL(0, mkdir("dir/", 0755));
	CHECK_ERRNO(ENOTDIR, stat("file/", &st));
	CHECK_ERRNO(ENOTDIR, open("file/", O_RDONLY));
	CHECK_ERRNO(ENOTDIR, stat("file/x", &st));
	CHECK_ERRNO(ENOTDIR, unlink("file/"));
	CHECK_ERRNO(EISDIR, open("new/", O_CREAT | O_RDWR, 0644));
	CHECK_ERRNO(ENOENT, symlink("file", "new/"));
	CHECK_ERRNO(ENOENT, link("file", "new/"));
	CHECK_ERRNO(ENOENT, mknod("new/", S_IFREG | 0644, 0));
	CHECK_ERRNO(EEXIST, mkdir("file/", 0755));
	CHECK_ERRNO(EEXIST, mkdir("dir/.", 0755));
	CHECK_ERRNO(EEXIST, mkdir("/", 0755));
	CHECK_ERRNO(ENOTDIR, rename("file/", "f2"));
	CHECK_ERRNO(ENOTDIR, rename("file", "f2/"));
	CHECK_EQUAL(0, rename("dir/", "dir2/"));
	CHECK_EQUAL(0, rmdir("dir2/"));
	CHECK_EQUAL(0, stat("//./..//", &st));
	CHECK_EQUAL(0, unlink("file"));
}

static void making_and_removing(void)
{
	int fd;

	CHECK_EQUAL(0, mkdir("d", 0755));
	CHECK_EQUAL(2, nlinks("d"));
	CHECK_EQUAL(0, mkdir("d/e", 0755));
	CHECK_EQUAL(3, nlinks("d"));
	CHECK_ERRNO(EEXIST, mkdir("d/e", 0755));
	CHECK_ERRNO(ENOENT, mkdir("none/e", 0755));
	CHECK_ERRNO(ENOTEMPTY, rmdir("d"));
	CHECK_ERRNO(ENOTEMPTY, rmdir("d/e/.."));
	CHECK_ERRNO(EINVAL, rmdir("d/e/."));
	CHECK_ERRNO(EBUSY, rmdir("/"));
	CHECK_ERRNO(EISDIR, unlink("d"));
	CHECK_ERRNO(EISDIR, unlink("d/."));
	CHECK_ERRNO(ENOENT, rmdir("none"));
	touch("d/f");
	CHECK_ERRNO(ENOTDIR, rmdir("d/f"));
	CHECK_ERRNO(EEXIST, open("d/f", O_CREAT | O_EXCL | O_RDWR, 0644));
	CHECK_ERRNO(EEXIST, mknod("d/f", S_IFREG, 0));
	CHECK_ERRNO(EPERM, mknod("d/g", S_IFDIR | 0755, 0));
	CHECK_ERRNO(EINVAL, mknod("d/g", S_IFLNK | 0755, 0));
	CHECK_ERRNO(EPERM, link("d", "d2"));
	CHECK_EQUAL(0, link("d/f", "d/g"));
	CHECK_EQUAL(2, nlinks("d/g"));
	CHECK_ERRNO(EEXIST, link("d/f", "d/g"));
	CHECK_EQUAL(0, unlink("d/f"));
	CHECK_EQUAL(1, nlinks("d/g"));

	/* An open file outlives its name, but gets no new one. */
	fd = open("d/g", O_RDWR);
	CHECK_EQUAL(0, unlink("d/g"));
	CHECK_EQUAL(3, write(fd, "abc", 3));
	char proc[64];
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	CHECK_ERRNO(ENOENT, linkat(AT_FDCWD, proc, AT_FDCWD, "again", AT_SYMLINK_FOLLOW));
	char target[PATH_MAX] = "";
	CHECK(readlink(proc, target, sizeof(target) - 1) > 10 && strstr(target, "/d/g (deleted)"));
	close(fd);

	/* O_TMPFILE: no name, then one. */
	fd = open("d", O_TMPFILE | O_RDWR, 0600);
	CHECK(fd >= 0);
	CHECK_EQUAL(4, write(fd, "temp", 4));
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	CHECK_EQUAL(0, linkat(AT_FDCWD, proc, AT_FDCWD, "d/named", AT_SYMLINK_FOLLOW));
	CHECK_EQUAL(1, nlinks("d/named"));
	close(fd);
	CHECK_ERRNO(EINVAL, open("d", O_TMPFILE | O_RDONLY, 0600));
	CHECK_EQUAL(0, unlink("d/named"));
	CHECK_EQUAL(0, rmdir("d/e"));
	CHECK_EQUAL(0, rmdir("d"));
}

static void symlinks(void)
{
	char name[16], next[16], buf[64];
	struct stat st;

	CHECK_EQUAL(0, symlink("loop", "loop"));
	CHECK_ERRNO(ELOOP, open("loop", O_RDONLY));
	CHECK_ERRNO(ELOOP, stat("loop/x", &st));
	CHECK_EQUAL(0, lstat("loop", &st));
	CHECK(S_ISLNK(st.st_mode) && st.st_size == 4 && (st.st_mode & 07777) == 0777);
	CHECK_EQUAL(2, readlink("loop", buf, 2));
	CHECK_ERRNO(EINVAL, syscall(SYS_readlink, "loop", buf, 0));
	CHECK_ERRNO(EINVAL, readlink("/", buf, 2));
	unlink("loop");

	touch("l0");
	for (int i = 1; i <= 41; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		snprintf(next, sizeof(next), "l%d", i - 1);
		CHECK_EQUAL(0, symlink(next, name));
	}
	CHECK_EQUAL(0, stat("l40", &st));		/* 40 links are the most */
	CHECK_ERRNO(ELOOP, stat("l41", &st));
	for (int i = 0; i <= 41; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		unlink(name);
	}

	CHECK_EQUAL(0, symlink("target", "s"));		/* dangling */
	CHECK_ERRNO(ENOENT, open("s", O_RDONLY));
	CHECK_ERRNO(ELOOP, open("s", O_RDONLY | O_NOFOLLOW));
	CHECK_ERRNO(EEXIST, open("s", O_CREAT | O_EXCL | O_RDWR, 0644));
	int fd = open("s", O_CREAT | O_RDWR, 0644);	/* makes what it points to */
	CHECK(fd >= 0 && exists("target"));
	close(fd);
	CHECK_ERRNO(EEXIST, mkdir("s", 0755));
	CHECK_ERRNO(ENOTDIR, stat("s/", &st));
	fd = open("s", O_PATH | O_NOFOLLOW);
	CHECK(fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode));
	CHECK_EQUAL(6, readlinkat(fd, "", buf, sizeof(buf)));
	CHECK_ERRNO(EBADF, read(fd, buf, 1));
	CHECK_ERRNO(EBADF, syscall(SYS_fchmod, fd, 0600));
	close(fd);
	CHECK_EQUAL(0, unlink("target"));
	CHECK_EQUAL(0, mkdir("target", 0755));
	CHECK_ERRNO(ENOTDIR, open("s", O_DIRECTORY | O_NOFOLLOW));
	CHECK_EQUAL(0, stat("s/", &st));
	CHECK_ERRNO(ENOTDIR, rmdir("s"));
	CHECK_ERRNO(ENOTDIR, rmdir("s/"));
	CHECK_EQUAL(0, rmdir("target"));
	CHECK_EQUAL(0, unlink("s"));
}

static void open_flags(void)
{
	struct stat st;
	int fd;

	CHECK_EQUAL(0, mkdir("dd", 0755));
	CHECK_ERRNO(EISDIR, open("dd", O_RDWR));
	CHECK_ERRNO(EISDIR, open("dd", O_CREAT, 0644));
	CHECK_ERRNO(EISDIR, open("dd", O_TRUNC | O_RDONLY));
	CHECK_ERRNO(EEXIST, open("dd", O_CREAT | O_EXCL, 0644));
	CHECK_ERRNO(EISDIR, open("/", O_CREAT | O_RDWR, 0644));
	CHECK_ERRNO(EISDIR, open("dd/..", O_CREAT | O_RDWR, 0644));
	fd = open("dd", O_RDONLY | O_DIRECTORY);
	char c;
	CHECK_ERRNO(EISDIR, read(fd, &c, 1));
	CHECK_EQUAL(0, fstat(fd, &st));
	CHECK_EQUAL(4096, st.st_blksize);
	close(fd);
	rmdir("dd");
	touch("f");
	CHECK_ERRNO(ENOTDIR, open("f", O_DIRECTORY));
	CHECK_ERRNO(ENOTDIR, openat(fd = open("f", O_RDONLY), "x", O_RDONLY));
	CHECK_ERRNO(EBADF, openat(-5, "x", O_RDONLY));
	CHECK_EQUAL(0, fstatat(-5, "/", &st, 0));	/* an absolute name needs no directory */
	close(fd);
	umask(027);
	fd = open("m", O_CREAT | O_RDWR, 07777);
	CHECK_EQUAL(0, fstat(fd, &st));
	CHECK_EQUAL(07750, st.st_mode & 07777);
	umask(022);
	close(fd);
	unlink("f");
	unlink("m");
}

static void renames(void)
{
	struct stat a, b;

	touch("a");
	stat("a", &a);
	touch("b");
	CHECK_EQUAL(0, rename("a", "b"));
	CHECK_EQUAL(0, stat("b", &b));
	CHECK(a.st_ino == b.st_ino && !exists("a"));
	CHECK_EQUAL(0, rename("b", "b"));
	CHECK_EQUAL(0, link("b", "c"));
	CHECK_EQUAL(0, rename("b", "c"));	/* the same file: both stay */
	CHECK(exists("b") && exists("c"));
	CHECK_ERRNO(EEXIST, renameat2_("b", "c", 1));
	CHECK_EQUAL(0, unlink("c"));
	CHECK_EQUAL(0, renameat2_("b", "c", 1));
	CHECK_ERRNO(EINVAL, renameat2_("c", "b", 3));
	CHECK_ERRNO(EINVAL, renameat2_("c", "b", 8));
	CHECK_ERRNO(ENOENT, renameat2_("c", "b", 2));

	mkdir("d1", 0755), mkdir("d1/sub", 0755), mkdir("d2", 0755);
	CHECK_ERRNO(EINVAL, rename("d1", "d1/x"));
	CHECK_ERRNO(EINVAL, rename("d1", "d1/sub/x"));
	CHECK_ERRNO(ENOTEMPTY, rename("d1/sub", "d1"));
	CHECK_ERRNO(ENOTEMPTY, rename("d2", "d1"));
	CHECK_ERRNO(EISDIR, rename("c", "d2"));
	CHECK_ERRNO(ENOTDIR, rename("d2", "c"));
	CHECK_ERRNO(EBUSY, rename("d1/.", "x"));
	CHECK_ERRNO(EBUSY, rename("d1", "d2/.."));
	CHECK_EQUAL(0, rename("d1/sub", "d2/sub"));
	CHECK_EQUAL(2, nlinks("d1"));
	CHECK_EQUAL(3, nlinks("d2"));
	CHECK_EQUAL(0, rename("d2/sub", "d1"));		/* over an empty directory */
	CHECK_EQUAL(2, nlinks("d2"));
	mkdir("d1/in", 0755);
	CHECK_EQUAL(0, renameat2_("d1/in", "c", 2));	/* a directory and a file change places */
	stat("c", &a), stat("d1/in", &b);
	CHECK(S_ISDIR(a.st_mode) && S_ISREG(b.st_mode));
	CHECK_EQUAL(2, nlinks("d1"));
	unlink("d1/in"), rmdir("c"), rmdir("d1"), rmdir("d2");
}

static void removed_directory(void)
{
	char buf[PATH_MAX];
	struct stat st;

	CHECK_EQUAL(0, mkdir("gone", 0755));
	CHECK_EQUAL(0, chdir("gone"));
	CHECK_EQUAL(0, rmdir("../gone"));
	CHECK_ERRNO(ENOENT, open("x", O_CREAT | O_RDWR, 0644));
	CHECK_ERRNO(ENOENT, mkdir("x", 0755));
	CHECK_ERRNO(ENOENT, symlink("y", "x"));
	CHECK_ERRNO(ENOENT, syscall(SYS_getcwd, buf, sizeof(buf)));
	CHECK_EQUAL(0, stat(".", &st));
	CHECK_EQUAL(0, st.st_nlink);
	DIR *d = opendir(".");
	CHECK(d && readdir(d) == NULL);
	closedir(d);
	CHECK_EQUAL(0, chdir(".."));
	CHECK_ERRNO(ERANGE, syscall(SYS_getcwd, buf, 1));
}

static void special_files(void)
{
	struct stat st;

	CHECK_EQUAL(0, mknod("null", S_IFCHR | 0666, makedev(1, 3)));
	CHECK_EQUAL(0, stat("null", &st));
	CHECK(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
	int fd = open("null", O_RDWR);
	CHECK_EQUAL(5, write(fd, "12345", 5));
	CHECK_EQUAL(0, read(fd, &st, 5));
	close(fd);
	unlink("null");
	CHECK_EQUAL(0, mknod("none", S_IFCHR | 0666, makedev(250, 77)));
	CHECK_ERRNO(ENXIO, open("none", O_RDONLY));
	unlink("none");
	CHECK_EQUAL(0, mknod("sock", S_IFSOCK | 0666, 0));
	CHECK_ERRNO(ENXIO, open("sock", O_RDONLY));
	unlink("sock");
	fd = open("/dev/full", O_RDWR);
	CHECK_ERRNO(ENOSPC, write(fd, "x", 1));
	close(fd);
}

static void many_names(void)
{
	char name[300];
	int seen = 0;
	struct dirent *e;

	CHECK_EQUAL(0, mkdir("many", 0755));
	CHECK_EQUAL(0, chdir("many"));
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "name-%d", i);
		touch(name);
	}
	CHECK(exists("name-0") && exists("name-1499") && exists("name-2999") && !exists("name-3000"));
	/* Removing what is being read skips and repeats nothing. */
	DIR *d = opendir(".");
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		seen++;
		CHECK_EQUAL(DT_REG, e->d_type);
		CHECK_EQUAL(0, unlink(e->d_name));
	}
	CHECK_EQUAL(3000, seen);
	/* Renaming what is being read comes to an end. */
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		touch(name);
	}
	rewinddir(d);
	seen = 0;
	while ((e = readdir(d)) && seen < 10000) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "s%d", seen++);
		rename(e->d_name, name);
	}
	CHECK(seen >= 100 && seen < 10000);
	rewinddir(d);
	seen = 0;
	long at = 0;
	for (int i = 0; i < 50 && (e = readdir(d)); i++)
		at = telldir(d);
	e = readdir(d);
	snprintf(name, sizeof(name), "%s", e ? e->d_name : "?");
	while (readdir(d))
		;
	seekdir(d, at);
	e = readdir(d);
	CHECK(e && !strcmp(e->d_name, name));
	rewinddir(d);
	while ((e = readdir(d)))
		unlink(e->d_name);
	closedir(d);
	char small[20];
	int fd = open(".", O_RDONLY);
	CHECK_ERRNO(EINVAL, syscall(SYS_getdents64, fd, small, sizeof(small)));
	CHECK_EQUAL(0, chdir(".."));
	CHECK_EQUAL(0, rmdir("many"));
	CHECK_ERRNO(ENOENT, syscall(SYS_getdents64, fd, name, sizeof(name)));
	close(fd);
	fd = open("/dev/null", O_RDONLY);
	CHECK_ERRNO(ENOTDIR, syscall(SYS_getdents64, fd, name, sizeof(name)));
	close(fd);
}

int main(void)
{
	MUST(mkdir("/tmp/paths", 0755) == 0 && chdir("/tmp/paths") == 0);
	umask(022);
	lengths();
	slashes();
	making_and_removing();
	symlinks();
	open_flags();
	renames();
	removed_directory();
	special_files();
	many_names();
	CHECK_EQUAL(0, chdir("/"));
	CHECK_EQUAL(0, rmdir("/tmp/paths"));
	test_end();
}
