/*
 * AF_UNIX sockets: creation, connections, and the end.
 *
 * Locks: sock.lock (sleeping) serialises bind, listen and connect of one socket. u->lock (spin) guards the queue and the state that
 * others look at; never are two of them held together. A connect holds its own sock.lock and the listener's u->lock, so two sockets that
 * connect to each other do not wait in a circle.
 */
#include "fs/unix.h"

#include "kernel/process.h"
#include "mm/slab.h"

static const struct socket_ops stream_ops, seqpacket_ops, dgram_ops;

static const struct socket_ops *ops_of(int type)
{
	switch (type) {
	case SOCK_STREAM:
		return &stream_ops;
	case SOCK_SEQPACKET:
		return &seqpacket_ops;
	case SOCK_DGRAM:
	case SOCK_RAW:		/* as Linux has it: another word for datagram */
		return &dgram_ops;
	default:
		return NULL;
	}
}

/* refs = 1. NULL: no memory. */
static struct unix_sock *unix_alloc(int type)
{
	struct unix_sock *u = kzalloc(sizeof(*u), GFP_KERNEL);

	if (!u)
		return NULL;
	socket_init(&u->sock, ops_of(type), AF_UNIX, type == SOCK_RAW ? SOCK_DGRAM : type, 0);
	refcount_set(&u->refs, 1);
	spin_lock_init(&u->lock, LOCK_UNIX);
	INIT_LIST_HEAD(&u->queue);
	INIT_LIST_HEAD(&u->pending);
	INIT_LIST_HEAD(&u->senders);
	INIT_LIST_HEAD(&u->sender_node);
	INIT_LIST_HEAD(&u->name_node);
	wait_queue_init(&u->room_wait);
	u->sock.peer_cred = (struct scm_cred){ 0, ~0u, ~0u };	/* nobody */
	return u;
}

struct socket *unix_create(int type, int protocol)
{
	if (protocol && protocol != AF_UNIX)
		return ERR_PTR(-EPROTONOSUPPORT);
	if (!ops_of(type))
		return ERR_PTR(-ESOCKTNOSUPPORT);
	struct unix_sock *u = unix_alloc(type);

	return u ? &u->sock : ERR_PTR(-ENOMEM);
}

void unix_get(struct unix_sock *u)
{
	refcount_inc(&u->refs);
}

void unix_put(struct unix_sock *u)
{
	if (!refcount_dec_and_test(&u->refs))
		return;
	if (u->addr)
		unix_addr_put(u->addr);
	if (u->path.dentry)
		path_put(&u->path);
	kfree(u);
}

/* -- the end -- */

/* The other side of a connection learns that this one is gone. @reset: with bytes that it had sent. */
static void hang_up(struct unix_sock *peer, bool reset)
{
	spin_lock(&peer->lock);
	peer->sock.shutdown = SHUT_BOTH;
	if (reset)
		WRITE_ONCE(peer->sock.err, ECONNRESET);
	spin_unlock(&peer->lock);
	sock_wake_all(&peer->sock);
}

/* Wakes those who are connected to @u, a datagram socket. */
static void wake_senders(struct unix_sock *u)
{
	struct unix_sock *s;

	spin_lock(&u->lock);
	list_for_each_entry(s, &u->senders, sender_node)
		sock_wake_writers(&s->sock);
	spin_unlock(&u->lock);
}

/* Takes @peer's place away; the reference is the caller's now, NULL if it was not the peer any more. */
static struct unix_sock *take_peer(struct unix_sock *u, struct unix_sock *peer)
{
	spin_lock(&u->lock);
	struct unix_sock *old = u->peer == peer ? peer : NULL;

	if (old)
		u->peer = NULL;
	spin_unlock(&u->lock);
	return old;
}

void unix_dgram_disconnect(struct unix_sock *u, struct unix_sock *peer)
{
	mutex_lock(&u->sock.lock);
	peer = take_peer(u, peer);
	if (peer) {
		spin_lock(&peer->lock);
		list_del_init(&u->sender_node);
		spin_unlock(&peer->lock);
		u->sock.state = SS_FRESH;
		unix_put(peer);
	}
	mutex_unlock(&u->sock.lock);
}

static void release(struct unix_sock *u, bool never_accepted)
{
	LIST_HEAD(queue);

	unix_unname(u);
	spin_lock(&u->lock);
	bool listener = u->sock.state == SS_LISTENING;
	struct unix_sock *peer = u->peer;

	u->dead = true;
	u->sock.shutdown = SHUT_BOTH;
	list_splice_init(&u->queue, &queue);
	u->nr_queued = 0;
	u->peer = NULL;
	spin_unlock(&u->lock);

	if (peer && unix_is_connected_type(u)) {
		hang_up(peer, never_accepted || !list_empty(&queue));
	} else if (peer) {
		spin_lock(&peer->lock);
		list_del_init(&u->sender_node);
		spin_unlock(&peer->lock);
	}
	wake_senders(u);
	__wake_up(&u->room_wait, TASK_NORMAL, 0, 0);
	if (listener) {
		struct unix_sock *child, *next;

		list_for_each_entry_safe(child, next, &queue, pending)
			release(child, true);		/* a connection has no connections of its own: no deeper than this */
	} else {
		unix_drop_messages(&queue);
	}
	if (peer)
		unix_put(peer);
	unix_put(u);
}

static void unix_release(struct socket *sock)
{
	release(unix_sk(sock), false);
}

static int unix_shutdown(struct socket *sock, unsigned int how)
{
	struct unix_sock *u = unix_sk(sock);

	spin_lock(&u->lock);
	u->sock.shutdown |= (u8)how;
	struct unix_sock *peer = unix_is_connected_type(u) ? u->peer : NULL;
	spin_unlock(&u->lock);
	sock_wake_all(sock);
	__wake_up(&u->room_wait, TASK_NORMAL, 0, 0);	/* a listener that reads no more: connects give up */
	if (!peer)
		return 0;
	/* What one side does not read the other cannot send, and the reverse. The peer stays: we hold it until release. */
	u8 mirrored = (u8)((how & SHUT_READ ? SHUT_WRITE : 0) | (how & SHUT_WRITE ? SHUT_READ : 0));

	spin_lock(&peer->lock);
	peer->sock.shutdown |= mirrored;
	spin_unlock(&peer->lock);
	sock_wake_all(&peer->sock);
	return 0;
}

/* -- pairs and connections -- */

static void cred_of_current(struct scm_cred *cred)
{
	const struct process *p = current->process;

	*cred = (struct scm_cred){ (u32)p->tgid, READ_ONCE(p->creds.euid), READ_ONCE(p->creds.egid) };
}

/* Both new, so nobody else sees them yet. */
int unix_socketpair(struct socket *a, struct socket *b)
{
	struct unix_sock *u = unix_sk(a), *v = unix_sk(b);

	unix_get(u);
	unix_get(v);
	u->peer = v;
	v->peer = u;
	a->state = b->state = SS_CONNECTED;
	cred_of_current(&a->peer_cred);
	cred_of_current(&b->peer_cred);
	if (!unix_is_connected_type(u)) {
		list_add(&u->sender_node, &v->senders);
		list_add(&v->sender_node, &u->senders);
	}
	return 0;
}

static int unix_listen(struct socket *sock, int backlog)
{
	struct unix_sock *u = unix_sk(sock);
	int err = -EINVAL;

	mutex_lock(&sock->lock);
	spin_lock(&u->lock);
	if (u->addr && (sock->state == SS_FRESH || sock->state == SS_LISTENING)) {
		sock->state = SS_LISTENING;
		u->backlog = (u32)backlog;
		cred_of_current(&sock->peer_cred);	/* what those who connect will see */
		err = 0;
	}
	spin_unlock(&u->lock);
	if (!err)
		__wake_up(&u->room_wait, TASK_NORMAL, 0, 0);	/* the backlog may have grown */
	mutex_unlock(&sock->lock);
	return err;
}

static bool backlog_full(const struct unix_sock *listener)
{
	return READ_ONCE(listener->nr_queued) > READ_ONCE(listener->backlog);
}

static bool is_listening(const struct unix_sock *u)
{
	return u->sock.state == SS_LISTENING && !u->dead && !(u->sock.shutdown & SHUT_READ);
}

/*
 * Puts @child into the queue of @listener as the other end of @u. u->sock.lock held, so @u's state is ours to change.
 * 0; -EAGAIN: the queue is full; -ECONNREFUSED.
 */
static int enqueue_connection(struct unix_sock *u, struct unix_sock *child, struct unix_sock *listener)
{
	int err = 0;

	spin_lock(&listener->lock);
	if (!is_listening(listener))
		err = -ECONNREFUSED;
	else if (backlog_full(listener))
		err = -EAGAIN;
	else if (u->sock.state == SS_CONNECTED)
		err = -EISCONN;
	else if (u->sock.state != SS_FRESH)
		err = -EINVAL;
	if (err)
		goto unlock;

	/* Nothing below this line can fail. */
	unix_get(u);
	unix_get(child);
	refcount_inc(&listener->addr->refs);
	child->peer = u;
	child->addr = listener->addr;
	child->sock.state = SS_CONNECTED;
	child->sock.options = listener->sock.options & BIT(SO_PASSCRED);
	cred_of_current(&child->sock.peer_cred);
	u->sock.peer_cred = listener->sock.peer_cred;
	WRITE_ONCE(u->sock.state, SS_CONNECTED);
	__atomic_store_n(&u->peer, child, __ATOMIC_RELEASE);	/* senders look without a lock: unix_stream_send() */
	list_add_tail(&child->pending, &listener->queue);
	listener->nr_queued++;
unlock:
	spin_unlock(&listener->lock);
	return err;
}

/* One attempt. -EAGAIN: *full is the listener to wait for, counted. */
static int try_connect(struct unix_sock *u, struct unix_sock *child, const struct sock_addr *addr, struct unix_sock **full)
{
	struct unix_sock *listener = unix_find(addr, u->sock.type);

	if (IS_ERR(listener))
		return (int)PTR_ERR(listener);
	mutex_lock(&u->sock.lock);
	int err = enqueue_connection(u, child, listener);

	mutex_unlock(&u->sock.lock);
	if (err == -EAGAIN) {
		*full = listener;
		return err;
	}
	if (!err)
		sock_wake_readers(&listener->sock);
	unix_put(listener);
	return err;
}

static int unix_stream_connect(struct socket *sock, const struct sock_addr *addr, bool nonblock)
{
	struct unix_sock *u = unix_sk(sock), *listener = NULL;
	struct unix_sock *child = unix_alloc(sock->type);
	u64 deadline = sock_deadline(READ_ONCE(sock->sndtimeo));
	int err;

	if (!child)
		return -ENOMEM;
	while ((err = try_connect(u, child, addr, &listener)) == -EAGAIN) {
		int wait = nonblock ? -EAGAIN : sock_wait(&listener->room_wait, !backlog_full(listener) || !is_listening(listener), true, deadline);

		unix_put(listener);
		if (wait) {
			err = wait;
			break;
		}
	}
	if (err)
		unix_put(child);
	return err;
}

/* The queue has become shorter: one connect, or one sender, may go on. */
static struct socket *unix_accept(struct socket *sock, bool nonblock)
{
	struct unix_sock *u = unix_sk(sock), *child;
	u64 deadline = sock_deadline(READ_ONCE(sock->rcvtimeo));

	for (;;) {
		spin_lock(&u->lock);
		int err = u->sock.state != SS_LISTENING || (u->sock.shutdown & SHUT_READ) ? -EINVAL : 0;

		child = list_first_entry_or_null(&u->queue, struct unix_sock, pending);
		if (err)
			child = NULL;
		if (child) {
			list_del_init(&child->pending);
			u->nr_queued--;
		}
		spin_unlock(&u->lock);
		if (child)
			break;
		if (!err)
			err = nonblock ? -EAGAIN : sock_wait(&sock->rd_wait, READ_ONCE(u->nr_queued) || (READ_ONCE(sock->shutdown) & SHUT_READ),
							     true, deadline);
		if (err)
			return ERR_PTR(err);
	}
	wake_up(&u->room_wait);
	return &child->sock;
}

/* -- datagrams: connecting only chooses whom to send to and whom to hear -- */

struct unix_sock *unix_peer_get(struct unix_sock *u)
{
	spin_lock(&u->lock);
	struct unix_sock *peer = u->peer;

	if (peer)
		unix_get(peer);
	spin_unlock(&u->lock);
	return peer;
}

/* @peer, counted, takes the place of the old peer; NULL: none. sock.lock held. */
static void change_peer(struct unix_sock *u, struct unix_sock *peer)
{
	struct unix_sock *old;

	spin_lock(&u->lock);
	old = u->peer;
	u->peer = peer;
	u->sock.state = peer ? SS_CONNECTED : SS_FRESH;
	spin_unlock(&u->lock);
	if (old) {
		spin_lock(&old->lock);
		list_del_init(&u->sender_node);
		spin_unlock(&old->lock);
	}
	if (peer) {
		spin_lock(&peer->lock);
		list_add(&u->sender_node, &peer->senders);
		spin_unlock(&peer->lock);
	}
	if (old)
		unix_put(old);
}

/* Does @to take messages from @from? A connected socket hears its peer only. */
static bool may_send(struct unix_sock *from, struct unix_sock *to)
{
	spin_lock(&to->lock);
	bool ok = !to->peer || to->peer == from;

	spin_unlock(&to->lock);
	return ok;
}

static int unix_dgram_connect(struct socket *sock, const struct sock_addr *addr, bool nonblock)
{
	struct unix_sock *u = unix_sk(sock), *peer = NULL;

	(void)nonblock;
	if (addr->len < sizeof(addr->family))
		return -EINVAL;
	if (addr->family != AF_UNSPEC) {
		peer = unix_find(addr, sock->type);
		if (IS_ERR(peer))
			return (int)PTR_ERR(peer);
		if (!may_send(u, peer)) {
			unix_put(peer);
			return -EPERM;
		}
	}
	mutex_lock(&sock->lock);
	change_peer(u, peer);
	mutex_unlock(&sock->lock);
	return 0;
}

/* -- names -- */

static int unix_getname(struct socket *sock, struct sock_addr *addr, bool peer)
{
	struct unix_sock *u = unix_sk(sock), *of = u;

	if (peer) {
		of = unix_peer_get(u);
		if (!of)
			return -ENOTCONN;
	}
	unix_name_of(of, addr);
	if (peer)
		unix_put(of);
	return 0;
}

static const struct socket_ops stream_ops = {
	.bind = unix_bind,
	.connect = unix_stream_connect,
	.listen = unix_listen,
	.accept = unix_accept,
	.shutdown = unix_shutdown,
	.getname = unix_getname,
	.send = unix_stream_send,
	.recv = unix_stream_recv,
	.poll = unix_poll,
	.ioctl = unix_ioctl,
	.release = unix_release,
};

static const struct socket_ops seqpacket_ops = {
	.bind = unix_bind,
	.connect = unix_stream_connect,
	.listen = unix_listen,
	.accept = unix_accept,
	.shutdown = unix_shutdown,
	.getname = unix_getname,
	.send = unix_seqpacket_send,
	.recv = unix_seqpacket_recv,
	.poll = unix_poll,
	.ioctl = unix_ioctl,
	.release = unix_release,
};

static const struct socket_ops dgram_ops = {
	.bind = unix_bind,
	.connect = unix_dgram_connect,
	.shutdown = unix_shutdown,
	.getname = unix_getname,
	.send = unix_dgram_send,
	.recv = unix_dgram_recv,
	.poll = unix_poll,
	.ioctl = unix_ioctl,
	.release = unix_release,
};
