/*
 * For the tests of labs: what tests/guest has, frames of pages, and the view from outside the guest.
 *
 * view_*() ask the grader, which stops the machine, takes CR3 from the processor that runs this program, and walks the page
 * tables in the guest's memory through QEMU's monitor. A kernel that tells fairy tales in /proc does not get past that.
 * Run by hand, without a grader, they are skipped.
 */
#ifndef LAB_TEST_H
#define LAB_TEST_H

#ifndef RACE_SECONDS
#define RACE_SECONDS	0.25		/* of guest time: budgets are in instructions */
#endif
#include "../race/race.h"

#include <termios.h>

/*
 * In every loop that waits for another processor. Under -icount the processors take turns of many millions of instructions; PAUSE
 * ends a turn.
 */
__attribute__((unused))
static void relax(void)
{
	__builtin_ia32_pause();
}

/* -- frames -- */

/* How often /proc/lock_stat says that a lock of this class was taken by such a caller, in any mode. 0 on Linux. */
__attribute__((unused))
static unsigned long lock_count(const char *want_class, const char *want_caller)
{
	char class[32], caller[32], mode[32], *text;
	unsigned long n, sum = 0;

	if (access("/proc/lock_stat", R_OK))
		return 0;
	text = read_text("/proc/lock_stat");
	for (char *line; (line = next_line(&text)); )
		if (sscanf(line, "%31s %31s %31s %lu", class, caller, mode, &n) == 4 && !strcmp(class, want_class) && !strcmp(caller, want_caller))
			sum += n;
	return sum;
}

/* A test of per-VMA locks says little about a kernel whose faults do not use them. */
__attribute__((unused))
static void must_use_vma_locks(void)
{
	volatile char *p = map_alone(64, RW);
	unsigned long before = lock_count("VMA", "fault");

	if (access("/proc/lock_stat", R_OK))
		return;
	for (int i = 0; i < 64; i++)
		p[i * PAGE] = 1;
	if (lock_count("VMA", "fault") - before < 64) {
		printf("faults do not take the lock of their VMA\n");
		exit(1);
	}
	munmap((void *)p, 64 * PAGE);
}

#define PM_PRESENT	(1ull << 63)
#define PM_FRAME	((1ull << 55) - 1)

/* The frame behind @p, as /proc/self/pagemap tells it; 0: nothing there. Frame 0 is never given to programs. */
__attribute__((unused))
static unsigned long long frame_of(const volatile void *p)
{
	unsigned long long e = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	MUST(fd >= 0);
	MUST(pread(fd, &e, 8, (off_t)((unsigned long)p / PAGE * 8)) == 8);
	close(fd);
	return e & PM_PRESENT ? e & PM_FRAME : 0;
}

/* Page faults of this thread so far. */
__attribute__((unused))
static long faults(void)
{
	struct rusage ru;

	MUST(getrusage(RUSAGE_THREAD, &ru) == 0);
	return ru.ru_minflt + ru.ru_majflt;
}

__attribute__((unused))
static long status_kb(const char *key)
{
	char *text = read_text("/proc/self/status");
	size_t n = strlen(key);

	for (char *line; (line = next_line(&text)); )
		if (strncmp(line, key, n) == 0 && line[n] == ':')
			return atol(line + n + 1);
	return -1;
}

/*
 * Faultline keeps the empty tables of the last small munmap, in case the program comes back (mm/mmap.c). Here it is made to
 * keep those of a place of their own, so that what is measured is exact.
 */
__attribute__((unused))
static void park_kept_tables(void)
{
	volatile char *p = mmap((void *)0x700000000000ul, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);

	MUST(p == (void *)0x700000000000ul);
	*p = 1;
	MUST(munmap((void *)p, PAGE) == 0);
}

/* What the page tables of this process take, in kB. */
__attribute__((unused))
static long table_kb(void)
{
	park_kept_tables();
	return status_kb("VmPTE");
}

/* -- from outside -- */

static int view_fd = -1;

/* Sends one question and spins for the answer: a processor that idles would let the guest's clock run away. */
__attribute__((unused, format(printf, 1, 2)))
static void view(const char *format, ...)
{
	char line[256], answer[512];
	size_t got = 0;
	va_list ap;
	int n;

	if (view_fd < 0) {
		view_fd = open("/dev/ttyS3", O_RDWR | O_NOCTTY | O_NONBLOCK);
		if (view_fd < 0 || !getenv("FAULTLINE_VIEW"))
			test_skip("no grader looks from outside");
		struct termios raw;
		MUST(tcgetattr(view_fd, &raw) == 0);
		cfmakeraw(&raw);			/* no echo: it would come back as a question */
		MUST(tcsetattr(view_fd, TCSANOW, &raw) == 0);
	}
	va_start(ap, format);
	n = vsnprintf(line, sizeof(line) - 1, format, ap);
	va_end(ap);
	line[n++] = '\n';
	MUST(write(view_fd, line, (size_t)n) == n);
	for (;;) {
		for (volatile int i = 0; i < 300000; i++)	/* in user mode, where the grader looks for us */
			;
		ssize_t more = read(view_fd, answer + got, sizeof(answer) - 1 - got);
		if (more <= 0)
			continue;
		got += (size_t)more;
		answer[got] = '\0';
		if (strchr(answer, '\n'))
			break;
	}
	*strchr(answer, '\n') = '\0';
	if (strcmp(answer, "ok")) {
		line[n - 1] = '\0';
		printf("from outside: %s: %s\n", line, answer);
		test_failures++;
	}
}

#define view_page(p, rights)	view("page %lx %s %lx", (unsigned long)(p), (rights), *(volatile unsigned long *)(p))
#define view_none(p)		view("none %lx", (unsigned long)(p))
#define view_same(p, q)		view("same %lx %lx", (unsigned long)(p), (unsigned long)(q))
#define view_differ(p, q)	view("differ %lx %lx", (unsigned long)(p), (unsigned long)(q))
/* The frame behind @p is remembered under a name, also for other processes; and later compared. */
#define view_remember(name, p)	view("remember %s %lx", (name), (unsigned long)(p))
#define view_is(name, p)	view("is %s %lx", (name), (unsigned long)(p))
#define view_is_not(name, p)	view("isnot %s %lx", (name), (unsigned long)(p))
/* The same for the frame of the table in which the entry of that level stands, e.g. 2: the PMD table. */
#define view_table_remember(name, p, level)	view("table-remember %s %lx %d", (name), (unsigned long)(p), (level))
#define view_table_is(name, p, level)		view("table-is %s %lx %d", (name), (unsigned long)(p), (level))
#define view_table_is_not(name, p, level)	view("table-isnot %s %lx %d", (name), (unsigned long)(p), (level))
/*
 * Page faults of user mode in a range, three times: as the processor takes them, which the grader has from the emulator; as the kernel counts
 * them, for the thread and for all (/proc/vmstat); and as its trace shows them. In between only the accesses in question: other
 * faults of this thread would count as well.
 */
struct fault_count { long own, all; };

__attribute__((unused))
static long counted_by_vmstat(const char *key)
{
	char *text = read_text("/proc/vmstat");
	size_t n = strlen(key);

	for (char *line; (line = next_line(&text)); )
		if (strncmp(line, key, n) == 0 && line[n] == ' ')
			return atol(line + n + 1);
	return -1;
}

__attribute__((unused))
static struct fault_count faults_begin(void)
{
	struct fault_count c;

	view("faults_begin");
	write_file("/proc/trace", "1");
	for (int warm = 0; warm < 2; warm++)		/* what this itself touches is there then */
		c = (struct fault_count){ .all = counted_by_vmstat("pgfault"), .own = faults() };
	return c;
}

/* How many there were in [p, p + len), by the kernel's count; what disagrees with it fails the test. A range is good for once: traces stay. */
__attribute__((unused))
static long faults_end(struct fault_count before, const volatile void *p, size_t len)
{
	long n = faults() - before.own, all = counted_by_vmstat("pgfault") - before.all, traced = 0;
	char line[400];
	FILE *f;

	write_file("/proc/trace", "0");
	view("faults %lx %lx %lx", (unsigned long)p, len, n);
	f = fopen("/proc/trace", "r");
	MUST(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "\"event\":\"fault\",\"addr\":");
		unsigned long addr = at ? strtoul(at + strlen("\"event\":\"fault\",\"addr\":"), NULL, 10) : 0;

		traced += addr >= (unsigned long)p && addr < (unsigned long)p + len;
	}
	fclose(f);
	if (traced != n) {
		printf("the trace shows %ld faults at %p, the thread's count is %ld\n", traced, (void *)p, n);
		test_failures++;
	}
	if (all < n) {
		printf("/proc/vmstat counts %ld faults of all, the thread's count is %ld\n", all, n);
		test_failures++;
	}
	return n;
}

/* The entry of that level (4: root, 1: leaf) exists or not. */
#define view_level(p, level, there)	view("level %lx %d %d", (unsigned long)(p), (level), (there))

#endif
