/*
 * For the programs about huge pages (R1 to R25, and R54 to R57 in their huge form): files that are large and sparse, so that a handful
 * of pages shows everything; other processes that take part; pools that are left with exactly so many pages; and the count of
 * the pool before and after.
 *
 * Every such program has the same settings in its head (64 pages of 2 MiB), so that all of them share a boot:
 *
 *	append: hugepages=64
 *	build: debug
 *	slow-append: the sound values of hugetlb.sync
 */
#ifndef RACE_HUGETLB_H
#define RACE_HUGETLB_H

#include "race.h"

#define HUGE		(2ul << 20)
#define GIB		(1ul << 30)
#define HUGE_LONGS	(HUGE / sizeof(long))
#define POOL		64

/* Gigabytes at fixed places where nothing else lands: a PMD table is shared only between windows of exactly such bounds (E1). */
#define WINDOW(n)	((char *)0x100000000000ul + (size_t)(n) * GIB)

#ifndef MAP_HUGETLB
#define MAP_HUGETLB	0x40000
#endif
#define HUGE_ANON	(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB)

/* -- the pool -- */

struct pool { long total, free, rsvd, surp; };

static struct pool pool_now(void)
{
	struct pool p = { meminfo("HugePages_Total"), meminfo("HugePages_Free"), meminfo("HugePages_Rsvd"), meminfo("HugePages_Surp") };

	return p;
}

static bool pool_equal(struct pool a, struct pool b)
{
	return a.total == b.total && a.free == b.free && a.rsvd == b.rsvd && a.surp == b.surp;
}

/* Whether the pool is, or within some seconds becomes, as it was: what a process that just ended had, comes back a little later. */
__attribute__((unused))
static void pool_must_be(const char *when, struct pool want)
{
	struct pool is = pool_now();

	for (int i = 0; i < 300 && !pool_equal(is, want); i++) {
		sleep_ms(20);
		is = pool_now();
	}
	if (!pool_equal(is, want)) {
		printf("%s the pool has total %ld free %ld rsvd %ld surp %ld, expected %ld %ld %ld %ld\n", when, is.total, is.free, is.rsvd,
		       is.surp, want.total, want.free, want.rsvd, want.surp);
		test_failures++;
	}
}

/* Reserves what nobody has been promised, but for @pages of them. Undone by munmap(*hog, *len), or with the process. */
__attribute__((unused))
static char *leave_in_pool(long pages, size_t *len)
{
	struct pool p = pool_now();
	char *hog;

	MUST(p.free - p.rsvd >= pages);
	*len = (size_t)(p.free - p.rsvd - pages) * HUGE;
	if (!*len)
		return NULL;
	hog = mmap(NULL, *len, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	MUST(hog != MAP_FAILED);
	p = pool_now();
	CHECK_EQUAL(pages, p.free - p.rsvd);
	return hog;
}

__attribute__((unused))
static char *map_huge(size_t pages, int prot, int flags, int fd)
{
	char *p = mmap(NULL, pages * HUGE, prot, flags, fd, 0);

	MUST(p != MAP_FAILED);
	return p;
}

/* -- the file -- */

static int huge_fd = -1;

__attribute__((unused))
static int huge_memfd(size_t size)
{
	int fd = (int)syscall(SYS_memfd_create, "huge", 4u /* MFD_HUGETLB */ | 21u << 26);

	MUST(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	return fd;
}

/* What page @i of a file is filled with; each file and generation has its own. Never zero. */
static long canary(long file, long i)
{
	return 0x00ca000000000000l | file << 16 | i;
}

/* At both ends of the page, and not only there. */
__attribute__((unused))
static void write_canary(char *page, long value)
{
	volatile long *p = (volatile long *)page;

	p[0] = p[1000] = p[HUGE_LONGS - 1] = value;
}

/* A shared window of huge_fd, from its beginning. NORESERVE: it takes pages when they are touched. */
__attribute__((unused))
static char *map_window(int n, size_t len, int prot)
{
	char *p = mmap(WINDOW(n), len, prot, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, huge_fd, 0);

	MUST(p == WINDOW(n));
	return p;
}

/* huge_fd: two gigabytes, of which the first @pages are there, with the canaries of file 1. */
__attribute__((unused))
static void make_huge_file(long pages)
{
	huge_fd = huge_memfd(2 * GIB);
	if (!pages)
		return;
	char *p = map_huge((size_t)pages, RW, MAP_SHARED | MAP_NORESERVE, huge_fd);
	for (long i = 0; i < pages; i++)
		write_canary(p + (size_t)i * HUGE, canary(1, i));
	MUST(munmap(p, (size_t)pages * HUGE) == 0);
}

/* Whether the entry of this huge page is there, in the tables of this process. Faults nothing in. -1: not mapped. */
__attribute__((unused))
static int entry_is_present(const char *page)
{
	unsigned char vec;

	return sys_mincore(page, PAGE, &vec) ? -1 : vec & 1;
}

/* The switch as it is; "" on Linux. */
__attribute__((unused))
static bool sync_is(const char *mode)
{
	char text[32] = "";
	int fd = open("/sys/kernel/faultline/hugetlb.sync", O_RDONLY);

	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 && strncmp(text, mode, strlen(mode)) == 0 && text[strlen(mode)] <= ' ';
}

/*
 * Starts it, and waits until it is held at @window. With some values of hugetlb.sync no task comes there; @modes are those with
 * which one must ("" on its own: all). Whether it is held.
 */
__attribute__((unused))
static bool start_and_hold(struct actor *a, const char *window, const char *modes)
{
	char one[32];
	bool must = !*modes, held = false;

	for (const char *m = modes; sscanf(m, "%31s", one) == 1; m = strstr(m, one) + strlen(one))
		must |= sync_is(one);
	hold(window, a->tid);
	a->start = 1;
	for (double end = now() + 10; !held && !a->done && now() < end; race_relax())
		held = is_held_now(window);
	if (must && !held) {
		printf("no task came to window %s\n", window);
		test_failures++;
	}
	return held;
}

/* -- other processes. Forked while there is one thread only; they share `common` with the part that has started them -- */

#define MAX_PEERS 6

struct peer {
	void		(*round)(void);
	pid_t		 pid;
	volatile unsigned long rounds;
	long		(*volatile call)(long arg);	/* a puppet is to do this */
	volatile long	 arg, result;
};

static struct common {
	volatile int	 over;
	volatile long	 word[8];	/* the program's own */
	struct peer	 peer[MAX_PEERS];
} *common;
static int nr_peers;

static void peer_main(struct peer *p)
{
	test_failures = 0;
	while (!common->over && test_failures < 20) {
		if (p->round) {
			p->round();
			p->rounds++;
		} else if (p->call) {
			p->result = p->call(p->arg);
			p->call = NULL;
		} else {
			sleep_ms(1);
		}
	}
	fflush(stdout);
	_exit(test_failures ? 1 : 0);
}

/* A process that does @round again and again; NULL: a puppet, which does what puppet() says. */
__attribute__((unused))
static struct peer *peer_start(void (*round)(void))
{
	if (!common) {
		common = mmap(NULL, sizeof(*common), RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		MUST(common != MAP_FAILED);
	}
	MUST(nr_peers < MAX_PEERS);
	struct peer *p = &common->peer[nr_peers++];
	p->round = round;
	fflush(stdout);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid)
		peer_main(p);
	p->pid = pid;			/* the peer sees this memory too, so not before we know who we are */
	return p;
}

__attribute__((unused))
static long puppet(struct peer *p, long (*call)(long arg), long arg)
{
	p->arg = arg;
	p->call = call;
	for (double end = now() + HANG_SECONDS; p->call; race_relax())
		if (now() >= end)
			hang("puppet", p->pid);
	return p->result;
}

__attribute__((unused))
static void peers_end(void)
{
	double end = now() + HANG_SECONDS;
	int status;

	common->over = 1;
	for (int i = 0; i < nr_peers; i++) {
		while (waitpid(common->peer[i].pid, &status, WNOHANG) == 0) {
			if (now() >= end)
				hang("peer", i);
			sleep_ms(5);
		}
		if (status) {
			printf("peer %d ends with status %x\n", i, (unsigned)status);
			test_failures++;
		}
	}
	nr_peers = 0;
	common->over = 0;
}

/* Peer: free huge pages are taken, must be zero, and must stay as they are written while they are ours. */
__attribute__((unused))
static void take_free_pages(void)
{
	enum { N = 2 };
	long mine = canary(0x100 + my_tid() % 0x100, 0), got;
	char *p = map_huge(N, RW, HUGE_ANON | MAP_NORESERVE, -1);

	for (int i = 0; i < N; i++) {
		volatile long *page = (volatile long *)(p + i * HUGE);

		if (touch(page, false, &got))
			continue;			/* none left */
		CHECK_EQUAL(0, page[0] | page[1000] | page[HUGE_LONGS - 1]);
		write_canary((char *)page, mine);
		sched_yield();
		CHECK_EQUAL(mine, page[0]);
		CHECK_EQUAL(mine, page[1000]);
		CHECK_EQUAL(mine, page[HUGE_LONGS - 1]);
	}
	MUST(munmap(p, N * HUGE) == 0);
}

/*
 * Peer: tables that come free are taken, and must hold only what we put there: a small file of our own in a window of our
 * own.
 */
__attribute__((unused))
static void build_a_table(void)
{
	static int fd = -1;
	long mine = canary(0x200 + my_tid() % 0x100, 0);

	if (fd < 0)
		fd = huge_memfd(GIB);
	char *p = mmap(WINDOW(40), GIB, RW, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
	MUST(p == WINDOW(40));
	write_canary(p, mine);
	for (int i = 1; i < 16; i++)
		CHECK_EQUAL(0, entry_is_present(p + i * HUGE));
	CHECK_EQUAL(mine, ((volatile long *)p)[1000]);
	MUST(munmap(p, GIB) == 0);
}

/* -- a part with the pool as it was afterwards -- */

__attribute__((unused))
static void run_huge_race(void (*racing)(void), void (*forced)(void), long slack)
{
	struct pool before = pool_now();

	if (before.total < POOL)
		test_skip("no pool of huge pages");
	void *p = mmap(NULL, HUGE, RW, HUGE_ANON | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		test_skip("huge pages cannot be mapped");
	munmap(p, HUGE);
	run_parts(racing, forced, slack);
	pool_must_be("afterwards", before);
	test_end();
}

#endif
