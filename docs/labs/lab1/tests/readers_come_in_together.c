/*
 * When a writer leaves, all readers at the head of the queue come in, at the same time; the writer behind them waits until the last of them has left,
 * and a reader behind that writer waits for him.
 * build: debug
 * budget: 8000
 * only: faultline
 */
#include "lab1.h"

static char *fresh, *place;
static volatile int mapped;

/* Reads a page that is not there, in this very process: holds mmap_lock for reading at window gup_fault. */
static void read_remotely(void *arg)
{
	char c;
	struct iovec local = { &c, 1 }, remote = { arg, 1 };

	MUST(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1);
}

static void map_a_page(void *unused)
{
	(void)unused;
	MUST(sys_mmap(place, PAGE, RW, ANON | MAP_FIXED, -1, 0) == (long)place);
	mapped = 1;
}

static void look_for_it(void *unused)
{
	unsigned char vec;

	(void)unused;
	CHECK_EQUAL(0, sys_mincore(place, PAGE, &vec));
}

int main(void)
{
	struct actor holder, reader[3], writer, last;

	need_windows();
	fresh = map_alone(3, RW);
	place = LONELY_PLACE;
	for (size_t i = 0; i < 3; i++)
		actor_create(&reader[i], read_remotely, fresh + i * PAGE);
	actor_create(&writer, map_a_page, NULL);
	actor_create(&last, look_for_it, NULL);
	hold_writer(&holder, "writer_leaves");
	for (int i = 0; i < 3 && !test_failures; i++) {
		race_command("hold gup_fault:%d until readers_leave", reader[i].tid);
		queue_up(&reader[i], "a reader");
	}
	if (!test_failures) {
		queue_up(&writer, "a writer behind readers");
		queue_up(&last, "a reader behind a writer");
	}
	race_command("pass writer_leaves");
	CHECK(wait_flag(&holder.done, 2000));		/* joined later: that unmaps its stack, behind everybody here */
	for (int i = 0; i < 3 && !test_failures; i++)
		if (!comes_to("gup_fault", reader[i].tid)) {
			printf("reader %d is not let in beside the others\n", i + 1);
			test_failures++;
		}
	if (!test_failures) {
		CHECK(stays(getpid(), writer.tid, "D"));
		CHECK(stays(getpid(), last.tid, "D"));
		CHECK_EQUAL(0, mapped);
	}
	race_command("pass readers_leave");
	must_finish(&holder, "who had the lock:");
	for (int i = 0; i < 3; i++) {
		reader[i].start = 1;
		must_finish(&reader[i], "a reader:");
	}
	writer.start = last.start = 1;
	must_finish(&writer, "the writer behind the readers:");
	must_finish(&last, "the last reader:");
	test_end();
}
