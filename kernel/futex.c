/*
 * Futexes: a hash of buckets, each a lock and a list of waiters. A waiter is in the bucket of its key, and the key names
 * the word: (mm, address) for private ones, (mapping, offset) for words that other processes may see elsewhere.
 *
 * Easy to break, why no wake-up is lost:
 *
 *	waiter				waker (user space has changed the word first)
 *	1 waiters++  (full barrier)	a full barrier
 *	2 lock bucket			b waiters == 0? nobody can be past 3, done
 *	3 read the word: still val?	c lock bucket
 *	4 set state, queue, unlock	d wake whom the list has
 *	5 sleep
 *
 * If b sees 0, then 1 comes after a, so 3 reads the new word and returns EAGAIN. Otherwise the lock decides: c before 2 means
 * 3 sees the new word, 4 before c means d finds the waiter.
 *
 * The word is read under the bucket lock without faulting. If its page is not there, everything is dropped, the page is
 * faulted in, and all begins anew with the key: the mapping may have changed meanwhile. That makes progress, since each round
 * ends with the page present, and ends with EFAULT when it cannot be.
 */
#include "kernel/futex.h"
#include "kernel/errno.h"
#include "kernel/itimer.h"
#include "kernel/list.h"
#include "kernel/panic.h"
#include "kernel/process.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/spinlock.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/mm.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define BUCKETS_PER_CPU		256u
#define BITSET_ANY		0xffffffffu
#define ROBUST_LIST_LIMIT	2048		/* a list that user space tied into a ring must end */

struct futex_key {
	void	*object;
	u64	 offset;		/* bit 0: shared. Words are aligned, so it is free */
};

struct bucket {
	struct spinlock	 lock;		/* LOCK_FUTEX: list, and the queued fields of its waiters */
	u32		 waiters;	/* atomic; queued, or about to look at their word */
	struct list_head list;
} __aligned(64);

struct waiter {
	struct list_head node;		/* bucket->lock */
	struct bucket	*bucket;	/* bucket->lock to write; NULL once woken, last */
	struct task	*task;
	struct futex_key key;		/* bucket->lock; changed by requeue */
	u32		 bitset;
};

static struct bucket *buckets;
static u32 bucket_mask;

void futex_init(void)
{
	u32 n = BUCKETS_PER_CPU;

	while (n < BUCKETS_PER_CPU * nr_cpus_found)
		n *= 2;
	buckets = kvmalloc(n * sizeof(*buckets), GFP_KERNEL | GFP_ZERO);
	if (!buckets)
		halt_with_message("Not enough memory for the futex table.");
	for (u32 i = 0; i < n; i++) {
		spin_lock_init(&buckets[i].lock, LOCK_FUTEX);
		INIT_LIST_HEAD(&buckets[i].list);
	}
	bucket_mask = n - 1;
}

/* -- keys and buckets ------------------------------------------------------------------------------------------------ */

/* 0, -EINVAL, -EFAULT. May sleep when @shared. */
static int get_key(u32 __user *uaddr, bool shared, bool write, struct futex_key *key)
{
	uintptr_t addr = (uintptr_t)uaddr;
	int error = 0;

	if (!IS_ALIGNED(addr, sizeof(u32)))
		return -EINVAL;
	if (!access_ok(uaddr, sizeof(u32)))
		return -EFAULT;
	key->object = current->mm;
	key->offset = addr;
	if (shared) {
		error = futex_shared_key(addr, write, &key->object, &key->offset);
		key->offset |= 1;
	}
	return error;
}

static bool keys_equal(const struct futex_key *a, const struct futex_key *b)
{
	return a->object == b->object && a->offset == b->offset;
}

static struct bucket *hash(const struct futex_key *key)
{
	u64 h = ((uintptr_t)key->object >> 4) ^ (key->offset * 0x9e3779b97f4a7c15ul);

	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9ul;
	return &buckets[(h >> 32) & bucket_mask];
}

/* Both buckets, lower address first; they may be the same. */
static void lock_two(struct bucket *a, struct bucket *b)
{
	if (a == b) {
		spin_lock(&a->lock);
		return;
	}
	spin_lock(a < b ? &a->lock : &b->lock);
	spin_lock_nested(a < b ? &b->lock : &a->lock);
}

static void unlock_two(struct bucket *a, struct bucket *b)
{
	spin_unlock(&a->lock);
	if (a != b)
		spin_unlock(&b->lock);
}

static bool nobody_waits(struct bucket *b)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);	/* a before b in the picture above */
	return !__atomic_load_n(&b->waiters, __ATOMIC_RELAXED);
}

/* -- wake ------------------------------------------------------------------------------------------------------------ */

/* Bucket locked. Once bucket is NULL the waiter may return and its stack go; the task stays, the lock is an RCU read section. */
static void wake_waiter(struct waiter *w)
{
	struct task *task = w->task;

	list_del(&w->node);
	__atomic_fetch_sub(&w->bucket->waiters, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&w->bucket, NULL, __ATOMIC_RELEASE);
	wake_up_state(task, TASK_NORMAL | WAKE_LOCAL);
}

/* Bucket locked. How many were woken. */
static int wake_matching(struct bucket *b, const struct futex_key *key, int nr, u32 bitset)
{
	struct waiter *w, *next;
	int woken = 0;

	list_for_each_entry_safe(w, next, &b->list, node) {
		if (woken >= nr)
			break;
		if (keys_equal(&w->key, key) && (w->bitset & bitset)) {
			wake_waiter(w);
			woken++;
		}
	}
	return woken;
}

static long futex_wake(u32 __user *uaddr, bool shared, int nr, u32 bitset)
{
	struct futex_key key;
	int error;

	if (!bitset)
		return -EINVAL;
	error = get_key(uaddr, shared, false, &key);
	if (error)
		return error;

	struct bucket *b = hash(&key);
	if (nobody_waits(b))
		return 0;
	race_window("futex_wake");
	spin_lock(&b->lock);
	int woken = wake_matching(b, &key, max(nr, 1), bitset);	/* 0 wakes one, as on Linux */
	spin_unlock(&b->lock);
	return woken;
}

void futex_wake_user(u32 __user *uaddr, int n)
{
	(void)futex_wake(uaddr, true, n, BITSET_ANY);
}

/* -- wait ------------------------------------------------------------------------------------------------------------ */

/* Off the queue again after the sleep. True: it was still there, nobody had woken it. The bucket may change by requeue. */
static bool unqueue(struct waiter *w)
{
	struct bucket *b;

	while ((b = __atomic_load_n(&w->bucket, __ATOMIC_ACQUIRE))) {
		spin_lock(&b->lock);
		if (w->bucket == b) {
			list_del(&w->node);
			__atomic_fetch_sub(&b->waiters, 1, __ATOMIC_RELAXED);
			spin_unlock(&b->lock);
			return true;
		}
		spin_unlock(&b->lock);
	}
	return false;
}

/* Queued, with the task state set, if the word still is @val: 0. -EAGAIN, -EFAULT, -EINVAL. */
static int queue_if_unchanged(struct waiter *w, u32 __user *uaddr, bool shared, u32 val)
{
	for (;;) {
		u32 now;
		int error = get_key(uaddr, shared, false, &w->key);
		if (error)
			return error;

		struct bucket *b = hash(&w->key);
		__atomic_fetch_add(&b->waiters, 1, __ATOMIC_SEQ_CST);
		spin_lock(&b->lock);
		error = get_user_u32_atomic(&now, uaddr);
		if (!error && now == val) {
			w->bucket = b;
			set_current_state(TASK_INTERRUPTIBLE);
			list_add_tail(&w->node, &b->list);
			spin_unlock(&b->lock);
			return 0;
		}
		__atomic_fetch_sub(&b->waiters, 1, __ATOMIC_RELAXED);
		spin_unlock(&b->lock);
		if (!error)
			return -EAGAIN;
		race_window("futex_fault");
		if (fault_in_user_page((uintptr_t)uaddr, false))
			return -EFAULT;
	}
}

/* @deadline: ktime, UINT64_MAX = none. 0 when woken, -ETIMEDOUT, -EAGAIN, -EINTR (a signal: the caller says how it restarts). */
static long futex_wait(u32 __user *uaddr, bool shared, u32 val, u64 deadline, u32 bitset)
{
	struct waiter w = { .task = current, .bitset = bitset };

	if (!bitset)
		return -EINVAL;
	for (;;) {
		int error = queue_if_unchanged(&w, uaddr, shared, val);
		if (error)
			return error;

		bool in_time = true;
		if (__atomic_load_n(&w.bucket, __ATOMIC_ACQUIRE))
			in_time = schedule_until(deadline);
		set_current_state(TASK_RUNNING);
		if (!unqueue(&w))
			return 0;
		if (!in_time)
			return -ETIMEDOUT;
		if (signal_pending())
			return -EINTR;
		/* Woken by something else. Looking at the word again is the only honest answer. */
	}
}

static long futex_wait_restart(struct restart_block *r);

static long futex_wait_syscall(u32 __user *uaddr, bool shared, u32 val, u64 deadline, u32 bitset)
{
	long ret = futex_wait(uaddr, shared, val, deadline, bitset);

	if (ret != -EINTR)
		return ret;
	if (deadline == UINT64_MAX)
		return -ERESTARTSYS;
	/* A relative time must not start anew. */
	current->restart.fn = futex_wait_restart;
	current->restart.futex.uaddr = uaddr;
	current->restart.futex.val = val;
	current->restart.futex.flags = shared;
	current->restart.futex.bitset = bitset;
	current->restart.futex.expires = deadline;
	return -ERESTART_RESTARTBLOCK;
}

static long futex_wait_restart(struct restart_block *r)
{
	return futex_wait_syscall(r->futex.uaddr, r->futex.flags, r->futex.val, r->futex.expires, r->futex.bitset);
}

/* -- requeue and wake-op --------------------------------------------------------------------------------------------- */

/* @cmp: requeue only while the word is still that value. Woken plus requeued. */
static long futex_requeue(u32 __user *uaddr1, u32 __user *uaddr2, bool shared, int nr_wake, int nr_requeue, const u32 *cmp)
{
	struct futex_key key1, key2;
	struct bucket *b1, *b2;
	int error, done = 0;

	if (nr_wake < 0 || nr_requeue < 0)
		return -EINVAL;
again:
	error = get_key(uaddr1, shared, false, &key1);
	if (!error)
		error = get_key(uaddr2, shared, false, &key2);
	if (error)
		return error;
	b1 = hash(&key1);
	b2 = hash(&key2);

	/* Requeued waiters are expected in b2 from before the locks on, so that a waker there does not skip the lock. */
	__atomic_fetch_add(&b2->waiters, 1, __ATOMIC_SEQ_CST);
	lock_two(b1, b2);
	if (cmp) {
		u32 now;

		error = get_user_u32_atomic(&now, uaddr1);
		if (!error && now != *cmp)
			error = -EAGAIN;
	}
	if (!error) {
		struct waiter *w, *next;

		list_for_each_entry_safe(w, next, &b1->list, node) {
			if (done - nr_wake >= nr_requeue)
				break;
			if (!keys_equal(&w->key, &key1))
				continue;
			if (done++ < nr_wake) {
				wake_waiter(w);
				continue;
			}
			if (b1 != b2) {
				list_move_tail(&w->node, &b2->list);
				__atomic_fetch_sub(&b1->waiters, 1, __ATOMIC_RELAXED);
				__atomic_fetch_add(&b2->waiters, 1, __ATOMIC_RELAXED);
				__atomic_store_n(&w->bucket, b2, __ATOMIC_RELEASE);
			}
			w->key = key2;
		}
	}
	unlock_two(b1, b2);
	__atomic_fetch_sub(&b2->waiters, 1, __ATOMIC_RELAXED);

	if (error == -EFAULT) {
		if (fault_in_user_page((uintptr_t)uaddr1, false))
			return -EFAULT;
		goto again;
	}
	return error ? error : done;
}

#define OP_ARG_SHIFT	8u	/* oparg stands for 1 << oparg */

/* Does what @op says with the word, atomically; 0 and the comparison's result, -EFAULT (nothing done), -ENOSYS. */
static int apply_wake_op(u32 __user *uaddr, u32 op, bool *result)
{
	u32 what = op >> 28 & 7, comparison = op >> 24 & 15;
	s32 arg = (s32)(op << 8) >> 20, cmparg = (s32)(op << 20) >> 20;
	u32 old, new, seen;

	if (op >> 28 & OP_ARG_SHIFT)
		arg = (s32)(1u << (arg & 31));
	if (get_user_u32_atomic(&seen, uaddr))
		return -EFAULT;
	do {
		old = seen;
		switch (what) {
		case 0: new = (u32)arg; break;
		case 1: new = old + (u32)arg; break;
		case 2: new = old | (u32)arg; break;
		case 3: new = old & ~(u32)arg; break;
		case 4: new = old ^ (u32)arg; break;
		default: return -ENOSYS;
		}
		if (cmpxchg_user_u32_atomic(uaddr, old, new, &seen))
			return -EFAULT;
	} while (seen != old);

	switch (comparison) {
	case 0: *result = (s32)old == cmparg; return 0;
	case 1: *result = (s32)old != cmparg; return 0;
	case 2: *result = (s32)old < cmparg; return 0;
	case 3: *result = (s32)old <= cmparg; return 0;
	case 4: *result = (s32)old > cmparg; return 0;
	case 5: *result = (s32)old >= cmparg; return 0;
	}
	return -ENOSYS;
}

static long futex_wake_op(u32 __user *uaddr1, u32 __user *uaddr2, bool shared, int nr1, int nr2, u32 op)
{
	for (;;) {
		struct futex_key key1, key2;
		bool wake_second = false;
		long woken = 0;
		int error = get_key(uaddr1, shared, false, &key1);

		if (!error)
			error = get_key(uaddr2, shared, true, &key2);
		if (error)
			return error;

		struct bucket *b1 = hash(&key1), *b2 = hash(&key2);
		lock_two(b1, b2);
		error = apply_wake_op(uaddr2, op, &wake_second);
		if (!error) {
			woken = wake_matching(b1, &key1, max(nr1, 1), BITSET_ANY);
			if (wake_second)
				woken += wake_matching(b2, &key2, max(nr2, 1), BITSET_ANY);
		}
		unlock_two(b1, b2);
		if (error != -EFAULT)
			return error ? error : woken;
		if (fault_in_user_page((uintptr_t)uaddr2, true))
			return -EFAULT;
	}
}

/* -- the system call ------------------------------------------------------------------------------------------------- */

/* 0 and the ktime at which @utime is over; -EFAULT, -EINVAL. */
static int parse_timeout(u32 op, const struct timespec64 __user *utime, u64 *deadline)
{
	struct timespec64 ts;
	u64 now, ns;

	if (copy_in(&ts, utime, sizeof(ts)))
		return -EFAULT;
	if (!timespec_valid(&ts))
		return -EINVAL;
	ns = timespec_to_ns(&ts);
	now = ktime_get_ns();
	if ((op & FUTEX_CMD_MASK) == FUTEX_WAIT) {
		*deadline = ns > INT64_MAX - now ? INT64_MAX : now + ns;
	} else {
		*deadline = clock_to_ktime(op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, ns);
	}
	return 0;
}

SYSCALL_DEFINE(futex, u32 __user *uaddr, int op, u32 val, const struct timespec64 __user *utime, u32 __user *uaddr2, u32 val3)
{
	bool shared = !(op & FUTEX_PRIVATE_FLAG);
	int cmd = op & FUTEX_CMD_MASK;
	u32 val2 = (u32)(uintptr_t)utime;	/* what the argument is for the calls without a timeout */
	u64 deadline = UINT64_MAX;

	if (utime && (cmd == FUTEX_WAIT || cmd == FUTEX_WAIT_BITSET)) {
		int error = parse_timeout((u32)op, utime, &deadline);
		if (error)
			return error;
	}
	if ((op & FUTEX_CLOCK_REALTIME) && cmd != FUTEX_WAIT_BITSET)
		return -ENOSYS;

	switch (cmd) {
	case FUTEX_WAIT:
		return futex_wait_syscall(uaddr, shared, val, deadline, BITSET_ANY);
	case FUTEX_WAIT_BITSET:
		return futex_wait_syscall(uaddr, shared, val, deadline, val3);
	case FUTEX_WAKE:
		return futex_wake(uaddr, shared, (int)val, BITSET_ANY);
	case FUTEX_WAKE_BITSET:
		return futex_wake(uaddr, shared, (int)val, val3);
	case FUTEX_REQUEUE:
		return futex_requeue(uaddr, uaddr2, shared, (int)val, (int)val2, NULL);
	case FUTEX_CMP_REQUEUE:
		return futex_requeue(uaddr, uaddr2, shared, (int)val, (int)val2, &val3);
	case FUTEX_WAKE_OP:
		return futex_wake_op(uaddr, uaddr2, shared, (int)val, (int)val2, val3);
	}
	return -ENOSYS;				/* priority inheritance, FUTEX_FD */
}

/* -- robust lists ---------------------------------------------------------------------------------------------------- */

struct robust_list { struct robust_list __user *next; };
struct robust_list_head {
	struct robust_list	list;
	long			futex_offset;		/* from an entry to its futex word */
	struct robust_list __user *list_op_pending;	/* being locked or unlocked, perhaps not on the list */
};

SYSCALL_DEFINE(set_robust_list, struct robust_list_head __user *head, size_t len)
{
	if (len != sizeof(*head))
		return -EINVAL;
	current->robust_list = head;
	return 0;
}

SYSCALL_DEFINE(get_robust_list, int tid, void __user *__user *uhead, size_t __user *ulen)
{
	void __user *head = current->robust_list;

	if (tid) {
		struct task *t = find_task_get(tid);
		if (!t)
			return -ESRCH;
		bool allowed = may_ptrace(t->process);
		head = t->robust_list;
		task_put(t);
		if (!allowed)
			return -EPERM;
	}
	if (put_user(sizeof(struct robust_list_head), ulen))
		return -EFAULT;
	return put_user(head, uhead);
}

/*
 * The owner of this word, if it is @tid, is dying. False: the word cannot be read or written, the list is not worth going on.
 * @pending: the word is 0 if the owner died between unlocking and waking; then the wake-up is ours to do.
 */
static bool futex_owner_died(u32 __user *uaddr, int tid, bool pi, bool pending)
{
	u32 word;

	if (!IS_ALIGNED((uintptr_t)uaddr, sizeof(u32)) || get_user(word, uaddr))
		return false;
	for (;;) {
		u32 seen;

		if (pending && !pi && !word) {
			futex_wake_user(uaddr, 1);
			return true;
		}
		if ((word & FUTEX_TID_MASK) != (u32)tid)
			return true;
		if (cmpxchg_user_u32_atomic(uaddr, word, (word & FUTEX_WAITERS) | FUTEX_OWNER_DIED, &seen)) {
			if (fault_in_user_page((uintptr_t)uaddr, true))
				return false;
			continue;
		}
		if (seen == word)
			break;
		word = seen;
	}
	if (!pi && (word & FUTEX_WAITERS))
		futex_wake_user(uaddr, 1);
	return true;
}

/* Bit 0 of each pointer marks a priority-inheritance futex. */
static bool fetch_entry(struct robust_list __user **entry, struct robust_list __user *__user *uptr, bool *pi)
{
	uintptr_t p;

	if (copy_in(&p, uptr, sizeof(p)))
		return false;
	*entry = (struct robust_list __user *)(p & ~1ul);
	*pi = p & 1;
	return true;
}

void exit_robust_list(struct task *t)
{
	struct robust_list_head __user *head = t->robust_list;
	struct robust_list __user *entry, *pending;
	bool pi, pending_pi;
	long offset;

	assert(t == current);
	t->robust_list = NULL;			/* once only, whatever happens below */
	if (!head || !t->mm)
		return;
	if (!fetch_entry(&entry, &head->list.next, &pi) || get_user(offset, &head->futex_offset) ||
	    !fetch_entry(&pending, &head->list_op_pending, &pending_pi))
		return;

	for (int n = 0; entry != &head->list && n < ROBUST_LIST_LIMIT; n++) {
		struct robust_list __user *next;
		bool next_pi;
		/* The next link first: once its futex is released, the entry belongs to somebody else. */
		bool more = fetch_entry(&next, &entry->next, &next_pi);

		if (entry != pending && !futex_owner_died((u32 __user *)((uintptr_t)entry + (unsigned long)offset), t->tid, pi, false))
			return;
		if (!more)
			return;
		entry = next;
		pi = next_pi;
		cond_resched();
	}
	if (pending)
		futex_owner_died((u32 __user *)((uintptr_t)pending + (unsigned long)offset), t->tid, pending_pi, true);
}
