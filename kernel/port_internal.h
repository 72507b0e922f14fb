/*
 * What kernel/port.c and the fast path in kernel/port_words.c share: the port itself, servers that wait, and where words are.
 */
#ifndef KERNEL_PORT_INTERNAL_H
#define KERNEL_PORT_INTERNAL_H

#include "kernel/port.h"
#include "kernel/errno.h"
#include "kernel/sched.h"
#include "kernel/string.h"
#include "kernel/x86/trap_frame.h"

#define NR_TOKEN_LISTS	8u
/* The states of a caller. One that has left the call meanwhile and waits for something else may be woken for nothing, but not from a sleep that expects none. */
#define CALLER_SLEEPS	(TASK_INTERRUPTIBLE | TASK_WAKEKILL)

/* A server thread that waits; on its stack. */
struct idle_server {
	struct list_head node;		/* P  empty: it has been given something, or left */
	struct task	*task;
	int		 result;	/* P  valid once off the list: 0, -EMSGSIZE */
	struct port_received *r;	/* P  filled in by the caller */
};

/*
 *   I  constant   P  lock   A  atomic
 */
struct port {
	struct spinlock	 lock;		/* LOCK_PORT */
	bool		 dead;		/* P  no receiving end is open any more */
	bool		 polled;	/* set for good by the first poll */
	struct list_head idle;		/* P  servers that wait; the last to come is the first to go: its caches are warm */
	struct list_head queue;		/* P  calls that wait for a server */
	u64		 last_token;	/* P */
	struct list_head delivered[NR_TOKEN_LISTS];	/* P  calls without reply yet, by token */
	struct list_head owners;	/* P */
	struct wait_queue wait;		/* pollers of the receiving end */
	u32		 nr_callers;	/* A  calling ends */
	struct refcount	 refs;		/* files, kernel users */
};

extern const struct file_ops port_receive_fops, port_call_fops;

static inline struct list_head *token_list(struct port *p, u64 token)
{
	return &p->delivered[token % NR_TOKEN_LISTS];
}

static inline struct port_call *find_locked(struct port *p, u64 token)
{
	struct port_call *call;

	list_for_each_entry(call, token_list(p, token), node)
		if (call->token == token)
			return call;
	return NULL;
}

/* Has the reply come? With the acquire that lets the caller read it without the lock; the replier is through with the record. */
static inline bool is_done(const struct port_call *call)
{
	return __atomic_load_n(&call->state, __ATOMIC_ACQUIRE) == CALL_DONE;
}

/* Off the list, by one who is through with the record: list_del_init() writes both links last, in this order of the two on x86. */
static inline bool is_served(const struct idle_server *s)
{
	const struct list_head *n = __atomic_load_n(&s->node.next, __ATOMIC_ACQUIRE);

	return n == &s->node && __atomic_load_n(&s->node.prev, __ATOMIC_ACQUIRE) == n;
}

/* -- words: in registers or in an array -- */

static inline void words_from_frame(u64 word[FL_WORDS], const struct trap_frame *f)
{
	word[0] = f->rdx;
	word[1] = f->r10;
	word[2] = f->r8;
	word[3] = f->r9;
	word[4] = f->rbx;
	word[5] = f->r12;
	word[6] = f->r13;
	word[7] = f->r14;
}

static inline void words_to_frame(struct trap_frame *f, const u64 word[FL_WORDS])
{
	f->rdx = word[0];
	f->r10 = word[1];
	f->r8 = word[2];
	f->r9 = word[3];
	f->rbx = word[4];
	f->r12 = word[5];
	f->r13 = word[6];
	f->r14 = word[7];
}

/* From registers to registers: those of two tasks that are both in a system call. */
static inline void words_frame_to_frame(struct trap_frame *to, const struct trap_frame *from)
{
	to->rdx = from->rdx;
	to->r10 = from->r10;
	to->r8 = from->r8;
	to->r9 = from->r9;
	to->rbx = from->rbx;
	to->r12 = from->r12;
	to->r13 = from->r13;
	to->r14 = from->r14;
}

/* Each side says where: a frame, or else its array. */
static inline void words_move(struct trap_frame *to_frame, u64 *to, const struct trap_frame *from_frame, const u64 *from)
{
	if (to_frame && from_frame)
		words_frame_to_frame(to_frame, from_frame);
	else if (to_frame)
		words_to_frame(to_frame, from);
	else if (from_frame)
		words_from_frame(to, from_frame);
	else
		memcpy(to, from, FL_WORDS * sizeof(u64));
}

/* -- kernel/port.c, for those who have begun the fast way -- */

/* One end of a port by descriptor. -EBADF: no such descriptor; -EINVAL: not that end of a port. fdput() in any case. */
static inline int port_lookup(int fd, bool receiving, struct fd_ref *ref, struct port **p)
{
	*ref = fdget(fd);
	if (unlikely(!ref->file))
		return -EBADF;
	if (unlikely(ref->file->ops != (receiving ? &port_receive_fops : &port_call_fops)))
		return -EINVAL;
	*p = ref->file->private;
	return 0;
}

/* The caller of a call that was sent waits for the end of it. Result as port_call(), but the payload stays. */
int port_await_reply(struct port *p, struct port_call *call, unsigned int state, u64 deadline);
/* The server is or was in the list of those who wait; until it is given something. Result as port_receive(). */
int port_await_call(struct port *p, struct idle_server *s, bool restart, u64 deadline);

#endif
