/*
 * Where the other CPUs begin. kernel/x86/smp.c copies ap_trampoline_start..end to a page below 1 MiB and sends its number
 * in the start-up IPI.
 *
 * Entry state: real mode, cs:ip = page << 8 : 0, everything else undefined, interrupts off. Many CPUs may come through
 * here at the same time, so nothing is written and there is no stack before each CPU has found its own number.
 * Exit state: 64-bit mode, boot page tables, GS at the CPU's own cpu_local, on its idle task's stack, ap_main(cpu).
 */
#include "kernel/x86/entry_offsets.h"
#include "boot/long_mode.h"

#define PHYS(sym)	((sym) - KERNEL_BASE_ASM)

	.section .rodata
	.balign 16
	.globl ap_trampoline_start, ap_trampoline_end
	.code16
ap_trampoline_start:
	cli
	cld
	lgdtl	%cs:(ap_gdt_ptr - ap_trampoline_start)
	mov	%cr0, %eax
	or	$1, %eax
	mov	%eax, %cr0
	ljmpl	$SEL_KERNEL_CS32, $PHYS(ap_entry32)
	.balign 4
ap_gdt_ptr:
	.short	31				/* four descriptors */
	.long	PHYS(boot_gdt)
ap_trampoline_end:

	.section .boot.text, "ax"
	.code32
ap_entry32:
	mov	$SEL_KERNEL_DS, %eax
	mov	%eax, %ds
	mov	%eax, %es
	mov	%eax, %ss
	ENABLE_LONG_MODE
	ljmp	$SEL_KERNEL_CS, $PHYS(ap_entry64_low)

	.code64
ap_entry64_low:
	movabs	$ap_entry64, %rax
	jmp	*%rax

	.type ap_entry64, @function
ap_entry64:
	mov	$SEL_KERNEL_DS, %eax
	mov	%eax, %ds
	mov	%eax, %es
	mov	%eax, %ss
	xor	%eax, %eax
	mov	%eax, %fs
	mov	%eax, %gs

	/* Our APIC id: CPUID leaf 0xb has all 32 bits of it, leaf 1 the low 8. */
	cpuid					/* leaf 0: the highest leaf */
	cmp	$0xb, %eax
	jb	1f
	mov	$0xb, %eax
	xor	%ecx, %ecx
	cpuid
	test	%ebx, %ebx
	jnz	2f				/* edx = id */
1:	mov	$1, %eax
	cpuid
	shr	$24, %ebx
	mov	%ebx, %edx

	/* The CPU number is the index in cpu_apic_ids[]. A stranger sleeps. */
2:	xor	%ecx, %ecx
3:	cmp	nr_cpus_found(%rip), %ecx
	jae	5f
	cmp	%edx, cpu_apic_ids(, %rcx, 4)
	je	4f
	inc	%ecx
	jmp	3b
4:	mov	ap_stack_tops(, %rcx, 8), %rsp
	test	%rsp, %rsp
	jz	5f				/* not one that we start (maxcpus=) */
	mov	%ecx, %edi

	/* The kernel's page tables, before the first push: the stack is in vmalloc space. They use NX, so EFER first. */
	mov	$0xc0000080, %ecx
	rdmsr
	or	$(1 << 11), %eax
	wrmsr
	mov	ap_cr3(%rip), %rax
	mov	%rax, %cr3

	mov	percpu_offsets(, %rdi, 8), %rax
	lea	cpu_local(%rax), %rax
	mov	%rax, %rdx
	shr	$32, %rdx
	mov	$0xc0000101, %ecx		/* MSR_GS_BASE */
	wrmsr
	xor	%ebp, %ebp
	call	ap_main
5:	cli
	hlt
	jmp	5b

	.section .note.GNU-stack, "", @progbits
