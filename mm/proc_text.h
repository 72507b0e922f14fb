/* Text of /proc/PID that may not fit: between the files of mm/ that write it. */
#ifndef MM_PROC_TEXT_H
#define MM_PROC_TEXT_H

#include "mm/mm.h"

struct vma;

struct text {
	char	*buf;
	size_t	 size, len;	/* len == size: it did not fit */
};

void __printf(2, 3) text_add(struct text *t, const char *fmt, ...);
static inline bool text_full(const struct text *t) { return t->len >= t->size; }
/* Calls @show for each VMA from *cursor on, and hands it @arg. mmap_lock is held for reading throughout: the buffer bounds the time. */
ssize_t show_vmas(struct mm *mm, u64 *cursor, char *buf, size_t size, void (*show)(struct text *t, struct vma *vma, void *arg), void *arg);

#endif
