/*
 * struct page: what the kernel knows of one 4 KiB frame. 64 bytes, an array at VMEMMAP_BASE indexed by pfn.
 * A folio is one page or a power of two of them, named by its first page ("head"); count, map count, lock and
 * mapping live in the head.
 */
#ifndef MM_PAGE_H
#define MM_PAGE_H

#include "kernel/list.h"
#include "kernel/panic.h"
#include "kernel/rcu.h"
#include "kernel/spinlock.h"
#include "mm/layout.h"

struct mapping;
struct anon_vma;
struct kmem_cache;
struct mm;

/* Bits of page->flags, changed atomically (page_set_flag and kin) unless the page is not yet visible. */
enum page_flag {
	PG_locked,		/* folio lock: owner may change mapping, truncate, start I/O */
	PG_waiters,		/* somebody sleeps on PG_locked or PG_writeback */
	PG_uptodate,		/* contents are valid */
	PG_dirty,		/* newer than its backing store */
	PG_writeback,		/* being written */
	PG_anon,		/* anonymous: page->anon_vma valid, else page->mapping */
	PG_anon_exclusive,	/* anonymous and mapped writable by at most one mm: may be reused in place (B13) */
	PG_buddy,		/* free, in a buddy list; order valid */
	PG_slab,
	PG_table,		/* a page-table page; ptl valid */
	PG_head, PG_tail,	/* of a folio of order > 0 */
	PG_reserved,		/* never freed: firmware, kernel image, vmemmap */
	PG_hugetlb,
	PG_hwpoison,
	PG_mlocked,
};

struct page {
	u32			 flags;		/* atomic bits above */
	u32			 refcount;	/* atomic; 0 = free or frozen */
	union {
		u32		 mapcount;	/* atomic; page-table entries that map it */
		u32		 pt_sharers;	/* PG_table, level 2: atomic; PUD entries that use it beyond the first (mm/pmd_share.c) */
	};
	u8			 order;		/* of the folio or free block, in its head */
	u8			 table_level;	/* PG_table: 1 pte, 2 pmd, 3 pud, 4 pgd; 0 kernel tables */
	u16			 debug_users;	/* PG_table, debug: PUD entries found (mm/pmd_share_debug.c) */
	union {
		struct list_head lru;		/* owner's list: buddy, per-CPU cache, writeback */
		struct {			/* PG_slab */
			void	*freelist;
			u32	 inuse, objects;
		};
		struct page	*head;		/* PG_tail */
		struct rcu_head	 rcu;		/* PG_table, on its way out (mm/tlb.c) */
	};
	union {
		struct mapping	*mapping;	/* page cache; folio lock to change */
		struct anon_vma	*anon_vma;	/* PG_anon */
		struct kmem_cache *slab_cache;	/* PG_slab */
		struct mm	*pt_mm;		/* PG_table: owner */
		struct page	*next_table;	/* PG_table, unlinked: the next of a gather */
	};
	union {
		struct {
			u64	 index;		/* page cache: file page number; PG_anon: linear index in the vma's pgoff space; PG_table: first address mapped */
			union {
				struct spinlock	 ptl;		/* PG_table: LOCK_PTE */
				u64		 private;
			};
		};
		struct list_head slab_list;	/* PG_slab: the cache's partial list */
	};
	u64			 unmap_gen;	/* debug: shoot-down generation << 16 when last unmapped | translations not yet flushed (mm/debug.c) */
};
_Static_assert(sizeof(struct page) == 64, "one cache line");

#define vmemmap			((struct page *)VMEMMAP_BASE)
static inline struct page *pfn_to_page(pfn_t pfn) { return vmemmap + pfn; }
static inline pfn_t page_to_pfn(const struct page *p) { return (pfn_t)(p - vmemmap); }
static inline phys_addr_t page_to_phys(const struct page *p) { return page_to_pfn(p) << PAGE_SHIFT; }
static inline struct page *phys_to_page(phys_addr_t a) { return pfn_to_page(a >> PAGE_SHIFT); }
static inline void *page_to_virt(const struct page *p) { return phys_to_virt(page_to_phys(p)); }
static inline struct page *virt_to_page(const void *v) { return phys_to_page(virt_to_phys(v)); }
bool pfn_valid(pfn_t pfn);		/* a struct page exists for it */

static inline bool page_test(const struct page *p, enum page_flag f) { return __atomic_load_n(&p->flags, __ATOMIC_RELAXED) & (1u << f); }
static inline void page_set(struct page *p, enum page_flag f) { __atomic_fetch_or(&p->flags, 1u << f, __ATOMIC_RELEASE); }
static inline void page_clear(struct page *p, enum page_flag f) { __atomic_fetch_and(&p->flags, ~(1u << f), __ATOMIC_RELEASE); }
static inline bool page_test_and_set(struct page *p, enum page_flag f) { return __atomic_fetch_or(&p->flags, 1u << f, __ATOMIC_ACQ_REL) & (1u << f); }
static inline bool page_test_and_clear(struct page *p, enum page_flag f) { return __atomic_fetch_and(&p->flags, ~(1u << f), __ATOMIC_ACQ_REL) & (1u << f); }

static inline struct page *page_head(struct page *p) { return page_test(p, PG_tail) ? p->head : p; }
static inline u32 page_ref_count(const struct page *p) { return __atomic_load_n(&p->refcount, __ATOMIC_RELAXED); }
static inline u32 page_mapcount(const struct page *p) { return __atomic_load_n(&p->mapcount, __ATOMIC_RELAXED); }

static inline void get_page(struct page *p)
{
	u32 old = __atomic_fetch_add(&p->refcount, 1, __ATOMIC_RELAXED);
	BUG_ON(old == 0);
}
static inline bool try_get_page(struct page *p)		/* lockless lookup: fails on a free page */
{
	u32 old = page_ref_count(p);
	do {
		if (!old)
			return false;
	} while (!__atomic_compare_exchange_n(&p->refcount, &old, old + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	return true;
}
void __page_free_last(struct page *p);			/* mm/frame.c */
void release_pages(struct page **pages, unsigned int n);	/* put_page on each, cheaper */
static inline void put_page(struct page *p)
{
	u32 old = __atomic_fetch_sub(&p->refcount, 1, __ATOMIC_ACQ_REL);
	BUG_ON(old == 0);
	if (old == 1)
		__page_free_last(p);
}

/* Folio lock (mm/page_lock.c). lock_page sleeps; the caller holds a reference from before until after unlock_page. */
void lock_page(struct page *p);
bool trylock_page(struct page *p);
int __must_check lock_page_killable(struct page *p);	/* 0 or -EINTR */
void unlock_page(struct page *p);
void wait_on_page_writeback(struct page *p);
int __must_check wait_on_page_writeback_killable(struct page *p);	/* 0 or -EINTR */
void page_lock_init(void);				/* mm_init */
void end_page_writeback(struct page *p);		/* clears PG_writeback and wakes; any context */

#endif
