/*
 * What keeps a fault in a huge page apart from those who take its page table away: unshare, unmap, truncate. The field has
 * had several answers to that question; each is one value of hugetlb.sync and one file, behind this table of operations.
 * The fault path and the walks of mm/hugetlb_vma.c call the operations and never ask which answer is in force.
 *
 *	vma		mm/hugetlb_sync_vma.c		a semaphore per VMA, held by a fault from its walk to its last use of the entry
 *	i_mmap		mm/hugetlb_sync_i_mmap.c	the file's i_mmap_lock, held likewise
 *	recheck		mm/hugetlb_sync_recheck.c	nothing is held; the entry's lock is taken, and the walk is done again under it
 *	file		mm/hugetlb_sync_file.c		the file owns the tables, so nobody takes them away
 *	none-share, none mm/hugetlb_sync_none.c		broken on purpose, to show what the others are for
 *
 * docs/sharing-page-tables.md tells the story, and the locks of each side by side.
 */
#ifndef MM_HUGETLB_SYNC_H
#define MM_HUGETLB_SYNC_H

#include "kernel/lock_rank.h"
#include "mm/hugetlb.h"
#include "mm/pgtable.h"

/* Where an entry was found, and by whom: the unit in which faults and walks talk to the operations. */
struct huge_entry {
	struct vma	*vma;
	struct hstate	*h;
	uintptr_t	 addr;		/* start of the huge page */
	pte_t		*pte;		/* a PMD or PUD entry, by h; NULL: no table */
	struct spinlock	*ptl;		/* held between lock_entry and huge_entry_unlock */
};

#define MAX_SYNC_ORDER	6

struct hugetlb_sync_ops {
	const char	*name;
	bool		 unsafe;	/* refused unless the command line says so */
	/* The locks of a fault, outermost first, ended by NR_LOCK_CLASSES: the rank checker takes it over at boot. */
	u8		 order[MAX_SYNC_ORDER + 1];

	/* A VMA has come to its place (mmap: is about to), by itself or as a copy. mmap_lock write. Sleeps, cannot fail. */
	void	(*open)(struct vma *vma);
	void	(*close)(struct vma *vma);		/* it is out of the tree and of i_mmap */
	bool	(*may_share)(const struct vma *vma);	/* NULL: every VMA may that fits (E1) */

	/*
	 * Around every use of entries that may block or write. Outside the folio lock and all spin locks, inside the fault
	 * mutex. Sleeps.
	 */
	void	(*begin)(struct vma *vma);
	void	(*end)(struct vma *vma);
	/* Fills the empty PUD entry with a table, a shared one if there is any. 0 or -ENOMEM; somebody may be faster. Sleeps. */
	int	(*make_table)(struct vma *vma, uintptr_t addr, pud_t *pud);
	/*
	 * Locks the entry that e->pte pointed to when it was found after begin(). False, nothing locked: there is no table for
	 * the address any more. e->pte may be another one afterwards.
	 */
	bool	(*lock_entry)(struct huge_entry *e);

	/* Around every change that may take tables or pages away: munmap, DONTNEED, mprotect, mremap, uffd. Sleeps. */
	void	(*change_begin)(struct vma *vma);
	void	(*change_end)(struct vma *vma);
	/*
	 * The table under *pud must not be edited for this VMA alone: the VMA leaves it, and true is returned. The caller flushes
	 * the GiB before change_end() (E6). False: the table is this mm's own. Between change_begin() and change_end(), or with
	 * i_mmap_lock for write where the VMA is write-locked.
	 */
	bool __must_check (*leave_table)(struct vma *vma, uintptr_t addr, pud_t *pud);

	/* For /proc: do other address spaces use @table, that of @vma? RCU. */
	bool	(*table_has_others)(const struct vma *vma, const struct page *table);

	/* hugetlb_unmap_file() */
	void	(*unmap_file)(struct mapping *m, u64 first, u64 last, bool even_cows);
	void	(*evict_file)(struct mapping *m);	/* no VMA, no page is left */

	/*
	 * An allocation has failed: pages may be between a table and the pool (R15). Keeps that from happening until
	 * settle_end(), so that a second failure is the truth. NULL: begin() does that already.
	 */
	void	(*settle_begin)(struct vma *vma);
	void	(*settle_end)(struct vma *vma);

	bool	removal_without_mutex;	/* truncate does not take fault mutexes, nobody looks at i_size twice (none) */
};

extern const struct hugetlb_sync_ops *hugetlb_sync;	/* constant after boot */
extern const struct hugetlb_sync_ops hugetlb_sync_vma, hugetlb_sync_i_mmap, hugetlb_sync_recheck, hugetlb_sync_file,
				     hugetlb_sync_none_share, hugetlb_sync_none;
extern bool hugetlb_pmd_share_enabled;			/* hugetlb.pmd_share=on|off */
extern bool hugetlb_ptl_is_mm;				/* hugetlb.ptl=table|mm, for recheck */

void hugetlb_sync_init(void);		/* reads the switches; before the first user mm */
void hugetlb_sync_sysfs_init(void);	/* /sys/kernel/faultline/hugetlb.{sync,ptl,pmd_share} */

/* Operations that several values have in common (mm/hugetlb_sync.c). */
void sync_nothing(struct vma *vma);
void sync_i_mmap_read_lock(struct vma *vma);
void sync_i_mmap_read_unlock(struct vma *vma);
void sync_i_mmap_write_lock(struct vma *vma);
void sync_i_mmap_write_unlock(struct vma *vma);
bool sync_table_is_shared(const struct vma *vma, const struct page *table);
int sync_share_or_alloc(struct vma *vma, uintptr_t addr, pud_t *pud);
void sync_unmap_file(struct mapping *m, u64 first, u64 last, bool even_cows);
void sync_evict_nothing(struct mapping *m);
static inline bool vma_maps_file_pages(const struct vma *vma, u64 first, u64 last, const struct hstate *h)
{
	u64 start = vma->pgoff >> h->order;

	return first < start + (vma_pages(vma) >> h->order) && start < last;
}

/*
 * For removal of one index from a file, by fs/hugetlbfs.c: the fault mutex, unless the value of hugetlb.sync says that
 * this is not done. The hash, or NO_FAULT_MUTEX.
 */
#define NO_FAULT_MUTEX	(~0u)
u32 hugetlb_removal_lock(struct mapping *m, u64 idx);
void hugetlb_removal_unlock(u32 hash);

/* -- entries (mm/hugetlb_vma.c) -- */

/* The lock of the table that @pte stands in; with hugetlb.ptl=mm the mm's. */
static inline struct spinlock *huge_lockptr(const struct vma *vma, const pte_t *pte)
{
	if (unlikely(hugetlb_ptl_is_mm))
		return &vma->mm->page_table_lock;
	return &virt_to_page(pte)->ptl;
}

/* The entry for @addr, or NULL if a table is missing. The pointer is as good as what the caller holds (E8). */
static inline pte_t *huge_walk(struct mm *mm, const struct hstate *h, uintptr_t addr)
{
	if (unlikely(huge_page_shift(h) == PUD_SHIFT))
		return (pte_t *)pud_walk(mm, addr);
	return (pte_t *)pmd_walk(mm, addr);
}

static inline void huge_entry_unlock(const struct huge_entry *e) { spin_unlock(e->ptl); }

/*
 * Where e->pte stays what it is until end(): lock_entry of all values that hold something, and of those that should.
 */
static inline bool huge_lock_stable_entry(struct huge_entry *e)
{
	e->ptl = huge_lockptr(e->vma, e->pte);
	spin_lock(e->ptl);
	return true;
}

/* The entries of @vma for file pages [first, last), as far as they lie in it; i_mmap_lock held. Flushed on return. */
bool huge_file_page_has_entry(struct vma *vma, u64 idx);	/* present or a marker */
void huge_unmap_file_pages(struct vma *vma, u64 first, u64 last, bool even_cows);

#endif
