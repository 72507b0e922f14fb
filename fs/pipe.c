/*
 * Pipes: a ring of page slots under one mutex. Readers and writers copy with the mutex held (user copies may fault and
 * sleep), and wait without it. Wake-ups go out only on the edges empty -> not empty and full -> not full, after the
 * mutex is dropped, so the woken side does not run into it.
 */
#include "fs/pipe.h"

#include "fs/tty_ioctl.h"
#include "kernel/errno.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/frame.h"
#include "mm/gup.h"
#include "mm/rmap.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

static u32 pipe_used(const struct pipe *p) { return p->head - p->tail; }
static bool pipe_empty(const struct pipe *p) { return READ_ONCE(p->head) == READ_ONCE(p->tail); }
static bool pipe_full(const struct pipe *p) { return pipe_used(p) >= READ_ONCE(p->nr_slots); }
static struct pipe_slot *slot_at(struct pipe *p, u32 i) { return &p->slots[i & (p->nr_slots - 1)]; }

static struct pipe *pipe_alloc(void)
{
	struct pipe *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return NULL;
	p->slots = kcalloc(PIPE_DEF_PAGES, sizeof(*p->slots), GFP_KERNEL);
	if (!p->slots) {
		kfree(p);
		return NULL;
	}
	p->nr_slots = PIPE_DEF_PAGES;
	mutex_init(&p->lock, LOCK_PIPE);
	wait_queue_init(&p->rd_wait);
	wait_queue_init(&p->wr_wait);
	refcount_set(&p->refs, 1);
	return p;
}

static void drop_contents(struct pipe *p)
{
	for (; p->tail != p->head; p->tail++)
		put_page(page_head(slot_at(p, p->tail)->page));
	if (p->spare)
		put_page(p->spare);
	p->spare = NULL;
}

static void pipe_free(struct pipe *p)
{
	drop_contents(p);
	kfree(p->slots);
	kfree(p);
}

/* The inode names its pipe while a file has it open, so the last put and the unnaming are one step. */
static void pipe_put(struct pipe *p, struct inode *inode)
{
	spin_lock(&inode->meta_lock);
	bool last = refcount_dec_and_test(&p->refs);

	if (last)
		inode->private = NULL;
	spin_unlock(&inode->meta_lock);
	if (last)
		pipe_free(p);
}

/* The page of a used-up slot: kept as the spare if it is ours alone. */
static void retire_slot(struct pipe *p, struct pipe_slot *s)
{
	if (!s->shared && !p->spare)
		p->spare = s->page;
	else
		put_page(page_head(s->page));
	s->page = NULL;
	p->tail++;
}

/* Copies what is there; bytes or -EFAULT when the very first byte failed. Lock held. */
static ssize_t pipe_copy_out(struct pipe *p, struct iov_iter *to)
{
	size_t done = 0;

	while (to->count && !pipe_empty(p)) {
		struct pipe_slot *s = slot_at(p, p->tail);
		size_t n = min((size_t)s->len, to->count);
		size_t copied = copy_to_iter((char *)page_to_virt(s->page) + s->offset, n, to);

		s->offset += (u32)copied;
		s->len -= (u32)copied;
		done += copied;
		if (!s->len)
			retire_slot(p, s);
		if (copied < n)
			return done ? (ssize_t)done : -EFAULT;
	}
	return (ssize_t)done;
}

static ssize_t pipe_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct pipe *p = f->private;
	ssize_t ret;

	(void)pos;
	if (!to->count)
		return 0;
	for (;;) {
		mutex_lock(&p->lock);
		bool was_full = pipe_full(p);
		bool no_writers = p->writers == 0;

		ret = pipe_copy_out(p, to);
		bool more = !pipe_empty(p);
		bool room = was_full && !pipe_full(p);
		mutex_unlock(&p->lock);

		if (room)
			wake_up_sync_poll(&p->wr_wait, POLLOUT | POLLWRNORM);
		if (more && wait_queue_active(&p->rd_wait))
			wake_up_sync_poll(&p->rd_wait, POLLIN | POLLRDNORM);	/* an exclusive wake-up may have ended with us */
		if (ret || no_writers)
			return ret;
		if (READ_ONCE(f->flags) & O_NONBLOCK)
			return -EAGAIN;
		ret = wait_event_interruptible_exclusive(&p->rd_wait, !pipe_empty(p) || !READ_ONCE(p->writers));
		if (ret)
			return ret;
	}
}

/* Adds to the last slot if the bytes all fit there: small writes share a page. Lock held. Bytes taken. */
static size_t append_to_last(struct pipe *p, struct iov_iter *from)
{
	struct pipe_slot *s;

	if (pipe_empty(p))
		return 0;
	s = slot_at(p, p->head - 1);
	u32 end = s->offset + s->len;
	size_t part = from->count & (PAGE_SIZE - 1);	/* what is left over after whole pages */

	if (s->shared || !part || part > PAGE_SIZE - end)
		return 0;
	size_t copied = copy_from_iter((char *)page_to_virt(s->page) + end, part, from);

	s->len += (u32)copied;
	return copied;
}

/*
 * Writes what fits. An atomic request (at most PIPE_BUF) is one slot or nothing. Lock held.
 * Returns bytes, 0 if there is no room, -EFAULT or -ENOMEM if nothing was written.
 */
static ssize_t pipe_copy_in(struct pipe *p, struct iov_iter *from)
{
	size_t done = append_to_last(p, from);

	while (from->count && !pipe_full(p)) {
		struct page *page = p->spare ? p->spare : alloc_page(GFP_KERNEL);
		size_t n = min(from->count, PAGE_SIZE);

		if (!page)
			return done ? (ssize_t)done : -ENOMEM;
		p->spare = NULL;
		size_t copied = copy_from_iter(page_to_virt(page), n, from);
		if (!copied) {
			p->spare = page;
			return done ? (ssize_t)done : -EFAULT;
		}
		*slot_at(p, p->head) = (struct pipe_slot){ .page = page, .len = (u32)copied };
		p->head++;
		done += copied;
		if (copied < n)
			break;
	}
	return (ssize_t)done;
}

static ssize_t broken_pipe(void)
{
	send_signal_task(current, SIGPIPE, NULL);
	return -EPIPE;
}

static ssize_t pipe_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	struct pipe *p = f->private;
	size_t done = 0;

	(void)pos;
	if (!from->count)
		return 0;
	for (;;) {
		mutex_lock(&p->lock);
		if (!p->readers) {
			mutex_unlock(&p->lock);
			return done ? (ssize_t)done : broken_pipe();
		}
		bool was_empty = pipe_empty(p);
		size_t wanted = from->count;
		ssize_t n = pipe_copy_in(p, from);
		bool room = !pipe_full(p);
		mutex_unlock(&p->lock);

		if (n > 0) {
			done += (size_t)n;
			if (was_empty || READ_ONCE(p->polled))
				wake_up_sync_poll(&p->rd_wait, POLLIN | POLLRDNORM);
		}
		if (!from->count || n < 0 || (n > 0 && (size_t)n < wanted && room)) {	/* done, failed, or a fault on the way */
			if (room && wait_queue_active(&p->wr_wait))
				wake_up_sync_poll(&p->wr_wait, POLLOUT | POLLWRNORM);
			return done ? (ssize_t)done : n;
		}
		if (READ_ONCE(f->flags) & O_NONBLOCK)
			return done ? (ssize_t)done : -EAGAIN;
		int ret = wait_event_interruptible_exclusive(&p->wr_wait, !pipe_full(p) || !READ_ONCE(p->readers));
		if (ret)
			return done ? (ssize_t)done : ret;
	}
}

static u32 pipe_poll(struct file *f, struct poll_table *pt)
{
	struct pipe *p = f->private;
	u32 bits = 0;

	if (pt && !READ_ONCE(p->polled))
		WRITE_ONCE(p->polled, true);
	if (f->mode & FMODE_READ) {
		poll_wait(f, &p->rd_wait, pt);
		if (!pipe_empty(p))
			bits |= POLLIN | POLLRDNORM;
		if (!READ_ONCE(p->writers))
			bits |= POLLHUP;
	}
	if (f->mode & FMODE_WRITE) {
		poll_wait(f, &p->wr_wait, pt);
		if (!pipe_full(p))
			bits |= POLLOUT | POLLWRNORM;
		if (!READ_ONCE(p->readers))
			bits |= POLLERR;
	}
	return bits;
}

static long pipe_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	struct pipe *p = f->private;

	if (cmd != FIONREAD)
		return -ENOTTY;
	int bytes = 0;

	mutex_lock(&p->lock);
	for (u32 i = p->tail; i != p->head; i++)
		bytes += (int)slot_at(p, i)->len;
	mutex_unlock(&p->lock);
	return put_user(bytes, (int __user *)arg);
}

static void pipe_release(struct file *f)
{
	struct pipe *p = f->private;

	mutex_lock(&p->lock);
	if (f->mode & FMODE_READ)
		p->readers--;
	if (f->mode & FMODE_WRITE)
		p->writers--;
	if (!p->readers && !p->writers)
		drop_contents(p);	/* of a FIFO: the next pair starts empty */
	mutex_unlock(&p->lock);
	__wake_up(&p->rd_wait, TASK_NORMAL, 0, POLLIN | POLLHUP);
	__wake_up(&p->wr_wait, TASK_NORMAL, 0, POLLOUT | POLLERR);
	pipe_put(p, f->inode);
}

const struct file_ops pipe_read_fops = {
	.read = pipe_read, .poll = pipe_poll, .ioctl = pipe_ioctl, .release = pipe_release,
};
const struct file_ops pipe_write_fops = {
	.write = pipe_write, .poll = pipe_poll, .ioctl = pipe_ioctl, .release = pipe_release,
};
static const struct file_ops fifo_rw_fops = {
	.read = pipe_read, .write = pipe_write, .poll = pipe_poll, .ioctl = pipe_ioctl, .release = pipe_release,
};

/* Both ends on one inode, as fstat tells, and which /proc/PID/fd can open again. 0 or -errno; the files are the caller's. */
static int create_pipe_files(struct file *ends[2], int flags)
{
	struct pipe *p = pipe_alloc();

	if (!p)
		return -ENOMEM;
	ends[0] = anon_file_create_mode("pipe", S_IFIFO | 0600, &pipe_read_fops, p, O_RDONLY | (flags & O_NONBLOCK));
	if (IS_ERR(ends[0])) {
		pipe_free(p);
		return (int)PTR_ERR(ends[0]);
	}
	ends[0]->mode |= FMODE_STREAM;
	ends[0]->inode->fops = &fifo_fops;
	ends[0]->inode->private = p;
	p->readers = 1;
	ends[1] = anon_file_share(ends[0], &pipe_write_fops, p, O_WRONLY | (flags & O_NONBLOCK));
	if (IS_ERR(ends[1])) {
		file_put(ends[0]);
		return (int)PTR_ERR(ends[1]);
	}
	ends[1]->mode |= FMODE_STREAM;
	refcount_inc(&p->refs);
	p->writers = 1;
	return 0;
}

SYSCALL_DEFINE(pipe2, int __user *ufds, int flags)
{
	struct file *ends[2] = { NULL, NULL };
	int fds[2];
	int ret;

	if (flags & ~(O_CLOEXEC | O_NONBLOCK | O_DIRECT))
		return -EINVAL;
	if (flags & O_DIRECT)
		return -EINVAL;		/* packet mode: known gap */
	ret = create_pipe_files(ends, flags);
	if (ret)
		return ret;
	ret = fds[0] = fd_reserve(flags & O_CLOEXEC);
	if (ret < 0)
		goto put_files;
	ret = fds[1] = fd_reserve(flags & O_CLOEXEC);
	if (ret < 0)
		goto release_first;
	ret = copy_out(ufds, fds, sizeof(fds));
	if (ret)
		goto release_second;
	fd_install(fds[0], ends[0]);
	fd_install(fds[1], ends[1]);
	return 0;

release_second:
	fd_release(fds[1]);
release_first:
	fd_release(fds[0]);
put_files:
	file_put(ends[0]);
	file_put(ends[1]);
	return ret;
}

SYSCALL_DEFINE(pipe, int __user *ufds)
{
	return sys_pipe2(ufds, 0);
}

/* -- FIFOs: the pipe hangs on the inode while somebody has it open -- */

static struct pipe *fifo_get(struct inode *inode)
{
	struct pipe *fresh = pipe_alloc();

	if (!fresh)
		return NULL;
	spin_lock(&inode->meta_lock);
	struct pipe *p = inode->private;
	if (p)
		refcount_inc(&p->refs);
	else
		inode->private = fresh;
	spin_unlock(&inode->meta_lock);
	if (!p)
		return fresh;
	pipe_free(fresh);
	return p;
}

/* Waits until the other side has been opened once since @seen was read. 0 or -ERESTARTSYS. */
static int wait_for_partner(struct wait_queue *wq, const u32 *counter, u32 seen)
{
	return wait_event_interruptible(wq, READ_ONCE(*counter) != seen);
}

static int fifo_open(struct inode *inode, struct file *f)
{
	struct pipe *p = fifo_get(inode);
	bool rd = f->mode & FMODE_READ, wr = f->mode & FMODE_WRITE;
	bool nonblock = f->flags & O_NONBLOCK;
	bool named = !file_is_anonymous(f);	/* a pipe opened again through /proc/PID/fd waits for nobody */
	int ret = 0;

	if (!p)
		return -ENOMEM;
	f->private = p;
	f->mode |= FMODE_STREAM;
	mutex_lock(&p->lock);
	if (named && wr && !rd && nonblock && !p->readers) {
		mutex_unlock(&p->lock);
		pipe_put(p, inode);
		f->private = NULL;
		return -ENXIO;
	}
	if (rd) {
		p->readers++;
		p->r_counter++;
	}
	if (wr) {
		p->writers++;
		p->w_counter++;
	}
	u32 seen_w = p->w_counter, seen_r = p->r_counter;
	bool wait_w = named && rd && !wr && !nonblock && !p->writers;
	bool wait_r = named && wr && !rd && !p->readers;
	mutex_unlock(&p->lock);
	wake_up_all(&p->rd_wait);
	wake_up_all(&p->wr_wait);

	if (wait_w)
		ret = wait_for_partner(&p->rd_wait, &p->w_counter, seen_w);
	else if (wait_r)
		ret = wait_for_partner(&p->wr_wait, &p->r_counter, seen_r);
	f->ops = rd && wr ? &fifo_rw_fops : rd ? &pipe_read_fops : &pipe_write_fops;
	if (ret) {
		pipe_release(f);
		f->ops = &fifo_fops;
		f->private = NULL;
	}
	return ret;
}

const struct file_ops fifo_fops = { .open = fifo_open };

/* -- size -- */

struct pipe *file_pipe(struct file *f)
{
	const struct file_ops *o = f->ops;

	return o == &pipe_read_fops || o == &pipe_write_fops || o == &fifo_rw_fops ? f->private : NULL;
}

long pipe_get_size(struct file *f)
{
	struct pipe *p = file_pipe(f);

	return p ? (long)READ_ONCE(p->nr_slots) * (long)PAGE_SIZE : -EBADF;
}

long pipe_set_size(struct file *f, unsigned long bytes)
{
	struct pipe *p = file_pipe(f);
	u32 want = 1;

	if (!p)
		return -EBADF;
	if (bytes > PIPE_MAX_PAGES * PAGE_SIZE)
		return bytes > (1ul << 31) ? -EINVAL : -EPERM;
	while (want * PAGE_SIZE < bytes)
		want *= 2;
	struct pipe_slot *slots = kcalloc(want, sizeof(*slots), GFP_KERNEL);

	if (!slots)
		return -ENOMEM;
	mutex_lock(&p->lock);
	u32 used = pipe_used(p);
	if (used > want) {
		mutex_unlock(&p->lock);
		kfree(slots);
		return -EBUSY;
	}
	for (u32 i = 0; i < used; i++)
		slots[i] = *slot_at(p, p->tail + i);
	struct pipe_slot *old = p->slots;
	p->slots = slots;
	p->nr_slots = want;
	p->tail = 0;
	p->head = used;
	mutex_unlock(&p->lock);
	kfree(old);
	wake_up_all(&p->wr_wait);
	return (long)want * (long)PAGE_SIZE;
}

/* -- vmsplice: user pages become pipe contents, without a copy (the page-pinning call of RACES R5, R53, R58) -- */

#define SPLICE_F_NONBLOCK	2u
#define SPLICE_F_ALL		0xfu

/* Pins one page's worth at @addr and queues it. Bytes, 0 = pipe full, -errno. */
static ssize_t splice_one_page(struct pipe *p, uintptr_t addr, size_t len)
{
	struct page *page;
	u32 offset = addr & ~PAGE_MASK;
	size_t n = min(len, PAGE_SIZE - offset);
	long got = get_user_pages(current->mm, addr & PAGE_MASK, 1, 0, &page);

	if (got < 0)
		return got;
	mutex_lock(&p->lock);
	if (!p->readers || pipe_full(p)) {
		ssize_t ret = p->readers ? 0 : -EPIPE;

		mutex_unlock(&p->lock);
		put_user_page(page, 0, false);
		return ret;
	}
	bool was_empty = pipe_empty(p);
	if (page == zero_page)
		get_page(page);		/* pinning does not count it, but the slot's put_page() will */
	*slot_at(p, p->head) = (struct pipe_slot){ .page = page, .offset = offset, .len = (u32)n, .shared = true };
	p->head++;
	mutex_unlock(&p->lock);
	if (was_empty || READ_ONCE(p->polled))
		wake_up_poll(&p->rd_wait, POLLIN | POLLRDNORM);
	return (ssize_t)n;
}

static ssize_t splice_user_to_pipe(struct file *f, const struct iovec *iov, size_t nr, unsigned int flags)
{
	struct pipe *p = f->private;
	size_t done = 0;

	for (size_t i = 0; i < nr; i++) {
		for (size_t off = 0; off < iov[i].len;) {
			ssize_t n = splice_one_page(p, (uintptr_t)iov[i].base + off, iov[i].len - off);

			if (n > 0) {
				off += (size_t)n;
				done += (size_t)n;
				continue;
			}
			if (n == -EPIPE && !done)
				return broken_pipe();
			if (n == 0 && !done && !(flags & SPLICE_F_NONBLOCK) && !(f->flags & O_NONBLOCK)) {
				int ret = wait_event_interruptible_exclusive(&p->wr_wait, !pipe_full(p) || !READ_ONCE(p->readers));

				if (ret)
					return ret;
				continue;
			}
			return done ? (ssize_t)done : n ? n : -EAGAIN;
		}
	}
	return (ssize_t)done;
}

SYSCALL_DEFINE(vmsplice, int fd, const struct iovec __user *uiov, unsigned long nr, unsigned int flags)
{
	struct iovec fast[8], *iov = fast;
	struct file *f;
	ssize_t ret;

	if (flags & ~SPLICE_F_ALL)
		return -EINVAL;
	f = fd_get(fd);
	if (!f)
		return -EBADF;
	ret = import_iovec(uiov, nr, &iov, fast, ARRAY_SIZE(fast));
	if (ret <= 0)
		goto free_vector;
	if (!file_pipe(f)) {
		ret = -EBADF;		/* Linux looks at the vector first, and needs no pipe for nothing */
	} else if (f->mode & FMODE_WRITE) {
		ret = splice_user_to_pipe(f, iov, nr, flags);
	} else {
		struct iov_iter it;

		iov_iter_init(&it, iov, nr, (size_t)ret);
		ret = pipe_read(f, &it, NULL);
	}
free_vector:
	if (iov != fast)
		kfree(iov);
	file_put(f);
	return ret;
}

void pipe_init(void)
{
	register_fifo_ops(&fifo_fops);
}
