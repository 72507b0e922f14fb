/* The memory system calls as the rest of the kernel uses them (exec, shm, proc). mm/mmap.c and friends. */
#ifndef MM_MMAP_H
#define MM_MMAP_H

#include "mm/vma.h"

#define PROT_NONE	0
#define PROT_READ	1
#define PROT_WRITE	2
#define PROT_EXEC	4
#define PROT_SEM	8
#define PROT_GROWSDOWN	0x01000000
#define PROT_GROWSUP	0x02000000
#define MAP_SHARED	1
#define MAP_PRIVATE	2
#define MAP_SHARED_VALIDATE 3
#define MAP_DROPPABLE	8
#define MAP_TYPE	0xf
#define MAP_FIXED	0x10
#define MAP_ANONYMOUS	0x20
#define MAP_32BIT	0x40
#define MAP_GROWSDOWN	0x100
#define MAP_LOCKED	0x2000
#define MAP_NORESERVE	0x4000
#define MAP_POPULATE	0x8000
#define MAP_NONBLOCK	0x10000
#define MAP_STACK	0x20000
#define MAP_HUGETLB	0x40000
#define MAP_SYNC	0x80000
#define MAP_FIXED_NOREPLACE 0x100000

struct inode;
struct task;

/* Maps; address or -errno. file NULL: anonymous. Takes current->mm's mmap_lock itself. */
long vm_mmap(struct file *file, uintptr_t addr, size_t len, unsigned long prot, unsigned long flags, u64 pgoff);
long vm_munmap(struct mm *mm, uintptr_t addr, size_t len);
/* exec: anonymous memory at a fixed place in a new mm nobody else sees yet; extra VM_ flags. 0 or -errno. */
int vm_brk_flags(struct mm *mm, uintptr_t addr, size_t len, u64 vm_flags);
/* exec: the stack VMA of a new mm, [top - size, top), growing down; 0 or -errno. */
int setup_stack_vma(struct mm *mm, uintptr_t top, size_t size, bool executable);
/* mmap_lock for write: unmaps [start, end), splitting at the edges. 0 or -errno; nothing changed on error. */
int do_munmap_locked(struct mm *mm, uintptr_t start, uintptr_t end);
/* Prefault [start, start+len): for MAP_POPULATE, mlock. Errors as A33 or 0. Takes mmap_lock. */
int mm_populate(struct mm *mm, uintptr_t start, size_t len, bool ignore_errors);
/* exit: everything. Called by the last mm_put. */
void exit_mmap(struct mm *mm);
/* ASLR: a random page-aligned offset below @range; 0 with norandmaps or personality ADDR_NO_RANDOMIZE. */
uintptr_t aslr_offset(u64 range);
/* Where mmap_base of a new mm goes, from the stack limit and ASLR. */
void mm_set_mmap_base(struct mm *mm, u64 stack_rlimit);

/* Overcommit (vm.overcommit_*, and CommitLimit, Committed_AS of /proc/meminfo); the policies are told in mm/overcommit.c. */
extern int sysctl_overcommit_memory;		/* 0 heuristic, 1 always, 2 never */
extern int sysctl_overcommit_ratio;		/* percent of RAM for policy 2 */
extern u64 sysctl_overcommit_kbytes;		/* instead of the ratio, if not 0 */
u64 vm_commit_limit(void);			/* pages */
u64 vm_committed(void);				/* pages, folded over CPUs */

/*
 * Text for /proc. Each call fills @buf with whole entries from address *cursor on and moves the cursor; bytes, 0 at the
 * end. If the next entry does not fit, the result is @size: the text is not complete, start again with a larger buffer.
 */
ssize_t proc_maps_read(struct mm *mm, u64 *cursor, char *buf, size_t size);
ssize_t proc_smaps_read(struct mm *mm, u64 *cursor, char *buf, size_t size);
size_t proc_smaps_rollup(struct mm *mm, char *buf, size_t size);
ssize_t proc_pagemap_read(struct mm *mm, u64 pos, u64 *buf, size_t entries);	/* entries filled or -errno; H8 */
/* mm/pagemap_scan.c: PAGEMAP_SCAN. @mm NULL: the process has ended, nothing is found. Sleeps; regions found, or -errno. */
long pagemap_scan(struct mm *mm, void __user *uarg);
ssize_t proc_pagetable_read(struct mm *mm, u64 *cursor, char *buf, size_t size);	/* DESIGN 9 */
ssize_t proc_hugetlb_read(struct mm *mm, u64 *cursor, char *buf, size_t size);	/* mm/proc_hugetlb.c; DESIGN 9 */
size_t proc_status_mm(struct mm *mm, char *buf, size_t size);		/* Vm* lines of /proc/PID/status */
void proc_statm(struct mm *mm, u64 v[7]);
/* /proc/PID/mem, ptrace, process_vm_*: bytes copied (may be short) or -EIO/-EFAULT. FOLL rules of H9. */
ssize_t access_remote_vm(struct mm *mm, uintptr_t addr, void *kbuf, size_t len, bool write, bool force);

#endif
