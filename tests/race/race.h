/*
 * For the programs of tests/race. Each shows one race of docs/races.md in two ways.
 *
 * Racing: some threads do, for RACE_SECONDS, what makes the race likely, and check what they can see: canaries in their pages,
 * signals, counters. A thread that comes to no end of its round for ten seconds is a hang. In the debug kernel the windows of
 * kernel/race.h delay them by a seeded choice. This part runs on Linux too.
 *
 * Forced, with the debug kernel only: one interleaving, step by step. A task is held at a window inside the kernel until the
 * program has done what must not come in between, or has found that it has to wait. The kernel with the race re-opened
 * (tests/race/patches) fails here each time.
 */
#ifndef RACE_H
#define RACE_H

#include "../guest/mm_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <time.h>

#ifndef RACE_SECONDS
#define RACE_SECONDS	2.0
#endif
#ifndef HANG_SECONDS
#define HANG_SECONDS	10.0
#endif
#define PART_SECONDS	25.0
#define MAX_RACERS	12

__attribute__((unused))
static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

__attribute__((unused))
static void sleep_ms(int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

__attribute__((unused))
static pid_t my_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* In loops that wait for another processor: PAUSE lets it run at once also where processors take turns (-icount). */
__attribute__((unused))
static void race_relax(void)
{
	__builtin_ia32_pause();
	sched_yield();
}

/* xorshift: each thread has its own. */
__attribute__((unused))
static unsigned rnd(unsigned below)
{
	static __thread unsigned s;

	if (!s)
		s = (unsigned)my_tid() * 2654435761u | 1;
	s ^= s << 13;
	s ^= s >> 17;
	s ^= s << 5;
	return s % below;
}

/* To one CPU, if there is such a one: else the thread stays where it may be. */
__attribute__((unused))
static void run_on(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* -- accesses that may fault, in any thread -- */

static __thread sigjmp_buf touch_jump;
static __thread volatile int touch_armed;

static void on_touch_fault(int sig)
{
	if (touch_armed)
		siglongjmp(touch_jump, sig);
	signal(sig, SIG_DFL);		/* not one that we expected: die of it */
}

__attribute__((unused))
static void catch_touch_faults(void)
{
	struct sigaction sa = { .sa_handler = on_touch_fault, .sa_flags = SA_NODEFER };

	MUST(sigaction(SIGSEGV, &sa, NULL) == 0 && sigaction(SIGBUS, &sa, NULL) == 0);
}

/* 0, or the signal that the access raised. *value: what was read, or is to be written. */
__attribute__((unused))
static int touch(volatile long *p, bool write, long *value)
{
	int sig = sigsetjmp(touch_jump, 0);

	if (!sig) {
		touch_armed = 1;
		if (write)
			*p = *value;
		else
			*value = *p;
	}
	touch_armed = 0;
	return sig;
}

/* -- windows of the debug kernel -- */

#define RACE_FILE	"/sys/kernel/faultline/race"

__attribute__((unused))
static bool have_windows(void)
{
	return access(RACE_FILE, W_OK) == 0;
}

__attribute__((unused, format(printf, 1, 2)))
static void race_command(const char *format, ...)
{
	char text[128];
	va_list ap;
	int fd = open(RACE_FILE, O_WRONLY), len;

	va_start(ap, format);
	len = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (fd < 0 || write(fd, text, (size_t)len) != len) {
		printf("race command '%s' is refused (errno %d)\n", text, errno);
		fflush(stdout);
		_exit(1);
	}
	close(fd);
}

/* The next time that thread @tid comes to @window it stops there, until go(). */
__attribute__((unused))
static void hold(const char *window, pid_t tid)
{
	race_command("hold %s:%d until go", window, tid);
}

/* Whether a task is held at @window now; @tid: this one, or 0 for any. */
__attribute__((unused))
static bool task_is_held(const char *window, pid_t tid)
{
	char want[64], text[2048];
	size_t n = (size_t)(tid ? snprintf(want, sizeof(want), "hold %s:%d ", window, tid) : snprintf(want, sizeof(want), "hold %s:", window));
	int fd = open(RACE_FILE, O_RDONLY);
	ssize_t got = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[got > 0 ? got : 0] = '\0';
	for (char *line, *cursor = text; (line = next_line(&cursor)); )
		if (!strncmp(line, want, n) && strstr(line, " holding"))
			return true;
	return false;
}

__attribute__((unused))
static bool is_held_now(const char *window)
{
	return task_is_held(window, 0);
}

/* Waits until a task is held at @window. False: nobody came. */
__attribute__((unused))
static bool is_held(const char *window)
{
	for (double end = now() + 10; now() < end; race_relax())
		if (is_held_now(window))
			return true;
	return false;
}

__attribute__((unused))
static void go(void)
{
	race_command("pass go");
}

__attribute__((unused))
static void clear_windows(void)
{
	race_command("clear");
}

/* Waits for *flag, at most so long. */
__attribute__((unused))
static bool wait_flag(volatile int *flag, int ms)
{
	for (double end = now() + ms / 1000.0; !*flag; race_relax())
		if (now() >= end)
			return false;
	return true;
}

/* Asleep in the kernel, for a lock: that is how we see that somebody has to wait. */
static bool is_blocked(pid_t tid)
{
	char path[64], text[512], *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	end = strrchr(text, ')');
	return end && end[1] == ' ' && end[2] == 'D';
}

/* -- threads -- */

struct racer {
	void		(*round)(struct racer *r);	/* does its part once */
	long		 id;
	pthread_t	 thread;
	volatile unsigned long rounds;
	volatile int	 done;
};

static volatile int race_over;
static unsigned long race_seed;

static void *race_thread(void *arg)
{
	struct racer *r = arg;

	while (!race_over) {
		r->round(r);
		r->rounds++;
	}
	r->done = 1;
	return NULL;
}

__attribute__((noreturn, unused))
static void hang(const char *who, long id)
{
	printf("hang: %s %ld comes to no end (race.seed=%lu)\n", who, id, race_seed);
	fflush(stdout);
	_exit(1);
}

/* All of @racers at once for @seconds. */
__attribute__((unused))
static void race(double seconds, struct racer *racers, int n)
{
	unsigned long seen[MAX_RACERS] = { 0 };
	double since[MAX_RACERS], begin = now();
	int failures = test_failures;

	MUST(n <= MAX_RACERS);
	race_over = 0;
	if (have_windows()) {
		race_seed = (unsigned long)(begin * 1e6) | 1;
		race_command("seed %lu", race_seed);
	}
	for (int i = 0; i < n; i++) {
		racers[i].id = i;
		racers[i].done = 0;
		since[i] = begin;
		MUST(pthread_create(&racers[i].thread, NULL, race_thread, &racers[i]) == 0);
	}
	for (int running = n; running; ) {
		sleep_ms(20);
		if (now() - begin >= seconds || test_failures > failures + 20)
			race_over = 1;
		running = 0;
		for (int i = 0; i < n; i++) {
			running += !racers[i].done;
			if (seen[i] != racers[i].rounds || racers[i].done) {
				seen[i] = racers[i].rounds;
				since[i] = now();
			} else if (now() - since[i] > HANG_SECONDS) {
				hang("racer", i);
			}
		}
	}
	for (int i = 0; i < n; i++)
		pthread_join(racers[i].thread, NULL);
	if (have_windows())
		race_command("seed 0");
	if (test_failures > failures && race_seed)
		printf("race.seed=%lu\n", race_seed);
}

/* One thread that runs @fn once, for the forced part: its tid is known before it starts. */
struct actor {
	void		(*fn)(void *arg);
	void		*arg;
	pthread_t	 thread;
	volatile pid_t	 tid;
	volatile int	 start, done;
};

static void *actor_thread(void *arg)
{
	struct actor *a = arg;

	a->tid = my_tid();
	while (!a->start)
		race_relax();
	a->fn(a->arg);
	a->done = 1;
	return NULL;
}

__attribute__((unused))
static void actor_create(struct actor *a, void (*fn)(void *), void *arg)
{
	*a = (struct actor){ .fn = fn, .arg = arg };
	MUST(pthread_create(&a->thread, NULL, actor_thread, a) == 0);
	while (!a->tid)
		race_relax();
}

/* Starts it, and waits until it is held at @window. */
__attribute__((unused))
static void actor_start_and_hold(struct actor *a, const char *window)
{
	hold(window, a->tid);
	a->start = 1;
	if (!is_held(window)) {
		printf("no task came to window %s\n", window);
		test_failures++;
	}
}

/* Starts it and returns when it is through, or waits for what another one holds. */
__attribute__((unused))
static void actor_try(struct actor *a)
{
	int blocked = 0;

	a->start = 1;
	for (double end = now() + 4; !a->done && blocked < 20 && now() < end; sleep_ms(2))
		blocked = is_blocked(a->tid) ? blocked + 1 : 0;
}

__attribute__((unused))
static void actor_join(struct actor *a)
{
	a->start = 1;
	if (!wait_flag(&a->done, (int)(HANG_SECONDS * 1000)))
		hang("actor", a->tid);
	pthread_join(a->thread, NULL);
}

/* -- memory: the same before and after -- */

/* In pages. Exact with the debug kernel; elsewhere caches make it vague. */
static long memory_used(void)
{
	if (have_windows())
		return proc_number("/sys/kernel/faultline/leaks", "frames_used");
	return -meminfo("MemFree") / 4;
}

static void run_part(void (*part)(void))
{
	fflush(stdout);
	pid_t pid = fork();
	int status;

	MUST(pid >= 0);
	if (!pid) {
		test_failures = 0;
		catch_touch_faults();
		part();
		fflush(stdout);
		_exit(test_failures ? 1 : 0);
	}
	/* Whoever hangs may do so inside the kernel, and not even die: so do not wait for it. */
	for (double end = now() + PART_SECONDS; waitpid(pid, &status, WNOHANG) == 0; sleep_ms(10))
		if (now() >= end)
			hang("part", pid);
	CHECK_EQUAL(0, status);
}

/* Whoever held a task waited for something that the held one had; what this part wanted to show, it did not. */
static bool a_hold_expired(void)
{
	char text[2048];
	int fd = open(RACE_FILE, O_RDONLY);
	ssize_t got = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[got > 0 ? got : 0] = '\0';
	return strstr(text, " expired");
}

/* Each part in a process of its own. When all is gone no more than @slack pages may be missing. */
static void run_parts(void (*racing)(void), void (*forced)(void), long slack)
{
	if (have_windows())
		clear_windows();
	long before = memory_used(), lost = 0;

	if (forced && have_windows()) {
		run_part(forced);
		if (a_hold_expired()) {
			printf("a task was held to the limit: the order was not forced\n");
			test_failures++;
		}
		clear_windows();
	}
	run_part(racing);
	for (int i = 0; i < 20; i++) {		/* what is freed after a grace period takes its time */
		lost = memory_used() - before;
		if (lost <= slack)
			break;
		sleep_ms(100);
	}
	if (lost > (have_windows() ? slack : 32768)) {
		printf("%ld pages are missing afterwards, at most %ld may be\n", lost, slack);
		test_failures++;
	}
}

__attribute__((unused, noreturn))
static void run_race(void (*racing)(void), void (*forced)(void), long slack)
{
	run_parts(racing, forced, slack);
	test_end();
}

/* Goes on when @n threads are here, or the race is over. One group of threads at a time. */
__attribute__((unused))
static void all_arrive(int n)
{
	static volatile int arrived, generation;
	int g = generation;

	if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == n) {
		arrived = 0;
		__atomic_store_n(&generation, g + 1, __ATOMIC_RELEASE);
	} else {
		while (__atomic_load_n(&generation, __ATOMIC_ACQUIRE) == g && !race_over)
			sched_yield();
	}
}

#endif
