/*
 * For programs in tests/guest, tests/race and tests/stress. A check that does not hold says where, what was expected and what came,
 * and the program goes on; test_end() turns the count into the status.
 */
#ifndef TEST_H
#define TEST_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int test_failures;

#define CHECK(condition)								\
	do {										\
		if (!(condition)) {							\
			printf("%s:%d: not true: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, errno, strerror(errno)); \
			__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);	\
		}									\
	} while (0)

#define CHECK_EQUAL(expected, got)							\
	do {										\
		long long e_ = (long long)(expected), g_ = (long long)(got);		\
		if (e_ != g_) {								\
			printf("%s:%d: %s: expected %lld, got %lld\n", __FILE__, __LINE__, #got, e_, g_); \
			__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);	\
		}									\
	} while (0)

/* The call fails, with this error. */
#define CHECK_ERRNO(error, call)							\
	do {										\
		errno = 0;								\
		long long r_ = (long long)(call);					\
		int was_ = errno;							\
		if (r_ != -1 || was_ != (error)) {					\
			printf("%s:%d: %s: expected -1 and errno %d, got %lld and %d (%s)\n", __FILE__, __LINE__, #call, (error), r_, was_, strerror(was_)); \
			__atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);	\
		}									\
	} while (0)

/* Something the test needs went wrong, so going on makes no sense. */
#define MUST(condition)									\
	do {										\
		if (!(condition)) {							\
			printf("%s:%d: cannot go on: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, errno, strerror(errno)); \
			fflush(stdout);							\
			_exit(1);							\
		}									\
	} while (0)

__attribute__((unused, noreturn))
static void test_end(void)
{
	fflush(stdout);
	exit(test_failures ? 1 : 0);
}

__attribute__((unused, noreturn))
static void test_skip(const char *why)
{
	puts(why);
	fflush(stdout);
	exit(77);
}

/* Run fn in a child; returns its wait status. What kills the child does not kill the test. */
__attribute__((unused))
static int in_child(void (*fn)(void *), void *arg)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		fn(arg);
		fflush(stdout);
		_exit(test_failures ? 1 : 0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	return status;
}

/* A number of kB from /proc/meminfo. */
__attribute__((unused))
static long meminfo(const char *key)
{
	char line[128];
	long value = -1;
	FILE *f = fopen("/proc/meminfo", "r");

	MUST(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
			value = atol(line + strlen(key) + 1);
	}
	fclose(f);
	return value;
}

#endif
