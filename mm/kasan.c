/*
 * Address sanitizer for kernel memory (KASAN), in debug builds.
 *
 * The compiler puts a call of __asan_load8_noabort(address) and its kin before each access that it does not know to be
 * fine. We keep a shadow byte for each 8 bytes of the direct map, where all frames and objects are; other addresses
 * (stacks, image, struct pages) are always fine.
 *
 *	shadow byte = KASAN_SHADOW_BASE[(address - DIRECT_MAP_BASE) / 8]
 *
 * Who poisons: the frame allocator what is free, the slab allocator all but the bytes that were asked for. Who may look at
 * poisoned memory: files that are compiled without checks (Makefile: unchecked), and assembly. memcpy() and its like, and
 * the copies from and to user space, check their kernel side by hand.
 *
 * The shadow is mapped like vmemmap, a piece for each section that has memory; the sections between share one piece that
 * stays zero. Before kasan_init(), and on small machines for ever, the sanitizer covers nothing.
 *
 * Poisoning takes no lock: each granule of 8 bytes has one owner, who hands it over in an order that the allocators have
 * anyway. Nothing here may be instrumented, and nothing that is called on the way to a verdict.
 */
#include "mm/kasan.h"

#ifdef KASAN
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/frame.h"
#include "mm/pgtable.h"

#define MIN_MEMORY	(128ul << 20)	/* smaller machines need the eighth themselves */
#define SECTION_SHADOW	(SECTION_SIZE / 8)
#define RET_IP		((uintptr_t)__builtin_return_address(0))

/* Bytes of the direct map that have a shadow; 0: off. Written at boot, and to stop checking for a report. */
static u64 covered;

static inline s8 *shadow_of(u64 offset)
{
	return (s8 *)KASAN_SHADOW_BASE + (offset >> 3);
}

/* -- reports --------------------------------------------------------------------------------------------------- */

/* Who freed the frame, from the first bytes of its shadow; 0: nobody yet. */
static uintptr_t frame_freed_by(pfn_t pfn)
{
	const u8 *s = (const u8 *)shadow_of(pfn << PAGE_SHIFT);
	u32 low = 0;

	for (unsigned int i = 0; i < 8; i++) {
		if ((s[i] & 0xf0) != KASAN_FREED_BY)
			return 0;
		low = low << 4 | (s[i] & 0xf);
	}
	return 0xffffffff00000000ul | low;
}

static void describe(uintptr_t addr, char *buf, size_t size)
{
	pfn_t pfn = (addr - DIRECT_MAP_BASE) >> PAGE_SHIFT;
	u8 why = (u8)*shadow_of(addr - DIRECT_MAP_BASE);

	if (!pfn_valid(pfn)) {
		scnprintf(buf, size, "no memory");
	} else if (why == KASAN_FREE_FRAME || (why & 0xf0) == KASAN_FREED_BY) {
		uintptr_t by = frame_freed_by(pfn);

		if (by)
			scnprintf(buf, size, "offset %lx of frame %lx, which is free, freed by %pS", addr & ~PAGE_MASK, pfn, (void *)by);
		else
			scnprintf(buf, size, "offset %lx of frame %lx, which was never allocated", addr & ~PAGE_MASK, pfn);
	} else if (!slab_describe((void *)addr, buf, size)) {
		struct page *block = page_head(pfn_to_page(pfn));
		u64 all = PAGE_SIZE << block->order, usable = kasan_usable(page_to_virt(block), all);

		scnprintf(buf, size, "%lu bytes behind the %lu bytes of the kmalloc block at %p",
			  addr - (uintptr_t)page_to_virt(block) - usable, usable, page_to_virt(block));
	}
}

/* The system stops here. The first byte that must not be touched may lie behind @addr. */
static void __noreturn __attribute__((noinline, cold)) report(uintptr_t addr, size_t size, bool write, uintptr_t caller)
{
	static char text[400];		/* the first report is the only one */
	uintptr_t bad = addr;

	while (bad < addr + size - 1 && kasan_usable((void *)(bad & ~7ul), 8) > (bad & 7))
		bad++;
	u8 why = (u8)*shadow_of(bad - DIRECT_MAP_BASE);
	bool freed = why == KASAN_FREE_OBJECT || why == KASAN_FREE_FRAME || (why & 0xf0) == KASAN_FREED_BY;
	describe(bad, text, sizeof(text));
	__atomic_store_n(&covered, 0, __ATOMIC_RELAXED);	/* the report may look at everything */
	panic("kasan: %s: %s of %lu byte%s at %lx by %pS:\n  %s", freed ? "use after free" : "out of bounds",
	      write ? "write" : "read", size, size == 1 ? "" : "s", addr, (void *)caller, text);
}

/* -- the checks ------------------------------------------------------------------------------------------------ */

/* May the granule's bytes up to @last (0..7) be touched? */
static inline bool granule_ok(s8 shadow, unsigned int last)
{
	return shadow == 0 || (shadow > 0 && last < (unsigned int)shadow);
}

/* 1 to 8 bytes, at most two granules, and not simply eight zero bits of shadow. */
static bool __attribute__((noinline)) small_ok_slow(uintptr_t addr, size_t size)
{
	u64 first = addr - DIRECT_MAP_BASE, last = first + size - 1;

	if (first >= covered)
		return true;
	s8 shadow = *shadow_of(first);
	if ((first ^ last) < 8)
		return granule_ok(shadow, last & 7);
	return !shadow && (last >= covered || granule_ok(*shadow_of(last), last & 7));
}

/* The few instructions that run before nearly each access of the kernel. */
static inline __attribute__((always_inline)) bool small_ok(uintptr_t addr, size_t size)
{
	u64 first = addr - DIRECT_MAP_BASE;

	if (first >= covered)
		return true;
	if (likely(!*shadow_of(first) && (size == 1 || (first & 7) <= 8 - size)))
		return true;
	return small_ok_slow(addr, size);
}

static bool range_ok(uintptr_t addr, size_t size)
{
	u64 first = addr - DIRECT_MAP_BASE, last = first + size - 1;

	if (first >= covered || !size)
		return true;
	last = min(last, covered - 1);
	const s8 *s = shadow_of(first), *end = shadow_of(last);
	for (; s < end && (uintptr_t)s % 8; s++)
		if (*s)
			return false;
	for (; end - s >= 8; s += 8)
		if (*(const u64 *)s)
			return false;
	for (; s < end; s++)
		if (*s)
			return false;
	return granule_ok(*end, last & 7);
}

void kasan_check(const void *p, size_t size, bool write, uintptr_t caller)
{
	if (unlikely(!range_ok((uintptr_t)p, size)))
		report((uintptr_t)p, size, write, caller);
}

/* What the compiler calls. GCC and Clang use the names that end in _noabort; those without are for variants of the flags. */
#define DEFINE_CHECK(name, write, size)							\
void name(uintptr_t addr);								\
void name(uintptr_t addr)								\
{											\
	if (unlikely(!small_ok(addr, size)))						\
		report(addr, size, write, RET_IP);					\
}
#define DEFINE_CHECKS(size)								\
	DEFINE_CHECK(__asan_load##size##_noabort, false, size)				\
	DEFINE_CHECK(__asan_store##size##_noabort, true, size)				\
	DEFINE_CHECK(__asan_load##size, false, size)					\
	DEFINE_CHECK(__asan_store##size, true, size)
#define DEFINE_RANGE_CHECK(name, write)							\
void name(uintptr_t addr, size_t size);							\
void name(uintptr_t addr, size_t size)							\
{											\
	if (unlikely(!range_ok(addr, size)))						\
		report(addr, size, write, RET_IP);					\
}
#define DEFINE_16_CHECK(name, write)							\
void name(uintptr_t addr);								\
void name(uintptr_t addr)								\
{											\
	if (unlikely(!range_ok(addr, 16)))						\
		report(addr, 16, write, RET_IP);					\
}

DEFINE_CHECKS(1)
DEFINE_CHECKS(2)
DEFINE_CHECKS(4)
DEFINE_CHECKS(8)
DEFINE_16_CHECK(__asan_load16_noabort, false)
DEFINE_16_CHECK(__asan_store16_noabort, true)
DEFINE_16_CHECK(__asan_load16, false)
DEFINE_16_CHECK(__asan_store16, true)
DEFINE_RANGE_CHECK(__asan_loadN_noabort, false)
DEFINE_RANGE_CHECK(__asan_storeN_noabort, true)
DEFINE_RANGE_CHECK(__asan_loadN, false)
DEFINE_RANGE_CHECK(__asan_storeN, true)

/* Would clear the shadow of the stack; ours has none. */
void __asan_handle_no_return(void);
void __asan_handle_no_return(void) { }

/* -- poison ---------------------------------------------------------------------------------------------------- */

void kasan_poison(const void *p, size_t size, u8 value)
{
	u64 offset = (uintptr_t)p - DIRECT_MAP_BASE;

	if (offset < covered)
		memset(shadow_of(offset), value, size / 8);
}

void kasan_unpoison(const void *p, size_t size)
{
	u64 offset = (uintptr_t)p - DIRECT_MAP_BASE;

	if (offset >= covered)
		return;
	memset(shadow_of(offset), 0, size / 8);
	if (size % 8)
		*shadow_of(offset + size) = (s8)(size % 8);
}

size_t kasan_usable(const void *p, size_t max)
{
	u64 offset = (uintptr_t)p - DIRECT_MAP_BASE, n = 0;

	if (offset >= covered)
		return max;
	while (n < max && !*shadow_of(offset + n))
		n += 8;
	if (n < max && *shadow_of(offset + n) > 0)
		n += (u64)*shadow_of(offset + n);
	return min(n, max);
}

void kasan_frames_alloc(struct page *p, unsigned int order)
{
	kasan_unpoison(page_to_virt(p), PAGE_SIZE << order);
}

/* @caller is in the image, so its lower half tells all. */
void kasan_frames_free(struct page *p, unsigned int order, uintptr_t caller)
{
	if (!covered)
		return;
	kasan_poison(page_to_virt(p), PAGE_SIZE << order, KASAN_FREE_FRAME);
	for (pfn_t pfn = page_to_pfn(p), end = pfn + (1ul << order); pfn < end; pfn++) {
		u8 *s = (u8 *)shadow_of(pfn << PAGE_SHIFT);

		for (unsigned int i = 0; i < 8; i++)
			s[i] = (u8)(KASAN_FREED_BY | (caller >> (28 - 4 * i) & 0xf));
	}
}

void kasan_frames_new(pfn_t start, pfn_t end)
{
	kasan_poison(phys_to_virt(start << PAGE_SHIFT), (end - start) << PAGE_SHIFT, KASAN_FREE_FRAME);
}

/* -- boot ------------------------------------------------------------------------------------------------------ */

bool kasan_enabled(void)
{
	return covered != 0;
}

static void map_shadow(uintptr_t shadow, void *memory, u64 prot)
{
	kernel_map_large(shadow, virt_to_phys(memory), PMD_SIZE, prot, PMD_SIZE);
}

/* All memory that is not yet given to the buddies counts as allocated. */
void kasan_init(const u64 *section_map, u64 nr_sections)
{
	phys_addr_t highest;
	void *zero = NULL;
	u64 taken = 0;

	if (boot_usable_bytes(&highest) < MIN_MEMORY - (4ul << 20)) {	/* less what the firmware keeps */
		printk("kasan: off, it takes an eighth of memory and needs %lu MiB", MIN_MEMORY >> 20);
		return;
	}
	kernel_prepare_pgd(KASAN_SHADOW_BASE);
	for (u64 s = 0; s < nr_sections; s++) {
		bool memory = section_map[s / 64] >> (s % 64) & 1;

		taken += memory ? SECTION_SHADOW : 0;
		if (!memory && !zero)
			zero = boot_alloc(PMD_SIZE, PMD_SIZE);
		for (u64 at = 0; at < SECTION_SHADOW; at += PMD_SIZE)
			map_shadow(KASAN_SHADOW_BASE + s * SECTION_SHADOW + at,
				   memory ? boot_alloc(PMD_SIZE, PMD_SIZE) : zero, memory ? KERNEL_RW : KERNEL_RO);
	}
	covered = nr_sections * SECTION_SIZE;
	printk("kasan: on, shadow of %lu MiB", taken >> 20);
}
#endif
