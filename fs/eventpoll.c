/*
 * epoll(7). An item ties one (file, fd) to one epoll. The file's wake-ups put the item on the ready list; epoll_wait
 * takes items off it and asks each file again, so the list may hold false alarms but never misses an event: an item is
 * unlinked before its file is polled, and a wake-up after the poll links it again.
 *
 * An item holds no reference on its file. Three rules keep that sound:
 *   - the file's last put calls eventpoll_release(), which takes the items away before the file goes;
 *   - file->epoll_links changes only under epoll_global;
 *   - an item leaves epoll_links last, after its wait entries, so "links empty" means "no wait entry left".
 */
#include "fs/eventpoll.h"

#include "kernel/errno.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define EPOLL_CTL_ADD	1
#define EPOLL_CTL_DEL	2
#define EPOLL_CTL_MOD	3
#define EPOLLEXCLUSIVE	(1u << 28)
#define EPOLLWAKEUP	(1u << 29)
#define EPOLLONESHOT	(1u << 30)
#define EPOLLET		(1u << 31)
#define EP_PRIVATE_BITS	(EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE)
#define EP_MAX_NESTS	4
#define EP_MAX_EVENTS	(INT32_MAX / 12)

struct epoll_event {			/* user ABI, packed on x86-64 */
	u32 events;
	u64 data;
} __packed;

struct epwait {				/* one wait queue that an item watches */
	struct wait_entry wait;
	struct wait_queue *wq;
	struct epitem	*item;
	struct epwait	*next;
};

/*
 *   M  ep->mtx    G  epoll_global    R  ep->ready_lock    I  constant
 */
struct epitem {
	struct eventpoll *ep;		/* I */
	struct file	*file;		/* I  not counted, see above */
	int		 fd;		/* I */
	struct epoll_event event;	/* M to write; the events word is read by wake-ups */
	struct epitem	*hash_next;	/* M */
	struct list_head file_link;	/* G */
	struct list_head ready_link;	/* R  empty: not ready */
	struct epwait	*waits;		/* M */
	bool		 no_memory;	/* M  a wait entry could not be had */
};

#define EP_HASH_MIN 32u

struct eventpoll {
	struct mutex	  mtx;		/* LOCK_EPOLL */
	struct epitem	**hash;		/* M */
	unsigned int	  nr_buckets;	/* M  power of two */
	unsigned int	  nr_items;	/* M */
	struct spinlock	  ready_lock;	/* LOCK_EPOLL_READY */
	struct list_head  ready;	/* R */
	struct wait_queue wait;		/* epoll_wait sleeps here */
	struct wait_queue poll_wait;	/* polls of the epoll file itself */
};

static struct mutex epoll_global = MUTEX_INIT(epoll_global, LOCK_EPOLL);
static const struct file_ops eventpoll_fops;

/* -- readiness -- */

/* As __wake_up, but callable under the lock of another wait queue (the source's): inner epoll before outer. */
static void wake_queue_nested(struct wait_queue *wq, u32 key)
{
	struct wait_entry *e, *tmp;
	unsigned long flags = spin_lock_irqsave_nested(&wq->lock);

	list_for_each_entry_safe(e, tmp, &wq->entries, node)
		if (e->func(e, TASK_NORMAL, key) && e->exclusive)
			break;
	spin_unlock_irqrestore(&wq->lock, flags);
}

/* Puts @item on the ready list. True if it was not there. */
static bool make_ready(struct epitem *item)
{
	struct eventpoll *ep = item->ep;
	unsigned long flags = spin_lock_irqsave(&ep->ready_lock);
	bool fresh = list_empty(&item->ready_link);

	if (fresh)
		list_add_tail(&item->ready_link, &ep->ready);
	spin_unlock_irqrestore(&ep->ready_lock, flags);
	return fresh;
}

static void wake_waiters(struct eventpoll *ep)
{
	if (wait_queue_active(&ep->wait))
		wake_queue_nested(&ep->wait, 0);
	if (wait_queue_active(&ep->poll_wait))
		wake_queue_nested(&ep->poll_wait, POLLIN | POLLRDNORM);
}

/* The source's wait queue lock is held, interrupts are off. */
static bool item_wake(struct wait_entry *entry, unsigned int mode, u32 key)
{
	struct epitem *item = container_of(entry, struct epwait, wait)->item;
	u32 events = READ_ONCE(item->event.events);

	(void)mode;
	if (!(events & ~EP_PRIVATE_BITS))
		return false;		/* disarmed by ONESHOT */
	if (key && !(key & (events | POLLERR | POLLHUP)))
		return false;
	make_ready(item);
	wake_waiters(item->ep);
	return true;
}

struct ep_poll_table { struct poll_table pt; struct epitem *item; };

static void item_queue(struct poll_table *pt, struct file *f, struct wait_queue *wq)
{
	struct epitem *item = container_of(pt, struct ep_poll_table, pt)->item;
	struct epwait *w = kmalloc(sizeof(*w), GFP_KERNEL);

	(void)f;
	if (!w) {
		item->no_memory = true;
		return;
	}
	wait_entry_init(&w->wait);
	w->wait.func = item_wake;
	w->wait.exclusive = item->event.events & EPOLLEXCLUSIVE;
	w->wq = wq;
	w->item = item;
	w->next = item->waits;
	item->waits = w;
	add_wait_queue(wq, &w->wait);
}

static u32 item_poll(struct epitem *item, struct poll_table *pt)
{
	struct file *f = item->file;
	u32 bits = f->ops->poll ? f->ops->poll(f, pt) : POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;

	return bits & (item->event.events | POLLERR | POLLHUP) & ~EP_PRIVATE_BITS;
}

/* -- items -- */

static struct epitem **bucket_of(struct eventpoll *ep, int fd)
{
	return &ep->hash[(unsigned int)fd & (ep->nr_buckets - 1)];
}

static struct epitem *item_find(struct eventpoll *ep, const struct file *f, int fd)
{
	for (struct epitem *i = *bucket_of(ep, fd); i; i = i->hash_next)
		if (i->file == f && i->fd == fd)
			return i;
	return NULL;
}

/* Best effort: a table that cannot grow only gets slower. */
static void hash_grow(struct eventpoll *ep)
{
	unsigned int old_n = ep->nr_buckets;
	struct epitem **old = ep->hash;
	struct epitem **fresh = kcalloc(old_n * 4, sizeof(*fresh), GFP_KERNEL);

	if (!fresh)
		return;
	ep->hash = fresh;
	ep->nr_buckets = old_n * 4;
	for (unsigned int b = 0; b < old_n; b++) {
		while (old[b]) {
			struct epitem *i = old[b];
			struct epitem **to = bucket_of(ep, i->fd);

			old[b] = i->hash_next;
			i->hash_next = *to;
			*to = i;
		}
	}
	kfree(old);
}

/* Takes @item out of everything and frees it. epoll_global and ep->mtx held. */
static void item_remove(struct epitem *item)
{
	struct eventpoll *ep = item->ep;

	while (item->waits) {
		struct epwait *w = item->waits;

		item->waits = w->next;
		remove_wait_queue(w->wq, &w->wait);
		kfree(w);
	}
	struct epitem **p = bucket_of(ep, item->fd);
	while (*p && *p != item)
		p = &(*p)->hash_next;
	if (*p) {
		*p = item->hash_next;
		ep->nr_items--;
	}
	unsigned long flags = spin_lock_irqsave(&ep->ready_lock);
	list_del_init(&item->ready_link);
	spin_unlock_irqrestore(&ep->ready_lock, flags);
	list_del_init(&item->file_link);	/* last: see the top of the file */
	kfree(item);
}

static int item_insert(struct eventpoll *ep, struct file *f, int fd, const struct epoll_event *ev)
{
	struct epitem *item = kzalloc(sizeof(*item), GFP_KERNEL);

	if (!item)
		return -ENOMEM;
	item->ep = ep;
	item->file = f;
	item->fd = fd;
	item->event = *ev;
	INIT_LIST_HEAD(&item->ready_link);
	list_add_tail(&item->file_link, &f->epoll_links);
	if (ep->nr_items >= 2 * ep->nr_buckets)
		hash_grow(ep);
	item->hash_next = *bucket_of(ep, fd);
	*bucket_of(ep, fd) = item;
	ep->nr_items++;

	struct ep_poll_table ept = { .pt.queue = item_queue, .item = item };
	u32 bits = item_poll(item, &ept.pt);

	if (item->no_memory) {
		item_remove(item);
		return -ENOMEM;
	}
	if (bits && make_ready(item))
		wake_waiters(ep);
	return 0;
}

static void item_modify(struct epitem *item, const struct epoll_event *ev)
{
	WRITE_ONCE(item->event.events, ev->events);
	item->event.data = ev->data;
	/* The new mask is visible to wakers before the files are asked (partner: item_wake reads it under the queue lock). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (item_poll(item, NULL) && make_ready(item))
		wake_waiters(item->ep);
}

void eventpoll_release_file(struct file *f)
{
	mutex_lock(&epoll_global);
	while (!list_empty(&f->epoll_links)) {
		struct epitem *item = list_first_entry(&f->epoll_links, struct epitem, file_link);
		struct eventpoll *ep = item->ep;

		mutex_lock_nested(&ep->mtx);
		item_remove(item);
		mutex_unlock(&ep->mtx);
	}
	mutex_unlock(&epoll_global);
}

/* -- nesting: an epoll may watch epolls, not itself, and not too deep -- */

static bool reaches(struct eventpoll *from, struct eventpoll *target, int depth)
{
	if (from == target || depth > EP_MAX_NESTS)
		return true;
	for (unsigned int b = 0; b < from->nr_buckets; b++)
		for (struct epitem *i = from->hash[b]; i; i = i->hash_next)
			if (i->file->ops == &eventpoll_fops && reaches(i->file->private, target, depth + 1))
				return true;
	return false;
}

/* -- system calls -- */

static void eventpoll_release_self(struct file *f)
{
	struct eventpoll *ep = f->private;

	mutex_lock(&epoll_global);
	mutex_lock_nested(&ep->mtx);
	for (unsigned int b = 0; b < ep->nr_buckets; b++)
		while (ep->hash[b])
			item_remove(ep->hash[b]);
	mutex_unlock(&ep->mtx);
	mutex_unlock(&epoll_global);
	kfree(ep->hash);
	kfree(ep);
}

static u32 eventpoll_poll(struct file *f, struct poll_table *pt)
{
	struct eventpoll *ep = f->private;
	u32 bits = 0;

	poll_wait(f, &ep->poll_wait, pt);
	/* A false alarm on the list would make us look readable for ever: ask the files of the listed items. */
	unsigned long flags = spin_lock_irqsave(&ep->ready_lock);
	bool listed = !list_empty(&ep->ready);
	spin_unlock_irqrestore(&ep->ready_lock, flags);
	if (!listed)
		return 0;
	mutex_lock_nested(&ep->mtx);
	for (unsigned int b = 0; b < ep->nr_buckets && !bits; b++)
		for (struct epitem *i = ep->hash[b]; i && !bits; i = i->hash_next)
			if (!list_empty(&i->ready_link) && item_poll(i, NULL))
				bits = POLLIN | POLLRDNORM;
	mutex_unlock(&ep->mtx);
	return bits;
}

static const struct file_ops eventpoll_fops = {
	.poll = eventpoll_poll,
	.release = eventpoll_release_self,
};

SYSCALL_DEFINE(epoll_create1, int flags)
{
	if (flags & ~O_CLOEXEC)
		return -EINVAL;
	struct eventpoll *ep = kzalloc(sizeof(*ep), GFP_KERNEL);

	if (!ep)
		return -ENOMEM;
	ep->nr_buckets = EP_HASH_MIN;
	ep->hash = kcalloc(ep->nr_buckets, sizeof(*ep->hash), GFP_KERNEL);
	if (!ep->hash) {
		kfree(ep);
		return -ENOMEM;
	}
	mutex_init(&ep->mtx, LOCK_EPOLL);
	spin_lock_init(&ep->ready_lock, LOCK_EPOLL_READY);
	INIT_LIST_HEAD(&ep->ready);
	wait_queue_init(&ep->wait);
	wait_queue_init(&ep->poll_wait);

	int fd = anon_fd_create("[eventpoll]", &eventpoll_fops, ep, O_RDWR | flags);
	if (fd < 0) {
		kfree(ep->hash);
		kfree(ep);
	}
	return fd;
}

SYSCALL_DEFINE(epoll_create, int size)
{
	return size <= 0 ? -EINVAL : sys_epoll_create1(0);
}

/* epoll_global and ep->mtx held. */
static int do_ctl(struct eventpoll *ep, int op, struct file *target, int fd, struct epoll_event *ev)
{
	struct epitem *item = item_find(ep, target, fd);

	switch (op) {
	case EPOLL_CTL_ADD:
		if (item)
			return -EEXIST;
		if (target->ops == &eventpoll_fops && reaches(target->private, ep, 0))
			return -ELOOP;
		return item_insert(ep, target, fd, ev);
	case EPOLL_CTL_MOD:
		if (!item)
			return -ENOENT;
		if (item->event.events & EPOLLEXCLUSIVE)
			return -EINVAL;
		item_modify(item, ev);
		return 0;
	case EPOLL_CTL_DEL:
		if (!item)
			return -ENOENT;
		item_remove(item);
		return 0;
	}
	return -EINVAL;
}

SYSCALL_DEFINE(epoll_ctl, int epfd, int op, int fd, const struct epoll_event __user *uev)
{
	struct epoll_event ev = { 0, 0 };
	int ret = -EBADF;

	if (op != EPOLL_CTL_DEL && copy_in(&ev, uev, sizeof(ev)))
		return -EFAULT;
	struct file *epf = fd_get(epfd);
	if (!epf)
		return -EBADF;
	struct file *target = fd_get(fd);
	if (!target)
		goto put_ep;
	ret = -EPERM;
	if (!target->ops->poll)		/* regular files and directories are always ready: Linux refuses them */
		goto put_target;
	ret = -EINVAL;
	if (epf->ops != &eventpoll_fops || target == epf)
		goto put_target;
	if (ev.events & EPOLLEXCLUSIVE &&
	    (op == EPOLL_CTL_MOD || target->ops == &eventpoll_fops || (ev.events & EPOLLONESHOT)))
		goto put_target;

	struct eventpoll *ep = epf->private;
	mutex_lock(&epoll_global);
	mutex_lock_nested(&ep->mtx);
	ret = do_ctl(ep, op, target, fd, &ev);
	mutex_unlock(&ep->mtx);
	mutex_unlock(&epoll_global);
put_target:
	file_put(target);
put_ep:
	file_put(epf);
	return ret;
}

static struct epitem *next_ready(struct eventpoll *ep, struct list_head *todo)
{
	unsigned long flags = spin_lock_irqsave(&ep->ready_lock);
	struct epitem *item = list_first_entry_or_null(todo, struct epitem, ready_link);

	if (item)
		list_del_init(&item->ready_link);
	spin_unlock_irqrestore(&ep->ready_lock, flags);
	return item;
}

/* Copies what is ready. Events delivered, or -EFAULT if the first could not be. */
static int send_events(struct eventpoll *ep, struct epoll_event __user *uevents, int max)
{
	LIST_HEAD(todo);
	int n = 0;

	mutex_lock(&ep->mtx);
	unsigned long flags = spin_lock_irqsave(&ep->ready_lock);
	list_splice_init(&ep->ready, &todo);
	spin_unlock_irqrestore(&ep->ready_lock, flags);

	while (n < max) {
		struct epitem *item = next_ready(ep, &todo);

		if (!item)
			break;
		u32 bits = item_poll(item, NULL);
		if (!bits)
			continue;
		struct epoll_event out = { bits, item->event.data };
		if (copy_out(&uevents[n], &out, sizeof(out))) {
			make_ready(item);
			if (!n)
				n = -EFAULT;
			break;
		}
		n++;
		if (item->event.events & EPOLLONESHOT)
			WRITE_ONCE(item->event.events, item->event.events & EP_PRIVATE_BITS);
		else if (!(item->event.events & EPOLLET))
			make_ready(item);	/* level triggered: it stays until a look finds nothing */
	}
	flags = spin_lock_irqsave(&ep->ready_lock);
	list_splice_init(&todo, &ep->ready);
	spin_unlock_irqrestore(&ep->ready_lock, flags);
	mutex_unlock(&ep->mtx);
	return n;
}

static bool something_ready(struct eventpoll *ep)
{
	return !list_empty(&ep->ready);
}

/* deadline: ktime ns, 0 = do not wait, ~0 = for ever. */
static int ep_wait(int epfd, struct epoll_event __user *uevents, int max, u64 deadline)
{
	if (max <= 0 || max > EP_MAX_EVENTS)
		return -EINVAL;
	if (!access_ok(uevents, (size_t)max * sizeof(*uevents)))
		return -EFAULT;
	struct file *f = fd_get(epfd);
	if (!f)
		return -EBADF;
	int ret = -EINVAL;
	if (f->ops != &eventpoll_fops)
		goto put;
	struct eventpoll *ep = f->private;

	for (;;) {
		ret = something_ready(ep) ? send_events(ep, uevents, max) : 0;
		if (ret || deadline == 0)
			break;
		if (deadline == ~0ul) {
			ret = wait_event_interruptible_exclusive(&ep->wait, something_ready(ep));
		} else {
			u64 now = ktime_get_ns();

			if (now >= deadline)
				break;
			ret = wait_event_interruptible_timeout(&ep->wait, something_ready(ep), deadline - now);
			if (ret == -ETIMEDOUT) {
				deadline = 0;
				ret = 0;
			}
		}
		if (ret) {
			ret = -EINTR;
			break;
		}
	}
put:
	file_put(f);
	return ret;
}

static u64 ms_deadline(int timeout_ms)
{
	if (timeout_ms < 0)
		return ~0ul;
	return timeout_ms ? ktime_get_ns() + (u64)timeout_ms * NSEC_PER_MSEC : 0;
}

SYSCALL_DEFINE(epoll_wait, int epfd, struct epoll_event __user *uevents, int max, int timeout_ms)
{
	return ep_wait(epfd, uevents, max, ms_deadline(timeout_ms));
}

SYSCALL_DEFINE(epoll_pwait, int epfd, struct epoll_event __user *uevents, int max, int timeout_ms,
	       const sigset_t __user *umask, size_t size)
{
	int ret = set_user_sigmask(umask, size);

	if (ret)
		return ret;
	ret = ep_wait(epfd, uevents, max, ms_deadline(timeout_ms));
	restore_saved_sigmask_unless(ret == -EINTR);
	return ret;
}

SYSCALL_DEFINE(epoll_pwait2, int epfd, struct epoll_event __user *uevents, int max, const struct timespec64 __user *uts,
	       const sigset_t __user *umask, size_t size)
{
	u64 deadline = ~0ul;

	if (uts) {
		struct timespec64 ts;

		if (copy_in(&ts, uts, sizeof(ts)))
			return -EFAULT;
		if (!timespec_valid(&ts))
			return -EINVAL;
		u64 ns = timespec_to_ns(&ts);
		deadline = ns ? ktime_get_ns() + ns : 0;
	}
	int ret = set_user_sigmask(umask, size);

	if (ret)
		return ret;
	ret = ep_wait(epfd, uevents, max, deadline);
	restore_saved_sigmask_unless(ret == -EINTR);
	return ret;
}
