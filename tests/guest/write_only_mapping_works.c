/*
 * PROT_WRITE alone implies reading on x86. A handler that takes such a fault for done, without mapping the page, loops for ever.
 * timeout: 20
 */
#include <sys/mman.h>

#include "test.h"

int main(void)
{
	char *p = mmap(NULL, 8192, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *x;

	MUST(p != MAP_FAILED);
	p[0] = 42;
	CHECK_EQUAL(42, *(volatile char *)p);
	CHECK_EQUAL(0, *(volatile char *)(p + 4096));		/* first touch by reading */
	x = mmap(NULL, 4096, PROT_EXEC | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(x != MAP_FAILED);
	x[0] = (char)0xc3;
	((void (*)(void))x)();
	CHECK(mprotect(p, 4096, PROT_READ) == 0);
	CHECK_EQUAL(42, *(volatile char *)p);
	CHECK(mprotect(p, 4096, PROT_WRITE) == 0);
	p[1] = 43;
	CHECK_EQUAL(43, *(volatile char *)(p + 1));
	test_end();
}
