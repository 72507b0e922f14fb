/* Kernel side of eventfd(2). */
#ifndef FS_EVENTFD_H
#define FS_EVENTFD_H

#include "kernel/types.h"

struct file;

bool file_is_eventfd(const struct file *f);
/* Adds @n and wakes readers; any context, never sleeps. The caller holds a reference on @f. */
void eventfd_signal(struct file *f, u64 n);

#endif
