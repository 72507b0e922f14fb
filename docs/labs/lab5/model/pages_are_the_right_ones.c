/* Copies, the end of a file, parent and child, and that every page comes back. */
#include "huge.h"

static void copies(void)
{
	int fd = huge_file(2 * HUGE);
	long all = free_pages();
	char *s = mmap(NULL, 2 * HUGE, RW, MAP_SHARED, fd, 0), *p = mmap(NULL, 2 * HUGE, RW, MAP_PRIVATE, fd, 0);
	int status;

	word(s, 0)[77] = 5;
	word(s, 1)[77] = 6;
	*word(p, 0) = 1;				/* a copy of what was not mapped here, */
	if (word(p, 0)[77] != 5 || word(p, 1)[77] != 6)
		die("a private mapping of a file does not show the file");
	*word(p, 1) = 1;				/* and of what was */
	if (word(p, 0)[77] != 5 || word(p, 1)[77] != 6 || *word(s, 0) || *word(s, 1))
		die("a copy is not a copy");
	pid_t pid = fork();
	if (!pid) {
		*word(p, 0) = 2;
		_exit(word(p, 0)[77] != 5);
	}
	if (waitpid(pid, &status, 0) != pid || status || *word(p, 0) != 1)
		die("a child's copy is wrong");
	munmap(p, 2 * HUGE);
	munmap(s, 2 * HUGE);
	close(fd);
	pool_must_be(all, 0, "a page is lost");
}

static void the_end(void)
{
	int fd = huge_file(2 * HUGE);
	char *p = mmap(NULL, 2 * HUGE, RW, MAP_PRIVATE, fd, 0);

	if (ftruncate(fd, HUGE))
		die("ftruncate");
	if (write_long(word(p, 1), 1) != SIGBUS)
		die("behind the end of the file: no SIGBUS");
	if (write_long(word(p, 0), 1))
		die("before the end of the file: refused");
	munmap(p, 2 * HUGE);
	close(fd);
}

/* The pool is empty when the owner writes what its child has too. */
static void owner_and_child(void)
{
	volatile long *turn = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long all = free_pages(), rest = all - 1, value;
	char *p = mmap(NULL, HUGE, RW, PRIVATE, -1, 0), *hog = mmap(NULL, (size_t)(rest * HUGE), RW, PRIVATE, -1, 0);
	int status;

	if (p == MAP_FAILED || hog == MAP_FAILED)
		die("mmap");
	*word(p, 0) = 1;
	pid_t pid = fork();
	if (!pid) {
		*turn = 1;
		while (*turn < 2)
			pass_time();
		_exit(read_long(word(p, 0), &value) != SIGBUS);		/* lost, and no page of zeros instead */
	}
	while (*turn < 1)
		pass_time();
	if (write_long(word(p, 0), 2))
		die("the owner of a page cannot write to it");
	munmap(hog, (size_t)(rest * HUGE));
	*turn = 2;
	if (waitpid(pid, &status, 0) != pid || status)
		die("a child whose page was taken away reads something else");
	munmap(p, HUGE);
	pool_must_be(all, 0, "a page is lost");
}

int main(void)
{
	catch_faults();
	copies();
	owner_and_child();
	the_end();
	return 0;
}
