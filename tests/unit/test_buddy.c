/*
 * mm/frame.c on the host: the buddies and the per-CPU caches, with memory that has holes.
 *
 * 1. random allocation and freeing of all orders on four CPUs: blocks are aligned, inside the memory that was given, and
 *    never overlap; when everything is freed the free lists are what they were at the start, block for block
 * 2. reserves: GFP_USER, GFP_KERNEL and GFP_ATOMIC stop where they should, and what is left in caches is found again
 * 3. references: put_page and release_pages free at the last one, tails know their head, GFP_ZERO clears
 * 4. frees that must not happen are found
 *
 * timeout: 300
 */
#include "mm_host.h"

#include "mm/frame.c"

struct boot_info boot_info;
u64 boot_usable_bytes(phys_addr_t *highest) { *highest = TEST_PHYS; return 0; }

/* 64 MiB less a page, a hole without struct pages, then 3 GiB at an odd place: what a firmware's map looks like. */
static const struct { pfn_t start, end; } memory[] = {
	{ 0x100, 0x3fff }, { 0x4100, 0x5003 }, { 0x60001, 0x60001 + 0xc0000 },
};
static u64 managed;
static u8 *owner;		/* per frame: 0 free, else allocated */
#define NR_FRAMES (TEST_PHYS / PAGE_SIZE)

static void setup(void)
{
	static u64 sections[DIV_ROUND_UP(TEST_PHYS / SECTION_SIZE, 64ul)];

	for (unsigned int i = 0; i < ARRAY_SIZE(memory); i++)
		for (u64 s = memory[i].start / PAGES_PER_SECTION; s * PAGES_PER_SECTION < memory[i].end; s++)
			sections[s / 64] |= 1ul << (s % 64);
	frame_init(sections, TEST_PHYS / SECTION_SIZE);
	owner = malloc(NR_FRAMES);
	memset(owner, 0xff, NR_FRAMES);
	for (unsigned int i = 0; i < ARRAY_SIZE(memory); i++) {
		frame_free_range(memory[i].start, memory[i].end);
		memset(owner + memory[i].start, 0, memory[i].end - memory[i].start);
		managed += memory[i].end - memory[i].start;
	}
	frame_init_done();
	CHECK(nr_total_pages() == managed && nr_free_pages() == managed);
	CHECK(pfn_valid(0x100) && !pfn_valid(0x10000) && pfn_valid(0x60001) && !pfn_valid(NR_FRAMES));
}

static void take(struct page *p, unsigned int order)
{
	pfn_t pfn = page_to_pfn(p);

	CHECK(IS_ALIGNED(pfn, 1ul << order));
	CHECK(page_ref_count(p) == 1 && p->order == order && p->mapcount == 0);
	for (pfn_t i = pfn; i < pfn + (1ul << order); i++) {
		CHECK(owner[i] == 0);
		owner[i] = 1;
	}
}

static void give(struct page *p, unsigned int order)
{
	memset(owner + page_to_pfn(p), 0, 1ul << order);
	free_pages(p, order);
}

/* Every frame of a listed block is free and in no other block; counts agree. */
static void check_lists(void)
{
	u64 sum = 0;

	for (unsigned int o = 0; o <= MAX_ORDER; o++) {
		struct page *p;
		u64 n = 0;

		list_for_each_entry(p, &buddy.free[o], lru) {
			CHECK(p->flags == 1u << PG_buddy && p->order == o && p->refcount == 0);
			CHECK(IS_ALIGNED(page_to_pfn(p), 1ul << o));
			if (o < MAX_ORDER)
				CHECK(!free_buddy(page_to_pfn(p), o));	/* two free buddies would have merged */
			CHECK(owner[page_to_pfn(p)] == 0);
			n++;
		}
		CHECK(n == buddy.nr_blocks[o] && !!n == (buddy.nonempty >> o & 1));
		sum += n << o;
	}
	CHECK(sum == buddy.nr_free);
}

static void random_stress(void)
{
	enum { SLOTS = 3000, STEPS = 400000 };
	static struct { struct page *p; unsigned int order; } slots[SLOTS];
	u64 before[MAX_ORDER + 1], after[MAX_ORDER + 1], held = 0;

	frame_free_counts(before);
	for (int step = 0; step < STEPS; step++) {
		unsigned int i = (unsigned int)(test_random() % SLOTS);

		test_cpu = (unsigned int)(test_random() % TEST_CPUS);
		if (slots[i].p) {
			give(slots[i].p, slots[i].order);
			held -= 1ul << slots[i].order;
			slots[i].p = NULL;
		} else {
			/* Mostly single frames, now and then anything up to 1 GiB. */
			unsigned int order = test_random() % 4 ? 0 : (unsigned int)(test_random() % 10);
			if (test_random() % 4096 == 0)
				order = 10 + (unsigned int)(test_random() % (MAX_ORDER - 9));
			slots[i].p = alloc_pages(test_random() % 2 ? GFP_USER : GFP_KERNEL, order);
			slots[i].order = order;
			if (slots[i].p) {
				take(slots[i].p, order);
				held += 1ul << order;
			}
		}
		if (step % 20000 == 0) {
			check_lists();
			CHECK(nr_free_pages() + held == managed);
		}
	}
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].p)
			give(slots[i].p, slots[i].order);
	drain_frame_caches();
	check_lists();
	frame_free_counts(after);
	CHECK(!memcmp(before, after, sizeof(before)));
	CHECK(nr_free_pages() == managed);
}

static u64 take_all(unsigned int gfp, struct page **chain)
{
	u64 n = 0;
	struct page *p;

	while ((p = alloc_pages(gfp | GFP_NOWARN, 0))) {
		take(p, 0);
		p->index = (u64)*chain;
		*chain = p;
		n++;
	}
	return n;
}

static void reserves(void)
{
	struct page *chain = NULL;
	u64 user, kernel, atomic;

	test_cpu = 2;			/* frames cached by others must be found */
	struct page *p = alloc_pages(GFP_KERNEL, 0);
	take(p, 0);
	give(p, 0);
	test_cpu = 0;
	user = take_all(GFP_USER, &chain);
	CHECK(user == managed - buddy.reserve);
	kernel = take_all(GFP_KERNEL, &chain);
	CHECK(kernel == buddy.reserve - buddy.reserve / 4);
	atomic = take_all(GFP_ATOMIC, &chain);
	CHECK(user + kernel + atomic == managed && nr_free_pages() == 0);
	CHECK(!alloc_pages(GFP_ATOMIC | GFP_NOWARN, 3));
	while (chain) {
		p = chain;
		chain = (struct page *)p->index;
		test_cpu = (unsigned int)(test_random() % TEST_CPUS);
		give(p, 0);
	}
	drain_frame_caches();
	check_lists();
	CHECK(nr_free_pages() == managed);
}

static void references(void)
{
	struct page *p = alloc_pages(GFP_KERNEL | GFP_ZERO, 3), *array[300];
	char *bytes = page_to_virt(p);

	for (size_t i = 0; i < 8 * PAGE_SIZE; i++)
		CHECK(bytes[i] == 0);
	CHECK(page_head(p + 5) == p && page_head(p) == p);
	get_page(p);
	put_page(p);
	CHECK(page_ref_count(p) == 1);
	CHECK(try_get_page(p));
	put_page(p);
	put_page(p);
	CHECK(!try_get_page(p) && !page_test(p + 5, PG_tail));

	/* A page that lived as anonymous memory leaves nothing behind; one of every three has a second reference. */
	for (int i = 0; i < 300; i++) {
		array[i] = alloc_pages(GFP_USER, i % 50 == 7 ? 2 : 0);
		page_set(array[i], PG_anon);
		page_set(array[i], PG_anon_exclusive);
		page_set(array[i], PG_uptodate);
		array[i]->anon_vma = (void *)array;
		if (i % 3 == 0)
			get_page(array[i]);
	}
	struct page *copy[300];
	memcpy(copy, array, sizeof(array));
	release_pages(copy, 300);
	for (int i = 0; i < 300; i += 3) {
		CHECK(page_ref_count(array[i]) == 1);
		put_page(array[i]);
	}
	drain_frame_caches();
	check_lists();
	CHECK(nr_free_pages() == managed);
	for (int i = 0; i < 300; i++)
		CHECK(!array[i]->mapping && !(array[i]->flags & ~(1u << PG_buddy)));
}

static void bad_frees(void)
{
	struct page *p = alloc_pages(GFP_KERNEL, 0);

	p->mapcount = 1;
	CHECK(PANICS(free_pages(p, 0)));
	p->mapcount = 0;
	page_set(p, PG_locked);
	CHECK(PANICS(free_pages(p, 0)));
	page_clear(p, PG_locked);
	p->refcount = 1;		/* the panics came after it was dropped */
	CHECK(try_get_page(p));		/* a lockless lookup is just looking at it: it frees */
	free_pages(p, 0);
	CHECK(page_ref_count(p) == 1);
	put_page(p);
	CHECK(page_ref_count(p) == 0);
	CHECK(PANICS(put_page(p)));
}

int main(int argc, char **argv)
{
	if (argc > 1)
		test_seed = strtoul(argv[1], NULL, 0) | 1;
	mm_host_init();
	setup();
	check_lists();
	random_stress();
	reserves();
	references();
	bad_frees();
	return 0;
}
