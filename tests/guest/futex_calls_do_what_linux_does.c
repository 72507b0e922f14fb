/*
 * The raw futex call: values, errors, timeouts, bitsets, requeue, wake-op, words shared between processes, robust lists.
 * cpus: 1 2 4
 * timeout: 60
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "test.h"

#define WAIT		0
#define WAKE		1
#define REQUEUE		3
#define CMP_REQUEUE	4
#define WAKE_OP		5
#define WAIT_BITSET	9
#define WAKE_BITSET	10
#define PRIVATE		128
#define REALTIME	256

static long futex(void *addr, int op, unsigned val, const void *timeout, void *addr2, unsigned val3)
{
	return syscall(SYS_futex, addr, op, val, timeout, addr2, val3);
}

static double now(int clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct timespec in_ms(int clock, long ms)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	ts.tv_nsec += ms % 1000 * 1000000;
	ts.tv_sec += ms / 1000 + ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	return ts;
}

static void errors(void)
{
	static int word = 5;
	struct timespec ms20 = { 0, 20000000 }, bad = { 0, 1000000000 }, negative = { -1, 0 };
	char *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_ERRNO(EAGAIN, futex(&word, WAIT, 4, NULL, NULL, 0));
	CHECK_ERRNO(EAGAIN, futex(&word, WAIT | PRIVATE, 4, NULL, NULL, 0));
	CHECK_ERRNO(EINVAL, futex((char *)&word + 1, WAIT, 5, NULL, NULL, 0));
	CHECK_ERRNO(EINVAL, futex((char *)&word + 2, WAKE, 1, NULL, NULL, 0));
	CHECK_ERRNO(EFAULT, futex(hole, WAIT | PRIVATE, 0, NULL, NULL, 0));
	CHECK_ERRNO(EFAULT, futex(hole, WAIT, 0, NULL, NULL, 0));
	CHECK_ERRNO(EFAULT, futex((void *)0xffff800000000000ul, WAKE | PRIVATE, 1, NULL, NULL, 0));
	CHECK_EQUAL(0, futex(hole, WAKE | PRIVATE, 1, NULL, NULL, 0));
	CHECK_ERRNO(EINVAL, futex(&word, WAIT, 5, &bad, NULL, 0));
	CHECK_ERRNO(EINVAL, futex(&word, WAIT, 5, &negative, NULL, 0));
	CHECK_ERRNO(EFAULT, futex(&word, WAIT, 5, (void *)8, NULL, 0));
	CHECK_ERRNO(EINVAL, futex(&word, WAIT_BITSET, 5, NULL, NULL, 0));
	CHECK_ERRNO(EINVAL, futex(&word, WAKE_BITSET, 1, NULL, NULL, 0));
	CHECK_ERRNO(ENOSYS, futex(&word, 77, 1, NULL, NULL, 0));
	CHECK_ERRNO(ENOSYS, futex(&word, WAKE | REALTIME, 1, NULL, NULL, 0));
	CHECK_ERRNO(EINVAL, futex(&word, REQUEUE, 1, (void *)-1l, &word, 0));
	CHECK_ERRNO(EAGAIN, futex(&word, CMP_REQUEUE, 1, (void *)1, &word, 4));
	CHECK_EQUAL(0, futex(&word, WAKE, 1, NULL, NULL, 0));

	double start = now(CLOCK_MONOTONIC);
	CHECK_ERRNO(ETIMEDOUT, futex(&word, WAIT, 5, &ms20, NULL, 0));
	CHECK(now(CLOCK_MONOTONIC) - start >= 0.020);
	struct timespec at = in_ms(CLOCK_MONOTONIC, 20);
	CHECK_ERRNO(ETIMEDOUT, futex(&word, WAIT_BITSET | PRIVATE, 5, &at, NULL, ~0u));
	CHECK(now(CLOCK_MONOTONIC) >= (double)at.tv_sec + (double)at.tv_nsec / 1e9);
	at = in_ms(CLOCK_REALTIME, 20);
	CHECK_ERRNO(ETIMEDOUT, futex(&word, WAIT_BITSET | PRIVATE | REALTIME, 5, &at, NULL, ~0u));
	CHECK(now(CLOCK_REALTIME) >= (double)at.tv_sec + (double)at.tv_nsec / 1e9);
	at = (struct timespec){ 1, 0 };			/* long ago */
	CHECK_ERRNO(ETIMEDOUT, futex(&word, WAIT_BITSET | PRIVATE | REALTIME, 5, &at, NULL, ~0u));
	munmap(hole, 4096);
}

static int words[2];
static int asleep, awake;

struct sleeper { int word; unsigned bits; };

static void *sleeper(void *arg)
{
	struct sleeper *s = arg;

	__atomic_add_fetch(&asleep, 1, __ATOMIC_SEQ_CST);
	CHECK_EQUAL(0, futex(&words[s->word], WAIT_BITSET | PRIVATE, 0, NULL, NULL, s->bits));
	__atomic_add_fetch(&awake, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* All of them in the kernel: nothing tells, so time must. */
static void start(pthread_t *t, struct sleeper *s, int n)
{
	asleep = awake = 0;
	for (int i = 0; i < n; i++)
		MUST(!pthread_create(&t[i], NULL, sleeper, &s[i]));
	while (__atomic_load_n(&asleep, __ATOMIC_SEQ_CST) < n)
		sched_yield();
	usleep(100000);
}

static void bitsets_and_requeue(void)
{
	pthread_t t[5];
	struct sleeper masks[3] = { { 0, 1 }, { 0, 2 }, { 0, 4 } };
	struct sleeper five[5] = { { 0, ~0u }, { 0, ~0u }, { 0, ~0u }, { 0, ~0u }, { 0, ~0u } };

	start(t, masks, 3);
	CHECK_EQUAL(0, futex(words, WAKE_BITSET | PRIVATE, INT_MAX, NULL, NULL, 8));
	CHECK_EQUAL(1, futex(words, WAKE_BITSET | PRIVATE, INT_MAX, NULL, NULL, 2));
	pthread_join(t[1], NULL);
	CHECK_EQUAL(2, futex(words, WAKE | PRIVATE, INT_MAX, NULL, NULL, 0));
	pthread_join(t[0], NULL);
	pthread_join(t[2], NULL);

	start(t, five, 5);
	CHECK_ERRNO(EAGAIN, futex(words, CMP_REQUEUE | PRIVATE, 1, (void *)2, &words[1], 9));
	CHECK_EQUAL(3, futex(words, CMP_REQUEUE | PRIVATE, 1, (void *)2, &words[1], 0));	/* 1 woken, 2 moved */
	CHECK_EQUAL(2, futex(words, WAKE | PRIVATE, INT_MAX, NULL, NULL, 0));
	CHECK_EQUAL(2, futex(&words[1], WAKE | PRIVATE, INT_MAX, NULL, NULL, 0));
	for (int i = 0; i < 5; i++)
		pthread_join(t[i], NULL);
	CHECK_EQUAL(5, awake);

	/* words[1] = words[1] + 3; the old value is 0, so the second condition (old == 0) holds. */
	struct sleeper pair[2] = { { 0, ~0u }, { 1, ~0u } };
	start(t, pair, 2);
	unsigned op = 1u << 28 | 0u << 24 | 3u << 12 | 0u;
	CHECK_EQUAL(2, futex(words, WAKE_OP | PRIVATE, 1, (void *)1, &words[1], op));
	CHECK_EQUAL(3, words[1]);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	op = 0u << 28 | 4u << 24 | 0xfffu << 12 | 100u;	/* words[1] = -1; old > 100: no */
	CHECK_EQUAL(0, futex(words, WAKE_OP | PRIVATE, 1, (void *)1, &words[1], op));
	CHECK_EQUAL(-1, words[1]);
	op = 8u << 28 | 2u << 28 | 0u << 24 | 4u << 12;	/* words[1] |= 1 << 4, from 0 */
	words[1] = 0;
	CHECK_EQUAL(0, futex(words, WAKE_OP | PRIVATE, 1, (void *)1, &words[1], op));
	CHECK_EQUAL(16, words[1]);
	words[1] = 0;
}

/* A signal without SA_RESTART ends the wait; with it, the wait goes on. */
static volatile int signals;
static void on_signal(int sig) { (void)sig; signals++; }

static void *signal_soon(void *arg)
{
	usleep(50000);
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	return NULL;
}

static void interrupted(void)
{
	pthread_t t, self = pthread_self();
	struct sigaction sa = { .sa_handler = on_signal };
	struct timespec ms200 = { 0, 200000000 };
	static int word;

	sigaction(SIGUSR1, &sa, NULL);
	MUST(!pthread_create(&t, NULL, signal_soon, &self));
	CHECK_ERRNO(EINTR, futex(&word, WAIT | PRIVATE, 0, NULL, NULL, 0));
	pthread_join(t, NULL);
	MUST(!pthread_create(&t, NULL, signal_soon, &self));
	CHECK_ERRNO(EINTR, futex(&word, WAIT | PRIVATE, 0, &ms200, NULL, 0));
	pthread_join(t, NULL);
	CHECK_EQUAL(2, signals);
}

/* Two processes, one page; and two mappings of it in one process. */
static void shared(void)
{
	int fd = memfd_create("futex", 0);
	MUST(fd >= 0 && !ftruncate(fd, 4096));
	int *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int *b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(a != MAP_FAILED && b != MAP_FAILED && a != b);

	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		while (__atomic_load_n(&a[1], __ATOMIC_SEQ_CST) == 0)
			if (futex(&a[1], WAIT, 0, NULL, NULL, 0) && errno != EAGAIN)
				_exit(1);
		__atomic_store_n(&a[0], 1, __ATOMIC_SEQ_CST);
		futex(&a[0], WAKE, 1, NULL, NULL, 0);
		_exit(0);
	}
	usleep(50000);
	__atomic_store_n(&b[1], 1, __ATOMIC_SEQ_CST);
	futex(&b[1], WAKE, 1, NULL, NULL, 0);		/* through the other mapping */
	while (__atomic_load_n(&b[0], __ATOMIC_SEQ_CST) == 0)
		futex(&b[0], WAIT, 0, NULL, NULL, 0);
	int status;
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	munmap(a, 4096);
	munmap(b, 4096);
	close(fd);
}

/* A process that dies with locks held: its robust words say so and a waiter wakes. */
struct robust { struct robust *next; };
struct robust_head { struct robust list; long offset; struct robust *pending; };
struct lock { struct robust node; uint32_t word; };

static void robust(void)
{
	struct { struct robust_head head; struct lock held, waited, not_mine, pending; } *s;
	s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(s != MAP_FAILED);

	pid_t pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		uint32_t tid = (uint32_t)syscall(SYS_gettid);
		s->head.offset = (long)offsetof(struct lock, word);
		s->head.list.next = &s->held.node;
		s->held.node.next = &s->waited.node;
		s->waited.node.next = &s->not_mine.node;
		s->not_mine.node.next = &s->head.list;
		s->head.pending = &s->pending.node;
		s->held.word = tid;
		s->not_mine.word = tid + 1;
		s->pending.word = tid;
		if (syscall(SYS_set_robust_list, &s->head, 23) != -1 || errno != EINVAL)
			_exit(1);
		if (syscall(SYS_set_robust_list, &s->head, 24))
			_exit(2);
		__atomic_store_n(&s->waited.word, tid | 0x80000000u, __ATOMIC_SEQ_CST);
		usleep(100000);
		_exit(0);
	}
	uint32_t w;
	while (!(w = __atomic_load_n(&s->waited.word, __ATOMIC_SEQ_CST)))
		sched_yield();
	while (!((w = __atomic_load_n(&s->waited.word, __ATOMIC_SEQ_CST)) & 0x40000000u))
		futex(&s->waited.word, WAIT, w, NULL, NULL, 0);
	int status;
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	CHECK_EQUAL(0xc0000000u, s->waited.word);
	CHECK_EQUAL(0x40000000u, s->held.word);
	CHECK_EQUAL(0x40000000u, s->pending.word);
	CHECK_EQUAL((uint32_t)pid + 1, s->not_mine.word);
	void *head;
	size_t len;
	CHECK_EQUAL(0, syscall(SYS_get_robust_list, 0, &head, &len));
	CHECK_EQUAL(24, len);
}

/* Many threads, one counter, a mutex of our own: no wake-up may be lost. */
static int lock_word, counter;

static void *incrementer(void *arg)
{
	(void)arg;
	for (int i = 0; i < 5000; i++) {
		int c = 0;
		if (!__atomic_compare_exchange_n(&lock_word, &c, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			if (c != 2)
				c = __atomic_exchange_n(&lock_word, 2, __ATOMIC_ACQUIRE);
			while (c) {
				futex(&lock_word, WAIT | PRIVATE, 2, NULL, NULL, 0);
				c = __atomic_exchange_n(&lock_word, 2, __ATOMIC_ACQUIRE);
			}
		}
		counter++;
		if (__atomic_exchange_n(&lock_word, 0, __ATOMIC_RELEASE) == 2)
			futex(&lock_word, WAKE | PRIVATE, 1, NULL, NULL, 0);
	}
	return NULL;
}

static void stress(void)
{
	pthread_t t[8];

	for (int i = 0; i < 8; i++)
		MUST(!pthread_create(&t[i], NULL, incrementer, NULL));
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	CHECK_EQUAL(40000, counter);
}

int main(void)
{
	errors();
	bitsets_and_requeue();
	interrupted();
	shared();
	robust();
	stress();
	test_end();
}
