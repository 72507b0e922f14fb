/*
 * Families that a server backs: who serves, how it is asked, and what survives it.
 *
 * A socket outlives its server. What the kernel remembers of it (type, options, bind, listen, a datagram socket's peer) is told to a new
 * server before anything else is asked about that socket (introduce()): by the claim for all sockets, so that those who only poll
 * are heard of too, and by the next call for one that the claim has missed. Both hold the socket's lock, and s->generation says
 * which server knows it.
 */
#include "fs/socket_server.h"

#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"

static struct family families[AF_MAX];
static u64 last_id;			/* atomic */

struct family *family_get(int number)
{
	static struct spinlock setup_lock = SPINLOCK_INIT(LOCK_FAMILY_IDS);

	if (number <= 0 || number >= AF_MAX)
		return NULL;
	struct family *f = &families[number];

	spin_lock(&setup_lock);
	if (!f->number) {
		mutex_init(&f->claim_lock, LOCK_FAMILY);
		spin_lock_init(&f->lock, LOCK_FAMILY_IDS);
		wait_queue_init(&f->arrival);
		for (u32 i = 0; i < ID_BUCKETS; i++)
			INIT_LIST_HEAD(&f->ids[i]);
		f->number = number;
	}
	spin_unlock(&setup_lock);
	return f;
}

/* -- sockets by id -- */

struct server_sock *server_sock_new(struct family *f, int type, int protocol, const struct socket_ops *ops)
{
	struct server_sock *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (!s)
		return NULL;
	socket_init(&s->sock, ops, f->number, type, protocol);
	refcount_set(&s->refs, 1);
	s->family = f;
	s->backlog = -1;
	s->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	spin_lock(&f->lock);
	list_add(&s->node, &f->ids[s->id % ID_BUCKETS]);
	spin_unlock(&f->lock);
	return s;
}

void server_sock_put(struct server_sock *s)
{
	if (!refcount_dec_and_test(&s->refs))
		return;
	kfree(s->bound);
	kfree(s->peer);
	kfree(s->options);
	kfree(s);
}

/* family->lock held. Counted, or NULL. */
static struct server_sock *find_locked(struct family *f, u64 id)
{
	struct server_sock *s;

	list_for_each_entry(s, &f->ids[id % ID_BUCKETS], node) {
		if (s->id == id) {
			refcount_inc(&s->refs);
			return s;
		}
	}
	return NULL;
}

/* -- readiness -- */

/* Any context that may take a wait queue's lock; the port's lock is held when an answer brings it. */
void set_ready(struct server_sock *s, u32 ready, int error)
{
	struct socket *sock = &s->sock;

	if (READ_ONCE(s->broken))
		return;
	if (error > 0 && error < 4096)
		WRITE_ONCE(sock->err, error);
	WRITE_ONCE(s->ready, (ready & (FL_READY_IN | FL_READY_PRI | FL_READY_OUT | FL_READY_ERR | FL_READY_HUP | FL_READY_RDHUP)) | FL_READY_VALID);
	if (READ_ONCE(sock->state) == SS_CONNECTING) {
		if (error > 0 || (ready & (FL_READY_ERR | FL_READY_HUP)))
			WRITE_ONCE(sock->state, SS_FRESH);
		else if (ready & FL_READY_OUT)
			WRITE_ONCE(sock->state, SS_CONNECTED);
	}
	sock_wake_all(sock);
}

struct server_call { struct port_call call; struct server_sock *s; };

static void answer_came(struct port_call *call)
{
	struct server_call *sc = container_of(call, struct server_call, call);
	struct fl_ans ans;

	memcpy(&ans, call->word, sizeof(ans));
	if (ans.ready & FL_READY_VALID)
		set_ready(sc->s, ans.ready, ans.error);
}

SYSCALL_DEFINE(family_ready, int fd, const struct fl_ready __user *uvec, unsigned int n)
{
	struct fl_ready v[FL_READY_MAX];
	struct fd_ref ref = fdget(fd);
	struct port *p = ref.file ? file_port(ref.file, true) : NULL;
	int err = !ref.file ? -EBADF : !p || n > FL_READY_MAX ? -EINVAL : copy_in(v, uvec, n * sizeof(v[0]));

	for (unsigned int i = 0; !err && i < n; i++) {
		for (int number = 1; number < AF_MAX; number++) {
			struct family *f = &families[number];
			struct server_sock *s;

			if (READ_ONCE(f->port) != p)
				continue;
			spin_lock(&f->lock);
			s = f->port == p ? find_locked(f, v[i].id) : NULL;
			spin_unlock(&f->lock);
			if (s) {
				set_ready(s, v[i].ready, v[i].error);
				server_sock_put(s);
				break;
			}
		}
	}
	fdput(ref);
	return err;
}

/* -- messages that nobody waits for -- */

/* 0, -ENOMEM, -EPIPE. May sleep. */
static int post(struct port *p, const struct fl_req *req, const void *data, u32 len)
{
	struct port_call *call = kmalloc(sizeof(*call), GFP_KERNEL);

	if (!call)
		return -ENOMEM;
	port_call_init(call);
	_Static_assert(sizeof(call->word) == sizeof(*req), "words");
	memcpy(call->word, req, sizeof(call->word));
	if (len) {
		call->payload = port_payload_alloc(len);
		if (!call->payload) {
			kfree(call);
			return -ENOMEM;
		}
		memcpy(call->payload->data, data, len);
	}
	return port_post(p, call);
}

/* Tells the server of @gen what the kernel remembers of @s. sock.lock held. 0, -ENOMEM, -EPIPE. */
static int introduce(struct server_sock *s, struct port *p, u64 gen)
{
	struct fl_req req = { .op = FL_OP_SOCKET, .flags = FL_REQ_REPLAY, .id = s->id };
	int err = 0;

	if (s->generation == gen || READ_ONCE(s->broken))
		return 0;
	WRITE_ONCE(s->ready, 0);
	req.arg[0] = s->sock.family;
	req.arg[1] = s->sock.type;
	req.arg[2] = s->sock.protocol;
	err = post(p, &req, NULL, 0);
	for (u32 i = 0; !err && i < s->nr_options; i++) {
		struct option *o = &s->options[i];

		req = (struct fl_req){ .op = FL_OP_SETOPT, .flags = FL_REQ_REPLAY | FL_REQ_PRIVILEGED, .id = s->id, .arg = { o->level, o->name }, .size = o->len };
		err = post(p, &req, o->value, o->len);
	}
	if (!err && s->bound) {
		req = (struct fl_req){ .op = FL_OP_BIND, .flags = FL_REQ_REPLAY, .id = s->id, .addr_len = s->bound->len };
		err = post(p, &req, s->bound->bytes, s->bound->len);
	}
	if (!err && s->backlog >= 0) {
		req = (struct fl_req){ .op = FL_OP_LISTEN, .flags = FL_REQ_REPLAY, .id = s->id, .arg = { s->backlog } };
		err = post(p, &req, NULL, 0);
	}
	if (!err && s->peer) {
		req = (struct fl_req){ .op = FL_OP_CONNECT, .flags = FL_REQ_REPLAY, .id = s->id, .addr_len = s->peer->len };
		err = post(p, &req, s->peer->bytes, s->peer->len);
	}
	if (!err)
		s->generation = gen;
	return err;
}

void post_close(struct server_sock *s)
{
	struct family *f = s->family;
	struct fl_req req = { .op = FL_OP_CLOSE, .id = s->id };

	spin_lock(&f->lock);
	list_del_init(&s->node);
	struct port *p = s->generation && s->generation == f->generation ? (f->port ? f->port : f->claiming) : NULL;

	if (p)
		port_get(p);
	spin_unlock(&f->lock);
	if (p) {
		(void)post(p, &req, NULL, 0);	/* without memory the server keeps a socket too long: no harm to anybody else */
		port_put(p);
	}
}

/* -- asking -- */

/* The server there is now, counted, or the next one. -ENETDOWN after a while, -ERESTARTSYS. */
static int current_port(struct family *f, struct port **p, u64 *gen)
{
	for (;;) {
		spin_lock(&f->lock);
		*p = f->port;
		*gen = f->generation;
		if (*p)
			port_get(*p);
		spin_unlock(&f->lock);
		if (*p)
			return 0;
		int err = wait_event_interruptible_timeout(&f->arrival, READ_ONCE(f->port), SERVER_WAIT_NS);

		if (err)
			return err == -ETIMEDOUT ? -ENETDOWN : err;
	}
}

static struct port_payload *request_payload(const struct question *q)
{
	u32 n = q->req.addr_len + q->data_len;
	struct port_payload *pl = port_payload_alloc(n);

	if (pl) {
		memcpy(pl->data, q->addr, q->req.addr_len);
		memcpy(pl->data + q->req.addr_len, q->data, q->data_len);
	}
	return pl;
}

/* One attempt, with the server at @p. */
static int ask_port(struct server_sock *s, struct port *p, struct question *q)
{
	struct server_call sc = { .s = s };
	int err = 0;

	port_call_init(&sc.call);
	sc.call.replied = answer_came;
	sc.call.room = FL_INLINE_MAX;
	memcpy(sc.call.word, &q->req, sizeof(sc.call.word));
	if (q->req.addr_len + q->data_len) {
		sc.call.payload = request_payload(q);
		if (!sc.call.payload)
			return -ENOBUFS;
	}
	if (q->bulk) {
		sc.call.lent = port_lent_kernel(q->bulk, q->bulk_len, q->bulk_rights);
		if (IS_ERR(sc.call.lent)) {
			port_payload_free(sc.call.payload);
			return -ENOBUFS;
		}
	}
	err = port_call(p, &sc.call, SERVER_WAIT_NS, TASK_KILLABLE);
	port_lent_put(sc.call.lent);
	if (err)
		return err == -ETIMEDOUT ? -EIO : err;
	memcpy(&q->ans, sc.call.word, sizeof(q->ans));
	q->reply = sc.call.payload;
	return 0;
}

/* What a server says is not believed before this: lengths within what came, errors that are errors. */
static int check_answer(const struct question *q)
{
	u32 len = q->reply ? q->reply->len : 0;

	if (q->ans.addr_len > len || q->ans.addr_len > sizeof(((struct sock_addr *)0)->bytes))
		return -EIO;
	if (q->ans.result < -4095 || q->ans.result > INT32_MAX)
		return -EIO;
	if (q->ans.result < 0)
		return q->ans.result <= -ERESTARTSYS ? -EIO : (int)q->ans.result;
	return 0;
}

int ask(struct server_sock *s, struct question *q, bool locked)
{
	q->req.id = s->id;
	for (;;) {
		struct port *p;
		u64 gen;
		int err = current_port(s->family, &p, &gen);

		if (err)
			return err;
		if (q->req.op == FL_OP_SOCKET) {
			s->generation = gen;		/* new: this question is its introduction */
		} else if (READ_ONCE(s->generation) != gen) {
			if (!locked)
				mutex_lock(&s->sock.lock);
			err = introduce(s, p, gen);
			if (!locked)
				mutex_unlock(&s->sock.lock);
		}
		if (!err && READ_ONCE(s->broken))
			err = -EPIPE;
		else if (!err)
			err = ask_port(s, p, q);
		port_put(p);
		if (err == -EPIPE && !READ_ONCE(s->broken) && q->again)
			continue;		/* it died under the question; the next one will know */
		if (err)
			return err == -EPIPE ? (READ_ONCE(s->broken) ? -ECONNRESET : -ENETDOWN) : err;
		err = check_answer(q);
		if (err)
			question_end(q);
		return err;
	}
}

void question_end(struct question *q)
{
	port_payload_free(q->reply);
	q->reply = NULL;
}

const u8 *reply_data(const struct question *q, u32 *n)
{
	*n = q->reply ? q->reply->len - q->ans.addr_len : 0;
	return q->reply ? q->reply->data + q->ans.addr_len : NULL;
}

void reply_addr(const struct question *q, struct sock_addr *addr)
{
	memset(addr, 0, sizeof(*addr));
	addr->len = q->ans.addr_len;
	if (addr->len)
		memcpy(addr->bytes, q->reply->data, addr->len);
}

/* -- claims, and their end -- */

/* A socket of @f that the server of @gen does not know yet, counted; NULL: none. */
static struct server_sock *next_unknown(struct family *f, u64 gen)
{
	struct server_sock *s, *found = NULL;

	spin_lock(&f->lock);
	for (u32 i = 0; i < ID_BUCKETS && !found; i++) {
		list_for_each_entry(s, &f->ids[i], node) {
			if (s->generation && s->generation != gen && !READ_ONCE(s->broken)) {
				refcount_inc(&s->refs);
				found = s;
				break;
			}
		}
	}
	spin_unlock(&f->lock);
	return found;
}

/* All that earlier servers knew. Those that nobody has heard of yet introduce themselves with their first call. */
static int introduce_all(struct family *f, struct port *p, u64 gen)
{
	struct server_sock *s;
	int err = 0;

	while (!err && (s = next_unknown(f, gen))) {
		mutex_lock(&s->sock.lock);
		err = introduce(s, p, gen);
		mutex_unlock(&s->sock.lock);
		server_sock_put(s);
	}
	return err;
}

/* The server has gone: connections end, everything else waits for the next. */
static void server_died(struct port_owner *owner)
{
	struct family *f = container_of(owner, struct family, owner);
	struct server_sock *s;

	spin_lock(&f->lock);
	struct port *p = f->port;

	f->port = NULL;
	for (u32 i = 0; i < ID_BUCKETS; i++) {
		list_for_each_entry(s, &f->ids[i], node) {
			u8 state = READ_ONCE(s->sock.state);

			if (s->sock.type != SOCK_STREAM || (state != SS_CONNECTED && state != SS_CONNECTING)) {
				WRITE_ONCE(s->ready, 0);
				continue;
			}
			WRITE_ONCE(s->sock.err, ECONNRESET);
			WRITE_ONCE(s->ready, FL_READY_VALID | FL_READY_IN | FL_READY_OUT | FL_READY_ERR | FL_READY_HUP | FL_READY_RDHUP);
			WRITE_ONCE(s->broken, true);
			sock_wake_all(&s->sock);
		}
	}
	spin_unlock(&f->lock);
	if (p)
		port_put(p);
}

static int claim(struct family *f, struct port *p)
{
	struct fl_req hello = { .op = FL_OP_HELLO, .arg = { FL_SERVER_VERSION, f->number } };
	int err = 0;

	mutex_lock(&f->claim_lock);
	if (READ_ONCE(f->port)) {
		err = READ_ONCE(f->port) == p ? -EALREADY : -EBUSY;
		goto unlock;
	}
	spin_lock(&f->lock);
	u64 gen = ++f->generation;		/* also if the claim fails: what was told to this port must not be taken for told to the next */

	f->claiming = p;
	spin_unlock(&f->lock);
	err = post(p, &hello, NULL, 0);
	if (!err)
		err = introduce_all(f, p, gen);
	f->owner.died = server_died;
	if (!err)
		err = port_add_owner(p, &f->owner);	/* we hold its descriptor: it cannot die before we are through */
	if (!err)
		port_get(p);
	spin_lock(&f->lock);
	f->claiming = NULL;
	if (!err)
		f->port = p;
	spin_unlock(&f->lock);
	__wake_up(&f->arrival, TASK_NORMAL, 0, 0);
unlock:
	mutex_unlock(&f->claim_lock);
	return err;
}

SYSCALL_DEFINE(family_claim, int fd, int number)
{
	struct fd_ref ref = fdget(fd);
	struct port *p = ref.file ? file_port(ref.file, true) : NULL;
	struct family *f = family_get(number);
	int err = -EBADF;

	if (ref.file)
		err = !capable(CAP_NET_ADMIN) ? -EPERM : !p || !f || number == AF_UNIX ? -EINVAL : claim(f, p);
	fdput(ref);
	return err;
}
