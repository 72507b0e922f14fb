/*
 * Supplying pages: COPY, ZEROPAGE, CONTINUE, POISON.
 *
 * All four are one loop, fill_range(), around a function that puts in one page:
 *
 *			private memory			shared memory (shmem)
 *	COPY		a new anonymous page		a new page of the file
 *	ZEROPAGE	the zero page			a new page of the file, of zeros
 *	CONTINUE	the file's page, read-only	the file's page
 *	POISON		a marker			a marker
 *
 * Huge pages bring their own: mm/hugetlb_uffd.c. A private mapping of a file gets an anonymous page, as if it had been written to.
 *
 * Locks: the VMA, map_changing for read, for a file the page's folio lock, the entry. They are taken once for the range, and
 * dropped in the middle for one reason only: the source of a COPY is not there. Faulting it in may wait for anything,
 * another manager included, so it is done with nothing held; and afterwards all that was known is stale. The bytes are kept in a page
 * that belongs to nobody yet, and everything is checked from the start (F27).
 *
 * The rule that is easy to break (F28, R41): a page is complete before it can be seen, by the page tables or by the file, and
 * what goes in has the rights of the VMA, not those of the manager. Each function has one way out for each state it can be in.
 */
#include "mm/uffd_internal.h"

#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "mm/fault_internal.h"
#include "mm/frame.h"
#include "mm/hugetlb_uffd.h"
#include "mm/mapping.h"
#include "mm/mm.h"
#include "mm/uaccess.h"

#define READ_SOURCE	1	/* not an errno: the source must be faulted in first */

struct fill;

struct fill_op {
	int	(*private_page)(struct fill *f);	/* puts in the page at f->dst. 0, -errno, READ_SOURCE */
	int	(*shared_page)(struct fill *f);
	int	(*huge_page)(struct fill *f);		/* NULL: cannot be had */
	bool	 only_files;				/* what the page cache has: CONTINUE */
};

struct fill {
	const struct fill_op *op;
	struct uffd	*ctx;
	struct vma	*vma;		/* the destination, locked; NULL: not */
	uintptr_t	 dst, src;	/* the next page, and for COPY where it comes from */
	u64		 left, step;	/* bytes */
	bool		 wp;		/* put it in write-protected */
	struct page	*page;		/* COPY: read from f->src with no lock held, not yet in */
	struct hstate	*h;		/* of huge pages; NULL: others */
	/* The entry of f->dst while it is locked. */
	pte_t		*pte;
	struct spinlock	*ptl;
};

/* -- the loop -- */

/* Can this be done in the memory of @vma, in pages of its size (F13)? */
static bool memory_fits(struct fill *f, const struct vma *vma)
{
	f->h = vma->flags & VM_HUGETLB ? hstate_vma(vma) : NULL;
	f->step = f->h ? huge_page_size(f->h) : PAGE_SIZE;
	if (f->page && PAGE_SIZE << f->page->order != f->step) {
		put_page(f->page);		/* other memory was mapped there while nothing was locked */
		f->page = NULL;
	}
	if (f->h)
		return f->op->huge_page && !((f->dst | f->left) & (f->step - 1));
	return uffd_vma_is_shmem(vma) || (vma_is_anonymous(vma) && !f->op->only_files);
}

/* Locks the VMA of all that is left. 0 or -errno (F21, F23). */
static int lock_target(struct fill *f)
{
	struct vma *vma = uffd_locking->lock(f->ctx->mm, f->dst);
	int err = -EINVAL;

	if (IS_ERR(vma))
		return (int)PTR_ERR(vma);
	if (!vma->uffd || f->left > vma->end - f->dst) {
		err = -ENOENT;
		goto unlock;
	}
	if (!uffd_map_stable_begin(f->ctx)) {
		err = -EAGAIN;
		goto unlock;
	}
	if (f->wp && !(vma->flags & VM_UFFD_WP))
		goto unstable;
	if (!memory_fits(f, vma))
		goto unstable;
	f->vma = vma;
	return 0;

unstable:
	uffd_map_stable_end(f->ctx);
unlock:
	uffd_locking->unlock(vma);
	return err;
}

static void unlock_target(struct fill *f)
{
	uffd_map_stable_end(f->ctx);
	uffd_locking->unlock(f->vma);
	f->vma = NULL;
}

static int fill_locked(struct fill *f)
{
	int (*fill_page)(struct fill *f) = f->h ? f->op->huge_page : vma_is_private(f->vma) ? f->op->private_page : f->op->shared_page;

	for (;;) {
		int err = fill_page(f);

		if (err)
			return err;
		f->dst += f->step;
		f->src += f->step;
		f->left -= f->step;
		if (!f->left)
			return 0;
		if (fatal_signal_pending())
			return -EINTR;
		cond_resched();
	}
}

/* No lock held. The page that fill_locked() could not read. */
static int read_source(struct fill *f)
{
	race_window("uffd_copy_reads_source");
	if (unlikely(f->h))
		return hugetlb_uffd_read_source(f->h, f->src, &f->page);
	return copy_in(page_to_virt(f->page), (const void __user *)f->src, PAGE_SIZE);
}

/* Bytes done, or -errno if none. */
static s64 fill_range(struct fill *f)
{
	u64 len = f->left, done;
	int err;

	if (!uffd_pin_mm(f->ctx))
		return -ESRCH;
	do {
		err = lock_target(f);
		if (err)
			break;
		err = fill_locked(f);
		unlock_target(f);
		if (err == READ_SOURCE) {
			err = read_source(f);
			err = err ? err : READ_SOURCE;
		}
	} while (err == READ_SOURCE);
	if (unlikely(f->page))
		put_page(f->page);
	uffd_unpin_mm(f->ctx);
	done = len - f->left;
	return done ? (s64)done : err;
}

/* -- one entry -- */

/*
 * Locks the entry of f->dst, making its tables. 0; -ENOMEM; -EFAULT: past the end of the file. The size is read under the
 * lock, which truncate will take after it has written it: so it finds what we put in, or we find the new size (R12).
 */
static int lock_entry(struct fill *f)
{
	struct vma *vma = f->vma;
	pmd_t *pmd = pmd_alloc(vma->mm, f->dst);

	if (!pmd || pte_alloc(vma->mm, pmd))
		return -ENOMEM;
	f->pte = pte_offset_lock(vma->mm, pmd, f->dst, &f->ptl);
	BUG_ON(!f->pte);		/* the VMA is locked: its tables stay */
	if (vma->mapping && unlikely(linear_index(vma, f->dst) >= mapping_size_pages(vma->mapping))) {
		pte_unlock(f->ptl);
		return -EFAULT;
	}
	return 0;
}

/* For what may only go in where nothing is, not even a marker (F25). */
static int lock_empty_entry(struct fill *f)
{
	int err = lock_entry(f);

	if (!err && !pte_none(pte_read(f->pte))) {
		pte_unlock(f->ptl);
		err = -EEXIST;
	}
	return err;
}

/* For a page, which replaces a marker: with poison or protection the manager has said what he wants instead. */
static int lock_entry_for_page(struct fill *f)
{
	int err = lock_entry(f);

	if (!err && pte_present(pte_read(f->pte))) {
		pte_unlock(f->ptl);
		err = -EEXIST;
	}
	return err;
}

/*
 * The page goes in, with the reference of the caller; the entry was locked by lock_entry_for_page() and is unlocked. No flush: no CPU
 * caches entries that are not present. @writable: as the VMA is.
 */
static void install_page(struct fill *f, struct page *page, bool writable)
{
	pte_t entry = vma_pte(f->vma, page, writable);

	entry.v |= PTE_DIRTY;
	if (f->wp)
		entry = (pte_t){ (entry.v & ~PTE_WRITE) | PTE_UFFD_WP };
	pte_write_entry(f->pte, entry);
	pte_unlock(f->ptl);
}

static int install_anon(struct fill *f, struct page *page)
{
	int err = lock_entry_for_page(f);

	if (err)
		return err;
	mm_counter_add_locked(f->vma->mm, MM_ANONPAGES, 1);
	page_add_new_anon(page, f->vma, f->dst);
	install_page(f, page, true);
	return 0;
}

/* @page is locked and belongs to the file. */
static int install_file(struct fill *f, struct page *page)
{
	int err = lock_entry_for_page(f);

	if (err)
		return err;
	mm_counter_add_locked(f->vma->mm, file_mm_counter(page), 1);
	page_add_file(page, f->vma);
	install_page(f, page, !vma_is_private(f->vma));
	return 0;
}

/* -- COPY -- */

/*
 * *pagep: a page with the bytes at f->src, nobody else's. If they cannot be read without waiting, READ_SOURCE: f->page is where
 * they belong. 0 or -ENOMEM.
 */
static int get_copy(struct fill *f, struct page **pagep)
{
	struct page *page = f->page;
	size_t left;

	if (unlikely(page)) {
		f->page = NULL;
		*pagep = page;
		return 0;
	}
	page = alloc_page(GFP_USER);
	if (!page)
		return -ENOMEM;
	pagefault_disable();
	left = copy_from_user(page_to_virt(page), (const void __user *)f->src, PAGE_SIZE);
	pagefault_enable();
	if (unlikely(left)) {
		f->page = page;
		return READ_SOURCE;
	}
	*pagep = page;
	return 0;
}

static int copy_private(struct fill *f)
{
	struct page *page;
	int err = get_copy(f, &page);

	if (err)
		return err;
	race_window("uffd_copy_ready");
	err = install_anon(f, page);
	if (err)
		put_page(page);
	return err;
}

/*
 * @page, whole and unseen, becomes the file's page and is mapped. Takes over the reference. It is locked from before it
 * can be found until the end: whoever finds it meanwhile waits, and then looks whether it still is the file's.
 */
static int add_to_file(struct fill *f, struct page *page)
{
	struct mapping *m = f->vma->mapping;
	u64 index = linear_index(f->vma, f->dst);
	int err = -EFAULT;

	lock_page(page);
	page->flags |= 1u << PG_uptodate;	/* not visible yet: no atomic needed */
	if (index >= mapping_size_pages(m))
		goto put;
	err = mapping_add_page(m, page, index);
	if (err == -ENOSPC)
		err = -ENOMEM;			/* as Linux has it */
	if (err)
		goto put;
	race_window("uffd_page_in_cache");
	err = install_file(f, page);
	if (err) {
		mapping_remove_page(page);
		goto put;
	}
	unlock_page(page);
	return 0;

put:
	unlock_page(page);
	put_page(page);
	return err;
}

static int copy_shared(struct fill *f)
{
	struct page *page;
	int err = get_copy(f, &page);

	return err ? err : add_to_file(f, page);
}

static int copy_huge(struct fill *f)
{
	int err = hugetlb_uffd_copy(f->vma, f->dst, f->src, f->wp, &f->page);

	if (err == -ENOENT)
		return READ_SOURCE;
	if (!err)
		hugetlb_uffd_drop_source(&f->page);	/* what was read is for this page alone */
	return err;
}

static const struct fill_op copy_op = { .private_page = copy_private, .shared_page = copy_shared, .huge_page = copy_huge };

/* -- ZEROPAGE -- */

/* The page of zeros that all share; a write replaces it (B14, F31). */
static int zero_private(struct fill *f)
{
	int err = lock_empty_entry(f);

	if (err)
		return err;
	pte_write_entry(f->pte, mk_pte(zero_page, (f->vma->page_prot & ~PTE_WRITE) | PTE_SPECIAL | PTE_ACCESSED));
	pte_unlock(f->ptl);
	return 0;
}

static int zero_shared(struct fill *f)
{
	struct page *page = alloc_page(GFP_USER | GFP_ZERO);

	return page ? add_to_file(f, page) : -ENOMEM;
}

static const struct fill_op zeropage_op = { .private_page = zero_private, .shared_page = zero_shared };

/* -- CONTINUE -- */

/*
 * The page is in the file, put there through another mapping or by write(2); this one may now see it (F29). In a private mapping
 * it stays read-only: who writes gets a copy (R41).
 */
static int continue_page(struct fill *f)
{
	struct mapping *m = f->vma->mapping;
	u64 index = linear_index(f->vma, f->dst);
	struct page *page;
	int err;

	if (index >= mapping_size_pages(m))
		return -EINVAL;
	page = mapping_find_get(m, index);
	if (!page)
		return -EFAULT;
	lock_page(page);
	if (page->mapping != m)
		err = -EFAULT;			/* truncated meanwhile */
	else if (page_test(page, PG_hwpoison))
		err = -EIO;
	else
		err = install_file(f, page);
	unlock_page(page);
	if (err)
		put_page(page);
	return err;
}

static int continue_huge(struct fill *f)
{
	return hugetlb_uffd_continue(f->vma, f->dst, f->wp);
}

static const struct fill_op continue_op = {
	.private_page = continue_page, .shared_page = continue_page, .huge_page = continue_huge, .only_files = true,
};

/* -- POISON -- */

/* Whoever touches it is told that the memory is lost (F30). */
static int poison_page(struct fill *f)
{
	int err = lock_empty_entry(f);

	if (err)
		return err;
	pte_write_entry(f->pte, (pte_t){ PTE_MARKER_POISON });
	pte_unlock(f->ptl);
	return 0;
}

static int poison_huge(struct fill *f)
{
	return hugetlb_uffd_poison(f->vma, f->dst);
}

static const struct fill_op poison_op = { .private_page = poison_page, .shared_page = poison_page, .huge_page = poison_huge };

/* -- ioctls: checks in the order of F20 -- */

struct uffdio_copy { u64 dst, src, len, mode; s64 copy; };
struct uffdio_fill { u64 start, len, mode; s64 done; };	/* ZEROPAGE, CONTINUE, POISON */

/* The answer while an event is on its way: told in the result too, so that a manager who looks only there sees it (R44). */
static long answer_changing(s64 __user *out)
{
	return put_user((s64)-EAGAIN, out) ? -EFAULT : -EAGAIN;
}

long uffd_copy(struct uffd *ctx, void __user *arg)
{
	struct uffdio_copy __user *uarg = arg;
	struct uffdio_copy req;
	struct fill f = { .op = &copy_op, .ctx = ctx };
	s64 done;

	if (unlikely(uffd_map_is_changing(ctx)))
		return answer_changing(&uarg->copy);
	if (copy_in(&req, arg, offsetof(struct uffdio_copy, copy)))
		return -EFAULT;
	if (uffd_check_unaligned_range(req.src, req.len) || uffd_check_range(req.dst, req.len))
		return -EINVAL;
	if (req.mode & ~(u64)(UFFDIO_MODE_DONTWAKE | UFFDIO_MODE_WP))
		return -EINVAL;
	f.dst = req.dst;
	f.src = req.src;
	f.left = req.len;
	f.wp = req.mode & UFFDIO_MODE_WP;
	done = fill_range(&f);
	if (done == -ESRCH)
		return done;
	return uffd_report(ctx, done, req.len, req.dst, !(req.mode & UFFDIO_MODE_DONTWAKE), &uarg->copy);
}

/* The other three differ in the modes that they know. */
static long fill_ioctl(struct uffd *ctx, struct uffdio_fill __user *uarg, const struct fill_op *op, u64 modes)
{
	struct fill f = { .op = op, .ctx = ctx };
	struct uffdio_fill req;
	s64 done;

	if (unlikely(uffd_map_is_changing(ctx)))
		return answer_changing(&uarg->done);
	if (copy_in(&req, uarg, offsetof(struct uffdio_fill, done)))
		return -EFAULT;
	if (uffd_check_range(req.start, req.len))
		return -EINVAL;
	if (req.mode & ~modes)
		return -EINVAL;
	f.dst = req.start;
	f.left = req.len;
	f.wp = req.mode & UFFDIO_MODE_WP;
	done = fill_range(&f);
	if (done == -ESRCH)
		return done;
	return uffd_report(ctx, done, req.len, req.start, !(req.mode & UFFDIO_MODE_DONTWAKE), &uarg->done);
}

long uffd_zeropage(struct uffd *ctx, void __user *arg)
{
	return fill_ioctl(ctx, arg, &zeropage_op, UFFDIO_MODE_DONTWAKE);
}

long uffd_continue(struct uffd *ctx, void __user *arg)
{
	return fill_ioctl(ctx, arg, &continue_op, UFFDIO_MODE_DONTWAKE | UFFDIO_MODE_WP);
}

long uffd_poison(struct uffd *ctx, void __user *arg)
{
	return fill_ioctl(ctx, arg, &poison_op, UFFDIO_MODE_DONTWAKE);
}
