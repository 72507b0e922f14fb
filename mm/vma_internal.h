/* Between mm/vma.c, mm/vma_lock.c, mm/mm.c and the memory system calls only. */
#ifndef MM_VMA_INTERNAL_H
#define MM_VMA_INTERNAL_H

#include "mm/vma.h"

struct vma *vma_merge_neighbours(struct vma *vma);	/* joins @vma with equals on both sides; the VMA that is there now, write-locked if joined */
int __must_check vma_split_nolimit(struct vma *vma, uintptr_t addr);
void vma_exit(struct vma *vma);		/* exit_mmap: vma_remove for a tree that is about to be destroyed */
void vma_init(void);			/* mm/vma.c: cache */
void vma_dispose_list(struct vma *dead);	/* after mmap_lock: close was called, drops files, frees after RCU. May sleep */

#ifdef DEBUG
void vma_check_sampled(struct mm *mm);	/* the walker after some write periods: all of small address spaces, few of large ones */
#else
static inline void vma_check_sampled(struct mm *mm) { (void)mm; }
#endif

/* -- mm/mmap.c: limits and accounting. mmap_lock for write -- */
long do_mmap(struct file *file, struct file *zero, uintptr_t addr, size_t len, unsigned long prot, unsigned long flags, u64 pgoff,
	     size_t *populate);			/* mmap itself, of current's mm */
void vm_stat_account(struct mm *mm, u64 flags, s64 pages);	/* total_vm and its parts */
bool may_expand_vm(struct mm *mm, u64 flags, u64 pages);	/* RLIMIT_AS, RLIMIT_DATA */
bool mlock_limit_ok(struct mm *mm, u64 more_pages);	/* RLIMIT_MEMLOCK, unless CAP_IPC_LOCK */
bool can_do_mlock(void);
bool vma_is_accountable(u64 flags);		/* private and writable: counts against the commit limit */
int __must_check vm_commit(u64 pages);		/* 0 or -ENOMEM by the overcommit policy */
void vm_uncommit(u64 pages);
/* Where a mapping without MAP_FIXED goes: an address or -errno as a value. @align: its start is congruent 0 mod @align. */
uintptr_t get_unmapped_area(struct mm *mm, uintptr_t hint, size_t len, uintptr_t align, unsigned long map_flags);
#define STACK_GUARD_GAP	(256ul << PAGE_SHIFT)	/* kept free below a stack (A38) */
void drop_kept_tables(struct mm *mm);		/* the empty page tables of the last munmap (mm/mmap.c) go too */
bool mdwe_denies(u64 old_flags, u64 new_flags);	/* mm/mprotect.c: PR_SET_MDWE forbids memory that was writable to become executable */
u64 calc_prot_bits(unsigned long prot);		/* PROT_* -> VM_READ/WRITE/EXEC */
long populate_range(struct mm *mm, uintptr_t start, uintptr_t end, unsigned int foll);	/* mm/mlock.c; takes mmap_lock itself */
void populate_locked(struct mm *mm, uintptr_t start, uintptr_t end);	/* mm/mlock.c; no lock held */
void vma_prepare_for_writes(struct vma *vma);	/* gives a private writable VMA its anon_vma, if there is memory */
/* Does a VMA with these flags keep F_SEAL_WRITE away (mapping->writable_maps)? */
static inline bool vma_counts_as_writer(u64 flags) { return (flags & (VM_SHARED | VM_MAYWRITE)) == (VM_SHARED | VM_MAYWRITE); }
static inline bool range_ok(uintptr_t start, size_t len) { return len <= TASK_SIZE && start <= TASK_SIZE - len; }

#endif
