/* Walking the existing PTE tables of a range, for calls that change or report what is mapped and create nothing. */
#ifndef MM_PAGE_WALK_H
#define MM_PAGE_WALK_H

#include "mm/mm.h"
#include "mm/pgtable.h"

/*
 * The next PTE table that covers anything of [*addr, end): true, with *addr moved up to what it covers, *pmd pointing to
 * it and *stop where it ends (at most @end). Go on with *addr = *stop. False: no more. Something must keep tables in
 * place: mmap_lock or the VMA lock, in any mode.
 */
static inline bool next_pte_table(struct mm *mm, uintptr_t *addr, uintptr_t end, pmd_t **pmd, uintptr_t *stop)
{
	while (*addr < end) {
		*pmd = pmd_walk(mm, *addr);
		if (*pmd) {
			*stop = pmd_addr_end(*addr, end);
			if (pmd_table(pmd_read(*pmd)))
				return true;
			*addr = *stop;
		} else if (pud_walk(mm, *addr)) {
			*addr = pud_addr_end(*addr, end);
		} else {
			*addr = pgd_addr_end(*addr, end);
		}
	}
	return false;
}

#endif
