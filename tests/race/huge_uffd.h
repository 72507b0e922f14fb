/*
 * userfaultfd, as much of it as the race programs about huge pages need. Numbers and layouts are the kernel's interface; musl has no
 * header for them.
 */
#ifndef RACE_HUGE_UFFD_H
#define RACE_HUGE_UFFD_H

#include <poll.h>
#include <sys/ioctl.h>

#include "hugetlb.h"

#ifndef SYS_userfaultfd
#define SYS_userfaultfd		323
#endif
#define UFFD_MISSING		1ul
#define UFFD_WP			2ul
#define UFFD_MINOR		4ul
#define UFFD_PAGEFAULT_WP	(1ul << 1)	/* of a message's flags */
#define UFFD_FEATURES_WP	(1ul << 0 | 1ul << 12)	/* PAGEFAULT_FLAG_WP, WP_HUGETLBFS_SHMEM */

struct uffd_api { uint64_t api, features, ioctls; };
struct uffd_range { uint64_t start, len; };
struct uffd_register { struct uffd_range range; uint64_t mode, ioctls; };
struct uffd_copy { uint64_t dst, src, len, mode; int64_t copy; };
struct uffd_protect { struct uffd_range range; uint64_t mode; };
struct uffd_message { uint8_t event, pad[7]; uint64_t flags, address, more; };

#define UFFD_API		_IOWR(0xaa, 0x3f, struct uffd_api)
#define UFFD_REGISTER		_IOWR(0xaa, 0x00, struct uffd_register)
#define UFFD_UNREGISTER		_IOR(0xaa, 0x01, struct uffd_range)
#define UFFD_WAKE		_IOR(0xaa, 0x02, struct uffd_range)
#define UFFD_COPY		_IOWR(0xaa, 0x03, struct uffd_copy)
#define UFFD_WRITEPROTECT	_IOWR(0xaa, 0x06, struct uffd_protect)

/* A descriptor with these features, or the test is skipped: the kernel lacks it. */
__attribute__((unused))
static int uffd_open(uint64_t features)
{
	struct uffd_api api = { 0xaa, features, 0 };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, UFFD_API, &api))
		test_skip("no userfaultfd for huge pages");
	return fd;
}

__attribute__((unused))
static int uffd_register(int fd, void *start, size_t len, uint64_t mode)
{
	struct uffd_register r = { { (uintptr_t)start, len }, mode, 0 };

	return ioctl(fd, UFFD_REGISTER, &r);
}

__attribute__((unused))
static int uffd_unregister(int fd, void *start, size_t len)
{
	struct uffd_range r = { (uintptr_t)start, len };

	return ioctl(fd, UFFD_UNREGISTER, &r);
}

__attribute__((unused))
static int uffd_protect(int fd, void *start, size_t len, bool on)
{
	struct uffd_protect p = { { (uintptr_t)start, len }, on };

	return ioctl(fd, UFFD_WRITEPROTECT, &p);
}

#endif
