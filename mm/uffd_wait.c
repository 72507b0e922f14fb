/*
 * A fault waits for its page, and is woken.
 *
 * The whole difficulty is that the page may come at any moment, from a manager who did not even read the message. So the
 * decision to wait, and becoming findable, are one step, made under the lock of the page-table entry:
 *
 *	fault						manager: COPY
 *	lock the entry
 *	still missing?  no: try again
 *	queue: ctx->pending
 *	unlock the entry
 *							lock the entry
 *							put the page in, unlock
 *							wake who is queued for this page
 *	drop the VMA lock
 *	wake readers of the descriptor
 *	sleep until woken
 *
 * Whoever fills must lock the same entry. If he comes first, the fault sees the page and does not wait, nor does anybody get
 * to read of it (R26, R38); if he comes second, the fault is in the list when he looks there, after the unlock. There is
 * nothing to check again after queueing, and no moment at which a message for a page that is there could be read.
 *
 * A huge page's entry has a lock that only mm/hugetlb_fault.c knows how to take, in an order of its own. For those the same is
 * had by ctx->lock: see enqueue_huge().
 *
 * Who wakes takes the waiter off the list, which is the only mark of waiting there is. The waiter sleeps with the state that its
 * fault allows (F42), so a signal can end the wait; then it takes itself off, before its stack frame goes (F55). The
 * access is tried again in any case: to be woken says nothing about why.
 *
 * Nothing of the VMA may be touched once its lock is dropped: munmap can be faster than the sleeper (B3, R37).
 */
#include "mm/uffd_internal.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/signal.h"
#include "kernel/task.h"
#include "kernel/trace.h"
#include "mm/fault_internal.h"
#include "mm/hugetlb.h"
#include "mm/uaccess.h"

static void fill_message(struct uffd_msg *msg, const struct vm_fault *vmf, u64 reason, u64 features)
{
	*msg = (struct uffd_msg){ .event = UFFD_EVENT_PAGEFAULT };
	msg->pagefault.flags = (vmf->flags & FAULT_FLAG_WRITE ? UFFD_PAGEFAULT_FLAG_WRITE : 0) |
			       (reason == VM_UFFD_WP ? UFFD_PAGEFAULT_FLAG_WP : 0) |
			       (reason == VM_UFFD_MINOR ? UFFD_PAGEFAULT_FLAG_MINOR : 0);
	msg->pagefault.address = features & UFFD_FEATURE_EXACT_ADDRESS ? vmf->real_address : vmf->address;
	if (features & UFFD_FEATURE_THREAD_ID)
		msg->pagefault.ptid = (u32)current->tid;
}

/* The table after F44, but for its last line: 0 if the fault may wait, else its result. The fault's lock stays held. */
static vm_fault_t may_not_wait(const struct vm_fault *vmf, const struct uffd *ctx)
{
	if (unlikely(current->flags & PF_EXITING))
		return VM_FAULT_SIGBUS;
	if (uffd_features(ctx) & UFFD_FEATURE_SIGBUS)
		return VM_FAULT_SIGBUS;
	if (!(vmf->flags & FAULT_FLAG_USER) && (ctx->flags & UFFD_USER_MODE_ONLY))
		return VM_FAULT_SIGBUS;
	if (!(vmf->flags & FAULT_FLAG_ALLOW_RETRY))
		return VM_FAULT_SIGBUS;
	return vmf->flags & FAULT_FLAG_RETRY_NOWAIT ? VM_FAULT_RETRY : 0;
}

static unsigned int sleep_state(unsigned int fault_flags)
{
	if (fault_flags & FAULT_FLAG_INTERRUPTIBLE)
		return TASK_INTERRUPTIBLE;
	return fault_flags & FAULT_FLAG_KILLABLE ? TASK_KILLABLE : TASK_UNINTERRUPTIBLE;
}

static bool signal_ends(unsigned int state)
{
	if (likely(!current->sigpending) || state == TASK_UNINTERRUPTIBLE)
		return false;
	return state == TASK_INTERRUPTIBLE ? signal_pending() : fatal_signal_pending();
}

enum wait_decision {
	WAIT,			/* queued, and ctx counted */
	CHANGED,		/* the entry is not what was decided on */
	CLOSED,			/* the descriptor is: nobody would ever wake us */
};

/* ctx->lock held. */
static void dequeue(struct uffd *ctx, struct uffd_waiter *w)
{
	list_del(&w->node);
	WRITE_ONCE(ctx->nr_waiters, ctx->nr_waiters - 1);
}

/* ctx->lock held. */
static enum wait_decision enqueue_locked(struct uffd *ctx, struct uffd_waiter *w)
{
	if (unlikely(ctx->released))
		return CLOSED;
	list_add_tail(&w->node, &ctx->pending);
	WRITE_ONCE(ctx->nr_waiters, ctx->nr_waiters + 1);
	return WAIT;
}

static enum wait_decision enqueue(struct uffd *ctx, struct uffd_waiter *w, struct vm_fault *vmf)
{
	enum wait_decision d;

	if (!vmf_lock_pte(vmf))
		return CHANGED;
	spin_lock(&ctx->lock);
	d = enqueue_locked(ctx, w);
	spin_unlock(&ctx->lock);
	pte_unlock(vmf->ptl);
	return d;
}

/*
 * Queue, then look again; ctx->lock is held from before the one until after the other, so no reader sees a fault that does not
 * wait. A filler writes the entry, then looks at nr_waiters, and we the other way round: one of the two sees the other,
 * given a full barrier on both sides. Ours is here; his are the locks that he drops in between, each by a locked operation.
 */
static enum wait_decision enqueue_huge(struct uffd *ctx, struct uffd_waiter *w, const struct vm_fault *vmf)
{
	enum wait_decision d;

	spin_lock(&ctx->lock);
	d = enqueue_locked(ctx, w);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (d == WAIT && hugetlb_read_entry(vmf->vma, vmf->address, NULL).v != vmf->orig_pte.v) {
		dequeue(ctx, w);
		d = CHANGED;
	}
	spin_unlock(&ctx->lock);
	return d;
}

/* Queued; no lock held. Until woken, or a signal. Off the list on return. */
static void wait_for_page(struct uffd *ctx, struct uffd_waiter *w, unsigned int state)
{
	for (;;) {
		set_current_state(state);
		if (__atomic_load_n(&w->woken, __ATOMIC_ACQUIRE) || signal_ends(state))
			break;
		schedule();
	}
	WRITE_ONCE(current->state, TASK_RUNNING);
	race_window("uffd_woken");
	if (likely(__atomic_load_n(&w->woken, __ATOMIC_ACQUIRE)))
		return;
	spin_lock(&ctx->lock);
	if (!w->woken)
		dequeue(ctx, w);
	spin_unlock(&ctx->lock);
}

vm_fault_t handle_userfault(struct vm_fault *vmf, u64 reason)
{
	struct vma *vma = vmf->vma;
	struct uffd *ctx = vma->uffd;
	struct uffd_waiter w = { .task = current, .addr = vmf->address };
	unsigned int flags = vmf->flags;
	vm_fault_t ret = may_not_wait(vmf, ctx);
	enum wait_decision d;

	if (unlikely(ret))
		return ret;
	fill_message(&w.msg, vmf, reason, uffd_features(ctx));
	race_window("uffd_before_queue");
	d = unlikely(vma->flags & VM_HUGETLB) ? enqueue_huge(ctx, &w, vmf) : enqueue(ctx, &w, vmf);
	if (d == CHANGED)
		return 0;
	if (likely(d == WAIT))
		uffd_get(ctx);		/* the VMA, still locked, keeps it until here */

	race_window("uffd_queued");
	release_fault_lock(vma, flags);
	/* Nothing below this line may touch the VMA. */
	if (unlikely(d == CLOSED))
		return VM_FAULT_RETRY;
	trace_event(TRACE_UFFD, w.msg.event, w.msg.pagefault.address, w.msg.pagefault.flags, (uintptr_t)ctx);
	wake_up_sync_poll(&ctx->fd_wait, POLLIN);
	race_window("uffd_before_sleep");
	wait_for_page(ctx, &w, sleep_state(flags));
	uffd_put(ctx);
	return VM_FAULT_RETRY;
}

/* -- waking -- */

/*
 * ctx->lock held. The task is read first and `woken` written last: then the waiter may return, and its stack frame be
 * gone. The task itself stays memory until a grace period after we drop the lock.
 */
static void wake_one(struct uffd *ctx, struct uffd_waiter *w)
{
	struct task *task = w->task;

	dequeue(ctx, w);
	__atomic_store_n(&w->woken, true, __ATOMIC_RELEASE);
	wake_up_state(task, TASK_NORMAL | WAKE_LOCAL);
}

static void wake_list(struct uffd *ctx, struct list_head *waiters, uintptr_t start, uintptr_t end)
{
	struct uffd_waiter *w, *next;

	list_for_each_entry_safe(w, next, waiters, node)
		if (w->addr >= start && w->addr < end)
			wake_one(ctx, w);
}

/*
 * The look without the lock: whoever was queued before the caller changed the entry was queued under that entry's lock
 * (or the VMA's, for unregister), which the caller has held since; so he is counted here. It must be the count: a reader
 * may just be moving the only waiter, and the two lists, looked at one after the other, would both seem empty (R27).
 */
void uffd_wake_range(struct uffd *ctx, uintptr_t start, uintptr_t end)
{
	race_window("uffd_before_wake");
	if (!READ_ONCE(ctx->nr_waiters))
		return;
	spin_lock(&ctx->lock);
	wake_list(ctx, &ctx->pending, start, end);
	wake_list(ctx, &ctx->read, start, end);
	spin_unlock(&ctx->lock);
}

void uffd_wake_all(struct uffd *ctx)
{
	uffd_wake_range(ctx, 0, ~0ul);
	wake_up_all(&ctx->fd_wait);
}

struct uffdio_range { u64 start, len; };

/* F32. No VMA is asked: the range may be unmapped by now, and its program gone. */
long uffd_wake(struct uffd *ctx, void __user *arg)
{
	struct uffdio_range req;
	int err;

	if (copy_in(&req, arg, sizeof(req)))
		return -EFAULT;
	err = uffd_check_range(req.start, req.len);
	if (!err)
		uffd_wake_range(ctx, req.start, req.start + req.len);
	return err;
}
