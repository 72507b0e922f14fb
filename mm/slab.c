/*
 * The slab allocator: caches of equal objects, cut from blocks of frames ("slabs"), and kmalloc on top of a row of
 * such caches.
 *
 * Each CPU has for each cache a chain of free objects; allocating takes the first, freeing puts one back, and nothing
 * else is touched. Only when the chain is empty or too long does a batch of objects move from or to the slabs, under
 * the cache's lock. An object on a CPU's chain counts as used in its slab; a slab without used objects goes back to
 * the frame allocator, one spare aside.
 *
 *	slot in release builds:	| object ... |			the link of a free object lies in its first word
 *	slot in debug builds:	| object ... | red zone | track |	the link lies in the track: all of the object is poisoned
 *
 * Where the sanitizer is on (mm/kasan.h), only the bytes that were asked for may be touched, and a freed object waits in
 * its CPU's quarantine for a while before it can be had again. This file is compiled without the checks.
 *
 * Interrupt handlers may allocate and free (GFP_ATOMIC): everything here runs with interrupts off, for a few dozen
 * instructions.
 */
#include "mm/slab.h"

#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/smp.h"
#include "kernel/string.h"
#include "mm/kasan.h"
#include "mm/vmstat.h"

#define MAX_SLAB_ORDER	3
#define SPARE_SLABS	1u	/* empty slabs that a cache keeps */

/* Own CPU only, interrupts off; others may read nr and alive. */
struct kmem_cache_cpu {
	void	*free;		/* chain of free objects */
	u32	 nr;		/* its length */
	s64	 alive;		/* objects allocated minus objects freed here; the sum over CPUs is exact when all is quiet */
	u64	 unused;
};

/*
 *   I  constant after creation     L  lock      A  written once by its CPU, then constant
 */
struct kmem_cache {
	struct spinlock	 lock;		/* LOCK_SLAB */
	u32		 nr_empty;	/* L  slabs on partial without used objects */
	struct list_head partial;	/* L  slabs with at least one free object */
	u64		 nr_slabs;	/* L */
	s64		 alive_rest;	/* atomic: what the per-CPU counts miss */
	const char	*name;		/* I */
	u32		 size;		/* I  as asked for */
	u32		 object_size;	/* I  in whole words */
	u32		 slot_size;	/* I */
	u32		 link_offset;	/* I  of the link within a free slot */
	u32		 per_slab;	/* I */
	u32		 order;		/* I  frames of a slab */
	u32		 batch, limit;	/* I  objects moved at once; longest chain of a CPU */
	struct kmem_cache *next;	/* I  all caches; appended with release, read without a lock */
	struct kmem_cache_cpu *cpu[NR_CPUS];	/* A */
};

static struct kmem_cache first_cache;			/* the cache of struct kmem_cache */
static struct kmem_cache *all_caches = &first_cache, **all_caches_end = &first_cache.next;

static void *alloc_slow(struct kmem_cache *c, unsigned int gfp);
static void flush_batch(struct kmem_cache *c, struct kmem_cache_cpu *cc, u32 n);
static struct kmem_cache_cpu *try_create_cpu(struct kmem_cache *c);
static __noinline void free_without_cpu(struct kmem_cache *c, void *obj);
#ifdef KASAN
static bool quarantine_add(struct kmem_cache *c, void *obj);
#else
static bool quarantine_add(struct kmem_cache *c, void *obj) { (void)c; (void)obj; return false; }
#endif

static void **link_of(const struct kmem_cache *c, void *obj)
{
	return (void **)((char *)obj + c->link_offset);
}

/* -- checks of the debug build --------------------------------------------------------------------------------- */

#ifdef DEBUG
#define RED_ZONE	0xbbbbbbbbbbbbbbbbul
#define POISON_FREE	0x6b
#define POISON_NEW	0x5a
#define STATE_USED	0x1a110ca7edul
#define STATE_FREE	0x0f4eed0b1ul

/* Behind the object and its red zone. */
struct track {
	void		*link;
	u64		 state;
	uintptr_t	 allocated_by, freed_by;
};
#define TRACK_SIZE	(sizeof(u64) + sizeof(struct track))

static struct track *track_of(const struct kmem_cache *c, void *obj)
{
	return (struct track *)((char *)obj + c->object_size + sizeof(u64));
}

static u64 *red_zone_of(const struct kmem_cache *c, void *obj)
{
	return (u64 *)((char *)obj + c->object_size);
}

static void __noreturn slab_bug(const struct kmem_cache *c, void *obj, const char *what, uintptr_t by)
{
	struct track *t = track_of(c, obj);

	panic("slab %s: object %p %s, by %pS; last allocated by %pS, freed by %pS", c->name, obj, what, (void *)by,
	      (void *)t->allocated_by, (void *)t->freed_by);
}

static void debug_new_slot(const struct kmem_cache *c, void *obj)
{
	memset(obj, POISON_FREE, c->object_size);
	*red_zone_of(c, obj) = RED_ZONE;
	*track_of(c, obj) = (struct track){ .state = STATE_FREE };
	kasan_poison(obj, c->slot_size, KASAN_RED_ZONE);
	kasan_poison(obj, c->object_size, KASAN_FREE_OBJECT);
}

static void debug_alloc(const struct kmem_cache *c, void *obj, uintptr_t caller)
{
	struct track *t = track_of(c, obj);

	if (t->state != STATE_FREE || *red_zone_of(c, obj) != RED_ZONE)
		slab_bug(c, obj, "was overwritten while free", caller);
	for (u32 i = 0; i < c->object_size; i++)
		if (((u8 *)obj)[i] != POISON_FREE)
			slab_bug(c, obj, "was written to after it had been freed", caller);
	kasan_unpoison(obj, c->object_size);
	t->state = STATE_USED;
	t->allocated_by = caller;
	memset(obj, POISON_NEW, c->object_size);
}

static void debug_free(const struct kmem_cache *c, void *obj, uintptr_t caller)
{
	const struct page *slab = page_head(virt_to_page(obj));
	uintptr_t offset = (uintptr_t)obj - (uintptr_t)page_to_virt(slab);
	struct track *t = track_of(c, obj);

	if (slab->slab_cache != c || offset % c->slot_size || offset / c->slot_size >= c->per_slab)
		panic("slab %s: %p is not an object of it, freed by %pS", c->name, obj, (void *)caller);
	if (t->state == STATE_FREE)
		slab_bug(c, obj, "freed twice", caller);
	if (t->state != STATE_USED || *red_zone_of(c, obj) != RED_ZONE)
		slab_bug(c, obj, "was written past its end", caller);
	t->state = STATE_FREE;
	t->freed_by = caller;
	kasan_unpoison(obj, c->object_size);
	memset(obj, POISON_FREE, c->object_size);
	kasan_poison(obj, c->object_size, KASAN_FREE_OBJECT);
}
#else
#define TRACK_SIZE 0
static void debug_new_slot(const struct kmem_cache *c, void *obj) { (void)c; (void)obj; }
static void debug_alloc(const struct kmem_cache *c, void *obj, uintptr_t caller) { (void)c; (void)obj; (void)caller; }
static void debug_free(const struct kmem_cache *c, void *obj, uintptr_t caller) { (void)c; (void)obj; (void)caller; }
#endif

/* -- objects --------------------------------------------------------------------------------------------------- */

/* Of the @room bytes of an allocation, @size were asked for. */
static void set_usable(const void *p, size_t size, size_t room)
{
	size_t words = ALIGN_UP(size, 8ul);

	kasan_unpoison(p, size);
	if (words < room)
		kasan_poison((const char *)p + words, room - words, KASAN_RED_ZONE);
}

static inline __attribute__((always_inline)) void *__cache_alloc(struct kmem_cache *c, size_t size, unsigned int gfp, uintptr_t caller)
{
	void *obj = NULL;

	if (alloc_should_fail())
		return NULL;
	unsigned long flags = local_irq_save();
	struct kmem_cache_cpu *cc = c->cpu[smp_processor_id()];
	if (likely(cc && cc->free)) {
		obj = cc->free;
		cc->free = *link_of(c, obj);
		cc->nr--;
		cc->alive++;
	}
	local_irq_restore(flags);

	if (unlikely(!obj)) {
		obj = alloc_slow(c, gfp);
		if (!obj)
			return NULL;
	}
	debug_alloc(c, obj, caller);
	if (gfp & GFP_ZERO)
		memset(obj, 0, c->object_size);
	set_usable(obj, size, c->object_size);
	return obj;
}

/* Onto this CPU's chain. Interrupts off. */
static inline __attribute__((always_inline)) void put_object(struct kmem_cache *c, void *obj)
{
	struct kmem_cache_cpu *cc = c->cpu[smp_processor_id()];

	if (unlikely(!cc)) {
		cc = try_create_cpu(c);
		if (!cc) {
			free_without_cpu(c, obj);
			return;
		}
	}
	*link_of(c, obj) = cc->free;
	cc->free = obj;
	cc->alive--;
	if (unlikely(++cc->nr > c->limit))
		flush_batch(c, cc, c->batch);
}

static inline __attribute__((always_inline)) void __cache_free(struct kmem_cache *c, void *obj, uintptr_t caller)
{
	debug_free(c, obj, caller);
	unsigned long flags = local_irq_save();
	if (!quarantine_add(c, obj))
		put_object(c, obj);
	local_irq_restore(flags);
}

#ifdef KASAN
/*
 * The last objects freed on a CPU, oldest first: nobody can have them, so who still uses one is found. They count as free
 * (alive_rest), which is taken back when they leave, as put_object() counts them then.
 */
#define QUARANTINE_OBJECTS	512u
#define QUARANTINE_BYTES	(256ul << 10)
struct quarantine {
	u32	 first, nr;			/* own CPU only, interrupts off, as all of it */
	u64	 bytes;
	void	*objects[QUARANTINE_OBJECTS];
};
static DEFINE_PER_CPU(struct quarantine, quarantine);

static void quarantine_release(struct quarantine *q)
{
	void *obj = q->objects[q->first];
	struct kmem_cache *c = page_head(virt_to_page(obj))->slab_cache;

	q->first = (q->first + 1) % QUARANTINE_OBJECTS;
	q->nr--;
	q->bytes -= c->slot_size;
	__atomic_fetch_add(&c->alive_rest, 1, __ATOMIC_RELAXED);
	put_object(c, obj);
}

/* Interrupts off. False: the caller frees it at once. */
static bool quarantine_add(struct kmem_cache *c, void *obj)
{
	struct quarantine *q = this_cpu_ptr(&quarantine);

	if (!kasan_enabled())
		return false;
	while (q->nr == QUARANTINE_OBJECTS || (q->nr && q->bytes + c->slot_size > QUARANTINE_BYTES))
		quarantine_release(q);
	q->objects[(q->first + q->nr++) % QUARANTINE_OBJECTS] = obj;
	q->bytes += c->slot_size;
	__atomic_fetch_sub(&c->alive_rest, 1, __ATOMIC_RELAXED);
	return true;
}

void slab_quarantine_drain(void)
{
	struct quarantine *q = this_cpu_ptr(&quarantine);

	while (q->nr)
		quarantine_release(q);
}
#endif

void *kmem_cache_alloc(struct kmem_cache *c, unsigned int gfp)
{
	return __cache_alloc(c, c->size, gfp, (uintptr_t)__builtin_return_address(0));
}

void kmem_cache_free(struct kmem_cache *c, void *obj)
{
	__cache_free(c, obj, (uintptr_t)__builtin_return_address(0));
}

/* Interrupts off. This CPU's part of @c, cut from a page that only this CPU writes; NULL: no memory. */
static DEFINE_PER_CPU(char *, cpu_part_next);
static DEFINE_PER_CPU(size_t, cpu_part_left);

static struct kmem_cache_cpu *try_create_cpu(struct kmem_cache *c)
{
	char **next = this_cpu_ptr(&cpu_part_next);
	size_t *left = this_cpu_ptr(&cpu_part_left);

	if (*left < sizeof(struct kmem_cache_cpu)) {
		struct page *p = __alloc_pages(GFP_ATOMIC | GFP_ZERO | GFP_NOWARN, 0);

		if (!p)
			return NULL;
		*next = page_to_virt(p);
		*left = PAGE_SIZE;
		vm_count(VM_nr_slab);
	}
	struct kmem_cache_cpu *cc = (struct kmem_cache_cpu *)*next;
	*next += sizeof(*cc);
	*left -= sizeof(*cc);
	c->cpu[smp_processor_id()] = cc;
	return cc;
}

/* A CPU that has never used @c frees an object of it, and there is no memory for its part: straight to the slab. */
static __noinline void free_without_cpu(struct kmem_cache *c, void *obj)
{
	struct kmem_cache_cpu once = { .free = obj, .nr = 1 };

	*link_of(c, obj) = NULL;
	__atomic_fetch_sub(&c->alive_rest, 1, __ATOMIC_RELAXED);
	flush_batch(c, &once, 1);
}

/* -- slabs ----------------------------------------------------------------------------------------------------- */

static struct page *new_slab(struct kmem_cache *c, unsigned int gfp)
{
	struct page *slab = __alloc_pages(gfp & ~(GFP_ZERO | GFP_USER), c->order);

	if (!slab)
		return NULL;
	slab->flags |= 1u << PG_slab;
	slab->slab_cache = c;
	slab->objects = c->per_slab;
	slab->inuse = 0;
	slab->freelist = NULL;
	for (u32 i = c->per_slab; i-- > 0; ) {
		void *obj = (char *)page_to_virt(slab) + i * c->slot_size;

		debug_new_slot(c, obj);
		*link_of(c, obj) = slab->freelist;
		slab->freelist = obj;
	}
	vm_count_add(VM_nr_slab, 1l << c->order);
	return slab;
}

static void free_slab(struct kmem_cache *c, struct page *slab)
{
	slab->flags &= ~(1u << PG_slab);
	slab->slab_cache = NULL;
	vm_count_add(VM_nr_slab, -(1l << c->order));
	free_pages(slab, c->order);
}

/* Moves up to a batch of objects from the slabs to @cc. c->lock held. */
static void take_batch(struct kmem_cache *c, struct kmem_cache_cpu *cc)
{
	while (cc->nr < c->batch && !list_empty(&c->partial)) {
		struct page *slab = list_first_entry(&c->partial, struct page, slab_list);

		if (slab->inuse == 0)
			c->nr_empty--;
		while (cc->nr < c->batch && slab->freelist) {
			void *obj = slab->freelist;

			slab->freelist = *link_of(c, obj);
			slab->inuse++;
			*link_of(c, obj) = cc->free;
			cc->free = obj;
			cc->nr++;
		}
		if (!slab->freelist)
			list_del(&slab->slab_list);
	}
}

/* The chain of this CPU is empty. Interrupts as the caller has them: frames may have to be asked from other CPUs. */
static void *alloc_slow(struct kmem_cache *c, unsigned int gfp)
{
	struct page *slab = NULL;

	for (;;) {
		void *obj = NULL;
		unsigned long flags = local_irq_save();
		struct kmem_cache_cpu *cc = c->cpu[smp_processor_id()];

		if (!cc)
			cc = try_create_cpu(c);
		spin_lock(&c->lock);
		if (slab) {
			list_add(&slab->slab_list, &c->partial);
			c->nr_slabs++;
			c->nr_empty++;
		}
		if (cc && !cc->free)
			take_batch(c, cc);
		spin_unlock(&c->lock);
		if (cc && cc->free) {
			obj = cc->free;
			cc->free = *link_of(c, obj);
			cc->nr--;
			cc->alive++;
		}
		local_irq_restore(flags);
		if (obj || !cc)
			return obj;
		/* Another CPU may take what we add now; then we add more, so this ends. */
		slab = new_slab(c, gfp);
		if (!slab)
			return NULL;
	}
}

/* Returns @n objects of @cc to their slabs; slabs that become empty, spares aside, to the frames. Interrupts off. */
static void flush_batch(struct kmem_cache *c, struct kmem_cache_cpu *cc, u32 n)
{
	LIST_HEAD(dead);

	spin_lock(&c->lock);
	for (; n && cc->free; n--) {
		void *obj = cc->free;
		struct page *slab = page_head(virt_to_page(obj));

		cc->free = *link_of(c, obj);
		cc->nr--;
		if (!slab->freelist)
			list_add(&slab->slab_list, &c->partial);
		*link_of(c, obj) = slab->freelist;
		slab->freelist = obj;
		if (--slab->inuse)
			continue;
		if (c->nr_empty < SPARE_SLABS) {
			c->nr_empty++;
			list_move_tail(&slab->slab_list, &c->partial);	/* used last, so that it can go */
		} else {
			c->nr_slabs--;
			list_move(&slab->slab_list, &dead);
		}
	}
	spin_unlock(&c->lock);
	while (!list_empty(&dead)) {
		struct page *slab = list_first_entry(&dead, struct page, slab_list);

		list_del(&slab->slab_list);
		free_slab(c, slab);
	}
}

static void slab_drain_cpu(void *unused)
{
	(void)unused;
	slab_quarantine_drain();
	for (struct kmem_cache *c = all_caches; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE)) {
		struct kmem_cache_cpu *cc = c->cpu[smp_processor_id()];

		if (cc)
			flush_batch(c, cc, cc->nr);
	}
}

/* Interrupts on, no spin lock held. */
void slab_drain(void)
{
	smp_call_function(cpu_online_mask, slab_drain_cpu, NULL, true);
	for (struct kmem_cache *c = all_caches; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE)) {
		unsigned long flags = spin_lock_irqsave(&c->lock);
		struct page *slab, *tmp;
		LIST_HEAD(dead);

		list_for_each_entry_safe(slab, tmp, &c->partial, slab_list) {
			if (slab->inuse)
				continue;
			list_move(&slab->slab_list, &dead);
			c->nr_slabs--;
			c->nr_empty--;
		}
		spin_unlock_irqrestore(&c->lock, flags);
		list_for_each_entry_safe(slab, tmp, &dead, slab_list)
			free_slab(c, slab);
	}
}

/* -- caches ---------------------------------------------------------------------------------------------------- */

static void cache_init(struct kmem_cache *c, const char *name, size_t size, size_t align)
{
	if (align < 8)
		align = 8;
	BUG_ON(!size || size > (PAGE_SIZE << 10) || (align & (align - 1)) || align > PAGE_SIZE);
	*c = (struct kmem_cache){ .name = name };
	spin_lock_init(&c->lock, LOCK_SLAB);
	INIT_LIST_HEAD(&c->partial);
	c->size = (u32)size;
	c->object_size = (u32)ALIGN_UP(size, 8ul);
	c->slot_size = (u32)ALIGN_UP(c->object_size + TRACK_SIZE, align);
	c->link_offset = TRACK_SIZE ? c->object_size + (u32)sizeof(u64) : 0;
	/* The smallest block that wastes no more than an eighth and holds some objects, if there is one. */
	while (c->order < MAX_SLAB_ORDER &&
	       ((PAGE_SIZE << c->order) / c->slot_size < 4 || (PAGE_SIZE << c->order) % c->slot_size > (PAGE_SIZE << c->order) / 8))
		c->order++;
	while ((PAGE_SIZE << c->order) < c->slot_size)
		c->order++;
	c->per_slab = (u32)((PAGE_SIZE << c->order) / c->slot_size);
	/* About two pages of objects per CPU at rest, but enough of the large ones to save locking. */
	c->batch = clamp((u32)(2 * PAGE_SIZE / c->slot_size), 4u, 32u);
	c->limit = 2 * c->batch;
}

/* Caches live for ever. Boot or process context. */
struct kmem_cache *kmem_cache_create(const char *name, size_t size, size_t align)
{
	static struct spinlock lock = SPINLOCK_INIT(LOCK_SLAB);
	struct kmem_cache *c = kmem_cache_alloc(&first_cache, GFP_KERNEL);

	if (!c)
		halt_with_message("Not enough memory to start: no room for the cache of %s.", name);
	cache_init(c, name, size, align);
	unsigned long flags = spin_lock_irqsave(&lock);
	__atomic_store_n(all_caches_end, c, __ATOMIC_RELEASE);
	all_caches_end = &c->next;
	spin_unlock_irqrestore(&lock, flags);
	return c;
}

/* -- kmalloc --------------------------------------------------------------------------------------------------- */

#define KMALLOC_MAX_SLAB	2048ul			/* from here on whole pages, which are aligned to pages */
#define KMALLOC_MAX_ORDER	10
#define KMALLOC_PAGES		0x6b6d616c6c6f6355ul	/* page->private of a kmalloc block: what kfree accepts */

static const struct { u32 size; const char *name; } kmalloc_sizes[] = {
	{ 8, "kmalloc-8" }, { 16, "kmalloc-16" }, { 32, "kmalloc-32" }, { 64, "kmalloc-64" }, { 96, "kmalloc-96" },
	{ 128, "kmalloc-128" }, { 192, "kmalloc-192" }, { 256, "kmalloc-256" }, { 512, "kmalloc-512" },
	{ 1024, "kmalloc-1k" }, { 2048, "kmalloc-2k" },
};
static struct kmem_cache *kmalloc_caches[ARRAY_SIZE(kmalloc_sizes)];
static u8 kmalloc_class[KMALLOC_MAX_SLAB / 8 + 1];	/* by size in words, rounded up */

void slab_init(void)
{
	unsigned int class = 0;

	cache_init(&first_cache, "kmem_cache", sizeof(struct kmem_cache), 64);
	for (unsigned int i = 0; i < ARRAY_SIZE(kmalloc_sizes); i++)
		kmalloc_caches[i] = kmem_cache_create(kmalloc_sizes[i].name, kmalloc_sizes[i].size,
						      kmalloc_sizes[i].size & (kmalloc_sizes[i].size - 1) ? 32 : min(kmalloc_sizes[i].size, 64u));
	for (unsigned int words = 0; words < ARRAY_SIZE(kmalloc_class); words++) {
		if (words * 8 > kmalloc_sizes[class].size)
			class++;
		kmalloc_class[words] = (u8)class;
	}
}

static void *kmalloc_pages(size_t size, unsigned int gfp)
{
	unsigned int order = size <= PAGE_SIZE ? 0 : 64 - PAGE_SHIFT - (unsigned int)__builtin_clzl(size - 1);

	if (order > KMALLOC_MAX_ORDER)
		return NULL;
	struct page *p = alloc_pages(gfp, order);
	if (!p)
		return NULL;
	p->private = KMALLOC_PAGES;
	set_usable(page_to_virt(p), size, PAGE_SIZE << order);
	return page_to_virt(p);
}

/* Size 0 gives a valid pointer to nothing. */
void *kmalloc(size_t size, unsigned int gfp)
{
	if (unlikely(size > KMALLOC_MAX_SLAB))
		return kmalloc_pages(size, gfp);
	return __cache_alloc(kmalloc_caches[kmalloc_class[(size + 7) / 8]], size, gfp, (uintptr_t)__builtin_return_address(0));
}

void kfree(const void *p)
{
	if (!p)
		return;
	struct page *page = page_head(virt_to_page(p));
	if (likely(page_test(page, PG_slab))) {
		__cache_free(page->slab_cache, (void *)p, (uintptr_t)__builtin_return_address(0));
		return;
	}
	if (page->private != KMALLOC_PAGES || p != page_to_virt(page))
		panic("kfree(%p): not from kmalloc, or freed before", p);
	free_pages(page, page->order);
}

static size_t room_of(const void *p)
{
	struct page *page = page_head(virt_to_page(p));

	return page_test(page, PG_slab) ? page->slab_cache->object_size : PAGE_SIZE << page->order;
}

/* Bytes that may be used: who asks may use them all. */
size_t ksize(const void *p)
{
	size_t room = room_of(p);

	kasan_unpoison(p, room);
	return room;
}

void *kcalloc(size_t n, size_t size, unsigned int gfp)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	return kmalloc(bytes, gfp | GFP_ZERO);
}

/* NULL leaves @p as it was. What is added is not cleared. */
void *krealloc(void *p, size_t size, unsigned int gfp)
{
	if (!p)
		return kmalloc(size, gfp);
	size_t old = room_of(p);
	if (size <= old && size >= old / 4) {
		set_usable(p, size, old);
		return p;
	}
	void *q = kmalloc(size, gfp & ~GFP_ZERO);
	if (!q)
		return size <= old ? p : NULL;
	kasan_unpoison(p, old);			/* what was not asked for is copied, too: we do not know how much that was */
	memcpy(q, p, min(size, old));
	kfree(p);
	return q;
}

char *kstrdup(const char *s, unsigned int gfp)
{
	size_t n = strlen(s) + 1;
	char *copy = kmalloc(n, gfp);

	return copy ? memcpy(copy, s, n) : NULL;
}

/* -- reports --------------------------------------------------------------------------------------------------- */

#ifdef KASAN
/* For a panic: without locks. */
size_t slab_describe(const void *addr, char *buf, size_t size)
{
	struct page *slab = page_head(virt_to_page(addr));

	if (!page_test(slab, PG_slab) || !slab->slab_cache)
		return 0;
	const struct kmem_cache *c = slab->slab_cache;
	uintptr_t offset = (uintptr_t)addr - (uintptr_t)page_to_virt(slab);
	if (offset / c->slot_size >= c->per_slab)
		return (size_t)scnprintf(buf, size, "behind the last object of a slab of %s", c->name);
	char *obj = (char *)page_to_virt(slab) + offset / c->slot_size * c->slot_size;
	const struct track *t = track_of(c, obj);
	size_t usable = kasan_usable(obj, c->object_size);
	offset %= c->slot_size;
	if (t->state != STATE_USED)
		return (size_t)scnprintf(buf, size, "byte %lu of the free object %p of %s (%u bytes); last allocated by %pS, freed by %pS",
					 offset, obj, c->name, c->size, (void *)t->allocated_by, (void *)t->freed_by);
	return (size_t)scnprintf(buf, size, "%lu bytes behind the %lu bytes of object %p of %s; allocated by %pS",
				 offset - usable, usable, obj, c->name, (void *)t->allocated_by);
}
#endif

static u64 alive(const struct kmem_cache *c)
{
	s64 sum = READ_ONCE(c->alive_rest);

	for (unsigned int cpu = 0; cpu < NR_CPUS; cpu++)
		if (c->cpu[cpu])
			sum += READ_ONCE(c->cpu[cpu]->alive);
	return sum > 0 ? (u64)sum : 0;
}

u64 slab_objects(const char *cache_name)
{
	for (struct kmem_cache *c = all_caches; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
		if (!strcmp(c->name, cache_name))
			return alive(c);
	return 0;
}

size_t slab_format(char *buf, size_t size)
{
	size_t n = (size_t)scnprintf(buf, size, "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize> "
				     "<objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata "
				     "<active_slabs> <num_slabs> <sharedavail>\n");

	for (struct kmem_cache *c = all_caches; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE)) {
		u64 slabs = READ_ONCE(c->nr_slabs);

		n += (size_t)scnprintf(buf + n, size - n, "%-17s %6lu %6lu %6u %4u %4u : tunables %4u %4u 0 : slabdata %6lu %6lu 0\n",
				       c->name, alive(c), slabs * c->per_slab, c->object_size, c->per_slab, 1u << c->order,
				       c->limit, c->batch, slabs, slabs);
	}
	return n;
}
