/*
 * COPY, CONTINUE, MOVE and WRITEPROTECT, and the faults that wait for them, take the locks of their VMAs and not mmap_lock, which
 * /proc/lock_stat counts; beside threads that map and unmap all the time (SEMANTICS C10, C11).
 * only: faultline
 * cpus: 2
 */
#include "uffd_basic.h"

#include <sched.h>

#ifndef EXPECTED_LOCK
#define EXPECTED_LOCK "vma"
#endif

#define PAGES 256

/* Acquisitions of mmap_lock on behalf of @who since the counters were cleared, both modes. */
static long mmap_locks(const char *who)
{
	char *text = read_text("/proc/lock_stat"), *line, class[32], caller[32], mode[32];
	unsigned long acquired;
	long sum = 0;

	while ((line = next_line(&text)))
		if (sscanf(line, "%31s %31s %31s %lu", class, caller, mode, &acquired) == 4 && !strcmp(class, "MMAP") && !strcmp(caller, who))
			sum += (long)acquired;
	return sum;
}

static void clear_counters(void)
{
	int fd = open("/proc/lock_stat", O_WRONLY);

	MUST(fd >= 0 && write(fd, "0", 1) == 1);
	close(fd);
}

static volatile int stop, mapped;

static void *map_and_unmap(void *unused)
{
	(void)unused;
	while (!stop) {
		char *p = mmap(NULL, 65536, RW, ANON, -1, 0);

		MUST(p != MAP_FAILED);
		munmap(p, 65536);
		mapped++;
	}
	return NULL;
}

/* A manager in a thread: serves faults in whatever way the page needs until it reads an address of 0. */
struct memory {
	int	fd;
	char	*anon, *other, *file;	/* PAGES each: registered, plain, a registered mapping of a file */
} m;

static char contents[PAGE] __attribute__((aligned(4096)));

static void *serve(void *unused)
{
	(void)unused;
	for (int left = 3 * PAGES; left; left--) {
		struct u_msg msg = u_read(m.fd);
		char *page = (char *)(msg.b & ~(PAGE - 1));

		if (msg.a & PF_WP)
			MUST(u_protect(m.fd, page, PAGE, 0) == 0);
		else if (msg.a & PF_MINOR)
			MUST(u_fill(m.fd, U_CONTINUE, page, PAGE, 0) == 0);
		else
			MUST(u_copy(m.fd, page, contents, PAGE, 0) == 0);
	}
	return NULL;
}

static void touch_all(char *p)
{
	for (size_t i = 0; i < PAGES; i++)
		((volatile char *)p)[i * PAGE] = 1;
}

static void one_round(void)
{
	pthread_t manager;

	MUST(madvise(m.anon, PAGES * PAGE, MADV_DONTNEED) == 0 && madvise(m.file, PAGES * PAGE, MADV_DONTNEED) == 0);
	MUST(pthread_create(&manager, NULL, serve, NULL) == 0);
	clear_counters();
	touch_all(m.anon);				/* missing */
	touch_all(m.file);				/* minor */
	MUST(u_protect(m.fd, m.anon, PAGES * PAGE, 1) == 0);
	touch_all(m.anon);				/* protected */
	MUST(madvise(m.other, PAGES * PAGE, MADV_DONTNEED) == 0);
	touch_all(m.other);
	MUST(madvise(m.anon, PAGES * PAGE, MADV_DONTNEED) == 0);
	for (size_t i = 0; i < PAGES; i += 16)
		MUST(u_move(m.fd, m.anon + i * PAGE, m.other + i * PAGE, 16 * PAGE, 0) == 0);
	long by_uffd = mmap_locks("uffd"), by_faults = mmap_locks("fault");
	MUST(pthread_join(manager, NULL) == 0);
	if (!strcmp(EXPECTED_LOCK, "vma")) {
		CHECK_EQUAL(0, by_uffd);
		CHECK_EQUAL(0, by_faults);
	} else {
		CHECK(by_uffd >= 3 * PAGES);
	}
}

int main(void)
{
	int mem = make_memfd(PAGES, 0);
	pthread_t mapper;

	MUST(!strncmp(read_text("/sys/kernel/faultline/uffd.lock"), EXPECTED_LOCK, strlen(EXPECTED_LOCK)));
	m.fd = u_open(0, 0);
	m.anon = map_alone(PAGES, RW);
	m.other = map_alone(PAGES, RW);
	m.file = mmap(NULL, PAGES * PAGE, RW, MAP_SHARED, mem, 0);
	MUST(m.file != MAP_FAILED && fallocate(mem, 0, 0, PAGES * PAGE) == 0);
	touch_all(m.file);
	MUST(u_register(m.fd, m.anon, PAGES * PAGE, U_MISSING | U_WP) == 0 && u_register(m.fd, m.file, PAGES * PAGE, U_MINOR) == 0);
	read_text("/proc/lock_stat");			/* its buffer is there before the count begins */
	MUST(pthread_create(&mapper, NULL, map_and_unmap, NULL) == 0);
	while (!mapped)
		sched_yield();
	one_round();					/* the first of everything: stacks, tables */
	test_failures = 0;
	int before = mapped;
	for (int i = 0; i < 5; i++)
		one_round();
	CHECK(mapped > before);
	stop = 1;
	MUST(pthread_join(mapper, NULL) == 0);
	test_end();
}
