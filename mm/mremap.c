/*
 * mremap: grow, shrink, or move a mapping with its pages (A18..A23).
 *
 * A move makes a second VMA for the new place, carries the page-table entries over one table at a time, and unmaps the old
 * place. Three rules are easy to break.
 *
 *   - No CPU may still write a page through its old address once another thread can free or own it: the old entries of a
 *     table are flushed before its lock is dropped (A23, RACES R54).
 *   - The reverse map must not miss a page that is on its way: a walker could look at the new place before the entry arrives and
 *     at the old place after it left. So its locks are held for writing while entries travel (R55).
 *   - The old place must be removable without a chance of failure once pages have left it, so it is cut to size first.
 */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/hugetlb.h"
#include "mm/mmap.h"
#include "mm/page_walk.h"
#include "mm/rmap.h"
#include "mm/tlb.h"
#include "mm/uffd.h"
#include "mm/vma_internal.h"

#define MREMAP_MAYMOVE		1
#define MREMAP_FIXED		2
#define MREMAP_DONTUNMAP	4

struct remap {
	struct mm	*mm;
	uintptr_t	 addr, new_addr;
	size_t		 old_len, new_len;
	size_t		 cut;		/* bytes behind old_len that were asked for too, and have been unmapped first */
	unsigned long	 flags;
	struct uffd_event *early;	/* the last event of a userfaultfd before that of the move */
	bool		 locked;	/* out: VM_LOCKED, so the grown part is to be faulted in */
};

static long mremap_locked(struct remap *r);
static long mremap_to(struct remap *r);
static long move_vma(struct remap *r, struct vma *vma);

SYSCALL_DEFINE(mremap, uintptr_t addr, size_t old_len, size_t new_len, unsigned long flags, uintptr_t new_addr)
{
	struct remap r = { .mm = current->mm, .addr = addr, .new_addr = new_addr, .flags = flags };
	long ret;

	if (flags & ~(unsigned long)(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP))
		return -EINVAL;
	if ((flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) && !(flags & MREMAP_MAYMOVE))
		return -EINVAL;
	if ((flags & MREMAP_DONTUNMAP) && old_len != new_len)
		return -EINVAL;
	if (addr & ~PAGE_MASK)
		return -EINVAL;
	r.old_len = ALIGN_UP(old_len, PAGE_SIZE);
	r.new_len = ALIGN_UP(new_len, PAGE_SIZE);
	if (!r.new_len)
		return -EINVAL;
	if (mmap_write_lock_killable(r.mm))
		return -EINTR;
	ret = mremap_locked(&r);
	mmap_write_unlock(r.mm);
	if (ret >= 0 && r.locked && r.new_len > r.old_len)
		(void)mm_populate(r.mm, (uintptr_t)ret + r.old_len, r.new_len - r.old_len, true);
	return ret;
}

/* -- which case is it? -- */

/* May [addr, addr+old_len) of one VMA become new_len long? The VMA, or ERR_PTR by the order of A18..A20. */
static struct vma *vma_to_resize(struct remap *r)
{
	struct vma *vma = vma_lookup(r->mm, r->addr);
	u64 pgoff;

	if (!vma)
		return ERR_PTR(-EFAULT);
	if (!r->old_len && vma_is_private(vma))
		return ERR_PTR(-EINVAL);	/* a private mapping cannot be duplicated: whose would its pages be? */
	if ((r->flags & MREMAP_DONTUNMAP) && (vma->flags & (VM_DONTEXPAND | VM_PFNMAP)))
		return ERR_PTR(-EINVAL);
	if (r->old_len > vma->end - r->addr)
		return ERR_PTR(-EFAULT);
	if (r->new_len == r->old_len)
		return vma;
	pgoff = linear_index(vma, r->addr);
	if (pgoff + (r->new_len >> PAGE_SHIFT) < pgoff)
		return ERR_PTR(-EINVAL);
	if (vma->flags & (VM_DONTEXPAND | VM_PFNMAP))
		return ERR_PTR(-EFAULT);
	if ((vma->flags & VM_LOCKED) && !mlock_limit_ok(r->mm, (r->new_len - r->old_len) >> PAGE_SHIFT))
		return ERR_PTR(-EAGAIN);
	if (!may_expand_vm(r->mm, vma->flags, (r->new_len - r->old_len) >> PAGE_SHIFT))
		return ERR_PTR(-ENOMEM);
	return vma;
}

/* The space right after @vma is free for @delta more bytes? */
static bool can_grow_in_place(const struct vma *vma, size_t delta)
{
	struct vma *next;

	if (!range_ok(vma->end, delta))
		return false;
	next = vma_find(vma->mm, vma->end);
	return !next || next->start - vma->end >= delta;
}

static long grow_in_place(struct remap *r, struct vma *vma)
{
	u64 pages = (r->new_len - r->old_len) >> PAGE_SHIFT;
	int err = vma->flags & VM_ACCOUNT ? vm_commit(pages) : 0;

	if (err)
		return err;
	vm_stat_account(r->mm, vma->flags, (s64)pages);
	r->locked = vma->flags & VM_LOCKED;
	vma_write_lock(vma);
	vma_set_bounds(vma, vma->start, r->addr + r->new_len);
	vma_merge_neighbours(vma);
	return (long)r->addr;
}

/* Addresses are those of huge pages, lengths become so. No growth: whose would the promises be? As on Linux the new address counts always. */
static int round_to_huge(struct remap *r, const struct hstate *h)
{
	r->old_len = ALIGN_UP(r->old_len, huge_page_size(h));
	r->new_len = ALIGN_UP(r->new_len, huge_page_size(h));
	return ((r->addr | r->new_addr) & ~huge_page_mask(h)) || r->new_len > r->old_len ? -EINVAL : 0;
}

/* mmap_lock write. The address or -errno. */
static long mremap_locked(struct remap *r)
{
	struct vma *vma = vma_lookup(r->mm, r->addr);
	uintptr_t where;
	int err;

	if (!vma)
		return -EFAULT;
	if (vma->flags & VM_SEALED)
		return -EPERM;
	if (vma->flags & VM_HUGETLB) {				/* A22 */
		err = round_to_huge(r, hstate_vma(vma));
		if (err)
			return err;
	}
	if (r->flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))
		return mremap_to(r);
	if (r->old_len >= r->new_len) {
		if (r->old_len > r->new_len) {
			if (!range_ok(r->addr, r->old_len))
				return -EINVAL;
			err = do_munmap_locked(r->mm, r->addr + r->new_len, r->addr + r->old_len);
			if (err)
				return err;
		}
		return (long)r->addr;
	}
	vma = vma_to_resize(r);
	if (IS_ERR(vma))
		return PTR_ERR(vma);
	if (r->old_len == vma->end - r->addr && can_grow_in_place(vma, r->new_len - r->old_len))
		return grow_in_place(r, vma);
	if (!(r->flags & MREMAP_MAYMOVE))
		return -ENOMEM;
	where = get_unmapped_area(r->mm, 0, r->new_len, PAGE_SIZE, 0);
	if (IS_ERR_VALUE(where))
		return (long)where;
	r->new_addr = where;
	return move_vma(r, vma);
}

/* FIXED or DONTUNMAP. As on Linux the target is unmapped before the last checks. */
static long mremap_to(struct remap *r)
{
	struct vma *vma;
	uintptr_t where;
	int err;

	if (r->new_addr & ~PAGE_MASK)
		return -EINVAL;
	if (!range_ok(r->new_addr, r->new_len))
		return -EINVAL;
	if (r->addr + r->old_len > r->new_addr && r->new_addr + r->new_len > r->addr)
		return -EINVAL;
	if (r->mm->map_count + 2 >= sysctl_max_map_count - 3)	/* A3: room for every split that may follow */
		return -ENOMEM;
	if (r->flags & MREMAP_FIXED) {
		err = do_munmap_locked(r->mm, r->new_addr, r->new_addr + r->new_len);
		if (err)
			return err;
		r->early = uffd_events_mark(r->mm);
	}
	if (r->old_len > r->new_len) {
		if (!range_ok(r->addr, r->old_len))
			return -EINVAL;
		err = do_munmap_locked(r->mm, r->addr + r->new_len, r->addr + r->old_len);
		if (err)
			return err;
		r->cut = r->old_len - r->new_len;
		r->old_len = r->new_len;
	}
	vma = vma_to_resize(r);
	if (IS_ERR(vma))
		return PTR_ERR(vma);
	if ((r->flags & MREMAP_DONTUNMAP) && !may_expand_vm(r->mm, vma->flags, r->old_len >> PAGE_SHIFT))
		return -ENOMEM;
	if (r->flags & MREMAP_FIXED) {
		if (r->new_addr < MMAP_MIN_ADDR && !capable(CAP_SYS_RAWIO))
			return -EPERM;
	} else {
		where = get_unmapped_area(r->mm, r->new_addr, r->new_len, PAGE_SIZE, 0);
		if (IS_ERR_VALUE(where))
			return (long)where;
		r->new_addr = where;
	}
	return move_vma(r, vma);
}

/* -- moving -- */

/* Cuts @vma so that the moved range is a VMA of its own; a whole one can be removed without failing. ERR_PTR. */
static struct vma *isolate(struct vma *vma, uintptr_t start, uintptr_t end)
{
	int err;

	if (start > vma->start) {
		err = vma_split(vma, start);
		if (err)
			return ERR_PTR(err);
		vma = vma_next(vma);
	}
	if (end < vma->end) {
		err = vma_split(vma, end);
		if (err)
			return ERR_PTR(err);
	}
	return vma;
}

/* The VMA of the new place, in the tree, empty. ERR_PTR. */
static struct vma *build_target(struct remap *r, struct vma *vma)
{
	struct vma *new;

	if (vma_tree_reserve(&r->mm->vmas, 1))
		return ERR_PTR(-ENOMEM);
	if (vma->flags & VM_HUGETLB)
		drop_kept_tables(r->mm);	/* one might stand where a huge page goes */
	new = vma_dup(vma);
	if (!new)
		return ERR_PTR(-ENOMEM);
	if (vma->uffd && !uffd_follows_remap(vma)) {
		new->uffd = NULL;		/* its manager would not know where the pages are (F49) */
		new->flags &= ~VM_UFFD_ANY;
	}
	new->pgoff = linear_index(vma, r->addr);
	if (vma_is_anonymous(vma) && !vma->anon_vma)
		new->pgoff = r->new_addr >> PAGE_SHIFT;	/* no page in it yet: number it for its place, so that it merges there */
	new->start = r->new_addr;
	new->end = r->new_addr + r->new_len;
	if (vma->anon_vma)
		anon_vma_clone(new, vma);
	vma_insert(new);
	if (new->flags & VM_HUGETLB)
		hugetlb_vma_inherit_mark(new, vma);
	if (new->ops && new->ops->open)
		new->ops->open(new);
	return new;
}

/* MREMAP_DONTUNMAP: the old VMA stays, emptied and no longer locked. */
static void leave_behind(struct vma *vma)
{
	if (!(vma->flags & VM_LOCKED))
		return;
	vma->mm->locked_vm -= vma_pages(vma);
	vma_set_flags(vma, vma->flags & ~(VM_LOCKED | VM_LOCKONFAULT));
}

/* Nobody would ever take the protection off again (R39). */
static void drop_protection(struct vma *vma)
{
	(void)!uffd_wp_range(vma, vma->start, vma->end, false);	/* needs no memory */
}

/* mmap_lock write, the new place free. The new address or -errno, then nothing has moved. */
static long move_vma(struct remap *r, struct vma *vma)
{
	struct mm *mm = r->mm;
	bool keep_old = (r->flags & MREMAP_DONTUNMAP) || !r->old_len;
	u64 charge = vma->flags & VM_ACCOUNT ? r->new_len >> PAGE_SHIFT : 0;
	struct uffd_remap events = { 0 };
	struct vma *new;
	size_t moved;
	long err;

	if (mm->map_count >= sysctl_max_map_count - 3)
		return -ENOMEM;
	err = vm_commit(charge);
	if (err)
		return err;
	if (unlikely(vma->uffd)) {
		err = uffd_remap_prepare(&events, vma, r->addr, r->new_addr, r->old_len, r->cut, !keep_old);
		if (err)
			goto uncommit;
	}
	if (!keep_old) {
		vma = isolate(vma, r->addr, r->addr + r->old_len);
		if (IS_ERR(vma)) {
			err = PTR_ERR(vma);
			goto cancel;
		}
	}
	vma_write_lock(vma);		/* C5: no fault may put a page into what is leaving */
	new = build_target(r, vma);
	if (IS_ERR(new)) {
		err = PTR_ERR(new);
		goto remerge;
	}
	race_window("mremap_target_built");
	moved = move_page_tables(vma, r->addr, new, r->new_addr, r->old_len);
	if (moved < r->old_len) {
		/* No memory for a table. Back the way they came, where every table still exists. */
		size_t back = move_page_tables(new, r->new_addr, vma, r->addr, moved);

		BUG_ON(back != moved);
		if (new->flags & VM_HUGETLB)
			hugetlb_move_vma(vma, new);
		vma_remove(new);
		err = -ENOMEM;
		goto remerge;
	}

	/* Nothing below this line can fail. */
	if (new->flags & VM_HUGETLB)
		hugetlb_move_vma(new, vma);
	if (unlikely((vma->flags & VM_UFFD_WP) && !new->uffd))
		drop_protection(new);
	uffd_remap_commit(&events, mm, r->early);
	vm_stat_account(mm, new->flags, (s64)vma_pages(new));
	r->locked = new->flags & VM_LOCKED;
	if (!keep_old)
		BUG_ON(do_munmap_locked(mm, r->addr, r->addr + r->old_len));
	else if (r->flags & MREMAP_DONTUNMAP)
		leave_behind(vma);
	vma_merge_neighbours(new);
	return (long)r->new_addr;

remerge:
	if (!keep_old)
		vma_merge_neighbours(vma);
cancel:
	uffd_remap_cancel(&events);
uncommit:
	vm_uncommit(charge);
	return err;
}

static void lock_rmap(struct vma *vma)
{
	if (vma->mapping)
		down_write(&vma->mapping->i_mmap_lock);
	if (vma->anon_vma)
		down_write(&vma->anon_vma->lock);
}

static void unlock_rmap(struct vma *vma)
{
	if (vma->anon_vma)
		up_write(&vma->anon_vma->lock);
	if (vma->mapping)
		up_write(&vma->mapping->i_mmap_lock);
}

/* Two PTE tables, or one and the same: by address, as the rank table says. */
static void lock_two(struct spinlock *a, struct spinlock *b)
{
	struct spinlock *first = a < b ? a : b, *second = a < b ? b : a;

	spin_lock(first);
	if (second != first)
		spin_lock_nested(second);
}

static void unlock_two(struct spinlock *a, struct spinlock *b)
{
	spin_unlock(a);
	if (b != a)
		spin_unlock(b);
}

/* Entries of [old, end), within one table here and one there. Present ones, uffd-wp bits and markers travel alike. */
static void move_entries(struct vma *src, pmd_t *from, uintptr_t old, uintptr_t end, pmd_t *to, uintptr_t new_addr)
{
	struct spinlock *from_lock = pte_lockptr(from), *to_lock = pte_lockptr(to);
	bool flush = false;

	lock_rmap(src);
	lock_two(from_lock, to_lock);
	pte_t *s = pte_offset(pmd_read(from), old), *d = pte_offset(pmd_read(to), new_addr);

	for (uintptr_t addr = old; addr < end; addr += PAGE_SIZE, s++, d++) {
		pte_t e;

		if (pte_none(pte_read(s)))
			continue;
		e = pte_get_and_clear(s);
		flush |= e.v & PTE_PRESENT;
		pte_write_entry(d, e);
	}
	race_window("mremap_before_flush");
	if (flush)
		flush_tlb_range(src->mm, old, end, false);
	unlock_two(from_lock, to_lock);
	unlock_rmap(src);
}

/*
 * mmap_lock write, both VMAs write-locked: tables of either place neither go away nor fill by faults. Sleeps for new
 * tables. Less than @len: out of memory, and everything before that has moved.
 */
size_t move_page_tables(struct vma *src, uintptr_t old, struct vma *dst, uintptr_t new_addr, size_t len)
{
	struct mm *mm = src->mm;
	uintptr_t addr = old, end = old + len, stop;
	pmd_t *from;

	assert_vma_write_locked(src);
	assert_vma_write_locked(dst);
	if (unlikely(src->flags & VM_HUGETLB))
		return hugetlb_move_pages(dst, src, old, new_addr, len) ? 0 : len;
	for (; next_pte_table(mm, &addr, end, &from, &stop); addr = stop) {
		uintptr_t to_addr = new_addr + (addr - old), to_end = pmd_addr_end(to_addr, new_addr + len);
		pmd_t *to = pmd_alloc(mm, to_addr);

		if (!to || pte_alloc(mm, to))
			return addr - old;
		if (stop - addr > to_end - to_addr)
			stop = addr + (to_end - to_addr);
		move_entries(src, from, addr, stop, to, to_addr);
		cond_resched();
	}
	return len;
}
