/* One thread: rights of neighbours, of halves, rights that go, and the error for a hole. */
#include <errno.h>

#include "windows.h"

#define AREA ((char *)0x200000000000)

/* Page i begins with the number i. */
static int file_of_8(void)
{
	int fd = (int)syscall(SYS_memfd_create, "file", 0);

	if (fd < 0 || ftruncate(fd, 8 * PAGE))
		die("memfd");
	for (long i = 0; i < 8; i++)
		if (pwrite(fd, &i, sizeof(i), i * PAGE) != sizeof(i))
			die("pwrite");
	return fd;
}

static char *map(long page, long pages, int prot, int flags, int fd)
{
	char *p = mmap(AREA + page * PAGE, (size_t)(pages * PAGE), prot, flags | MAP_FIXED, fd, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

/* Private memory, and a file that goes on where the neighbour ends: what could be one mapping, but for the rights. */
static void neighbours_keep_their_rights(int flags, int fd)
{
	char *rw = mmap(AREA, 2 * PAGE, RW, flags | MAP_FIXED, fd, 0);
	char *ro = mmap(AREA + 2 * PAGE, 2 * PAGE, PROT_READ, flags | MAP_FIXED, fd, fd < 0 ? 0 : 2 * PAGE);

	if (rw != AREA || ro != AREA + 2 * PAGE)
		die("mmap");
	*rw = 1;
	if (write_long((long *)ro, 1) != SIGSEGV)
		die("read-only memory beside writable memory can be written");
	if (write_long((long *)(rw + PAGE), 1))
		die("writable memory beside read-only memory cannot be written");
	munmap(AREA, 4 * PAGE);
}

static void halves_show_their_part(void)
{
	int fd = file_of_8();
	char *p = map(0, 8, PROT_READ, MAP_PRIVATE, fd);
	if (mprotect(p + 3 * PAGE, 2 * PAGE, RW) || munmap(p + 6 * PAGE, PAGE))
		die("mprotect");
	for (long i = 0; i < 8; i++)
		if (i != 6 && *(volatile long *)(p + i * PAGE) != i)
			die("a piece of a mapping shows another part of its file");
	munmap(p, 8 * PAGE);
	close(fd);
}

static void rights_go_at_once(void)
{
	char *p = map(0, 4, RW, ANON, -1);

	for (int i = 0; i < 4; i++)
		p[i * PAGE] = 1;		/* this CPU knows that it may */
	if (mprotect(p, 4 * PAGE, PROT_READ))
		die("mprotect");
	for (int i = 0; i < 4; i++)
		if (write_long((long *)(p + i * PAGE), 2) != SIGSEGV)
			die("a right that was taken away still works");
	munmap(p, 4 * PAGE);
}

static void a_hole_is_no_memory(void)
{
	char *p = map(0, 3, RW, ANON, -1);

	munmap(p + PAGE, PAGE);
	if (mprotect(p, 3 * PAGE, PROT_READ) != -1 || errno != ENOMEM)
		die("mprotect over a hole: not ENOMEM");
}

int main(void)
{
	catch_faults();
	neighbours_keep_their_rights(ANON, -1);
	neighbours_keep_their_rights(MAP_SHARED, file_of_8());
	halves_show_their_part();
	rights_go_at_once();
	a_hole_is_no_memory();
	return 0;
}
