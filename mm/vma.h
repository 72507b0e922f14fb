/*
 * VMAs: one mapping, [start, end) of one mm with the same rights and the same backing (SEMANTICS A1), and their
 * per-VMA locks (SEMANTICS C). Find, split and merge are in mm/vma.c, locking in mm/vma_lock.c.
 */
#ifndef MM_VMA_H
#define MM_VMA_H

#include "kernel/list.h"
#include "kernel/rcu.h"
#include "kernel/rwsem.h"
#include "mm/mm.h"

#define VM_READ		0x00000001ul
#define VM_WRITE	0x00000002ul
#define VM_EXEC		0x00000004ul
#define VM_SHARED	0x00000008ul	/* MAYSHARE and the file was opened writable */
#define VM_MAYREAD	0x00000010ul
#define VM_MAYWRITE	0x00000020ul
#define VM_MAYEXEC	0x00000040ul
#define VM_MAYSHARE	0x00000080ul	/* mapped with MAP_SHARED */
#define VM_GROWSDOWN	0x00000100ul
#define VM_UFFD_MISSING	0x00000200ul
#define VM_PFNMAP	0x00000400ul	/* device memory: no struct page is counted */
#define VM_UFFD_WP	0x00001000ul
#define VM_LOCKED	0x00002000ul
#define VM_IO		0x00004000ul
#define VM_SEQ_READ	0x00008000ul
#define VM_RAND_READ	0x00010000ul
#define VM_DONTCOPY	0x00020000ul	/* MADV_DONTFORK */
#define VM_DONTEXPAND	0x00040000ul
#define VM_LOCKONFAULT	0x00080000ul
#define VM_ACCOUNT	0x00100000ul
#define VM_NORESERVE	0x00200000ul
#define VM_HUGETLB	0x00400000ul
#define VM_SYNC		0x00800000ul	/* MAP_SYNC: remembered, shown, means nothing without persistent memory */
#define VM_WIPEONFORK	0x02000000ul
#define VM_DONTDUMP	0x04000000ul
#define VM_UFFD_MINOR	0x08000000ul
#define VM_MERGEABLE	0x80000000ul
#define VM_HUGEPAGE	0x20000000ul
#define VM_NOHUGEPAGE	0x40000000ul
#define VM_DROPPABLE	(1ul << 40)	/* MAP_DROPPABLE: may vanish under memory pressure; here it never does */
#define VM_SEALED	(1ul << 63)	/* mseal: never unmapped, moved or given other rights */
#define VM_STACK	VM_GROWSDOWN
#define VM_UFFD_ANY	(VM_UFFD_MISSING | VM_UFFD_WP | VM_UFFD_MINOR)
#define VM_ACCESS	(VM_READ | VM_WRITE | VM_EXEC)

struct file;
struct mapping;
struct anon_vma;
struct uffd;
struct hugetlb_vma_lock;
struct vma;
struct vm_fault;

/* What a mapping's owner supplies; all NULL for anonymous memory. */
struct vma_ops {
	void	(*open)(struct vma *vma);		/* a copy was made by split or fork; mmap_lock write */
	void	(*close)(struct vma *vma);		/* going away; mmap_lock write, may sleep */
	unsigned int (*fault)(struct vm_fault *vmf);	/* page missing: fills vmf->page, referenced and locked (mm/fault.h) */
	unsigned int (*page_mkwrite)(struct vm_fault *vmf);	/* a clean shared page becomes writable */
	const char *(*name)(struct vma *vma);		/* for /proc/PID/maps */
	int	(*may_split)(struct vma *vma, uintptr_t addr);	/* 0 or -EINVAL */
};

/*
 *   I  set before the VMA can be found, then constant
 *   V  write: mmap_lock for write and VMA write-locked; read: mmap_lock or the VMA lock in any mode
 *   F  mapping->i_mmap_lock    N  anon_vma->lock    A  atomic
 */
struct vma {
	uintptr_t	 start;		/* V  page aligned */
	uintptr_t	 end;		/* V  first byte after us; start < end */
	struct mm	*mm;		/* I  outlives us */
	u64		 flags;		/* V  VM_* */
	u64		 page_prot;	/* V  PTE bits for a present page of these flags, without WRITE for private and tracked ones */
	u64		 pgoff;		/* V  page number in the file; anonymous: linear index, start >> PAGE_SHIFT at creation */
	/*
	 * The per-VMA lock. lock_seq equals mm->lock_seq while write-locked (mmap_lock held for write);
	 * faults hold lock for read. The lock has a line of its own: readers write it.
	 */
	u64		 lock_seq;	/* V written under mmap_lock write */
	bool		 detached;	/* V  set before it leaves the tree, never cleared */
	struct anon_vma	*anon_vma;	/* NULL until prepared; set once: mmap_lock (read) + page_table_lock; V to clear */
	struct file	*file;		/* I  counted; NULL for anonymous */
	struct mapping	*mapping;	/* I  file's page cache; NULL for anonymous */
	const struct vma_ops *ops;	/* I  NULL for anonymous */
	struct uffd	*uffd;		/* V  set iff flags & VM_UFFD_ANY; not counted: the end of a context unregisters its VMAs first */
	struct hugetlb_vma_lock *hugetlb_lock;	/* F for write, or not yet in i_mmap; hugetlb.sync=vma, else NULL */
	void		*private;	/* V  owner's (hugetlb reservation map) */
	struct rwsem	 lock __aligned(64);
	struct list_head i_mmap_node __aligned(64);	/* F  linked iff mapping && VMA in the tree */
	struct list_head anon_vma_node;	/* N  linked iff anon_vma */
	struct rcu_head	 rcu;		/* also links mm->dead_vmas */
};

static inline bool vma_is_anonymous(const struct vma *v) { return !v->ops; }
static inline bool vma_is_private(const struct vma *v) { return !(v->flags & VM_MAYSHARE); }
static inline u64 vma_pages(const struct vma *v) { return (v->end - v->start) >> PAGE_SHIFT; }
static inline u64 linear_index(const struct vma *v, uintptr_t addr) { return v->pgoff + ((addr - v->start) >> PAGE_SHIFT); }

/* -- mm/vma.c: structure. mmap_lock for write unless stated -- */
struct vma *vma_alloc(struct mm *mm);			/* zeroed, lock initialised, counts as write-locked, not in the tree; NULL: no memory */
void vma_free(struct vma *vma);				/* never was in a tree: drops file, frees at once */
struct vma *vma_dup(struct vma *vma);			/* for split and fork: new lock, file counted, not linked */
static inline struct vma *vma_find(struct mm *mm, uintptr_t addr) { return vma_tree_find(&mm->vmas, addr); }	/* first with end > addr; mmap_lock any */
struct vma *vma_lookup(struct mm *mm, uintptr_t addr);	/* the one that contains addr, or NULL; mmap_lock any */
struct vma *vma_next(struct vma *vma);			/* mmap_lock any */
struct vma *vma_prev(struct vma *vma);
/* Makes @addr a VMA boundary; @vma keeps the lower part. 0, -ENOMEM (also over max_map_count). */
int __must_check vma_split(struct vma *vma, uintptr_t addr);
/* Sets new flags (and uffd) on [start, end) of @vma: splits and merges with equals; returns the VMA that now covers it. ERR_PTR. */
struct vma *vma_modify(struct vma *vma, uintptr_t start, uintptr_t end, u64 new_flags, struct uffd *uffd);
/* A new VMA goes in: write-locked (C6), rmap linked, counted. Tree reserved before; cannot fail. */
void vma_insert(struct vma *vma);
/* Out of tree and rmap, detached (C8); close, file and memory follow at mmap_write_unlock. Its pages are zapped before. Cannot fail. */
void vma_remove(struct vma *vma);
/* Maps [start, end) by growing @prev or @next, the VMAs on either side (or NULL), if everything agrees (A2); which, or NULL. Cannot fail. */
struct vma *vma_merge_new(struct vma *prev, struct vma *next, uintptr_t start, uintptr_t end, u64 flags, struct file *file, u64 pgoff);
/* Bounds of @vma, rmap walkers kept out meanwhile; pgoff follows start. Write-locked; must not overlap a neighbour. */
void vma_set_bounds(struct vma *vma, uintptr_t start, uintptr_t end);
void vma_set_flags(struct vma *vma, u64 flags);		/* with page_prot; write-locked */
bool vma_tracks_dirty(const struct vma *vma);		/* shared, and a first write must be noticed: map it read-only until then */
u64 vm_page_prot(u64 vm_flags, bool tracked);		/* PTE bits; PROT_WRITE implies readable (A17) */
void vma_check_mm(struct mm *mm);			/* debug walker of all invariants */

/* -- mm/vma_lock.c: per-VMA locks -- */
/* RCU lookup and read lock (C1). NULL: take the mmap_lock path instead (C12). Never sleeps. */
struct vma *vma_lock_under_rcu(struct mm *mm, uintptr_t addr);
struct vma *vma_lock_after_writer(struct mm *mm, uintptr_t addr);	/* when that failed and we may sleep: waits for the writer, not for mmap_lock; or NULL */
void vma_read_unlock(struct vma *vma);			/* may be the last thing that keeps it: touch nothing after (C9) */
void vma_write_lock(struct vma *vma);			/* mmap_lock for write; waits for readers; released by mmap_write_unlock */
/* Syscalls that want one VMA (C10): mmap read lock, find, prepare anon_vma if private, read lock, drop mmap. ERR_PTR(-ENOENT/-ENOMEM/-EINTR). */
struct vma *vma_find_and_lock(struct mm *mm, uintptr_t addr);
/* Two of them, deadlock-free (C11). May return the same VMA in both, locked once. 0 or -errno. */
int __must_check vma_find_and_lock_pair(struct mm *mm, uintptr_t dst, uintptr_t src, struct vma **dstp, struct vma **srcp);
void vma_unlock_pair(struct vma *dst, struct vma *src);
void vma_mark_detached(struct vma *vma);		/* write-locked; before it leaves the tree */
bool vma_is_write_locked(const struct vma *vma);
void vma_lock_init(void);				/* reads the switch */
#define assert_vma_locked(v)	assert(rwsem_is_locked(&(v)->lock) || rwsem_is_locked(&(v)->mm->mmap_lock))
#define assert_vma_write_locked(v) assert(vma_is_write_locked(v))
extern bool vma_lock_enabled;				/* mm.vma_lock=on|off */
extern u32 sysctl_max_map_count;

#endif
