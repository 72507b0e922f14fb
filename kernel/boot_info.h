/*
 * What the loader told us, in one form for multiboot2 (GRUB) and PVH (QEMU -kernel). Filled by boot/ and
 * kernel/x86/boot_info.c before anything else runs; constant afterwards. All tables are copied out of loader
 * memory and bounds-checked, so nothing here points into memory that the frame allocator may hand out,
 * except the initrd, which it reserves until fs/initramfs.c has unpacked it.
 */
#ifndef KERNEL_BOOT_INFO_H
#define KERNEL_BOOT_INFO_H

#include "kernel/types.h"

enum mem_type { MEM_USABLE, MEM_RESERVED, MEM_ACPI_RECLAIM, MEM_ACPI_NVS, MEM_BAD };

struct mem_range {
	phys_addr_t	base;
	u64		len;
	enum mem_type	type;
};

struct framebuffer_info {
	phys_addr_t	phys;		/* 0: none */
	u32		pitch, width, height;
	u8		bpp;		/* 15, 16, 24, 32 */
	u8		red_pos, red_size, green_pos, green_size, blue_pos, blue_size;
};

struct boot_info {
	char			 cmdline[2048];
	char			 loader[64];
	struct mem_range	 mem[256];	/* sorted, page aligned, not overlapping */
	unsigned int		 nr_mem;
	phys_addr_t		 initrd;	/* 0: none */
	u64			 initrd_size;
	phys_addr_t		 rsdp;		/* ACPI root pointer structure, 0: none */
	bool			 uefi;
	struct framebuffer_info	 fb;
};

extern struct boot_info boot_info;

/*
 * Kernel parameters: "name=value" words of the command line, and bare words as switches.
 * cmdline_get copies the value (last one wins) into @buf and returns true; cmdline_flag tests a bare word.
 */
bool cmdline_get(const char *name, char *buf, size_t size);
bool cmdline_flag(const char *name);
bool cmdline_on(const char *name, bool def);	/* name=on|off|1|0; anything else is reported and ignored */

#endif
