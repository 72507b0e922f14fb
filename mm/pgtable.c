/*
 * Page tables: walking, building and tearing down the tables themselves; what the leaves mean is the business of
 * fault.c, zap.c and friends.
 *
 * Life of a user table page. It is allocated zeroed, gets PG_table, its lock, its mm and the first address it maps,
 * and is published by one compare-and-swap of the entry above, so whoever finds the entry finds a finished table. It
 * leaves in free_pgtables(): entry cleared, translations and paging-structure caches flushed on every CPU, freed by
 * RCU (mm/tlb.c). Walkers that hold neither mmap_lock nor the VMA lock therefore see the table or nothing, never
 * memory of somebody else, as long as they stay in an RCU read section.
 *
 * Kernel tables are never freed. All pgd entries of the kernel half are filled at boot and copied into each new pgd,
 * so nothing ever has to be propagated to other address spaces.
 */
#include "mm/pgtable.h"

#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/smp.h"
#include "kernel/string.h"
#include "mm/frame.h"
#include "mm/mm.h"
#include "mm/tlb.h"
#include "mm/vmstat.h"

#define KERNEL_PGD_FIRST	(PTRS_PER_PGD / 2)
#define PGD_LEVEL		4		/* page->table_level of a root */

pgd_t *kernel_pgd;
static bool tables_from_frames;		/* constant after boot */

static struct page *table_alloc(struct mm *mm, unsigned int level, uintptr_t base);
static bool table_publish(struct mm *mm, u64 *slot, unsigned int level, uintptr_t base);

/* -- user tables: walking ------------------------------------------------------------------------------------- */

pud_t *pud_walk(struct mm *mm, uintptr_t addr)
{
	pgd_t pgd = pgd_read(mm->pgd + pgd_index(addr));

	return pgd_none(pgd) ? NULL : pud_offset(pgd, addr);
}

pmd_t *pmd_walk(struct mm *mm, uintptr_t addr)
{
	pud_t *pud = pud_walk(mm, addr);

	if (!pud)
		return NULL;
	pud_t e = pud_read(pud);		/* once: what it says now may be another thing than what it said when it was tested (R10) */
	race_window("pmd_walk_read");
	return pud_table(e) ? pmd_offset(e, addr) : NULL;
}

pud_t *pud_alloc(struct mm *mm, uintptr_t addr)
{
	pgd_t *pgd = mm->pgd + pgd_index(addr);

	assert(addr < TASK_SIZE);
	if (unlikely(pgd_none(pgd_read(pgd))) && !table_publish(mm, &pgd->v, 3, addr & PGD_MASK))
		return NULL;
	return pud_offset(pgd_read(pgd), addr);
}

pmd_t *pmd_alloc(struct mm *mm, uintptr_t addr)
{
	pud_t *pud = pud_alloc(mm, addr);

	if (unlikely(!pud))
		return NULL;
	if (unlikely(pud_none(pud_read(pud))) && !table_publish(mm, &pud->v, 2, addr & PUD_MASK))
		return NULL;
	pud_t e = pud_read(pud);
	return pud_table(e) ? pmd_offset(e, addr) : NULL;
}

int pte_alloc(struct mm *mm, pmd_t *pmd)
{
	if (likely(!pmd_none(pmd_read(pmd))))
		return 0;
	/* The table that @pmd stands in knows where it begins. */
	uintptr_t base = virt_to_page(pmd)->index + ((uintptr_t)pmd & ~PAGE_MASK) / sizeof(pmd_t) * PMD_SIZE;
	return table_publish(mm, &pmd->v, 1, base) ? 0 : -ENOMEM;
}

/* -- user tables: building and tearing down ------------------------------------------------------------------- */

/*
 * A table is empty when it is freed, as it was when it was new, so some are kept as they are: clearing a page costs more
 * than everything else about it. Root tables, whose kernel half is the same for all, are kept apart. Tables are freed
 * where the RCU thread runs, many at once, and needed where processes map and fork: so what one CPU does not keep goes
 * to a common store, from which the others help themselves in batches.
 */
enum table_kind { TABLE_INNER, TABLE_ROOT, NR_TABLE_KINDS };
#define TABLE_CACHE	24u
#define TABLE_BATCH	8u

struct table_cache { u32 nr; struct page *tables[TABLE_CACHE]; };
static DEFINE_PER_CPU(struct table_cache, table_caches[NR_TABLE_KINDS]);	/* own CPU, interrupts off */
static struct spare_tables {
	struct spinlock	 lock;		/* LOCK_LEAF_IRQ */
	u32		 nr;
	struct page	*first;		/* chained by next_table */
} spare_tables[NR_TABLE_KINDS] = { { .lock = SPINLOCK_INIT(LOCK_LEAF_IRQ) }, { .lock = SPINLOCK_INIT(LOCK_LEAF_IRQ) } };
static u32 table_limit, spare_limit;	/* small machines keep fewer; constant after boot */

/* Interrupts off. */
static void take_spare_tables(struct spare_tables *spare, struct table_cache *tc)
{
	spin_lock(&spare->lock);
	for (; spare->first && tc->nr < TABLE_BATCH; spare->nr--) {
		tc->tables[tc->nr++] = spare->first;
		spare->first = spare->first->next_table;
	}
	spin_unlock(&spare->lock);
}

static bool give_spare_table(struct spare_tables *spare, struct page *table)
{
	bool kept;

	spin_lock(&spare->lock);
	kept = spare->nr < spare_limit;
	if (kept) {
		table->next_table = spare->first;
		spare->first = table;
		spare->nr++;
	}
	spin_unlock(&spare->lock);
	return kept;
}

static struct page *cached_table(enum table_kind kind)
{
	struct page *table = NULL;
	unsigned long flags = local_irq_save();
	struct table_cache *tc = &(*this_cpu_ptr(&table_caches))[kind];

	if (unlikely(!tc->nr && READ_ONCE(spare_tables[kind].first)))
		take_spare_tables(&spare_tables[kind], tc);
	if (likely(tc->nr))
		table = tc->tables[--tc->nr];
	local_irq_restore(flags);
	return table;
}

static bool cache_table(struct page *table, enum table_kind kind)
{
	unsigned long flags = local_irq_save();
	struct table_cache *tc = &(*this_cpu_ptr(&table_caches))[kind];
	bool kept = tc->nr < table_limit;

	if (likely(kept))
		tc->tables[tc->nr++] = table;
	else
		kept = give_spare_table(&spare_tables[kind], table);
	local_irq_restore(flags);
	return kept;
}

#ifdef DEBUG
/* An entry left behind would be a page that is never unmapped, and a surprise for the next owner. */
static void check_table_empty(const struct page *table, enum table_kind kind, const char *when)
{
	const u64 *entries = page_to_virt(table);
	unsigned int n = kind == TABLE_ROOT ? KERNEL_PGD_FIRST : PTRS_PER_PTE;

	for (unsigned int i = 0; i < n; i++)
		if (entries[i])
			panic("page table %lx of level %u for %lx %s with entry %u = %lx", page_to_pfn(table),
			      table->table_level, table->index, when, i, entries[i]);
}
#else
static inline void check_table_empty(const struct page *table, enum table_kind kind, const char *when) { (void)table, (void)kind, (void)when; }
#endif

/* An empty table that maps from @base on, accounted to @mm if that is one; NULL: no memory. */
static struct page *table_alloc(struct mm *mm, unsigned int level, uintptr_t base)
{
	enum table_kind kind = level == PGD_LEVEL ? TABLE_ROOT : TABLE_INNER;
	struct page *table = alloc_should_fail() ? NULL : cached_table(kind);

	if (likely(table)) {
		check_table_empty(table, kind, "kept");		/* somebody wrote to it after it was freed (R1, R3) */
	} else {
		table = alloc_pages(GFP_KERNEL | GFP_ZERO, 0);
		if (!table)
			return NULL;
		if (level == PGD_LEVEL)
			memcpy((pgd_t *)page_to_virt(table) + KERNEL_PGD_FIRST, kernel_pgd + KERNEL_PGD_FIRST,
			       (PTRS_PER_PGD - KERNEL_PGD_FIRST) * sizeof(pgd_t));
		table->flags = 1u << PG_table;
	}
	table->table_level = (u8)level;
	table->pt_mm = mm;
	table->index = base;
	spin_lock_init(&table->ptl, LOCK_PTE);
	if (likely(mm))
		__atomic_fetch_add(&mm->pgtables_bytes, PAGE_SIZE, __ATOMIC_RELAXED);
	vm_count(VM_nr_page_table_pages);
	return table;
}

struct page *file_table_alloc(u64 gib)
{
	return table_alloc(NULL, 2, gib << PUD_SHIFT);
}

static void table_unaccount(struct mm *mm)
{
	__atomic_fetch_sub(&mm->pgtables_bytes, PAGE_SIZE, __ATOMIC_RELAXED);
}

static void release_table(struct page *table)
{
	table->flags = 0;
	free_pages(table, 0);
}

/* Process context. */
void free_table(struct page *table)
{
	enum table_kind kind = table->table_level == PGD_LEVEL ? TABLE_ROOT : TABLE_INNER;

	BUG_ON(!page_test(table, PG_table));
	check_table_empty(table, kind, "freed");
	debug_frame_unreachable(table);
	vm_count_add(VM_nr_page_table_pages, -1);
	table->table_level = 0;
	table->pt_mm = NULL;
	if (!cache_table(table, kind))
		release_table(table);
}

static void drain_this_cpu(void *unused)
{
	(void)unused;
	for (unsigned int kind = 0; kind < NR_TABLE_KINDS; kind++) {
		struct table_cache *tc = &(*this_cpu_ptr(&table_caches))[kind];

		do {
			while (tc->nr)
				release_table(tc->tables[--tc->nr]);
			take_spare_tables(&spare_tables[kind], tc);
		} while (tc->nr);
	}
}

void pgtable_drain(void)
{
	smp_call_function(cpu_online_mask, drain_this_cpu, NULL, true);
}

void pgtable_init(void)
{
	/* A grace period's worth for one busy CPU: what munmap() loops free and build again. */
	spare_limit = (u32)clamp(nr_total_pages() / 1024, 16ul, 256ul);
	table_limit = (u32)clamp(nr_total_pages() / 4096, 4ul, (u64)TABLE_CACHE);
}

/*
 * Puts a new table into the empty entry *@slot. Two CPUs may try at once: one wins, the other frees its own and uses
 * the winner's. The release of the swap orders the zeroes before the entry. False: no memory.
 */
static bool table_publish(struct mm *mm, u64 *slot, unsigned int level, uintptr_t base)
{
	struct page *table = table_alloc(mm, level, base);
	u64 none = 0;

	if (!table)
		return false;
	if (!__atomic_compare_exchange_n(slot, &none, page_to_phys(table) | TABLE_PROT, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		table_unaccount(mm);
		free_table(table);
	}
	return true;
}

pgd_t *pgd_alloc(struct mm *mm)
{
	struct page *table = table_alloc(mm, PGD_LEVEL, 0);

	return table ? page_to_virt(table) : NULL;
}

/* All user tables are gone. Process context: CPUs that are still on these tables (lazily) are sent away first. */
void pgd_free(struct mm *mm, pgd_t *pgd)
{
	if (!pgd)
		return;
	tlb_forget_mm(mm);
	assert(debug_pending_translations(mm) == 0);
	table_unaccount(mm);
	free_table(virt_to_page(pgd));
}

/* The hull of what one entry of size @span at @addr covers lies inside [floor, ceiling): no other VMA needs it. */
static bool span_is_ours(uintptr_t addr, size_t span, uintptr_t floor, uintptr_t ceiling)
{
	uintptr_t first = addr & ~(span - 1);

	return first >= floor && first + span - 1 <= ceiling - 1;
}

static void gather_table(struct mmu_gather *tlb, struct page *table, uintptr_t addr, size_t span)
{
	table_unaccount(tlb->mm);
	tlb_note_cleared(tlb, addr & ~(span - 1), span);
	tlb_add_table(tlb, table);
}

static void free_pte_tables(struct mmu_gather *tlb, pud_t pud, uintptr_t addr, uintptr_t end, uintptr_t floor, uintptr_t ceiling)
{
	uintptr_t next;

	for (; addr < end; addr = next) {
		pmd_t *pmd = pmd_offset(pud, addr);

		next = pmd_addr_end(addr, end);
		if (pmd_table(pmd_read(pmd)) && span_is_ours(addr, PMD_SIZE, floor, ceiling))
			gather_table(tlb, pmd_page(pmd_get_and_clear(pmd)), addr, PMD_SIZE);
	}
}

static void free_pmd_tables(struct mmu_gather *tlb, pgd_t pgd, uintptr_t addr, uintptr_t end, uintptr_t floor, uintptr_t ceiling)
{
	uintptr_t next;

	for (; addr < end; addr = next) {
		pud_t *pud = pud_offset(pgd, addr), e = pud_read(pud);

		next = pud_addr_end(addr, end);
		if (!pud_table(e))
			continue;
		free_pte_tables(tlb, e, addr, next, floor, ceiling);
		if (span_is_ours(addr, PUD_SIZE, floor, ceiling))
			gather_table(tlb, pud_page(pud_get_and_clear(pud)), addr, PUD_SIZE);
	}
}

/*
 * A table goes when its whole span lies between the neighbours; parts of it outside [start, end) hold nothing then.
 * @ceiling 0 or from TASK_SIZE on: there is no VMA above.
 */
void free_pgtables(struct mmu_gather *tlb, uintptr_t start, uintptr_t end, uintptr_t floor, uintptr_t ceiling)
{
	uintptr_t next;

	assert(start < end && floor <= start && end <= TASK_SIZE);
	if (ceiling >= TASK_SIZE)
		ceiling = 0;		/* ceiling - 1 is then the highest address of all */
	assert(!ceiling || end <= ceiling);
	for (uintptr_t addr = start; addr < end; addr = next) {
		pgd_t *pgd = tlb->mm->pgd + pgd_index(addr), e = pgd_read(pgd);

		next = pgd_addr_end(addr, end);
		if (pgd_none(e))
			continue;
		free_pmd_tables(tlb, e, addr, next, floor, ceiling);
		if (span_is_ours(addr, PGD_SIZE, floor, ceiling)) {
			pgd_write_entry(pgd, (pgd_t){ 0 });
			gather_table(tlb, pgd_page(e), addr, PGD_SIZE);
		}
	}
}

/* -- kernel tables -------------------------------------------------------------------------------------------- */

void kernel_tables_use_frames(void)
{
	tables_from_frames = true;
}

/* The table under *@slot, built if missing; NULL: no memory, or a large leaf is there. */
static u64 *kernel_table(u64 *slot)
{
	u64 e = READ_ONCE(*slot), none = 0;

	if (e)
		return e & PTE_HUGE ? NULL : phys_to_virt(e & PTE_PFN_MASK);
	if (!tables_from_frames) {
		void *table = boot_alloc(PAGE_SIZE, PAGE_SIZE);

		WRITE_ONCE(*slot, virt_to_phys(table) | KERNEL_TABLE);
		return table;
	}
	struct page *table = alloc_pages(GFP_KERNEL | GFP_ZERO, 0);
	if (!table)
		return NULL;
	table->flags = 1u << PG_table;
	if (__atomic_compare_exchange_n(slot, &none, page_to_phys(table) | KERNEL_TABLE, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		vm_count(VM_nr_page_table_pages);
		return page_to_virt(table);
	}
	table->flags = 0;
	free_pages(table, 0);
	return phys_to_virt(none & PTE_PFN_MASK);
}

void kernel_prepare_pgd(uintptr_t kaddr)
{
	kernel_table(&kernel_pgd[pgd_index(kaddr)].v);
}

static bool leaf_fits(uintptr_t kaddr, phys_addr_t phys, size_t size, size_t leaf, size_t max_leaf)
{
	return leaf <= max_leaf && size >= leaf && IS_ALIGNED(kaddr | phys, leaf);
}

int kernel_map_large(uintptr_t kaddr, phys_addr_t phys, size_t size, u64 prot, size_t max_leaf)
{
	size_t step;

	assert(IS_ALIGNED(kaddr | phys | size, PAGE_SIZE));
	for (; size; size -= step, kaddr += step, phys += step) {
		u64 *pud = kernel_table(&kernel_pgd[pgd_index(kaddr)].v);

		if (!pud)
			return -ENOMEM;
		pud += pud_index(kaddr);
		if (leaf_fits(kaddr, phys, size, PUD_SIZE, max_leaf)) {
			step = PUD_SIZE;
			WRITE_ONCE(*pud, phys | prot | PTE_HUGE);
			continue;
		}
		u64 *pmd = kernel_table(pud);
		if (!pmd)
			return -ENOMEM;
		pmd += pmd_index(kaddr);
		if (leaf_fits(kaddr, phys, size, PMD_SIZE, max_leaf)) {
			step = PMD_SIZE;
			WRITE_ONCE(*pmd, phys | prot | PTE_HUGE);
			continue;
		}
		u64 *pte = kernel_table(pmd);
		if (!pte)
			return -ENOMEM;
		step = PAGE_SIZE;
		WRITE_ONCE(pte[pte_index(kaddr)], phys | prot);
	}
	return 0;
}

int kernel_map(uintptr_t kaddr, phys_addr_t phys, size_t size, u64 prot)
{
	return kernel_map_large(kaddr, phys, size, prot, PAGE_SIZE);
}

pte_t *kernel_pte(uintptr_t kaddr)
{
	pgd_t pgd = pgd_read(&kernel_pgd[pgd_index(kaddr)]);
	if (pgd_none(pgd))
		return NULL;
	pud_t pud = pud_read(pud_offset(pgd, kaddr));
	if (!pud_table(pud))
		return NULL;
	pmd_t pmd = pmd_read(pmd_offset(pud, kaddr));
	return pmd_table(pmd) ? pte_offset(pmd, kaddr) : NULL;
}

void kernel_unmap(uintptr_t kaddr, size_t size)
{
	for (size_t done = 0; done < size; done += PAGE_SIZE) {
		pte_t *pte = kernel_pte(kaddr + done);

		if (pte)
			WRITE_ONCE(pte->v, 0);
	}
}

/* Any kernel address that is mapped: image, direct map, vmalloc, vmemmap. */
phys_addr_t kernel_virt_to_phys(const void *v)
{
	uintptr_t kaddr = (uintptr_t)v;

	if (kaddr >= KERNEL_BASE)
		return kaddr - KERNEL_BASE;
	if (kaddr < VMALLOC_START)
		return virt_to_phys(v);

	pgd_t pgd = pgd_read(&kernel_pgd[pgd_index(kaddr)]);
	BUG_ON(pgd_none(pgd));
	pud_t pud = pud_read(pud_offset(pgd, kaddr));
	if (pud_leaf(pud))
		return (pud.v & PTE_PFN_MASK & PUD_MASK) + (kaddr & ~PUD_MASK);
	BUG_ON(pud_none(pud));
	pmd_t pmd = pmd_read(pmd_offset(pud, kaddr));
	if (pmd_leaf(pmd))
		return (pmd.v & PTE_PFN_MASK & PMD_MASK) + (kaddr & ~PMD_MASK);
	BUG_ON(pmd_none(pmd));
	pte_t pte = pte_read(pte_offset(pmd, kaddr));
	BUG_ON(!(pte.v & PTE_PRESENT));
	return (pte.v & PTE_PFN_MASK) + (kaddr & ~PAGE_MASK);
}
