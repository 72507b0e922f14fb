/*
 * Reverse map: from a page to the entries that map it.
 *
 *	file page	page->mapping -> i_mmap: every VMA of the file, of any process
 *	anonymous page	page->anon_vma -> vmas: every VMA that may hold the page
 *
 * One anon_vma serves a process and all its descendants by fork (until exec): a child's VMA joins its parent's set. So
 * a walk may look at relatives that never had the page, in exchange for a structure that fits in a few lines; Linux
 * gives each fork level a node of its own. Nothing on the fault path walks it.
 *
 * The rule that is easy to break: who is in a list can be walked by others at any moment. A VMA therefore joins before
 * its first entry exists, leaves after its last entry is gone and before its page tables are freed, and changes its
 * bounds only under the list's lock; and entries move between VMAs (mremap) only with the list locked for writing.
 */
#include "mm/rmap.h"

#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/race.h"
#include "mm/slab.h"
#include "mm/tlb.h"
#include "mm/vmstat.h"

static struct kmem_cache *anon_vma_cache;

void rmap_init(void)
{
	anon_vma_cache = kmem_cache_create("anon_vma", sizeof(struct anon_vma), 64);
}

/* -- anonymous memory: the set of VMAs -- */

static struct anon_vma *anon_vma_alloc(void)
{
	struct anon_vma *av = kmem_cache_alloc(anon_vma_cache, GFP_KERNEL);

	if (!av)
		return NULL;
	rwsem_init(&av->lock, LOCK_ANON_VMA);
	INIT_LIST_HEAD(&av->vmas);
	refcount_set(&av->refs, 1);
	return av;
}

static void anon_vma_free_rcu(struct rcu_head *head)
{
	kmem_cache_free(anon_vma_cache, container_of(head, struct anon_vma, rcu));
}

static void anon_vma_put(struct anon_vma *av)
{
	if (refcount_dec_and_test(&av->refs))
		call_rcu(&av->rcu, anon_vma_free_rcu);
}

/*
 * May @vma use the anon_vma of its neighbour @near? Only to let the two merge later, so: only if they could merge but
 * for rights (mprotect may make those equal again). A neighbour's anon_vma is set once and stays while we hold
 * mmap_lock: that is why the VMA lock alone is not enough to come here (C7, R45).
 */
static struct anon_vma *reusable_anon_vma(const struct vma *vma, struct vma *near)
{
	struct anon_vma *av = near ? READ_ONCE(near->anon_vma) : NULL;

	if (!av || near->mapping != vma->mapping || near->file != vma->file || near->uffd != vma->uffd ||
	    ((near->flags ^ vma->flags) & ~VM_ACCESS))
		return NULL;
	bool below = near->end == vma->start && near->pgoff + vma_pages(near) == vma->pgoff;
	bool above = vma->end == near->start && vma->pgoff + vma_pages(vma) == near->pgoff;
	if (!below && !above)
		return NULL;
	race_window("anon_vma_borrow");
	refcount_inc(&av->refs);	/* the neighbour's own reference cannot go away under mmap_lock */
	return av;
}

/* mmap_lock in any mode, so two faults may come here at once for one VMA. Sleeps. 0 or -ENOMEM. */
int anon_vma_prepare(struct vma *vma)
{
	struct mm *mm = vma->mm;
	struct anon_vma *av;

	assert_mmap_locked(mm);
	if (READ_ONCE(vma->anon_vma))
		return 0;
	av = reusable_anon_vma(vma, vma_prev(vma));
	if (!av)
		av = reusable_anon_vma(vma, vma_next(vma));
	if (!av)
		av = anon_vma_alloc();
	if (!av)
		return -ENOMEM;

	race_window("anon_vma_prepare");
	down_write(&av->lock);
	spin_lock(&mm->page_table_lock);
	if (!vma->anon_vma) {
		list_add_tail(&vma->anon_vma_node, &av->vmas);
		__atomic_store_n(&vma->anon_vma, av, __ATOMIC_RELEASE);	/* faults read it under the VMA lock only */
		av = NULL;		/* our reference is the VMA's now */
	}
	spin_unlock(&mm->page_table_lock);
	if (av) {
		up_write(&av->lock);
		anon_vma_put(av);
	} else {
		up_write(&vma->anon_vma->lock);
	}
	return 0;
}

/* Split: both halves may hold pages of the set. mmap_lock for write, or @dst not yet visible. Cannot fail. */
void anon_vma_clone(struct vma *dst, struct vma *src)
{
	struct anon_vma *av = src->anon_vma;

	if (!av)
		return;
	refcount_inc(&av->refs);
	down_write(&av->lock);
	list_add_tail(&dst->anon_vma_node, &av->vmas);
	dst->anon_vma = av;
	up_write(&av->lock);
}

/* Fork, both mmap_locks for write. At the tail of the list: a walk meets the parent before the child. */
int anon_vma_fork(struct vma *child, struct vma *parent)
{
	child->anon_vma = NULL;
	anon_vma_clone(child, parent);
	return 0;
}

void anon_vma_unlink(struct vma *vma)
{
	struct anon_vma *av = vma->anon_vma;

	if (!av)
		return;
	down_write(&av->lock);
	list_del_init(&vma->anon_vma_node);
	vma->anon_vma = NULL;
	up_write(&av->lock);
	anon_vma_put(av);
}

/* -- file memory: the list of VMAs -- */

void vma_link_file(struct vma *vma)
{
	struct mapping *m = vma->mapping;

	if (!m)
		return;
	down_write(&m->i_mmap_lock);
	list_add_tail(&vma->i_mmap_node, &m->i_mmap);
	up_write(&m->i_mmap_lock);
}

void vma_unlink_file(struct vma *vma)
{
	struct mapping *m = vma->mapping;

	if (!m)
		return;
	down_write(&m->i_mmap_lock);
	list_del_init(&vma->i_mmap_node);
	up_write(&m->i_mmap_lock);
}

/* -- map counts. The PTE lock is held in all of these; the entry itself is the caller's business -- */

/* A page that nobody has seen yet: plain stores will do. */
void page_add_new_anon(struct page *page, struct vma *vma, uintptr_t addr)
{
	assert(vma->anon_vma);
	page->anon_vma = vma->anon_vma;
	page->index = linear_index(vma, addr);
	page->flags |= 1u << PG_anon | 1u << PG_anon_exclusive | 1u << PG_uptodate;
	page->mapcount = 1;
	vm_count(VM_nr_anon_pages);
}

/* One more entry for a page that others map too; it has lost its exclusive mark before. */
void page_add_anon(struct page *page, struct vma *vma, uintptr_t addr)
{
	assert(page_test(page, PG_anon) && !page_test(page, PG_anon_exclusive));
	(void)vma;
	(void)addr;
	__atomic_fetch_add(&page->mapcount, 1, __ATOMIC_RELAXED);
}

void page_remove_rmap(struct page *page, struct vma *vma)
{
	u32 old = __atomic_fetch_sub(&page->mapcount, 1, __ATOMIC_RELEASE);

	(void)vma;
	BUG_ON(old == 0);
	if (old == 1)
		vm_count_add(page_test(page, PG_anon) ? VM_nr_anon_pages : VM_nr_mapped, -1);
}

/* -- walking -- */

/* The address of file page @index in @vma, or 0 if it lies outside. i_mmap_lock held: the bounds stand still. */
static uintptr_t vma_address(const struct vma *vma, u64 index)
{
	if (index < vma->pgoff || index - vma->pgoff >= vma_pages(vma))
		return 0;
	return vma->start + ((index - vma->pgoff) << PAGE_SHIFT);
}

static bool clean_entry(struct vma *vma, uintptr_t addr, const struct page *page)
{
	pmd_t *pmd = pmd_walk(vma->mm, addr);
	struct spinlock *ptl;
	pte_t *pte = pmd ? pte_offset_lock(vma->mm, pmd, addr, &ptl) : NULL;
	bool was_dirty = false;

	if (!pte)
		return false;
	pte_t e = pte_read(pte);
	if (pte_present(e) && !pte_special(e) && pte_page(e) == page && (e.v & (PTE_WRITE | PTE_DIRTY))) {
		e = pte_clear_bits(pte, PTE_WRITE | PTE_DIRTY);
		was_dirty = pte_dirty(e);
		/* Before the lock goes: who finds the entry clean may rely on nobody writing any more. */
		flush_tlb_page(vma->mm, addr);
	}
	pte_unlock(ptl);
	return was_dirty;
}

/*
 * Writeback is about to copy the page out. Folio lock held: no new writable entry can appear (B15). Private copies are
 * other pages, and private mappings of this page are read-only already. Sleeps (i_mmap_lock).
 *
 * A map count of 0 is no reason to leave early: zap lowers it before its flush, and until then a CPU may still write
 * through a stale translation. Taking the lock of that entry's table waits for the flush.
 */
bool page_mkclean(struct page *page)
{
	struct mapping *m = page->mapping;
	struct vma *vma;
	bool was_dirty = false;

	assert(page_test(page, PG_locked));
	down_read(&m->i_mmap_lock);
	list_for_each_entry(vma, &m->i_mmap, i_mmap_node) {
		uintptr_t addr = vma_address(vma, page->index);
		if (addr && !vma_is_private(vma))
			was_dirty |= clean_entry(vma, addr, page);
	}
	up_read(&m->i_mmap_lock);
	return was_dirty;
}
