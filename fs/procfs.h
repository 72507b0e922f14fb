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

/* A name that is a number: decimal, no leading zeros, at most nine digits; -1 for anything else. */
int proc_parse_number(const char *name, size_t len);

/* The /proc/PID directory inode (@thread: /proc/PID/task/TID). Takes over both references. ERR_PTR(-ENOMEM). */
struct inode *proc_pid_inode(struct process *p, struct task *thread);

#endif
