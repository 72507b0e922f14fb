/*
 * Maps a file of huge pages, writes to a few pages, forks a child that ends at once, unmaps, for ever: how many forks is
 * that, for one process and for many at once? (The second of the two programs of the published measurements.)
 *
 *	hugefork [-n INSTANCES] [-s SIZE] [-t SECONDS] [-f FILE]
 *
 * All instances map the same file at the same address. The child checks that it sees what its parent has just written, and says
 * so by its status; the parent checks that it was this child.
 */
#include "huge.h"

#define FEW 8

static struct options o;
static int fd;

/* Behind the places of hugefault, which may use the same file. */
static volatile long *place(char *map, size_t page, int instance)
{
	return (volatile long *)(map + page * HUGE) + MAX_INSTANCES + instance;
}

static long map_fork_unmap(int instance, long round, struct board *b)
{
	size_t pages = o.size / HUGE, few = pages < FEW ? pages : FEW;
	char *map = map_file(fd, o.size);
	int status;

	(void)b;
	for (size_t i = 0; i < few; i++)
		*place(map, i, instance) = round;
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		_exit((int)(*place(map, (size_t)round % few, instance) - round) ? 1 : 42);
	if (waitpid(pid, &status, 0) != pid || status != 42 << 8) {
		fprintf(stderr, "hugefork: a child sees what its parent did not write (status %x)\n", (unsigned)status);
		exit(1);
	}
	if (munmap(map, o.size))
		die("munmap");
	return 1;
}

int main(int argc, char **argv)
{
	struct board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	o = parse_options(argc, argv);
	fd = open_file(&o);
	if (b == MAP_FAILED)
		die("mmap");
	run_instances(&o, "fork", map_fork_unmap, b);
	return 0;
}
