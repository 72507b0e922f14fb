/*
 * Inodes: allocation, reference counts, eviction, times, and the super blocks that number them.
 *
 * An inode lives as long as a dentry or an open file counts it. The last inode_put() evicts: the owner frees what it
 * hangs on ->private, the page cache is emptied, the memory goes after an RCU grace period.
 */
#include "fs/internal.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/slab.h"

static struct kmem_cache *inode_cache;
static u64 next_dev_minor = 1;			/* atomic: minor numbers of file systems without a device */

static struct kmem_cache *get_inode_cache(void)
{
	/* First use is vfs_init on the boot CPU, so no race. */
	if (!inode_cache)
		inode_cache = kmem_cache_create("inode", sizeof(struct inode), 64);
	return inode_cache;
}

/* Until its creator says otherwise, an inode can do nothing. */
static const struct inode_ops no_ops = { 0 };

static bool charge_inode(struct super_block *sb)
{
	s64 used = __atomic_add_fetch(&sb->used_inodes, 1, __ATOMIC_RELAXED);

	if (sb->max_inodes && used > (s64)sb->max_inodes) {
		__atomic_fetch_sub(&sb->used_inodes, 1, __ATOMIC_RELAXED);
		return false;
	}
	return true;
}

/* Owner ids of a new inode: the fsuid of whoever asks; kernel threads make root's. */
struct inode *inode_alloc(struct super_block *sb, u32 mode)
{
	if (!charge_inode(sb))
		return NULL;
	struct inode *inode = kmem_cache_alloc(get_inode_cache(), GFP_KERNEL | GFP_ZERO);

	if (!inode) {
		__atomic_fetch_sub(&sb->used_inodes, 1, __ATOMIC_RELAXED);
		return NULL;
	}

	struct access_ids ids = current_ids();

	inode->mode = mode;
	inode->uid = ids.uid;
	inode->gid = ids.gid;
	inode->nlink = 1;
	inode->ino = __atomic_add_fetch(&sb->next_ino, 1, __ATOMIC_RELAXED);
	inode->sb = sb;
	inode->ops = &no_ops;
	inode->atime = inode->mtime = inode->ctime = ktime_get_real_ns();
	inode->seals = F_SEAL_SEAL;
	rwsem_init(&inode->lock, S_ISDIR(mode) ? LOCK_INODE_DIR : LOCK_INODE);
	spin_lock_init(&inode->meta_lock, LOCK_INODE_META);
	refcount_set(&inode->refs, 1);
	if (S_ISREG(mode))
		mapping_init(&inode->mapping, inode, NULL);
	return inode;
}

struct inode *pseudo_inode(struct super_block *sb, u32 mode)
{
	struct inode *inode = inode_alloc(sb, mode);

	if (inode)
		inode->uid = inode->gid = 0;
	return inode;
}

void inode_get(struct inode *i)
{
	refcount_inc(&i->refs);
}

static void inode_free_rcu(struct rcu_head *head)
{
	kmem_cache_free(inode_cache, container_of(head, struct inode, rcu));
}

/* May sleep when it is the last reference. */
void inode_put(struct inode *i)
{
	if (!refcount_dec_and_test(&i->refs))
		return;
	/* Pages first: their owner's accounting may still need ->private. */
	if (S_ISREG(i->mode))
		mapping_destroy(&i->mapping);
	if (i->ops->evict)
		i->ops->evict(i);
	locks_free(i);
	__atomic_fetch_sub(&i->sb->used_inodes, 1, __ATOMIC_RELAXED);
	call_rcu(&i->rcu, inode_free_rcu);
}

void inode_touch(struct inode *i, bool modify)
{
	u64 now = ktime_get_real_ns();

	spin_lock(&i->meta_lock);
	i->ctime = now;
	if (modify)
		i->mtime = now;
	spin_unlock(&i->meta_lock);
}

/*
 * relatime, as every Linux mount has it unless told otherwise: the access time moves only when it would tell something new
 * (not younger than the last change) or is a day old. So reading a file in a loop writes nothing shared.
 */
void file_accessed(struct file *f)
{
	struct inode *i = f->inode;
	u32 mnt_flags = READ_ONCE(f->path.mnt->flags);

	if ((f->flags & O_NOATIME) || (mnt_flags & (MS_NOATIME | MS_RDONLY)) || (i->sb->flags & (MS_NOATIME | MS_RDONLY)))
		return;
	if ((mnt_flags & MS_NODIRATIME) && S_ISDIR(i->mode))
		return;

	u64 now = ktime_get_real_ns(), atime = READ_ONCE(i->atime);

	if ((mnt_flags & MS_RELATIME) && atime > READ_ONCE(i->mtime) && atime > READ_ONCE(i->ctime) &&
	    now - atime < 24 * 3600 * NSEC_PER_SEC)
		return;
	spin_lock(&i->meta_lock);
	i->atime = now;
	spin_unlock(&i->meta_lock);
}

void inode_set_nlink(struct inode *i, u32 nlink)
{
	spin_lock(&i->meta_lock);
	i->nlink = nlink;
	i->ctime = ktime_get_real_ns();
	spin_unlock(&i->meta_lock);
}

u64 inode_blocks(struct inode *i)
{
	if (i->ops->blocks)
		return i->ops->blocks(i);
	return S_ISREG(i->mode) ? READ_ONCE(i->mapping.nr_pages) * (PAGE_SIZE / 512) : 0;
}

/* -- super blocks -- */

struct super_block *super_alloc(const char *type, u64 magic)
{
	struct super_block *sb = kzalloc(sizeof(*sb), GFP_KERNEL);

	if (!sb)
		return NULL;
	sb->type = type;
	sb->magic = magic;
	sb->block_size = PAGE_SIZE;
	sb->dev = MKDEV(0, (u32)__atomic_fetch_add(&next_dev_minor, 1, __ATOMIC_RELAXED));
	refcount_set(&sb->refs, 1);
	mutex_init(&sb->rename_lock, LOCK_RENAME);
	return sb;
}

/* Takes over @root also when it fails. */
int super_make_root(struct super_block *sb, struct inode *root)
{
	sb->root = dentry_alloc(sb, NULL, "/", 1, root);
	if (!sb->root) {
		inode_put(root);
		return -ENOMEM;
	}
	inode_set_nlink(root, 2);
	return 0;
}

void super_put(struct super_block *sb)
{
	if (!refcount_dec_and_test(&sb->refs))
		return;
	if (sb->root)
		dcache_destroy_tree(sb->root);
	if (sb->kill)
		sb->kill(sb);
	/* Inodes of the tree still wait for their grace period, but nothing reads inode->sb after eviction. */
	kfree(sb);
}
