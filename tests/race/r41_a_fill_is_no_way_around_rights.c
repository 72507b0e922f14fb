/*
 * R41. Who may only read a file maps it shared, registers it, and lets the manager write: COPY puts pages into the file (CVE-2018-18397).
 * Or maps it privately, takes the file's page by CONTINUE, and writes to it (CVE-2022-49991). And while all of that is tried,
 * others fault in the same page, so every error exit is taken with the page locked by somebody (CVE-2017-15127).
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=41
 * shows: may only be read
 */
#include "uffd_race.h"

static struct memory shared, private;
static char *read_only;
static int fd, ro_file;

static void set_up(void)
{
	char path[64];

	shared = make_memory(SHMEM_SHARED, 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", shared.fd);
	ro_file = open(path, O_RDONLY);
	MUST(ro_file >= 0);
	read_only = mmap(empty_place(PAGE, PAGE), PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, ro_file, 0);
	private = shared;
	private.p = mmap(empty_place(PAGE, PAGE), PAGE, RW, MAP_PRIVATE | MAP_FIXED, ro_file, 0);
	MUST(read_only != MAP_FAILED && private.p != MAP_FAILED);
	fd = open_uffd(0);
}

static void refused(void)
{
	if (uffd_register(fd, read_only, PAGE, MISSING) != -1 || errno != EPERM) {
		puts("memory of a file that may only be read is registered");
		test_failures++;
		uffd_copy(fd, read_only, source('!', PAGE), PAGE, 0);
	}
	CHECK_ERRNO(EPERM, uffd_register(fd, read_only, PAGE, MINOR));
	CHECK_EQUAL(0, shared.alias[0]);
}

/* The file says 'f' at all times; our private copy says what we like. */
static void private_continue(void)
{
	MUST(uffd_register(fd, private.p, PAGE, MINOR) == 0);
	shared.alias[0] = 'f';
	CHECK_EQUAL((long)PAGE, uffd_continue(fd, private.p, PAGE, 0));
	private.p[0] = 'p';
	CHECK_EQUAL('f', shared.alias[0]);
	CHECK_EQUAL('p', private.p[0]);
	MUST(madvise(private.p, PAGE, MADV_DONTNEED) == 0 && uffd_unregister(fd, private.p, PAGE) == 0);
}

static void fill(struct racer *r)
{
	struct result c = r->rounds & 1 ? raw_copy(fd, (uintptr_t)shared.p, (uintptr_t)source('c', PAGE), PAGE, 0) :
		raw_fill(fd, UFFDIO_CONTINUE, (uintptr_t)shared.p, PAGE, 0);

	CHECK(c.error == 0 || c.error == EEXIST || c.error == EFAULT || c.error == EAGAIN);
}

static void touch_shared(struct racer *r)
{
	(void)r;
	char c = *(volatile char *)shared.p;
	CHECK(c == 'c' || c == 0);
}

static void punch(struct racer *r)
{
	(void)r;
	MUST(fallocate(shared.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0);
	for (int i = rnd(10); i; i--)
		sched_yield();
}

/* Missing: zeros. Cached: as it is. Whatever it is by now: whoever waits looks again. */
static void serve(struct manager *m, const struct uffd_msg *msg)
{
	if (msg->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_MINOR)
		uffd_continue(m->fd, shared.p, PAGE, 0);
	else
		uffd_zeropage(m->fd, shared.p, PAGE, 0);
	uffd_wake(m->fd, shared.p, PAGE);
}

static void racing(void)
{
	struct racer racers[] = { { .round = fill }, { .round = fill }, { .round = touch_shared }, { .round = punch } };
	struct manager m = { 0 };

	set_up();
	refused();
	private_continue();
	source('c', PAGE);
	MUST(fallocate(shared.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0);
	MUST(uffd_register(fd, shared.p, PAGE, MISSING | MINOR) == 0);
	/* The touchers are served by whoever fills; the manager wakes those whose page went away again. */
	manager_start(&m, fd, serve);
	race(RACE_SECONDS, racers, 4);
	manager_stop(&m);
}

int main(void)
{
	run_race(racing, NULL, 64);
}
