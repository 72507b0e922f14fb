/*
 * mseal on part of a mapping, while another thread faults in it: sealed pages refuse every change, the others do not.
 * build: debug
 * budget: 2000
 */
#include "tests/labs/lab_test.h"

#ifndef SYS_mseal
#define SYS_mseal	462
#endif

static char *area;
static volatile int stop;

static void *touch_all(void *unused)
{
	(void)unused;
	while (!stop) {
		for (size_t i = 0; i < 8; i++)
			((volatile char *)area)[i * PAGE]++;
		relax();
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;

	area = map_alone(8, RW);
	MUST(pthread_create(&thread, NULL, touch_all, NULL) == 0);
	CHECK_EQUAL(0, syscall(SYS_mseal, area + 2 * PAGE, 3 * PAGE, 0l));
	CHECK_ERRNO(EPERM, sys_mprotect(area + 2 * PAGE, PAGE, PROT_READ));
	CHECK_ERRNO(EPERM, sys_munmap(area + 3 * PAGE, PAGE));
	CHECK_EQUAL(0, sys_mprotect(area, 2 * PAGE, RW | PROT_EXEC));
	CHECK_ERRNO(ENOMEM, syscall(SYS_mseal, area + 7 * PAGE, 2 * PAGE, 0l));
	stop = 1;
	pthread_join(thread, NULL);
	test_end();
}
