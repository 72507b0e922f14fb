/*
 * Tasks and processes. A task is one schedulable thread with its own id (tid); a process is the thread group that
 * shares signals, children, limits and (usually) the address space. Every user task belongs to one process; kernel
 * threads belong to the kernel process (tgid 0).
 */
#ifndef KERNEL_TASK_H
#define KERNEL_TASK_H

#include "kernel/list.h"
#include "kernel/lock_stat.h"
#include "kernel/mutex.h"
#include "kernel/refcount.h"
#include "kernel/rcu.h"
#include "kernel/signal.h"
#include "kernel/spinlock.h"
#include "kernel/timer.h"
#include "kernel/wait.h"
#include "kernel/x86/thread.h"

struct mm;
struct files;
struct fs_context;
struct tty;
struct wait_entry;

#define TASK_COMM_LEN	16
#define KERNEL_STACK_SIZE	(16 * 1024ul)

#define PF_EXITING	0x0004	/* no new fault waits, signals or timers */
#define PF_FORKNOEXEC	0x0040
#define PF_SIGNALED	0x0400
#define PF_KTHREAD	0x200000
#define PF_IDLE		0x2

struct restart_block {
	long	(*fn)(struct restart_block *);
	union {
		struct { u64 expires; int clock; void __user *rmtp; } nanosleep;
		struct { u32 __user *uaddr; u32 val, flags, bitset; u64 expires; } futex;
		struct { void __user *ufds; u32 nfds; bool has_timeout; u64 expires; } poll;
	};
};

#define MAX_HELD_LOCKS	32
struct held_lock { const void *lock; uintptr_t caller; u8 class; u8 mode; };

/*
 *   I  constant after creation       S  only the task itself
 *   R  run-queue lock of its CPU (or LOCK_TASK_PI)   G  process->sighand->lock   T  process_tree_lock (RCU to read)
 */
struct task {
	/* -- scheduler -- */
	u32			 state;		/* TASK_*; written by itself, cleared by wakers under pi_lock */
	u32			 flags;		/* S  PF_* */
	/*
	 * What must happen before the task returns to user mode, tested as one word by kernel/x86/entry.S. A stop
	 * request (jobctl) raises sigpending too.
	 */
	union {
		struct {
			bool	 sigpending;	/* something deliverable may be there; recomputed under G, tested without */
			bool	 restore_sigmask;	/* S  put saved_sigmask back */
		};
		u32		 work;
	};
	unsigned int		 cpu;		/* R  run queue it is on, or was last */
	bool			 on_cpu;	/* set while it runs or is being switched out; waker spins on it */
	bool			 on_rq;		/* R */
	s8			 nice;		/* R */
	struct spinlock		 pi_lock;	/* LOCK_TASK_PI: serialises wake-ups */
	cpumask_t		 affinity;	/* R */
	struct heap_node	 run_node;	/* R  linked while runnable but not running */
	u64			 vruntime;	/* R  weighted CPU time */
	u64			 exec_start;	/* R  ktime when it got the CPU or was last accounted */
	u64			 slice_end;	/* R */
	u8			 policy;	/* R  SCHED_* */
	u8			 rt_priority;	/* R  > 0: before all of smaller priority, whatever their vruntime */
	bool			 acct_system;	/* R  last sampled in the kernel: time goes to stime_ns */
	u64			 sum_exec_ns;	/* R  total CPU time */
	u64			 utime_ns, stime_ns;	/* R  sum = sum_exec_ns; read through task_cputime() */
	u64			 nvcsw, nivcsw;	/* S  voluntary and forced switches */
	struct timer		 sleep_timer;	/* S  schedule_until() */
	struct thread_context	 thread;
	void			*stack;		/* I  lowest address; KERNEL_STACK_SIZE, guard page below */
	struct refcount		 refs;
	struct rcu_head		 rcu;

	/* -- identity -- */
	int			 tid;		/* I */
	struct process		*process;	/* I (changes only in exec's de_thread) */
	struct list_head	 thread_node;	/* T  process->threads */
	char			 comm[TASK_COMM_LEN];	/* S  writers; readers may see a mix */
	u64			 start_ns;	/* I */

	/* -- resources -- */
	struct mm		*mm;		/* S  NULL for kernel threads and after exit_mm */
	struct mm		*active_mm;	/* R  whose page tables are loaded (lazy TLB) */
	struct files		*files;		/* S  counted */
	struct fs_context	*fs;		/* S  counted: cwd, root, umask */

	/* -- faults -- */
	u64			 min_flt, maj_flt;	/* S */
	u32			 pagefault_disabled;	/* S  > 0: user copies fail instead of sleeping */
	u8			 lock_caller;	/* S  enum lock_caller */

	/* -- signals: G unless stated -- */
	sigset_t		 blocked;	/* written by itself under G, read by itself freely */
	sigset_t		 saved_sigmask;	/* S  restored when @restore_sigmask */
	sigset_t		 real_blocked;	/* what is blocked but for sigtimedwait, which unblocks while it sleeps */
	struct sigpending	 pending;	/* for this task alone */
	u32			 jobctl;	/* stop requests */
	uintptr_t		 sas_ss_sp;	/* S  sigaltstack */
	size_t			 sas_ss_size;	/* S */
	u32			 sas_ss_flags;	/* S */
	struct restart_block	 restart;	/* S */

	/* -- threads library -- */
	int __user		*set_child_tid;
	int __user		*clear_child_tid;	/* S */
	void __user		*robust_list;	/* S */
	int			 exit_signal;	/* T  to the parent when the leader dies; 0 none */
	int			 exit_code;	/* wait status of this task */
	struct completion_vfork	*vfork_done;	/* T  parent waits for exec or exit */
	u8			 pdeath_signal;	/* S  comes when the parent process dies; 0 none */
	bool			 exiting;	/* G  past the point where it takes signals of the process */
	bool			 in_execve;	/* S  past the point of no return: failure can only kill */

#ifdef DEBUG
	struct { uintptr_t addr, rip; u64 error, entry; u32 repeats; } last_fault;	/* S  mm/fault_entry.c: faults without progress */
	struct held_lock	 held[MAX_HELD_LOCKS];	/* S */
	u32			 nr_held;
	u32			 skip_flushes;	/* S  planted bug: this many TLB flushes are left out (mm/debug.c) */
	u64			 alloc_fail_nth;	/* S  > 0: the n-th allocation from now on fails (mm/debug.c) */
#endif
};

#define TASK_WORK	8
_Static_assert(offsetof(struct task, work) == TASK_WORK, "used by entry code");

#define RLIM_NLIMITS	16
#define RLIM_INFINITY	(~0ul)
enum { RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_RSS, RLIMIT_NPROC, RLIMIT_NOFILE,
       RLIMIT_MEMLOCK, RLIMIT_AS, RLIMIT_LOCKS, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_RTPRIO, RLIMIT_RTTIME };
struct rlimit { u64 cur, max; };

#define NGROUPS_MAX 32
/* Per process (Linux keeps them per thread and lets libc synchronise them). */
struct creds {
	u32 uid, euid, suid, fsuid;
	u32 gid, egid, sgid, fsgid;
	u32 ngroups, groups[NGROUPS_MAX];
	u64 cap_effective, cap_permitted, cap_inheritable, cap_bounding;
};
#define CAP_CHOWN 0
#define CAP_DAC_OVERRIDE 1
#define CAP_DAC_READ_SEARCH 2
#define CAP_FOWNER 3
#define CAP_FSETID 4
#define CAP_KILL 5
#define CAP_SETGID 6
#define CAP_SETUID 7
#define CAP_NET_BIND_SERVICE 10
#define CAP_NET_ADMIN 12
#define CAP_NET_RAW 13
#define CAP_IPC_LOCK 14
#define CAP_SYS_RAWIO 17
#define CAP_SYS_CHROOT 18
#define CAP_SYS_PTRACE 19
#define CAP_SYS_ADMIN 21
#define CAP_SYS_BOOT 22
#define CAP_SYS_NICE 23
#define CAP_SYS_RESOURCE 24
#define CAP_SYS_TIME 25
#define CAP_MKNOD 27
bool capable(int cap);				/* of current's process, effective set */

struct rusage_sum { u64 utime_ns, stime_ns, min_flt, maj_flt, nvcsw, nivcsw, maxrss_pages; };

/*
 *   T  process_tree_lock   G  sighand->lock   L  LOCK_EXEC mutex (cred_guard)
 */
struct process {
	int			 tgid;		/* I */
	struct refcount		 refs;
	struct rcu_head		 rcu;
	struct task		*leader;	/* T */
	struct list_head	 threads;	/* T and G to write, either to read: live tasks */
	unsigned int		 nr_threads;	/* T */
	struct process		*parent;	/* T (RCU to read) */
	struct list_head	 children;	/* T */
	struct list_head	 sibling;	/* T */
	struct list_head	 all_node;	/* T  all_processes */
	int			 pgid, sid;	/* T */
	struct list_head	 pg_node;	/* T  hash chain of the group */
	struct tty		*tty;		/* G  controlling terminal, counted */
	struct creds		 creds;		/* G for writing; single words read freely */
	struct rlimit		 rlim[RLIM_NLIMITS];	/* G */
	struct sighand		*sighand;	/* I  counted; shared by CLONE_SIGHAND */
	struct sigpending	 pending;	/* G  for any thread */
	u32			 group_exit;	/* G  1: all threads must die with group_exit_code */
	int			 group_exit_code;	/* G  wait status */
	u32			 group_stop_code;	/* G  last stop signal, for wait */
	u32			 stop_flags;	/* G  stopped / continued, not yet reported */
	bool			 zombie;	/* T  leader dead and all threads gone */
	bool			 did_exec;
	struct wait_queue	 child_wait;	/* wait4 sleeps here */
	struct mutex		 exec_lock;	/* LOCK_EXEC */
	struct rusage_sum	 dead_threads;	/* G  sums of exited threads */
	struct rusage_sum	 dead_children;	/* G  sums of waited-for children */
	struct timer		 real_timer;	/* ITIMER_REAL, alarm */
	u64			 real_interval;	/* G  ns */
	u64			 real_expires;	/* G  ktime; 0: off */
	struct cpu_itimer { u64 expires, interval; } cpu_itimer[2];	/* G  ITIMER_VIRTUAL, PROF: process CPU time; 0: off */
	struct posix_timer	*posix_timers;	/* G  kernel/posix_timer.c */
	unsigned int		 nr_posix_timers, nr_posix_cpu_timers;	/* G */
	int			 next_timer_id;	/* G */
	bool			 cpu_timers_active;	/* G to clear; the tick looks closer while it is set */
	u64			 start_ns;	/* I */
	struct file		*exe;		/* L  executable, counted, for /proc/PID/exe */
	s16			 oom_score_adj;	/* -1000 (never) .. 1000 (mm/oom.c) */
	u8			 dumpable;

	/* -- kernel/process.c and friends; see kernel/process.h -- */
	struct user		*user;		/* G  counted: what all processes of creds.uid use together */
	struct list_head	 zombies;	/* T  children that wait to be waited for; the others are in children */
	int			 exit_code;	/* T  wait status, valid once zombie */
	unsigned int		 nr_live;	/* G  threads that have not begun to exit */
	struct task		*group_exec_task;	/* G  in execve, waits for the others to go */
	int			 group_stop_count;	/* G  threads that have yet to stop */
	u32			 group_signal_seq;	/* G  counts signals sent to a whole group: fork notices one */
	bool			 unkillable;	/* G  pid 1: signals without a handler do nothing */
	bool			 child_subreaper;	/* orphans below come to us: PR_SET_CHILD_SUBREAPER */
	bool			 no_new_privs;	/* only ever set: execve ignores setuid bits */
	bool			 keep_caps;	/* PR_SET_KEEPCAPS */
	bool			 secure_exec;	/* AT_SECURE of the last execve */
	u32			 personality;	/* single word */
	u32			 mm_flags;	/* atomic bits: PR_SET_MDWE (0, 1), and those of kernel/sys.c */
	struct wait_queue	 exit_wait;	/* pollers of pidfds, woken when it becomes a zombie */
};
#define ADDR_NO_RANDOMIZE	0x0040000u	/* personality */
#define READ_IMPLIES_EXEC	0x0400000u

extern struct task *init_task_ptr;		/* pid 1 once started */
extern struct spinlock process_tree_lock;	/* LOCK_PROCESS_TREE */
extern struct list_head all_processes;		/* T, RCU to read */

struct task *task_alloc(void);			/* slab object, stack with guard page, refs = 1; NULL: no memory */
void task_get(struct task *t);
void task_put(struct task *t);			/* may free after RCU */
void process_get(struct process *p);
void process_put(struct process *p);
struct task *find_task_get(int tid);		/* counted, or NULL */
struct process *find_process_get(int tgid);	/* counted, or NULL */
/* Iteration for /proc: the live process with the smallest tgid >= @tgid, counted, or NULL. */
struct process *next_process_get(int tgid);
struct task *next_thread_get(struct process *p, int tid);

void do_exit(int code) __noreturn;		/* this task; code is a wait status */
void do_group_exit(int code) __noreturn;	/* the whole process */
static inline bool task_is_kthread(const struct task *t) { return t->flags & PF_KTHREAD; }
u64 rlimit_cur(unsigned int which);		/* of current's process */
void process_init(void);			/* kernel/process.c: pid table, caches */
struct task *start_init(void);			/* kernel/exec.c: pid 1 runs /init; halts with a message if there is none */
void task_rusage(struct process *p, struct rusage_sum *sum);	/* live + dead threads */

#endif
