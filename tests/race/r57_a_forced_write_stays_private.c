/*
 * R57. /proc/self/mem writes where the mapping may not, by copying the page first. If the copy is dropped again before it is used, the
 * write must begin anew, and never reach the file's own page (CVE-2016-5195, "Dirty COW").
 *
 * build: debug
 * slow-cpus: 1 4 8
 * fails: race.reopen=57
 * shows: the read-only file
 */
#include "race.h"

#define TEXT "this file is read-only"

static int file, mem;
static char *map;

static void check_file(void)
{
	char text[sizeof(TEXT)] = "";

	CHECK_EQUAL(sizeof(TEXT), pread(file, text, sizeof(text), 0));
	if (memcmp(text, TEXT, sizeof(TEXT))) {
		printf("the read-only file has become '%.*s'\n", (int)sizeof(text), text);
		test_failures++;
	}
}

static void write_by_force(struct racer *r)
{
	(void)r;
	ssize_t n = pwrite(mem, "EVIL", 4, (off_t)(uintptr_t)map);
	CHECK(n == 4);
}

static void drop(struct racer *r)
{
	(void)r;
	MUST(madvise(map, PAGE, MADV_DONTNEED) == 0);
}

/* Sees the file's text or the private copy's, for there is nothing else to see. */
static void look(struct racer *r)
{
	char c = *(volatile char *)map;

	(void)r;
	CHECK(c == 't' || c == 'E');
	check_file();
	sched_yield();
}

static void open_them(void)
{
	char name[] = "/tmp/r57.XXXXXX";
	int fd = mkstemp(name);

	MUST(fd >= 0 && write(fd, TEXT, sizeof(TEXT)) == sizeof(TEXT) && close(fd) == 0);
	file = open(name, O_RDONLY);
	mem = open("/proc/self/mem", O_RDWR);
	map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	MUST(file >= 0 && mem >= 0 && map != MAP_FAILED && unlink(name) == 0);
}

static void racing(void)
{
	struct racer racers[] = { { .round = write_by_force }, { .round = drop }, { .round = look } };

	open_them();
	race(RACE_SECONDS, racers, 3);
	check_file();
}

static void write_once(void *arg)
{
	(void)arg;
	CHECK_EQUAL(4, pwrite(mem, "EVIL", 4, (off_t)(uintptr_t)map));
}

static void forced(void)
{
	struct actor writer;

	open_them();
	actor_create(&writer, write_once, NULL);
	actor_start_and_hold(&writer, "gup_again");	/* it has its copy */
	MUST(madvise(map, PAGE, MADV_DONTNEED) == 0);	/* had */
	go();
	actor_join(&writer);
	check_file();
	CHECK_EQUAL('E', map[0]);
}

int main(void)
{
	run_race(racing, forced, 32);
}
