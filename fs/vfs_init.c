/* Start of the file layer: the root tmpfs, and the trees of /dev, /proc and /sys, usable before anything is mounted. */
#include "fs/internal.h"

void vfs_init(void)
{
	ramfs_init();
	delayfs_init();
	serverfs_init();
	mount_init();
	fs_context_init();
	file_init();
	memfd_init();
	hugetlbfs_init();
	pseudo_init();
	devfs_init();
}
