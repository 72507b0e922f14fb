/* A child and its parent write to what they share; neither may see the other's writes, and no memory may be lost. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 24, SIZE = 4096 };

static long free_kb(void)
{
	char text[4096], *found;
	int fd = open("/proc/meminfo", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	found = strstr(text, "MemFree:");
	return found ? atol(found + 8) : 0;
}

static void die(const char *why)
{
	puts(why);
	exit(1);
}

int main(void)
{
	unsigned char *m = mmap(NULL, PAGES * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long at_first = 0;
	int fds[2], status;

	for (int round = 0; round < 24; round++) {
		memset(m, 0xaa, PAGES * SIZE);
		if (pipe(fds))
			die("pipe");
		pid_t pid = fork();
		if (pid == 0) {
			char c;

			close(fds[1]);
			if (read(fds[0], &c, 1) != 1)		/* the parent has written by now */
				_exit(2);
			for (int i = 0; i < PAGES * SIZE; i += 1 + i % 64)
				if (m[i] != 0xaa)
					_exit(3);
			memset(m, 0xcc, PAGES * SIZE);
			_exit(0);
		}
		for (int i = 0; i < PAGES; i++)
			m[i * SIZE + round] = (unsigned char)i;
		if (write(fds[1], "x", 1) != 1 || waitpid(pid, &status, 0) != pid)
			die("child");
		close(fds[0]);
		close(fds[1]);
		if (status)
			die("the child saw writes of its parent");
		for (int i = 0; i < PAGES * SIZE; i += 1 + i % 64)
			if (m[i] != (i % SIZE == round ? i / SIZE : 0xaa))
				die("the parent saw writes of its child");
		if (round == 4)
			at_first = free_kb();
	}
	usleep(200000);
	if (at_first - free_kb() > 1800)
		die("memory is lost");
	return 0;
}
