/*
 * A fault has found its VMA and not yet locked it. Meanwhile the VMA goes, or only the part of it goes that the fault is about. The
 * access must be refused, and whoever changes what is left must not wait for ever for a fault that has given up.
 */
#include "windows.h"

static char *area = (char *)0x30000000;
static volatile int refused;

static void write_there(void *p)
{
	refused = write_long(p, 7);
}

/* The VMA covers @pages, of which the last one goes. */
static void unmap_behind_a_fault(long pages)
{
	struct actor writer;
	char *target = area + pages * PAGE;

	/* The pages before and behind keep the page table. */
	if (mmap(area, (size_t)((pages + 2) * PAGE), PROT_NONE, ANON | MAP_FIXED, -1, 0) != area ||
	    mprotect(area + PAGE, (size_t)(pages * PAGE), RW) || mprotect(area, PAGE, PROT_READ))
		die("area");
	(void)*(volatile char *)area;
	for (long i = 1; i < pages; i++)
		area[i * PAGE] = 1;
	create(&writer, 1, write_there, target);
	start_and_hold(&writer, "vma_lock_found");
	if (munmap(target, PAGE))
		die("munmap");
	command("pass go");
	join(&writer);
	if (refused != SIGSEGV)
		die("a write went through where nothing is mapped any more");
	if (mprotect(area, (size_t)(pages * PAGE), RW))		/* waits for faults in what is left */
		die("mprotect");
	for (long i = 0; i < pages; i++)
		if (write_long((long *)(area + i * PAGE), i))
			die("what is left cannot be written");
	munmap(area, (size_t)((pages + 2) * PAGE));
}

int main(void)
{
	catch_faults();
	command("seed 0");
	run_on(0);
	unmap_behind_a_fault(1);	/* all of the VMA */
	unmap_behind_a_fault(3);	/* its end */
	return 0;
}
