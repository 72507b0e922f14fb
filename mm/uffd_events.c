/*
 * Events: the manager follows what the program does to its memory (F45 to F51).
 *
 *	fork		FORK	after; the manager gets a descriptor for the child's memory
 *	mremap		REMAP	after the pages have moved, then UNMAP for the old place
 *	munmap and kin	UNMAP	after
 *	DONTNEED, REMOVE REMOVE	before the pages go
 *
 * Between the change and the moment at which the manager has read of it, what he knows is wrong. So before the change
 * mmap_changing is raised, and as long as it is, nothing can be filled (EAGAIN). Then:
 *
 *	raise mmap_changing		mmap_lock held
 *	change				mmap_lock held for write (REMOVE: later)
 *	drop mmap_lock
 *	queue the event, sleep		until it was read, the descriptor is closed, or we are killed
 *	lower mmap_changing
 *
 * munmap is called from many places, under mmap_lock, so its events wait in the mm for the unlock: mmap_write_unlock()
 * delivers them. Whoever makes an event has the context counted in it, and for FORK the child's context too: the reader of
 * the event and the task that sent it may go on in either order (R33, F48).
 *
 * The rule that is easy to break: every event that was made is either sent or cancelled, for each has raised mmap_changing
 * once (R40).
 */
#include "mm/uffd_internal.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/signal.h"
#include "kernel/task.h"
#include "kernel/trace.h"
#include "mm/mm.h"
#include "mm/slab.h"

struct uffd_event {
	struct uffd_event *next;	/* owner: of those to be sent */
	struct uffd	  *ctx;		/* I  counted, its mmap_changing raised */
	struct uffd	  *child;	/* I  FORK: counted */
	struct uffd_msg	   msg;		/* I */
	struct task	  *task;	/* I once queued  the sender */
	struct list_head   node;	/* ctx->lock: in events or taken, until done */
	struct uffd_fork_reader *reader;	/* ctx->lock: who has taken it */
	bool		   done;	/* ctx->lock to write */
};

/* -- making -- */

/* mmap_lock of ctx->mm held, in any mode. Waits for the fills that are under way; they do not wait for us. */
static void raise_changing(struct uffd *ctx)
{
	down_write(&ctx->map_changing);
	__atomic_fetch_add(&ctx->mmap_changing, 1, __ATOMIC_RELAXED);
	up_write(&ctx->map_changing);
	race_window("uffd_changing_raised");
}

static void lower_changing(struct uffd *ctx)
{
	u32 old = __atomic_fetch_sub(&ctx->mmap_changing, 1, __ATOMIC_RELEASE);

	BUG_ON(old == 0);
}

static void init_event(struct uffd_event *ev, struct uffd *ctx, u8 type)
{
	*ev = (struct uffd_event){ .ctx = ctx, .msg.event = type };
	uffd_get(ctx);
	raise_changing(ctx);
}

static struct uffd_event *make_event(struct uffd *ctx, u8 type)
{
	struct uffd_event *ev = kmalloc(sizeof(*ev), GFP_KERNEL);

	if (ev)
		init_event(ev, ctx, type);
	return ev;
}

/* Undoes init_event(). */
static void finish_event(struct uffd_event *ev)
{
	lower_changing(ev->ctx);
	uffd_put(ev->ctx);
}

static void cancel_event(struct uffd_event *ev)
{
	if (!ev)
		return;
	finish_event(ev);
	kfree(ev);
}

/* -- sending -- */

static void queue_event(struct uffd_event *ev)
{
	struct uffd *ctx = ev->ctx;

	ev->task = current;
	spin_lock(&ctx->lock);
	list_add_tail(&ev->node, &ctx->events);
	spin_unlock(&ctx->lock);
	trace_event(TRACE_UFFD, ev->msg.event, ev->msg.words[0], ev->msg.words[1], (uintptr_t)ctx);
	wake_up_sync_poll(&ctx->fd_wait, POLLIN);
	race_window("uffd_event_queued");
}

/* True: it was read. False: nobody will read it; it is off the lists, and its reader, if there is one, knows. */
static bool wait_until_read(struct uffd_event *ev)
{
	struct uffd *ctx = ev->ctx;
	bool done;

	for (;;) {
		set_current_state(TASK_KILLABLE);
		if (READ_ONCE(ev->done) || READ_ONCE(ctx->released) || fatal_signal_pending())
			break;
		schedule();
	}
	WRITE_ONCE(current->state, TASK_RUNNING);
	spin_lock(&ctx->lock);
	done = ev->done;
	if (!done) {
		list_del(&ev->node);
		if (ev->reader)
			ev->reader->event = NULL;
	}
	spin_unlock(&ctx->lock);
	return done;
}

/* No lock held; sleeps. Consumes what init_event() took, not the memory. */
static void send_event(struct uffd_event *ev)
{
	bool read = false;

	if (!(current->flags & PF_EXITING)) {
		queue_event(ev);
		read = wait_until_read(ev);
	}
	if (ev->child) {
		/* Nobody has, or wants, the child's descriptor: its memory becomes plain. */
		if (!read)
			uffd_unregister_all(ev->child);
		uffd_put(ev->child);
	}
	finish_event(ev);
}

void uffd_deliver(struct uffd_event *events)
{
	while (events) {
		struct uffd_event *ev = events;

		events = ev->next;
		send_event(ev);
		kfree(ev);
	}
}

/* -- being read: ctx->lock held -- */

static void event_is_done(struct uffd_event *ev)
{
	list_del(&ev->node);
	WRITE_ONCE(ev->done, true);
	wake_up_state(ev->task, TASK_NORMAL);
}

bool uffd_event_take(struct uffd *ctx, struct uffd_msg *msg, struct uffd_fork_reader *fork)
{
	struct uffd_event *ev;

	if (list_empty(&ctx->events))
		return false;
	ev = list_first_entry(&ctx->events, struct uffd_event, node);
	*msg = ev->msg;
	if (!ev->child) {
		event_is_done(ev);
		return true;
	}
	uffd_get(ev->child);		/* the sender may give up, and drop his, at any moment from now on */
	*fork = (struct uffd_fork_reader){ .child = ev->child, .event = ev };
	ev->reader = fork;
	list_del(&ev->node);
	list_add_tail(&ev->node, &ctx->taken);
	return true;
}

void uffd_fork_answer(struct uffd *ctx, struct uffd_fork_reader *fork, bool ok)
{
	struct uffd_event *ev;

	spin_lock(&ctx->lock);
	ev = fork->event;
	if (ev && ok) {
		event_is_done(ev);
	} else if (ev) {
		ev->reader = NULL;
		list_del(&ev->node);
		list_add(&ev->node, &ctx->events);
	}
	spin_unlock(&ctx->lock);
	if (!ok)
		wake_up_poll(&ctx->fd_wait, POLLIN);	/* another reader may have more luck */
}

void uffd_events_wake(struct uffd *ctx)
{
	struct uffd_event *ev;

	list_for_each_entry(ev, &ctx->events, node)
		wake_up_state(ev->task, TASK_NORMAL);
	list_for_each_entry(ev, &ctx->taken, node)
		wake_up_state(ev->task, TASK_NORMAL);
}

/* -- munmap -- */

static bool has_feature(const struct vma *vma, u64 feature)
{
	return vma->uffd && (uffd_features(vma->uffd) & feature);
}

struct uffd_event *uffd_events_mark(struct mm *mm)
{
	struct uffd_event *last = mm->uffd_events;

	while (last && last->next)
		last = last->next;
	return last;
}

static void append_event(struct mm *mm, struct uffd_event *ev)
{
	struct uffd_event *last = uffd_events_mark(mm);

	*(last ? &last->next : &mm->uffd_events) = ev;
}

/* One for each descriptor and call (F50). */
static bool is_announced(const struct mm *mm, const struct uffd *ctx, uintptr_t start, uintptr_t end)
{
	for (const struct uffd_event *ev = mm->uffd_events; ev; ev = ev->next)
		if (ev->ctx == ctx && ev->msg.event == UFFD_EVENT_UNMAP && ev->msg.range.start == start && ev->msg.range.end == end)
			return true;
	return false;
}

static struct uffd_event *make_unmap(struct uffd *ctx, uintptr_t start, uintptr_t end)
{
	struct uffd_event *ev = make_event(ctx, UFFD_EVENT_UNMAP);

	if (ev) {
		ev->msg.range.start = start;
		ev->msg.range.end = end;
	}
	return ev;
}

int uffd_unmap_prepare(struct vma *vma, uintptr_t start, uintptr_t end)
{
	struct mm *mm = vma->mm;
	struct uffd_event *ev;

	assert_mmap_write_locked(mm);
	if (!has_feature(vma, UFFD_FEATURE_EVENT_UNMAP) || is_announced(mm, vma->uffd, start, end))
		return 0;
	ev = make_unmap(vma->uffd, start, end);
	if (!ev)
		return -ENOMEM;
	append_event(mm, ev);
	return 0;
}

/* -- mremap -- */

bool uffd_follows_remap(const struct vma *vma)
{
	return has_feature(vma, UFFD_FEATURE_EVENT_REMAP);
}

int uffd_remap_prepare(struct uffd_remap *r, struct vma *vma, uintptr_t from, uintptr_t to, size_t len, size_t cut, bool unmaps)
{
	*r = (struct uffd_remap){ 0 };
	if (uffd_follows_remap(vma)) {
		r->remap = make_event(vma->uffd, UFFD_EVENT_REMAP);
		if (!r->remap)
			return -ENOMEM;
		r->remap->msg.remap.from = from;
		r->remap->msg.remap.to = to;
		r->remap->msg.remap.len = len + cut;	/* as the caller of mremap has it, also when it shrinks */
	}
	if (unmaps && has_feature(vma, UFFD_FEATURE_EVENT_UNMAP)) {
		r->unmap = make_unmap(vma->uffd, from, from + len);
		if (!r->unmap) {
			uffd_remap_cancel(r);
			return -ENOMEM;
		}
	}
	return 0;
}

/* The munmap of the old place, which follows, finds its event made. */
void uffd_remap_commit(struct uffd_remap *r, struct mm *mm, struct uffd_event *early)
{
	if (r->remap) {
		struct uffd_event **at = early ? &early->next : &mm->uffd_events;

		r->remap->next = *at;
		*at = r->remap;
	}
	if (r->unmap)
		append_event(mm, r->unmap);
}

void uffd_remap_cancel(struct uffd_remap *r)
{
	cancel_event(r->remap);
	cancel_event(r->unmap);
}

/* -- madvise -- */

bool uffd_wants_remove(const struct vma *vma)
{
	return has_feature(vma, UFFD_FEATURE_EVENT_REMOVE);
}

void uffd_tell_remove(struct vma *vma, uintptr_t start, uintptr_t end)
{
	struct mm *mm = vma->mm;
	struct uffd_event ev;

	init_event(&ev, vma->uffd, UFFD_EVENT_REMOVE);
	mmap_read_unlock(mm);
	ev.msg.range.start = start;
	ev.msg.range.end = end;
	send_event(&ev);
}

/* -- fork -- */

/* The child's context for @parent_ctx: made at the first VMA that needs it. */
static struct uffd *child_context(struct uffd *parent_ctx, struct mm *mm, struct uffd_event **forks)
{
	struct uffd_event *ev;

	for (ev = *forks; ev; ev = ev->next)
		if (ev->ctx == parent_ctx)
			return ev->child;
	ev = make_event(parent_ctx, UFFD_EVENT_FORK);
	if (!ev)
		return NULL;
	ev->child = uffd_alloc(mm, parent_ctx->flags, uffd_features(parent_ctx));
	if (!ev->child) {
		cancel_event(ev);
		return NULL;
	}
	while (*forks)
		forks = &(*forks)->next;
	*forks = ev;
	return ev->child;
}

int uffd_fork_vma(struct vma *child, const struct vma *parent, struct uffd_event **forks)
{
	struct uffd *ctx;

	if (!has_feature(parent, UFFD_FEATURE_EVENT_FORK))
		return 0;
	ctx = child_context(parent->uffd, child->mm, forks);
	if (!ctx)
		return -ENOMEM;
	child->uffd = ctx;
	child->flags |= parent->flags & VM_UFFD_ANY;
	return 0;
}

void uffd_fork_cancel(struct uffd_event *forks)
{
	while (forks) {
		struct uffd_event *ev = forks;

		forks = ev->next;
		uffd_put(ev->child);
		cancel_event(ev);
	}
}
