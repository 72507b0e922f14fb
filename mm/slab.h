/* Objects smaller than a page: caches of one size, and kmalloc on top. Freed objects are poisoned in debug builds. */
#ifndef MM_SLAB_H
#define MM_SLAB_H

#include "mm/frame.h"

struct kmem_cache;

/* ctor may be NULL. Never fails after boot for sane sizes; panics on a programming error. */
struct kmem_cache *kmem_cache_create(const char *name, size_t size, size_t align);
void *kmem_cache_alloc(struct kmem_cache *c, unsigned int gfp);	/* NULL when there is no memory */
void kmem_cache_free(struct kmem_cache *c, void *obj);

void *kmalloc(size_t size, unsigned int gfp);		/* 8-byte aligned, page aligned from one page on; size up to 4 MiB */
static inline void *kzalloc(size_t size, unsigned int gfp) { return kmalloc(size, gfp | GFP_ZERO); }
void *kcalloc(size_t n, size_t size, unsigned int gfp);	/* overflow gives NULL */
void *krealloc(void *p, size_t size, unsigned int gfp);
void kfree(const void *p);				/* NULL is fine */
char *kstrdup(const char *s, unsigned int gfp);
size_t ksize(const void *p);

/* Kernel virtual memory from single frames, with an unmapped guard page below and above. */
void *vmalloc(size_t size, unsigned int gfp);		/* may sleep */
void vfree(void *p);					/* may sleep; flushes lazily before reuse */
void *ioremap(phys_addr_t phys, size_t size);		/* uncached */
void *ioremap_wc(phys_addr_t phys, size_t size);	/* write-combining, for the framebuffer (falls back to uncached) */
void iounmap(void *p);			/* undoes either; may sleep */
bool is_vmalloc_addr(const void *p);
u64 vmalloc_nr_pages(void);		/* frames behind vmalloc and kernel stacks */
void *kvmalloc(size_t size, unsigned int gfp);		/* kmalloc or vmalloc */
void kvfree(void *p);

/*
 * A kernel stack: KERNEL_STACK_SIZE bytes with an unmapped guard page below and above, by its lowest address. A few stay
 * mapped in a cache of each CPU, so that fork and exit cost no page-table work. Allocation in process context, NULL: no
 * memory; freeing in any context but an interrupt handler.
 */
void *kernel_stack_alloc(void);
void kernel_stack_free(void *stack);
bool kernel_stack_guard_hit(uintptr_t addr);		/* for the double-fault message: is this the guard page of a stack? */

void slab_init(void);
void vmalloc_init(void);
void slab_drain(void);					/* every CPU's free objects back to their slabs, empty slabs to the frames */
void kernel_stack_drain(void);				/* cached stacks of all CPUs back */

/* Text of /proc/slabinfo. */
size_t slab_format(char *buf, size_t size);
/* Debug: objects alive per cache, for exact leak reports. */
u64 slab_objects(const char *cache_name);

#endif
