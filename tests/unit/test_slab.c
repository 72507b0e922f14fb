/*
 * mm/slab.c on the host, on top of the real mm/frame.c.
 *
 * 1. random kmalloc, krealloc, kfree and caches of odd sizes on four CPUs, objects freed on other CPUs than they came
 *    from: aligned, disjoint, contents kept, counts of living objects exact; afterwards every frame comes back
 * 2. memory exhausted in the middle: NULL, nothing lost; freeing works on a CPU that has no memory for its own part
 * 3. with DEBUG (test_slab_debug.c includes this file): double free, foreign pointer, write past the end and write after
 *    free panic and name the cache
 */
#include "mm_host.h"

#include "mm/frame.c"
#include "mm/slab.c"

DEFINE_PER_CPU(struct vm_counters, vm_counters);
struct boot_info boot_info;
u64 boot_usable_bytes(phys_addr_t *highest) { *highest = TEST_PHYS; return 0; }

#define FIRST_FRAME	0x200ul
static u64 managed;

static u64 frames_alive(void) { return managed - nr_free_pages(); }

static void setup(void)
{
	static u64 sections[1] = { ~0ul };

	frame_init(sections, TEST_PHYS / SECTION_SIZE);
	frame_free_range(FIRST_FRAME, FIRST_FRAME + 16384);	/* 64 MiB */
	frame_init_done();
	managed = nr_total_pages();
	slab_init();
}

/* -- 1 -- */

struct object { u8 *p; size_t size; struct kmem_cache *cache; u8 seed; };

static void fill(struct object *o) { for (size_t i = 0; i < o->size; i++) o->p[i] = (u8)(o->seed + i * 7); }
static void verify(const struct object *o) { for (size_t i = 0; i < o->size; i++) CHECK(o->p[i] == (u8)(o->seed + i * 7)); }

static void drop(struct object *o)
{
	verify(o);
	if (o->cache)
		kmem_cache_free(o->cache, o->p);
	else
		kfree(o->p);
	o->p = NULL;
}

static void random_stress(void)
{
	enum { SLOTS = 4000, STEPS = 200000, CACHES = 5 };
	static const struct { const char *name; size_t size, align; } kinds[CACHES] = {
		{ "test-24", 24, 8 }, { "test-200", 200, 64 }, { "test-1000", 1000, 8 }, { "test-2700", 2700, 64 }, { "test-6000", 6000, 4096 },
	};
	static struct object slots[SLOTS];
	struct kmem_cache *caches[CACHES];
	u64 living[CACHES] = { 0 };

	for (int k = 0; k < CACHES; k++)
		caches[k] = kmem_cache_create(kinds[k].name, kinds[k].size, kinds[k].align);
	for (int step = 0; step < STEPS; step++) {
		struct object *o = &slots[test_random() % SLOTS];
		unsigned int gfp = test_random() % 2 ? GFP_ZERO : 0;
		unsigned int k = (unsigned int)(test_random() % (2 * CACHES));

		test_cpu = (unsigned int)(test_random() % TEST_CPUS);
		if (o->p && !o->cache && test_random() % 4 == 0) {
			size_t size = (size_t)(1 + test_random() % 3000);
			u8 *q = krealloc(o->p, size, 0);

			CHECK(q);
			o->p = q;
			o->size = min(size, o->size);
			verify(o);
			continue;
		}
		if (o->p) {
			for (int i = 0; i < CACHES; i++)
				living[i] -= o->cache == caches[i];
			drop(o);
			continue;
		}
		o->seed = (u8)test_random();
		if (k < CACHES) {
			o->cache = caches[k];
			o->size = kinds[k].size;
			o->p = kmem_cache_alloc(o->cache, gfp);
			CHECK(o->p && IS_ALIGNED((uintptr_t)o->p, kinds[k].align));
			living[k]++;
		} else {
			/* Sizes of all magnitudes up to 64 KiB. */
			o->cache = NULL;
			o->size = (size_t)(test_random() % (1ul << (test_random() % 17)));
			o->p = kmalloc(o->size, gfp);
			CHECK(o->p && ksize(o->p) >= o->size);
			CHECK(IS_ALIGNED((uintptr_t)o->p, o->size >= PAGE_SIZE ? PAGE_SIZE : 8));
		}
		if (gfp & GFP_ZERO)
			for (size_t i = 0; i < o->size; i++)
				CHECK(o->p[i] == 0);
		fill(o);
		if (step % 10000 == 0)
			for (int i = 0; i < CACHES; i++)
				CHECK(slab_objects(kinds[i].name) == living[i]);
	}
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].p)
			drop(&slots[i]);
	for (int i = 0; i < CACHES; i++)
		CHECK(slab_objects(kinds[i].name) == 0);
	slab_drain();
	for (struct kmem_cache *c = all_caches; c; c = c->next)
		CHECK(c == &first_cache || (list_empty(&c->partial) && c->nr_slabs == 0 && c->nr_empty == 0));
}

static void limits(void)
{
	CHECK(!kmalloc((4ul << 20) + 1, 0));
	CHECK(!kcalloc(~0ul / 8, 16, 0));
	void *p = kmalloc(4ul << 20, 0);
	CHECK(p && ksize(p) == 4ul << 20);
	kfree(p);
	kfree(NULL);
	p = kmalloc(0, 0);
	CHECK(p);
	kfree(p);
	char *s = kstrdup("a string", 0);
	CHECK(!strcmp(s, "a string"));
	kfree(s);
}

/* -- 2 -- */

static void out_of_memory_is_null(void)
{
	struct kmem_cache *c = kmem_cache_create("test-oom", 512, 8);
	struct { void *next; } *chain = NULL;
	struct page *pages = NULL, *p;
	u64 n = 0, before = frames_alive();

	test_cpu = 1;
	drain_frame_caches();
	while ((p = alloc_pages(GFP_ATOMIC, 0))) {
		p->index = (u64)pages;
		pages = p;
	}
	CHECK(!kmem_cache_alloc(c, GFP_KERNEL) && !kmalloc(100000, GFP_KERNEL));
	for (int i = 0; i < 10; i++) {			/* leave a little */
		p = pages;
		pages = (struct page *)p->index;
		free_pages(p, 0);
	}
	for (void **obj; (obj = kmem_cache_alloc(c, GFP_ATOMIC)); n++) {
		*obj = chain;
		chain = (void *)obj;
	}
	CHECK(n >= 20 && slab_objects("test-oom") == n);
	test_cpu = 3;					/* has never seen this cache, and there is no frame left */
	for (; chain; n--) {
		void *next = chain->next;

		kmem_cache_free(c, chain);
		chain = next;
	}
	CHECK(n == 0 && slab_objects("test-oom") == 0);
	while (pages) {
		p = pages;
		pages = (struct page *)p->index;
		free_pages(p, 0);
	}
	slab_drain();
	CHECK(frames_alive() <= before + 1);		/* CPU 1's part of the new cache may have taken a page */
}

#ifdef DEBUG
/* -- 3 -- */

static void bugs_are_found(void)
{
	struct kmem_cache *c = kmem_cache_create("test-bugs", 40, 8), *other = kmem_cache_create("test-other", 40, 8);
	u8 *p = kmem_cache_alloc(c, 0);

	CHECK(PANICS(kmem_cache_free(other, p)) && strstr(test_panic_text, "test-other"));
	CHECK(PANICS(kmem_cache_free(c, p + 8)));
	CHECK(PANICS(kfree(page_to_virt(alloc_pages(0, 0)))));
	p[40] = 1;
	CHECK(PANICS(kmem_cache_free(c, p)) && strstr(test_panic_text, "past its end"));
	p[40] = (u8)RED_ZONE;
	kmem_cache_free(c, p);
	CHECK(PANICS(kmem_cache_free(c, p)) && strstr(test_panic_text, "freed twice"));
	p[3] = 0;
	CHECK(PANICS((void)kmem_cache_alloc(c, 0)) && strstr(test_panic_text, "after it had been freed"));
}
#endif

int main(int argc, char **argv)
{
	if (argc > 1)
		test_seed = strtoul(argv[1], NULL, 0) | 1;
	mm_host_init();
	setup();
	random_stress();
	limits();
	out_of_memory_is_null();
#ifdef DEBUG
	bugs_are_found();
#endif
	return 0;
}
