/*
 * A fault in a huge page. The rows, as in mm/fault.c:
 *
 *	entry			access		who serves it
 *	------------------	--------------	------------------------------------------------------------------
 *	none			any		missing(): the page is in the file, or a new one is put there (shared)
 *						or belongs to the mapping alone (private, D11)
 *	none, userfaultfd	any		handle_userfault(), when all our locks are gone
 *	marker: poison		any		VM_FAULT_HWPOISON_LARGE
 *	marker: uffd-wp		any		as none; the new entry stays write-protected
 *	present, read-only	write, unshare	write_protected(): reuse, or copy; the owner may take the page from his children (D24)
 *	present, allows it	any		spurious
 *
 * Order of a fault (D29):
 *
 *	1. the fault mutex of (file, index): one task at a time decides whether there is a page for this index. So "no page is
 *	   left" is the truth, not a race of two allocations for one page (R14), and truncate, which takes the mutex for each
 *	   page that it removes, finds a page mapped or not mapped, never about to be (R13)
 *	2. hugetlb_sync->begin(): what keeps the table from being taken away; see mm/hugetlb_sync.h
 *	3. the walk, and the entry as it is now: chooses the row
 *	4. whatever sleeps: page cache, allocation, clearing, copying
 *	5. hugetlb_sync->lock_entry(), and the entry is compared with what was read at 3 (B11, B12)
 *
 * What is easy to break: every page that was taken from the pool at 4 goes into the file, into an entry, or back with its
 * reservation (R17); and before anything fatal is said (SIGBUS for want of a page) 5 is done all the same, because an entry
 * may be empty for an instant only (R16).
 */
#include "mm/fault_internal.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "mm/hugetlb_entry.h"
#include "mm/hugetlb_sync.h"
#include "mm/tlb.h"

struct huge_fault {
	struct huge_entry e;
	unsigned int	 flags;		/* FAULT_FLAG_* */
	uintptr_t	 real_address;
	u64		 idx;
	pte_t		 orig;		/* what was decided on */
	/* What is left to do when all locks of this file are dropped: */
	u64		 userfault;	/* the reason, VM_UFFD_* */
	bool		 take;		/* the owner's page is to be taken from his children */
	/* and whether that has been done: */
	bool		 taken;
};

static vm_fault_t fault_once(struct huge_fault *f);
static vm_fault_t missing(struct huge_fault *f);
static vm_fault_t missing_in_file(struct huge_fault *f);
static vm_fault_t map_file_page(struct huge_fault *f, struct page *page);
static vm_fault_t write_protected(struct huge_fault *f);
static vm_fault_t copy_page_of(struct huge_fault *f, struct page *old);
static vm_fault_t raise_userfault(struct huge_fault *f);

/* The caller holds mmap_lock or the VMA lock; results as in mm/fault.h. Never COMPLETED (G3). */
vm_fault_t hugetlb_fault(struct vma *vma, uintptr_t addr, unsigned int flags)
{
	struct hstate *h = hstate_vma(vma);
	struct huge_fault f = {
		.e = { .vma = vma, .h = h, .addr = addr & huge_page_mask(h) },
		.flags = flags,
		.real_address = addr,
		.idx = hugetlb_index(h, vma, addr),
	};
	vm_fault_t ret;

	for (;;) {
		u32 hash = hugetlb_fault_mutex_lock(vma->mapping, f.idx);

		hugetlb_sync->begin(vma);
		ret = fault_once(&f);
		hugetlb_sync->end(vma);
		hugetlb_fault_mutex_unlock(hash);
		if (likely(!f.take))
			break;
		/* D24. The lock that we came with keeps the VMA; all else is looked up again. Comes round once: see copy_page_of(). */
		huge_take_from_children(vma, f.e.addr);
		f.take = false;
		f.taken = true;
	}
	return unlikely(f.userfault) ? raise_userfault(&f) : ret;
}

/* Walk and read under RCU: in no mode is memory that was freed looked at. The value is a hint until lock_unchanged(). */
static inline bool find_entry(struct huge_fault *f)
{
	for (;;) {
		rcu_read_lock();
		f->e.pte = huge_walk(f->e.vma->mm, f->e.h, f->e.addr);
		if (likely(f->e.pte)) {
			f->orig = pte_read(f->e.pte);
			rcu_read_unlock();
			race_window("hugetlb_fault_walked");
			return true;
		}
		rcu_read_unlock();
		if (!huge_make_table(f->e.vma, f->e.h, f->e.addr))
			return false;
	}
}

/* Step 5. False, nothing locked: the table has gone, or the entry is not what was decided on; the access finds out. */
static inline bool lock_unchanged(struct huge_fault *f)
{
	if (unlikely(!hugetlb_sync->lock_entry(&f->e)))
		return false;
	if (likely(pte_read(f->e.pte).v == f->orig.v))
		return true;
	huge_entry_unlock(&f->e);
	return false;
}

/* An answer that somebody will see, so the entry is looked at under its lock first. */
static vm_fault_t answer(struct huge_fault *f, vm_fault_t ret)
{
	race_window("hugetlb_answer");
	if (!lock_unchanged(f))
		return 0;
	huge_entry_unlock(&f->e);
	return ret;
}

static vm_fault_t want_userfault(struct huge_fault *f, u64 reason)
{
	if (answer(f, VM_FAULT_RETRY))
		f->userfault = reason;
	return 0;
}

/* No lock of ours is held: the manager may need them all. It may let the VMA go as well: nothing is looked at afterwards (R37). */
static vm_fault_t raise_userfault(struct huge_fault *f)
{
	struct vm_fault vmf = {
		.vma = f->e.vma,
		.address = f->e.addr,
		.real_address = f->real_address,
		.flags = f->flags,
		.orig_pte = f->orig,
	};

	race_window("hugetlb_userfault");
	return handle_userfault(&vmf, f->userfault);
}

static vm_fault_t poisoned(const struct huge_fault *f)
{
	return VM_FAULT_HWPOISON_LARGE | VM_FAULT_SET_LARGE(huge_page_shift(f->e.h) == PUD_SHIFT ? 1 : 0);
}

static vm_fault_t fault_once(struct huge_fault *f)
{
	if (unlikely(!find_entry(f)))
		return VM_FAULT_OOM;
	if (!pte_present(f->orig)) {
		if (unlikely(f->orig.v & PTE_MARKER_POISON))
			return answer(f, poisoned(f));
		return missing(f);
	}
	if ((f->flags & (FAULT_FLAG_WRITE | FAULT_FLAG_UNSHARE)) && !pte_writable(f->orig))
		return write_protected(f);
	flush_tlb_local_page(f->e.addr);	/* B16 */
	return 0;
}

/* -- pages from the pool -- */

/* A page, or the fault's result in *ret. A first failure may be somebody's page on its way to the pool (R15). */
static struct page *take_page(struct huge_fault *f, bool avoid_reserve, vm_fault_t *ret)
{
	struct vma *vma = f->e.vma;
	struct page *page = hugetlb_alloc_page(vma, f->e.addr, avoid_reserve);

	if (unlikely(PTR_ERR(page) == -ENOSPC) && hugetlb_sync->settle_begin) {
		hugetlb_sync->settle_begin(vma);
		page = hugetlb_alloc_page(vma, f->e.addr, avoid_reserve);
		hugetlb_sync->settle_end(vma);
	}
	if (likely(!IS_ERR(page)))
		return page;
	*ret = PTR_ERR(page) == -ENOSPC ? VM_FAULT_SIGBUS : VM_FAULT_OOM;
	return NULL;
}

static void give_back(struct huge_fault *f, struct page *page)
{
	hugetlb_restore_reserve(f->e.vma, f->e.addr, page);
	put_page(page);
}

/* -- nothing there -- */

static vm_fault_t missing(struct huge_fault *f)
{
	struct vma *vma = f->e.vma;
	struct page *page;

	/* D24: its page went to the owner. A fresh one would be silent loss of data (R23). */
	if (unlikely(vma_is_private(vma) && hugetlb_vma_is_unmapped(vma)))
		return answer(f, VM_FAULT_SIGBUS);
	page = mapping_find_get(vma->mapping, f->idx);
	if (!page)
		return missing_in_file(f);
	if (unlikely(vma->flags & VM_UFFD_MINOR)) {
		put_page(page);
		return want_userfault(f, VM_UFFD_MINOR);
	}
	if (unlikely(page_test(page, PG_hwpoison))) {
		put_page(page);
		return answer(f, poisoned(f));
	}
	return map_file_page(f, page);
}

/* The page of the file; takes over the reference. A write to a private mapping copies it (D26). */
static vm_fault_t map_file_page(struct huge_fault *f, struct page *page)
{
	bool write = f->flags & FAULT_FLAG_WRITE;

	if (write && vma_is_private(f->e.vma))
		return copy_page_of(f, page);
	race_window("hugetlb_before_map");
	if (!lock_unchanged(f)) {
		put_page(page);
		return 0;
	}
	huge_add_file_rmap(page);
	pte_write_entry(f->e.pte, huge_keep_marker(f->e.vma, f->orig, huge_file_entry(&f->e, page, write)));
	huge_entry_unlock(&f->e);
	return 0;
}

static bool beyond_end(const struct huge_fault *f)
{
	return hugetlb_beyond_end(f->e.vma->mapping, f->e.h, f->idx);
}

/*
 * lock_unchanged() for a page that the file does not know, where nothing was mapped. Truncate cannot find such a page by its
 * index, only by its entry: it writes the size first and then looks into the table, so either it sees our entry or we see its size.
 */
static bool lock_in_file(struct huge_fault *f)
{
	if (!lock_unchanged(f))
		return false;
	if (likely(!beyond_end(f)))
		return true;
	huge_entry_unlock(&f->e);
	return false;
}

/* A private mapping's own page; takes over the reference. */
static vm_fault_t map_private_page(struct huge_fault *f, struct page *page)
{
	struct vma *vma = f->e.vma;

	if (!lock_in_file(f)) {
		give_back(f, page);
		return 0;
	}
	hugetlb_page_is_used(page);
	huge_add_new_anon(page);
	pte_write_entry(f->e.pte, huge_keep_marker(vma, f->orig, huge_mk_entry(vma, page, f->flags & FAULT_FLAG_WRITE)));
	huge_entry_unlock(&f->e);
	return 0;
}

static vm_fault_t missing_in_file(struct huge_fault *f)
{
	struct vma *vma = f->e.vma;
	vm_fault_t ret = 0;

	if (unlikely(beyond_end(f)))
		return answer(f, VM_FAULT_SIGBUS);
	if (unlikely(vma->flags & VM_UFFD_MISSING))
		return want_userfault(f, VM_UFFD_MISSING);
	struct page *page = take_page(f, false, &ret);
	if (unlikely(!page))
		return answer(f, ret);
	clear_huge_page(page);
	page_set(page, PG_uptodate);
	race_window("hugetlb_page_ready");
	if (vma_is_private(vma))
		return map_private_page(f, page);

	int err = huge_insert_page(vma, f->e.addr, page, f->idx);
	if (unlikely(err)) {
		if (err == -EEXIST)
			return 0;	/* fallocate or uffd was faster: the access finds it */
		return err == -EFAULT ? answer(f, VM_FAULT_SIGBUS) : VM_FAULT_OOM;
	}
	ret = map_file_page(f, page);
	return ret;
}

/* -- there, but not for writing -- */

static void make_writable(struct huge_fault *f)
{
	u64 right = f->e.vma->flags & VM_WRITE ? PTE_WRITE : 0;

	/* Rights only grow: no flush (B16). */
	pte_write_entry(f->e.pte, (pte_t){ f->orig.v | right | PTE_DIRTY | PTE_ACCESSED });
}

/*
 * Entry locked. As page_is_ours_alone() in mm/cow.c: by the mark, or because no reference is left but the entry's. After the
 * page has been taken from all children, being mapped only here is enough: a pin of theirs may remain, and what it
 * sees is then ours; there is no other page to be had.
 */
static bool ours_alone(struct page *page, bool taken)
{
	if (page_test(page, PG_anon_exclusive))
		return true;
	if (page_ref_count(page) != 1 && !(taken && page_mapcount(page) == 1))
		return false;
	page_set(page, PG_anon_exclusive);
	return true;
}

/* As in mm/cow.c: nobody is asked, the bit goes. The entry is locked. */
static void unprotect_entry(struct huge_fault *f)
{
	pte_t old;

	do {
		old = pte_read(f->e.pte);
		f->orig = (pte_t){ old.v & ~PTE_UFFD_WP };
	} while (!pte_try_replace(f->e.pte, old, f->orig));
}

static vm_fault_t write_protected(struct huge_fault *f)
{
	struct vma *vma = f->e.vma;
	bool unshare = f->flags & FAULT_FLAG_UNSHARE;

	if (!lock_unchanged(f))
		return 0;
	if (unlikely(pte_uffd_wp(f->orig) && (vma->flags & VM_UFFD_WP) && !unshare)) {
		if (!uffd_wp_is_async(vma)) {
			huge_entry_unlock(&f->e);
			f->userfault = VM_UFFD_WP;
			return 0;
		}
		unprotect_entry(f);
	}
	struct page *page = pte_page(f->orig);
	bool anon = page_test(page, PG_anon);
	if (!vma_is_private(vma) || (anon && ours_alone(page, f->taken))) {
		if (!unshare)
			make_writable(f);
		huge_entry_unlock(&f->e);
		return 0;
	}
	if (unshare && !anon) {
		huge_entry_unlock(&f->e);	/* the file's page may be pinned for reading as it is */
		return 0;
	}
	get_page(page);
	huge_entry_unlock(&f->e);
	return copy_page_of(f, page);
}

/*
 * @old is referenced, and was mapped by the entry or belongs in it: the file's page, or an anonymous one that others have too.
 *
 * Whose reservation? For the file's page the mapping's own, which is not used up yet (D26). For an anonymous page it has
 * been used for that page, so the copy must not use another's (D24). If there is none left, the owner has been
 * promised that he can write: he keeps the old page, and those who got it by fork lose it. Others get SIGBUS.
 *
 * The end of the file is not asked for: a page of the file may lie behind it (fallocate with KEEP_SIZE), and as long as it is
 * there it can be read and copied. Who removes it takes the fault mutex, and then unmaps the copies too (fs/hugetlbfs.c).
 *
 * FOLL_FORCE does not come here for read-only VMAs (H9), so the new entry is writable unless the copy is only an unsharing.
 */
static vm_fault_t copy_page_of(struct huge_fault *f, struct page *old)
{
	struct vma *vma = f->e.vma;
	bool anon = page_test(old, PG_anon);
	vm_fault_t ret = 0;
	struct page *copy = take_page(f, anon, &ret);

	if (unlikely(!copy)) {
		put_page(old);
		if (!anon || ret != VM_FAULT_SIGBUS || f->taken || !hugetlb_vma_is_owner(vma))
			return answer(f, ret);
		f->take = true;
		return 0;
	}
	copy_huge_page(copy, old);
	page_set(copy, PG_uptodate);

	race_window("hugetlb_copied");
	if (!lock_unchanged(f)) {
		give_back(f, copy);
		put_page(old);
		return 0;
	}
	pte_t entry = huge_mk_entry(vma, copy, !(f->flags & FAULT_FLAG_UNSHARE));
	if (pte_present(f->orig)) {
		/* The old translation goes everywhere before the new one can be seen (B13). */
		pte_get_and_clear(f->e.pte);
		flush_tlb_huge_page(vma->mm, f->e.addr, huge_page_size(f->e.h));
		entry.v |= f->flags & FAULT_FLAG_UNSHARE ? f->orig.v & PTE_UFFD_WP : 0;
		race_window("hugetlb_cow_cleared");
		huge_remove_rmap(old);
	} else {
		entry = huge_keep_marker(vma, f->orig, entry);
	}
	hugetlb_page_is_used(copy);
	huge_add_new_anon(copy);
	pte_write_entry(f->e.pte, entry);
	huge_entry_unlock(&f->e);
	if (pte_present(f->orig))
		put_page(old);		/* the entry's */
	put_page(old);
	return 0;
}
