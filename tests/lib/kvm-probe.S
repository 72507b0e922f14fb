/*
 * A guest that finds out whether hardware virtualisation really works here.
 *
 * In nested clouds /dev/kvm may open, create a machine and even run 16-bit code, while anything like a kernel runs a
 * thousand times too slowly or not at all. So this does what a kernel does: 32-bit and 64-bit mode, a long plain loop,
 * page-table edits with flushes, page faults through the IDT, and a second CPU. After each it says a letter on QEMU's debug
 * port; the host believes in virtualisation when it reads all of "abcdK" before its deadline (tests/lib/vm.py).
 *
 * Built as a 32-bit multiboot 1 file, which QEMU starts without any firmware or boot loader of ours.
 */
#define DEBUG_PORT	0xe9
#define SAY(c)		movb $(c), %al; outb %al, $DEBUG_PORT

#define PML4		0x200000	/* tables, zeroed by us: 1 GiB mapped by 2 MiB pages, the last MiB by a page table */
#define PDPT		0x201000
#define PD		0x202000
#define PT		0x203000	/* maps WINDOW */
#define WINDOW		0x10000000	/* 256 MiB: PD entry 128 */
#define IDT		0x204000
#define STACK		0x208000
#define AP_CODE		0x8000
#define LAPIC		0xfee00000

	.code32
	.section .text, "ax"
	.align 4
	.long 0x1badb002, 0, -0x1badb002
	.globl _start
_start:
	movl $STACK, %esp
	movl $PML4, %edi
	xorl %eax, %eax
	movl $(0x6000 / 4), %ecx
	rep stosl
	movl $(PDPT + 3), PML4
	movl $(PD + 3), PDPT
	movl $0x83, %eax			/* present, writable, 2 MiB */
	movl $PD, %edi
	movl $512, %ecx
1:	movl %eax, (%edi)
	addl $0x200000, %eax
	addl $8, %edi
	loop 1b
	movl $(PT + 3), PD + 128 * 8
	/* The local APIC, at 4 GiB less 18 MiB: a table of its own, at the fourth GiB. */
	movl $(IDT + 0x1000 + 3), PDPT + 3 * 8
	movl $(LAPIC + 0x93), IDT + 0x1000 + ((LAPIC >> 21) & 511) * 8

	movl %cr4, %eax
	orl $0x20, %eax				/* PAE */
	movl %eax, %cr4
	movl $PML4, %eax
	movl %eax, %cr3
	movl $0xc0000080, %ecx
	rdmsr
	orl $0x100, %eax			/* EFER.LME */
	wrmsr
	movl %cr0, %eax
	orl $0x80000001, %eax
	movl %eax, %cr0
	lgdt gdt_pointer
	ljmp $8, $long_mode

	.code64
long_mode:
	movl $16, %eax
	movl %eax, %ss
	movl %eax, %ds
	movl %eax, %es

	movl $50000000, %ecx			/* a: plain code */
1:	decl %ecx
	jnz 1b
	SAY('a')

	movl $20000, %ecx			/* b: map, touch, unmap, flush */
1:	movl $(0x300000 + 3), PT
	movl %ecx, WINDOW
	movl $0, PT
	invlpg WINDOW
	movq %cr3, %rax
	movq %rax, %cr3
	loop 1b
	SAY('b')

	leaq page_fault(%rip), %rax		/* c: page faults */
	movw %ax, IDT + 14 * 16
	movw $8, IDT + 14 * 16 + 2
	movw $0x8e00, IDT + 14 * 16 + 4
	shrl $16, %eax
	movw %ax, IDT + 14 * 16 + 6
	lidt idt_pointer(%rip)
	movl $5000, %ecx
1:	movl %ecx, WINDOW
	movl $0, PT
	invlpg WINDOW
	loop 1b
	SAY('c')

	leaq ap_start(%rip), %rsi		/* d: a second CPU */
	movl $AP_CODE, %edi
	movl $(ap_end - ap_start), %ecx
	rep movsb
	movl $LAPIC, %ebx
	movl $0x1ff, 0xf0(%rbx)
	movl $0x000c4500, 0x300(%rbx)		/* INIT, all but self */
	movl $2000000, %ecx
1:	pause
	loop 1b
	movl $(0x000c4600 | AP_CODE >> 12), 0x300(%rbx)
1:	pause
	cmpb $0x5a, AP_CODE + 0x800
	jne 1b
	SAY('d')
	SAY('K')
1:	hlt
	jmp 1b

page_fault:
	movl $(0x300000 + 3), PT
	addq $8, %rsp
	iretq

	.code16
ap_start:
	movw $0, %ax
	movw %ax, %ds
	movb $0x5a, AP_CODE + 0x800
1:	hlt
	jmp 1b
ap_end:

	.align 8
gdt:
	.quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff
gdt_pointer:
	.word . - gdt - 1
	.long gdt
	.long 0
idt_pointer:
	.word 256 * 16 - 1
	.quad IDT
