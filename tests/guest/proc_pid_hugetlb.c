/*
 * /proc/PID/hugetlb (ours): per mapping of huge pages, which indexes have a page, are promised one, or neither; the same for all who map a
 * file, and in step with the pool's counters.
 * only: faultline
 */
#include "hugetlb_test.h"

/* The states in the line of the mapping at @p, "shared 0 page 2 promised 1" and the like; "" if there is no line. */
static const char *states_of(const char *path, const void *p)
{
	static char found[4096];
	char *text = read_text(path);
	unsigned long start;
	int at;

	found[0] = '\0';
	for (char *line; (line = next_line(&text)); )
		if (sscanf(line, "%lx-%*x %*s %*u 2097152 %n", &start, &at) == 1 && start == (unsigned long)p)
			snprintf(found, sizeof(found), "%s", line + at);
	return found;
}

#define CHECK_STATES(want, path, p)							\
	do {										\
		const char *got_ = states_of(path, p);					\
		if (strcmp(got_, want)) {						\
			printf("%s:%d: expected \"%s\", got \"%s\"\n", __FILE__, __LINE__, want, got_);	\
			test_failures++;						\
		}									\
	} while (0)
#define SELF "/proc/self/hugetlb"

static void shared(void)
{
	int fd = huge_memfd(0);
	char *p = map_fd(fd, 6, RW, MAP_SHARED, 0), *high, *none;
	char parent[64];

	CHECK_STATES("shared 0 promised 6", SELF, p);
	p[0] = p[HUGE] = p[4 * HUGE] = 1;
	CHECK_STATES("shared 0 page 2 promised 2 page 1 promised 1", SELF, p);
	CHECK_POOL(7, 3);
	high = map_fd(fd, 4, PROT_READ, MAP_SHARED, 3);
	CHECK_STATES("shared 3 promised 1 page 1 promised 2", SELF, high);
	none = sys_mmap(0, 12 * HUGE, RW, MAP_SHARED | MAP_NORESERVE, fd, 0);
	MUST(none != MAP_FAILED);
	CHECK_STATES("shared 0 page 2 promised 2 page 1 promised 2 none 5", SELF, none);
	/* Another process sees the same. */
	sprintf(parent, "/proc/%d/hugetlb", getpid());
	pid_t pid = fork();
	if (pid == 0) {
		CHECK_STATES("shared 0 page 2 promised 2 page 1 promised 1", SELF, p);
		CHECK_STATES("shared 0 page 2 promised 2 page 1 promised 1", parent, p);
		fflush(stdout);
		_exit(test_failures != 0);
	}
	int status;
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	/* A hole takes the page, and promises nothing. */
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)HUGE, (off_t)HUGE) == 0);
	CHECK_STATES("shared 0 page 1 none 1 promised 2 page 1 promised 1", SELF, p);
	/* Chunks of the file's map: far apart, with nothing in between. */
	unmap_huge(none, 12);
	none = sys_mmap(0, 1200 * HUGE, RW, MAP_SHARED | MAP_NORESERVE, fd, 0);
	MUST(none != MAP_FAILED && ftruncate(fd, 1200 * (off_t)HUGE) == 0);
	none[1100 * HUGE] = 1;
	CHECK_STATES("shared 0 page 1 none 1 promised 2 page 1 promised 2 none 1093 page 1 none 99", SELF, none);
	unmap_huge(none, 1200);
	unmap_huge(p, 6);
	unmap_huge(high, 4);
	close(fd);
}

static void private(void)
{
	char *p = map_huge(4, RW, HUGE_ANON);

	p[HUGE] = 1;
	CHECK_STATES("private 0 promised 1 page 1 promised 2", SELF, p);
	pid_t pid = fork();
	if (pid == 0) {
		CHECK_STATES("private 0 none 4", SELF, p);	/* promised to its parent alone (D6) */
		fflush(stdout);
		_exit(test_failures != 0);
	}
	int status;
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	/* A part of it keeps its place in the whole. */
	unmap_huge(p, 1);
	CHECK_STATES("private 1 page 1 promised 2", SELF, p + HUGE);
	unmap_huge(p + HUGE, 3);
	CHECK_STATES("", SELF, p + HUGE);
}

int main(void)
{
	CHECK_EQUAL(0, (long)strlen(read_text(SELF)));
	pool_begin(10);
	shared();
	private();
	pool_end(10);
}
