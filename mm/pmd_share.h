/* PMD tables that several VMAs use at once: section E of docs/rules.md. Who may call what is told in mm/pmd_share.c. */
#ifndef MM_PMD_SHARE_H
#define MM_PMD_SHARE_H

#include "mm/hugetlb.h"
#include "mm/pgtable.h"

/* Is @table used by more than one PUD entry? The only test there is (E3, R6). Exact with i_mmap_lock for write. */
static inline bool pmd_table_is_shared(const struct page *table) { return __atomic_load_n(&table->pt_sharers, __ATOMIC_RELAXED); }
/* Could this window of @vma share at all, now? (E1, first half) */
bool pmd_window_sharable(const struct vma *vma, uintptr_t addr);
/* Puts a table that a sibling uses into the empty *pud. False: there is none. i_mmap_lock held, any mode; may be left to others. */
bool huge_pmd_share(struct vma *vma, uintptr_t addr, pud_t *pud);
/* make_table of the values that share by search: takes i_mmap_lock for read unless @locked. 0 or -ENOMEM. */
int huge_pmd_share_or_alloc(struct vma *vma, uintptr_t addr, pud_t *pud, bool locked);
/* leave_table of the same. True: the whole GiB of this mm must be flushed now, tables and all (E5, E6). */
bool __must_check huge_pmd_unshare(struct vma *vma, uintptr_t addr, pud_t *pud);
#ifdef DEBUG
void pmd_share_debug_init(void);	/* /sys/kernel/faultline/pmd_share_check */
#endif

#endif
