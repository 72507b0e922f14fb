/*
 * Who a process is and what it may do: user and group ids, capabilities, and the per-user counts behind RLIMIT_NPROC and
 * RLIMIT_SIGPENDING.
 *
 * Ids belong to the process here, where Linux keeps them per thread and libc makes all threads follow: the calls that
 * libc then repeats in each thread find the work done and succeed. Each call copies the ids under the sighand lock,
 * changes the copy by the rules of POSIX and capabilities(7), and puts it back.
 */
#include "kernel/process.h"

#include "kernel/errno.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define CAP_SETPCAP	8
#define CAP_LAST	40
#define CAP_MASK	((1ul << (CAP_LAST + 1)) - 1)
/* What setfsuid() takes away with uid 0, and gives back. */
#define CAP_FS_MASK	(BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) | \
			 BIT(CAP_MKNOD) | BIT(9) /* LINUX_IMMUTABLE */ | BIT(32) /* MAC_OVERRIDE */)

/* -- what the processes of one user use together -- */

#define USER_HASH_SIZE 64u
static struct spinlock users_lock = SPINLOCK_INIT(LOCK_LEAF_IRQ);
static struct list_head user_hash[USER_HASH_SIZE];	/* users_lock; a head is initialised by its first use */
struct user root_user = { .refs = REFCOUNT_INIT(1), .node = LIST_HEAD_INIT(root_user.node) };

static struct list_head *user_bucket_locked(u32 uid)
{
	struct list_head *head = &user_hash[uid % USER_HASH_SIZE];

	if (!head->next)
		INIT_LIST_HEAD(head);
	return head;
}

void user_get(struct user *u) { refcount_inc(&u->refs); }

void user_put(struct user *u)
{
	if (!refcount_dec_and_test(&u->refs))
		return;
	unsigned long flags = spin_lock_irqsave(&users_lock);

	list_del(&u->node);		/* user_find() has passed it by since its count is 0 */
	spin_unlock_irqrestore(&users_lock, flags);
	kfree(u);
}

struct user *user_find(u32 uid)
{
	if (!uid) {
		user_get(&root_user);	/* the static one: never goes */
		return &root_user;
	}
	struct user *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL), *u;

	if (!fresh)
		return NULL;
	fresh->uid = uid;
	refcount_set(&fresh->refs, 1);

	unsigned long flags = spin_lock_irqsave(&users_lock);
	struct list_head *head = user_bucket_locked(uid);

	list_for_each_entry(u, head, node) {
		if (u->uid == uid && refcount_inc_not_zero(&u->refs)) {
			spin_unlock_irqrestore(&users_lock, flags);
			kfree(fresh);
			return u;
		}
	}
	list_add(&fresh->node, head);
	spin_unlock_irqrestore(&users_lock, flags);
	return fresh;
}

/* -- questions -- */

bool process_capable(const struct process *p, int cap) { return READ_ONCE(p->creds.cap_effective) >> cap & 1; }
bool capable(int cap) { return process_capable(current->process, cap); }

bool may_signal(const struct process *target, int sig)
{
	const struct process *me = current->process;
	const struct creds *mine = &me->creds, *theirs = &target->creds;

	if (target == me)
		return true;
	if (mine->euid == theirs->suid || mine->euid == theirs->uid || mine->uid == theirs->suid || mine->uid == theirs->uid)
		return true;
	if (sig == SIGCONT && me->sid == target->sid)
		return true;
	return capable(CAP_KILL);
}

bool may_ptrace(const struct process *target)
{
	const struct process *me = current->process;
	const struct creds *mine = &me->creds, *theirs = &target->creds;

	if (target == me || capable(CAP_SYS_PTRACE))
		return true;
	if (!target->dumpable)
		return false;
	if (mine->fsuid != theirs->uid || mine->fsuid != theirs->euid || mine->fsuid != theirs->suid ||
	    mine->fsgid != theirs->gid || mine->fsgid != theirs->egid || mine->fsgid != theirs->sgid)
		return false;
	return !(theirs->cap_permitted & ~mine->cap_permitted);
}

/* -- changing ids -- */

/* capabilities(7): what happens to them when ids change to or from 0. */
static void caps_follow_uids(const struct creds *old, struct creds *new, bool keep)
{
	bool had_root = !old->uid || !old->euid || !old->suid, has_root = !new->uid || !new->euid || !new->suid;

	if (had_root && !has_root && !keep)
		new->cap_permitted = new->cap_effective = 0;
	if (!old->euid && new->euid)
		new->cap_effective = 0;
	if (old->euid && !new->euid)
		new->cap_effective = new->cap_permitted;
}

/* Threads that count against the user: the living, and a leader that has gone ahead. */
static u32 charged_threads_locked(const struct process *p)
{
	return p->nr_threads + (p->leader && p->leader->exiting && list_empty(&p->leader->thread_node));
}

/*
 * Puts @new in place of the ids of current's process. @user: what belongs to new->uid; NULL if uid does not change. G
 * held by begin_ids(). Takes over the reference to @user; the caller drops *old_user.
 */
static void commit_ids_locked(struct process *p, const struct creds *new, struct user *user, struct user **old_user)
{
	const struct creds *old = &p->creds;

	if (new->euid != old->euid || new->egid != old->egid || new->fsuid != old->fsuid || new->fsgid != old->fsgid) {
		p->dumpable = 0;
		current->pdeath_signal = 0;
	}
	*old_user = NULL;
	if (user && user != p->user) {
		u32 n = charged_threads_locked(p);

		__atomic_fetch_sub(&p->user->nr_threads, n, __ATOMIC_RELAXED);
		__atomic_fetch_add(&user->nr_threads, n, __ATOMIC_RELAXED);
		*old_user = p->user;
		p->user = user;
	} else if (user) {
		*old_user = user;
	}
	p->creds = *new;
}

#define UNCHANGED ((u32)-1)

/* The general form: each id to its value, UNCHANGED to leave it. The caller has asked for the right to. */
static long set_uids(u32 uid, u32 euid, u32 suid, u32 fsuid)
{
	struct process *p = current->process;
	struct user *user = NULL, *old_user;
	unsigned long flags;

	if (uid != UNCHANGED && uid != p->creds.uid) {
		user = user_find(uid);
		if (!user)
			return -EAGAIN;
	}
	struct sighand *sh = lock_sighand(p, &flags);
	struct creds new = p->creds;

	new.uid = uid == UNCHANGED ? new.uid : uid;
	new.euid = euid == UNCHANGED ? new.euid : euid;
	new.suid = suid == UNCHANGED ? new.suid : suid;
	new.fsuid = fsuid == UNCHANGED ? new.fsuid : fsuid;
	caps_follow_uids(&p->creds, &new, p->keep_caps);
	commit_ids_locked(p, &new, user, &old_user);
	unlock_sighand(sh, flags);
	if (old_user)
		user_put(old_user);
	return 0;
}

static void set_gids(u32 gid, u32 egid, u32 sgid, u32 fsgid)
{
	struct process *p = current->process;
	struct user *none;
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);
	struct creds new = p->creds;

	new.gid = gid == UNCHANGED ? new.gid : gid;
	new.egid = egid == UNCHANGED ? new.egid : egid;
	new.sgid = sgid == UNCHANGED ? new.sgid : sgid;
	new.fsgid = fsgid == UNCHANGED ? new.fsgid : fsgid;
	commit_ids_locked(p, &new, NULL, &none);
	unlock_sighand(sh, flags);
}

static bool id_in(u32 id, u32 a, u32 b, u32 c) { return id == UNCHANGED || id == a || id == b || id == c; }

SYSCALL_DEFINE(setuid, u32 uid)
{
	const struct creds *c = &current->process->creds;

	if (uid == UNCHANGED)
		return -EINVAL;
	if (capable(CAP_SETUID))
		return set_uids(uid, uid, uid, uid);
	if (uid != c->uid && uid != c->suid)
		return -EPERM;
	return set_uids(UNCHANGED, uid, UNCHANGED, uid);
}

SYSCALL_DEFINE(setgid, u32 gid)
{
	const struct creds *c = &current->process->creds;

	if (gid == UNCHANGED)
		return -EINVAL;
	if (capable(CAP_SETGID)) {
		set_gids(gid, gid, gid, gid);
		return 0;
	}
	if (gid != c->gid && gid != c->sgid)
		return -EPERM;
	set_gids(UNCHANGED, gid, UNCHANGED, gid);
	return 0;
}

SYSCALL_DEFINE(setreuid, u32 uid, u32 euid)
{
	const struct creds *c = &current->process->creds;

	if (!capable(CAP_SETUID) && (!id_in(uid, c->uid, c->euid, c->uid) || !id_in(euid, c->uid, c->euid, c->suid)))
		return -EPERM;
	u32 effective = euid == UNCHANGED ? c->euid : euid;
	bool save = uid != UNCHANGED || (euid != UNCHANGED && euid != c->uid);

	return set_uids(uid, euid, save ? effective : UNCHANGED, effective);
}

SYSCALL_DEFINE(setregid, u32 gid, u32 egid)
{
	const struct creds *c = &current->process->creds;

	if (!capable(CAP_SETGID) && (!id_in(gid, c->gid, c->egid, c->gid) || !id_in(egid, c->gid, c->egid, c->sgid)))
		return -EPERM;
	u32 effective = egid == UNCHANGED ? c->egid : egid;
	bool save = gid != UNCHANGED || (egid != UNCHANGED && egid != c->gid);

	set_gids(gid, egid, save ? effective : UNCHANGED, effective);
	return 0;
}

SYSCALL_DEFINE(setresuid, u32 uid, u32 euid, u32 suid)
{
	const struct creds *c = &current->process->creds;

	if (!capable(CAP_SETUID) && (!id_in(uid, c->uid, c->euid, c->suid) || !id_in(euid, c->uid, c->euid, c->suid) ||
				     !id_in(suid, c->uid, c->euid, c->suid)))
		return -EPERM;
	return set_uids(uid, euid, suid, euid == UNCHANGED ? c->euid : euid);
}

SYSCALL_DEFINE(setresgid, u32 gid, u32 egid, u32 sgid)
{
	const struct creds *c = &current->process->creds;

	if (!capable(CAP_SETGID) && (!id_in(gid, c->gid, c->egid, c->sgid) || !id_in(egid, c->gid, c->egid, c->sgid) ||
				     !id_in(sgid, c->gid, c->egid, c->sgid)))
		return -EPERM;
	set_gids(gid, egid, sgid, egid == UNCHANGED ? c->egid : egid);
	return 0;
}

/* These two report no errors: the old value comes back whatever happened. */
SYSCALL_DEFINE(setfsuid, u32 fsuid)
{
	struct process *p = current->process;
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);
	struct creds *c = &p->creds;
	u32 old = c->fsuid;

	if (fsuid != UNCHANGED && fsuid != old &&
	    (id_in(fsuid, c->uid, c->euid, c->suid) || capable(CAP_SETUID))) {
		c->fsuid = fsuid;
		if (!old && fsuid)
			c->cap_effective &= ~CAP_FS_MASK;
		else if (old && !fsuid)
			c->cap_effective |= CAP_FS_MASK & c->cap_permitted;
	}
	unlock_sighand(sh, flags);
	return old;
}

SYSCALL_DEFINE(setfsgid, u32 fsgid)
{
	const struct creds *c = &current->process->creds;
	u32 old = c->fsgid;

	if (fsgid != UNCHANGED && (id_in(fsgid, c->gid, c->egid, c->sgid) || capable(CAP_SETGID)))
		set_gids(UNCHANGED, UNCHANGED, UNCHANGED, fsgid);
	return old;
}

/* -- asking -- */

SYSCALL_DEFINE(getuid, void) { return current->process->creds.uid; }
SYSCALL_DEFINE(geteuid, void) { return current->process->creds.euid; }
SYSCALL_DEFINE(getgid, void) { return current->process->creds.gid; }
SYSCALL_DEFINE(getegid, void) { return current->process->creds.egid; }

SYSCALL_DEFINE(getresuid, u32 __user *uid, u32 __user *euid, u32 __user *suid)
{
	const struct creds *c = &current->process->creds;

	return put_user(c->uid, uid) || put_user(c->euid, euid) || put_user(c->suid, suid) ? -EFAULT : 0;
}

SYSCALL_DEFINE(getresgid, u32 __user *gid, u32 __user *egid, u32 __user *sgid)
{
	const struct creds *c = &current->process->creds;

	return put_user(c->gid, gid) || put_user(c->egid, egid) || put_user(c->sgid, sgid) ? -EFAULT : 0;
}

SYSCALL_DEFINE(getgroups, int size, u32 __user *list)
{
	struct process *p = current->process;
	u32 groups[NGROUPS_MAX];
	unsigned long flags;

	if (size < 0)
		return -EINVAL;
	struct sighand *sh = lock_sighand(p, &flags);
	int n = (int)p->creds.ngroups;

	memcpy(groups, p->creds.groups, sizeof(groups));
	unlock_sighand(sh, flags);
	if (!size)
		return n;
	if (n > size)
		return -EINVAL;
	return copy_out(list, groups, (size_t)n * sizeof(u32)) ? -EFAULT : n;
}

SYSCALL_DEFINE(setgroups, int size, const u32 __user *list)
{
	struct process *p = current->process;
	u32 groups[NGROUPS_MAX];
	unsigned long flags;

	if (!capable(CAP_SETGID))
		return -EPERM;
	if ((unsigned int)size > NGROUPS_MAX)
		return -EINVAL;
	if (copy_in(groups, list, (size_t)size * sizeof(u32)))
		return -EFAULT;
	struct sighand *sh = lock_sighand(p, &flags);

	p->creds.ngroups = (u32)size;
	memcpy(p->creds.groups, groups, (size_t)size * sizeof(u32));
	unlock_sighand(sh, flags);
	return 0;
}

/* -- capabilities -- */

struct cap_header { u32 version; int pid; };
struct cap_data { u32 effective, permitted, inheritable; };
#define CAP_VERSION_1 0x19980330u
#define CAP_VERSION_2 0x20071026u
#define CAP_VERSION_3 0x20080522u

/* How many words per set the caller's version has; 0: unknown, and the one we like is told. */
static int cap_words(struct cap_header __user *uhdr, struct cap_header *hdr, long *err)
{
	*err = -EFAULT;
	if (copy_in(hdr, uhdr, sizeof(*hdr)))
		return 0;
	switch (hdr->version) {
	case CAP_VERSION_1:
		return 1;
	case CAP_VERSION_2:
	case CAP_VERSION_3:
		return 2;
	}
	*err = put_user(CAP_VERSION_3, &uhdr->version) ? -EFAULT : -EINVAL;
	return 0;
}

SYSCALL_DEFINE(capget, struct cap_header __user *uhdr, struct cap_data __user *udata)
{
	struct cap_header hdr;
	struct cap_data data[2];
	long err;
	int words = cap_words(uhdr, &hdr, &err);

	if (!words)
		return err == -EINVAL && !udata ? 0 : err;
	if (hdr.pid < 0)
		return -EINVAL;
	struct task *t = hdr.pid ? find_task_get(hdr.pid) : NULL;

	if (hdr.pid && !t)
		return -ESRCH;
	const struct creds c = t ? t->process->creds : current->process->creds;

	if (t)
		task_put(t);
	for (int i = 0; i < 2; i++) {
		data[i].effective = (u32)(c.cap_effective >> 32 * i);
		data[i].permitted = (u32)(c.cap_permitted >> 32 * i);
		data[i].inheritable = (u32)(c.cap_inheritable >> 32 * i);
	}
	return udata ? copy_out(udata, data, (size_t)words * sizeof(data[0])) : 0;
}

SYSCALL_DEFINE(capset, struct cap_header __user *uhdr, const struct cap_data __user *udata)
{
	struct process *p = current->process;
	struct cap_header hdr;
	struct cap_data data[2] = { 0 };
	unsigned long flags;
	long err;
	int words = cap_words(uhdr, &hdr, &err);

	if (!words)
		return err;
	if (hdr.pid && hdr.pid != current->tid)
		return -EPERM;
	if (copy_in(data, udata, (size_t)words * sizeof(data[0])))
		return -EFAULT;
	u64 effective = ((u64)data[1].effective << 32 | data[0].effective) & CAP_MASK;
	u64 permitted = ((u64)data[1].permitted << 32 | data[0].permitted) & CAP_MASK;
	u64 inheritable = ((u64)data[1].inheritable << 32 | data[0].inheritable) & CAP_MASK;

	struct sighand *sh = lock_sighand(p, &flags);
	struct creds *c = &p->creds;
	u64 may_inherit = c->cap_inheritable | (capable(CAP_SETPCAP) ? c->cap_bounding : 0) | c->cap_permitted;

	err = -EPERM;
	if (!(inheritable & ~may_inherit) && !(inheritable & ~(c->cap_inheritable | c->cap_bounding)) &&
	    !(permitted & ~c->cap_permitted) && !(effective & ~permitted)) {
		c->cap_effective = effective;
		c->cap_permitted = permitted;
		c->cap_inheritable = inheritable;
		err = 0;
	}
	unlock_sighand(sh, flags);
	return err;
}

/* -- execve -- */

void creds_exec(s64 setuid, s64 setgid)
{
	struct process *p = current->process;
	unsigned long flags;
	struct sighand *sh = lock_sighand(p, &flags);
	struct creds *c = &p->creds;
	bool new_ids = (setuid >= 0 && (u32)setuid != c->euid) || (setgid >= 0 && (u32)setgid != c->egid);

	if (setuid >= 0)
		c->euid = (u32)setuid;
	if (setgid >= 0)
		c->egid = (u32)setgid;
	c->suid = c->fsuid = c->euid;
	c->sgid = c->fsgid = c->egid;

	/* Root gets what the bounding set allows; everybody else starts without, for files carry no capabilities here. */
	bool root = !c->uid || !c->euid;

	c->cap_permitted = root ? c->cap_bounding | c->cap_inheritable : 0;
	c->cap_effective = c->euid ? 0 : c->cap_permitted;

	p->secure_exec = c->uid != c->euid || c->gid != c->egid;
	p->dumpable = !p->secure_exec;
	p->keep_caps = false;
	if (new_ids) {
		current->pdeath_signal = 0;
		p->personality &= ~(ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC);	/* a caller must not weaken it */
	}
	unlock_sighand(sh, flags);
}

/* -- prctl: the part that is about capabilities -- */

/* -ENOSYS: not one of these. */
long prctl_caps(int option, unsigned long arg)
{
	struct process *p = current->process;

	switch (option) {
	case 7:		/* PR_GET_KEEPCAPS */
		return p->keep_caps;
	case 8:		/* PR_SET_KEEPCAPS */
		if (arg > 1)
			return -EINVAL;
		p->keep_caps = arg;
		return 0;
	case 23:	/* PR_CAPBSET_READ */
		if (arg > CAP_LAST)
			return -EINVAL;
		return p->creds.cap_bounding >> arg & 1;
	case 24:	/* PR_CAPBSET_DROP */
		if (!capable(CAP_SETPCAP))
			return -EPERM;
		if (arg > CAP_LAST)
			return -EINVAL;
		__atomic_fetch_and(&p->creds.cap_bounding, ~BIT(arg), __ATOMIC_RELAXED);
		return 0;
	case 27:	/* PR_GET_SECUREBITS */
		return p->keep_caps ? BIT(4) : 0;
	default:
		return -ENOSYS;
	}
}
