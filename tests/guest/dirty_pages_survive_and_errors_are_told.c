/*
 * delayfs as a disk: data that was written back comes back after it was dropped from memory, and takes its time; fsync, msync
 * and O_SYNC wait, and tell of errors once; a full disk is told to the writer; truncate, punch, unlink and unmount go well while
 * pages are on their way; statfs, st_blocks and mount options say what is so.
 *
 * only: faultline
 */
#include "dirty_test.h"

#define N	16u

static int filled(const char *path, char first)
{
	char page[PAGE];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);

	MUST(fd >= 0);
	for (unsigned int i = 0; i < N; i++) {
		memset(page, first + (int)i, PAGE);
		MUST(write(fd, page, PAGE) == (ssize_t)PAGE);
	}
	return fd;
}

static void check_contents(int fd, unsigned int pages, char first)
{
	char page[PAGE];

	for (unsigned int i = 0; i < pages; i++) {
		CHECK_EQUAL(PAGE, pread(fd, page, PAGE, (off_t)(i * PAGE)));
		CHECK_EQUAL(first + (int)i, page[0]);
		CHECK_EQUAL(first + (int)i, page[PAGE - 1]);
	}
}

static long free_blocks(void)
{
	struct statfs s;

	MUST(statfs(DISK, &s) == 0);
	return (long)s.f_bfree;
}

static void dropped_pages_are_read_back(void)
{
	int fd = filled(DISK "/f", 'a');
	char *p = map_file(fd, N);
	long start;

	CHECK_EQUAL((int)N, resident(p, N));
	CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);	/* dirty: on their way, but still here */
	CHECK_EQUAL((int)N, resident(p, N));
	CHECK(fsync(fd) == 0);
	CHECK(posix_fadvise(fd, PAGE, 2 * PAGE, POSIX_FADV_DONTNEED) == 0);
	CHECK_EQUAL((int)N - 2, resident(p, N));
	CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	CHECK_EQUAL(0, resident(p, N));

	start = now_ms();
	CHECK_EQUAL('a', p[0]);
	CHECK(now_ms() - start >= 20);				/* delay_us=20000 */
	CHECK_EQUAL('a' + 5, p[5 * PAGE]);
	check_contents(fd, N, 'a');
	CHECK_EQUAL((int)N, resident(p, N));
	p[0] = 'z';						/* a page that is mapped or dirty is not dropped */
	CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	CHECK_EQUAL('z', p[0]);
	munmap(p, N * PAGE);
	close(fd);
}

static void writers_wait_for_the_disk(void)
{
	int fd = open(DISK "/f", O_RDWR | O_TRUNC), synced;
	char *p;
	long start = now_ms();

	MUST(fd >= 0 && write(fd, "x", 1) == 1);
	CHECK(fsync(fd) == 0);
	CHECK(now_ms() - start >= 20);
	start = now_ms();
	CHECK(fdatasync(fd) == 0 && fsync(fd) == 0);		/* nothing to do, nothing to wait for */
	CHECK(now_ms() - start < 20 || vmstat("nr_dirty") == 0);
	p = map_file(fd, 1);
	p[0] = 'y';
	start = now_ms();
	CHECK(msync(p, PAGE, MS_SYNC) == 0);
	CHECK(now_ms() - start >= 20);
	must_be_clean();
	p[0] = 'z';						/* clean again, so this is a first write again */
	CHECK_EQUAL(1, vmstat("nr_dirty"));
	start = now_ms();
	CHECK(syncfs(fd) == 0);
	CHECK(now_ms() - start >= 20);
	must_be_clean();
	munmap(p, PAGE);
	synced = open(DISK "/f", O_WRONLY | O_SYNC);
	start = now_ms();
	CHECK_EQUAL(1, write(synced, "s", 1));
	CHECK(now_ms() - start >= 20);
	must_be_clean();
	close(synced);
	close(fd);
}

static void errors_are_told_once(void)
{
	int fd = filled(DISK "/f", 'a');
	char *p = map_file(fd, N), c;

	CHECK(fsync(fd) == 0);
	change_disk("fail_writes=1");
	p[0] = 'A';
	CHECK_ERRNO(EIO, fsync(fd));
	CHECK(fsync(fd) == 0);
	CHECK_EQUAL('A', p[0]);					/* memory still has it, the disk does not */
	change_disk("fail_writes=1");
	p[PAGE] = 'B';
	CHECK_ERRNO(EIO, msync(p, N * PAGE, MS_SYNC));
	CHECK(msync(p, N * PAGE, MS_SYNC) == 0);
	must_be_clean();
	munmap(p, N * PAGE);
	CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);

	change_disk("fail_reads=1");
	CHECK_ERRNO(EIO, pread(fd, &c, 1, 0));
	CHECK_EQUAL(1, pread(fd, &c, 1, 0));
	CHECK_EQUAL('a', c);
	p = map_file(fd, N);
	change_disk("fail_reads=2");				/* the fault tries once without its lock, and once with */
	CHECK_FAULT(SIGBUS, BUS_ADRERR, p + PAGE, access_byte((unsigned long)(p + PAGE), READ));
	change_disk("fail_reads=0");
	CHECK_NO_FAULT(access_byte((unsigned long)(p + PAGE), READ));
	CHECK_EQUAL('b', p[PAGE]);
	munmap(p, N * PAGE);
	close(fd);
}

static void full_disk(void)
{
	static char mib[1 << 20];
	struct statfs s;
	struct stat st;
	int fd, big;

	CHECK(unlink(DISK "/f") == 0);
	fd = open(DISK "/f", O_RDWR | O_CREAT, 0644);
	MUST(fd >= 0 && statfs(DISK, &s) == 0);
	CHECK_EQUAL(4096, s.f_bsize);
	CHECK_EQUAL(1024, s.f_blocks);
	CHECK_EQUAL(1024, s.f_bfree);

	MUST(ftruncate(fd, PAGE * 4) == 0 && fstat(fd, &st) == 0);
	CHECK_EQUAL(0, st.st_blocks);
	CHECK_EQUAL(2 * PAGE, lseek(fd, (off_t)(2 * PAGE), SEEK_DATA));
	CHECK_EQUAL(4 * PAGE, lseek(fd, 0, SEEK_HOLE));
	CHECK_ERRNO(ENXIO, lseek(fd, (off_t)(4 * PAGE), SEEK_DATA));
	char *p = map_file(fd, 4);

	CHECK_EQUAL(0, p[0]);					/* reading a hole takes no block */
	CHECK_EQUAL(1024, free_blocks());
	p[0] = 1;						/* the first write does, before fsync could say no */
	CHECK_EQUAL(1023, free_blocks());
	big = open(DISK "/big", O_RDWR | O_CREAT, 0644);
	for (ssize_t n = 1; n > 0; )
		n = write(big, mib, sizeof(mib));
	CHECK_EQUAL(0, free_blocks());
	CHECK_ERRNO(ENOSPC, write(big, mib, 1));
	CHECK_FAULT(SIGBUS, BUS_ADRERR, p + PAGE, access_byte((unsigned long)(p + PAGE), WRITE));
	CHECK_ERRNO(EFAULT, read(open("/dev/zero", O_RDONLY), p + 2 * PAGE, 1));
	CHECK_NO_FAULT(access_byte((unsigned long)p, WRITE));
	CHECK_EQUAL(0, p[PAGE]);				/* still readable */
	CHECK_ERRNO(EINVAL, mount("none", DISK, "delayfs", MS_REMOUNT, "size=1m"));

	CHECK(unlink(DISK "/big") == 0 && close(big) == 0);	/* pages on their way, and the file gone under them */
	CHECK_EQUAL(1023, free_blocks());
	CHECK_NO_FAULT(access_byte((unsigned long)(p + PAGE), WRITE));
	CHECK(fsync(fd) == 0);
	munmap(p, 4 * PAGE);
	close(fd);
}

static void truncate_and_punch_while_writing(void)
{
	int fd = filled(DISK "/f", 'a');
	char *p = map_file(fd, N), page[PAGE];
	struct stat st;

	CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);		/* starts writing */
	CHECK(ftruncate(fd, 4 * PAGE + 100) == 0);
	CHECK_FAULT(SIGBUS, BUS_ADRERR, p + 5 * PAGE, access_byte((unsigned long)(p + 5 * PAGE), READ));
	CHECK(fsync(fd) == 0 && fstat(fd, &st) == 0);
	CHECK_EQUAL(5 * PAGE / 512, st.st_blocks);
	check_contents(fd, 4, 'a');

	memset(p + 4 * PAGE, 'E', PAGE);			/* beyond the end: must not come to light */
	CHECK(fsync(fd) == 0);
	CHECK(ftruncate(fd, N * PAGE) == 0);
	CHECK_EQUAL(PAGE, pread(fd, page, PAGE, 4 * PAGE));
	CHECK_EQUAL('E', page[99]);
	CHECK_EQUAL(0, page[100]);
	CHECK_EQUAL(0, page[PAGE - 1]);
	CHECK(fsync(fd) == 0);

	p[0] = 'A';
	p[PAGE] = 'B';
	CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, 2 * PAGE) == 0);
	munmap(p, N * PAGE);
	CHECK(fsync(fd) == 0);
	CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	CHECK(pread(fd, page, 1, 0) == 1 && page[0] == 'A');
	CHECK(pread(fd, page, 1, PAGE) == 1 && page[0] == 0);
	CHECK(pread(fd, page, 1, 2 * PAGE) == 1 && page[0] == 0);
	CHECK(pread(fd, page, 1, 3 * PAGE) == 1 && page[0] == 'd');
	MUST(fstat(fd, &st) == 0);
	CHECK_EQUAL(3 * PAGE / 512, st.st_blocks);
	CHECK(fallocate(fd, 0, 0, N * PAGE) == 0 && fstat(fd, &st) == 0);
	CHECK_EQUAL(N * PAGE / 512, st.st_blocks);
	CHECK_EQUAL(1024 - (int)N, free_blocks());
	close(fd);
}

static void mount_options(void)
{
	static const char *const bad[] = { "foo=1", "delay_us=x", "delay_us=", "bw_kib=-1", "delay_us=10000001", "size=1q", "mode", "size" };
	FILE *f = fopen("/proc/mounts", "r");
	char line[256];
	bool found = false;

	while (fgets(line, sizeof(line), f))
		found |= !!strstr(line, "none " DISK " delayfs rw,relatime,size=4096k,delay_us=20000,bw_kib=0 ");
	fclose(f);
	CHECK(found);
	mkdir("/tmp/other", 0755);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_ERRNO(EINVAL, mount("none", "/tmp/other", "delayfs", 0, bad[i]));
	CHECK(mount("none", "/tmp/other", "delayfs", 0, NULL) == 0);
	CHECK(umount("/tmp/other") == 0);
}

/* No file is open, yet pages are dirty and on their way: they go with the disk. */
static void unmount_while_writing(void)
{
	int fd = filled(DISK "/f", 'a');

	CHECK_ERRNO(EBUSY, umount(DISK));
	CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	CHECK_EQUAL((int)N, pwrite(fd, "0123456789abcdef", N, 0));
	close(fd);
	CHECK(umount(DISK) == 0);
	must_be_clean();
}

int main(void)
{
	catch_faults();
	sync();
	mount_disk("delay_us=20000,size=4m");
	dropped_pages_are_read_back();
	writers_wait_for_the_disk();
	errors_are_told_once();
	full_disk();
	truncate_and_punch_while_writing();
	mount_options();
	unmount_while_writing();
	test_end();
}
