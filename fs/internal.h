/* What the files of the vfs share with each other and with nobody else. */
#ifndef FS_INTERNAL_H
#define FS_INTERNAL_H

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/seqcount.h"
#include "kernel/task.h"

#define MS_RDONLY	1u
#define MS_NOSUID	2u
#define MS_NODEV	4u
#define MS_NOEXEC	8u
#define MS_SYNCHRONOUS	16u
#define MS_REMOUNT	32u
#define MS_MANDLOCK	64u
#define MS_DIRSYNC	128u
#define MS_NOSYMFOLLOW	256u
#define MS_NOATIME	1024u
#define MS_NODIRATIME	2048u
#define MS_BIND		4096u
#define MS_MOVE		8192u
#define MS_REC		16384u
#define MS_SILENT	32768u
#define MS_UNBINDABLE	(1u << 17)
#define MS_PRIVATE	(1u << 18)
#define MS_SLAVE	(1u << 19)
#define MS_SHARED	(1u << 20)
#define MS_RELATIME	(1u << 21)
#define MS_STRICTATIME	(1u << 24)
#define MS_LAZYTIME	(1u << 25)
/* Those that belong to one mount; the rest of the user's flags belong to the file system or to the call. */
#define MOUNT_FLAGS	(MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME | MS_RELATIME | MS_NOSYMFOLLOW)

#define MAX_RW_COUNT	0x7ffff000ul

/* -- fs/dcache.c -- */

/*
 * Names and mounts move under namespace_lock with this count odd. Readers that walk upwards (d_path, "..", is this a
 * descendant?) hold the RCU read lock and start again when the count has moved.
 */
extern struct spinlock namespace_lock;	/* LOCK_NAMESPACE */
extern struct seqcount namespace_seq;
void namespace_write_begin(void);	/* takes the lock */
void namespace_write_end(void);

/* A new dentry, refs 1, not in the tree; counts @parent (NULL: a root), takes over @inode when it succeeds. NULL: no memory. */
struct dentry *dentry_alloc(struct super_block *sb, struct dentry *parent, const char *name, size_t len, struct inode *inode);
/* In the tree only. Counted, or NULL. Never sleeps. */
struct dentry *dcache_lookup(struct dentry *dir, const char *name, size_t len);
void dcache_add(struct dentry *d);		/* the tree takes a reference; inode lock of the parent held for write */
void dcache_remove(struct dentry *d);		/* inode lock of the parent held for write; drops the tree's reference. May sleep */
bool dentry_in_tree(const struct dentry *d);
/* Move @old over the place of @target (removed if not NULL) in @dir as @name (from dentry_name_alloc, taken over). Cannot fail. */
char *dentry_name_alloc(const char *name, size_t len);
void dentry_name_free(char *name);		/* one that was never visible */
void dcache_move(struct dentry *old, struct dentry *dir, char *name, size_t len, struct dentry *target);
void dcache_exchange(struct dentry *a, struct dentry *b, char *name_for_a, char *name_for_b);
bool dentry_is_below(struct dentry *d, struct dentry *ancestor);	/* or is it itself */
struct dentry *dentry_parent_get(struct dentry *d);
bool dentry_has_children(struct dentry *d);
/*
 * weak_names. Puts @d (from dentry_alloc, its reference taken over) into the tree, or finds that the name is there already with the same inode:
 * returns the one that counts, counted. A name of another inode makes room. -EAGAIN: a directory that has a dentry elsewhere.
 * inode lock of the parent held in any mode.
 */
struct dentry *dcache_add_weak(struct dentry *d);
void dcache_drop(struct dentry *d);		/* the name is gone; inode lock of the parent held in any mode. Fine if it has left already */
struct dentry *dentry_alias_get(struct inode *dir);	/* counted, or NULL */
/*
 * weak_names. @d, a directory in use, is now @name in @dir, whatever it was before; a dentry that has the name makes room. inode locks of @dir in
 * any mode and of the old parent for write, LOCK_RENAME; @dir is not below @d. @name is taken over.
 */
void dcache_splice(struct dentry *d, struct dentry *dir, char *name, size_t len);
void dcache_destroy_tree(struct dentry *root);	/* no users left */
int dcache_readdir(struct file *f, struct dir_context *ctx);
bool dir_emit_dots(struct file *f, struct dir_context *ctx);	/* positions 0 and 1; false: no room */

static inline bool path_equal(const struct path *a, const struct path *b) { return a->mnt == b->mnt && a->dentry == b->dentry; }

/* -- fs/inode.c -- */
void inode_touch(struct inode *i, bool modify);		/* ctime, and mtime if @modify, now */
void file_accessed(struct file *f);			/* atime by the relatime rule */
void inode_set_nlink(struct inode *i, u32 nlink);
u64 inode_blocks(struct inode *i);			/* of 512 bytes */

/* -- fs/mount.c -- */

/*
 *   I  constant   N  namespace_lock to change, RCU and namespace_seq to read   A  atomic
 */
struct mount {
	struct refcount		 refs;		/* paths, children, and one while attached */
	struct super_block	*sb;		/* I  counted */
	struct dentry		*root;		/* I  counted */
	struct mount		*parent;	/* N  counted; NULL: the root mount, internal, or detached */
	struct dentry		*mountpoint;	/* N  in parent; counted */
	struct mount		*children;	/* N  list by next_child */
	struct mount		*next_child;	/* N */
	struct list_head	 list;		/* N  all_mounts, in mount order; empty when detached */
	u32			 flags;		/* A  MOUNT_FLAGS */
	s32			 writers;	/* A  open for writing, or changing names */
	u32			 id;		/* I */
	char			*source;	/* I */
	struct rcu_head		 rcu;
};

void mount_get(struct mount *m);
void mount_put(struct mount *m);		/* may sleep */
struct mount *mount_on(struct mount *parent, struct dentry *d);		/* topmost is found by repeating; counted or NULL */
bool mount_parent_get(struct mount *m, struct path *out);	/* where it is mounted; false: nowhere */
int mount_want_write(struct mount *m);		/* 0 or -EROFS; pairs with mount_drop_write */
void mount_drop_write(struct mount *m);
bool mount_readonly(const struct mount *m);
struct mount *mount_internal(struct super_block *sb);	/* takes over sb; NULL: no memory */
extern struct mount *root_mount;
void mount_init(void);				/* the root tmpfs */

/* -- fs/namei.c -- */

/* Whose rights a path walk uses: fsuid normally, the real ids for access(2). */
struct access_ids { u32 uid, gid; u64 caps; };
struct access_ids current_ids(void);
struct access_ids current_real_ids(void);
static inline bool ids_capable(const struct access_ids *ids, int cap) { return ids->caps & BIT(cap); }
int inode_permission_as(struct inode *inode, int mask, const struct access_ids *ids);
bool inode_owner_or_capable(struct inode *inode);	/* fsuid or CAP_FOWNER */
bool in_group(u32 gid);					/* fsgid or a supplementary group of current */

/* A user path name in kernel memory: ERR_PTR(-EFAULT, -ENAMETOOLONG, -ENOENT for "" unless @empty_ok, -ENOMEM). putname frees. */
char *getname(const char __user *name, bool empty_ok);
void putname(char *name);

enum last_type { LAST_NORM, LAST_ROOT, LAST_DOT, LAST_DOTDOT };

/* LOOKUP_* of vfs.h, and: */
#define LOOKUP_PARENT		0x100u	/* stop before the last component */
#define LOOKUP_NO_SYMLINKS	0x200u	/* openat2 RESOLVE_* */
#define LOOKUP_NO_MAGICLINKS	0x400u
#define LOOKUP_NO_XDEV		0x800u
#define LOOKUP_BENEATH		0x1000u
#define LOOKUP_IN_ROOT		0x2000u
#define LOOKUP_SCOPED		(LOOKUP_BENEATH | LOOKUP_IN_ROOT)

struct walk {
	struct path		 path;		/* how far we are; counted */
	struct path		 root;		/* counted */
	struct access_ids	 ids;
	unsigned int		 flags;		/* LOOKUP_* */
	enum last_type		 last_type;	/* LOOKUP_PARENT: the component not yet walked */
	const char		*last;		/* not NUL-terminated */
	size_t			 last_len;
	bool			 trailing;	/* the name ended in '/': only a directory will do */
	unsigned int		 nr_texts;	/* symlinks followed, <= MAX_SYMLINKS */
	unsigned int		 depth;
	char			*texts[MAX_SYMLINKS];	/* their targets; kept because last may point into one */
	const char		*rest[MAX_SYMLINKS];	/* what remains of the names that led to a link */
};

/* Every walk_begin that returned 0 is ended by walk_end. */
int walk_begin(struct walk *w, int dfd, const char *name, unsigned int flags);
int walk_name(struct walk *w, const char *name);
void walk_end(struct walk *w);
/* After LOOKUP_PARENT: one component below w->path, mounts crossed. Counted, or -ENOENT... Does not follow links. */
int walk_child(struct walk *w, const char *name, size_t len, struct path *out);
int walk_child_locked(struct walk *w, const char *name, size_t len, struct path *out);	/* inode lock of w->path held */
bool dir_takes_names(const struct inode *dir);		/* can files be made in it at all? */
/* The last component was the symlink @link: goes on with its target from w->path; parent mode as before. Puts @link. */
int walk_follow(struct walk *w, struct path *link);

int path_lookup_as(int dfd, const char *name, unsigned int flags, const struct access_ids *ids, struct path *out);
int may_create(struct dentry *dir);
/* The inode lock of @dir held. Makes a name for a new inode of any type but link and directory symlink. Counted dentry or ERR_PTR. */
struct dentry *vfs_create_locked(struct path *dir, const char *name, size_t len, u32 mode, dev_t rdev);
struct inode *vfs_new_inode(struct inode *dir, u32 mode, dev_t rdev);	/* setgid and umask applied by the caller */
u32 apply_umask(u32 mode);

/* -- fs/fs_context.c -- */
struct fs_context *current_fs(void);			/* never NULL */
void current_root_get(struct path *out);
void current_cwd_get(struct path *out);
void fs_context_init(void);

/* -- fs/open.c -- */
struct open_how { u64 flags, mode, resolve; };	/* user ABI of openat2 */
struct file *do_open_how(int dfd, const char *name, const struct open_how *how);
/* Opens the inode of @path (counted on by the file). ERR_PTR. */
struct file *open_path(const struct path *path, int flags);
int truncate_checked(struct inode *inode, u64 size);

/* -- fs/devfs.c -- */
/* The driver of a device number; NULL: none. */
const struct file_ops *device_find(u32 mode, dev_t rdev, void **priv);
void devfs_init(void);
extern const struct file_ops kmsg_fops;			/* fs/kmsg.c */

/* -- fs/ramfs.c -- */
struct super_block *ramfs_create(const char *type, const char *options, bool limits);
struct inode *ramfs_inode(struct super_block *sb, u32 mode, dev_t rdev);	/* NULL: no memory or limit reached */
void ramfs_init(void);
/* For other file systems whose data is in the page cache and whose names are the dentry tree (fs/delayfs.c). */
ssize_t ramfs_read(struct file *f, struct iov_iter *to, loff_t *pos);
ssize_t ramfs_write(struct file *f, struct iov_iter *from, loff_t *pos);	/* limits, O_APPEND, set-id bits, size, times */
struct inode *ramfs_symlink(struct inode *dir, const char *target);
int mount_parse_size(const char *s, u64 whole, u64 *out);
/* Calls @one for each "name=value" of a mount's option string until one fails. 0, -ENOMEM, or what @one said. */
int mount_parse_options(const char *options, int (*one)(void *arg, const char *name, const char *value), void *arg);

/* -- fs/delayfs.c -- */
void delayfs_init(void);

/* -- fs/serverfs.c -- */
void serverfs_init(void);

/* -- fs/hugetlbfs.c -- */
void hugetlbfs_init(void);

/* -- fs/memfd.c -- */
void memfd_init(void);
struct file *unlinked_file(struct mount *mnt, struct inode *inode, const char *name, int flags);
long memfd_add_seals(struct file *f, unsigned int seals);	/* F_ADD_SEALS: 0 or -errno */
long memfd_get_seals(struct file *f);				/* F_GET_SEALS: F_SEAL_* or -errno */

/* -- fs/file.c, fs/pseudo.c -- */
void file_init(void);
void pseudo_init(void);
/*
 * For files whose text one function makes: file->private is theirs. A read at offset 0 makes the text, later reads go on in
 * it. @show as in struct text_file_ops; NULL: -EINVAL. May sleep.
 */
typedef ssize_t (*text_show_t)(void *arg, char *buf, size_t size);
ssize_t text_file_read(struct file *f, text_show_t show, void *arg, struct iov_iter *to, loff_t *pos);
void text_file_release(struct file *f);
extern const struct file_ops *fifo_ops;
extern struct mount *anon_mount;

/* -- fs/locks.c -- */
void locks_remove_posix(struct file *f, struct files *owner);	/* a descriptor was closed */
void locks_remove_file(struct file *f);				/* last reference */
void locks_free(struct inode *inode);				/* eviction */
long fcntl_getlk(struct file *f, void __user *arg, bool ofd);
long fcntl_setlk(int fd, struct file *f, void __user *arg, bool wait, bool ofd);

/* -- fs/stat.c -- */
int vfs_statfs(struct super_block *sb, u32 mount_flags, struct statfs64 *out);

#endif
