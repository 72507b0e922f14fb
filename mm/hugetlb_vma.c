/*
 * The walks over huge entries other than the fault: unmapping, rights, moving, pinning, reporting. Each stands for a generic
 * one (mm/zap.c, mm/mprotect.c, mm/mremap.c, mm/gup.c, mm/proc_mm.c), which calls it for a VMA with VM_HUGETLB.
 *
 * A walk that takes something away does so between hugetlb_sync->change_begin() and change_end(), and asks for each GiB
 * whether the table is this VMA's to edit: leave_table(). If it is not, the VMA leaves it and has no entries there any
 * more; that is more than was asked for, and right all the same, since the pages are in the file (E11). Then the whole GiB has
 * to be flushed, for what used to be reached through the table is from now on freed without asking us (E6, E13, R7).
 *
 * The rule that is easy to break: flush, and free what was gathered, before change_end(). While it is held no fault can
 * find the pool empty because of pages that are on their way to it (R15).
 */
#include "mm/hugetlb_entry.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "mm/gup.h"
#include "mm/pmd_share.h"
#include "mm/rmap.h"
#include "mm/tlb.h"

struct huge_zap {
	struct mmu_gather *tlb;
	struct vma	*vma;
	struct hstate	*h;
	bool		 even_cows;	/* private copies too */
	bool		 keep_wp;	/* the uffd-wp bit outlives the page (F36) */
	bool		 give_back;	/* the owner gets his reservation back (D9) */
	bool		 removal;	/* pages leave the file: a table of the file has been emptied, and only needs a flush */
};

static void zap_windows(struct huge_zap *z, uintptr_t start, uintptr_t end);

/*
 * The next part of [*addr, end) under one PUD entry, 2 MiB pages, or the next 1 GiB page: true, with *pud and *stop set. False: no
 * more. Go on with *addr = *stop. Who calls keeps the PUD tables in place.
 */
static bool next_window(struct mm *mm, uintptr_t *addr, uintptr_t end, pud_t **pud, uintptr_t *stop)
{
	for (; *addr < end; *addr = pgd_addr_end(*addr, end)) {
		*pud = pud_walk(mm, *addr);
		*stop = pud_addr_end(*addr, end);
		if (*pud)
			return true;
	}
	return false;
}

/* The first entry of a window that the caller may edit; NULL: no table. */
static pte_t *window_entries(const struct hstate *h, pud_t *pud, uintptr_t addr)
{
	pud_t e = pud_read(pud);

	if (huge_page_shift(h) == PUD_SHIFT)
		return (pte_t *)pud;
	return pud_table(e) ? (pte_t *)pmd_offset(e, addr) : NULL;
}

static bool left_table(struct vma *vma, const struct hstate *h, uintptr_t addr, pud_t *pud)
{
	return huge_page_shift(h) == PMD_SHIFT && hugetlb_sync->leave_table(vma, addr, pud);
}

/* -- unmapping -- */

/* @vma is write-locked, or its mm dies; all of it goes. Flushed on return. Sleeps. */
void hugetlb_zap_range(struct mmu_gather *tlb, struct vma *vma, uintptr_t start, uintptr_t end, bool even_cows)
{
	struct huge_zap z = { .tlb = tlb, .vma = vma, .h = hstate_vma(vma), .even_cows = even_cows };

	/* Nobody locks the VMAs of a dying mm, but others may look for a table to share: this one is not to be had any more (E16). */
	if (tlb->fullmm)
		WRITE_ONCE(vma->lock_seq, vma->mm->lock_seq);
	assert(READ_ONCE(vma->lock_seq) == vma->mm->lock_seq);
	hugetlb_sync->change_begin(vma);
	zap_windows(&z, start, end);
	race_window("hugetlb_unmap_before_flush");
	tlb_flush(tlb);
	hugetlb_sync->change_end(vma);
}

/* DONTNEED: mmap_lock for read. */
void hugetlb_zap_page_range(struct vma *vma, uintptr_t start, uintptr_t end)
{
	struct mmu_gather tlb;
	struct huge_zap z = {
		.tlb = &tlb,
		.vma = vma,
		.h = hstate_vma(vma),
		.even_cows = true,
		.keep_wp = vma->flags & VM_UFFD_WP,
		.give_back = true,
	};

	assert_vma_locked(vma);
	hugetlb_sync->change_begin(vma);
	tlb_gather_begin(&tlb, vma->mm);
	zap_windows(&z, start, end);
	race_window("hugetlb_zapped");
	tlb_gather_end(&tlb);
	hugetlb_sync->change_end(vma);
	race_window("hugetlb_zap_done");
}

/* i_mmap_lock held, and what hugetlb.sync wants: from its unmap_file. */
void huge_unmap_file_pages(struct vma *vma, u64 first, u64 last, bool even_cows)
{
	struct hstate *h = hstate_vma(vma);
	u64 start = vma->pgoff >> h->order, from = max(first, start), to = min(last, start + (vma_pages(vma) >> h->order));
	struct mmu_gather tlb;
	struct huge_zap z = { .tlb = &tlb, .vma = vma, .h = h, .even_cows = even_cows, .give_back = true, .removal = true };

	if (from >= to)
		return;
	tlb_gather_begin(&tlb, vma->mm);
	zap_windows(&z, vma->start + ((from - start) << huge_page_shift(h)), vma->start + ((to - start) << huge_page_shift(h)));
	tlb_gather_end(&tlb);
	race_window("hugetlb_unmapped_vma");
}

/* i_mmap_lock keeps the tables; @idx lies in @vma. */
bool huge_file_page_has_entry(struct vma *vma, u64 idx)
{
	struct hstate *h = hstate_vma(vma);
	pte_t *pte = huge_walk(vma->mm, h, vma->start + ((idx - (vma->pgoff >> h->order)) << huge_page_shift(h)));

	return pte && !pte_none(pte_read(pte));
}

/* One entry, locked. True: the gather is full. */
static bool zap_entry(struct huge_zap *z, pte_t *pte, uintptr_t addr)
{
	pte_t e = pte_read(pte);

	if (pte_none(e))
		return false;
	if (!pte_present(e)) {
		if ((e.v & PTE_MARKER_POISON) ? z->even_cows : !z->keep_wp)
			pte_write_entry(pte, (pte_t){ 0 });
		return false;
	}
	struct page *page = pte_page(e);
	bool anon = page_test(page, PG_anon);
	if (anon && !z->even_cows)
		return false;
	e = pte_get_and_clear(pte);
	if (unlikely(z->keep_wp && pte_uffd_wp(e)))
		pte_write_entry(pte, (pte_t){ PTE_MARKER_UFFD_WP });
	tlb_note_cleared(z->tlb, addr, huge_page_size(z->h));
	if (anon && z->give_back)
		hugetlb_zap_restores_reserve(z->vma, addr, page);
	huge_remove_rmap(page);
	return tlb_add_page(z->tlb, page);
}

/* Entries of one table of our own. */
static void zap_table(struct huge_zap *z, pte_t *pte, uintptr_t addr, uintptr_t end)
{
	size_t size = huge_page_size(z->h);

	while (addr < end) {
		struct spinlock *ptl = huge_lockptr(z->vma, pte);
		bool full = false;

		spin_lock(ptl);
		for (; addr < end && !full; addr += size, pte++)
			full = zap_entry(z, pte, addr);
		spin_unlock(ptl);
		if (full)
			tlb_flush(z->tlb);
	}
}

static void zap_windows(struct huge_zap *z, uintptr_t start, uintptr_t end)
{
	struct mm *mm = z->vma->mm;
	uintptr_t addr = start, stop;
	pud_t *pud;

	for (; next_window(mm, &addr, end, &pud, &stop); addr = stop) {
		if (z->removal && pud_table(pud_read(pud)) && table_is_of_file(pud_page(pud_read(pud)))) {
			tlb_note_cleared(z->tlb, addr, stop - addr);
			continue;
		}
		if (left_table(z->vma, z->h, addr, pud)) {
			tlb_note_cleared(z->tlb, addr & PUD_MASK, PUD_SIZE);
			z->tlb->freed_tables = true;
			continue;
		}
		pte_t *pte = window_entries(z->h, pud, addr);
		if (pte)
			zap_table(z, pte, addr, stop);
		cond_resched();
	}
}

/* -- rights -- */

/* As pte_modify() in mm/mprotect.c, without its cases for dirty tracking and special pages. */
static pte_t modify_entry(pte_t old, u64 prot, const struct vma *vma)
{
	const u64 kept = PTE_PFN_MASK | PTE_ACCESSED | PTE_DIRTY | PTE_HUGE | PTE_UFFD_WP | PTE_SOFT_DIRTY;
	pte_t e = { (old.v & kept) | prot };

	if (!(prot & PTE_PRESENT) || pte_uffd_wp(e) || !(vma->flags & VM_WRITE))
		e.v &= ~PTE_WRITE;
	else if (vma_is_private(vma) && page_test(pte_page(e), PG_anon) && page_test(pte_page(e), PG_anon_exclusive))
		e.v |= PTE_WRITE;
	return e;
}

/* @vma write-locked, its flags the new ones. Flushed on return. Sleeps. */
void hugetlb_change_protection(struct vma *vma, uintptr_t start, uintptr_t end, u64 prot)
{
	struct hstate *h = hstate_vma(vma);
	size_t size = huge_page_size(h);
	uintptr_t addr = start, stop, first = start, last = end;
	bool left = false;
	pud_t *pud;

	assert_vma_write_locked(vma);
	hugetlb_sync->change_begin(vma);
	for (; next_window(vma->mm, &addr, end, &pud, &stop); addr = stop) {
		if (left_table(vma, h, addr, pud)) {
			first = min(first, addr & PUD_MASK);
			last = max(last, (addr & PUD_MASK) + PUD_SIZE);
			left = true;
			continue;
		}
		pte_t *pte = window_entries(h, pud, addr), old;
		if (!pte)
			continue;
		struct spinlock *ptl = huge_lockptr(vma, pte);
		spin_lock(ptl);
		for (uintptr_t a = addr; a < stop; a += size, pte++) {
			do {
				old = pte_read(pte);
			} while (pte_present(old) && !pte_try_replace(pte, old, modify_entry(old, prot, vma)));
		}
		spin_unlock(ptl);
	}
	race_window("hugetlb_protect_before_flush");
	flush_tlb_range(vma->mm, first, last, left);
	hugetlb_sync->change_end(vma);
}

/*
 * A VMA is about to end, or to begin, at @addr: the window around it lies in one VMA no longer, so its table must not be a
 * shared one. Now, and not earlier: with the rmap locks held and the VMA write-locked nobody can share again before the new
 * bounds stand (E12, R4).
 */
void hugetlb_split_vma(struct vma *vma, uintptr_t addr)
{
	struct hstate *h = hstate_vma(vma);
	pud_t *pud = addr & ~PUD_MASK ? pud_walk(vma->mm, addr) : NULL;

	assert_vma_write_locked(vma);
	assert(rwsem_is_write_held(&vma->mapping->i_mmap_lock));
	if (pud && left_table(vma, h, addr, pud))
		flush_tlb_range(vma->mm, addr & PUD_MASK, (addr & PUD_MASK) + PUD_SIZE, true);
}

/* -- moving -- */

/* Tables of our own for [addr, end), which no VMA shares yet. False: no memory. */
static bool make_own_tables(struct mm *mm, const struct hstate *h, uintptr_t addr, uintptr_t end)
{
	for (; addr < end; addr = pud_addr_end(addr, end))
		if (huge_page_shift(h) == PUD_SHIFT ? !pud_alloc(mm, addr) : !pmd_alloc(mm, addr))
			return false;
	return true;
}

/* One page from here to there; both entries are in tables of our own. i_mmap_lock keeps truncate away, mmap_lock the rest. */
static void move_entry(struct vma *vma, pte_t *from, pte_t *to)
{
	struct spinlock *a = huge_lockptr(vma, from), *b = huge_lockptr(vma, to);
	struct spinlock *first = a < b ? a : b, *second = a < b ? b : a;

	spin_lock(first);
	if (second != first)
		spin_lock_nested(second);
	if (!pte_none(pte_read(from)))
		pte_write_entry(to, pte_get_and_clear(from));
	if (second != first)
		spin_unlock(second);
	spin_unlock(first);
}

/* Leaves shared tables, and makes room for what is in others. False: no memory; *left says what is to be flushed. */
static bool prepare_move(struct vma *from, struct hstate *h, uintptr_t old, uintptr_t new, size_t len, bool *left)
{
	uintptr_t addr = old, end = old + len, stop;
	pud_t *pud;

	for (; next_window(from->mm, &addr, end, &pud, &stop); addr = stop) {
		if (left_table(from, h, addr, pud))
			*left = true;
		else if (!pud_none(pud_read(pud)) && !make_own_tables(from->mm, h, new + (addr - old), new + (stop - old)))
			return false;
	}
	return true;
}

static void move_windows(struct vma *from, struct hstate *h, uintptr_t old, uintptr_t new, size_t len)
{
	uintptr_t addr = old, end = old + len, stop;
	pud_t *pud;

	for (; next_window(from->mm, &addr, end, &pud, &stop); addr = stop) {
		pte_t *pte = window_entries(h, pud, addr);

		for (; pte && addr < stop; addr += huge_page_size(h), pte++)
			if (!pte_none(pte_read(pte)))
				move_entry(from, pte, huge_walk(from->mm, h, new + (addr - old)));
	}
}

/*
 * mmap_lock write, both VMAs write-locked. The old place is flushed before the locks that keep others from freeing its pages
 * are let go (A23, R54). Where the table is shared nothing moves: the pages are found again in the file, and in the table
 * of the others. 0, or -ENOMEM with nothing moved. Sleeps.
 */
int hugetlb_move_pages(struct vma *to, struct vma *from, uintptr_t old, uintptr_t new, size_t len)
{
	struct hstate *h = hstate_vma(from);
	bool left = false, ok;

	assert_vma_write_locked(from);
	assert_vma_write_locked(to);
	(void)to;
	hugetlb_sync->change_begin(from);
	ok = prepare_move(from, h, old, new, len, &left);
	if (ok)
		move_windows(from, h, old, new, len);
	race_window("hugetlb_move_before_flush");
	if (left)
		flush_tlb_range(from->mm, old & PUD_MASK, ALIGN_UP(old + len, PUD_SIZE), true);
	else
		flush_tlb_range(from->mm, old, old + len, false);
	hugetlb_sync->change_end(from);
	return ok ? 0 : -ENOMEM;
}

/* -- tables and pages, for the fault and for userfaultfd -- */

bool huge_make_table(struct vma *vma, struct hstate *h, uintptr_t addr)
{
	pud_t *pud = pud_alloc(vma->mm, addr);

	if (!pud)
		return false;
	if (huge_page_shift(h) == PUD_SHIFT || !pud_none(pud_read(pud)))
		return true;
	return !hugetlb_sync->make_table(vma, addr, pud);
}

int huge_insert_page(struct vma *vma, uintptr_t addr, struct page *page, u64 idx)
{
	struct mapping *m = vma->mapping;
	bool locked = trylock_page(page);
	int err;

	BUG_ON(!locked);		/* nobody else knows it */
	err = hugetlb_add_to_page_cache(page, m->host, idx);
	if (err) {
		unlock_page(page);
		hugetlb_restore_reserve(vma, addr, page);
		put_page(page);
		return err;
	}
	/*
	 * Truncate lowers i_size, then looks for pages; we insert, then look at i_size. One of us sees the other (R12). Who takes
	 * the page out does so under the fault mutex: it is us, now, or truncate, after us.
	 */
	race_window("hugetlb_inserted");
	if (!hugetlb_sync->removal_without_mutex && hugetlb_beyond_end(m, hstate_vma(vma), idx)) {
		hugetlb_remove_from_page_cache(page);
		unlock_page(page);
		put_page(page);
		return -EFAULT;
	}
	unlock_page(page);
	return 0;
}

/* The page of the owner's entry, referenced; NULL: it has gone meanwhile. */
static struct page *owned_page(struct vma *vma, const struct hstate *h, uintptr_t addr)
{
	struct page *page = NULL;
	pte_t *pte = huge_walk(vma->mm, h, addr);

	if (!pte)
		return NULL;		/* private: the table is ours, and stays while the VMA is locked */
	struct spinlock *ptl = huge_lockptr(vma, pte);
	spin_lock(ptl);
	pte_t e = pte_read(pte);
	if (pte_present(e) && page_test(pte_page(e), PG_anon)) {
		page = pte_page(e);
		get_page(page);
	}
	spin_unlock(ptl);
	return page;
}

/* Out of one child. Marked before the entry is emptied: who finds it empty finds the mark. */
static void take_from(struct vma *child, struct hstate *h, uintptr_t addr, struct page *page)
{
	struct huge_zap z = { .vma = child, .h = h, .even_cows = true };
	pte_t *pte = huge_walk(child->mm, h, addr);
	struct mmu_gather tlb;

	if (!pte)
		return;
	z.tlb = &tlb;
	tlb_gather_begin(&tlb, child->mm);
	struct spinlock *ptl = huge_lockptr(child, pte);
	spin_lock(ptl);
	pte_t e = pte_read(pte);
	bool full = false;
	if (pte_present(e) && pte_page(e) == page) {
		hugetlb_vma_mark_unmapped(child);
		full = zap_entry(&z, pte, addr);
	}
	spin_unlock(ptl);
	(void)full;			/* one page */
	tlb_gather_end(&tlb);
}

/*
 * i_mmap_lock: no VMA comes or goes, and no entry moves by mremap. A child that forks meanwhile has its own child behind it
 * in the list, so the copy is either not made or found.
 */
void huge_take_from_children(struct vma *vma, uintptr_t addr)
{
	struct hstate *h = hstate_vma(vma);
	u64 idx = hugetlb_index(h, vma, addr);
	struct page *page = owned_page(vma, h, addr);
	struct vma *child;

	if (!page)
		return;
	race_window("hugetlb_cow_no_page");
	down_read(&vma->mapping->i_mmap_lock);
	list_for_each_entry(child, &vma->mapping->i_mmap, i_mmap_node) {
		u64 start = child->pgoff >> h->order;

		if (child != vma && vma_is_private(child) && !hugetlb_vma_is_owner(child) && vma_maps_file_pages(child, idx, idx + 1, h))
			take_from(child, h, child->start + ((idx - start) << huge_page_shift(h)), page);
	}
	up_read(&vma->mapping->i_mmap_lock);
	put_page(page);
}

/* -- looking -- */

/* What the entry allows together with the levels above: in a table of the file the rights are in the PUD entry. */
static pte_t effective_entry(const struct vma *vma, uintptr_t addr, const pte_t *pte)
{
	pte_t e = pte_read(pte);

	if (likely(!table_is_of_file(virt_to_page(pte))))
		return e;
	pud_t *pud = pud_walk(vma->mm, addr);
	u64 upper = pud ? pud_read(pud).v : 0;
	if (!(upper & PTE_PRESENT))
		return (pte_t){ 0 };
	if (!(upper & PTE_WRITE))
		e.v &= ~PTE_WRITE;
	e.v |= pte_present(e) ? upper & PTE_NX : 0;
	return e;
}

/* RCU keeps the table; mmap_lock or the VMA lock, or i_mmap_lock, the VMA. Never sleeps. */
pte_t hugetlb_read_entry(struct vma *vma, uintptr_t addr, bool *shared)
{
	struct hstate *h = hstate_vma(vma);
	pte_t e = { 0 };

	rcu_read_lock();
	pte_t *pte = huge_walk(vma->mm, h, addr);
	if (pte)
		e = effective_entry(vma, addr, pte);
	if (shared)
		*shared = pte && huge_page_shift(h) == PMD_SHIFT && hugetlb_sync->table_has_others(vma, virt_to_page(pte));
	rcu_read_unlock();
	return e;
}

/* As take_page() in mm/gup.c: the entry locked and, as it is now, allowing what is asked. FOLL_FORCE gives no more here (H9). */
static bool entry_allows(pte_t e, unsigned int foll, unsigned int *fault_flags)
{
	if (!(e.v & PTE_PRESENT) && !((foll & FOLL_FORCE) && pte_present(e)))
		return false;
	if (foll & FOLL_WRITE)
		return pte_writable(e);
	const struct page *page = pte_page(e);
	if ((foll & FOLL_PIN) && page_test(page, PG_anon) && !page_test(page, PG_anon_exclusive)) {
		*fault_flags = FAULT_FLAG_UNSHARE;	/* B13 */
		return false;
	}
	return true;
}

/* mmap_lock for read. The reference is one of the whole huge page. Sleeps. */
struct page *hugetlb_follow_page(struct vma *vma, uintptr_t addr, unsigned int foll, unsigned int *fault_flags)
{
	struct hstate *h = hstate_vma(vma);
	struct huge_entry entry = { .vma = vma, .h = h, .addr = addr & huge_page_mask(h) };
	struct page *page = NULL;

	hugetlb_sync->begin(vma);
	entry.pte = huge_walk(vma->mm, h, addr);
	race_window("hugetlb_gup_walked");
	if (entry.pte && hugetlb_sync->lock_entry(&entry)) {
		pte_t e = effective_entry(vma, addr, entry.pte);

		if (entry_allows(e, foll, fault_flags)) {
			page = pte_page(e);
			__atomic_fetch_add(&page->refcount, foll & FOLL_PIN ? PIN_BIAS : 1, __ATOMIC_RELAXED);
			page += (addr & ~huge_page_mask(h)) >> PAGE_SHIFT;
		}
		huge_entry_unlock(&entry);
	}
	hugetlb_sync->end(vma);
	return page;
}
