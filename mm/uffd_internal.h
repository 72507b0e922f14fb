/* Between the mm/uffd*.c files only. */
#ifndef MM_UFFD_INTERNAL_H
#define MM_UFFD_INTERNAL_H

#include "kernel/errno.h"
#include "kernel/race.h"
#include "kernel/refcount.h"
#include "kernel/rwsem.h"
#include "kernel/task.h"
#include "kernel/wait.h"
#include "mm/layout.h"
#include "mm/uffd.h"

struct file;

/* -- the numbers that user space knows -- */

#define UFFD_API			0xAAul
#define UFFD_USER_MODE_ONLY		1

#define UFFDIO_REGISTER			0xC020AA00u
#define UFFDIO_UNREGISTER		0x8010AA01u
#define UFFDIO_WAKE			0x8010AA02u
#define UFFDIO_COPY			0xC028AA03u
#define UFFDIO_ZEROPAGE			0xC020AA04u
#define UFFDIO_MOVE			0xC028AA05u
#define UFFDIO_WRITEPROTECT		0xC018AA06u
#define UFFDIO_CONTINUE			0xC020AA07u
#define UFFDIO_POISON			0xC020AA08u
#define UFFDIO_API			0xC018AA3Fu
#define USERFAULTFD_IOC_NEW		0xAA00u

#define UFFD_FEATURE_PAGEFAULT_FLAG_WP	BIT(0)
#define UFFD_FEATURE_EVENT_FORK		BIT(1)
#define UFFD_FEATURE_EVENT_REMAP	BIT(2)
#define UFFD_FEATURE_EVENT_REMOVE	BIT(3)
#define UFFD_FEATURE_MISSING_HUGETLBFS	BIT(4)
#define UFFD_FEATURE_MISSING_SHMEM	BIT(5)
#define UFFD_FEATURE_EVENT_UNMAP	BIT(6)
#define UFFD_FEATURE_SIGBUS		BIT(7)
#define UFFD_FEATURE_THREAD_ID		BIT(8)
#define UFFD_FEATURE_MINOR_HUGETLBFS	BIT(9)
#define UFFD_FEATURE_MINOR_SHMEM	BIT(10)
#define UFFD_FEATURE_EXACT_ADDRESS	BIT(11)
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM	BIT(12)
#define UFFD_FEATURE_WP_UNPOPULATED	BIT(13)
#define UFFD_FEATURE_POISON		BIT(14)
#define UFFD_FEATURE_WP_ASYNC		BIT(15)
#define UFFD_FEATURE_MOVE		BIT(16)
#define UFFD_API_FEATURES		0x1fffful
#define UFFD_INITIALIZED		BIT(31)		/* ours: API was called; fdinfo shows it, as on Linux */

/* Bits by the low byte of the ioctl. */
#define UFFD_API_IOCTLS			(BIT(0x00) | BIT(0x01) | BIT(0x3F))
#define UFFD_RANGE_IOCTLS		0x1fcul		/* WAKE to POISON */
#define UFFD_RANGE_IOCTLS_HUGETLB	0x1ccul		/* without ZEROPAGE and MOVE */
#define UFFD_IOCTL_WRITEPROTECT		BIT(0x06)
#define UFFD_IOCTL_CONTINUE		BIT(0x07)

#define UFFDIO_REGISTER_MODE_MISSING	1u
#define UFFDIO_REGISTER_MODE_WP		2u
#define UFFDIO_REGISTER_MODE_MINOR	4u
#define UFFDIO_MODE_DONTWAKE		1u	/* of COPY, ZEROPAGE, CONTINUE, POISON, MOVE */
#define UFFDIO_MODE_WP			2u	/* of COPY, CONTINUE */
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES 2u
#define UFFDIO_WRITEPROTECT_MODE_WP	1u
#define UFFDIO_WRITEPROTECT_MODE_DONTWAKE 2u

#define UFFD_EVENT_PAGEFAULT		0x12
#define UFFD_EVENT_FORK			0x13
#define UFFD_EVENT_REMAP		0x14
#define UFFD_EVENT_REMOVE		0x15
#define UFFD_EVENT_UNMAP		0x16
#define UFFD_PAGEFAULT_FLAG_WRITE	1u
#define UFFD_PAGEFAULT_FLAG_WP		2u
#define UFFD_PAGEFAULT_FLAG_MINOR	4u

struct uffd_msg {
	u8	event, reserved[7];
	union {
		struct { u64 flags, address; u32 ptid; } pagefault;
		struct { u32 ufd; } fork;
		struct { u64 from, to, len; } remap;
		struct { u64 start, end; } range;	/* REMOVE, UNMAP */
		u64 words[3];
	};
};
_Static_assert(sizeof(struct uffd_msg) == 32, "user ABI");

/*
 * One context: what a descriptor stands for. Counted by the descriptor, by those who sleep on it, and by FORK events on
 * their way; not by VMAs, which the release of the descriptor unregisters one and all.
 *
 *   I  constant after creation    L  lock    C  write: map_changing for write; read: in either mode    A  atomic
 */
struct uffd {
	struct refcount		 refs;
	u32			 flags;		/* I  of the system call */
	struct mm		*mm;		/* I  whose faults; its structure is counted (mm_grab), not its contents (F2) */
	u64			 features;	/* A  0 until UFFDIO_API; then constant */
	/*
	 * > 0: something is happening to the address space that the manager has not been told of yet, so he must not fill
	 * (F45). Fills hold map_changing for read from the test until the page is in (F23, R28).
	 */
	u32			 mmap_changing;	/* C to raise, A to lower */
	struct rwsem		 map_changing;	/* LOCK_UFFD_MAP_CHANGING */

	struct spinlock		 lock __aligned(64);	/* LOCK_UFFD_EVENTS */
	struct list_head	 pending;	/* L  struct uffd_waiter: faults nobody has read yet */
	struct list_head	 read;		/* L  struct uffd_waiter: read, not yet served */
	struct list_head	 events;	/* L  struct uffd_event: to be read */
	struct list_head	 taken;		/* L  FORK events whose reader is still making the descriptor */
	u32			 nr_waiters;	/* L to write  in pending and read together; refiling does not change it */
	bool			 released;	/* L to write  the descriptor is closed: nobody may wait any more */
	struct wait_queue	 fd_wait;	/* readers and pollers */
};

/* A fault that waits, on the stack of its task. */
struct uffd_waiter {
	struct list_head node;		/* ctx->lock: in pending or read, until woken */
	struct task	*task;
	uintptr_t	 addr;		/* of the page */
	struct uffd_msg	 msg;
	bool		 woken;		/* stored last by the waker, who then touches nothing of this any more */
};

static inline u64 uffd_features(const struct uffd *ctx) { return READ_ONCE(ctx->features); }

/* -- mm/uffd.c -- */
struct uffd *uffd_alloc(struct mm *mm, u32 flags, u64 features);	/* refs = 1; NULL: no memory */
static inline void uffd_get(struct uffd *ctx) { refcount_inc(&ctx->refs); }
void uffd_put(struct uffd *ctx);
/*
 * Keeps the contents of ctx->mm alive for one operation (R31). False: it has exited. A task that runs in that mm keeps it
 * alive just by that, so the common case of a manager in the same process costs nothing.
 */
static inline bool uffd_pin_mm(const struct uffd *ctx)
{
	bool alive = ctx->mm == current->mm || mm_get_not_zero(ctx->mm);

	race_window("uffd_mm_pinned");
	return alive;
}
static inline void uffd_unpin_mm(const struct uffd *ctx)
{
	if (ctx->mm != current->mm)
		mm_put(ctx->mm);
}
/* @len bytes, whole pages, from anywhere in a page of user space? 0 or -EINVAL. */
static inline int uffd_check_unaligned_range(u64 start, u64 len)
{
	if ((len & ~PAGE_MASK) || !len)
		return -EINVAL;
	return start < MMAP_MIN_ADDR || start >= TASK_SIZE || len > TASK_SIZE - start ? -EINVAL : 0;
}
/* Whole pages. */
static inline int uffd_check_range(u64 start, u64 len)
{
	return start & ~PAGE_MASK ? -EINVAL : uffd_check_unaligned_range(start, len);
}

/* -- one function per ioctl: 0 or -errno. No lock held; sleep -- */
long uffd_register(struct uffd *ctx, void __user *arg);
long uffd_unregister(struct uffd *ctx, void __user *arg);
long uffd_wake(struct uffd *ctx, void __user *arg);
long uffd_copy(struct uffd *ctx, void __user *arg);
long uffd_zeropage(struct uffd *ctx, void __user *arg);
long uffd_continue(struct uffd *ctx, void __user *arg);
long uffd_poison(struct uffd *ctx, void __user *arg);
long uffd_writeprotect(struct uffd *ctx, void __user *arg);
long uffd_move(struct uffd *ctx, void __user *arg);
/*
 * The end of those that report bytes: @done (bytes, or -errno) goes to *@out, after waking [@start, @start + @done) if
 * @wake. Returns what the ioctl returns (F22).
 */
long uffd_report(struct uffd *ctx, s64 done, u64 len, uintptr_t start, bool wake, s64 __user *out);

/* -- mm/uffd_register.c -- */
bool uffd_vma_is_shmem(const struct vma *vma);	/* a file of tmpfs, memfd, shared anonymous memory */
void uffd_unregister_all(struct uffd *ctx);	/* every VMA of ctx->mm, if that still lives. Takes mmap_lock */

/* -- mm/uffd_wait.c -- */
void uffd_wake_all(struct uffd *ctx);		/* faults and events; ctx->released is set */

/* -- mm/uffd_lock.c -- */
/*
 * VMAs for an operation. Locked ones stay as they are, with their page tables, and private ones have an anon_vma. All
 * sleep, take and leave no other lock, and return ERR_PTR or -errno: -ENOENT, -ENOMEM, -EINTR.
 */
struct uffd_locking {
	const char	*name;
	struct vma	*(*lock)(struct mm *mm, uintptr_t addr);	/* the one around @addr */
	struct vma	*(*lock_next)(struct mm *mm, uintptr_t addr, uintptr_t end);	/* the first of [addr, end); NULL: none */
	int		(*lock_pair)(struct mm *mm, uintptr_t dst, uintptr_t src, struct vma **d, struct vma **s);	/* perhaps the same */
	void		(*unlock)(struct vma *vma);
	void		(*unlock_pair)(struct vma *d, struct vma *s);
};
extern const struct uffd_locking *uffd_locking;
void uffd_locking_init(void);

/* Are fills allowed now? True: map_changing is held for read. The VMA is locked (F23). */
bool uffd_map_stable_begin(struct uffd *ctx);
static inline void uffd_map_stable_end(struct uffd *ctx) { up_read(&ctx->map_changing); }
/* The first look, without a lock, before the arguments are read (F20). */
static inline bool uffd_map_is_changing(const struct uffd *ctx) { return READ_ONCE(ctx->mmap_changing); }

/* -- mm/uffd_events.c -- */
/* An event as its reader holds it between taking it and telling its sender. */
struct uffd_fork_reader {
	struct uffd	  *child;	/* counted; NULL: the message is no FORK */
	struct uffd_event *event;	/* ctx->lock; NULL: the sender gave up meanwhile */
};
/* The oldest event into @msg. ctx->lock held. False: none. A FORK stays unanswered until uffd_fork_answer(). */
bool uffd_event_take(struct uffd *ctx, struct uffd_msg *msg, struct uffd_fork_reader *fork);
/* @ok: the child's descriptor exists, the sender may go on. Else the event is the next to be read again. */
void uffd_fork_answer(struct uffd *ctx, struct uffd_fork_reader *fork, bool ok);
void uffd_events_wake(struct uffd *ctx);	/* ctx->lock held, ctx->released set: senders give up */

#endif
