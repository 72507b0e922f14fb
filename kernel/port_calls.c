/*
 * The native system calls on ports that take a struct fl_msg; kernel/port_words.c has those that do not. Arguments are copied once and checked before anything is sent; what comes back is written
 * last. user/include/fl_port.h tells numbers and layouts, docs/ipc.md each error.
 */
#include "kernel/port_internal.h"

#include "kernel/errno.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

SYSCALL_DEFINE(port_create, int __user *ufds, unsigned int flags)
{
	struct file *ends[2];
	int fds[2], err;

	if (flags & ~(unsigned int)O_CLOEXEC)
		return -EINVAL;
	for (int i = 0; i < 2; i++) {
		fds[i] = fd_reserve(flags);
		if (fds[i] < 0) {
			if (i)
				fd_release(fds[0]);
			return fds[i];
		}
	}
	err = copy_out(ufds, fds, sizeof(fds));
	if (!err)
		err = port_create_files(ends);
	if (err) {
		fd_release(fds[0]);
		fd_release(fds[1]);
		return err;
	}
	fd_install(fds[0], ends[0]);
	fd_install(fds[1], ends[1]);
	return 0;
}

/* -- the long form -- */

static int add_files(struct port_payload *pl, const struct fl_msg *m)
{
	for (u32 i = 0; i < m->nr_fds; i++) {
		struct file *f = fd_get_raw(m->fd[i]);

		if (!f)
			return -EBADF;
		pl->file[pl->nr_files++] = f;
	}
	return 0;
}

/* What @m carries beside words; NULL: nothing. ERR_PTR: -EMSGSIZE, -EINVAL, -ENOMEM, -EFAULT, -EBADF. */
static struct port_payload *payload_in(const struct fl_msg *m)
{
	if (m->len > FL_INLINE_MAX)
		return ERR_PTR(-EMSGSIZE);
	if (m->nr_fds > FL_MAX_FDS)
		return ERR_PTR(-EINVAL);
	if (!m->len && !m->nr_fds)
		return NULL;
	struct port_payload *pl = port_payload_alloc(m->len);

	if (!pl)
		return ERR_PTR(-ENOMEM);
	int err = m->len ? copy_in(pl->data, (const void __user *)m->buf, m->len) : 0;

	if (!err)
		err = add_files(pl, m);
	if (err) {
		port_payload_free(pl);
		return ERR_PTR(err);
	}
	return pl;
}

/* Into current's buffer and descriptor table. More bytes than @m has room for are cut, and m->len tells how many there were. 0 or -EFAULT. */
static int payload_out(struct port_payload *pl, struct fl_msg *m)
{
	bool cloexec = m->flags & FL_FDS_CLOEXEC;

	m->len = pl ? pl->len : 0;
	m->nr_fds = 0;
	if (!pl)
		return 0;
	if (copy_out((void __user *)m->buf, pl->data, min(pl->len, m->room)))
		return -EFAULT;
	for (u32 i = 0; i < pl->nr_files; i++) {
		int fd = fd_reserve(cloexec ? O_CLOEXEC : 0);

		if (fd < 0)
			break;			/* the rest is closed: nr_fds tells */
		file_get(pl->file[i]);
		fd_install(fd, pl->file[i]);
		m->fd[m->nr_fds++] = fd;
	}
	return 0;
}

static int call_in(struct port_call *call, const struct fl_msg *m)
{
	if (m->flags & ~(FL_LENT_R | FL_LENT_W | FL_FDS_CLOEXEC))
		return -EINVAL;
	if (m->reserved || (!m->lent_len && (m->flags & (FL_LENT_R | FL_LENT_W))))
		return -EINVAL;
	memcpy(call->word, m->word, sizeof(call->word));
	call->room = min(m->room, FL_INLINE_MAX);
	struct port_payload *pl = payload_in(m);

	if (IS_ERR(pl))
		return (int)PTR_ERR(pl);
	if (m->lent_len) {
		struct port_lent *l = port_lent_user(m->lent, m->lent_len, m->flags & (FL_LENT_R | FL_LENT_W));

		if (IS_ERR(l)) {
			port_payload_free(pl);
			return (int)PTR_ERR(l);
		}
		call->lent = l;
	}
	call->payload = pl;
	return 0;
}

static int do_call(struct port *p, struct fl_msg __user *um, s64 timeout)
{
	struct port_call call;
	struct fl_msg m;

	if (copy_in(&m, um, sizeof(m)))
		return -EFAULT;
	port_call_init(&call);
	int err = call_in(&call, &m);

	if (err)
		return err;
	err = port_call(p, &call, timeout, TASK_INTERRUPTIBLE);
	if (!err) {
		memcpy(m.word, call.word, sizeof(m.word));
		err = payload_out(call.payload, &m);
		if (copy_out(um, &m, sizeof(m)))
			err = -EFAULT;
		port_payload_free(call.payload);
	}
	port_lent_put(call.lent);
	return err;
}

SYSCALL_DEFINE(port_call, int fd, struct fl_msg __user *um, s64 timeout)
{
	struct fd_ref ref;
	struct port *p;
	int err = port_lookup(fd, false, &ref, &p);

	if (!err)
		err = do_call(p, um, timeout);
	fdput(ref);
	return err;
}

/* A received call to user space. If that fails the caller is told: the server will never answer what it has not seen. */
static int received_out(struct port *p, struct port_received *r, struct fl_msg *m, struct fl_msg __user *um)
{
	memcpy(m->word, r->word, sizeof(m->word));
	int err = payload_out(r->payload, m);

	m->flags = r->lent_rights;
	m->lent = 0;
	m->lent_len = r->lent_len;
	m->token = r->token;
	m->pid = r->pid;
	m->uid = r->uid;
	m->gid = r->gid;
	m->reserved = 0;
	if (!err && copy_out(um, m, sizeof(*m)))
		err = -EFAULT;
	port_payload_free(r->payload);
	if (err && r->token)
		port_refuse(p, r->token, -EIO);
	return err;
}

static int check_receive(const struct fl_msg *m)
{
	return m->flags & ~(FL_FDS_CLOEXEC | FL_LENT_R | FL_LENT_W) ? -EINVAL : 0;	/* the loan's: as the last receive left them */
}

static int do_receive(struct port *p, struct fl_msg __user *um, s64 timeout)
{
	struct port_received r;
	struct fl_msg m;

	r.frame = NULL;
	if (copy_in(&m, um, sizeof(m)))
		return -EFAULT;
	int err = check_receive(&m);

	if (!err)
		err = port_receive(p, &r, timeout);
	return err ? err : received_out(p, &r, &m, um);
}

static int do_reply(struct port *p, const struct fl_msg __user *um)
{
	struct fl_msg m;

	if (copy_in(&m, um, sizeof(m)))
		return -EFAULT;
	struct port_payload *pl = payload_in(&m);

	if (IS_ERR(pl))
		return (int)PTR_ERR(pl);
	int err = port_reply(p, m.token, m.word, pl);

	if (err)
		port_payload_free(pl);
	return err;
}

static int do_reply_receive(struct port *p, struct fl_msg __user *um, s64 timeout)
{
	struct port_received r;
	struct fl_msg m;

	if (copy_in(&m, um, sizeof(m)))
		return -EFAULT;
	int err = check_receive(&m);
	struct port_payload *pl = err ? NULL : m.token ? payload_in(&m) : NULL;

	if (IS_ERR(pl))
		err = (int)PTR_ERR(pl);
	if (err)
		return err;
	r.frame = NULL;
	memcpy(r.word, m.word, sizeof(r.word));
	err = port_reply_receive(p, m.token, &r, pl, timeout);
	return err ? err : received_out(p, &r, &m, um);
}

SYSCALL_DEFINE(port_receive, int fd, struct fl_msg __user *um, s64 timeout)
{
	struct fd_ref ref;
	struct port *p;
	int err = port_lookup(fd, true, &ref, &p);

	if (!err)
		err = do_receive(p, um, timeout);
	fdput(ref);
	return err;
}

SYSCALL_DEFINE(port_reply, int fd, const struct fl_msg __user *um)
{
	struct fd_ref ref;
	struct port *p;
	int err = port_lookup(fd, true, &ref, &p);

	if (!err)
		err = do_reply(p, um);
	fdput(ref);
	return err;
}

SYSCALL_DEFINE(port_reply_receive, int fd, struct fl_msg __user *um, s64 timeout)
{
	struct fd_ref ref;
	struct port *p;
	int err = port_lookup(fd, true, &ref, &p);

	if (!err)
		err = do_reply_receive(p, um, timeout);
	fdput(ref);
	return err;
}

/* -- lent memory -- */

static ssize_t do_lent_copy(int fd, u64 token, u64 offset, void __user *buf, u64 len, bool to_lent)
{
	struct fd_ref ref;
	struct port *p;
	ssize_t n = port_lookup(fd, true, &ref, &p);

	if (!n) {
		struct port_lent *l = port_lent_of(p, token);

		if (!l)
			n = -ESRCH;
		else if (!access_ok(buf, len))
			n = -EFAULT;
		else
			n = port_lent_copy(l, offset, buf, len, to_lent);
		port_lent_put(l);
	}
	fdput(ref);
	return n;
}

SYSCALL_DEFINE(port_lent_read, int fd, u64 token, u64 offset, void __user *buf, u64 len)
{
	return do_lent_copy(fd, token, offset, buf, len, false);
}

SYSCALL_DEFINE(port_lent_write, int fd, u64 token, u64 offset, const void __user *buf, u64 len)
{
	return do_lent_copy(fd, token, offset, (void __user *)buf, len, true);
}
