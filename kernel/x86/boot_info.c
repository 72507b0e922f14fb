/*
 * Translates what the loader left (multiboot2 or PVH) into struct boot_info.
 *
 * Everything is copied: loader memory counts as free afterwards. Nothing in it is believed: lengths are checked against
 * the table they lie in, and memory ranges are sorted, page aligned and made disjoint, the less usable type winning.
 *
 * Multiboot2 Specification 2.0, section 3.6; PVH: xen/include/public/arch-x86/hvm/start_info.h.
 */
#include "kernel/x86/boot_info.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/x86/boot_map.h"
#include "mm/layout.h"

#define MULTIBOOT2_MAGIC	0x36d76289u
#define PVH_MAGIC		0x336ec578u
#define MB2_MAX_SIZE		(1ul << 20)
#define LOW_MEMORY_END		(1ul << 20)
#define MAX_PHYS		(1ul << 46)	/* what the direct map can hold */

struct boot_info boot_info;
phys_addr_t boot_trampoline_page;

/* RSDP as the loader handed it over; it may lie in no table of the firmware. */
static u8 rsdp_copy[36] __aligned(16);

/* Ranges as reported, before sorting. */
static struct mem_range raw[256];
static unsigned int nr_raw;

/* --- memory ranges -------------------------------------------------------------------------------------------------- */

static enum mem_type e820_type(u32 type)
{
	switch (type) {
	case 1: return MEM_USABLE;
	case 3: return MEM_ACPI_RECLAIM;
	case 4: return MEM_ACPI_NVS;
	case 5: return MEM_BAD;
	default: return MEM_RESERVED;
	}
}

/* The later the less usable: where ranges overlap the higher one wins. */
static int severity(enum mem_type t)
{
	static const u8 order[] = { [MEM_USABLE] = 0, [MEM_ACPI_RECLAIM] = 1, [MEM_ACPI_NVS] = 2, [MEM_RESERVED] = 3, [MEM_BAD] = 4 };
	return order[t];
}

static void raw_add(u64 base, u64 len, u32 e820)
{
	if (nr_raw == ARRAY_SIZE(raw) || !len || base >= MAX_PHYS)
		return;
	u64 end = len > MAX_PHYS - base ? MAX_PHYS : base + len;
	enum mem_type type = e820_type(e820);
	/* A page that is only partly usable is not usable. */
	if (type == MEM_USABLE) {
		base = ALIGN_UP(base, PAGE_SIZE);
		end = ALIGN_DOWN(end, PAGE_SIZE);
	} else {
		base = ALIGN_DOWN(base, PAGE_SIZE);
		end = ALIGN_UP(end, PAGE_SIZE);
	}
	if (base < end)
		raw[nr_raw++] = (struct mem_range){ base, end - base, type };
}

/* The start of the APs: the highest RAM page below 640 KiB except the very first and the EBDA's neighbourhood. */
static phys_addr_t find_trampoline_page(void)
{
	for (phys_addr_t page = 0x8f000; page >= 0x1000; page -= PAGE_SIZE) {
		bool usable = false, taken = false;
		for (unsigned int i = 0; i < nr_raw; i++) {
			if (page < raw[i].base || page >= raw[i].base + raw[i].len)
				continue;
			if (raw[i].type == MEM_USABLE)
				usable = true;
			else
				taken = true;
		}
		if (usable && !taken)
			return page;
	}
	return 0;
}

static void emit(u64 base, u64 end, enum mem_type type)
{
	struct mem_range *last = boot_info.nr_mem ? &boot_info.mem[boot_info.nr_mem - 1] : NULL;

	if (last && last->type == type && last->base + last->len == base) {
		last->len += end - base;
		return;
	}
	if (boot_info.nr_mem < ARRAY_SIZE(boot_info.mem))
		boot_info.mem[boot_info.nr_mem++] = (struct mem_range){ base, end - base, type };
}

/* All borders, sorted; between two neighbours the type is constant: the most severe of the ranges that cover it. */
static void normalise_ranges(void)
{
	static u64 border[2 * ARRAY_SIZE(raw)];
	unsigned int n = 0;

	for (unsigned int i = 0; i < nr_raw; i++) {
		for (unsigned int k = 0; k < 2; k++) {
			u64 b = raw[i].base + (k ? raw[i].len : 0);
			unsigned int at = n++;
			for (; at && border[at - 1] > b; at--)
				border[at] = border[at - 1];
			border[at] = b;
		}
	}
	for (unsigned int k = 0; k + 1 < n; k++) {
		const struct mem_range *worst = NULL;
		if (border[k] == border[k + 1])
			continue;
		for (unsigned int i = 0; i < nr_raw; i++) {
			if (raw[i].base <= border[k] && border[k] < raw[i].base + raw[i].len &&
			    (!worst || severity(raw[i].type) > severity(worst->type)))
				worst = &raw[i];
		}
		if (worst)
			emit(border[k], border[k + 1], worst->type);
	}
}

static void finish_ranges(void)
{
	boot_trampoline_page = find_trampoline_page();
	/* The first MiB is the firmware's playground, and 640 KiB are not worth an argument with it. */
	raw_add(0, LOW_MEMORY_END, 2);
	normalise_ranges();
}

/* --- multiboot2 ------------------------------------------------------------------------------------------------------- */

struct mb2_tag {
	u32	type;
	u32	size;		/* with this head, without padding */
	u8	data[];
};
_Static_assert(sizeof(struct mb2_tag) == 8, "multiboot2");

enum { MB2_END, MB2_CMDLINE, MB2_LOADER, MB2_MODULE, MB2_MMAP = 6, MB2_FRAMEBUFFER = 8, MB2_EFI32 = 11, MB2_EFI64 = 12,
       MB2_ACPI_OLD = 14, MB2_ACPI_NEW = 15, MB2_EFI_MMAP = 17 };

struct mb2_mmap {
	u32	entry_size, version;
	u8	entries[];
};

struct mb2_mmap_entry {
	u64	base, len;
	u32	type, reserved;
};

struct mb2_module {
	u32	start, end;
};

struct mb2_framebuffer {
	u64	addr;
	u32	pitch, width, height;
	u8	bpp, type;
	u16	reserved;
	u8	red_pos, red_size, green_pos, green_size, blue_pos, blue_size;
} __packed;
#define MB2_FB_RGB	1

static void copy_text(char *dst, size_t size, const void *text, size_t n)
{
	n = min(strnlen(text, n), size - 1);
	memcpy(dst, text, n);
	dst[n] = '\0';
}

static void mb2_memory_map(const struct mb2_tag *tag, size_t n)
{
	const struct mb2_mmap *map = (const void *)tag->data;

	if (n < sizeof(*map) || map->entry_size < sizeof(struct mb2_mmap_entry))
		return;
	for (size_t at = 0; at + map->entry_size <= n - sizeof(*map); at += map->entry_size) {
		const struct mb2_mmap_entry *e = (const void *)(map->entries + at);
		raw_add(e->base, e->len, e->type);
	}
}

static void mb2_framebuffer(const struct mb2_tag *tag, size_t n)
{
	const struct mb2_framebuffer *fb = (const void *)tag->data;

	if (n < sizeof(*fb) || fb->type != MB2_FB_RGB)
		return;
	boot_info.fb = (struct framebuffer_info){
		.phys = fb->addr, .pitch = fb->pitch, .width = fb->width, .height = fb->height, .bpp = fb->bpp,
		.red_pos = fb->red_pos, .red_size = fb->red_size, .green_pos = fb->green_pos,
		.green_size = fb->green_size, .blue_pos = fb->blue_pos, .blue_size = fb->blue_size,
	};
}

static void mb2_rsdp(const struct mb2_tag *tag, size_t n)
{
	memset(rsdp_copy, 0, sizeof(rsdp_copy));
	memcpy(rsdp_copy, tag->data, min(n, sizeof(rsdp_copy)));
	boot_info.rsdp = (uintptr_t)rsdp_copy - KERNEL_BASE;
}

static void mb2_tag(const struct mb2_tag *tag)
{
	size_t n = tag->size - sizeof(*tag);

	switch (tag->type) {
	case MB2_CMDLINE:
		copy_text(boot_info.cmdline, sizeof(boot_info.cmdline), tag->data, n);
		break;
	case MB2_LOADER:
		copy_text(boot_info.loader, sizeof(boot_info.loader), tag->data, n);
		break;
	case MB2_MODULE: {
		const struct mb2_module *m = (const void *)tag->data;
		if (n >= sizeof(*m) && !boot_info.initrd && m->start < m->end) {
			boot_info.initrd = m->start;
			boot_info.initrd_size = m->end - m->start;
		}
		break;
	}
	case MB2_MMAP:
		mb2_memory_map(tag, n);
		break;
	case MB2_FRAMEBUFFER:
		mb2_framebuffer(tag, n);
		break;
	case MB2_EFI32:
	case MB2_EFI64:
	case MB2_EFI_MMAP:
		boot_info.uefi = true;
		break;
	case MB2_ACPI_OLD:
		if (!boot_info.rsdp)
			mb2_rsdp(tag, n);
		break;
	case MB2_ACPI_NEW:
		mb2_rsdp(tag, n);
		break;
	}
}

static void read_multiboot2(phys_addr_t info)
{
	const u8 *base = boot_phys(info, MB2_MAX_SIZE);
	if (!base)
		return;
	size_t total = min((size_t)*(const u32 *)base, MB2_MAX_SIZE);

	for (size_t at = 8; at + sizeof(struct mb2_tag) <= total; ) {
		const struct mb2_tag *tag = (const void *)(base + at);
		if (tag->type == MB2_END || tag->size < sizeof(*tag) || tag->size > total - at)
			return;
		mb2_tag(tag);
		at += ALIGN_UP((size_t)tag->size, 8);
	}
}

/* --- PVH -------------------------------------------------------------------------------------------------------------- */

struct hvm_start_info {
	u32	magic, version, flags, nr_modules;
	u64	modlist, cmdline, rsdp;
	u64	memmap;			/* version 1 and later */
	u32	memmap_entries, reserved;
};

struct hvm_module {
	u64	paddr, size, cmdline, reserved;
};

struct hvm_memmap_entry {
	u64	addr, size;
	u32	type, reserved;
};

static bool read_pvh(phys_addr_t info)
{
	const struct hvm_start_info *si = boot_phys(info, sizeof(*si));

	if (!si || si->magic != PVH_MAGIC)
		return false;
	strscpy(boot_info.loader, "PVH", sizeof(boot_info.loader));
	const char *cmdline = si->cmdline ? boot_phys(si->cmdline, sizeof(boot_info.cmdline)) : NULL;
	if (cmdline)
		copy_text(boot_info.cmdline, sizeof(boot_info.cmdline), cmdline, sizeof(boot_info.cmdline));
	boot_info.rsdp = si->rsdp;

	const struct hvm_module *module = si->nr_modules ? boot_phys(si->modlist, sizeof(*module)) : NULL;
	if (module && module->size) {
		boot_info.initrd = module->paddr;
		boot_info.initrd_size = module->size;
	}

	u32 entries = si->version >= 1 ? min(si->memmap_entries, (u32)ARRAY_SIZE(raw)) : 0;
	const struct hvm_memmap_entry *map = boot_phys(si->memmap, entries * sizeof(*map));
	for (u32 i = 0; map && i < entries; i++)
		raw_add(map[i].addr, map[i].size, map[i].type);
	return true;
}

bool boot_info_init(u32 magic, phys_addr_t info)
{
	if (magic == MULTIBOOT2_MAGIC)
		read_multiboot2(info);
	else if (magic != PVH_MAGIC || !read_pvh(info))
		return false;
	finish_ranges();
	return true;
}

void boot_info_log(void)
{
	static const char *const name[] = { "usable", "reserved", "ACPI tables", "ACPI NVS", "bad" };
	u64 usable = 0;

	pr_info("loader: %s%s", boot_info.loader[0] ? boot_info.loader : "unnamed", boot_info.uefi ? ", UEFI" : "");
	pr_info("command line: %s", boot_info.cmdline);
	for (unsigned int i = 0; i < boot_info.nr_mem; i++) {
		const struct mem_range *r = &boot_info.mem[i];
		pr_info("memory %012lx-%012lx %s", r->base, r->base + r->len - 1, name[r->type]);
		if (r->type == MEM_USABLE)
			usable += r->len;
	}
	pr_info("memory: %lu MiB usable", usable >> 20);
	if (boot_info.initrd)
		pr_info("initramfs: %lu KiB at %012lx", boot_info.initrd_size >> 10, boot_info.initrd);
}
