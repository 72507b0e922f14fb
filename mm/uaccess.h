/*
 * Copies between kernel and user memory. All check the range against TASK_SIZE first, may fault and sleep (unless
 * pagefault_disable()), and never raise a signal: a bad address is an error return (A35).
 */
#ifndef MM_UACCESS_H
#define MM_UACCESS_H

#include "kernel/errno.h"
#include "kernel/types.h"
#include "mm/layout.h"

static inline bool access_ok(const void __user *p, size_t n)
{
	uintptr_t a = (uintptr_t)p;
	return n <= TASK_SIZE && a <= TASK_SIZE - n;
}

/* Bytes NOT copied (0 = all), as in Linux. copy_from_user zeroes the rest of @to. */
size_t __must_check copy_from_user(void *to, const void __user *from, size_t n);
size_t __must_check copy_to_user(void __user *to, const void *from, size_t n);
size_t __must_check clear_user(void __user *to, size_t n);
/* 0 or -EFAULT, and then nobody looks at what is in @to. */
int __must_check copy_in(void *to, const void __user *from, size_t n);
int __must_check copy_out(void __user *to, const void *from, size_t n);
/* Length without NUL; -EFAULT; -ENAMETOOLONG if no NUL within @size bytes. Always terminated on success. */
ssize_t __must_check strncpy_from_user(char *dst, const char __user *src, size_t size);
/* Length including NUL, 0 on fault, > max when longer than max bytes (NUL included). */
size_t strnlen_user(const char __user *s, size_t max);

/*
 * Listed as changed by asm that calls a function, so that the compiler has set up its frame by then. It must be global: Clang takes a
 * local register variable without a value for a register that it may use.
 */
register uintptr_t current_stack_pointer __asm__("rsp");

/*
 * One naturally aligned scalar of 1, 2, 4 or 8 bytes. get_user(x, uptr): 0 or -EFAULT, then x = 0. The helpers in
 * mm/uaccess_asm.S change only RAX and RDX, so the call costs the surrounding code nothing else.
 */
#define get_user(x, uptr) ({								\
	u64 _gu;									\
	int _gu_err;									\
	_Static_assert(sizeof(*(uptr)) <= 8 && !(sizeof(*(uptr)) & (sizeof(*(uptr)) - 1)), "scalar"); \
	__asm__ volatile("call __get_user_%c4"						\
			 : "=a"(_gu), "=d"(_gu_err), "+r"(current_stack_pointer)	\
			 : "D"(uptr), "i"(sizeof(*(uptr))) : "memory", "cc");		\
	(x) = (__typeof__(*(uptr)))_gu;							\
	_gu_err; })
#define put_user(x, uptr) ({								\
	const __typeof__(*(uptr)) _pu = (x);						\
	u64 _pu_reg = (u64)_pu;								\
	int _pu_err;									\
	_Static_assert(sizeof(*(uptr)) <= 8 && !(sizeof(*(uptr)) & (sizeof(*(uptr)) - 1)), "scalar"); \
	__asm__ volatile("call __put_user_%c4"						\
			 : "+a"(_pu_reg), "=d"(_pu_err), "+r"(current_stack_pointer)	\
			 : "D"(uptr), "i"(sizeof(*(uptr))) : "memory", "cc");		\
	_pu_err; })

/* Without faulting in: for code that holds spin locks (futex). 0 or -EFAULT. */
int __must_check get_user_u32_atomic(u32 *val, const u32 __user *uaddr);
/* *uaddr: old -> new; 0 and *cur = what was there, or -EFAULT. Does not fault in. */
int __must_check cmpxchg_user_u32_atomic(u32 __user *uaddr, u32 old, u32 new_val, u32 *cur);
/* Makes the page of @uaddr present (writable if @write) in current's mm; 0 or -EFAULT. Sleeps. (mm/gup.c) */
int fault_in_user_page(uintptr_t uaddr, bool write);

void pagefault_disable(void);	/* faults in user copies fail at once until enabled again; nests */
void pagefault_enable(void);

/* Exception table: instruction that may fault -> where to go on. Entries are relative 32-bit offsets in .ex_table. */
struct exception_entry { s32 insn, fixup; };
/* The fix-up address for @rip, or 0. */
uintptr_t search_exception_table(uintptr_t rip);
void exception_table_init(void);		/* sorts it; mm_init, before it becomes read-only */
#define EX_TABLE(from, to) \
	".pushsection .ex_table, \"a\"\n .balign 4\n .long (" #from ") - .\n .long (" #to ") - .\n .popsection\n"

/* A user buffer or several (readv), or a kernel buffer, consumed front to back. */
struct iovec { void __user *base; size_t len; };
struct iov_iter {
	const struct iovec *iov;	/* kernel copy of the vector */
	size_t	nr_segs, seg_off;	/* segments left; offset into the first */
	size_t	count;			/* bytes left */
	bool	kernel;			/* bases are kernel addresses */
};
void iov_iter_init(struct iov_iter *it, const struct iovec *iov, size_t nr, size_t count);
void iov_iter_kernel(struct iov_iter *it, struct iovec *slot, void *buf, size_t len);
/* Bytes copied; fewer than n only after a fault. Advance the iterator by what was copied. */
size_t copy_to_iter(const void *from, size_t n, struct iov_iter *it);
size_t copy_from_iter(void *to, size_t n, struct iov_iter *it);
size_t zero_iter(size_t n, struct iov_iter *it);
/* Faults in the next @n bytes for reading them (source of a write); bytes that could not be made present. */
size_t fault_in_iter_readable(struct iov_iter *it, size_t n);
/* readv/writev vectors: *iov is @fast or kmalloc'd (kfree if != fast). Total length or -EINVAL/-EFAULT/-ENOMEM. */
ssize_t import_iovec(const struct iovec __user *uvec, unsigned long nr, struct iovec **iov, struct iovec *fast, size_t nr_fast);

#endif
