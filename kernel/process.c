/*
 * The objects behind kernel/task.h: task and process structures, kernel stacks, pid numbers, process groups and
 * sessions, and the ways to find them. What happens to them is told in fork.c, exit.c, exec.c and signal.c.
 *
 * The rule that is easy to break: a task or process found in a list or in the pid table may be on its way out. Under
 * process_tree_lock it stays what it is; under RCU it may be used after refcount_inc_not_zero() only.
 *
 *	fork		task refs: 1 for running, given back by the scheduler after its last switch
 *			           1 for process->leader, given back when the process is reaped (leaders only)
 *			process refs: 1 for the tree, given back when it is reaped; 1 for each task
 *
 * So a zombie is its struct process and its leader's struct task; stack, FPU area and memory are gone by then.
 */
#include "kernel/process.h"

#include "kernel/percpu.h"
#include "kernel/printk.h"
#include "kernel/smp.h"
#include "kernel/string.h"
#include "kernel/sysctl.h"
#include "fs/tty.h"
#include "mm/mm.h"
#include "mm/slab.h"

struct spinlock process_tree_lock = SPINLOCK_INIT(LOCK_PROCESS_TREE);
struct list_head all_processes = LIST_HEAD_INIT(all_processes);
struct task *init_task_ptr;
u32 sysctl_pid_max = PID_MAX_DEFAULT;

#define ALL_CAPS ((1ul << 41) - 1)

struct process kernel_process = {
	.refs = REFCOUNT_INIT(1),
	.threads = LIST_HEAD_INIT(kernel_process.threads),
	.children = LIST_HEAD_INIT(kernel_process.children),
	.zombies = LIST_HEAD_INIT(kernel_process.zombies),
	.sibling = LIST_HEAD_INIT(kernel_process.sibling),
	.all_node = LIST_HEAD_INIT(kernel_process.all_node),
	.pg_node = LIST_HEAD_INIT(kernel_process.pg_node),
	.creds = { .cap_effective = ALL_CAPS, .cap_permitted = ALL_CAPS, .cap_bounding = ALL_CAPS },
	.rlim = { [0 ... RLIM_NLIMITS - 1] = { RLIM_INFINITY, RLIM_INFINITY } },
	.pending = { .queue = LIST_HEAD_INIT(kernel_process.pending.queue) },
	.child_wait = WAIT_QUEUE_INIT(kernel_process.child_wait),
	.exit_wait = WAIT_QUEUE_INIT(kernel_process.exit_wait),
	.exec_lock = MUTEX_INIT(kernel_process.exec_lock, LOCK_EXEC),
	.user = &root_user,
};

static struct kmem_cache *task_cache, *process_cache, *sighand_cache, *pid_cache;

static unsigned int nr_user_tasks;	/* A */
u32 sysctl_threads_max;		/* single word */

/* -- tasks -- */

struct task *task_alloc(void)
{
	struct task *t = kmem_cache_alloc(task_cache, GFP_KERNEL | GFP_ZERO);

	if (!t)
		return NULL;
	t->stack = kernel_stack_alloc();
	if (!t->stack) {
		kmem_cache_free(task_cache, t);
		return NULL;
	}
	t->state = TASK_NEW;
	t->process = &kernel_process;
	t->cpu = smp_processor_id();
	t->affinity = ~0ul;
	t->start_ns = ktime_get_ns();
	spin_lock_init(&t->pi_lock, LOCK_TASK_PI);
	refcount_set(&t->refs, 1);
	INIT_LIST_HEAD(&t->thread_node);
	sigpending_init(&t->pending);
	timer_setup(&t->sleep_timer, NULL);
	return t;
}

static void task_free_stack(struct task *t)
{
	void *stack = t->stack;

	if (!stack)
		return;
	WRITE_ONCE(t->stack, NULL);
	thread_context_free(t);
	kernel_stack_free(stack);
}

static void task_free_rcu(struct rcu_head *head)
{
	struct task *t = container_of(head, struct task, rcu);

	task_free_stack(t);
	if (t->process != &kernel_process)
		process_put(t->process);
	kmem_cache_free(task_cache, t);
}

void task_get(struct task *t) { refcount_inc(&t->refs); }

void task_put(struct task *t)
{
	if (refcount_dec_and_test(&t->refs))
		call_rcu(&t->rcu, task_free_rcu);
}

void task_dead_switched_out(struct task *t)
{
	assert(t->state == TASK_DEAD);
	task_free_stack(t);
	task_put(t);
}

/* -- processes -- */

struct process *process_alloc(void)
{
	struct process *p = kmem_cache_alloc(process_cache, GFP_KERNEL | GFP_ZERO);

	if (!p)
		return NULL;
	refcount_set(&p->refs, 1);
	INIT_LIST_HEAD(&p->threads);
	INIT_LIST_HEAD(&p->children);
	INIT_LIST_HEAD(&p->zombies);
	INIT_LIST_HEAD(&p->sibling);
	INIT_LIST_HEAD(&p->all_node);
	INIT_LIST_HEAD(&p->pg_node);
	sigpending_init(&p->pending);
	wait_queue_init(&p->child_wait);
	wait_queue_init(&p->exit_wait);
	mutex_init(&p->exec_lock, LOCK_EXEC);
	timer_setup(&p->real_timer, NULL);
	p->start_ns = ktime_get_ns();
	return p;
}

static void process_free_rcu(struct rcu_head *head)
{
	struct process *p = container_of(head, struct process, rcu);

	flush_sigpending(&p->pending);
	if (p->sighand)
		sighand_put(p->sighand);
	if (p->user)
		user_put(p->user);
	kmem_cache_free(process_cache, p);
}

void process_get(struct process *p) { refcount_inc(&p->refs); }

void process_put(struct process *p)
{
	if (refcount_dec_and_test(&p->refs))
		call_rcu(&p->rcu, process_free_rcu);
}

struct sighand *sighand_alloc(void)
{
	struct sighand *sh = kmem_cache_alloc(sighand_cache, GFP_KERNEL | GFP_ZERO);

	if (!sh)
		return NULL;
	spin_lock_init(&sh->lock, LOCK_SIGHAND);
	refcount_set(&sh->refs, 1);
	wait_queue_init(&sh->signalfd_wait);
	return sh;
}

/*
 * The memory may be reused at once, but not by anybody who could harm: lock_sighand() only touches a sighand that is
 * still its process's while RCU is held, and sighand_put() of the last user comes after a grace period (process_free_rcu)
 * or after execve has replaced it and waited for one.
 */
void sighand_put(struct sighand *sh)
{
	if (refcount_dec_and_test(&sh->refs))
		kmem_cache_free(sighand_cache, sh);
}

struct sighand *lock_sighand(struct process *p, unsigned long *flags)
{
	for (;;) {
		rcu_read_lock();
		struct sighand *sh = rcu_dereference(p->sighand);

		*flags = spin_lock_irqsave(&sh->lock);
		rcu_read_unlock();
		if (likely(sh == p->sighand))
			return sh;
		spin_unlock_irqrestore(&sh->lock, *flags);
	}
}

void unlock_sighand(struct sighand *sh, unsigned long flags) { spin_unlock_irqrestore(&sh->lock, flags); }

/* -- pid numbers -- */

#define PID_HASH_SIZE 4096u
static struct pid *pid_hash[PID_HASH_SIZE];	/* T to write, RCU to read */
static u64 pid_bitmap[PID_MAX_LIMIT / 64];	/* T to write; next_process_get() reads it freely */
static int pid_last;				/* T */
static unsigned int pids_used;			/* T */

static struct pid **pid_bucket(int nr) { return &pid_hash[(u32)nr % PID_HASH_SIZE]; }

/* First clear bit in [from, end), or -1. Word by word: at most 512 steps with the default pid_max. */
static int bitmap_next_zero(unsigned int from, unsigned int end)
{
	for (unsigned int w = from / 64; w * 64 < end; w++) {
		u64 free = ~pid_bitmap[w];

		if (w == from / 64)
			free &= ~0ul << (from % 64);
		if (free) {
			unsigned int nr = w * 64 + (unsigned int)__builtin_ctzll(free);

			return nr < end ? (int)nr : -1;
		}
	}
	return -1;
}

/* First set bit at or after @from, or -1. */
static int bitmap_next_one(unsigned int from)
{
	for (unsigned int w = from / 64; w < ARRAY_SIZE(pid_bitmap); w++) {
		u64 used = READ_ONCE(pid_bitmap[w]);

		if (w == from / 64)
			used &= ~0ul << (from % 64);
		if (used)
			return (int)(w * 64 + (unsigned int)__builtin_ctzll(used));
	}
	return -1;
}

struct pid *pid_new(void)
{
	struct pid *pid = kmem_cache_alloc(pid_cache, GFP_KERNEL | GFP_ZERO);

	if (pid)
		INIT_LIST_HEAD(&pid->members);
	return pid;
}

void pid_discard(struct pid *pid) { kmem_cache_free(pid_cache, pid); }

bool pid_assign_locked(struct pid *pid)
{
	assert_spin_held(&process_tree_lock);
	u32 limit = READ_ONCE(sysctl_pid_max);
	int nr = bitmap_next_zero((u32)pid_last + 1, limit);

	if (nr < 0)
		nr = bitmap_next_zero(RESERVED_PIDS, limit);
	if (nr < 0)
		return false;
	pid_bitmap[nr / 64] |= BIT(nr % 64);
	pid_last = nr;
	pids_used++;
	pid->nr = nr;
	pid->hash_next = *pid_bucket(nr);
	rcu_assign_pointer(*pid_bucket(nr), pid);
	return true;
}

struct pid *pid_find(int nr)
{
	struct pid *pid = nr > 0 ? rcu_dereference(*pid_bucket(nr)) : NULL;

	while (pid && pid->nr != nr)
		pid = rcu_dereference(pid->hash_next);
	return pid;
}

void pid_use_locked(struct pid *pid)
{
	assert_spin_held(&process_tree_lock);
	pid->uses++;
}

static void pid_free_rcu(struct rcu_head *head) { kmem_cache_free(pid_cache, container_of(head, struct pid, rcu)); }

void pid_unuse_locked(struct pid *pid)
{
	assert_spin_held(&process_tree_lock);
	assert(pid->uses > 0);
	if (--pid->uses)
		return;

	struct pid **link = pid_bucket(pid->nr);

	while (*link != pid)
		link = &(*link)->hash_next;
	rcu_assign_pointer(*link, pid->hash_next);
	WRITE_ONCE(pid_bitmap[pid->nr / 64], pid_bitmap[pid->nr / 64] & ~BIT(pid->nr % 64));
	pids_used--;
	call_rcu(&pid->rcu, pid_free_rcu);
}

int last_pid(void) { return READ_ONCE(pid_last); }

/* -- counting: kernel.threads-max -- */

unsigned int nr_tasks(void) { return __atomic_load_n(&nr_user_tasks, __ATOMIC_RELAXED); }

bool task_count_try_inc(void)
{
	if (__atomic_fetch_add(&nr_user_tasks, 1, __ATOMIC_RELAXED) < READ_ONCE(sysctl_threads_max))
		return true;
	task_count_dec();
	return false;
}

void task_count_dec(void) { __atomic_fetch_sub(&nr_user_tasks, 1, __ATOMIC_RELAXED); }

/* -- finding -- */

struct task *find_task_get(int tid)
{
	struct task *t = NULL;

	rcu_read_lock();
	struct pid *pid = pid_find(tid);

	if (pid)
		t = rcu_dereference(pid->task);
	if (t && !refcount_inc_not_zero(&t->refs))
		t = NULL;
	rcu_read_unlock();
	return t;
}

struct process *find_process_get(int tgid)
{
	struct process *p = NULL;

	rcu_read_lock();
	struct pid *pid = pid_find(tgid);

	if (pid)
		p = rcu_dereference(pid->process);
	if (p && !refcount_inc_not_zero(&p->refs))
		p = NULL;
	rcu_read_unlock();
	return p;
}

struct process *next_process_get(int tgid)
{
	for (int nr = bitmap_next_one((u32)max(tgid, 1)); nr >= 0; nr = bitmap_next_one((u32)nr + 1)) {
		struct process *p = find_process_get(nr);

		if (p)
			return p;
	}
	return NULL;
}

struct task *next_thread_get(struct process *p, int tid)
{
	struct task *best = NULL, *t;
	unsigned long flags = spin_lock_irqsave(&process_tree_lock);

	/* A leader that has exited before the others is not in the list, but still there. */
	if (p->leader && p->leader->tid >= tid)
		best = p->leader;
	list_for_each_entry(t, &p->threads, thread_node) {
		if (t->tid >= tid && (!best || t->tid < best->tid))
			best = t;
	}
	if (best)
		task_get(best);
	spin_unlock_irqrestore(&process_tree_lock, flags);
	return best;
}

/* -- groups and sessions -- */

void process_join_group_locked(struct process *p, struct pid *pgrp)
{
	assert_spin_held(&process_tree_lock);
	struct pid *old = p->pgid ? pid_find(p->pgid) : NULL;

	pid_use_locked(pgrp);
	list_del_init(&p->pg_node);
	list_add_tail(&p->pg_node, &pgrp->members);
	WRITE_ONCE(p->pgid, pgrp->nr);
	if (old)
		pid_unuse_locked(old);
}

void process_join_session_locked(struct process *p, struct pid *session)
{
	assert_spin_held(&process_tree_lock);
	struct pid *old = p->sid ? pid_find(p->sid) : NULL;

	pid_use_locked(session);
	WRITE_ONCE(p->sid, session->nr);
	if (old)
		pid_unuse_locked(old);
}

void process_leave_groups_locked(struct process *p)
{
	assert_spin_held(&process_tree_lock);
	list_del_init(&p->pg_node);
	pid_unuse_locked(pid_find(p->pgid));
	pid_unuse_locked(pid_find(p->sid));
}

/*
 * A group is orphaned when no member has a parent in another group of the same session: nobody is left who would
 * continue it. @ignored, which may be NULL, is about to exit and does not count.
 */
bool pgrp_will_be_orphaned_locked(struct pid *pgrp, const struct process *ignored)
{
	assert_spin_held(&process_tree_lock);
	struct process *p;

	list_for_each_entry(p, &pgrp->members, pg_node) {
		if (p == ignored || p->zombie || !p->parent || p->parent->tgid <= 1)
			continue;
		if (p->parent->pgid != pgrp->nr && p->parent->sid == p->sid)
			return false;
	}
	return true;
}

bool pgrp_is_orphaned(int pgid)
{
	unsigned long flags = spin_lock_irqsave(&process_tree_lock);
	struct pid *pgrp = pid_find(pgid);
	bool orphaned = !pgrp || pgrp_will_be_orphaned_locked(pgrp, NULL);

	spin_unlock_irqrestore(&process_tree_lock, flags);
	return orphaned;
}

int pgrp_session(int pgid)
{
	unsigned long flags = spin_lock_irqsave(&process_tree_lock);
	struct pid *pgrp = pid_find(pgid);
	/* All members of a group are in one session: setpgid() sees to it. So one of them speaks for all. */
	struct process *p = pgrp ? list_first_entry_or_null(&pgrp->members, struct process, pg_node) : NULL;
	int sid = p ? p->sid : -ESRCH;

	spin_unlock_irqrestore(&process_tree_lock, flags);
	return sid;
}

unsigned int for_each_in_pgrp_locked(struct pid *pgrp, bool (*fn)(struct process *p, void *arg), void *arg)
{
	assert_spin_held(&process_tree_lock);
	struct process *p;
	unsigned int n = 0;

	list_for_each_entry(p, &pgrp->members, pg_node) {
		n++;
		if (!fn(p, arg))
			break;
	}
	return n;
}

/* Rare (a session leader with a terminal exits), so the walk over all processes is acceptable. */
void session_clear_tty(int sid, struct tty *tty)
{
	struct process *p;
	unsigned int dropped = 0;
	unsigned long flags = spin_lock_irqsave(&process_tree_lock);

	list_for_each_entry(p, &all_processes, all_node) {
		unsigned long sflags;

		if (p->sid != sid || READ_ONCE(p->tty) != tty)
			continue;
		struct sighand *sh = lock_sighand(p, &sflags);

		if (p->tty == tty) {
			p->tty = NULL;
			dropped++;
		}
		unlock_sighand(sh, sflags);
	}
	spin_unlock_irqrestore(&process_tree_lock, flags);
	/* The last reference may free the terminal: not under the lock. */
	while (dropped--)
		tty_put(tty);
}

/* -- what /proc shows -- */

char task_state_char(const struct task *t)
{
	u32 state = READ_ONCE(t->state);

	if (state & TASK_DEAD || READ_ONCE(t->flags) & PF_EXITING)
		return READ_ONCE(t->process->zombie) || state & TASK_DEAD ? 'Z' : 'R';
	if (state & TASK_STOPPED)
		return 'T';
	if (state & TASK_INTERRUPTIBLE)
		return 'S';
	if (state & TASK_UNINTERRUPTIBLE)
		return 'D';
	return 'R';
}

void set_task_comm(struct task *t, const char *name)
{
	char comm[TASK_COMM_LEN] = { 0 };

	strscpy(comm, name, sizeof(comm));
	memcpy(t->comm, comm, sizeof(comm));
}

/* -- start-up -- */

void process_init(void)
{
	task_cache = kmem_cache_create("task", sizeof(struct task), 64);
	process_cache = kmem_cache_create("process", sizeof(struct process), 64);
	sighand_cache = kmem_cache_create("sighand", sizeof(struct sighand), 64);
	pid_cache = kmem_cache_create("pid", sizeof(struct pid), 8);
	signal_init();

	/* As in Linux: at most an eighth of memory for kernel stacks, but always enough to work with. */
	u64 threads = nr_total_pages() * PAGE_SIZE / (8 * KERNEL_STACK_SIZE);

	sysctl_threads_max = (u32)clamp(threads, (u64)128, (u64)PID_MAX_LIMIT);
}
