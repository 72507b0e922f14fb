/*
 * Rules D16 to D18: mounts of hugetlbfs with limits and minima, what their options may be, what /proc/mounts and statfs say, and
 * that a mount that fails promises nothing.
 */
#include "hugetlb_test.h"

#define DIR	"/tmp/.huge"

/* The options of our mount in /proc/mounts, from "pagesize" on. */
static const char *shown(void)
{
	char *text = read_text("/proc/mounts");

	for (char *line; (line = next_line(&text)); ) {
		char *at = strstr(line, " " DIR " hugetlbfs "), *end;

		if (!at)
			continue;
		at = strstr(at, "relatime");
		MUST(at);
		end = strchr(at, ' ');
		MUST(end);
		*end = '\0';
		return at + strlen("relatime");
	}
	return "not mounted";
}

static void accepted(int line, const char *options, const char *shows, long rsvd)
{
	int error = mount_huge(DIR, options);
	struct pool p = pool_now();

	if (error) {
		printf("line %d: \"%s\": errno %d\n", line, options, error);
		test_failures++;
		return;
	}
	if (strcmp(shown(), shows) || p.rsvd != rsvd) {
		printf("line %d: \"%s\": shows \"%s\", Rsvd %ld; expected \"%s\" %ld\n", line, options, shown(), p.rsvd, shows, rsvd);
		test_failures++;
	}
	MUST(umount(DIR) == 0);
	CHECK_POOL(10, 0);
}
#define ACCEPTED(options, shows, rsvd)	accepted(__LINE__, options, shows, rsvd)

static void refused(int line, int error, const char *options)
{
	int got = mount_huge(DIR, options);

	if (got != error) {
		printf("line %d: \"%s\": expected errno %d, got %d\n", line, options, error, got);
		test_failures++;
		if (!got)
			umount(DIR);
	}
	CHECK_POOL(10, 0);
}
#define REFUSED(error, options)		refused(__LINE__, error, options)

static void options(void)
{
	ACCEPTED("", ",pagesize=2M", 0);
	ACCEPTED("pagesize=2M", ",pagesize=2M", 0);
	ACCEPTED("pagesize=2048K", ",pagesize=2M", 0);
	ACCEPTED("pagesize=2097152", ",pagesize=2M", 0);
	ACCEPTED("pagesize=2m,size=8M", ",pagesize=2M,size=8388608", 0);
	ACCEPTED("size=9M", ",pagesize=2M,size=8388608", 0);
	ACCEPTED("size=0", ",pagesize=2M,size=0", 0);
	ACCEPTED("size=1", ",pagesize=2M,size=0", 0);
	ACCEPTED("size=50%", ",pagesize=2M,size=10485760", 0);
	ACCEPTED("min_size=4M", ",pagesize=2M,min_size=4194304", 2);
	ACCEPTED("min_size=30%,size=1G", ",pagesize=2M,size=1073741824,min_size=6291456", 3);
	ACCEPTED("size=4M,min_size=4M", ",pagesize=2M,size=4194304,min_size=4194304", 2);
	ACCEPTED("min_size=20M", ",pagesize=2M,min_size=20971520", 10);
	ACCEPTED("size=0%", ",pagesize=2M,size=0", 0);
	ACCEPTED("nr_inodes=5", ",nr_inodes=5,pagesize=2M", 0);
	ACCEPTED("nr_inodes=1k", ",nr_inodes=1024,pagesize=2M", 0);
	ACCEPTED("mode=1777,uid=5,gid=6", ",uid=5,gid=6,mode=1777,pagesize=2M", 0);
	ACCEPTED("nr_inodes=0,nr_inodes=1", ",nr_inodes=1,pagesize=2M", 0);
	ACCEPTED("mode=0755", ",pagesize=2M", 0);
	ACCEPTED("size=0x400000", ",pagesize=2M,size=4194304", 0);
	ACCEPTED("size=8M,size=4M", ",pagesize=2M,size=4194304", 0);
	ACCEPTED(",,size=4M,,", ",pagesize=2M,size=4194304", 0);
	ACCEPTED("size=4096k", ",pagesize=2M,size=4194304", 0);
	ACCEPTED("size=1T", ",pagesize=2M,size=1099511627776", 0);
	ACCEPTED("size=010000000", ",pagesize=2M,size=2097152", 0);
	ACCEPTED("size=4Mx", ",pagesize=2M,size=4194304", 0);		/* behind the number nothing is looked at */
	ACCEPTED("size=4 M", ",pagesize=2M,size=0", 0);
	ACCEPTED("size=50%x", ",pagesize=2M,size=10485760", 0);
	ACCEPTED("size=4M%", ",pagesize=2M,size=879608463360", 0);
	ACCEPTED("size=101%", ",pagesize=2M,size=20971520", 0);
	ACCEPTED("size=33%", ",pagesize=2M,size=6291456", 0);
	/* Numbers that 64 bits cannot hold wrap. */
	ACCEPTED("size=18446744073709551615", ",pagesize=2M,size=18446744073707454464", 0);
	ACCEPTED("size=18446744073709551616", ",pagesize=2M,size=0", 0);
	ACCEPTED("size=18446744073709551617M", ",pagesize=2M,size=0", 0);
	ACCEPTED("size=15E", ",pagesize=2M,size=17293822569102704640", 0);
	ACCEPTED("size=16E", ",pagesize=2M,size=0", 0);
	ACCEPTED("size=17592186044416M", ",pagesize=2M,size=0", 0);
	ACCEPTED("size=99999999999999999999999", ",pagesize=2M,size=200376420518592512", 0);
	ACCEPTED("size=18446744073709551615%", ",pagesize=2M,size=184467440734830592", 0);
	ACCEPTED("nr_inodes=18446744073709551615", ",pagesize=2M", 0);
	ACCEPTED("mode=+7,uid=+1", ",uid=1,mode=7,pagesize=2M", 0);

	REFUSED(EINVAL, "pagesize=4K");
	REFUSED(EINVAL, "pagesize=3M");
	REFUSED(EINVAL, "pagesize=");
	REFUSED(EINVAL, "pagesize=0");
	REFUSED(EINVAL, "pagesize=-2M");
	REFUSED(EINVAL, "pagesize=16E");
	REFUSED(EINVAL, "pagesize");
	REFUSED(EINVAL, "size=");
	REFUSED(EINVAL, "size");
	REFUSED(EINVAL, "size=M");
	REFUSED(EINVAL, "size=-1");
	REFUSED(EINVAL, "size=+4M");
	REFUSED(EINVAL, "size= 4M");
	REFUSED(EINVAL, "size=%");
	REFUSED(EINVAL, "min_size=x");
	REFUSED(EINVAL, "nr_inodes=");
	REFUSED(EINVAL, "nr_inodes=many");
	REFUSED(EINVAL, "mode=9");
	REFUSED(EINVAL, "mode=rwx");
	REFUSED(EINVAL, "uid=root");
	REFUSED(EINVAL, "uid=4294967296");
	REFUSED(EINVAL, "uid=4294967295");
	REFUSED(EINVAL, "gid=4294967295");
	REFUSED(ENOMEM, "nr_inodes=0");
	REFUSED(EINVAL, "gid=");
	REFUSED(EINVAL, "nonsense");
	REFUSED(EINVAL, "nonsense=1");
	REFUSED(EINVAL, "size=4M,min_size=6M");
	REFUSED(ENOMEM, "min_size=22M");
	REFUSED(ENOMEM, "min_size=4E");
}

static void check_statfs(int line, long blocks, long free, long files, long ffree)
{
	struct statfs s;

	MUST(statfs(DIR, &s) == 0);
	if (s.f_type != 0x958458f6 || s.f_bsize != (long)HUGE || (long)s.f_blocks != blocks || (long)s.f_bfree != free ||
	    (long)s.f_bavail != free || (long)s.f_files != files || (long)s.f_ffree != ffree || s.f_namelen != 255) {
		printf("line %d: statfs: type %lx bsize %ld blocks %ld bfree %ld bavail %ld files %ld ffree %ld namelen %ld\n", line,
		       (long)s.f_type, (long)s.f_bsize, (long)s.f_blocks, (long)s.f_bfree, (long)s.f_bavail, (long)s.f_files,
		       (long)s.f_ffree, (long)s.f_namelen);
		test_failures++;
	}
}
#define STATFS(blocks, free, files, ffree)	check_statfs(__LINE__, blocks, free, files, ffree)

static int new_file(const char *name)
{
	char path[64];

	sprintf(path, DIR "/%s", name);
	return open(path, O_CREAT | O_RDWR, 0600);
}

/* D17. */
static void maximum(void)
{
	int fd, fd2;
	char *p, *q;

	MUST(mount_huge(DIR, "size=8M") == 0);
	STATFS(4, 4, -1, -1);
	fd = new_file("a");
	p = map_fd(fd, 3, RW, MAP_SHARED, 0);
	STATFS(4, 1, -1, -1);
	p[0] = 1;
	STATFS(4, 1, -1, -1);
	CHECK_POOL(9, 2);
	fd2 = new_file("b");
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 2 * HUGE, RW, MAP_SHARED, fd2, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 2 * HUGE, RW, MAP_PRIVATE, fd2, 0));
	CHECK_ERRNO(ENOSPC, fallocate(fd2, 0, 0, 2 * (off_t)HUGE));	/* one was to be had, and stays */
	STATFS(4, 0, -1, -1);
	CHECK_POOL(8, 2);
	q = map_fd(fd2, 2, RW, MAP_SHARED | MAP_NORESERVE, 0);
	CHECK_NO_FAULT(access_byte((unsigned long)q, WRITE));
	CHECK_FAULT(SIGBUS, 2, q + HUGE, access_byte((unsigned long)q + HUGE, WRITE));
	CHECK_POOL(8, 2);
	unmap_huge(p, 3);
	unmap_huge(q, 2);
	STATFS(4, 0, -1, -1);
	CHECK_EQUAL(0, ftruncate(fd, 0));
	STATFS(4, 3, -1, -1);
	close(fd);
	close(fd2);
	CHECK_EQUAL(0, unlink(DIR "/b"));
	STATFS(4, 4, -1, -1);
	p = map_fd(fd = new_file("a"), 3, RW, MAP_PRIVATE, 0);
	STATFS(4, 1, -1, -1);
	p[0] = 1;
	STATFS(4, 1, -1, -1);
	CHECK_EQUAL(0, madvise(p, HUGE, MADV_DONTNEED));
	STATFS(4, 1, -1, -1);
	CHECK_POOL(10, 3);
	unmap_huge(p, 3);
	STATFS(4, 4, -1, -1);
	close(fd);
	MUST(umount(DIR) == 0);
	CHECK_POOL(10, 0);
}

static void minimum(void)
{
	int fd, fd2;
	char *p, *all;

	MUST(mount_huge(DIR, "min_size=8M,size=12M") == 0);
	CHECK_POOL(10, 4);
	STATFS(6, 6, -1, -1);
	all = map_huge(6, RW, HUGE_ANON);		/* the rest of the pool */
	CHECK_POOL(10, 10);
	fd = new_file("a");
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 5 * HUGE, RW, MAP_SHARED, fd, 0));
	CHECK_POOL(10, 10);
	STATFS(6, 6, -1, -1);
	p = map_fd(fd, 3, RW, MAP_SHARED, 0);		/* out of the minimum */
	CHECK_POOL(10, 10);
	memset(p, 1, 3 * HUGE);
	CHECK_POOL(7, 7);
	fd2 = new_file("b");
	CHECK_EQUAL(0, fallocate(fd2, 0, 0, (off_t)HUGE));	/* so is this */
	CHECK_POOL(6, 6);
	CHECK_ERRNO(ENOSPC, fallocate(fd2, 0, 0, 2 * (off_t)HUGE));
	unmap_huge(all, 6);
	CHECK_POOL(6, 0);
	CHECK_EQUAL(0, fallocate(fd2, 0, 0, 3 * (off_t)HUGE));	/* two more, up to the maximum */
	CHECK_POOL(4, 0);
	CHECK_ERRNO(ENOSPC, fallocate(fd2, 0, 0, 4 * (off_t)HUGE));
	CHECK_EQUAL(0, ftruncate(fd2, (off_t)HUGE));		/* use is at the minimum: nothing is kept */
	CHECK_POOL(6, 0);
	unmap_huge(p, 3);
	CHECK_EQUAL(0, ftruncate(fd, (off_t)HUGE));		/* two below it */
	CHECK_POOL(8, 2);
	close(fd);
	close(fd2);
	CHECK_EQUAL(0, unlink(DIR "/a"));
	CHECK_EQUAL(0, unlink(DIR "/b"));
	CHECK_POOL(10, 4);
	MUST(umount(DIR) == 0);
	CHECK_POOL(10, 0);
}

/* All ones: there is no maximum to tell of. Without one, use is not counted, and what is freed fills the minimum up first. */
static void only_a_minimum(void)
{
	int fd;
	char *p;

	MUST(mount_huge(DIR, "min_size=4M") == 0);
	STATFS(-1, -1, -1, -1);
	fd = new_file("a");
	p = map_fd(fd, 4, RW, MAP_SHARED, 0);
	CHECK_POOL(10, 4);
	STATFS(-1, -1, -1, -1);
	CHECK_EQUAL(0, ftruncate(fd, 2 * (off_t)HUGE));
	CHECK_POOL(10, 4);
	CHECK_EQUAL(0, ftruncate(fd, 0));
	CHECK_POOL(10, 2);
	unmap_huge(p, 4);
	close(fd);
	unlink(DIR "/a");
	MUST(umount(DIR) == 0);
	CHECK_POOL(10, 0);
}

static void inodes(void)
{
	struct stat st;

	MUST(mount_huge(DIR, "nr_inodes=3,mode=700,uid=7,gid=8,size=2M") == 0);
	MUST(stat(DIR, &st) == 0);
	CHECK_EQUAL(S_IFDIR | 0700, st.st_mode);
	CHECK_EQUAL(7, st.st_uid);
	CHECK_EQUAL(8, st.st_gid);
	CHECK_EQUAL(HUGE, st.st_blksize);
	STATFS(1, 1, 3, 2);
	CHECK_EQUAL(0, mkdir(DIR "/d", 0755));
	CHECK_ERRNO(EINVAL, symlink("x", DIR "/s"));
	STATFS(1, 1, 3, 1);
	CHECK_EQUAL(0, mkfifo(DIR "/s", 0600));
	STATFS(1, 1, 3, 0);
	CHECK_ERRNO(ENOSPC, open(DIR "/f", O_CREAT | O_RDWR, 0600));
	CHECK_ERRNO(ENOSPC, mkdir(DIR "/e", 0755));
	CHECK_EQUAL(0, unlink(DIR "/s"));
	close(open(DIR "/d/f", O_CREAT | O_RDWR, 0600));
	STATFS(1, 1, 3, 0);
	CHECK_EQUAL(0, rename(DIR "/d/f", DIR "/f"));
	CHECK_EQUAL(0, unlink(DIR "/f"));
	CHECK_EQUAL(0, rmdir(DIR "/d"));
	CHECK_EQUAL(0, mount("none", DIR, "hugetlbfs", MS_REMOUNT, "size=8M"));	/* looked at and forgotten */
	STATFS(1, 1, 3, 2);
	CHECK_ERRNO(EINVAL, mount("none", DIR, "hugetlbfs", MS_REMOUNT, "size=x"));
	MUST(umount(DIR) == 0);
	MUST(mount_huge(DIR, NULL) == 0);
	STATFS(0, 0, 0, 0);
	MUST(umount(DIR) == 0);
	CHECK_POOL(10, 0);
}

int main(void)
{
	catch_faults();
	pool_begin(10);
	options();
	maximum();
	minimum();
	only_a_minimum();
	inodes();
	pool_end(10);
}
