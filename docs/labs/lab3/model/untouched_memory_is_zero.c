/* Zeros before the first write, also after others have written theirs; resident only what was written; files keep their bytes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bad;

static void expect(int condition, const char *what)
{
	if (!condition) {
		puts(what);
		bad = 1;
	}
}

static long resident_pages(void)
{
	char text[128] = "";
	int fd = open("/proc/self/statm", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	long size = 0, rss = 0;

	close(fd);
	if (n < 0 || sscanf(text, "%ld %ld", &size, &rss) != 2)
		exit(2);
	return rss;
}

int main(void)
{
	char *a = mmap(NULL, 100 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *b, *f;
	volatile char *wo;
	int fd = (int)syscall(SYS_memfd_create, "x", 0), sum = 0;
	long before;

	for (int i = 0; i < 100; i++)
		sum |= a[i * 4096];
	expect(sum == 0, "not zero at first");
	before = resident_pages();
	for (int i = 0; i < 100; i += 2)
		a[i * 4096] = 'z';
	expect(resident_pages() - before >= 50, "written pages do not count");
	b = mmap(NULL, 100 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	before = resident_pages();
	for (int i = 0; i < 100; i++)
		b[i * 4096] = 'y';
	expect(resident_pages() - before >= 100, "pages that were written first thing do not count");
	for (int i = 1; i < 100; i += 2)
		expect(a[i * 4096] == 0, "a write shows in a page that nobody wrote");

	if (ftruncate(fd, 8192) || pwrite(fd, "abcdef", 6, 4096) != 6)
		return 2;
	f = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	f[4096 + 6] = 'g';
	expect(!memcmp(f + 4096, "abcdefg", 7), "the private page is not what the file was");

	wo = mmap(NULL, 4096, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*wo = 'w';
	expect(*wo == 'w', "write-only memory");
	return bad;
}
