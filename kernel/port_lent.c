/*
 * Memory that a caller lends for the time of a call.
 *
 * The range is faulted in and pinned by the caller, before the server hears of the call: a page that nobody will ever provide (a
 * userfaultfd without a server, a file of a server that has stopped) keeps the caller waiting, not the server. The server's
 * copies go to the pages themselves, under the loan's lock and without faulting; when port_lent_revoke() has returned no copy is under
 * way, and the caller may use the memory again.
 */
#include "kernel/port.h"

#include "kernel/errno.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/frame.h"
#include "mm/gup.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

static struct port_lent *lent_new(u64 len, u32 rights, u32 nr_pages)
{
	struct port_lent *l = kvmalloc(sizeof(*l) + nr_pages * sizeof(l->page[0]), GFP_KERNEL);

	if (!l)
		return NULL;
	memset(l, 0, sizeof(*l));
	refcount_set(&l->refs, 1);
	spin_lock_init(&l->lock, LOCK_PORT_LENT);
	l->len = len;
	l->rights = rights;
	return l;
}

static unsigned int foll_flags(const struct port_lent *l)
{
	return FOLL_PIN | (l->rights & FL_LENT_W ? FOLL_WRITE : 0);
}

struct port_lent *port_lent_user(uintptr_t addr, u64 len, u32 rights)
{
	if (!len || !rights || (rights & ~(FL_LENT_R | FL_LENT_W)))
		return ERR_PTR(-EINVAL);
	if (len > FL_LENT_MAX)
		return ERR_PTR(-E2BIG);
	if (!access_ok((void __user *)addr, len))
		return ERR_PTR(-EFAULT);
	u32 nr = (u32)(DIV_ROUND_UP((addr & (PAGE_SIZE - 1)) + len, PAGE_SIZE));
	struct port_lent *l = lent_new(len, rights, nr);

	if (!l)
		return ERR_PTR(-ENOMEM);
	l->offset = (u32)(addr & (PAGE_SIZE - 1));
	while (l->nr_pages < nr) {
		uintptr_t at = (addr & PAGE_MASK) + ((uintptr_t)l->nr_pages << PAGE_SHIFT);
		long n = get_user_pages(current->mm, at, nr - l->nr_pages, foll_flags(l), l->page + l->nr_pages);

		if (n <= 0) {
			port_lent_put(l);
			return ERR_PTR(n ? n : -EFAULT);
		}
		l->nr_pages += (u32)n;
	}
	return l;
}

struct port_lent *port_lent_kernel(void *buf, u64 len, u32 rights)
{
	struct port_lent *l = lent_new(len, rights, 0);

	if (!l)
		return ERR_PTR(-ENOMEM);
	l->kernel = buf;
	return l;
}

void port_lent_revoke(struct port_lent *l)
{
	spin_lock(&l->lock);
	l->revoked = true;
	spin_unlock(&l->lock);
}

void port_lent_put(struct port_lent *l)
{
	if (!l || !refcount_dec_and_test(&l->refs))
		return;
	for (u32 i = 0; i < l->nr_pages; i++)
		put_user_page(l->page[i], foll_flags(l), l->rights & FL_LENT_W);
	kvfree(l);
}

/* Where byte @at of the range lies in the kernel's map, and how many follow there. */
static u8 *lent_bytes(const struct port_lent *l, u64 at, size_t *n)
{
	if (l->kernel) {
		*n = min(*n, (size_t)(l->len - at));
		return l->kernel + at;
	}
	u64 from_start = l->offset + at;
	size_t in_page = from_start & (PAGE_SIZE - 1);

	*n = min(min(*n, PAGE_SIZE - in_page), (size_t)(l->len - at));
	return (u8 *)page_to_virt(l->page[from_start >> PAGE_SHIFT]) + in_page;
}

/* One piece, without faulting. Bytes; 0: the server's page is not there; -EFAULT: the loan is over. */
static ssize_t copy_piece(struct port_lent *l, u64 at, u8 __user *buf, size_t n, bool to_lent)
{
	spin_lock(&l->lock);
	if (l->revoked) {
		spin_unlock(&l->lock);
		return -EFAULT;
	}
	n = min(n, PAGE_SIZE - ((uintptr_t)buf & (PAGE_SIZE - 1)));
	u8 *bytes = lent_bytes(l, at, &n);

	pagefault_disable();
	size_t left = to_lent ? copy_from_user(bytes, buf, n) : copy_to_user(buf, bytes, n);
	pagefault_enable();
	spin_unlock(&l->lock);
	return (ssize_t)(n - left);
}

ssize_t port_lent_copy(struct port_lent *l, u64 offset, u8 __user *buf, u64 len, bool to_lent)
{
	ssize_t done = 0, n;

	if (!(l->rights & (to_lent ? FL_LENT_W : FL_LENT_R)))
		return -EACCES;
	if (offset > l->len)
		return -EINVAL;
	len = min(len, l->len - offset);
	while ((u64)done < len) {
		n = copy_piece(l, offset + (u64)done, buf + done, len - (u64)done, to_lent);
		if (!n)
			n = fault_in_user_page((uintptr_t)buf + (uintptr_t)done, !to_lent);	/* ours, and then again */
		if (n < 0)
			return done ? done : n;
		done += n;
		if (fatal_signal_pending())
			return done ? done : -EINTR;
		cond_resched();
	}
	return done;
}
