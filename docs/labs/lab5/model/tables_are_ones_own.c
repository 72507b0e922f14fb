/* What others may not do to me by way of a table that we share. */
#include "huge.h"

static int fd;
static volatile long seen;
static volatile int looking, stop;

static void look_at_page_5(void *unused)
{
	(void)unused;
	while (!stop) {
		seen = *word(SLOT(0), 5);
		looking = 1;
		__builtin_ia32_pause();
	}
}

static void forget_page_5(void)
{
	struct actor looker;

	run_on(0);
	create(&looker, 1, look_at_page_5, NULL);
	looker.ready = 1;
	while (!looking)
		pass_time();
	madvise(SLOT(0), HUGE, MADV_DONTNEED);
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5 * HUGE, HUGE);
	pass_time();
	pass_time();
	long last = seen;
	stop = 1;
	join(&looker);
	_exit(last != 0);
}

static long users_wrong(void)
{
	char text[512] = "", *found;
	int f = open("/sys/kernel/faultline/pmd_share_check", O_RDONLY);

	if (f < 0 || read(f, text, sizeof(text) - 1) <= 0 || !(found = strstr(text, "wrong")))
		die("pmd_share_check");
	close(f);
	return atol(found + 5);
}

static int status_of_child(void (*f)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		f();
	if (waitpid(pid, &status, 0) != pid)
		die("wait");
	return status;
}

static void write_to_read_only(void)
{
	long value;

	munmap(SLOT(0), GIB);
	map_slot(1, fd, PROT_READ);
	_exit(read_long(word(SLOT(1), 0), &value) || value != 1 || write_long(word(SLOT(1), 0), 9) != SIGSEGV);
}

static void leave(void)
{
	if (*word(SLOT(0), 0) != 1)
		_exit(1);
	madvise(SLOT(0), HUGE, MADV_DONTNEED);
	_exit(users_wrong() != 0);
}

int main(void)
{
	catch_faults();
	fd = huge_file(GIB);
	map_slot(0, fd, RW);
	for (long i = 0; i < 6; i++)
		*word(SLOT(0), i) = i + 1;
	if (status_of_child(write_to_read_only))
		die("read-only memory can be written");
	if (status_of_child(leave))
		die("a table does not know its users");
	if (status_of_child(forget_page_5))
		die("a page that left the file can still be read");
	return 0;
}
