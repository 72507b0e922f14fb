/*
 * For tests/gdb.sh: a program with faults that wait. Started as init. Two threads touch memory that a userfaultfd serves; one message is read, the
 * other is not; then the marker, where gdb stops it, in the kernel and in user mode.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "user/uffd.h"

#define AREA	((char *)0x500000000000)

static void *toucher(void *page)
{
	*(volatile char *)page = 1;
	return NULL;
}

__attribute__((noinline, noclone))
void everybody_waits(void)
{
	syscall(SYS_getppid);
}

int main(void)
{
	int uffd = uffd_open(O_NONBLOCK, 0);	/* a blocking one cannot be polled */
	struct pollfd pfd = { .fd = uffd, .events = POLLIN };
	struct uffd_msg msg;
	pthread_t t[2];

	if (uffd < 0 || mmap(AREA, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != AREA ||
	    uffd_register(uffd, AREA, 8192, UFFDIO_REGISTER_MODE_MISSING)) {
		perror("gdb-target");
		return 1;
	}
	pthread_create(&t[0], NULL, toucher, AREA);
	if (poll(&pfd, 1, -1) != 1 || pfd.revents != POLLIN || read(uffd, &msg, sizeof(msg)) != sizeof(msg))
		return 1;
	pthread_create(&t[1], NULL, toucher, AREA + 4096);
	if (poll(&pfd, 1, -1) != 1 || pfd.revents != POLLIN)	/* it waits; nobody reads that */
		return 1;
	for (;;)
		everybody_waits();
}
