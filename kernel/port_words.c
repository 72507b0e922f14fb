/*
 * The fast path of ports: calls of eight words, which never leave the registers.
 *
 * A task that is in a system call has its registers in its trap frame, and they go from the one frame to the other. What a call is and
 * who may touch it when is as in kernel/port.c; only the case that matters is here, in one step each way:
 *
 *	caller					server
 *						replied before; waits in port->idle with its frame
 *	port locked: words into the server's
 *	frame, the record into delivered[],
 *	the server out of idle; unlocked
 *	gives the CPU to the server ---------->	returns to user mode, works, and comes back with the reply
 *						port locked: nobody in the queue; words into the caller's frame,
 *						the record out of delivered[] and DONE, ourselves into idle; unlocked
 *	returns to user mode <----------------- gives the CPU to the caller
 *
 * Each step first looks whether this is that case, under the port's lock. If not (nobody waits, the other side has the long form,
 * there are calls in the queue, somebody asked for a time-out) nothing has happened yet, and the general way does it all.
 */
#include "kernel/port_internal.h"

#include "kernel/process.h"
#include "kernel/syscall.h"

#define NOT_THE_FAST_WAY	1		/* beside 0 and -errno */

/*
 * What the one who answers looks at. Not who the caller is: a server that takes words is not told. By hand, because
 * clearing what nobody reads costs more than all the rest.
 */
static inline void init_words_call(struct port_call *call, struct trap_frame *frame)
{
	call->state = CALL_DELIVERED;
	call->one_way = false;
	call->result = 0;
	call->caller = current;
	call->frame = frame;
	call->payload = NULL;
	call->lent = NULL;
	call->replied = NULL;
	call->of = NULL;
}

/* May sleep. Result as port_call(), or NOT_THE_FAST_WAY. */
static inline int call_fast(struct port *p, struct trap_frame *frame)
{
	struct port_call call;

	init_words_call(&call, frame);
	preempt_disable();				/* for the lock; keeps the server's task, and the CPU that we hand over */
	WRITE_ONCE(current->state, TASK_INTERRUPTIBLE);	/* before we can be found; taking the lock is the barrier */
	__spin_lock(&p->lock, false);
	struct idle_server *s = list_first_entry_or_null(&p->idle, struct idle_server, node);	/* of a dead port: none */

	if (unlikely(!s || !s->r->frame)) {
		WRITE_ONCE(current->state, TASK_RUNNING);
		__spin_unlock(&p->lock);
		preempt_enable();
		return NOT_THE_FAST_WAY;
	}
	/* Nothing below this line can fail. */
	struct task *server = s->task;

	words_frame_to_frame(s->r->frame, frame);
	s->r->token = call.token = ++p->last_token;
	list_add(&call.node, token_list(p, call.token));
	s->result = 0;
	barrier();
	list_del_init(&s->node);			/* last, as in send_locked() */
	__spin_unlock(&p->lock);
	schedule_to(server, TASK_INTERRUPTIBLE);
	if (likely(is_done(&call)))
		return call.result;
	return port_await_reply(p, &call, TASK_INTERRUPTIBLE, UINT64_MAX);
}

static __noinline int call_general(struct port *p, struct trap_frame *frame, s64 timeout)
{
	struct port_call call;

	port_call_init(&call);
	call.frame = frame;
	return port_call(p, &call, timeout, TASK_INTERRUPTIBLE);
}

SYSCALL_DEFINE(port_call_words, int fd, s64 timeout)
{
	struct trap_frame *frame = current_trap_frame();
	struct fd_ref ref;
	struct port *p;
	int err = port_lookup(fd, false, &ref, &p);

	if (likely(!err)) {
		err = likely(timeout < 0) ? call_fast(p, frame) : NOT_THE_FAST_WAY;
		if (unlikely(err == NOT_THE_FAST_WAY))
			err = call_general(p, frame, timeout);
	}
	fdput(ref);
	return err;
}

/* The answer to a caller of words; NULL: not that case, and nothing has happened. Lock held. */
static inline struct task *answer_words_locked(struct port *p, struct trap_frame *frame)
{
	struct port_call *call = find_locked(p, frame->r15);

	if (unlikely(!call || !call->frame || !list_empty(&p->queue)))
		return NULL;
	struct task *caller = call->caller;

	words_frame_to_frame(call->frame, frame);
	list_del(&call->node);
	__atomic_store_n(&call->state, CALL_DONE, __ATOMIC_RELEASE);	/* last, as in finish_call() */
	return caller;
}

/* May sleep. Result as port_receive(), or NOT_THE_FAST_WAY. */
static inline int reply_receive_fast(struct port *p, struct port_received *r)
{
	struct idle_server s;

	s.task = current;
	s.r = r;
	preempt_disable();				/* for the lock; keeps the caller's task */
	WRITE_ONCE(current->state, TASK_INTERRUPTIBLE);
	__spin_lock(&p->lock, false);
	struct task *caller = answer_words_locked(p, r->frame);

	if (unlikely(!caller)) {
		WRITE_ONCE(current->state, TASK_RUNNING);
		__spin_unlock(&p->lock);
		preempt_enable();
		return NOT_THE_FAST_WAY;
	}
	list_add(&s.node, &p->idle);
	__spin_unlock(&p->lock);
	schedule_to(caller, CALLER_SLEEPS);
	if (likely(is_served(&s)))
		return s.result;
	return port_await_call(p, &s, true, UINT64_MAX);
}

SYSCALL_DEFINE(port_reply_receive_words, int fd, s64 timeout)
{
	struct port_received r;
	struct fd_ref ref;
	struct port *p;
	int err = port_lookup(fd, true, &ref, &p);

	if (likely(!err)) {
		r.frame = current_trap_frame();
		err = likely(timeout < 0) ? reply_receive_fast(p, &r) : NOT_THE_FAST_WAY;
		if (unlikely(err == NOT_THE_FAST_WAY))
			err = port_reply_receive(p, r.frame->r15, &r, NULL, timeout);
		if (likely(!err))
			r.frame->r15 = r.token;
	}
	fdput(ref);
	return err;
}
