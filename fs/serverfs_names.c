/*
 * serverfs: names, and the inodes behind them.
 *
 * The server is asked at each step of a walk, under the inode lock of the directory, so an answer is as good as the lock. Dentries
 * are only for those who use them (fs/dcache.c, weak_names). An inode is in the table of its node while it is used; its size, times
 * and rights are the kernel's from then on, and every change of them is told to the server.
 *
 * What a server could do with lies about names: a node in two places, a circle of directories. Directories are kept to one dentry each,
 * and the tree of dentries is always a tree; where the server says otherwise, its word is an error (enter(), splice()).
 */
#include "fs/serverfs.h"

#include "kernel/string.h"
#include "mm/slab.h"

#define RENAME_EXCHANGE	2u	/* user ABI */
#define MAX_SIZE	((u64)INT64_MAX & PAGE_MASK)
#define FIRST_NAME	2	/* position in a directory, after "." and ".." */

/* -- inodes -- */

static struct list_head *bucket_of(struct serverfs *fs, u64 id)
{
	return &fs->nodes[id % NODE_BUCKETS];
}

/* fs->lock held. Counted, or NULL; one that is on its way out is passed by. */
static struct inode *find_locked(struct serverfs *fs, u64 id)
{
	struct server_node *n;

	list_for_each_entry(n, bucket_of(fs, id), node)
		if (n->id == id && refcount_inc_not_zero(&n->inode->refs))
			return n->inode;
	return NULL;
}

/* The inode after @prev (NULL: the first), counted; puts @prev. NULL: no more. Those that come meanwhile may be missed. */
struct inode *serverfs_next_inode(struct serverfs *fs, struct inode *prev)
{
	struct inode *found = NULL;

	spin_lock(&fs->lock);
	u64 b = prev ? node_id(prev) % NODE_BUCKETS : 0;
	struct list_head *at = prev ? &((struct server_node *)prev->private)->node : &fs->nodes[0];

	while (!found && b < NODE_BUCKETS) {
		at = at->next;
		if (at == &fs->nodes[b]) {
			at = &fs->nodes[++b];		/* of the last one: not looked at */
			continue;
		}
		struct inode *inode = list_entry(at, struct server_node, node)->inode;

		if (refcount_inc_not_zero(&inode->refs))
			found = inode;
	}
	spin_unlock(&fs->lock);
	if (prev)
		inode_put(prev);
	return found;
}

static const struct inode_ops dir_ops;

static struct inode *make_inode(struct super_block *sb, const struct fl_fs_ans *a)
{
	struct server_node *n = kzalloc(sizeof(*n), GFP_KERNEL);
	struct inode *inode = n ? inode_alloc(sb, a->mode & (S_IFMT | 07777)) : NULL;

	if (!inode) {
		kfree(n);
		return NULL;
	}
	INIT_LIST_HEAD(&n->node);
	n->id = a->node;
	n->inode = inode;
	inode->private = n;
	inode->ino = a->node;
	inode->uid = a->uid;
	inode->gid = a->gid;
	inode->nlink = max(a->nlink, 1u);
	inode->size = a->size;
	inode->atime = inode->mtime = inode->ctime = a->time;
	if (S_ISREG(a->mode)) {
		inode->ops = &serverfs_file_inode_ops;
		inode->fops = &serverfs_file_ops;
		inode->mapping.ops = &serverfs_mapping_ops;
	} else {
		inode->ops = &dir_ops;
		inode->fops = &dir_file_ops;
	}
	return inode;
}

/* The inode of the node that @a describes, as the server says (nothing about it is believed yet). */
struct inode *serverfs_inode(struct super_block *sb, const struct fl_fs_ans *a)
{
	struct serverfs *fs = sb->private;

	if (!a->node || (!S_ISREG(a->mode) && !S_ISDIR(a->mode)) || a->size > MAX_SIZE)
		return ERR_PTR(-EIO);
	spin_lock(&fs->lock);
	struct inode *inode = find_locked(fs, a->node);

	spin_unlock(&fs->lock);
	if (!inode) {
		struct inode *new = make_inode(sb, a);

		if (!new)
			return ERR_PTR(-ENOMEM);
		spin_lock(&fs->lock);
		inode = find_locked(fs, a->node);	/* somebody may have been faster */
		if (!inode)
			list_add(&((struct server_node *)new->private)->node, bucket_of(fs, a->node));
		spin_unlock(&fs->lock);
		if (!inode)
			return new;
		inode_put(new);
	}
	if ((inode->mode ^ a->mode) & S_IFMT) {
		inode_put(inode);
		return ERR_PTR(-EIO);
	}
	if (S_ISDIR(inode->mode) && READ_ONCE(inode->nlink) != max(a->nlink, 2u)) {
		spin_lock(&inode->meta_lock);
		if (inode->nlink)			/* 0: removed by us */
			inode->nlink = max(a->nlink, 2u);
		spin_unlock(&inode->meta_lock);
	}
	return inode;
}

/* A file that has lost its name here is let go of by the server now. */
void serverfs_evict(struct inode *inode)
{
	struct serverfs *fs = serverfs_of(inode);
	struct server_node *n = inode->private;

	spin_lock(&fs->lock);
	bool known = !list_empty(&n->node);

	list_del_init(&n->node);
	spin_unlock(&fs->lock);
	if (known && !inode->nlink)
		serverfs_post(fs, FL_FS_FORGET, n->id);
	kfree(n);
}

/* -- dentries -- */

/*
 * The server says that directory @d, which is in use, is now @name in @dir: it was moved by a rename whose answer we have not heard. Or it
 * lies: then it must at least not become its own ancestor. The locks that are missing are only tried for, the order forbids
 * to wait; the caller may try again. @d counted, and given back. inode lock of @dir held.
 */
static struct dentry *splice(struct dentry *d, struct dentry *dir, const char *name, size_t len)
{
	char *copy = dentry_name_alloc(name, len);
	int err = copy ? 0 : -ENOMEM;

	if (!err && !mutex_trylock(&dir->sb->rename_lock))
		err = -ESTALE;
	if (!err) {
		struct dentry *from = d->parent;	/* does not change while we have rename_lock, or the lock of its directory */

		if (from == d || dentry_is_below(dir, d))
			err = -EIO;
		else if (from != dir && !down_write_trylock(&from->inode->lock))
			err = -ESTALE;
		if (!err) {
			dcache_splice(d, dir, copy, len);
			copy = NULL;
			if (from != dir)
				up_write(&from->inode->lock);
		}
		mutex_unlock(&dir->sb->rename_lock);
	}
	dentry_name_free(copy);
	if (!err)
		return d;
	dentry_put(d);
	return ERR_PTR(err);
}

/* The dentry for @name, which leads to @inode (taken over). Counted, or ERR_PTR. inode lock of @dir held. */
static struct dentry *enter(struct dentry *dir, const char *name, size_t len, struct inode *inode)
{
	for (;;) {
		struct dentry *d = dentry_alloc(dir->sb, dir, name, len, inode), *alias;

		if (!d) {
			inode_put(inode);
			return ERR_PTR(-ENOMEM);
		}
		inode_get(inode);
		d = dcache_add_weak(d);
		alias = PTR_ERR(d) == -EAGAIN ? dentry_alias_get(inode) : NULL;
		if (alias || PTR_ERR(d) != -EAGAIN) {
			inode_put(inode);
			return alias ? splice(alias, dir, name, len) : d;
		}
		/* It was in use elsewhere, and is not any more. */
	}
}

static struct dentry *serverfs_lookup(struct dentry *dir, const char *name, size_t len)
{
	struct serverfs *fs = serverfs_of(dir->inode);
	struct fs_question q = { .req = { .op = FL_FS_LOOKUP, .node = node_id(dir->inode), .name_len = (u16)len }, .name = name };
	int err = serverfs_ask(fs, &q);

	if (err == -ENOENT) {
		struct dentry *stale = dcache_lookup(dir, name, len);

		if (stale) {
			dcache_drop(stale);
			dentry_put(stale);
		}
	}
	if (err)
		return ERR_PTR(err);
	struct inode *inode = serverfs_inode(dir->sb, &q.ans);

	return IS_ERR(inode) ? (void *)inode : enter(dir, name, len, inode);
}

/* -- changing names: all with the inode locks that fs/namei.c holds -- */

static struct dentry *serverfs_create(struct dentry *dir, const char *name, size_t len, u32 mode)
{
	const struct inode *parent = dir->inode;
	struct access_ids ids = current_ids();
	struct fs_question q = { .req = { .op = FL_FS_CREATE, .node = node_id(parent), .mode = mode, .uid = ids.uid, .gid = ids.gid,
					  .time = ktime_get_real_ns(), .name_len = (u16)len }, .name = name };

	if (parent->mode & S_ISGID) {
		q.req.gid = parent->gid;
		if (S_ISDIR(mode))
			q.req.mode |= S_ISGID;
		else if ((mode & (S_ISGID | 010)) == (S_ISGID | 010) && !in_group(parent->gid) && !capable(CAP_FSETID))
			q.req.mode &= ~(u32)S_ISGID;
	}
	int err = serverfs_ask(serverfs_of(parent), &q);

	if (!err && ((q.ans.mode ^ mode) & S_IFMT))
		err = -EIO;
	struct inode *inode = err ? ERR_PTR(err) : serverfs_inode(dir->sb, &q.ans);

	return IS_ERR(inode) ? (void *)inode : enter(dir, name, len, inode);
}

static int serverfs_unlink(struct inode *dir, struct dentry *d)
{
	struct fs_question q = { .req = { .op = S_ISDIR(d->inode->mode) ? FL_FS_RMDIR : FL_FS_UNLINK, .node = node_id(dir),
					  .node2 = node_id(d->inode), .name_len = (u16)d->name_len }, .name = d->name };

	return serverfs_ask(serverfs_of(dir), &q);
}

static int serverfs_rename(struct dentry *old, struct dentry *newdir, struct dentry *target, const char *name, size_t len, unsigned int flags)
{
	struct fs_question q = { .req = { .op = FL_FS_RENAME, .flags = flags & RENAME_EXCHANGE ? FL_FS_EXCHANGE : 0,
					  .node = node_id(old->parent->inode), .node2 = node_id(newdir->inode), .time = ktime_get_real_ns(),
					  .name_len = (u16)old->name_len, .name2_len = (u16)len }, .name = old->name, .name2 = name };

	(void)target;
	return serverfs_ask(serverfs_of(newdir->inode), &q);
}

/* -- reading directories -- */

static bool name_valid(const char *s, u32 len)
{
	if (!len || len > NAME_MAX || (s[0] == '.' && (len == 1 || (len == 2 && s[1] == '.'))))
		return false;
	for (u32 i = 0; i < len; i++)
		if (!s[i] || s[i] == '/')
			return false;
	return true;
}

/* The entry at the start of @n bytes, and its length; NULL: nonsense. */
static const struct fl_fs_entry *check_entry(const u8 *data, u32 n, u64 after, u32 *len)
{
	const struct fl_fs_entry *e = (const void *)data;

	if (n < sizeof(*e))
		return NULL;
	*len = (u32)ALIGN_UP(sizeof(*e) + e->name_len, 8);
	if (*len > n || e->next <= after || e->next > INT64_MAX - FIRST_NAME || !e->node || !name_valid(e->name, e->name_len))
		return NULL;
	return e;
}

/* One answer's worth. 1: go on, 0: the end, or no room at the caller's; -errno. */
static int emit_some(struct file *f, struct dir_context *ctx)
{
	u64 at = (u64)ctx->pos - FIRST_NAME;
	struct fs_question q = { .req = { .op = FL_FS_READDIR, .node = node_id(f->inode), .offset = at, .size = FL_INLINE_MAX },
				 .room = FL_INLINE_MAX };
	int err = serverfs_ask(serverfs_of(f->inode), &q);

	if (err)
		return err;
	u32 n = q.reply ? q.reply->len : 0, used = 0, len;

	err = n > 0;
	while (used < n) {
		const struct fl_fs_entry *e = check_entry(q.reply->data + used, n - used, at, &len);

		if (!e) {
			err = -EIO;
			break;
		}
		if (!ctx->emit(ctx, e->name, e->name_len, e->node, (e->type & S_IFMT) >> 12)) {
			err = 0;
			break;
		}
		at = e->next;
		ctx->pos = (loff_t)(at + FIRST_NAME);
		used += len;
	}
	port_payload_free(q.reply);
	return err;
}

/* inode lock of the directory held for read. Positions grow, so that a server cannot lead a reader in a circle. */
static int serverfs_readdir(struct file *f, struct dir_context *ctx)
{
	int more = dir_emit_dots(f, ctx);

	while (more > 0)
		more = emit_some(f, ctx);
	return more;
}

static const struct inode_ops dir_ops = {
	.lookup_name = serverfs_lookup,
	.create_name = serverfs_create,
	.unlink = serverfs_unlink,
	.rename = serverfs_rename,
	.readdir = serverfs_readdir,
	.setattr = serverfs_setattr,
	.evict = serverfs_evict,
};
