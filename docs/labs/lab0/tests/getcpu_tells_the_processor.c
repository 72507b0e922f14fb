/*
 * Bound to one processor after the other, a thread is told just that one; the node is 0, for we have only one.
 * cpus: 4
 */
#include "lab0.h"

int main(void)
{
	unsigned int n = processors();

	CHECK(n > 1);
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < n; i++) {
			unsigned int cpu = 77, node = 77;

			run_on(i);
			CHECK_EQUAL(0, getcpu_call(&cpu, &node));
			CHECK_EQUAL(i, cpu);
			CHECK_EQUAL(0, node);
		}
	}
	test_end();
}
