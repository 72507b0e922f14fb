/* Page pinning: finds the pages behind user addresses and takes references, faulting in what is missing (SEMANTICS B9). */
#ifndef MM_GUP_H
#define MM_GUP_H

#include "mm/fault.h"

#define FOLL_WRITE	0x01u
#define FOLL_FORCE	0x02u	/* ptrace: may break CoW on read-only private mappings; never writes shared read-only ones (R57) */
#define FOLL_NOWAIT	0x04u
#define FOLL_PIN	0x08u	/* counted as a pin: fork copies early, CoW does not reuse (B13, R58) */
#define FOLL_REMOTE	0x10u

/* Pages pinned (may be short) or -errno (-EFAULT, -ENOMEM, -EHWPOISON, -EINTR). mm of current or pinned by the caller. Takes and drops mmap_lock. */
long get_user_pages(struct mm *mm, uintptr_t start, unsigned long nr, unsigned int foll, struct page **pages);
void put_user_page(struct page *page, unsigned int foll, bool dirtied);
/* Re-establishes access for futex: 0 if the page is (or became) accessible, *unlocked tells that mmap_lock was dropped in between (B10). mmap_lock read held. */
int fixup_user_fault(struct mm *mm, uintptr_t addr, unsigned int fault_flags, bool *unlocked);

#endif
