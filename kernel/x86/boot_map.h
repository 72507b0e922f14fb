/* Memory access before mm_init(): the boot page tables map the first 4 GiB at DIRECT_MAP_BASE, and one window. */
#ifndef KERNEL_X86_BOOT_MAP_H
#define KERNEL_X86_BOOT_MAP_H

#include "kernel/types.h"

#define BOOT_MAP_LIMIT		(4ul << 30)
#define BOOT_WINDOW_BASE	0xffffffffc0000000ul
#define BOOT_WINDOW_SIZE	(1ul << 30)

/* [phys, phys + n) through the boot direct map, or NULL if it is not wholly below 4 GiB. */
void *boot_phys(phys_addr_t phys, size_t n);

/*
 * Maps device memory into the boot window, write-combining; NULL if it is too large. Gone with mm_init(): test
 * boot_window_mapped() before each use.
 */
void *boot_window_map(phys_addr_t phys, size_t n);
bool boot_window_mapped(void);

#endif
