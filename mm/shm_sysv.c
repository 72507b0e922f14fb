/*
 * System V shared memory: segments with a number and perhaps a key, attached with shmat. A segment is an unlinked RAM file
 * (A4 in other clothes); attaching maps it through a file of our own on the same inode, whose VMAs are counted, so that a
 * segment marked for removal goes when the last of them does.
 *
 * Locks: shm_lock guards the table and every field of a segment that changes. It is taken inside mmap_lock (open and close of
 * a VMA), so nothing is done under it that could want mmap_lock or an inode lock: files are made before and dropped after.
 */
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/mutex.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/time.h"
#include "mm/hugetlb.h"
#include "mm/mmap.h"
#include "mm/slab.h"
#include "mm/uaccess.h"
#include "mm/vma_internal.h"

#define IPC_PRIVATE	0
#define IPC_CREAT	01000
#define IPC_EXCL	02000
#define IPC_RMID	0
#define IPC_SET		1
#define IPC_STAT	2
#define IPC_INFO	3
#define SHM_LOCK	11
#define SHM_UNLOCK	12
#define SHM_STAT	13
#define SHM_INFO	14
#define SHM_STAT_ANY	15
#define SHM_RDONLY	010000
#define SHM_RND		020000
#define SHM_REMAP	040000
#define SHM_EXEC	0100000
#define SHM_HUGETLB	04000
#define SHM_NORESERVE	010000	/* of shmget; SHM_RDONLY of shmat has the same value */
#define SHM_DEST	01000	/* in mode: goes with the last detach */
#define SHM_LOCKED	02000
#define SHMMNI		4096
#define CAP_IPC_OWNER	15

u64 sysctl_shmmax = ~0ul - (1ul << 24);
u64 sysctl_shmall = ~0ul - (1ul << 24);		/* pages */

/*   I  constant   S  shm_lock */
struct shm_segment {
	struct refcount	 refs;		/* one while in the table, one per attached file, one per call at work */
	int		 id;		/* I  sequence << 12 | index */
	int		 key;		/* S  IPC_PRIVATE once it is marked for removal */
	struct file	*file;		/* I  counted */
	size_t		 size;		/* I  as asked for */
	u32		 uid, gid;	/* S */
	u32		 cuid, cgid;	/* I */
	u32		 mode;		/* S  permission bits, SHM_DEST, SHM_LOCKED */
	u64		 nattch;	/* S  VMAs */
	s64		 atime, dtime, ctime;	/* S  seconds */
	int		 cpid, lpid;	/* S */
	char		 name[32];	/* I  for /proc/PID/maps */
};

/* User layouts of x86-64. */
struct ipc64_perm {
	int	key;
	u32	uid, gid, cuid, cgid, mode;
	u16	seq, pad;
	u64	unused[2];
};
struct shmid64_ds {
	struct ipc64_perm perm;
	u64	segsz;
	s64	atime, dtime, ctime;
	int	cpid, lpid;
	u64	nattch;
	u64	unused[2];
};
_Static_assert(sizeof(struct shmid64_ds) == 112, "user ABI");
struct shminfo64 { u64 shmmax, shmmin, shmmni, shmseg, shmall, unused[4]; };
struct shm_info { int used_ids; u64 tot, rss, swp, attempts, successes; };

static struct mutex shm_lock = MUTEX_INIT(shm_lock, LOCK_KMUTEX);
static struct shm_segment *table[SHMMNI];	/* S */
static unsigned int sequence;			/* S  so that an old number does not name a new segment */
static u64 total_pages;				/* S */

static s64 now_seconds(void) { return (s64)(ktime_get_real_ns() / NSEC_PER_SEC); }

/* -- segments -- */

static void segment_put(struct shm_segment *seg)
{
	if (!refcount_dec_and_test(&seg->refs))
		return;
	file_put(seg->file);
	kfree(seg);
}

/* S held. Out of the table; the caller drops the table's reference after the lock. */
static void remove_locked(struct shm_segment *seg)
{
	table[seg->id % SHMMNI] = NULL;
	total_pages -= ALIGN_UP(seg->size, PAGE_SIZE) >> PAGE_SHIFT;
}

/* S held. NULL: no such number. */
static struct shm_segment *find_locked(int id)
{
	struct shm_segment *seg = id >= 0 ? table[id % SHMMNI] : NULL;

	return seg && seg->id == id ? seg : NULL;
}

static bool in_group(const struct creds *c, u32 gid)
{
	if (c->egid == gid)
		return true;
	for (u32 i = 0; i < c->ngroups; i++)
		if (c->groups[i] == gid)
			return true;
	return false;
}

/* S held. @want: permission bits in any of the three places, as shmget's flags have them. */
static int check_perms(const struct shm_segment *seg, u32 want)
{
	const struct creds *c = &current->process->creds;
	u32 granted = seg->mode;

	want = (want >> 6 | want >> 3 | want) & 7;
	if (c->euid == seg->cuid || c->euid == seg->uid)
		granted >>= 6;
	else if (in_group(c, seg->cgid) || in_group(c, seg->gid))
		granted >>= 3;
	return (want & ~granted & 7) && !capable(CAP_IPC_OWNER) ? -EACCES : 0;
}

/* S held. Owner, creator or privileged. */
static bool may_control(const struct shm_segment *seg)
{
	u32 euid = current->process->creds.euid;

	return euid == seg->cuid || euid == seg->uid || capable(CAP_SYS_ADMIN);
}

/* -- attached: the file and its VMAs -- */

static struct shm_segment *segment_of(const struct vma *vma) { return vma->file->private; }
static size_t segment_page_size(const struct shm_segment *seg)
{
	return file_is_hugetlbfs(seg->file) ? huge_page_size(hstate_file(seg->file)) : PAGE_SIZE;
}

static void shm_open(struct vma *vma)
{
	struct shm_segment *seg = segment_of(vma);

	mutex_lock(&shm_lock);
	seg->nattch++;
	seg->atime = now_seconds();
	seg->lpid = current->process->tgid;
	mutex_unlock(&shm_lock);
}

/* The VMA's file still holds a reference to the segment, so it is not freed here, under mmap_lock. */
static void shm_close(struct vma *vma)
{
	struct shm_segment *seg = segment_of(vma);
	bool gone;

	mutex_lock(&shm_lock);
	seg->dtime = now_seconds();
	seg->lpid = current->process->tgid;
	gone = --seg->nattch == 0 && (seg->mode & SHM_DEST);
	if (gone)
		remove_locked(seg);
	mutex_unlock(&shm_lock);
	if (gone)
		segment_put(seg);
}

static unsigned int shm_fault(struct vm_fault *vmf)
{
	return filemap_vma_ops.fault(vmf);
}

static const char *shm_vma_name(struct vma *vma)
{
	return segment_of(vma)->name;
}

static const struct vma_ops shm_vma_ops = { .open = shm_open, .close = shm_close, .fault = shm_fault, .name = shm_vma_name };

/* The same for a segment of huge pages: both owners want to know. */
static void shm_huge_open(struct vma *vma)
{
	hugetlb_vma_ops.open(vma);
	shm_open(vma);
}

static void shm_huge_close(struct vma *vma)
{
	hugetlb_vma_ops.close(vma);
	shm_close(vma);
}

static int shm_huge_may_split(struct vma *vma, uintptr_t addr)
{
	return hugetlb_vma_ops.may_split(vma, addr);
}

static const struct vma_ops shm_huge_vma_ops = {
	.open = shm_huge_open, .close = shm_huge_close, .may_split = shm_huge_may_split, .name = shm_vma_name,
};

static int shm_mmap(struct file *f, struct vma *vma)
{
	bool huge = file_is_hugetlbfs(f);
	int err = huge ? segment_of(vma)->file->ops->mmap(f, vma) : generic_file_mmap(f, vma);

	if (err)
		return err;
	vma->ops = huge ? &shm_huge_vma_ops : &shm_vma_ops;
	shm_open(vma);
	return 0;
}

static void shm_release(struct file *f)
{
	segment_put(f->private);
}

static const struct file_ops shm_file_ops = { .mmap = shm_mmap, .release = shm_release };

/* -- shmget -- */

/* D15. ERR_PTR. */
static struct file *huge_file(const char *name, size_t size, int flags)
{
	struct hstate *h = hstate_of_log2((unsigned int)flags >> HUGETLB_FLAG_SHIFT & HUGETLB_FLAG_MASK);

	if (!h)
		return ERR_PTR(-EINVAL);
	if (!capable(CAP_IPC_LOCK) && !in_group(&current->process->creds, READ_ONCE(sysctl_hugetlb_shm_group)))
		return ERR_PTR(-EPERM);
	size = ALIGN_UP(size, huge_page_size(h));
	return size ? hugetlb_file_setup_reserved(h, name, size, flags & SHM_NORESERVE) : ERR_PTR(-EINVAL);
}

/* A new segment, in no table yet. ERR_PTR. */
static struct shm_segment *segment_new(int key, size_t size, int flags)
{
	const struct creds *c = &current->process->creds;
	struct shm_segment *seg = kzalloc(sizeof(*seg), GFP_KERNEL);
	char name[16];

	if (!seg)
		return ERR_PTR(-ENOMEM);
	snprintf(name, sizeof(name), "SYSV%08x", (u32)key);
	seg->file = flags & SHM_HUGETLB ? huge_file(name, size, flags) : shmem_file_create(name, ALIGN_UP(size, PAGE_SIZE));
	if (IS_ERR(seg->file)) {
		long err = PTR_ERR(seg->file);

		kfree(seg);
		return ERR_PTR(err);
	}
	refcount_set(&seg->refs, 1);
	snprintf(seg->name, sizeof(seg->name), "/%s (deleted)", name);
	seg->key = key;
	seg->size = size;
	seg->uid = seg->cuid = c->euid;
	seg->gid = seg->cgid = c->egid;
	seg->mode = (u32)flags & 0777;
	seg->ctime = now_seconds();
	seg->cpid = current->process->tgid;
	return seg;
}

/* S held. The number, or -ENOSPC. */
static int insert_locked(struct shm_segment *seg)
{
	u64 pages = ALIGN_UP(seg->size, PAGE_SIZE) >> PAGE_SHIFT;

	if (total_pages + pages < total_pages || total_pages + pages > sysctl_shmall)
		return -ENOSPC;
	for (unsigned int i = 0; i < SHMMNI; i++)
		if (!table[i]) {
			seg->id = (int)((sequence++ % (0x7fffffffu / SHMMNI)) * SHMMNI + i);
			seg->file->inode->ino = (u64)seg->id;	/* what /proc/PID/maps shows; in no directory */
			table[i] = seg;
			total_pages += pages;
			return seg->id;
		}
	return -ENOSPC;
}

/* S held. The existing segment of @key answers; 0: there is none. */
static int get_existing_locked(int key, size_t size, int flags)
{
	for (unsigned int i = 0; key != IPC_PRIVATE && i < SHMMNI; i++) {
		struct shm_segment *seg = table[i];
		int err;

		if (!seg || seg->key != key)
			continue;
		if ((flags & (IPC_CREAT | IPC_EXCL)) == (IPC_CREAT | IPC_EXCL))
			return -EEXIST;
		if (seg->size < size)
			return -EINVAL;
		err = check_perms(seg, (u32)flags);
		return err ? err : seg->id + 1;
	}
	return 0;
}

SYSCALL_DEFINE(shmget, int key, size_t size, int flags)
{
	struct shm_segment *seg;
	int ret;

	mutex_lock(&shm_lock);
	ret = get_existing_locked(key, size, flags);
	mutex_unlock(&shm_lock);
	if (ret)
		return ret < 0 ? ret : ret - 1;
	if (key != IPC_PRIVATE && !(flags & IPC_CREAT))
		return -ENOENT;
	if (!size || size > sysctl_shmmax)
		return -EINVAL;
	if (ALIGN_UP(size, PAGE_SIZE) < size)
		return -ENOSPC;
	seg = segment_new(key, size, flags);
	if (IS_ERR(seg))
		return PTR_ERR(seg);

	mutex_lock(&shm_lock);
	ret = get_existing_locked(key, size, flags);	/* somebody may have been faster */
	if (ret)
		ret = ret < 0 ? ret : ret - 1;
	else
		ret = insert_locked(seg);
	bool ours = ret >= 0 && find_locked(ret) == seg;
	mutex_unlock(&shm_lock);
	if (!ours)
		segment_put(seg);
	return ret;
}

/* -- shmat, shmdt -- */

SYSCALL_DEFINE(shmat, int id, uintptr_t addr, int flags)
{
	unsigned long prot = PROT_READ | (flags & SHM_RDONLY ? 0 : PROT_WRITE) | (flags & SHM_EXEC ? PROT_EXEC : 0);
	u32 want = 0444u | (flags & SHM_RDONLY ? 0 : 0222u) | (flags & SHM_EXEC ? 0111u : 0);
	unsigned long map_flags = MAP_SHARED;
	struct shm_segment *seg;
	struct file *file;
	long ret;

	if (id < 0)
		return -EINVAL;
	if (addr & ~PAGE_MASK) {
		if (!(flags & SHM_RND))
			return -EINVAL;
		addr &= PAGE_MASK;
	}
	if ((flags & SHM_REMAP) && !addr)
		return -EINVAL;
	if (addr)
		map_flags |= flags & SHM_REMAP ? MAP_FIXED : MAP_FIXED_NOREPLACE;

	mutex_lock(&shm_lock);
	seg = find_locked(id);
	ret = seg ? check_perms(seg, want) : -EINVAL;
	if (!ret)
		refcount_inc(&seg->refs);	/* becomes the file's */
	mutex_unlock(&shm_lock);
	if (ret)
		return ret;
	file = anon_file_share(seg->file, &shm_file_ops, seg, flags & SHM_RDONLY ? O_RDONLY : O_RDWR);
	if (IS_ERR(file)) {
		segment_put(seg);
		return PTR_ERR(file);
	}
	ret = vm_mmap(file, addr, seg->size, prot, map_flags, 0);
	file_put(file);
	return ret == -EEXIST ? -EINVAL : ret;
}

/*
 * The attach at @addr may have been cut by munmap or mprotect since: every VMA that still shows the right part of the same
 * file at the right distance goes.
 */
SYSCALL_DEFINE(shmdt, uintptr_t addr)
{
	struct mm *mm = current->mm;
	struct file *file = NULL;
	uintptr_t end = TASK_SIZE;
	struct vma *vma, *next;
	long ret = -EINVAL;

	if (addr & ~PAGE_MASK)
		return -EINVAL;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	for (vma = vma_find(mm, addr); vma && vma->start < end; vma = next) {
		next = vma_next(vma);
		if ((vma->ops != &shm_vma_ops && vma->ops != &shm_huge_vma_ops) || vma->start < addr || (vma->start - addr) >> PAGE_SHIFT != vma->pgoff)
			continue;
		if (!file) {
			file = vma->file;	/* stays alive: removed VMAs keep it until the unlock */
			end = addr + ALIGN_UP(segment_of(vma)->size, segment_page_size(segment_of(vma)));
		}
		if (vma->file != file)
			continue;
		ret = do_munmap_locked(mm, vma->start, vma->end);
		if (ret)
			break;
	}
	mmap_write_unlock(mm);
	return ret;
}

/* -- shmctl -- */

static void fill_ds(struct shmid64_ds *ds, const struct shm_segment *seg)
{
	*ds = (struct shmid64_ds){
		.perm = { .key = seg->key, .uid = seg->uid, .gid = seg->gid, .cuid = seg->cuid, .cgid = seg->cgid,
			  .mode = seg->mode, .seq = (u16)(seg->id / SHMMNI) },
		.segsz = seg->size, .atime = seg->atime, .dtime = seg->dtime, .ctime = seg->ctime,
		.cpid = seg->cpid, .lpid = seg->lpid, .nattch = seg->nattch,
	};
}

/* S held. The highest index in use, or 0. */
static int highest_locked(int *used)
{
	int highest = 0;

	*used = 0;
	for (int i = 0; i < SHMMNI; i++)
		if (table[i]) {
			highest = i;
			++*used;
		}
	return highest;
}

/* IPC_STAT by number; SHM_STAT and SHM_STAT_ANY by index, answering with the number. */
static long shm_stat(int id, int cmd, void __user *buf)
{
	struct shmid64_ds ds;
	struct shm_segment *seg;
	long ret;

	mutex_lock(&shm_lock);
	seg = cmd == IPC_STAT ? find_locked(id) : id < SHMMNI ? table[id] : NULL;
	ret = seg ? cmd == SHM_STAT_ANY ? 0 : check_perms(seg, 0444) : -EINVAL;
	if (!ret) {
		fill_ds(&ds, seg);
		ret = cmd == IPC_STAT ? 0 : seg->id;
	}
	mutex_unlock(&shm_lock);
	return ret >= 0 && copy_to_user(buf, &ds, sizeof(ds)) ? -EFAULT : ret;
}

static long shm_limits(int cmd, void __user *buf)
{
	struct shminfo64 limits = { .shmmax = sysctl_shmmax, .shmmin = 1, .shmmni = SHMMNI, .shmseg = SHMMNI, .shmall = sysctl_shmall };
	struct shm_info info = { 0 };
	int highest;

	mutex_lock(&shm_lock);
	highest = highest_locked(&info.used_ids);
	info.tot = total_pages;
	for (int i = 0; i < SHMMNI; i++)
		if (table[i])
			info.rss += READ_ONCE(table[i]->file->inode->mapping.nr_pages) * (segment_page_size(table[i]) / PAGE_SIZE);
	mutex_unlock(&shm_lock);
	if (cmd == IPC_INFO ? copy_to_user(buf, &limits, sizeof(limits)) : copy_to_user(buf, &info, sizeof(info)))
		return -EFAULT;
	return highest;
}

/* IPC_RMID, IPC_SET, SHM_LOCK, SHM_UNLOCK. */
static long shm_change(int id, int cmd, const struct shmid64_ds *ds)
{
	struct shm_segment *seg;
	bool gone = false;
	long err = 0;

	mutex_lock(&shm_lock);
	seg = find_locked(id);
	if (!seg)
		err = -EINVAL;
	else if (!may_control(seg) && !((cmd == SHM_LOCK || cmd == SHM_UNLOCK) && capable(CAP_IPC_LOCK)))
		err = -EPERM;
	else if (cmd == SHM_LOCK && !can_do_mlock())
		err = -EPERM;
	if (err)
		goto unlock;
	switch (cmd) {
	case IPC_RMID:
		seg->mode |= SHM_DEST;
		seg->key = IPC_PRIVATE;
		gone = !seg->nattch;
		if (gone)
			remove_locked(seg);
		break;
	case IPC_SET:
		seg->uid = ds->perm.uid;
		seg->gid = ds->perm.gid;
		seg->mode = (seg->mode & ~0777u) | (ds->perm.mode & 0777);
		seg->ctime = now_seconds();
		break;
	case SHM_LOCK:
		seg->mode |= SHM_LOCKED;	/* shared memory is never swapped: nothing else to do */
		break;
	default:
		seg->mode &= ~(u32)SHM_LOCKED;
	}
unlock:
	mutex_unlock(&shm_lock);
	if (gone)
		segment_put(seg);
	return err;
}

SYSCALL_DEFINE(shmctl, int id, int cmd, void __user *buf)
{
	struct shmid64_ds ds;

	if (cmd < 0 || id < 0)
		return -EINVAL;
	switch (cmd) {
	case IPC_INFO:
	case SHM_INFO:
		return shm_limits(cmd, buf);
	case IPC_STAT:
	case SHM_STAT:
	case SHM_STAT_ANY:
		return shm_stat(id, cmd, buf);
	case IPC_SET:
		if (copy_in(&ds, buf, sizeof(ds)))
			return -EFAULT;
		return shm_change(id, cmd, &ds);
	case IPC_RMID:
	case SHM_LOCK:
	case SHM_UNLOCK:
		return shm_change(id, cmd, NULL);
	default:
		return -EINVAL;
	}
}
