/*
 * The small vfs: inodes (objects with data and rights), dentries (names: the tree that path walk follows), mounts, and
 * open files. All built-in file systems live in memory, so a dentry of ramfs stays as long as its name exists; procfs
 * creates dentries on lookup and drops them with the last reference. Those of ring-3 file systems (weak_names) are in the
 * tree while somebody uses them, and the server is asked at each step of a walk all the same.
 */
#ifndef FS_VFS_H
#define FS_VFS_H

#include "kernel/list.h"
#include "kernel/mutex.h"
#include "kernel/rcu.h"
#include "kernel/refcount.h"
#include "kernel/rwsem.h"
#include "kernel/time.h"
#include "kernel/wait.h"
#include "mm/mapping.h"

struct dentry;
struct dir_context;
struct file;
struct file_ops;
struct inode;
struct inode_ops;
struct iattr;
struct iov_iter;
struct mount;
struct path;
struct statfs64;
struct super_block;
struct task;
struct vma;

#define S_IFMT   0170000
#define S_IFSOCK 0140000
#define S_IFLNK  0120000
#define S_IFREG  0100000
#define S_IFBLK  0060000
#define S_IFDIR  0040000
#define S_IFCHR  0020000
#define S_IFIFO  0010000
#define S_ISUID  04000
#define S_ISGID  02000
#define S_ISVTX  01000
#define S_ISDIR(m) (((m) & S_IFMT) == S_IFDIR)
#define S_ISREG(m) (((m) & S_IFMT) == S_IFREG)
#define S_ISLNK(m) (((m) & S_IFMT) == S_IFLNK)
#define S_ISCHR(m) (((m) & S_IFMT) == S_IFCHR)
#define S_ISFIFO(m) (((m) & S_IFMT) == S_IFIFO)
#define S_ISSOCK(m) (((m) & S_IFMT) == S_IFSOCK)

#define O_ACCMODE	03
#define O_RDONLY	0
#define O_WRONLY	01
#define O_RDWR		02
#define O_CREAT		0100
#define O_EXCL		0200
#define O_NOCTTY	0400
#define O_TRUNC		01000
#define O_APPEND	02000
#define O_NONBLOCK	04000
#define O_DSYNC		010000
#define O_DIRECT	040000
#define O_LARGEFILE	0100000
#define O_DIRECTORY	0200000
#define O_NOFOLLOW	0400000
#define O_NOATIME	01000000
#define O_CLOEXEC	02000000
#define O_SYNC		04010000
#define O_PATH		010000000
#define O_TMPFILE	020200000

#define AT_FDCWD		(-100)
#define AT_SYMLINK_NOFOLLOW	0x100
#define AT_REMOVEDIR		0x200
#define AT_EACCESS		0x200
#define AT_SYMLINK_FOLLOW	0x400
#define AT_EMPTY_PATH		0x1000

#define PATH_MAX	4096
#define NAME_MAX	255
#define MAX_SYMLINKS	40

#define DT_UNKNOWN 0
#define DT_FIFO 1
#define DT_CHR 2
#define DT_DIR 4
#define DT_BLK 6
#define DT_REG 8
#define DT_LNK 10
#define DT_SOCK 12

typedef u64 dev_t;
#define MKDEV(ma, mi)	(((u64)(ma) << 8) | ((mi) & 0xff) | ((u64)((mi) & ~0xffu) << 12))	/* user layout for small numbers */
#define MAJOR(d)	(((d) >> 8) & 0xfff)
#define MINOR(d)	(((d) & 0xff) | (((d) >> 12) & 0xfff00))

/* F_ADD_SEALS */
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#define F_SEAL_WRITE 8
#define F_SEAL_FUTURE_WRITE 0x10
#define F_SEAL_EXEC 0x20

/*
 *   L  inode->lock for write (rwsem; directories: LOCK_INODE_DIR, files: LOCK_INODE)   M  inode->meta_lock   I  constant   A  atomic
 */
struct inode {
	u32			 mode;		/* M  type bits constant */
	u32			 uid, gid;	/* M */
	u32			 nlink;		/* M */
	u64			 ino;		/* I */
	u64			 size;		/* L to write, any read by READ_ONCE (i_size) */
	dev_t			 rdev;		/* I  device nodes */
	u64			 atime, mtime, ctime;	/* M  ns since 1970 */
	struct super_block	*sb;		/* I */
	const struct inode_ops	*ops;		/* I */
	const struct file_ops	*fops;		/* I  for files opened on it */
	struct rwsem		 lock;
	struct spinlock		 meta_lock;	/* LOCK_INODE_META */
	struct refcount		 refs;
	struct mapping		 mapping;	/* regular files */
	u32			 seals;		/* L  F_SEAL_*; F_SEAL_SEAL set unless created with MFD_ALLOW_SEALING */
	bool			 linkable;	/* M  nlink 0 but linkat may still give it a name (O_TMPFILE) */
	struct dentry		*alias;		/* M  directories of a file system with weak_names: their one dentry, not counted; NULL: none */
	struct file_locks	*locks;		/* A  set once by fs/locks.c at the first lock; NULL: never locked */
	struct rcu_head		 rcu;
	void			*private;	/* I  owner: symlink target, pipe, proc entry */
};

struct inode_ops {
	/* Directories not wholly in the dentry tree: make the inode of @name, or ERR_PTR(-ENOENT). NULL: the tree is all. */
	struct inode *(*lookup)(struct inode *dir, const char *name, size_t len);
	/*
	 * Names for getdents beyond the tree (procfs PIDs, fds). ctx->pos counts from 0 in a space of its own; it is the
	 * position of the next entry when emit is called, and is advanced after each emit that returned true.
	 */
	int	(*readdir)(struct file *dir, struct dir_context *ctx);
	struct inode *(*create)(struct inode *dir, u32 mode, dev_t rdev);	/* any type but link; ERR_PTR */
	struct inode *(*symlink)(struct inode *dir, const char *target);
	int	(*unlink)(struct inode *dir, struct dentry *d);		/* optional veto, extra work (also rmdir) */
	/* Veto, or does it where the names really are: last, after all checks. @target NULL: the name is new. RENAME_* @flags. */
	int	(*rename)(struct dentry *old, struct dentry *newdir, struct dentry *target, const char *name, size_t len, unsigned int flags);
	/*
	 * Names that somebody else keeps (fs/serverfs_names.c): in place of lookup, the whole of it with the dentry. inode lock of @dir
	 * held, read or write, as it may sleep for long. create_name in place of create: a file or directory, lock held for write; it
	 * applies set-group-id itself. Both: counted, or ERR_PTR.
	 */
	struct dentry *(*lookup_name)(struct dentry *dir, const char *name, size_t len);
	struct dentry *(*create_name)(struct dentry *dir, const char *name, size_t len, u32 mode);
	int	(*setattr)(struct inode *inode, const struct iattr *a);	/* told before it is done; an error ends it. NULL: always fine */
	/* kmalloc'd target string; ERR_PTR. proc's exe/fd/cwd links use follow instead. */
	char	*(*readlink)(struct inode *inode);
	/* Magic links: jump straight to a dentry. */
	int	(*follow)(struct inode *inode, struct path *out);
	int	(*truncate)(struct inode *inode, u64 size);		/* inode lock held; size checked. NULL: EINVAL */
	int	(*permission)(struct inode *inode, int mask);		/* NULL: generic mode bits */
	void	(*evict)(struct inode *inode);				/* last reference: free private */
	int	(*fallocate)(struct inode *inode, int mode, loff_t off, loff_t len);	/* inode lock held; arguments checked */
	u64	(*blocks)(struct inode *inode);				/* st_blocks; NULL: pages in the mapping */
};

/* New attributes: those that @valid names. */
#define ATTR_MODE	1u
#define ATTR_OWNER	2u		/* uid and gid */
#define ATTR_MTIME	4u
struct iattr { u32 valid, mode, uid, gid; u64 mtime; };

struct path { struct mount *mnt; struct dentry *dentry; };	/* both counted */

struct dir_context {
	/* Adds an entry; false: buffer full, stop. */
	bool	(*emit)(struct dir_context *ctx, const char *name, size_t len, u64 ino, unsigned int type);
	loff_t	pos;
	loff_t	base;		/* d_off that user space sees = base + pos */
};

#define FMODE_READ	1u
#define FMODE_WRITE	2u
#define FMODE_EXEC	4u
#define FMODE_PATH	8u		/* O_PATH: only a name */
#define FMODE_LSEEK	0x10u
#define FMODE_STREAM	0x20u		/* no offset: pipe, socket, tty */
#define FMODE_WRITER	0x40u		/* counted as a writer of its mount */
#define FMODE_OPENED	0x80u		/* ops->open succeeded: release is due */

/*
 * An open file. Counted by descriptor tables, mappings and running system calls.
 *   P  pos_lock   A  atomic
 */
struct file {
	struct refcount		 refs;
	u32			 mode;		/* I  FMODE_* */
	u32			 flags;		/* A  O_APPEND, O_NONBLOCK ... changed by fcntl */
	const struct file_ops	*ops;		/* I */
	struct inode		*inode;		/* I  counted (anonymous files have one too) */
	struct path		 path;		/* I  counted; anonymous files lie on an internal mount (file_is_anonymous) */
	struct mutex		 pos_lock;	/* LOCK_FILE_POS */
	loff_t			 pos;		/* P */
	void			*private;	/* owner */
	struct list_head	 epoll_links;	/* LOCK_EPOLL  epoll items watching this file */
	const char		*anon_name;	/* I  of an anonymous file: "[eventfd]"; lives for ever */
	int			 owner_pid;	/* A  F_SETOWN: process, or -group */
	int			 owner_sig;	/* A  F_SETSIG */
	struct rcu_head		 rcu;
};

/* Poll bits, as in user space. */
#define POLLIN 0x001u
#define POLLPRI 0x002u
#define POLLOUT 0x004u
#define POLLERR 0x008u
#define POLLHUP 0x010u
#define POLLNVAL 0x020u
#define POLLRDNORM 0x040u
#define POLLRDBAND 0x080u
#define POLLWRNORM 0x100u
#define POLLWRBAND 0x200u
#define POLLRDHUP 0x2000u

/* poll: ops->poll calls poll_wait on each queue that will be woken, then returns the bits that hold now. pt NULL: only the bits. */
struct poll_table { void (*queue)(struct poll_table *pt, struct file *f, struct wait_queue *wq); };
static inline void poll_wait(struct file *f, struct wait_queue *wq, struct poll_table *pt)
{
	if (pt && pt->queue)
		pt->queue(pt, f, wq);
}

struct file_ops {
	/* *pos is the offset to use and to advance; streams ignore it. Bytes or -errno. May sleep. */
	ssize_t	(*read)(struct file *f, struct iov_iter *to, loff_t *pos);
	ssize_t	(*write)(struct file *f, struct iov_iter *from, loff_t *pos);
	loff_t	(*llseek)(struct file *f, loff_t off, int whence);	/* NULL: generic by size, or ESPIPE for streams */
	long	(*ioctl)(struct file *f, unsigned int cmd, unsigned long arg);	/* NULL: ENOTTY */
	u32	(*poll)(struct file *f, struct poll_table *pt);		/* NULL: always IN|OUT */
	int	(*mmap)(struct file *f, struct vma *vma);		/* NULL: ENODEV. Sets vma->ops, mapping */
	int	(*open)(struct inode *inode, struct file *f);
	void	(*flush)(struct file *f);				/* each close of a descriptor */
	void	(*release)(struct file *f);				/* last reference */
	int	(*fsync)(struct file *f, bool datasync);
	int	(*readdir)(struct file *f, struct dir_context *ctx);	/* directories */
	size_t	(*fdinfo)(struct file *f, char *buf, size_t size);	/* more lines for /proc/PID/fdinfo */
	/* Where mmap without FIXED should place it (alignment): NULL: page. */
	uintptr_t (*mmap_align)(struct file *f);
	const char *(*anon_name)(struct file *f);			/* "anon_inode:[eventfd]" */
	bool	no_direct_io;						/* O_DIRECT: EINVAL */
	bool	no_splice;						/* sendfile from it: EINVAL */
};

struct super_block {
	const char		*type;		/* "tmpfs" */
	u64			 magic;
	u32			 block_size;
	dev_t			 dev;		/* st_dev */
	struct dentry		*root;
	u64			 max_blocks, max_inodes;	/* 0: no limit */
	s64			 used_blocks, used_inodes;	/* A */
	u64			 next_ino;	/* A */
	void			*private;
	int			(*statfs)(struct super_block *sb, struct statfs64 *out);	/* NULL: generic */
	size_t			(*show_options)(struct super_block *sb, char *buf, size_t size);
	void			(*kill)(struct super_block *sb);
	struct refcount		 refs;
	u32			 flags;		/* MS_* of the whole file system */
	int			(*remount)(struct super_block *sb, const char *options);	/* new limits; NULL: options are refused */
	int			(*sync)(struct super_block *sb);	/* syncfs and umount; NULL: writeback_sync(). Killable */
	void			(*unmounted)(struct super_block *sb);	/* the last mount is gone: what is dirty now is lost. Does not wait for anybody */
	u32			 nr_mounts;	/* A */
	struct mutex		 rename_lock;	/* LOCK_RENAME: one rename between directories at a time */
	bool			 weak_names;	/* I  a dentry is in the tree only while it is used; ops->lookup_name */
	/*
	 * I  The store is a process, which may take for ever. So: folio locks are waited for killably, dirty pages are counted against a
	 * limit of their own, a file with dirty pages is not evicted, and sync does not wait for it.
	 */
	bool			 served;
	bool			 store_away;	/* A  served: nobody is there to write to, so the flusher passes by */
	s64			 unwritten;	/* A  served: pages dirty or under write-back */
};

struct statfs64 {		/* Linux x86-64 struct statfs */
	s64 f_type, f_bsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree;
	s32 f_fsid[2];
	s64 f_namelen, f_frsize, f_flags, f_spare[4];
};

struct fs_type {
	const char	*name;
	bool		 nodev;
	/* A super block with its root, from mount options; ERR_PTR. */
	struct super_block *(*mount)(const char *source, const char *options, u32 flags);
	struct list_head node;
};
void register_filesystem(struct fs_type *t);

/*
 * A name in a directory.   D  parent's children_lock (LOCK_DCACHE), RCU to read   I constant
 */
struct dentry {
	struct refcount		 refs;
	struct dentry		*parent;	/* D (changes in rename, also under LOCK_RENAME); root: itself */
	struct inode		*inode;		/* counted; NULL: negative (never stays in the tree) */
	struct list_head	 sibling;	/* D  linked iff it is in the tree, which then holds one reference (weak_names: none) */
	struct dentry		*hash_next;	/* D  chain of the parent's buckets */
	u64			 cookie;	/* D  position of this name in its directory, for getdents; grows along the list */
	struct list_head	 children;	/* own lock; also stable under inode->lock of this directory in any mode */
	struct dentry		**buckets;	/* own lock  names by hash; NULL while there are few */
	u32			 nr_buckets;	/* own lock  power of two, or 0 */
	u32			 nr_children;	/* own lock */
	u64			 next_cookie;	/* own lock */
	struct spinlock		 lock;		/* LOCK_DCACHE: children */
	struct super_block	*sb;
	u32			 hash;
	bool			 unhashed;	/* D  removed from its parent: "(deleted)" */
	bool			 mountpoint;	/* something is mounted here */
	struct rcu_head		 rcu;
	char			*name;		/* D */
	u32			 name_len;
};

/* -- fs/inode.c, dcache.c -- */
struct inode *inode_alloc(struct super_block *sb, u32 mode);	/* refs 1, nlink 1, owner = current; NULL: no memory or inode limit */
void inode_get(struct inode *i);
/* Device number, inode numbering, refs 1, no root yet; NULL: no memory. The mount takes over the reference. */
struct super_block *super_alloc(const char *type, u64 magic);
void super_put(struct super_block *sb);			/* last: frees the tree. May sleep */
/* Makes the root directory of @sb; 0 or -ENOMEM (then super_put). */
int super_make_root(struct super_block *sb, struct inode *root);
void inode_put(struct inode *i);
void dentry_get(struct dentry *d);
void dentry_put(struct dentry *d);
/* Adds a permanent name (boot-time trees: devfs, procfs, sysfs). ERR_PTR. */
struct dentry *dentry_add(struct dentry *parent, const char *name, struct inode *inode);
void dentry_remove(struct dentry *d);		/* takes such a name out of the tree again (pts/N) */
void path_get(struct path *p);
void path_put(struct path *p);

/* -- fs/namei.c: path walk. Results counted. -- */
#define LOOKUP_FOLLOW		1u	/* follow a final symlink */
#define LOOKUP_DIRECTORY	2u
#define LOOKUP_EMPTY		4u	/* "" means dfd itself (AT_EMPTY_PATH) */
int path_lookup_at(int dfd, const char *name, unsigned int flags, struct path *out);	/* kernel string; 0 or -errno */
int user_path_at(int dfd, const char __user *name, unsigned int flags, struct path *out);
struct file *file_open_at(int dfd, const char *name, int flags, u32 mode);		/* kernel string; ERR_PTR */
static inline struct file *file_open(const char *name, int flags, u32 mode) { return file_open_at(AT_FDCWD, name, flags, mode); }
/* Absolute path of @p as current sees it, into the end of @buf; returns the start, or ERR_PTR(-ENAMETOOLONG). Appends " (deleted)". */
char *d_path(const struct path *p, char *buf, size_t size);
char *file_path(struct file *f, char *buf, size_t size);				/* also anonymous files */
int inode_permission(struct inode *i, int mask);	/* MAY_*; of current's creds */
#define MAY_EXEC 1
#define MAY_WRITE 2
#define MAY_READ 4
int vfs_truncate(struct inode *inode, u64 size);	/* takes inode lock */
/* A file that never had a name: pipe, eventfd, socket, epoll... (memfds do have one). */
bool file_is_anonymous(const struct file *f);
bool file_is_zero_device(const struct file *f);		/* /dev/zero: mmap(MAP_SHARED) of it is shared anonymous memory */
bool path_is_noexec(const struct path *p);		/* MS_NOEXEC of the mount: no exec, no PROT_EXEC mapping */
bool path_is_nosuid(const struct path *p);
struct super_block *path_sb(const struct path *p);
/* Kernel forms of the calls that initramfs and boot code use. Kernel strings; 0 or -errno. */
int vfs_mkdir(const char *name, u32 mode);
int vfs_mknod(const char *name, u32 mode, dev_t rdev);
int vfs_mknod_path(const char *name, u32 mode, struct path *out);	/* and where it is, counted */
int vfs_symlink(const char *target, const char *name);
int vfs_link(const char *old, const char *name);
int vfs_unlink(const char *name);
int vfs_mount(const char *source, const char *dir, const char *type, u32 flags, const char *options);
/* Text of /proc/mounts as current sees it. Bytes; == size means "try again with more". */
size_t proc_mounts_format(char *buf, size_t size);
size_t proc_mountinfo_format(char *buf, size_t size);
size_t proc_filesystems_format(char *buf, size_t size);

/* -- fs/file.c -- */
struct file *file_alloc(void);							/* NULL: no memory (or file-max) */
/* A file without a name (pipe, eventfd, memfd...): ERR_PTR. inode counted in. */
struct file *anon_file_create(const char *name, const struct file_ops *ops, void *priv, int flags);
/*
 * The same with an inode of its own (S_IFIFO|0600: shown as "pipe:[ino]"; S_IFSOCK|0777: "socket:[ino]"), and a second file on
 * that inode (the other end). The creator may set f->inode->ops, fops and private: fops serves a re-open by /proc/PID/fd/N.
 * priv is not released on error. FMODE_* follow flags & O_ACCMODE; seekable only with ops->llseek.
 */
struct file *anon_file_create_mode(const char *name, u32 mode, const struct file_ops *ops, void *priv, int flags);
struct file *anon_file_share(struct file *of, const struct file_ops *ops, void *priv, int flags);
/* A new descriptor of current for such a file; @flags with O_CLOEXEC. The descriptor or -errno; priv is not released on error. */
int anon_fd_create(const char *name, const struct file_ops *ops, void *priv, int flags);
/* An unlinked tmpfs file: memfd, shared anonymous memory ("dev/zero"), SysV shm. @name as in "/NAME (deleted)". O_RDWR. ERR_PTR. */
struct file *shmem_file_create(const char *name, u64 size);
/* Named pipes: fs/pipe.c tells what opening an S_IFIFO inode does. */
void register_fifo_ops(const struct file_ops *ops);
static inline void file_get(struct file *f) { refcount_inc(&f->refs); }
void file_put(struct file *f);
u32 files_open_count(void);							/* of the whole system, for /proc/sys/fs/file-nr */
ssize_t kernel_read(struct file *f, void *buf, size_t n, loff_t pos);
ssize_t kernel_write(struct file *f, const void *buf, size_t n, loff_t pos);
loff_t generic_llseek(struct file *f, loff_t off, int whence);
ssize_t vfs_read(struct file *f, struct iov_iter *to, loff_t *pos);
ssize_t vfs_write(struct file *f, struct iov_iter *from, loff_t *pos);

/* -- fs/fdtable.c: struct files. Lookups are lock-free (RCU). -- */
struct files;
struct files *files_alloc(void);
struct files *files_copy(struct files *old);		/* fork; NULL: no memory */
void files_get(struct files *f);
void files_put(struct files *f);			/* last: closes all */
int files_unshare(struct task *t);			/* exec: own copy if shared. 0 or -ENOMEM */
void files_close_on_exec(struct files *f);
/*
 * The lean form for system calls: no reference is taken while this task is the only user of its table, because then nobody
 * else can close the descriptor before we return. file NULL: EBADF (also O_PATH).
 */
struct fd_ref { struct file *file; bool counted; };
struct fd_ref fdget(int fd);
struct fd_ref fdget_raw(int fd);			/* O_PATH too */
static inline void fdput(struct fd_ref r) { if (r.counted) file_put(r.file); }
struct file *fd_get(int fd);				/* counted, any mode but O_PATH; NULL: EBADF */
struct file *fd_get_raw(int fd);			/* O_PATH too */
struct file *files_fd_get(struct files *files, int fd);	/* another task's (for /proc) */
int fd_next_open(struct files *files, int fd);		/* smallest open fd >= @fd, or -1 */
int fd_reserve(unsigned int flags);			/* lowest free fd (O_CLOEXEC honoured), or -EMFILE/-ENOMEM */
int fd_reserve_from(int minfd, unsigned int flags);
void fd_install(int fd, struct file *f);		/* takes over the reference */
void fd_release(int fd);				/* gives a reserved one back */
int fd_close(int fd);
bool fd_is_cloexec(struct files *files, int fd);
int fd_set_cloexec(int fd, bool on);			/* 0 or -EBADF */

/* -- fs/fs_context.c: cwd, root, umask; shared by CLONE_FS -- */
struct fs_context {
	struct refcount refs;
	struct spinlock lock;		/* LOCK_FDTABLE: cwd, root */
	struct path	cwd, root;
	u32		umask;
};
struct fs_context *fs_context_copy(struct fs_context *old);	/* old NULL: the boot context, / everywhere. NULL: no memory */
void fs_context_get(struct fs_context *f);
void fs_context_put(struct fs_context *f);
/* Those of another task, counted, while it still has them; NULL after its exit (kernel/exit.c). */
struct files *task_files_get(struct task *t);
struct fs_context *task_fs_get(struct task *t);
static inline struct files *files_get_task(struct task *t) { return task_files_get(t); }
static inline struct fs_context *fs_context_get_task(struct task *t) { return task_fs_get(t); }
int fs_context_unshare(struct task *t);			/* exec, unshare: own copy if shared. 0 or -ENOMEM */

/* -- pseudo files for procfs, sysfs, devfs (fs/pseudo.c) -- */
/* Text made by one function at open or first read; writable if write != NULL. */
struct text_file_ops {
	/* Fills @buf, returns bytes (if == size the caller tries again with more). May sleep. @arg from the creator. */
	ssize_t	(*show)(void *arg, char *buf, size_t size);
	ssize_t	(*store)(void *arg, const char *buf, size_t n);		/* NUL-terminated copy of one write; n or -errno */
};
/* Creates missing parents. Path relative to @root, e.g. "sys/vm/max_map_count". ERR_PTR. ops and arg live for ever. */
struct dentry *pseudo_text_file(struct dentry *root, const char *path, u32 mode, const struct text_file_ops *ops, void *arg);
struct dentry *pseudo_dir(struct dentry *root, const char *path);
struct dentry *pseudo_symlink(struct dentry *root, const char *path, const char *target);
extern struct dentry *proc_root, *sysfs_root, *dev_root;	/* set by their init functions; usable after vfs_init */
/* Device nodes: registers the driver of a number and makes /dev/NAME. 0 or -errno. */
int dev_register(const char *name, u32 mode, dev_t rdev, const struct file_ops *fops, void *priv);

/* Directory and inode helpers for built-in file systems. */
extern const struct file_ops dir_file_ops;	/* tree entries, then inode->ops->readdir */
struct inode *pseudo_inode(struct super_block *sb, u32 mode);	/* owned by root, times now; NULL */
void vfs_init(void);			/* root ramfs, devfs, proc, sys; fs_context and stdin.. of pid 1 come later */
int initramfs_unpack(const void *data, size_t len);	/* concatenated cpio newc archives; 0 or -EINVAL after a message */
void devtmpfs_mount_early(void);	/* devtmpfs on /dev, if the initramfs has that directory: pid 1 needs /dev/console */

/* mm/mapping.h: is the store of this file a process? See struct super_block. */
static inline bool mapping_is_served(const struct mapping *m)
{
	return m->host->sb->served;
}

#endif
