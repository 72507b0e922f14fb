/*
 * The program drops pages, which then are zeros whatever the image says, and unmaps some; while another thread is at work in the very pages. The pager
 * is refused while such an event is on its way to it, and loses neither the fault nor the event.
 * program: pager
 * budget: 12000
 */
#include "pager.h"

#define PAGES	32ul
#define ROUNDS	60

static volatile int stop;
static volatile long wrong;

/* In page 8 there is what the image says, until it is dropped for the first time; then zeros. And page 9, too, which is dropped with it. */
static void *look(void *unused)
{
	(void)unused;
	while (!stop) {
		char a = ((volatile char *)area)[8 * PAGE + 5], b = ((volatile char *)area)[9 * PAGE + 6];

		if ((a && a != expected(8 * PAGE + 5)) || (b && b != expected(9 * PAGE + 6)))
			wrong++;
		relax();
	}
	return NULL;
}

int main(void)
{
	static char dirty[PAGES];
	struct helper h[2] = { { .value = 'x' }, { 0 } };
	pthread_t thread;

	pager_start(PAGES);
	check_page(0, NULL);
	check_page(4, NULL);
	area[5 * PAGE] = 'd';
	/* Touched, written to, and not even touched: all of them are zeros now. */
	MUST(madvise(area + 4 * PAGE, 3 * PAGE, MADV_DONTNEED) == 0);
	CHECK(page_is_zero(4) && page_is_zero(5) && page_is_zero(6));
	check_page(3, NULL);
	check_page(7, NULL);
	area[4 * PAGE + 1] = 'n';
	CHECK_EQUAL('n', area[4 * PAGE + 1]);

	MUST(pthread_create(&thread, NULL, look, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		MUST(madvise(area + 8 * PAGE, 2 * PAGE, MADV_DONTNEED) == 0);
		CHECK(area[8 * PAGE + 5] == 0 && area[9 * PAGE + 6] == 0);
		if (test_failures)
			break;
	}
	stop = 1;
	pthread_join(thread, NULL);
	CHECK_EQUAL(0, wrong);

	/* Two pages in the middle go. Their neighbours are served as before. */
	check_page(12, NULL);
	area[13 * PAGE] = 'g';
	MUST(munmap(area + 12 * PAGE, 2 * PAGE) == 0);
	check_page(11, NULL);
	check_page(14, NULL);
	helper_start(&h[0], do_write, area + 15 * PAGE, 0);
	helper_start(&h[1], do_read, area + 15 * PAGE + 1, 0);
	HELPER_END(&h[0]);
	CHECK_EQUAL((unsigned char)expected(15 * PAGE + 1), HELPER_END(&h[1]));
	CHECK_EQUAL('x', area[15 * PAGE]);
	pager_end(dirty);
	for (size_t page = 0; page < PAGES; page++)
		check_dirty(dirty, page, (page >= 4 && page <= 6) || page == 8 || page == 9 || page == 15);
	test_end();
}
