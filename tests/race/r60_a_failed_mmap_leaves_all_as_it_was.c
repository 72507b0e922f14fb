/*
 * R60. mmap over several mappings that fails late, when the new one is half built: each step is undone once. The old mappings are there as
 * before, at every moment, and the file has exactly the references that it had (CVE-2024-53096).
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=60
 * shows: PANIC|hang
 */
#include "race.h"

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

#define FILE_PAGES 64

static char *area;		/* three mappings of one page; the middle one is sealed, so nothing can be mapped over it */
static int fd;

static void fail_to_map(struct racer *r)
{
	int shared = r->rounds & 1;

	CHECK_ERRNO(EPERM, sys_mmap(area, 3 * PAGE, RW, (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED, fd, 0));
	CHECK_ERRNO(EPERM, sys_mmap(area, 3 * PAGE, RW, ANON | MAP_FIXED, -1, 0));
	CHECK_ERRNO(EPERM, sys_munmap(area, 3 * PAGE));
}

static void look(struct racer *r)
{
	for (long i = 0, v; i < 3; i++) {
		v = 0;
		CHECK_EQUAL(0, touch((volatile long *)(area + i * (long)PAGE), false, &v));
		CHECK_EQUAL(i + 1, v);
	}
	(void)r;
}

/* The file is in use beside all that, and goes when its last user does. */
static void use_file(struct racer *r)
{
	char *p = mmap(NULL, PAGE, RW, MAP_SHARED, fd, (off_t)(rnd(FILE_PAGES) * PAGE));

	(void)r;
	MUST(p != MAP_FAILED);
	p[0] = 1;
	MUST(munmap(p, PAGE) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = fail_to_map }, { .round = look }, { .round = use_file } };

	fd = make_memfd(FILE_PAGES, 0);
	area = map_pages(3, PROT_NONE, ANON);
	for (long i = 0; i < 3; i++) {
		/* Of different kinds, so that they do not merge. */
		MUST(mmap(area + i * (long)PAGE, PAGE, RW | (i == 1 ? PROT_EXEC : 0), ANON | MAP_FIXED, -1, 0) != MAP_FAILED);
		*(long *)(area + i * (long)PAGE) = i + 1;
	}
	if (syscall(SYS_mseal, area + PAGE, PAGE, 0))
		return;				/* an older Linux */
	race(RACE_SECONDS, racers, 3);
	CHECK_EQUAL(3, count_vmas(area, 3 * PAGE));
	close(fd);
}

/* -- forced: each allocation of such a call fails, one after the other -- */

static void forced(void)
{
	int fail = open("/sys/kernel/faultline/alloc_fail", O_RDWR), n;
	char *p = map_alone(5, RW), text[16];
	void *got = MAP_FAILED;

	fd = make_memfd(FILE_PAGES, 0);
	MUST(fail >= 0);
	for (long i = 0; i < 5; i++)
		*(long *)(p + i * (long)PAGE) = i + 1;
	for (n = 1; got == MAP_FAILED; n++) {
		int len = snprintf(text, sizeof(text), "%d", n);

		MUST(n < 50);
		while (pwrite(fail, text, (size_t)len, 0) != len)
			;
		/* Inside one mapping: it has to be split, late. */
		got = (void *)sys_mmap(p + PAGE, 3 * PAGE, RW, MAP_SHARED | MAP_FIXED, fd, 0);
		while (pwrite(fail, "0", 1, 0) != 1)
			;
		for (long i = 0; i < 5 && got == MAP_FAILED; i++)
			CHECK_EQUAL(i + 1, *(long *)(p + i * (long)PAGE));
	}
	CHECK_EQUAL(0, *(long *)(p + PAGE));
	close(fail);
	close(fd);
}

int main(void)
{
	run_race(racing, forced, 32);
}
