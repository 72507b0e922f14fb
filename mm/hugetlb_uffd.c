/*
 * userfaultfd on huge pages: filling, continuing, poisoning and write-protecting one entry. See mm/hugetlb_uffd.h.
 *
 * The order of locks is that of a fault (mm/hugetlb_fault.c), and so is the order of work: under the fault mutex, page cache and
 * pool first, then the entry's lock, and the entry must still be as it was. A registered VMA shares no table, so a marker or a
 * wp bit that is written here is seen by this mm alone (R9).
 *
 * The rule that is easy to break (R20): a page from the pool is not kept while locks are dropped. When the source of a copy
 * cannot be read, the page goes back with its reservation, and the data waits in a page that counts nowhere.
 */
#include "mm/hugetlb_uffd.h"

#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "mm/hugetlb_entry.h"
#include "mm/tlb.h"
#include "mm/uaccess.h"

struct huge_fill {
	struct huge_entry e;
	u64		 idx;
	pte_t		 orig;
	bool		 wp;
	u32		 hash;
};

/* COPY and CONTINUE overwrite markers of both kinds, POISON nothing (F25). */
static bool may_fill(pte_t e) { return !pte_present(e); }

/* The locks of a fault, and the entry as it is. 0 or -ENOMEM with nothing held. */
static int fill_begin(struct huge_fill *f, struct vma *vma, uintptr_t addr, bool wp)
{
	struct hstate *h = hstate_vma(vma);

	assert(IS_ALIGNED(addr, huge_page_size(h)));
	assert_vma_locked(vma);
	*f = (struct huge_fill){ .e = { .vma = vma, .h = h, .addr = addr }, .idx = hugetlb_index(h, vma, addr), .wp = wp };
	f->hash = hugetlb_fault_mutex_lock(vma->mapping, f->idx);
	hugetlb_sync->begin(vma);
	for (;;) {
		rcu_read_lock();
		f->e.pte = huge_walk(vma->mm, h, addr);
		if (f->e.pte)
			f->orig = pte_read(f->e.pte);
		rcu_read_unlock();
		if (f->e.pte)
			return 0;
		if (!huge_make_table(vma, h, addr)) {
			hugetlb_sync->end(vma);
			hugetlb_fault_mutex_unlock(f->hash);
			return -ENOMEM;
		}
	}
}

static void fill_end(struct huge_fill *f)
{
	hugetlb_sync->end(f->e.vma);
	hugetlb_fault_mutex_unlock(f->hash);
}

static bool lock_unchanged(struct huge_fill *f)
{
	if (!hugetlb_sync->lock_entry(&f->e))
		return false;
	if (pte_read(f->e.pte).v == f->orig.v)
		return true;
	huge_entry_unlock(&f->e);
	return false;
}

/* The new entry goes in, over a marker perhaps; entry locked. Dirty, since somebody has put data there (F26). */
static void install(struct huge_fill *f, struct page *page, bool writable)
{
	pte_t e = huge_mk_entry(f->e.vma, page, true);

	if (!writable)
		e.v &= ~PTE_WRITE;
	if (f->wp)
		e.v = (e.v & ~PTE_WRITE) | PTE_UFFD_WP;
	pte_write_entry(f->e.pte, e);
}

/* -- COPY -- */

static bool copy_from_source(struct page *page, uintptr_t src)
{
	bool ok = true;

	for (u64 i = 0; i < 1ul << page->order && ok; i++) {
		pagefault_disable();
		ok = !copy_from_user(page_to_virt(page + i), (const void __user *)(src + (i << PAGE_SHIFT)), PAGE_SIZE);
		pagefault_enable();
		if (i % 64 == 63)
			cond_resched();
	}
	return ok;
}

/* @page: filled, ours. Into the file first, if the mapping is shared. Consumes the reference. */
static int put_in(struct huge_fill *f, struct page *page)
{
	struct vma *vma = f->e.vma;
	int err;

	if (!vma_is_private(vma)) {
		err = huge_insert_page(vma, f->e.addr, page, f->idx);
		if (err)
			return err;
	} else if (hugetlb_beyond_end(vma->mapping, f->e.h, f->idx)) {
		hugetlb_restore_reserve(vma, f->e.addr, page);
		put_page(page);
		return -EFAULT;
	}
	race_window("hugetlb_uffd_copy_ready");
	if (!lock_unchanged(f)) {
		if (vma_is_private(vma))
			hugetlb_restore_reserve(vma, f->e.addr, page);
		put_page(page);
		return -EEXIST;
	}
	if (vma_is_private(vma)) {
		hugetlb_page_is_used(page);
		huge_add_new_anon(page);
	} else {
		huge_add_file_rmap(page);
	}
	install(f, page, true);
	huge_entry_unlock(&f->e);
	return 0;
}

static bool is_in_file(struct huge_fill *f)
{
	struct page *page = mapping_find_get(f->e.vma->mapping, f->idx);

	if (page)
		put_page(page);
	return page;
}

static int copy_locked(struct huge_fill *f, uintptr_t src, struct page **temp)
{
	struct vma *vma = f->e.vma;
	struct page *page;

	if (!may_fill(f->orig) || (!vma_is_private(vma) && is_in_file(f)))
		return -EEXIST;
	page = hugetlb_alloc_page(vma, f->e.addr, false);
	if (IS_ERR(page))
		return -ENOMEM;
	if (*temp) {
		copy_huge_page(page, *temp);
	} else if (!copy_from_source(page, src)) {
		hugetlb_restore_reserve(vma, f->e.addr, page);
		put_page(page);
		return -ENOENT;
	}
	page_set(page, PG_uptodate);
	return put_in(f, page);
}

int hugetlb_uffd_copy(struct vma *vma, uintptr_t addr, uintptr_t src, bool wp, struct page **temp)
{
	struct huge_fill f;
	int err = fill_begin(&f, vma, addr, wp);

	if (err)
		return err;
	err = copy_locked(&f, src, temp);
	fill_end(&f);
	return err;
}

int hugetlb_uffd_read_source(struct hstate *h, uintptr_t src, struct page **temp)
{
	if (!*temp)
		*temp = hugetlb_alloc_temporary(h);
	if (!*temp)
		return -ENOMEM;
	for (u64 i = 0; i < 1ul << h->order; i++) {
		if (copy_from_user(page_to_virt(*temp + i), (const void __user *)(src + (i << PAGE_SHIFT)), PAGE_SIZE))
			return -EFAULT;
		cond_resched();
	}
	return 0;
}

void hugetlb_uffd_drop_source(struct page **temp)
{
	if (*temp)
		put_page(*temp);
	*temp = NULL;
}

/* -- CONTINUE, POISON -- */

/*
 * First the file is asked, then the entry, as on Linux: where both fail the answer is -EFAULT. What lies behind the end of the file
 * (fallocate with KEEP_SIZE) can be mapped as a fault would.
 */
static int continue_locked(struct huge_fill *f)
{
	struct vma *vma = f->e.vma;
	struct page *page = mapping_find_get(vma->mapping, f->idx);
	int err = -EEXIST;

	if (!page)
		return -EFAULT;
	if (page_test(page, PG_hwpoison)) {
		err = -EIO;
		goto put;
	}
	race_window("hugetlb_uffd_continue_ready");
	if (!may_fill(f->orig) || !lock_unchanged(f))
		goto put;
	huge_add_file_rmap(page);
	install(f, page, !vma_is_private(vma));		/* else it would be the file that is written (R41) */
	huge_entry_unlock(&f->e);
	return 0;

put:
	put_page(page);
	return err;
}

int hugetlb_uffd_continue(struct vma *vma, uintptr_t addr, bool wp)
{
	struct huge_fill f;
	int err = fill_begin(&f, vma, addr, wp);

	if (err)
		return err;
	err = continue_locked(&f);
	fill_end(&f);
	return err;
}

int hugetlb_uffd_poison(struct vma *vma, uintptr_t addr)
{
	struct huge_fill f;
	int err = fill_begin(&f, vma, addr, false);

	if (err)
		return err;
	if (!pte_none(f.orig) || !lock_unchanged(&f)) {
		err = -EEXIST;
	} else {
		pte_write_entry(f.e.pte, (pte_t){ PTE_MARKER_POISON });
		huge_entry_unlock(&f.e);
	}
	fill_end(&f);
	return err;
}

/* -- write protection -- */

/*
 * One entry, locked. Where a right is taken away the translation goes before the lock does: who finds the entry protected may
 * rely on nobody writing any more (R32).
 */
static void change_wp(struct huge_entry *e, bool protect)
{
	pte_t old, new;

	do {
		old = new = pte_read(e->pte);
		if (pte_present(old))
			new.v = protect ? (old.v & ~PTE_WRITE) | PTE_UFFD_WP : old.v & ~PTE_UFFD_WP;
		else if (pte_none(old))
			new.v = protect ? PTE_MARKER_UFFD_WP : 0;
		else if (old.v == PTE_MARKER_UFFD_WP)
			new.v = protect ? old.v : 0;	/* poison stays what it is */
	} while (new.v != old.v && !pte_try_replace(e->pte, old, new));
	if (pte_present(old) && pte_writable(old) && protect)
		flush_tlb_huge_page(e->vma->mm, e->addr, huge_page_size(e->h));
}

int hugetlb_uffd_wp(struct vma *vma, uintptr_t start, uintptr_t end, bool protect)
{
	struct hstate *h = hstate_vma(vma);
	struct huge_entry e = { .vma = vma, .h = h };
	int err = 0;

	assert_vma_locked(vma);
	hugetlb_sync->begin(vma);
	for (e.addr = start; e.addr < end && !err; e.addr += huge_page_size(h)) {
		e.pte = huge_walk(vma->mm, h, e.addr);
		if (!e.pte && protect && !huge_make_table(vma, h, e.addr))
			err = -ENOMEM;
		if (!e.pte && protect && !err)
			e.pte = huge_walk(vma->mm, h, e.addr);
		if (e.pte && hugetlb_sync->lock_entry(&e)) {
			change_wp(&e, protect);
			huge_entry_unlock(&e);
		}
		cond_resched();
	}
	hugetlb_sync->end(vma);
	return err;
}

int hugetlb_uffd_wp_matching(struct vma *vma, uintptr_t addr, bool (*matches)(void *arg, pte_t entry), void *arg)
{
	struct hstate *h = hstate_vma(vma);
	struct huge_entry e = { .vma = vma, .h = h, .addr = addr };
	int err = 0;

	assert_vma_locked(vma);
	hugetlb_sync->begin(vma);
	do {
		e.pte = huge_walk(vma->mm, h, addr);
		if (!e.pte && !huge_make_table(vma, h, addr))
			err = -ENOMEM;
	} while (!err && !(e.pte && hugetlb_sync->lock_entry(&e)));
	if (!err) {
		if (matches(arg, pte_read(e.pte)))
			change_wp(&e, true);
		huge_entry_unlock(&e);
	}
	hugetlb_sync->end(vma);
	return err;
}

/* -- registration -- */

void hugetlb_uffd_registered(struct vma *vma)
{
	struct hstate *h = hstate_vma(vma);
	bool left = false;

	assert_vma_write_locked(vma);
	if (huge_page_shift(h) != PMD_SHIFT)
		return;
	hugetlb_sync->change_begin(vma);
	for (uintptr_t addr = vma->start; addr < vma->end; addr = pud_addr_end(addr, vma->end)) {
		pud_t *pud = pud_walk(vma->mm, addr);

		left |= pud && hugetlb_sync->leave_table(vma, addr, pud);
	}
	race_window("hugetlb_registered_before_flush");
	if (left)
		flush_tlb_range(vma->mm, vma->start & PUD_MASK, ALIGN_UP(vma->end, PUD_SIZE), true);
	hugetlb_sync->change_end(vma);
}
