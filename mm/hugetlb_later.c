/* Stands in for mm/hugetlb_vma.c and mm/hugetlb_sync.c until they are there: no huge page is mapped, so there is nothing to unmap. Goes with them. */
#include "kernel/errno.h"
#include "mm/hugetlb_internal.h"

int hugetlb_may_map(void) { return -ENODEV; }
void hugetlb_vma_mapped(struct vma *vma) { (void)vma; }
void hugetlb_unmap_file(struct mapping *m, u64 first, u64 last, bool even_cows) { (void)m, (void)first, (void)last, (void)even_cows; }
u32 hugetlb_removal_lock(struct mapping *m, u64 idx) { return hugetlb_fault_mutex_lock(m, idx); }
void hugetlb_removal_unlock(u32 hash) { hugetlb_fault_mutex_unlock(hash); }
