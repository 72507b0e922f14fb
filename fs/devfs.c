/*
 * Devices by number, the one devtmpfs that shows them, and the devices that are nothing but an idea: null, zero, full,
 * random, urandom.
 *
 * A device node only carries a number: opening it, wherever it lies, finds the driver here. dev_register() also makes the
 * node in devtmpfs, which is an ordinary ramfs that every mount of type "devtmpfs" shows.
 */
#include "fs/internal.h"
#include "kernel/printk.h"
#include "kernel/random.h"
#include "kernel/string.h"
#include "mm/slab.h"
#include "mm/uaccess.h"
#include "mm/vma.h"

struct device {
	dev_t			 rdev;
	u32			 type;		/* S_IFCHR or S_IFBLK */
	const struct file_ops	*fops;
	void			*priv;
	struct device		*next;
};

static struct device *devices;			/* only grows: written under devices_mutex, read without */
static struct mutex devices_mutex = MUTEX_INIT(devices_mutex, LOCK_KMUTEX);

struct dentry *dev_root;

const struct file_ops *device_find(u32 mode, dev_t rdev, void **priv)
{
	for (struct device *d = rcu_dereference(devices); d; d = rcu_dereference(d->next)) {
		if (d->rdev == rdev && d->type == (mode & S_IFMT)) {
			*priv = d->priv;
			return d->fops;
		}
	}
	return NULL;
}

/* Makes the node @name in devtmpfs, with its directories. */
static int make_node(const char *name, u32 mode, dev_t rdev)
{
	struct dentry *dir = dev_root;
	const char *slash = strrchr(name, '/');

	if (slash) {
		char *parent = kstrdup(name, GFP_KERNEL);

		if (!parent)
			return -ENOMEM;
		parent[slash - name] = 0;
		dir = pseudo_dir(dev_root, parent);
		kfree(parent);
		if (IS_ERR(dir))
			return (int)PTR_ERR(dir);
		name = slash + 1;
	}
	struct inode *inode = ramfs_inode(dev_root->sb, mode, rdev);

	if (!inode)
		return -ENOMEM;
	inode->uid = inode->gid = 0;
	struct dentry *d = dentry_add(dir, name, inode);

	return IS_ERR(d) ? (int)PTR_ERR(d) : 0;
}

/* Character devices unless @mode says S_IFBLK. May sleep. */
int dev_register(const char *name, u32 mode, dev_t rdev, const struct file_ops *fops, void *priv)
{
	void *unused;

	if (!(mode & S_IFMT))
		mode |= S_IFCHR;
	struct device *d = kmalloc(sizeof(*d), GFP_KERNEL);

	if (!d)
		return -ENOMEM;
	*d = (struct device){ .rdev = rdev, .type = mode & S_IFMT, .fops = fops, .priv = priv };
	mutex_lock(&devices_mutex);
	bool taken = device_find(mode, rdev, &unused) != NULL;

	if (!taken) {
		d->next = devices;
		rcu_assign_pointer(devices, d);
	}
	mutex_unlock(&devices_mutex);
	if (taken) {
		kfree(d);
		return -EBUSY;
	}
	return make_node(name, mode, rdev);
}

/* -- null, zero, full -- */

static const struct file_ops zero_fops;

/* Where these are read or written makes no difference. */
static loff_t null_llseek(struct file *f, loff_t off, int whence)
{
	(void)off, (void)whence;
	return f->pos = 0;
}

static ssize_t null_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	(void)f, (void)to, (void)pos;
	return 0;
}

static ssize_t null_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	ssize_t n = (ssize_t)from->count;

	(void)f, (void)pos;
	from->count = 0;
	return n;
}

static ssize_t zero_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	ssize_t done = 0;

	(void)f, (void)pos;
	while (to->count) {
		size_t want = min(to->count, 64 * 1024ul), n = zero_iter(want, to);

		done += (ssize_t)n;
		if (n < want)
			return done ? done : -EFAULT;
		if (signal_pending())
			break;
		cond_resched();
	}
	return done;
}

/* Private: memory without a file behind it, which is what zeros are. Shared ones are made of MAP_ANONYMOUS instead. */
static int zero_mmap(struct file *f, struct vma *vma)
{
	(void)f;
	if (!vma_is_private(vma))
		return -ENODEV;
	vma->ops = NULL;
	vma->mapping = NULL;
	return 0;
}

/* For mmap: a shared mapping of /dev/zero is a shared anonymous one. */
bool file_is_zero_device(const struct file *f)
{
	return f->ops == &zero_fops;
}

static ssize_t full_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	(void)f, (void)from, (void)pos;
	return -ENOSPC;
}

static int no_mmap(struct file *f, struct vma *vma)
{
	(void)f, (void)vma;
	return -ENODEV;
}

static const struct file_ops null_fops = { .read = null_read, .write = null_write, .llseek = null_llseek, .mmap = no_mmap };
static const struct file_ops zero_fops = { .read = zero_read, .write = null_write, .llseek = null_llseek, .mmap = zero_mmap };
static const struct file_ops full_fops = { .read = zero_read, .write = full_write, .llseek = null_llseek };

/* -- random, urandom: the same here -- */

static ssize_t random_read(struct file *f, struct iov_iter *to, loff_t *pos)
{
	u8 block[256];
	ssize_t done = 0;

	(void)f, (void)pos;
	while (to->count) {
		size_t want = min(to->count, sizeof(block));

		get_random_bytes(block, want);
		size_t n = copy_to_iter(block, want, to);

		done += (ssize_t)n;
		if (n < want) {
			done = done ? done : -EFAULT;
			break;
		}
		if (signal_pending())
			break;
		cond_resched();
	}
	memset(block, 0, sizeof(block));
	return done;
}

/* Stirring in what users write is not worth the code: the generator is seeded by hardware. Accepted, as programs expect. */
static const struct file_ops random_fops = { .read = random_read, .write = null_write, .llseek = null_llseek };

/* -- the file system -- */

static struct super_block *devtmpfs_mount(const char *source, const char *options, u32 flags)
{
	(void)source, (void)options, (void)flags;
	refcount_inc(&dev_root->sb->refs);
	return dev_root->sb;
}

static struct fs_type devtmpfs_type = { .name = "devtmpfs", .nodev = true, .mount = devtmpfs_mount };

void devfs_init(void)
{
	struct super_block *sb = ramfs_create("devtmpfs", NULL, false);

	if (IS_ERR(sb))
		panic("no memory for devtmpfs");
	sb->magic = 0x01021994;		/* as Linux's, which is a tmpfs */
	dev_root = sb->root;
	register_filesystem(&devtmpfs_type);

	static const struct { const char *name; u32 minor; const struct file_ops *fops; } memory[] = {
		{ "null", 3, &null_fops }, { "zero", 5, &zero_fops }, { "full", 7, &full_fops },
		{ "random", 8, &random_fops }, { "urandom", 9, &random_fops }, { "kmsg", 11, &kmsg_fops },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(memory); i++)
		if (dev_register(memory[i].name, i == 5 ? 0644 : 0666, MKDEV(1, memory[i].minor), memory[i].fops, NULL))
			pr_err("devfs: cannot make /dev/%s\n", memory[i].name);
	pseudo_dir(dev_root, "pts");
	pseudo_dir(dev_root, "shm");
	pseudo_symlink(dev_root, "fd", "/proc/self/fd");
	pseudo_symlink(dev_root, "stdin", "/proc/self/fd/0");
	pseudo_symlink(dev_root, "stdout", "/proc/self/fd/1");
	pseudo_symlink(dev_root, "stderr", "/proc/self/fd/2");
}

/* Before the first program runs, so that it finds /dev/console. An initramfs without /dev gets none. */
void devtmpfs_mount_early(void)
{
	int err = vfs_mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, NULL);

	if (err && err != -ENOENT)
		pr_err("devtmpfs: cannot be mounted on /dev: error %d\n", -err);
}
