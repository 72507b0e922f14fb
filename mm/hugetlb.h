/*
 * Huge pages: pools of 2 MiB and 1 GiB pages with exact reservations, and the mappings that are made of them.
 *
 *	mm/hugetlb.c		the pools: how many pages there are, who has been promised one (D1 to D4)
 *	mm/hugetlb_sysctl.c	what /proc and /sys say of them
 *	mm/hugetlb_reserve.c	the promises, and those to private mappings (D5 to D9)
 *	mm/hugetlb_file_map.c	what files have promised
 *	mm/hugetlb_subpool.c	the limits of a mount (D17)
 *	mm/hugetlb_fault.c	a fault in a huge mapping (D8, D11, D24 to D26, D29)
 *	mm/hugetlb_vma.c	the other walks over huge entries: zap, mprotect, mremap, pinning, /proc; fork is in mm/hugetlb_fork.c
 *	mm/pmd_share.c		sharing of PMD tables (section E), and mm/hugetlb_sync*.c, what keeps it apart from faults
 *	fs/hugetlbfs.c		names, sizes; truncate and hole punching (D12 to D23, D30). Never edits a page table
 *	fs/hugetlbfs_mount.c	mounts and their options (D16, D18)
 *
 * An index ("idx") of a huge file is counted in pages of its own size; struct vma's pgoff stays in 4 KiB units.
 */
#ifndef MM_HUGETLB_H
#define MM_HUGETLB_H

#include "mm/fault.h"
#include "mm/mapping.h"

struct hugetlb_subpool;
struct mmu_gather;
struct resv_map;

#define NR_HSTATES		2
#define HUGETLB_FLAG_SHIFT	26	/* MAP_HUGE_*, MFD_HUGE_*, SHM_HUGE_*: log2 of the size */
#define HUGETLB_FLAG_MASK	0x3fu

/*
 * One pool. All counts in huge pages, under lock (LOCK_HUGETLB_POOL); invariants (D1): resv <= free <= nr,
 * surplus <= nr, surplus <= overcommit unless overcommit was lowered since.
 */
struct hstate {
	unsigned int	 order;		/* I  9 or 18 */
	const char	*name;		/* I  "hugepages-2048kB" */
	struct spinlock	 lock;
	u64		 nr, free, resv, surplus, overcommit;
	u64		 max;		/* persistent pages that were asked for */
	struct list_head free_list;	/* page->lru; refcount 0 */
};

extern struct hstate hstates[NR_HSTATES];
extern struct hstate *default_hstate;	/* default_hugepagesz=, else 2 MiB */

static inline u64 huge_page_size(const struct hstate *h) { return PAGE_SIZE << h->order; }
static inline unsigned int huge_page_shift(const struct hstate *h) { return PAGE_SHIFT + h->order; }
static inline u64 huge_page_mask(const struct hstate *h) { return ~(huge_page_size(h) - 1); }
/* The pool of exactly this size, if the machine has such pages; else NULL. */
struct hstate *hstate_of_size(u64 bytes);
/* From the six bits at HUGETLB_FLAG_SHIFT; 0 means the default. NULL: no such pool. */
struct hstate *hstate_of_log2(unsigned int log2);
struct hstate *hstate_inode(const struct inode *inode);		/* of a hugetlbfs file */
struct hstate *hstate_file(const struct file *file);
static inline struct hstate *hstate_vma(const struct vma *vma) { return hstate_file(vma->file); }
bool file_is_hugetlbfs(const struct file *file);
/* Is a page at @idx past the end of the file, now? One that would be there in part only is, unlike with small pages (D21). */
bool hugetlb_beyond_end(const struct mapping *m, const struct hstate *h, u64 idx);
/* The file's index of @addr, in huge pages. */
static inline u64 hugetlb_index(const struct hstate *h, const struct vma *vma, uintptr_t addr)
{
	return linear_index(vma, addr & huge_page_mask(h)) >> h->order;
}

/* -- mm/hugetlb.c: the pools -- */
void hugetlb_init(void);		/* after mm_init and the command line: takes the boot pages */
void hugetlb_sysctl_init(void);		/* mm/hugetlb_sysctl.c: /proc/sys/vm, /sys/kernel/mm/hugepages; after procfs */
extern u32 sysctl_hugetlb_shm_group;	/* members may use SHM_HUGETLB without CAP_IPC_LOCK (D15) */
/*
 * A page for @addr of @vma: by the mapping's reservation if it has one that is not used up (avoid_reserve: never; D24),
 * else one that nobody was promised, else surplus. Refcount 1, contents undefined, not in any mapping; remembers what it
 * was taken from, so that put_page() before the next call below gives exactly that back (D8). ERR_PTR(-ENOSPC): pool or
 * subpool is empty; -ENOMEM. Sleeps. The caller holds the fault mutex of (mapping, idx).
 */
struct page *hugetlb_alloc_page(struct vma *vma, uintptr_t addr, bool avoid_reserve);
/* The same for fallocate and uffd, without a VMA: reservations are those of the file. */
struct page *hugetlb_alloc_page_file(struct inode *inode, u64 idx);
/* A page for data in transit (R20): counts as surplus-like, belongs to nobody, touches no reservation. NULL: no memory. */
struct page *hugetlb_alloc_temporary(struct hstate *h);
/*
 * After an error, right before put_page, if neither add_to_page_cache nor page_is_used was called with success: the promise
 * goes back to its map with the page (R17). Fault mutex held until after put_page, inode or VMA kept. Forgetting it is a panic there.
 */
void hugetlb_restore_reserve(struct vma *vma, uintptr_t addr, struct page *page);
void hugetlb_restore_reserve_file(struct inode *inode, u64 idx, struct page *page);
/*
 * Into the page cache of @inode at @idx, uptodate, locked by the caller: the cache takes a reference; the reservation is now
 * spent. 0, -EEXIST, -ENOMEM. A full barrier follows the insertion: look at i_size after it.
 */
int hugetlb_add_to_page_cache(struct page *page, struct inode *inode, u64 idx);
/* Out again: truncate, or a fault that finds i_size changed (R12; no restore then). Folio lock, unmapped; drops the cache's reference. */
void hugetlb_remove_from_page_cache(struct page *page);
/* Used privately (D11, D26): the reservation is spent, a later free gives back none. */
void hugetlb_page_is_used(struct page *page);
void hugetlb_free_page(struct page *page);	/* from put_page of the last reference; any context without hugetlb locks */
void clear_huge_page(struct page *page);	/* sleeps (cond_resched) */
void copy_huge_page(struct page *to, struct page *from);
size_t hugetlb_meminfo(char *buf, size_t size);	/* the HugePages_* and Hugetlb lines of /proc/meminfo */

/*
 * -- mm/hugetlb_reserve.c: the promises --
 *
 * vma->private of a huge mapping is theirs: the map of a private mapping that reserved, and the mark of D24. What guards page
 * tables (hugetlb.sync) hangs elsewhere on the VMA. mapping->pages is indexed in huge pages.
 */
/* mmap, shmget: reserves what [from, to) of the file lacks. vma NULL: for the file (SHM). 0, -ENOMEM, nothing changed then. Sleeps. */
int hugetlb_reserve_pages(struct inode *inode, u64 from, u64 to, struct vma *vma, u64 vm_flags);
/* Truncate: what [from, to) of the file was promised and has no page goes back. Pages are removed before; see mm/hugetlb_reserve.c. */
void hugetlb_unreserve_pages(struct inode *inode, u64 from, u64 to);
/* A private mapping that reserved its pages itself; a fork child is not (D6). */
bool hugetlb_vma_is_owner(const struct vma *vma);
void hugetlb_vma_mark_unmapped(struct vma *vma);	/* D24: pages of a non-owner were taken away: missing ones are SIGBUS from now on */
bool hugetlb_vma_is_unmapped(const struct vma *vma);
void hugetlb_vma_inherit_mark(struct vma *copy, struct vma *vma);	/* @copy is in i_mmap now: whoever marks finds both */
/*
 * Does the zap of @page, at @addr of @vma, by DONTNEED give the owner his reservation back (D9)? Does it. PTE lock held, the
 * rmap not yet removed. The promise counts again when the page is freed.
 */
void hugetlb_zap_restores_reserve(struct vma *vma, uintptr_t addr, struct page *page);
/* vma_ops open/close do the rest; these two cannot be told from a split by open alone. mmap_lock for write. */
void hugetlb_fork_vma(struct vma *child);		/* drops the copied pointers: no owner, a sharing lock of its own (E17) */
extern const struct vma_ops hugetlb_vma_ops;		/* open, close, may_split; SHM wraps them */
void hugetlb_move_vma(struct vma *to, struct vma *from);	/* mremap: the promises go along (R22) */

/* One instantiation per (file, index) (D29, R14). Sleeps. Outside the sharing lock of the VMA. */
u32 hugetlb_fault_mutex_lock(struct mapping *m, u64 idx);	/* the hash, for unlock */
void hugetlb_fault_mutex_unlock(u32 hash);

/* A new mapping is complete but for its place in the tree; vma_ops->open and close tell of all others. Cannot fail. */
void hugetlb_vma_mapped(struct vma *vma);

/* -- mm/hugetlb_fault.c -- */
vm_fault_t hugetlb_fault(struct vma *vma, uintptr_t addr, unsigned int flags);

/* -- mm/hugetlb_vma.c: called by the generic walks for a VMA with VM_HUGETLB; locks as for the generic one -- */
void hugetlb_zap_range(struct mmu_gather *tlb, struct vma *vma, uintptr_t start, uintptr_t end, bool even_cows);	/* munmap, exit */
void hugetlb_zap_page_range(struct vma *vma, uintptr_t start, uintptr_t end);	/* DONTNEED: the owner keeps his promise (D9) */
int hugetlb_copy_vma(struct vma *child, struct vma *parent);			/* fork */
void hugetlb_change_protection(struct vma *vma, uintptr_t start, uintptr_t end, u64 new_page_prot);
int hugetlb_move_pages(struct vma *to, struct vma *from, uintptr_t old, uintptr_t new, size_t len);	/* mremap; 0 or -ENOMEM */
/* The 4 KiB page behind @addr for page pinning; rules of mm/gup.c. NULL: a fault must come first. */
struct page *hugetlb_follow_page(struct vma *vma, uintptr_t addr, unsigned int foll, unsigned int *fault_flags);
/* The entry of the huge page at @addr as it is now, none if there is no table. For mincore, pagemap, smaps; *shared: its table is. */
pte_t hugetlb_read_entry(struct vma *vma, uintptr_t addr, bool *shared);
/* Split at @addr is coming: VMA write-locked and rmap locked (E12). */
void hugetlb_split_vma(struct vma *vma, uintptr_t addr);
/*
 * For fs/hugetlbfs.c: pages [first, last) of the file out of every mapping (D30); even_cows: private copies too. Takes
 * i_mmap and what hugetlb.sync asks for, in its order (E18). Sleeps; no fault mutex held, unless the range is the one page
 * whose mutex it is.
 */
void hugetlb_unmap_file(struct mapping *m, u64 first, u64 last, bool even_cows);
void hugetlb_evict_file(struct mapping *m);	/* nobody maps it any more; before its pages go */

/* -- fs/hugetlbfs.c -- */
/* An unlinked file on the internal mount of that size: MAP_HUGETLB, memfd, SHM. ERR_PTR. Reserves nothing. */
struct file *hugetlb_file_setup(struct hstate *h, const char *name, u64 size, unsigned int open_flags, bool allow_sealing);
/* For shmget: all of it is reserved here, unless @noreserve, and mappings of it reserve nothing (D15). ERR_PTR(-ENOMEM). */
struct file *hugetlb_file_setup_reserved(struct hstate *h, const char *name, u64 size, bool noreserve);

#endif
