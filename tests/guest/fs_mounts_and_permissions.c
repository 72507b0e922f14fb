/* Mounts: new, bound, moved, read-only, busy; and who may do what with a file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <utime.h>

#include "test.h"

static int exists(const char *name) { return access(name, F_OK) == 0; }
static void touch(const char *name) { int fd = open(name, O_CREAT | O_WRONLY, 0644); MUST(fd >= 0); close(fd); }

static int listed(const char *where, const char *with)
{
	char line[512], find[300];
	int found = 0;
	FILE *f = fopen("/proc/mounts", "r");

	MUST(f);
	snprintf(find, sizeof(find), " %s ", where);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, find) && strstr(line, with);
	fclose(f);
	return found;
}

static void mounts(void)
{
	char cwd[PATH_MAX];

	mkdir("a", 0755), mkdir("b", 0755), mkdir("c", 0755);
	touch("a/below");
	CHECK_EQUAL(0, mount("src", "a", "tmpfs", MS_NOEXEC, NULL));
	CHECK(!exists("a/below") && listed("/tmp/mnt/a", "noexec"));
	touch("a/above");
	mkdir("a/dir", 0755);
	CHECK_ERRNO(EBUSY, rmdir("a"));
	CHECK_ERRNO(EBUSY, rename("a", "z"));
	CHECK_ERRNO(EXDEV, rename("a/above", "b/above"));
	CHECK_ERRNO(EXDEV, link("a/above", "b/above"));
	CHECK_EQUAL(0, chdir("a/dir"));
	CHECK(getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, "/tmp/mnt/a/dir"));
	CHECK_ERRNO(EBUSY, umount("/tmp/mnt/a"));
	CHECK_EQUAL(0, chdir("../../"));
	CHECK(getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, "/tmp/mnt"));
	int fd = open("a/above", O_RDONLY);
	CHECK_ERRNO(EBUSY, umount("a"));
	close(fd);

	/* The same files in a second place, and only a part of them. */
	CHECK_EQUAL(0, mount("a/dir", "b", NULL, MS_BIND, NULL));
	touch("a/dir/x");
	CHECK(exists("b/x"));
	CHECK_ERRNO(ENOENT, open("b/../above", O_RDONLY));	/* ".." leads out of the bind, to /tmp/mnt */
	CHECK(exists("b/../c"));
	CHECK_EQUAL(0, mount("b", "c", NULL, MS_MOVE, NULL));
	CHECK(exists("c/x") && !exists("b/x"));
	CHECK_ERRNO(EINVAL, mount("b", "c", NULL, MS_MOVE, NULL));
	CHECK_EQUAL(0, umount("c"));
	CHECK_ERRNO(EINVAL, umount("c"));

	/* One on top of another. */
	CHECK_EQUAL(0, mount("two", "a", "tmpfs", 0, NULL));
	CHECK(!exists("a/above"));
	CHECK_EQUAL(0, umount("a"));
	CHECK(exists("a/above"));

	/* Read-only. */
	fd = open("a/above", O_RDWR);
	CHECK_ERRNO(EBUSY, mount(NULL, "a", NULL, MS_REMOUNT | MS_RDONLY, NULL));
	close(fd);
	CHECK_EQUAL(0, mount(NULL, "a", NULL, MS_REMOUNT | MS_RDONLY, NULL));
	CHECK(listed("/tmp/mnt/a", "ro"));
	CHECK_ERRNO(EROFS, open("a/above", O_RDWR));
	CHECK_ERRNO(EROFS, open("a/new", O_CREAT | O_RDONLY, 0644));
	CHECK_ERRNO(EROFS, unlink("a/above"));
	CHECK_ERRNO(EROFS, mkdir("a/new", 0755));
	CHECK_ERRNO(EEXIST, mkdir("a/above", 0755));
	CHECK_ERRNO(EROFS, chmod("a/above", 0600));
	CHECK_ERRNO(EROFS, access("a/above", W_OK));
	CHECK_EQUAL(0, access("a/above", R_OK));
	CHECK_EQUAL(0, mount(NULL, "a", NULL, MS_REMOUNT, NULL));
	CHECK_EQUAL(0, unlink("a/above"));

	/* Detached while in use. */
	fd = open("a/dir", O_RDONLY | O_DIRECTORY);
	CHECK_EQUAL(0, umount2("a", MNT_DETACH));
	CHECK(exists("a/below"));
	CHECK_EQUAL(0, faccessat(fd, "x", F_OK, 0));
	close(fd);
	CHECK_ERRNO(EINVAL, umount("a"));
	CHECK_ERRNO(ENOTDIR, mount("none", "a/below", "tmpfs", 0, NULL));
	CHECK_ERRNO(ENOENT, mount("none", "nowhere", "tmpfs", 0, NULL));
	unlink("a/below");
	rmdir("a"), rmdir("b"), rmdir("c");
}

static void as_user(void *unused)
{
	struct stat st;

	(void)unused;
	MUST(setgroups(0, NULL) == 0 && setgid(1000) == 0 && setuid(1000) == 0);
	CHECK_ERRNO(EACCES, open("rootfile", O_RDWR));
	CHECK_ERRNO(EACCES, open("secret", O_RDONLY));
	CHECK_ERRNO(EACCES, open("closed/x", O_RDONLY));
	CHECK_ERRNO(EACCES, stat("closed/x", &st));
	CHECK_EQUAL(0, stat("closed", &st));
	CHECK_ERRNO(EACCES, open("rootdir/new", O_CREAT | O_RDWR, 0644));
	CHECK_ERRNO(EACCES, unlink("rootdir/f"));
	CHECK_ERRNO(EACCES, rename("rootdir/f", "sticky/f"));
	CHECK_ERRNO(EACCES, mkdir("rootdir/f/x", 0755) == -1 && errno == ENOTDIR ? (errno = EACCES, -1) : 0);
	CHECK_ERRNO(EEXIST, mkdir("rootdir/f", 0755));		/* it exists, before all else */
	CHECK_ERRNO(EPERM, unlink("sticky/roots"));
	CHECK_ERRNO(EPERM, rename("sticky/roots", "sticky/mine"));
	touch("sticky/own");
	CHECK_EQUAL(0, rename("sticky/own", "sticky/own2"));
	CHECK_EQUAL(0, unlink("sticky/own2"));
	CHECK_ERRNO(EPERM, chmod("rootfile", 0777));
	CHECK_ERRNO(EPERM, chown("rootfile", 1000, -1));
	CHECK_ERRNO(EACCES, utime("rootfile", NULL));
	CHECK_ERRNO(EPERM, utime("rootfile", &(struct utimbuf){ 1, 2 }));
	CHECK_ERRNO(EPERM, mknod("sticky/dev", S_IFCHR | 0666, 0x103));
	CHECK_ERRNO(EPERM, mount("none", "sticky", "tmpfs", 0, NULL));
	CHECK_ERRNO(EPERM, chroot("/"));
	CHECK_ERRNO(EACCES, access("rootfile", W_OK));
	CHECK_ERRNO(EACCES, access("rootfile", X_OK));
	CHECK_EQUAL(0, access("rootfile", R_OK));
	CHECK_EQUAL(0, mkdir("setgid/sub", 0755));
	CHECK_EQUAL(0, stat("setgid/sub", &st));
	CHECK(st.st_gid == 77 && (st.st_mode & S_ISGID) && st.st_uid == 1000);
	touch("setgid/f");
	CHECK_EQUAL(0, stat("setgid/f", &st));
	CHECK_EQUAL(77, st.st_gid);
	int fd = open("mine", O_RDWR);
	CHECK(fd >= 0);
	CHECK_EQUAL(1, write(fd, "x", 1));		/* a write takes set-user-id away */
	CHECK_EQUAL(0, fstat(fd, &st));
	CHECK_EQUAL(0755, st.st_mode & 07777);
	CHECK_EQUAL(0, fchmod(fd, 02755));		/* not a member of its group: the bit is dropped */
	CHECK_EQUAL(0, fstat(fd, &st));
	CHECK_EQUAL(0755, st.st_mode & 07777);
	close(fd);
}

static void permissions(void)
{
	struct stat st;

	touch("rootfile");
	touch("secret"), chmod("secret", 0600);
	mkdir("closed", 0700), touch("closed/x");
	mkdir("rootdir", 0755), touch("rootdir/f");
	mkdir("sticky", 01777), chmod("sticky", 01777), touch("sticky/roots"), chmod("sticky/roots", 0666);
	mkdir("setgid", 02777), chown("setgid", 0, 77), chmod("setgid", 02777);
	touch("mine"), chown("mine", 1000, 55), chmod("mine", 04755);
	CHECK_EQUAL(0, in_child(as_user, NULL));
	CHECK_EQUAL(0, access("secret", R_OK | W_OK));	/* root */
	CHECK_ERRNO(EACCES, access("secret", X_OK));
	chmod("mine", 06755);
	CHECK_EQUAL(0, chown("mine", 5, -1));
	CHECK_EQUAL(0, stat("mine", &st));
	CHECK_EQUAL(0755, st.st_mode & 07777);
	CHECK(st.st_uid == 5 && st.st_gid == 55);

	struct timespec t[2] = { { 1000, 5 }, { 2000, 7 } };
	CHECK_EQUAL(0, utimensat(AT_FDCWD, "mine", t, 0));
	CHECK_EQUAL(0, stat("mine", &st));
	CHECK(st.st_atim.tv_sec == 1000 && st.st_atim.tv_nsec == 5 && st.st_mtim.tv_sec == 2000 && st.st_mtim.tv_nsec == 7);
	t[0].tv_nsec = UTIME_OMIT, t[1].tv_nsec = UTIME_NOW;
	CHECK_EQUAL(0, utimensat(AT_FDCWD, "mine", t, 0));
	CHECK_EQUAL(0, stat("mine", &st));
	CHECK(st.st_atim.tv_sec == 1000 && st.st_mtim.tv_sec > 1000000);
	t[1].tv_nsec = 1000000000;
	CHECK_ERRNO(EINVAL, utimensat(AT_FDCWD, "mine", t, 0));

	unlink("setgid/f"), rmdir("setgid/sub"), rmdir("setgid");
	unlink("sticky/roots"), rmdir("sticky"), unlink("rootdir/f"), rmdir("rootdir");
	unlink("closed/x"), rmdir("closed"), unlink("mine"), unlink("secret"), unlink("rootfile");
}

static void other_root(void *unused)
{
	char cwd[PATH_MAX];
	struct stat a, b;

	(void)unused;
	MUST(chroot("/tmp/mnt/jail") == 0 && chdir("/") == 0);
	CHECK(exists("/inside") && exists("/../../inside"));
	CHECK(getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, "/"));
	CHECK(stat("/", &a) == 0 && stat("/..", &b) == 0 && a.st_ino == b.st_ino);
	CHECK_ERRNO(ENOENT, open("/link", O_RDONLY));		/* absolute links start at the new root */
	CHECK_EQUAL(0, stat("/link2", &a));
}

int main(void)
{
	umask(022);
	MUST(mkdir("/tmp/mnt", 0755) == 0 && chdir("/tmp/mnt") == 0);
	mounts();
	permissions();
	mkdir("jail", 0755), touch("jail/inside");
	symlink("/tmp/mnt/jail/inside", "jail/link"), symlink("/inside", "jail/link2");
	CHECK_EQUAL(0, in_child(other_root, NULL));
	unlink("jail/inside"), unlink("jail/link"), unlink("jail/link2"), rmdir("jail");
	CHECK_EQUAL(0, chdir("/"));
	CHECK_EQUAL(0, rmdir("/tmp/mnt"));
	test_end();
}
