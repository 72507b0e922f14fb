/*
 * Control messages: descriptors and credentials that travel with the bytes of a message.
 *
 * Easy to break: the last reference to a socket may lie in the queue of another socket, whose last reference lies in a third.
 * Closing the first must not close the others by recursion, since a program can make the chain as long as it likes.
 * So sockets on their way are put by a worker, one after the other (scm_files_put).
 */
#include "fs/scm.h"

#include "fs/socket.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/timer.h"
#include "mm/slab.h"

#define CONTROL_MAX	20480u		/* bytes of one control buffer, as Linux's optmem_max was for long */

struct cmsghdr { size_t len; int level, type; };	/* user ABI; the data follows */
#define CMSG_ALIGN(n)	ALIGN_UP(n, sizeof(size_t))
#define CMSG_HEADER	sizeof(struct cmsghdr)

void scm_cred_current(struct scm_cred *cred)
{
	const struct process *p = current->process;

	*cred = (struct scm_cred){ (u32)p->tgid, READ_ONCE(p->creds.uid), READ_ONCE(p->creds.gid) };
}

/* -- files on their way -- */

static bool too_many_in_flight(const struct user *user)
{
	return READ_ONCE(user->nr_inflight) > rlimit_cur(RLIMIT_NOFILE) && !capable(CAP_SYS_RESOURCE) && !capable(CAP_SYS_ADMIN);
}

/* Without files yet. NULL: no memory. */
static struct scm_files *files_new(struct user *user)
{
	struct scm_files *s = kmalloc(sizeof(*s) + SCM_MAX_FD * sizeof(s->file[0]), GFP_KERNEL);

	if (!s)
		return NULL;
	user_get(user);
	s->user = user;
	s->nr = 0;
	return s;
}

static void files_add(struct scm_files *s, struct file *f)
{
	s->file[s->nr++] = f;
	__atomic_fetch_add(&s->user->nr_inflight, 1, __ATOMIC_RELAXED);
}

/* They are not in flight any more, but still counted. */
static void files_uncount(struct scm_files *s)
{
	__atomic_fetch_sub(&s->user->nr_inflight, s->nr, __ATOMIC_RELAXED);
	user_put(s->user);
}

struct scm_files *scm_files_dup(struct scm_files *from)
{
	struct scm_files *s = files_new(from->user);

	if (!s)
		return NULL;
	for (u32 i = 0; i < from->nr; i++) {
		file_get(from->file[i]);
		files_add(s, from->file[i]);
	}
	return s;
}

static void put_all(struct scm_files *s)
{
	for (u32 i = 0; i < s->nr; i++)
		file_put(s->file[i]);
	files_uncount(s);
	kfree(s);
}

static struct { struct spinlock lock; struct list_head list; struct work work; } later = {
	.lock = SPINLOCK_INIT(LOCK_LEAF_IRQ), .list = LIST_HEAD_INIT(later.list),
};

static void put_later_work(struct work *w)
{
	(void)w;
	for (;;) {
		unsigned long flags = spin_lock_irqsave(&later.lock);
		struct scm_files *s = list_first_entry_or_null(&later.list, struct scm_files, node);

		if (s)
			list_del(&s->node);
		spin_unlock_irqrestore(&later.lock, flags);
		if (!s)
			return;
		put_all(s);
	}
}

static void put_later(struct scm_files *s)
{
	unsigned long flags = spin_lock_irqsave(&later.lock);

	later.work.func = put_later_work;
	list_add_tail(&s->node, &later.list);
	spin_unlock_irqrestore(&later.lock, flags);
	schedule_work(&later.work);
}

void scm_files_put(struct scm_files *s)
{
	if (!s)
		return;
	for (u32 i = 0; i < s->nr; i++) {
		if (file_socket(s->file[i])) {
			put_later(s);
			return;
		}
	}
	put_all(s);
}

/* -- from user space -- */

static int add_rights(struct scm *scm, const int *fds, size_t n)
{
	struct user *user = current->process->user;

	if (n > SCM_MAX_FD)
		return -EINVAL;
	if (!n)
		return 0;
	if (!scm->files) {
		if (too_many_in_flight(user))
			return -ETOOMANYREFS;
		scm->files = files_new(user);
		if (!scm->files)
			return -ENOMEM;
	}
	if (scm->files->nr + n > SCM_MAX_FD)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		struct file *f = fd_get_raw(fds[i]);

		if (!f)
			return -EBADF;
		files_add(scm->files, f);
	}
	return 0;
}

/* A process may name itself by any of its ids; others only with the right to become them. */
static int check_cred(const struct scm_cred *cred)
{
	const struct creds *c = &current->process->creds;

	if (cred->pid != (u32)current->process->tgid && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (cred->uid != c->uid && cred->uid != c->euid && cred->uid != c->suid && !capable(CAP_SETUID))
		return -EPERM;
	if (cred->gid != c->gid && cred->gid != c->egid && cred->gid != c->sgid && !capable(CAP_SETGID))
		return -EPERM;
	if (cred->pid != (u32)current->process->tgid) {
		struct process *p = find_process_get((int)cred->pid);

		if (!p)
			return -ESRCH;
		process_put(p);
	}
	return 0;
}

static int parse_one(const struct cmsghdr *h, struct scm *scm)
{
	const void *data = h + 1;
	size_t n = h->len - CMSG_HEADER;
	int err;

	if (h->level != SOL_SOCKET)
		return 0;
	switch (h->type) {
	case SCM_RIGHTS:
		return add_rights(scm, data, n / sizeof(int));
	case SCM_CREDENTIALS:
		if (n != sizeof(struct scm_cred))
			return -EINVAL;
		memcpy(&scm->cred, data, sizeof(scm->cred));
		err = check_cred(&scm->cred);
		scm->has_cred = !err;
		return err;
	default:
		return -EINVAL;
	}
}

static int parse_all(const u8 *buf, size_t len, struct scm *scm)
{
	size_t at = 0;

	while (len - at >= CMSG_HEADER) {
		const struct cmsghdr *h = (const void *)(buf + at);

		if (h->len < CMSG_HEADER || h->len > len - at)
			return -EINVAL;
		int err = parse_one(h, scm);

		if (err)
			return err;
		at += min(CMSG_ALIGN(h->len), len - at);
	}
	return 0;
}

int scm_parse(const void __user *control, size_t len, struct scm *scm)
{
	if (len > CONTROL_MAX)
		return -ENOBUFS;
	u8 *buf = kmalloc(len, GFP_KERNEL);	/* one snapshot: it is looked at more than once */

	if (!buf)
		return -ENOMEM;
	int err = copy_in(buf, control, len);

	if (!err)
		err = parse_all(buf, len, scm);
	kfree(buf);
	if (err) {
		scm_files_put(scm->files);
		scm->files = NULL;
	}
	return err;
}

/* -- to user space -- */

struct control { u8 __user *at; size_t room, written; };

/* The header of a message with @n bytes of data, and the step over it. 0 or -EFAULT. */
static int put_header(struct control *c, int type, size_t n)
{
	struct cmsghdr h = { CMSG_HEADER + n, SOL_SOCKET, type };
	size_t step = min(CMSG_ALIGN(h.len), c->room);

	if (copy_out(c->at, &h, sizeof(h)))
		return -EFAULT;
	c->at += step;
	c->room -= step;
	c->written += step;
	return 0;
}

static void deliver_cred(const struct scm_cred *cred, struct control *c, u32 *flags)
{
	if (c->room < CMSG_HEADER) {
		*flags |= MSG_CTRUNC;
		return;
	}
	size_t n = min(sizeof(*cred), c->room - CMSG_HEADER);

	if (n < sizeof(*cred))
		*flags |= MSG_CTRUNC;
	if (!copy_out(c->at + CMSG_HEADER, cred, n))
		(void)!put_header(c, SCM_CREDENTIALS, n);
}

/* Installs as many as fit. A number that cannot be told is not installed. */
static void deliver_files(struct scm_files *s, struct control *c, bool cloexec, u32 *flags)
{
	size_t fit = c->room < CMSG_HEADER ? 0 : min((c->room - CMSG_HEADER) / sizeof(int), (size_t)s->nr);
	size_t done = 0;

	for (; done < fit; done++) {
		int fd = fd_reserve(cloexec ? O_CLOEXEC : 0);

		if (fd < 0)
			break;
		if (put_user(fd, (int __user *)(c->at + CMSG_HEADER) + done)) {
			fd_release(fd);
			break;
		}
		file_get(s->file[done]);
		fd_install(fd, s->file[done]);
	}
	if (done)
		(void)!put_header(c, SCM_RIGHTS, done * sizeof(int));
	if (done < s->nr)
		*flags |= MSG_CTRUNC;
}

size_t scm_deliver(struct scm *scm, void __user *control, size_t room, bool cloexec, u32 *flags)
{
	struct control c = { control, control ? room : 0, 0 };

	if (scm->has_cred)
		deliver_cred(&scm->cred, &c, flags);
	if (scm->files) {
		deliver_files(scm->files, &c, cloexec, flags);
		scm_files_put(scm->files);
		scm->files = NULL;
	}
	return c.written;
}
