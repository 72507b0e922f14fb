/*
 * Which VMAs belong to a context, and for which faults: UFFDIO_REGISTER, UFFDIO_UNREGISTER, and the end of all.
 *
 * A registration is two fields of a VMA: uffd and the VM_UFFD_* flags, one set iff the other is. They change with mmap_lock
 * held for write and the VMA write-locked, so no fault and no fill is at work in it meanwhile.
 *
 * The rule that is easy to break (F16, R36): a fault that sleeps has dropped all locks, so a change here does not wait for
 * it. Whoever takes a mode away must wake those who wait by that mode; they look again, by the new rules.
 */
#include "mm/uffd_internal.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/sched.h"
#include "mm/hugetlb_uffd.h"
#include "mm/mapping.h"
#include "mm/mm.h"
#include "mm/uaccess.h"

#define TMPFS_MAGIC	0x01021994u

struct uffdio_register { u64 start, len, mode, ioctls; };
struct uffdio_range { u64 start, len; };

/* Files of a plain ramfs are RAM too, but Linux does not take them, and says so by the same error for every other file. */
bool uffd_vma_is_shmem(const struct vma *vma)
{
	return vma->mapping && vma->mapping->is_shmem && vma->mapping->host->sb->magic == TMPFS_MAGIC;
}

/* F13. Memory that nobody else fills behind the manager's back. */
static bool can_register(const struct vma *vma, u64 modes, const struct uffd *ctx)
{
	bool hugetlb, shmem;

	if (vma->flags & VM_DROPPABLE)
		return false;
	if (vma_is_anonymous(vma))
		return !(modes & VM_UFFD_MINOR);
	hugetlb = vma->flags & VM_HUGETLB;
	shmem = uffd_vma_is_shmem(vma);
	if ((modes & VM_UFFD_MINOR) && !hugetlb && !shmem)
		return false;
	if (modes == VM_UFFD_WP && (uffd_features(ctx) & UFFD_FEATURE_WP_ASYNC))
		return true;			/* the kernel alone deals with it: any memory will do */
	return hugetlb || shmem;
}

/* An edge of a range cannot lie inside a huge page. */
static bool misaligned(const struct vma *vma, uintptr_t addr)
{
	return (vma->flags & VM_HUGETLB) && (addr & ~huge_page_mask(hstate_vma(vma)));
}

/* The VMAs of [start, end), one after the other. mmap_lock in any mode. */
static struct vma *first_in(struct mm *mm, uintptr_t start, uintptr_t end)
{
	struct vma *vma = start < end ? vma_find(mm, start) : NULL;

	return vma && vma->start < end ? vma : NULL;
}

static struct vma *next_in(struct vma *vma, uintptr_t end)
{
	return first_in(vma->mm, vma->end, end);
}

/* -- REGISTER -- */

/* F10, F11. mmap_lock for write; @vma is the first, or NULL. 0 or -errno, nothing changed. *hugetlb: some of it is. */
static int check_register(struct uffd *ctx, struct vma *vma, uintptr_t start, uintptr_t end, u64 modes, bool *hugetlb)
{
	if (!vma || misaligned(vma, start))
		return -EINVAL;
	for (; vma; vma = next_in(vma, end)) {
		if (!can_register(vma, modes, ctx))
			return -EINVAL;
		if (!(vma->flags & VM_MAYWRITE))
			return -EPERM;		/* COPY would write to a file that its opener may only read (R41) */
		if (end <= vma->end && misaligned(vma, end))
			return -EINVAL;
		if (vma->uffd && vma->uffd != ctx)
			return -EBUSY;
		*hugetlb |= !!(vma->flags & VM_HUGETLB);
		cond_resched();
	}
	return 0;
}

/* One VMA's part. 0 or -errno; what was done before stays. */
static int register_part(struct uffd *ctx, struct vma *vma, uintptr_t start, uintptr_t end, u64 modes)
{
	u64 old = vma->flags & VM_UFFD_ANY;

	if (vma->uffd == ctx && (old & modes) == modes)
		return 0;			/* F14: never less than before */
	vma = vma_modify(vma, start, end, (vma->flags & ~VM_UFFD_ANY) | modes, ctx);
	if (IS_ERR(vma))
		return (int)PTR_ERR(vma);
	if (vma->flags & VM_HUGETLB)
		hugetlb_uffd_registered(vma);
	if (old & ~modes)
		uffd_wake_range(ctx, start, end);
	return 0;
}

static int register_range(struct uffd *ctx, uintptr_t start, uintptr_t end, u64 modes, bool *hugetlb)
{
	struct vma *vma = first_in(ctx->mm, start, end);
	int err = check_register(ctx, vma, start, end, modes, hugetlb);

	while (vma && !err) {
		uintptr_t stop = min(end, vma->end);

		err = register_part(ctx, vma, max(start, vma->start), stop, modes);
		vma = first_in(ctx->mm, stop, end);	/* the one before may have been split or merged */
		cond_resched();
	}
	return err;
}

static u64 modes_to_flags(u64 mode)
{
	return (mode & UFFDIO_REGISTER_MODE_MISSING ? VM_UFFD_MISSING : 0) | (mode & UFFDIO_REGISTER_MODE_WP ? VM_UFFD_WP : 0) |
	       (mode & UFFDIO_REGISTER_MODE_MINOR ? VM_UFFD_MINOR : 0);
}

/* F12: what can be done in the range now. */
static u64 usable_ioctls(u64 modes, bool hugetlb)
{
	u64 ioctls = hugetlb ? UFFD_RANGE_IOCTLS_HUGETLB : UFFD_RANGE_IOCTLS;

	if (!(modes & VM_UFFD_WP))
		ioctls &= ~UFFD_IOCTL_WRITEPROTECT;
	if (!(modes & VM_UFFD_MINOR))
		ioctls &= ~UFFD_IOCTL_CONTINUE;
	return ioctls;
}

long uffd_register(struct uffd *ctx, void __user *arg)
{
	struct uffdio_register __user *uarg = arg;
	struct uffdio_register req;
	bool hugetlb = false;
	u64 modes;
	int err;

	if (copy_in(&req, arg, offsetof(struct uffdio_register, ioctls)))
		return -EFAULT;
	if (!req.mode || (req.mode & ~(u64)(UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MINOR)))
		return -EINVAL;
	err = uffd_check_range(req.start, req.len);
	if (err)
		return err;
	if (!uffd_pin_mm(ctx))
		return -ENOMEM;
	modes = modes_to_flags(req.mode);
	mmap_write_lock(ctx->mm);
	err = register_range(ctx, req.start, req.start + req.len, modes, &hugetlb);
	mmap_write_unlock(ctx->mm);
	uffd_unpin_mm(ctx);
	if (!err && put_user(usable_ioctls(modes, hugetlb), &uarg->ioctls))
		err = -EFAULT;
	return err;
}

/* -- UNREGISTER -- */

/*
 * [start, end) of @vma leaves its context: protections go (R39), then the registration, then the sleepers are woken. 0 or
 * -errno; cannot fail for a whole VMA.
 */
static int unregister_part(struct vma *vma, uintptr_t start, uintptr_t end)
{
	struct uffd *ctx = vma->uffd;

	if (vma->flags & VM_UFFD_WP) {
		vma_write_lock(vma);
		(void)!uffd_wp_range(vma, start, end, false);	/* taking protections off needs no memory */
	}
	vma = vma_modify(vma, start, end, vma->flags & ~VM_UFFD_ANY, NULL);
	if (IS_ERR(vma))
		return (int)PTR_ERR(vma);
	race_window("uffd_unregistered");
	uffd_wake_range(ctx, start, end);
	return 0;
}

/* F15. mmap_lock for write. As on Linux 6.12, a VMA that is registered elsewhere is unregistered too. */
static int unregister_range(struct uffd *ctx, uintptr_t start, uintptr_t end)
{
	struct vma *first = first_in(ctx->mm, start, end), *vma;
	int err = 0;

	if (!first || misaligned(first, start))
		return -EINVAL;
	for (vma = first; vma; vma = next_in(vma, end))
		if (!can_register(vma, vma->flags & VM_UFFD_ANY, ctx))
			return -EINVAL;
	for (vma = first; vma && !err; ) {
		uintptr_t stop = min(end, vma->end);

		if (vma->uffd)
			err = unregister_part(vma, max(start, vma->start), stop);
		vma = first_in(ctx->mm, stop, end);
		cond_resched();
	}
	return err;
}

long uffd_unregister(struct uffd *ctx, void __user *arg)
{
	struct uffdio_range req;
	int err;

	if (copy_in(&req, arg, sizeof(req)))
		return -EFAULT;
	err = uffd_check_range(req.start, req.len);
	if (err)
		return err;
	if (!uffd_pin_mm(ctx))
		return -ENOMEM;
	mmap_write_lock(ctx->mm);
	err = unregister_range(ctx, req.start, req.start + req.len);
	mmap_write_unlock(ctx->mm);
	uffd_unpin_mm(ctx);
	return err;
}

/* -- all of them -- */

void uffd_unregister_all(struct uffd *ctx)
{
	struct mm *mm = ctx->mm;
	uintptr_t addr = 0;
	struct vma *vma;

	if (!mm_get_not_zero(mm))
		return;				/* its VMAs are gone, or going without looking back */
	mmap_write_lock(mm);
	while ((vma = vma_find(mm, addr))) {
		addr = vma->end;
		if (vma->uffd == ctx)
			BUG_ON(unregister_part(vma, vma->start, vma->end));
		cond_resched();
	}
	mmap_write_unlock(mm);
	mm_put(mm);
}
