/*
 * Memory before there is an allocator. Owns the list of physical ranges that nobody uses yet: what the firmware calls
 * usable, minus the first MiB (firmware data, AP trampoline), the kernel image, the initrd and what others reserved.
 * Allocations are cut from the top of the highest range that the current page tables map; they are never given back.
 * mm_init() hands the rest to the buddies, and with that this file has done its work.
 */
#include "mm/frame.h"

#include "kernel/boot_info.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/string.h"

#define LOW_MEMORY_END	0x100000ul	/* real-mode data, EBDA, video memory, option ROMs: left alone */
#define MAX_BOOT_RANGES	(ARRAY_SIZE(boot_info.mem) + 32)

/* Sorted, disjoint, not empty; start and end need not be page aligned once something was cut off. */
struct boot_range { phys_addr_t start, end; };

static struct boot_range ranges[MAX_BOOT_RANGES];	/* one CPU, no lock: boot only */
static unsigned int nr_ranges;
static bool ranges_ready, handed_over;
static phys_addr_t alloc_limit = 1ul << 32;		/* the boot page tables map the first 4 GiB */
static phys_addr_t usable_end;				/* mem=; frames from here on do not exist for us */

static void insert_range(unsigned int at, phys_addr_t start, phys_addr_t end)
{
	if (nr_ranges == MAX_BOOT_RANGES) {	/* cannot split: lose the smaller piece, it is only memory */
		pr_warn("memory map too fragmented, %lu KiB unused\n", (end - start) >> 10);
		return;
	}
	memmove(&ranges[at + 1], &ranges[at], (nr_ranges - at) * sizeof(ranges[0]));
	ranges[at] = (struct boot_range){ start, end };
	nr_ranges++;
}

static void remove_range(unsigned int at)
{
	nr_ranges--;
	memmove(&ranges[at], &ranges[at + 1], (nr_ranges - at) * sizeof(ranges[0]));
}

static void exclude(phys_addr_t start, phys_addr_t end)
{
	for (unsigned int i = 0; i < nr_ranges; i++) {
		struct boot_range r = ranges[i];

		if (r.end <= start || r.start >= end)
			continue;
		if (r.start < start && r.end > end) {
			ranges[i].end = start;
			insert_range(i + 1, end, r.end);
			return;
		}
		if (r.start < start)
			ranges[i].end = start;
		else if (r.end > end)
			ranges[i].start = end;
		else
			remove_range(i--);
	}
}

/* mem=SIZE[KMG]: frames at and above this address are not used, as on Linux. */
static phys_addr_t memory_limit(void)
{
	char buf[32];
	u64 v = 0;
	const char *s = buf;

	if (!cmdline_get("mem", buf, sizeof(buf)))
		return ~0ul;
	for (; *s >= '0' && *s <= '9' && v < (1ul << 52) / 10; s++)
		v = v * 10 + (u64)(*s - '0');
	switch (*s) {
	case 'G': case 'g':
		v <<= 30;
		break;
	case 'M': case 'm':
		v <<= 20;
		break;
	case 'K': case 'k':
		v <<= 10;
		break;
	case '\0':
		break;
	default:
		v = 0;
	}
	if (!v || (s[0] && s[1])) {
		pr_warn("mem=%s is not a size, ignored\n", buf);
		return ~0ul;
	}
	return v & PAGE_MASK;
}

static void ranges_init(void)
{
	phys_addr_t limit = memory_limit();

	ranges_ready = true;
	for (unsigned int i = 0; i < boot_info.nr_mem; i++) {
		const struct mem_range *m = &boot_info.mem[i];
		phys_addr_t start = ALIGN_UP(m->base, PAGE_SIZE);
		phys_addr_t end = min(ALIGN_DOWN(m->base + m->len, PAGE_SIZE), limit);

		if (m->type == MEM_USABLE && start < end)
			insert_range(nr_ranges, start, end);
	}
	if (nr_ranges)
		usable_end = ranges[nr_ranges - 1].end;
	exclude(0, LOW_MEMORY_END);
	exclude(ALIGN_DOWN(kernel_virt_to_phys(__kernel_start), PAGE_SIZE), ALIGN_UP(kernel_virt_to_phys(__kernel_end), PAGE_SIZE));
	if (boot_info.initrd_size)
		exclude(ALIGN_DOWN(boot_info.initrd, PAGE_SIZE), ALIGN_UP(boot_info.initrd + boot_info.initrd_size, PAGE_SIZE));
}

/* Boot CPU, before mm_init has finished. Rounds to whole pages. */
void boot_reserve(phys_addr_t phys, u64 size)
{
	BUG_ON(handed_over);
	if (!ranges_ready)
		ranges_init();
	if (size)
		exclude(ALIGN_DOWN(phys, PAGE_SIZE), ALIGN_UP(phys + size, PAGE_SIZE));
}

/* Boot CPU. Zeroed memory by its direct-map address, never freed. Does not return when there is none. */
void *boot_alloc(size_t size, size_t align)
{
	BUG_ON(handed_over);
	if (!ranges_ready)
		ranges_init();
	size = ALIGN_UP(size, 8ul);
	for (unsigned int i = nr_ranges; i-- > 0; ) {
		struct boot_range r = ranges[i];
		phys_addr_t top = min(r.end, alloc_limit);

		if (top <= r.start || top - r.start < size)
			continue;
		phys_addr_t phys = ALIGN_DOWN(top - size, align);
		if (phys < r.start)
			continue;

		/* What alignment (or the limit) leaves above stays usable if it holds a page. */
		if (r.end >= ALIGN_UP(phys + size, PAGE_SIZE) + PAGE_SIZE)
			insert_range(i + 1, ALIGN_UP(phys + size, PAGE_SIZE), r.end);
		if (phys > r.start)
			ranges[i].end = phys;
		else
			remove_range(i);
		return memset(phys_to_virt(phys), 0, size);
	}
	halt_with_message("Not enough memory to start: %lu KiB more were needed, in one piece. Give the machine at least 64 MiB.",
			  DIV_ROUND_UP(size, 1024ul));
}

void boot_alloc_lift_limit(void)
{
	alloc_limit = ~0ul;
}

/* Usable bytes before anything was taken; *@highest: first byte after the last usable frame. */
u64 boot_usable_bytes(phys_addr_t *highest)
{
	u64 sum = 0;

	if (!ranges_ready)
		ranges_init();
	for (unsigned int i = 0; i < boot_info.nr_mem; i++) {
		const struct mem_range *m = &boot_info.mem[i];

		if (m->type == MEM_USABLE && m->base < usable_end)
			sum += min(m->base + m->len, usable_end) - m->base;
	}
	*highest = usable_end;
	return sum;
}

/* Walks the whole pages that are left, upwards; *@cursor starts at 0. After the first call nothing can be allocated. */
bool boot_next_free(phys_addr_t *cursor, phys_addr_t *start, phys_addr_t *end)
{
	handed_over = true;
	for (unsigned int i = 0; i < nr_ranges; i++) {
		*start = ALIGN_UP(ranges[i].start, PAGE_SIZE);
		*end = ALIGN_DOWN(ranges[i].end, PAGE_SIZE);
		if (*start >= *cursor && *start < *end) {
			*cursor = *end;
			return true;
		}
	}
	return false;
}
