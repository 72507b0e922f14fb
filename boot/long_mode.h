/*
 * ENABLE_LONG_MODE: paging on with the boot page tables, EFER.LME, caches on. For 32-bit code at its physical address;
 * a far jump to a 64-bit segment must follow. A macro, because an AP has no stack to call with. Clobbers eax, ecx, edx.
 */
	.macro	ENABLE_LONG_MODE
	mov	%cr4, %eax
	or	$(1 << 5 | 1 << 7), %eax	/* PAE, PGE */
	mov	%eax, %cr4
	mov	$(boot_pgd - KERNEL_BASE_ASM), %eax
	mov	%eax, %cr3
	mov	$0xc0000080, %ecx		/* EFER.LME; NX and SYSCALL wait until the features are known */
	rdmsr
	or	$(1 << 8), %eax
	wrmsr
	mov	%cr0, %eax
	and	$~(1 << 2 | 1 << 3 | 3 << 29), %eax	/* EM, TS, NW, CD off */
	or	$(1 << 31 | 1 << 16 | 1 << 5 | 1 << 1 | 1), %eax	/* PG, WP, NE, MP, PE */
	mov	%eax, %cr0
	.endm
