/*
 * The frame allocator. One set of binary buddies for the whole machine, and in front of it a small stack of single
 * frames on each CPU, from which nearly all allocations are served without touching a line that another CPU writes.
 *
 * A free block of order n is 2^n frames, aligned to its size. Its first page has PG_buddy and the order; the others
 * carry no mark at all, so a page is the head of a free block iff PG_buddy is set. Two buddies never stay free side
 * by side: putting a block back merges as far as it goes. Frames in a CPU's cache are allocated as far as the buddies
 * know (no PG_buddy), hence they are never merged away under their owner.
 *
 * The rule that is easy to break: a frame is given back only when no CPU can reach it any more. Frames that were
 * mapped by user page tables come here from tlb_flush() or after flush_tlb_page(), never directly (mm/tlb.h).
 */
#include "mm/frame.h"

#include "kernel/boot_info.h"
#include "kernel/printk.h"
#include "kernel/smp.h"
#include "kernel/string.h"
#include "mm/debug.h"
#include "mm/hugetlb.h"
#include "mm/kasan.h"

#define SECTION_ORDER		(SECTION_SHIFT - PAGE_SHIFT)
#define FRAME_CACHE_MAX		256u
#define FRAME_CACHE_BATCH	64u

/* Flags that a page must not have when it is freed, those that vanish with it are all the others. */
#define PAGE_FLAGS_BUSY	(1u << PG_locked | 1u << PG_writeback | 1u << PG_buddy | 1u << PG_slab | 1u << PG_table | \
			 1u << PG_tail | 1u << PG_reserved | 1u << PG_hugetlb)

/*
 *   B  lock     I  constant after boot     L  its CPU only, interrupts off; others may read
 */
static struct buddy {
	struct spinlock		 lock;			/* LOCK_BUDDY */
	u32			 nonempty;		/* B  bit n set iff free[n] is not empty */
	u64			 nr_free;		/* B  frames on the lists */
	struct list_head	 free[MAX_ORDER + 1];	/* B  by page->lru */
	u64			 nr_blocks[MAX_ORDER + 1];	/* B */
	u64			 nr_managed __aligned(64);	/* I  frames that were ever given to us */
	u64			 reserve;		/* I  frames that GFP_USER leaves; GFP_KERNEL leaves a quarter of them */
	u32			 cache_limit, cache_batch;	/* I */
	u64			*section_map;		/* I  bit n: vmemmap has section n */
	u64			 nr_sections;		/* I */
} buddy = { .lock = SPINLOCK_INIT(LOCK_BUDDY) };

struct frame_cache {
	u64		 nr;				/* L */
	u64		 allocs, frees;			/* L  frames of all orders, for /proc/vmstat */
	struct page	*pages[FRAME_CACHE_MAX];	/* L  the last one is the hottest */
} __aligned(64);
static DEFINE_PER_CPU(struct frame_cache, frame_cache);

static struct page *alloc_pages_slow(unsigned int gfp, unsigned int order);
static void cache_drain(struct frame_cache *fc, u64 n);
static struct page *buddy_alloc(unsigned int gfp, unsigned int order);
static void buddy_free(struct page *p, unsigned int order);

/* The hottest frame of this CPU, or NULL. Half of all allocations in the system run through these few lines. */
static inline __attribute__((always_inline)) struct page *cache_pop(void)
{
	struct page *p = NULL;
	unsigned long flags = local_irq_save();
	struct frame_cache *fc = this_cpu_ptr(&frame_cache);

	if (likely(fc->nr)) {
		p = fc->pages[--fc->nr];
		fc->allocs++;
	}
	local_irq_restore(flags);
	return p;
}

/* Allocated, but for the contents: what alloc_pages() promises about struct page. */
static inline __attribute__((always_inline)) void prepare_single(struct page *p)
{
	debug_frame_alloc(p, 0);
	/* Relaxed is enough: a lockless try_get_page() that sees this count re-checks whose page it got. */
	__atomic_store_n(&p->refcount, 1, __ATOMIC_RELAXED);
	p->order = 0;
}

/*
 * 1 << order frames with refcount 1 in the head, or NULL. A block of order > 0 is a folio: its tails point to the
 * head. Any context; only without GFP_ATOMIC, and only where sleeping is allowed, does it ask other CPUs for theirs.
 */
static inline __attribute__((always_inline)) struct page *alloc_any(unsigned int gfp, unsigned int order)
{
	struct page *p = likely(order == 0) ? cache_pop() : NULL;

	if (unlikely(!p))
		return alloc_pages_slow(gfp, order);
	prepare_single(p);
	if (gfp & GFP_ZERO)
		clear_pages(page_to_virt(p), 0);
	return p;
}

struct page *alloc_pages(unsigned int gfp, unsigned int order)
{
	if (alloc_should_fail())
		return NULL;
	return alloc_any(gfp, order);
}

struct page *__alloc_pages(unsigned int gfp, unsigned int order)
{
	return alloc_any(gfp, order);
}

static void check_free(struct page *p)
{
	if (unlikely((p->flags & PAGE_FLAGS_BUSY) || p->mapcount))
		panic("frame %lx freed while in use: flags %x, map count %u, references %u", page_to_pfn(p), p->flags,
		      p->mapcount, p->refcount);
}

/* The page as the next owner expects it; the count is 0 already. */
static void reset_page(struct page *p)
{
	p->flags = 0;
	p->mapping = NULL;
	p->private = 0;
}

/* Gives @n single frames, reset already, to this CPU's cache. */
static inline __attribute__((always_inline)) void cache_push(struct page **pages, unsigned int n)
{
	unsigned long flags = local_irq_save();
	struct frame_cache *fc = this_cpu_ptr(&frame_cache);

	fc->frees += n;
	for (unsigned int i = 0; i < n; i++) {
		if (unlikely(fc->nr >= buddy.cache_limit))
			cache_drain(fc, min((u64)buddy.cache_batch, fc->nr));
		fc->pages[fc->nr++] = pages[i];
	}
	local_irq_restore(flags);
}

/*
 * The caller is the only owner of the block: count 1 (or 0, frozen), mapped nowhere. Any context. A lockless lookup in
 * the page cache may hold a reference for an instant, from when the frame was a cached page (mapping_find_get): then its
 * put_page() frees the block.
 */
void free_pages(struct page *p, unsigned int order)
{
	if (p->refcount && __atomic_sub_fetch(&p->refcount, 1, __ATOMIC_ACQ_REL))
		return;
	check_free(p);
	assert(!order || p->order == order);
	__atomic_store_n(&p->refcount, 0, __ATOMIC_RELAXED);
	reset_page(p);
	debug_frame_free(p, order, (uintptr_t)__builtin_return_address(0));
	if (likely(order == 0)) {
		cache_push(&p, 1);
		return;
	}
	for (u64 i = 1; i < 1ul << order; i++)
		p[i].flags = 0;
	buddy_free(p, order);
}

/* The last reference of a folio is gone; what its life as an anonymous or cached page left behind goes too. */
void __page_free_last(struct page *p)
{
	if (likely(!page_test(p, PG_head)))
		free_pages(p, 0);
	else if (page_test(p, PG_hugetlb))
		hugetlb_free_page(p);
	else
		free_pages(p, p->order);
}

/* Drops one reference of each page. Clobbers the array. Any context. */
void release_pages(struct page **pages, unsigned int n)
{
	unsigned int dead = 0;

	for (unsigned int i = 0; i < n; i++) {
		struct page *p = pages[i];
		u32 old = __atomic_fetch_sub(&p->refcount, 1, __ATOMIC_ACQ_REL);

		BUG_ON(old == 0);
		if (old != 1)
			continue;
		if (unlikely(page_test(p, PG_head))) {
			__page_free_last(p);
			continue;
		}
		check_free(p);
		reset_page(p);
		debug_frame_free(p, 0, (uintptr_t)__builtin_return_address(0));
		pages[dead++] = p;
	}
	cache_push(pages, dead);
}

void *get_free_page(unsigned int gfp)
{
	struct page *p = alloc_pages(gfp, 0);

	return p ? page_to_virt(p) : NULL;
}

void free_page(void *kaddr)
{
	free_pages(virt_to_page(kaddr), 0);
}

void clear_pages(void *kaddr, unsigned int order)
{
	u64 words = (PAGE_SIZE << order) / 8;

	__asm__ volatile("rep stosq" : "+D"(kaddr), "+c"(words) : "a"(0ul) : "memory");
}

/* -- the buddies ---------------------------------------------------------------------------------------------- */

static void list_block(struct page *p, unsigned int order)
{
	p->order = (u8)order;
	p->flags |= 1u << PG_buddy;	/* free pages have no other writer: no atomic needed */
	list_add(&p->lru, &buddy.free[order]);
	buddy.nr_blocks[order]++;
	buddy.nonempty |= 1u << order;
}

static void unlist_block(struct page *p, unsigned int order)
{
	list_del(&p->lru);
	p->flags &= ~(1u << PG_buddy);
	if (--buddy.nr_blocks[order] == 0)
		buddy.nonempty &= ~(1u << order);
}

/* Takes a free block of at least @order and splits it down, upper halves going back. buddy.lock held; NULL: none. */
static struct page *take_block(unsigned int order)
{
	u32 fits = buddy.nonempty & ~((1u << order) - 1);

	if (!fits)
		return NULL;
	unsigned int have = (unsigned int)__builtin_ctz(fits);
	struct page *p = list_first_entry(&buddy.free[have], struct page, lru);

	unlist_block(p, have);
	while (have > order) {
		have--;
		list_block(p + (1ul << have), have);
	}
	buddy.nr_free -= 1ul << order;
	return p;
}

/* The buddy of the block of @order at @pfn if that is free as a whole, else NULL. buddy.lock held. */
static struct page *free_buddy(pfn_t pfn, unsigned int order)
{
	pfn_t other = pfn ^ (1ul << order);

	/* Up to SECTION_ORDER the buddy is in the same section, so its struct page exists. */
	if (order >= SECTION_ORDER && !pfn_valid(other))
		return NULL;
	struct page *p = pfn_to_page(other);
	return page_test(p, PG_buddy) && p->order == order ? p : NULL;
}

/* buddy.lock held. */
static void put_block(struct page *p, unsigned int order)
{
	pfn_t pfn = page_to_pfn(p);

	buddy.nr_free += 1ul << order;
	while (order < MAX_ORDER) {
		struct page *other = free_buddy(pfn, order);

		if (!other)
			break;
		unlist_block(other, order);
		pfn &= ~(1ul << order);
		order++;
	}
	list_block(pfn_to_page(pfn), order);
}

/* Frames that an allocation with @gfp must leave to more urgent ones. */
static u64 reserve_for(unsigned int gfp)
{
	if (gfp & GFP_ATOMIC)
		return 0;
	return gfp & GFP_USER ? buddy.reserve : buddy.reserve / 4;
}

static struct page *buddy_alloc(unsigned int gfp, unsigned int order)
{
	struct page *p = NULL;
	unsigned long flags = spin_lock_irqsave(&buddy.lock);

	if (buddy.nr_free >= (1ul << order) + reserve_for(gfp))
		p = take_block(order);
	if (p)
		this_cpu_ptr(&frame_cache)->allocs += 1ul << order;
	spin_unlock_irqrestore(&buddy.lock, flags);
	return p;
}

static void buddy_free(struct page *p, unsigned int order)
{
	unsigned long flags = spin_lock_irqsave(&buddy.lock);

	this_cpu_ptr(&frame_cache)->frees += 1ul << order;
	put_block(p, order);
	spin_unlock_irqrestore(&buddy.lock, flags);
}

/* -- the caches in front of them ------------------------------------------------------------------------------ */

/*
 * Fills @fc with a batch: whole small blocks first, so that refilling eats the crumbs and leaves large blocks alone.
 * Interrupts off. Less than a batch, or nothing, when memory is short.
 */
static void cache_refill(struct frame_cache *fc, unsigned int gfp)
{
	u64 reserve = reserve_for(gfp);
	u64 want = buddy.cache_batch;

	spin_lock(&buddy.lock);
	if (buddy.nr_free < reserve + want)
		want = buddy.nr_free > reserve ? buddy.nr_free - reserve : 0;
	while (want) {
		unsigned int fit = 63 - (unsigned int)__builtin_clzl(want);
		unsigned int lowest = (unsigned int)__builtin_ctz(buddy.nonempty);	/* nr_free > 0: some bit is set */
		unsigned int order = min(fit, lowest);
		struct page *p = take_block(order);

		/* Highest address deepest: the stack hands them out upwards. */
		for (u64 i = 1ul << order; i-- > 0; )
			fc->pages[fc->nr++] = p + i;
		want -= 1ul << order;
	}
	spin_unlock(&buddy.lock);
}

/* Interrupts off. Gives the @n coldest frames back. */
static void cache_drain(struct frame_cache *fc, u64 n)
{
	spin_lock(&buddy.lock);
	for (u64 i = 0; i < n; i++)
		put_block(fc->pages[i], 0);
	spin_unlock(&buddy.lock);
	fc->nr -= n;
	memmove(fc->pages, fc->pages + n, fc->nr * sizeof(fc->pages[0]));
}

static void drain_this_cpu(void *unused)
{
	struct frame_cache *fc = this_cpu_ptr(&frame_cache);

	(void)unused;
	slab_quarantine_drain();	/* we are asked when memory is short */
	cache_drain(fc, fc->nr);
}

void drain_frame_caches(void)
{
	smp_call_function(cpu_online_mask, drain_this_cpu, NULL, true);
}

/* From the cache, refilled, or from the buddies. */
static struct page *take_frames(unsigned int gfp, unsigned int order)
{
	if (order)
		return buddy_alloc(gfp, order);
	unsigned long flags = local_irq_save();
	struct frame_cache *fc = this_cpu_ptr(&frame_cache);
	if (!fc->nr)
		cache_refill(fc, gfp);
	struct page *p = cache_pop();		/* before anybody else on this CPU can take them */
	local_irq_restore(flags);
	return p;
}

/*
 * This CPU's cache is empty, or a block is wanted. If the buddies have nothing, and where we may wait for other CPUs (no
 * spin lock, interrupts on), their caches are taken in and it is tried once more: they hold lone frames, and the
 * missing halves of large blocks.
 */
static __attribute__((noinline)) struct page *alloc_pages_slow(unsigned int gfp, unsigned int order)
{
	assert(order <= MAX_ORDER);
	struct page *p = take_frames(gfp, order);

	if (!p && !(gfp & (GFP_ATOMIC | GFP_NORETRY)) && preempt_count() == 0 && !irqs_disabled()) {
		drain_frame_caches();
		p = take_frames(gfp, order);
	}
	if (!p) {
		if (!(gfp & (GFP_NOWARN | GFP_USER)))
			pr_once("out of memory: no free block of %lu KiB (said once)", (PAGE_SIZE << order) >> 10);
		return NULL;
	}
	if (order) {
		debug_frame_alloc(p, order);
		__atomic_store_n(&p->refcount, 1, __ATOMIC_RELAXED);
		p->order = (u8)order;
		p->flags = 1u << PG_head;
		for (u64 i = 1; i < 1ul << order; i++) {
			p[i].flags = 1u << PG_tail;
			p[i].head = p;
		}
	} else {
		prepare_single(p);
	}
	if (gfp & GFP_ZERO)
		clear_pages(page_to_virt(p), order);
	return p;
}

/* -- boot and statistics -------------------------------------------------------------------------------------- */

bool pfn_valid(pfn_t pfn)
{
	u64 section = pfn >> SECTION_ORDER;

	return section < buddy.nr_sections && (buddy.section_map[section / 64] >> (section % 64) & 1);
}

/* @section_map: one bit per section whose struct pages are mapped and zero. */
void frame_init(u64 *section_map, u64 nr_sections)
{
	buddy.section_map = section_map;
	buddy.nr_sections = nr_sections;
	buddy.cache_limit = buddy.cache_batch = 1;
	for (unsigned int i = 0; i <= MAX_ORDER; i++)
		INIT_LIST_HEAD(&buddy.free[i]);
}

void frame_free_range(pfn_t start, pfn_t end)
{
	unsigned long flags = spin_lock_irqsave(&buddy.lock);

	buddy.nr_managed += end - start;
	kasan_frames_new(start, end);
	while (start < end) {
		unsigned int order = start ? (unsigned int)__builtin_ctzl(start) : MAX_ORDER;
		unsigned int fit = 63 - (unsigned int)__builtin_clzl(end - start);

		order = min(min(order, fit), (unsigned int)MAX_ORDER);
		put_block(pfn_to_page(start), order);
		start += 1ul << order;
	}
	spin_unlock_irqrestore(&buddy.lock, flags);
}

/*
 * The reserve keeps page tables, stacks and task structures obtainable while user pages use up the rest: the system
 * must be able to kill and to report. All caches together may hold at most an eighth of memory.
 */
void frame_init_done(void)
{
	u64 per_cpu = buddy.nr_managed / 8 / NR_CPUS;

	buddy.reserve = clamp(buddy.nr_managed / 64, 128ul, 8192ul);
	buddy.cache_limit = (u32)clamp(per_cpu, 16ul, (u64)FRAME_CACHE_MAX - 1);
	buddy.cache_batch = min(FRAME_CACHE_BATCH, buddy.cache_limit / 2);
}

u64 nr_total_pages(void)
{
	return buddy.nr_managed;
}

u64 nr_free_pages(void)
{
	u64 sum = READ_ONCE(buddy.nr_free);
	unsigned int cpu;

	for_each_cpu(cpu, cpu_online_mask)
		sum += READ_ONCE(per_cpu_ptr(&frame_cache, cpu)->nr);
	return sum;
}

/* Frames ever allocated and freed: the difference is what is in use, exactly when the system is quiet. */
u64 frame_events(bool freed)
{
	u64 sum = 0;
	unsigned int cpu;

	for_each_cpu(cpu, cpu_online_mask) {
		const struct frame_cache *fc = per_cpu_ptr(&frame_cache, cpu);

		sum += freed ? READ_ONCE(fc->frees) : READ_ONCE(fc->allocs);
	}
	return sum;
}

bool memory_is_available(void)
{
	return nr_free_pages() > buddy.reserve + buddy.cache_batch;
}

void frame_free_counts(u64 counts[MAX_ORDER + 1])
{
	unsigned long flags = spin_lock_irqsave(&buddy.lock);

	memcpy(counts, buddy.nr_blocks, sizeof(buddy.nr_blocks));
	spin_unlock_irqrestore(&buddy.lock, flags);
}

/* The archive is unpacked: its frames become ordinary memory. Those that mem= hides stay where they are. */
void free_initrd_memory(void)
{
	phys_addr_t highest;
	pfn_t start = boot_info.initrd >> PAGE_SHIFT;
	pfn_t end = DIV_ROUND_UP(boot_info.initrd + boot_info.initrd_size, PAGE_SIZE);

	if (!boot_info.initrd_size)
		return;
	boot_usable_bytes(&highest);
	end = min(end, highest >> PAGE_SHIFT);
	for (pfn_t pfn = start; pfn < end; pfn++) {
		struct page *p = pfn_to_page(pfn);

		BUG_ON(!page_test(p, PG_reserved));
		p->flags = 0;
		p->refcount = 0;
	}
	if (start < end)
		frame_free_range(start, end);
	boot_info.initrd_size = 0;
}
