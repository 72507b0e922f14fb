/*
 * TLB maintenance. Each mm has the mask of CPUs that may cache its translations and a generation that every flush
 * request raises; a CPU that switches to an mm with a newer generation than it saw flushes on its own.
 *
 * "Free after flush" is a type: pages and tables taken out of a page table go into a struct mmu_gather and come out
 * of it only through tlb_flush, which flushes first (PEERS Q35). There is no other way to free them.
 */
#ifndef MM_TLB_H
#define MM_TLB_H

#include "mm/pgtable.h"

struct mm;
struct vma;

#define GATHER_PAGES	510	/* a batch is one page */
#define GATHER_INLINE	8

struct gather_batch {
	struct gather_batch *next;
	u32 nr;
	struct page *pages[GATHER_PAGES];
};

struct mmu_gather {
	struct mm	*mm;
	uintptr_t	 start, end;	/* hull of cleared translations; start > end: nothing yet */
	bool		 freed_tables;	/* paging-structure caches must go too */
	bool		 fullmm;	/* exit: nobody can use the translations any more but speculation */
	struct gather_batch *batches, *current_batch;
	struct page	*tables;		/* chained by next_table */
	struct page	*inline_pages[GATHER_INLINE];	/* enough without an allocation */
	u32		 nr_inline;
	u32		 nr_batches;
};

void tlb_gather_begin(struct mmu_gather *tlb, struct mm *mm);
void tlb_gather_begin_fullmm(struct mmu_gather *tlb, struct mm *mm);
/* A translation for @addr of @size bytes was cleared. */
void tlb_note_cleared(struct mmu_gather *tlb, uintptr_t addr, size_t size);
/*
 * Takes over one reference of the page; it is dropped after the flush. Never fails: when no batch page can be had it
 * asks for a flush. Returns true when full: drop the PTE lock and call tlb_flush() before adding more.
 */
bool __must_check tlb_add_page(struct mmu_gather *tlb, struct page *page);
void tlb_add_table(struct mmu_gather *tlb, struct page *table);	/* freed by RCU after the flush; its range was noted */
void tlb_flush(struct mmu_gather *tlb);			/* flush, then free what was gathered; may sleep-wait for IPIs, no spin lock held */
void tlb_gather_end(struct mmu_gather *tlb);		/* tlb_flush and release */

/* Immediate forms. On return no CPU uses the old translation. Interrupts on; spin locks may be held (IPI handlers take none). */
void flush_tlb_page(struct mm *mm, uintptr_t addr);
void flush_tlb_range(struct mm *mm, uintptr_t start, uintptr_t end, bool freed_tables);
void flush_tlb_huge_page(struct mm *mm, uintptr_t addr, size_t size);	/* one leaf of @size bytes */
void flush_tlb_mm(struct mm *mm);
void flush_tlb_kernel_range(uintptr_t start, uintptr_t end);
void flush_tlb_local_page(uintptr_t addr);		/* this CPU only: spurious faults */

/* R56: pending flushes of others in this mm. Held from the first cleared entry to the flush. */
void inc_tlb_flush_pending(struct mm *mm);
void dec_tlb_flush_pending(struct mm *mm);
bool mm_tlb_flush_pending(struct mm *mm);

bool mm_tlb_flush_nested(struct mm *mm);	/* more than one: the caller's own is not the only one */

/*
 * The mm dies: CPUs that still have it loaded (lazily) go to init_mm's tables, so that its own can be freed. Nobody
 * runs in it any more. Interrupts on, no spin lock held.
 */
void tlb_forget_mm(struct mm *mm);

/* Context switch: loads @next's page tables (or stays lazily on prev's for kernel threads). Interrupts off. */
void switch_mm(struct mm *prev, struct mm *next);
void enter_lazy_tlb(struct mm *mm);
void tlb_flush_ipi(void);				/* IPI handler; interrupts off */
/* Each CPU, boot CPU from mm_init, others before they handle interrupts: kernel_pgd is in CR3. */
void tlb_init_cpu(void);

#endif
