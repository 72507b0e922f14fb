/*
 * mm/slab.c with the checks of the debug build: everything that test_slab.c does, and that planted bugs are found.
 */
#define DEBUG 1
#include "kernel/types.h"

struct page;
void debug_frame_alloc(struct page *p, unsigned int order);
void debug_frame_free(struct page *p, unsigned int order, uintptr_t caller);
bool alloc_should_fail(void);

/* mm/debug.c needs the whole machine; what it would check of frames is not the subject here. */
void debug_frame_alloc(struct page *p, unsigned int order) { (void)p; (void)order; }
void debug_frame_free(struct page *p, unsigned int order, uintptr_t caller) { (void)p; (void)order; (void)caller; }
bool alloc_should_fail(void) { return false; }

#include "test_slab.c"
