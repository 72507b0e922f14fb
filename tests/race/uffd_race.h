/*
 * For the races of userfaultfd (R26 to R44): managers that run as long as somebody may wait for them, which is longer than the
 * race itself.
 */
#ifndef UFFD_RACE_H
#define UFFD_RACE_H

#include "race.h"
#include "../guest/uffd_test.h"

struct manager {
	int		 fd;
	void		(*serve)(struct manager *m, const struct uffd_msg *msg);
	void		*arg;
	pthread_t	 thread;
	volatile int	 stop;
	volatile long	 served;
};

static void *manager_main(void *arg)
{
	struct manager *m = arg;
	struct uffd_msg msg;

	while (!m->stop) {
		if (!get_message(m->fd, &msg, 20))
			continue;
		m->serve(m, &msg);
		m->served++;
	}
	return NULL;
}

__attribute__((unused))
static void manager_start(struct manager *m, int fd, void (*serve)(struct manager *, const struct uffd_msg *))
{
	m->fd = fd;
	m->serve = serve;
	m->stop = 0;
	m->served = 0;
	MUST(pthread_create(&m->thread, NULL, manager_main, m) == 0);
}

__attribute__((unused))
static void manager_stop(struct manager *m)
{
	m->stop = 1;
	pthread_join(m->thread, NULL);
}

/* The page of a message, filled with zeros; whoever else missed it is woken. */
__attribute__((unused))
static void serve_zeros(struct manager *m, const struct uffd_msg *msg)
{
	char *at = (char *)(uintptr_t)(msg->arg.pagefault.address & -PAGE);

	if (msg->event == UFFD_EVENT_PAGEFAULT && uffd_zeropage(m->fd, at, PAGE, 0) == -EEXIST)
		uffd_wake(m->fd, at, PAGE);
}

/* An access that must come to its end although nobody tells it anything more. */
__attribute__((unused))
static void must_end(struct actor *a, const char *who)
{
	a->start = 1;
	if (!wait_flag(&a->done, 4000))
		hang(who, a->tid);
	pthread_join(a->thread, NULL);
}

__attribute__((unused))
static void read_a_byte(void *arg)
{
	(void)*(volatile char *)arg;
}

#endif
