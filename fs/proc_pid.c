/*
 * /proc/PID and /proc/PID/task/TID. An inode here names a process (counted) and one thread of it (counted, or NULL for
 * "the process"); its contents are asked for on each read. A process that is gone answers ESRCH.
 */
#include "fs/procfs.h"

#include "fs/internal.h"
#include "fs/tty.h"
#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "mm/mmap.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define USER_HZ		100u
#define NSEC_PER_TICK	(NSEC_PER_SEC / USER_HZ)

struct proc_entry;

/* inode->private. */
struct proc_node {
	struct process		*process;	/* counted */
	struct task		*thread;	/* counted or NULL */
	const struct proc_entry	*entry;		/* NULL: the directory of the process or thread itself */
	int			 fd;		/* entries below fd/ and fdinfo/ */
};

/* What one name in the directory is. Exactly one of show, link, fops, dir is set. */
struct proc_entry {
	const char		*name;
	u32			 mode;		/* type and rights */
	ssize_t			(*show)(struct proc_node *n, char *buf, size_t size);
	ssize_t			(*store)(struct proc_node *n, const char *buf, size_t len);
	int			(*link)(struct proc_node *n, struct path *out);
	const struct file_ops	*fops;
	const struct inode_ops	*dir;
	bool			 private;	/* needs the rights of a debugger (may_ptrace) */
	bool			 process_only;	/* not below task/TID */
};

static struct proc_node *node_of(struct inode *inode) { return inode->private; }

/* The thread meant: the named one, else the leader. Counted; NULL when it is gone. */
static struct task *node_task(struct proc_node *n)
{
	if (n->thread) {
		task_get(n->thread);
		return n->thread;
	}
	return find_task_get(n->process->tgid);
}

static struct mm *node_mm(struct proc_node *n)
{
	struct task *t = node_task(n);

	if (!t)
		return NULL;
	struct mm *mm = task_mm_get(t);
	task_put(t);
	return mm;
}

/* -- inodes -- */

static void node_evict(struct inode *inode)
{
	struct proc_node *n = node_of(inode);

	if (!n)
		return;
	if (n->thread)
		task_put(n->thread);
	process_put(n->process);
	kfree(n);
}

/* Counts the process and thread. NULL: no memory. */
static struct inode *node_inode(struct process *p, struct task *thread, const struct proc_entry *entry, int fd, u32 mode)
{
	struct proc_node *n = kzalloc(sizeof(*n), GFP_KERNEL);
	struct inode *inode = n ? inode_alloc(proc_root->sb, mode) : NULL;

	if (!inode) {
		kfree(n);
		return NULL;
	}
	process_get(p);
	if (thread)
		task_get(thread);
	n->process = p;
	n->thread = thread;
	n->entry = entry;
	n->fd = fd;
	inode->private = n;
	inode->uid = p->creds.euid;
	inode->gid = p->creds.egid;
	return inode;
}

static const struct inode_ops pid_dir_ops, text_inode_ops, link_inode_ops;
static const struct file_ops text_fops;

struct inode *proc_pid_inode(struct process *p, struct task *thread)
{
	struct inode *inode = node_inode(p, thread, NULL, -1, S_IFDIR | 0555);

	if (inode) {
		inode->ops = &pid_dir_ops;
		inode_set_nlink(inode, 2);
	}
	if (thread)
		task_put(thread);
	process_put(p);
	return inode ? inode : ERR_PTR(-ENOMEM);
}

/* -- text files -- */

static ssize_t show_node(void *arg, char *buf, size_t size)
{
	struct proc_node *n = arg;

	return n->entry->show(n, buf, size);
}

static int text_open(struct inode *inode, struct file *f)
{
	struct proc_node *n = node_of(inode);

	(void)f;
	return n->entry->private && !may_ptrace(n->process) ? -EACCES : 0;
}

static ssize_t text_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct proc_node *n = node_of(f->inode);

	return text_file_read(f, n->entry->show ? show_node : NULL, n, to, pos);
}

static ssize_t text_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	struct proc_node *n = node_of(f->inode);
	char buf[128];
	size_t len = min(from->count, sizeof(buf) - 1);

	if (!n->entry->store)
		return -EINVAL;
	if (copy_from_iter(buf, len, from) < len)
		return -EFAULT;
	buf[len] = '\0';
	ssize_t ret = n->entry->store(n, buf, len);

	if (ret > 0)
		*pos += ret;
	return ret;
}

static const struct file_ops text_fops = {
	.open = text_open,
	.read = text_read,
	.write = text_write,
	.llseek = generic_llseek,
	.release = text_file_release,
};

/* -- contents -- */

static int tty_number(struct process *p, int *fg)
{
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);
	int nr = 0;

	*fg = -1;
	if (p->tty) {
		nr = (int)p->tty->dev;
		*fg = READ_ONCE(p->tty->pgrp);
	}
	unlock_sighand(sh, flags);
	return nr;
}

static int parent_tgid(struct process *p)
{
	rcu_read_lock();
	struct process *parent = READ_ONCE(p->parent);
	int tgid = parent ? parent->tgid : 0;

	rcu_read_unlock();
	return tgid;
}

struct signal_sets { sigset_t pending, shared, blocked, ignored, caught; };

static struct signal_sets signal_sets(struct process *p, struct task *t)
{
	struct signal_sets s = { 0 };
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);

	s.pending = t->pending.set;
	s.shared = p->pending.set;
	s.blocked = t->blocked;
	for (int i = 0; i < NSIG; i++) {
		if (sh->action[i].handler == SIG_IGN)
			s.ignored |= sigmask(i + 1);
		else if (sh->action[i].handler != SIG_DFL)
			s.caught |= sigmask(i + 1);
	}
	unlock_sighand(sh, flags);
	return s;
}

static ssize_t show_stat(struct proc_node *n, char *buf, size_t size)
{
	struct process *p = n->process;
	struct task *t = node_task(n);
	struct rusage_sum use = { 0 };
	int fg;

	if (!t)
		return -ESRCH;
	if (n->thread)
		thread_rusage(t, &use);
	else
		task_rusage(p, &use);
	struct mm *mm = task_mm_get(t);
	struct signal_sets sig = signal_sets(p, t);
	int tty = tty_number(p, &fg);
	struct rusage_sum *dead = &p->dead_children;
	bool show_addresses = mm && may_ptrace(p);
	int len = scnprintf(buf, size, "%d (%s) %c %d %d %d %d %d %u %lu %lu %lu %lu %lu %lu %lu %lu %d %d %u 0 %lu ",
		n->thread ? t->tid : p->tgid, t->comm, task_state_char(t), parent_tgid(p), p->pgid, p->sid, tty, fg, t->flags,
		use.min_flt, dead->min_flt,
		use.maj_flt, dead->maj_flt,
		(use.utime_ns / NSEC_PER_TICK), (use.stime_ns / NSEC_PER_TICK),
		(dead->utime_ns / NSEC_PER_TICK), (dead->stime_ns / NSEC_PER_TICK),
		20 + t->nice, t->nice, p->nr_threads, (t->start_ns / NSEC_PER_TICK));

	len += scnprintf(buf + len, size - (size_t)len, "%lu %lu %lu %lu %lu %lu 0 0 %lu %lu %lu %lu 0 0 0 %d %u 0 0 0 0 0 ",
		mm ? (mm->total_vm << PAGE_SHIFT) : 0ul, mm ? mm_rss(mm) : 0ul,
		process_rlimit(p, RLIMIT_RSS),
		show_addresses ? mm->start_code : 0ul, show_addresses ? mm->end_code : 0ul,
		show_addresses ? mm->start_stack : 0ul,
		(sig.pending & INT32_MAX), (sig.blocked & INT32_MAX),
		(sig.ignored & INT32_MAX), (sig.caught & INT32_MAX),
		t->exit_signal, t->cpu);
	if (show_addresses)
		len += scnprintf(buf + len, size - (size_t)len, "%lu %lu %lu %lu %lu %lu %lu ",
			mm->start_data, mm->end_data, mm->start_brk,
			mm->arg_start, mm->arg_end,
			mm->env_start, mm->env_end);
	else
		len += scnprintf(buf + len, size - (size_t)len, "0 0 0 0 0 0 0 ");
	len += scnprintf(buf + len, size - (size_t)len, "%d\n", show_addresses ? t->exit_code : 0);
	if (mm)
		mm_put(mm);
	task_put(t);
	return len;
}

static const char *state_name(char c)
{
	switch (c) {
	case 'R': return "R (running)";
	case 'S': return "S (sleeping)";
	case 'D': return "D (disk sleep)";
	case 'T': return "T (stopped)";
	case 'Z': return "Z (zombie)";
	default:  return "X (dead)";
	}
}

static unsigned int fd_table_size(struct task *t)
{
	struct files *files = files_get_task(t);
	unsigned int size = 64;

	if (!files)
		return 0;
	for (int fd = fd_next_open(files, 0); fd >= 0; fd = fd_next_open(files, fd + 1))
		while ((unsigned int)fd >= size)
			size *= 2;
	files_put(files);
	return size;
}

static ssize_t show_status(struct proc_node *n, char *buf, size_t size)
{
	struct process *p = n->process;
	struct task *t = node_task(n);

	if (!t)
		return -ESRCH;
	const struct creds *c = &p->creds;
	struct signal_sets sig = signal_sets(p, t);
	int len = scnprintf(buf, size,
		"Name:\t%s\nUmask:\t%04o\nState:\t%s\nTgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t%d\nTracerPid:\t0\n"
		"Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\nFDSize:\t%u\nGroups:\t",
		t->comm, t->fs ? t->fs->umask : 0, state_name(task_state_char(t)), p->tgid, n->thread ? t->tid : p->tgid, parent_tgid(p),
		c->uid, c->euid, c->suid, c->fsuid, c->gid, c->egid, c->sgid, c->fsgid, fd_table_size(t));

	for (u32 i = 0; i < min(c->ngroups, (u32)NGROUPS_MAX); i++)
		len += scnprintf(buf + len, size - (size_t)len, "%u ", c->groups[i]);
	len += scnprintf(buf + len, size - (size_t)len, "\n");
	struct mm *mm = task_mm_get(t);
	if (mm) {
		len += (int)proc_status_mm(mm, buf + len, size - (size_t)len);
		mm_put(mm);
	}
	len += scnprintf(buf + len, size - (size_t)len,
		"Threads:\t%u\nSigQ:\t0/%lu\nSigPnd:\t%016lx\nShdPnd:\t%016lx\nSigBlk:\t%016lx\nSigIgn:\t%016lx\nSigCgt:\t%016lx\n"
		"CapInh:\t%016lx\nCapPrm:\t%016lx\nCapEff:\t%016lx\nCapBnd:\t%016lx\nCapAmb:\t%016lx\n"
		"NoNewPrivs:\t0\nSeccomp:\t0\nCpus_allowed:\t%lx\n"
		"voluntary_ctxt_switches:\t%lu\nnonvoluntary_ctxt_switches:\t%lu\n",
		p->nr_threads, process_rlimit(p, RLIMIT_SIGPENDING),
		sig.pending, sig.shared, sig.blocked,
		sig.ignored, sig.caught,
		c->cap_inheritable, c->cap_permitted,
		c->cap_effective, c->cap_bounding, 0ul,
		t->affinity, t->nvcsw, t->nivcsw);
	task_put(t);
	return len;
}

static ssize_t show_statm(struct proc_node *n, char *buf, size_t size)
{
	struct mm *mm = node_mm(n);
	u64 v[7] = { 0 };

	if (mm) {
		proc_statm(mm, v);
		mm_put(mm);
	}
	return scnprintf(buf, size, "%lu %lu %lu %lu %lu %lu %lu\n",
		v[0], v[1], v[2], v[3],
		v[4], v[5], v[6]);
}

static ssize_t show_comm(struct proc_node *n, char *buf, size_t size)
{
	struct task *t = node_task(n);

	if (!t)
		return -ESRCH;
	int len = scnprintf(buf, size, "%s\n", t->comm);
	task_put(t);
	return len;
}

static ssize_t store_comm(struct proc_node *n, const char *buf, size_t len)
{
	char name[TASK_COMM_LEN];
	struct task *t;

	if (n->process != current->process)
		return -EINVAL;
	size_t k = min(len, sizeof(name) - 1);
	memcpy(name, buf, k);
	name[k] = '\0';
	if (k && name[k - 1] == '\n')
		name[k - 1] = '\0';
	t = node_task(n);
	if (!t)
		return -ESRCH;
	set_task_comm(t, name);
	task_put(t);
	return (ssize_t)len;
}

/* Text by a function of kernel/ that takes the task. */
static ssize_t task_text(struct proc_node *n, size_t (*fn)(struct task *, char *, size_t), char *buf, size_t size)
{
	struct task *t = node_task(n);

	if (!t)
		return 0;
	size_t len = fn(t, buf, size);
	task_put(t);
	return (ssize_t)len;
}

static ssize_t show_cmdline(struct proc_node *n, char *buf, size_t size) { return task_text(n, task_cmdline, buf, size); }
static ssize_t show_environ(struct proc_node *n, char *buf, size_t size) { return task_text(n, task_environ, buf, size); }

static ssize_t show_auxv(struct proc_node *n, char *buf, size_t size)
{
	struct mm *mm = node_mm(n);
	size_t len = 0;

	if (!mm)
		return 0;
	while (len + 2 < AT_VECTOR_SIZE && mm->saved_auxv[len])
		len += 2;
	len = min((len + 2) * sizeof(u64), size);
	memcpy(buf, mm->saved_auxv, len);
	mm_put(mm);
	return (ssize_t)len;
}

/* A producer with an address cursor, called until it has nothing more; a full buffer asks the caller for a larger one. */
static ssize_t cursor_text(struct proc_node *n, ssize_t (*fn)(struct mm *, u64 *, char *, size_t), char *buf, size_t size)
{
	struct mm *mm = node_mm(n);
	u64 cursor = 0;
	size_t len = 0;

	if (!mm)
		return 0;
	while (len < size) {
		ssize_t k = fn(mm, &cursor, buf + len, size - len);

		if (k < 0) {
			mm_put(mm);
			return k;
		}
		if (k == 0)
			break;
		len += (size_t)k;
	}
	mm_put(mm);
	/* Little room left may mean that one more line did not fit. */
	return size - len < 1024 ? (ssize_t)size : (ssize_t)len;
}

static ssize_t show_maps(struct proc_node *n, char *buf, size_t size) { return cursor_text(n, proc_maps_read, buf, size); }
static ssize_t show_smaps(struct proc_node *n, char *buf, size_t size) { return cursor_text(n, proc_smaps_read, buf, size); }
static ssize_t show_pagetable(struct proc_node *n, char *buf, size_t size) { return cursor_text(n, proc_pagetable_read, buf, size); }
static ssize_t show_hugetlb(struct proc_node *n, char *buf, size_t size) { return cursor_text(n, proc_hugetlb_read, buf, size); }

static ssize_t show_smaps_rollup(struct proc_node *n, char *buf, size_t size)
{
	struct mm *mm = node_mm(n);

	if (!mm)
		return 0;
	size_t len = proc_smaps_rollup(mm, buf, size);
	mm_put(mm);
	return (ssize_t)len;
}

static ssize_t show_limits(struct proc_node *n, char *buf, size_t size)
{
	static const struct { const char *name, *unit; } rows[RLIM_NLIMITS] = {
		[RLIMIT_CPU] = { "Max cpu time", "seconds" }, [RLIMIT_FSIZE] = { "Max file size", "bytes" },
		[RLIMIT_DATA] = { "Max data size", "bytes" }, [RLIMIT_STACK] = { "Max stack size", "bytes" },
		[RLIMIT_CORE] = { "Max core file size", "bytes" }, [RLIMIT_RSS] = { "Max resident set", "bytes" },
		[RLIMIT_NPROC] = { "Max processes", "processes" }, [RLIMIT_NOFILE] = { "Max open files", "files" },
		[RLIMIT_MEMLOCK] = { "Max locked memory", "bytes" }, [RLIMIT_AS] = { "Max address space", "bytes" },
		[RLIMIT_LOCKS] = { "Max file locks", "locks" }, [RLIMIT_SIGPENDING] = { "Max pending signals", "signals" },
		[RLIMIT_MSGQUEUE] = { "Max msgqueue size", "bytes" }, [RLIMIT_NICE] = { "Max nice priority", "" },
		[RLIMIT_RTPRIO] = { "Max realtime priority", "" }, [RLIMIT_RTTIME] = { "Max realtime timeout", "us" },
	};
	int len = scnprintf(buf, size, "%-25s %-20s %-20s %-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units");

	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit r = n->process->rlim[i];
		char soft[24], hard[24];

		snprintf(soft, sizeof(soft), r.cur == RLIM_INFINITY ? "unlimited" : "%lu", r.cur);
		snprintf(hard, sizeof(hard), r.max == RLIM_INFINITY ? "unlimited" : "%lu", r.max);
		len += scnprintf(buf + len, size - (size_t)len, "%-25s %-20s %-20s %-10s\n", rows[i].name, soft, hard, rows[i].unit);
	}
	return len;
}

static ssize_t show_mounts(struct proc_node *n, char *buf, size_t size)
{
	(void)n;
	return (ssize_t)proc_mounts_format(buf, size);
}

static ssize_t show_mountinfo(struct proc_node *n, char *buf, size_t size)
{
	(void)n;
	return (ssize_t)proc_mountinfo_format(buf, size);
}

static ssize_t show_oom_adj(struct proc_node *n, char *buf, size_t size)
{
	return scnprintf(buf, size, "%d\n", n->process->oom_score_adj);
}

static ssize_t show_zero(struct proc_node *n, char *buf, size_t size)
{
	(void)n;
	return scnprintf(buf, size, "0\n");
}

/* -- binary files of the address space: pagemap, mem -- */

static int mm_file_open(struct inode *inode, struct file *f)
{
	struct proc_node *n = node_of(inode);

	if (!may_ptrace(n->process))
		return -EACCES;
	struct mm *mm = node_mm(n);

	/* The structure only: an open file must not keep the memory of a process that has ended. NULL after exit: reads give 0. */
	f->private = mm;
	if (mm) {
		mm_grab(mm);
		mm_put(mm);
	}
	return 0;
}

static void mm_file_release(struct file *f)
{
	if (f->private)
		mm_drop(f->private);
}

/* For the time of one call: its memory, to be put; NULL once the process has ended. */
static struct mm *mm_file_get(struct file *f)
{
	struct mm *mm = f->private;

	return mm && mm_get_not_zero(mm) ? mm : NULL;
}

static ssize_t pagemap_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	struct mm *mm;
	u64 entries[64];
	size_t done = 0;
	ssize_t ret = 0;

	if (*pos % 8 || to->count % 8)
		return -EINVAL;
	mm = mm_file_get(f);
	if (!mm)
		return 0;
	while (to->count >= 8) {
		ret = proc_pagemap_read(mm, (u64)*pos, entries, min(to->count / 8, ARRAY_SIZE(entries)));
		if (ret <= 0)
			break;
		size_t bytes = (size_t)ret * 8, copied = copy_to_iter(entries, bytes, to);

		done += copied;
		*pos += (loff_t)copied;
		if (copied < bytes) {
			ret = -EFAULT;
			break;
		}
	}
	mm_put(mm);
	return done ? (ssize_t)done : min(ret, (ssize_t)0);
}

#define PAGEMAP_SCAN	0xc0606610u

static long pagemap_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	struct mm *mm;
	long ret;

	if (cmd != PAGEMAP_SCAN)
		return -EINVAL;
	mm = mm_file_get(f);
	ret = pagemap_scan(mm, (void __user *)arg);
	if (mm)
		mm_put(mm);
	return ret;
}

static ssize_t mem_transfer(struct file *f, struct iov_iter *it, loff_t *pos, bool write)
{
	struct mm *mm = it->count ? mm_file_get(f) : NULL;
	size_t done = 0;
	char *buf;

	if (!mm)
		return 0;
	buf = get_free_page(GFP_KERNEL);
	if (!buf) {
		mm_put(mm);
		return -ENOMEM;
	}
	ssize_t ret = 0;
	while (it->count) {
		size_t n = min(it->count, PAGE_SIZE - ((size_t)*pos & ~PAGE_MASK));

		if (write && copy_from_iter(buf, n, it) != n) {
			ret = -EFAULT;
			break;
		}
		ssize_t k = access_remote_vm(mm, (uintptr_t)*pos, buf, n, write, true);
		if (k <= 0) {
			ret = k ? k : -EIO;
			break;
		}
		if (!write && copy_to_iter(buf, (size_t)k, it) != (size_t)k) {
			ret = -EFAULT;
			break;
		}
		*pos += k;
		done += (size_t)k;
		if ((size_t)k < n)
			break;
	}
	free_page(buf);
	mm_put(mm);
	return done ? (ssize_t)done : ret;
}

static ssize_t mem_read(struct file *f, struct iov_iter *to, loff_t *pos) { return mem_transfer(f, to, pos, false); }
static ssize_t mem_write(struct file *f, struct iov_iter *from, loff_t *pos) { return mem_transfer(f, from, pos, true); }

/* Offsets are addresses: any value is fine, the kernel half too (it cannot be read anyway). lseek holds pos_lock if need be. */
static loff_t mem_llseek(struct file *f, loff_t off, int whence)
{
	if (whence == 0)
		return f->pos = off;
	if (whence == 1)
		return f->pos = f->pos + off;
	return -EINVAL;
}

static const struct file_ops pagemap_fops = {
	.open = mm_file_open, .read = pagemap_read, .ioctl = pagemap_ioctl, .llseek = mem_llseek, .release = mm_file_release,
};
static const struct file_ops mem_fops = {
	.open = mm_file_open, .read = mem_read, .write = mem_write, .llseek = mem_llseek, .release = mm_file_release,
};

/* -- links -- */

static int follow_exe(struct proc_node *n, struct path *out)
{
	struct process *p = n->process;
	struct mm *mm = node_mm(n);
	int ret = -ENOENT;

	if (!mm)
		return -ENOENT;
	mutex_lock(&p->exec_lock);
	if (p->exe) {
		*out = p->exe->path;
		path_get(out);
		ret = 0;
	}
	mutex_unlock(&p->exec_lock);
	mm_put(mm);
	return ret;
}

static int follow_fs(struct proc_node *n, struct path *out, bool root)
{
	struct task *t = node_task(n);
	struct fs_context *fs = t ? fs_context_get_task(t) : NULL;

	if (t)
		task_put(t);
	if (!fs)
		return -ENOENT;
	spin_lock(&fs->lock);
	*out = root ? fs->root : fs->cwd;
	path_get(out);
	spin_unlock(&fs->lock);
	fs_context_put(fs);
	return 0;
}

static int follow_cwd(struct proc_node *n, struct path *out) { return follow_fs(n, out, false); }
static int follow_root(struct proc_node *n, struct path *out) { return follow_fs(n, out, true); }

static struct file *node_file(struct proc_node *n)
{
	struct task *t = node_task(n);
	struct files *files = t ? files_get_task(t) : NULL;

	if (t)
		task_put(t);
	if (!files)
		return NULL;
	struct file *f = files_fd_get(files, n->fd);
	files_put(files);
	return f;
}

static int follow_fd(struct proc_node *n, struct path *out)
{
	struct file *f = node_file(n);

	if (!f)
		return -ENOENT;
	*out = f->path;
	path_get(out);
	file_put(f);
	return 0;
}

static int link_follow(struct inode *inode, struct path *out)
{
	struct proc_node *n = node_of(inode);

	if (!may_ptrace(n->process))
		return -EACCES;
	return n->entry->link(n, out);
}

/* The text of a link is the path of what it leads to, as the reader sees it. */
static char *link_readlink(struct inode *inode)
{
	struct proc_node *n = node_of(inode);
	struct path path;
	char *text = ERR_PTR(-ENOMEM);
	char *buf;

	if (!may_ptrace(n->process))
		return ERR_PTR(-EACCES);
	buf = kmalloc(PATH_MAX, GFP_KERNEL);
	if (!buf)
		return ERR_PTR(-ENOMEM);
	if (n->fd >= 0) {
		struct file *f = node_file(n);

		text = f ? file_path(f, buf, PATH_MAX) : ERR_PTR(-ENOENT);
		if (f)
			file_put(f);
	} else {
		int ret = n->entry->link(n, &path);

		text = ret ? ERR_PTR(ret) : d_path(&path, buf, PATH_MAX);
		if (!ret)
			path_put(&path);
	}
	if (!IS_ERR(text)) {
		text = kstrdup(text, GFP_KERNEL);
		text = text ? text : ERR_PTR(-ENOMEM);
	}
	kfree(buf);
	return text;
}

static const struct inode_ops link_inode_ops = { .follow = link_follow, .readlink = link_readlink, .evict = node_evict };
static int no_cut(struct inode *inode, u64 size)	/* "echo name > comm" opens with O_TRUNC */
{
	(void)inode, (void)size;
	return 0;
}

static const struct inode_ops text_inode_ops = { .truncate = no_cut, .evict = node_evict };

/* -- fd/ and fdinfo/ -- */

static ssize_t show_fdinfo(struct proc_node *n, char *buf, size_t size)
{
	struct file *f = node_file(n);

	if (!f)
		return -ENOENT;
	int len = scnprintf(buf, size, "pos:\t%ld\nflags:\t0%o\nmnt_id:\t%u\nino:\t%lu\n", f->pos, f->flags,
			    f->path.mnt ? f->path.mnt->id : 0, f->inode->ino);
	if (f->ops->fdinfo)
		len += (int)f->ops->fdinfo(f, buf + len, size - (size_t)len);
	file_put(f);
	return len;
}

static const struct proc_entry fd_entry = { .name = "fd", .mode = S_IFLNK | 0700, .link = follow_fd };
static const struct proc_entry fdinfo_entry = { .name = "fdinfo", .mode = S_IFREG | 0400, .show = show_fdinfo, .private = true };

static struct inode *lookup_fd(struct inode *dir, const char *name, size_t len, const struct proc_entry *entry)
{
	struct proc_node *n = node_of(dir);
	int fd = proc_parse_number(name, len);
	struct proc_node probe = { .process = n->process, .thread = n->thread, .fd = fd };

	if (!may_ptrace(n->process))
		return ERR_PTR(-EACCES);
	struct file *f = fd >= 0 ? node_file(&probe) : NULL;
	if (!f)
		return ERR_PTR(-ENOENT);
	u32 mode = entry->mode;
	if (S_ISLNK(mode))
		mode = S_IFLNK | (f->mode & FMODE_READ ? 0500 : 0) | (f->mode & FMODE_WRITE ? 0300 : 0);
	file_put(f);
	struct inode *inode = node_inode(n->process, n->thread, entry, fd, mode);

	if (!inode)
		return ERR_PTR(-ENOMEM);
	inode->ops = S_ISLNK(mode) ? &link_inode_ops : &text_inode_ops;
	inode->fops = &text_fops;
	return inode;
}

static struct inode *fd_lookup(struct inode *dir, const char *name, size_t len) { return lookup_fd(dir, name, len, &fd_entry); }
static struct inode *fdinfo_lookup(struct inode *dir, const char *name, size_t len) { return lookup_fd(dir, name, len, &fdinfo_entry); }

#define FIRST_NUMBER_POS 3		/* after "." and ".." */

static int fd_readdir(struct file *dir, struct dir_context *ctx)
{
	struct proc_node *n = node_of(dir->inode);
	struct task *t = node_task(n);
	struct files *files = NULL;

	if (t && may_ptrace(n->process))
		files = files_get_task(t);
	if (t)
		task_put(t);
	if (!files)
		return t ? -EACCES : -ENOENT;
	int fd = ctx->pos < FIRST_NUMBER_POS ? 0 : (int)(ctx->pos - FIRST_NUMBER_POS);

	while ((fd = fd_next_open(files, fd)) >= 0) {
		char name[12];
		int len = snprintf(name, sizeof(name), "%d", fd);

		ctx->pos = FIRST_NUMBER_POS + fd;
		if (!ctx->emit(ctx, name, (size_t)len, (u64)fd + FIRST_NUMBER_POS, DT_LNK))
			break;
		fd++;
		ctx->pos = FIRST_NUMBER_POS + fd;
	}
	files_put(files);
	return 0;
}

static const struct inode_ops fd_dir_ops = { .lookup = fd_lookup, .readdir = fd_readdir, .evict = node_evict };
static const struct inode_ops fdinfo_dir_ops = { .lookup = fdinfo_lookup, .readdir = fd_readdir, .evict = node_evict };

/* -- task/ -- */

static struct inode *task_lookup(struct inode *dir, const char *name, size_t len)
{
	struct proc_node *n = node_of(dir);
	int tid = proc_parse_number(name, len);
	struct task *t = tid > 0 ? find_task_get(tid) : NULL;

	if (!t)
		return ERR_PTR(-ENOENT);
	if (t->process != n->process) {
		task_put(t);
		return ERR_PTR(-ENOENT);
	}
	process_get(n->process);
	return proc_pid_inode(n->process, t);
}

static int task_readdir(struct file *dir, struct dir_context *ctx)
{
	struct proc_node *n = node_of(dir->inode);
	int tid = ctx->pos < FIRST_NUMBER_POS ? 0 : (int)(ctx->pos - FIRST_NUMBER_POS);
	struct task *t;

	while ((t = next_thread_get(n->process, tid))) {
		char name[12];
		int len = snprintf(name, sizeof(name), "%d", t->tid);

		tid = t->tid;
		task_put(t);
		ctx->pos = FIRST_NUMBER_POS + tid;
		if (!ctx->emit(ctx, name, (size_t)len, (u64)tid + FIRST_NUMBER_POS, DT_DIR))
			break;
		tid++;
		ctx->pos = FIRST_NUMBER_POS + tid;
	}
	return 0;
}

static const struct inode_ops task_dir_ops = { .lookup = task_lookup, .readdir = task_readdir, .evict = node_evict };

/* -- the directory -- */

#define TEXT(n, m, fn)		{ .name = n, .mode = S_IFREG | (m), .show = fn }
#define PRIVATE_TEXT(n, m, fn)	{ .name = n, .mode = S_IFREG | (m), .show = fn, .private = true }

static const struct proc_entry entries[] = {
	TEXT("stat", 0444, show_stat),
	TEXT("status", 0444, show_status),
	TEXT("statm", 0444, show_statm),
	TEXT("cmdline", 0444, show_cmdline),
	{ .name = "comm", .mode = S_IFREG | 0644, .show = show_comm, .store = store_comm },
	PRIVATE_TEXT("environ", 0400, show_environ),
	PRIVATE_TEXT("auxv", 0400, show_auxv),
	PRIVATE_TEXT("maps", 0444, show_maps),
	PRIVATE_TEXT("smaps", 0444, show_smaps),
	PRIVATE_TEXT("smaps_rollup", 0444, show_smaps_rollup),
	PRIVATE_TEXT("pagetable", 0444, show_pagetable),
	PRIVATE_TEXT("hugetlb", 0444, show_hugetlb),
	{ .name = "pagemap", .mode = S_IFREG | 0400, .fops = &pagemap_fops },
	{ .name = "mem", .mode = S_IFREG | 0600, .fops = &mem_fops },
	TEXT("limits", 0444, show_limits),
	TEXT("mounts", 0444, show_mounts),
	TEXT("mountinfo", 0444, show_mountinfo),
	TEXT("oom_score", 0444, show_zero),
	TEXT("oom_score_adj", 0444, show_oom_adj),
	{ .name = "exe", .mode = S_IFLNK | 0777, .link = follow_exe },
	{ .name = "cwd", .mode = S_IFLNK | 0777, .link = follow_cwd },
	{ .name = "root", .mode = S_IFLNK | 0777, .link = follow_root },
	{ .name = "fd", .mode = S_IFDIR | 0500, .dir = &fd_dir_ops },
	{ .name = "fdinfo", .mode = S_IFDIR | 0500, .dir = &fdinfo_dir_ops },
	{ .name = "task", .mode = S_IFDIR | 0555, .dir = &task_dir_ops, .process_only = true },
};

static struct inode *entry_inode(struct proc_node *n, const struct proc_entry *e)
{
	struct inode *inode = node_inode(n->process, n->thread, e, -1, e->mode);

	if (!inode)
		return ERR_PTR(-ENOMEM);
	if (e->dir) {
		inode->ops = e->dir;
		inode_set_nlink(inode, 2);
	} else {
		inode->ops = e->link ? &link_inode_ops : &text_inode_ops;
		inode->fops = e->fops ? e->fops : &text_fops;
	}
	return inode;
}

static struct inode *pid_lookup(struct inode *dir, const char *name, size_t len)
{
	struct proc_node *n = node_of(dir);

	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		const struct proc_entry *e = &entries[i];

		if (strlen(e->name) == len && !memcmp(e->name, name, len) && !(e->process_only && n->thread))
			return entry_inode(n, e);
	}
	return ERR_PTR(-ENOENT);
}

static int pid_readdir(struct file *dir, struct dir_context *ctx)
{
	struct proc_node *n = node_of(dir->inode);
	size_t i = ctx->pos < FIRST_NUMBER_POS ? 0 : (size_t)(ctx->pos - FIRST_NUMBER_POS);

	for (; i < ARRAY_SIZE(entries); i++) {
		const struct proc_entry *e = &entries[i];

		ctx->pos = FIRST_NUMBER_POS + (loff_t)i;
		if (e->process_only && n->thread)
			continue;
		if (!ctx->emit(ctx, e->name, strlen(e->name), i + FIRST_NUMBER_POS, (e->mode & S_IFMT) >> 12))
			return 0;
		ctx->pos = FIRST_NUMBER_POS + (loff_t)i + 1;
	}
	return 0;
}

static const struct inode_ops pid_dir_ops = { .lookup = pid_lookup, .readdir = pid_readdir, .evict = node_evict };
