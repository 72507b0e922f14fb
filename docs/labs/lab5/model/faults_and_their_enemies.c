/* A fault has found its entry and stops there; another thread takes the table, or a page of the file. */
#include "huge.h"

static int fd;

static void read_page(void *page)
{
	long value;

	read_long(word(SLOT(0), (long)page), &value);
}

static void drop(void *unused)
{
	(void)unused;
	madvise(SLOT(0), HUGE, MADV_DONTNEED);
}

static void punch_0(void *unused)
{
	(void)unused;
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HUGE);
}

/* Whoever takes away what the fault in slot 0 stands on has to wait for it. */
static void meet(long page, void (*enemy)(void *))
{
	struct actor faulter, other;

	create(&faulter, 1, read_page, (void *)page);
	create(&other, 0, enemy, NULL);
	start_and_hold(&faulter, "hugetlb_fault_walked");
	bool waits = start_and_see_it_wait(&other);
	command("pass go");
	join(&faulter);
	join(&other);
	if (!waits)
		die("a fault's table was taken away while it was at work");
}

int main(void)
{
	catch_faults();
	command("seed 0");
	run_on(0);
	fd = huge_file(GIB);
	map_slot(1, fd, RW);
	map_slot(0, fd, RW);
	*word(SLOT(1), 0) = 1;
	if (*word(SLOT(0), 0) != 1)
		die("two mappings of one file differ");
	meet(1, drop);
	if (*word(SLOT(0), 0) != 1)
		die("MADV_DONTNEED of a file's page has changed the file");
	meet(2, punch_0);
	if (*word(SLOT(0), 0) || *word(SLOT(1), 0))
		die("a page that was punched out of the file can still be read");
	return 0;
}
