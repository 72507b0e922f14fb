/*
 * Frames and rights, as the grader finds them in the guest's memory.
 * only: faultline
 * view
 * budget: 20000
 */
#include "tests/labs/lab_test.h"

static volatile unsigned long *p, *q;

static void child(void *unused)
{
	(void)unused;
	view_page(p, "r-");
	view_is("before_fork", p);
	p[0] = 0xc4117d0000000001;
	view_page(p, "rw");
	view_is_not("before_fork", p);
}

int main(void)
{
	p = (void *)map_alone(1, RW);
	q = (void *)map_alone(2, RW);
	view_none(p);
	(void)q[0];
	(void)q[PAGE / 8];
	view_page(q, "r-");
	view_same(q, q + PAGE / 8);		/* the page of zeros */
	q[0] = 0x1111;
	view_page(q, "rw");
	view_differ(q, q + PAGE / 8);
	p[0] = 0xfa417;
	view_page(p, "rw");
	view_remember("before_fork", p);
	CHECK_EQUAL(0, in_child(child, NULL));
	view_is("before_fork", p);
	CHECK_EQUAL(0xfa417, p[0]);
	p[0] = 0x600d;
	view_page(p, "rw");
	view_is("before_fork", p);
	test_end();
}
