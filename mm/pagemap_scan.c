/*
 * PAGEMAP_SCAN, the ioctl of /proc/PID/pagemap: lists the regions of an address space whose pages are of the kinds that are asked
 * for, and write-protects what it lists, if told to and where a userfaultfd with WP_ASYNC is registered. So a program learns
 * which pages were written since the last time, without a fault message for each (SEMANTICS F35).
 *
 *	kind		of		means
 *	--------------	--------------	-------------------------------------------------------------------
 *	WPALLOWED	the VMA		registered for WP with WP_ASYNC: can be protected
 *	WRITTEN		an entry	there, and not write-protected by userfaultfd
 *	PRESENT FILE PFNZERO HUGE	what they say
 *	SWAPPED		an entry	a marker (there is no swap)
 *
 * Soft-dirty, the eighth, is an option of Linux's that this kernel does not have: no page is.
 *
 * The rule that is easy to break: an entry is looked at, listed and protected under one hold of its lock. A write that
 * came before is then in this list; one that comes after faults, and is in the next. Where there is no table yet and
 * holes are to be protected, the table is made first, and whatever has come into it meanwhile is treated as what it is.
 *
 * Results are gathered in a buffer of the kernel, since they are found under spin locks. When that is full, mmap_lock is dropped, the buffer
 * goes out, and the walk goes on where it stopped.
 */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "kernel/task.h"
#include "mm/hugetlb_entry.h"
#include "mm/hugetlb_uffd.h"
#include "mm/mmap.h"
#include "mm/page_walk.h"
#include "mm/rmap.h"
#include "mm/slab.h"
#include "mm/tlb.h"
#include "mm/uaccess.h"
#include "mm/uffd.h"
#include "mm/vma_internal.h"

#define PAGE_IS_WPALLOWED	BIT(0)
#define PAGE_IS_WRITTEN		BIT(1)
#define PAGE_IS_FILE		BIT(2)
#define PAGE_IS_PRESENT		BIT(3)
#define PAGE_IS_SWAPPED		BIT(4)
#define PAGE_IS_PFNZERO		BIT(5)
#define PAGE_IS_HUGE		BIT(6)
#define PAGE_IS_SOFT_DIRTY	BIT(7)
#define ALL_CATEGORIES		0xfful

#define PM_SCAN_WP_MATCHING	BIT(0)
#define PM_SCAN_CHECK_WPASYNC	BIT(1)

#define BUFFER_REGIONS		512ul

struct page_region { u64 start, end, categories; };

struct pm_scan_arg {
	u64	size, flags, start, end;
	u64	walk_end;			/* out */
	u64	vec, vec_len, max_pages;
	u64	category_inverted, category_mask, category_anyof_mask, return_mask;
};
_Static_assert(sizeof(struct pm_scan_arg) == 96, "user ABI");

struct scan {
	struct pm_scan_arg	 arg;		/* as it came, but for max_pages, and for vec and vec_len, which are what is left */
	struct page_region	*buf;		/* NULL: nothing is listed */
	size_t			 len, used;	/* regions: room, and in it */
	u64			 found;		/* pages listed so far */
	u64			 stopped;	/* where the walk could not go on; 0: nowhere yet */
	u64			 vma_categories;	/* of the VMA that is walked */
	bool			 protect;	/* PM_SCAN_WP_MATCHING */
};

/* -- which pages -- */

static bool is_wanted(const struct scan *s, u64 categories)
{
	categories ^= s->arg.category_inverted;
	if ((categories & s->arg.category_mask) != s->arg.category_mask)
		return false;
	return !s->arg.category_anyof_mask || (categories & s->arg.category_anyof_mask);
}

static u64 entry_categories(pte_t e)
{
	struct page *page;
	u64 c;

	if (pte_none(e))
		return 0;
	if (pte_marker(e))
		return PAGE_IS_SWAPPED | (e.v & PTE_MARKER_UFFD_WP ? 0 : PAGE_IS_WRITTEN);
	c = PAGE_IS_PRESENT | (pte_uffd_wp(e) ? 0 : PAGE_IS_WRITTEN);
	page = pte_normal_page(e);
	if (page && !page_test(page, PG_anon))
		c |= PAGE_IS_FILE;
	if (pte_pfn(e) == page_to_pfn(zero_page))
		c |= PAGE_IS_PFNZERO;
	return c;
}

/*
 * The question that is asked most, "what was written", is answered without looking at pages by Linux, and then an empty entry of
 * a table that exists counts as written until it has a marker. Snapshotters rely on that to have them protected too.
 */
static bool asks_for_written_only(const struct scan *s)
{
	return !s->arg.category_anyof_mask && !s->arg.category_inverted && s->arg.category_mask == PAGE_IS_WRITTEN &&
	       s->arg.return_mask == PAGE_IS_WRITTEN;
}

/* Can be skipped as a whole: 1; must not be met: -EPERM; else 0, with its categories in @s. */
static int look_at_vma(struct scan *s, const struct vma *vma)
{
	const u64 required = s->arg.category_mask & PAGE_IS_WPALLOWED;
	bool allowed = uffd_wp_is_tracked(vma);

	if (!allowed && (s->arg.flags & PM_SCAN_CHECK_WPASYNC))
		return -EPERM;
	if (!allowed && s->protect)
		return 1;
	if (vma->flags & VM_PFNMAP)
		return 1;
	s->vma_categories = allowed ? PAGE_IS_WPALLOWED : 0;
	return ((s->vma_categories ^ s->arg.category_inverted) & required) == required ? 0 : 1;
}

/* -- the list; any context -- */

/* Makes the last region longer, or a new one. False: no room. */
static bool add_region(struct scan *s, u64 start, u64 end, u64 categories)
{
	struct page_region *last = s->used ? &s->buf[s->used - 1] : NULL;

	if (last && last->end == start && last->categories == categories) {
		last->end = end;
		return true;
	}
	if (s->used == s->len)
		return false;
	s->buf[s->used++] = (struct page_region){ start, end, categories };
	return true;
}

/* Lists [start, *end). 0, or -ENOSPC, with *end as far as there was room; the walk will end there. */
static int list_pages(struct scan *s, u64 categories, uintptr_t start, uintptr_t *end)
{
	u64 left = s->arg.max_pages - s->found;
	int err = 0;

	if (!s->buf)
		return 0;
	if ((*end - start) >> PAGE_SHIFT > left) {
		*end = start + (left << PAGE_SHIFT);
		err = -ENOSPC;
	}
	if (*end > start && !add_region(s, start, *end, categories & s->arg.return_mask)) {
		*end = start;
		err = -ENOSPC;
	}
	s->found += (*end - start) >> PAGE_SHIFT;
	if (err)
		s->stopped = *end;
	return err;
}

/* Takes back what was listed last, or its end. */
static void unlist_pages(struct scan *s, uintptr_t start, uintptr_t end)
{
	struct page_region *last;

	if (!s->buf)
		return;
	last = &s->buf[s->used - 1];
	s->found -= (end - start) >> PAGE_SHIFT;
	last->end = start;
	if (last->start == start)
		s->used--;
}

/* -- small pages -- */

/*
 * One entry, locked. 0; -ENOSPC: not listed, so not protected. *protect: it is to be.
 */
static int scan_entry(struct scan *s, uintptr_t addr, pte_t e, bool hole, bool *protect)
{
	u64 categories = s->vma_categories | entry_categories(e);
	uintptr_t end = addr + PAGE_SIZE;
	bool empty = pte_none(e);
	int err;

	*protect = false;
	if (empty && !hole && ((s->protect && !s->buf) || asks_for_written_only(s)))
		categories |= PAGE_IS_WRITTEN;
	if (s->protect && !s->buf) {			/* nothing to list: everything is protected, wanted or not */
		*protect = categories & PAGE_IS_WRITTEN || empty;
		return 0;
	}
	if (!is_wanted(s, categories))
		return 0;
	err = list_pages(s, categories, addr, &end);
	*protect = !err && s->protect && ((categories & PAGE_IS_WRITTEN) || (empty && hole));
	return err;
}

/* @hole: there was no table when it was looked for; it has been made to put markers in. 0, -ENOSPC. */
static int scan_table(struct scan *s, struct vma *vma, pmd_t *pmd, uintptr_t start, uintptr_t end, bool hole)
{
	struct spinlock *ptl;
	pte_t *pte = pte_offset_lock(vma->mm, pmd, start, &ptl);
	bool flush = false;
	int err = 0;

	if (!pte)
		return 0;
	for (uintptr_t addr = start; addr < end && !err; addr += PAGE_SIZE, pte++) {
		bool protect;

		err = scan_entry(s, addr, pte_read(pte), hole, &protect);
		if (protect)
			flush |= uffd_wp_entry(vma, pte);
	}
	race_window("pagemap_scan_before_flush");
	if (flush)
		flush_tlb_range(vma->mm, start, end, false);
	pte_unlock(ptl);
	return err;
}

/* [start, end), inside of what one PMD entry covers, has no table. 0, -ENOSPC, -ENOMEM. Sleeps. */
static int scan_hole(struct scan *s, struct vma *vma, uintptr_t start, uintptr_t end)
{
	pmd_t *pmd;

	if (!is_wanted(s, s->vma_categories))
		return 0;
	if (!s->protect)
		return list_pages(s, s->vma_categories, start, &end);
	pmd = pmd_alloc(vma->mm, start);
	if (!pmd || pte_alloc(vma->mm, pmd))
		return -ENOMEM;
	return scan_table(s, vma, pmd, start, end, true);
}

/* Without tables to be made a hole may be as large as it likes. */
static uintptr_t hole_end(const struct scan *s, uintptr_t addr, uintptr_t end)
{
	return s->protect ? pmd_addr_end(addr, end) : end;
}

static int scan_holes(struct scan *s, struct vma *vma, uintptr_t start, uintptr_t end)
{
	int err = 0;

	for (uintptr_t stop; start < end && !err; start = stop) {
		if (fatal_signal_pending())
			return -EINTR;
		stop = hole_end(s, start, end);
		err = scan_hole(s, vma, start, stop);
		cond_resched();
	}
	return err;
}

/* [start, end) of @vma. 0, -ENOSPC, -ENOMEM, -EINTR. */
static int scan_small_pages(struct scan *s, struct vma *vma, uintptr_t start, uintptr_t end)
{
	uintptr_t addr = start, stop;
	pmd_t *pmd;
	int err;

	for (; next_pte_table(vma->mm, &addr, end, &pmd, &stop); addr = start = stop) {
		err = scan_holes(s, vma, start, addr);
		if (!err)
			err = scan_table(s, vma, pmd, addr, stop, false);
		if (!err && fatal_signal_pending())
			err = -EINTR;
		if (err)
			return err;
		cond_resched();
	}
	return scan_holes(s, vma, start, end);
}

/* -- huge pages -- */

struct huge_look {
	struct scan	*s;
	uintptr_t	 start, end;	/* the part of the huge page that is in the range */
	bool		 whole, hole;
	int		 err;
};

/* For hugetlb_uffd_wp_matching(): the entry is locked. True: protect it. */
static bool look_at_huge(void *arg, pte_t e)
{
	struct huge_look *l = arg;
	struct scan *s = l->s;
	bool hole = l->hole && pte_none(e), written;
	u64 categories = s->vma_categories | (hole ? 0 : PAGE_IS_HUGE | (entry_categories(e) & ~PAGE_IS_PFNZERO));
	uintptr_t end = l->end;

	if (!is_wanted(s, categories))
		return false;
	l->err = list_pages(s, categories, l->start, &end);
	written = categories & PAGE_IS_WRITTEN;
	if (end == l->start || !s->protect || (!written && !hole))
		return false;
	if (l->whole && end == l->end)
		return true;
	/* A part cannot be protected, so it is not listed as if it were. */
	if (written) {
		unlist_pages(s, l->start, end);
		s->stopped = l->start;
		l->err = 0;
	}
	return false;
}

/* One huge page, or the part of it in [start, end). 0, -ENOSPC, -ENOMEM. */
static int scan_huge_page(struct scan *s, struct vma *vma, uintptr_t start, uintptr_t end)
{
	const struct hstate *h = hstate_vma(vma);
	uintptr_t base = start & huge_page_mask(h);
	struct huge_look l = { .s = s, .start = start, .end = end, .whole = end - start == huge_page_size(h),
			       .hole = !huge_walk(vma->mm, h, base) };
	int err;

	if (!s->protect) {
		look_at_huge(&l, hugetlb_read_entry(vma, base, NULL));
		return l.err;
	}
	if (l.hole && !is_wanted(s, s->vma_categories))
		return 0;
	err = hugetlb_uffd_wp_matching(vma, base, look_at_huge, &l);
	return err ? err : l.err;
}

static int scan_huge_pages(struct scan *s, struct vma *vma, uintptr_t start, uintptr_t end)
{
	const size_t size = huge_page_size(hstate_vma(vma));
	int err = 0;

	for (uintptr_t stop; start < end && !err; start = stop) {
		if (fatal_signal_pending())
			return -EINTR;
		stop = min((start & ~(size - 1)) + size, end);
		err = scan_huge_page(s, vma, start, stop);
		cond_resched();
	}
	return err;
}

/* -- the walk -- */

/* mmap_lock for read. 0: through; -ENOSPC: s->stopped says where; -EPERM, -ENOMEM, -EINTR. */
static int scan_range(struct scan *s, struct mm *mm, uintptr_t start, uintptr_t end)
{
	for (struct vma *vma = vma_find(mm, start); vma && vma->start < end; vma = vma_next(vma)) {
		uintptr_t from = max(start, vma->start), to = min(end, vma->end);
		int err = look_at_vma(s, vma);

		if (err < 0)
			return err;
		if (err)
			continue;
		err = vma->flags & VM_HUGETLB ? scan_huge_pages(s, vma, from, to) : scan_small_pages(s, vma, from, to);
		if (err)
			return err;
	}
	return 0;
}

/* No lock held. Regions that went out, or -EFAULT. */
static long flush_buffer(struct scan *s)
{
	size_t n = s->used;

	if (!n)
		return 0;
	if (copy_out((void __user *)s->arg.vec, s->buf, n * sizeof(*s->buf)))
		return -EFAULT;
	s->arg.vec += n * sizeof(*s->buf);
	s->arg.vec_len -= n;
	s->len = min(s->len, (size_t)s->arg.vec_len);
	s->used = 0;
	return (long)n;
}

/* The number of regions, or -errno; what was found before an error has gone out all the same. */
static long scan_and_list(struct scan *s, struct mm *mm)
{
	u64 start = s->arg.start;
	long total = 0, n;
	int err = 0;

	while (start < s->arg.end) {
		err = mmap_read_lock_killable(mm);
		if (err)
			break;
		s->stopped = 0;
		err = scan_range(s, mm, start, s->arg.end);
		mmap_read_unlock(mm);
		n = flush_buffer(s);
		if (n < 0)
			return n;
		total += n;
		if (err != -ENOSPC || !s->arg.vec_len || s->found == s->arg.max_pages)
			break;
		start = s->stopped;
	}
	return err && err != -ENOSPC ? err : total;
}

static int check_args(struct pm_scan_arg *a)
{
	if (a->size != sizeof(*a) || (a->flags & ~(PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC)))
		return -EINVAL;
	if ((a->category_inverted | a->category_mask | a->category_anyof_mask | a->return_mask) & ~ALL_CATEGORIES)
		return -EINVAL;
	if (a->start & ~PAGE_MASK)
		return -EINVAL;
	if (a->start > TASK_SIZE || a->end < a->start || a->end > TASK_SIZE)
		return -EFAULT;
	if (!a->vec && a->vec_len)
		return -EINVAL;
	if (a->vec && (a->vec_len > TASK_SIZE / sizeof(struct page_region) ||
		       !access_ok((void __user *)a->vec, a->vec_len * sizeof(struct page_region))))
		return -EFAULT;
	a->end = ALIGN_UP(a->end, PAGE_SIZE);
	if (!a->max_pages)
		a->max_pages = ~0ul;
	return 0;
}

long pagemap_scan(struct mm *mm, void __user *uarg)
{
	struct pm_scan_arg __user *out = uarg;
	struct scan s = { 0 };
	u64 walk_end;
	long ret;

	if (copy_in(&s.arg, uarg, sizeof(s.arg)))
		return -EFAULT;
	ret = check_args(&s.arg);
	if (ret)
		return ret;
	s.protect = s.arg.flags & PM_SCAN_WP_MATCHING;
	s.len = min(BUFFER_REGIONS, (size_t)s.arg.vec_len);
	if (s.len) {
		s.buf = kmalloc(s.len * sizeof(*s.buf), GFP_KERNEL);
		if (!s.buf)
			return -ENOMEM;
	}
	ret = mm ? scan_and_list(&s, mm) : 0;
	kfree(s.buf);
	walk_end = s.stopped ? s.stopped : s.arg.end;
	if (put_user(walk_end, &out->walk_end))
		return -EFAULT;
	return ret;
}
