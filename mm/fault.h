/*
 * The page fault contract (SEMANTICS B). One entry, handle_mm_fault(); one result type; one rule on who holds the lock.
 */
#ifndef MM_FAULT_H
#define MM_FAULT_H

#include "mm/vma.h"

typedef unsigned int vm_fault_t;

#define VM_FAULT_OOM		0x000001u
#define VM_FAULT_SIGBUS		0x000002u
#define VM_FAULT_MAJOR		0x000004u
#define VM_FAULT_HWPOISON	0x000010u
#define VM_FAULT_HWPOISON_LARGE	0x000020u
#define VM_FAULT_SIGSEGV	0x000040u
#define VM_FAULT_NOPAGE		0x000100u	/* ->fault installed the entry itself */
#define VM_FAULT_LOCKED		0x000200u	/* ->fault succeeded: vmf->page is referenced and locked */
#define VM_FAULT_RETRY		0x000400u
#define VM_FAULT_FALLBACK	0x000800u
#define VM_FAULT_DONE_COW	0x001000u
#define VM_FAULT_COMPLETED	0x004000u
/* With HWPOISON_LARGE: which huge page size, 0 = 2 MiB, 1 = 1 GiB. */
#define VM_FAULT_SET_LARGE(n)	((vm_fault_t)(n) << 16)
#define VM_FAULT_LARGE_SHIFT(r)	(PMD_SHIFT + 9 * (((r) >> 16) & 0xf))
#define VM_FAULT_ERROR	(VM_FAULT_OOM | VM_FAULT_SIGBUS | VM_FAULT_SIGSEGV | VM_FAULT_HWPOISON | VM_FAULT_HWPOISON_LARGE | VM_FAULT_FALLBACK)

/*
 * RETRY (without RETRY_NOWAIT): not resolved. COMPLETED: resolved, or with an error bit failed for good (a page that could not be read).
 * In both the callee has dropped the lock that the
 * caller entered with (per-VMA or mmap), and the VMA may be gone. With any other result the caller still holds it.
 */
#define VM_FAULT_DROPPED	(VM_FAULT_RETRY | VM_FAULT_COMPLETED)

#define FAULT_FLAG_WRITE	0x001u
#define FAULT_FLAG_MKWRITE	0x002u
#define FAULT_FLAG_ALLOW_RETRY	0x004u
#define FAULT_FLAG_RETRY_NOWAIT	0x008u
#define FAULT_FLAG_KILLABLE	0x010u
#define FAULT_FLAG_TRIED	0x020u
#define FAULT_FLAG_USER		0x040u
#define FAULT_FLAG_REMOTE	0x080u
#define FAULT_FLAG_INSTRUCTION	0x100u
#define FAULT_FLAG_INTERRUPTIBLE 0x200u
#define FAULT_FLAG_UNSHARE	0x400u
#define FAULT_FLAG_VMA_LOCK	0x1000u
/*
 * Legal: WRITE and UNSHARE exclude each other; RETRY_NOWAIT needs ALLOW_RETRY and excludes VMA_LOCK; everything else
 * combines. The rest is asserted away in handle_mm_fault().
 */
#define FAULT_FLAGS_USER	(FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE | FAULT_FLAG_INTERRUPTIBLE)

struct vm_fault {
	struct vma	*vma;
	uintptr_t	 address;	/* page aligned */
	uintptr_t	 real_address;	/* exact, for uffd and signals */
	u64		 pgoff;		/* linear_index of address; for ->fault */
	unsigned int	 flags;		/* FAULT_FLAG_* */
	pmd_t		*pmd;
	pte_t		 orig_pte;	/* what was decided on; re-checked under the PTE lock (B12) */
	pte_t		*pte;		/* the entry; ptl to write it */
	struct spinlock	*ptl;		/* of its table */
	struct page	*page;		/* from ->fault: referenced, locked if VM_FAULT_LOCKED */
	struct page	*cow_page;	/* allocated before locks for a private write */
};

/* Do the VMA's rights allow this access? Asked by each entry before the handler; a refusal is not counted (B7). */
static inline bool vma_permits_fault(const struct vma *vma, unsigned int flags)
{
	if (flags & FAULT_FLAG_WRITE)
		return vma->flags & VM_WRITE;
	if (flags & FAULT_FLAG_INSTRUCTION)
		return vma->flags & VM_EXEC;
	return vma->flags & VM_ACCESS;		/* x86 has no write-only or exec-only page (A17) */
}

/*
 * Serves a fault at @addr in @vma. Locks: mmap_lock read, or the VMA read lock with FAULT_FLAG_VMA_LOCK. May sleep.
 * Does all accounting: fault_entries per call; pgfault, min_flt and maj_flt once per fault (B7, B8).
 */
vm_fault_t handle_mm_fault(struct vma *vma, uintptr_t addr, unsigned int flags);
/* Drops whichever lock the fault holds: the one place that knows (R50). */
void release_fault_lock(struct vma *vma, unsigned int flags);

struct trap_frame;
/* #PF from kernel/x86/trap.c: interrupts as in the interrupted context, already re-enabled if they were on. */
void do_page_fault(struct trap_frame *frame, u64 error_code, uintptr_t addr);

/* Stack growth (A38), in mm/mmap.c with the other limits: mmap_lock for write. 0 or -ENOMEM. */
int __must_check expand_stack(struct vma *vma, uintptr_t addr);

extern bool fault_completed_enabled;	/* mm.fault_completed=on|off */
void fault_init(void);			/* the zero page, caches, switches; after mm_init, before the first user mm */

/*
 * The callers of handle_mm_fault(), each of which must know all results (G7). In debug builds a test can make the next
 * faults of one of them return RETRY or COMPLETED: /sys/kernel/faultline/fault_inject takes "SITE RESULT COUNT".
 */
enum fault_site { FAULT_SITE_USER, FAULT_SITE_KERNEL, FAULT_SITE_GUP, FAULT_SITE_FIXUP, NR_FAULT_SITES };
#ifdef DEBUG
vm_fault_t call_fault_handler(enum fault_site site, struct vma *vma, uintptr_t addr, unsigned int flags);
void fault_inject_init(void);		/* after procfs */
#else
static inline vm_fault_t call_fault_handler(enum fault_site site, struct vma *vma, uintptr_t addr, unsigned int flags)
{
	(void)site;
	return handle_mm_fault(vma, addr, flags);
}
static inline void fault_inject_init(void) { }
#endif

#endif
