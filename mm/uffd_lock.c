/*
 * How userfaultfd operations lock the VMAs that they change pages in: two ways behind one table, chosen at boot.
 *
 *	uffd.lock=vma	the VMA's own lock, found without mmap_lock, or two of them. A collector that moves pages does not meet
 *			the threads that map and unmap
 *	uffd.lock=mmap	mmap_lock for read, as before: every operation waits for every mmap and munmap, and they for it
 *
 * The operations know nothing of this. Whoever adds one should remember what both ways promise: the VMA does not
 * change or go, its page tables neither, and nobody raises mmap_changing between the test and the unlock.
 */
#include "mm/uffd_internal.h"

#include "kernel/boot_info.h"
#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/rcu.h"
#include "kernel/string.h"
#include "mm/rmap.h"

static int prepare(struct vma *vma)
{
	if (!vma_is_private(vma) || (vma->flags & VM_HUGETLB) || READ_ONCE(vma->anon_vma))
		return 0;
	return anon_vma_prepare(vma);
}

/* -- uffd.lock=vma -- */

/*
 * The common case is that @addr lies in a VMA; then nothing else is looked at. For a hole the truth is in the tree, and
 * only under mmap_lock: without it a VMA that is just being merged can be missing for a moment.
 */
static struct vma *vma_lock_next(struct mm *mm, uintptr_t addr, uintptr_t end)
{
	struct vma *vma = vma_find_and_lock(mm, addr);
	int err;

	if (PTR_ERR(vma) != -ENOENT)
		return vma;
	err = mmap_read_lock_killable(mm);
	if (err)
		return ERR_PTR(err);
	vma = vma_find(mm, addr);
	if (vma && vma->start >= end)
		vma = NULL;
	err = vma ? prepare(vma) : 0;
	if (vma && !err)
		down_read(&vma->lock);
	mmap_read_unlock(mm);
	return err ? ERR_PTR(err) : vma;
}

static const struct uffd_locking vma_locking = {
	.name = "vma",
	.lock = vma_find_and_lock,
	.lock_next = vma_lock_next,
	.lock_pair = vma_find_and_lock_pair,
	.unlock = vma_read_unlock,
	.unlock_pair = vma_unlock_pair,
};

/* -- uffd.lock=mmap: mmap_lock stays held while a VMA is "locked" -- */

static struct vma *mmap_lock_next(struct mm *mm, uintptr_t addr, uintptr_t end)
{
	struct vma *vma;
	int err = mmap_read_lock_killable(mm);

	if (err)
		return ERR_PTR(err);
	vma = vma_find(mm, addr);
	if (vma && vma->start >= end)
		vma = NULL;
	err = vma ? prepare(vma) : 0;
	if (vma && !err)
		return vma;
	mmap_read_unlock(mm);
	return err ? ERR_PTR(err) : NULL;
}

static struct vma *mmap_lock_one(struct mm *mm, uintptr_t addr)
{
	struct vma *vma = mmap_lock_next(mm, addr, addr + 1);

	return vma ? vma : ERR_PTR(-ENOENT);
}

static void mmap_unlock_one(struct vma *vma)
{
	mmap_read_unlock(vma->mm);
}

static int mmap_lock_pair(struct mm *mm, uintptr_t dst, uintptr_t src, struct vma **d, struct vma **s)
{
	int err;

	*d = mmap_lock_one(mm, dst);
	if (IS_ERR(*d))
		return (int)PTR_ERR(*d);
	*s = vma_lookup(mm, src);
	err = *s ? 0 : -ENOENT;
	if (err)
		mmap_unlock_one(*d);
	return err;
}

static void mmap_unlock_pair(struct vma *d, struct vma *s)
{
	(void)s;
	mmap_unlock_one(d);
}

static const struct uffd_locking mmap_locking = {
	.name = "mmap",
	.lock = mmap_lock_one,
	.lock_next = mmap_lock_next,
	.lock_pair = mmap_lock_pair,
	.unlock = mmap_unlock_one,
	.unlock_pair = mmap_unlock_pair,
};

/* -- choosing -- */

const struct uffd_locking *uffd_locking = &vma_locking;

void uffd_locking_init(void)
{
	char value[8];

	if (cmdline_get("uffd.lock", value, sizeof(value)) && !strcmp(value, mmap_locking.name))
		uffd_locking = &mmap_locking;
}

const char *uffd_locking_name(void)
{
	return uffd_locking->name;
}

/* -- may pages be put in now? -- */

/*
 * R28. Without the lock:
 *
 *	COPY						munmap by another thread, with EVENT_UNMAP
 *	mmap_changing is 0
 *							mmap_changing = 1
 *							unmap, tell the manager
 *	page goes in: the manager believes it gone
 *
 * The one who raises the counter takes map_changing for write, so he waits for this fill, and the next one sees him.
 */
bool uffd_map_stable_begin(struct uffd *ctx)
{
	race_window("uffd_before_map_changing");
	down_read(&ctx->map_changing);
	if (likely(!READ_ONCE(ctx->mmap_changing)))
		return true;
	up_read(&ctx->map_changing);
	return false;
}
