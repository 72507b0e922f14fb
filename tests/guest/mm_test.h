/*
 * For the mm_*.c programs: raw system calls (a C library rounds and checks arguments of its own), accesses that may fault, and
 * what /proc/self says about one address.
 */
#ifndef MM_TEST_H
#define MM_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "test.h"

#define PAGE			4096ul
#define TASK_SIZE		0x7ffffffff000ul
#define KERNEL_ADDRESS		0xffff800000000000ul
#define ANON			(MAP_PRIVATE | MAP_ANONYMOUS)
#define RW			(PROT_READ | PROT_WRITE)

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE		0x08
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE	0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP	4
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED	24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE	0x10
#endif

#define sys_mmap(addr, len, prot, flags, fd, off)	syscall(SYS_mmap, (long)(addr), (long)(len), (long)(prot), (long)(flags), (long)(fd), (long)(off))
#define sys_munmap(addr, len)				syscall(SYS_munmap, (long)(addr), (long)(len))
#define sys_mprotect(addr, len, prot)			syscall(SYS_mprotect, (long)(addr), (long)(len), (long)(prot))
#define sys_mremap(addr, old, new, flags, to)		syscall(SYS_mremap, (long)(addr), (long)(old), (long)(new), (long)(flags), (long)(to))
#define sys_madvise(addr, len, advice)			syscall(SYS_madvise, (long)(addr), (long)(len), (long)(advice))
#define sys_mincore(addr, len, vec)			syscall(SYS_mincore, (long)(addr), (long)(len), (long)(vec))
#define sys_msync(addr, len, flags)			syscall(SYS_msync, (long)(addr), (long)(len), (long)(flags))
#define sys_mlock(addr, len)				syscall(SYS_mlock, (long)(addr), (long)(len))
#define sys_mlock2(addr, len, flags)			syscall(SYS_mlock2, (long)(addr), (long)(len), (long)(flags))
#define sys_munlock(addr, len)				syscall(SYS_munlock, (long)(addr), (long)(len))
#define sys_mlockall(flags)				syscall(SYS_mlockall, (long)(flags))
#define sys_brk(addr)					syscall(SYS_brk, (long)(addr))
#define sys_remap_file_pages(addr, len, prot, pgoff, flags) \
	syscall(SYS_remap_file_pages, (long)(addr), (long)(len), (long)(prot), (long)(pgoff), (long)(flags))

/* -- mappings -- */

__attribute__((unused))
static char *map_pages(size_t pages, int prot, int flags)
{
	char *p = mmap(NULL, pages * PAGE, prot, flags, -1, 0);

	MUST(p != MAP_FAILED);
	return p;
}

/*
 * @pages of anonymous memory with a page of nothing before and after them, which stays free: no other mapping of this process
 * touches or merges with them.
 */
__attribute__((unused))
static char *map_alone(size_t pages, int prot)
{
	char *p = map_pages(pages + 2, PROT_NONE, ANON);

	MUST(munmap(p, (pages + 2) * PAGE) == 0);
	MUST(mmap(p + PAGE, pages * PAGE, prot, ANON | MAP_FIXED, -1, 0) == p + PAGE);
	return p + PAGE;
}

__attribute__((unused))
static int make_memfd(size_t pages, unsigned int flags)
{
	int fd = (int)syscall(SYS_memfd_create, "test", flags);

	MUST(fd >= 0 && ftruncate(fd, (off_t)(pages * PAGE)) == 0);
	return fd;
}

/* Whether all of the range is mapped; changes nothing. */
__attribute__((unused))
static bool is_mapped(const void *p, size_t len)
{
	int saved = errno;
	bool mapped = sys_msync(p, len, MS_ASYNC) == 0;

	errno = saved;
	return mapped;
}

/* Pages of the range that mincore calls resident; -1: not mapped. */
__attribute__((unused))
static int resident(const void *p, size_t pages)
{
	unsigned char vec[512];
	int n = 0;

	MUST(pages <= sizeof(vec));
	if (sys_mincore(p, pages * PAGE, vec))
		return -1;
	for (size_t i = 0; i < pages; i++)
		n += vec[i] & 1;
	return n;
}

/* -- accesses that may fault -- */

struct fault {
	int		signal, code;	/* 0: the access went through */
	unsigned long	addr;
};

static sigjmp_buf fault_jump;
static volatile struct fault fault_got;

static void on_fault(int sig, siginfo_t *si, void *context)
{
	(void)context;
	fault_got.signal = sig;
	fault_got.code = si->si_code;
	fault_got.addr = (unsigned long)si->si_addr;
	siglongjmp(fault_jump, 1);
}

__attribute__((unused))
static void catch_faults(void)
{
	static char stack[16384];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

	MUST(sigaltstack(&ss, NULL) == 0);
	MUST(sigaction(SIGSEGV, &sa, NULL) == 0 && sigaction(SIGBUS, &sa, NULL) == 0);
}

enum how { READ, WRITE, EXECUTE };

__attribute__((unused))
static struct fault access_byte(unsigned long addr, enum how how)
{
	struct fault none = { 0 };
	volatile char *p = (volatile char *)addr;

	if (sigsetjmp(fault_jump, 0))
		return fault_got;
	if (how == READ)
		(void)*p;
	else if (how == WRITE)
		*p = 'w';
	else
		((void (*)(void))addr)();
	return none;
}

#define CHECK_FAULT(sig, si, at, access)						\
	do {										\
		struct fault f_ = (access);						\
		if (f_.signal != (sig) || f_.code != (si) || f_.addr != (unsigned long)(at)) { \
			printf("%s:%d: %s: expected signal %d code %d at %lx, got signal %d code %d at %lx\n", __FILE__, __LINE__, \
			       #access, (sig), (si), (unsigned long)(at), f_.signal, f_.code, f_.addr); \
			test_failures++;						\
		}									\
	} while (0)
#define CHECK_NO_FAULT(access)	CHECK_FAULT(0, 0, 0, access)

/* -- /proc/self -- */

/*
 * A file as text, in one static buffer. Not stdio: its buffers are mappings of their own, made and merged where a test does not
 * expect them.
 */
static char *read_text(const char *path)
{
	static char text[1 << 18];
	ssize_t n, len = 0;
	int fd = open(path, O_RDONLY);

	MUST(fd >= 0);
	while ((n = read(fd, text + len, sizeof(text) - 1 - (size_t)len)) > 0)
		len += n;
	MUST(n == 0 && (size_t)len < sizeof(text) - 1);
	close(fd);
	text[len] = '\0';
	return text;
}

/* The line at *cursor, ended; NULL after the last one. */
static char *next_line(char **cursor)
{
	char *line = *cursor, *end = line ? strchr(line, '\n') : NULL;

	if (!end)
		return NULL;
	*end = '\0';
	*cursor = end + 1;
	return line;
}

struct vma_line {
	unsigned long	start, end, offset, inode;
	char		rights[5], name[256];
};

/* The line of /proc/self/maps that covers @p. */
__attribute__((unused))
static bool vma_at(const void *p, struct vma_line *v)
{
	char *text = read_text("/proc/self/maps");

	for (char *line; (line = next_line(&text)); ) {
		v->name[0] = '\0';
		if (sscanf(line, "%lx-%lx %4s %lx %*x:%*x %lu %255[^\n]", &v->start, &v->end, v->rights, &v->offset, &v->inode, v->name) >= 5 &&
		    (unsigned long)p >= v->start && (unsigned long)p < v->end)
			return true;
	}
	return false;
}

/* VMAs of which at least a part lies in the range. */
__attribute__((unused))
static int count_vmas(const void *p, size_t len)
{
	char *text = read_text("/proc/self/maps");
	unsigned long start, end;
	int n = 0;

	for (char *line; (line = next_line(&text)); )
		n += sscanf(line, "%lx-%lx", &start, &end) == 2 && end > (unsigned long)p && start < (unsigned long)p + len;
	return n;
}

/* What follows "KEY:" in the smaps entry that covers @p, or NULL. */
__attribute__((unused))
static const char *smaps_text(const void *p, const char *key)
{
	char *text = read_text("/proc/self/smaps");
	unsigned long start, end;
	bool here = false;
	size_t n = strlen(key);

	for (char *line; (line = next_line(&text)); ) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = (unsigned long)p >= start && (unsigned long)p < end;
		else if (here && strncmp(line, key, n) == 0 && line[n] == ':')
			return line + n + 1;
	}
	return NULL;
}

__attribute__((unused))
static long smaps_kb(const void *p, const char *key)
{
	const char *text = smaps_text(p, key);

	return text ? atol(text) : -1;
}

__attribute__((unused))
static bool smaps_flag(const void *p, const char *flag)
{
	const char *text = smaps_text(p, "VmFlags");
	char word[8];

	snprintf(word, sizeof(word), " %s ", flag);
	return text && strstr(text, word);
}

/* A "Key:  N" or "key N" line of any file under /proc. */
__attribute__((unused))
static long proc_number(const char *path, const char *key)
{
	char *text = read_text(path);
	size_t n = strlen(key);

	for (char *line; (line = next_line(&text)); )
		if (strncmp(line, key, n) == 0 && (line[n] == ':' || line[n] == ' '))
			return atol(line + n + 1);
	return -1;
}

__attribute__((unused))
static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	MUST(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* -- rights -- */

__attribute__((unused))
static void set_limit(int which, rlim_t value)
{
	struct rlimit r = { value, value };

	MUST(setrlimit(which, &r) == 0);
}

__attribute__((unused))
static void become_nobody(void)
{
	MUST(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
}

/* In a child: limits and users change for it alone. What it prints tells what failed. */
__attribute__((unused))
static void run_in_child(void (*fn)(void *))
{
	int failures = test_failures, status;

	test_failures = 0;
	status = in_child(fn, NULL);
	test_failures = failures;
	CHECK_EQUAL(0, status);
}
#define IN_CHILD(fn)	run_in_child(fn)

#endif
