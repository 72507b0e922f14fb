/*
 * serverfs: mounting a tree that a server provides, the server's coming and going, and how it is asked.
 *
 *	mount -t server -o fd=N[,mode=0755,uid=0,gid=0] NAME DIRECTORY		fd: the receiving end of a port
 *	mount -o remount,fd=N DIRECTORY						a new server, after the old one has died
 *
 * The mount outlives its servers. While there is none, whatever would have to be asked is EIO at once; pages that are in the
 * cache stay, dirty ones wait for the next server. Calls that are under way when a server dies end with EIO: nobody knows whether
 * they have been carried out, so the kernel does not ask again. Only pages are written again: that does no harm twice.
 *
 * The rule that is easy to break: a server may be anything. Every word that it says is checked here or where it is used, and nobody
 * waits for it with a lock that somebody who does not use this mount could want.
 */
#include "fs/serverfs.h"

#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "mm/slab.h"

#define SERVERFS_MAGIC	0x73727672u	/* "srvr" */
#define MAX_ERRNO_TOLD	511		/* larger ones mean something to the kernel itself */
#define END_OF_FILE	((loff_t)(INT64_MAX & PAGE_MASK))

/* -- life -- */

void serverfs_put(struct serverfs *fs)
{
	if (refcount_dec_and_test(&fs->refs))
		kfree(fs);
}

static struct serverfs *fs_alloc(void)
{
	struct serverfs *fs = kzalloc(sizeof(*fs), GFP_KERNEL);

	if (!fs)
		return NULL;
	refcount_set(&fs->refs, 1);
	spin_lock_init(&fs->lock, LOCK_SERVER_NODES);
	spin_lock_init(&fs->writes_lock, LOCK_BACKING_STORE);
	for (u32 i = 0; i < NODE_BUCKETS; i++)
		INIT_LIST_HEAD(&fs->nodes[i]);
	INIT_LIST_HEAD(&fs->written);
	work_init(&fs->work, serverfs_written);
	fs->root_mode = 0755;
	return fs;
}

/* -- asking -- */

struct port *serverfs_port(struct serverfs *fs)
{
	spin_lock(&fs->lock);
	struct port *p = fs->port;

	if (p)
		port_get(p);
	spin_unlock(&fs->lock);
	return p;
}

bool serverfs_present(struct serverfs *fs)
{
	return READ_ONCE(fs->port) != NULL;
}

/* 0 or -ENOMEM; @call has its payload and its loan. */
static int fill_call(struct port_call *call, struct serverfs *fs, const struct fs_question *q)
{
	u32 n1 = q->req.name_len, n = n1 + q->req.name2_len;

	port_call_init(call);
	call->of = fs;
	call->room = q->room;
	memcpy(call->word, &q->req, sizeof(call->word));
	if (n) {
		call->payload = port_payload_alloc(n);
		if (!call->payload)
			return -ENOMEM;
		memcpy(call->payload->data, q->name, n1);
		memcpy(call->payload->data + n1, q->name2, n - n1);
	}
	if (q->lent) {
		struct port_lent *l = port_lent_kernel(q->lent, q->req.size, q->rights);

		if (IS_ERR(l)) {
			port_payload_free(call->payload);
			return -ENOMEM;
		}
		call->lent = l;
	}
	return 0;
}

/*
 * Errors of the server are the caller's, but for those that would mean something else to the kernel: out of memory starts a hunt for
 * a process to kill, an interrupted page-in is tried again.
 */
static int check_result(const struct fs_question *q)
{
	s64 r = q->ans.result;

	if (r >= 0)
		return r > (s64)q->req.size ? -EIO : 0;
	if (r < -MAX_ERRNO_TOLD || r == -ENOMEM || r == -EINTR)
		return -EIO;
	return (int)r;
}

int serverfs_ask(struct serverfs *fs, struct fs_question *q)
{
	struct port *p = serverfs_port(fs);
	struct port_call call;

	if (!p)
		return -EIO;
	int err = fill_call(&call, fs, q);

	if (!err) {
		err = port_call(p, &call, -1, TASK_KILLABLE);
		port_lent_put(call.lent);
	}
	port_put(p);
	if (err)
		return err == -EPIPE ? -EIO : err == -ERESTARTSYS ? -EINTR : err;
	memcpy(&q->ans, call.word, sizeof(q->ans));
	err = check_result(q);
	if (!err && q->room)
		q->reply = call.payload;
	else
		port_payload_free(call.payload);
	return err;
}

static int post(struct port *p, const struct fl_fs_req *req)
{
	struct port_call *call = kmalloc(sizeof(*call), GFP_KERNEL);

	if (!call)
		return -ENOMEM;
	port_call_init(call);
	_Static_assert(sizeof(call->word) == sizeof(*req), "words");
	memcpy(call->word, req, sizeof(call->word));
	return port_post(p, call);
}

void serverfs_post(struct serverfs *fs, u32 op, u64 node)
{
	struct fl_fs_req req = { .op = op, .node = node };
	struct port *p = serverfs_port(fs);

	if (p) {
		(void)post(p, &req);
		port_put(p);
	}
}

/* -- coming and going -- */

static void server_died(struct port_owner *owner)
{
	struct server_link *link = container_of(owner, struct server_link, owner);
	struct serverfs *fs = link->fs;
	struct port *p = NULL;

	spin_lock(&fs->lock);
	if (fs->link == link) {
		p = fs->port;
		fs->port = NULL;
		fs->link = NULL;
		WRITE_ONCE(fs->sb->store_away, true);	/* there as long as we are linked: see detach() */
	}
	spin_unlock(&fs->lock);
	if (p)
		port_put(p);
	kfree(link);
	serverfs_put(fs);
}

/* What a new server has to know before the first question. */
static int introduce(struct serverfs *fs, struct port *p)
{
	struct fl_fs_req req = { .op = FL_FS_HELLO, .node = FL_FS_ROOT, .size = FL_FS_VERSION };
	struct inode *inode = NULL;
	int err = post(p, &req);

	while ((inode = serverfs_next_inode(fs, inode))) {
		req = (struct fl_fs_req){ .op = FL_FS_KEEP, .node = node_id(inode) };
		if (!err)
			err = post(p, &req);
	}
	return err;
}

/* @p serves @fs from now on; its receiving end is held open by the caller. mount_mutex: one at a time. 0, -EBUSY, -ENOMEM, -EPIPE. */
static int attach(struct serverfs *fs, struct port *p)
{
	if (serverfs_present(fs))
		return -EBUSY;
	struct server_link *link = kzalloc(sizeof(*link), GFP_KERNEL);
	int err = link ? introduce(fs, p) : -ENOMEM;

	if (!err) {
		link->owner.died = server_died;
		link->fs = fs;
		refcount_inc(&fs->refs);
		err = port_add_owner(p, &link->owner);
		if (err)
			serverfs_put(fs);
	}
	if (err) {
		kfree(link);
		return err;
	}
	port_get(p);
	spin_lock(&fs->lock);
	fs->port = p;
	fs->link = link;
	WRITE_ONCE(fs->sb->store_away, false);
	spin_unlock(&fs->lock);
	writeback_kick();
	return 0;
}

/* No server any more, whether it lives or not; who waits for it gets EIO. Afterwards it does not touch fs->sb. */
static void detach(struct serverfs *fs)
{
	struct fl_fs_req bye = { .op = FL_FS_BYE };

	spin_lock(&fs->lock);
	struct port *p = fs->port;
	struct server_link *link = fs->link;

	fs->port = NULL;
	fs->link = NULL;
	WRITE_ONCE(fs->sb->store_away, true);
	spin_unlock(&fs->lock);
	if (!p)
		return;
	port_break_calls(p, fs);
	(void)post(p, &bye);
	if (port_remove_owner(p, &link->owner)) {
		kfree(link);
		serverfs_put(fs);
	}
	port_put(p);
}

/* -- the super block -- */

static int serverfs_sync(struct super_block *sb)
{
	struct inode *inode = NULL;
	int err = 0;

	while ((inode = serverfs_next_inode(sb->private, inode))) {
		if (!S_ISREG(inode->mode))
			continue;
		int e = mapping_writeback_range(&inode->mapping, 0, INT64_MAX, true);

		err = err ? err : e;
		mapping_release_clean(&inode->mapping);
	}
	return err;
}

/* Nobody uses the files any more. What is still dirty had its chance in umount(2). */
static void serverfs_unmounted(struct super_block *sb)
{
	struct inode *inode = NULL;
	u64 lost = 0;

	detach(sb->private);
	while ((inode = serverfs_next_inode(sb->private, inode))) {
		struct mapping *m = &inode->mapping;

		if (!S_ISREG(inode->mode))
			continue;
		if (m->nr_dirty || m->nr_writeback) {
			lost += m->nr_pages;
			truncate_mapping_range(m, 0, END_OF_FILE, false);
		}
		mapping_release_clean(m);
	}
	if (lost)
		pr_warn("serverfs: unmounted without its server: up to %lu dirty pages are lost\n", lost);
}

static void serverfs_kill(struct super_block *sb)
{
	detach(sb->private);		/* for a mount that failed */
	serverfs_put(sb->private);
}

struct options { u64 fd, uid, gid; u32 mode; };

static int parse_option(void *arg, const char *name, const char *value)
{
	struct options *o = arg;
	u64 mode;

	if (!strcmp(name, "fd"))
		return kstrtou64(value, 10, &o->fd) || o->fd > INT32_MAX ? -EINVAL : 0;
	if (!strcmp(name, "uid"))
		return kstrtou64(value, 10, &o->uid) || o->uid > UINT32_MAX ? -EINVAL : 0;
	if (!strcmp(name, "gid"))
		return kstrtou64(value, 10, &o->gid) || o->gid > UINT32_MAX ? -EINVAL : 0;
	if (strcmp(name, "mode") || kstrtou64(value, 8, &mode) || mode > 07777)
		return -EINVAL;
	o->mode = (u32)mode;
	return 0;
}

/* The port whose receiving end is descriptor @o->fd, which stays open until file_put(*f). ERR_PTR. */
static struct port *server_port(const struct options *o, struct file **f)
{
	*f = o->fd <= INT32_MAX ? fd_get((int)o->fd) : NULL;
	if (!*f)
		return ERR_PTR(o->fd <= INT32_MAX ? -EBADF : -EINVAL);
	struct port *p = file_port(*f, true);

	if (p)
		return p;
	file_put(*f);
	return ERR_PTR(-EINVAL);
}

static int serverfs_remount(struct super_block *sb, const char *options)
{
	struct options o = { .fd = UINT64_MAX };
	struct file *f;
	int err = mount_parse_options(options, parse_option, &o);

	if (err)
		return err;
	struct port *p = server_port(&o, &f);

	if (IS_ERR(p))
		return (int)PTR_ERR(p);
	err = attach(sb->private, p);
	file_put(f);
	return err;
}

static struct super_block *make_super(struct serverfs *fs)
{
	struct fl_fs_ans root = { .node = FL_FS_ROOT, .mode = S_IFDIR | fs->root_mode, .uid = fs->root_uid, .gid = fs->root_gid, .nlink = 2 };
	struct super_block *sb = super_alloc("server", SERVERFS_MAGIC);

	if (!sb) {
		serverfs_put(fs);
		return ERR_PTR(-ENOMEM);
	}
	fs->sb = sb;
	sb->private = fs;
	sb->flags = MS_NOSUID | MS_NODEV;	/* no server makes a program root's */
	sb->weak_names = true;
	sb->max_inodes = nr_total_pages() / 2;	/* in use at a time: as in tmpfs */
	sb->served = true;
	sb->store_away = true;
	sb->kill = serverfs_kill;
	sb->remount = serverfs_remount;
	sb->sync = serverfs_sync;
	sb->unmounted = serverfs_unmounted;

	struct inode *inode = serverfs_inode(sb, &root);
	int err = IS_ERR(inode) ? (int)PTR_ERR(inode) : super_make_root(sb, inode);

	if (err) {
		super_put(sb);
		return ERR_PTR(err);
	}
	inode->alias = sb->root;
	return sb;
}

static struct super_block *serverfs_mount(const char *source, const char *options, u32 flags)
{
	struct options o = { .fd = UINT64_MAX, .mode = 0755 };
	int err = options ? mount_parse_options(options, parse_option, &o) : -EINVAL;
	struct file *f;

	(void)source, (void)flags;
	if (err)
		return ERR_PTR(err);
	struct port *p = server_port(&o, &f);

	if (IS_ERR(p))
		return (void *)p;
	struct serverfs *fs = fs_alloc();
	struct super_block *sb = ERR_PTR(-ENOMEM);

	if (fs) {
		fs->root_mode = o.mode;
		fs->root_uid = (u32)o.uid;
		fs->root_gid = (u32)o.gid;
		sb = make_super(fs);
	}
	if (!IS_ERR(sb)) {
		err = attach(fs, p);
		if (err) {
			super_put(sb);
			sb = ERR_PTR(err);
		}
	}
	file_put(f);
	return sb;
}

static struct fs_type serverfs_type = { .name = "server", .nodev = true, .mount = serverfs_mount };

void serverfs_init(void)
{
	serverfs_file_init();
	register_filesystem(&serverfs_type);
}
