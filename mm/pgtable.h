/*
 * Page tables, four levels of 512 entries: pgd -> pud -> pmd -> pte (Intel SDM vol. 3, 4.5). Entries are distinct
 * struct types so that mixing them does not compile. Entries are read once (p?d_read) and written whole.
 */
#ifndef MM_PGTABLE_H
#define MM_PGTABLE_H

#include "kernel/types.h"
#include "mm/debug.h"
#include "mm/page.h"

typedef struct { u64 v; } pte_t;
typedef struct { u64 v; } pmd_t;
typedef struct { u64 v; } pud_t;
typedef struct { u64 v; } pgd_t;

#define PTRS_PER_PTE	512
#define PTRS_PER_PMD	512
#define PTRS_PER_PUD	512
#define PTRS_PER_PGD	512
#define PMD_SHIFT	21
#define PMD_SIZE	(1UL << PMD_SHIFT)
#define PMD_MASK	(~(PMD_SIZE - 1))
#define PUD_SHIFT	30
#define PUD_SIZE	(1UL << PUD_SHIFT)
#define PUD_MASK	(~(PUD_SIZE - 1))
#define PGD_SHIFT	39
#define PGD_SIZE	(1UL << PGD_SHIFT)
#define PGD_MASK	(~(PGD_SIZE - 1))

#define PTE_PRESENT	BIT(0)
#define PTE_WRITE	BIT(1)
#define PTE_USER	BIT(2)
#define PTE_PWT		BIT(3)
#define PTE_PCD		BIT(4)
#define PTE_ACCESSED	BIT(5)
#define PTE_DIRTY	BIT(6)
#define PTE_HUGE	BIT(7)		/* leaf, at pmd and pud level */
#define PTE_PAT		BIT(7)		/* at pte level */
#define PTE_GLOBAL	BIT(8)
#define PTE_SPECIAL	BIT(9)		/* software: no struct page behind it is counted (zero page, device memory) */
#define PTE_UFFD_WP	BIT(10)		/* software: write-protected by userfaultfd */
#define PTE_SOFT_DIRTY	BIT(11)		/* software */
#define PTE_PROTNONE	BIT(8)		/* with PRESENT clear: a mapped page that user space may not touch */
#define PTE_NX		BIT(63)
#define PTE_PFN_MASK	0x000ffffffffff000ul

/*
 * Non-present, non-zero entries are markers: kind in bits 1-4, no frame. Every switch over an entry has three cases:
 * none, present (or PROTNONE), marker (RACES R43).
 */
#define PTE_MARKER_UFFD_WP	0x2ul
#define PTE_MARKER_POISON	0x4ul

static inline unsigned pgd_index(uintptr_t a) { return (a >> PGD_SHIFT) & 511; }
static inline unsigned pud_index(uintptr_t a) { return (a >> PUD_SHIFT) & 511; }
static inline unsigned pmd_index(uintptr_t a) { return (a >> PMD_SHIFT) & 511; }
static inline unsigned pte_index(uintptr_t a) { return (a >> PAGE_SHIFT) & 511; }

/* The end of the table entry's range that holds @addr, or @end if that comes first. */
static inline uintptr_t pmd_addr_end(uintptr_t addr, uintptr_t end) { uintptr_t b = (addr + PMD_SIZE) & PMD_MASK; return b - 1 < end - 1 ? b : end; }
static inline uintptr_t pud_addr_end(uintptr_t addr, uintptr_t end) { uintptr_t b = (addr + PUD_SIZE) & PUD_MASK; return b - 1 < end - 1 ? b : end; }
static inline uintptr_t pgd_addr_end(uintptr_t addr, uintptr_t end) { uintptr_t b = (addr + PGD_SIZE) & PGD_MASK; return b - 1 < end - 1 ? b : end; }

static inline pte_t pte_read(const pte_t *p) { return (pte_t){ READ_ONCE(p->v) }; }
static inline pmd_t pmd_read(const pmd_t *p) { return (pmd_t){ READ_ONCE(p->v) }; }
static inline pud_t pud_read(const pud_t *p) { return (pud_t){ READ_ONCE(p->v) }; }
static inline pgd_t pgd_read(const pgd_t *p) { return (pgd_t){ READ_ONCE(p->v) }; }
/*
 * All changes of user entries go through these. In debug builds they tell the stale-translation checker (mm/debug.h),
 * which takes mm and address from the struct page of the table.
 */
static inline __attribute__((always_inline)) uintptr_t current_rip(void)
{
	uintptr_t rip;
	__asm__ volatile("lea 0(%%rip), %0" : "=r"(rip));
	return rip;
}
static inline __attribute__((always_inline)) u64 __entry_write(u64 *slot, u64 e)
{
#ifdef DEBUG
	debug_entry_changed(slot, READ_ONCE(*slot), e, current_rip());
#endif
	WRITE_ONCE(*slot, e);
	return e;
}
static inline __attribute__((always_inline)) u64 __entry_get_and_clear(u64 *slot)
{
	u64 old = __atomic_exchange_n(slot, 0, __ATOMIC_ACQ_REL);
#ifdef DEBUG
	debug_entry_changed(slot, old, 0, current_rip());
#endif
	return old;
}
static inline __attribute__((always_inline)) void pte_write_entry(pte_t *p, pte_t e) { __entry_write(&p->v, e.v); }
static inline __attribute__((always_inline)) void pmd_write_entry(pmd_t *p, pmd_t e) { __entry_write(&p->v, e.v); }
static inline __attribute__((always_inline)) void pud_write_entry(pud_t *p, pud_t e) { __entry_write(&p->v, e.v); }
static inline void pgd_write_entry(pgd_t *p, pgd_t e) { WRITE_ONCE(p->v, e.v); }
/* Takes the entry out atomically: the CPU may set A and D until the very exchange. */
static inline __attribute__((always_inline)) pte_t pte_get_and_clear(pte_t *p) { return (pte_t){ __entry_get_and_clear(&p->v) }; }
static inline __attribute__((always_inline)) pmd_t pmd_get_and_clear(pmd_t *p) { return (pmd_t){ __entry_get_and_clear(&p->v) }; }
static inline __attribute__((always_inline)) pud_t pud_get_and_clear(pud_t *p) { return (pud_t){ __entry_get_and_clear(&p->v) }; }
/* @old becomes @new if nothing changed meanwhile; the CPU may have set A or D: then read again. PTE lock held. */
static inline __attribute__((always_inline)) bool pte_try_replace(pte_t *p, pte_t old, pte_t new)
{
	u64 was = old.v;

	if (!__atomic_compare_exchange_n(&p->v, &was, new.v, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
#ifdef DEBUG
	debug_entry_changed(&p->v, old.v, new.v, (uintptr_t)__builtin_return_address(0));
#endif
	return true;
}
/* Clears rights atomically, keeping A and D that the CPU sets meanwhile; returns the entry before. */
static inline pte_t pte_clear_bits(pte_t *p, u64 bits) { return (pte_t){ __atomic_fetch_and(&p->v, ~bits, __ATOMIC_ACQ_REL) }; }

static inline bool pte_none(pte_t e) { return e.v == 0; }
static inline bool pte_present(pte_t e) { return e.v & (PTE_PRESENT | PTE_PROTNONE); }
static inline bool pte_marker(pte_t e) { return e.v && !pte_present(e); }
static inline bool pte_writable(pte_t e) { return e.v & PTE_WRITE; }
static inline bool pte_dirty(pte_t e) { return e.v & PTE_DIRTY; }
static inline bool pte_young(pte_t e) { return e.v & PTE_ACCESSED; }
static inline bool pte_special(pte_t e) { return e.v & PTE_SPECIAL; }
static inline bool pte_uffd_wp(pte_t e) { return e.v & PTE_UFFD_WP; }
static inline pfn_t pte_pfn(pte_t e) { return (e.v & PTE_PFN_MASK) >> PAGE_SHIFT; }
static inline struct page *pte_page(pte_t e) { return pfn_to_page(pte_pfn(e)); }
static inline pte_t pfn_pte(pfn_t pfn, u64 prot) { return (pte_t){ (pfn << PAGE_SHIFT) | prot }; }
static inline pte_t mk_pte(const struct page *p, u64 prot) { return pfn_pte(page_to_pfn(p), prot); }

static inline bool pmd_none(pmd_t e) { return e.v == 0; }
static inline bool pmd_leaf(pmd_t e) { return (e.v & (PTE_PRESENT | PTE_PROTNONE)) && (e.v & PTE_HUGE); }
static inline bool pmd_table(pmd_t e) { return (e.v & (PTE_PRESENT | PTE_HUGE)) == PTE_PRESENT; }
static inline bool pud_none(pud_t e) { return e.v == 0; }
static inline bool pud_leaf(pud_t e) { return (e.v & (PTE_PRESENT | PTE_PROTNONE)) && (e.v & PTE_HUGE); }
static inline bool pud_table(pud_t e) { return (e.v & (PTE_PRESENT | PTE_HUGE)) == PTE_PRESENT; }
static inline bool pgd_none(pgd_t e) { return e.v == 0; }
static inline struct page *pmd_page(pmd_t e) { return phys_to_page(e.v & PTE_PFN_MASK); }
static inline struct page *pud_page(pud_t e) { return phys_to_page(e.v & PTE_PFN_MASK); }
static inline struct page *pgd_page(pgd_t e) { return phys_to_page(e.v & PTE_PFN_MASK); }

/* Rights of user entries that are tables: everything, the leaf decides. */
#define TABLE_PROT	(PTE_PRESENT | PTE_WRITE | PTE_USER | PTE_ACCESSED | PTE_DIRTY)

/* Rights of kernel leaves. A and D are set so that the CPU never has to. GLOBAL: the same in every address space. */
#define KERNEL_RO	(PTE_PRESENT | PTE_ACCESSED | PTE_DIRTY | PTE_GLOBAL | PTE_NX)
#define KERNEL_RW	(KERNEL_RO | PTE_WRITE)
#define KERNEL_RX	(KERNEL_RO & ~PTE_NX)
#define KERNEL_TABLE	(PTE_PRESENT | PTE_WRITE | PTE_ACCESSED | PTE_DIRTY)
/* Memory types by the PAT that mm_init_cpu() loads; the bits are at the same place in leaves of all sizes. */
#define PTE_TYPE_WC	PTE_PWT			/* entry 1 */
#define PTE_TYPE_UC	(PTE_PCD | PTE_PWT)	/* entry 3 */

static inline pud_t *pud_offset(pgd_t e, uintptr_t addr) { return (pud_t *)phys_to_virt(e.v & PTE_PFN_MASK) + pud_index(addr); }
static inline pmd_t *pmd_offset(pud_t e, uintptr_t addr) { return (pmd_t *)phys_to_virt(e.v & PTE_PFN_MASK) + pmd_index(addr); }
static inline pte_t *pte_offset(pmd_t e, uintptr_t addr) { return (pte_t *)phys_to_virt(e.v & PTE_PFN_MASK) + pte_index(addr); }

struct mm;
struct mmu_gather;

pgd_t *pgd_alloc(struct mm *mm);		/* kernel half filled in; NULL when out of memory */
void pgd_free(struct mm *mm, pgd_t *pgd);
/*
 * Walk to the entry for @addr. The _alloc forms build missing tables (published by one compare-and-swap: no lock, so
 * faults in different VMAs never meet) and return NULL when out of memory or when a leaf is in the way; the plain ones
 * return NULL if a level is missing or a leaf is met above. The mm lock or the VMA lock keeps tables alive: tables are
 * only freed under both write locks (mm/zap.c). Walkers without either (rmap) need an RCU read section.
 */
pud_t *pud_walk(struct mm *mm, uintptr_t addr);
pud_t *pud_alloc(struct mm *mm, uintptr_t addr);
pmd_t *pmd_walk(struct mm *mm, uintptr_t addr);
pmd_t *pmd_alloc(struct mm *mm, uintptr_t addr);
/* Build a PTE table under *pmd if there is none. 0 or -ENOMEM. */
int pte_alloc(struct mm *mm, pmd_t *pmd);
/*
 * Map and lock the entry for @addr in the table under *pmd; NULL if there is no table. *ptlp receives the lock. Safe
 * against a concurrent free of the table even without the VMA lock, as long as *pmd itself stays readable.
 */
static inline pte_t *pte_offset_lock(struct mm *mm, pmd_t *pmd, uintptr_t addr, struct spinlock **ptlp)
{
	(void)mm;
	/* Preemption off is an RCU read section: a table that is being unlinked stays memory until we have looked again. */
	preempt_disable();
	pmd_t e = pmd_read(pmd);
	if (likely(pmd_table(e))) {
		struct spinlock *ptl = &pmd_page(e)->ptl;

		__spin_lock(ptl, false);
		if (likely(pmd_read(pmd).v == e.v)) {
			*ptlp = ptl;
			return pte_offset(e, addr);
		}
		__spin_unlock(ptl);
	}
	preempt_enable();
	return NULL;
}
static inline void pte_unlock(struct spinlock *ptl) { spin_unlock(ptl); }
static inline struct spinlock *pte_lockptr(pmd_t *pmd) { return &pmd_page(pmd_read(pmd))->ptl; }

/*
 * Hands page-table pages of [start, end) that no VMA of [floor, ceiling) still needs to the gather, which frees them
 * after the flush. mmap_lock held for write and the VMAs detached, or the mm dead.
 */
void free_pgtables(struct mmu_gather *tlb, uintptr_t start, uintptr_t end, uintptr_t floor, uintptr_t ceiling);

/* A PMD table that belongs to GiB @gib of a file and to no address space: pt_mm is NULL. NULL: no memory (hugetlb.sync=file). */
struct page *file_table_alloc(u64 gib);
/* A table that nobody can reach any more, empty again: after the grace period (mm/tlb.c). */
void free_table(struct page *table);
void pgtable_drain(void);			/* gives back the empty tables that CPUs keep; interrupts on */
void pgtable_init(void);			/* mm_init, once frames can be had */

/*
 * Kernel mappings (vmalloc, device windows). 0 or -ENOMEM (then part of the range may be mapped: kernel_unmap it).
 * prot: PTE_* bits, usually KERNEL_*. Concurrent calls for disjoint ranges need no lock.
 */
int kernel_map(uintptr_t kaddr, phys_addr_t phys, size_t size, u64 prot);
/* The same with leaves of up to @max_leaf bytes (PAGE_SIZE, PMD_SIZE, PUD_SIZE) where alignment allows: direct map, vmemmap. */
int kernel_map_large(uintptr_t kaddr, phys_addr_t phys, size_t size, u64 prot, size_t max_leaf);
void kernel_unmap(uintptr_t kaddr, size_t size);	/* clears 4 KiB entries; the caller flushes */
pte_t *kernel_pte(uintptr_t kaddr);			/* its 4 KiB entry, or NULL */
/* Builds the PUD table for @kaddr, so that every pgd made from now on shares it. Boot only. */
void kernel_prepare_pgd(uintptr_t kaddr);
void kernel_tables_use_frames(void);			/* boot_alloc() is over: take tables from the frame allocator */
extern pgd_t *kernel_pgd;				/* the reference tables, direct-map address */
extern struct mm init_mm;				/* kernel threads that never borrowed another */

#endif
