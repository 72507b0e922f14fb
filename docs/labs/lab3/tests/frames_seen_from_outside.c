/*
 * Frames and rights, as the grader finds them in the guest's memory; and faults, as the processor takes them.
 * only: faultline
 * view
 * budget: 20000
 */
#include "tests/labs/lab_test.h"

#define FAULTS	20

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

/* One fault for each first read, one for each first write after it, none for a second write; and nobody tells another number. */
static void faults_are_what_is_counted(void)
{
	char *r = map_alone(FAULTS, RW);
	struct fault_count before = faults_begin();

	for (int i = 0; i < FAULTS; i++)
		(void)*(volatile char *)(r + i * PAGE);
	CHECK_EQUAL(FAULTS, faults_end(before, r, FAULTS * PAGE));
	r = map_alone(FAULTS, RW);
	for (int i = 0; i < FAULTS; i++)
		(void)*(volatile char *)(r + i * PAGE);
	before = faults_begin();
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < FAULTS; i++)
			*(volatile char *)(r + i * PAGE) = 1;
	CHECK_EQUAL(FAULTS, faults_end(before, r, FAULTS * PAGE));
}

int main(void)
{
	faults_are_what_is_counted();
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
