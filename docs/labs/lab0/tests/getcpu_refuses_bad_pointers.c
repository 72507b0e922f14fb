/*
 * The kernel never follows a user pointer unless it is prepared for it to be wrong. Nothing mapped, read-only, half of it behind the
 * end of a mapping, the kernel's own memory: EFAULT, and what lies there is as it was.
 */
#include "lab0.h"

int main(void)
{
	unsigned int cpu = 77;
	char *p = map_alone(1, RW), *ro = map_alone(1, PROT_READ);

	run_on(1);
	memset(p, 0x55, PAGE);
	CHECK_ERRNO(EFAULT, getcpu_call((void *)16, NULL));
	CHECK_ERRNO(EFAULT, getcpu_call(NULL, (void *)16));
	CHECK_ERRNO(EFAULT, getcpu_call(ro, NULL));
	CHECK_ERRNO(EFAULT, getcpu_call(p + PAGE - 2, NULL));
	CHECK_ERRNO(EFAULT, getcpu_call((void *)KERNEL_ADDRESS, NULL));
	CHECK_ERRNO(EFAULT, getcpu_call((void *)0xffffffff80200000ul, NULL));
	CHECK_EQUAL(0, ro[0]);
	/* Not aligned, but all there. */
	CHECK_EQUAL(0, getcpu_call(p + 5, NULL));
	memcpy(&cpu, p + 5, sizeof(cpu));
	CHECK_EQUAL(1, cpu);
	CHECK_EQUAL(0x55, p[4]);
	CHECK_EQUAL(0x55, p[9]);
	test_end();
}
