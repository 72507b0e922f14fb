/*
 * mremap is at work: what was in the upper part of the mapping has moved, the lower part was empty. A fault there must wait until
 * mremap is done, and be refused then; if it was served, its write must be at the new place. And it must be woken. The fault
 * comes when mremap is at work already, or has just found the VMA unlocked when mremap begins.
 */
#include "windows.h"

#define SIZE	(4l << 20)
#define HALF	(2l << 20)

static char *old_place = (char *)0x300000000000, *new_place = (char *)0x310000000000;
static volatile int refused;

static void move(void *unused)
{
	(void)unused;
	if (mremap(old_place, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, new_place) != new_place)
		die("mremap");
}

static void write_low(void *unused)
{
	(void)unused;
	refused = write_long((long *)old_place, 7);
}

static void move_under_a_fault(bool found_before)
{
	struct actor mover, writer;

	run_on(0);
	if (mmap(old_place, SIZE, RW, ANON | MAP_FIXED, -1, 0) != old_place)
		die("mmap");
	*(volatile long *)(old_place + HALF) = 1;
	create(&mover, 0, move, NULL);
	create(&writer, 1, write_low, NULL);
	if (found_before) {
		command("hold vma_lock_found:%d until mremap_before_flush:%d", writer.tid, mover.tid);
		writer.ready = 1;
		while (!is_held("vma_lock_found"))
			pass_time();
	}
	command("hold mremap_before_flush:%d until go", mover.tid);
	mover.ready = 1;
	run_on(1);		/* both hold their CPUs: there is one for us when the writer waits, or is through */
	while (!found_before && !is_held("mremap_before_flush"))
		pass_time();
	start_and_see_it_wait(&writer);
	command("pass go");
	join(&mover);
	join(&writer);		/* for ever, if nobody wakes it */
	if (!refused && *(volatile long *)new_place != 7)
		die("a write to memory that moves is lost");
	if (*(volatile long *)(new_place + HALF) != 1)
		die("what was there before is lost");
	munmap(new_place, SIZE);
}

int main(void)
{
	catch_faults();
	command("seed 0");
	move_under_a_fault(false);
	move_under_a_fault(true);
	return 0;
}
