/* The frame allocator: binary buddies of order 0 to 18 (1 GiB), with a small cache of single frames on each CPU. */
#ifndef MM_FRAME_H
#define MM_FRAME_H

#include "mm/page.h"

#define MAX_ORDER	18

#define GFP_KERNEL	0x00u	/* may wait for other CPUs to give back cached frames (if no spin lock is held); never for I/O */
#define GFP_ATOMIC	0x01u	/* never waits; may use the emergency reserve */
#define GFP_ZERO	0x02u	/* cleared */
#define GFP_NOWARN	0x04u
#define GFP_USER	0x08u	/* for user pages and page cache: leaves the reserve for the kernel */
#define GFP_NORETRY	0x10u	/* fail at once, do not trouble other CPUs */

/* 1 << order frames, refcount 1 in the head; NULL when there is no memory. */
struct page *alloc_pages(unsigned int gfp, unsigned int order);
static inline struct page *alloc_page(unsigned int gfp) { return alloc_pages(gfp, 0); }
void free_pages(struct page *p, unsigned int order);	/* the owner's count (1, or 0 if frozen) goes; page not mapped */
/* Directly mapped address forms. */
void *get_free_page(unsigned int gfp);
void free_page(void *kaddr);

/* Early boot: from boot_info; before it only boot_alloc() works. Then all usable memory goes to the buddies. */
void *boot_alloc(size_t size, size_t align);		/* zeroed, direct-mapped; halts with a sentence when there is none */
void boot_reserve(phys_addr_t phys, u64 size);		/* before mm_init: these bytes are never handed out */
void mm_init(void);					/* direct map, vmemmap, buddies, slab, vmalloc; called once on the boot CPU */
void mm_init_cpu(void);					/* every CPU, with kernel_pgd in CR3: NX, WP, PGE, PAT, PCID */
void free_initrd_memory(void);
/* mm/boot_alloc.c and mm/frame.c, for mm_init: give what boot_alloc has left to the buddies. */
void boot_alloc_lift_limit(void);			/* the direct map is complete: memory above 4 GiB may be used */
bool boot_next_free(phys_addr_t *cursor, phys_addr_t *start, phys_addr_t *end);
u64 boot_usable_bytes(phys_addr_t *highest);
void frame_init(u64 *section_map, u64 nr_sections);
void frame_free_range(pfn_t start, pfn_t end);		/* hands frames over; they were never allocated */
void frame_init_done(void);				/* sizes the reserve and the per-CPU caches */

/* vmemmap comes in pieces of 2 MiB: the struct pages of 128 MiB, one section. */
#define SECTION_SHIFT	27
#define SECTION_SIZE	(1ul << SECTION_SHIFT)
#define PAGES_PER_SECTION (SECTION_SIZE / PAGE_SIZE)

u64 nr_total_pages(void);				/* managed by the allocator */
u64 nr_free_pages(void);				/* folded over CPUs */
u64 frame_events(bool freed);				/* pgalloc and pgfree of /proc/vmstat */
void frame_free_counts(u64 counts[MAX_ORDER + 1]);	/* free blocks per order, /proc/buddyinfo */
bool memory_is_available(void);				/* more than the reserve is free: a user page could be had now */
void drain_all_caches(void);				/* the same for stacks, page tables, slabs and frames (mm/init.c); sleeps */
void drain_frame_caches(void);				/* all CPUs give their cached frames back; interrupts on, no spin lock held */
/* alloc_pages without failure injection, for allocators built on it that do their own. */
struct page *__alloc_pages(unsigned int gfp, unsigned int order);
void clear_pages(void *kaddr, unsigned int order);

/* Failure injection for tests (debug builds): the n-th allocation from now on fails, by this task; 0 = off. */
#ifdef DEBUG
void alloc_fail_set(u64 nth);
bool alloc_should_fail(void);
#else
static inline void alloc_fail_set(u64 nth) { (void)nth; }
static inline bool alloc_should_fail(void) { return false; }
#endif

/* Out of memory in process context: kills the largest process (mm/oom.c). True if something will be freed: retry. */
bool out_of_memory(void);

#endif
