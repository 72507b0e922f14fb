/*
 * The address sanitizer of the debug build (mm/kasan.c): for each 8 bytes of the direct map a shadow byte tells which of them
 * may be touched, and the compiler puts a check before each access of C code. Without it every call here is empty.
 */
#ifndef MM_KASAN_H
#define MM_KASAN_H

#include "kernel/types.h"

struct page;

/* Values of a shadow byte. 0: all 8 bytes may be used; 1..7: so many of them; negative: none, and this is why. */
#define KASAN_FREE_OBJECT	0xfbu
#define KASAN_RED_ZONE		0xfcu	/* behind an object, or no part of one */
#define KASAN_FREE_FRAME	0xfeu
#define KASAN_FREED_BY		0xe0u	/* free frame too: a nibble of who freed it */

#ifdef KASAN
void kasan_init(const u64 *section_map, u64 nr_sections);	/* mm_init, while boot_alloc works */
bool kasan_enabled(void);
void kasan_test_init(void);			/* mm/kasan_test.c: /sys/kernel/faultline/kasan_test */
/* Memory of the direct map, from @p on, which is 8-byte aligned; any context. */
void kasan_poison(const void *p, size_t size, u8 value);	/* @size: of 8 bytes a multiple */
void kasan_unpoison(const void *p, size_t size);		/* what shares the last 8 bytes with the end stays forbidden */
size_t kasan_usable(const void *p, size_t max);			/* bytes that may be used, of @max */
void kasan_frames_alloc(struct page *p, unsigned int order);
void kasan_frames_free(struct page *p, unsigned int order, uintptr_t caller);
void kasan_frames_new(pfn_t start, pfn_t end);			/* they were never allocated */
/* For what the compiler does not see (assembly). Panics if one of the bytes may not be touched. Any address. */
void kasan_check(const void *p, size_t size, bool write, uintptr_t caller);
/* mm/slab.c: what is known of the object at or around @addr, as text; 0 if that is no slab memory. */
size_t slab_describe(const void *addr, char *buf, size_t size);
void slab_quarantine_drain(void);		/* this CPU's; interrupts off */
#else
static inline void kasan_init(const u64 *section_map, u64 nr_sections) { (void)section_map; (void)nr_sections; }
static inline void kasan_test_init(void) { }
static inline void kasan_poison(const void *p, size_t size, u8 value) { (void)p; (void)size; (void)value; }
static inline void kasan_unpoison(const void *p, size_t size) { (void)p; (void)size; }
static inline void kasan_frames_alloc(struct page *p, unsigned int order) { (void)p; (void)order; }
static inline void kasan_frames_free(struct page *p, unsigned int order, uintptr_t caller) { (void)p; (void)order; (void)caller; }
static inline void kasan_frames_new(pfn_t start, pfn_t end) { (void)start; (void)end; }
static inline void kasan_check(const void *p, size_t size, bool write, uintptr_t caller) { (void)p; (void)size; (void)write; (void)caller; }
static inline void slab_quarantine_drain(void) { }
#endif

#endif
