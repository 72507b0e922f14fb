/*
 * serverfs: a tree of files that a ring-3 server provides (docs/servers.md; the messages are in user/include/fl_fs.h).
 *
 *	fs/serverfs.c		mounting, the server's coming and going, asking it
 *	fs/serverfs_names.c	directories: lookup, create, unlink, rename, readdir
 *	fs/serverfs_file.c	files: the page cache's reads and writes, truncate, attributes
 */
#ifndef FS_SERVERFS_H
#define FS_SERVERFS_H

#include "fs/internal.h"
#include "kernel/port.h"
#include "kernel/timer.h"
#include "user/include/fl_fs.h"

#define NODE_BUCKETS	64u

struct serverfs;

/* Ties a port to a file system while its server lives: so the file system may end first. */
struct server_link {
	struct port_owner owner;
	struct serverfs	*fs;		/* I  counted */
};

/*
 *   N  lock   W  writes_lock   I  constant   A  atomic
 */
struct serverfs {
	struct refcount		 refs;		/* A  the super block, each link */
	struct super_block	*sb;		/* I  valid as long as an inode or a mount is there */
	struct spinlock		 lock;		/* LOCK_SERVER_NODES */
	struct port		*port;		/* N  counted; NULL: no server now */
	struct server_link	*link;		/* N  of port */
	struct list_head	 nodes[NODE_BUCKETS];	/* N  server_node.node of all inodes */
	struct spinlock		 writes_lock;	/* LOCK_BACKING_STORE: inside the port's */
	struct list_head	 written;	/* W  page_write.node: answered, to be finished by work */
	struct work		 work;
	u32			 root_mode, root_uid, root_gid;	/* I */
};

/* inode->private. */
struct server_node {
	struct list_head node;		/* N */
	u64		 id;		/* I */
	struct inode	*inode;		/* I  not counted: unlinked by its eviction */
};

static inline struct serverfs *serverfs_of(const struct inode *inode) { return inode->sb->private; }
static inline u64 node_id(const struct inode *inode) { return ((struct server_node *)inode->private)->id; }

/* One question and its answer. */
struct fs_question {
	struct fl_fs_req req;
	const char	*name, *name2;	/* req.name_len and name2_len bytes */
	void		*lent;		/* req.size bytes of the kernel to lend, with these rights; NULL: none */
	u32		 rights;
	u32		 room;		/* inline bytes wanted */
	struct fl_fs_ans ans;
	struct port_payload *reply;	/* with room: the caller's to free; NULL: none */
};

/* -- fs/serverfs.c -- */
/*
 * 0: ans, of which only result has been checked: 0 <= result <= req.size. -errno of the server; -EIO: no server, it died, or it answers
 * nonsense; -EINTR (only a fatal signal); -ENOMEM. No spin lock, and of sleeping locks only those of this mount (docs/locking.md).
 */
int serverfs_ask(struct serverfs *fs, struct fs_question *q);
struct port *serverfs_port(struct serverfs *fs);	/* counted; NULL: no server */
bool serverfs_present(struct serverfs *fs);
void serverfs_post(struct serverfs *fs, u32 op, u64 node);	/* nobody waits; lost without a server or memory */
void serverfs_put(struct serverfs *fs);

/* -- fs/serverfs_names.c -- */
struct inode *serverfs_inode(struct super_block *sb, const struct fl_fs_ans *ans);	/* counted, found or made; ERR_PTR(-EIO, -ENOMEM) */
struct inode *serverfs_next_inode(struct serverfs *fs, struct inode *prev);
void serverfs_evict(struct inode *inode);

/* -- fs/serverfs_file.c -- */
extern const struct inode_ops serverfs_file_inode_ops;
extern const struct file_ops serverfs_file_ops;
extern const struct mapping_ops serverfs_mapping_ops;
void serverfs_written(struct work *w);
int serverfs_setattr(struct inode *inode, const struct iattr *a);
void serverfs_file_init(void);

#endif
