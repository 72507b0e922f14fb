/*
 * For the uffd_demo_*.c programs: each includes a demonstration program whose main() has become demo_main(), and runs it in children,
 * with good arguments and bad ones.
 */
#ifndef UFFD_DEMO_H
#define UFFD_DEMO_H

#include "test.h"

#include <dirent.h>
#include <fcntl.h>

int demo_main(int argc, char **argv);

/* In a child, with what it says on both outputs in the pipe *out. */
static pid_t demo_start(char **argv, int *out)
{
	int argc = 0, pipes[2];

	while (argv[argc])
		argc++;
	MUST(pipe(pipes) == 0);
	fflush(NULL);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		dup2(pipes[1], 1);
		dup2(pipes[1], 2);
		close(pipes[0]);
		close(pipes[1]);
		exit(demo_main(argc, argv));
	}
	close(pipes[1]);
	*out = pipes[0];
	return pid;
}

/* It must exit with this status, and say this somewhere. */
static void demo_end(int line, pid_t pid, int out, int status, const char *says)
{
	static char text[4096];
	size_t len = 0;
	ssize_t n;
	int got;

	while (len < sizeof(text) - 1 && (n = read(out, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(out);
	MUST(waitpid(pid, &got, 0) == pid);
	if (!WIFEXITED(got) || WEXITSTATUS(got) != status || !strstr(text, says)) {
		printf("line %d: expected status %d and \"%s\", got wait status %x and \"%s\"\n", line, status, says, got, text);
		test_failures++;
	}
}

#define RUNS(status, says, ...)								\
	do {										\
		char *argv_[] = { (char []){ "demo" }, ##__VA_ARGS__, NULL };		\
		int out_, line_ = __LINE__;						\
		pid_t pid_ = demo_start(argv_, &out_);					\
		demo_end(line_, pid_, out_, status, says);				\
	} while (0)
#define W(word)	((char []){ word })

/* A child of @parent, once there is one. */
__attribute__((unused))
static pid_t child_of(pid_t parent)
{
	for (;;) {
		DIR *d = opendir("/proc");
		struct dirent *e;

		MUST(d != NULL);
		while ((e = readdir(d))) {
			char path[300], text[512] = "", *end;
			snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
			int fd = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? open(path, O_RDONLY) : -1, ppid = 0;

			if (fd < 0)
				continue;
			if (read(fd, text, sizeof(text) - 1) > 0 && (end = strrchr(text, ')')))
				sscanf(end + 2, "%*c %d", &ppid);
			close(fd);
			if (ppid == parent) {
				pid_t found = atoi(e->d_name);

				closedir(d);
				return found;
			}
		}
		closedir(d);
		usleep(1000);
	}
}

#endif
