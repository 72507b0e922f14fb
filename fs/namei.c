/*
 * Path walk, and the calls that change names.
 *
 * A walk holds one counted path and goes on component by component. Symbolic links are walked in place: what remains of the
 * name is pushed, the target becomes the name; there is no recursion, and the 41st link is ELOOP. Calls that make or remove
 * a name stop one component early (LOOKUP_PARENT) and finish under the inode lock of that directory.
 *
 * Locks: LOCK_RENAME (renames between directories of one file system), then the inode locks of one or two directories, an ancestor first, else
 * by address, then a directory that is to be removed. The walk itself takes only each directory's spin lock, and where a server keeps
 * the names its inode lock for read. All of these are a file system's own: who waits for a server holds up nobody elsewhere. And all
 * are waited for killably, for the one who holds them may be waiting for a server.
 */
#include "fs/internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define DIRENT_SIZE	20	/* what a name adds to st_size of its directory, as on tmpfs */

#define RENAME_NOREPLACE	1u
#define RENAME_EXCHANGE		2u
#define RENAME_WHITEOUT		4u

/* -- rights -- */

static const struct creds *current_creds(void)
{
	return current && current->process && !task_is_kthread(current) ? &current->process->creds : NULL;
}

/* Kernel threads act as root with every capability. */
struct access_ids current_ids(void)
{
	const struct creds *c = current_creds();

	if (!c)
		return (struct access_ids){ 0, 0, ~0ul };
	return (struct access_ids){ c->fsuid, c->fsgid, c->cap_effective };
}

/* For access(2): what the user who started a set-uid program could do. */
struct access_ids current_real_ids(void)
{
	const struct creds *c = current_creds();

	if (!c)
		return (struct access_ids){ 0, 0, ~0ul };
	return (struct access_ids){ c->uid, c->gid, c->uid ? 0 : c->cap_permitted };
}

static bool has_group(const struct access_ids *ids, u32 gid)
{
	const struct creds *c = current_creds();

	if (ids->gid == gid)
		return true;
	for (u32 i = 0, n = c ? READ_ONCE(c->ngroups) : 0; i < n && i < NGROUPS_MAX; i++)
		if (c->groups[i] == gid)
			return true;
	return false;
}

bool in_group(u32 gid)
{
	struct access_ids ids = current_ids();

	return has_group(&ids, gid);
}

bool inode_owner_or_capable(struct inode *inode)
{
	struct access_ids ids = current_ids();

	return ids.uid == READ_ONCE(inode->uid) || ids_capable(&ids, CAP_FOWNER);
}

static int generic_permission(struct inode *inode, int mask, const struct access_ids *ids)
{
	u32 mode = READ_ONCE(inode->mode), rights = mode;

	if (ids->uid == READ_ONCE(inode->uid))
		rights >>= 6;
	else if (has_group(ids, READ_ONCE(inode->gid)))
		rights >>= 3;
	if (!((u32)mask & ~rights & 7))
		return 0;
	if (ids_capable(ids, CAP_DAC_OVERRIDE) && (S_ISDIR(mode) || !(mask & MAY_EXEC) || (mode & 0111)))
		return 0;
	if (ids_capable(ids, CAP_DAC_READ_SEARCH) && (S_ISDIR(mode) ? !(mask & MAY_WRITE) : mask == MAY_READ))
		return 0;
	return -EACCES;
}

int inode_permission_as(struct inode *inode, int mask, const struct access_ids *ids)
{
	u32 type = inode->mode & S_IFMT;

	if ((mask & MAY_WRITE) && (READ_ONCE(inode->sb->flags) & MS_RDONLY) && (type == S_IFREG || type == S_IFDIR || type == S_IFLNK))
		return -EROFS;
	if (inode->ops->permission)
		return inode->ops->permission(inode, mask);
	return generic_permission(inode, mask, ids);
}

int inode_permission(struct inode *i, int mask)
{
	struct access_ids ids = current_ids();

	return inode_permission_as(i, mask, &ids);
}

/* -- names from user space -- */

char *getname(const char __user *name, bool empty_ok)
{
	char *s = kmalloc(PATH_MAX, GFP_KERNEL);

	if (!s)
		return ERR_PTR(-ENOMEM);
	ssize_t n = strncpy_from_user(s, name, PATH_MAX);

	if (n < 0 || (n == 0 && !empty_ok)) {
		kfree(s);
		return ERR_PTR(n < 0 ? n : -ENOENT);
	}
	return s;
}

void putname(char *name)
{
	kfree(name);
}

/* -- the walk -- */

static void walk_to(struct walk *w, const struct path *p)	/* takes over @p */
{
	path_put(&w->path);
	w->path = *p;
}

static void walk_to_root(struct walk *w)
{
	struct path root = w->root;

	path_get(&root);
	walk_to(w, &root);
}

/* Where does a walk for @name begin? 0 or -errno; on success w->path and w->root are counted. */
int walk_begin(struct walk *w, int dfd, const char *name, unsigned int flags)
{
	w->flags = flags;
	w->last_type = LAST_ROOT;
	w->last = NULL;
	w->last_len = 0;
	w->trailing = false;
	w->nr_texts = w->depth = 0;
	w->ids = current_ids();

	if (*name == '/' && !(flags & LOOKUP_SCOPED)) {
		current_root_get(&w->root);
		w->path = w->root;
		path_get(&w->path);
		return 0;
	}
	if (*name == '/' && (flags & LOOKUP_BENEATH))
		return -EXDEV;
	if (dfd == AT_FDCWD) {
		current_cwd_get(&w->path);
	} else {
		struct fd_ref r = fdget_raw(dfd);

		if (!r.file)
			return -EBADF;
		w->path = r.file->path;
		path_get(&w->path);
		fdput(r);
		if (*name && !S_ISDIR(w->path.dentry->inode->mode)) {
			path_put(&w->path);
			return -ENOTDIR;
		}
	}
	if (flags & LOOKUP_SCOPED) {
		w->root = w->path;
		path_get(&w->root);
	} else {
		current_root_get(&w->root);
	}
	return 0;
}

void walk_end(struct walk *w)
{
	path_put(&w->path);
	path_put(&w->root);
	for (unsigned int i = 0; i < w->nr_texts; i++)
		kfree(w->texts[i]);
}

/* From a covered directory to the root of what lies on it. @p counted before and after. */
static int cross_mounts(struct walk *w, struct path *p)
{
	struct mount *m;

	while ((m = mount_on(p->mnt, p->dentry))) {
		if (w->flags & LOOKUP_NO_XDEV) {
			mount_put(m);
			return -EXDEV;
		}
		path_put(p);
		p->mnt = m;
		p->dentry = m->root;
		dentry_get(p->dentry);
	}
	return 0;
}

/* The dentry of a name, before mounts. Counted or ERR_PTR. With ->lookup_name: inode lock of @dir held. */
static struct dentry *lookup_in(struct dentry *dir, const char *name, size_t len)
{
	if (dir->inode->ops->lookup_name)
		return dir->inode->ops->lookup_name(dir, name, len);

	struct dentry *d = dcache_lookup(dir, name, len);

	if (d)
		return d;
	if (!dir->inode->ops->lookup)
		return ERR_PTR(-ENOENT);
	struct inode *inode = dir->inode->ops->lookup(dir->inode, name, len);

	if (IS_ERR_OR_NULL(inode))
		return inode ? (void *)inode : ERR_PTR(-ENOENT);
	d = dentry_alloc(dir->sb, dir, name, len, inode);
	if (!d) {
		inode_put(inode);
		return ERR_PTR(-ENOMEM);
	}
	return d;
}

int walk_child(struct walk *w, const char *name, size_t len, struct path *out)
{
	struct inode *dir = w->path.dentry->inode;

	if (likely(!dir->ops->lookup_name))
		return walk_child_locked(w, name, len, out);
	int err = down_read_killable(&dir->lock);

	if (!err) {
		err = walk_child_locked(w, name, len, out);
		up_read(&dir->lock);
	}
	return err;
}

int walk_child_locked(struct walk *w, const char *name, size_t len, struct path *out)
{
	struct dentry *d = lookup_in(w->path.dentry, name, len);

	if (IS_ERR(d))
		return (int)PTR_ERR(d);
	out->mnt = w->path.mnt;
	out->dentry = d;
	mount_get(out->mnt);
	int err = cross_mounts(w, out);

	if (err)
		path_put(out);
	return err;
}

/* A directory that was renamed out of the part of the file system this mount shows has no way up in it. */
static bool connected(const struct path *p)
{
	return p->mnt->root == p->mnt->sb->root || dentry_is_below(p->dentry, p->mnt->root);
}

static int walk_up(struct walk *w)
{
	for (;;) {
		struct path up;

		if (path_equal(&w->path, &w->root)) {
			if (w->flags & LOOKUP_BENEATH)
				return -EXDEV;
			break;
		}
		if (w->path.dentry != w->path.mnt->root) {
			up.mnt = w->path.mnt;
			up.dentry = dentry_parent_get(w->path.dentry);
			mount_get(up.mnt);
			walk_to(w, &up);
			if (!connected(&w->path))
				return -ENOENT;
			break;
		}
		if (!mount_parent_get(w->path.mnt, &up))
			break;
		walk_to(w, &up);
		if (w->flags & LOOKUP_NO_XDEV)
			return -EXDEV;
	}
	/* A rename may have carried us out of the scope between two steps; the caller may try again. */
	if ((w->flags & LOOKUP_SCOPED) && w->path.mnt == w->root.mnt && !dentry_is_below(w->path.dentry, w->root.dentry))
		return -EAGAIN;
	return cross_mounts(w, &w->path);
}

/* Goes where @link points: a text to walk from w->path (returned), or a jump ("" returned). Does not put @link. */
static int enter_link(struct walk *w, struct path *link, const char **text)
{
	struct inode *inode = link->dentry->inode;
	const struct inode_ops *ops = inode->ops;

	if (w->nr_texts == MAX_SYMLINKS || (w->flags & LOOKUP_NO_SYMLINKS) || (link->mnt->flags & MS_NOSYMFOLLOW))
		return -ELOOP;
	if (ops->follow) {
		struct path to;

		if (w->flags & LOOKUP_NO_MAGICLINKS)
			return -ELOOP;
		if (w->flags & LOOKUP_SCOPED)
			return -EXDEV;
		int err = ops->follow(inode, &to);

		if (err)
			return err;
		w->texts[w->nr_texts++] = NULL;
		walk_to(w, &to);
		*text = "";
		return 0;
	}
	if (!ops->readlink)
		return -EINVAL;
	char *s = ops->readlink(inode);

	if (IS_ERR(s))
		return (int)PTR_ERR(s);
	w->texts[w->nr_texts++] = s;
	if (!*s)
		return -ENOENT;
	if (*s == '/') {
		if (w->flags & LOOKUP_BENEATH)
			return -EXDEV;
		if ((w->flags & LOOKUP_NO_XDEV) && w->path.mnt != w->root.mnt)
			return -EXDEV;
		walk_to_root(w);
	}
	*text = s;
	return 0;
}

static int may_search(struct walk *w)
{
	struct inode *dir = w->path.dentry->inode;

	return S_ISDIR(dir->mode) ? inode_permission_as(dir, MAY_EXEC, &w->ids) : -ENOTDIR;
}

/*
 * Walks @s from w->path. With LOOKUP_PARENT the last component is left in w->last; LAST_ROOT then means that there is none
 * ("/", or a jump). Without it w->path is the result; a final link is followed with LOOKUP_FOLLOW or a trailing slash.
 */
int walk_name(struct walk *w, const char *s)
{
	for (;;) {
		while (*s == '/')
			s++;
		if (!*s) {
			if (!w->depth)
				break;
			s = w->rest[--w->depth];
			continue;
		}
		const char *end = s;

		while (*end && *end != '/')
			end++;
		size_t len = (size_t)(end - s);
		const char *next = end;

		while (*next == '/')
			next++;
		bool final = !*next && !w->depth;
		int err = may_search(w);

		if (err)
			return err;
		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		if (final && *end == '/')
			w->trailing = true;

		enum last_type type = LAST_NORM;

		if (s[0] == '.' && len == 1)
			type = LAST_DOT;
		else if (s[0] == '.' && s[1] == '.' && len == 2)
			type = LAST_DOTDOT;
		if (final && (w->flags & LOOKUP_PARENT)) {
			w->last_type = type;
			w->last = s;
			w->last_len = len;
			return 0;
		}
		if (type != LAST_NORM) {
			err = type == LAST_DOTDOT ? walk_up(w) : 0;
			if (err)
				return err;
			s = next;
			continue;
		}

		struct path child;

		err = walk_child(w, s, len, &child);
		if (err)
			return err;
		if (!S_ISLNK(child.dentry->inode->mode) || (final && !w->trailing && !(w->flags & LOOKUP_FOLLOW))) {
			walk_to(w, &child);
			s = next;
			continue;
		}
		const char *text;

		err = enter_link(w, &child, &text);
		path_put(&child);
		if (err)
			return err;
		if (*next)
			w->rest[w->depth++] = next;
		s = text;
	}
	w->last_type = LAST_ROOT;
	if ((w->trailing || (w->flags & LOOKUP_DIRECTORY)) && !S_ISDIR(w->path.dentry->inode->mode))
		return -ENOTDIR;
	return 0;
}

int walk_follow(struct walk *w, struct path *link)
{
	const char *text;
	int err = enter_link(w, link, &text);

	path_put(link);
	return err ? err : walk_name(w, text);
}

int path_lookup_as(int dfd, const char *name, unsigned int flags, const struct access_ids *ids, struct path *out)
{
	struct walk w;

	if (!*name && !(flags & LOOKUP_EMPTY))
		return -ENOENT;
	int err = walk_begin(&w, dfd, name, flags);

	if (err)
		return err;
	if (ids)
		w.ids = *ids;
	err = walk_name(&w, name);
	if (!err) {
		*out = w.path;
		path_get(out);
	}
	walk_end(&w);
	return err;
}

int path_lookup_at(int dfd, const char *name, unsigned int flags, struct path *out)
{
	return path_lookup_as(dfd, name, flags, NULL, out);
}

int user_path_at(int dfd, const char __user *uname, unsigned int flags, struct path *out)
{
	char *name = getname(uname, flags & LOOKUP_EMPTY);

	if (IS_ERR(name))
		return (int)PTR_ERR(name);
	int err = path_lookup_at(dfd, name, flags, out);

	putname(name);
	return err;
}

/* -- making names -- */

/* The inode lock of @dir held. */
int may_create(struct dentry *dir)
{
	if (!READ_ONCE(dir->inode->nlink))
		return -ENOENT;		/* removed: somebody's working directory, still open */
	return inode_permission(dir->inode, MAY_WRITE | MAY_EXEC);
}

/* A name was added or removed. The inode lock of @dir held. */
static void dir_changed(struct inode *dir, int names, int subdirs)
{
	u64 now = ktime_get_real_ns();

	assert(rwsem_is_write_held(&dir->lock));
	spin_lock(&dir->meta_lock);
	dir->mtime = dir->ctime = now;
	if (!dir->sb->weak_names)		/* there the count comes from the server, who may have done what we have not heard of */
		dir->nlink += (u32)subdirs;
	WRITE_ONCE(dir->size, dir->size + (u64)(s64)(names * DIRENT_SIZE));
	spin_unlock(&dir->meta_lock);
}

u32 apply_umask(u32 mode)
{
	return mode & ~READ_ONCE(current_fs()->umask);
}

/* Set-group-id directories hand down their group, and to directories the bit as well. */
static void inherit_group(struct inode *inode, const struct inode *dir)
{
	if (!(dir->mode & S_ISGID))
		return;
	inode->gid = dir->gid;
	if (S_ISDIR(inode->mode))
		inode->mode |= S_ISGID;
	else if ((inode->mode & (S_ISGID | 010)) == (S_ISGID | 010) && !in_group(dir->gid) && !capable(CAP_FSETID))
		inode->mode &= ~(u32)S_ISGID;
}

bool dir_takes_names(const struct inode *dir)
{
	return dir->ops->create || dir->ops->create_name;
}

struct inode *vfs_new_inode(struct inode *dir, u32 mode, dev_t rdev)
{
	if (!dir->ops->create)
		return ERR_PTR(-EPERM);
	struct inode *inode = dir->ops->create(dir, mode, rdev);

	if (!IS_ERR(inode))
		inherit_group(inode, dir);
	return inode;
}

/* Gives @inode (taken over) a name in @dir, whose inode lock is held. Counted dentry or ERR_PTR(-ENOMEM). */
static struct dentry *add_name(struct dentry *dir, const char *name, size_t len, struct inode *inode)
{
	bool is_dir = S_ISDIR(inode->mode);
	struct dentry *d = dentry_alloc(dir->sb, dir, name, len, inode);

	if (!d) {
		inode_put(inode);
		return ERR_PTR(-ENOMEM);
	}
	if (is_dir)
		inode->nlink = 2;
	dcache_add(d);
	dir_changed(dir->inode, 1, is_dir);
	return d;
}

struct dentry *vfs_create_locked(struct path *dir, const char *name, size_t len, u32 mode, dev_t rdev)
{
	const struct inode_ops *ops = dir->dentry->inode->ops;

	if (ops->create_name) {
		if (!S_ISREG(mode) && !S_ISDIR(mode))
			return ERR_PTR(-EPERM);
		struct dentry *d = ops->create_name(dir->dentry, name, len, mode);

		if (!IS_ERR(d))
			dir_changed(dir->dentry->inode, 1, S_ISDIR(mode));
		return d;
	}
	struct inode *inode = vfs_new_inode(dir->dentry->inode, mode, rdev);

	return IS_ERR(inode) ? (void *)inode : add_name(dir->dentry, name, len, inode);
}

/*
 * Finds the directory for a new name and locks it: 0, and create_end() must follow; or -errno, with nothing held. The order
 * of errors is Linux's: exists, slash after a name that is no directory, read-only, rights.
 */
static int create_begin(struct walk *w, int dfd, const char *name, bool is_dir)
{
	if (!*name)
		return -ENOENT;
	int err = walk_begin(w, dfd, name, LOOKUP_PARENT);

	if (err)
		return err;
	err = walk_name(w, name);
	if (!err && w->last_type != LAST_NORM)
		err = -EEXIST;
	if (err)
		goto end_walk;

	int readonly = mount_want_write(w->path.mnt);

	err = down_write_killable(&w->path.dentry->inode->lock);
	if (err)
		goto drop_write;
	struct dentry *d = lookup_in(w->path.dentry, w->last, w->last_len);

	if (!IS_ERR(d)) {
		dentry_put(d);
		err = -EEXIST;
	} else if (PTR_ERR(d) != -ENOENT) {
		err = (int)PTR_ERR(d);
	} else if (w->trailing && !is_dir) {
		err = -ENOENT;
	} else {
		err = readonly ? readonly : may_create(w->path.dentry);
	}
	if (!err)
		return 0;
	up_write(&w->path.dentry->inode->lock);
drop_write:
	if (!readonly)
		mount_drop_write(w->path.mnt);
end_walk:
	walk_end(w);
	return err;
}

static void create_end(struct walk *w)
{
	up_write(&w->path.dentry->inode->lock);
	mount_drop_write(w->path.mnt);
	walk_end(w);
}

/* @out: where it is then, counted; NULL if nobody asks. */
static int mknod_path(int dfd, const char *name, u32 mode, dev_t rdev, struct path *out)
{
	struct walk w;
	int err = create_begin(&w, dfd, name, S_ISDIR(mode));

	if (err)
		return err;
	mode = apply_umask(mode);
	struct dentry *d = vfs_create_locked(&w.path, w.last, w.last_len, mode, rdev);

	if (!IS_ERR(d) && out) {
		*out = (struct path){ w.path.mnt, d };
		path_get(out);
	}
	create_end(&w);
	if (IS_ERR(d))
		return (int)PTR_ERR(d);
	dentry_put(d);
	return 0;
}

static int do_mknodat(int dfd, const char *name, u32 mode, dev_t rdev)
{
	return mknod_path(dfd, name, mode, rdev, NULL);
}

/* 0 or -errno for a mode given to mknod. */
static int check_mknod(u32 *mode, dev_t rdev)
{
	switch (*mode & S_IFMT) {
	case 0:
		*mode |= S_IFREG;
		return 0;
	case S_IFREG:
	case S_IFIFO:
	case S_IFSOCK:
		return 0;
	case S_IFCHR:
		if (rdev == 0)
			return 0;	/* overlay whiteouts need no rights */
		__attribute__((fallthrough));
	case S_IFBLK:
		return capable(CAP_MKNOD) ? 0 : -EPERM;
	case S_IFDIR:
		return -EPERM;
	default:
		return -EINVAL;
	}
}

static int do_symlinkat(const char *target, int dfd, const char *name)
{
	struct walk w;

	if (!*target)
		return -ENOENT;
	int err = create_begin(&w, dfd, name, false);

	if (err)
		return err;
	struct inode *dir = w.path.dentry->inode;
	struct inode *inode = dir->ops->symlink ? dir->ops->symlink(dir, target) : ERR_PTR(-EPERM);

	if (IS_ERR(inode)) {
		err = (int)PTR_ERR(inode);
	} else {
		inherit_group(inode, dir);
		struct dentry *d = add_name(w.path.dentry, w.last, w.last_len, inode);

		if (IS_ERR(d))
			err = (int)PTR_ERR(d);
		else
			dentry_put(d);
	}
	create_end(&w);
	return err;
}

/* @old counted by the caller. */
static int link_path(struct path *old, int dfd, const char *name)
{
	struct inode *inode = old->dentry->inode;
	struct walk w;
	int err = create_begin(&w, dfd, name, false);

	if (err)
		return err;
	if (w.path.mnt != old->mnt) {
		err = -EXDEV;		/* also between two mounts of one file system */
	} else if (S_ISDIR(inode->mode) || !w.path.dentry->inode->ops->create) {	/* a server's files have one name */
		err = -EPERM;
	} else {
		spin_lock(&inode->meta_lock);
		if (inode->nlink == 0 && !inode->linkable) {
			err = -ENOENT;	/* its last name is gone: not brought back */
		} else {
			inode->nlink++;
			inode->linkable = false;
			inode->ctime = ktime_get_real_ns();
		}
		spin_unlock(&inode->meta_lock);
	}
	if (!err) {
		inode_get(inode);
		struct dentry *d = add_name(w.path.dentry, w.last, w.last_len, inode);

		if (IS_ERR(d)) {
			err = (int)PTR_ERR(d);
			inode_set_nlink(inode, inode->nlink - 1);
		} else {
			dentry_put(d);
		}
	}
	create_end(&w);
	return err;
}

/* -- removing names -- */

/*
 * May current remove (or move away, or replace) @d from @dir, whose inode lock is held? For rmdir @is_dir; the error tells
 * what did not fit.
 */
static int may_delete(struct dentry *dir, struct dentry *d, bool is_dir)
{
	int err = inode_permission(dir->inode, MAY_WRITE | MAY_EXEC);

	if (err)
		return err;
	struct access_ids ids = current_ids();

	if ((dir->inode->mode & S_ISVTX) && ids.uid != d->inode->uid && ids.uid != dir->inode->uid && !ids_capable(&ids, CAP_FOWNER))
		return -EPERM;
	if (is_dir && !S_ISDIR(d->inode->mode))
		return -ENOTDIR;
	if (!is_dir && S_ISDIR(d->inode->mode))
		return -EISDIR;
	if (!dir->inode->nlink)
		return -ENOENT;
	return 0;
}

/* Names that only ->lookup knows, and directories that never let go of their names. */
static bool removable(struct dentry *dir, struct dentry *d)
{
	return dentry_in_tree(d) && (dir_takes_names(dir->inode) || dir->inode->ops->unlink);
}

/* @d loses its place in @dir (lock held). For a directory: its own lock held too, and it is empty. Nothing can fail. */
static void drop_link(struct dentry *dir, struct dentry *d)
{
	struct inode *inode = d->inode;

	if (S_ISDIR(inode->mode)) {
		inode_set_nlink(inode, 0);
		dir_changed(dir->inode, -1, -1);
	} else {
		spin_lock(&inode->meta_lock);
		inode->nlink--;
		inode->ctime = ktime_get_real_ns();
		spin_unlock(&inode->meta_lock);
		dir_changed(dir->inode, -1, 0);
	}
}

/* Lock: inode lock of @dir. 0 or -errno. */
static int remove_locked(struct dentry *dir, struct dentry *d, bool is_dir)
{
	int err = may_delete(dir, d, is_dir);

	if (err)
		return err;
	if (!removable(dir, d))
		return -EPERM;
	if (READ_ONCE(d->mountpoint))
		return -EBUSY;
	if (is_dir && (err = down_write_nested_killable(&d->inode->lock)))	/* nobody may create inside between the test and the end */
		return err;
	if (READ_ONCE(d->mountpoint))
		err = -EBUSY;
	else if (is_dir && dentry_has_children(d))
		err = -ENOTEMPTY;
	else if (dir->inode->ops->unlink)
		err = dir->inode->ops->unlink(dir->inode, d);
	if (!err) {
		drop_link(dir, d);
		dcache_remove(d);
	}
	if (is_dir)
		up_write(&d->inode->lock);
	return err;
}

static int do_unlinkat(int dfd, const char *name, bool is_dir)
{
	struct walk w;

	if (!*name)
		return -ENOENT;
	int err = walk_begin(&w, dfd, name, LOOKUP_PARENT);

	if (err)
		return err;
	err = walk_name(&w, name);
	if (err)
		goto end_walk;
	if (w.last_type != LAST_NORM) {
		if (!is_dir)
			err = -EISDIR;
		else if (w.last_type == LAST_DOTDOT)
			err = -ENOTEMPTY;
		else
			err = w.last_type == LAST_DOT ? -EINVAL : -EBUSY;
		goto end_walk;
	}
	err = mount_want_write(w.path.mnt);
	if (err)
		goto end_walk;

	struct dentry *dir = w.path.dentry;

	err = down_write_killable(&dir->inode->lock);
	if (err)
		goto drop_write;
	struct dentry *d = lookup_in(dir, w.last, w.last_len);

	if (IS_ERR(d))
		err = (int)PTR_ERR(d);
	else if (w.trailing && !is_dir)
		err = S_ISDIR(d->inode->mode) ? -EISDIR : -ENOTDIR;
	else
		err = remove_locked(dir, d, is_dir);
	up_write(&dir->inode->lock);
	if (!IS_ERR(d))
		dentry_put(d);		/* after the lock: may be the end of a large file */
drop_write:
	mount_drop_write(w.path.mnt);
end_walk:
	walk_end(&w);
	return err;
}

/* -- rename -- */

/* 0 or -EINTR. */
static int lock_rename(struct dentry *a, struct dentry *b)
{
	if (a == b)
		return down_write_killable(&a->inode->lock);
	int err = mutex_lock_killable(&a->sb->rename_lock);	/* from here on no directory changes its place: "is below" stays true */

	if (err)
		return err;
	bool b_first = dentry_is_below(a, b) || (!dentry_is_below(b, a) && b->inode < a->inode);
	struct rwsem *first = b_first ? &b->inode->lock : &a->inode->lock, *second = b_first ? &a->inode->lock : &b->inode->lock;

	err = down_write_killable(first);
	if (err)
		goto unlock;
	err = down_write_nested_killable(second);
	if (!err)
		return 0;
	up_write(first);
unlock:
	mutex_unlock(&a->sb->rename_lock);
	return err;
}

static void unlock_rename(struct dentry *a, struct dentry *b)
{
	up_write(&a->inode->lock);
	if (a != b) {
		up_write(&b->inode->lock);
		mutex_unlock(&a->sb->rename_lock);
	}
}

struct rename {
	struct dentry	*old_dir, *new_dir;	/* inode locks held */
	struct dentry	*old, *target;		/* counted; target NULL: no such name yet */
	const char	*new_name;
	size_t		 new_len;
	unsigned int	 flags;
};

/* Every reason to refuse, before anything changes; target's own lock (if it is a directory to be replaced) is held. */
static int rename_allowed(struct rename *r)
{
	bool is_dir = S_ISDIR(r->old->inode->mode), exchange = r->flags & RENAME_EXCHANGE;
	bool target_is_dir = r->target && S_ISDIR(r->target->inode->mode);
	int err = may_delete(r->old_dir, r->old, is_dir);

	if (err)
		return err;
	if (!r->target)
		err = may_create(r->new_dir);
	else
		err = may_delete(r->new_dir, r->target, exchange ? target_is_dir : is_dir);
	if (err)
		return err;
	if (!removable(r->old_dir, r->old) || !dir_takes_names(r->new_dir->inode) || (r->target && !removable(r->new_dir, r->target)))
		return -EPERM;
	if (r->old_dir != r->new_dir) {
		/* A directory's ".." changes: that is writing to it. */
		if (is_dir && (err = inode_permission(r->old->inode, MAY_WRITE)))
			return err;
		if (exchange && target_is_dir && (err = inode_permission(r->target->inode, MAY_WRITE)))
			return err;
	}
	if (READ_ONCE(r->old->mountpoint) || (r->target && READ_ONCE(r->target->mountpoint)))
		return -EBUSY;
	if (target_is_dir && !exchange && dentry_has_children(r->target))
		return -ENOTEMPTY;
	return 0;
}

/* The owner of the names does it, or has a veto. After this nothing can fail. */
static int rename_ask(struct rename *r)
{
	const struct inode_ops *ops = r->old_dir->inode->ops;

	return ops->rename ? ops->rename(r->old, r->new_dir, r->target, r->new_name, r->new_len, r->flags) : 0;
}

static int rename_exchange(struct rename *r)
{
	char *for_old = dentry_name_alloc(r->target->name, r->target->name_len);
	char *for_target = dentry_name_alloc(r->old->name, r->old->name_len);

	if (!for_old || !for_target) {
		dentry_name_free(for_old);
		dentry_name_free(for_target);
		return -ENOMEM;
	}
	int err = rename_ask(r);

	if (err) {
		dentry_name_free(for_old);
		dentry_name_free(for_target);
		return err;
	}
	int delta = S_ISDIR(r->target->inode->mode) - S_ISDIR(r->old->inode->mode);	/* subdirectories that old_dir gains */

	dcache_exchange(r->old, r->target, for_old, for_target);
	dir_changed(r->old_dir->inode, 0, delta);
	dir_changed(r->new_dir->inode, 0, -delta);
	return 0;
}

static int rename_commit(struct rename *r)
{
	bool is_dir = S_ISDIR(r->old->inode->mode);

	if (r->flags & RENAME_EXCHANGE)
		return rename_exchange(r);
	char *name = dentry_name_alloc(r->new_name, r->new_len);

	if (!name)
		return -ENOMEM;
	int err = rename_ask(r);

	if (err) {
		dentry_name_free(name);
		return err;
	}
	/* Nothing below this line can fail. */
	if (r->target)
		drop_link(r->new_dir, r->target);
	dcache_move(r->old, r->new_dir, name, r->new_len, r->target);
	dir_changed(r->old_dir->inode, -1, -is_dir);
	dir_changed(r->new_dir->inode, 1, is_dir);
	inode_touch(r->old->inode, false);
	return 0;
}

/* Locks: both directories. 0 or -errno. */
static int rename_locked(struct rename *r)
{
	/* Two names of one inode: rename does nothing, says POSIX. */
	if (r->target && r->target->inode == r->old->inode)
		return 0;
	struct inode *victim = r->target && S_ISDIR(r->target->inode->mode) && !(r->flags & RENAME_EXCHANGE) ? r->target->inode : NULL;

	int err = victim ? down_write_nested_killable(&victim->lock) : 0;

	if (err)
		return err;
	err = rename_allowed(r);
	if (!err)
		err = rename_commit(r);
	if (victim)
		up_write(&victim->lock);
	return err;
}

/* Looks both names up and applies the rules about slashes and loops, in Linux's order. Counted dentries in @r, also on error. */
static int rename_find(struct rename *r, struct walk *from, struct walk *to)
{
	struct dentry *d = lookup_in(r->old_dir, from->last, from->last_len);

	if (IS_ERR(d))
		return (int)PTR_ERR(d);
	r->old = d;
	d = lookup_in(r->new_dir, to->last, to->last_len);
	if (IS_ERR(d) && PTR_ERR(d) != -ENOENT)
		return (int)PTR_ERR(d);
	r->target = IS_ERR(d) ? NULL : d;
	if ((r->flags & RENAME_NOREPLACE) && r->target)
		return -EEXIST;
	if (r->flags & RENAME_EXCHANGE) {
		if (!r->target)
			return -ENOENT;
		if (!S_ISDIR(r->target->inode->mode) && to->trailing)
			return -ENOTDIR;
	}
	if (!S_ISDIR(r->old->inode->mode) && (from->trailing || (!(r->flags & RENAME_EXCHANGE) && to->trailing)))
		return -ENOTDIR;
	if (S_ISDIR(r->old->inode->mode) && dentry_is_below(r->new_dir, r->old))
		return -EINVAL;		/* into itself */
	if (r->target && S_ISDIR(r->target->inode->mode) && dentry_is_below(r->old_dir, r->target))
		return r->flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
	return 0;
}

static int do_renameat(int olddfd, const char *oldname, int newdfd, const char *newname, unsigned int flags)
{
	struct walk from, to;
	int err;

	if (!*oldname || !*newname)
		return -ENOENT;
	err = walk_begin(&from, olddfd, oldname, LOOKUP_PARENT);
	if (err)
		return err;
	err = walk_name(&from, oldname);
	if (err)
		goto end_from;
	err = walk_begin(&to, newdfd, newname, LOOKUP_PARENT);
	if (err)
		goto end_from;
	err = walk_name(&to, newname);
	if (err)
		goto end_to;
	err = -EXDEV;
	if (from.path.mnt != to.path.mnt)
		goto end_to;
	err = -EBUSY;
	if (from.last_type != LAST_NORM)
		goto end_to;
	if (to.last_type != LAST_NORM) {
		if (flags & RENAME_NOREPLACE)
			err = -EEXIST;
		goto end_to;
	}
	err = mount_want_write(from.path.mnt);
	if (err)
		goto end_to;

	struct rename r = {
		.old_dir = from.path.dentry, .new_dir = to.path.dentry,
		.new_name = to.last, .new_len = to.last_len, .flags = flags,
	};

	err = lock_rename(r.old_dir, r.new_dir);
	if (err)
		goto drop_write;
	err = rename_find(&r, &from, &to);
	if (!err)
		err = rename_locked(&r);
	unlock_rename(r.old_dir, r.new_dir);
	if (r.old)
		dentry_put(r.old);
	if (r.target)
		dentry_put(r.target);
drop_write:
	mount_drop_write(from.path.mnt);
end_to:
	walk_end(&to);
end_from:
	walk_end(&from);
	return err;
}

/* -- for the kernel itself -- */

int vfs_mkdir(const char *name, u32 mode)
{
	return do_mknodat(AT_FDCWD, name, S_IFDIR | (mode & 01777), 0);
}

int vfs_mknod(const char *name, u32 mode, dev_t rdev)
{
	return do_mknodat(AT_FDCWD, name, mode, rdev);
}

int vfs_mknod_path(const char *name, u32 mode, struct path *out)
{
	return mknod_path(AT_FDCWD, name, mode, 0, out);
}

int vfs_symlink(const char *target, const char *name)
{
	return do_symlinkat(target, AT_FDCWD, name);
}

int vfs_unlink(const char *name)
{
	return do_unlinkat(AT_FDCWD, name, false);
}

int vfs_link(const char *oldname, const char *name)
{
	struct path old;
	int err = path_lookup_at(AT_FDCWD, oldname, 0, &old);

	if (!err) {
		err = link_path(&old, AT_FDCWD, name);
		path_put(&old);
	}
	return err;
}

/* -- system calls -- */

SYSCALL_DEFINE(mknodat, int dfd, const char __user *uname, unsigned int mode, unsigned int dev)
{
	/* MKDEV's user layout is our own. */
	int err = check_mknod(&mode, dev);

	if (err)
		return err;
	char *name = getname(uname, false);

	if (IS_ERR(name))
		return PTR_ERR(name);
	err = do_mknodat(dfd, name, mode & (S_IFMT | 07777), dev);
	putname(name);
	return err;
}

SYSCALL_DEFINE(mknod, const char __user *uname, unsigned int mode, unsigned int dev)
{
	return sys_mknodat(AT_FDCWD, uname, mode, dev);
}

SYSCALL_DEFINE(mkdirat, int dfd, const char __user *uname, unsigned int mode)
{
	char *name = getname(uname, false);

	if (IS_ERR(name))
		return PTR_ERR(name);
	int err = do_mknodat(dfd, name, S_IFDIR | (mode & 01777), 0);

	putname(name);
	return err;
}

SYSCALL_DEFINE(mkdir, const char __user *uname, unsigned int mode)
{
	return sys_mkdirat(AT_FDCWD, uname, mode);
}

SYSCALL_DEFINE(symlinkat, const char __user *utarget, int dfd, const char __user *uname)
{
	char *target = getname(utarget, false);

	if (IS_ERR(target))
		return PTR_ERR(target);
	char *name = getname(uname, false);
	int err = (int)PTR_ERR(name);

	if (!IS_ERR(name)) {
		err = do_symlinkat(target, dfd, name);
		putname(name);
	}
	putname(target);
	return err;
}

SYSCALL_DEFINE(symlink, const char __user *utarget, const char __user *uname)
{
	return sys_symlinkat(utarget, AT_FDCWD, uname);
}

SYSCALL_DEFINE(linkat, int olddfd, const char __user *uold, int newdfd, const char __user *unew, int flags)
{
	unsigned int how = flags & AT_SYMLINK_FOLLOW ? LOOKUP_FOLLOW : 0;
	struct path old;

	if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	/* By descriptor alone one could name a file whose directory one may not search. */
	if ((flags & AT_EMPTY_PATH) && capable(CAP_DAC_READ_SEARCH))
		how |= LOOKUP_EMPTY;
	int err = user_path_at(olddfd, uold, how, &old);

	if (err)
		return err;
	char *name = getname(unew, false);

	err = (int)PTR_ERR(name);
	if (!IS_ERR(name)) {
		err = link_path(&old, newdfd, name);
		putname(name);
	}
	path_put(&old);
	return err;
}

SYSCALL_DEFINE(link, const char __user *uold, const char __user *unew)
{
	return sys_linkat(AT_FDCWD, uold, AT_FDCWD, unew, 0);
}

SYSCALL_DEFINE(unlinkat, int dfd, const char __user *uname, int flags)
{
	if (flags & ~AT_REMOVEDIR)
		return -EINVAL;
	char *name = getname(uname, false);

	if (IS_ERR(name))
		return PTR_ERR(name);
	int err = do_unlinkat(dfd, name, flags & AT_REMOVEDIR);

	putname(name);
	return err;
}

SYSCALL_DEFINE(unlink, const char __user *uname)
{
	return sys_unlinkat(AT_FDCWD, uname, 0);
}

SYSCALL_DEFINE(rmdir, const char __user *uname)
{
	return sys_unlinkat(AT_FDCWD, uname, AT_REMOVEDIR);
}

SYSCALL_DEFINE(renameat2, int olddfd, const char __user *uold, int newdfd, const char __user *unew, unsigned int flags)
{
	if (flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	if ((flags & (RENAME_NOREPLACE | RENAME_WHITEOUT)) && (flags & RENAME_EXCHANGE))
		return -EINVAL;
	if (flags & RENAME_WHITEOUT)
		return -EINVAL;		/* no file system here knows whiteouts */
	char *oldname = getname(uold, false);

	if (IS_ERR(oldname))
		return PTR_ERR(oldname);
	char *newname = getname(unew, false);
	int err = (int)PTR_ERR(newname);

	if (!IS_ERR(newname)) {
		err = do_renameat(olddfd, oldname, newdfd, newname, flags);
		putname(newname);
	}
	putname(oldname);
	return err;
}

SYSCALL_DEFINE(renameat, int olddfd, const char __user *uold, int newdfd, const char __user *unew)
{
	return sys_renameat2(olddfd, uold, newdfd, unew, 0);
}

SYSCALL_DEFINE(rename, const char __user *uold, const char __user *unew)
{
	return sys_renameat2(AT_FDCWD, uold, AT_FDCWD, unew, 0);
}
