/* /proc: the root directory with its processes. Files about the system are in proc_system.c, about one process in proc_pid.c. */
#include "fs/procfs.h"

#include "fs/internal.h"
#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "mm/hugetlb.h"
#include "mm/slab.h"

int proc_parse_number(const char *name, size_t len)
{
	int n = 0;

	if (!len || len > 9 || (name[0] == '0' && len > 1))
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (name[i] < '0' || name[i] > '9')
			return -1;
		n = n * 10 + (name[i] - '0');
	}
	return n;
}

/* /proc/N for a process; as on Linux a tid works too, though it is not listed. */
static struct inode *root_lookup(struct inode *dir, const char *name, size_t len)
{
	int pid = proc_parse_number(name, len);

	(void)dir;
	if (pid <= 0)
		return ERR_PTR(-ENOENT);
	struct process *p = find_process_get(pid);
	if (!p) {
		struct task *t = find_task_get(pid);

		if (!t)
			return ERR_PTR(-ENOENT);
		p = t->process;
		process_get(p);
		task_put(t);
	}
	return proc_pid_inode(p, NULL);
}

#define FIRST_PID_POS	0x10000		/* directory offsets below are the static names */

static int root_readdir(struct file *f, struct dir_context *ctx)
{
	(void)f;
	int tgid = ctx->pos < FIRST_PID_POS ? 1 : (int)(ctx->pos - FIRST_PID_POS);
	struct process *p;

	while ((p = next_process_get(tgid))) {
		char name[12];
		int len = snprintf(name, sizeof(name), "%d", p->tgid);

		tgid = p->tgid;
		process_put(p);
		ctx->pos = FIRST_PID_POS + tgid;
		if (!ctx->emit(ctx, name, (size_t)len, (u64)tgid + FIRST_PID_POS, DT_DIR))
			return 0;
		tgid++;
		ctx->pos = FIRST_PID_POS + tgid;
	}
	return 0;
}

static const struct inode_ops root_ops = { .lookup = root_lookup, .readdir = root_readdir };

static char *self_readlink(struct inode *inode)
{
	char name[32];

	(void)inode;
	snprintf(name, sizeof(name), "%d", current->process->tgid);
	char *s = kstrdup(name, GFP_KERNEL);
	return s ? s : ERR_PTR(-ENOMEM);
}

static char *thread_self_readlink(struct inode *inode)
{
	char name[48];

	(void)inode;
	snprintf(name, sizeof(name), "%d/task/%d", current->process->tgid, current->tid);
	char *s = kstrdup(name, GFP_KERNEL);
	return s ? s : ERR_PTR(-ENOMEM);
}

static const struct inode_ops self_ops = { .readlink = self_readlink };
static const struct inode_ops thread_self_ops = { .readlink = thread_self_readlink };

static void add_link(const char *name, const struct inode_ops *ops)
{
	struct inode *inode = inode_alloc(proc_root->sb, S_IFLNK | 0777);

	if (!inode) {
		pr_err("proc: no memory for /proc/%s\n", name);
		return;
	}
	inode->ops = ops;
	dentry_add(proc_root, name, inode);
}

void procfs_init(void)
{
	proc_root->inode->ops = &root_ops;
	add_link("self", &self_ops);
	add_link("thread-self", &thread_self_ops);
	pseudo_symlink(proc_root, "mounts", "self/mounts");
	proc_system_init();
	proc_sys_init();
	sysfs_init();
	hugetlb_sysctl_init();
}
