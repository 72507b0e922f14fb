/* epoll(7), the part that the file layer needs. */
#ifndef FS_EVENTPOLL_H
#define FS_EVENTPOLL_H

#include "fs/vfs.h"

void eventpoll_release_file(struct file *f);

/* Last reference of @f is gone, its release has not run: takes it out of every epoll. May sleep. */
static inline void eventpoll_release(struct file *f)
{
	if (!list_empty(&f->epoll_links))
		eventpoll_release_file(f);
}

#endif
