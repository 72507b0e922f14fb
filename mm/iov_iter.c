/*
 * Buffers as read(2), readv(2) and the kernel itself describe them, consumed from front to back.
 *
 * An iterator over user memory never promises that the memory is there: a copy that stops early returns what it did,
 * and has advanced by exactly that, so the caller can report a short count or fault the rest in and go on.
 */
#include "mm/uaccess.h"

#include "kernel/errno.h"
#include "kernel/string.h"
#include "mm/slab.h"

#define IOV_MAX		1024ul
#define MAX_RW_COUNT	(0x7fffffffl & (long)PAGE_MASK)	/* what one call transfers at most, as in Linux */

void iov_iter_init(struct iov_iter *it, const struct iovec *iov, size_t nr, size_t count)
{
	*it = (struct iov_iter){ .iov = iov, .nr_segs = nr, .count = count };
}

/* @slot holds the one segment and must live as long as the iterator. */
void iov_iter_kernel(struct iov_iter *it, struct iovec *slot, void *buf, size_t len)
{
	*slot = (struct iovec){ buf, len };
	*it = (struct iov_iter){ .iov = slot, .nr_segs = 1, .count = len, .kernel = true };
}

/* The next contiguous piece, at most @n bytes; 0 at the end. */
static size_t next_piece(struct iov_iter *it, size_t n, void **base)
{
	while (it->nr_segs && it->seg_off == it->iov->len) {
		it->iov++;
		it->nr_segs--;
		it->seg_off = 0;
	}
	if (!it->nr_segs || !it->count)
		return 0;
	*base = (char *)it->iov->base + it->seg_off;
	return min(n, min(it->count, it->iov->len - it->seg_off));
}

static void advance(struct iov_iter *it, size_t n)
{
	it->seg_off += n;
	it->count -= n;
}

/* The usual case: the next @n bytes lie in one user buffer. With bytes left to count there is a segment to look at. */
static bool in_one_user_piece(const struct iov_iter *it, size_t n)
{
	return n && n <= it->count && n <= it->iov->len - it->seg_off && !it->kernel;
}

static __noinline size_t copy_to_pieces(const void *from, size_t n, struct iov_iter *it)
{
	size_t done = 0, piece, left = 0;
	void *base;

	for (; done < n && !left && (piece = next_piece(it, n - done, &base)); done += piece - left) {
		if (it->kernel)
			memcpy(base, (const char *)from + done, piece);
		else
			left = copy_to_user(base, (const char *)from + done, piece);
		advance(it, piece - left);
	}
	return done;
}

size_t copy_to_iter(const void *from, size_t n, struct iov_iter *it)
{
	if (unlikely(!in_one_user_piece(it, n)))
		return copy_to_pieces(from, n, it);
	size_t done = n - copy_to_user((char *)it->iov->base + it->seg_off, from, n);

	advance(it, done);
	return done;
}

static __noinline size_t copy_from_pieces(void *to, size_t n, struct iov_iter *it)
{
	size_t done = 0, piece, left = 0;
	void *base;

	for (; done < n && !left && (piece = next_piece(it, n - done, &base)); done += piece - left) {
		if (it->kernel)
			memcpy((char *)to + done, base, piece);
		else
			left = copy_from_user((char *)to + done, base, piece);
		advance(it, piece - left);
	}
	return done;
}

size_t copy_from_iter(void *to, size_t n, struct iov_iter *it)
{
	if (unlikely(!in_one_user_piece(it, n)))
		return copy_from_pieces(to, n, it);
	size_t done = n - copy_from_user(to, (char *)it->iov->base + it->seg_off, n);

	advance(it, done);
	return done;
}

size_t zero_iter(size_t n, struct iov_iter *it)
{
	size_t done = 0, piece, left = 0;
	void *base;

	for (; done < n && !left && (piece = next_piece(it, n - done, &base)); done += piece - left) {
		if (it->kernel)
			memset(base, 0, piece);
		else
			left = clear_user(base, piece);
		advance(it, piece - left);
	}
	return done;
}

/* One byte of each page of [base, base + n); bytes at the end that could not be made present. */
static size_t fault_in_readable(const char __user *base, size_t n)
{
	const char __user *p = base, *end = base + n;
	u8 byte __unused;

	while (p < end) {
		if (get_user(byte, (const u8 __user *)p))
			return (size_t)(end - p);
		p = (const char __user *)(((uintptr_t)p & PAGE_MASK) + PAGE_SIZE);
	}
	return 0;
}

/* Does not advance. */
size_t fault_in_iter_readable(struct iov_iter *it, size_t n)
{
	struct iov_iter look = *it;
	size_t piece, left;
	void *base;

	n = min(n, it->count);
	if (it->kernel)
		return 0;
	for (; n && (piece = next_piece(&look, n, &base)); n -= piece) {
		left = fault_in_readable(base, piece);
		if (left)
			return n - (piece - left);
		advance(&look, piece);
	}
	return n;
}

/* Checks in Linux's order: too many, unreadable, a negative length, a bad address. The total is cut at MAX_RW_COUNT. */
ssize_t import_iovec(const struct iovec __user *uvec, unsigned long nr, struct iovec **iov, struct iovec *fast, size_t nr_fast)
{
	struct iovec *v = fast;
	ssize_t total = 0, err;

	*iov = fast;
	if (nr > IOV_MAX)
		return -EINVAL;
	if (nr > nr_fast) {
		v = kmalloc(nr * sizeof(*v), GFP_KERNEL);
		if (!v)
			return -ENOMEM;
	}
	err = copy_in(v, uvec, nr * sizeof(*v));
	if (err)
		goto free_vector;
	for (unsigned long i = 0; i < nr; i++) {
		err = -EINVAL;
		if ((ssize_t)v[i].len < 0)
			goto free_vector;
		err = -EFAULT;
		if (!access_ok(v[i].base, v[i].len))
			goto free_vector;
		v[i].len = min(v[i].len, (size_t)(MAX_RW_COUNT - total));
		total += (ssize_t)v[i].len;
	}
	*iov = v;
	return total;

free_vector:
	if (v != fast)
		kfree(v);
	return err;
}
