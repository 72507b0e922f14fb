/*
 * userfaultfd: page faults in user space (SEMANTICS F). A manager reads from a descriptor which thread of a program wants
 * which page, and supplies it.
 *
 *	mm/uffd.c		the descriptor: made, asked for features, read, polled, closed
 *	mm/uffd_register.c	which VMAs belong to it, and for what
 *	mm/uffd_wait.c		a fault waits for its page, and is woken
 *	mm/uffd_lock.c		how the operations lock VMAs: uffd.lock=vma|mmap
 *	mm/uffd_fill.c		COPY, ZEROPAGE, CONTINUE, POISON
 *	mm/uffd_wp.c		WRITEPROTECT
 *	mm/uffd_move.c		MOVE
 *	mm/uffd_events.c	FORK, REMAP, REMOVE, UNMAP: the manager follows what the program does to its memory
 *
 * This header is for the rest of the kernel: what a fault, and each call that changes an address space, must tell us. A
 * VMA without a context (vma->uffd NULL) has nothing to tell; callers test that first, so that others pay one load.
 */
#ifndef MM_UFFD_H
#define MM_UFFD_H

#include "mm/fault.h"

struct uffd_event;

/* -- faults (mm/uffd_wait.c) -- */

/*
 * The page at vmf->address is missing (@reason VM_UFFD_MISSING), cached but not mapped (VM_UFFD_MINOR), or write-protected
 * (VM_UFFD_WP), and the VMA is registered for that. No entry lock held; the entry is compared with vmf->orig_pte under its
 * lock. Sleeps. RETRY: the fault's lock is gone, look again (with RETRY_NOWAIT it is held). SIGBUS: it must not wait. 0:
 * the entry has changed, nothing was done.
 */
vm_fault_t handle_userfault(struct vm_fault *vmf, u64 reason);
/* UFFD_FEATURE_WP_ASYNC: the kernel takes the protection off itself. @vma has VM_UFFD_WP. */
bool uffd_wp_is_async(const struct vma *vma);
/* Wakes the faults that wait in [start, end): they look again. Any context that may take ctx's lock. */
void uffd_wake_range(struct uffd *ctx, uintptr_t start, uintptr_t end);

/* -- changes of an address space (mm/uffd_events.c) -- */

/*
 * munmap of [start, end), of which @vma is a part: the event is queued in the mm and delivered by mmap_write_unlock().
 * mmap_lock for write, nothing changed yet. 0 or -ENOMEM.
 */
int __must_check uffd_unmap_prepare(struct vma *vma, uintptr_t start, uintptr_t end);
/*
 * mremap of [from, from + len) of @vma to @to, and of @cut bytes more that are gone already. @vma is registered. Prepare: 0 or -ENOMEM, nothing to undo. Then either
 * commit, when the pages have moved to @new and before the old place is unmapped, or cancel. mmap_lock for write.
 * @early: which events of this call come first (uffd_events_mark() before).
 */
struct uffd_remap {
	struct uffd_event *remap, *unmap;	/* NULL: not wanted */
};
int __must_check uffd_remap_prepare(struct uffd_remap *r, struct vma *vma, uintptr_t from, uintptr_t to, size_t len,
				    size_t cut, bool unmaps);
void uffd_remap_commit(struct uffd_remap *r, struct mm *mm, struct uffd_event *early);
void uffd_remap_cancel(struct uffd_remap *r);
bool uffd_follows_remap(const struct vma *vma);		/* the moved mapping stays registered (F49) */
struct uffd_event *uffd_events_mark(struct mm *mm);	/* the last event queued so far, or NULL */
/* Waits until each was read, or its descriptor is closed, or we are killed. No lock held. Consumes the list. */
void uffd_deliver(struct uffd_event *events);
/* DONTNEED, FREE, REMOVE: does the manager want to know before? Then tell him; no lock held, [start, end) is part of his VMA. */
bool uffd_wants_remove(const struct vma *vma);
/* mmap_lock for read is held and is dropped; waits as uffd_deliver(). */
void uffd_tell_remove(struct vma *vma, uintptr_t start, uintptr_t end);

/*
 * fork: @child, a copy of the registered @parent, gets a context of the child's own if the manager follows forks, else
 * stays plain. Both mmap_locks for write, @child not yet in the tree. 0 or -ENOMEM. *forks collects what
 * uffd_deliver() sends when the locks are dropped, or uffd_fork_cancel() undoes when the child's mm is gone.
 */
int __must_check uffd_fork_vma(struct vma *child, const struct vma *parent, struct uffd_event **forks);
void uffd_fork_cancel(struct uffd_event *forks);

/* -- write protection (mm/uffd_wp.c) -- */
/* Protects or unprotects what is, or with markers will be, mapped in [start, end) of @vma, which is locked. 0 or -ENOMEM. */
int uffd_wp_range(struct vma *vma, uintptr_t start, uintptr_t end, bool protect);
/* Protects one entry of @vma, whose lock is held, with a marker where nothing is. True: flush before that lock goes (R32). */
bool uffd_wp_entry(struct vma *vma, pte_t *pte);
bool uffd_wp_is_tracked(const struct vma *vma);	/* registered for WP, and the kernel takes protections off itself, from markers too */

extern u32 sysctl_unprivileged_userfaultfd;
const char *uffd_locking_name(void);		/* "vma" or "mmap" */
void uffd_init(void);				/* after devfs */

#endif
