/*
 * Descriptor tables.
 *
 * Lookups take no lock: the table pointer and its slots are read under RCU, and a file is counted only if it still lives.
 * Changes take files->lock. A descriptor goes through two steps: fd_reserve() sets its bit (others get another number),
 * fd_install() publishes the file; in between a lookup finds nothing (EBADF), and dup2 onto it is EBUSY.
 *
 * The table doubles when it is full, up to RLIMIT_NOFILE; the old one is freed after a grace period.
 */
#include "fs/internal.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"

#define NR_OPEN_DEFAULT	64u
#define NR_OPEN_MAX	1048576u	/* whatever the rlimit says */
#define BITS		64u

struct fdtable {
	u32		 max;		/* I  slots; a multiple of 64 */
	struct file	**fd;		/* slots: files->lock to write, RCU to read */
	u64		*open;		/* files->lock  reserved or installed */
	u64		*cloexec;	/* files->lock */
	struct rcu_head	 rcu;
};

/*
 *   F  lock
 */
struct files {
	struct refcount	 refs;		/* tasks that share it, and /proc readers for a moment */
	struct spinlock	 lock;		/* LOCK_FDTABLE */
	struct fdtable	*table;		/* F; RCU to read */
	u32		 next;		/* F  no free descriptor below */
};

/* -- tables -- */

static struct fdtable *table_alloc(u32 max)
{
	struct fdtable *t = kmalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return NULL;
	t->max = max;
	t->fd = kvmalloc(max * sizeof(struct file *), GFP_KERNEL | GFP_ZERO);
	t->open = kvmalloc(2 * max / 8, GFP_KERNEL | GFP_ZERO);
	if (!t->fd || !t->open) {
		kvfree(t->fd);
		kvfree(t->open);
		kfree(t);
		return NULL;
	}
	t->cloexec = t->open + max / BITS;
	return t;
}

static void table_free(struct fdtable *t)
{
	kvfree(t->fd);
	kvfree(t->open);
	kfree(t);
}

static void table_free_rcu(struct rcu_head *head)
{
	table_free(container_of(head, struct fdtable, rcu));
}

static bool bit_test(const u64 *map, u32 n) { return READ_ONCE(map[n / BITS]) >> n % BITS & 1; }
static void bit_set(u64 *map, u32 n) { map[n / BITS] |= 1ul << n % BITS; }
static void bit_clear(u64 *map, u32 n) { map[n / BITS] &= ~(1ul << n % BITS); }

/* First zero bit >= @from, or max. */
static u32 next_zero(const u64 *map, u32 max, u32 from)
{
	for (u32 w = from / BITS; w < max / BITS; w++) {
		u64 free = ~map[w];

		if (w == from / BITS)
			free &= ~0ul << from % BITS;
		if (free)
			return w * BITS + (u32)__builtin_ctzl(free);
	}
	return max;
}

static u32 next_one(const u64 *map, u32 max, u32 from)
{
	for (u32 w = from / BITS; w < max / BITS; w++) {
		u64 set = READ_ONCE(map[w]);

		if (w == from / BITS)
			set &= ~0ul << from % BITS;
		if (set)
			return w * BITS + (u32)__builtin_ctzl(set);
	}
	return max;
}

/*
 * Makes room for @fd. Lock: files->lock held on entry and exit, dropped in between, so the caller must look again at what it
 * knew. 0 or -ENOMEM.
 */
static int table_grow(struct files *files, u32 fd)
{
	u32 max = files->table->max;

	while (max <= fd)
		max *= 2;
	spin_unlock(&files->lock);
	struct fdtable *new = table_alloc(max);

	spin_lock(&files->lock);
	if (!new)
		return -ENOMEM;
	struct fdtable *old = files->table;

	if (old->max > fd) {		/* another thread was quicker */
		table_free(new);
		return 0;
	}
	memcpy(new->fd, old->fd, old->max * sizeof(struct file *));
	memcpy(new->open, old->open, old->max / 8);
	memcpy(new->cloexec, old->cloexec, old->max / 8);
	rcu_assign_pointer(files->table, new);
	call_rcu(&old->rcu, table_free_rcu);
	return 0;
}

struct files *files_alloc(void)
{
	struct files *files = kzalloc(sizeof(*files), GFP_KERNEL);

	if (!files)
		return NULL;
	files->table = table_alloc(NR_OPEN_DEFAULT);
	if (!files->table) {
		kfree(files);
		return NULL;
	}
	refcount_set(&files->refs, 1);
	spin_lock_init(&files->lock, LOCK_FDTABLE);
	return files;
}

/* Slots needed to hold what is open now, rounded up. files->lock held. */
static u32 slots_in_use(const struct fdtable *t)
{
	u32 words = t->max / BITS;

	while (words > 1 && !t->open[words - 1])
		words--;
	return max(NR_OPEN_DEFAULT, words * BITS);
}

/* A private copy for fork, counting each file. @old NULL: an empty table. NULL: no memory. */
struct files *files_copy(struct files *old)
{
	struct files *files = files_alloc();

	if (!files || !old)
		return files;
	spin_lock(&old->lock);
	u32 need;

	while ((need = slots_in_use(old->table)) > files->table->max) {
		spin_unlock(&old->lock);
		struct fdtable *t = table_alloc(need);

		if (!t) {
			files_put(files);
			return NULL;
		}
		table_free(files->table);
		files->table = t;
		spin_lock(&old->lock);
	}
	struct fdtable *from = old->table, *to = files->table;

	for (u32 fd = next_one(from->open, need, 0); fd < need; fd = next_one(from->open, need, fd + 1)) {
		struct file *f = from->fd[fd];

		if (!f)
			continue;	/* reserved by another thread: not the child's business */
		file_get(f);
		to->fd[fd] = f;
		bit_set(to->open, fd);
		if (bit_test(from->cloexec, fd))
			bit_set(to->cloexec, fd);
	}
	files->next = old->next;
	spin_unlock(&old->lock);
	return files;
}

void files_get(struct files *f)
{
	refcount_inc(&f->refs);
}

/* Ends a descriptor's reference: flush and process-owned locks first. May sleep. */
static void file_close(struct file *f, struct files *owner)
{
	if (f->mode & FMODE_PATH) {
		file_put(f);
		return;
	}
	if (f->ops->flush)
		f->ops->flush(f);
	if (unlikely(READ_ONCE(f->inode->locks)))
		locks_remove_posix(f, owner);
	file_put(f);
}

/* May sleep: the last one closes everything. */
void files_put(struct files *files)
{
	if (!refcount_dec_and_test(&files->refs))
		return;
	struct fdtable *t = files->table;

	for (u32 fd = next_one(t->open, t->max, 0); fd < t->max; fd = next_one(t->open, t->max, fd + 1)) {
		struct file *f = t->fd[fd];

		WRITE_ONCE(t->fd[fd], NULL);
		if (f)
			file_close(f, files);
	}
	/* Readers of /proc count the structure (task_files_get), so nobody reads the table any more. */
	table_free(t);
	kfree(files);
}

int files_unshare(struct task *t)
{
	if (refcount_read(&t->files->refs) == 1)
		return 0;
	struct files *copy = files_copy(t->files);

	if (!copy)
		return -ENOMEM;
	struct files *old = t->files;
	unsigned long flags;
	struct sighand *sh = lock_sighand(t->process, &flags);	/* task_files_get() of others */

	t->files = copy;
	unlock_sighand(sh, flags);
	files_put(old);
	return 0;
}

/* -- lookups -- */

static struct file *table_slot(struct files *files, int fd)
{
	struct fdtable *t = rcu_dereference(files->table);

	return (u32)fd < t->max ? rcu_dereference(t->fd[(u32)fd]) : NULL;
}

/*
 * Counted, O_PATH too. A file found in a slot may die before we count it; then the slot has changed as well, look again.
 * Closing the descriptor on another CPU right after the count is no harm: this lookup came before.
 */
struct file *files_fd_get(struct files *files, int fd)
{
	struct file *f;

	rcu_read_lock();
	do {
		f = table_slot(files, fd);
	} while (f && !refcount_inc_not_zero(&f->refs));
	rcu_read_unlock();
	return f;
}

static inline struct fd_ref __fdget_raw(int fd)
{
	struct files *files = current->files;

	if (likely(refcount_read(&files->refs) == 1))
		return (struct fd_ref){ table_slot(files, fd), false };
	struct file *f = files_fd_get(files, fd);

	return (struct fd_ref){ f, f != NULL };
}

struct fd_ref fdget_raw(int fd)
{
	return __fdget_raw(fd);
}

struct fd_ref fdget(int fd)
{
	struct fd_ref r = __fdget_raw(fd);

	if (unlikely(r.file && (r.file->mode & FMODE_PATH))) {
		fdput(r);
		r = (struct fd_ref){ NULL, false };
	}
	return r;
}

struct file *fd_get_raw(int fd)
{
	return files_fd_get(current->files, fd);
}

struct file *fd_get(int fd)
{
	struct file *f = fd_get_raw(fd);

	if (f && (f->mode & FMODE_PATH)) {
		file_put(f);
		return NULL;
	}
	return f;
}

int fd_next_open(struct files *files, int fd)
{
	int found = -1;

	rcu_read_lock();
	struct fdtable *t = rcu_dereference(files->table);

	for (u32 n = fd < 0 ? 0 : (u32)fd; n < t->max && (n = next_one(t->open, t->max, n)) < t->max; n++) {
		if (READ_ONCE(t->fd[n])) {
			found = (int)n;
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

bool fd_is_cloexec(struct files *files, int fd)
{
	rcu_read_lock();
	struct fdtable *t = rcu_dereference(files->table);
	bool set = (u32)fd < t->max && bit_test(t->cloexec, (u32)fd);

	rcu_read_unlock();
	return set;
}

/* F_SETFD. 0 or -EBADF. */
int fd_set_cloexec(int fd, bool on)
{
	struct files *files = current->files;
	int err = -EBADF;

	spin_lock(&files->lock);
	if (table_slot(files, fd)) {
		if (on)
			bit_set(files->table->cloexec, (u32)fd);
		else
			bit_clear(files->table->cloexec, (u32)fd);
		err = 0;
	}
	spin_unlock(&files->lock);
	return err;
}

/* -- reserve, install, close -- */

static u32 nofile_limit(void)
{
	u64 lim = rlimit_cur(RLIMIT_NOFILE);

	return lim < NR_OPEN_MAX ? (u32)lim : NR_OPEN_MAX;
}

int fd_reserve_from(int minfd, unsigned int flags)
{
	struct files *files = current->files;
	u32 limit = nofile_limit(), fd;
	int err;

	spin_lock(&files->lock);
	for (;;) {
		struct fdtable *t = files->table;
		u32 from = max((u32)minfd, files->next);

		fd = next_zero(t->open, t->max, from);
		fd = max(fd, from);
		err = -EMFILE;
		if (fd >= limit)
			goto out;
		if (fd < t->max)
			break;
		err = table_grow(files, fd);
		if (err)
			goto out;
	}
	bit_set(files->table->open, fd);
	if (flags & O_CLOEXEC)
		bit_set(files->table->cloexec, fd);
	else
		bit_clear(files->table->cloexec, fd);
	if ((u32)minfd <= files->next)
		files->next = fd + 1;
	err = (int)fd;
out:
	spin_unlock(&files->lock);
	return err;
}

int fd_reserve(unsigned int flags)
{
	return fd_reserve_from(0, flags);
}

void fd_install(int fd, struct file *f)
{
	struct files *files = current->files;

	spin_lock(&files->lock);
	assert(!files->table->fd[fd] && bit_test(files->table->open, (u32)fd));
	rcu_assign_pointer(files->table->fd[fd], f);
	spin_unlock(&files->lock);
}

/* files->lock held. */
static void release_locked(struct files *files, u32 fd)
{
	bit_clear(files->table->open, fd);
	bit_clear(files->table->cloexec, fd);
	files->next = min(files->next, fd);
}

void fd_release(int fd)
{
	struct files *files = current->files;

	spin_lock(&files->lock);
	release_locked(files, (u32)fd);
	spin_unlock(&files->lock);
}

/* files->lock held: takes the file out of its slot, or NULL. */
static struct file *take_locked(struct files *files, u32 fd)
{
	struct fdtable *t = files->table;
	struct file *f = fd < t->max ? t->fd[fd] : NULL;

	if (f) {
		rcu_assign_pointer(t->fd[fd], NULL);
		release_locked(files, fd);
	}
	return f;
}

/* The descriptor is free when this returns, whatever flush thought of it. */
int fd_close(int fd)
{
	struct files *files = current->files;

	spin_lock(&files->lock);
	struct file *f = take_locked(files, (u32)fd);

	spin_unlock(&files->lock);
	if (!f)
		return -EBADF;
	file_close(f, files);
	return 0;
}

void files_close_on_exec(struct files *files)
{
	spin_lock(&files->lock);
	for (u32 fd = 0;; fd++) {
		fd = next_one(files->table->cloexec, files->table->max, fd);
		if (fd >= files->table->max)
			break;
		struct file *f = take_locked(files, fd);

		if (!f) {
			bit_clear(files->table->cloexec, fd);
			continue;
		}
		spin_unlock(&files->lock);
		file_close(f, files);
		spin_lock(&files->lock);
	}
	spin_unlock(&files->lock);
}

/* -- system calls -- */

SYSCALL_DEFINE(close, int fd)
{
	return fd_close(fd);
}

#define CLOSE_RANGE_UNSHARE	2u
#define CLOSE_RANGE_CLOEXEC	4u

SYSCALL_DEFINE(close_range, unsigned int first, unsigned int last, unsigned int flags)
{
	if ((flags & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC)) || first > last)
		return -EINVAL;
	if (flags & CLOSE_RANGE_UNSHARE) {
		int err = files_unshare(current);

		if (err)
			return err;
	}
	struct files *files = current->files;

	spin_lock(&files->lock);
	for (u32 fd = first; fd <= last; fd++) {
		fd = fd < files->table->max ? next_one(files->table->open, files->table->max, fd) : fd;
		if (fd > last || fd >= files->table->max)
			break;
		if (flags & CLOSE_RANGE_CLOEXEC) {
			bit_set(files->table->cloexec, fd);
			continue;
		}
		struct file *f = take_locked(files, fd);

		if (!f)
			continue;
		spin_unlock(&files->lock);
		file_close(f, files);
		spin_lock(&files->lock);
	}
	spin_unlock(&files->lock);
	return 0;
}

SYSCALL_DEFINE(dup, int oldfd)
{
	struct file *f = fd_get_raw(oldfd);

	if (!f)
		return -EBADF;
	int fd = fd_reserve(0);

	if (fd < 0)
		file_put(f);
	else
		fd_install(fd, f);
	return fd;
}

/* Takes over the reference on @f. */
static int install_at(struct file *f, u32 newfd, unsigned int flags)
{
	struct files *files = current->files;
	struct file *old = NULL;
	int err = 0;

	spin_lock(&files->lock);
	if (newfd >= files->table->max)
		err = table_grow(files, newfd);
	if (!err) {
		old = files->table->fd[newfd];
		if (!old && bit_test(files->table->open, newfd))
			err = -EBUSY;	/* another thread is about to install there */
	}
	if (!err) {
		rcu_assign_pointer(files->table->fd[newfd], f);
		bit_set(files->table->open, newfd);
		if (flags & O_CLOEXEC)
			bit_set(files->table->cloexec, newfd);
		else
			bit_clear(files->table->cloexec, newfd);
	}
	spin_unlock(&files->lock);
	if (err)
		file_put(f);
	else if (old)
		file_close(old, files);
	return err ? err : (int)newfd;
}

SYSCALL_DEFINE(dup3, int oldfd, int newfd, int flags)
{
	if (flags & ~O_CLOEXEC)
		return -EINVAL;
	if (oldfd == newfd)
		return -EINVAL;
	if ((u32)newfd >= nofile_limit())
		return -EBADF;
	struct file *f = fd_get_raw(oldfd);

	return f ? install_at(f, (u32)newfd, (unsigned int)flags) : -EBADF;
}

SYSCALL_DEFINE(dup2, int oldfd, int newfd)
{
	if (oldfd == newfd) {
		struct fd_ref r = fdget_raw(oldfd);

		if (!r.file)
			return -EBADF;
		fdput(r);
		return newfd;
	}
	return sys_dup3(oldfd, newfd, 0);
}
