/*
 * For the tests of the pager: this program's memory, an image of it, and the pager as a process of its own, which knows nothing of us but what it is
 * started with.
 */
#ifndef LAB6_PAGER_H
#define LAB6_PAGER_H

#include "tests/labs/lab_test.h"
#include "tests/guest/uffd_test.h"

#define IMAGE	"/tmp/image"
#define PAGER	"/t/pager"

static char *area;
static size_t area_pages;
static int pager_fd, pager_in, pager_out;
static pid_t pager_pid;

/* What the image says at byte @at. */
static char image_byte(size_t at)
{
	return (char)(at * 7 + at / PAGE * 31 + 1);
}

/* The image ends in the middle of the last page but one. */
static size_t image_size(void)
{
	return (area_pages - 2) * PAGE + PAGE / 2;
}

static char expected(size_t at)
{
	return at < image_size() ? image_byte(at) : 0;
}

static void make_image(void)
{
	int fd = open(IMAGE, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	char page[PAGE];

	MUST(fd >= 0);
	for (size_t at = 0; at < image_size(); at += PAGE) {
		for (size_t i = 0; i < PAGE; i++)
			page[i] = image_byte(at + i);
		size_t n = image_size() - at < PAGE ? image_size() - at : PAGE;
		MUST(write(fd, page, n) == (ssize_t)n);
	}
	close(fd);
}

__attribute__((unused))
static void pager_start(size_t pages)
{
	int in[2], out[2];
	char number[16], base[32], count[16];

	area_pages = pages;
	area = map_alone(pages, RW);
	make_image();
	pager_fd = uffd_open(O_NONBLOCK, UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP);
	MUST(pager_fd >= 0 && uffd_register(pager_fd, area, pages * PAGE, MISSING | WP) == 0);
	MUST(pipe(in) == 0 && pipe(out) == 0);
	snprintf(number, sizeof(number), "%d", pager_fd);
	snprintf(base, sizeof(base), "%lx", (unsigned long)(uintptr_t)area);
	snprintf(count, sizeof(count), "%zu", pages);
	fflush(stdout);
	pager_pid = fork();
	MUST(pager_pid >= 0);
	if (!pager_pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execl(PAGER, PAGER, number, IMAGE, base, count, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	pager_in = in[1];
	pager_out = out[0];
}

/* Asks the pager to end, and what it calls dirty: one bit a page. */
__attribute__((unused))
static void pager_end(char *dirty)
{
	static char text[4096];
	size_t got = 0;
	ssize_t n;
	int status;
	char *p;

	close(pager_in);
	while (got < sizeof(text) - 1 && (n = read(pager_out, text + got, sizeof(text) - 1 - got)) > 0)
		got += (size_t)n;
	text[got] = '\0';
	close(pager_out);
	MUST(waitpid(pager_pid, &status, 0) == pager_pid);
	CHECK_EQUAL(0, status);
	close(pager_fd);
	memset(dirty, 0, area_pages);
	p = strstr(text, "dirty");
	if (!p) {
		printf("the pager says '%s', and not which pages are dirty\n", text);
		test_failures++;
		return;
	}
	for (p += 5; ; ) {
		char *end;
		unsigned long page = strtoul(p, &end, 10);

		if (end == p)
			break;
		p = end;
		if (page < area_pages)
			dirty[page] = 1;
		else
			CHECK(!"a page that is none of ours is dirty");
	}
}

__attribute__((unused))
static void check_dirty(const char *dirty, size_t page, bool want)
{
	if (dirty[page] != want) {
		printf("page %zu is %s, and the pager says the contrary\n", page, want ? "dirty" : "as the image says, or gone");
		test_failures++;
	}
}

/* A page as the image has it; @other: with that byte at offset 3. */
__attribute__((unused))
static void check_page(size_t page, const char *other)
{
	for (size_t i = 0; i < PAGE; i++) {
		char want = other && i == 3 ? *other : expected(page * PAGE + i);

		if (area[page * PAGE + i] != want) {
			printf("page %zu, byte %zu: expected %d, got %d\n", page, i, want, area[page * PAGE + i]);
			test_failures++;
			return;
		}
	}
}

__attribute__((unused))
static bool page_is_zero(size_t page)
{
	for (size_t i = 0; i < PAGE; i++)
		if (area[page * PAGE + i])
			return false;
	return true;
}

#endif
