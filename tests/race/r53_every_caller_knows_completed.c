/*
 * R53. COMPLETED means: done, and the lock is gone. Page pinning, kernel copies and the futex look-up meet it when they touch clean
 * shared file pages; they must neither unlock again, nor use the VMA, which another thread may have unmapped by now, nor
 * report a page that they do not have.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=53
 * shows: PANIC: .*(count|assert|rwsem)
 */
#include "race.h"

#define PAGES 16

static int fd, pipes[2];
static char *area;

static char *page(void)
{
	return area + rnd(PAGES) * PAGE;
}

static void read_into(struct racer *r)
{
	int p[2];
	char c = 'k';

	(void)r;
	MUST(pipe(p) == 0);
	for (int i = 0; i < 20; i++) {
		MUST(write(p[1], &c, 1) == 1);
		if (read(p[0], page(), 1) != 1) {
			CHECK_EQUAL(EFAULT, errno);
			CHECK_EQUAL(1, read(p[0], &c, 1));
		}
	}
	close(p[0]);
	close(p[1]);
}

static void futex_on(struct racer *r)
{
	struct timespec soon = { 0, 1000 };

	(void)r;
	long n = syscall(SYS_futex, page(), 1 /* WAKE */, 1, NULL, NULL, 0);
	CHECK(n == 0 || errno == EFAULT);
	n = syscall(SYS_futex, page(), 0 /* WAIT */, 77, &soon, NULL, 0);
	CHECK(n == -1 && (errno == EFAULT || errno == EAGAIN));
}

static void pin(struct racer *r)
{
	char buf[4 * PAGE];
	struct iovec local = { buf, sizeof(buf) }, remote = { area + rnd(PAGES - 4) * PAGE, sizeof(buf) };
	bool write = rnd(2);
	ssize_t n;

	(void)r;
	memset(buf, 'p', sizeof(buf));
	n = (write ? process_vm_writev : process_vm_readv)(getpid(), &local, 1, &remote, 1, 0);
	CHECK(n == -1 ? errno == EFAULT : n % (ssize_t)PAGE == 0);
}

static void splice_from(struct racer *r)
{
	char buf[PAGE];
	struct iovec v = { page(), PAGE };
	ssize_t n = vmsplice(pipes[1], &v, 1, SPLICE_F_NONBLOCK);

	(void)r;
	CHECK(n == (ssize_t)PAGE || (n == -1 && (errno == EFAULT || errno == EAGAIN)));
	if (n > 0)
		CHECK_EQUAL(n, read(pipes[0], buf, (size_t)n));
}

static void map_over(struct racer *r)
{
	(void)r;
	if (rnd(2))
		munmap(area, PAGES * PAGE);
	CHECK(ftruncate(fd, (off_t)(rnd(PAGES) * PAGE)) == 0 && ftruncate(fd, PAGES * PAGE) == 0);
	CHECK(mmap(area, PAGES * PAGE, RW, MAP_SHARED | MAP_FIXED, fd, 0) == area);
}

static void racing(void)
{
	struct racer racers[] = { { .round = read_into }, { .round = futex_on }, { .round = pin }, { .round = splice_from }, { .round = map_over } };

	fd = make_memfd(PAGES, 0);
	area = mmap(NULL, PAGES * PAGE, RW, MAP_SHARED, fd, 0);
	MUST(area != MAP_FAILED && pipe(pipes) == 0);
	race(RACE_SECONDS, racers, 5);
}

/* -- forced: the VMA is unmapped while the one who pins is in the throttle, with no lock -- */

static volatile ssize_t written;

static void write_remote(void *arg)
{
	char c[2 * PAGE];
	struct iovec local = { c, sizeof(c) }, remote = { arg, sizeof(c) };

	memset(c, 'w', sizeof(c));
	written = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
}

static void forced(void)
{
	int memfd = make_memfd(2, 0);
	char *p = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, memfd, 0);
	struct actor pinner;

	MUST(p != MAP_FAILED);
	actor_create(&pinner, write_remote, p);
	actor_start_and_hold(&pinner, "fault_completed");
	CHECK(munmap(p, 2 * PAGE) == 0);	/* does not wait: no lock is held */
	go();
	actor_join(&pinner);
	CHECK_EQUAL(-1, written);		/* not one page was had */
	close(memfd);
}

int main(void)
{
	run_race(racing, forced, 32);
}
