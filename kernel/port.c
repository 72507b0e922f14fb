/*
 * Ports: how a call gets from one task to another and back.
 *
 * The short way. A server that waits lies in port->idle. A caller that finds one there gives it the words, goes to sleep and
 * hands its CPU over: schedule_to() switches without a choice and without the run queue's heap. The server replies and waits
 * again in one system call, and hands the CPU back the same way. The server runs in the caller's time slice, and what it uses
 * counts for the caller (kernel/sched.c, try_hand_over()). For words alone kernel/port_words.c does the same in fewer steps.
 *
 * Two rules that are easy to break:
 *
 *	A sleeper sets its state before it can be found in a list of the port, else the other side's wake-up is lost.
 *
 *	A record of a waiter leaves its list only when the operation has succeeded: a reply that is too long leaves the call where
 *	it is.
 *
 * Several CPUs: everything a call writes lies in the port, in the two tasks and on their stacks. Two pairs on two ports share
 * no line that is written.
 */
#include "kernel/port_internal.h"

#include "kernel/errno.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "mm/slab.h"

/* -- life -- */

static struct port *port_alloc(void)
{
	struct port *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return NULL;
	spin_lock_init(&p->lock, LOCK_PORT);
	INIT_LIST_HEAD(&p->idle);
	INIT_LIST_HEAD(&p->queue);
	INIT_LIST_HEAD(&p->owners);
	for (unsigned int i = 0; i < NR_TOKEN_LISTS; i++)
		INIT_LIST_HEAD(&p->delivered[i]);
	wait_queue_init(&p->wait);
	refcount_set(&p->refs, 1);
	return p;
}

void port_get(struct port *p)
{
	refcount_inc(&p->refs);
}

void port_put(struct port *p)
{
	if (refcount_dec_and_test(&p->refs))
		kfree(p);
}

static struct file *port_file(struct port *p, bool receiving)
{
	struct file *f = anon_file_create(receiving ? "[port:receive]" : "[port:call]", receiving ? &port_receive_fops : &port_call_fops, p, O_RDWR);

	if (!IS_ERR(f)) {
		port_get(p);
		if (!receiving)
			__atomic_fetch_add(&p->nr_callers, 1, __ATOMIC_RELAXED);
	}
	return f;
}

int port_create_files(struct file *ends[2])
{
	struct port *p = port_alloc();

	if (!p)
		return -ENOMEM;
	ends[0] = port_file(p, true);
	ends[1] = IS_ERR(ends[0]) ? ends[0] : port_file(p, false);
	if (IS_ERR(ends[1]) && !IS_ERR(ends[0]))
		file_put(ends[0]);
	port_put(p);
	return IS_ERR(ends[1]) ? (int)PTR_ERR(ends[1]) : 0;
}

struct port *file_port(struct file *f, bool receiving)
{
	return f->ops == (receiving ? &port_receive_fops : &port_call_fops) ? f->private : NULL;
}

struct port_payload *port_payload_alloc(u32 len)
{
	struct port_payload *pl = kmalloc(sizeof(*pl) + len, GFP_KERNEL);

	if (pl) {
		pl->len = len;
		pl->nr_files = 0;
	}
	return pl;
}

void port_payload_free(struct port_payload *pl)
{
	if (!pl)
		return;
	for (u32 i = 0; i < pl->nr_files; i++)
		file_put(pl->file[i]);
	kfree(pl);
}

/* -- the two sides meet. All with the port's lock held -- */

static bool more_than_words(const struct port_call *call)
{
	return call->payload || call->lent;
}

/* The server has it from here. @call is off the queue; a one-way call is used up, and the caller's to free. */
static void deliver_locked(struct port *p, struct port_call *call, struct port_received *r)
{
	words_move(r->frame, r->word, call->frame, call->word);
	r->payload = call->payload;
	r->lent_len = call->lent ? call->lent->len : 0;
	r->lent_rights = call->lent ? call->lent->rights : 0;
	r->pid = call->pid;
	r->uid = call->uid;
	r->gid = call->gid;
	call->payload = NULL;
	if (call->one_way) {
		r->token = 0;
		return;
	}
	call->state = CALL_DELIVERED;
	r->token = call->token = ++p->last_token;
	list_add(&call->node, token_list(p, call->token));
}

/*
 * Gives @call to an idle server or puts it into the queue. The server's task, to be woken (it stays valid while preemption is off), or
 * NULL. -EPIPE in *err: nobody will ever receive.
 */
static struct task *send_locked(struct port *p, struct port_call *call, int *err)
{
	*err = p->dead ? -EPIPE : 0;
	if (p->dead)
		return NULL;
	struct idle_server *s = list_first_entry_or_null(&p->idle, struct idle_server, node);
	struct task *server = s ? s->task : NULL;

	if (likely(s) && !(s->r->frame && more_than_words(call))) {
		s->result = 0;
		deliver_locked(p, call, s->r);
	} else {
		call->state = CALL_QUEUED;
		list_add_tail(&call->node, &p->queue);
		if (s)
			s->result = -EMSGSIZE;	/* it cannot take this one, and comes back for it with the long form */
	}
	/* Last: once it is off the list it may go on, and its record is on its stack. is_served() is the other side. */
	if (s) {
		barrier();
		list_del_init(&s->node);
	}
	return server;
}

/* -- calling -- */

void port_call_init(struct port_call *call)
{
	const struct process *proc = current->process;

	call->state = CALL_NEW;
	call->one_way = false;
	call->frame = NULL;
	call->result = 0;
	call->room = 0;
	call->payload = NULL;
	call->lent = NULL;
	call->replied = NULL;
	call->of = NULL;
	call->caller = current;
	call->pid = (u32)proc->tgid;
	call->uid = READ_ONCE(proc->creds.euid);
	call->gid = READ_ONCE(proc->creds.egid);
}

/* Takes back a call that is not DONE. False: it is. */
static bool take_back(struct port *p, struct port_call *call, struct port_payload **payload, bool *was_queued)
{
	spin_lock(&p->lock);
	bool mine = call->state != CALL_DONE;

	if (mine) {
		*was_queued = call->state == CALL_QUEUED;
		*payload = call->payload;
		call->payload = NULL;
		list_del(&call->node);
		call->state = CALL_DONE;
	}
	spin_unlock(&p->lock);
	return mine;
}

/* A wake-up that was not the reply: time is up, or a signal. 0: go on sleeping. */
static int why_awake(unsigned int state, u64 deadline)
{
	if (deadline != UINT64_MAX && ktime_get_ns() >= deadline)
		return -ETIMEDOUT;
	if (state == TASK_INTERRUPTIBLE ? signal_pending() : fatal_signal_pending())
		return -EINTR;
	return 0;
}

static __noinline int give_up(struct port *p, struct port_call *call, int err)
{
	struct port_payload *payload = NULL;
	bool was_queued;

	if (!take_back(p, call, &payload, &was_queued))
		return call->result;
	if (call->lent)
		port_lent_revoke(call->lent);
	port_payload_free(payload);
	/* Nobody has seen it: the same call may be made again after the signal. */
	return err == -EINTR && was_queued ? -ERESTARTSYS : err;
}

/* Sleeps and gives the CPU to @t, if that waits for us. Preemption is off on entry, on when it returns. */
static void hand_over(struct task *t, unsigned int mode, u64 deadline)
{
	if (deadline == UINT64_MAX) {
		schedule_to(t, mode);
		return;
	}
	timer_arm(&current->sleep_timer, deadline);
	schedule_to(t, mode);
	timer_cancel(&current->sleep_timer);
}

int port_await_reply(struct port *p, struct port_call *call, unsigned int state, u64 deadline)
{
	int err;

	while (!is_done(call)) {
		err = why_awake(state, deadline);
		if (err)
			return give_up(p, call, err);
		set_current_state(state);
		if (is_done(call))
			break;
		schedule_until(deadline);
	}
	WRITE_ONCE(current->state, TASK_RUNNING);
	return call->result;
}

int port_call(struct port *p, struct port_call *call, s64 timeout, unsigned int state)
{
	u64 deadline = timeout < 0 ? UINT64_MAX : ktime_get_ns() + (u64)timeout;
	int err;

	preempt_disable();			/* keeps the server's task, and the CPU that we hand over */
	set_current_state(state);
	spin_lock(&p->lock);
	struct task *server = send_locked(p, call, &err);

	spin_unlock(&p->lock);
	if (unlikely(err)) {
		preempt_enable();
	} else if (likely(server)) {
		hand_over(server, TASK_INTERRUPTIBLE, deadline);
	} else {
		preempt_enable();
		if (READ_ONCE(p->polled))
			wake_up_poll(&p->wait, POLLIN | POLLRDNORM);
		schedule_until(deadline);
	}
	if (likely(!err))
		err = port_await_reply(p, call, state, deadline);
	if (unlikely(err)) {
		WRITE_ONCE(current->state, TASK_RUNNING);
		port_payload_free(call->payload);
		call->payload = NULL;
	}
	return err;
}

/* Without waiting for anything. *queued: no server has taken it yet; of a one-way call it may not be looked at any more. */
static int send_and_go_on(struct port *p, struct port_call *call, bool *queued)
{
	int err;

	preempt_disable();
	spin_lock(&p->lock);
	struct task *server = send_locked(p, call, &err);

	*queued = !err && call->state == CALL_QUEUED;
	spin_unlock(&p->lock);
	if (server)
		wake_up_state(server, TASK_INTERRUPTIBLE);
	preempt_enable();
	if (!err && READ_ONCE(p->polled))
		wake_up_poll(&p->wait, POLLIN | POLLRDNORM);
	return err;
}

int port_post(struct port *p, struct port_call *call)
{
	bool queued;

	call->one_way = true;
	int err = send_and_go_on(p, call, &queued);

	if (err)
		port_payload_free(call->payload);
	if (!queued)
		kfree(call);
	return err;
}

int port_send(struct port *p, struct port_call *call)
{
	bool queued;

	call->caller = NULL;
	return send_and_go_on(p, call, &queued);
}

/* -- receiving -- */

/* From the queue. 0, -EMSGSIZE, -EPIPE; -EAGAIN: empty, and @s (if not NULL) waits in the list of idle servers now. */
static int receive_or_queue(struct port *p, struct port_received *r, struct idle_server *s)
{
	struct port_call *used_up = NULL;
	int err = 0;

	spin_lock(&p->lock);
	struct port_call *call = list_first_entry_or_null(&p->queue, struct port_call, node);

	if (!call) {
		err = -EAGAIN;
		if (s)
			list_add(&s->node, &p->idle);
	} else if (r->frame && more_than_words(call)) {
		err = -EMSGSIZE;
	} else {
		list_del_init(&call->node);
		deliver_locked(p, call, r);
		if (call->one_way)
			used_up = call;
	}
	spin_unlock(&p->lock);
	if (used_up)
		kfree(used_up);
	return err;
}

/* Out of the list of idle servers. False: a caller has been quicker, and r is filled in (or result says why not). */
static bool leave_idle(struct port *p, struct idle_server *s)
{
	spin_lock(&p->lock);
	bool left = !list_empty(&s->node);

	if (left)
		list_del_init(&s->node);
	spin_unlock(&p->lock);
	return left;
}

int port_await_call(struct port *p, struct idle_server *s, bool restart, u64 deadline)
{
	while (!is_served(s)) {
		int err = why_awake(TASK_INTERRUPTIBLE, deadline);

		if (err && leave_idle(p, s)) {
			set_current_state(TASK_RUNNING);
			return err == -EINTR && restart ? -ERESTARTSYS : err;
		}
		set_current_state(TASK_INTERRUPTIBLE);
		if (is_served(s))
			break;
		schedule_until(deadline);
	}
	WRITE_ONCE(current->state, TASK_RUNNING);
	return s->result;
}

/* @next: a caller whose call was just answered, and who gets our CPU; NULL: nobody. Preemption is off if @next, on when it returns. */
static int receive_after(struct port *p, struct port_received *r, s64 timeout, struct task *next)
{
	struct idle_server s = { .task = current, .r = r };

	INIT_LIST_HEAD(&s.node);
	if (timeout)
		set_current_state(TASK_INTERRUPTIBLE);
	int err = receive_or_queue(p, r, timeout ? &s : NULL);

	if (err == -EAGAIN && timeout) {
		u64 deadline = timeout < 0 ? UINT64_MAX : ktime_get_ns() + (u64)timeout;

		if (next)
			hand_over(next, CALLER_SLEEPS, deadline);
		else
			schedule_until(deadline);
		return port_await_call(p, &s, timeout < 0, deadline);
	}
	if (timeout)
		set_current_state(TASK_RUNNING);
	if (next) {
		wake_up_state(next, CALLER_SLEEPS);
		preempt_enable();
	}
	return err;
}

int port_receive(struct port *p, struct port_received *r, s64 timeout)
{
	return receive_after(p, r, timeout, NULL);
}

/* -- replying -- */

static bool fits(const struct port_call *call, const struct port_payload *payload)
{
	return !payload || (!call->frame && payload->len <= call->room);
}

/* What a reply says. */
struct answer { u64 token; int result; const struct trap_frame *frame; const u64 *word; struct port_payload *payload; };

/* Off the lists, with result and answer in place. Lock held. */
static void done_locked(struct port_call *call)
{
	if (!call->caller) {
		call->state = CALL_DONE;
		call->replied(call);		/* may free it */
		return;
	}
	if (call->replied)
		call->replied(call);
	/* Last: from here the caller may return, and its stack with the record. */
	__atomic_store_n(&call->state, CALL_DONE, __ATOMIC_RELEASE);
}

/* 0 and the task to wake (NULL: nobody), for as long as preemption is off; -ESRCH, -EMSGSIZE. */
static int finish_call(struct port *p, const struct answer *a, struct task **caller)
{
	int err = 0;

	spin_lock(&p->lock);
	struct port_call *call = find_locked(p, a->token);

	if (!call)
		err = -ESRCH;
	else if (!fits(call, a->payload))
		err = -EMSGSIZE;
	if (err)
		goto unlock;

	/* Nothing below this line can fail. */
	list_del(&call->node);
	if (!a->result)
		words_move(call->frame, call->word, a->frame, a->word);
	call->payload = a->payload;
	call->result = a->result;
	*caller = call->caller;
	if (call->lent)
		port_lent_revoke(call->lent);
	done_locked(call);
unlock:
	spin_unlock(&p->lock);
	return err;
}

static int answer(struct port *p, const struct answer *a)
{
	struct task *caller;

	preempt_disable();
	int err = finish_call(p, a, &caller);

	if (!err && caller)
		wake_up_state(caller, CALLER_SLEEPS);
	preempt_enable();
	return err;
}

int port_reply(struct port *p, u64 token, const u64 word[FL_WORDS], struct port_payload *payload)
{
	struct answer a = { .token = token, .word = word, .payload = payload };

	return answer(p, &a);
}

void port_refuse(struct port *p, u64 token, int error)
{
	struct answer a = { .token = token, .result = error };

	(void)answer(p, &a);
}

int port_reply_receive(struct port *p, u64 token, struct port_received *r, struct port_payload *payload, s64 timeout)
{
	struct task *caller = NULL;

	preempt_disable();
	struct answer a = { .token = token, .frame = r->frame, .word = r->word, .payload = payload };
	int err = token ? finish_call(p, &a, &caller) : -ESRCH;

	if (err) {
		port_payload_free(payload);
		caller = NULL;
	}
	if (!caller)
		preempt_enable();		/* else the caller's task has to stay valid until it has our CPU */
	return receive_after(p, r, timeout, caller);
}

struct port_lent *port_lent_of(struct port *p, u64 token)
{
	spin_lock(&p->lock);
	struct port_call *call = find_locked(p, token);
	struct port_lent *l = call ? call->lent : NULL;

	if (l)
		refcount_inc(&l->refs);
	spin_unlock(&p->lock);
	return l;
}

/* -- the end -- */

int port_add_owner(struct port *p, struct port_owner *owner)
{
	spin_lock(&p->lock);
	int err = p->dead ? -EPIPE : 0;

	if (!err)
		list_add(&owner->node, &p->owners);
	spin_unlock(&p->lock);
	return err;
}

/* Ends one call of a port that nobody serves any more. Lock held. A one-way call is freed by the caller: @orphans. */
static void break_call(struct port_call *call, struct list_head *orphans)
{
	if (call->one_way) {
		list_move(&call->node, orphans);
		return;
	}
	struct task *caller = call->caller;

	list_del(&call->node);
	if (call->lent)
		port_lent_revoke(call->lent);
	call->result = -EPIPE;
	if (!caller) {
		done_locked(call);
		return;
	}
	__atomic_store_n(&call->state, CALL_DONE, __ATOMIC_RELEASE);
	wake_up_state(caller, CALLER_SLEEPS);	/* in the lock, so preemption is off: the task is still there */
}

static struct port_owner *take_owner(struct port *p)
{
	spin_lock(&p->lock);
	struct port_owner *owner = list_first_entry_or_null(&p->owners, struct port_owner, node);

	if (owner)
		list_del_init(&owner->node);
	spin_unlock(&p->lock);
	return owner;
}

bool port_remove_owner(struct port *p, struct port_owner *owner)
{
	struct port_owner *o;
	bool there = false;

	spin_lock(&p->lock);
	list_for_each_entry(o, &p->owners, node) {
		if (o == owner) {
			list_del_init(&o->node);
			there = true;
			break;
		}
	}
	spin_unlock(&p->lock);
	if (there)
		wake_up_poll(&p->wait, POLLHUP);
	return there;
}

/* Those of one list. Lock held. */
static void break_calls_locked(struct list_head *list, const void *of)
{
	struct port_call *call, *next;

	list_for_each_entry_safe(call, next, list, node)
		if (call->of == of && !call->one_way)
			break_call(call, NULL);
}

void port_break_calls(struct port *p, const void *of)
{
	spin_lock(&p->lock);
	break_calls_locked(&p->queue, of);
	for (unsigned int i = 0; i < NR_TOKEN_LISTS; i++)
		break_calls_locked(&p->delivered[i], of);
	spin_unlock(&p->lock);
}

/* The last receiving end is closed: all who wait get EPIPE. Threads of the server that still receive hold the file, so there are none. */
static void receive_release(struct file *f)
{
	struct port *p = f->private;
	struct port_call *call, *next;
	struct port_owner *owner;
	LIST_HEAD(orphans);

	spin_lock(&p->lock);
	p->dead = true;
	list_for_each_entry_safe(call, next, &p->queue, node)
		break_call(call, &orphans);
	for (unsigned int i = 0; i < NR_TOKEN_LISTS; i++)
		list_for_each_entry_safe(call, next, &p->delivered[i], node)
			break_call(call, &orphans);
	spin_unlock(&p->lock);
	list_for_each_entry_safe(call, next, &orphans, node) {
		port_payload_free(call->payload);
		kfree(call);
	}
	while ((owner = take_owner(p)))		/* nobody adds to those of a dead port */
		owner->died(owner);
	port_put(p);
}

static void call_release(struct file *f)
{
	struct port *p = f->private;

	if (__atomic_sub_fetch(&p->nr_callers, 1, __ATOMIC_ACQ_REL) == 0)
		__wake_up(&p->wait, TASK_NORMAL, 0, POLLHUP);
	port_put(p);
}

static u32 receive_poll(struct file *f, struct poll_table *pt)
{
	struct port *p = f->private;
	u32 bits = 0;

	if (pt && !READ_ONCE(p->polled))
		WRITE_ONCE(p->polled, true);
	poll_wait(f, &p->wait, pt);
	spin_lock(&p->lock);			/* pairs with a caller's: it sees polled, or we its call */
	if (!list_empty(&p->queue))
		bits |= POLLIN | POLLRDNORM;
	if (!READ_ONCE(p->nr_callers) && list_empty(&p->owners))
		bits |= POLLHUP;
	spin_unlock(&p->lock);
	return bits;
}

/* Calling never waits for room; only the death of the other side is news. */
static u32 call_poll(struct file *f, struct poll_table *pt)
{
	struct port *p = f->private;

	(void)pt;
	return READ_ONCE(p->dead) ? POLLERR | POLLHUP | POLLOUT : POLLOUT | POLLWRNORM;
}

const struct file_ops port_receive_fops = { .poll = receive_poll, .release = receive_release };
const struct file_ops port_call_fops = { .poll = call_poll, .release = call_release };
