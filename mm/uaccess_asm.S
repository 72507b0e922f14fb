/*
 * The only instructions of the kernel that follow a user pointer (and, for SMAP, the only place that lifts the ban).
 *
 * All routines: System V calling convention, direction flag clear, may fault at the marked instructions. A fault that
 * cannot be served continues at the fix-up that the exception table names (struct exception_entry in mm/uaccess.h).
 * The caller has checked that the range lies below TASK_SIZE, except for the scalars, which check themselves.
 *
 * Bulk moves are REP MOVSQ/STOSQ: one iteration moves eight bytes whatever the CPU, and where iterations are counted
 * (QEMU -icount) that is eight times cheaper than the byte forms. On a fault RSI, RDI and RCX tell exactly how far it
 * got; the rest is tried byte by byte, so that the count returned is exact.
 */
#define USER_LIMIT 0x00007ffffffff000		/* TASK_SIZE */

	.macro USER_ACCESS_ON
	cmpb	$0, cpu_has_smap(%rip)
	je	.Lno_smap\@
	stac
.Lno_smap\@:
	.endm

	.macro USER_ACCESS_OFF
	cmpb	$0, cpu_has_smap(%rip)
	je	.Lno_smap\@
	clac
.Lno_smap\@:
	.endm

	.macro EX from:req, to:req
	.pushsection .ex_table, "a"
	.balign	4
	.long	\from - .
	.long	\to - .
	.popsection
	.endm

	.macro FUNC name
	.globl	\name
	.type	\name, @function
	.balign	16
\name:
	.endm

	.text

/*
 * size_t __copy_user(void *to, const void *from, size_t n): bytes not copied. Either side may be user memory.
 */
FUNC __copy_user
	mov	%rdx, %rcx
	and	$7, %edx		/* tail */
	shr	$3, %rcx
	USER_ACCESS_ON
1:	rep movsq
	mov	%edx, %ecx
2:	rep movsb
3:	USER_ACCESS_OFF
	mov	%rcx, %rax
	ret
4:	lea	(%rdx, %rcx, 8), %rcx	/* what is left, in bytes */
	jmp	2b
	EX	1b, 4b
	EX	2b, 3b
	.size	__copy_user, . - __copy_user

/*
 * size_t __clear_user(void *to, size_t n): bytes not cleared.
 */
FUNC __clear_user
	mov	%rsi, %rcx
	mov	%esi, %edx
	and	$7, %edx
	shr	$3, %rcx
	xor	%eax, %eax
	USER_ACCESS_ON
1:	rep stosq
	mov	%edx, %ecx
2:	rep stosb
3:	USER_ACCESS_OFF
	mov	%rcx, %rax
	ret
4:	lea	(%rdx, %rcx, 8), %rcx
	jmp	2b
	EX	1b, 4b
	EX	2b, 3b
	.size	__clear_user, . - __clear_user

/*
 * Scalars, called from the get_user and put_user macros only, by their own convention:
 *	in	rdi address, rax value (put)
 *	out	rax value (get; 0 after a fault), edx 0 or -EFAULT
 *	uses	nothing else
 */
	.macro SCALAR size:req, load:req, store:req
FUNC __get_user_\size
	mov	$USER_LIMIT - \size, %rdx
	cmp	%rdx, %rdi
	ja	get_user_fault
	USER_ACCESS_ON
1:	\load
	USER_ACCESS_OFF
	xor	%edx, %edx
	ret
	EX	1b, get_user_fault
	.size	__get_user_\size, . - __get_user_\size

FUNC __put_user_\size
	mov	$USER_LIMIT - \size, %rdx
	cmp	%rdx, %rdi
	ja	put_user_fault
	USER_ACCESS_ON
2:	\store
	USER_ACCESS_OFF
	xor	%edx, %edx
	ret
	EX	2b, put_user_fault
	.size	__put_user_\size, . - __put_user_\size
	.endm

	SCALAR	1, "movzbl (%rdi), %eax", "movb %al, (%rdi)"
	SCALAR	2, "movzwl (%rdi), %eax", "movw %ax, (%rdi)"
	SCALAR	4, "movl (%rdi), %eax", "movl %eax, (%rdi)"
	SCALAR	8, "movq (%rdi), %rax", "movq %rax, (%rdi)"

get_user_fault:
	xor	%eax, %eax
put_user_fault:
	USER_ACCESS_OFF
	mov	$-14, %edx		/* -EFAULT */
	ret

/*
 * int __cmpxchg_user_u32(u32 *uaddr, u32 old, u32 new, u32 *cur): 0, or -EFAULT. *cur = what was there.
 */
FUNC __cmpxchg_user_u32
	mov	%esi, %eax
	USER_ACCESS_ON
1:	lock cmpxchgl %edx, (%rdi)
	USER_ACCESS_OFF
	mov	%eax, (%rcx)
	xor	%eax, %eax
	ret
2:	USER_ACCESS_OFF
	mov	$-14, %eax
	ret
	EX	1b, 2b
	.size	__cmpxchg_user_u32, . - __cmpxchg_user_u32

/*
 * ssize_t __strncpy_user(char *dst, const char *src, size_t n): copies up to n bytes, stops after a NUL. Length
 * without the NUL; n if there is none; -EFAULT. Eight bytes at a time from the first aligned source address on: an
 * aligned word lies in one page, so reading it faults only if a byte that is wanted does. Up to seven bytes of dst
 * behind the NUL may be overwritten, never beyond n.
 *
 * r8 0x0101..01, r9 0x8080..80: word w has a zero byte iff (w - r8) & ~w & r9; the lowest set bit belongs to the first.
 */
FUNC __strncpy_user
	movabs	$0x0101010101010101, %r8
	movabs	$0x8080808080808080, %r9
	mov	%rdx, %r10		/* n */
	USER_ACCESS_ON
1:	test	$7, %esi		/* bytes up to the first aligned word */
	jz	3f
	test	%rdx, %rdx
	jz	7f
2:	movb	(%rsi), %al
	movb	%al, (%rdi)
	test	%al, %al
	jz	7f
	inc	%rsi
	inc	%rdi
	dec	%rdx
	jmp	1b
3:	cmp	$8, %rdx
	jb	5f
4:	movq	(%rsi), %rax
	mov	%rax, (%rdi)
	mov	%rax, %rcx
	not	%rax
	sub	%r8, %rcx
	and	%r9, %rax
	and	%rcx, %rax
	jnz	6f
	add	$8, %rsi
	add	$8, %rdi
	sub	$8, %rdx
	jmp	3b
5:	test	%rdx, %rdx		/* fewer than eight may still be taken */
	jz	7f
8:	movb	(%rsi), %al
	movb	%al, (%rdi)
	test	%al, %al
	jz	7f
	inc	%rsi
	inc	%rdi
	dec	%rdx
	jmp	5b
6:	bsf	%rax, %rax
	shr	$3, %eax
	sub	%rax, %rdx
7:	USER_ACCESS_OFF
	mov	%r10, %rax
	sub	%rdx, %rax
	ret
9:	USER_ACCESS_OFF
	mov	$-14, %rax
	ret
	EX	2b, 9b
	EX	4b, 9b
	EX	8b, 9b
	.size	__strncpy_user, . - __strncpy_user

/*
 * ssize_t __strnlen_user(const char *src, size_t n): length without the NUL; n if there is none; -EFAULT. As above.
 */
FUNC __strnlen_user
	movabs	$0x0101010101010101, %r8
	movabs	$0x8080808080808080, %r9
	mov	%rsi, %rdx
	mov	%rsi, %r10
	USER_ACCESS_ON
1:	test	%rdx, %rdx
	jz	7f
	test	$7, %edi
	jnz	2f
	cmp	$8, %rdx
	jae	4f
2:	cmpb	$0, (%rdi)
	je	7f
	inc	%rdi
	dec	%rdx
	jmp	1b
4:	movq	(%rdi), %rax
	mov	%rax, %rcx
	not	%rax
	sub	%r8, %rcx
	and	%r9, %rax
	and	%rcx, %rax
	jnz	6f
	add	$8, %rdi
	sub	$8, %rdx
	jmp	1b
6:	bsf	%rax, %rax
	shr	$3, %eax
	sub	%rax, %rdx
7:	USER_ACCESS_OFF
	mov	%r10, %rax
	sub	%rdx, %rax
	ret
9:	USER_ACCESS_OFF
	mov	$-14, %rax
	ret
	EX	2b, 9b
	EX	4b, 9b
	.size	__strnlen_user, . - __strnlen_user

	.section .note.GNU-stack, "", @progbits
