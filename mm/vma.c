/*
 * VMAs as structure: made, found, split, merged, moved at the edges, removed. Locks are in mm/vma_lock.c, system calls in
 * mm/mmap.c and its neighbours.
 *
 * Every function here wants mmap_lock for write unless it says otherwise, and follows three rules.
 *
 *   - A VMA that faults can find is write-locked before anything in it changes (SEMANTICS C5), and a new one counts as
 *     write-locked before it can be found (C6).
 *   - The reverse map never has a gap. Truncate walks mapping->i_mmap with i_mmap_lock only and zaps what the VMAs there
 *     cover, so a page that is mapped must be covered at every instant: bounds change under the rmap locks, a split
 *     links the new half before it shortens the old one, and pages are zapped before their VMA leaves the map.
 *   - Check all, then commit: what can fail (limits, memory, the owner's veto) comes first.
 */
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "kernel/string.h"
#include "mm/hugetlb.h"
#include "mm/rmap.h"
#include "mm/slab.h"
#include "mm/vma.h"
#include "mm/vma_internal.h"
#include "fs/vfs.h"

#define VM_NEVER_MERGE	(VM_IO | VM_DONTEXPAND | VM_PFNMAP)
#define VM_PROT_FLAGS	(VM_ACCESS | VM_SHARED | VM_MAYSHARE)	/* what vm_page_prot() looks at */

u32 sysctl_max_map_count = 65530;
static struct kmem_cache *vma_cache;

void vma_init(void)
{
	vma_cache = kmem_cache_create("vma", sizeof(struct vma), 64);
}

/* -- making and disposing -- */

/* Fields that no copy inherits. A VMA nobody can find yet needs no locking to count as write-locked (C6). */
static void vma_init_identity(struct vma *vma, struct mm *mm)
{
	vma->mm = mm;
	vma->lock_seq = mm->lock_seq;
	vma->detached = false;
	vma->anon_vma = NULL;
	vma->hugetlb_lock = NULL;
	rwsem_init(&vma->lock, LOCK_VMA);
	INIT_LIST_HEAD(&vma->i_mmap_node);
	INIT_LIST_HEAD(&vma->anon_vma_node);
}

struct vma *vma_alloc(struct mm *mm)
{
	struct vma *vma = kmem_cache_alloc(vma_cache, GFP_KERNEL);

	if (!vma)
		return NULL;
	vma->start = 0;
	vma->end = 0;
	vma->flags = 0;
	vma->page_prot = 0;
	vma->pgoff = 0;
	vma->file = NULL;
	vma->mapping = NULL;
	vma->ops = NULL;
	vma->uffd = NULL;
	vma->private = NULL;
	vma_init_identity(vma, mm);
	return vma;
}

/*
 * A copy for split and fork: same bounds, rights and file (counted), own lock, in no tree and no reverse map. The caller
 * changes mm for fork, links it, and calls ops->open when it is in place.
 */
struct vma *vma_dup(struct vma *vma)
{
	struct vma *new = kmem_cache_alloc(vma_cache, GFP_KERNEL);

	if (!new)
		return NULL;
	new->start = vma->start;
	new->end = vma->end;
	new->flags = vma->flags;
	new->page_prot = vma->page_prot;
	new->pgoff = vma->pgoff;
	new->file = vma->file;
	new->mapping = vma->mapping;
	new->ops = vma->ops;
	new->uffd = vma->uffd;
	new->private = vma->private;
	vma_init_identity(new, vma->mm);
	if (new->file)
		file_get(new->file);
	return new;
}

/* For one that no tree ever held. May sleep (last reference to the file). */
void vma_free(struct vma *vma)
{
	if (vma->file)
		file_put(vma->file);
	kmem_cache_free(vma_cache, vma);
}

static void vma_free_rcu(struct rcu_head *head)
{
	kmem_cache_free(vma_cache, container_of(head, struct vma, rcu));
}

/* Detached VMAs of one write period, linked by rcu.next. mmap_lock not held: dropping a file may take any lock. */
void vma_dispose_list(struct vma *dead)
{
	while (dead) {
		struct vma *vma = dead;

		dead = vma->rcu.next ? container_of(vma->rcu.next, struct vma, rcu) : NULL;
		if (vma->file)
			file_put(vma->file);
		call_rcu(&vma->rcu, vma_free_rcu);
	}
}

/* -- finding: mmap_lock in any mode -- */

struct vma *vma_lookup(struct mm *mm, uintptr_t addr)
{
	struct vma *vma = vma_find(mm, addr);

	return vma && vma->start <= addr ? vma : NULL;
}

struct vma *vma_next(struct vma *vma)
{
	return vma_tree_find(&vma->mm->vmas, vma->end);
}

struct vma *vma_prev(struct vma *vma)
{
	return vma_tree_prev(&vma->mm->vmas, vma->start);
}

/* -- rights -- */

bool vma_tracks_dirty(const struct vma *vma)
{
	if (!(vma->flags & VM_SHARED))
		return false;
	return (vma->ops && vma->ops->page_mkwrite) || (vma->mapping && vma->mapping->ops && vma->mapping->ops->write_page);
}

/* x86 has no page that can be written or executed but not read, so PROT_WRITE and PROT_EXEC imply readable (A17). */
u64 vm_page_prot(u64 flags, bool tracked)
{
	u64 prot;

	if (!(flags & VM_ACCESS))
		return PTE_PROTNONE | PTE_ACCESSED | PTE_NX;
	prot = PTE_PRESENT | PTE_USER | PTE_ACCESSED;
	if ((flags & VM_WRITE) && (flags & VM_MAYSHARE) && !tracked)
		prot |= PTE_WRITE;	/* private pages become writable one by one, in the fault */
	if (!(flags & VM_EXEC))
		prot |= PTE_NX;
	return prot;
}

void vma_set_flags(struct vma *vma, u64 flags)
{
	u64 cache_bits = vma->page_prot & (PTE_PCD | PTE_PWT);	/* device windows keep theirs */

	assert_vma_write_locked(vma);
	vma->flags = flags;
	vma->page_prot = vm_page_prot(flags, vma_tracks_dirty(vma)) | cache_bits;
}

/* -- bounds -- */

static void rmap_write_lock(struct vma *vma)
{
	if (vma->mapping)
		down_write(&vma->mapping->i_mmap_lock);
	if (vma->anon_vma)
		down_write(&vma->anon_vma->lock);
}

static void rmap_write_unlock(struct vma *vma)
{
	if (vma->anon_vma)
		up_write(&vma->anon_vma->lock);
	if (vma->mapping)
		up_write(&vma->mapping->i_mmap_lock);
}

void vma_set_bounds(struct vma *vma, uintptr_t start, uintptr_t end)
{
	assert_vma_write_locked(vma);
	if (unlikely(vma->flags & VM_HUGETLB))
		race_window("hugetlb_before_split");
	rmap_write_lock(vma);
	if (unlikely(vma->flags & VM_HUGETLB)) {
		if (start != vma->start)
			hugetlb_split_vma(vma, start);
		if (end != vma->end)
			hugetlb_split_vma(vma, end);
	}
	vma->pgoff += (s64)(start - vma->start) >> PAGE_SHIFT;
	vma_tree_set_bounds(&vma->mm->vmas, vma, start, end);
	rmap_write_unlock(vma);
}

/* Into and out of the reverse map; a writable shared mapping also counts against F_SEAL_WRITE. */
static void link_file(struct vma *vma)
{
	if (!vma->mapping)
		return;
	if (vma_counts_as_writer(vma->flags))
		__atomic_fetch_add(&vma->mapping->writable_maps, 1, __ATOMIC_ACQ_REL);
	vma_link_file(vma);
}

static void unlink_file(struct vma *vma)
{
	if (!vma->mapping)
		return;
	vma_unlink_file(vma);
	if (vma_counts_as_writer(vma->flags))
		__atomic_fetch_sub(&vma->mapping->writable_maps, 1, __ATOMIC_ACQ_REL);
}

void vma_insert(struct vma *vma)
{
	struct mm *mm = vma->mm;

	assert_mmap_write_locked(mm);
	assert(vma->lock_seq == mm->lock_seq && !vma->detached);
	link_file(vma);
	vma_tree_insert(&mm->vmas, vma);
	mm->map_count++;
}

static void take_out_of_tree(struct vma *vma)
{
	vma_write_lock(vma);
	vma_mark_detached(vma);
	vma_tree_remove(&vma->mm->vmas, vma);
	vma->mm->map_count--;
}

static void unlink_and_dispose(struct vma *vma)
{
	struct mm *mm = vma->mm;

	if (vma->anon_vma)
		anon_vma_unlink(vma);
	unlink_file(vma);
	if (vma->ops && vma->ops->close)
		vma->ops->close(vma);
	if (!vma->file) {
		call_rcu(&vma->rcu, vma_free_rcu);
		return;
	}
	vma->rcu.next = mm->dead_vmas ? &mm->dead_vmas->rcu : NULL;
	mm->dead_vmas = vma;
}

/* C8. The caller has zapped its pages: nothing is mapped through it any more. */
void vma_remove(struct vma *vma)
{
	take_out_of_tree(vma);
	unlink_and_dispose(vma);
}

void vma_exit(struct vma *vma)
{
	vma->lock_seq = vma->mm->lock_seq;	/* no readers to wait for */
	vma_mark_detached(vma);
	unlink_and_dispose(vma);
}

/* -- splitting -- */

static int may_split(struct vma *vma, uintptr_t addr)
{
	return vma->ops && vma->ops->may_split ? vma->ops->may_split(vma, addr) : 0;
}

/* vma_split without the limit on the number of VMAs: for callers that remove one right after. 0, -ENOMEM, -EINVAL. */
int vma_split_nolimit(struct vma *vma, uintptr_t addr)
{
	struct mm *mm = vma->mm;
	struct vma *new;
	int err;

	assert(addr > vma->start && addr < vma->end && IS_ALIGNED(addr, PAGE_SIZE));
	err = may_split(vma, addr);
	if (err)
		return err;
	err = vma_tree_reserve(&mm->vmas, 1);
	if (err)
		return err;
	new = vma_dup(vma);
	if (!new)
		return -ENOMEM;

	/* Nothing below this line can fail. */
	race_window("vma_split");
	vma_write_lock(vma);
	new->start = addr;
	new->pgoff += (addr - vma->start) >> PAGE_SHIFT;
	if (vma->anon_vma)
		anon_vma_clone(new, vma);
	link_file(new);			/* both halves cover the upper part for a moment: never none */
	if (unlikely(new->flags & VM_HUGETLB))
		hugetlb_vma_inherit_mark(new, vma);
	vma_set_bounds(vma, vma->start, addr);
	race_window("vma_split_bounds");	/* now the upper part is nowhere in the tree; vma_lock_after_writer() */
	vma_tree_insert(&mm->vmas, new);
	mm->map_count++;
	if (new->ops && new->ops->open)
		new->ops->open(new);
	return 0;
}

int vma_split(struct vma *vma, uintptr_t addr)
{
	if (vma->mm->map_count >= sysctl_max_map_count)
		return -ENOMEM;
	return vma_split_nolimit(vma, addr);
}

/* -- merging (A2) -- */

/* What a neighbour must agree with: a mapping that is to be made, or a part of a VMA with its new flags. */
struct merge_spec {
	u64		 flags;
	struct file	*file;
	struct anon_vma	*anon_vma;	/* NULL: no anonymous page in it yet */
	struct uffd	*uffd;
};

static bool same_anon_vma(const struct anon_vma *a, const struct anon_vma *b)
{
	return !a || !b || a == b;
}

/* The flags, which differ most often, have been compared. */
static bool agrees(const struct vma *vma, const struct merge_spec *spec)
{
	if (vma->file != spec->file || vma->uffd != spec->uffd)
		return false;
	if ((spec->flags & VM_NEVER_MERGE) || vma->private || (vma->ops && vma->ops->close))
		return false;	/* the owner counts VMAs */
	return same_anon_vma(vma->anon_vma, spec->anon_vma);
}

static u64 end_pgoff(const struct vma *vma)
{
	return vma->pgoff + vma_pages(vma);
}

/* @prev (or @next), if it touches and agrees with what begins at @start (ends at @end); else NULL. */
static inline struct vma *mergeable_prev(struct vma *prev, uintptr_t start, u64 pgoff, const struct merge_spec *spec)
{
	if (!prev || prev->flags != spec->flags || prev->end != start)
		return NULL;
	return end_pgoff(prev) == pgoff && agrees(prev, spec) ? prev : NULL;
}

static inline struct vma *mergeable_next(struct vma *next, uintptr_t end, u64 pgoff, const struct merge_spec *spec)
{
	if (!next || next->flags != spec->flags || next->start != end)
		return NULL;
	return next->pgoff == pgoff && agrees(next, spec) ? next : NULL;
}

/* Pages of @from may come to lie in @vma: they keep their reverse map. */
static void inherit_anon_vma(struct vma *vma, struct vma *from)
{
	if (!vma->anon_vma && from->anon_vma)
		anon_vma_clone(vma, from);
}

/* @vma grows to [start, end), swallowing its neighbour @gone. Faults that come between the two tree changes find nothing and wait for mmap_lock. */
static void absorb(struct vma *vma, struct vma *gone, uintptr_t start, uintptr_t end)
{
	vma_write_lock(vma);
	take_out_of_tree(gone);
	inherit_anon_vma(vma, gone);
	vma_set_bounds(vma, start, end);
	unlink_and_dispose(gone);
}

/* The edge between two neighbours of one file (or none) moves to @addr. */
static void move_edge(struct vma *low, struct vma *high, uintptr_t addr)
{
	struct vma_tree *tree = &low->mm->vmas;
	struct vma *owner;

	vma_write_lock(low);
	vma_write_lock(high);
	if (addr > high->start)
		inherit_anon_vma(low, high);
	else
		inherit_anon_vma(high, low);
	owner = low->anon_vma ? low : high;	/* if both have one, it is the same */
	rmap_write_lock(owner);
	if (addr > high->start) {
		high->pgoff += (addr - high->start) >> PAGE_SHIFT;
		vma_tree_set_bounds(tree, high, addr, high->end);
		vma_tree_set_bounds(tree, low, low->start, addr);
	} else {
		high->pgoff -= (high->start - addr) >> PAGE_SHIFT;
		vma_tree_set_bounds(tree, low, low->start, addr);
		vma_tree_set_bounds(tree, high, addr, high->end);
	}
	rmap_write_unlock(owner);
}

struct vma *vma_merge_new(struct vma *prev, struct vma *next, uintptr_t start, uintptr_t end, u64 flags, struct file *file, u64 pgoff)
{
	struct merge_spec spec = { .flags = flags, .file = file };

	prev = mergeable_prev(prev, start, pgoff, &spec);
	next = mergeable_next(next, end, pgoff + ((end - start) >> PAGE_SHIFT), &spec);
	if (prev && next && same_anon_vma(prev->anon_vma, next->anon_vma)) {
		absorb(prev, next, prev->start, next->end);
		return prev;
	}
	if (prev) {
		vma_write_lock(prev);
		vma_set_bounds(prev, prev->start, end);
		return prev;
	}
	if (next) {
		vma_write_lock(next);
		vma_set_bounds(next, start, next->end);
	}
	return next;
}

/* @vma becomes part of whichever neighbours agree with what it is to be; NULL if none does. Cannot fail. */
static struct vma *merge_whole(struct vma *vma, struct vma *prev, struct vma *next)
{
	if (prev) {
		bool three = next && same_anon_vma(prev->anon_vma, next->anon_vma);

		absorb(prev, vma, prev->start, vma->end);
		if (three)
			absorb(prev, next, prev->start, next->end);
		return prev;
	}
	if (next)
		absorb(next, vma, vma->start, next->end);
	return next;
}

/* After a VMA came to a new place or size. mmap_lock write. */
struct vma *vma_merge_neighbours(struct vma *vma)
{
	struct merge_spec spec = { .flags = vma->flags, .file = vma->file, .anon_vma = vma->anon_vma, .uffd = vma->uffd };
	struct vma *merged;

	if (vma->private || (vma->ops && vma->ops->close))
		return vma;
	merged = merge_whole(vma, mergeable_prev(vma_prev(vma), vma->start, vma->pgoff, &spec),
			     mergeable_next(vma_next(vma), vma->end, end_pgoff(vma), &spec));
	return merged ? merged : vma;
}

/*
 * Merging never allocates, so only the last case, the splits, can fail; a split that was made before the second failed
 * stays, as an edge between equals. ERR_PTR(-ENOMEM, -EINVAL). The result is write-locked and has the new flags.
 */
struct vma *vma_modify(struct vma *vma, uintptr_t start, uintptr_t end, u64 new_flags, struct uffd *uffd)
{
	struct merge_spec spec = { .flags = new_flags, .file = vma->file, .anon_vma = vma->anon_vma, .uffd = uffd };
	struct vma *prev, *next;
	int err = 0;

	assert(start >= vma->start && end <= vma->end && start < end);
	if (vma->flags == new_flags && vma->uffd == uffd)
		return vma;
	vma_tree_around(&vma->mm->vmas, vma, &prev, &next);
	prev = start == vma->start ? mergeable_prev(prev, start, vma->pgoff, &spec) : NULL;
	next = end == vma->end ? mergeable_next(next, end, end_pgoff(vma), &spec) : NULL;

	if ((prev || next) && start == vma->start && end == vma->end)
		return merge_whole(vma, prev, next);
	if (prev) {
		err = may_split(vma, end);
		if (!err)
			move_edge(prev, vma, end);
		return err ? ERR_PTR(err) : prev;
	}
	if (next) {
		err = may_split(vma, start);
		if (!err)
			move_edge(vma, next, start);
		return err ? ERR_PTR(err) : next;
	}

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
	vma_write_lock(vma);
	vma->uffd = uffd;
	if ((vma->flags ^ new_flags) & VM_PROT_FLAGS)
		vma_set_flags(vma, new_flags);
	else
		vma->flags = new_flags;
	return vma;
}

/* -- the walker -- */

#define CHECK(cond, rule) do { if (!(cond)) panic("mm %p: %s (%s)", (void *)mm, rule, #cond); } while (0)

void vma_check_mm(struct mm *mm)
{
	u64 total = 0, locked = 0;
	u32 count = 0;

	vma_tree_check(&mm->vmas);
	for (struct vma *vma = vma_find(mm, 0); vma; vma = vma_next(vma)) {
		CHECK(IS_ALIGNED(vma->start | vma->end, PAGE_SIZE) && vma->end <= TASK_SIZE, "bounds are pages of user space");
		CHECK(vma->mm == mm && !vma->detached, "what is in the tree belongs to this mm and is not detached");
		CHECK(vma->lock_seq <= mm->lock_seq, "no VMA is ahead of its mm");
		CHECK(!!(vma->flags & VM_UFFD_ANY) == !!vma->uffd, "VM_UFFD_* is set iff there is a context");
		CHECK(!(vma->flags & VM_SHARED) || (vma->flags & VM_MAYSHARE), "VM_SHARED implies VM_MAYSHARE");
		CHECK(((vma->flags >> 4) & VM_ACCESS & vma->flags) == (vma->flags & VM_ACCESS), "rights are within their upper bounds");
		CHECK(!vma->mapping || vma->file, "a mapping comes from a file");
		/* A private mapping of /dev/zero is anonymous memory that keeps its file for the name in maps. */
		CHECK(!vma->file || vma->ops || (vma->flags & (VM_PFNMAP | VM_IO)) || (vma_is_private(vma) && !vma->mapping),
		      "a file mapping has operations");
		CHECK(list_empty(&vma->i_mmap_node) == !vma->mapping, "in i_mmap iff there is a page cache");
		CHECK(list_empty(&vma->anon_vma_node) == !vma->anon_vma, "in the anon_vma iff there is one");
		count++;
		total += vma_pages(vma);
		if (vma->flags & VM_LOCKED)
			locked += vma_pages(vma);
	}
	CHECK(count == mm->map_count && count == mm->vmas.count, "VMAs are counted");
	CHECK(total == mm->total_vm, "pages are counted");
	CHECK(locked == mm->locked_vm, "locked pages are counted");
}

#ifdef DEBUG
void vma_check_sampled(struct mm *mm)
{
	u64 period = mm->lock_seq >> 1, every = mm->map_count < 32 ? 4 : mm->map_count;

	if (period % every == 0)
		vma_check_mm(mm);
}
#endif
