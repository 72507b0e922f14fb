/*
 * From the loader to kmain().
 *
 * Two loaders, one path:
 *	multiboot2 (GRUB, BIOS and UEFI)	eax = 0x36d76289, ebx = physical address of its information
 *	PVH (QEMU -kernel)			ebx = physical address of struct hvm_start_info, eax undefined
 *
 * Entry state of both: 32-bit protected mode, flat segments of the loader's, paging off, interrupts off, no stack.
 * Exit state: 64-bit mode, at the link address, boot page tables, boot GDT, GS at cpu_local, boot stack, kmain(magic, info).
 *
 * The boot page tables are data, built by the assembler (see the end): nothing to compute, nothing to get wrong at run
 * time. They map, with 2 MiB pages, all rights:
 *	0			the first 4 GiB	(for the instant of switching paging on)
 *	DIRECT_MAP_BASE		the first 4 GiB	(tables of the firmware and the loader)
 *	KERNEL_BASE		the first 1 GiB	(the image)
 *	BOOT_WINDOW_BASE	nothing yet	(kernel/x86/boot_map.c: the framebuffer)
 * mm_init() replaces them. The APs start on them again, so they stay.
 */
#include "kernel/x86/entry_offsets.h"
#include "boot/long_mode.h"

#define PHYS(sym)	((sym) - KERNEL_BASE_ASM)
#define MB2_MAGIC	0xe85250d6
#define PVH_MAGIC	0x336ec578

	.section .multiboot2, "a"
	.balign 8
mb2_header:
	.long MB2_MAGIC
	.long 0					/* i386, protected mode */
	.long mb2_header_end - mb2_header
	.long -(MB2_MAGIC + 0 + (mb2_header_end - mb2_header))

	.balign 8				/* we cannot do without a memory map */
	.short 1, 0
	.long 12
	.long 6
	.balign 8				/* optional: a linear framebuffer, any size but preferably this */
	.short 5, 1
	.long 20
	.long 1024, 768, 32
	.balign 8				/* modules page aligned */
	.short 6, 0
	.long 8
	.balign 8
	.short 0, 0
	.long 8
mb2_header_end:

	.section .note.Xen, "a", @note
	.balign 4
	.long 4, 8, 18				/* name size, descriptor size, XEN_ELFNOTE_PHYS32_ENTRY */
	.asciz "Xen"
	.quad PHYS(pvh_entry)

	.section .boot.text, "ax"
	.code32
	.globl multiboot2_entry, pvh_entry
	.type pvh_entry, @function
pvh_entry:
	mov	$PVH_MAGIC, %eax
	.type multiboot2_entry, @function
multiboot2_entry:
	cli
	cld
	mov	%eax, %edi			/* kmain's arguments; cpuid spares both registers */
	mov	%ebx, %esi

	mov	$0x80000000, %eax
	cpuid
	cmp	$0x80000001, %eax
	jb	no_long_mode
	mov	$0x80000001, %eax
	cpuid
	test	$(1 << 29), %edx
	jz	no_long_mode

	lgdt	PHYS(boot_gdt_ptr)
	ENABLE_LONG_MODE
	ljmp	$SEL_KERNEL_CS, $PHYS(entry64_low)

/* A sentence on the first serial port and on VGA text memory, then stop. Entry: 32-bit, anything. */
no_long_mode:
	mov	$PHYS(no_long_mode_text), %esi
	mov	$0xb8000, %edi
1:	lodsb
	test	%al, %al
	jz	3f
	mov	$0x0f, %ah
	stosw
	mov	%al, %bl
	mov	$0x3fd, %edx
	mov	$100000, %ecx
2:	in	(%dx), %al			/* room in the transmitter, but not for ever: there may be no port */
	test	$0x20, %al
	loopz	2b
	mov	%bl, %al
	mov	$0x3f8, %edx
	out	%al, (%dx)
	jmp	1b
3:	hlt
	jmp	3b

	.section .rodata
no_long_mode_text:
	.asciz "HALT: Faultline needs a 64-bit x86 CPU; this one has no long mode. "

	.section .boot.text, "ax"
	.code64
entry64_low:
	movabs	$entry64, %rax
	jmp	*%rax

	.type entry64, @function
entry64:
	lgdt	boot_gdt_ptr_virt(%rip)
	mov	$SEL_KERNEL_DS, %eax
	mov	%eax, %ds
	mov	%eax, %es
	mov	%eax, %ss
	xor	%eax, %eax
	mov	%eax, %fs
	mov	%eax, %gs
	lea	boot_stack_top(%rip), %rsp
	xor	%ebp, %ebp			/* end of every backtrace */
	mov	%edi, %r12d
	mov	%esi, %r13d

	/* The pristine per-CPU data, for the other CPUs, before the first write to it. */
	lea	__percpu_start(%rip), %rsi
	lea	__percpu_template(%rip), %rdi
	lea	__percpu_end(%rip), %rcx
	sub	%rsi, %rcx
	rep movsb

	/* GS at this CPU's own struct cpu_local. */
	lea	cpu_local(%rip), %rax
	mov	%rax, cpu_local + CPUL_SELF(%rip)
	mov	%rax, %rdx
	shr	$32, %rdx
	mov	$0xc0000101, %ecx
	wrmsr

	mov	%r12d, %edi
	mov	%r13d, %esi
	call	kmain
1:	cli
	hlt
	jmp	1b

/* --- data ------------------------------------------------------------------------------------------------------- */
	.section .rodata
	.balign 16
	.globl boot_gdt
boot_gdt:
	.quad 0
	.quad 0x00cf9b000000ffff		/* 0x08 code, 32 bits */
	.quad 0x00af9b000000ffff		/* 0x10 code, 64 bits */
	.quad 0x00cf93000000ffff		/* 0x18 data */
boot_gdt_end:
	.balign 8
	.short 0
	.globl boot_gdt_ptr
boot_gdt_ptr:					/* for lgdt before paging */
	.short boot_gdt_end - boot_gdt - 1
	.long PHYS(boot_gdt)
	.balign 8
boot_gdt_ptr_virt:
	.short boot_gdt_end - boot_gdt - 1
	.quad boot_gdt

#define TABLE	0x03				/* present, write */
#define LARGE	0x83				/* the same, 2 MiB leaf */

	.data
	.balign 4096
	.globl boot_pgd, boot_pmd_window
boot_pgd:
	.quad PHYS(boot_pud_low) + TABLE	/* identity */
	.fill 272, 8, 0
	.quad PHYS(boot_pud_low) + TABLE	/* 273: DIRECT_MAP_BASE */
	.fill 237, 8, 0
	.quad PHYS(boot_pud_high) + TABLE	/* 511 */
boot_pud_low:
	.quad PHYS(boot_pmd) + TABLE
	.quad PHYS(boot_pmd) + 0x1000 + TABLE
	.quad PHYS(boot_pmd) + 0x2000 + TABLE
	.quad PHYS(boot_pmd) + 0x3000 + TABLE
	.fill 508, 8, 0
boot_pud_high:
	.fill 510, 8, 0
	.quad PHYS(boot_pmd) + TABLE		/* KERNEL_BASE: the first GiB */
	.quad PHYS(boot_pmd_window) + TABLE	/* BOOT_WINDOW_BASE */
boot_pmd:
	.set	frame, 0
	.rept	2048
	.quad	frame + LARGE
	.set	frame, frame + 0x200000
	.endr
boot_pmd_window:
	.fill	512, 8, 0

	.section .bss.page_aligned, "aw", @nobits
	.balign 4096
	.globl boot_stack, boot_stack_top
boot_stack:
	.skip	BOOT_STACK_SIZE
boot_stack_top:

	.section .note.GNU-stack, "", @progbits
