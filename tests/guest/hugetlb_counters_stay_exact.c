/*
 * R17 to R22, R25: threads map, touch, drop, move and unmap private and shared huge memory with overlapping ranges, allocate, punch
 * and truncate the files, fork, attach SysV segments, and resize the pool, all at once. Whoever was promised a page gets it;
 * at the end every page and every promise is back, in the pool and in the mount with its minimum and maximum.
 *
 * Not on Linux 6.12: there the mount with a minimum now and then gives back more than it took (R18), so that Rsvd ends below
 * zero, and the tests that share the boot find no pool.
 *
 * only: faultline
 * cpus: 2
 * slow-cpus: 1 4 8
 * timeout: 120
 */
#include "hugetlb_test.h"

#include <pthread.h>
#include <time.h>

#define DIR		"/tmp/.huge"
#define POOL_PAGES	14
#define FILE_PAGES	8
#define MOUNT_PAGES	8
#define MOUNT_MIN	2
#define S		((off_t)HUGE)
#define MILLISECONDS	3000

static __thread sigjmp_buf jump;
static __thread unsigned long seed;
static int files[2];				/* a memfd, and one on the mount */
static int meeting;				/* a memfd of one page: taken without a promise and promised at the same time */
static long deadline;

static unsigned int pick(unsigned int n)
{
	seed = seed * 6364136223846793005ul + 1442695040888963407ul;
	return (unsigned int)(seed >> 33) % n;
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void on_bus(int sig)
{
	(void)sig;
	siglongjmp(jump, 1);
}

/* Writes a byte of the page; false: SIGBUS. */
static bool touched(volatile char *p, bool write)
{
	if (sigsetjmp(jump, 1))
		return false;
	if (write)
		*p = 1;
	else
		(void)*p;
	return true;
}

/* D6, R19, R22, R25: promised, so no fault may fail. */
static void private_owner(void)
{
	size_t n = 1 + pick(4);
	char *p = mmap(NULL, n * HUGE, RW, HUGE_ANON, -1, 0), *to;

	if (p == MAP_FAILED) {
		CHECK(errno == ENOMEM);
		return;
	}
	for (unsigned int i = 0; i < 6; i++) {
		size_t page = pick((unsigned int)n);

		switch (pick(5)) {
		case 0:
			/* Its page may go to another before it is back, if there is surplus: then the promise is over (D9). */
			if (!read_number(POOL "nr_overcommit_hugepages"))
				madvise(p + page * HUGE, HUGE, MADV_DONTNEED);
			break;
		case 1:
			to = mmap(NULL, n * HUGE, PROT_NONE, HUGE_ANON | MAP_NORESERVE, -1, 0);
			if (to != MAP_FAILED && mremap(p, n * HUGE, n * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
				p = to;
			break;
		case 2:
			mprotect(p + page * HUGE, HUGE, PROT_READ);
			mprotect(p + page * HUGE, HUGE, RW);
			break;
		}
		page = pick((unsigned int)n);
		touched(p + page * HUGE, pick(2));
	}
	MUST(munmap(p, n * HUGE) == 0);
}

/* The same without what may lose the promise: here SIGBUS is a failure. */
static void promised(void)
{
	size_t n = 1 + pick(3);
	char *p = mmap(NULL, n * HUGE, RW, HUGE_ANON, -1, 0);

	if (p == MAP_FAILED)
		return;
	for (size_t i = 0; i < n; i++)
		CHECK(touched(p + i * HUGE, pick(2)));
	MUST(munmap(p, n * HUGE) == 0);
}

static void shared(int fd, int flags)
{
	size_t from = pick(FILE_PAGES), n = 1 + pick(FILE_PAGES - (unsigned int)from);
	char *p = mmap(NULL, n * HUGE, RW, flags, fd, (off_t)from * S);

	if (p == MAP_FAILED) {
		CHECK(errno == ENOMEM);
		return;
	}
	for (int i = 0; i < 3; i++)
		touched(p + pick((unsigned int)n) * HUGE, pick(2));
	if (pick(3) == 0)
		madvise(p, HUGE, MADV_DONTNEED);
	if (pick(3) == 0 && (flags & MAP_SHARED))
		madvise(p, HUGE, MADV_REMOVE);
	MUST(munmap(p, n * HUGE) == 0);
}

static void forked(void)
{
	char *p = mmap(NULL, 2 * HUGE, RW, HUGE_ANON, -1, 0);
	int status;

	if (p == MAP_FAILED)
		return;
	CHECK(touched(p, true));
	pid_t pid = fork();
	if (!pid) {
		touched(p, true);
		touched(p + HUGE, true);
		_exit(0);
	}
	CHECK(touched(p, true));
	CHECK(touched(p + HUGE, true));
	if (pid > 0)
		MUST(waitpid(pid, &status, 0) == pid);
	MUST(munmap(p, 2 * HUGE) == 0);
}

static void segment(void)
{
	int id = shmget(IPC_PRIVATE, 2 * HUGE, IPC_CREAT | SHM_HUGETLB | HUGE_2M | 0600);
	char *p;

	if (id < 0)
		return;
	p = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	if (p == (void *)-1)
		return;
	CHECK(touched(p + HUGE, true));
	MUST(shmdt(p) == 0);
}

/* The page comes without a promise while others promise it: met, so the promise goes back. */
static void meet(bool take)
{
	char *p = mmap(NULL, HUGE, RW, MAP_SHARED | (take ? MAP_NORESERVE : 0), meeting, 0);

	if (p == MAP_FAILED)
		return;
	if (take)
		touched(p, true);
	MUST(munmap(p, HUGE) == 0);
	if (take)
		MUST(ftruncate(meeting, 0) == 0);
}

static void *promiser(void *arg)
{
	(void)arg;
	while (now_ms() < deadline)
		meet(false);
	return NULL;
}

static void *worker(void *arg)
{
	seed = (unsigned long)arg * 7919 + 1;
	while (now_ms() < deadline) {
		int fd = files[pick(2)];
		off_t from = pick(FILE_PAGES) * S, len = (1 + pick(3)) * S;

		switch (pick(14)) {
		case 12: case 13: meet(true); break;
		case 0: case 1: private_owner(); break;
		case 2: promised(); break;
		case 3: case 4: shared(fd, MAP_SHARED); break;
		case 5: shared(fd, MAP_SHARED | MAP_NORESERVE); break;
		case 6: shared(fd, MAP_PRIVATE); break;
		case 7: fallocate(fd, pick(2) ? FALLOC_FL_KEEP_SIZE : 0, from, len); break;
		case 8: fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from + pick(2) * 4096, len); break;
		case 9: MUST(ftruncate(fd, from) == 0); break;
		case 10: forked(); break;
		case 11: segment(); break;
		}
	}
	return NULL;
}

/* Shrinks and grows under all that, and looks at D1: the four numbers are of one moment here, on Linux they are not. */
static void *administrator(void *arg)
{
	bool exact = access("/sys/kernel/faultline", F_OK) == 0;

	(void)arg;
	seed = 4711;
	while (now_ms() < deadline) {
		set_number(POOL "nr_hugepages", POOL_PAGES - 4 + pick(9));
		if (exact) {
			char text[8192];
			int fd = open("/proc/meminfo", O_RDONLY);
			ssize_t n = read(fd, text, sizeof(text) - 1);
			long total, free, rsvd, surplus;
			char *at;

			close(fd);
			MUST(n > 0);
			text[n] = '\0';
			at = strstr(text, "HugePages_Total:");
			MUST(at && sscanf(at, "HugePages_Total: %ld HugePages_Free: %ld HugePages_Rsvd: %ld HugePages_Surp: %ld", &total, &free, &rsvd, &surplus) == 4);
			CHECK(rsvd >= 0 && rsvd <= free && free <= total && surplus <= total);
		}
		usleep(1000);
	}
	return NULL;
}

static void round_of(int threads)
{
	pthread_t t[8], admin, other;
	struct statfs s;
	struct pool p;

	deadline = now_ms() + MILLISECONDS;
	MUST(pthread_create(&admin, NULL, administrator, NULL) == 0);
	MUST(pthread_create(&other, NULL, promiser, NULL) == 0);
	for (long i = 0; i < threads; i++)
		MUST(pthread_create(&t[i], NULL, worker, (void *)i) == 0);
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	pthread_join(admin, NULL);
	pthread_join(other, NULL);

	MUST(ftruncate(files[0], 0) == 0 && ftruncate(files[1], 0) == 0 && ftruncate(meeting, 0) == 0);
	set_number(POOL "nr_overcommit_hugepages", 0);
	set_number(POOL "nr_hugepages", POOL_PAGES);
	p = pool_now();
	MUST(statfs(DIR, &s) == 0);
	if (p.total != POOL_PAGES || p.free != POOL_PAGES || p.rsvd != MOUNT_MIN || p.surplus || s.f_bfree != MOUNT_PAGES) {
		printf("at the end: Total %ld Free %ld Rsvd %ld Surp %ld, mount has %ld free\n", p.total, p.free, p.rsvd, p.surplus, (long)s.f_bfree);
		test_failures++;
	}
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_bus, .sa_flags = SA_NODEFER };

	setvbuf(stdout, NULL, _IOLBF, 0);
	MUST(sigaction(SIGBUS, &sa, NULL) == 0);
	pool_begin(POOL_PAGES);
	MUST(mount_huge(DIR, "size=16M,min_size=4M") == 0);
	files[0] = huge_memfd(0);
	meeting = huge_memfd(0);
	files[1] = open(DIR "/f", O_CREAT | O_RDWR, 0600);
	MUST(files[1] >= 0);
	round_of(6);
	set_number(POOL "nr_overcommit_hugepages", 4);
	round_of(6);
	close(files[0]);
	close(files[1]);
	close(meeting);
	MUST(unlink(DIR "/f") == 0 && umount(DIR) == 0);
	pool_end(POOL_PAGES);
}
