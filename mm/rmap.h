/*
 * Reverse map: from a page to the page-table entries that map it. File pages through mapping->i_mmap, anonymous pages
 * through anon_vma: the set of VMAs (of a process and its forked relatives) in which the page may be found.
 */
#ifndef MM_RMAP_H
#define MM_RMAP_H

#include "mm/fault.h"
#include "mm/mapping.h"
#include "mm/vmstat.h"

struct anon_vma {
	struct rwsem	 lock;		/* LOCK_ANON_VMA */
	struct list_head vmas;		/* lock */
	struct refcount	 refs;		/* one per linked VMA and per temporary user */
	struct rcu_head	 rcu;
};

/* Gives @vma an anon_vma (a neighbour's if mergeable). mmap_lock held, any mode (C7). 0 or -ENOMEM. */
int anon_vma_prepare(struct vma *vma);
int anon_vma_fork(struct vma *child, struct vma *parent);	/* the child joins the parent's. 0 (cannot fail today) or -ENOMEM */
void anon_vma_clone(struct vma *dst, struct vma *src);		/* split: dst joins src's */
void anon_vma_unlink(struct vma *vma);

void page_add_new_anon(struct page *page, struct vma *vma, uintptr_t addr);	/* exclusive, mapcount 1; PTE lock held */
void page_add_anon(struct page *page, struct vma *vma, uintptr_t addr);		/* one more PTE, shared (fork) */
static inline void page_add_file(struct page *page, struct vma *vma)
{
	(void)vma;
	if (!__atomic_fetch_add(&page->mapcount, 1, __ATOMIC_RELAXED))
		vm_count(VM_nr_mapped);
}
void page_remove_rmap(struct page *page, struct vma *vma);	/* PTE lock held; entry already cleared */
/* File page, folio lock held: takes W and D out of every PTE and flushes, so that the next write faults. True: one was dirty. */
bool page_mkclean(struct page *page);

/*
 * A pin (FOLL_PIN) counts PIN_BIAS references, so that fork and CoW can tell it from a short-lived one. A page shared by
 * a thousand processes looks pinned too: it is then copied where sharing would have done.
 */
#define PIN_BIAS	1024u
static inline bool page_maybe_pinned(const struct page *page) { return page_ref_count(page) >= PIN_BIAS; }

/* The page that an entry counts; NULL for the zero page and device memory. */
static inline struct page *pte_normal_page(pte_t e) { return pte_special(e) ? NULL : pte_page(e); }
/* Where a mapped page counts in Rss. Folio lock or a mapping PTE's lock held: truncate cannot take page->mapping away. */
static inline enum mm_counter file_mm_counter(const struct page *page)
{
	return page->mapping && page->mapping->is_shmem ? MM_SHMEMPAGES : MM_FILEPAGES;
}
static inline enum mm_counter page_mm_counter(const struct page *page)
{
	return page_test(page, PG_anon) ? MM_ANONPAGES : file_mm_counter(page);
}
void rmap_init(void);

/* i_mmap membership; called under mmap_lock write. */
/* At the tail, so that a walk meets a parent before its child: fork links first, then copies entries (mm/truncate.c). Takes i_mmap_lock. */
void vma_link_file(struct vma *vma);
void vma_unlink_file(struct vma *vma);

/* -- mm/zap.c -- */
/* Clears entries of [start, end) inside @vma into the gather. mmap_lock or the VMA lock held (or i_mmap for truncate). even_cows as in mapping.h. */
void zap_vma_range(struct mmu_gather *tlb, struct vma *vma, uintptr_t start, uintptr_t end, bool even_cows);
void zap_page_range(struct vma *vma, uintptr_t start, uintptr_t end);	/* with its own gather: DONTNEED */
/* -- mm/fork_copy.c -- copy the entries of one VMA; both mmap_locks write, parent VMA write-locked. 0, -ENOMEM, -EINTR. */
int copy_vma_pages(struct vma *child, struct vma *parent);
/* -- mm/mprotect.c / mremap.c helpers live with their calls -- */
/* moves entries [old, old+len) of @src to @new_addr in @dst; flushes the old range before any PTE lock is dropped for good (A23). Bytes moved. */
size_t move_page_tables(struct vma *src, uintptr_t old, struct vma *dst, uintptr_t new_addr, size_t len);
/* @old with the rights of @prot, writable as far as @vma and the page allow at once; the entry is locked. */
pte_t pte_modify(pte_t old, u64 prot, const struct vma *vma);
/* changes rights of present entries in [start, end); flushes before returning (A17). */
void change_protection(struct vma *vma, uintptr_t start, uintptr_t end, u64 new_page_prot);

extern struct page *zero_page;			/* the shared zero page: mapped PTE_SPECIAL, not counted in Rss (B14) */

#endif
