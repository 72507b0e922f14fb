/*
 * Advisory locks: POSIX record locks (owner: the descriptor table of a process), open file description locks and flock
 * (owner: the open file).
 *
 * All locks of an inode hang on its struct file_locks, made at the first lock. A record lock covers [start, end], both
 * included; locks of one owner never overlap, and neighbours of the same type are one lock. Who must wait sleeps on the
 * inode's queue and tries again after every release. Before a process sleeps, the chain "who waits for whom" is followed: if
 * it leads back, EDEADLK.
 */
#include "fs/internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define F_RDLCK		0
#define F_WRLCK		1
#define F_UNLCK		2
#define OFFSET_MAX	INT64_MAX
#define DEADLOCK_STEPS	64u

#define LOCK_SH		1
#define LOCK_EX		2
#define LOCK_NB		4
#define LOCK_UN		8

struct flock {			/* user ABI */
	s16	l_type, l_whence;
	s64	l_start, l_len;
	s32	l_pid;
};
_Static_assert(sizeof(struct flock) == 32, "user ABI");

struct file_lock {
	struct list_head node;
	void		*owner;		/* struct files or struct file; compared, never followed */
	u8		 type;		/* F_RDLCK, F_WRLCK */
	bool		 by_file;	/* OFD lock or flock: goes with the file */
	int		 pid;		/* for F_GETLK; -1 for OFD */
	s64		 start, end;
};

/*
 *   L  lock
 */
struct file_locks {
	struct spinlock	 lock;		/* LOCK_FILE_LOCKS */
	struct list_head records;	/* L */
	struct list_head flocks;	/* L */
	struct wait_queue wait;		/* woken at each release */
};

/* A process that sleeps for a record lock; on its stack. */
struct blocked {
	struct list_head node;		/* blocked_lock */
	void		*owner, *on;
};
static struct spinlock blocked_lock = SPINLOCK_INIT(LOCK_FILE_LOCKS);
static LIST_HEAD(blocked_list);

static struct file_locks *get_locks(struct inode *inode)
{
	struct file_locks *fl = __atomic_load_n(&inode->locks, __ATOMIC_ACQUIRE), *none = NULL;

	if (fl)
		return fl;
	fl = kmalloc(sizeof(*fl), GFP_KERNEL);
	if (!fl)
		return NULL;
	spin_lock_init(&fl->lock, LOCK_FILE_LOCKS);
	INIT_LIST_HEAD(&fl->records);
	INIT_LIST_HEAD(&fl->flocks);
	wait_queue_init(&fl->wait);
	if (!__atomic_compare_exchange_n(&inode->locks, &none, fl, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		kfree(fl);
		fl = none;
	}
	return fl;
}

void locks_free(struct inode *inode)
{
	struct file_locks *fl = inode->locks;

	if (!fl)
		return;
	assert(list_empty(&fl->records) && list_empty(&fl->flocks));
	kfree(fl);
}

static void free_list(struct list_head *list)
{
	struct file_lock *l, *next;

	list_for_each_entry_safe(l, next, list, node)
		kfree(l);
}

/* -- the set of locks; fl->lock held -- */

static bool overlaps(const struct file_lock *a, const struct file_lock *b)
{
	return a->start <= b->end && b->start <= a->end;
}

static struct file_lock *find_conflict(struct list_head *list, const struct file_lock *want)
{
	struct file_lock *l;

	list_for_each_entry(l, list, node)
		if (l->owner != want->owner && overlaps(l, want) && (l->type == F_WRLCK || want->type == F_WRLCK))
			return l;
	return NULL;
}

/* Is @l next to or over @want, so that two locks of one type become one? Written so that no end overflows. */
static bool touches(const struct file_lock *l, const struct file_lock *want)
{
	return (want->start == 0 || l->end >= want->start - 1) && (want->end == OFFSET_MAX || l->start <= want->end + 1);
}

/*
 * Cuts the owner's locks so that [want->start, want->end] is free of them, joining those of the same type into @want. Whole
 * locks go to @dead. @spare is used up (returns true) when one lock is split in two.
 */
static bool carve(struct file_locks *fl, struct file_lock *want, struct file_lock *spare, struct list_head *dead)
{
	struct file_lock *l, *next;
	bool used = false;

	list_for_each_entry_safe(l, next, &fl->records, node) {
		if (l->owner != want->owner)
			continue;
		if (l->type == want->type) {
			if (touches(l, want)) {
				want->start = min(want->start, l->start);
				want->end = max(want->end, l->end);
				list_move(&l->node, dead);
			}
			continue;
		}
		if (!overlaps(l, want))
			continue;
		if (l->start < want->start && l->end > want->end) {
			*spare = *l;
			spare->start = want->end + 1;
			l->end = want->start - 1;
			list_add(&spare->node, &l->node);
			used = true;
		} else if (l->start < want->start) {
			l->end = want->start - 1;
		} else if (l->end > want->end) {
			l->start = want->end + 1;
		} else {
			list_move(&l->node, dead);
		}
	}
	return used;
}

/* -- record locks -- */

/* 0, -EAGAIN with *on = who is in the way, or -ENOLCK without memory. */
static int try_set(struct file_locks *fl, const struct file_lock *request, void **on)
{
	struct file_lock *want = kmalloc(sizeof(*want), GFP_KERNEL), *spare = kmalloc(sizeof(*spare), GFP_KERNEL);
	struct file_lock *conflict = NULL;
	LIST_HEAD(dead);

	if (!want || !spare) {
		kfree(want);
		kfree(spare);
		return -ENOLCK;
	}
	*want = *request;
	spin_lock(&fl->lock);
	if (want->type != F_UNLCK)
		conflict = find_conflict(&fl->records, want);
	if (conflict) {
		*on = conflict->owner;
	} else {
		if (carve(fl, want, spare, &dead))
			spare = NULL;
		if (want->type != F_UNLCK) {
			list_add_tail(&want->node, &fl->records);
			want = NULL;
		}
	}
	spin_unlock(&fl->lock);
	if (!conflict)
		wake_up_all(&fl->wait);		/* unlocked or downgraded: either may let others in */
	free_list(&dead);
	kfree(want);
	kfree(spare);
	return conflict ? -EAGAIN : 0;
}

static bool still_blocked(struct file_locks *fl, const struct file_lock *want)
{
	spin_lock(&fl->lock);
	bool blocked = find_conflict(&fl->records, want) != NULL;

	spin_unlock(&fl->lock);
	return blocked;
}

/* Enters "owner waits for on", unless that closes a circle. */
static int block_on(struct blocked *b, void *owner, void *on)
{
	int err = 0;
	void *next = on;

	spin_lock(&blocked_lock);
	for (unsigned int step = 0; step < DEADLOCK_STEPS && next && !err; step++) {
		struct blocked *o;
		void *from = next;

		next = NULL;
		list_for_each_entry(o, &blocked_list, node) {
			if (o->owner == from) {
				next = o->on;
				break;
			}
		}
		if (next == owner)
			err = -EDEADLK;
	}
	if (!err) {
		*b = (struct blocked){ .owner = owner, .on = on };
		list_add(&b->node, &blocked_list);
	}
	spin_unlock(&blocked_lock);
	return err;
}

static void unblock(struct blocked *b)
{
	spin_lock(&blocked_lock);
	list_del(&b->node);
	spin_unlock(&blocked_lock);
}

static int set_lock(struct file_locks *fl, const struct file_lock *want, bool wait)
{
	for (;;) {
		struct blocked b;
		void *on = NULL;
		int err = try_set(fl, want, &on);

		if (err != -EAGAIN || !wait)
			return err;
		if (!want->by_file) {
			err = block_on(&b, want->owner, on);
			if (err)
				return err;
		}
		/* Ends when a signal comes or whoever is in the way lets go; somebody else may then be quicker: again. */
		err = wait_event_interruptible(&fl->wait, !still_blocked(fl, want));
		if (!want->by_file)
			unblock(&b);
		if (err)
			return err;
	}
}

/* The user's description as [start, end]. 0 or -errno. */
static int from_user(struct file *f, const struct flock *u, struct file_lock *l)
{
	s64 base = 0;

	switch (u->l_whence) {
	case 0:
		break;
	case 1:
		base = READ_ONCE(f->pos);
		break;
	case 2:
		base = (s64)READ_ONCE(f->inode->size);
		break;
	default:
		return -EINVAL;
	}
	if (u->l_start > 0 && base > OFFSET_MAX - u->l_start)
		return -EOVERFLOW;
	l->start = base + u->l_start;
	if (l->start < 0)
		return -EINVAL;
	if (u->l_len > 0) {
		if (l->start > OFFSET_MAX - (u->l_len - 1))
			return -EOVERFLOW;
		l->end = l->start + u->l_len - 1;
	} else if (u->l_len < 0) {
		if (l->start + u->l_len < 0)
			return -EINVAL;
		l->end = l->start - 1;
		l->start += u->l_len;
	} else {
		l->end = OFFSET_MAX;
	}
	if (u->l_type < F_RDLCK || u->l_type > F_UNLCK)
		return -EINVAL;
	l->type = (u8)u->l_type;
	return 0;
}

static void set_owner(struct file_lock *l, struct file *f, bool ofd)
{
	l->by_file = ofd;
	l->owner = ofd ? (void *)f : current->files;
	l->pid = ofd ? -1 : current->process->tgid;
}

long fcntl_getlk(struct file *f, void __user *arg, bool ofd)
{
	struct file_lock want, *conflict = NULL;
	struct flock u;
	int err;

	if (copy_in(&u, arg, sizeof(u)))
		return -EFAULT;
	if (u.l_type != F_RDLCK && u.l_type != F_WRLCK && !(ofd && u.l_type == F_UNLCK))
		return -EINVAL;
	if (ofd && u.l_pid)
		return -EINVAL;
	err = from_user(f, &u, &want);
	if (err)
		return err;
	set_owner(&want, f, ofd);
	struct file_locks *fl = READ_ONCE(f->inode->locks);

	u.l_type = F_UNLCK;
	if (fl) {
		spin_lock(&fl->lock);
		conflict = find_conflict(&fl->records, &want);
		if (conflict) {
			u.l_type = conflict->type;
			u.l_whence = 0;
			u.l_start = conflict->start;
			u.l_len = conflict->end == OFFSET_MAX ? 0 : conflict->end - conflict->start + 1;
			u.l_pid = conflict->pid;
		}
		spin_unlock(&fl->lock);
	}
	return copy_out(arg, &u, sizeof(u));
}

/*
 * @fd: what the caller named. A close of it by another thread may have removed this process's locks just before ours was
 * entered; then ours must not stay behind.
 */
long fcntl_setlk(int fd, struct file *f, void __user *arg, bool wait, bool ofd)
{
	struct file_lock want;
	struct flock u;
	int err;

	if (copy_in(&u, arg, sizeof(u)))
		return -EFAULT;
	if (ofd && u.l_pid)
		return -EINVAL;
	err = from_user(f, &u, &want);
	if (err)
		return err;
	if ((want.type == F_RDLCK && !(f->mode & FMODE_READ)) || (want.type == F_WRLCK && !(f->mode & FMODE_WRITE)))
		return -EBADF;
	set_owner(&want, f, ofd);
	struct file_locks *fl = get_locks(f->inode);

	if (!fl)
		return -ENOLCK;
	err = set_lock(fl, &want, wait);
	if (!err && !ofd && want.type != F_UNLCK) {
		struct file *now = fd_get_raw(fd);

		if (now != f) {
			want.type = F_UNLCK;
			(void)set_lock(fl, &want, false);
			err = -EBADF;
		}
		if (now)
			file_put(now);
	}
	return err;
}

/* -- flock -- */

/* Takes @want into the list, or only drops the old one (F_UNLCK). 0 or -EAGAIN; used up when 0 and not F_UNLCK. */
static int try_flock(struct file_locks *fl, struct file_lock *want)
{
	struct file_lock *l, *old = NULL;
	int err = 0;

	spin_lock(&fl->lock);
	list_for_each_entry(l, &fl->flocks, node)
		if (l->owner == want->owner)
			old = l;
	if (old)
		list_del(&old->node);		/* a conversion gives up the old lock first, as flock(2) says */
	if (want->type != F_UNLCK) {
		if (find_conflict(&fl->flocks, want))
			err = -EAGAIN;
		else
			list_add_tail(&want->node, &fl->flocks);
	}
	spin_unlock(&fl->lock);
	if (old) {
		wake_up_all(&fl->wait);
		kfree(old);
	}
	return err;
}

static bool flock_blocked(struct file_locks *fl, const struct file_lock *want)
{
	spin_lock(&fl->lock);
	bool blocked = find_conflict(&fl->flocks, want) != NULL;

	spin_unlock(&fl->lock);
	return blocked;
}

static long do_flock(struct file *f, u8 type, bool wait)
{
	struct file_lock *want = kmalloc(sizeof(*want), GFP_KERNEL);
	struct file_locks *fl = want ? get_locks(f->inode) : NULL;
	int err;

	if (!fl) {
		kfree(want);
		return -ENOLCK;
	}
	*want = (struct file_lock){ .owner = f, .type = type, .by_file = true, .end = OFFSET_MAX };
	while ((err = try_flock(fl, want)) == -EAGAIN && wait) {
		err = wait_event_interruptible(&fl->wait, !flock_blocked(fl, want));
		if (err)
			break;
	}
	if (err || type == F_UNLCK)
		kfree(want);
	return err;
}

SYSCALL_DEFINE(flock, int fd, unsigned int op)
{
	static const u8 types[] = { [LOCK_SH] = F_RDLCK, [LOCK_EX] = F_WRLCK, [LOCK_UN] = F_UNLCK };
	unsigned int kind = op & ~(unsigned int)LOCK_NB;

	if (kind != LOCK_SH && kind != LOCK_EX && kind != LOCK_UN)
		return -EINVAL;
	struct file *f = fd_get(fd);

	if (!f)
		return -EBADF;
	long ret = -EBADF;

	if (kind == LOCK_UN || (f->mode & (FMODE_READ | FMODE_WRITE)))
		ret = do_flock(f, types[kind], !(op & LOCK_NB));
	file_put(f);
	return ret;
}

/* -- closing -- */

/* A process that closes any descriptor of a file loses all its record locks there: POSIX. */
void locks_remove_posix(struct file *f, struct files *owner)
{
	struct file_locks *fl = f->inode->locks;
	struct file_lock *l, *next;
	LIST_HEAD(dead);

	spin_lock(&fl->lock);
	list_for_each_entry_safe(l, next, &fl->records, node)
		if (l->owner == owner && !l->by_file)
			list_move(&l->node, &dead);
	spin_unlock(&fl->lock);
	if (!list_empty(&dead))
		wake_up_all(&fl->wait);
	free_list(&dead);
}

void locks_remove_file(struct file *f)
{
	struct file_locks *fl = f->inode->locks;
	struct file_lock *l, *next;
	LIST_HEAD(dead);

	spin_lock(&fl->lock);
	list_for_each_entry_safe(l, next, &fl->records, node)
		if (l->owner == f && l->by_file)
			list_move(&l->node, &dead);
	list_for_each_entry_safe(l, next, &fl->flocks, node)
		if (l->owner == f)
			list_move(&l->node, &dead);
	spin_unlock(&fl->lock);
	if (!list_empty(&dead))
		wake_up_all(&fl->wait);
	free_list(&dead);
}
