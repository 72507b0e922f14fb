/*
 * Every file operation with its first, second, third ... allocation failing: an error that says so, nothing half done, and no
 * kernel memory missing at the end.
 * only: faultline
 * build: debug
 * cpus: 1
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "alloc_fail.h"
#include "test.h"

static int made(int result)
{
	if (result >= 0)
		return 1;
	CHECK(errno == ENOMEM || errno == ENOSPC || errno == ENFILE || errno == ENOLCK || errno == EFAULT);
	return 0;
}

static int open_new(void) { int fd = open("/tmp/x/f", O_CREAT | O_RDWR, 0644); if (fd >= 0) close(fd); return fd; }
static void undo_file(void) { unlink("/tmp/x/f"); }
static int make_dir(void) { return mkdir("/tmp/x/d", 0755); }
static void undo_dir(void) { rmdir("/tmp/x/d"); }
static int make_link(void) { return symlink("some/where/else", "/tmp/x/l"); }
static void undo_link(void) { unlink("/tmp/x/l"); }
static int make_hard(void) { return link("/tmp/x/keep", "/tmp/x/hard"); }
static void undo_hard(void) { unlink("/tmp/x/hard"); }
static int walk_link(void) { struct stat st; return stat("/tmp/x/to/../x/to/../x/keep", &st); }
static int do_rename(void) { return rename("/tmp/x/keep", "/tmp/x/other"); }
static void undo_rename(void) { rename("/tmp/x/other", "/tmp/x/keep"); }
static int do_exchange(void) { return syscall(SYS_renameat2, AT_FDCWD, "/tmp/x/keep", AT_FDCWD, "/tmp/x/dir", 2); }
static void undo_exchange(void)
{
	struct stat st;

	if (stat("/tmp/x/keep", &st) == 0 && S_ISDIR(st.st_mode))
		do_exchange();
}
static int do_tmpfile(void) { int fd = open("/tmp/x", O_TMPFILE | O_RDWR, 0600); if (fd >= 0) close(fd); return fd; }
static int do_memfd(void)
{
	int fd = memfd_create("m", 0), n = 0;

	if (fd >= 0) {
		n = write(fd, "0123456789", 10) == 10 ? 0 : -1;
		close(fd);
		return n;
	}
	return fd;
}
static int do_mount(void) { return mount("none", "/tmp/x/dir", "tmpfs", 0, "size=1M,mode=700"); }
static int do_bind(void) { return mount("/tmp", "/tmp/x/dir", NULL, MS_BIND | MS_REC, NULL); }
static void undo_mount(void) { umount("/tmp/x/dir"); }
static int do_pipe(void) { int p[2], r = pipe(p); if (r == 0) close(p[0]), close(p[1]); return r; }
static int do_dup_far(void) { int fd = fcntl(0, F_DUPFD, 600); if (fd >= 0) close(fd); return fd; }
static int do_lock(void)
{
	int fd = open("/tmp/x/keep", O_RDWR), r = fd;

	if (fd >= 0) {
		struct flock l = { .l_type = F_WRLCK, .l_len = 10 };
		r = fcntl(fd, F_SETLK, &l);
		l = (struct flock){ .l_type = F_UNLCK, .l_start = 3, .l_len = 3 };
		if (r == 0)
			r = fcntl(fd, F_SETLK, &l);
		if (r == 0)
			r = flock(fd, LOCK_EX);
		int saved = errno;
		close(fd);
		errno = saved;
	}
	return r;
}
static int do_proc(void)
{
	char buf[256];
	int fd = open("/proc/self/mounts", O_RDONLY), r = fd;

	if (fd >= 0) {
		r = read(fd, buf, sizeof(buf)) >= 0 ? 0 : -1;
		int saved = errno;
		close(fd);
		errno = saved;
	}
	return r;
}
static int do_getcwd(void) { char buf[256]; return syscall(SYS_getcwd, buf, sizeof(buf)); }
static int do_write(void)
{
	static char data[8 * 4096];
	int fd = open("/tmp/x/keep", O_RDWR | O_TRUNC), r = fd;

	if (fd >= 0) {
		ssize_t n = write(fd, data, sizeof(data));
		r = n > 0 ? 0 : -1;
		int saved = errno;
		if (n < (ssize_t)sizeof(data) && n > 0)
			saved = ENOSPC, r = -1;
		ftruncate(fd, 0);
		close(fd);
		errno = saved;
	}
	return r;
}
static int do_fallocate(void)
{
	int fd = open("/tmp/x/keep", O_RDWR), r = fd;

	if (fd >= 0) {
		r = fallocate(fd, 0, 0, 20 * 4096);
		int saved = errno;
		ftruncate(fd, 0);
		close(fd);
		errno = saved;
	}
	return r;
}

static const struct { const char *name; int (*do_it)(void); void (*undo)(void); } steps[] = {
	{ "create", open_new, undo_file }, { "mkdir", make_dir, undo_dir }, { "symlink", make_link, undo_link },
	{ "link", make_hard, undo_hard }, { "walk", walk_link, NULL }, { "rename", do_rename, undo_rename },
	{ "exchange", do_exchange, undo_exchange }, { "tmpfile", do_tmpfile, NULL }, { "memfd", do_memfd, NULL },
	{ "mount", do_mount, undo_mount }, { "bind", do_bind, undo_mount }, { "pipe", do_pipe, NULL }, { "dup", do_dup_far, NULL },
	{ "lock", do_lock, NULL }, { "proc", do_proc, NULL }, { "getcwd", do_getcwd, NULL }, { "write", do_write, NULL },
	{ "fallocate", do_fallocate, NULL },
};

static void all_steps(void)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int n;

		for (n = 1; n <= 60; n++) {
			fail_at(n);
			int result = steps[i].do_it(), saved = errno;
			fail_at(0);
			errno = saved;
			int ok = made(result);

			if (steps[i].undo)
				steps[i].undo();
			if (ok && n > 12)
				break;
		}
		if (n > 60) {
			printf("%s: still fails at the 60th allocation\n", steps[i].name);
			test_failures++;
		}
	}
}

int main(void)
{
	long frames, slab, frames_after, slab_after;

	alloc_fail_open();
	MUST(mkdir("/tmp/x", 0755) == 0 && mkdir("/tmp/x/dir", 0755) == 0 && symlink("/tmp/x", "/tmp/x/to") == 0);
	close(open("/tmp/x/keep", O_CREAT | O_RDWR, 0644));
	all_steps();
	usage(&frames, &slab);
	usage(&frames, &slab);
	for (int i = 0; i < 12; i++)
		all_steps();
	usage(&frames_after, &slab_after);
	printf("frames %ld -> %ld, slab %ld -> %ld\n", frames, frames_after, slab, slab_after);
	/* The same objects may lie in one slab more; one object lost per round would be more than that. */
	CHECK(frames_after - frames <= 3);
	MUST(system("rm -rf /tmp/x") == 0);
	test_end();
}
