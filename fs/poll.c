/*
 * poll(2), ppoll(2), select(2), pselect6(2): queue on everything once, then test and sleep until something holds.
 * A waiter that any wake-up touched looks at all files again; the entries stay queued in between, so nothing is lost.
 */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

struct poll_entry {
	struct wait_entry	 wait;
	struct wait_queue	*wq;
	struct file		*file;		/* counted: keeps the queue alive */
	struct poll_waiter	*waiter;
};

struct poll_page {
	struct poll_page	*next;
	unsigned int		 nr;
	struct poll_entry	 entries[];
};
#define POLL_PAGE_ENTRIES	((PAGE_SIZE - sizeof(struct poll_page)) / sizeof(struct poll_entry))
#define POLL_INLINE		6

/* One poll call: the table handed to ->poll, and where its queue entries live. */
struct poll_waiter {
	struct poll_table	 table;
	struct task		*task;
	bool			 triggered;	/* set by wakers, cleared before the files are tested again */
	bool			 no_memory;
	unsigned int		 nr_inline;
	struct poll_entry	 inline_entries[POLL_INLINE];
	struct poll_page	*pages;
};

static bool poll_wake(struct wait_entry *entry, unsigned int mode, u32 key)
{
	struct poll_waiter *w = container_of(entry, struct poll_entry, wait)->waiter;

	(void)key;
	WRITE_ONCE(w->triggered, true);
	return wake_up_state(w->task, mode);
}

static struct poll_entry *new_entry(struct poll_waiter *w)
{
	if (w->nr_inline < POLL_INLINE)
		return &w->inline_entries[w->nr_inline++];
	if (!w->pages || w->pages->nr == POLL_PAGE_ENTRIES) {
		struct poll_page *page = kmalloc(PAGE_SIZE, GFP_KERNEL);

		if (!page)
			return NULL;
		page->next = w->pages;
		page->nr = 0;
		w->pages = page;
	}
	return &w->pages->entries[w->pages->nr++];
}

static void poll_queue(struct poll_table *pt, struct file *f, struct wait_queue *wq)
{
	struct poll_waiter *w = container_of(pt, struct poll_waiter, table);
	struct poll_entry *e = new_entry(w);

	if (!e) {
		w->no_memory = true;
		return;
	}
	file_get(f);
	wait_entry_init(&e->wait);
	e->wait.func = poll_wake;
	e->wq = wq;
	e->file = f;
	e->waiter = w;
	add_wait_queue(wq, &e->wait);
}

static void poll_waiter_init(struct poll_waiter *w)
{
	w->table.queue = poll_queue;
	w->task = current;
	w->triggered = false;
	w->no_memory = false;
	w->nr_inline = 0;
	w->pages = NULL;
}

static void drop_entry(struct poll_entry *e)
{
	remove_wait_queue(e->wq, &e->wait);
	file_put(e->file);
}

static void poll_waiter_free(struct poll_waiter *w)
{
	for (unsigned int i = 0; i < w->nr_inline; i++)
		drop_entry(&w->inline_entries[i]);
	while (w->pages) {
		struct poll_page *page = w->pages;

		for (unsigned int i = 0; i < page->nr; i++)
			drop_entry(&page->entries[i]);
		w->pages = page->next;
		kfree(page);
	}
}

static u32 file_poll(struct file *f, struct poll_table *pt)
{
	if (!f->ops->poll)
		return POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
	return f->ops->poll(f, pt);
}

#define NO_DEADLINE	(~0ul)

/* Sleeps until a queue wakes us, the deadline, or a signal. 1 = look again, 0 = time is up, -ERESTARTNOHAND. */
static int poll_sleep(struct poll_waiter *w, u64 deadline)
{
	bool in_time = true;

	set_current_state(TASK_INTERRUPTIBLE);
	if (!READ_ONCE(w->triggered)) {
		if (signal_pending()) {
			set_current_state(TASK_RUNNING);
			return -ERESTARTNOHAND;
		}
		if (deadline == NO_DEADLINE)
			schedule();
		else
			in_time = schedule_until(deadline);
	}
	set_current_state(TASK_RUNNING);
	/* Cleared with a full barrier before the files are looked at: a wake-up after this sets it again. */
	(void)__atomic_exchange_n(&w->triggered, false, __ATOMIC_SEQ_CST);
	return in_time;
}

/* -- poll -- */

struct pollfd { int fd; s16 events, revents; };

static u32 poll_one(struct pollfd *p, struct poll_table *pt)
{
	if (p->fd < 0)
		return 0;
	struct file *f = fd_get(p->fd);

	if (!f)
		return POLLNVAL;
	u32 bits = file_poll(f, pt) & ((u16)p->events | POLLERR | POLLHUP);

	file_put(f);
	return bits;
}

/*
 * The loop of both calls: look, and unless something holds or the time is up, sleep and look again. @look gets the table
 * to queue with on the first round, NULL later, and returns what it found or -errno. Same result; 0 at the deadline.
 */
static int poll_loop(int (*look)(void *arg, struct poll_table *pt), void *arg, u64 deadline)
{
	struct poll_waiter w;
	struct poll_table *pt = &w.table;
	int ret;

	poll_waiter_init(&w);
	for (;;) {
		ret = look(arg, pt);
		pt = NULL;
		if (ret == 0 && w.no_memory)
			ret = -ENOMEM;
		if (ret || deadline == 0)
			break;
		ret = poll_sleep(&w, deadline);
		if (ret < 0)
			break;
		if (ret == 0)
			deadline = 0;	/* one last look */
	}
	poll_waiter_free(&w);
	return ret;
}

struct poll_set { struct pollfd *fds; unsigned int nfds; };

/* Fills in revents; the number of descriptors that have some. Once one has, there is no need to queue further. */
static int look_at_pollfds(void *arg, struct poll_table *pt)
{
	struct poll_set *set = arg;
	int ready = 0;

	for (unsigned int i = 0; i < set->nfds; i++) {
		set->fds[i].revents = (s16)poll_one(&set->fds[i], ready ? NULL : pt);
		ready += set->fds[i].revents != 0;
	}
	return ready;
}

static int do_poll(struct pollfd *fds, unsigned int nfds, u64 deadline)
{
	struct poll_set set = { fds, nfds };

	return poll_loop(look_at_pollfds, &set, deadline);
}

static u64 deadline_from_ns(u64 ns)
{
	if (ns == 0)
		return 0;
	u64 now = ktime_get_ns();

	return ns > NO_DEADLINE - 1 - now ? NO_DEADLINE - 1 : now + ns;
}

static int copy_revents(struct pollfd __user *ufds, const struct pollfd *fds, unsigned int nfds)
{
	for (unsigned int i = 0; i < nfds; i++)
		if (put_user(fds[i].revents, &ufds[i].revents))
			return -EFAULT;
	return 0;
}

static int poll_user(struct pollfd __user *ufds, unsigned int nfds, u64 deadline)
{
	struct pollfd fast[16], *fds = fast;
	int ret = -EFAULT;

	if (nfds > rlimit_cur(RLIMIT_NOFILE))
		return -EINVAL;
	if (nfds > ARRAY_SIZE(fast)) {
		fds = kvmalloc(nfds * sizeof(*fds), GFP_KERNEL);
		if (!fds)
			return -ENOMEM;
	}
	if (!copy_in(fds, ufds, nfds * sizeof(*fds))) {
		ret = do_poll(fds, nfds, deadline);
		if (ret >= 0 && copy_revents(ufds, fds, nfds))
			ret = -EFAULT;
	}
	if (fds != fast)
		kvfree(fds);
	return ret;
}

static long poll_restart(struct restart_block *r)
{
	int ret = poll_user(r->poll.ufds, r->poll.nfds, r->poll.has_timeout ? r->poll.expires : NO_DEADLINE);

	return ret == -ERESTARTNOHAND ? -ERESTART_RESTARTBLOCK : ret;
}

SYSCALL_DEFINE(poll, struct pollfd __user *ufds, unsigned int nfds, int timeout_ms)
{
	u64 deadline = timeout_ms < 0 ? NO_DEADLINE : deadline_from_ns((u64)timeout_ms * NSEC_PER_MSEC);
	int ret = poll_user(ufds, nfds, deadline);

	if (ret == -ERESTARTNOHAND) {
		struct restart_block *r = &current->restart;

		r->fn = poll_restart;
		r->poll.ufds = ufds;
		r->poll.nfds = nfds;
		r->poll.has_timeout = deadline != NO_DEADLINE;
		r->poll.expires = deadline;
		return -ERESTART_RESTARTBLOCK;
	}
	return ret;
}

/* A relative timespec from user space to a deadline; NULL is for ever. 0, -EFAULT, -EINVAL. */
static int user_timeout(const struct timespec64 __user *uts, u64 *deadline)
{
	struct timespec64 ts;

	*deadline = NO_DEADLINE;
	if (!uts)
		return 0;
	if (copy_in(&ts, uts, sizeof(ts)))
		return -EFAULT;
	if (!timespec_valid(&ts))
		return -EINVAL;
	*deadline = deadline_from_ns(timespec_to_ns(&ts));
	return 0;
}

/* Writes back what is left of the time, as Linux does; a failure to write is not reported. */
static void write_remaining(struct timespec64 __user *uts, u64 deadline)
{
	if (!uts || deadline == NO_DEADLINE)
		return;
	u64 now = ktime_get_ns();
	struct timespec64 left = ns_to_timespec(deadline > now ? deadline - now : 0);

	if (copy_out(uts, &left, sizeof(left)))
		return;
}

SYSCALL_DEFINE(ppoll, struct pollfd __user *ufds, unsigned int nfds, struct timespec64 __user *uts,
	       const sigset_t __user *sigmask, size_t sigsetsize)
{
	u64 deadline;
	int ret = user_timeout(uts, &deadline);

	if (ret)
		return ret;
	ret = set_user_sigmask(sigmask, sigsetsize);
	if (ret)
		return ret;
	ret = poll_user(ufds, nfds, deadline);
	restore_saved_sigmask_unless(ret == -ERESTARTNOHAND);
	write_remaining(uts, deadline);
	return ret;
}

/* -- select -- */

#define SELECT_IN	(POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define SELECT_OUT	(POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR)
#define SELECT_EX	POLLPRI

struct select_sets {
	int n;						/* descriptors below this one */
	unsigned long *in, *out, *ex;			/* asked for */
	unsigned long *res_in, *res_out, *res_ex;	/* found */
};

static bool set_has(const unsigned long *set, int fd) { return set[fd / 64] >> (fd % 64) & 1; }

/* One descriptor: number of result bits set, or -EBADF. */
static int select_one(struct select_sets *s, int fd, struct poll_table *pt)
{
	bool in = set_has(s->in, fd), out = set_has(s->out, fd), ex = set_has(s->ex, fd);
	unsigned long bit = 1ul << (fd % 64);
	int found = 0;

	if (!in && !out && !ex)
		return 0;
	struct file *f = fd_get(fd);

	if (!f)
		return -EBADF;
	u32 bits = file_poll(f, pt);

	file_put(f);
	if (in && (bits & SELECT_IN)) {
		s->res_in[fd / 64] |= bit;
		found++;
	}
	if (out && (bits & SELECT_OUT)) {
		s->res_out[fd / 64] |= bit;
		found++;
	}
	if (ex && (bits & SELECT_EX)) {
		s->res_ex[fd / 64] |= bit;
		found++;
	}
	return found;
}

static int look_at_sets(void *arg, struct poll_table *pt)
{
	struct select_sets *s = arg;
	int ready = 0;

	for (int fd = 0; fd < s->n; fd++) {
		int found = select_one(s, fd, ready ? NULL : pt);

		if (found < 0)
			return found;
		ready += found;
	}
	return ready;
}

static int get_set(unsigned long *set, const void __user *uset, size_t bytes)
{
	if (!uset) {
		memset(set, 0, bytes);
		return 0;
	}
	return copy_in(set, uset, bytes);
}

static int put_set(void __user *uset, const unsigned long *set, size_t bytes)
{
	return uset ? copy_out(uset, set, bytes) : 0;
}

static int select_user(int n, void __user *uin, void __user *uout, void __user *uex, u64 deadline)
{
	if (n < 0)
		return -EINVAL;
	n = (int)min((u64)n, rlimit_cur(RLIMIT_NOFILE));

	size_t words = DIV_ROUND_UP((size_t)n, 64);
	size_t bytes = words * sizeof(unsigned long);
	unsigned long *bits = kvmalloc(max(6 * bytes, 8ul), GFP_KERNEL);
	int ret;

	if (!bits)
		return -ENOMEM;
	struct select_sets s = {
		.n = n, .in = bits, .out = bits + words, .ex = bits + 2 * words,
		.res_in = bits + 3 * words, .res_out = bits + 4 * words, .res_ex = bits + 5 * words,
	};
	memset(s.res_in, 0, 3 * bytes);
	ret = get_set(s.in, uin, bytes);
	ret = ret ? ret : get_set(s.out, uout, bytes);
	ret = ret ? ret : get_set(s.ex, uex, bytes);
	if (!ret)
		ret = poll_loop(look_at_sets, &s, deadline);
	if (ret >= 0 && (put_set(uin, s.res_in, bytes) || put_set(uout, s.res_out, bytes) || put_set(uex, s.res_ex, bytes)))
		ret = -EFAULT;
	kvfree(bits);
	return ret;
}

SYSCALL_DEFINE(select, int n, void __user *uin, void __user *uout, void __user *uex, struct timeval64 __user *utv)
{
	u64 deadline = NO_DEADLINE;
	struct timeval64 tv;

	if (utv) {
		if (copy_in(&tv, utv, sizeof(tv)))
			return -EFAULT;
		if (tv.tv_sec < 0 || tv.tv_usec < 0)
			return -EINVAL;
		struct timespec64 ts = { tv.tv_sec + tv.tv_usec / 1000000, (tv.tv_usec % 1000000) * 1000 };
		deadline = deadline_from_ns(timespec_to_ns(&ts));
	}
	int ret = select_user(n, uin, uout, uex, deadline);

	if (utv && deadline != NO_DEADLINE) {
		u64 now = ktime_get_ns();
		u64 left = deadline > now ? deadline - now : 0;

		tv = (struct timeval64){ (s64)(left / NSEC_PER_SEC), (s64)(left % NSEC_PER_SEC / NSEC_PER_USEC) };
		if (copy_out(utv, &tv, sizeof(tv)))
			return ret;
	}
	return ret;
}

SYSCALL_DEFINE(pselect6, int n, void __user *uin, void __user *uout, void __user *uex, struct timespec64 __user *uts,
	       const void __user *usig)
{
	struct { const sigset_t __user *mask; size_t size; } sig = { NULL, 0 };
	u64 deadline;
	int ret = user_timeout(uts, &deadline);

	if (ret)
		return ret;
	if (usig && copy_in(&sig, usig, sizeof(sig)))
		return -EFAULT;
	ret = set_user_sigmask(sig.mask, sig.size);
	if (ret)
		return ret;
	ret = select_user(n, uin, uout, uex, deadline);
	restore_saved_sigmask_unless(ret == -ERESTARTNOHAND);
	write_remaining(uts, deadline);
	return ret;
}
