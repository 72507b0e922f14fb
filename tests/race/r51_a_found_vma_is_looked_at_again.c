/*
 * R51. Between finding a VMA and locking it, a fault may be delayed for any time: meanwhile the VMA is unmapped, waits to be freed, and
 * another takes its place. Once it has the lock it must look again whose VMA that is, and whether it is one at all; and
 * when it lets go, nothing it touches may be gone.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=51
 * shows: although nothing is mapped|PANIC
 */
#include "race.h"

#define PAGES 4

static char *area;

/* What is there is one of: nothing, memory that can only be read, or memory that holds its page's number. */
static void touch_it(struct racer *r)
{
	long n = rnd(PAGES), v = 0;
	int sig = touch((volatile long *)(area + n * (long)PAGE), false, &v);

	(void)r;
	CHECK(sig == 0 || sig == SIGSEGV);
	CHECK(sig || v == 0 || v == n + 1);
}

static void map_and_unmap(struct racer *r)
{
	long n = rnd(PAGES);
	char *p = area + n * (long)PAGE;

	(void)r;
	MUST(mmap(p, PAGE, RW, ANON | MAP_FIXED, -1, 0) == p);
	*(volatile long *)p = n + 1;
	if (rnd(2))
		MUST(mmap(p, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0) == p);
	else
		MUST(mprotect(p, PAGE, PROT_NONE) == 0);
}

/* Address spaces come and go, and so do their VMAs: the memory of ours becomes that of others. */
static void processes(struct racer *r)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)r;
	MUST(pid >= 0);
	if (!pid) {
		for (int i = 0; i < 20; i++) {
			char *p = (char *)sys_mmap(NULL, PAGE * (1 + i % 3), RW, ANON, -1, 0);

			*(volatile char *)p = 1;
			if (i & 1)
				sys_munmap(p, PAGE);
		}
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
}

static void racing(void)
{
	struct racer racers[] = { { .round = touch_it }, { .round = touch_it }, { .round = map_and_unmap }, { .round = processes } };

	area = map_pages(PAGES, PROT_NONE, ANON);
	race(RACE_SECONDS, racers, 4);
}

/* -- forced: unmapped between finding and locking -- */

static volatile int signal_got = -1, is_ready, may_read;

static void read_once(void *arg)
{
	volatile long *p = arg;
	long v;

	run_on(1);
	touch(p - 512, false, &v);	/* what else this needs is there now: the next fault is the one */
	is_ready = 1;
	while (!may_read)
		__asm__ volatile("pause");
	signal_got = touch(p, false, &v);
}

static void forced(void)
{
	char *p = (char *)0x30000000;
	struct actor reader;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;			/* who is between the two keeps its CPU */
	run_on(0);
	MUST(mmap(p, 3 * PAGE, RW, ANON | MAP_FIXED, -1, 0) == p);
	p[0] = p[2 * PAGE] = 1;		/* the table stays */
	MUST(mprotect(p + PAGE, PAGE, PROT_READ) == 0);
	actor_create(&reader, read_once, p + PAGE);
	reader.start = 1;
	MUST(wait_flag(&is_ready, 5000));
	hold("vma_lock_found", reader.tid);
	may_read = 1;
	CHECK(is_held("vma_lock_found"));
	MUST(munmap(p + PAGE, PAGE) == 0);
	go();
	actor_join(&reader);
	if (signal_got != SIGSEGV) {
		printf("a read came through (signal %d), although nothing is mapped there\n", signal_got);
		test_failures++;
	}
	MUST(munmap(p, 3 * PAGE) == 0);
}

int main(void)
{
	run_race(racing, forced, 32);
}
