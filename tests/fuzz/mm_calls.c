/*
 * Calls every memory system call with random and odd arguments, and says after each what came back and what the address space
 * looks like then. The same seeds give the same calls, so the transcripts of two kernels must be the same: tests/fuzz/mm_calls.sh.
 *
 *	mm_calls FIRST LAST COUNT	one line per seed: a hash of COUNT calls
 *	mm_calls -v SEED COUNT		one line per call
 *
 * All calls aim at an arena of PAGES pages (and at what no process may touch: kernel addresses, wrapping ranges, the last
 * page). Addresses that the kernel chooses are told as "away", and such a mapping is taken away again. VMAs that differ in
 * nothing but where they were split are told as one: when they merge depends on which of them were touched.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE		4096ul
#define PAGES		48
#define ARENA		0x10000000ul
#define ARENA_END	(ARENA + PAGES * PAGE)
#define FILE_PAGES	12
#define KERNEL		0xffff888000000000ul
#define TASK_SIZE	0x7ffffffff000ul

#define PICK(array)	(array)[pick(sizeof(array) / sizeof((array)[0]))]
#define MUST(cond)	do { if (!(cond)) { printf("%d: %s (errno %d)\n", __LINE__, #cond, errno); fflush(stdout); _exit(2); } } while (0)

static uint64_t state, hash;
static bool verbose;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dull;
}

static unsigned long pick(unsigned long n) { return (unsigned long)((next() >> 20) % n); }
static bool one_in(unsigned long n) { return pick(n) == 0; }

__attribute__((format(printf, 1, 2)))
static void tell(const char *fmt, ...)
{
	char text[8192];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (int i = 0; i < n && i < (int)sizeof(text); i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ull;
	if (verbose)
		fputs(text, stdout);
}

/* -- arguments -- */

/* Inside the arena for the most part; else something no call may take. */
static unsigned long any_address(void)
{
	static const unsigned long odd[] = {
		0, 1, PAGE, 0xffff, KERNEL, KERNEL + 1, ~0ul, ~(PAGE - 1), 1ul << 63, 0x800000000000ul, TASK_SIZE, TASK_SIZE - PAGE, ARENA - PAGE, ARENA_END,
	};
	unsigned long a = ARENA + pick(PAGES) * PAGE;

	if (one_in(12))
		return PICK(odd);
	return one_in(10) ? a + 1 + pick(PAGE - 1) : a;
}

/* @addr and this stay inside the arena, or reach absurdly far beyond it, but never into what lies between. */
static unsigned long any_length(unsigned long addr)
{
	static const unsigned long odd[] = { 0, 0, ~0ul, ~(PAGE - 1), 1ul << 63, 1ul << 48, TASK_SIZE, -ARENA, -ARENA - PAGE };
	unsigned long room = addr >= ARENA && addr < ARENA_END ? ARENA_END - addr : PAGE;
	unsigned long len = (1 + pick(one_in(3) ? PAGES : 6)) * PAGE;

	if (one_in(12))
		return PICK(odd);
	if (len > room)
		len = room;
	return one_in(5) && len > PAGE ? len - pick(PAGE) : len;
}

/* A length that with @addr would pass the arena's end is only safe if the call fails or ignores what is there. */
static bool destroys_others(unsigned long addr, unsigned long len)
{
	unsigned long end = (addr & ~(PAGE - 1)) + ((len + PAGE - 1) & ~(PAGE - 1));

	return addr < TASK_SIZE && len && end > (addr & ~(PAGE - 1)) && end <= TASK_SIZE && (addr < ARENA || end > ARENA_END);
}

static int any_prot(void)
{
	/* Not PROT_EXEC alone: with protection keys that means something of its own. */
	static const int prot[] = { 0, 1, 3, 3, 3, 3, 1, 2, 5, 7, 6 };
	int p = PICK(prot);

	return one_in(25) ? p | (1 << (3 + pick(28))) : p;
}

/* -- descriptors: the same numbers on every kernel -- */

enum { FD_SHMEM, FD_READ_ONLY, FD_WRITE_ONLY, FD_SEALED, FD_FUTURE, FD_PIPE_READ, FD_PIPE_WRITE, FD_DIRECTORY, FD_ZERO, FD_CLOSED, FD_PATH, FDS };
#define FD_BASE		100

static void put_at(int fd, int slot)
{
	MUST(fd >= 0 && dup2(fd, FD_BASE + slot) >= 0);
	close(fd);
}

static void open_all(void)
{
	char path[64];
	int fd, ends[2];

	fd = (int)syscall(SYS_memfd_create, "shmem", 2);
	MUST(fd >= 0 && ftruncate(fd, FILE_PAGES * PAGE) == 0);
	put_at(fd, FD_SHMEM);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", FD_BASE + FD_SHMEM);
	put_at(open(path, O_RDONLY), FD_READ_ONLY);
	put_at(open(path, O_WRONLY), FD_WRITE_ONLY);
	fd = (int)syscall(SYS_memfd_create, "sealed", 2);
	MUST(ftruncate(fd, 4 * PAGE) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);
	put_at(fd, FD_SEALED);
	fd = (int)syscall(SYS_memfd_create, "future", 2);
	MUST(ftruncate(fd, 4 * PAGE) == 0 && fcntl(fd, F_ADD_SEALS, 0x10 | F_SEAL_GROW) == 0);
	put_at(fd, FD_FUTURE);
	MUST(pipe(ends) == 0);
	put_at(ends[0], FD_PIPE_READ);
	put_at(ends[1], FD_PIPE_WRITE);
	put_at(open("/", O_RDONLY | O_DIRECTORY), FD_DIRECTORY);
	put_at(open("/dev/zero", O_RDWR), FD_ZERO);
	put_at(open("/", O_PATH), FD_PATH);
}

static int any_fd(void)
{
	if (one_in(3))
		return FD_BASE + (int)pick(FDS);
	return FD_BASE + (one_in(4) ? FD_READ_ONLY : FD_SHMEM);
}

/* -- accesses -- */

static sigjmp_buf jump;
static volatile int got_signal, got_code;
static volatile unsigned long got_address;

static void on_signal(int sig, siginfo_t *si, void *context)
{
	(void)context;
	got_signal = sig;
	got_code = si->si_code;
	got_address = (unsigned long)si->si_addr;
	siglongjmp(jump, 1);
}

static void tell_access(unsigned long addr, bool write)
{
	tell("%s %lx: ", write ? "store" : "load", addr);
	if (sigsetjmp(jump, 0)) {
		tell("signal %d code %d at %lx", got_signal, got_code, got_address);
		return;
	}
	if (write)
		*(volatile unsigned char *)addr = (unsigned char)(1 + pick(255));
	else
		tell("%x", *(volatile unsigned char *)addr);
}

/* -- what is there -- */

static char *read_maps(void)
{
	static char text[1 << 16];
	ssize_t n, len = 0;
	int fd = open("/proc/self/maps", O_RDONLY);

	MUST(fd >= 0);
	while ((n = read(fd, text + len, sizeof(text) - 1 - (size_t)len)) > 0)
		len += n;
	MUST(n == 0);
	close(fd);
	text[len] = '\0';
	return text;
}

/* The arena's mappings; neighbours that continue each other as one. */
static void tell_maps(void)
{
	unsigned long last_start = 0, last_end = 0, last_offset = 0, start, end, offset;
	char last_rights[5] = "", rights[5], name[64], last_name[64] = "";

	for (char *line = read_maps(); line && *line; line = strchr(line, '\n') + 1) {
		name[0] = '\0';
		if (sscanf(line, "%lx-%lx %4s %lx %*x:%*x %*u%*[ ]%63[^\n]", &start, &end, rights, &offset, name) < 4 || end <= ARENA || start >= ARENA_END)
			continue;
		if (start < ARENA)
			start = ARENA;
		if (end > ARENA_END)
			end = ARENA_END;
		if (last_end == start && !strcmp(rights, last_rights) && !strcmp(name, last_name) &&
		    (!name[0] || !strcmp(name, "[heap]") || last_offset + (last_end - last_start) == offset)) {
			last_end = end;
			continue;
		}
		if (last_end)
			tell(" %lx-%lx%s@%lx%s", (last_start - ARENA) / PAGE, (last_end - ARENA) / PAGE, last_rights, last_offset, last_name);
		last_start = start;
		last_end = end;
		last_offset = offset;
		strcpy(last_rights, rights);
		strcpy(last_name, name);
	}
	if (last_end)
		tell(" %lx-%lx%s@%lx%s", (last_start - ARENA) / PAGE, (last_end - ARENA) / PAGE, last_rights, last_offset, last_name);
}

/* One byte of each page, by a call that never raises a signal: '.' for what cannot be read. */
static void tell_contents(void)
{
	char text[PAGES * 3 + 1] = "";

	for (unsigned long i = 0; i < PAGES; i++) {
		unsigned char byte = 0;
		struct iovec local = { &byte, 1 }, remote = { (void *)(ARENA + i * PAGE), 1 };
		ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

		snprintf(text + strlen(text), sizeof(text) - strlen(text), n == 1 ? "%02x" : "..", byte);
	}
	tell("\n  = %s", text);
}

static void tell_locked(void)
{
	char text[4096], *line;
	int fd = open("/proc/self/status", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	MUST(n > 0);
	close(fd);
	text[n] = '\0';
	line = strstr(text, "VmLck:");
	MUST(line != NULL);
	tell(" locked %ld kB", atol(line + 6));
}

static void tell_result(long ret)
{
	int err = errno;

	if (ret == -1)
		tell(" -> errno %d", err);
	else if ((unsigned long)ret >= ARENA && (unsigned long)ret < ARENA_END)
		tell(" -> page %lx", ((unsigned long)ret - ARENA) / PAGE);
	else if ((unsigned long)ret > 0x100000)
		tell(" -> away");
	else
		tell(" -> %ld", ret);
}

/* -- the calls -- */

static void call_mmap(void)
{
	static const int types[] = { MAP_PRIVATE, MAP_PRIVATE, MAP_SHARED, MAP_SHARED, 3, 0, 4, 8, 15 };
	static const int extra[] = { MAP_FIXED, MAP_FIXED, MAP_FIXED, MAP_FIXED, MAP_FIXED, 0x100000, 0x100000, 0 };
	static const int more[] = {
		MAP_NORESERVE, MAP_POPULATE, MAP_LOCKED, MAP_STACK, MAP_NONBLOCK, MAP_DENYWRITE, MAP_EXECUTABLE, 0x800000, 0x80000,
		MAP_POPULATE | MAP_NONBLOCK, 0x200000, MAP_32BIT,
	};
	unsigned long addr = any_address(), len = any_length(addr), off = pick(FILE_PAGES + 2) * PAGE;
	int flags = PICK(types) | PICK(extra), prot = any_prot(), fd = any_fd();
	static const unsigned long odd_offsets[] = { 1, PAGE - 1, 0x7ffffffffffff000, 0xfffffffffffff000, 1ul << 62 };

	if (one_in(3))
		flags |= PICK(more);
	if (!one_in(3)) {
		flags |= MAP_ANONYMOUS;
		if (!one_in(4))
			fd = -1;
	}
	if (one_in(20))
		off = PICK(odd_offsets);
	if ((prot & 7) == PROT_EXEC)
		prot |= PROT_READ;
	if (flags & MAP_FIXED ? destroys_others(addr, len) : !(flags & 0x100000) && len > 1ul << 40)
		return;
	if ((flags & (MAP_FIXED | 0x100000)) && addr < ARENA)
		return;		/* root may map low pages: keep them free */
	if (addr > -PAGE)
		return;		/* Linux takes such an address for an error number */
	if (fd == FD_BASE + FD_ZERO && (flags & MAP_SHARED) && !(flags & MAP_ANONYMOUS))
		return;		/* shared anonymous memory on Linux, with the offset in it */
	tell("mmap %lx %lx prot %x flags %x fd %d off %lx", addr, len, prot, flags, fd, off);
	long ret = syscall(SYS_mmap, addr, len, prot, flags, fd, off);
	bool away = ret != -1 && ((unsigned long)ret < ARENA || (unsigned long)ret >= ARENA_END);
	if (ret != -1 && !(flags & (MAP_FIXED | 0x100000)) && (unsigned long)ret != addr) {
		/* Where the kernel puts it is its own choice. */
		tell(" -> chosen");
		munmap((void *)ret, len);
		return;
	}
	tell_result(ret);
	if (away)
		munmap((void *)ret, len);
}

static void call_munmap(void)
{
	unsigned long addr = any_address(), len = any_length(addr);

	if (destroys_others(addr, len))
		return;
	tell("munmap %lx %lx", addr, len);
	tell_result(syscall(SYS_munmap, addr, len));
}

static void call_mprotect(void)
{
	unsigned long addr = any_address(), len = any_length(addr);
	int prot = any_prot();
	static const int grows[] = { PROT_GROWSDOWN, PROT_GROWSUP, PROT_GROWSDOWN | PROT_GROWSUP };

	if (one_in(30))
		prot |= PICK(grows);
	if ((prot & 7) == PROT_EXEC)
		prot |= PROT_READ;
	if (destroys_others(addr, len))
		return;
	tell("mprotect %lx %lx %x", addr, len, prot);
	tell_result(syscall(SYS_mprotect, addr, len, prot));
}


/* One page, or all of it that lies in the arena: which neighbours are of one file does not depend on what merged. */
static void call_remap_file_pages(void)
{
	static const unsigned long odd[] = { ~0ul, 1ul << 60, 0x7ffffffffffff, 1ul << 51 };
	unsigned long addr = any_address(), len = any_length(addr), pgoff = one_in(10) ? PICK(odd) : pick(FILE_PAGES + 2);
	int prot = one_in(10) ? any_prot() : 0, flags = one_in(4) ? (int)next() : one_in(2) ? MAP_NONBLOCK : 0;

	if (destroys_others(addr, len))
		return;
	tell("remap_file_pages %lx %lx %x %lx %x", addr, len, prot, pgoff, flags);
	tell_result(syscall(SYS_remap_file_pages, addr, len, prot, pgoff, flags));
}

static void call_mremap(void)
{
	static const int all_flags[] = { 0, 1, 1, 3, 3, 3, 5, 7, 7, 2, 4, 8 };
	unsigned long addr = any_address(), old_len = any_length(addr), new_len = one_in(3) ? old_len : any_length(ARENA), to = any_address();
	int flags = PICK(all_flags);

	if (one_in(15))
		old_len = 0;
	if (destroys_others(addr, old_len) || destroys_others(addr, new_len) || ((flags & 2) && (destroys_others(to, new_len) || to < ARENA)))
		return;
	if (new_len > 1ul << 40 && !(flags & 2))
		return;
	/*
	 * Which range is one VMA, and where one ends, depends on what merged. Only ranges that the kernel at hand holds in one piece
	 * could differ: those are left out unless they are one page.
	 */
	if (old_len > PAGE && new_len && addr >= ARENA && addr < ARENA_END)
		old_len = PAGE - (old_len & 1);
	tell("mremap %lx %lx %lx flags %x to %lx", addr, old_len, new_len, flags, to);
	long ret = syscall(SYS_mremap, addr, old_len, new_len, flags, to);
	if (ret != -1 && ((unsigned long)ret < ARENA || (unsigned long)ret >= ARENA_END)) {
		tell(" -> away");
		munmap((void *)ret, new_len);
		return;
	}
	if (ret != -1 && (flags & 7) == 5 && (unsigned long)ret != (to & ~(PAGE - 1))) {
		tell(" -> chosen");
		munmap((void *)ret, new_len);
		return;
	}
	tell_result(ret);
}

static void call_madvise(void)
{
	/* Not HUGEPAGE, COLLAPSE, MERGEABLE (only some kernels have them), HWPOISON. FREE is followed by a DONTNEED: lazily or not is free. */
	static const int advice[] = { 0, 1, 2, 3, 4, 4, 4, 4, 8, 9, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23, 22, 23, 24, 5, 7, 26, -1 };
	unsigned long addr = any_address(), len = any_length(addr);
	int what = PICK(advice);

	/* It goes on behind holes and kernel addresses: whatever starts below the arena's end must end there, or wrap. */
	if (destroys_others(addr, len) || (addr < TASK_SIZE && len > PAGES * PAGE && len < -addr - PAGE))
		return;
	tell("madvise %lx %lx %d", addr, len, what);
	tell_result(syscall(SYS_madvise, addr, len, what));
	if (what == 8) {
		tell(" then 4");
		tell_result(syscall(SYS_madvise, addr, len, 4));
	}
}

static void call_mincore(void)
{
	static unsigned char vec[PAGES + 8];
	unsigned long addr = any_address(), len = any_length(addr);
	static const unsigned long bad[] = { 0, 8, KERNEL, ~0ul };
	void *to = one_in(10) ? (void *)PICK(bad) : vec;

	if (to == vec && addr >= ARENA && addr < ARENA_END && len > PAGES * PAGE)
		len = ARENA_END - addr;
	memset(vec, 0, sizeof(vec));
	tell("mincore %lx %lx %s", addr, len, to == vec ? "" : "to a bad place");
	long ret = syscall(SYS_mincore, addr, len, to);
	tell_result(ret);
	if (ret == 0 && to == vec)
		for (unsigned long i = 0; i < (len + PAGE - 1) / PAGE && i < PAGES; i++)
			tell("%d", vec[i] & 1);
}

static void call_msync(void)
{
	static const int all_flags[] = { 0, 1, 2, 4, 3, 5, 6, 7, 8, -1 };
	unsigned long addr = any_address(), len = any_length(addr);
	int flags = PICK(all_flags);

	tell("msync %lx %lx %x", addr, len, flags);
	tell_result(syscall(SYS_msync, addr, len, flags));
}

static void call_mlock(void)
{
	unsigned long addr = any_address(), len = any_length(addr);
	static const int all_flags[] = { 0, 1, 1, 2, -1 };
	int which = (int)pick(4), flags = PICK(all_flags);

	if (which < 2) {
		if (destroys_others(addr, len))
			return;
		tell("mlock2 %lx %lx %x", addr, len, flags);
		tell_result(syscall(SYS_mlock2, addr, len, flags));
	} else {
		if (destroys_others(addr, len))
			return;
		tell("munlock %lx %lx", addr, len);
		tell_result(syscall(SYS_munlock, addr, len));
	}
}

static void call_process_vm(void)
{
	static unsigned char buf[4 * PAGE];
	unsigned long addr = any_address(), len = any_length(addr);
	static const unsigned long fd_counts[] = { 1, 1, 1, 1, 0, 1025, ~0ul };
	bool write = one_in(2);
	unsigned long flags = one_in(15), count = PICK(fd_counts);
	struct iovec local = { buf, len < sizeof(buf) ? len : one_in(2) ? sizeof(buf) : len }, remote = { (void *)addr, len };

	if (local.iov_len > sizeof(buf) && (ssize_t)local.iov_len >= 0)
		local.iov_len = sizeof(buf);
	memset(buf, (int)pick(256), sizeof(buf));
	tell("process_vm_%s %lx %lx count %lx flags %lx", write ? "writev" : "readv", addr, len, count, flags);
	tell_result(syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, (long)getpid(), &local, count, &remote, 1ul, flags));
}

static void call_read_write(void)
{
	unsigned long addr = any_address(), len = any_length(addr);
	bool write = one_in(2);

	if (len > PAGES * PAGE && len < 1ul << 63)
		len = PAGES * PAGE;
	if (destroys_others(addr, len))
		return;
	/* The device of zeros fills it, or takes it without looking: so it is the file that is written to. */
	tell("%s %lx %lx", write ? "write" : "read", addr, len);
	if (write)
		tell_result(pwrite(FD_BASE + FD_SHMEM, (void *)addr, len > 4 * PAGE && len < 1ul << 62 ? 4 * PAGE : len, (off_t)(pick(8) * PAGE)));
	else
		tell_result(read(FD_BASE + FD_ZERO, (void *)addr, len));
}

/* Whether a mapping that may be written to but not read lies in the range. */
static bool is_write_only(unsigned long addr, unsigned long len)
{
	unsigned long start, end;
	char rights[5];

	for (char *line = read_maps(); line && *line; line = strchr(line, '\n') + 1)
		if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && start < addr + len && end > addr && rights[0] == '-' && rights[1] == 'w')
			return true;
	return false;
}

static void call_vmsplice(void)
{
	unsigned long addr = any_address(), len = any_length(addr);
	struct iovec v = { (void *)addr, len > 3 * PAGE && len < 1ul << 62 ? 3 * PAGE : len };
	unsigned int flags = one_in(10) ? (unsigned int)pick(64) : 0;
	static char buf[1 << 16];
	int fd = one_in(8) ? any_fd() : FD_BASE + FD_PIPE_WRITE;

	if (fd == FD_BASE + FD_PIPE_READ)
		return;
	if (is_write_only(addr, v.iov_len))
		return;		/* Linux reads such a page if it is present, and refuses if it would have to fault */
	tell("vmsplice %d %lx %lx flags %x", fd, addr, v.iov_len, flags | 2);
	long ret = syscall(SYS_vmsplice, fd, &v, 1ul, flags | 2);
	tell_result(ret);
	for (long n; ret > 0; ret -= n) {
		n = read(FD_BASE + FD_PIPE_READ, buf, sizeof(buf));
		MUST(n > 0);
		tell(" %02x%02x", (unsigned char)buf[0], (unsigned char)buf[n - 1]);
	}
}

static void call_file(void)
{
	static const int modes[] = { 0, 1, 3, 3, 3, 2, 0x40, 0x10 };
	static const int files[] = { FD_SHMEM, FD_SHMEM, FD_SHMEM, FD_SEALED, FD_FUTURE, FD_READ_ONLY, FD_PIPE_READ, FD_DIRECTORY };
	int fd = FD_BASE + PICK(files), mode = PICK(modes);
	long off = (long)(pick(FILE_PAGES) * PAGE + (one_in(3) ? pick(PAGE) : 0)), len = (long)((1 + pick(4)) * PAGE - (one_in(3) ? pick(PAGE) : 0));

	if (one_in(20))
		off = -1;
	if (one_in(20))
		len = one_in(2) ? 0 : -1;
	if (one_in(2)) {
		tell("ftruncate %d %lx", fd, off);
		tell_result(ftruncate(fd, off));
	} else {
		tell("fallocate %d mode %x %lx %lx", fd, mode, off, len);
		tell_result(fallocate(fd, mode, off, len));
	}
}

static void call_access(void)
{
	unsigned long addr = any_address();

	if (addr >= ARENA_END && addr < TASK_SIZE)
		addr = ARENA;
	if (addr < ARENA && addr > 0x10000)
		addr = ARENA;
	tell_access(addr, one_in(2));
}

/* A child looks at the same arena, writes to it, and is gone. */
static void call_fork(void)
{
	int status;
	pid_t pid;

	tell("fork");
	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		hash = 1;
		verbose = false;
		tell_maps();
		tell_contents();
		for (unsigned long i = 0; i < PAGES; i += 3)
			tell_access(ARENA + i * PAGE, i & 1);
		tell_contents();
		_exit((int)(hash & 0xff));
	}
	MUST(waitpid(pid, &status, 0) == pid);
	tell(" -> child saw %x", status);
}

static void (*const calls[])(void) = {
	call_mmap, call_mmap, call_mmap, call_mmap, call_mmap, call_mmap, call_munmap, call_munmap, call_mprotect, call_mprotect, call_mprotect,
	call_mremap, call_mremap, call_mremap, call_remap_file_pages, call_remap_file_pages, call_madvise, call_madvise, call_madvise, call_mincore, call_msync, call_mlock,
	call_process_vm, call_read_write, call_vmsplice, call_file, call_file, call_access, call_access, call_access, call_access, call_fork,
};

static void run(unsigned long seed, unsigned long count)
{
	hash = 0xcbf29ce484222325ull;
	state = seed * 0x9e3779b97f4a7c15ull + 1;
	for (int i = 0; i < 8; i++)
		next();
	munmap((void *)ARENA, PAGES * PAGE);
	for (int i = 0; i < FDS; i++)
		close(FD_BASE + i);
	open_all();
	for (unsigned long i = 0; i < count; i++) {
		void (*call)(void) = one_in(12) && i % 7 ? call_fork : calls[pick(sizeof(calls) / sizeof(calls[0]))];

		if (call == call_fork && !one_in(6))
			call = call_access;
		tell("%lu ", i);
		call();
		tell("\n ");
		tell_maps();
		if (i % 4 == 3)
			tell_contents();
		if (i % 16 == 15)
			tell_locked();
		tell("\n");
	}
	if (!verbose)
		printf("seed %lu: %016lx\n", seed, (unsigned long)hash);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static char stack[16384], out[1 << 16];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

	setvbuf(stdout, out, _IOFBF, sizeof(out));
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	MUST(sigaltstack(&ss, NULL) == 0 && sigaction(SIGSEGV, &sa, NULL) == 0 && sigaction(SIGBUS, &sa, NULL) == 0);
	if (argc == 4 && strcmp(argv[1], "-v") == 0) {
		verbose = true;
		run(strtoul(argv[2], NULL, 0), strtoul(argv[3], NULL, 0));
		return 0;
	}
	if (argc != 4) {
		fprintf(stderr, "usage: mm_calls FIRST LAST COUNT | -v SEED COUNT\n");
		return 2;
	}
	for (unsigned long seed = strtoul(argv[1], NULL, 0); seed <= strtoul(argv[2], NULL, 0); seed++)
		run(seed, strtoul(argv[3], NULL, 0));
	return 0;
}
