/*
 * The one lock order. Outermost first: a task may acquire a lock only if its class comes after (below) every
 * lock it already holds; debug builds check that at each acquire. Two locks of the same class may be held
 * together only where the line says "pair:", by the stated tie-break, through the *_nested() calls.
 *
 *	X(class, kind, irq, "where this edge really happens")
 *	kind: SLEEP (mutex, rwsem) or SPIN.  irq: OFF = always taken with interrupts disabled,
 *	because an interrupt handler takes it too; ON = never taken in an interrupt.
 *
 * Every sleeping class comes before every spinning one: nobody sleeps while holding a spin lock.
 */
#ifndef KERNEL_LOCK_RANK_H
#define KERNEL_LOCK_RANK_H

#define LOCK_CLASSES(X)										\
	/* -- locks that may sleep -- */							\
	X(LOCK_SYNC,		SLEEP, ON,  "mm/writeback.c: one sync of everything at a time")	\
	X(LOCK_EXEC,		SLEEP, ON,  "execve: one exec or thread-group change at a time")	\
	X(LOCK_MOUNT,		SLEEP, ON,  "fs/mount.c: mount, umount")				\
	X(LOCK_EPOLL,		SLEEP, ON,  "fs/eventpoll.c: epoll_ctl; pair: the global lock, then one epoll; poll of an epoll inside another: outer first")	\
	X(LOCK_FILE_POS,	SLEEP, ON,  "fs/read_write.c: read and write with the shared offset")	\
	X(LOCK_HUGETLB_RESIZE,	SLEEP, ON,  "mm/hugetlb.c: one change of a pool's size at a time")	\
	X(LOCK_FAMILY,		SLEEP, ON,  "fs/socket_family.c: one claim of a family at a time")	\
	X(LOCK_SOCKET,		SLEEP, ON,  "fs/unix.c: bind, listen, connect of one socket")		\
	X(LOCK_SOCKET_READ,	SLEEP, ON,  "fs/unix_io.c: one reader of a socket at a time")		\
	X(LOCK_TTY,		SLEEP, ON,  "fs/tty.c: one writer, termios change")			\
	X(LOCK_RENAME,		SLEEP, ON,  "fs/namei.c: rename across directories")			\
	X(LOCK_INODE_DIR,	SLEEP, ON,  "fs/namei.c: create, unlink; pair: parent before child, else by address") \
	X(LOCK_INODE,		SLEEP, ON,  "fs: write, truncate of a file")				\
	X(LOCK_PIPE,		SLEEP, ON,  "fs/pipe.c; pair: by address")				\
	X(LOCK_MMAP,		SLEEP, ON,  "mm/mmap.c; pair (fork): parent before child")		\
	X(LOCK_VMA,		SLEEP, ON,  "mm/vma_lock.c: fault; pair: destination before source by trylock") \
	X(LOCK_UFFD_MAP_CHANGING, SLEEP, ON, "mm/uffd_lock.c: write under mmap_lock, read under a VMA lock")	\
	X(LOCK_HUGETLB_FILE,	SLEEP, ON,  "fs/hugetlbfs.c: mmap reserves and extends, truncate cuts; inside mmap_lock, where the inode lock cannot be")	\
	X(LOCK_HUGETLB_FAULT,	SLEEP, ON,  "mm/hugetlb_fault.c: one instantiation per (file, index)")	\
	X(LOCK_HUGETLB_VMA,	SLEEP, ON,  "mm/pmd_share.c: fault against unshare")			\
	X(LOCK_FOLIO,		SLEEP, ON,  "mm/filemap.c: page lock, outside i_mmap for truncate")	\
	X(LOCK_I_MMAP,		SLEEP, ON,  "mm/rmap.c: truncate finds every mapping")			\
	X(LOCK_ANON_VMA,	SLEEP, ON,  "mm/rmap.c: anonymous reverse map")				\
	X(LOCK_KMUTEX,		SLEEP, ON,  "leaf mutexes of drivers and procfs")			\
	/* -- spin locks -- */									\
	X(LOCK_FDTABLE,		SPIN,  ON,  "fs/fdtable.c: install and close of a descriptor")		\
	X(LOCK_NAMESPACE,	SPIN,  ON,  "fs/dcache.c, fs/mount.c: a name or a mount moves")		\
	X(LOCK_DCACHE,		SPIN,  ON,  "fs/dcache.c: children of a directory; pair (move): by address")			\
	X(LOCK_UNIX_NAMES,	SPIN,  ON,  "fs/unix_names.c: table of bound sockets")			\
	X(LOCK_UNIX,		SPIN,  ON,  "fs/unix.c: queue and state of one socket")			\
	X(LOCK_FAMILY_IDS,	SPIN,  ON,  "fs/socket_family.c: sockets by id, and the server of a family")	\
	X(LOCK_SERVER_NODES,	SPIN,  ON,  "fs/serverfs.c: the server of one mount, and its inodes by node")	\
	X(LOCK_PORT,		SPIN,  ON,  "kernel/port.c: calls and servers of one port")		\
	X(LOCK_PORT_LENT,	SPIN,  ON,  "kernel/port_lent.c: a copy against the end of the loan")	\
	X(LOCK_FILE_LOCKS,	SPIN,  ON,  "fs/locks.c: advisory locks of one inode")			\
	X(LOCK_INODE_META,	SPIN,  ON,  "fs: times, link count, size")				\
	X(LOCK_FUTEX,		SPIN,  ON,  "kernel/futex.c: hash bucket; pair: by address")		\
	X(LOCK_PROCESS_TREE,	SPIN,  OFF, "kernel/process.c: parents, children, groups, sessions, pid table") \
	X(LOCK_SIGHAND,		SPIN,  OFF, "kernel/signal.c: handlers, pending signals, group exit")	\
	X(LOCK_PAGE_TABLE,	SPIN,  ON,  "mm: mm->page_table_lock, upper levels")			\
	X(LOCK_PTE,		SPIN,  ON,  "mm: one page-table page; pair: by address")		\
	X(LOCK_PAGE_CACHE,	SPIN,  ON,  "mm/filemap.c: index of one mapping")			\
	X(LOCK_BACKING_STORE,	SPIN,  ON,  "fs/delayfs.c: the queue of one device, the stored pages of one file")	\
	X(LOCK_MAPPING_DIRTY,	SPIN,  OFF, "mm/writeback.c: dirty list")				\
	X(LOCK_HUGETLB_POOL,	SPIN,  ON,  "mm/hugetlb.c: pool and reservations")			\
	X(LOCK_UFFD_EVENTS,	SPIN,  ON,  "mm/uffd_wait.c: under the lock of the entry; queues of one descriptor")	\
	X(LOCK_MM_LIST,		SPIN,  ON,  "mm/mm.c: small state of one mm")				\
	X(LOCK_VMALLOC,		SPIN,  ON,  "mm/vmalloc.c: kernel virtual ranges")			\
	X(LOCK_SLAB,		SPIN,  OFF, "mm/slab.c: partial slabs of one cache")			\
	X(LOCK_BUDDY,		SPIN,  OFF, "mm/frame.c: free lists")					\
	X(LOCK_TTY_BUF,		SPIN,  OFF, "fs/tty.c: input and output rings, fed by interrupts")	\
	X(LOCK_LEAF_IRQ,	SPIN,  OFF, "small leaf locks used in interrupts (entropy, kmsg readers)") \
	X(LOCK_WAITQUEUE,	SPIN,  OFF, "kernel/wait.c; pair: epoll of epoll, inner first")		\
	X(LOCK_EPOLL_READY,	SPIN,  OFF, "fs/eventpoll.c: ready list, added to by wake-ups")		\
	X(LOCK_RWSEM_WAIT,	SPIN,  OFF, "kernel/rwsem.c, kernel/mutex.c: sleeping waiters")		\
	X(LOCK_TIMER,		SPIN,  OFF, "kernel/timer.c: timers of one CPU")			\
	X(LOCK_RCU,		SPIN,  OFF, "kernel/rcu.c: grace-period state")				\
	X(LOCK_TASK_PI,		SPIN,  OFF, "kernel/sched.c: wake-up of one task")			\
	X(LOCK_RUNQUEUE,	SPIN,  OFF, "kernel/sched.c; pair (steal): lower CPU number first")	\
	X(LOCK_TLB,		SPIN,  OFF, "mm/tlb.c: shoot-down request")				\
	X(LOCK_IPI_CALL,	SPIN,  OFF, "kernel/x86/smp.c: cross calls")				\
	X(LOCK_TRACE,		SPIN,  OFF, "kernel/trace.c: /proc/trace ring")				\
	X(LOCK_CONSOLE,		SPIN,  OFF, "kernel/printk.c: log ring and console output; innermost")

enum lock_class {
#define LOCK_ENUM(class, kind, irq, where) class,
	LOCK_CLASSES(LOCK_ENUM)
#undef LOCK_ENUM
	NR_LOCK_CLASSES
};

const char *lock_class_name(unsigned int class);

/*
 * The checker (kernel/lock_rank.c, debug builds). Spin locks call it from kernel/spinlock.h; sleeping locks through
 * these. @write: for rwsems, which mode; reading twice is an error too, a writer may queue in between.
 */
#ifdef DEBUG
#include "kernel/types.h"
struct task;
void lock_rank_acquire_sleeping(const void *lock, enum lock_class class, bool write, bool nested, bool try_lock, uintptr_t caller);
void lock_rank_release_sleeping(const void *lock, enum lock_class class);
void lock_rank_show(const struct task *t);	/* prints what it holds; NULL: this CPU's interrupt context */
void lock_rank_stop(void);			/* panic: no more checks */
/* Boot, for a value of a switch that states its own order: these classes follow each other so. They share out their places. */
void lock_rank_load_order(const u8 *order, unsigned int n);
void lock_rank_forbid(enum lock_class class);	/* no lock of this class exists in this boot */
#else
#define lock_rank_acquire_sleeping(lock, class, write, nested, try_lock, caller)	do { } while (0)
#define lock_rank_release_sleeping(lock, class)						do { } while (0)
#define lock_rank_show(t)								do { } while (0)
#define lock_rank_stop()								do { } while (0)
#define lock_rank_load_order(order, n)							do { (void)(order); (void)(n); } while (0)
#define lock_rank_forbid(class)								do { } while (0)
#endif

#endif
