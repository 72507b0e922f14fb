/* Mapping memory that has no struct page to count, or whose owner counts by other means: device windows, DMA buffers. */
#ifndef MM_PFNMAP_H
#define MM_PFNMAP_H

#include "mm/fault.h"

/*
 * For ops->mmap: what every such mapping must be (shared, not executable), and the flags that keep the rest of mm/ away from
 * it: not inherited by fork, not grown, not pinned, not dumped. 0 or -EINVAL.
 */
int __must_check pfnmap_prepare(struct vma *vma, const struct vma_ops *ops);
/* For ops->fault: enters @pfn at vmf->address with the VMA's rights and memory type @type (0 or PTE_TYPE_*). Result of the fault. */
vm_fault_t vmf_insert_pfn(struct vm_fault *vmf, pfn_t pfn, u64 type);

#endif
