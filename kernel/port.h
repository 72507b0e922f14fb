/*
 * Ports: synchronous calls between processes (docs/ipc.md; the numbers and layouts are in user/include/fl_port.h). kernel/port.c
 * moves calls and replies between tasks, kernel/port_words.c does so for words alone, the fast path; kernel/port_calls.c is what user
 * space sees of the rest, kernel/port_lent.c the lent memory.
 *
 * Who owns what. A call is a record on the caller's own stack, and the caller cannot leave before it is DONE or taken back, under the
 * port's lock. Words are copied under that lock, from where the sender left them to where the receiver wants them: an array, or the
 * registers of a task that sleeps in a system call (its trap frame). Everything bigger is a payload that changes hands: from the caller to the
 * record, to the server that receives it; the reply the same way back. So neither side ever touches memory of the other, and
 * neither waits while the other copies.
 */
#ifndef KERNEL_PORT_H
#define KERNEL_PORT_H

#include "fs/vfs.h"
#include "kernel/list.h"
#include "kernel/refcount.h"
#include "kernel/wait.h"
#include "user/include/fl_port.h"

struct page;
struct task;
struct trap_frame;

/* What does not fit into words. Owned by one side at a time. */
struct port_payload {
	u32		 len;		/* bytes at data */
	u32		 nr_files;
	struct file	*file[FL_MAX_FDS];	/* counted */
	u8		 data[];
};

/*
 * A range of the caller's memory that the server may use until its reply. Either pinned pages or a kernel buffer.
 *   I  constant   L  lock
 */
struct port_lent {
	struct refcount	 refs;		/* the call, and a server that copies right now */
	struct spinlock	 lock;		/* LOCK_PORT_LENT: a copy against the end of the loan */
	bool		 revoked;	/* L */
	u32		 rights;	/* I  FL_LENT_R, FL_LENT_W */
	u32		 offset;	/* I  of the range in its first page */
	u64		 len;		/* I */
	u8		*kernel;	/* I  a kernel buffer; then there are no pages. It outlives the call, not the loan */
	u32		 nr_pages;	/* I */
	struct page	*page[];	/* I  pinned */
};

enum port_call_state { CALL_NEW, CALL_QUEUED, CALL_DELIVERED, CALL_DONE };

/*
 *   P  port->lock once the call has been sent; before and after its maker's alone
 */
struct port_call {
	struct list_head node;		/* P  in port->queue, then in port->delivered[] */
	u8		 state;		/* P  enum port_call_state */
	bool		 one_way;	/* I  nobody waits: kmalloc'd, freed when it is received or refused */
	int		 result;	/* P  of a DONE call: 0 or -errno */
	u32		 room;		/* I  inline bytes that the reply may have */
	u64		 token;		/* P  of a delivered call */
	struct task	*caller;	/* I  NULL: nobody sleeps, replied() is all that happens */
	const void	*of;		/* I  kernel callers: for port_break_calls(); NULL: nobody's */
	struct trap_frame *frame;	/* I  the caller's registers, where its words are; the reply may be no more than words. NULL: word[] */
	u64		 word[FL_WORDS];	/* P  the request; of a DONE call the answer. Unused with @frame */
	struct port_payload *payload;	/* P  the same */
	struct port_lent *lent;		/* I  counted */
	u32		 pid, uid, gid;	/* I */
	/*
	 * I  kernel callers: under the port's lock, before the caller is woken. Without a caller it comes after result and answer are
	 * in place, also when the server has died (-EPIPE), and the record is its owner's again.
	 */
	void		(*replied)(struct port_call *call);
};

struct port_owner;
struct port;

/* -- kernel/port.c -- */
int port_create_files(struct file *ends[2]);		/* [0] receives, [1] calls. 0, -ENOMEM, -ENFILE */
struct port *file_port(struct file *f, bool receiving);	/* that end of a port; NULL: something else */
void port_get(struct port *p);
void port_put(struct port *p);

void port_call_init(struct port_call *call);		/* by current, words in word[]; they and the rest are filled in afterwards */
/*
 * Sends @call and waits for its reply. @timeout as in fl_port.h. @state: TASK_INTERRUPTIBLE or TASK_KILLABLE. 0: call->word and
 * call->payload are the answer. -EPIPE: nobody receives, or the receiver went; -ETIMEDOUT; -EINTR or -ERESTARTSYS. The payload of
 * a request that failed is freed. May sleep.
 */
int port_call(struct port *p, struct port_call *call, s64 timeout, unsigned int state);
/* Sends @call, which is kmalloc'd, and does not wait. Freed in any case. 0 or -EPIPE. Does not sleep; LOCK_PORT is taken. */
int port_post(struct port *p, struct port_call *call);

/*
 * Sends @call, which has replied() and no caller, and does not wait. 0: replied() comes, perhaps before this returns; -EPIPE: it never
 * will. Does not sleep; LOCK_PORT is taken.
 */
int port_send(struct port *p, struct port_call *call);
void port_break_calls(struct port *p, const void *of);	/* those with this ->of end now, with -EPIPE. LOCK_PORT is taken */

/* What a server gets. */
struct port_received {
	struct trap_frame *frame;	/* set before: a server that takes nothing but words, into its registers. NULL: into word[] */
	u64		 word[FL_WORDS];
	u64		 token;
	u64		 lent_len;
	u32		 lent_rights;
	u32		 pid, uid, gid;
	struct port_payload *payload;	/* the server's now */
};
/* With r->frame a call that is more than words stays in the queue, -EMSGSIZE. -EAGAIN (timeout 0), -ETIMEDOUT, -ERESTARTSYS, -EINTR. */
int port_receive(struct port *p, struct port_received *r, s64 timeout);
/* @payload (or NULL) belongs to the other side after success. -ESRCH: no such call (any more); -EMSGSIZE: more than it has room for. */
int port_reply(struct port *p, u64 token, const u64 word[FL_WORDS], struct port_payload *payload);
void port_refuse(struct port *p, u64 token, int error);	/* the caller gets @error (negative) instead of an answer */
/* Both in one, so that the server may hand its CPU to the caller. The words of the reply are in @r. The error of the reply is dropped. */
int port_reply_receive(struct port *p, u64 token, struct port_received *r, struct port_payload *payload, s64 timeout);
struct port_lent *port_lent_of(struct port *p, u64 token);	/* counted; NULL: no such call, or it lends nothing */

/* A kernel user of the port's end (server-backed sockets): died() is called once, without locks, when the last receiving end closes. */
struct port_owner { struct list_head node; void (*died)(struct port_owner *owner); };
int port_add_owner(struct port *p, struct port_owner *owner);	/* 0, -EPIPE: dead already */
bool port_remove_owner(struct port *p, struct port_owner *owner);	/* false: too late, died() is on its way or has been, and @owner may be gone: it is not looked at */

struct port_payload *port_payload_alloc(u32 len);	/* NULL: no memory */
void port_payload_free(struct port_payload *payload);	/* NULL is fine. May sleep: drops the files */

/* -- kernel/port_lent.c -- */
/* Pins current's memory. ERR_PTR: -EFAULT, -EINVAL, -E2BIG, -ENOMEM, -EINTR. May sleep. */
struct port_lent *port_lent_user(uintptr_t addr, u64 len, u32 rights);
struct port_lent *port_lent_kernel(void *buf, u64 len, u32 rights);	/* ERR_PTR(-ENOMEM) */
void port_lent_revoke(struct port_lent *l);		/* when it returns nobody copies any more */
void port_lent_put(struct port_lent *l);		/* NULL is fine. May sleep */
/* For the server: between its own @buf and the range, in current. Bytes; -EACCES, -EINVAL, -EFAULT (also: the loan is over), -EINTR. */
ssize_t port_lent_copy(struct port_lent *l, u64 offset, u8 __user *buf, u64 len, bool to_lent);

#endif
