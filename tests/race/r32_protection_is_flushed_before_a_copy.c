/*
 * R32. A page is write-protected, the flush still to come; a write fault copies it; a third CPU goes on writing to the old page by its old
 * translation, and that write is lost. So the flush comes before the lock of the entry is dropped, or the copying fault sees that it
 * is pending.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=32
 * shows: lost|PANIC
 */
#include "uffd_race.h"

static volatile long *counter;		/* one for each writer, in one page */
static int fd;

static void count(struct racer *r)
{
	long *own = (long *)&counter[r->id];

	for (int i = 0; i < 200; i++) {
		long before = __atomic_load_n(own, __ATOMIC_RELAXED);

		__atomic_store_n(own, before + 1, __ATOMIC_RELAXED);
		if (__atomic_load_n(own, __ATOMIC_RELAXED) != before + 1) {
			printf("a write is lost: %ld after %ld was written\n", *own, before + 1);
			test_failures++;
		}
	}
}

static void fork_child(struct racer *r)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)r;
	MUST(pid >= 0);
	if (!pid) {
		/* Protection does not follow a fork without the event: what we write here stays here. */
		counter[0] = -1;
		_exit(counter[0] != -1);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
}

static volatile int stop_protecting;
static void *protect(void *arg)
{
	while (!stop_protecting) {
		CHECK_EQUAL(0, uffd_writeprotect(fd, (void *)counter, PAGE, UFFDIO_WRITEPROTECT_MODE_WP));
		sched_yield();
		CHECK_EQUAL(0, uffd_writeprotect(fd, (void *)counter, PAGE, 0));
		sched_yield();
	}
	return arg;
}

static void racing(void)
{
	struct racer racers[] = { { .round = count }, { .round = count }, { .round = fork_child } };
	pthread_t protector;

	counter = (volatile long *)map_alone(1, RW);
	counter[0] = 1;
	fd = open_uffd(0);
	MUST(uffd_register(fd, (void *)counter, PAGE, WP) == 0);
	MUST(pthread_create(&protector, NULL, protect, NULL) == 0);
	race(RACE_SECONDS, racers, 3);
	stop_protecting = 1;
	pthread_join(protector, NULL);
}

/* -- forced: once protected, the page does not change, whatever its other users have in their TLBs -- */

static volatile int stop_writing;
static void keep_writing(void *arg)
{
	run_on(1);
	while (!stop_writing)
		((volatile long *)arg)[0]++;
}

static void forced(void)
{
	struct actor writer;

	counter = (volatile long *)map_alone(1, RW);
	counter[0] = 1;
	fd = open_uffd(0);
	MUST(uffd_register(fd, (void *)counter, PAGE, WP) == 0);
	run_on(0);
	actor_create(&writer, keep_writing, (void *)counter);
	writer.start = 1;
	for (int i = 0; i < 50; i++) {
		sleep_ms(2);
		MUST(uffd_writeprotect(fd, (void *)counter, PAGE, UFFDIO_WRITEPROTECT_MODE_WP) == 0);
		long seen = counter[0];
		for (int k = 0; k < 20000; k++)
			__asm__ volatile("pause");
		if (counter[0] != seen) {
			puts("a write to protected memory would be lost by a copy: it went through after WRITEPROTECT had returned");
			test_failures++;
			break;
		}
		MUST(uffd_writeprotect(fd, (void *)counter, PAGE, 0) == 0);
	}
	stop_writing = 1;
	MUST(uffd_writeprotect(fd, (void *)counter, PAGE, 0) == 0);
	actor_join(&writer);
}

int main(void)
{
	run_race(racing, forced, 64);
}
