/*
 * R30. The first page of a private mapping comes by COPY. It needs the root of a reverse map, which may be set under mmap_lock only and may
 * be borrowed from a neighbour that is being faulted now. So that is done before, for every private VMA: of files too.
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=30
 * shows: PANIC|is not there
 */
#include "uffd_race.h"

static volatile unsigned long turn;
static char *volatile neighbour;

/* Touches the mapping beside the one that is being filled: it makes, or borrows, an anon_vma at that moment. */
static void fault_beside(struct racer *r)
{
	char *p = neighbour;
	long v = 7;

	(void)r;
	if (p)
		touch((volatile long *)p, true, &v);
	sched_yield();
}

static void fresh_mapping(struct racer *r)
{
	enum kind kind = r->rounds % 2 ? SHMEM_PRIVATE : ANON_PRIVATE;
	char *place = empty_place(4 * PAGE, PAGE);
	int fd = open_uffd(0), file = -1, status;
	int flags = MAP_PRIVATE | MAP_FIXED;

	if (kind == SHMEM_PRIVATE)
		file = make_memfd(4, 0);
	else
		flags |= MAP_ANONYMOUS;
	/* Read-only first: a mapping that will be written may have been prepared when it was made. Filling does not ask for rights. */
	MUST(mmap(place, 3 * PAGE, r->rounds % 4 < 2 ? PROT_READ : RW, flags, file, 0) == place);
	MUST(uffd_register(fd, place + PAGE, PAGE, MISSING) == 0);	/* now three VMAs, side by side */
	neighbour = place;
	CHECK_EQUAL((long)PAGE, uffd_copy(fd, place + PAGE, source('c', PAGE), PAGE, 0));
	MUST(mprotect(place, 3 * PAGE, RW) == 0);
	pid_t pid = (pid_t)syscall(SYS_fork);
	if (!pid) {
		bool ok = place[PAGE] == 'c';

		place[PAGE] = 'k';
		_exit(!ok || place[PAGE] != 'k');
	}
	place[PAGE + 1] = 'p';
	MUST(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(0, status);
	if (place[PAGE] != 'c') {
		puts("the page that was copied is not there");
		test_failures++;
	}
	neighbour = NULL;
	close(fd);
	MUST(munmap(place, 3 * PAGE) == 0);
	if (file >= 0)
		close(file);
}

static void racing(void)
{
	struct racer racers[] = { { .round = fresh_mapping }, { .round = fault_beside } };

	race(RACE_SECONDS, racers, 2);
}

int main(void)
{
	run_race(racing, NULL, 64);
}
