/*
 * A shared mapping of /dev/zero is memory that a child shares; a private one is the process's own (SEMANTICS A4). The
 * debug build walks the invariants of both at fork.
 * build: debug
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "test.h"

int main(void)
{
	int fd = open("/dev/zero", O_RDWR);
	MUST(fd >= 0);
	volatile int *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	volatile int *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	MUST(shared != MAP_FAILED && own != MAP_FAILED);
	close(fd);
	CHECK_EQUAL(0, shared[0]);
	CHECK_EQUAL(0, own[0]);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		shared[1024] = 7;
		own[1024] = 7;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	CHECK_EQUAL(7, shared[1024]);
	CHECK_EQUAL(0, own[1024]);
	test_end();
}
