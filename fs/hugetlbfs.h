/* Between fs/hugetlbfs.c (files) and fs/hugetlbfs_mount.c (mounts) only. */
#ifndef FS_HUGETLBFS_H
#define FS_HUGETLBFS_H

#include "fs/internal.h"
#include "mm/hugetlb_internal.h"

/*   I  constant */
struct hugetlbfs_sb {			/* sb->private */
	struct hstate		*h;		/* I */
	struct hugetlb_subpool	*subpool;	/* I  NULL: no limits */
	u64			 max, min;	/* I  huge pages; SUBPOOL_NO_LIMIT: not set */
	u32			 mode, uid, gid;	/* I  of the root */
};

static inline struct hugetlbfs_sb *hugetlbfs_sb(const struct super_block *sb) { return sb->private; }
/* Devices and pipes are what they are on any file system in memory. NULL: no memory, or nr_inodes is reached. */
struct inode *hugetlbfs_new_inode(struct super_block *sb, u32 mode, dev_t rdev);
extern struct mount *hugetlbfs_internal_mounts[NR_HSTATES];	/* constant after boot */

#endif
