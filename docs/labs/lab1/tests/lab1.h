/* For the tests of lab 1: a thread is held with mmap_lock, others queue behind it, and what they do tells in which order they came in. */
#ifndef LAB1_H
#define LAB1_H

#include "tests/labs/lab_test.h"

static char thread_state(pid_t pid, pid_t tid)
{
	char path[64], text[512], *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;		/* it is gone */
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	end = strrchr(text, ')');
	return end && end[1] == ' ' ? end[2] : 0;
}

/* In one of @states for a while: not just passing by. False: after 300 ms of the guest it is not. */
__attribute__((unused))
static bool stays(pid_t pid, pid_t tid, const char *states)
{
	int seen = 0;

	for (double end = now() + 0.3; seen < 5 && now() < end; sleep_ms(2)) {
		char s = thread_state(pid, tid);

		seen = s && strchr(states, s) ? seen + 1 : 0;
	}
	return seen >= 5;
}

/* Starts @a, which must now queue for a lock, and sleep there. */
__attribute__((unused))
static void queue_up(struct actor *a, const char *who)
{
	a->start = 1;
	if (!stays(getpid(), a->tid, "D")) {
		printf("%s does not sleep while it waits for the lock (state %c)\n", who, thread_state(getpid(), a->tid) ?: '-');
		test_failures++;
	}
}

/* Where nobody else maps anything, stacks of new threads for example: it may be unmapped for a while. */
#define LONELY_PLACE	((char *)0x30000000)

/* -- who holds mmap_lock for writing: munmap of the middle page of three, stopped in the middle -- */

static char *three_pages;

__attribute__((unused))
static void unmap_middle(void *unused)
{
	(void)unused;
	MUST(sys_munmap(three_pages + PAGE, PAGE) == 0);
}

/* Until somebody passes @until. Everything that the others need has been mapped before. */
__attribute__((unused))
static void hold_writer(struct actor *holder, const char *until)
{
	three_pages = map_alone(3, RW);
	memset(three_pages, 1, 3 * PAGE);
	actor_create(holder, unmap_middle, NULL);
	race_command("hold vma_split:%d until %s", holder->tid, until);
	holder->start = 1;
	CHECK(is_held("vma_split"));
}

/* Is thread @tid held at @window now? */
__attribute__((unused))
static bool thread_is_held(const char *window, pid_t tid)
{
	char want[64], text[2048];
	size_t n = (size_t)snprintf(want, sizeof(want), "hold %s:%d ", window, tid);
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
static bool comes_to(const char *window, pid_t tid)
{
	for (double end = now() + 0.5; now() < end; sleep_ms(1))
		if (thread_is_held(window, tid))
			return true;
	return false;
}

/* It must come to its end now. */
__attribute__((unused))
static void must_finish(struct actor *a, const char *who)
{
	if (!wait_flag(&a->done, 1000))
		hang(who, a->tid);
	pthread_join(a->thread, NULL);
}

__attribute__((unused))
static void need_windows(void)
{
	if (!have_windows())
		test_skip("needs the windows of the debug kernel");
	clear_windows();
}

#endif
