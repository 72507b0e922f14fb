/*
 * Who is killed while it waits does not wait any longer, whether it was the last in the queue, in the middle, or alone; those behind it are not
 * forgotten, and the lock is as if it had never come. The others read /proc/PID/maps, which takes the lock of the process that is looked at.
 * build: debug
 * budget: 8000
 * only: faultline
 */
#include "lab1.h"

static char *place;
static volatile int mapped;

static void map_a_page(void *unused)
{
	(void)unused;
	MUST(sys_mmap(place, PAGE, RW, ANON | MAP_FIXED, -1, 0) == (long)place);
	mapped = 1;
}

struct onlooker { pid_t pid; int begin; };

/* A process that reads our maps when it is told to. fork takes the lock too, so it is made before. */
static struct onlooker make_onlooker(void)
{
	pid_t subject = getpid();
	char path[64], buf[4096];
	struct onlooker o;
	int fds[2];

	MUST(pipe(fds) == 0);
	snprintf(path, sizeof(path), "/proc/%d/maps", subject);
	fflush(stdout);
	o.pid = fork();
	MUST(o.pid >= 0);
	if (!o.pid) {
		int fd = open(path, O_RDONLY);

		close(fds[1]);
		_exit(fd < 0 || read(fds[0], buf, 1) != 1 || read(fd, buf, sizeof(buf)) <= 0);
	}
	close(fds[0]);
	o.begin = fds[1];
	return o;
}

static void onlooker_queues(struct onlooker o)
{
	MUST(write(o.begin, "x", 1) == 1);
	if (!stays(o.pid, o.pid, "D")) {
		printf("an onlooker does not sleep while it waits for the lock\n");
		test_failures++;
	}
}

static void kill_waiter(pid_t pid, const char *which)
{
	int status = 0;

	kill(pid, SIGKILL);
	for (double end = now() + 0.3; now() < end; sleep_ms(1))
		if (waitpid(pid, &status, WNOHANG) == pid) {
			CHECK(WIFSIGNALED(status));
			return;
		}
	printf("%s was killed and still waits for the lock\n", which);
	test_failures++;
}

static void can_be_taken(void)
{
	unsigned char vec;

	CHECK_EQUAL(0, sys_mincore(three_pages, PAGE, &vec));
	MUST(sys_mmap(place, PAGE, RW, ANON | MAP_FIXED, -1, 0) == (long)place);
	MUST(sys_munmap(place, PAGE) == 0);
}

static void alone(void)
{
	struct onlooker o = make_onlooker();
	struct actor holder;

	hold_writer(&holder, "go");
	onlooker_queues(o);
	if (!test_failures)
		kill_waiter(o.pid, "who waited alone");
	go();
	must_finish(&holder, "who had the lock:");
	can_be_taken();
}

/* Queue: one that is killed, a writer of ours, one that is killed. */
static void around_a_writer(void)
{
	struct onlooker first = make_onlooker(), second = make_onlooker();
	struct actor holder, writer;

	actor_create(&writer, map_a_page, NULL);
	hold_writer(&holder, "go");
	onlooker_queues(first);
	queue_up(&writer, "a writer behind a reader");
	onlooker_queues(second);
	kill_waiter(first.pid, "the first of three who wait");
	kill_waiter(second.pid, "the last who waits");
	CHECK_EQUAL(0, mapped);
	go();
	must_finish(&holder, "who had the lock:");
	must_finish(&writer, "a writer whose neighbours in the queue were killed:");
	can_be_taken();
}

/* -- a writer that is killed: a process of its own with our memory -- */

static char *fresh;

static void read_remotely(void *unused)
{
	char c;
	struct iovec local = { &c, 1 }, remote = { fresh, 1 };

	(void)unused;
	MUST(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1);
}

static void look(void *unused)
{
	unsigned char vec;

	(void)unused;
	CHECK_EQUAL(0, sys_mincore(three_pages, PAGE, &vec));
}

static volatile int writer_begins;
static int map_in_vain(void *unused)
{
	(void)unused;
	while (!writer_begins)
		race_relax();
	sys_mmap(place, PAGE, RW, ANON | MAP_FIXED, -1, 0);
	return 1;
}

/* A reader has the lock; behind it a writer, behind that a reader. Once the writer is gone there is no reason to wait. */
static void a_writer_between_readers(void)
{
	static char stack[16384] __attribute__((aligned(16)));
	struct actor holder, reader;
	pid_t writer;

	fresh = map_alone(1, RW);
	actor_create(&holder, read_remotely, NULL);
	actor_create(&reader, look, NULL);
	writer = clone(map_in_vain, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	MUST(writer > 0);
	race_command("hold gup_fault:%d until go", holder.tid);
	holder.start = 1;
	CHECK(comes_to("gup_fault", holder.tid));
	writer_begins = 1;
	CHECK(stays(writer, writer, "D"));
	queue_up(&reader, "a reader behind a writer");
	kill_waiter(writer, "a writer between readers");
	if (!wait_flag(&reader.done, 500)) {
		puts("the writer in front of it is gone, the lock is held by a reader, and a reader still waits");
		test_failures++;
	}
	go();
	must_finish(&holder, "the reader who had the lock:");
	must_finish(&reader, "a reader:");
	can_be_taken();
}

int main(void)
{
	need_windows();
	place = LONELY_PLACE;
	alone();
	if (!test_failures)
		around_a_writer();
	if (!test_failures)
		a_writer_between_readers();
	test_end();
}
