/*
 * Page tables of what was unmapped may stay for a while, but no more than one of each level; and those that stay must
 * not be lost when tables around them go, in whichever order that happens.
 *
 * build: debug
 * cpus: 1 2
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	4096ul
#define MIB	(1ul << 20)
#define GIB	(1ul << 30)
#define BASE	0x100000000000ul	/* nothing is near */

static void die(const char *what, long n)
{
	printf("%s (%ld)\n", what, n);
	exit(1);
}

/* kB of page tables, as /proc/self/status tells. */
static long page_tables(void)
{
	char line[256];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "r");

	if (!f)
		die("no /proc/self/status", 0);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmPTE: %ld", &kb);
	fclose(f);
	return kb;
}

static void map(uintptr_t addr, size_t len)
{
	if (mmap((void *)addr, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != (void *)addr)
		die("mmap", (long)addr);
	for (uintptr_t a = addr; a < addr + len; a += 2 * MIB)
		*(volatile char *)a = 1;
}

static void unmap(uintptr_t addr, size_t len)
{
	if (munmap((void *)addr, len))
		die("munmap", (long)addr);
}

static void expect_few(long before, const char *when)
{
	long more = page_tables() - before;

	if (more > 12)
		die(when, more);
}

/* Every pair of places, in the same table or in different ones, unmapped in both orders. */
static void pairs(long before)
{
	static const uintptr_t at[] = { 0, PAGE, 4 * MIB, GIB, 3 * GIB + 2 * MIB, 512 * GIB, 1024 * GIB + 511 * GIB };

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		for (size_t j = 0; j < sizeof(at) / sizeof(at[0]); j++) {
			if (i == j)
				continue;
			map(BASE + at[i], PAGE);
			map(BASE + at[j], PAGE);
			unmap(BASE + at[i], PAGE);
			map(BASE + at[i], PAGE);	/* in the table that was left */
			unmap(BASE + at[j], PAGE);
			unmap(BASE + at[i], PAGE);
			expect_few(before, "tables pile up after a pair");
		}
}

/* What is left lies before, in, at the edge of and after a large range that goes. */
static void large(long before)
{
	static const uintptr_t small[] = { 2 * MIB, 8 * MIB - PAGE, 8 * MIB, 9 * MIB, 12 * MIB, 24 * MIB - PAGE, 24 * MIB, 26 * MIB };

	for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++) {
		map(BASE + small[i], PAGE);
		unmap(BASE + small[i], PAGE);
		map(BASE + 8 * MIB, 16 * MIB);
		unmap(BASE + 8 * MIB, 16 * MIB);
		expect_few(before, "tables pile up beside a large range");
	}
}

int main(void)
{
	long before;

	map(BASE + 100 * GIB, PAGE);
	unmap(BASE + 100 * GIB, PAGE);
	before = page_tables();
	for (uintptr_t i = 0; i < 256; i++) {
		map(BASE + i * 4 * GIB, PAGE);
		unmap(BASE + i * 4 * GIB, PAGE);
	}
	expect_few(before, "tables pile up");
	pairs(before);
	large(before);

	/* A process may end with some left, and so may its child. */
	map(BASE, PAGE);
	unmap(BASE, PAGE);
	pid_t pid = fork();
	if (pid == 0) {
		map(BASE + GIB, PAGE);
		unmap(BASE + GIB, PAGE);
		_exit(0);
	}
	int status;
	if (waitpid(pid, &status, 0) != pid || status)
		die("child", status);
	return 0;
}
