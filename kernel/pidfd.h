/* Descriptors that name a process: kernel/pidfd.c. Readable (poll) when it is a zombie. */
#ifndef KERNEL_PIDFD_H
#define KERNEL_PIDFD_H

#include "kernel/types.h"

struct file;
struct process;

#define PIDFD_NONBLOCK	0x800u			/* = O_NONBLOCK */
/* A reserved descriptor and, in *filp, its file, for fd_install() or fd_release() and file_put(); or -errno. */
int pidfd_create(struct process *p, unsigned int flags, struct file **filp);
struct process *pidfd_process_get(int fd);	/* counted, or ERR_PTR(-EBADF) */

#endif
