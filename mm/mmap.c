/*
 * mmap, munmap, brk, stack growth: what makes and removes address space, with the limits on it.
 *
 * The order of checks in do_mmap() is what programs see as errno (SEMANTICS A5..A12); the numbers in the code refer to it.
 * The rule that is easy to break is A8: MAP_FIXED removes whatever is in its range, so everything that can fail (limits,
 * memory, the file's own mmap method) must have succeeded before the first old page goes. Only huge pages are given back before
 * the new mapping asks for its own, and so go even if there are too few of them (map_region()).
 */
#include "mm/mmap.h"
#include "fs/vfs.h"
#include "kernel/boot_info.h"
#include "kernel/errno.h"
#include "kernel/random.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/hugetlb.h"
#include "mm/rmap.h"
#include "mm/tlb.h"
#include "mm/uffd.h"
#include "mm/vma_internal.h"

#define MMAP_BOTTOM_UP_BASE	ALIGN_UP(TASK_SIZE / 3, PAGE_SIZE)	/* where the search goes on when the top is full */
#define MAP_32BIT_LOW		0x40000000ul
#define MAP_32BIT_HIGH		0x80000000ul
#define MAP_DENYWRITE		0x800
#define MAP_EXECUTABLE		0x1000
#define MAP_ABOVE4G		0x80
#define MAP_HUGE_BITS		(63ul << 26)
/* What MAP_SHARED_VALIDATE accepts; plain MAP_SHARED ignores anything else. */
#define MAP_VALIDATED		(MAP_SHARED | MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_DENYWRITE | MAP_EXECUTABLE | \
				 MAP_GROWSDOWN | MAP_LOCKED | MAP_NORESERVE | MAP_POPULATE | MAP_NONBLOCK | MAP_STACK | \
				 MAP_HUGETLB | MAP_32BIT | MAP_ABOVE4G | MAP_HUGE_BITS)

#define VM_MAY_ALL		(VM_MAYREAD | VM_MAYWRITE | VM_MAYEXEC)
#define VM_DATA_FLAGS		(VM_READ | VM_WRITE | VM_MAY_ALL)
#define MIN_STACK_GAP		(128ul << 20)
#define MAX_STACK_GAP		(TASK_SIZE / 6 * 5)
#define STACK_RANDOM_RANGE	(16ul << 30)	/* exec moves the stack down by up to this */
#define MMAP_RANDOM_RANGE	(1ul << (28 + PAGE_SHIFT))

static long map_region(struct mm *mm, struct file *file, uintptr_t addr, size_t len, u64 vm_flags, u64 pgoff);
static int map_anonymous(struct mm *mm, uintptr_t addr, size_t len, u64 vm_flags);

/* -- system calls -- */

/* D12: the file behind MAP_HUGETLB memory, of the size that the flags ask for. ERR_PTR. */
static struct file *anonymous_huge_file(size_t len, unsigned long flags)
{
	struct hstate *h = hstate_of_log2(flags >> HUGETLB_FLAG_SHIFT & HUGETLB_FLAG_MASK);

	if (!h)
		return ERR_PTR(-EINVAL);
	return hugetlb_file_setup(h, "anon_hugepage", ALIGN_UP(len, huge_page_size(h)), O_RDWR, false);
}

/* A5: the descriptor and huge-page checks come before everything that do_mmap() looks at. */
SYSCALL_DEFINE(mmap, uintptr_t addr, size_t len, unsigned long prot, unsigned long flags, int fd, unsigned long off)
{
	struct file *file = NULL;
	long ret = -EINVAL;

	if (off & ~PAGE_MASK)
		return -EINVAL;
	if (!(flags & MAP_ANONYMOUS)) {
		file = fd_get(fd);
		if (!file)
			return -EBADF;
	} else if (flags & MAP_HUGETLB) {
		file = anonymous_huge_file(len, flags);
		if (IS_ERR(file))
			return PTR_ERR(file);
	}
	if (!(flags & MAP_HUGETLB) || file_is_hugetlbfs(file))
		ret = vm_mmap(file, addr, len, prot, flags, off >> PAGE_SHIFT);
	if (file)
		file_put(file);
	return ret;
}

SYSCALL_DEFINE(munmap, uintptr_t addr, size_t len)
{
	return vm_munmap(current->mm, addr, len);
}

/* A14: the answer is the break, the new one or the one that stays. */
SYSCALL_DEFINE(brk, uintptr_t brk)
{
	struct mm *mm = current->mm;
	uintptr_t old_end, new_end, result;
	struct vma *next;
	size_t populate = 0;
	u64 data_limit = rlimit_cur(RLIMIT_DATA);

	if (mmap_write_lock_killable(mm))
		return -EINTR;
	result = mm->brk;
	if (brk < mm->start_brk || brk >= TASK_SIZE)
		goto unlock;
	if (data_limit < RLIM_INFINITY && (brk - mm->start_brk) + (mm->end_data - mm->start_data) > data_limit)
		goto unlock;
	new_end = ALIGN_UP(brk, PAGE_SIZE);
	old_end = ALIGN_UP(mm->brk, PAGE_SIZE);
	if (new_end < old_end) {
		if (do_munmap_locked(mm, new_end, old_end))
			goto unlock;
	} else if (new_end > old_end) {
		next = vma_find(mm, old_end);
		if (next && new_end + PAGE_SIZE > next->start - (next->flags & VM_GROWSDOWN ? STACK_GUARD_GAP : 0))
			goto unlock;
		if (map_anonymous(mm, old_end, new_end - old_end, VM_DATA_FLAGS | mm->def_flags))
			goto unlock;
		if (mm->def_flags & VM_LOCKED)
			populate = new_end - old_end;
	}
	mm->brk = result = brk;
unlock:
	mmap_write_unlock(mm);
	if (populate)
		(void)mm_populate(mm, old_end, populate, true);
	return (long)result;
}

/* Takes mmap_lock of current's mm; sleeps. */
long vm_mmap(struct file *file, uintptr_t addr, size_t len, unsigned long prot, unsigned long flags, u64 pgoff)
{
	struct mm *mm = current->mm;
	struct file *zero = NULL;	/* A4: shared anonymous memory is a file; made before mmap_lock, which nests in inode locks */
	size_t populate = 0;
	long ret = -EINTR;

	/* The old way to ask for shared anonymous memory. */
	if (file && file_is_zero_device(file) && (flags & MAP_TYPE) == MAP_SHARED &&
	    (file->mode & (FMODE_READ | FMODE_WRITE)) == (FMODE_READ | FMODE_WRITE)) {
		file = NULL;
		pgoff = 0;
	}
	if (!file && (flags & MAP_TYPE) == MAP_SHARED && len && len <= TASK_SIZE) {
		zero = shmem_file_create("dev/zero", ALIGN_UP(len, PAGE_SIZE));
		if (IS_ERR(zero))
			return PTR_ERR(zero);
	}
	if (!mmap_write_lock_killable(mm)) {
		ret = do_mmap(file, zero, addr, len, prot, flags, pgoff, &populate);
		mmap_write_unlock(mm);
	}
	if (zero)
		file_put(zero);
	if (populate)
		(void)mm_populate(mm, (uintptr_t)ret, populate, true);	/* A12: failure is not reported */
	return ret;
}

/* A13. Takes mmap_lock. */
long vm_munmap(struct mm *mm, uintptr_t addr, size_t len)
{
	int err;

	if ((addr & ~PAGE_MASK) || !range_ok(addr, len))
		return -EINVAL;
	len = ALIGN_UP(len, PAGE_SIZE);
	if (!len || len > TASK_SIZE - addr)
		return -EINVAL;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	err = do_munmap_locked(mm, addr, addr + len);
	mmap_write_unlock(mm);
	return err;
}

/* -- limits and accounting -- */

void vm_stat_account(struct mm *mm, u64 flags, s64 pages)
{
	if (pages < 0 && mm->total_vm > mm->hiwater_vm)
		mm->hiwater_vm = mm->total_vm;
	mm->total_vm += (u64)pages;
	if ((flags & (VM_EXEC | VM_WRITE | VM_STACK)) == VM_EXEC)
		mm->exec_vm += (u64)pages;
	else if (flags & VM_STACK)
		mm->stack_vm += (u64)pages;
	else if ((flags & (VM_WRITE | VM_SHARED)) == VM_WRITE)
		mm->data_vm += (u64)pages;
	if (flags & VM_LOCKED)
		mm->locked_vm += (u64)pages;
	if (flags & VM_HUGETLB)
		mm->hugetlb_vm += (u64)pages;
}

bool may_expand_vm(struct mm *mm, u64 flags, u64 pages)
{
	if (mm->total_vm + pages > rlimit_cur(RLIMIT_AS) >> PAGE_SHIFT)
		return false;
	return (flags & (VM_WRITE | VM_SHARED | VM_STACK)) != VM_WRITE ||
	       mm->data_vm + pages <= rlimit_cur(RLIMIT_DATA) >> PAGE_SHIFT;
}

bool mlock_limit_ok(struct mm *mm, u64 more_pages)
{
	return mm->locked_vm + more_pages <= rlimit_cur(RLIMIT_MEMLOCK) >> PAGE_SHIFT || capable(CAP_IPC_LOCK);
}

bool can_do_mlock(void)
{
	return rlimit_cur(RLIMIT_MEMLOCK) || capable(CAP_IPC_LOCK);
}

/* -- where a mapping goes -- */

static bool aslr_enabled(void)
{
	static int off = -1;	/* the command line does not change: whoever asks first finds the same answer */

	if (off < 0)
		off = cmdline_flag("norandmaps");
	return !off && !(current->process->personality & ADDR_NO_RANDOMIZE);
}

uintptr_t aslr_offset(u64 range)
{
	return aslr_enabled() && range > PAGE_SIZE ? get_random_u64() % range & PAGE_MASK : 0;
}

/* Below the stack's largest size and its random displacement; then down by a random amount of its own. */
void mm_set_mmap_base(struct mm *mm, u64 stack_rlimit)
{
	u64 pad = STACK_GUARD_GAP + (aslr_enabled() ? STACK_RANDOM_RANGE : 0), gap = stack_rlimit;

	gap = gap + pad > gap ? gap + pad : gap;
	gap = clamp(gap, MIN_STACK_GAP, MAX_STACK_GAP);
	mm->mmap_base = ALIGN_DOWN(TASK_SIZE - gap - aslr_offset(MMAP_RANDOM_RANGE), PAGE_SIZE);
}

/* Lowest address that a mapping below @vma must keep free: a stack wants room to grow. */
static uintptr_t start_with_gap(const struct vma *vma)
{
	if (!(vma->flags & VM_GROWSDOWN))
		return vma->start;
	return vma->start > STACK_GUARD_GAP ? vma->start - STACK_GUARD_GAP : 0;
}

/* A gap by the tree, then once more below (above) each stack whose guard gap the answer would eat. */
static uintptr_t find_gap(struct mm *mm, size_t len, uintptr_t low, uintptr_t high, uintptr_t align, bool topdown)
{
	for (;;) {
		uintptr_t addr = vma_tree_find_gap(&mm->vmas, len, low, high, align, 0, topdown);
		struct vma *next;

		if (IS_ERR_VALUE(addr))
			return addr;
		next = vma_find(mm, addr);
		if (!next || addr + len <= start_with_gap(next))
			return addr;
		if (topdown)
			high = start_with_gap(next);
		else
			low = next->end;
	}
}

uintptr_t get_unmapped_area(struct mm *mm, uintptr_t hint, size_t len, uintptr_t align, unsigned long flags)
{
	uintptr_t addr, limit = flags & MAP_32BIT ? MAP_32BIT_HIGH : TASK_SIZE;

	if (len > limit)
		return (uintptr_t)-ENOMEM;
	hint &= PAGE_MASK;
	if (hint) {
		hint = ALIGN_UP(max(hint, MMAP_MIN_ADDR), align);
		if (hint && hint <= limit - len) {
			struct vma *next = vma_find(mm, hint);

			if (!next || hint + len <= start_with_gap(next))
				return hint;
		}
	}
	if (flags & MAP_32BIT)
		return find_gap(mm, len, MAP_32BIT_LOW, MAP_32BIT_HIGH, align, false);
	addr = find_gap(mm, len, MMAP_MIN_ADDR, mm->mmap_base, align, true);
	if (IS_ERR_VALUE(addr))
		addr = find_gap(mm, len, MMAP_BOTTOM_UP_BASE, TASK_SIZE, align, false);
	return addr;
}

/* -- mmap -- */

u64 calc_prot_bits(unsigned long prot)
{
	return prot & VM_ACCESS;	/* PROT_READ, WRITE, EXEC are VM_READ, WRITE, EXEC; other bits are ignored */
}
_Static_assert(PROT_READ == VM_READ && PROT_WRITE == VM_WRITE && PROT_EXEC == VM_EXEC, "calc_prot_bits");

/* Files end where a signed offset does; devices may go on to the end of an unsigned one. */
static bool offset_ok(const struct file *file, size_t len, u64 pgoff)
{
	u32 mode = file->inode->mode;
	u64 last = S_ISREG(mode) || (mode & S_IFMT) == S_IFBLK || S_ISSOCK(mode) ? (u64)INT64_MAX : ~0ul;

	return len <= last && pgoff <= (last - len) >> PAGE_SHIFT;
}

/* A10, A11: type and rights of a file mapping. Adds to *vm_flags; 0 or -errno. */
static int check_file(struct file *file, unsigned long prot, unsigned long flags, u64 *vm_flags)
{
	switch (flags & MAP_TYPE) {
	case MAP_SHARED_VALIDATE:
		if (flags & ~(unsigned long)(MAP_VALIDATED | MAP_SHARED_VALIDATE))
			return -EOPNOTSUPP;
		__attribute__((fallthrough));
	case MAP_SHARED:
		if ((prot & PROT_WRITE) && !(file->mode & FMODE_WRITE))
			return -EACCES;
		*vm_flags |= VM_SHARED | VM_MAYSHARE;
		if (!(file->mode & FMODE_WRITE))
			*vm_flags &= ~(VM_MAYWRITE | VM_SHARED);
		break;
	case MAP_PRIVATE:
		break;
	default:
		return -EINVAL;
	}
	if (!(file->mode & FMODE_READ))
		return -EACCES;
	if (file->path.mnt && path_is_noexec(&file->path)) {
		if (*vm_flags & VM_EXEC)
			return -EPERM;
		*vm_flags &= ~VM_MAYEXEC;
	}
	if (!file->ops->mmap)
		return -ENODEV;
	if (flags & MAP_GROWSDOWN)
		return -EINVAL;
	return 0;
}

/* The same for anonymous memory. */
static int check_anonymous(unsigned long flags, u64 *vm_flags)
{
	switch (flags & MAP_TYPE) {
	case MAP_SHARED:
		if (flags & MAP_GROWSDOWN)
			return -EINVAL;
		*vm_flags |= VM_SHARED | VM_MAYSHARE;
		return 0;
	case MAP_DROPPABLE:
		if (flags & (MAP_LOCKED | MAP_HUGETLB | MAP_GROWSDOWN))
			return -EINVAL;
		/* Dropped under memory pressure only, and there is no reclaim of anonymous pages: plain memory that fork wipes. */
		*vm_flags &= ~(VM_LOCKED | VM_LOCKONFAULT);	/* of mlockall(MCL_FUTURE) */
		*vm_flags |= VM_DROPPABLE | VM_NORESERVE | VM_WIPEONFORK | VM_DONTDUMP;
		return 0;
	case MAP_PRIVATE:
		return 0;
	default:
		return -EINVAL;
	}
}

static struct vma *first_overlap(struct mm *mm, uintptr_t start, uintptr_t end)
{
	struct vma *vma = vma_find(mm, start);

	return vma && vma->start < end ? vma : NULL;
}

/*
 * mmap_lock of current's mm for write. @file NULL: anonymous, in the file @zero if it is shared. The address or -errno;
 * *populate: bytes to fault in after the unlock. The order of the checks is Linux's.
 */
long do_mmap(struct file *file, struct file *zero, uintptr_t addr, size_t len, unsigned long prot, unsigned long flags, u64 pgoff,
	     size_t *populate)
{
	struct mm *mm = current->mm;
	u64 vm_flags = calc_prot_bits(prot) | VM_MAY_ALL | mm->def_flags;
	uintptr_t align = PAGE_SIZE;
	bool huge = file_is_hugetlbfs(file);
	long ret;
	int err;

	if (huge) {						/* D13 */
		align = huge_page_size(hstate_file(file));
		len = ALIGN_UP(len, align);
		vm_flags |= VM_HUGETLB;
	}
	if (!len)						/* A6 */
		return -EINVAL;
	if (flags & MAP_FIXED_NOREPLACE)
		flags |= MAP_FIXED;
	len = ALIGN_UP(len, PAGE_SIZE);
	if (!len)
		return -ENOMEM;
	if (pgoff + (len >> PAGE_SHIFT) < pgoff)
		return -EOVERFLOW;
	if (mm->map_count > sysctl_max_map_count)
		return -ENOMEM;
	if ((prot & PROT_READ) && (current->process->personality & READ_IMPLIES_EXEC) &&
	    !(file && file->path.mnt && path_is_noexec(&file->path)))
		vm_flags |= VM_EXEC;

	if (len > TASK_SIZE)					/* A7 */
		return -ENOMEM;
	if (huge && (flags & MAP_FIXED) && (addr & (align - 1)))	/* asked before all else about the address, unlike small pages */
		return -EINVAL;
	if (file && file->ops->mmap_align)
		align = max(align, file->ops->mmap_align(file));
	if (!(flags & MAP_FIXED)) {
		addr = get_unmapped_area(mm, addr, len, align, flags);
		if (IS_ERR_VALUE(addr))
			return (long)addr;
	}
	if (addr > TASK_SIZE - len)
		return -ENOMEM;
	if (addr & (align - 1))
		return -EINVAL;
	if (addr < MMAP_MIN_ADDR && !capable(CAP_SYS_RAWIO))
		return -EPERM;
	if ((flags & MAP_FIXED_NOREPLACE) && first_overlap(mm, addr, addr + len))
		return -EEXIST;

	if (flags & MAP_GROWSDOWN)
		vm_flags |= VM_GROWSDOWN;
	if (flags & MAP_SYNC)
		vm_flags |= VM_SYNC;
	if (flags & MAP_STACK)
		vm_flags |= VM_NOHUGEPAGE;
	if (flags & MAP_LOCKED) {				/* A9 */
		if (!can_do_mlock())
			return -EPERM;
		vm_flags |= VM_LOCKED;
	}
	if ((vm_flags & VM_LOCKED) && !mlock_limit_ok(mm, len >> PAGE_SHIFT))
		return -EAGAIN;

	if (file) {						/* A10, A11 */
		if (!offset_ok(file, len, pgoff))
			return -EOVERFLOW;
		err = check_file(file, prot, flags, &vm_flags);
	} else {
		err = check_anonymous(flags, &vm_flags);
		pgoff = zero ? 0 : addr >> PAGE_SHIFT;
	}
	if (err)
		return err;
	if ((flags & MAP_NORESERVE) && (sysctl_overcommit_memory != 2 || huge))
		vm_flags |= VM_NORESERVE;

	ret = map_region(mm, file ? file : zero, addr, len, vm_flags, pgoff);
	if (ret >= 0 && ((vm_flags & VM_LOCKED) || (flags & (MAP_POPULATE | MAP_NONBLOCK)) == MAP_POPULATE) &&
	    !(vm_flags & VM_LOCKONFAULT))
		*populate = len;
	return ret;
}

/* Seals (A11), counted against F_ADD_SEALS: a writable shared mapping keeps F_SEAL_WRITE away, and is refused once it is there. */
static int map_writable(struct file *file, u64 *vm_flags)
{
	struct mapping *mapping = &file->inode->mapping;
	s64 n = READ_ONCE(mapping->writable_maps);

	if ((file->inode->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) && (*vm_flags & VM_SHARED)) {
		if (*vm_flags & VM_WRITE)
			return -EPERM;
		*vm_flags &= ~VM_MAYWRITE;
	}
	if (!vma_counts_as_writer(*vm_flags))
		return 0;
	do {
		if (n < 0)
			return -EPERM;
	} while (!__atomic_compare_exchange_n(&mapping->writable_maps, &n, n + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return 0;
}

static void unmap_writable(struct file *file, u64 vm_flags)
{
	if (vma_counts_as_writer(vm_flags))
		__atomic_fetch_sub(&file->inode->mapping.writable_maps, 1, __ATOMIC_ACQ_REL);
}

/* Pages of [start, end) that are mapped now: MAP_FIXED gives them back, so they do not count against the limits. */
static u64 count_mapped(struct mm *mm, uintptr_t start, uintptr_t end)
{
	u64 pages = 0;

	for (struct vma *vma = first_overlap(mm, start, end); vma && vma->start < end; vma = vma_next(vma))
		pages += (min(end, vma->end) - max(start, vma->start)) >> PAGE_SHIFT;
	return pages;
}

/* A VMA that is not yet in the tree, its file's mmap method called. ERR_PTR. */
static struct vma *build_vma(struct mm *mm, struct file *file, uintptr_t start, size_t len, u64 vm_flags, u64 pgoff)
{
	struct vma *vma = vma_alloc(mm);
	int err;

	if (!vma)
		return ERR_PTR(-ENOMEM);
	vma->start = start;
	vma->end = start + len;
	vma->pgoff = pgoff;
	vma_set_flags(vma, vm_flags);
	if (!file)
		return vma;
	file_get(file);
	vma->file = file;
	err = file->ops->mmap(file, vma);
	if (err) {
		vma_free(vma);
		return ERR_PTR(err);
	}
	vma_set_flags(vma, vma->flags);		/* now that it is known whether writes must be noticed */
	return vma;
}

/* Undoes build_vma(). */
static void discard_vma(struct vma *vma)
{
	if (!vma)
		return;
	if (vma->ops && vma->ops->close)
		vma->ops->close(vma);
	vma_free(vma);
}

/*
 * A private mapping that will be written gets its anon_vma now: otherwise its first fault would have to take mmap_lock
 * for it. If there is no memory the fault will try again.
 */
void vma_prepare_for_writes(struct vma *vma)
{
	if (vma_is_private(vma) && (vma->flags & VM_WRITE) && !vma->anon_vma && !(vma->flags & VM_HUGETLB))
		(void)anon_vma_prepare(vma);
}

/* The second half of mmap: limits, memory, then the change. mmap_lock write. The address or -errno. */
static long map_region(struct mm *mm, struct file *file, uintptr_t addr, size_t len, u64 vm_flags, u64 pgoff)
{
	u64 pages = len >> PAGE_SHIFT, charge = 0, writer_flags;
	uintptr_t end = addr + len;
	struct vma *prev, *next = vma_tree_neighbours(&mm->vmas, addr, &prev);
	bool old = next && next->start < end;
	struct vma *vma = NULL, *merged;
	int err;

	if (mdwe_denies(vm_flags, vm_flags))
		return -EACCES;
	if (!may_expand_vm(mm, vm_flags, pages - (old ? min(pages, count_mapped(mm, addr, end)) : 0)))
		return -ENOMEM;
	if (file) {
		err = map_writable(file, &vm_flags);
		if (err)
			return err;
	}
	writer_flags = vm_flags;
	if (vma_is_accountable(vm_flags)) {
		vm_flags |= VM_ACCOUNT;
		charge = pages;
		err = vm_commit(charge);
		if (err)
			goto unmap_writable;
	}
	err = vma_tree_reserve(&mm->vmas, old ? 2 : 1);
	if (err)
		goto uncommit;
	if (file && file_is_hugetlbfs(file)) {
		/*
		 * Here the old mapping goes first: its huge pages, or those it was promised, may be the very ones that the new one
		 * needs. And only now no empty table of its small pages can be left where a huge page is to stand.
		 */
		err = do_munmap_locked(mm, addr, end);
		if (err)
			goto uncommit;
		next = vma_tree_neighbours(&mm->vmas, addr, &prev);
		old = false;
		drop_kept_tables(mm);
	}
	if (file || old) {
		vma = build_vma(mm, file, addr, len, vm_flags, pgoff);
		if (IS_ERR(vma)) {
			err = (int)PTR_ERR(vma);
			goto uncommit;
		}
		vm_flags = vma->flags;	/* the method may have added VM_IO, VM_DONTEXPAND... */
		if (vm_flags & (VM_IO | VM_PFNMAP | VM_HUGETLB)) {
			vm_flags &= ~(VM_LOCKED | VM_LOCKONFAULT);	/* nothing to lock, nothing to count */
			vma_set_flags(vma, vm_flags);
		}
	}
	if (old) {
		err = do_munmap_locked(mm, addr, end);
		if (err)
			goto discard;
		next = vma_tree_neighbours(&mm->vmas, addr, &prev);
	}
	merged = vma_merge_new(prev, next, addr, end, vm_flags, file, pgoff);
	if (merged) {
		discard_vma(vma);
		vma = merged;
	} else {
		if (!vma) {
			vma = build_vma(mm, NULL, addr, len, vm_flags, pgoff);
			if (IS_ERR(vma)) {
				err = (int)PTR_ERR(vma);
				goto uncommit;
			}
		}
		vma_insert(vma);
	}
	vm_stat_account(mm, vm_flags, (s64)pages);
	vma_prepare_for_writes(vma);
	if (file)
		unmap_writable(file, writer_flags);	/* the VMA in the tree counts now */
	return (long)addr;

discard:
	discard_vma(vma);
uncommit:
	vm_uncommit(charge);
unmap_writable:
	if (file)
		unmap_writable(file, writer_flags);
	return err;
}

/* brk and exec: private anonymous memory where nothing is mapped. mmap_lock write. 0 or -ENOMEM, -EAGAIN. */
static int map_anonymous(struct mm *mm, uintptr_t addr, size_t len, u64 vm_flags)
{
	long ret;

	if (!range_ok(addr, len))
		return -ENOMEM;
	if ((vm_flags & VM_LOCKED) && !mlock_limit_ok(mm, len >> PAGE_SHIFT))
		return -EAGAIN;
	if (mm->map_count > sysctl_max_map_count)
		return -ENOMEM;
	ret = map_region(mm, NULL, addr, len, vm_flags, addr >> PAGE_SHIFT);
	return ret < 0 ? (int)ret : 0;
}

int vm_brk_flags(struct mm *mm, uintptr_t addr, size_t len, u64 vm_flags)
{
	int err;

	len = ALIGN_UP(len, PAGE_SIZE);
	if (!len)
		return 0;
	mmap_write_lock(mm);
	err = map_anonymous(mm, addr, len, VM_DATA_FLAGS | vm_flags);
	mmap_write_unlock(mm);
	return err;
}

int setup_stack_vma(struct mm *mm, uintptr_t top, size_t size, bool executable)
{
	int err;

	mmap_write_lock(mm);
	err = map_anonymous(mm, top - size, size, VM_DATA_FLAGS | VM_GROWSDOWN | (executable ? VM_EXEC : 0));
	if (!err)
		mm->start_stack = top;
	mmap_write_unlock(mm);
	return err;
}

/* -- munmap -- */

/*
 * The part of @vma in [start, end) goes: its pages now, the VMA or its edge with them. Write-locked meanwhile, so no
 * fault can bring a page back; and the reverse map covers each page until it is zapped.
 */
static void unmap_part(struct mmu_gather *tlb, struct vma *vma, uintptr_t start, uintptr_t end)
{
	u64 pages;

	start = max(start, vma->start);
	end = min(end, vma->end);
	pages = (end - start) >> PAGE_SHIFT;
	vma_write_lock(vma);
	zap_vma_range(tlb, vma, start, end, true);
	vm_stat_account(vma->mm, vma->flags, -(s64)pages);
	if (vma->flags & VM_ACCOUNT)
		vm_uncommit(pages);
	if (unlikely(vma->uffd))
		uffd_wake_range(vma->uffd, start, end);	/* who waits there learns that there is nothing any more */
	if (start == vma->start && end == vma->end)
		vma_remove(vma);
	else if (start == vma->start)
		vma_set_bounds(vma, end, vma->end);
	else
		vma_set_bounds(vma, vma->start, start);
}

/* May an edge move without a split? Not if the owner counts its VMAs by open and close. */
static bool can_trim(const struct vma *vma)
{
	return !vma->ops || !vma->ops->close;
}

/* The managers whose memory it is want to know. Last of what can fail: what is announced happens. 0 or -ENOMEM. */
static int announce_unmap(struct mm *mm, uintptr_t start, uintptr_t end)
{
	int err = 0;

	for (struct vma *vma = vma_find(mm, start); vma && vma->start < end && !err; vma = vma_next(vma))
		if (vma->uffd)
			err = uffd_unmap_prepare(vma, start, end);
	return err;
}

/* Everything that can make munmap fail. Splits where it must: inside one VMA, or where the owner wants to know. */
static int prepare_edges(struct mm *mm, struct vma *first, uintptr_t start, uintptr_t end)
{
	struct vma *last = first->end >= end ? first : vma_tree_prev(&mm->vmas, end);
	bool inside = first->start < start && first->end > end, followed = false;
	int err;

	if (inside && mm->map_count >= sysctl_max_map_count)
		return -ENOMEM;
	for (struct vma *vma = first; ; vma = vma_next(vma)) {
		if (vma->flags & VM_SEALED)
			return -EPERM;
		followed |= vma->uffd != NULL;
		if (vma == last)
			break;
	}
	if (first->start < start && first->ops && first->ops->may_split) {
		err = first->ops->may_split(first, start);
		if (err)
			return err;
	}
	if (last->end > end && last->ops && last->ops->may_split) {
		err = last->ops->may_split(last, end);
		if (err)
			return err;
	}
	if (last->end > end && (inside || !can_trim(last))) {
		err = vma_split_nolimit(last, end);
		if (err)
			return err;
	}
	if (first->start < start && !can_trim(first)) {
		err = vma_split_nolimit(first, start);
		if (err)
			return err;
	}
	return unlikely(followed) ? announce_unmap(mm, start, end) : 0;
}

/*
 * Kept tables. Who unmaps a little mostly maps a little next, and in the same place. So the page tables of the small range
 * that was unmapped last stay, empty, until another takes its place: at most one table of each level that nobody needs.
 * The last page of that range counts as if it were mapped when others free their tables, so what is above it stays too.
 */
static void free_tables(struct mmu_gather *tlb, uintptr_t start, uintptr_t end)
{
	struct mm *mm = tlb->mm;
	struct vma *prev, *next = vma_tree_neighbours(&mm->vmas, start, &prev);
	uintptr_t floor = prev ? prev->end : 0, ceiling = next ? next->start : ALIGN_UP(TASK_SIZE, PMD_SIZE);
	uintptr_t first, last;

	if (ceiling < end)
		return;				/* kept, and mapped again meanwhile */
	if (mm->kept_tables > end)
		ceiling = min(ceiling, mm->kept_tables - PAGE_SIZE);
	else if (mm->kept_tables > start)
		mm->kept_tables = 0;		/* in the range: they go with it */
	else
		floor = max(floor, mm->kept_tables);
	/* Only if a whole PTE table fits in between is there one to free. */
	first = ALIGN_UP(floor, PMD_SIZE);
	last = ALIGN_DOWN(ceiling, PMD_SIZE);
	if (first < last && first < end && last > start)
		free_pgtables(tlb, start, end, floor, ceiling);
}

static bool in_one_pte_table(uintptr_t start, uintptr_t end)
{
	return !((start ^ (end - 1)) & PMD_MASK);
}

static void free_kept_tables(struct mmu_gather *tlb, uintptr_t keep_instead)
{
	uintptr_t end = tlb->mm->kept_tables;

	tlb->mm->kept_tables = keep_instead;
	if (end)
		free_tables(tlb, end - PAGE_SIZE, end);
}

/* [start, end) was unmapped. */
static void unmap_tables(struct mmu_gather *tlb, uintptr_t start, uintptr_t end)
{
	uintptr_t kept = tlb->mm->kept_tables;

	if (!in_one_pte_table(start, end))
		free_tables(tlb, start, end);
	else if (!kept || !in_one_pte_table(min(start, kept - PAGE_SIZE), max(end, kept)))
		free_kept_tables(tlb, end);
}

void drop_kept_tables(struct mm *mm)
{
	struct mmu_gather tlb;

	if (!mm->kept_tables)
		return;
	tlb_gather_begin(&tlb, mm);
	free_kept_tables(&tlb, 0);
	tlb_gather_end(&tlb);
}

int do_munmap_locked(struct mm *mm, uintptr_t start, uintptr_t end)
{
	struct vma *vma = first_overlap(mm, start, end), *next;
	struct mmu_gather tlb;
	int err;

	assert_mmap_write_locked(mm);
	assert(start < end && IS_ALIGNED(start | end, PAGE_SIZE));
	if (!vma)
		return 0;
	err = prepare_edges(mm, vma, start, end);
	if (err)
		return err;

	/* Nothing below this line can fail. */
	tlb_gather_begin(&tlb, mm);
	do {
		next = vma->end < end ? first_overlap(mm, vma->end, end) : NULL;
		unmap_part(&tlb, vma, start, end);
		vma = next;
	} while (vma);
	unmap_tables(&tlb, start, end);
	tlb_gather_end(&tlb);
	return 0;
}

/*
 * The VMAs from @vma on that lie so close together that they may share PTE tables: out of the reverse map, then their
 * tables into the gather. Nothing below is left, so an upper table goes with the last of those that used it. The next
 * VMA, or NULL.
 */
static struct vma *exit_cluster(struct mmu_gather *tlb, struct vma *vma)
{
	uintptr_t start = vma->start, end;
	struct vma *next;

	do {
		end = vma->end;
		next = vma_next(vma);
		vma_exit(vma);
		vma = next;
	} while (next && next->start - end < PMD_SIZE);
	free_pgtables(tlb, start, end, 0, next ? next->start : 0);
	return next;
}

/*
 * The last user is gone: no fault, no system call, but truncate may still come by the reverse map until each VMA is out
 * of it. Nobody looks into the tree any more, so it is not kept in order while VMAs leave; only its nodes are read.
 */
void exit_mmap(struct mm *mm)
{
	struct mmu_gather tlb;
	struct vma *vma;

	mmap_write_lock(mm);
	tlb_gather_begin_fullmm(&tlb, mm);
	for (vma = vma_find(mm, 0); vma; vma = vma_next(vma)) {
		zap_vma_range(&tlb, vma, vma->start, vma->end, true);
		if (vma->flags & VM_ACCOUNT)
			vm_uncommit(vma_pages(vma));
	}
	free_kept_tables(&tlb, 0);
	for (vma = vma_find(mm, 0); vma; )
		vma = exit_cluster(&tlb, vma);
	tlb_gather_end(&tlb);
	vma_tree_destroy(&mm->vmas);
	mm->map_count = 0;
	mm->total_vm = mm->locked_vm = mm->data_vm = mm->exec_vm = mm->stack_vm = mm->hugetlb_vm = 0;
	mmap_write_unlock(mm);
}

/* -- the stack -- */

/* A38. mmap_lock write. The VMA grows down to the page of @addr, or -ENOMEM: limits, or too near to what lies below. */
int expand_stack(struct vma *vma, uintptr_t addr)
{
	struct mm *mm = vma->mm;
	struct vma *prev;
	u64 grow;
	int err;

	addr &= PAGE_MASK;
	assert_mmap_write_locked(mm);
	if (!(vma->flags & VM_GROWSDOWN) || addr < MMAP_MIN_ADDR)
		return -ENOMEM;
	if (addr >= vma->start)
		return 0;		/* another thread was faster */
	prev = vma_prev(vma);
	if (prev && prev->end > addr)
		return -ENOMEM;
	if (prev && !(prev->flags & VM_GROWSDOWN) && (prev->flags & VM_ACCESS) && addr - prev->end < STACK_GUARD_GAP)
		return -ENOMEM;
	grow = (vma->start - addr) >> PAGE_SHIFT;
	if (grow > vma->pgoff || vma->end - addr > rlimit_cur(RLIMIT_STACK) || !may_expand_vm(mm, vma->flags, grow))
		return -ENOMEM;
	if ((vma->flags & VM_LOCKED) && !mlock_limit_ok(mm, grow))
		return -ENOMEM;
	if (vma->flags & VM_ACCOUNT) {
		err = vm_commit(grow);
		if (err)
			return err;
	}
	vma_write_lock(vma);
	vma_set_bounds(vma, addr, vma->end);
	vm_stat_account(mm, vma->flags, (s64)grow);
	return 0;
}
