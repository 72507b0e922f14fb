/*
 * R37. A fault waits with its lock dropped; the mapping is unmapped, its file closed; the fault wakes and goes on with the VMA it knew
 * (CVE-2022-50630). So after the wait it returns, and does nothing else.
 *
 * build: debug
 * append: hugepages=4
 * slow-cpus: 1 4 8
 * fails: race.reopen=37
 * shows: PANIC
 */
#include "uffd_race.h"

static char *volatile target;
static volatile int ready, gone;

static void fault_there(struct racer *r)
{
	long v;

	(void)r;
	if (!ready) {
		sched_yield();
		return;
	}
	int sig = touch((volatile long *)target, false, &v);
	CHECK(sig == 0 || sig == SIGSEGV);		/* nobody fills it: it is woken when it is gone */
	ready = 0;
	gone = 1;
}

static volatile int stop_unmapping;
static void *unmap_there(void *arg)
{
	for (unsigned round = 0; !stop_unmapping; round++) {
		enum kind kind = round % 3 == 0 && huge_pages() > 0 ? HUGETLB_SHARED : round % 3 == 1 ? SHMEM_SHARED : ANON_PRIVATE;
		struct memory m = make_memory(kind, 1);
		struct uffd_msg msg;
		int fd = open_uffd(0);

		MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
		target = m.p;
		gone = 0;
		ready = 1;
		if (get_message(fd, &msg, 200)) {
			free_memory(&m);
			sched_yield();
			CHECK_EQUAL(0, uffd_wake(fd, (void *)target, kind == HUGETLB_SHARED ? HUGE : PAGE));
			wait_flag(&gone, 8000);
		} else {
			free_memory(&m);
		}
		close(fd);
		ready = 0;
	}
	return arg;
}

static void racing(void)
{
	struct racer racers[] = { { .round = fault_there } };
	pthread_t thread;

	MUST(pthread_create(&thread, NULL, unmap_there, NULL) == 0);
	race(RACE_SECONDS, racers, 1);
	stop_unmapping = 1;
	pthread_join(thread, NULL);
}

static void touch_or_die(void *arg)
{
	long v;

	CHECK_EQUAL(SIGSEGV, touch(arg, false, &v));
}

static void forced(void)
{
	struct memory m = make_memory(SHMEM_SHARED, 1);
	struct actor a;
	struct uffd_msg msg;
	int fd = open_uffd(0);

	MUST(uffd_register(fd, m.p, m.len, MISSING) == 0);
	actor_create(&a, touch_or_die, m.p);
	actor_start_and_hold(&a, "uffd_before_sleep");
	MUST(get_message(fd, &msg, 4000));
	free_memory(&m);
	sleep_ms(300);			/* a grace period passes: the VMA is freed */
	CHECK_EQUAL(0, uffd_wake(fd, m.p, PAGE));
	go();
	must_end(&a, "a fault whose mapping is gone:");
}

int main(void)
{
	run_race(racing, forced, 64);
}
