/*
 * Mappings of what is not ordinary memory. Entries are PTE_SPECIAL: nobody takes a reference through them, so the memory must
 * stay what it is until the mapping is gone. The mapping holds its file, munmap and exit flush before they let go of it, and
 * the file's release is where the owner may take the memory back: that order is the whole protection.
 */
#include "mm/pfnmap.h"

#include "kernel/errno.h"
#include "mm/fault_internal.h"
#include "mm/pgtable.h"

int pfnmap_prepare(struct vma *vma, const struct vma_ops *ops)
{
	if (vma_is_private(vma) || (vma->flags & VM_EXEC))
		return -EINVAL;
	vma->flags = (vma->flags & ~VM_MAYEXEC) | VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY;
	vma->ops = ops;
	vma->mapping = NULL;
	return 0;
}

vm_fault_t vmf_insert_pfn(struct vm_fault *vmf, pfn_t pfn, u64 type)
{
	u64 prot = vmf->vma->page_prot | type | PTE_SPECIAL | PTE_ACCESSED;

	/* Writable at once where it may be: there is no first write to take note of. */
	if (vmf->vma->flags & VM_WRITE)
		prot |= PTE_WRITE | PTE_DIRTY;
	if (vmf_lock_pte(vmf)) {		/* else another thread was here first, for the same frame */
		pte_write_entry(vmf->pte, pfn_pte(pfn, prot));
		pte_unlock(vmf->ptl);
	}
	return VM_FAULT_NOPAGE;
}
