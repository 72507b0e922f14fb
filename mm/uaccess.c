/*
 * Copies between kernel and user memory: range checks and result conventions around the routines of mm/uaccess_asm.S,
 * and the exception table that makes their faults return.
 *
 * A page that is merely not there yet is faulted in by do_page_fault() in the middle of the copy, and the copy goes
 * on. Only what cannot be served, or may not be (pagefault_disable), ends at the fix-up.
 */
#include "mm/uaccess.h"

#include "kernel/errno.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/kasan.h"

size_t __copy_user(void *to, const void *from, size_t n);
size_t __clear_user(void *to, size_t n);
int __cmpxchg_user_u32(u32 *uaddr, u32 old, u32 new_val, u32 *cur);
ssize_t __strncpy_user(char *dst, const char *src, size_t n);
ssize_t __strnlen_user(const char *src, size_t n);

size_t copy_from_user(void *to, const void __user *from, size_t n)
{
	size_t left = n;

	kasan_check(to, n, true, (uintptr_t)__builtin_return_address(0));
	if (likely(access_ok(from, n)))
		left = __copy_user(to, from, n);
	if (unlikely(left))
		memset((char *)to + (n - left), 0, left);
	return left;
}

size_t copy_to_user(void __user *to, const void *from, size_t n)
{
	kasan_check(from, n, false, (uintptr_t)__builtin_return_address(0));
	return likely(access_ok(to, n)) ? __copy_user(to, from, n) : n;
}

size_t clear_user(void __user *to, size_t n)
{
	return likely(access_ok(to, n)) ? __clear_user(to, n) : n;
}

int copy_in(void *to, const void __user *from, size_t n)
{
	kasan_check(to, n, true, (uintptr_t)__builtin_return_address(0));
	if (unlikely(!access_ok(from, n)))
		return -EFAULT;
	return __copy_user(to, from, n) ? -EFAULT : 0;
}

int copy_out(void __user *to, const void *from, size_t n)
{
	kasan_check(from, n, false, (uintptr_t)__builtin_return_address(0));
	if (unlikely(!access_ok(to, n)))
		return -EFAULT;
	return __copy_user(to, from, n) ? -EFAULT : 0;
}

/* Bytes from @s to the end of user space: a string may not run over it. */
static size_t room_above(const char __user *s)
{
	return (uintptr_t)s < TASK_SIZE ? TASK_SIZE - (uintptr_t)s : 0;
}

ssize_t strncpy_from_user(char *dst, const char __user *src, size_t size)
{
	size_t room = room_above(src), n = min(size, room);
	ssize_t len = __strncpy_user(dst, src, n);

	if (len < 0)
		return len;
	if ((size_t)len < n)
		return len;
	return n == size ? -ENAMETOOLONG : -EFAULT;
}

size_t strnlen_user(const char __user *s, size_t max)
{
	size_t room = room_above(s), n = min(max, room);
	ssize_t len = __strnlen_user(s, n);

	if (len < 0)
		return 0;
	if ((size_t)len < n)
		return (size_t)len + 1;
	return n == max ? max + 1 : 0;
}

/* -- accesses that must not sleep ------------------------------------------------------------------------------ */

void pagefault_disable(void)
{
	current->pagefault_disabled++;
	barrier();
}

void pagefault_enable(void)
{
	barrier();
	assert(current->pagefault_disabled > 0);
	current->pagefault_disabled--;
}

int get_user_u32_atomic(u32 *val, const u32 __user *uaddr)
{
	pagefault_disable();
	int err = get_user(*val, uaddr);
	pagefault_enable();
	return err;
}

int cmpxchg_user_u32_atomic(u32 __user *uaddr, u32 old, u32 new_val, u32 *cur)
{
	if (!access_ok(uaddr, sizeof(*uaddr)))
		return -EFAULT;
	pagefault_disable();
	int err = __cmpxchg_user_u32(uaddr, old, new_val, cur);
	pagefault_enable();
	return err;
}

/* -- exception table ------------------------------------------------------------------------------------------- */

extern struct exception_entry __ex_table_start[], __ex_table_end[];

static uintptr_t entry_insn(const struct exception_entry *e)
{
	return (uintptr_t)&e->insn + (uintptr_t)(s64)e->insn;
}

/* The offsets count from where they stand, so moving an entry changes them. */
static void swap_entries(struct exception_entry *a, struct exception_entry *b)
{
	s32 distance = (s32)((char *)b - (char *)a);
	struct exception_entry old = *a;

	a->insn = b->insn + distance;
	a->fixup = b->fixup + distance;
	b->insn = old.insn - distance;
	b->fixup = old.fixup - distance;
}

/* Insertion sort: a few dozen entries, nearly sorted by the linker. Boot CPU, while constants can still be written. */
void exception_table_init(void)
{
	for (struct exception_entry *i = __ex_table_start + 1; i < __ex_table_end; i++)
		for (struct exception_entry *e = i; e > __ex_table_start && entry_insn(e - 1) > entry_insn(e); e--)
			swap_entries(e - 1, e);
}

/* Any context. Faults before mm_init are bugs anyway. */
uintptr_t search_exception_table(uintptr_t rip)
{
	const struct exception_entry *low = __ex_table_start, *high = __ex_table_end;

	while (low < high) {
		const struct exception_entry *mid = low + (high - low) / 2;
		uintptr_t insn = entry_insn(mid);

		if (insn == rip)
			return (uintptr_t)&mid->fixup + (uintptr_t)(s64)mid->fixup;
		if (insn < rip)
			low = mid + 1;
		else
			high = mid;
	}
	return 0;
}
