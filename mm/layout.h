/*
 * The kernel's map of virtual memory: Linux's 4-level layout.
 *
 *	0000000000000000 - 00007ffffffff000  user space (128 TiB less one guard page)
 *	ffff888000000000 - ffffc87fffffffff  direct map of all physical memory (64 TiB)
 *	ffffc90000000000 - ffffe8ffffffffff  vmalloc: kernel stacks with guard pages, device windows (32 TiB)
 *	ffffea0000000000 - ffffeaffffffffff  vmemmap: one struct page per frame (1 TiB)
 *	ffffec0000000000 - fffff3ffffffffff  shadow of the direct map, debug builds (mm/kasan.c; 8 TiB)
 *	ffffffff80000000 - ffffffffbfffffff  the kernel image, loaded at 1 MiB or 2 MiB physical (1 GiB)
 */
#ifndef MM_LAYOUT_H
#define MM_LAYOUT_H

#define TASK_SIZE		0x00007ffffffff000ul	/* first address user space may not use */
#define DIRECT_MAP_BASE		0xffff888000000000ul
#define VMALLOC_START		0xffffc90000000000ul
#define VMALLOC_END		0xffffe90000000000ul
#define VMEMMAP_BASE		0xffffea0000000000ul
#define KASAN_SHADOW_BASE	0xffffec0000000000ul
#define KERNEL_BASE		0xffffffff80000000ul
#define MMAP_MIN_ADDR		65536ul

#ifndef __ASSEMBLER__
#include "kernel/types.h"

static inline void *phys_to_virt(phys_addr_t p) { return (void *)(p + DIRECT_MAP_BASE); }
/* For addresses of the direct map only, not of the image or vmalloc; see kernel_virt_to_phys(). */
static inline phys_addr_t virt_to_phys(const void *v) { return (uintptr_t)v - DIRECT_MAP_BASE; }
/* Any kernel symbol or direct-map address. */
phys_addr_t kernel_virt_to_phys(const void *v);

extern char __kernel_start[], __kernel_end[], __text_start[], __text_end[], __rodata_start[], __rodata_end[],
	    __data_start[], __data_end[], __percpu_start[], __percpu_end[], __init_start[], __init_end[];
#endif

#endif
