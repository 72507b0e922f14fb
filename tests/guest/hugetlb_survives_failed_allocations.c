/*
 * R17: everything that makes, spends or gives back a promise, with its first, second, third ... allocation failing. Whatever
 * failed, the counters of pool and mount are as they were, and so is the memory of the kernel.
 * only: faultline
 * build: debug
 * cpus: 1
 * timeout: 120
 */
#include "alloc_fail.h"
#include "hugetlb_test.h"

#define DIR	"/tmp/.huge"
#define N	6
#define S	((off_t)HUGE)

static int fd;
static char *p;

static int left(void)
{
	char text[16] = "";

	MUST(pread(fail_fd, text, sizeof(text) - 1, 0) > 0);
	return atoi(text);
}

/* Each returns 0, or the errno that it saw. A SIGBUS counts as ENOSPC. */
static int touch(char *at)
{
	struct fault f = access_byte((unsigned long)at, WRITE);

	return f.signal ? ENOSPC : 0;
}

static int map_private(void) { p = mmap(NULL, 3 * HUGE, RW, HUGE_ANON, -1, 0); return p == MAP_FAILED ? errno : 0; }
static int map_shared(void) { p = mmap(NULL, 3 * HUGE, RW, MAP_SHARED, fd, S); return p == MAP_FAILED ? errno : 0; }
static int map_far(void) { p = mmap(NULL, 2 * HUGE, RW, MAP_SHARED, fd, 511 * S); return p == MAP_FAILED ? errno : 0; }
static int map_too_much(void) { p = mmap(NULL, 12 * HUGE, RW, MAP_SHARED, fd, 0); return p == MAP_FAILED ? errno : 0; }
static int touch_mapped(void) { return touch(p) ? ENOSPC : touch(p + HUGE); }
static int allocate(void) { return fallocate(fd, 0, 0, 3 * S) ? errno : 0; }
static int allocate_far(void) { return fallocate(fd, 0, 511 * S, 2 * S) ? errno : 0; }
static int punch(void) { return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, S) ? errno : 0; }
static int make_memfd_huge(void) { int f = (int)syscall(SYS_memfd_create, "x", MFD_HUGETLB | HUGE_2M); if (f < 0) return errno; close(f); return 0; }
static int mount_it(void) { return mount("none", "/tmp/.other", "hugetlbfs", 0, "min_size=4M,size=8M") ? errno : 0; }
static int get_segment(void) { int id = shmget(IPC_PRIVATE, 2 * HUGE, IPC_CREAT | SHM_HUGETLB | HUGE_2M | 0600); if (id < 0) return errno; shmctl(id, IPC_RMID, NULL); return 0; }
static int split(void) { return mprotect(p + HUGE, HUGE, PROT_READ) ? errno : 0; }
static int move(void) { return mremap(p, 2 * HUGE, 2 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, p - 4096 * HUGE) == MAP_FAILED ? errno : 0; }
static int unmap_part(void) { return munmap(p + HUGE, HUGE) ? errno : 0; }
static int drop(void) { return madvise(p, HUGE, MADV_DONTNEED) ? errno : 0; }
static int grow_pool(void) { return try_write(POOL "nr_hugepages", "12"); }
static int overcommit(void) { p = mmap(NULL, 12 * HUGE, RW, HUGE_ANON, -1, 0); return p == MAP_FAILED ? errno : 0; }

static void no_setup(void) { }
static void allow_surplus(void) { set_number(POOL "nr_overcommit_hugepages", 4); }
static void mapped_private(void) { MUST(!map_private()); }
static void mapped_touched(void) { MUST(!map_private() && !touch_mapped()); }
static void mapped_shared(void) { MUST(!map_shared()); }
static void mapped_noreserve(void) { p = map_fd(fd, 3, RW, MAP_SHARED | MAP_NORESERVE, 1); }
static void allocated(void) { MUST(!allocate()); }

static const struct { const char *name; void (*setup)(void); int (*call)(void); } calls[] = {
	{ "mmap private", no_setup, map_private }, { "mmap shared", no_setup, map_shared }, { "mmap across a GiB", no_setup, map_far },
	{ "mmap too much", no_setup, map_too_much }, { "touch private", mapped_private, touch_mapped },
	{ "touch shared", mapped_shared, touch_mapped }, { "touch unreserved", mapped_noreserve, touch_mapped },
	{ "fallocate", no_setup, allocate }, { "fallocate across a GiB", no_setup, allocate_far }, { "fallocate promised", mapped_shared, allocate },
	{ "punch", allocated, punch }, { "memfd", no_setup, make_memfd_huge }, { "mount", no_setup, mount_it }, { "shmget", no_setup, get_segment },
	{ "split", mapped_touched, split }, { "mremap", mapped_touched, move }, { "munmap a part", mapped_touched, unmap_part },
	{ "DONTNEED", mapped_touched, drop }, { "grow", no_setup, grow_pool }, { "overcommit", allow_surplus, overcommit },
};

/* In a child of its own, whose exit gives everything back but the mount and the file. */
static int run_once(unsigned int i, int n, int *armed)
{
	int status, tell[2], answer[2] = { 0, 0 };

	MUST(pipe(tell) == 0);
	pid_t pid = fork();
	if (!pid) {
		p = NULL;
		calls[i].setup();
		fail_at(n);
		answer[0] = calls[i].call();
		answer[1] = left();
		fail_at(0);
		MUST(write(tell[1], answer, sizeof(answer)) == sizeof(answer));
		_exit(0);
	}
	close(tell[1]);
	MUST(waitpid(pid, &status, 0) == pid);
	if (status || read(tell[0], answer, sizeof(answer)) != sizeof(answer)) {
		printf("%s, allocation %d: the child ended with %x\n", calls[i].name, n, status);
		test_failures++;
	}
	close(tell[0]);
	*armed = answer[1];
	return answer[0];
}

static void back_to_the_start(unsigned int i, int n)
{
	struct pool now;
	struct statfs s;

	set_number(POOL "nr_overcommit_hugepages", 0);
	set_number(POOL "nr_hugepages", 10);
	MUST(ftruncate(fd, 0) == 0);
	umount("/tmp/.other");
	now = pool_now();
	MUST(statfs(DIR, &s) == 0);
	if (now.total != 10 || now.free != 10 || now.rsvd != 2 || now.surplus || s.f_bfree != N) {
		printf("%s, allocation %d: Total %ld Free %ld Rsvd %ld Surp %ld, mount has %ld free\n", calls[i].name, n, now.total, now.free,
		       now.rsvd, now.surplus, (long)s.f_bfree);
		test_failures++;
	}
}

static void run(unsigned int i)
{
	for (int n = 1; n <= 200; n++) {
		int armed, error = run_once(i, n, &armed);

		if (error && error != ENOMEM && error != ENOSPC && error != ENFILE && error != EFAULT && error != EAGAIN) {
			printf("%s, allocation %d: errno %d\n", calls[i].name, n, error);
			test_failures++;
		}
		back_to_the_start(i, n);
		if (armed > 1)
			return;			/* it needed fewer than n; reading the control file may have used one */
	}
	printf("%s: still failing at allocation 200\n", calls[i].name);
	test_failures++;
}

int main(void)
{
	catch_faults();
	setvbuf(stdout, NULL, _IONBF, 0);
	alloc_fail_open();
	pool_begin(10);
	mkdir("/tmp/.other", 0755);
	MUST(mount_huge(DIR, "size=12M,min_size=4M") == 0);
	fd = open(DIR "/f", O_CREAT | O_RDWR, 0600);
	MUST(fd >= 0);
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		run(i);					/* caches reach the size they need */
		long before = frames_used();

		run(i);
		long after = frames_used();

		if (after > before + 32) {
			printf("%s: %ld frames more than before\n", calls[i].name, after - before);
			test_failures++;
		}
	}
	close(fd);
	unlink(DIR "/f");
	MUST(umount(DIR) == 0);
	pool_end(10);
}
