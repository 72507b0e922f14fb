/*
 * hugetlb.sync=recheck: a fault holds nothing. What it found on its walk is a hint; when it wants to write, it walks again
 * under RCU, locks the table that it finds, and looks once more whether the PUD entry still points there:
 *
 *	fault					unshare (i_mmap write)
 *	walk: PUD entry -> T, entry e of T
 *	allocate, clear, copy...		lock T, clear the PUD entry, unlock T, flush
 *	walk again: PUD entry empty
 *	nothing to lock: back out, fault again
 *
 * or, if the unshare comes between the second walk and the lock: the fault waits for T's lock, reads the PUD entry, finds it
 * changed, and starts over. T is memory all the time: it is freed by RCU, and preemption is off from the walk to the lock.
 * After the lock nothing can happen to the PUD entry, for who clears it must have T's lock.
 *
 *	fault		fault mutex -> (i_mmap read, only while a table is being shared) -> entry
 *	munmap, ...	VMA locked -> i_mmap write -> entry
 *	truncate	[fault mutex ->] i_mmap write -> entry
 *
 * hugetlb.ptl=mm locks entries by the mm's page_table_lock instead, as the proposal had it: its author could not rely on the
 * lock in a table that might be gone. PUD entries of this mm then change under a lock of this mm, so the second look is as
 * good. But two processes lock one shared table by two locks. What still makes that safe: entries of a shared table are
 * only filled, never emptied or narrowed (who wants that must leave the table first), and one entry is filled by one task
 * at a time, under the fault mutex of its file and index. Nothing else does; a second user of shared entries that does not
 * come by the fault mutex would be a race here and not with hugetlb.ptl=table.
 */
#include "kernel/race.h"
#include "kernel/rcu.h"
#include "mm/hugetlb_sync.h"
#include "mm/pmd_share.h"

/* Each turn of the loop follows a change of the tables by somebody else. */
static bool lock_entry(struct huge_entry *e)
{
	struct mm *mm = e->vma->mm;

	for (;;) {
		rcu_read_lock();
		e->pte = huge_walk(mm, e->h, e->addr);
		if (!e->pte) {
			rcu_read_unlock();
			return false;
		}
		race_window("recheck_walked");
		e->ptl = huge_lockptr(e->vma, e->pte);
		spin_lock(e->ptl);
		rcu_read_unlock();
		if (likely(huge_walk(mm, e->h, e->addr) == e->pte))
			return true;
		spin_unlock(e->ptl);
	}
}

const struct hugetlb_sync_ops hugetlb_sync_recheck = {
	.name = "recheck",
	.order = { LOCK_HUGETLB_FAULT, LOCK_I_MMAP, LOCK_PTE, NR_LOCK_CLASSES },
	.open = sync_nothing,
	.close = sync_nothing,
	.begin = sync_nothing,
	.end = sync_nothing,
	.make_table = sync_share_or_alloc,
	.lock_entry = lock_entry,
	.change_begin = sync_i_mmap_write_lock,
	.change_end = sync_i_mmap_write_unlock,
	.leave_table = huge_pmd_unshare,
	.table_has_others = sync_table_is_shared,
	.unmap_file = sync_unmap_file,
	.evict_file = sync_evict_nothing,
	.settle_begin = sync_i_mmap_read_lock,
	.settle_end = sync_i_mmap_read_unlock,
};
