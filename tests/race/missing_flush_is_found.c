/*
 * A flush that is left out between clearing a page-table entry and freeing the frame: the debug kernel must stop and name
 * both places, although no CPU here would ever notice (mm/debug.c). The flush is taken away by a switch of the kernel
 * itself, for this task only.
 *
 * only: faultline
 * build: debug
 * cpus: 1 2
 * expect: fail
 */
#include "../guest/test.h"

#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open("/sys/kernel/faultline/skip_flush", O_WRONLY);

	MUST(p != MAP_FAILED && fd >= 0);
	*p = 1;
	MUST(write(fd, "1", 1) == 1);
	madvise(p, 4096, MADV_DONTNEED);
	test_end();		/* reached: the checker is blind, and this boot passes where it should not */
}
