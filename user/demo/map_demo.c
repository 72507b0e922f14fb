/*
 * Something to look at for `make map`: memory in several forms, before and after fork and after a write by the child.
 * Each call of map-point takes a picture of all processes.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	4096

static void picture(const char *label)
{
	char command[128];

	snprintf(command, sizeof(command), "/t/map-point %s", label);
	if (system(command) != 0)
		exit(1);
}

int main(void)
{
	char *heap = mmap((void *)0x10000000, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	int fd = (int)syscall(SYS_memfd_create, "shared", 0), sum = 0;
	char *shared;

	if (heap == MAP_FAILED || fd < 0 || ftruncate(fd, 32 * PAGE))
		return 1;
	shared = mmap((void *)0x20000000, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (shared == MAP_FAILED)
		return 1;
	memset(heap, 1, 24 * PAGE);			/* pages of our own */
	for (int i = 24; i < 40; i++)
		sum += heap[i * PAGE];			/* only read: the page of zeros */
	memset(shared, 2, 16 * PAGE);
	picture("1-before-fork");

	pid_t pid = fork();

	if (pid == 0) {
		picture("2-after-fork");
		memset(heap, 3, 8 * PAGE);		/* copied, page by page */
		shared[0] = sum == 0 ? 4 : 5;
		picture("3-child-wrote-eight-pages");
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return 0;
}
