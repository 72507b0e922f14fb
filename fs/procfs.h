/* procfs and sysfs: what the files of both share. The contents come from the subsystems as plain text functions. */
#ifndef FS_PROCFS_H
#define FS_PROCFS_H

#include "fs/vfs.h"

struct process;
struct task;

void procfs_init(void);			/* /proc and /sys trees; after all subsystems */
void proc_sys_init(void);		/* /proc/sys */
void proc_system_init(void);		/* /proc/meminfo, stat, cpuinfo ... */
void sysfs_init(void);

/* The /proc/PID directory inode (@thread: /proc/PID/task/TID). Takes over both references. ERR_PTR(-ENOMEM). */
struct inode *proc_pid_inode(struct process *p, struct task *thread);

/* A file whose text one function makes on the read that starts at offset 0; later reads continue in that text. */
struct proc_text {
	char	*buf;
	size_t	 len;
};
typedef ssize_t (*proc_show_t)(void *arg, char *buf, size_t size);
ssize_t proc_text_read(struct proc_text *text, proc_show_t show, void *arg, struct iov_iter *to, loff_t *pos);
void proc_text_free(struct proc_text *text);
/* Calls show with growing buffers until the text fits. kvmalloc'd text and its length, or -errno. */
ssize_t proc_text_make(proc_show_t show, void *arg, char **out);

#endif
