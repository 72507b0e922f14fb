/*
 * Kernel virtual memory outside the direct map: vmalloc, device windows, kernel stacks.
 *
 * Address space is plenty (512 GiB, one pgd entry filled at boot), so it is managed without any search: ranges come in
 * powers of two of pages, a freed range is only ever used again for one of the same size, and what no free list has is
 * cut from the end. The first page of each range stays unmapped: the guard below it, and the one above its
 * predecessor.
 *
 * The rule that is easy to break: a range must not be used again while some CPU may still translate it to the old
 * frames. Unmapped ranges therefore wait on a list, and one flush of the whole area makes many of them free at once.
 * Their frames go at once: a stale translation can only be used by kernel code that uses memory after freeing it (in
 * debug builds such code faults, because there the flush comes first).
 */
#include "mm/slab.h"

#include "kernel/panic.h"
#include "kernel/smp.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/timer.h"
#include "mm/mm.h"
#include "mm/tlb.h"
#include "mm/vmstat.h"

#define AREA_END	(VMALLOC_START + PGD_SIZE)
#define NR_AREA_ORDERS	28
#define NR_BUCKETS	256
#ifdef DEBUG
#define MAX_LAZY_PAGES	0u
#else
#define MAX_LAZY_PAGES	2048u
#endif

/*
 * One range: [start, start + PAGE_SIZE << order), guard page included.  I constant while in use
 */
struct vmap_area {
	struct list_head node;		/* lock: hash chain, free list or lazy list */
	uintptr_t	 start;		/* I */
	u32		 order;		/* I */
	u32		 nr_pages;	/* I  mapped ones, from the second page on */
	bool		 owns_frames;	/* I  vmalloc: they are freed with it; device windows: not */
	bool		 is_stack;	/* I */
};

static struct {
	struct spinlock	 lock;				/* LOCK_VMALLOC: all below */
	uintptr_t	 next;				/* never used from here on */
	struct list_head free[NR_AREA_ORDERS];		/* by order; no CPU has translations */
	struct list_head lazy;				/* unmapped, not yet flushed */
	u64		 nr_lazy;			/* their pages */
	u64		 nr_pages;			/* frames in use */
	struct list_head used[NR_BUCKETS];		/* by address */
} areas = { .lock = SPINLOCK_INIT(LOCK_VMALLOC), .next = VMALLOC_START };

static struct list_head *bucket(uintptr_t start)
{
	return &areas.used[(start >> PAGE_SHIFT) * 0x9e3779b97f4a7c15ul >> 56];
}

/* -- address ranges -------------------------------------------------------------------------------------------- */

static struct vmap_area *pop_free(u32 order)
{
	struct vmap_area *a = list_first_entry_or_null(&areas.free[order], struct vmap_area, node);

	if (a)
		list_del(&a->node);
	return a;
}

/* A range of @nr pages and a guard page, in nobody's list; NULL: no memory. May sleep. */
static struct vmap_area *area_alloc(u64 nr, unsigned int gfp)
{
	u32 order = 64 - (u32)__builtin_clzl(nr);	/* room for nr + 1 */

	if (nr >= 1ul << (NR_AREA_ORDERS - 1))
		return NULL;
	spin_lock(&areas.lock);
	struct vmap_area *a = pop_free(order);
	spin_unlock(&areas.lock);
	if (!a) {
		a = kmalloc(sizeof(*a), gfp & ~GFP_ZERO);
		if (!a)
			return NULL;
		spin_lock(&areas.lock);
		uintptr_t start = ALIGN_UP(areas.next, PAGE_SIZE << order);
		bool fits = start + (PAGE_SIZE << order) <= AREA_END;
		if (fits)
			areas.next = start + (PAGE_SIZE << order);
		spin_unlock(&areas.lock);
		if (!fits) {
			kfree(a);
			return NULL;
		}
		a->start = start;
		a->order = order;
	}
	a->nr_pages = 0;
	a->owns_frames = a->is_stack = false;
	return a;
}

static uintptr_t area_addr(const struct vmap_area *a)
{
	return a->start + PAGE_SIZE;
}

static void area_publish(struct vmap_area *a)
{
	spin_lock(&areas.lock);
	list_add(&a->node, bucket(area_addr(a)));
	areas.nr_pages += a->owns_frames ? a->nr_pages : 0;
	spin_unlock(&areas.lock);
}

/* Takes the range that begins at @addr out of the hash; a wrong address is a bug. */
static struct vmap_area *area_take(uintptr_t addr)
{
	struct vmap_area *a;

	spin_lock(&areas.lock);
	list_for_each_entry(a, bucket(addr), node) {
		if (area_addr(a) != addr)
			continue;
		list_del(&a->node);
		areas.nr_pages -= a->owns_frames ? a->nr_pages : 0;
		spin_unlock(&areas.lock);
		return a;
	}
	panic("vfree(%p): no such range, or freed before", (void *)addr);
}

/* One flush for all ranges unmapped so far. They were put on the list before it began, so afterwards no CPU has them. */
static void flush_lazy(void)
{
	LIST_HEAD(flushed);

	spin_lock(&areas.lock);
	list_splice_init(&areas.lazy, &flushed);
	areas.nr_lazy = 0;
	uintptr_t end = areas.next;
	spin_unlock(&areas.lock);
	if (list_empty(&flushed))
		return;
	flush_tlb_kernel_range(VMALLOC_START, end);
	spin_lock(&areas.lock);
	while (!list_empty(&flushed)) {
		struct vmap_area *a = list_first_entry(&flushed, struct vmap_area, node);

		list_move(&a->node, &areas.free[a->order]);
	}
	spin_unlock(&areas.lock);
}

/* Unmaps; frees the frames if they are the area's; the range may be used again after the next flush. May sleep. */
static void area_free(struct vmap_area *a)
{
	LIST_HEAD(frames);

	for (u64 i = 0; i < a->nr_pages; i++) {
		pte_t *pte = kernel_pte(area_addr(a) + i * PAGE_SIZE);

		if (pte && a->owns_frames && pte_read(pte).v)
			list_add(&pte_page(pte_read(pte))->lru, &frames);
	}
	kernel_unmap(area_addr(a), a->nr_pages * PAGE_SIZE);
	spin_lock(&areas.lock);
	list_add(&a->node, &areas.lazy);
	areas.nr_lazy += a->nr_pages;
	bool flush = areas.nr_lazy > MAX_LAZY_PAGES;
	spin_unlock(&areas.lock);
	if (flush)
		flush_lazy();
	while (!list_empty(&frames)) {
		struct page *p = list_first_entry(&frames, struct page, lru);

		list_del(&p->lru);
		free_pages(p, 0);
	}
}

/* -- vmalloc --------------------------------------------------------------------------------------------------- */

static struct vmap_area *area_with_frames(u64 nr, unsigned int gfp)
{
	struct vmap_area *a = area_alloc(nr, gfp);

	if (!a)
		return NULL;
	a->owns_frames = true;
	for (u64 i = 0; i < nr; i++) {
		struct page *p = alloc_pages(gfp, 0);

		if (!p)
			goto undo;
		if (kernel_map(area_addr(a) + i * PAGE_SIZE, page_to_phys(p), PAGE_SIZE, KERNEL_RW)) {
			free_pages(p, 0);
			goto undo;
		}
		a->nr_pages++;
	}
	area_publish(a);
	return a;
undo:
	area_free(a);
	return NULL;
}

/* NULL when there is no memory. May sleep. */
void *vmalloc(size_t size, unsigned int gfp)
{
	struct vmap_area *a = size ? area_with_frames(DIV_ROUND_UP(size, PAGE_SIZE), gfp) : NULL;

	return a ? (void *)area_addr(a) : NULL;
}

void vfree(void *p)
{
	if (p)
		area_free(area_take((uintptr_t)p));
}

bool is_vmalloc_addr(const void *p)
{
	return (uintptr_t)p >= VMALLOC_START && (uintptr_t)p < VMALLOC_END;
}

void *kvmalloc(size_t size, unsigned int gfp)
{
	void *p = NULL;

	if (size <= 8 * PAGE_SIZE)
		p = kmalloc(size, gfp | GFP_NOWARN);
	return p ? p : vmalloc(size, gfp);
}

void kvfree(void *p)
{
	if (is_vmalloc_addr(p))
		vfree(p);
	else
		kfree(p);
}

u64 vmalloc_nr_pages(void)
{
	return READ_ONCE(areas.nr_pages);
}

/* -- device windows -------------------------------------------------------------------------------------------- */

static void *map_device(phys_addr_t phys, size_t size, u64 type)
{
	size_t offset = phys & ~PAGE_MASK, bytes = ALIGN_UP(offset + size, PAGE_SIZE);

	if (!size || phys + size < phys || phys + size > PTE_PFN_MASK + PAGE_SIZE)
		return NULL;
	struct vmap_area *a = area_alloc(bytes / PAGE_SIZE, GFP_KERNEL);
	if (!a)
		return NULL;
	a->nr_pages = (u32)(bytes / PAGE_SIZE);
	if (kernel_map(area_addr(a), phys - offset, bytes, KERNEL_RW | type)) {
		area_free(a);
		return NULL;
	}
	area_publish(a);
	return (void *)(area_addr(a) + offset);
}

void *ioremap(phys_addr_t phys, size_t size)
{
	return map_device(phys, size, PTE_TYPE_UC);
}

void *ioremap_wc(phys_addr_t phys, size_t size)
{
	return map_device(phys, size, PTE_TYPE_WC);
}

void iounmap(void *p)
{
	if (p)
		area_free(area_take((uintptr_t)p & PAGE_MASK));
}

/* -- kernel stacks --------------------------------------------------------------------------------------------- */

#define STACK_CACHE	8u	/* stacks kept by a CPU */
#define SPARE_STACKS	64u	/* and by all together, when forks and exits happen on different CPUs */

struct stack_cache { u32 nr; void *stacks[STACK_CACHE]; };
static DEFINE_PER_CPU(struct stack_cache, stack_cache);	/* own CPU, interrupts off */

/* Free mapped stacks beyond the caches, chained through their first words. */
static struct {
	struct spinlock	lock;	/* LOCK_LEAF_IRQ: exit frees its stack from within the scheduler */
	void		*first;
	u32		nr;
} spare = { .lock = SPINLOCK_INIT(LOCK_LEAF_IRQ) };
static struct work spare_trim;

static void *spare_pop(u32 keep)
{
	void *stack = NULL;
	unsigned long flags = spin_lock_irqsave(&spare.lock);

	if (spare.nr > keep) {
		stack = spare.first;
		spare.first = *(void **)stack;
		spare.nr--;
	}
	spin_unlock_irqrestore(&spare.lock, flags);
	return stack;
}

static u32 spare_push(void *stack)
{
	unsigned long flags = spin_lock_irqsave(&spare.lock);

	*(void **)stack = spare.first;
	spare.first = stack;
	u32 nr = ++spare.nr;
	spin_unlock_irqrestore(&spare.lock, flags);
	return nr;
}

void *kernel_stack_alloc(void)
{
	void *stack = NULL;
	unsigned long flags = local_irq_save();
	struct stack_cache *sc = this_cpu_ptr(&stack_cache);

	if (sc->nr)
		stack = sc->stacks[--sc->nr];
	local_irq_restore(flags);
	if (!stack)
		stack = spare_pop(0);
	if (!stack) {
		struct vmap_area *a = area_with_frames(KERNEL_STACK_SIZE / PAGE_SIZE, GFP_KERNEL);

		if (!a)
			return NULL;
		a->is_stack = true;
		stack = (void *)area_addr(a);
	}
	vm_count_add(VM_nr_kernel_stack, KERNEL_STACK_SIZE / 1024);
	return stack;
}

void kernel_stack_free(void *stack)
{
	vm_count_add(VM_nr_kernel_stack, -(s64)(KERNEL_STACK_SIZE / 1024));
	unsigned long flags = local_irq_save();
	struct stack_cache *sc = this_cpu_ptr(&stack_cache);
	bool kept = sc->nr < STACK_CACHE;

	if (kept)
		sc->stacks[sc->nr++] = stack;
	local_irq_restore(flags);
	if (!kept && spare_push(stack) > SPARE_STACKS)
		schedule_work(&spare_trim);		/* unmapping may sleep, we may not */
}

static void trim_spare_stacks(struct work *w)
{
	void *stack;

	(void)w;
	while ((stack = spare_pop(SPARE_STACKS / 2)))
		vfree(stack);
}

static void stack_cache_to_spare(void *unused)
{
	struct stack_cache *sc = this_cpu_ptr(&stack_cache);

	(void)unused;
	while (sc->nr)
		spare_push(sc->stacks[--sc->nr]);
}

/* Interrupts on; may sleep. */
void kernel_stack_drain(void)
{
	void *stack;

	smp_call_function(cpu_online_mask, stack_cache_to_spare, NULL, true);
	while ((stack = spare_pop(0)))
		vfree(stack);
}

/* From a double fault: nothing can be relied on, so no lock is waited for. */
bool kernel_stack_guard_hit(uintptr_t addr)
{
	uintptr_t stack = (addr & PAGE_MASK) + PAGE_SIZE;
	struct vmap_area *a;
	bool hit = false;

	if (!is_vmalloc_addr((void *)addr) || !spin_trylock(&areas.lock))
		return false;
	list_for_each_entry(a, bucket(stack), node)
		hit |= area_addr(a) == stack && a->is_stack;
	spin_unlock(&areas.lock);
	return hit;
}

void vmalloc_init(void)
{
	for (unsigned int i = 0; i < NR_AREA_ORDERS; i++)
		INIT_LIST_HEAD(&areas.free[i]);
	for (unsigned int i = 0; i < NR_BUCKETS; i++)
		INIT_LIST_HEAD(&areas.used[i]);
	INIT_LIST_HEAD(&areas.lazy);
	work_init(&spare_trim, trim_spare_stacks);
}
