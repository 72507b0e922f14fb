/* The numbers of the pool, step by step. */
#include "huge.h"

static long all;

#define EXPECT(taken, promised) expect(__LINE__, taken, promised)

static void expect(int line, long taken, long promised)
{
	long t = all - free_pages(), p = promises();

	if (t != taken || p != promised) {
		printf("line %d: %ld pages are taken and %ld promised, not %ld and %ld\n", line, t, p, taken, promised);
		die("the pool is wrong");
	}
}

static void a_mapping_of_its_own(void)
{
	char *p = mmap(NULL, 3 * HUGE, RW, PRIVATE, -1, 0);

	EXPECT(0, 3);
	*word(p, 0) = 1;
	EXPECT(1, 2);
	madvise(p, HUGE, MADV_DONTNEED);
	EXPECT(0, 3);
	*word(p, 2) = 1;
	munmap(p, 3 * HUGE);
	EXPECT(0, 0);
}

static void a_file(void)
{
	int fd = huge_file(GIB);
	char *p = mmap(NULL, 4 * HUGE, RW, MAP_SHARED, fd, 0), *q;

	EXPECT(0, 4);
	*word(p, 3) = 1;
	EXPECT(1, 3);
	q = mmap(NULL, 4 * HUGE, RW, MAP_SHARED, fd, 2 * HUGE);		/* 2 to 5: one promised, one there */
	EXPECT(1, 5);
	munmap(p, 4 * HUGE);
	munmap(q, 4 * HUGE);
	EXPECT(1, 5);
	close(fd);
	EXPECT(0, 0);
}

int main(void)
{
	all = free_pages();
	EXPECT(0, 0);
	a_mapping_of_its_own();
	a_file();
	if (mmap(NULL, (size_t)((all + 1) * HUGE), RW, PRIVATE, -1, 0) != MAP_FAILED || errno != ENOMEM)
		die("more than there is: not ENOMEM");
	EXPECT(0, 0);
	return 0;
}
