/*
 * struct mm: one address space. users counts the tasks that run in it (and short pins that need its pages alive);
 * when users reaches 0 all VMAs and pages go. refs counts those plus everybody who only needs the structure.
 */
#ifndef MM_MM_H
#define MM_MM_H

#include "kernel/rcu.h"
#include "kernel/refcount.h"
#include "kernel/rwsem.h"
#include "kernel/wait.h"
#include "mm/pgtable.h"
#include "mm/vma_tree.h"

struct file;
struct task;
struct uffd_event;
struct vma;

enum mm_counter { MM_ANONPAGES, MM_FILEPAGES, MM_SHMEMPAGES, NR_MM_COUNTERS };
/* One line per CPU, so that faults on different CPUs write no common line; added up on reading. */
struct mm_cpu_counters { s64 rss[NR_MM_COUNTERS]; } __aligned(64);

#define AT_VECTOR_SIZE 48

/*
 *   W  mmap_lock for write (read: either mode)    P  page_table_lock    A  atomic   I  constant after creation
 */
struct mm {
	struct vma_tree		 vmas;		/* W to change; RCU to read */
	struct rwsem		 mmap_lock;	/* LOCK_MMAP */
	/*
	 * Sequence of write-lock periods of mmap_lock: odd while write-held; moved on by acquire and by release or
	 * downgrade, which unlocks every VMA locked in between at once (SEMANTICS C, mm/vma_lock.c).
	 */
	u64			 lock_seq;
	struct wait_queue	 lock_wait;	/* faults that wait for lock_seq to move on (vma_lock_after_writer) */
	uintptr_t		 kept_tables;	/* W  end of a range that was unmapped, its page tables not (mm/mmap.c); 0: none */
	struct vma		*dead_vmas;	/* W  detached, waiting for the unlock to drop their files (mm/vma_lock.c) */
	u32			 map_count;	/* W  VMAs */
	u32			 tlb_flush_pending;	/* A */
	pgd_t			*pgd;		/* I */
	struct spinlock		 page_table_lock;	/* LOCK_PAGE_TABLE: pgd, pud and pmd entries */
	s64			 pgtables_bytes;	/* A */

	cpumask_t		 cpu_mask __aligned(64);	/* A  CPUs that may hold translations */
	u64			 tlb_gen;	/* A  raised by each flush request */
	u64			 context_id;	/* I  never reused, for PCID and lazy TLB */

	struct refcount		 users __aligned(64);
	struct refcount		 refs;
	struct rcu_head		 rcu;

	/* Layout. W */
	uintptr_t		 mmap_base;	/* top of the area for mappings, searched downwards */
	uintptr_t		 start_code, end_code, start_data, end_data;
	uintptr_t		 start_brk, brk, start_stack;
	uintptr_t		 arg_start, arg_end, env_start, env_end;
	u64			 total_vm, locked_vm, data_vm, exec_vm, stack_vm, hugetlb_vm;	/* W  4 KiB pages */
	u64			 pinned_vm;	/* A  pages */
	u64			 hiwater_rss;	/* A  pages, updated lazily */
	u64			 hiwater_vm;	/* W  largest total_vm, updated when it shrinks and when asked */
	u64			 def_flags;	/* W  mlockall(MCL_FUTURE): VM_LOCKED, VM_LOCKONFAULT */
	struct file		*exe_file;	/* counted */
	u64			 saved_auxv[AT_VECTOR_SIZE];
	struct uffd_event	*uffd_events;	/* W  of this write period, sent after the unlock (mm/uffd_events.c) */
	struct mm_cpu_counters	*counters;	/* [NR_CPUS in use] */
	struct list_head	 mm_list;	/* debug: all address spaces */
};

struct mm *mm_alloc(void);			/* empty, users = refs = 1; NULL: no memory */
static inline void mm_get(struct mm *mm) { refcount_inc(&mm->users); }
static inline bool mm_get_not_zero(struct mm *mm) { return refcount_inc_not_zero(&mm->users); }
void mm_put(struct mm *mm);			/* last user: unmaps everything. May sleep */
static inline void mm_grab(struct mm *mm) { refcount_inc(&mm->refs); }
void mm_drop(struct mm *mm);			/* any context (the free is deferred when needed) */

/* fork: a copy with shared pages write-protected. ERR_PTR(-ENOMEM/-EINTR). Takes old->mmap_lock for write. */
struct mm *mm_fork(struct mm *old);
/* Counted mm of a task that may be exiting (for /proc, process_vm_readv); NULL if it has none any more. */
struct mm *task_mm_get(struct task *t);
/* exec: makes @mm current's address space; drops the old one. Cannot fail. */
void exec_install_mm(struct mm *mm);
/* exit: current gives up its address space. */
void exit_mm(void);

static inline void mm_counter_add(struct mm *mm, enum mm_counter c, s64 n)
{
	preempt_disable();
	mm->counters[smp_processor_id()].rss[c] += n;	/* never from interrupts */
	preempt_enable_no_resched();
}
/* The same where preemption is off already: under a PTE lock. */
static inline void mm_counter_add_locked(struct mm *mm, enum mm_counter c, s64 n)
{
	assert(preempt_count());
	mm->counters[smp_processor_id()].rss[c] += n;
}
s64 mm_counter_read(const struct mm *mm, enum mm_counter c);
u64 mm_rss(const struct mm *mm);
u64 mm_hiwater_rss(struct mm *mm);		/* VmHWM in pages: the largest that anybody saw; updates it */
#ifdef DEBUG
/* The address space after @prev (NULL: the first) that is alive, pinned; drops the pin of @prev. NULL: no more. May sleep. */
struct mm *debug_next_mm(struct mm *prev);
#endif
void address_space_init(void);			/* caches and switches of mm, VMAs and their tree; once, after slab and cmdline */

/* mmap_lock with its sequence number (mm/vma_lock.c). Never touch mm->mmap_lock directly. */
void mmap_read_lock(struct mm *mm);
int __must_check mmap_read_lock_killable(struct mm *mm);
bool mmap_read_trylock(struct mm *mm);
void mmap_read_unlock(struct mm *mm);
void mmap_write_lock(struct mm *mm);
void mmap_write_lock_nested(struct mm *mm);	/* fork: the child's, while the parent's is held */
int __must_check mmap_write_lock_killable(struct mm *mm);
/*
 * Also unlocks every VMA that was write-locked. May sleep: files of unmapped VMAs are dropped, and if a userfaultfd follows
 * what was unmapped, its manager is waited for (killably).
 */
void mmap_write_unlock(struct mm *mm);
void mmap_write_downgrade(struct mm *mm);	/* likewise; keeps the read lock */
#define assert_mmap_locked(mm)		assert(rwsem_is_locked(&(mm)->mmap_lock))
#define assert_mmap_write_locked(mm)	assert(rwsem_is_write_held(&(mm)->mmap_lock))

#endif
