/*
 * RLIMIT_AS, RLIMIT_DATA, vm.max_map_count, overcommit: what does not fit is refused, and nothing has changed then.
 * Rules A3, A6, A20, A24.
 */
#include "mm_test.h"

#define MIB	(1ul << 20)

static long status_kb(const char *key) { return proc_number("/proc/self/status", key); }

static void address_space(void *unused)
{
	char *p = map_alone(64, RW), *other = map_alone(64, RW);
	unsigned long size = (unsigned long)status_kb("VmSize") * 1024;

	(void)unused;
	set_limit(RLIMIT_AS, size + 16 * PAGE);
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 17 * PAGE, PROT_NONE, ANON, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 17 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	char *q = (char *)sys_mmap(0, 16 * PAGE, PROT_NONE, ANON, -1, 0);
	CHECK((long)q > 0);
	CHECK_EQUAL(size / 1024 + 64, status_kb("VmSize"));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, PAGE, PROT_NONE, ANON, -1, 0));
	CHECK_EQUAL((long)q, sys_mmap(q, 16 * PAGE, RW, ANON | MAP_FIXED, -1, 0));	/* what it replaces gives room */
	CHECK_ERRNO(ENOMEM, sys_mmap(other + 32 * PAGE, 33 * PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK(is_mapped(other, 64 * PAGE));						/* A8: refused before anything went */
	CHECK_ERRNO(ENOMEM, sys_mremap(p, 64 * PAGE, 65 * PAGE, MREMAP_MAYMOVE, 0));
	CHECK(sys_munmap(q, 8 * PAGE) == 0);
	CHECK_EQUAL((long)p, sys_mremap(p, 64 * PAGE, 64 * PAGE, 0, 0));
	q = (char *)sys_mremap(p, 64 * PAGE, 72 * PAGE, MREMAP_MAYMOVE, 0);		/* counts the growth only */
	CHECK((long)q > 0);
	long brk = sys_brk(0);
	CHECK_EQUAL(brk, sys_brk(brk + 4 * PAGE));
	CHECK_EQUAL(size / 1024 + 64, status_kb("VmPeak"));
}

static void data(void *unused)
{
	char *ro = map_alone(64, PROT_READ);
	unsigned long now = (unsigned long)status_kb("VmData") * 1024;

	(void)unused;
	set_limit(RLIMIT_DATA, now + 16 * PAGE);
	CHECK(sys_mmap(0, 64 * PAGE, PROT_READ, ANON, -1, 0) > 0);			/* not data: not writable */
	CHECK(sys_mmap(0, 64 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0) > 0);	/* not data: shared */
	CHECK_ERRNO(ENOMEM, sys_mmap(0, 17 * PAGE, RW, ANON, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mprotect(ro, 17 * PAGE, RW));				/* becomes data */
	CHECK_FAULT(SIGSEGV, SEGV_ACCERR, ro, access_byte((unsigned long)ro, WRITE));
	CHECK(sys_mprotect(ro, 16 * PAGE, RW) == 0);
	CHECK_EQUAL(now / 1024 + 64, status_kb("VmData"));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, PAGE, RW, ANON, -1, 0));
	CHECK(sys_mprotect(ro, PAGE, PROT_READ) == 0);
	CHECK(sys_mmap(0, PAGE, RW, ANON, -1, 0) > 0);
}

/* A3, A6: with the count at its limit every call that needs one more is refused, the others work. */
static void map_count(void *unused)
{
	char *p = map_alone(4000, RW), *spare = map_alone(8, RW);
	long before;
	char text[32];
	int extra = 0;

	(void)unused;
	for (int i = 0; i < 8; i++)
		spare[i * PAGE] = 1;
	before = count_vmas(NULL, 1ul << 47);
	snprintf(text, sizeof(text), "%ld", before + 200);
	write_file("/proc/sys/vm/max_map_count", text);
	for (int i = 1; i < 4000 && extra < 300; i += 2) {
		if (sys_mprotect(p + (size_t)i * PAGE, PAGE, PROT_READ))
			break;
		extra += 2;
	}
	CHECK(errno == ENOMEM);
	/* Linux does not count [vsyscall], and stops when a split in two more would go past the limit. */
	CHECK(extra >= 196 && extra <= 202);
	for (int i = 0; i < 8 && sys_mmap(0, PAGE, i & 1 ? PROT_READ : PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) > 0; i++)
		;
	CHECK_ERRNO(ENOMEM, sys_mmap(0, PAGE, RW | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mprotect(spare + PAGE, PAGE, PROT_READ));
	CHECK_ERRNO(ENOMEM, sys_munmap(spare + PAGE, PAGE));			/* would make two of one */
	CHECK_ERRNO(EAGAIN, sys_madvise(spare + PAGE, PAGE, MADV_DONTFORK));	/* A24: by another name */
	CHECK_ERRNO(ENOMEM, sys_mlock(spare + PAGE, PAGE));
	CHECK_ERRNO(ENOMEM, sys_mremap(spare, PAGE, 2 * PAGE, MREMAP_MAYMOVE, 0));
	CHECK_ERRNO(ENOMEM, sys_mremap(spare, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 3900 * PAGE));
	CHECK(is_mapped(spare, 8 * PAGE));
	for (int i = 0; i < 8; i++)
		CHECK_EQUAL(1, spare[i * PAGE]);
	CHECK(sys_madvise(spare + PAGE, PAGE, MADV_DONTNEED) == 0);		/* splits nothing */
	CHECK(sys_munmap(spare + 6 * PAGE, 2 * PAGE) == 0);			/* an edge only moves */
	CHECK(sys_munmap(p, 2000 * PAGE) == 0);
	CHECK(sys_munmap(spare + PAGE, PAGE) == 0);
	write_file("/proc/sys/vm/max_map_count", "65530");
}

static void overcommit(void *unused)
{
	unsigned long all = (unsigned long)proc_number("/proc/meminfo", "MemTotal") * 1024;

	(void)unused;
	CHECK_ERRNO(ENOMEM, sys_mmap(0, all * 4, RW, ANON, -1, 0));		/* heuristic: an obvious overcommit */
	CHECK(sys_mmap(0, all * 4, PROT_READ, ANON, -1, 0) > 0);
	CHECK(sys_mmap(0, all * 4, RW, ANON | MAP_NORESERVE, -1, 0) > 0);
	write_file("/proc/sys/vm/overcommit_memory", "1");
	CHECK(sys_mmap(0, all * 4, RW, ANON, -1, 0) > 0);
	write_file("/proc/sys/vm/overcommit_memory", "2");
	CHECK_ERRNO(ENOMEM, sys_mmap(0, all, RW, ANON, -1, 0));
	CHECK_ERRNO(ENOMEM, sys_mmap(0, all, RW, ANON | MAP_NORESERVE, -1, 0));
	CHECK(sys_mmap(0, all, PROT_READ, ANON, -1, 0) > 0);
	write_file("/proc/sys/vm/overcommit_memory", "0");
}

int main(void)
{
	catch_faults();
	IN_CHILD(address_space);
	IN_CHILD(data);
	IN_CHILD(map_count);
	IN_CHILD(overcommit);
	test_end();
}
