/*
 * From a dentry back to its path: names are written from the end of the buffer backwards, parent by parent, across mounts,
 * up to the root directory of the asking task. The way up is walked under RCU, and again from the start if a name moved
 * meanwhile.
 */
#include "fs/internal.h"
#include "kernel/printk.h"
#include "kernel/string.h"

/* Puts @s before *at. False: no room. */
static bool prepend(char **at, const char *start, const char *s)
{
	size_t n = strlen(s);

	if ((size_t)(*at - start) < n)
		return false;
	*at -= n;
	memcpy(*at, s, n);
	return true;
}

/* RCU read lock held. */
static bool prepend_names(char **at, const char *start, const struct path *p, const struct path *root)
{
	struct mount *mnt = p->mnt;
	struct dentry *d = p->dentry;

	while (d != root->dentry || mnt != root->mnt) {
		if (d == mnt->root || d == READ_ONCE(d->parent)) {
			struct mount *up = READ_ONCE(mnt->parent);

			if (!up)
				break;		/* the root of all, or a mount that is seen nowhere */
			d = READ_ONCE(mnt->mountpoint);
			mnt = up;
			if (!d)
				break;		/* being unmounted: the count has moved, the caller tries again */
			continue;
		}
		if (!prepend(at, start, rcu_dereference(d->name)) || !prepend(at, start, "/"))
			return false;
		d = READ_ONCE(d->parent);
	}
	return true;
}

/* What never had a place in the tree: shown by kind and number. Into the start of @buf. */
static char *anon_text(struct inode *inode, const char *name, char *buf, size_t size)
{
	int n;

	if (S_ISFIFO(inode->mode))
		n = snprintf(buf, size, "pipe:[%lu]", inode->ino);
	else if (S_ISSOCK(inode->mode))
		n = snprintf(buf, size, "socket:[%lu]", inode->ino);
	else
		n = snprintf(buf, size, "anon_inode:%s", name);
	return n >= 0 && (size_t)n < size ? buf : ERR_PTR(-ENAMETOOLONG);
}

char *d_path(const struct path *p, char *buf, size_t size)
{
	struct fs_context *fs = current_fs();
	struct path root;
	char *at;
	bool ok;
	u32 seq;

	if (size < 2)
		return ERR_PTR(-ENAMETOOLONG);
	if (p->mnt == anon_mount)
		return anon_text(p->dentry->inode, p->dentry->name, buf, size);
	/* Only compared with, so not counted: d_path never sleeps. */
	spin_lock(&fs->lock);
	root = fs->root;
	spin_unlock(&fs->lock);
	rcu_read_lock();
	do {
		seq = read_seqbegin(&namespace_seq);
		at = buf + size - 1;
		*at = 0;
		ok = !READ_ONCE(p->dentry->unhashed) || prepend(&at, buf, " (deleted)");
		char *end = at;

		ok = ok && prepend_names(&at, buf, p, &root);
		if (ok && at == end)
			ok = prepend(&at, buf, "/");
	} while (read_seqretry(&namespace_seq, seq));
	rcu_read_unlock();
	return ok ? at : ERR_PTR(-ENAMETOOLONG);
}

char *file_path(struct file *f, char *buf, size_t size)
{
	if (!file_is_anonymous(f))
		return d_path(&f->path, buf, size);
	if (f->ops && f->ops->anon_name) {
		int n = snprintf(buf, size, "%s", f->ops->anon_name(f));

		return n >= 0 && (size_t)n < size ? buf : ERR_PTR(-ENAMETOOLONG);
	}
	return anon_text(f->inode, f->anon_name ? f->anon_name : f->path.dentry->name, buf, size);
}
