/*
 * only: faultline
 * build: debug
 * cpus: 1
 *
 * Every call on a server's tree of files with its first, second, third ... allocation failing: an error that says so, nothing half
 * done, and no kernel memory missing at the end.
 */
#include "alloc_fail.h"
#include "memfs_test.h"

#include "user/include/port.h"

static int keep;
static char *mapped;

static int close_told(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return fd;
}

static int do_create(void) { return close_told(open(TREE "/f", O_CREAT | O_EXCL | O_RDWR, 0644)); }
static void undo_create(void) { unlink(TREE "/f"); }
static int do_mkdir(void) { return mkdir(TREE "/new", 0755); }
static void undo_mkdir(void) { rmdir(TREE "/new"); }
static int do_walk(void) { struct stat st; return stat(TREE "/d/e/in", &st); }
static int do_rename(void) { return rename(TREE "/d/e/in", TREE "/d/out"); }
static void undo_rename(void) { rename(TREE "/d/out", TREE "/d/e/in"); }
static int do_exchange(void) { return (int)syscall(SYS_renameat2, AT_FDCWD, TREE "/d/e", AT_FDCWD, TREE "/keep", 2); }
static void undo_exchange(void)
{
	struct stat st;

	if (stat(TREE "/keep", &st) == 0 && S_ISDIR(st.st_mode))
		do_exchange();
}
static int do_list(void)
{
	char buf[512];
	int fd = open(TREE, O_RDONLY | O_DIRECTORY), r = fd;

	while (r > 0)
		r = (int)syscall(SYS_getdents64, fd, buf, sizeof(buf));
	close_told(fd);
	return r;
}
static int do_chmod(void) { return chmod(TREE "/keep", 0600); }
static int do_write(void)
{
	char data[2 * PAGE] = "data";
	ssize_t n = pwrite(keep, data, sizeof(data), 0);

	if (n >= 0 && n < (ssize_t)sizeof(data)) {
		errno = ENOMEM;
		return -1;
	}
	return n < 0 ? -1 : 0;
}
static int do_sync(void) { mapped[0]++; return fsync(keep); }
static int do_cut(void) { return ftruncate(keep, PAGE + 10); }
static void undo_cut(void) { CHECK_EQUAL(0, ftruncate(keep, 2 * PAGE)); }
static int do_read(void) { char c; CHECK_EQUAL(0, fsync(keep)); drop_pages(keep); return (int)pread(keep, &c, 1, PAGE); }
static int do_mount(void)
{
	char options[32];
	int p[2], r = (int)port_create(p, 0);

	if (r) {
		errno = -r;
		return -1;
	}
	sprintf(options, "fd=%d", p[0]);
	r = mount("none", "/tmp/other", "server", 0, options);
	close_told(p[0]);
	close_told(p[1]);
	return r;
}
static void undo_mount(void) { umount("/tmp/other"); }

static const struct { const char *name; int (*do_it)(void); void (*undo)(void); } steps[] = {
	{ "create", do_create, undo_create }, { "mkdir", do_mkdir, undo_mkdir }, { "walk", do_walk, NULL }, { "rename", do_rename, undo_rename },
	{ "exchange", do_exchange, undo_exchange }, { "list", do_list, NULL }, { "chmod", do_chmod, NULL }, { "write", do_write, NULL },
	{ "sync", do_sync, NULL }, { "cut", do_cut, undo_cut }, { "read", do_read, NULL }, { "mount", do_mount, undo_mount },
};

static void all_steps(void)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int n;

		for (n = 1; n <= 60; n++) {
			fail_at(n);
			int result = steps[i].do_it(), error = errno;

			fail_at(0);
			if (result < 0 && error != ENOMEM && error != ENFILE && error != ENOSPC && error != EIO) {	/* EIO: a page was not written */
				printf("%s, allocation %d: error %d\n", steps[i].name, n, error);
				test_failures++;
			}
			if (steps[i].undo)
				steps[i].undo();
			if (result >= 0 && n > 12)
				break;
		}
		if (n > 60) {
			printf("%s: still fails at the 60th allocation\n", steps[i].name);
			test_failures++;
		}
	}
	int fd = open(TREE, O_RDONLY);

	CHECK_EQUAL(0, syscall(SYS_syncfs, fd));
	close(fd);
}

int main(void)
{
	alloc_fail_open();
	mount_tree();
	MUST(mkdir(TREE "/d", 0755) == 0 && mkdir(TREE "/d/e", 0755) == 0 && mkdir("/tmp/other", 0755) == 0);
	close(open(TREE "/d/e/in", O_CREAT | O_RDWR, 0644));
	keep = open(TREE "/keep", O_CREAT | O_RDWR, 0644);
	MUST(keep >= 0 && ftruncate(keep, 2 * PAGE) == 0);
	mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, keep, 0);
	MUST(mapped != MAP_FAILED);
	all_steps();
	all_steps();
	frames_used();
	long before = frames_used();

	for (int i = 0; i < 6; i++)
		all_steps();
	long after = frames_used();

	printf("frames %ld -> %ld\n", before, after);
	/* The same objects may lie in one slab more; one object lost per round would be more than that. */
	CHECK(after - before <= 4);
	munmap(mapped, PAGE);
	close(keep);
	rmdir("/tmp/other");
	unmount_tree();
	test_end();
}
