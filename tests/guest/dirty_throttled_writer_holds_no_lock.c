/*
 * A writer that is made to wait for the disk, inside the page fault of its write, holds nothing that others need: another thread
 * of the process maps and unmaps, and even unmaps and closes what is being written to (G4, G5). Each disk write takes seconds,
 * so what is done while the writer does not move is done while it waits. Also when the write is the kernel's: read(2) into the mapping.
 *
 * only: faultline
 * cpus: 1 2
 */
#include "dirty_test.h"

#define PAGES	256u
#define LIMIT	16u		/* pages that may be dirty */

static char *area;
static int zero_fd;
static bool by_kernel;
static unsigned int written;	/* atomic */
static bool over;		/* atomic */
static struct fault ending;

static void write_page(unsigned int i)
{
	if (by_kernel)
		MUST(read(zero_fd, area + i * PAGE, 1) == 1);
	else
		((volatile char *)area)[i * PAGE] = 1;
}

static void *writer(void *arg)
{
	static char stack[16384];	/* for signal handlers; those of main are not this thread's */
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };

	(void)arg;
	MUST(sigaltstack(&ss, NULL) == 0);
	memset((void *)&ending, 0, sizeof(ending));
	if (sigsetjmp(fault_jump, 0)) {
		ending = fault_got;
	} else {
		for (unsigned int i = 0; i < PAGES && !__atomic_load_n(&over, __ATOMIC_ACQUIRE); i++) {
			write_page(i);
			__atomic_store_n(&written, i + 1, __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

/* Until the writer has not moved for a third of a second; the disk would let it go on after two. How far it came. */
static unsigned int wait_for_stall(void)
{
	unsigned int seen = 0, now;
	long since = now_ms();

	while (now_ms() - since < 333) {
		now = __atomic_load_n(&written, __ATOMIC_ACQUIRE);
		if (now != seen)
			since = now_ms();
		seen = now;
		MUST(seen < PAGES);
		sleep_ms(5);
	}
	return seen;
}

static pthread_t start_writer(int *fd)
{
	pthread_t t;

	*fd = make_cached(DISK "/f", PAGES);
	area = map_file(*fd, PAGES);
	if (by_kernel) {
		for (unsigned int i = 0; i < PAGES; i++)	/* mapped, read-only: the write is a write-protection fault */
			CHECK_EQUAL(0, ((volatile char *)area)[i * PAGE]);
	}
	written = 0;
	over = false;
	MUST(pthread_create(&t, NULL, writer, NULL) == 0);
	return t;
}

static void others_map_and_unmap(void)
{
	int fd;
	long waited = vmstat("balance_dirty_wait_ms");
	pthread_t t = start_writer(&fd);
	unsigned int at = wait_for_stall();

	/* A page that is written to again while it is on its way counts twice: it will have to go twice. */
	if (at < LIMIT / 2 || at > 2 * LIMIT) {
		printf("writing by the %s: stopped after %u pages, expected about %u\n", by_kernel ? "kernel" : "program", at, LIMIT);
		test_failures++;
	}
	for (int i = 0; i < 20; i++) {
		char *p = map_pages(4, RW, ANON);

		memset(p, 1, 4 * PAGE);
		CHECK(mprotect(p, PAGE, PROT_READ) == 0);
		CHECK(munmap(p, 4 * PAGE) == 0);
	}
	CHECK(munmap(area + (PAGES - 1) * PAGE, PAGE) == 0);	/* an end of its own mapping: writes to that VMA */
	CHECK_EQUAL(at, __atomic_load_n(&written, __ATOMIC_ACQUIRE));

	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	MUST(pthread_join(t, NULL) == 0);
	CHECK_EQUAL(0, ending.signal);
	CHECK(vmstat("balance_dirty_wait_ms") - waited > 300);
	CHECK(fsync(fd) == 0);
	for (unsigned int i = 0; i < at; i++) {
		char c;

		CHECK(pread(fd, &c, 1, (off_t)(i * PAGE)) == 1 && c == (by_kernel ? 0 : 1));
	}
	munmap(area, (PAGES - 1) * PAGE);
	close(fd);
	unlink(DISK "/f");
	must_become_clean();
}

/* The file lives on in the wait, and only there: the inode goes when the writer comes out, and finds its address unmapped. */
static void mapping_and_file_go(void)
{
	int fd;
	pthread_t t = start_writer(&fd);
	unsigned int at = wait_for_stall();

	CHECK(munmap(area, PAGES * PAGE) == 0);
	CHECK(close(fd) == 0 && unlink(DISK "/f") == 0);
	CHECK_EQUAL(at, __atomic_load_n(&written, __ATOMIC_ACQUIRE));
	MUST(pthread_join(t, NULL) == 0);
	CHECK_EQUAL(SIGSEGV, ending.signal);
	CHECK_EQUAL(SEGV_MAPERR, ending.code);
	must_become_clean();
}

/* A signal that kills does not wait for the disk. */
static void endless_writer(void *arg)
{
	int fd;

	(void)arg;
	pthread_join(start_writer(&fd), NULL);
}

static void waiting_writer_can_be_killed(void)
{
	long start = now_ms();
	pid_t pid = fork();
	int status;

	MUST(pid >= 0);
	if (pid == 0) {
		endless_writer(NULL);
		_exit(0);
	}
	while (vmstat("nr_dirty") + vmstat("nr_writeback") <= (long)LIMIT && now_ms() - start < 5000)
		sleep_ms(5);
	sleep_ms(100);
	start = now_ms();
	MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK(now_ms() - start < 1500);
	unlink(DISK "/f");		/* its pages are on their way: this waits for them */
	must_become_clean();
}

int main(void)
{
	catch_faults();
	mount_disk("delay_us=2000000,size=8m");
	set_dirty_limits(LIMIT * PAGE, LIMIT / 4 * PAGE);
	zero_fd = open("/dev/zero", O_RDONLY);
	MUST(zero_fd >= 0);

	others_map_and_unmap();
	mapping_and_file_go();
	by_kernel = true;
	others_map_and_unmap();
	by_kernel = false;
	waiting_writer_can_be_killed();

	set_dirty_limits(0, 0);
	CHECK(umount(DISK) == 0);
	test_end();
}
