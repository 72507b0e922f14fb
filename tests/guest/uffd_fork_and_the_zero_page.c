/*
 * F36 for entries that have no page of their own: the protection of the zero page and of a hole goes to the child if the manager
 * follows forks, and stays behind if he does not. The mark that PAGEMAP_SCAN puts on a poisoned page never goes along.
 */
#include "uffd_test.h"

#include "user/pagemap.h"

enum { ZERO, HOLE, POISON, PAGES };

/* The manager: takes the child's descriptor and closes it when the child has looked. */
static long take_fork(struct helper *h)
{
	struct uffd_msg msg;

	if (!get_message((int)h->value, &msg, 8000) || msg.event != UFFD_EVENT_FORK)
		return -1;
	return (long)msg.arg.fork.ufd;
}

static void forked(uint64_t features, bool follows)
{
	char *p = map_alone(PAGES, RW);
	int fd = open_uffd(features);
	struct helper h;

	MUST(uffd_register(fd, p, PAGES * PAGE, WP) == 0);
	(void)*(volatile char *)(p + ZERO * PAGE);
	MUST(uffd_poison(fd, p + POISON * PAGE, PAGE, 0) == (long)PAGE);
	struct pm_scan_arg a = { .size = sizeof(a), .start = (uintptr_t)p, .end = (uintptr_t)p + PAGES * PAGE, .flags = PM_SCAN_WP_MATCHING };
	int pm = open("/proc/self/pagemap", O_RDONLY);
	MUST(pm >= 0 && ioctl(pm, PAGEMAP_SCAN, &a) == 0);
	close(pm);
	for (int i = 0; i < PAGES; i++)
		CHECK(pagemap(p + i * PAGE) & PM_UFFD_WP);

	h.value = fd;
	if (follows)
		helper_start(&h, take_fork, NULL, 0);
	pid_t pid = fork();
	if (pid == 0) {
		int protected = 0;

		for (int i = 0; i < PAGES; i++)
			protected |= !!(pagemap(p + i * PAGE) & PM_UFFD_WP) << i;
		_exit(protected);
	}
	int status, child = follows ? (int)HELPER_END(&h) : -1;
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(!follows || child >= 0);
	CHECK_EQUAL(follows ? 1 << ZERO | 1 << HOLE : 0, WEXITSTATUS(status));
	for (int i = 0; i < PAGES; i++)
		CHECK(pagemap(p + i * PAGE) & PM_UFFD_WP);
	if (child >= 0)
		close(child);
	close(fd);
	munmap(p, PAGES * PAGE);
}

int main(void)
{
	forked(UFFD_FEATURE_WP_ASYNC, false);
	forked(UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_EVENT_FORK, true);
	test_end();
}
