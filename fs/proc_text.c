/* Text files of procfs: made whole, in one go, so that a reader sees one moment however small its reads are. */
#include "fs/procfs.h"
#include "kernel/errno.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define TEXT_FIRST	PAGE_SIZE
#define TEXT_LIMIT	(64ul << 20)	/* 60,000 VMAs in smaps are about 50 MiB */

ssize_t proc_text_make(proc_show_t show, void *arg, char **out)
{
	for (size_t size = TEXT_FIRST; size <= TEXT_LIMIT; size *= 4) {
		char *buf = kvmalloc(size, GFP_KERNEL);

		if (!buf)
			return -ENOMEM;
		ssize_t n = show(arg, buf, size);

		if (n >= 0 && (size_t)n < size) {
			*out = buf;
			return n;
		}
		kvfree(buf);
		if (n < 0)
			return n;
	}
	return -EFBIG;
}

void proc_text_free(struct proc_text *text)
{
	kvfree(text->buf);
	text->buf = NULL;
	text->len = 0;
}

ssize_t proc_text_read(struct proc_text *text, proc_show_t show, void *arg, struct iov_iter *to, loff_t *pos)
{
	if (*pos < 0)
		return -EINVAL;
	if (*pos == 0 || !text->buf) {
		proc_text_free(text);
		ssize_t n = proc_text_make(show, arg, &text->buf);

		if (n < 0)
			return n;
		text->len = (size_t)n;
	}
	if ((size_t)*pos >= text->len)
		return 0;
	size_t n = min(text->len - (size_t)*pos, to->count);
	size_t copied = copy_to_iter(text->buf + *pos, n, to);

	*pos += (loff_t)copied;
	return copied || !n ? (ssize_t)copied : -EFAULT;
}
