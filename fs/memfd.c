/*
 * Files of tmpfs that have a name but no place: memfd_create(2), shared anonymous memory, SysV shared memory.
 *
 * They live on a tmpfs of their own, mounted nowhere and without limits; each has a dentry that was never in the tree, so
 * that its path reads "/memfd:NAME (deleted)".
 */
#include "fs/internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/hugetlb.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define MFD_CLOEXEC		1u
#define MFD_ALLOW_SEALING	2u
#define MFD_HUGETLB		4u
#define MFD_NOEXEC_SEAL		8u
#define MFD_EXEC		0x10u
#define MFD_FLAGS		(MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_NOEXEC_SEAL | MFD_EXEC)

#define MEMFD_PREFIX		"memfd:"
#define MEMFD_NAME_MAX		(NAME_MAX - (sizeof(MEMFD_PREFIX) - 1))	/* 249 */

static struct mount *shmem_mount;

/*
 * A file on @inode, which no directory knows: it dies with the last user. Takes over the inode, also when it fails. @name as in
 * "/NAME (deleted)". ERR_PTR.
 */
struct file *unlinked_file(struct mount *mnt, struct inode *inode, const char *name, int flags)
{
	struct path path = { mnt, dentry_alloc(mnt->sb, mnt->root, name, strlen(name), inode) };

	if (!path.dentry) {
		inode_put(inode);
		return ERR_PTR(-ENOMEM);
	}
	inode->nlink = 0;
	path.dentry->unhashed = true;
	struct file *f = open_path(&path, flags | O_LARGEFILE);

	dentry_put(path.dentry);
	return f;
}

static struct file *create(const char *name, u32 mode, u64 size)
{
	struct inode *inode = ramfs_inode(shmem_mount->sb, S_IFREG | mode, 0);

	if (!inode)
		return ERR_PTR(-ENOSPC);
	inode->size = size;
	return unlinked_file(shmem_mount, inode, name, O_RDWR);
}

struct file *shmem_file_create(const char *name, u64 size)
{
	return create(name, 0777, size);
}

SYSCALL_DEFINE(memfd_create, const char __user *uname, unsigned int flags)
{
	/* Sizes of huge pages stand in the upper bits, and only together with MFD_HUGETLB. */
	unsigned int known = flags & MFD_HUGETLB ? MFD_FLAGS | HUGETLB_FLAG_MASK << HUGETLB_FLAG_SHIFT : MFD_FLAGS;

	if (flags & ~known)
		return -EINVAL;
	if ((flags & MFD_EXEC) && (flags & MFD_NOEXEC_SEAL))
		return -EINVAL;

	char name[NAME_MAX + 1] = MEMFD_PREFIX;
	ssize_t len = strncpy_from_user(name + sizeof(MEMFD_PREFIX) - 1, uname, MEMFD_NAME_MAX + 1);

	if (len < 0)
		return len == -ENAMETOOLONG ? -EINVAL : len;

	struct hstate *h = flags & MFD_HUGETLB ? hstate_of_log2(flags >> HUGETLB_FLAG_SHIFT & HUGETLB_FLAG_MASK) : NULL;

	if ((flags & MFD_HUGETLB) && !h)
		return -ENODEV;		/* no pool of that size */

	int fd = fd_reserve(flags & MFD_CLOEXEC ? O_CLOEXEC : 0);

	if (fd < 0)
		return fd;
	struct file *f = h ? hugetlb_file_setup(h, name, 0, O_RDWR, false) : create(name, 0777, 0);

	if (IS_ERR(f)) {
		fd_release(fd);
		return PTR_ERR(f);
	}
	if (flags & MFD_NOEXEC_SEAL)
		f->inode->mode &= ~0111u;
	if (flags & MFD_NOEXEC_SEAL)
		f->inode->seals = F_SEAL_EXEC;		/* implies that it can be sealed */
	else if (flags & MFD_ALLOW_SEALING)
		f->inode->seals = 0;
	fd_install(fd, f);
	return fd;
}

/* -- seals -- */

#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | F_SEAL_EXEC)

static bool can_be_sealed(struct file *f)
{
	return S_ISREG(f->inode->mode) && (f->inode->mapping.is_shmem || file_is_hugetlbfs(f));
}

/* Refuses new shared writable mappings (mm/mmap.c counts them up from here), unless there are some. */
static bool deny_writable_maps(struct mapping *m)
{
	s64 none = 0;

	return __atomic_compare_exchange_n(&m->writable_maps, &none, -1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) || none < 0;
}

long memfd_add_seals(struct file *f, unsigned int seals)
{
	struct inode *inode = f->inode;
	long err = 0;

	if (!(f->mode & FMODE_WRITE))
		return -EPERM;
	if (seals & ~(unsigned int)ALL_SEALS)
		return -EINVAL;
	if (!can_be_sealed(f))
		return -EINVAL;
	down_write(&inode->lock);
	if (inode->seals & F_SEAL_SEAL)
		err = -EPERM;
	else if ((seals & F_SEAL_WRITE) && !(inode->seals & F_SEAL_WRITE) && !deny_writable_maps(&inode->mapping))
		err = -EBUSY;
	if (!err) {
		/* Sealed against changes of the executable bits, an executable file is sealed against all that matters. */
		if ((seals & F_SEAL_EXEC) && (inode->mode & 0111))
			seals |= F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
		inode->seals |= seals;
	}
	up_write(&inode->lock);
	return err;
}

long memfd_get_seals(struct file *f)
{
	return can_be_sealed(f) ? (long)READ_ONCE(f->inode->seals) : -EINVAL;
}

void memfd_init(void)
{
	struct super_block *sb = ramfs_create("tmpfs", NULL, false);

	if (IS_ERR(sb))
		panic("no memory for shared memory files");
	sb->magic = 0x01021994;
	shmem_mount = mount_internal(sb);
	if (!shmem_mount)
		panic("no memory for shared memory files");
}
