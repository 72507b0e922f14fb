/* The contents of tmpfs files: offsets, append, holes, truncate, fallocate, limits of the file system and of the process. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>

#include "test.h"

#define PAGE 4096L

static long blocks(int fd) { struct stat st; MUST(fstat(fd, &st) == 0); return st.st_blocks; }
static long size_of(int fd) { struct stat st; MUST(fstat(fd, &st) == 0); return st.st_size; }

static void offsets(void)
{
	char buf[64] = "";
	int fd = open("o", O_CREAT | O_RDWR | O_TRUNC, 0644), dup_fd = dup(fd);

	CHECK_EQUAL(5, write(fd, "hello", 5));
	CHECK_EQUAL(6, write(dup_fd, " world", 6));	/* one offset for both */
	CHECK_EQUAL(0, lseek(fd, 0, SEEK_SET));
	CHECK_EQUAL(11, read(dup_fd, buf, 64));
	CHECK(!memcmp(buf, "hello world", 11));
	CHECK_EQUAL(0, read(fd, buf, 64));
	CHECK_EQUAL(5, pread(fd, buf, 5, 6));
	CHECK(!memcmp(buf, "world", 5));
	CHECK_EQUAL(11, lseek(fd, 0, SEEK_CUR));
	CHECK_EQUAL(2, pwrite(fd, "HE", 2, 0));
	CHECK_ERRNO(EINVAL, pread(fd, buf, 5, -1));
	CHECK_ERRNO(EINVAL, lseek(fd, -1, SEEK_SET));
	CHECK_ERRNO(EINVAL, lseek(fd, 0, 99));
	CHECK_ERRNO(EFAULT, read(fd, (void *)-1L, 5) == -1 && errno == EFAULT ? -1 : 0);
	struct iovec v[3] = { { buf, 2 }, { buf + 10, 0 }, { buf + 20, 9 } };
	CHECK_EQUAL(0, lseek(fd, 0, SEEK_SET));
	CHECK_EQUAL(11, readv(fd, v, 3));
	CHECK(!memcmp(buf, "HE", 2) && !memcmp(buf + 20, "llo world", 9));
	CHECK_ERRNO(EINVAL, readv(fd, v, -1));
	CHECK_ERRNO(EINVAL, readv(fd, v, 1025));
	v[1].iov_len = (size_t)-1;
	CHECK_ERRNO(EINVAL, readv(fd, v, 3));
	close(dup_fd);
	close(fd);

	fd = open("o", O_WRONLY | O_APPEND);
	CHECK_EQUAL(0, lseek(fd, 0, SEEK_SET));
	CHECK_EQUAL(1, write(fd, "!", 1));
	CHECK_EQUAL(12, size_of(fd));
	CHECK_EQUAL(1, pwrite(fd, "?", 1, 0));		/* Linux appends even so */
	CHECK_EQUAL(13, size_of(fd));
	CHECK_ERRNO(EBADF, read(fd, buf, 1));
	close(fd);
	fd = open("o", O_RDONLY);
	CHECK_ERRNO(EBADF, write(fd, buf, 1));
	CHECK_ERRNO(EINVAL, ftruncate(fd, 0));
	close(fd);
	fd = open("o", O_RDWR | O_TRUNC);
	CHECK_EQUAL(0, size_of(fd));
	close(fd);
	unlink("o");
}

static void holes(void)
{
	char buf[PAGE];
	int fd = open("h", O_CREAT | O_RDWR | O_TRUNC, 0644);

	CHECK_EQUAL(1, pwrite(fd, "x", 1, 10 * PAGE));
	CHECK_EQUAL(10 * PAGE + 1, size_of(fd));
	CHECK_EQUAL(8, blocks(fd));
	memset(buf, 1, sizeof(buf));
	CHECK_EQUAL(PAGE, pread(fd, buf, PAGE, 3 * PAGE));
	for (int i = 0; i < PAGE; i++)
		MUST(buf[i] == 0);
	CHECK_EQUAL(10 * PAGE, lseek(fd, 0, SEEK_DATA));
	CHECK_EQUAL(0, lseek(fd, 0, SEEK_HOLE));
	CHECK_EQUAL(10 * PAGE + 1, lseek(fd, 10 * PAGE, SEEK_HOLE));
	CHECK_ERRNO(ENXIO, lseek(fd, 11 * PAGE, SEEK_DATA));

	/* Shrinking in the middle of a page zeroes what is cut, also for mappings, and growing shows zeros. */
	char *map = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(map != MAP_FAILED);
	memset(map, 'm', 2 * PAGE);
	CHECK_EQUAL(0, ftruncate(fd, PAGE + 100));
	CHECK_EQUAL('m', map[PAGE + 99]);
	CHECK_EQUAL(0, map[PAGE + 100]);
	CHECK_EQUAL(16, blocks(fd));
	CHECK_EQUAL(0, ftruncate(fd, 4 * PAGE));
	CHECK_EQUAL(0, map[PAGE + 100]);
	CHECK_EQUAL(0, map[3 * PAGE]);

	CHECK_EQUAL(0, fallocate(fd, 0, 0, 8 * PAGE));
	CHECK_EQUAL(8 * PAGE, size_of(fd));
	CHECK_EQUAL(64, blocks(fd));
	CHECK_EQUAL(0, fallocate(fd, FALLOC_FL_KEEP_SIZE, 8 * PAGE, 2 * PAGE));
	CHECK_EQUAL(8 * PAGE, size_of(fd));
	CHECK_EQUAL(80, blocks(fd));
	CHECK_EQUAL(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE / 2, 2 * PAGE));
	CHECK_EQUAL('m', map[PAGE / 2 - 1]);
	CHECK_EQUAL(0, map[PAGE / 2]);
	CHECK_EQUAL(0, map[PAGE]);
	CHECK_ERRNO(EOPNOTSUPP, fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, PAGE));
	CHECK_ERRNO(EOPNOTSUPP, fallocate(fd, 0x100, 0, PAGE));
	CHECK_ERRNO(EINVAL, fallocate(fd, 0, 0, 0));
	CHECK_ERRNO(EINVAL, fallocate(fd, 0, -1, PAGE));
	CHECK_ERRNO(EINVAL, ftruncate(fd, -1));
	CHECK_ERRNO(EISDIR, truncate("/tmp", 0));
	CHECK_ERRNO(EINVAL, truncate("/dev/null", 0));
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_EQUAL(0, blocks(fd));
	munmap(map, 16 * PAGE);
	close(fd);
	unlink("h");
}

static void *appender(void *arg)
{
	int fd = open("a", O_WRONLY | O_APPEND);
	char record[16];

	memset(record, 'A' + (int)(long)arg, sizeof(record));
	for (int i = 0; i < 2000; i++)
		MUST(write(fd, record, sizeof(record)) == sizeof(record));
	close(fd);
	return NULL;
}

static int shared_fd;
static void *shared_writer(void *arg)
{
	char record[16];

	memset(record, 'a' + (int)(long)arg, sizeof(record));
	for (int i = 0; i < 2000; i++)
		MUST(write(shared_fd, record, sizeof(record)) == sizeof(record));
	return NULL;
}

/* Records from several threads are all there, and whole. */
static void concurrent(void)
{
	char record[16];
	pthread_t t[8];
	int fd = open("a", O_CREAT | O_RDWR | O_TRUNC, 0644);

	shared_fd = open("s", O_CREAT | O_RDWR | O_TRUNC, 0644);
	for (long i = 0; i < 4; i++) {
		MUST(!pthread_create(&t[i], NULL, appender, (void *)i));
		MUST(!pthread_create(&t[4 + i], NULL, shared_writer, (void *)i));
	}
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	CHECK_EQUAL(4 * 2000 * 16, size_of(fd));
	CHECK_EQUAL(4 * 2000 * 16, size_of(shared_fd));
	for (int i = 0; i < 4 * 2000; i++) {
		MUST(pread(fd, record, 16, i * 16) == 16);
		for (int k = 1; k < 16; k++)
			MUST(record[k] == record[0]);
		MUST(pread(shared_fd, record, 16, i * 16) == 16);
		for (int k = 1; k < 16; k++)
			MUST(record[k] == record[0]);
	}
	close(fd);
	close(shared_fd);
	unlink("a");
	unlink("s");
}

static void file_system_limits(void)
{
	static char buf[256 * 1024];
	struct statfs st;

	MUST(mkdir("small", 0755) == 0);
	CHECK_ERRNO(EINVAL, mount("none", "small", "tmpfs", 0, "size=nonsense"));
	CHECK_ERRNO(EINVAL, mount("none", "small", "tmpfs", 0, "unknown=1"));
	CHECK_ERRNO(ENODEV, mount("none", "small", "no-such-fs", 0, NULL));
	MUST(mount("none", "small", "tmpfs", 0, "size=128k,nr_inodes=10,mode=0750") == 0);
	struct stat s;
	CHECK(stat("small", &s) == 0 && (s.st_mode & 07777) == 0750);
	CHECK_EQUAL(0, statfs("small", &st));
	CHECK_EQUAL(0x01021994, st.f_type);
	CHECK_EQUAL(32, st.f_blocks);
	CHECK_EQUAL(32, st.f_bfree);
	CHECK_EQUAL(10, st.f_files);
	CHECK_EQUAL(9, st.f_ffree);
	int fd = open("small/f", O_CREAT | O_RDWR, 0644);
	CHECK_EQUAL(128 * 1024, write(fd, buf, sizeof(buf)));	/* short: what fits */
	CHECK_ERRNO(ENOSPC, write(fd, buf, 1));
	CHECK_EQUAL(0, statfs("small", &st));
	CHECK_EQUAL(0, st.f_bfree);
	CHECK_EQUAL(0, ftruncate(fd, 100 * 1024));
	CHECK_EQUAL(0, statfs("small", &st));
	CHECK_EQUAL(7, st.f_bfree);
	CHECK_ERRNO(ENOSPC, fallocate(fd, 0, 0, 256 * 1024));
	CHECK_EQUAL(0, statfs("small", &st));
	CHECK_EQUAL(7, st.f_bfree);
	int made = 0;
	char name[32];
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "small/n%d", i);
		made += mknod(name, S_IFREG | 0644, 0) == 0;
	}
	CHECK_EQUAL(8, made);
	CHECK_ERRNO(ENOSPC, mkdir("small/more", 0755));
	close(fd);
	CHECK_EQUAL(0, umount("small"));
	CHECK_EQUAL(0, rmdir("small"));
}

static volatile int xfsz;
static void on_xfsz(int sig) { xfsz += sig == SIGXFSZ; }

static void process_limit(void *unused)
{
	struct rlimit limit = { 10000, 10000 };
	char buf[8192] = "";
	int fd = open("r", O_CREAT | O_RDWR | O_TRUNC, 0644);

	(void)unused;
	signal(SIGXFSZ, on_xfsz);
	MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK_EQUAL(8192, write(fd, buf, 8192));
	CHECK_EQUAL(10000 - 8192, write(fd, buf, 8192));	/* up to the limit, without a signal */
	CHECK_EQUAL(0, xfsz);
	CHECK_ERRNO(EFBIG, write(fd, buf, 1));
	CHECK_EQUAL(1, xfsz);
	CHECK_ERRNO(EFBIG, ftruncate(fd, 10001));
	CHECK_EQUAL(2, xfsz);
	CHECK_EQUAL(0, ftruncate(fd, 10000));
	CHECK_ERRNO(EFBIG, fallocate(fd, 0, 0, 20000));
	close(fd);
	unlink("r");
}

static void copying(void)
{
	char buf[300] = "";
	int in = open("in", O_CREAT | O_RDWR | O_TRUNC, 0644), out = open("out", O_CREAT | O_RDWR | O_TRUNC, 0644), p[2];
	off_t at = 10;

	for (int i = 0; i < 300; i++)
		buf[i] = (char)i;
	MUST(write(in, buf, 300) == 300);
	CHECK_EQUAL(100, sendfile(out, in, &at, 100));
	CHECK_EQUAL(110, at);
	CHECK_EQUAL(300, lseek(in, 0, SEEK_CUR));
	CHECK_EQUAL(100, lseek(out, 0, SEEK_CUR));
	CHECK_EQUAL(0, lseek(in, 250, SEEK_SET) - 250);
	CHECK_EQUAL(50, sendfile(out, in, NULL, 1000));
	CHECK_EQUAL(0, sendfile(out, in, NULL, 1000));
	MUST(pipe(p) == 0);
	at = 0;
	CHECK_EQUAL(300, sendfile(p[1], in, &at, 1000));
	CHECK_EQUAL(300, read(p[0], buf, 300));
	loff_t from = 5, to = 150;
	CHECK_EQUAL(200, copy_file_range(in, &from, out, &to, 200, 0));
	CHECK_EQUAL(205, from);
	CHECK_EQUAL(350, size_of(out));
	CHECK_EQUAL(1, pread(out, buf, 1, 349));
	CHECK_EQUAL((char)204, buf[0]);
	CHECK_ERRNO(EINVAL, copy_file_range(in, &from, out, &to, 1, 1));
	CHECK_ERRNO(ESPIPE, pread(p[0], buf, 1, 0));
	CHECK_ERRNO(ESPIPE, lseek(p[0], 0, SEEK_SET));
	close(in), close(out), close(p[0]), close(p[1]);
	unlink("in"), unlink("out");
}

int main(void)
{
	MUST(mkdir("/tmp/data", 0755) == 0 && chdir("/tmp/data") == 0);
	offsets();
	holes();
	concurrent();
	file_system_limits();
	CHECK_EQUAL(0, in_child(process_limit, NULL));
	copying();
	CHECK_EQUAL(0, chdir("/"));
	CHECK_EQUAL(0, rmdir("/tmp/data"));
	test_end();
}
