/* Pipes and FIFOs (pipe(7)): a ring of pages, read and write ends that count themselves. */
#ifndef FS_PIPE_H
#define FS_PIPE_H

#include "fs/vfs.h"

struct page;

#define PIPE_DEF_PAGES	16u		/* 64 KiB */
#define PIPE_BUF	4096u		/* writes up to this are atomic */
#define PIPE_MAX_PAGES	256u		/* F_SETPIPE_SZ limit for everybody: 1 MiB */

/* One slot of the ring. @page is counted; shared ones (vmsplice) are never written to again. */
struct pipe_slot {
	struct page	*page;
	u32		 offset, len;
	bool		 shared;
};

/*
 *   P  pipe->lock (LOCK_PIPE)     A  atomic
 */
struct pipe {
	struct mutex	 lock;
	struct pipe_slot *slots;	/* P  [nr_slots], a power of two */
	u32		 nr_slots;	/* P */
	u32		 head, tail;	/* P  free running; written slots are [tail, head) */
	u32		 readers, writers;	/* P  open ends */
	u32		 r_counter, w_counter;	/* P  opens ever, so that a FIFO open can see a peer that came and went */
	bool		 polled;	/* set for good by the first poll: edge-triggered watchers want to hear of every write */
	struct page	*spare;		/* P  one emptied page kept for the next write */
	struct wait_queue rd_wait, wr_wait;
	struct refcount	 refs;		/* open files; inode->meta_lock to change */
};

extern const struct file_ops pipe_read_fops, pipe_write_fops;
extern const struct file_ops fifo_fops;			/* open of an S_IFIFO inode; given to register_fifo_ops() by pipe_init */
void pipe_init(void);
struct pipe *file_pipe(struct file *f);			/* NULL: not a pipe */
long pipe_get_size(struct file *f);			/* F_GETPIPE_SZ: bytes or -EBADF */
long pipe_set_size(struct file *f, unsigned long bytes);	/* F_SETPIPE_SZ: new bytes or -errno */

#endif
