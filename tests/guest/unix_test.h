/* Shared by the tests of AF_UNIX. */
#ifndef UNIX_TEST_H
#define UNIX_TEST_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

#include "test.h"

__attribute__((unused))
static short poll_now(int fd)
{
	struct pollfd p = { fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0 };

	CHECK(poll(&p, 1, 0) >= 0);
	return p.revents;
}

/* "@name" is abstract. Returns the length. */
__attribute__((unused))
static socklen_t name_of(struct sockaddr_un *a, const char *name)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	strcpy(a->sun_path, name);
	if (name[0] != '@')
		return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + 1);
	a->sun_path[0] = 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
}

__attribute__((unused))
static int bound(int type, const char *name)
{
	struct sockaddr_un a;
	socklen_t len = name_of(&a, name);
	int fd = socket(AF_UNIX, type, 0);

	MUST(fd >= 0);
	MUST(bind(fd, (void *)&a, len) == 0);
	return fd;
}

__attribute__((unused))
static int connect_to(int fd, const char *name)
{
	struct sockaddr_un a;
	socklen_t len = name_of(&a, name);

	return connect(fd, (void *)&a, len);
}

__attribute__((unused))
static void pair(int type, int s[2])
{
	MUST(socketpair(AF_UNIX, type, 0, s) == 0);
}

__attribute__((unused))
static void close_both(int s[2])
{
	close(s[0]);
	close(s[1]);
}

#endif
