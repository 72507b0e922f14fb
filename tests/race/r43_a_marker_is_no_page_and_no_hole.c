/*
 * R43. An entry holds a marker (write-protected, or poisoned). Code that knows only "page" and "nothing" loses it, counts it, follows it as a
 * page, or crashes (CVE-2022-49760 and kin). Every call that walks entries meets each marker, in each kind of memory; then the
 * memory is used.
 *
 * build: debug
 * append: hugepages=4
 * slow-cpus: 1 4 8
 * fails: race.reopen=43
 * shows: is lost|PANIC
 */
#include "uffd_race.h"

enum marker { WP_MARKER, POISONED };
enum call { NONE, PROTECT, PROTECT_NONE, FORK, REMAP, MINCORE, MLOCK, MSYNC, TRUNCATE, SPLIT, FREE, READ_BY_KERNEL, PROTECT_BY_UFFD, NR_CALLS };
static const char *const call_names[NR_CALLS] = {
	"nothing", "mprotect", "PROT_NONE", "fork", "mremap", "mincore", "mlock", "msync", "ftruncate", "a split", "MADV_FREE",
	"process_vm_readv", "WRITEPROTECT",
};

/* In a child that has the marker too, or not (shared memory without protection does not copy entries). */
static void look_in_child(struct memory *m, enum marker marker)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	MUST(pid >= 0);
	if (!pid) {
		long v = 1;
		int sig = touch((volatile long *)m->p, true, &v);

		_exit(marker == POISONED && !is_shared(m->kind) ? sig != SIGBUS : sig != 0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	if (status) {
		printf("%s: in the child the marker is lost, or in the way\n", kind_names[m->kind]);
		test_failures++;
	}
}

/* False: this call ends the marker. */
static bool do_call(struct memory *m, enum marker marker, enum call call, int fd)
{
	unsigned char vec[512];
	char buf[8];
	struct iovec to = { buf, 8 }, from = { m->p, 8 };

	switch (call) {
	case PROTECT:
		MUST(mprotect(m->p, m->len, PROT_READ) == 0 && mprotect(m->p, m->len, RW) == 0);
		return true;
	case PROTECT_NONE:
		MUST(mprotect(m->p, m->len, PROT_NONE) == 0 && mprotect(m->p, m->len, RW) == 0);
		return true;
	case REMAP: {
		char *place = empty_place(m->len, m->unit);

		MUST(mremap(m->p, m->len, m->len, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
		m->p = place;
		return false;			/* a wp marker goes with the registration; a poisoned one stays: see below */
	}
	case MINCORE:
		MUST(mincore(m->p, m->len, vec) == 0);
		return true;
	case MLOCK:
		if (marker == POISONED) {		/* under the other one, the page is missing: mlock would wait for us */
			(void)!mlock(m->p, m->unit);
			MUST(munlock(m->p, m->unit) == 0);
		}
		return true;
	case MSYNC:
		MUST(msync(m->p, m->len, MS_ASYNC) == 0);
		return true;
	case TRUNCATE:
		if (m->fd < 0 || !is_shared(m->kind))
			return true;
		MUST(ftruncate(m->fd, 0) == 0 && ftruncate(m->fd, (off_t)m->len) == 0);
		return false;
	case SPLIT:
		if (is_hugetlb(m->kind))
			return true;
		MUST(mprotect(m->p + m->unit, m->unit, PROT_READ) == 0 && mprotect(m->p + m->unit, m->unit, RW) == 0);
		return true;
	case FREE:
		if (m->kind != ANON_PRIVATE)
			return true;
		MUST(madvise(m->p, m->len, MADV_FREE) == 0);
		return false;
	case READ_BY_KERNEL:
		if (marker == POISONED)
			CHECK_ERRNO(EFAULT, process_vm_readv(getpid(), &to, 1, &from, 1, 0));
		return true;
	case PROTECT_BY_UFFD:
		MUST(uffd_writeprotect(fd, m->p, m->len, 0) == 0);
		return false;
	default:
		return true;
	}
}

static void one_cell(enum kind kind, enum marker marker, enum call call)
{
	struct memory m = make_memory(kind, is_hugetlb(kind) ? 1 : 2);
	int fd = open_uffd(UFFD_FEATURE_WP_UNPOPULATED);
	struct uffd_msg msg;

	MUST(uffd_register(fd, m.p, m.len, MISSING | WP) == 0);
	if (marker == POISONED)
		MUST(uffd_poison(fd, m.p, m.unit, 0) == (long)m.unit);
	else
		MUST(uffd_writeprotect(fd, m.p, m.unit, UFFDIO_WRITEPROTECT_MODE_WP) == 0);
	if (call == FORK)
		look_in_child(&m, marker);
	bool stays = do_call(&m, (enum marker)marker, call, fd);
	if (marker == POISONED) {
		/* Moved, poison is poison, and WRITEPROTECT does not concern it; MADV_FREE takes it away, as Linux does. */
		stays |= call == REMAP || call == PROTECT_BY_UFFD;
		if (stays && call != TRUNCATE) {
			long v;
			int sig = touch((volatile long *)m.p, false, &v);

			if (sig != SIGBUS) {
				printf("%s: after %s the poison is lost (signal %d)\n", kind_names[kind], call_names[call], sig);
				test_failures++;
			}
		}
	} else if (stays && kind != ANON_PRIVATE) {
		/* A write is told as one to protected memory, or as missing first: never goes through unseen. */
		struct helper h = { .value = 'w' };

		helper_start(&h, do_write, m.p, 1);
		for (int i = 0; i < 3 && !helper_is_done(&h, 0); i++) {
			if (!get_message(fd, &msg, 4000))
				break;
			if (msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP)
				uffd_writeprotect(fd, m.p, m.unit, 0);
			else					/* lies over the marker, which ZEROPAGE would not (F25) */
				CHECK_EQUAL((long)m.unit, uffd_copy(fd, m.p, source(0, m.unit), m.unit, 0));
			if (helper_is_done(&h, 30))
				break;
		}
		HELPER_END(&h);
		CHECK_EQUAL('w', m.p[0]);
	}
	close(fd);
	free_memory(&m);
}

static void matrix(struct racer *r)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		if (is_hugetlb(kind) && (huge_pages() < 3 || r->id))
			continue;
		for (int marker = 0; marker < 2; marker++)
			for (enum call call = 0; call < NR_CALLS; call++)
				one_cell(kind, marker, call);
	}
}

static void racing(void)
{
	struct racer once = { .id = 0 };

	matrix(&once);
}

int main(void)
{
	run_race(racing, NULL, 64);
}
