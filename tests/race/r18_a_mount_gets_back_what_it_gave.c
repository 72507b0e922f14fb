/*
 * R18. A mount with min_size has huge pages of its own. A mapping takes what is left of them and the rest from everybody's pool;
 * when that is short, each side gets back exactly what it gave. Linux 6.12 fails this: its count of reserved pages ends below zero.
 *
 * append: hugepages=64
 * build: debug
 * slow-cpus: 1 4 8
 * slow-append: hugetlb.sync=vma | hugetlb.sync=i_mmap | hugetlb.sync=recheck | hugetlb.sync=file
 * only: faultline
 * fails: race.reopen=18
 * shows: the pool has|pages are reserved of a pool|PANIC
 */
#include "hugetlb.h"

#include <sys/mount.h>

#define OWN 8				/* pages of the mount */
#define LEFT 6				/* everybody's, while this runs */

static const char *const dir = "/tmp/r18";
static size_t hog_len;

/* Together they want more than there is: one of two comes out empty, again and again. */
static void map_too_much(void)
{
	char path[64];
	long pages = OWN + LEFT - 2 + rnd(4), value = 1;

	snprintf(path, sizeof(path), "%s/%d", dir, getpid());
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	MUST(fd >= 0);
	char *p = mmap(NULL, (size_t)pages * HUGE, RW, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		CHECK_EQUAL(ENOMEM, errno);
	} else {
		for (long i = 0; i < 2; i++)
			CHECK_EQUAL(0, touch((volatile long *)(p + (size_t)i * HUGE), true, &value));
		MUST(munmap(p, (size_t)pages * HUGE) == 0);
	}
	MUST(unlink(path) == 0 && close(fd) == 0);
}

/* Never below zero, which would show as something enormous. */
static void watch(struct racer *r)
{
	char text[4096];
	int fd = open("/proc/meminfo", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	(void)r;
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *line = strstr(text, "HugePages_Rsvd:");
	unsigned long rsvd = line ? strtoul(line + 15, NULL, 10) : 0;
	if (rsvd > POOL) {
		printf("%lu pages are reserved of a pool of %d\n", rsvd, POOL);
		test_failures++;
	}
	sched_yield();
}

static void racing(void)
{
	struct racer racers[] = { { .round = watch } };
	struct pool before = pool_now(), rest;

	mkdir(dir, 0700);
	MUST(mount("none", dir, "hugetlbfs", 0, "pagesize=2M,min_size=16M") == 0);
	rest = pool_now();
	CHECK_EQUAL(before.rsvd + OWN, rest.rsvd);
	leave_in_pool(LEFT, &hog_len);
	rest = pool_now();
	peer_start(map_too_much);
	peer_start(map_too_much);
	peer_start(map_too_much);
	race(RACE_SECONDS, racers, 1);
	peers_end();
	pool_must_be("with nothing mapped", rest);
	MUST(umount(dir) == 0);
	rest.rsvd -= OWN;
	pool_must_be("without the mount", rest);
}

int main(void)
{
	run_huge_race(racing, NULL, 32);
}
