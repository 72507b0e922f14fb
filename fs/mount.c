/*
 * Mounts: which file system is seen where.
 *
 * The mounts form a tree of (parent mount, directory in it) -> child mount; several on one directory lie on top of each
 * other: the upper is mounted on the root of the lower. LOCK_MOUNT serialises the system calls; the tree itself changes
 * under namespace_lock with namespace_seq odd, and is read under RCU.
 *
 * A mount counts its parent and the directory it covers. Whoever holds a struct path counts the mount, so umount knows by
 * the number whether somebody still uses it (EBUSY); MNT_DETACH takes it out of the tree and lets the last user free it.
 */
#include "fs/internal.h"
#include "kernel/mutex.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define MNT_FORCE		1
#define MNT_DETACH		2
#define MNT_EXPIRE		4
#define UMOUNT_NOFOLLOW		8

static struct mutex mount_mutex = MUTEX_INIT(mount_mutex, LOCK_MOUNT);
static LIST_HEAD(all_mounts);		/* namespace_lock */
static struct fs_type *fs_types[32];	/* written at boot only */
static unsigned int nr_fs_types;
static u32 next_mount_id;		/* atomic */

struct mount *root_mount;

/* -- file system types -- */

void register_filesystem(struct fs_type *t)
{
	BUG_ON(nr_fs_types == ARRAY_SIZE(fs_types));
	fs_types[nr_fs_types++] = t;
}

static struct fs_type *find_type(const char *name)
{
	for (unsigned int i = 0; i < nr_fs_types; i++)
		if (!strcmp(fs_types[i]->name, name))
			return fs_types[i];
	return NULL;
}

size_t proc_filesystems_format(char *buf, size_t size)
{
	size_t n = 0;

	for (unsigned int i = 0; i < nr_fs_types; i++)
		n += (size_t)scnprintf(buf + n, size - n, "%s\t%s\n", fs_types[i]->nodev ? "nodev" : "", fs_types[i]->name);
	return n;
}

/* -- life of one mount -- */

/* Takes over @sb on success; counts @root. NULL: no memory. */
static struct mount *mount_alloc(struct super_block *sb, struct dentry *root, const char *source, u32 flags)
{
	struct mount *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (!m)
		return NULL;
	m->source = kstrdup(source, GFP_KERNEL);
	if (!m->source) {
		kfree(m);
		return NULL;
	}
	refcount_set(&m->refs, 1);
	__atomic_fetch_add(&sb->nr_mounts, 1, __ATOMIC_RELAXED);
	m->sb = sb;
	m->root = root;
	dentry_get(root);
	m->flags = flags;
	m->id = __atomic_add_fetch(&next_mount_id, 1, __ATOMIC_RELAXED);
	INIT_LIST_HEAD(&m->list);
	return m;
}

void mount_get(struct mount *m)
{
	refcount_inc(&m->refs);
}

static void mount_free_rcu(struct rcu_head *head)
{
	struct mount *m = container_of(head, struct mount, rcu);

	kfree(m->source);
	kfree(m);
}

/* The last one: nobody is inside, and it is not attached. May sleep. */
void mount_put(struct mount *m)
{
	if (!refcount_dec_and_test(&m->refs))
		return;
	dentry_put(m->root);
	if (__atomic_sub_fetch(&m->sb->nr_mounts, 1, __ATOMIC_ACQ_REL) == 0 && m->sb->unmounted)
		m->sb->unmounted(m->sb);
	super_put(m->sb);
	call_rcu(&m->rcu, mount_free_rcu);
}

struct mount *mount_internal(struct super_block *sb)
{
	return mount_alloc(sb, sb->root, "none", 0);
}

void path_get(struct path *p)
{
	mount_get(p->mnt);
	dentry_get(p->dentry);
}

void path_put(struct path *p)
{
	/* The dentry first: its super block lives by the mount. */
	dentry_put(p->dentry);
	mount_put(p->mnt);
}

bool path_is_noexec(const struct path *p)
{
	return (READ_ONCE(p->mnt->flags) | READ_ONCE(p->mnt->sb->flags)) & MS_NOEXEC;
}

bool path_is_nosuid(const struct path *p)
{
	return (READ_ONCE(p->mnt->flags) | READ_ONCE(p->mnt->sb->flags)) & MS_NOSUID;
}

struct super_block *path_sb(const struct path *p)
{
	return p->mnt->sb;
}

/* -- the right to write -- */

bool mount_readonly(const struct mount *m)
{
	return (READ_ONCE(m->flags) | READ_ONCE(m->sb->flags)) & MS_RDONLY;
}

/*
 * Count first, then look at the flag; remount sets the flag first, then looks at the count. Both sides have a full barrier in
 * between, so at least one sees the other.
 */
int mount_want_write(struct mount *m)
{
	__atomic_fetch_add(&m->writers, 1, __ATOMIC_SEQ_CST);
	if (!mount_readonly(m))
		return 0;
	mount_drop_write(m);
	return -EROFS;
}

void mount_drop_write(struct mount *m)
{
	__atomic_fetch_sub(&m->writers, 1, __ATOMIC_RELEASE);
}

/* -- the tree -- */

struct mount *mount_on(struct mount *parent, struct dentry *d)
{
	struct mount *m;
	u32 seq;

	if (likely(!READ_ONCE(d->mountpoint)))
		return NULL;
	rcu_read_lock();
	do {
		seq = read_seqbegin(&namespace_seq);
		for (m = rcu_dereference(parent->children); m; m = rcu_dereference(m->next_child))
			if (READ_ONCE(m->mountpoint) == d && refcount_inc_not_zero(&m->refs))
				break;
		/* A mount that moves while we read its list may lead us into another list: a miss counts only if nothing moved. */
	} while (!m && read_seqretry(&namespace_seq, seq));
	rcu_read_unlock();
	return m;
}

bool mount_parent_get(struct mount *m, struct path *out)
{
	spin_lock(&namespace_lock);
	out->mnt = m->parent;
	out->dentry = m->mountpoint;
	if (out->mnt)
		path_get(out);
	spin_unlock(&namespace_lock);
	return out->mnt != NULL;
}

/* namespace_lock held for writing. Counts @where; the tree's reference on @m is the caller's gift. */
static void attach(struct mount *m, const struct path *where)
{
	m->mountpoint = where->dentry;
	dentry_get(m->mountpoint);
	m->parent = where->mnt;
	mount_get(m->parent);
	WRITE_ONCE(where->dentry->mountpoint, true);
	m->next_child = m->parent->children;
	rcu_assign_pointer(m->parent->children, m);
	if (list_empty(&m->list))
		list_add_tail(&m->list, &all_mounts);
}

/* namespace_lock held for writing. The references on parent and mount point go to @was, to be put after the lock. */
static void detach(struct mount *m, struct path *was)
{
	struct mount **slot = &m->parent->children;
	bool covered = false;

	while (*slot != m)
		slot = &(*slot)->next_child;
	WRITE_ONCE(*slot, m->next_child);
	was->mnt = m->parent;
	was->dentry = m->mountpoint;
	m->parent = NULL;
	m->mountpoint = NULL;

	/* The flag stays while any mount, also through another mount of the same file system, covers the directory. */
	struct mount *o;

	list_for_each_entry(o, &all_mounts, list)
		if (o->mountpoint == was->dentry)
			covered = true;
	WRITE_ONCE(was->dentry->mountpoint, covered);
}

/* Topmost mount at @p: what a path walk to it ends in. */
static void follow_mounts(struct path *p)
{
	struct mount *m;

	while ((m = mount_on(p->mnt, p->dentry))) {
		path_put(p);
		p->mnt = m;
		p->dentry = m->root;
		dentry_get(p->dentry);
	}
}

/* Mounts @m at @where (topmost). mount_mutex held. 0 or -errno; takes over the reference on @m when it succeeds. */
static int attach_at(struct mount *m, struct path *where)
{
	follow_mounts(where);
	struct inode *dir = where->dentry->inode;

	if (S_ISDIR(dir->mode) != S_ISDIR(m->root->inode->mode))
		return -ENOTDIR;
	if (!dentry_in_tree(where->dentry) && !READ_ONCE(where->dentry->unhashed))
		return -EINVAL;		/* a name that procfs makes up for each lookup: the mount would never be seen again */
	/* The same file system on the same spot twice would only hide itself. */
	if (where->dentry == where->mnt->root && m->sb == where->mnt->sb && m->root == where->mnt->root && where->mnt->parent)
		return -EBUSY;
	/*
	 * The directory's lock keeps rmdir from taking it away between the test and the mount. Where a server keeps the names, who has the
	 * lock may be waiting for the server; mount_mutex is everybody's, so we do not join him.
	 */
	if (!where->mnt->sb->served)
		down_read(&dir->lock);
	else if (!down_read_trylock(&dir->lock))
		return -EBUSY;
	int err = READ_ONCE(where->dentry->unhashed) ? -ENOENT : 0;

	if (!err) {
		namespace_write_begin();
		attach(m, where);
		namespace_write_end();
	}
	up_read(&dir->lock);
	return err;
}

static bool has_child_mounts(struct mount *m)
{
	return READ_ONCE(m->children) != NULL;
}

/* Takes @m, without children, out of the tree; drops the tree's reference. mount_mutex held. */
static void unmount_one(struct mount *m)
{
	struct path was;

	namespace_write_begin();
	detach(m, &was);
	list_del_init(&m->list);
	namespace_write_end();
	path_put(&was);
	mount_put(m);
}

/* MNT_DETACH: with everything mounted below it, leaves first. */
static void unmount_tree(struct mount *top)
{
	for (;;) {
		struct mount *m = top;

		while (m->children)
			m = m->children;
		unmount_one(m);
		if (m == top)
			return;
	}
}

/* -- mount(2) -- */

static bool may_mount(void)
{
	return capable(CAP_SYS_ADMIN);
}

/* What the user's MS_ flags make of one mount; relatime unless asked otherwise. */
static u32 mount_flags_of(u32 flags)
{
	u32 m = flags & MOUNT_FLAGS;

	if (!(flags & (MS_NOATIME | MS_STRICTATIME)))
		m |= MS_RELATIME;
	return m;
}

static int mount_new(const char *source, struct path *where, const char *type, u32 flags, const char *options)
{
	struct fs_type *t = find_type(type);

	if (!t)
		return -ENODEV;
	struct super_block *sb = t->mount(source, options, flags);

	if (IS_ERR(sb))
		return (int)PTR_ERR(sb);
	struct mount *m = mount_alloc(sb, sb->root, source && *source ? source : "none", mount_flags_of(flags));

	if (!m) {
		super_put(sb);
		return -ENOMEM;
	}
	int err = attach_at(m, where);

	if (err)
		mount_put(m);
	return err;
}

/* Copies of the mounts below @from that lie inside the bound directory go along with MS_REC. */
static int bind_children(struct mount *from, struct dentry *inside, struct mount *to)
{
	for (struct mount *c = from->children; c; c = c->next_child) {
		if (!dentry_is_below(c->mountpoint, inside) || c == to)
			continue;
		refcount_inc(&c->sb->refs);
		struct mount *copy = mount_alloc(c->sb, c->root, c->source, c->flags);

		if (!copy) {
			super_put(c->sb);
			return -ENOMEM;
		}
		struct path at = { to, c->mountpoint };

		namespace_write_begin();
		attach(copy, &at);
		namespace_write_end();
		int err = bind_children(c, c->root, copy);

		if (err)
			return err;
	}
	return 0;
}

static int mount_bind(const struct path *from, struct path *where, u32 flags)
{
	refcount_inc(&from->mnt->sb->refs);
	struct mount *m = mount_alloc(from->mnt->sb, from->dentry, from->mnt->source, from->mnt->flags);

	if (!m) {
		super_put(from->mnt->sb);
		return -ENOMEM;
	}
	/* Children first, so that the copy does not find itself when it is mounted inside its source. */
	int err = flags & MS_REC ? bind_children(from->mnt, from->dentry, m) : 0;

	if (!err)
		err = attach_at(m, where);
	if (err) {
		while (m->children)
			unmount_tree(m->children);
		mount_put(m);
	}
	return err;
}

static bool mount_is_below(struct mount *m, struct mount *ancestor)
{
	for (; m; m = m->parent)
		if (m == ancestor)
			return true;
	return false;
}

static int mount_move(const struct path *from, struct path *where)
{
	struct path was;

	follow_mounts(where);
	struct mount *m = from->mnt;
	struct inode *dir = where->dentry->inode;

	if (from->dentry != m->root || !m->parent || S_ISDIR(from->dentry->inode->mode) != S_ISDIR(dir->mode))
		return -EINVAL;
	if (mount_is_below(where->mnt, m))
		return -ELOOP;
	if (!where->mnt->sb->served)
		down_read(&dir->lock);
	else if (!down_read_trylock(&dir->lock))
		return -EBUSY;		/* see attach_at() */
	int err = READ_ONCE(where->dentry->unhashed) ? -ENOENT : 0;
	if (!err) {
		namespace_write_begin();
		detach(m, &was);
		attach(m, where);
		namespace_write_end();
	}
	up_read(&dir->lock);
	if (!err)
		path_put(&was);
	return err;
}

/* Is @sb open for writing anywhere, through any of its mounts? */
static bool sb_has_writers(struct super_block *sb)
{
	struct mount *m;
	bool found = false;

	spin_lock(&namespace_lock);
	list_for_each_entry(m, &all_mounts, list)
		if (m->sb == sb && __atomic_load_n(&m->writers, __ATOMIC_SEQ_CST) > 0)
			found = true;
	spin_unlock(&namespace_lock);
	return found;
}

/*
 * Changes flags of the mount, and of the file system unless MS_BIND limits it to this mount. Read-only first says so, then looks
 * whether somebody writes, see mount_want_write().
 */
static int mount_remount(struct path *where, u32 flags, const char *options)
{
	struct mount *m = where->mnt;
	struct super_block *sb = m->sb;
	u32 old = m->flags, old_sb = sb->flags, set = mount_flags_of(flags);
	bool whole = !(flags & MS_BIND), busy = false;

	if (where->dentry != m->root)
		return -EINVAL;
	if (whole && options && *options) {
		int err = sb->remount ? sb->remount(sb, options) : -EINVAL;

		if (err)
			return err;
	}
	__atomic_store_n(&m->flags, set, __ATOMIC_SEQ_CST);
	if (whole)
		__atomic_store_n(&sb->flags, (old_sb & ~MS_RDONLY) | (flags & MS_RDONLY), __ATOMIC_SEQ_CST);
	if ((set & MS_RDONLY) && !((old | old_sb) & MS_RDONLY))
		busy = whole ? sb_has_writers(sb) : __atomic_load_n(&m->writers, __ATOMIC_SEQ_CST) > 0;
	if (busy) {
		WRITE_ONCE(m->flags, old);
		WRITE_ONCE(sb->flags, old_sb);
		return -EBUSY;
	}
	return 0;
}

static int do_mount(const char *source, const char *dir, const char *type, u32 flags, const char *options)
{
	bool from_dir = !(flags & MS_REMOUNT) && (flags & (MS_BIND | MS_MOVE));
	struct path where, from;
	int err = path_lookup_at(AT_FDCWD, dir, LOOKUP_FOLLOW, &where);

	if (err)
		return err;
	/* Before the lock: a walk may wait for a server. */
	if (from_dir) {
		err = source && *source ? path_lookup_at(AT_FDCWD, source, LOOKUP_FOLLOW, &from) : -EINVAL;
		if (err)
			goto put_where;
	}
	mutex_lock(&mount_mutex);
	if (flags & MS_REMOUNT)
		err = mount_remount(&where, flags, options);
	else if (flags & MS_BIND)
		err = mount_bind(&from, &where, flags);
	else if (flags & (MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE))
		err = where.dentry == where.mnt->root ? 0 : -EINVAL;	/* one namespace: nothing to propagate to */
	else if (flags & MS_MOVE)
		err = mount_move(&from, &where);
	else
		err = type ? mount_new(source, &where, type, flags, options) : -EINVAL;
	mutex_unlock(&mount_mutex);
	if (from_dir)
		path_put(&from);
put_where:
	path_put(&where);
	return err;
}

int vfs_mount(const char *source, const char *dir, const char *type, u32 flags, const char *options)
{
	return do_mount(source, dir, type, flags, options);
}

/* A string of at most a page; NULL stays NULL. kfree. */
static int copy_mount_string(const char __user *user, char **out)
{
	*out = NULL;
	if (!user)
		return 0;
	char *s = kmalloc(PAGE_SIZE, GFP_KERNEL);

	if (!s)
		return -ENOMEM;
	ssize_t n = strncpy_from_user(s, user, PAGE_SIZE);

	if (n < 0) {
		kfree(s);
		return n == -ENAMETOOLONG ? -EINVAL : (int)n;
	}
	*out = s;
	return 0;
}

SYSCALL_DEFINE(mount, const char __user *usource, const char __user *udir, const char __user *utype,
	       unsigned long flags, const char __user *uoptions)
{
	char *source = NULL, *type = NULL, *options = NULL, *dir;
	int err;

	if ((flags & 0xffff0000ul) == 0xc0ed0000ul)	/* the magic of old mount programs */
		flags &= 0xffff;
	dir = getname(udir, false);
	if (IS_ERR(dir))
		return PTR_ERR(dir);
	err = copy_mount_string(utype, &type);
	if (!err)
		err = copy_mount_string(usource, &source);
	if (!err)
		err = copy_mount_string(uoptions, &options);
	if (!err)
		err = may_mount() ? do_mount(source, dir, type, (u32)flags, options) : -EPERM;
	kfree(options);
	kfree(source);
	kfree(type);
	putname(dir);
	return err;
}

SYSCALL_DEFINE(umount2, const char __user *uname, int flags)
{
	struct path path;
	int err;

	if (flags & ~(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW))
		return -EINVAL;
	if (!may_mount())
		return -EPERM;
	if ((flags & MNT_EXPIRE) && (flags & (MNT_FORCE | MNT_DETACH)))
		return -EINVAL;
	err = user_path_at(AT_FDCWD, uname, flags & UMOUNT_NOFOLLOW ? 0 : LOOKUP_FOLLOW, &path);
	if (err)
		return err;

	struct mount *m = path.mnt;
	bool is_root = path.dentry == m->root;

	mount_get(m);
	path_put(&path);
	/* What a server has not got yet is given to it before the lock. If it cannot be, or with MNT_FORCE: it is lost, and the log says so. */
	if (is_root && m->sb->sync && !(flags & MNT_FORCE))
		(void)m->sb->sync(m->sb);
	mutex_lock(&mount_mutex);
	if (!is_root || !m->parent) {
		err = -EINVAL;		/* not a mount point, or the root, which stays */
	} else if (flags & MNT_DETACH) {
		unmount_tree(m);
	} else if (has_child_mounts(m) || refcount_read(&m->refs) > 2) {
		err = -EBUSY;		/* more than the tree and this call */
	} else if (flags & MNT_EXPIRE) {
		err = -EAGAIN;		/* marks are not kept: the first call, always */
	} else {
		unmount_one(m);
	}
	mutex_unlock(&mount_mutex);
	mount_put(m);
	return err;
}

/* -- /proc/mounts -- */

static const struct { u32 flag; const char *text; } flag_names[] = {
	{ MS_NOSUID, ",nosuid" }, { MS_NODEV, ",nodev" }, { MS_NOEXEC, ",noexec" }, { MS_NOATIME, ",noatime" },
	{ MS_NODIRATIME, ",nodiratime" }, { MS_RELATIME, ",relatime" }, { MS_NOSYMFOLLOW, ",nosymfollow" },
};

/* Blanks and backslashes in octal, as fstab readers expect. */
static size_t put_escaped(char *buf, size_t size, const char *s)
{
	size_t n = 0;

	for (; *s; s++) {
		if (strchr(" \t\n\\#", *s))
			n += (size_t)scnprintf(buf + n, size - n, "\\%03o", (u8)*s);
		else
			n += (size_t)scnprintf(buf + n, size - n, "%c", *s);
	}
	return n;
}

/* The mount after the one with id @after, counted, and where it is. Mounts are listed in order of their ids but for moved ones. */
static struct mount *next_mount(struct mount *prev)
{
	struct mount *m = NULL;

	spin_lock(&namespace_lock);
	struct list_head *node = prev ? prev->list.next : all_mounts.next;

	/* @prev may have been unmounted meanwhile: then its list is empty and the listing ends here. */
	if (!(prev && list_empty(&prev->list)) && node != &all_mounts) {
		m = list_entry(node, struct mount, list);
		mount_get(m);
	}
	spin_unlock(&namespace_lock);
	return m;
}

static size_t format_options(struct mount *m, char *buf, size_t size, bool with_sb)
{
	size_t n = (size_t)scnprintf(buf, size, "%s", (with_sb ? mount_readonly(m) : (m->flags & MS_RDONLY) != 0) ? "ro" : "rw");

	for (unsigned int i = 0; i < ARRAY_SIZE(flag_names); i++)
		if (READ_ONCE(m->flags) & flag_names[i].flag)
			n += (size_t)scnprintf(buf + n, size - n, "%s", flag_names[i].text);
	if (with_sb && m->sb->show_options)
		n += m->sb->show_options(m->sb, buf + n, size - n);
	return n;
}

static size_t format_mounts(char *buf, size_t size, bool info)
{
	char *name = kmalloc(PATH_MAX, GFP_KERNEL);
	struct mount *m = NULL, *next;
	size_t n = 0;

	if (!name)
		return 0;
	while ((next = next_mount(m))) {
		if (m)
			mount_put(m);
		m = next;
		struct path at = { m, m->root };
		char *where = d_path(&at, name, PATH_MAX);

		if (IS_ERR(where) || where[0] != '/')
			continue;		/* outside of this task's root */
		if (info) {
			u32 parent = m->parent ? READ_ONCE(m->parent->id) : 0;

			n += (size_t)scnprintf(buf + n, size - n, "%u %u %u:%u / ", m->id, parent,
					       (unsigned int)MAJOR(m->sb->dev), (unsigned int)MINOR(m->sb->dev));
			n += put_escaped(buf + n, size - n, where);
			n += (size_t)scnprintf(buf + n, size - n, " ");
			n += format_options(m, buf + n, size - n, false);
			n += (size_t)scnprintf(buf + n, size - n, " - %s ", m->sb->type);
			n += put_escaped(buf + n, size - n, m->source);
			n += (size_t)scnprintf(buf + n, size - n, " ");
			n += (size_t)scnprintf(buf + n, size - n, "%s", m->sb->flags & MS_RDONLY ? "ro" : "rw");
			if (m->sb->show_options)
				n += m->sb->show_options(m->sb, buf + n, size - n);
			n += (size_t)scnprintf(buf + n, size - n, "\n");
		} else {
			n += put_escaped(buf + n, size - n, m->source);
			n += (size_t)scnprintf(buf + n, size - n, " ");
			n += put_escaped(buf + n, size - n, where);
			n += (size_t)scnprintf(buf + n, size - n, " %s ", m->sb->type);
			n += format_options(m, buf + n, size - n, true);
			n += (size_t)scnprintf(buf + n, size - n, " 0 0\n");
		}
	}
	if (m)
		mount_put(m);
	kfree(name);
	/* scnprintf stops one short of the end for its NUL: then there was more. */
	return n + 1 >= size ? size : n;
}

size_t proc_mounts_format(char *buf, size_t size)
{
	return format_mounts(buf, size, false);
}

size_t proc_mountinfo_format(char *buf, size_t size)
{
	return format_mounts(buf, size, true);
}

/* -- start -- */

void mount_init(void)
{
	struct super_block *sb = ramfs_create("rootfs", NULL, false);

	if (IS_ERR(sb))
		panic("no memory for the root file system");
	root_mount = mount_alloc(sb, sb->root, "rootfs", MS_RELATIME);
	if (!root_mount)
		panic("no memory for the root mount");
	list_add_tail(&root_mount->list, &all_mounts);
}
