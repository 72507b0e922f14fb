/*
 * For programs that test userfaultfd: memory of each kind, threads that touch it, and messages that must come, or must not.
 */
#ifndef UFFD_TEST_H
#define UFFD_TEST_H

#include "mm_test.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "user/uffd.h"

#define MISSING		UFFDIO_REGISTER_MODE_MISSING
#define WP		UFFDIO_REGISTER_MODE_WP
#define MINOR		UFFDIO_REGISTER_MODE_MINOR
#define ALL_FEATURES	0x1ffffull
#define HUGE		(2ul << 20)
#define GARBAGE		0x1234567890abcdefl	/* what an out field holds before the call */

#ifndef MFD_HUGETLB
#define MFD_HUGETLB	4u
#endif
#ifndef MAP_HUGETLB
#define MAP_HUGETLB	0x40000
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

/* Until the kernel has the call there is nothing to test. */
__attribute__((constructor))
static void need_userfaultfd(void)
{
	if (syscall(SYS_userfaultfd, -1) < 0 && errno == ENOSYS)
		test_skip("no userfaultfd");
}

/* What a program has found must not go down with it when it is killed for a hang. */
__attribute__((constructor))
static void say_at_once(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
}

/* -- memory -- */

enum kind { ANON_PRIVATE, SHMEM_SHARED, SHMEM_PRIVATE, HUGETLB_SHARED, HUGETLB_PRIVATE, NR_KINDS };

__attribute__((unused))
static const char *const kind_names[NR_KINDS] = { "anon", "shmem shared", "shmem private", "hugetlb shared", "hugetlb private" };

struct memory {
	enum kind	 kind;
	char		*p;		/* the mapping under test; nothing lies before and behind it */
	char		*alias;		/* the same file once more, shared and never registered; NULL for anonymous memory */
	size_t		 unit, len;	/* page size, bytes in all */
	int		 fd;
};

static bool is_hugetlb(enum kind kind) { return kind >= HUGETLB_SHARED; }
static bool is_shared(enum kind kind) { return kind == SHMEM_SHARED || kind == HUGETLB_SHARED; }

/* 2 MiB pages that are free now; none where the kernel has a pool but cannot map its pages (ENODEV) or register them (EINVAL). */
__attribute__((unused))
static long huge_pages(void)
{
	static int usable = -1;
	long n = meminfo("HugePages_Free");

	if (usable < 0 && n > 0) {
		char *p = mmap(NULL, HUGE, RW, ANON | MAP_HUGETLB, -1, 0);
		int fd = uffd_open(0, 0);

		usable = p != MAP_FAILED && uffd_register(fd, p, HUGE, UFFDIO_REGISTER_MODE_MISSING) == 0;
		if (p != MAP_FAILED)
			munmap(p, HUGE);
		close(fd);
	}
	return usable == 1 ? n : 0;
}

/* Where @len bytes with two empty units around them, aligned to @unit, may be mapped: reserved without rights by nobody else. */
static char *empty_place(size_t len, size_t unit)
{
	size_t total = len + 3 * unit;
	char *p = mmap(NULL, total, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);

	MUST(p != MAP_FAILED && munmap(p, total) == 0);
	return (char *)(((uintptr_t)p + 2 * unit - 1) & -unit);
}

__attribute__((unused))
static struct memory make_memory(enum kind kind, size_t units)
{
	struct memory m = { .kind = kind, .unit = is_hugetlb(kind) ? HUGE : PAGE, .fd = -1 };
	int flags = is_shared(kind) ? MAP_SHARED : MAP_PRIVATE;

	m.len = units * m.unit;
	if (kind == ANON_PRIVATE) {
		m.p = mmap(empty_place(m.len, PAGE), m.len, RW, ANON | MAP_FIXED, -1, 0);
		MUST(m.p != MAP_FAILED);
		return m;
	}
	m.fd = (int)syscall(SYS_memfd_create, "uffd", is_hugetlb(kind) ? MFD_HUGETLB : 0u);
	MUST(m.fd >= 0 && ftruncate(m.fd, (off_t)m.len) == 0);
	m.p = mmap(empty_place(m.len, m.unit), m.len, RW, flags | MAP_FIXED, m.fd, 0);
	MUST(m.p != MAP_FAILED);
	m.alias = mmap(empty_place(m.len, m.unit), m.len, RW, MAP_SHARED | MAP_FIXED, m.fd, 0);
	MUST(m.alias != MAP_FAILED);
	return m;
}

__attribute__((unused))
static void free_memory(struct memory *m)
{
	munmap(m->p, m->len);
	if (m->alias)
		munmap(m->alias, m->len);
	if (m->fd >= 0)
		close(m->fd);
}

/* No page, no marker, and nothing in the cache. */
__attribute__((unused))
static void empty_memory(struct memory *m)
{
	MUST(madvise(m->p, m->len, MADV_DONTNEED) == 0);
	if (m->fd >= 0)
		MUST(fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)m->len) == 0);
}

/* Bits of /proc/self/pagemap for this address. */
__attribute__((unused))
static uint64_t pagemap(const void *p)
{
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	MUST(fd >= 0 && pread(fd, &entry, 8, (off_t)((uintptr_t)p / PAGE * 8)) == 8);
	close(fd);
	return entry & ~(1ull << 55);		/* soft-dirty is another matter */
}
#define PM_PRESENT	(1ull << 63)
#define PM_SWAP		(1ull << 62)		/* markers too */
#define PM_UFFD_WP	(1ull << 57)
#define PM_PFN		((1ull << 55) - 1)

/* -- messages -- */

__attribute__((unused))
static int open_uffd(uint64_t features)
{
	int fd = uffd_open(O_NONBLOCK | O_CLOEXEC, features);

	MUST(fd >= 0);
	return fd;
}

__attribute__((unused))
static bool get_message(int fd, struct uffd_msg *msg, int ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	memset(msg, 0, sizeof(*msg));
	return poll(&pfd, 1, ms) == 1 && pfd.revents == POLLIN && read(fd, msg, sizeof(*msg)) == sizeof(*msg);
}

#define EXPECT_FAULT(fd, want_flags, want_address)					\
	do {										\
		struct uffd_msg m_;							\
		if (!get_message(fd, &m_, 8000)) {					\
			printf("%s:%d: no message came\n", __FILE__, __LINE__);		\
			test_failures++;						\
		} else if (m_.event != UFFD_EVENT_PAGEFAULT || m_.arg.pagefault.flags != (want_flags) ||	\
			   m_.arg.pagefault.address != (uintptr_t)(want_address)) {	\
			printf("%s:%d: expected a fault with flags %llx at %lx, got event %x, flags %llx at %llx\n",	\
			       __FILE__, __LINE__, (unsigned long long)(want_flags), (unsigned long)(uintptr_t)(want_address), m_.event,	\
			       (unsigned long long)m_.arg.pagefault.flags, (unsigned long long)m_.arg.pagefault.address);	\
			test_failures++;						\
		}									\
	} while (0)

/* REMOVE and UNMAP: start, end. REMAP and FORK are looked at by hand. */
#define EXPECT_EVENT(fd, want, a, b)							\
	do {										\
		struct uffd_msg m_;							\
		if (!get_message(fd, &m_, 8000)) {					\
			printf("%s:%d: no event came\n", __FILE__, __LINE__);		\
			test_failures++;						\
		} else if (m_.event != (want) || m_.arg.remove.start != (uintptr_t)(a) || m_.arg.remove.end != (uintptr_t)(b)) {	\
			printf("%s:%d: expected event %x of %lx-%lx, got %x, %llx-%llx\n", __FILE__, __LINE__, (want),	\
			       (unsigned long)(uintptr_t)(a), (unsigned long)(uintptr_t)(b), m_.event,	\
			       (unsigned long long)m_.arg.remove.start, (unsigned long long)m_.arg.remove.end);	\
			test_failures++;						\
		}									\
	} while (0)

#define EXPECT_SILENCE(fd)								\
	do {										\
		struct uffd_msg m_;							\
		if (get_message(fd, &m_, 30)) {						\
			printf("%s:%d: unexpected event %x, flags %llx at %llx\n", __FILE__, __LINE__, m_.event,	\
			       (unsigned long long)m_.arg.pagefault.flags, (unsigned long long)m_.arg.pagefault.address);	\
			test_failures++;						\
		}									\
	} while (0)

/* -- a thread that does one thing, which may wait -- */

struct helper {
	long		(*fn)(struct helper *h);
	char		*p;
	size_t		 len;
	long		 value;			/* for fn, and what it returned */
	int		 error;
	volatile pid_t	 tid;
	volatile int	 done;
	pthread_t	 thread;
};

static void *helper_main(void *arg)
{
	struct helper *h = arg;

	h->tid = (pid_t)syscall(SYS_gettid);
	errno = 0;
	h->value = h->fn(h);
	h->error = errno;
	__atomic_store_n(&h->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

__attribute__((unused))
static void helper_start(struct helper *h, long (*fn)(struct helper *h), void *p, size_t len)
{
	h->fn = fn;
	h->p = p;
	h->len = len;
	h->done = 0;
	h->tid = 0;
	MUST(pthread_create(&h->thread, NULL, helper_main, h) == 0);
}

__attribute__((unused))
static bool helper_is_done(struct helper *h, int ms)
{
	struct timespec t = { 0, 1000000 };

	for (int i = 0; i < ms && !h->done; i++)
		nanosleep(&t, NULL);
	return h->done;
}

/* It must come to its end now. */
#define HELPER_END(h)									\
	({										\
		if (!helper_is_done(h, 10000)) {					\
			printf("%s:%d: a thread still waits\n", __FILE__, __LINE__);	\
			fflush(stdout);							\
			_exit(1);							\
		}									\
		pthread_join((h)->thread, NULL);					\
		(h)->value;								\
	})

/* True once it sleeps: what makes "it waits" more than "it was slow". */
__attribute__((unused))
static bool helper_sleeps(struct helper *h)
{
	char path[64], text[512], *end;
	struct timespec t = { 0, 1000000 };
	int asleep = 0;

	for (int i = 0; i < 8000 && asleep < 3 && !h->done; i++, nanosleep(&t, NULL)) {
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", h->tid);
		int fd = open(path, O_RDONLY);
		ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

		if (fd >= 0)
			close(fd);
		text[n > 0 ? n : 0] = '\0';
		end = strrchr(text, ')');
		asleep = end && (end[2] == 'S' || end[2] == 'D') ? asleep + 1 : 0;
	}
	return asleep == 3;
}

__attribute__((unused)) static long do_read(struct helper *h) { return *(volatile unsigned char *)h->p; }
__attribute__((unused)) static long do_write(struct helper *h) { *(volatile char *)h->p = (char)h->value; return 0; }

/* A page of @c in this process, aligned to @unit. */
__attribute__((unused))
static char *source(char c, size_t len)
{
	static char *buf;
	static size_t size;

	if (len > size) {
		buf = mmap(NULL, len, RW, ANON, -1, 0);
		MUST(buf != MAP_FAILED);
		size = len;
	}
	memset(buf, c, len);
	return buf;
}

/* -- ioctls as they are: errno, and what is in the out field -- */

struct result { int error; int64_t out; };

#define CHECK_RESULT(want_error, want_out, call)					\
	do {										\
		struct result r_ = (call);						\
		int e_ = (want_error);							\
		int64_t o_ = (want_out);						\
		if (r_.error != e_ || r_.out != o_) {					\
			printf("%s:%d: %s: expected errno %d and %lld, got %d and %lld\n", __FILE__, __LINE__, #call, e_, (long long)o_,	\
			       r_.error, (long long)r_.out);				\
			test_failures++;						\
		}									\
	} while (0)

__attribute__((unused))
static struct result raw_copy(int fd, unsigned long dst, unsigned long src, size_t len, uint64_t mode)
{
	struct uffdio_copy c = { dst, src, len, mode, GARBAGE };

	return (struct result){ ioctl(fd, UFFDIO_COPY, &c) ? errno : 0, c.copy };
}

__attribute__((unused))
static struct result raw_move(int fd, unsigned long dst, unsigned long src, size_t len, uint64_t mode)
{
	struct uffdio_move m = { dst, src, len, mode, GARBAGE };

	return (struct result){ ioctl(fd, UFFDIO_MOVE, &m) ? errno : 0, m.move };
}

/* ZEROPAGE, CONTINUE and POISON share their layout. */
__attribute__((unused))
static struct result raw_fill(int fd, unsigned long request, unsigned long start, size_t len, uint64_t mode)
{
	struct uffdio_zeropage z = { { start, len }, mode, GARBAGE };

	return (struct result){ ioctl(fd, request, &z) ? errno : 0, z.zeropage };
}

__attribute__((unused))
static struct result raw_register(int fd, unsigned long start, size_t len, uint64_t mode)
{
	struct uffdio_register r = { { start, len }, mode, GARBAGE };

	return (struct result){ ioctl(fd, UFFDIO_REGISTER, &r) ? errno : 0, (int64_t)r.ioctls };
}

#define RANGE_ERRNO(want, fd, request, start, len)					\
	do {										\
		struct uffdio_range range_ = { (uintptr_t)(start), (len) };			\
		if ((want) == 0)							\
			CHECK_EQUAL(0, ioctl(fd, request, &range_));			\
		else									\
			CHECK_ERRNO(want, ioctl(fd, request, &range_));			\
	} while (0)

#endif
