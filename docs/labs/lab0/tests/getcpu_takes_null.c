/* Either pointer may be null, or both. */
#include "lab0.h"

int main(void)
{
	unsigned int cpu = 77, node = 77;

	run_on(1);
	CHECK_EQUAL(0, getcpu_call(NULL, NULL));
	CHECK_EQUAL(0, getcpu_call(&cpu, NULL));
	CHECK_EQUAL(1, cpu);
	CHECK_EQUAL(0, getcpu_call(NULL, &node));
	CHECK_EQUAL(0, node);
	test_end();
}
