/*
 * What the debug build checks about memory (mm/debug.c). In release builds every call is empty.
 *
 *  - Free frames are filled with a pattern that is verified when they are allocated again.
 *  - Stale translations: a frame whose mapping was taken out of a page table must not be freed before every CPU that
 *    may have cached the translation has flushed it (DESIGN 7).
 */
#ifndef MM_DEBUG_H
#define MM_DEBUG_H

#include "kernel/types.h"

struct mm;
struct page;

#define FRAME_POISON	0x6b6b6b6b6b6b6b6bul	/* contents of a free frame; as a pointer it is not canonical */

#ifdef DEBUG
void debug_frames_init(u64 nr_frames);	/* mm_init, while boot_alloc works */
void debug_frame_alloc(struct page *p, unsigned int order);
void debug_frame_free(struct page *p, unsigned int order, uintptr_t caller);
void debug_frame_unreachable(struct page *p);	/* asserts that no translation to it is pending: about to be used again */
/* The entry at @slot of a user page table goes from @old to @new: remembers the translation if a frame disappears. */
void debug_entry_changed(const void *slot, u64 old, u64 new_val, uintptr_t caller);
/* The same for an entry that is not @mm's own, but through which it has translated @addr (hugetlb.sync=file). */
void debug_translation_gone(struct mm *mm, uintptr_t addr, size_t size, const struct page *page, uintptr_t caller);
/* No CPU caches translations of [start, end) any more; @tables: nor the tables that led there. */
void debug_flushed(struct mm *mm, uintptr_t start, uintptr_t end, bool tables);
/* Translations of @mm cleared and not flushed; an exact 0 when the mm dies. */
u64 debug_pending_translations(struct mm *mm);
bool debug_skip_flush(void);		/* a planted missing flush: see mm/debug.c */
void memory_debug_init(void);		/* after fs_init: /sys/kernel/faultline/{alloc_fail,skip_flush,leaks} */
void debug_leak_report(void);		/* printk: objects alive per cache, frames by use */
#else
static inline void debug_frames_init(u64 nr_frames) { (void)nr_frames; }
static inline void debug_frame_alloc(struct page *p, unsigned int order) { (void)p; (void)order; }
static inline void debug_frame_free(struct page *p, unsigned int order, uintptr_t caller) { (void)p; (void)order; (void)caller; }
static inline void debug_frame_unreachable(struct page *p) { (void)p; }
static inline void debug_entry_changed(const void *slot, u64 old, u64 new_val, uintptr_t caller) { (void)slot; (void)old; (void)new_val; (void)caller; }
static inline u64 debug_pending_translations(struct mm *mm) { (void)mm; return 0; }
static inline void debug_leak_report(void) { }
static inline bool debug_skip_flush(void) { return false; }
static inline void memory_debug_init(void) { }
static inline void debug_flushed(struct mm *mm, uintptr_t start, uintptr_t end, bool tables) { (void)mm; (void)start; (void)end; (void)tables; }
#endif

#endif
