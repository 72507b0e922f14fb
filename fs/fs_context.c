/* Working directory, root directory and umask: what CLONE_FS shares. */
#include "fs/internal.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

/* The boot context: / of the root mount. Kernel threads use it; pid 1 starts with a copy. */
static struct fs_context boot_context = {
	.refs = REFCOUNT_INIT(1), .lock = SPINLOCK_INIT(LOCK_FDTABLE), .umask = 022,
};

struct fs_context *current_fs(void)
{
	struct fs_context *fs = current ? current->fs : NULL;

	return fs ? fs : &boot_context;
}

static void path_read(struct fs_context *fs, const struct path *which, struct path *out)
{
	spin_lock(&fs->lock);
	*out = *which;
	path_get(out);
	spin_unlock(&fs->lock);
}

void current_root_get(struct path *out)
{
	struct fs_context *fs = current_fs();

	path_read(fs, &fs->root, out);
}

void current_cwd_get(struct path *out)
{
	struct fs_context *fs = current_fs();

	path_read(fs, &fs->cwd, out);
}

struct fs_context *fs_context_copy(struct fs_context *old)
{
	struct fs_context *fs = kzalloc(sizeof(*fs), GFP_KERNEL);

	if (!fs)
		return NULL;
	if (!old)
		old = &boot_context;
	refcount_set(&fs->refs, 1);
	spin_lock_init(&fs->lock, LOCK_FDTABLE);
	fs->umask = READ_ONCE(old->umask);
	spin_lock(&old->lock);
	fs->cwd = old->cwd;
	fs->root = old->root;
	path_get(&fs->cwd);
	path_get(&fs->root);
	spin_unlock(&old->lock);
	return fs;
}

void fs_context_get(struct fs_context *f)
{
	refcount_inc(&f->refs);
}

void fs_context_put(struct fs_context *f)
{
	if (!refcount_dec_and_test(&f->refs))
		return;
	path_put(&f->cwd);
	path_put(&f->root);
	kfree(f);
}

int fs_context_unshare(struct task *t)
{
	if (t->fs && refcount_read(&t->fs->refs) == 1)
		return 0;
	struct fs_context *copy = fs_context_copy(t->fs), *old = t->fs;

	if (!copy)
		return -ENOMEM;
	unsigned long flags;
	struct sighand *sh = lock_sighand(t->process, &flags);	/* task_fs_get() of others */

	t->fs = copy;
	unlock_sighand(sh, flags);
	if (old)
		fs_context_put(old);
	return 0;
}

void fs_context_init(void)
{
	boot_context.root = (struct path){ root_mount, root_mount->root };
	boot_context.cwd = boot_context.root;
	path_get(&boot_context.root);
	path_get(&boot_context.cwd);
}

/* -- system calls -- */

/* Takes over @path. */
static void set_path(struct path *which, const struct path *path)
{
	struct fs_context *fs = current_fs();

	spin_lock(&fs->lock);
	struct path old = *which;

	*which = *path;
	spin_unlock(&fs->lock);
	path_put(&old);
}

/* May current make this directory its own? 0 or -errno. */
static int may_enter(const struct path *path)
{
	if (!S_ISDIR(path->dentry->inode->mode))
		return -ENOTDIR;
	return inode_permission(path->dentry->inode, MAY_EXEC);
}

SYSCALL_DEFINE(chdir, const char __user *name)
{
	struct path path;
	int err = user_path_at(AT_FDCWD, name, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &path);

	if (err)
		return err;
	err = may_enter(&path);
	if (err)
		path_put(&path);
	else
		set_path(&current_fs()->cwd, &path);
	return err;
}

SYSCALL_DEFINE(fchdir, int fd)
{
	struct fd_ref r = fdget_raw(fd);

	if (!r.file)
		return -EBADF;
	int err = may_enter(&r.file->path);

	if (!err) {
		struct path path = r.file->path;

		path_get(&path);
		set_path(&current_fs()->cwd, &path);
	}
	fdput(r);
	return err;
}

SYSCALL_DEFINE(chroot, const char __user *name)
{
	struct path path;
	int err = user_path_at(AT_FDCWD, name, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &path);

	if (err)
		return err;
	err = may_enter(&path);
	if (!err && !capable(CAP_SYS_CHROOT))
		err = -EPERM;
	if (err)
		path_put(&path);
	else
		set_path(&current_fs()->root, &path);
	return err;
}

SYSCALL_DEFINE(getcwd, char __user *ubuf, unsigned long size)
{
	char *buf = kmalloc(PATH_MAX, GFP_KERNEL);
	struct path cwd;
	long ret;

	if (!buf)
		return -ENOMEM;
	current_cwd_get(&cwd);
	ret = -ENOENT;			/* the directory was removed */
	if (!READ_ONCE(cwd.dentry->unhashed)) {
		char *s = d_path(&cwd, buf, PATH_MAX);

		ret = PTR_ERR(s);
		if (!IS_ERR(s)) {
			size_t len = (size_t)(buf + PATH_MAX - s);	/* with the NUL */

			ret = (long)len;
			if (len > size)
				ret = -ERANGE;
			else if (copy_out(ubuf, s, len))
				ret = -EFAULT;
		}
	}
	path_put(&cwd);
	kfree(buf);
	return ret;
}

SYSCALL_DEFINE(umask, int mask)
{
	return (long)__atomic_exchange_n(&current_fs()->umask, (u32)mask & 0777, __ATOMIC_RELAXED);
}
