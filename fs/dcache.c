/*
 * Dentries: the tree of names.
 *
 * A dentry of a memory file system is in the tree as long as its name exists, and the tree holds one reference on it.
 * Directories with ->lookup (procfs) hand out dentries that are never in the tree and die with their last user. Where the names are
 * kept by a server (weak_names) a dentry is in the tree without being counted there, and leaves with its last user; it is
 * there so that a directory that is used has one dentry only, and renames find it. Every dentry counts its parent, so walking up from a dentry one holds never leaves live memory.
 *
 * Locks. Names of a directory change with its inode lock held for write, inside that its dentry's spin lock; so a reader
 * may hold either: lookups take the spin lock, getdents the inode lock. A name or parent that changes in place (rename)
 * does so inside namespace_write_begin/end; walks upwards use RCU and namespace_seq.
 */
#include "fs/internal.h"
#include "kernel/string.h"
#include "mm/slab.h"

#define FIRST_BUCKETS	32u	/* a directory gets buckets when it has more names than this */

struct spinlock namespace_lock = SPINLOCK_INIT(LOCK_NAMESPACE);
struct seqcount namespace_seq;

static struct kmem_cache *dentry_cache;

static void leave_tree(struct dentry *d);

/* The text of a name is immutable and freed by RCU, so readers never see half of two names. */
struct dentry_name {
	struct rcu_head	rcu;
	char		text[];
};

void namespace_write_begin(void)
{
	spin_lock(&namespace_lock);
	write_seqbegin(&namespace_seq);
}

void namespace_write_end(void)
{
	write_seqend(&namespace_seq);
	spin_unlock(&namespace_lock);
}

char *dentry_name_alloc(const char *name, size_t len)
{
	struct dentry_name *n = kmalloc(sizeof(*n) + len + 1, GFP_KERNEL);

	if (!n)
		return NULL;
	memcpy(n->text, name, len);
	n->text[len] = 0;
	return n->text;
}

void dentry_name_free(char *name)
{
	if (name)
		kfree(container_of((char (*)[])name, struct dentry_name, text));
}

static void name_free_rcu(struct rcu_head *head)
{
	kfree(container_of(head, struct dentry_name, rcu));
}

static void name_retire(char *name)
{
	call_rcu(&container_of((char (*)[])name, struct dentry_name, text)->rcu, name_free_rcu);
}

/* FNV-1a, the upper half folded in so that the low bits are good enough to index with. */
static u32 name_hash(const char *name, size_t len)
{
	u64 h = 0xcbf29ce484222325ul;

	while (len--)
		h = (h ^ (u8)*name++) * 0x100000001b3ul;
	return (u32)(h ^ h >> 32);
}

struct dentry *dentry_alloc(struct super_block *sb, struct dentry *parent, const char *name, size_t len, struct inode *inode)
{
	/* First use is vfs_init on the boot CPU, so no race. */
	if (!dentry_cache)
		dentry_cache = kmem_cache_create("dentry", sizeof(struct dentry), 64);
	struct dentry *d = kmem_cache_alloc(dentry_cache, GFP_KERNEL | GFP_ZERO);

	if (!d)
		return NULL;
	d->name = dentry_name_alloc(name, len);
	if (!d->name) {
		kmem_cache_free(dentry_cache, d);
		return NULL;
	}
	d->name_len = (u32)len;
	d->hash = name_hash(name, len);
	refcount_set(&d->refs, 1);
	spin_lock_init(&d->lock, LOCK_DCACHE);
	INIT_LIST_HEAD(&d->children);
	INIT_LIST_HEAD(&d->sibling);
	d->next_cookie = 2;		/* 0 and 1 are "." and ".." */
	d->sb = sb;
	d->inode = inode;
	d->parent = parent ? parent : d;
	if (parent)
		dentry_get(parent);
	return d;
}

void dentry_get(struct dentry *d)
{
	refcount_inc(&d->refs);
}

static void dentry_free_rcu(struct rcu_head *head)
{
	struct dentry *d = container_of(head, struct dentry, rcu);

	dentry_name_free(d->name);
	kfree(d->buckets);
	kmem_cache_free(dentry_cache, d);
}

/* May sleep when it is the last reference. A loop, not recursion: the last user of a deep deleted path frees all of it. */
void dentry_put(struct dentry *d)
{
	while (d && refcount_dec_and_test(&d->refs)) {
		struct dentry *parent = d->parent == d ? NULL : d->parent;

		if (d->sb->weak_names && parent && d->inode)
			leave_tree(d);
		assert(list_empty(&d->sibling));
		assert(list_empty(&d->children));
		if (d->inode)
			inode_put(d->inode);
		call_rcu(&d->rcu, dentry_free_rcu);
		d = parent;
	}
}

bool dentry_in_tree(const struct dentry *d)
{
	return d->parent == d || !list_empty(&d->sibling);
}

/* The inode lock of @d held. */
bool dentry_has_children(struct dentry *d)
{
	return READ_ONCE(d->nr_children) != 0;
}

/* -- names of one directory; dir->lock held in all of these -- */

static struct dentry **bucket_of(struct dentry *dir, u32 hash)
{
	return &dir->buckets[hash & (dir->nr_buckets - 1)];
}

/* Keeps chains short. Without memory they only grow longer. */
static void grow_buckets(struct dentry *dir)
{
	u32 n = dir->nr_buckets ? dir->nr_buckets * 4 : FIRST_BUCKETS;

	if (dir->nr_children <= (dir->nr_buckets ? dir->nr_buckets : FIRST_BUCKETS) || n * sizeof(struct dentry *) > 4ul << 20)
		return;
	struct dentry **table = kcalloc(n, sizeof(*table), GFP_ATOMIC | GFP_NOWARN);

	if (!table)
		return;
	kfree(dir->buckets);
	dir->buckets = table;
	dir->nr_buckets = n;

	struct dentry *d;

	list_for_each_entry(d, &dir->children, sibling) {
		struct dentry **slot = bucket_of(dir, d->hash);

		d->hash_next = *slot;
		*slot = d;
	}
}

static void link_locked(struct dentry *dir, struct dentry *d)
{
	assert_spin_held(&dir->lock);
	d->cookie = dir->next_cookie++;
	list_add_tail(&d->sibling, &dir->children);
	dir->nr_children++;
	if (dir->nr_buckets) {
		struct dentry **slot = bucket_of(dir, d->hash);

		d->hash_next = *slot;
		*slot = d;
	}
	grow_buckets(dir);
}

static void unlink_locked(struct dentry *dir, struct dentry *d)
{
	assert_spin_held(&dir->lock);
	if (dir->nr_buckets) {
		struct dentry **slot = bucket_of(dir, d->hash);

		while (*slot != d)
			slot = &(*slot)->hash_next;
		*slot = d->hash_next;
	}
	list_del_init(&d->sibling);
	dir->nr_children--;
}

/*
 * weak_names: the last user has gone. Lookups that still meet it in the list see that it has no reference and pass by. Nobody
 * moves it any more, so its parent stays the same.
 */
static void leave_tree(struct dentry *d)
{
	struct dentry *dir = d->parent;

	spin_lock(&dir->lock);
	if (!list_empty(&d->sibling))
		unlink_locked(dir, d);
	spin_unlock(&dir->lock);
	spin_lock(&d->inode->meta_lock);
	if (d->inode->alias == d)
		d->inode->alias = NULL;
	spin_unlock(&d->inode->meta_lock);
}

static bool has_name(const struct dentry *d, u32 hash, const char *name, size_t len)
{
	return d->hash == hash && d->name_len == len && !memcmp(d->name, name, len);
}

/* Counted, or NULL. Whose last reference has gone just now is passed by (weak_names); others are counted by the tree. */
static struct dentry *find_locked(struct dentry *dir, u32 hash, const char *name, size_t len)
{
	struct dentry *d;

	if (dir->nr_buckets) {
		for (d = *bucket_of(dir, hash); d; d = d->hash_next)
			if (has_name(d, hash, name, len) && refcount_inc_not_zero(&d->refs))
				return d;
		return NULL;
	}
	list_for_each_entry(d, &dir->children, sibling)
		if (has_name(d, hash, name, len) && refcount_inc_not_zero(&d->refs))
			return d;
	return NULL;
}

struct dentry *dcache_lookup(struct dentry *dir, const char *name, size_t len)
{
	u32 hash = name_hash(name, len);
	struct dentry *found;

	/* Not even "no children" may be read without the lock: while two names change places there are none for a moment. */
	spin_lock(&dir->lock);
	found = find_locked(dir, hash, name, len);
	spin_unlock(&dir->lock);
	return found;
}

void dcache_add(struct dentry *d)
{
	struct dentry *dir = d->parent;

	if (!d->sb->weak_names)
		dentry_get(d);
	spin_lock(&dir->lock);
	link_locked(dir, d);
	spin_unlock(&dir->lock);
}

void dcache_remove(struct dentry *d)
{
	struct dentry *dir = d->parent;

	if (d->sb->weak_names) {
		dcache_drop(d);
		return;
	}
	spin_lock(&dir->lock);
	unlink_locked(dir, d);
	WRITE_ONCE(d->unhashed, true);
	spin_unlock(&dir->lock);
	dentry_put(d);
}

void dcache_drop(struct dentry *d)
{
	struct dentry *dir = d->parent;		/* moves only with the inode lock of its directory held for write */

	spin_lock(&dir->lock);
	if (!list_empty(&d->sibling)) {
		unlink_locked(dir, d);
		WRITE_ONCE(d->unhashed, true);
	}
	spin_unlock(&dir->lock);
}

struct dentry *dentry_alias_get(struct inode *dir)
{
	spin_lock(&dir->meta_lock);
	struct dentry *d = dir->alias && refcount_inc_not_zero(&dir->alias->refs) ? dir->alias : NULL;

	spin_unlock(&dir->meta_lock);
	return d;
}

/* Is @d the dentry of its directory from now on? Not if there is another one that lives. */
static bool claim_alias(struct dentry *d)
{
	struct inode *inode = d->inode;

	if (!S_ISDIR(inode->mode))
		return true;
	spin_lock(&inode->meta_lock);
	bool free = !inode->alias || !refcount_read(&inode->alias->refs);

	if (free)
		inode->alias = d;
	spin_unlock(&inode->meta_lock);
	return free;
}

struct dentry *dcache_add_weak(struct dentry *d)
{
	struct dentry *dir = d->parent, *there, *result = d;

	spin_lock(&dir->lock);
	there = find_locked(dir, d->hash, d->name, d->name_len);
	if (there && there->inode == d->inode) {
		result = there;
	} else if (!claim_alias(d)) {
		result = ERR_PTR(-EAGAIN);
	} else {
		if (there) {
			unlink_locked(dir, there);
			WRITE_ONCE(there->unhashed, true);
		}
		link_locked(dir, d);
	}
	spin_unlock(&dir->lock);
	if (there && there != result)
		dentry_put(there);
	if (d != result)
		dentry_put(d);
	return result;
}

/* Two directories' spin locks, lower address first. */
static void lock_two(struct dentry *a, struct dentry *b)
{
	if (a > b) {
		struct dentry *t = a;

		a = b;
		b = t;
	}
	spin_lock(&a->lock);
	if (a != b)
		spin_lock_nested(&b->lock);
}

static void unlock_two(struct dentry *a, struct dentry *b)
{
	if (a != b)
		spin_unlock(&b->lock);
	spin_unlock(&a->lock);
}

static void set_name(struct dentry *d, char *name, size_t len)
{
	WRITE_ONCE(d->name, name);
	d->name_len = (u32)len;
	d->hash = name_hash(name, len);
}

/*
 * Locks: inode locks of both directories for write; LOCK_RENAME if they differ. May sleep at the end (frees @target).
 * The reference on the old parent moves to the new one.
 */
void dcache_move(struct dentry *old, struct dentry *dir, char *name, size_t len, struct dentry *target)
{
	struct dentry *from = old->parent;
	char *old_name = old->name;

	dentry_get(dir);
	namespace_write_begin();
	lock_two(from, dir);
	if (target) {
		unlink_locked(dir, target);
		WRITE_ONCE(target->unhashed, true);
	}
	unlink_locked(from, old);
	set_name(old, name, len);
	WRITE_ONCE(old->parent, dir);
	link_locked(dir, old);
	unlock_two(from, dir);
	namespace_write_end();

	name_retire(old_name);
	dentry_put(from);
	if (target && !target->sb->weak_names)
		dentry_put(target);
}

void dcache_splice(struct dentry *d, struct dentry *dir, char *name, size_t len)
{
	struct dentry *from = d->parent;
	char *old_name = d->name;

	dentry_get(dir);
	namespace_write_begin();
	lock_two(from, dir);
	struct dentry *there = find_locked(dir, name_hash(name, len), name, len);

	if (there && there != d) {
		unlink_locked(dir, there);
		WRITE_ONCE(there->unhashed, true);
	}
	if (!list_empty(&d->sibling))
		unlink_locked(from, d);
	set_name(d, name, len);
	WRITE_ONCE(d->parent, dir);
	WRITE_ONCE(d->unhashed, false);
	link_locked(dir, d);
	unlock_two(from, dir);
	namespace_write_end();

	name_retire(old_name);
	dentry_put(from);
	if (there)
		dentry_put(there);
}

/* RENAME_EXCHANGE: @a takes the place of @b and the other way round. @name_for_a is a copy of b's name. Same locks. */
void dcache_exchange(struct dentry *a, struct dentry *b, char *name_for_a, char *name_for_b)
{
	struct dentry *dir_a = a->parent, *dir_b = b->parent;
	char *old_a = a->name, *old_b = b->name;
	size_t len_a = a->name_len, len_b = b->name_len;

	namespace_write_begin();
	lock_two(dir_a, dir_b);
	unlink_locked(dir_a, a);
	unlink_locked(dir_b, b);
	set_name(a, name_for_a, len_b);
	set_name(b, name_for_b, len_a);
	WRITE_ONCE(a->parent, dir_b);	/* the references on the parents change hands too */
	WRITE_ONCE(b->parent, dir_a);
	link_locked(dir_b, a);
	link_locked(dir_a, b);
	unlock_two(dir_a, dir_b);
	namespace_write_end();
	name_retire(old_a);
	name_retire(old_b);
}

/* -- walking upwards -- */

/* Counted. The parent read may be dropped by a rename before we count it: then look again. */
struct dentry *dentry_parent_get(struct dentry *d)
{
	rcu_read_lock();
	for (;;) {
		struct dentry *p = READ_ONCE(d->parent);

		if (refcount_inc_not_zero(&p->refs)) {
			rcu_read_unlock();
			return p;
		}
	}
}

bool dentry_is_below(struct dentry *d, struct dentry *ancestor)
{
	bool below;
	u32 seq;

	rcu_read_lock();
	do {
		seq = read_seqbegin(&namespace_seq);
		struct dentry *p = d;

		while (p != ancestor && p != READ_ONCE(p->parent))
			p = READ_ONCE(p->parent);
		below = p == ancestor;
	} while (read_seqretry(&namespace_seq, seq));
	rcu_read_unlock();
	return below;
}

/* -- whole trees -- */

/* Adds a permanent name below @parent; takes over @inode in every case. May sleep. */
struct dentry *dentry_add(struct dentry *parent, const char *name, struct inode *inode)
{
	size_t len = strlen(name);
	bool is_dir = S_ISDIR(inode->mode);
	struct dentry *d = dentry_alloc(parent->sb, parent, name, len, inode);
	int err = -ENOMEM;

	if (!d) {
		inode_put(inode);
		return ERR_PTR(-ENOMEM);
	}
	down_write(&parent->inode->lock);
	struct dentry *there = dcache_lookup(parent, name, len);

	if (there) {
		dentry_put(there);
		err = -EEXIST;
	} else {
		if (is_dir) {
			inode_set_nlink(inode, 2);
			inode_set_nlink(parent->inode, parent->inode->nlink + 1);
		}
		dcache_add(d);
		err = 0;
	}
	up_write(&parent->inode->lock);
	dentry_put(d);			/* the tree has its own */
	return err ? ERR_PTR(err) : d;
}

/*
 * Takes a name of dentry_add() out of the tree again; open files of it live on. The caller holds a reference of its own, so it
 * is fine if a user has unlinked or moved the name meanwhile. May sleep.
 */
void dentry_remove(struct dentry *d)
{
	struct dentry *dir;

	for (;;) {
		dir = dentry_parent_get(d);
		down_write(&dir->inode->lock);
		if (d->parent == dir)
			break;
		up_write(&dir->inode->lock);	/* renamed away while we waited */
		dentry_put(dir);
	}
	if (!d->unhashed) {
		inode_set_nlink(d->inode, S_ISDIR(d->inode->mode) ? 0 : d->inode->nlink - 1);
		inode_touch(dir->inode, true);
		dcache_remove(d);
	}
	up_write(&dir->inode->lock);
	dentry_put(dir);
}

/* The file system is gone: nobody can reach the tree. Leaves first, without recursion. */
void dcache_destroy_tree(struct dentry *root)
{
	struct dentry *d = root;

	for (;;) {
		while (!list_empty(&d->children))
			d = list_first_entry(&d->children, struct dentry, sibling);
		if (d == root)
			break;
		struct dentry *parent = d->parent;

		dcache_remove(d);
		d = parent;
	}
	dentry_put(root);
}

static unsigned int dirent_type(const struct inode *inode)
{
	return (inode->mode & S_IFMT) >> 12;
}

bool dir_emit_dots(struct file *f, struct dir_context *ctx)
{
	struct dentry *d = f->path.dentry;

	if (ctx->pos == 0) {
		if (!ctx->emit(ctx, ".", 1, d->inode->ino, DT_DIR))
			return false;
		ctx->pos = 1;
	}
	if (ctx->pos == 1) {
		struct dentry *p = dentry_parent_get(d);
		bool more = ctx->emit(ctx, "..", 2, p->inode->ino, DT_DIR);

		dentry_put(p);
		if (!more)
			return false;
		ctx->pos = 2;
	}
	return true;
}

/*
 * The names of the tree. inode lock of the directory held for read, so the list stands still while emit copies to user
 * memory. Names made after the scan began are not reported (f->private remembers where that was): a program that renames
 * each name it reads would otherwise meet them again for ever.
 */
int dcache_readdir(struct file *f, struct dir_context *ctx)
{
	struct dentry *dir = f->path.dentry, *d;

	if (ctx->pos <= 2)
		f->private = (void *)dir->next_cookie;
	if (!dir_emit_dots(f, ctx))
		return 0;
	list_for_each_entry(d, &dir->children, sibling) {
		if ((loff_t)d->cookie < ctx->pos)
			continue;
		if (d->cookie >= (u64)f->private)
			break;
		ctx->pos = (loff_t)d->cookie;
		if (!ctx->emit(ctx, d->name, d->name_len, d->inode->ino, dirent_type(d->inode)))
			return 0;
		ctx->pos++;
	}
	return 0;
}
