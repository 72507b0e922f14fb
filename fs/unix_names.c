/*
 * Names of AF_UNIX sockets. Three kinds of address: a path (a file of type socket, found by path walk), an abstract name (a NUL and
 * any bytes), and none. One hash table finds the socket: by inode for paths, by bytes and type for abstract names.
 *
 * A socket is in the table from bind to release. It holds the path, so the inode's address is its own as long as it is there.
 */
#include "fs/unix.h"

#include "fs/internal.h"
#include "kernel/random.h"
#include "kernel/string.h"
#include "mm/slab.h"

#define NR_BUCKETS	64u
#define FAMILY_SIZE	sizeof(u16)
#define ADDR_MAX	(FAMILY_SIZE + UNIX_PATH_MAX)

static struct spinlock names_lock = SPINLOCK_INIT(LOCK_UNIX_NAMES);
static struct list_head buckets[NR_BUCKETS];	/* names_lock  unix_sock.name_node; a head is initialised by its first use */

static struct list_head *bucket_locked(u64 hash)
{
	struct list_head *head = &buckets[hash % NR_BUCKETS];

	if (!head->next)
		INIT_LIST_HEAD(head);
	return head;
}

static u64 hash_bytes(const u8 *p, size_t n)
{
	u64 h = 14695981039346656037ul;		/* FNV-1a */

	while (n--)
		h = (h ^ *p++) * 1099511628211ul;
	return h ^ h >> 32;
}

static u64 hash_inode(const struct inode *inode)
{
	return (uintptr_t)inode / 64;
}

static bool is_abstract(const u8 *bytes)
{
	return !bytes[FAMILY_SIZE];
}

/* -EINVAL: not a name of a socket. */
static int check_addr(const struct sock_addr *addr)
{
	return addr->len > FAMILY_SIZE && addr->len <= ADDR_MAX && addr->family == AF_UNIX ? 0 : -EINVAL;
}

static const char *path_of(const struct sock_addr *addr)
{
	return (const char *)addr->bytes + FAMILY_SIZE;		/* ends: address_in() clears the rest */
}

static struct unix_addr *addr_new(const void *bytes, u32 len)
{
	struct unix_addr *a = kzalloc(sizeof(*a), GFP_KERNEL);

	if (!a)
		return NULL;
	refcount_set(&a->refs, 1);
	a->len = len;
	memcpy(a->bytes, bytes, len);
	return a;
}

void unix_addr_put(struct unix_addr *a)
{
	if (refcount_dec_and_test(&a->refs))
		kfree(a);
}

void unix_name_of(const struct unix_sock *u, struct sock_addr *addr)
{
	const struct unix_addr *a = __atomic_load_n(&u->addr, __ATOMIC_ACQUIRE);

	memset(addr, 0, sizeof(*addr));
	addr->family = AF_UNIX;
	addr->len = FAMILY_SIZE;
	if (a) {
		addr->len = a->len;
		memcpy(addr->bytes, a->bytes, a->len);
	}
}

/* -- finding -- */

static struct unix_sock *find_abstract_locked(const u8 *bytes, u32 len, int type)
{
	struct unix_sock *u;

	list_for_each_entry(u, bucket_locked(hash_bytes(bytes, len)), name_node)
		if (!u->path.dentry && u->sock.type == type && u->addr->len == len && !memcmp(u->addr->bytes, bytes, len))
			return u;
	return NULL;
}

static struct unix_sock *find_inode_locked(const struct inode *inode)
{
	struct unix_sock *u;

	list_for_each_entry(u, bucket_locked(hash_inode(inode)), name_node)
		if (u->path.dentry && u->path.dentry->inode == inode)
			return u;
	return NULL;
}

static struct unix_sock *find_by_inode(struct inode *inode, int type)
{
	int err = inode_permission(inode, MAY_WRITE);

	if (err)
		return ERR_PTR(err);
	if (!S_ISSOCK(inode->mode))
		return ERR_PTR(-ECONNREFUSED);
	spin_lock(&names_lock);
	struct unix_sock *u = find_inode_locked(inode);

	if (u)
		unix_get(u);
	spin_unlock(&names_lock);
	if (!u)
		return ERR_PTR(-ECONNREFUSED);
	if (u->sock.type != type) {
		unix_put(u);
		return ERR_PTR(-EPROTOTYPE);
	}
	return u;
}

struct unix_sock *unix_find(const struct sock_addr *addr, int type)
{
	int err = check_addr(addr);
	struct unix_sock *u;
	struct path path;

	if (err)
		return ERR_PTR(err);
	if (is_abstract(addr->bytes)) {
		spin_lock(&names_lock);
		u = find_abstract_locked(addr->bytes, addr->len, type);
		if (u)
			unix_get(u);
		spin_unlock(&names_lock);
		return u ? u : ERR_PTR(-ECONNREFUSED);
	}
	err = path_lookup_at(AT_FDCWD, path_of(addr), LOOKUP_FOLLOW, &path);
	if (err)
		return ERR_PTR(err);
	u = find_by_inode(path.dentry->inode, type);
	path_put(&path);
	return u;
}

/* -- naming -- */

/* sock.lock held, @u has no name. 0 or -EADDRINUSE; then @a is still the caller's. */
static int name_abstract(struct unix_sock *u, struct unix_addr *a)
{
	int err = -EADDRINUSE;

	spin_lock(&names_lock);
	if (!find_abstract_locked(a->bytes, a->len, u->sock.type)) {
		__atomic_store_n(&u->addr, a, __ATOMIC_RELEASE);
		list_add(&u->name_node, bucket_locked(hash_bytes(a->bytes, a->len)));
		err = 0;
	}
	spin_unlock(&names_lock);
	return err;
}

static int bind_abstract(struct unix_sock *u, const struct sock_addr *addr)
{
	struct unix_addr *a = addr_new(addr->bytes, addr->len);
	int err = -EINVAL;

	if (!a)
		return -ENOMEM;
	mutex_lock(&u->sock.lock);
	if (!u->addr)
		err = name_abstract(u, a);
	mutex_unlock(&u->sock.lock);
	if (err)
		unix_addr_put(a);
	return err;
}

/* Five hexadecimal digits that nobody has. 0, also if there is a name already; -ENOMEM; -ENOSPC. */
static int bind_any(struct unix_sock *u)
{
	struct sock_addr addr = { .len = FAMILY_SIZE + 6, .family = AF_UNIX };
	struct unix_addr *a = addr_new(addr.bytes, addr.len);
	int err = -ENOSPC;
	u32 first;

	if (!a)
		return -ENOMEM;
	get_random_bytes(&first, sizeof(first));
	mutex_lock(&u->sock.lock);
	if (u->addr) {
		mutex_unlock(&u->sock.lock);
		unix_addr_put(a);
		return 0;
	}
	for (u32 i = 0; err && i < 0x100000; i++) {
		for (unsigned int d = 0; d < 5; d++)
			a->bytes[FAMILY_SIZE + 1 + d] = (u8)"0123456789abcdef"[(first + i) >> (16 - 4 * d) & 15];
		err = name_abstract(u, a);
		err = err ? -ENOSPC : 0;
		cond_resched();
	}
	mutex_unlock(&u->sock.lock);
	if (err)
		unix_addr_put(a);
	return err;
}

static int bind_path(struct unix_sock *u, const struct sock_addr *addr)
{
	const char *name = path_of(addr);
	struct unix_addr *a = addr_new(addr->bytes, (u32)(FAMILY_SIZE + strlen(name) + 1));
	struct path path;

	if (!a)
		return -ENOMEM;
	int err = vfs_mknod_path(name, S_IFSOCK | 0777, &path);

	if (err) {
		unix_addr_put(a);
		return err == -EEXIST ? -EADDRINUSE : err;
	}
	mutex_lock(&u->sock.lock);
	if (u->addr) {
		mutex_unlock(&u->sock.lock);
		(void)!vfs_unlink(name);
		path_put(&path);
		unix_addr_put(a);
		return -EINVAL;
	}
	spin_lock(&names_lock);
	u->path = path;
	__atomic_store_n(&u->addr, a, __ATOMIC_RELEASE);
	list_add(&u->name_node, bucket_locked(hash_inode(path.dentry->inode)));
	spin_unlock(&names_lock);
	mutex_unlock(&u->sock.lock);
	return 0;
}

int unix_bind(struct socket *sock, const struct sock_addr *addr)
{
	struct unix_sock *u = unix_sk(sock);

	if (addr->len == FAMILY_SIZE && addr->family == AF_UNIX)
		return bind_any(u);
	int err = check_addr(addr);

	if (err)
		return err;
	return is_abstract(addr->bytes) ? bind_abstract(u, addr) : bind_path(u, addr);
}

void unix_unname(struct unix_sock *u)
{
	if (list_empty(&u->name_node))
		return;
	spin_lock(&names_lock);
	list_del_init(&u->name_node);
	spin_unlock(&names_lock);
}
