/*
 * From the boot page tables to the final kernel address space and a working allocator: mm_init(), once, on the boot
 * CPU, with nobody else running. The order is forced: tables need memory (boot_alloc), struct pages need the complete
 * direct map (they may lie above 4 GiB), the buddies need struct pages, everything else needs the buddies.
 *
 * The rule that is easy to break: what is not listed here is not mapped. The direct map covers the memory that the
 * firmware lists, nothing else; device registers and the framebuffer are reached through ioremap() only.
 *
 * Rights: nothing is both writable and executable, in any alias. The kernel's text is R-X at its link address and
 * read-only in the direct map; constants are read-only in both; all the rest is RW and NX.
 */
#include "mm/frame.h"

#include "kernel/boot_info.h"
#include "kernel/printk.h"
#include "kernel/rcu.h"
#include "kernel/string.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/features.h"
#include "mm/debug.h"
#include "mm/kasan.h"
#include "mm/mm.h"
#include "mm/pgtable.h"
#include "mm/slab.h"
#include "mm/tlb.h"
#include "mm/uaccess.h"

#define MIN_MEMORY	(32ul << 20)
#define LOW_1M		0x100000ul
/* What kernel threads run in: the kernel half alone. Never freed, in no cpu_mask bookkeeping. */
struct mm init_mm = {
	.users = REFCOUNT_INIT(1),
	.refs = REFCOUNT_INIT(1),
	.page_table_lock = SPINLOCK_INIT(LOCK_PAGE_TABLE),
};

static size_t max_leaf;		/* largest page the CPU has; the software CPU of QEMU has 1 GiB pages, old ones do not */

static void map_direct(void);
static void map_image(void);
static void map_vmemmap(phys_addr_t highest);
static void hand_over_frames(u64 nr_sections);

/*
 * Every CPU, after cpu_enable_features(): from whatever tables it started on to the kernel's. Global translations of
 * the boot tables would survive the load of CR3, so they are thrown out by toggling PGE.
 */
void mm_init_cpu(void)
{
	write_cr3(kernel_virt_to_phys(kernel_pgd));
	if (cpu_features.pge) {
		write_cr4(read_cr4() & ~CR4_PGE);
		write_cr4(read_cr4() | CR4_PGE);
	}
	tlb_init_cpu();
}

void mm_init(void)
{
	phys_addr_t highest;
	u64 usable = boot_usable_bytes(&highest);

	if (usable < MIN_MEMORY)
		halt_with_message("This machine has only %lu KiB of usable memory; at least 64 MiB are needed.", usable >> 10);

	max_leaf = cpu_features.gib_pages ? PUD_SIZE : PMD_SIZE;
	exception_table_init();		/* sorts read-only data: before it becomes that */
	kernel_pgd = boot_alloc(PAGE_SIZE, PAGE_SIZE);
	init_mm.pgd = kernel_pgd;
	map_direct();
	map_image();
	kernel_prepare_pgd(VMALLOC_START);
	mm_init_cpu();

	boot_alloc_lift_limit();
	map_vmemmap(highest);
	kernel_tables_use_frames();
	frame_init_done();
	pgtable_init();
	page_lock_init();
	slab_init();
	vmalloc_init();

	printk("memory: %lu MiB usable, %lu MiB free, direct map with %s pages", usable >> 20,
	       nr_free_pages() >> (20 - PAGE_SHIFT), max_leaf == PUD_SIZE ? "1 GiB" : "2 MiB (no 1 GiB pages)");
}

/* -- direct map ----------------------------------------------------------------------------------------------- */

static void map_direct_range(phys_addr_t start, phys_addr_t end, u64 prot)
{
	if (start < end)
		kernel_map_large((uintptr_t)phys_to_virt(start), start, end - start, prot, max_leaf);
}

/* [start, end), cut around the alias of text and constants, which gets mapped without the write right. */
static void map_direct_memory(phys_addr_t start, phys_addr_t end)
{
	phys_addr_t ro_start = kernel_virt_to_phys(__text_start) & PAGE_MASK;
	phys_addr_t ro_end = kernel_virt_to_phys(__rodata_end);

	map_direct_range(start, min(end, ro_start), KERNEL_RW);
	map_direct_range(max(start, ro_start), min(end, ro_end), KERNEL_RO);
	map_direct_range(max(start, ro_end), end, KERNEL_RW);
}

/*
 * Memory of every type the firmware lists, since ACPI tables may be in any of them; what is not memory at all among
 * the reserved ranges is uncacheable by MTRR whatever we say. Reserved space above 4 GiB is address space, not RAM.
 */
static bool wants_direct_map(const struct mem_range *m)
{
	return m->type != MEM_BAD && !(m->type == MEM_RESERVED && m->base + m->len > 1ul << 32);
}

static void map_direct(void)
{
	map_direct_memory(0, LOW_1M);		/* the firmware's tables there need not be listed */
	for (unsigned int i = 0; i < boot_info.nr_mem; i++) {
		const struct mem_range *m = &boot_info.mem[i];

		if (!wants_direct_map(m))
			continue;
		/* Neighbours are joined, so that a border between two types does not cost the large page around it. */
		phys_addr_t start = max(m->base, LOW_1M), end = m->base + m->len;
		for (; i + 1 < boot_info.nr_mem && m[1].base == end && wants_direct_map(&m[1]); i++, m++)
			end = m[1].base + m[1].len;
		map_direct_memory(start, end);
	}
}

/* -- kernel image --------------------------------------------------------------------------------------------- */

static void map_image_part(const char *start, const char *end, u64 prot)
{
	uintptr_t first = ALIGN_DOWN((uintptr_t)start, PAGE_SIZE), last = ALIGN_UP((uintptr_t)end, PAGE_SIZE);

	kernel_map_large(first, first - KERNEL_BASE, last - first, prot, PMD_SIZE);
}

static void map_image(void)
{
	map_image_part(__text_start, __text_end, KERNEL_RX);
	map_image_part(__rodata_start, __rodata_end, KERNEL_RO);
	map_image_part(__data_start, __kernel_end, KERNEL_RW);
}

/* -- vmemmap -------------------------------------------------------------------------------------------------- */

static void map_section(u64 *section_map, u64 section)
{
	u64 bit = 1ul << (section % 64);

	if (section_map[section / 64] & bit)
		return;
	section_map[section / 64] |= bit;

	size_t size = PAGES_PER_SECTION * sizeof(struct page);
	_Static_assert(PAGES_PER_SECTION * sizeof(struct page) == PMD_SIZE, "a section is one large page of vmemmap");
	kernel_map_large((uintptr_t)pfn_to_page(section * PAGES_PER_SECTION), virt_to_phys(boot_alloc(size, size)),
			 size, KERNEL_RW, PMD_SIZE);
}

static void map_vmemmap(phys_addr_t highest)
{
	u64 nr_sections = DIV_ROUND_UP(highest, SECTION_SIZE);
	u64 *section_map = boot_alloc(DIV_ROUND_UP(nr_sections, 64ul) * 8, 8);

	kernel_prepare_pgd(VMEMMAP_BASE);
	for (unsigned int i = 0; i < boot_info.nr_mem; i++) {
		const struct mem_range *m = &boot_info.mem[i];
		phys_addr_t end = min(m->base + m->len, highest);

		if (m->type != MEM_USABLE)
			continue;
		for (u64 s = m->base / SECTION_SIZE; s * SECTION_SIZE < end; s++)
			map_section(section_map, s);
	}
	debug_frames_init(highest >> PAGE_SHIFT);
	kasan_init(section_map, nr_sections);
	frame_init(section_map, nr_sections);
	hand_over_frames(nr_sections);
}

/* Frames of [start, end) that have a struct page but are not ours to give: holes, firmware, kernel, boot_alloc's. */
static void mark_reserved(pfn_t start, pfn_t end)
{
	for (pfn_t pfn = start; pfn < end; ) {
		if (!pfn_valid(pfn)) {
			pfn = ALIGN_DOWN(pfn, PAGES_PER_SECTION) + PAGES_PER_SECTION;
			continue;
		}
		pfn_to_page(pfn)->flags = 1u << PG_reserved;
		pfn_to_page(pfn)->refcount = 1;
		pfn++;
	}
}

static void hand_over_frames(u64 nr_sections)
{
	phys_addr_t cursor = 0, start, end;
	pfn_t done = 0;

	while (boot_next_free(&cursor, &start, &end)) {
		mark_reserved(done, start >> PAGE_SHIFT);
		done = end >> PAGE_SHIFT;
		frame_free_range(start >> PAGE_SHIFT, done);
	}
	mark_reserved(done, nr_sections * PAGES_PER_SECTION);
}

/* Frames last: the others free some. */
void drain_all_caches(void)
{
	rcu_barrier();			/* what only waits for its grace period counts as free */
	kernel_stack_drain();
	pgtable_drain();
	slab_drain();
	drain_frame_caches();
}
