/*
 * Processes with threads do to one file of huge pages, at random and all at once, what shares and unshares tables: touch, protect, drop,
 * unmap, move, fork, punch, truncate, pin. Page i of the file never holds anything but 0 or its own mark, and afterwards all
 * pages are free again and every table knows its users. Rules D1, D20, D22, E3..E18. (Linux 6.12 does not come back from this within
 * two minutes on the emulator: its truncate starts anew whenever it has to wait for a fault.)
 *
 * only: faultline
 * build: debug
 * append: hugepages=40 hugetlb.sync=vma
 * timeout: 120
 */
#include <pthread.h>

#include "pmd_share_test.h"

#define PROCESSES	3
#define THREADS		2
#define GIBS		2
#define SECONDS		3

static int fd;
static volatile int *stop;

/* Page @i of the test: three in each GiB, at both ends and in the middle. */
static unsigned long page_offset(int i)
{
	static const unsigned long in_gib[] = { 0, GIB / 2, GIB - HUGE };

	return (unsigned long)(i / 3) * GIB + in_gib[i % 3];
}

struct thread {
	int		id;
	unsigned int	seed;
	sigjmp_buf	jump;
};

static __thread struct thread *self;

static void on_signal(int sig)
{
	(void)sig;
	siglongjmp(self->jump, 1);
}

static int random_below(int n)
{
	return rand_r(&self->seed) / 7 % n;
}

/* Reads or writes the mark of one page; SIGBUS and SIGSEGV are fine: it is truncated, protected or unmapped. */
static void touch(char *base, int i, bool write)
{
	volatile long *p = (volatile long *)(base + page_offset(i) + 64 * (unsigned long)(self->id + 1));
	long got;

	if (sigsetjmp(self->jump, 1))
		return;
	got = *p;
	if (got != 0 && got != i + 1) {
		printf("page %d holds %lx\n", i, got);
		test_failures++;
	}
	if (write)
		*p = i + 1;
}

/* The page through other eyes: a pin, and the two files of /proc that look at entries. */
static void look(char *base, int i)
{
	char *p = base + page_offset(i);
	unsigned char vec[1];
	int pipes[2];
	long value = 0;
	struct iovec iov = { p + 64, 8 };

	switch (random_below(3)) {
	case 0:
		syscall(SYS_mincore, p, 4096ul, vec);
		break;
	case 1:
		if (pipe(pipes))
			return;
		if (vmsplice(pipes[1], &iov, 1, SPLICE_F_NONBLOCK) == 8 && read(pipes[0], &value, 8) == 8 && value != 0 && value != i + 1) {
			printf("page %d holds %lx for a pin\n", i, value);
			test_failures++;
		}
		close(pipes[0]);
		close(pipes[1]);
		break;
	default:
		read_text("/proc/self/smaps");
	}
}

static void change(char *base)
{
	int i = random_below(3 * GIBS);
	char *p = base + page_offset(i), *gib = base + (unsigned long)(i / 3) * GIB;

	switch (random_below(8)) {
	case 0:
		mprotect(p, HUGE, PROT_READ);
		mprotect(p, HUGE, RW);
		break;
	case 1:
		madvise(p, HUGE, MADV_DONTNEED);
		break;
	case 2:
		munmap(gib, GIB);
		/* fallthrough */
	case 3:
		mmap(gib, GIB, RW, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, (off_t)(gib - base));
		break;
	case 4:
		mremap(gib, GIB, GIB, MREMAP_MAYMOVE | MREMAP_FIXED, base + 16 * GIB);
		munmap(base + 16 * GIB, GIB);
		mmap(gib, GIB, RW, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, (off_t)(gib - base));
		break;
	case 5:
		fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, (off_t)page_offset(i), HUGE);
		break;
	case 6:
		MUST(!ftruncate(fd, (off_t)(random_below(2) * GIB + GIB / 2)));
		MUST(!ftruncate(fd, (off_t)(GIBS * GIB)));
		break;
	default: {
		pid_t pid = fork();

		if (!pid) {
			for (int n = 0; n < 3 * GIBS; n++)
				touch(base, n, n & 1);
			_exit(test_failures != 0);
		}
		int status = 0;
		if (pid > 0 && waitpid(pid, &status, 0) == pid && status)
			test_failures++;
	}
	}
}

static void *work(void *arg)
{
	struct thread *t = arg;

	self = t;
	while (!*stop) {
		for (int n = 0; n < 8; n++)
			touch(WINDOW, random_below(3 * GIBS), random_below(2));
		if (random_below(2))
			change(WINDOW);
		else
			look(WINDOW, random_below(3 * GIBS));
	}
	return NULL;
}

static int one_process(int n)
{
	struct thread threads[THREADS];
	pthread_t ids[THREADS];

	map_huge(WINDOW, GIBS * GIB, RW, MAP_SHARED, fd, 0);
	for (int i = 0; i < THREADS; i++) {
		threads[i] = (struct thread){ .id = n * THREADS + i, .seed = (unsigned int)(n * THREADS + i + 1) * 7919u };
		MUST(!pthread_create(&ids[i], NULL, work, &threads[i]));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	fflush(stdout);
	return test_failures != 0;
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_NODEFER };
	long free_before = proc_number("/proc/meminfo", "HugePages_Free");
	const char *check = "/sys/kernel/faultline/pmd_share_check";
	pid_t pids[PROCESSES];
	int status;

	MUST(!sigaction(SIGBUS, &sa, NULL) && !sigaction(SIGSEGV, &sa, NULL));
	fd = huge_file(GIBS);
	stop = mmap(NULL, 4096, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(stop != MAP_FAILED);
	for (int n = 0; n < PROCESSES; n++) {
		pids[n] = fork();
		if (!pids[n])
			_exit(one_process(n));
	}
	sleep(SECONDS);
	*stop = 1;
	for (int n = 0; n < PROCESSES; n++) {
		MUST(waitpid(pids[n], &status, 0) == pids[n]);
		CHECK_EQUAL(0, status);
	}
	if (!access(check, R_OK))
		CHECK_EQUAL(0, proc_number(check, "wrong"));
	close(fd);
	CHECK_EQUAL(free_before, proc_number("/proc/meminfo", "HugePages_Free"));
	CHECK_EQUAL(0, proc_number("/proc/meminfo", "HugePages_Rsvd"));
	CHECK_EQUAL(0, proc_number("/proc/meminfo", "HugePages_Surp"));
	test_end();
}
