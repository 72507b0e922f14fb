/*
 * Messages of AF_UNIX sockets: sending, receiving, poll.
 *
 * The sender makes a message, copies the bytes into it and puts it into the receiver's queue; the receiver copies them out. User memory
 * is touched without any spin lock. sock.read_lock (sleeping) makes one reader at a time: the message at the front stays there while
 * he copies. What is under way is charged to the sender (wmem), who waits on his own queue: no sender sleeps on a socket that
 * may go away.
 *
 *	stream		bytes; several messages answer one read, but never across descriptors or, with SO_PASSCRED, credentials
 *	seqpacket	messages on a connection
 *	datagram	messages; the receiver's queue holds UNIX_DGRAM_QLEN, and who finds it full waits on its room_wait
 */
#include "fs/unix.h"

#include "fs/tty_ioctl.h"
#include "kernel/race.h"
#include "kernel/string.h"
#include "mm/slab.h"

#define STREAM_CHUNK	(16384u - sizeof(struct unix_msg))	/* bytes of one message of a stream */
#define MSG_OVERHEAD	256u					/* what a message counts beside its bytes */

/* Owned by the sender while it is made, by the queue, by the reader under read_lock. */
struct unix_msg {
	struct list_head node;
	struct unix_sock *from;		/* counted */
	u32		 len, done;	/* done: bytes that a stream's reader has taken */
	u32		 charged;	/* to from->wmem */
	struct scm_cred	 cred;
	struct scm_files *files;
	u8		 data[];
};

/* Below a quarter: the sender is not woken for each byte that is taken. As Linux's unix_writable(). */
static bool writable(const struct unix_sock *u)
{
	return READ_ONCE(u->wmem) <= READ_ONCE(u->sock.sndbuf) / 4;
}

static bool has_room(const struct unix_sock *u)
{
	return READ_ONCE(u->wmem) < READ_ONCE(u->sock.sndbuf);
}

static void msg_free(struct unix_msg *m)
{
	struct unix_sock *from = m->from;

	scm_files_put(m->files);
	__atomic_fetch_sub(&from->wmem, m->charged, __ATOMIC_RELEASE);
	kvfree(m);
	if (writable(from))
		sock_wake_writers(&from->sock);
	unix_put(from);
}

void unix_drop_messages(struct list_head *queue)
{
	while (!list_empty(queue)) {
		struct unix_msg *m = list_first_entry(queue, struct unix_msg, node);

		list_del(&m->node);
		msg_free(m);
	}
}

/* Waits until @u may have more bytes under way. 0, a pending error, -EPIPE, -EAGAIN, or a signal's. */
static int wait_for_room(struct unix_sock *u, u32 flags, u64 deadline)
{
	for (;;) {
		int err = sock_error(&u->sock);

		if (err)
			return err;
		if (READ_ONCE(u->sock.shutdown) & SHUT_WRITE)
			return -EPIPE;
		if (has_room(u))
			return 0;
		if (flags & MSG_DONTWAIT)
			return -EAGAIN;
		err = sock_wait(&u->sock.wr_wait, has_room(u) || READ_ONCE(u->sock.err) || (READ_ONCE(u->sock.shutdown) & SHUT_WRITE), true, deadline);
		if (err)
			return err;
	}
}

/* A message of @n bytes from @it, charged to @u. ERR_PTR. */
static struct unix_msg *msg_new(struct unix_sock *u, struct iov_iter *it, size_t n, const struct scm *scm)
{
	struct unix_msg *m = kvmalloc(sizeof(*m) + n, GFP_KERNEL);

	if (!m)
		return ERR_PTR(-ENOBUFS);
	if (copy_from_iter(m->data, n, it) != n) {
		kvfree(m);
		return ERR_PTR(-EFAULT);
	}
	m->len = (u32)n;
	m->done = 0;
	m->charged = (u32)n + MSG_OVERHEAD;
	m->cred = scm->cred;
	m->files = NULL;
	m->from = u;
	unix_get(u);
	__atomic_fetch_add(&u->wmem, m->charged, __ATOMIC_RELAXED);
	return m;
}

static struct unix_msg *first_message(struct unix_sock *u)
{
	return list_first_entry_or_null(&u->queue, struct unix_msg, node);
}

/* -- streams -- */

/* At the end of @to's queue; false: nobody will read it, and it is still the caller's. */
static bool stream_enqueue(struct unix_sock *to, struct unix_msg *m)
{
	spin_lock(&to->lock);
	bool ok = !to->dead && !(to->sock.shutdown & SHUT_READ);

	if (ok) {
		list_add_tail(&m->node, &to->queue);
		__atomic_fetch_add(&to->read_bytes, m->len, __ATOMIC_RELAXED);
		WRITE_ONCE(to->nr_queued, to->nr_queued + 1);
	}
	spin_unlock(&to->lock);
	return ok;
}

/* One message: the next bytes of @sm. Bytes or -errno. */
static ssize_t stream_send_chunk(struct unix_sock *u, struct unix_sock *peer, struct sock_msg *sm, u64 deadline)
{
	int err = wait_for_room(u, sm->flags, deadline);

	if (err)
		return err;
	struct unix_msg *m = msg_new(u, sm->iter, min(sm->iter->count, (size_t)STREAM_CHUNK), &sm->scm);

	if (IS_ERR(m))
		return PTR_ERR(m);
	ssize_t n = m->len;

	m->files = sm->scm.files;	/* with the first byte */
	if (!stream_enqueue(peer, m)) {
		m->files = NULL;
		msg_free(m);
		return -EPIPE;
	}
	sm->scm.files = NULL;
	sock_wake_readers(&peer->sock);
	return n;
}

ssize_t unix_stream_send(struct socket *sock, struct sock_msg *sm)
{
	struct unix_sock *u = unix_sk(sock);
	struct unix_sock *peer = __atomic_load_n(&u->peer, __ATOMIC_ACQUIRE);	/* ours until release, which waits for this call */
	u64 deadline = sock_deadline(READ_ONCE(sock->sndtimeo));
	ssize_t done = 0, n = 0;

	if (sm->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (sm->addr && sm->addr->len)
		return READ_ONCE(sock->state) == SS_CONNECTED ? -EISCONN : -EOPNOTSUPP;
	if (!peer)
		return -ENOTCONN;
	if (READ_ONCE(sock->shutdown) & SHUT_WRITE)
		return sock_broken_pipe(sm->flags);
	while (sm->iter->count) {
		n = stream_send_chunk(u, peer, sm, deadline);
		if (n < 0)
			break;
		done += n;
	}
	if (done)
		return done;
	return n == -EPIPE ? sock_broken_pipe(sm->flags) : n;
}

/* May the bytes of @m be given together with those of @first? */
static bool same_cred(const struct unix_msg *m, const struct scm *scm)
{
	return !memcmp(&m->cred, &scm->cred, sizeof(m->cred));
}

/* Takes the used-up message off the queue. read_lock held. */
static void dequeue(struct unix_sock *u, struct unix_msg *m)
{
	spin_lock(&u->lock);
	list_del(&m->node);
	WRITE_ONCE(u->nr_queued, u->nr_queued - 1);
	spin_unlock(&u->lock);
}

/* The message after @prev (NULL: the first); the list changes only at its end while we hold read_lock. */
static struct unix_msg *next_message(struct unix_sock *u, struct unix_msg *prev)
{
	spin_lock(&u->lock);
	struct unix_msg *m = prev ? list_next_entry(prev, node) : first_message(u);

	if (m && &m->node == &u->queue)
		m = NULL;
	spin_unlock(&u->lock);
	return m;
}

/* What a reader has so far. */
struct stream_read {
	struct sock_msg	*sm;
	struct unix_msg	*peeked;	/* MSG_PEEK: the last one looked at */
	ssize_t		 done;
	bool		 stop;		/* this message ends the read */
};

/* Descriptors go to the first who takes bytes of their message. -ENOMEM (peeking) or 0. */
static int take_files(struct unix_msg *m, struct stream_read *r)
{
	if (!m->files)
		return 0;
	if (r->sm->flags & MSG_PEEK) {
		r->sm->scm.files = scm_files_dup(m->files);
		if (!r->sm->scm.files)
			return -ENOMEM;
	} else {
		r->sm->scm.files = m->files;
		m->files = NULL;
	}
	r->stop = true;
	return 0;
}

/* Copies from @m what is wanted. 0, -EFAULT, -ENOMEM. read_lock held. */
static int stream_take(struct unix_sock *u, struct unix_msg *m, struct stream_read *r)
{
	struct iov_iter *to = r->sm->iter;
	size_t n = min((size_t)(m->len - m->done), to->count);
	size_t copied = copy_to_iter(m->data + m->done, n, to);

	r->done += (ssize_t)copied;
	if (!copied)
		return -EFAULT;
	if (r->sm->addr)
		unix_name_of(m->from, r->sm->addr);
	if (r->sm->addr && r->sm->addr->len <= sizeof(u16))
		r->sm->addr->len = 0;		/* a sender without a name: Linux tells none */
	int err = take_files(m, r);

	if (r->sm->flags & MSG_PEEK) {
		r->peeked = m;
	} else {
		m->done += (u32)copied;
		__atomic_fetch_sub(&u->read_bytes, copied, __ATOMIC_RELAXED);
		if (m->done == m->len) {
			dequeue(u, m);
			msg_free(m);
		}
	}
	return err ? err : copied < n ? -EFAULT : 0;
}

/* What a reader who has found nothing must do. */
enum nothing_queued { NOTHING_YET, LOOK_AGAIN, NEVER_AGAIN };

/*
 * The peer's last message is queued before it closes. So the end is asked for once, and then the queue once more: only if both say
 * nothing, in this order, is it the end. *err: an error that was waiting, taken. read_lock held.
 */
static enum nothing_queued nothing_queued(struct unix_sock *u, int *err)
{
	race_window("unix_nothing_queued");
	bool failed = READ_ONCE(u->sock.err), over = READ_ONCE(u->sock.shutdown) & SHUT_READ;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	race_window("unix_end_seen_or_not");
	*err = 0;
	if ((failed || over) && READ_ONCE(u->nr_queued))
		return LOOK_AGAIN;
	if (failed)
		*err = sock_error(&u->sock);
	return over ? NEVER_AGAIN : NOTHING_YET;
}

static bool something_to_read(struct unix_sock *u)
{
	return READ_ONCE(u->nr_queued) || READ_ONCE(u->sock.err) || (READ_ONCE(u->sock.shutdown) & SHUT_READ);
}

/* Nothing more is there now. 0: end of the stream, or a wake-up (then *again); -errno. read_lock held on entry and exit, dropped to sleep. */
static int stream_wait(struct unix_sock *u, struct sock_msg *sm, u64 deadline, bool *again)
{
	int err;
	enum nothing_queued what = nothing_queued(u, &err);

	*again = what == LOOK_AGAIN;
	if (err || what != NOTHING_YET)
		return err;
	if (sm->flags & MSG_DONTWAIT)
		return -EAGAIN;
	mutex_unlock(&u->sock.read_lock);
	err = sock_wait(&u->sock.rd_wait, something_to_read(u), true, deadline);
	mutex_lock(&u->sock.read_lock);
	*again = !err;
	return err;
}

/* Bytes, 0 at the end, or -errno. read_lock held. */
static ssize_t stream_read(struct unix_sock *u, struct sock_msg *sm, u64 deadline)
{
	struct stream_read r = { .sm = sm };
	size_t low = max(READ_ONCE(u->sock.rcvlowat), 1u);
	ssize_t target = (ssize_t)(sm->flags & MSG_WAITALL ? sm->iter->count : min(low, sm->iter->count));
	bool by_cred = sock_option(&u->sock, SO_PASSCRED);
	int err = 0;

	while (sm->iter->count && !r.stop && !err) {
		struct unix_msg *m = next_message(u, sm->flags & MSG_PEEK ? r.peeked : NULL);

		if (!m) {
			bool again;

			/* What was looked at may be gone after a sleep, so a reader who only looks does not wait for more. */
			if (r.done >= target || r.peeked)
				break;
			err = stream_wait(u, sm, deadline, &again);
			if (!again)
				break;
			continue;
		}
		if (r.done && by_cred && !same_cred(m, &sm->scm))
			break;
		sm->scm.cred = m->cred;
		sm->scm.has_cred = by_cred;
		err = stream_take(u, m, &r);
	}
	return r.done ? r.done : err;
}

ssize_t unix_stream_recv(struct socket *sock, struct sock_msg *sm)
{
	struct unix_sock *u = unix_sk(sock);
	u64 deadline = sock_deadline(READ_ONCE(sock->rcvtimeo));

	if (READ_ONCE(sock->state) != SS_CONNECTED)
		return -EINVAL;
	if (sm->flags & MSG_OOB)
		return -EOPNOTSUPP;
	mutex_lock(&sock->read_lock);
	ssize_t n = stream_read(u, sm, deadline);

	mutex_unlock(&sock->read_lock);
	if (READ_ONCE(u->nr_queued))
		sock_wake_readers(sock);	/* an exclusive wake-up may have ended with us */
	return n;
}

/* -- datagrams and sequenced packets -- */

static bool queue_full(const struct unix_sock *u)
{
	return READ_ONCE(u->nr_queued) > UNIX_DGRAM_QLEN;
}

/* 0; -ECONNREFUSED: dead; -EPIPE: reads no more; -EPERM: hears somebody else; -EAGAIN: full. The message is the caller's unless 0. */
static int dgram_enqueue(struct unix_sock *u, struct unix_sock *to, struct unix_msg *m)
{
	int err = 0;

	spin_lock(&to->lock);
	if (to->dead)
		err = -ECONNREFUSED;
	else if (to->sock.shutdown & SHUT_READ)
		err = -EPIPE;
	else if (to->peer && to->peer != u)
		err = -EPERM;
	else if (to != u && to->peer != u && queue_full(to))
		err = -EAGAIN;		/* the two ends of a pair are held back by the sender's own limit only, as on Linux */
	if (!err) {
		list_add_tail(&m->node, &to->queue);
		WRITE_ONCE(to->nr_queued, to->nr_queued + 1);
	}
	spin_unlock(&to->lock);
	return err;
}

/* The bytes as one message to @to. Bytes or -errno. */
static ssize_t dgram_send_to(struct unix_sock *u, struct unix_sock *to, struct sock_msg *sm)
{
	u64 deadline = sock_deadline(READ_ONCE(u->sock.sndtimeo));
	size_t n = sm->iter->count;

	if (n > READ_ONCE(u->sock.sndbuf) - 32)
		return -EMSGSIZE;
	int err = wait_for_room(u, sm->flags, deadline);

	if (err)
		return err;
	struct unix_msg *m = msg_new(u, sm->iter, n, &sm->scm);

	if (IS_ERR(m))
		return PTR_ERR(m);
	m->files = sm->scm.files;
	while ((err = dgram_enqueue(u, to, m)) == -EAGAIN && !(sm->flags & MSG_DONTWAIT)) {
		err = sock_wait(&to->room_wait, !queue_full(to) || READ_ONCE(to->dead) || (READ_ONCE(to->sock.shutdown) & SHUT_READ), true, deadline);
		if (err)
			break;
	}
	if (err) {
		m->files = NULL;
		msg_free(m);
		return err;
	}
	sm->scm.files = NULL;
	sock_wake_readers(&to->sock);
	return (ssize_t)n;
}

ssize_t unix_dgram_send(struct socket *sock, struct sock_msg *sm)
{
	struct unix_sock *u = unix_sk(sock);
	bool named = sm->addr && sm->addr->len;

	if (sm->flags & MSG_OOB)
		return -EOPNOTSUPP;
	struct unix_sock *to = named ? unix_find(sm->addr, sock->type) : unix_peer_get(u);

	if (!to)
		return -ENOTCONN;
	if (IS_ERR(to))
		return PTR_ERR(to);
	ssize_t n = dgram_send_to(u, to, sm);

	if (n == -ECONNREFUSED && !named)
		unix_dgram_disconnect(u, to);
	unix_put(to);
	return n;
}

ssize_t unix_seqpacket_send(struct socket *sock, struct sock_msg *sm)
{
	struct unix_sock *u = unix_sk(sock);
	int err = sock_error(sock);

	if (err)
		return err;
	if (READ_ONCE(sock->state) != SS_CONNECTED)
		return -ENOTCONN;
	if (sm->flags & MSG_OOB)
		return -EOPNOTSUPP;
	struct unix_sock *peer = __atomic_load_n(&u->peer, __ATOMIC_ACQUIRE);
	ssize_t n = dgram_send_to(u, peer, sm);

	return n == -ECONNREFUSED ? -EPIPE : n;
}

/* The first message, taken out of the queue unless peeking; NULL: none. read_lock held. */
static struct unix_msg *dgram_first(struct unix_sock *u, bool peek)
{
	spin_lock(&u->lock);
	struct unix_msg *m = first_message(u);

	if (m && !peek) {
		list_del(&m->node);
		WRITE_ONCE(u->nr_queued, u->nr_queued - 1);
	}
	spin_unlock(&u->lock);
	return m;
}

/* Gives @m to the caller. Bytes (with MSG_TRUNC: all there were) or -errno. */
static ssize_t dgram_take(struct unix_sock *u, struct unix_msg *m, struct sock_msg *sm)
{
	size_t n = min((size_t)m->len, sm->iter->count);
	bool peek = sm->flags & MSG_PEEK;

	if (n < m->len)
		sm->out_flags |= MSG_TRUNC;
	if (copy_to_iter(m->data, n, sm->iter) != n)
		return -EFAULT;
	if (sm->addr) {
		unix_name_of(m->from, sm->addr);
		if (sm->addr->len <= sizeof(u16))
			sm->addr->len = 0;
	}
	sm->scm.cred = m->cred;
	sm->scm.has_cred = sock_option(&u->sock, SO_PASSCRED);
	if (m->files && peek) {
		sm->scm.files = scm_files_dup(m->files);
		if (!sm->scm.files)
			return -ENOMEM;
	} else if (m->files) {
		sm->scm.files = m->files;
		m->files = NULL;
	}
	return (ssize_t)(sm->flags & MSG_TRUNC ? m->len : n);
}

/* One who waits for room in our queue may go on, and whoever polls for it. */
static void room_in_queue(struct unix_sock *u)
{
	struct unix_sock *s;

	wake_up(&u->room_wait);
	if (list_empty(&u->senders))
		return;
	spin_lock(&u->lock);
	list_for_each_entry(s, &u->senders, sender_node)
		sock_wake_writers(&s->sock);
	spin_unlock(&u->lock);
}

ssize_t unix_dgram_recv(struct socket *sock, struct sock_msg *sm)
{
	struct unix_sock *u = unix_sk(sock);
	u64 deadline = sock_deadline(READ_ONCE(sock->rcvtimeo));
	bool peek = sm->flags & MSG_PEEK;
	struct unix_msg *m;

	if (sm->flags & MSG_OOB)
		return -EOPNOTSUPP;
	mutex_lock(&sock->read_lock);
	while (!(m = dgram_first(u, peek))) {
		int err;
		enum nothing_queued what = nothing_queued(u, &err);

		if (what == LOOK_AGAIN)
			continue;
		if (!err && what == NEVER_AGAIN && (sock->type == SOCK_SEQPACKET || !(sm->flags & MSG_DONTWAIT)))
			goto unlock;		/* end: 0 */
		if (!err && (sm->flags & MSG_DONTWAIT))
			err = -EAGAIN;
		mutex_unlock(&sock->read_lock);
		if (!err)
			err = sock_wait(&sock->rd_wait, something_to_read(u), true, deadline);
		if (err)
			return err;
		mutex_lock(&sock->read_lock);
	}
	ssize_t n = dgram_take(u, m, sm);

	mutex_unlock(&sock->read_lock);
	if (!peek) {
		msg_free(m);
		room_in_queue(u);
	}
	if (READ_ONCE(u->nr_queued))
		sock_wake_readers(sock);
	return n;
unlock:
	mutex_unlock(&sock->read_lock);
	return 0;
}

ssize_t unix_seqpacket_recv(struct socket *sock, struct sock_msg *sm)
{
	if (READ_ONCE(sock->state) != SS_CONNECTED)
		return -ENOTCONN;
	return unix_dgram_recv(sock, sm);
}

/* -- poll, ioctl -- */

/* A datagram socket can write if its peer has room too. */
static bool peer_has_room(struct unix_sock *u)
{
	if (unix_is_connected_type(u))
		return true;
	spin_lock(&u->lock);		/* keeps the peer */
	const struct unix_sock *peer = u->peer;
	bool room = !peer || READ_ONCE(peer->peer) == u || !queue_full(peer) || READ_ONCE(peer->dead);

	spin_unlock(&u->lock);
	return room;
}

u32 unix_poll(struct socket *sock)
{
	struct unix_sock *u = unix_sk(sock);
	u8 shutdown = READ_ONCE(sock->shutdown), state = READ_ONCE(sock->state);
	u32 bits = 0;

	if (READ_ONCE(sock->err))
		bits |= POLLERR;
	if (shutdown == SHUT_BOTH)
		bits |= POLLHUP;
	if (shutdown & SHUT_READ)
		bits |= POLLRDHUP | POLLIN | POLLRDNORM;
	if (READ_ONCE(u->nr_queued))
		bits |= POLLIN | POLLRDNORM;
	if (unix_is_connected_type(u) && state == SS_FRESH)
		bits |= POLLHUP;
	if (writable(u) && peer_has_room(u))
		bits |= POLLOUT | POLLWRNORM | POLLWRBAND;
	return bits;
}

static u64 bytes_to_read(struct unix_sock *u)
{
	if (unix_is_stream(u))
		return __atomic_load_n(&u->read_bytes, __ATOMIC_RELAXED);
	spin_lock(&u->lock);
	struct unix_msg *m = first_message(u);
	u64 n = m ? m->len : 0;

	spin_unlock(&u->lock);
	return n;
}

long unix_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg)
{
	struct unix_sock *u = unix_sk(sock);

	switch (cmd) {
	case FIONREAD:
		if (READ_ONCE(sock->state) == SS_LISTENING)
			return -EINVAL;
		return put_user((int)bytes_to_read(u), (int __user *)arg);
	case TIOCOUTQ:
		return put_user((int)READ_ONCE(u->wmem), (int __user *)arg);
	default:
		return -ENOTTY;
	}
}
