/*
 * hugetlb.sync=i_mmap: the file's i_mmap_lock, for reading during the whole fault. The simplest answer that is right: who
 * takes a table away has it for writing. It needs no lock of its own, and sharing needs no other.
 *
 *	fault		fault mutex -> i_mmap read -> entry
 *	munmap, ...	VMA locked -> i_mmap write -> entry
 *	truncate	[fault mutex ->] i_mmap write -> entry
 *
 * What it costs: every VMA that comes or goes takes i_mmap_lock for writing, so one process that forks stops the faults of all
 * others in the file, and the line of the lock travels with each fault.
 */
#include "mm/hugetlb_sync.h"
#include "mm/pmd_share.h"

static int make_table(struct vma *vma, uintptr_t addr, pud_t *pud)
{
	return huge_pmd_share_or_alloc(vma, addr, pud, true);
}

const struct hugetlb_sync_ops hugetlb_sync_i_mmap = {
	.name = "i_mmap",
	.order = { LOCK_HUGETLB_FAULT, LOCK_I_MMAP, LOCK_PTE, NR_LOCK_CLASSES },
	.open = sync_nothing,
	.close = sync_nothing,
	.begin = sync_i_mmap_read_lock,
	.end = sync_i_mmap_read_unlock,
	.make_table = make_table,
	.lock_entry = huge_lock_stable_entry,
	.change_begin = sync_i_mmap_write_lock,
	.change_end = sync_i_mmap_write_unlock,
	.leave_table = huge_pmd_unshare,
	.table_has_others = sync_table_is_shared,
	.unmap_file = sync_unmap_file,
	.evict_file = sync_evict_nothing,
};
