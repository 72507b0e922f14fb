/*
 * hugetlb.sync=none-share and none: what the others are for. Both corrupt memory, and the command line must say `unsafe`.
 *
 *	none-share	a fault believes its first walk: the entry it found is written, whatever happened to the table since (R1, R3)
 *	none		and truncate removes pages without the fault mutex, and no fault looks at the file's size again (R12, R13)
 *
 * They are the middle column of the published figures: the price of no protection at all.
 */
#include "mm/hugetlb_sync.h"
#include "mm/pmd_share.h"

#define SYNC_NONE_OPS					\
	.unsafe = true,					\
	.order = { LOCK_HUGETLB_FAULT, LOCK_I_MMAP, LOCK_PTE, NR_LOCK_CLASSES },	\
	.open = sync_nothing,				\
	.close = sync_nothing,				\
	.begin = sync_nothing,				\
	.end = sync_nothing,				\
	.make_table = sync_share_or_alloc,		\
	.lock_entry = huge_lock_stable_entry,		\
	.change_begin = sync_i_mmap_write_lock,		\
	.change_end = sync_i_mmap_write_unlock,		\
	.leave_table = huge_pmd_unshare,		\
	.table_has_others = sync_table_is_shared,	\
	.unmap_file = sync_unmap_file,			\
	.evict_file = sync_evict_nothing,		\
	.settle_begin = sync_i_mmap_read_lock,		\
	.settle_end = sync_i_mmap_read_unlock

const struct hugetlb_sync_ops hugetlb_sync_none_share = { .name = "none-share", SYNC_NONE_OPS };
const struct hugetlb_sync_ops hugetlb_sync_none = { .name = "none", SYNC_NONE_OPS, .removal_without_mutex = true };
