/*
 * Address spaces as objects: made, counted, copied by fork, installed by exec, given up by exit.
 *
 * Two counts (mm/mm.h): users keep the contents alive, refs the structure. All users together hold one ref. A CPU that
 * runs a kernel thread on borrowed page tables holds a ref, so the structure, and the pgd in it, may outlive its pages;
 * lookups from outside (task_mm_get) rely on the structure being freed by RCU.
 *
 * Easy to break in fork: every parent VMA is write-locked before its entries are copied, because the other threads of the
 * parent would fault through the VMA lock alone, in the middle of the copy; and the parent's translations are flushed
 * (by copy_vma_pages) before its mmap_lock is released, because until then those threads write through stale writable
 * entries to pages that the child believes to be frozen (RACES R46).
 */
#include "mm/mm.h"
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/rcu.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/hugetlb.h"
#include "mm/mmap.h"
#include "mm/rmap.h"
#include "mm/slab.h"
#include "mm/tlb.h"
#include "mm/uffd.h"
#include "mm/vma_internal.h"

static struct kmem_cache *mm_cache, *counters_cache;
static u64 next_context_id = 1;		/* atomic; 0 is init_mm's */

#ifdef DEBUG
static struct spinlock mm_list_lock = SPINLOCK_INIT(LOCK_MM_LIST);
static LIST_HEAD(mm_list);
#endif

void address_space_init(void)
{
	mm_cache = kmem_cache_create("mm", sizeof(struct mm), 64);
	counters_cache = kmem_cache_create("mm_counters", nr_cpus_found * sizeof(struct mm_cpu_counters), 64);
	vma_tree_init();
	vma_init();
	vma_lock_init();
}

#ifdef DEBUG
struct mm *debug_next_mm(struct mm *prev)
{
	struct mm *mm, *found = NULL;

	spin_lock(&mm_list_lock);
	mm = prev ? prev : list_entry(&mm_list, struct mm, mm_list);
	while (!found) {
		mm = list_next_entry(mm, mm_list);
		if (&mm->mm_list == &mm_list)
			break;
		if (mm_get_not_zero(mm))
			found = mm;
	}
	spin_unlock(&mm_list_lock);
	if (prev)
		mm_put(prev);
	return found;
}
#endif

/* -- life -- */

/* May sleep for memory. users = refs = 1, no mapping, kernel half of the page tables filled in. NULL: no memory. */
struct mm *mm_alloc(void)
{
	struct mm *mm = kmem_cache_alloc(mm_cache, GFP_KERNEL | GFP_ZERO);

	if (!mm)
		return NULL;
	rwsem_init(&mm->mmap_lock, LOCK_MMAP);
	wait_queue_init(&mm->lock_wait);
	spin_lock_init(&mm->page_table_lock, LOCK_PAGE_TABLE);
	mm->lock_seq = 2;		/* never a VMA's first number by accident: those are odd */
	mm->context_id = __atomic_fetch_add(&next_context_id, 1, __ATOMIC_RELAXED);
	refcount_set(&mm->users, 1);
	refcount_set(&mm->refs, 1);
	INIT_LIST_HEAD(&mm->mm_list);
	mm->counters = kmem_cache_alloc(counters_cache, GFP_KERNEL | GFP_ZERO);
	if (!mm->counters)
		goto free_mm;
	mm->pgd = pgd_alloc(mm);
	if (!mm->pgd)
		goto free_counters;
#ifdef DEBUG
	spin_lock(&mm_list_lock);
	list_add_tail(&mm->mm_list, &mm_list);
	spin_unlock(&mm_list_lock);
#endif
	return mm;

free_counters:
	kmem_cache_free(counters_cache, mm->counters);
free_mm:
	kmem_cache_free(mm_cache, mm);
	return NULL;
}

static void mm_free_rcu(struct rcu_head *head)
{
	struct mm *mm = container_of(head, struct mm, rcu);

	for (int c = 0; c < NR_MM_COUNTERS; c++)
		WARN_ON_ONCE(mm_counter_read(mm, c) != 0);
#ifdef DEBUG
	spin_lock(&mm_list_lock);
	list_del(&mm->mm_list);
	spin_unlock(&mm_list_lock);
#endif
	pgd_free(mm, mm->pgd);
	kmem_cache_free(counters_cache, mm->counters);
	kmem_cache_free(mm_cache, mm);
}

/* Any context: what the free needs is done by the RCU thread. */
void mm_drop(struct mm *mm)
{
	if (refcount_dec_and_test(&mm->refs))
		call_rcu(&mm->rcu, mm_free_rcu);
}

/* May sleep; no lock that mmap_lock must not nest in. */
void mm_put(struct mm *mm)
{
	if (!refcount_dec_and_test(&mm->users))
		return;
	exit_mmap(mm);
	if (mm->exe_file)
		file_put(mm->exe_file);
	mm_drop(mm);
}

/*
 * Any context. @t's mm pointer is cleared before its count is dropped, and the structure lives on for a grace period, so
 * what is read here is either still counted or fails the increment.
 */
struct mm *task_mm_get(struct task *t)
{
	struct mm *mm;

	rcu_read_lock();
	mm = rcu_dereference(t->mm);
	if (mm && !mm_get_not_zero(mm))
		mm = NULL;
	rcu_read_unlock();
	return mm;
}

/* -- fork -- */

/* The flags a child's VMA starts with: nothing locked, nobody's userfaultfd unless uffd_fork_vma() says so (F47). */
static u64 fork_flags(u64 flags)
{
	return flags & ~(VM_LOCKED | VM_LOCKONFAULT | VM_UFFD_ANY);
}

/* Copies one VMA and its page tables. Both mmap_locks write. 0, -ENOMEM, -EINTR; the child's exit_mmap cleans up. */
static int fork_vma(struct mm *mm, struct vma *parent, struct uffd_event **forks)
{
	u64 charge = parent->flags & VM_ACCOUNT ? vma_pages(parent) : 0;
	struct vma *child;
	int err;

	if (parent->flags & VM_DONTCOPY)
		return 0;
	if (fatal_signal_pending())
		return -EINTR;
	err = vma_tree_reserve(&mm->vmas, 1);
	if (!err)
		err = vm_commit(charge);
	if (err)
		return err;
	child = vma_dup(parent);
	if (!child) {
		err = -ENOMEM;
		goto uncommit;
	}
	child->mm = mm;
	child->lock_seq = mm->lock_seq;
	child->uffd = NULL;
	child->flags = fork_flags(parent->flags);
	if (unlikely(parent->uffd)) {
		err = uffd_fork_vma(child, parent, forks);
		if (err)
			goto free_child;
	}
	if (child->flags & VM_HUGETLB)
		hugetlb_fork_vma(child);
	if (parent->anon_vma && !(parent->flags & VM_WIPEONFORK)) {
		err = anon_vma_fork(child, parent);
		if (err)
			goto free_child;
	}
	vma_insert(child);
	vm_stat_account(mm, child->flags, (s64)vma_pages(child));
	if (child->ops && child->ops->open)
		child->ops->open(child);
	return parent->flags & VM_WIPEONFORK ? 0 : copy_vma_pages(child, parent);

free_child:
	vma_free(child);
uncommit:
	vm_uncommit(charge);
	return err;
}

static void copy_layout(struct mm *mm, const struct mm *old)
{
	mm->mmap_base = old->mmap_base;
	mm->start_code = old->start_code;
	mm->end_code = old->end_code;
	mm->start_data = old->start_data;
	mm->end_data = old->end_data;
	mm->start_brk = old->start_brk;
	mm->brk = old->brk;
	mm->start_stack = old->start_stack;
	mm->arg_start = old->arg_start;
	mm->arg_end = old->arg_end;
	mm->env_start = old->env_start;
	mm->env_end = old->env_end;
	memcpy(mm->saved_auxv, old->saved_auxv, sizeof(mm->saved_auxv));
	mm->exe_file = old->exe_file;
	if (mm->exe_file)
		file_get(mm->exe_file);
}

/* No lock held; sleeps, also until managers of userfaultfds that follow forks have read of it. */
struct mm *mm_fork(struct mm *old)
{
	struct mm *mm = mm_alloc();
	struct uffd_event *forks = NULL;
	int err;

	if (!mm)
		return ERR_PTR(-ENOMEM);
	err = mmap_write_lock_killable(old);
	if (err)
		goto put;
	mmap_write_lock_nested(mm);
	copy_layout(mm, old);
	for (struct vma *vma = vma_find(old, 0); vma && !err; vma = vma_next(vma)) {
		vma_write_lock(vma);
		race_window("fork_vma_locked");
		err = fork_vma(mm, vma, &forks);
	}
	mmap_write_unlock(mm);
	mmap_write_unlock(old);		/* R46: copy_vma_pages() has flushed what it protected in the parent */
	if (!err) {
		uffd_deliver(forks);
		return mm;
	}
put:
	mm_put(mm);
	uffd_fork_cancel(forks);	/* after the VMAs that point to the contexts (R40) */
	return ERR_PTR(err);
}

/* -- exec and exit of current -- */

/* Takes over the caller's reference to @mm. Sleeps (the old address space may go). */
void exec_install_mm(struct mm *mm)
{
	struct task *task = current;
	struct mm *old = task->mm, *borrowed = task->active_mm;
	unsigned long flags = local_irq_save();

	switch_mm(borrowed, mm);
	task->active_mm = mm;
	rcu_assign_pointer(task->mm, mm);
	local_irq_restore(flags);
	if (old)
		mm_put(old);
	else if (borrowed && borrowed != &init_mm)	/* which the scheduler does not count */
		mm_drop(borrowed);	/* a kernel thread that becomes a process gives back the tables it ran on */
}

/*
 * The page tables stay loaded, lazily, until the CPU switches to somebody else: the reference for that is taken first,
 * and the scheduler drops it as for any kernel thread.
 */
void exit_mm(void)
{
	struct task *task = current;
	struct mm *mm = task->mm;
	unsigned long flags;

	if (!mm)
		return;
	mm_grab(mm);
	flags = local_irq_save();
	WRITE_ONCE(task->mm, NULL);
	enter_lazy_tlb(mm);
	local_irq_restore(flags);
	mm_put(mm);
}

/* -- counters -- */

/* Folded over the CPUs: exact when nobody faults, else a snapshot; never below 0 for the reader. */
s64 mm_counter_read(const struct mm *mm, enum mm_counter c)
{
	s64 sum = 0;

	for (unsigned int cpu = 0; cpu < nr_cpus_found; cpu++)
		sum += READ_ONCE(mm->counters[cpu].rss[c]);
	return sum > 0 ? sum : 0;
}

u64 mm_rss(const struct mm *mm)
{
	u64 rss = 0;

	for (int c = 0; c < NR_MM_COUNTERS; c++)
		rss += (u64)mm_counter_read(mm, c);
	return rss;
}

u64 mm_hiwater_rss(struct mm *mm)
{
	u64 rss = mm_rss(mm), seen = READ_ONCE(mm->hiwater_rss);

	while (rss > seen && !__atomic_compare_exchange_n(&mm->hiwater_rss, &seen, rss, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return max(rss, seen);
}
