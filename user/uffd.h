/*
 * userfaultfd(2) for programs: the numbers and structures of Linux 6.12's <linux/userfaultfd.h>, under its names. musl has no such header,
 * and that of Debian 12 (Linux 6.1) knows neither MOVE nor POISON. Programs written for the original compile with this one.
 *
 * Below them one small function for each ioctl. Those that fill memory return how many bytes were done, or -errno when none.
 */
#ifndef USER_UFFD_H
#define USER_UFFD_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_userfaultfd
#define SYS_userfaultfd			323
#endif
#define UFFD_USER_MODE_ONLY		1
#define UFFD_API			0xaaull

#define UFFD_FEATURE_PAGEFAULT_FLAG_WP	(1ull << 0)
#define UFFD_FEATURE_EVENT_FORK		(1ull << 1)
#define UFFD_FEATURE_EVENT_REMAP	(1ull << 2)
#define UFFD_FEATURE_EVENT_REMOVE	(1ull << 3)
#define UFFD_FEATURE_MISSING_HUGETLBFS	(1ull << 4)
#define UFFD_FEATURE_MISSING_SHMEM	(1ull << 5)
#define UFFD_FEATURE_EVENT_UNMAP	(1ull << 6)
#define UFFD_FEATURE_SIGBUS		(1ull << 7)
#define UFFD_FEATURE_THREAD_ID		(1ull << 8)
#define UFFD_FEATURE_MINOR_HUGETLBFS	(1ull << 9)
#define UFFD_FEATURE_MINOR_SHMEM	(1ull << 10)
#define UFFD_FEATURE_EXACT_ADDRESS	(1ull << 11)
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM	(1ull << 12)
#define UFFD_FEATURE_WP_UNPOPULATED	(1ull << 13)
#define UFFD_FEATURE_POISON		(1ull << 14)
#define UFFD_FEATURE_WP_ASYNC		(1ull << 15)
#define UFFD_FEATURE_MOVE		(1ull << 16)

#define UFFD_EVENT_PAGEFAULT		0x12
#define UFFD_EVENT_FORK			0x13
#define UFFD_EVENT_REMAP		0x14
#define UFFD_EVENT_REMOVE		0x15
#define UFFD_EVENT_UNMAP		0x16

#define UFFD_PAGEFAULT_FLAG_WRITE	(1ull << 0)
#define UFFD_PAGEFAULT_FLAG_WP		(1ull << 1)
#define UFFD_PAGEFAULT_FLAG_MINOR	(1ull << 2)

struct uffd_msg {
	uint8_t		event;
	uint8_t		reserved1;
	uint16_t	reserved2;
	uint32_t	reserved3;
	union {
		struct {
			uint64_t flags, address;
			union { uint32_t ptid; } feat;
		} pagefault;
		struct { uint32_t ufd; } fork;
		struct { uint64_t from, to, len; } remap;
		struct { uint64_t start, end; } remove;		/* REMOVE and UNMAP */
		struct { uint64_t reserved1, reserved2, reserved3; } reserved;
	} arg;
};

struct uffdio_api	   { uint64_t api, features, ioctls; };
struct uffdio_range	   { uint64_t start, len; };
struct uffdio_register	   { struct uffdio_range range; uint64_t mode, ioctls; };
struct uffdio_copy	   { uint64_t dst, src, len, mode; int64_t copy; };
struct uffdio_zeropage	   { struct uffdio_range range; uint64_t mode; int64_t zeropage; };
struct uffdio_writeprotect { struct uffdio_range range; uint64_t mode; };
struct uffdio_continue	   { struct uffdio_range range; uint64_t mode; int64_t mapped; };
struct uffdio_poison	   { struct uffdio_range range; uint64_t mode; int64_t updated; };
struct uffdio_move	   { uint64_t dst, src, len, mode; int64_t move; };

#define UFFDIO_API		_IOWR(0xaa, 0x3f, struct uffdio_api)
#define UFFDIO_REGISTER		_IOWR(0xaa, 0x00, struct uffdio_register)
#define UFFDIO_UNREGISTER	_IOR(0xaa, 0x01, struct uffdio_range)
#define UFFDIO_WAKE		_IOR(0xaa, 0x02, struct uffdio_range)
#define UFFDIO_COPY		_IOWR(0xaa, 0x03, struct uffdio_copy)
#define UFFDIO_ZEROPAGE		_IOWR(0xaa, 0x04, struct uffdio_zeropage)
#define UFFDIO_MOVE		_IOWR(0xaa, 0x05, struct uffdio_move)
#define UFFDIO_WRITEPROTECT	_IOWR(0xaa, 0x06, struct uffdio_writeprotect)
#define UFFDIO_CONTINUE		_IOWR(0xaa, 0x07, struct uffdio_continue)
#define UFFDIO_POISON		_IOWR(0xaa, 0x08, struct uffdio_poison)
#define USERFAULTFD_IOC_NEW	_IO(0xaa, 0x00)			/* of /dev/userfaultfd */

_Static_assert(sizeof(struct uffd_msg) == 32, "");
_Static_assert(UFFDIO_API == 0xc018aa3f && UFFDIO_REGISTER == 0xc020aa00 && UFFDIO_UNREGISTER == 0x8010aa01, "");
_Static_assert(UFFDIO_COPY == 0xc028aa03 && UFFDIO_MOVE == 0xc028aa05 && UFFDIO_WRITEPROTECT == 0xc018aa06, "");

#define UFFDIO_REGISTER_MODE_MISSING	1ull
#define UFFDIO_REGISTER_MODE_WP		2ull
#define UFFDIO_REGISTER_MODE_MINOR	4ull
#define UFFDIO_COPY_MODE_DONTWAKE	1ull
#define UFFDIO_COPY_MODE_WP		2ull
#define UFFDIO_ZEROPAGE_MODE_DONTWAKE	1ull
#define UFFDIO_WRITEPROTECT_MODE_WP	1ull
#define UFFDIO_WRITEPROTECT_MODE_DONTWAKE 2ull
#define UFFDIO_CONTINUE_MODE_DONTWAKE	1ull
#define UFFDIO_CONTINUE_MODE_WP		2ull
#define UFFDIO_POISON_MODE_DONTWAKE	1ull
#define UFFDIO_MOVE_MODE_DONTWAKE	1ull
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES 2ull

/* A descriptor that is ready for use; -1 and errno. @flags: O_NONBLOCK, O_CLOEXEC, UFFD_USER_MODE_ONLY. */
static inline int uffd_open(int flags, uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = (int)syscall(SYS_userfaultfd, flags);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

static inline int uffd_register(int fd, const void *start, size_t len, uint64_t mode)
{
	struct uffdio_register r = { .range = { (uintptr_t)start, len }, .mode = mode };

	return ioctl(fd, UFFDIO_REGISTER, &r);
}

static inline int uffd_unregister(int fd, const void *start, size_t len)
{
	struct uffdio_range r = { (uintptr_t)start, len };

	return ioctl(fd, UFFDIO_UNREGISTER, &r);
}

static inline int uffd_wake(int fd, const void *start, size_t len)
{
	struct uffdio_range r = { (uintptr_t)start, len };

	return ioctl(fd, UFFDIO_WAKE, &r);
}

static inline int uffd_writeprotect(int fd, const void *start, size_t len, uint64_t mode)
{
	struct uffdio_writeprotect w = { { (uintptr_t)start, len }, mode };

	return ioctl(fd, UFFDIO_WRITEPROTECT, &w);
}

static inline long uffd_copy(int fd, void *dst, const void *src, size_t len, uint64_t mode)
{
	struct uffdio_copy c = { (uintptr_t)dst, (uintptr_t)src, len, mode, 0 };

	return ioctl(fd, UFFDIO_COPY, &c) == 0 || c.copy > 0 ? (long)c.copy : -errno;
}

static inline long uffd_zeropage(int fd, void *start, size_t len, uint64_t mode)
{
	struct uffdio_zeropage z = { { (uintptr_t)start, len }, mode, 0 };

	return ioctl(fd, UFFDIO_ZEROPAGE, &z) == 0 || z.zeropage > 0 ? (long)z.zeropage : -errno;
}

static inline long uffd_continue(int fd, void *start, size_t len, uint64_t mode)
{
	struct uffdio_continue c = { { (uintptr_t)start, len }, mode, 0 };

	return ioctl(fd, UFFDIO_CONTINUE, &c) == 0 || c.mapped > 0 ? (long)c.mapped : -errno;
}

static inline long uffd_poison(int fd, void *start, size_t len, uint64_t mode)
{
	struct uffdio_poison p = { { (uintptr_t)start, len }, mode, 0 };

	return ioctl(fd, UFFDIO_POISON, &p) == 0 || p.updated > 0 ? (long)p.updated : -errno;
}

static inline long uffd_move(int fd, void *dst, const void *src, size_t len, uint64_t mode)
{
	struct uffdio_move m = { (uintptr_t)dst, (uintptr_t)src, len, mode, 0 };

	return ioctl(fd, UFFDIO_MOVE, &m) == 0 || m.move > 0 ? (long)m.move : -errno;
}

#endif
